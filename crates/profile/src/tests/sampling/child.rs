//! The child processes: this test program again, told by an environment variable what to be.

use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use crate::{Event, Options, Sampler};
use measure::Clock;
use stacks::{ProfileHeader, StacksWriter};

const ROLE: &str = "BELLOWS_PROFILE_TEST_ROLE";

pub(crate) struct Process {
    pub(crate) child: testkit::ChildGuard,
    stdin: ChildStdin,
    pub(crate) stdout: BufReader<std::process::ChildStdout>,
    /// Lines before those that were waited for.
    pub(crate) printed: Vec<String>,
}

impl Process {
    /// Starts `exe`, which is this test program or a copy of it, and waits until it is ready.
    pub(crate) fn start_as(exe: &Path, role: &str, uid: Option<u32>) -> Self {
        let mut command = Command::new(exe);
        command.args(["tests::sampling::child", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role);
        Self::run_as(command, uid).expect("start the child")
    }

    /// Starts any program that says what a child does, and waits until it is ready.
    pub(crate) fn run(command: Command) -> Self {
        Self::run_as(command, None).expect("start the child")
    }

    pub(crate) fn run_as(mut command: Command, uid: Option<u32>) -> Result<Self, String> {
        use std::os::unix::process::CommandExt as _;
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child: testkit::ChildGuard(child), stdin, stdout, printed: Vec::new() };
        process.expect("ready");
        Ok(process)
    }

    pub(crate) fn start(role: &str) -> Self {
        Self::start_as(&std::env::current_exe().unwrap(), role, None)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    pub(crate) fn tell(&mut self, line: &str, answer: &str) -> String {
        self.say(line);
        self.expect(answer)
    }

    /// The child's next line that begins with `word`, without it.
    pub(crate) fn expect(&mut self, word: &str) -> String {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            // The test harness prints in front of the first line.
            if let Some((_, rest)) = line.split_once(&format!("@{word}")) {
                return rest.trim().to_owned();
            }
            self.printed.push(line.trim_end().to_owned());
            line.clear();
        }
        panic!("the child ended before it said {word}");
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

/// A program that says what a child does, maybe behind another one, killed when it goes out of scope.
pub(crate) struct Program {
    pub(crate) process: Process,
    /// Its process, which is below the one that was started in a container.
    pub(crate) pid: u32,
    _dir: tempfile::TempDir,
}

impl Program {
    pub(crate) fn run(command: Command, uid: Option<u32>, dir: tempfile::TempDir) -> Result<Self, String> {
        let is_below = command.get_program() == UNSHARE;
        let process = Process::run_as(command, uid)?;
        let pid = if is_below { child_of(process.pid()) } else { process.pid() };
        Ok(Self { process, pid, _dir: dir })
    }

    pub(crate) fn map(&self) -> PathBuf {
        format!("/tmp/perf-{}.map", self.pid).into()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.child.kill();
        let _ = self.process.child.wait();
        let _ = std::fs::remove_file(self.map());
        let _ = std::fs::remove_file(format!("/tmp/.java_pid{}", self.pid));
    }
}

fn child_of(pid: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a child")
}

const UNSHARE: &str = "unshare";

/// Starts what is put behind it in a pid namespace of its own, if that is allowed.
pub(crate) fn contained() -> Result<Command, &'static str> {
    let command = || {
        let mut command = Command::new(UNSHARE);
        command.args(["-p", "-f", "--mount-proc", "--kill-child"]);
        command
    };
    let is_allowed = command().arg("true").stderr(Stdio::null()).status().is_ok_and(|it| it.success());
    is_allowed.then(command).ok_or("no pid namespace can be made here (unshare, package util-linux)")
}

pub(crate) fn run() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut words = role.split(' ');
    match words.next() {
        Some("ratio") => burn(|| {
            black_box(three_parts(10_000));
            black_box(one_part(10_000));
        }),
        Some("parts") => burn(parts::all),
        Some("deep") => burn(|| {
            black_box(deep(100));
        }),
        Some("threads") => threads(),
        Some("tasks") => tasks(),
        Some("faults") => burn(touches_pages),
        Some("profiler") => profiler(&words.collect::<Vec<_>>()),
        other => panic!("no role {other:?}"),
    }
}

fn say(line: &str) {
    println!("@{line}");
}

/// Does it again and again until the parent has gone.
fn burn(step: impl Fn()) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    say("ready");
    loop {
        step();
    }
}

#[inline(never)]
fn work(rounds: u64) -> u64 {
    (0..rounds).fold(1, |x, i| black_box(x ^ i).wrapping_mul(3))
}

#[inline(never)]
fn three_parts(rounds: u64) -> u64 {
    black_box(work(3 * rounds)) + 1
}

#[inline(never)]
fn one_part(rounds: u64) -> u64 {
    black_box(work(rounds)) + 1
}

#[inline(never)]
fn deep(depth: u64) -> u64 {
    if depth == 0 { work(20_000) } else { black_box(deep(depth - 1)) + 1 }
}

/// Twelve functions that burn time of their own, each more than the one before, and calls into the kernel.
mod parts {
    use std::hint::black_box;
    use std::io::Read as _;

    macro_rules! parts {
        ($($name:ident $rounds:literal)*) => {
            $(#[inline(never)]
            fn $name() -> u64 {
                (0..$rounds * 1000u64).fold(1, |x, i| black_box(x ^ i).wrapping_mul($rounds))
            })*
            pub(super) fn all() {
                $(black_box($name());)*
                let mut zeros = vec![0u8; 256 * 1024];
                let zero = std::fs::File::open("/dev/zero").unwrap();
                (&zero).read_exact(&mut zeros).unwrap();
                black_box(zeros);
            }
        };
    }
    parts! {
        part_a 3 part_b 5 part_c 7 part_d 9 part_e 11 part_f 13
        part_g 15 part_h 17 part_i 19 part_j 21 part_k 23 part_l 25
    }
}

/// Starts a thread for every line it is told, named so, that burns time for good; a line that
/// begins with `short` starts a hundred one after another that end at once.
fn threads() {
    say("ready");
    for name in std::io::stdin().lines().map_while(Result::ok) {
        let builder = std::thread::Builder::new().name(name.clone());
        if name.starts_with("short") {
            for _ in 0..100 {
                let builder = std::thread::Builder::new().name(name.clone());
                builder.spawn(|| black_box(work(2_000_000))).unwrap().join().unwrap();
            }
        } else {
            let spin = || loop {
                black_box(work(10_000));
            };
            builder.spawn(spin).unwrap();
        }
        say("started");
    }
    std::process::exit(0);
}

/// Bytes that [`asks_for_memory`] asks for.
pub(crate) const BLOCK: usize = 64 << 20;

/// Does what each line says, as often as it says: `mmap 50`.
#[inline(never)]
fn tasks() {
    say("ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let (task, times) = line.split_once(' ').unwrap();
        let times: u32 = times.parse().unwrap();
        let task = match task {
            "mmap" => asks_for_memory,
            "brk" => moves_the_break,
            "getppid" => asks_for_the_parent,
            "sleep" => sleeps,
            "allocate" => memory::allocates,
            other => panic!("no task {other:?}"),
        };
        (0..times).for_each(|_| task());
        say("did");
    }
    std::process::exit(0);
}

/// A system call. The C library's function keeps no frame, so that a walk by frame pointers leaves out who called it,
/// which is this.
#[inline(never)]
#[allow(unsafe_code)]
fn call(number: libc::c_long, arguments: [i64; 4]) -> i64 {
    let [a, b, c, d] = arguments;
    // SAFETY: each call below touches no memory but what it has made, or reads what outlives it.
    black_box(unsafe { libc::syscall(number, a, b, c, d, -1i64, 0i64) })
}

#[inline(never)]
fn asks_for_memory() {
    let length = BLOCK as i64;
    let flags = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let address = call(libc::SYS_mmap, [0, length, libc::PROT_NONE.into(), flags]);
    black_box(call(libc::SYS_munmap, [address, length, 0, 0]));
}

#[inline(never)]
fn moves_the_break() {
    // There is no heap below 0: it stays where it is.
    black_box(call(libc::SYS_brk, [0; 4]));
}

#[inline(never)]
fn asks_for_the_parent() {
    black_box(call(libc::SYS_getppid, [0; 4]));
}

#[inline(never)]
fn sleeps() {
    let length = [0i64, 50_000_000];
    black_box(call(libc::SYS_nanosleep, [length.as_ptr() as i64, 0, 0, 0]));
    black_box(length);
}

/// Memory of the C library's allocator.
#[allow(unsafe_code)]
pub(crate) mod memory {
    use std::hint::black_box;
    use std::ptr;

    /// By each function: its name, its calls of what allocates, and the bytes that it asks for; each frees once.
    pub(crate) const ALLOCATE: [(&str, u64, u64); 4] = [
        ("::by_malloc", 1, 1000),
        ("::by_calloc", 1, 3 * 500),
        ("::by_realloc", 2, 200 + 2000),
        ("::by_posix_memalign", 1, 4000),
    ];

    macro_rules! allocates {
        ($($name:ident: $memory:expr,)*) => {
            $(#[inline(never)]
            fn $name() {
                // SAFETY: what was allocated is given back once, and touched no more; an address is written to a
                // variable that outlives the call.
                unsafe { libc::free(black_box($memory)) };
                black_box(());
            })*
            #[inline(never)]
            pub(super) fn allocates() {
                $($name();)*
            }
        };
    }
    allocates! {
        by_malloc: libc::malloc(1000),
        by_calloc: libc::calloc(3, 500),
        by_realloc: libc::realloc(black_box(libc::realloc(ptr::null_mut(), 200)), 2000),
        by_posix_memalign: {
            let mut memory = ptr::null_mut();
            libc::posix_memalign(&raw mut memory, 64, 4000);
            memory
        },
    }
}

/// Touches memory that was not there before, and gives it back.
#[inline(never)]
fn touches_pages() {
    let mut memory = vec![0u8; BLOCK];
    for byte in memory.iter_mut().step_by(4096) {
        *byte = 1;
    }
    black_box(&memory);
}

/// `profiler PID FREQUENCY FILE [FILES [EVENT]]`: profiles a process, itself where PID is 0, with at most
/// so many open files, where that is a number; says what came of it.
fn profiler(words: &[&str]) {
    let number = |i: usize| words.get(i).and_then(|w| w.parse::<u32>().ok());
    say("ready");
    let own = std::process::id();
    let pid = number(0).filter(|&pid| pid > 0).unwrap_or(own);
    if pid == own {
        std::thread::spawn(|| {
            loop {
                black_box(work(10_000));
            }
        });
    }
    let frequency = number(1).unwrap();
    let header = ProfileHeader::new(Clock.now(), 0);
    let sink = StacksWriter::create(Path::new(words[2]), header).unwrap();
    if let Some(files) = number(3) {
        let now = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let limit = rustix::process::Rlimit { current: Some(files.into()), ..now };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    }
    let event = words.get(4).map_or_else(Event::usual, |it| Event::named(it).unwrap());
    let options = Options { frequency, event, ..Options::default() };
    let mut sampler = match Sampler::attach(pid, &options, sink) {
        Ok(sampler) => sampler,
        Err(error) => return say(&format!("error {}", error.sentence())),
    };
    sampler.start().unwrap();
    say("started");
    if pid == own {
        std::thread::sleep(Duration::from_millis(500));
    } else {
        let _ = std::io::stdin().read_line(&mut String::new());
    }
    let outcome = sampler.stop().unwrap();
    say(&format!("outcome {} {} {}", outcome.samples, outcome.lost, outcome.notes.join("|")));
    std::process::exit(0);
}
