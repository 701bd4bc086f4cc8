//! Programs without frame pointers: one whose call tree is known, and brokers as Debian builds them.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Stacks;
use crate::tests::sampling::child::Process;
use crate::tests::sampling::erlang::cannot_copy;
use crate::tests::sampling::{assert_three_to_one, compiled, profile_by, profile_for, refused, share};
use stacks::{FrameKind, Profile, Unwinding};
use testkit::ChildGuard;

/// A program of this folder without frame pointers, sampled so long in this way.
fn profile_of(source: &str, cpu: Duration, stacks: Stacks) -> Profile {
    let dir = tempfile::tempdir().unwrap();
    let exe = compiled(source, dir.path(), &["-O2", "-fomit-frame-pointer", "-rdynamic", "-s"]);
    let program = Process::run(Command::new(&exe));
    let (profile, outcome) = profile_by(program.pid(), cpu, stacks);
    assert!(outcome.notes.is_empty(), "{outcome:?}");
    profile
}

fn profile_known(stacks: Stacks) -> Profile {
    profile_of("known.c", Duration::from_millis(1500), stacks)
}

#[test]
fn large_and_deep_stacks_are_whole() {
    testkit::skip_for!(cannot_copy());
    for (source, millis, samples, least) in [
        // Nothing was learnt of its thread's stack yet when these samples were taken.
        ("large.c", 40, 10, 0.999),
        // Two thirds of what is copied at most.
        ("deep.c", 300, 50, 0.99),
    ] {
        let profile = profile_of(source, Duration::from_millis(millis), Stacks::Whole);
        let summary = profile.summary(5);
        assert!(profile.samples.len() > samples, "{source} {summary:?}");
        assert!(summary.complete_share > least && share(&profile, "main") > least, "{source} {summary:?}");
    }
}

#[test]
fn a_stripped_program_without_frame_pointers_has_whole_stacks_through_libraries() {
    testkit::skip_for!(cannot_copy());
    let profile = profile_known(Stacks::Whole);
    let summary = profile.summary(5);
    assert!(summary.complete_share > 0.99, "{summary:?}");
    assert!(summary.unknown_share < 0.01, "{summary:?}");
    for whole in ["main", "work", "sorted"] {
        assert!(share(&profile, whole) > 0.99, "{whole} {summary:?}");
    }
    let through_libc = profile.samples.iter().filter(|sample| {
        let stack = profile.stack(sample.stack);
        let mut below = stack.iter().skip_while(|it| it.name != "sorted").skip(1);
        below.next().is_some_and(|it| it.kind == FrameKind::Libc)
    });
    let through_libc = through_libc.count() as f64 / profile.samples.len() as f64;
    assert!(through_libc > 0.99, "{through_libc}");
    let (three, one) = (share(&profile, "three_parts"), share(&profile, "one_part"));
    assert_three_to_one(three, one, profile.samples.len() as f64);
    let spin = profile.frames.iter().filter(|it| it.is_near()).count();
    assert!(spin > 0, "a static function is called after its neighbour");

    let by_frame_pointers = profile_known(Stacks::FramePointers).summary(5);
    assert!(by_frame_pointers.complete_share < 0.1, "the program shows nothing: {by_frame_pointers:?}");
}

/// A broker on a port of its own, and peers that keep it busy.
struct Broker {
    program: ChildGuard,
    port: u16,
    peers: Vec<(TcpStream, JoinHandle<()>)>,
}

impl Broker {
    /// Starts a program of Debian's, told its port behind the arguments; why not where it is not installed.
    fn start(program: &str, arguments: &[&str]) -> Result<Self, String> {
        let places = ["/usr/sbin", "/usr/bin"].map(|place| Path::new(place).join(program));
        let Some(exe) = places.iter().find(|place| place.exists()) else {
            return Err(format!("no {program} (scripts/setup test installs {program})"));
        };
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new(exe);
        command.args(arguments).arg(port.to_string());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let program = ChildGuard(command.spawn().unwrap());
        let broker = Self { program, port, peers: Vec::new() };
        broker.connect();
        Ok(broker)
    }

    fn connect(&self) -> TcpStream {
        let started = Instant::now();
        loop {
            match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(stream) => return stream,
                Err(error) => assert!(started.elapsed() < Duration::from_secs(20), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn peer(&mut self, hello: &[u8], work: impl FnOnce(TcpStream) + Send + 'static) {
        let mut stream = self.connect();
        stream.write_all(hello).unwrap();
        let ours = stream.try_clone().unwrap();
        self.peers.push((ours, std::thread::spawn(move || work(stream))));
    }

    fn subscribe(&mut self, hello: &[u8]) {
        self.peer(hello, |mut stream| {
            let mut bytes = vec![0; 1 << 16];
            while stream.read(&mut bytes).is_ok_and(|n| n > 0) {}
        });
    }

    fn publish(&mut self, hello: &[u8], message: &[u8]) {
        let many = message.repeat(200);
        self.peer(hello, move |mut stream| while stream.write_all(&many).is_ok() {});
    }

    fn profile(&self) -> Profile {
        let (profile, outcome) = profile_for(self.program.id(), Duration::from_millis(2500));
        assert!(outcome.notes.is_empty(), "{outcome:?}");
        profile
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        for (stream, thread) in self.peers.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }
}

/// Measured: 100 % complete, nothing unknown.
fn assert_whole(profile: &Profile) {
    let summary = profile.summary(12);
    assert!(summary.complete_share >= 0.97, "{summary:?}");
    assert!(summary.unknown_share < 0.02, "{summary:?}");
}

/// Nearly all by copies of the stack: on a full machine there is no room for some of them.
fn assert_copied(profile: &Profile) {
    let samples = &profile.samples;
    let copied = samples.iter().filter(|it| it.unwinding == Unwinding::StackCopy);
    let (copied, all) = (copied.count(), samples.len());
    assert!(copied * 100 >= all * 97, "{copied} of {all}: {:?}", profile.notes);
}

#[test]
fn mosquitto_without_frame_pointers_has_whole_stacks() {
    testkit::skip_for!(cannot_copy());
    let mut broker = testkit::or_skip!(Broker::start("mosquitto", &["-p"]));
    // Clients `s` and `p` of MQTT 3.1.1; topic `x` at most once.
    let hello = |name: u8| [b"\x10\x0d\0\x04MQTT\x04\x02\0\0\0\x01", &[name][..]].concat();
    broker.subscribe(&[&hello(b's')[..], b"\x82\x06\0\x01\0\x01x\0"].concat());
    broker.publish(&hello(b'p'), &[b"\x30\x43\0\x01x", &[b'.'; 64][..]].concat());
    let profile = broker.profile();
    assert_whole(&profile);
    assert_copied(&profile);
    assert!(share(&profile, "mosquitto_main_loop") > 0.95);
    for function in ["packet__read", "handle__publish", "packet__write"] {
        let share = share(&profile, function);
        assert!(share > 0.1, "{function} {share}");
    }
}

#[test]
fn nats_server_has_the_names_of_its_go_functions() {
    testkit::skip_for!(refused());
    let mut broker = testkit::or_skip!(Broker::start("nats-server", &["-a", "127.0.0.1", "-p"]));
    let hello = "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n";
    broker.subscribe(format!("{hello}SUB orders 1\r\n").as_bytes());
    let message = format!("PUB orders 64\r\n{}\r\n", ".".repeat(64));
    broker.publish(hello.as_bytes(), message.as_bytes());
    let profile = broker.profile();
    assert_whole(&profile);
    for (function, least) in [
        ("server.(*client).readLoop", 0.3),
        ("server.(*client).parse", 0.2),
        ("server.(*client).processInboundClientMsg", 0.1),
        ("server.(*client).deliverMsg", 0.02),
        // Inlined into its callers.
        ("sync.(*Mutex).Lock", 0.002),
    ] {
        let share = share(&profile, function);
        assert!(share > least, "{function} {share}");
    }
    for (function, file) in [
        ("server.(*client).readLoop", "client.go"),
        ("server.(*client).parse", "parser.go"),
        ("sync.(*Mutex).Lock", "mutex.go"),
    ] {
        let of_it = profile.frames.iter().filter(|it| it.name.ends_with(function));
        let lines: Vec<_> = of_it.map(|it| it.line.clone().expect(function)).collect();
        assert!(lines.iter().all(|it| it.file_name() == file), "{lines:?}");
        let numbers = lines.iter().map(|it| it.number);
        let (first, last) = (numbers.clone().min().unwrap(), numbers.max().unwrap());
        assert!(first > 1 && last - first < 1_200, "{lines:?}");
    }
    // It has no frame of its own, and one function alone calls it.
    let system_calls = profile.samples.iter().filter_map(|sample| {
        let stack = profile.stack(sample.stack);
        let at = (stack.iter()).position(|it| it.name.ends_with("internal/syscall.Syscall6"))?;
        Some(at.checked_sub(1).map(|above| stack[above].name.clone()))
    });
    let callers: Vec<_> = system_calls.flatten().collect();
    let right = callers.iter().filter(|it| *it == "syscall.RawSyscall6").count();
    assert!(callers.len() > 20, "{}", callers.len());
    assert!(right * 100 >= callers.len() * 99, "{right} of {callers:?}");
    let of_go = |name: &str| name.contains("server.(*client)");
    let mut known = profile.frames.iter().filter(|it| of_go(&it.name));
    assert!(known.all(|it| it.kind == FrameKind::Native && it.module == "nats-server"));
}
