//! Profiles from and for other tools: `fold`, the old name of `flame --format stackcollapse`, against
//! `stackcollapse-perf.pl`, and the formats that `flame` and `top` read and write.

use crate::common;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Ended, bellows, folder, run};
use testkit::Random;

/// The Perl script, where it is on the path.
fn script() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|dir| dir.join("stackcollapse-perf.pl"));
    found.find(|it| it.is_file())
}

fn fold(dir: &Path, flags: &[&str], file: &str) -> Ended {
    run(dir, &[&["fold", file], flags].concat())
}

/// The script's answer to `script.txt`.
fn perl(dir: &Path, script: &Path, flags: &[&str]) -> String {
    let mut perl = Command::new("perl");
    let perl = perl.arg(script).args(flags).arg("script.txt").current_dir(dir).output().expect("perl");
    String::from_utf8_lossy(&perl.stdout).into_owned()
}

/// Text as `perf script` prints it, and as it does not: odd names, missing parts, lines that are nothing.
fn random_script(random: &mut Random) -> String {
    const COMMS: &str =
        "java|java|V8 WorkerThread|beam.smp|1_scheduler|swapper|kworker/0:1|a|x 12|x 12/13|[oops]|  indented";
    const IDS: [&str; 7] = ["12", "12/13", "0/0", "0", "12/", "12//13", "12/00"];
    const TIMES: [&str; 5] = ["[000] 1.5:", "94564.109216:", "[001]", "", "123"];
    const PERIODS: [&str; 8] = ["1", "1001001", "0", "00", "", "18446744073709551615", "99999999999999999999999", "x"];
    const EVENTS: [&str; 7] =
        ["cpu-clock:", "cpu-clock:", "cpu-clock:", "cpu-clock:", "cycles:u:", "sched:sched_switch: a=1", "cycles: "];
    const ADDRESSES: [&str; 6] = ["ffffffff8103ce3b", "7f3c", "0", "10x", "", "-"];
    const FUNCTIONS: &str = "main+0x1c|main|[unknown]|f+0xZZ|f+0x|+0x12|a->b->c+0x1|->a|a->->|->|[unknown]->b|\
                             std::vector<int>::push_back(int const&)+0x10|(anonymous namespace)::run(char*)+0x1|\
                             (perf)|x(anonymous namespace)::y(int)|net/http.(*Client).Do+0x2|RegExp:[&<>\"'] |\
                             Lorg/a/B;::call(La;)V+0x4|L;x|a;b|$rabbit_exchange:route/2+0x4c|f_[j]|f_[i]->g| ";
    const MODULES: &str = "([kernel.kallsyms])|([nf_conntrack])|(/tmp/perf-4711.map)|(/usr/bin/a b)|([unknown])|\
                           (/lib/build/vmlinux)|([vdso])|(/memfd:x (deleted))|()|(||(/tmp/perf-12.map.old)|\
                           (/x/[y]/z)|([unknown.ko])|(inlined)|(a) (b)";
    let parts = |all: &'static str| all.split('|').collect::<Vec<_>>();
    let (comms, functions, modules) = (parts(COMMS), parts(FUNCTIONS), parts(MODULES));
    let mut text = String::new();
    // The fields of a text are the same for all samples: a time or none, and an event or none.
    let is_timed = !random.one_in(3);
    let is_named = !random.one_in(6);
    for _ in 0..random.below(40) {
        let comm = random.of(&comms);
        let ids = random.of(&IDS);
        let time = random.of(if is_timed { &TIMES[..2] } else { &TIMES[2..] });
        let period = random.of(if is_timed { &PERIODS[..] } else { &PERIODS[..7] });
        let event = if is_named { random.of(&EVENTS) } else { "" };
        let blanks = random.of(&[" ", "     ", "\t"]);
        text += &format!("{comm}{blanks}{ids} {time}{blanks}{period} {event}\n");
        for _ in 0..random.below(6) {
            let (address, function) = (random.of(&ADDRESSES), random.of(&functions));
            let indent = random.of(&["\t", "        ", "", " "]);
            text += &format!("{indent}{address} {function} {}\n", random.of(&modules));
            if random.one_in(4) {
                text +=
                    random.of(&["  file.cpp:137\n", "  libc.so[27b25]\n", "\n", "# a comment\n", "nothing\n", " \r\n"]);
            }
        }
        if !random.one_in(6) {
            text.push('\n');
        }
    }
    text
}

#[test]
#[ignore = "needs stackcollapse-perf.pl on the path: make prove"]
fn fold_writes_the_bytes_of_the_perl_script() {
    let Some(script) = script() else {
        testkit::skip!("no stackcollapse-perf.pl on the path; it is in github.com/brendangregg/FlameGraph");
    };
    let dir = &*folder();
    let flags =
        "|--all|--kernel --tid|--jit --pid|--addrs|--srcline|--event-filter=cycles:u|--event-filter=nothing --all";
    let flags: Vec<&str> = flags.split('|').collect();
    let known = include_bytes!("../../../stacks/src/tests/perf-script.txt");
    for seed in testkit::seeds(60) {
        let text = match seed {
            0 => known.to_vec(),
            seed => random_script(&mut Random::new(seed)).into_bytes(),
        };
        fs::write(dir.join("script.txt"), &text).unwrap();
        let flags = &common::words(flags[seed as usize % flags.len()]);
        let wanted = perl(dir, &script, flags);
        let ours = fold(dir, flags, "script.txt");
        assert_eq!(ours.stdout, wanted, "seed {seed}, {flags:?}\n{}", String::from_utf8_lossy(&text));
        if wanted.is_empty() {
            ours.assert_error(1, &["no sample"]);
        } else {
            ours.assert_ok();
        }
    }
}

/// A program with inlined functions, built with line numbers.
fn program(dir: &Path) -> Option<PathBuf> {
    let source = "static inline __attribute__((always_inline)) int inner(int x) { return x * 3; }\n\
        static inline __attribute__((always_inline)) int outer(int x) { return inner(x) + 1; }\n\
        int main(int argc, char **argv) { return outer(argc); }\n";
    fs::write(dir.join("inlined.c"), source).expect("written");
    let built = Command::new("cc").args(["-g", "-O1", "-o", "inlined", "inlined.c"]).current_dir(dir).status();
    built.is_ok_and(|it| it.success()).then(|| dir.join("inlined"))
}

#[test]
#[ignore = "needs stackcollapse-perf.pl on the path: make prove"]
fn inlined_functions_are_told_as_the_perl_script_tells_them() {
    let dir = &*folder();
    let (Some(script), Some(program)) = (script(), program(dir)) else {
        testkit::skip!("no stackcollapse-perf.pl on the path, or no C compiler");
    };
    let symbols = Command::new("nm").arg(&program).output().expect("nm").stdout;
    let symbols = String::from_utf8(symbols).unwrap();
    let main = symbols.lines().find_map(|line| line.strip_suffix(" T main")).expect("main");
    let start = u64::from_str_radix(main, 16).unwrap();
    let mut text = String::from("inlined 1 1.0: 1 cpu-clock:\n");
    for offset in 0..12 {
        let (address, path) = (start + offset, program.display());
        text += &format!("\t{address:x} main+{offset:#x} ({path})\n");
        // An address of memory, as perf prints it of code that was moved.
        text += &format!("\t7f00{address:08x} main+{offset:#x} ({path})\n");
    }
    text += "\t10 gone+0x1 (/no/such/file)\n\n";
    fs::write(dir.join("script.txt"), text).unwrap();
    for flags in [&["--inline"][..], &["--inline", "--context"]] {
        let wanted = perl(dir, &script, flags);
        let ours = fold(dir, flags, "script.txt");
        assert_eq!(ours.stdout, wanted);
        assert!(ours.stdout.contains("outer"), "{}", ours.stdout);
    }
}

#[test]
fn fold_reads_pipes_and_packed_files_and_says_what_is_wrong() {
    let dir = &*folder();
    let text = include_str!("../../../stacks/src/tests/perf-script.txt");
    fs::write(dir.join("script.txt"), text).unwrap();
    let plain = fold(dir, &[], "script.txt").ok();
    // The other event.
    plain.says(["cpu-clock"]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    fs::write(dir.join("script.gz"), gzip.finish().unwrap()).unwrap();
    assert_eq!(fold(dir, &[], "script.gz").stdout, plain.stdout);
    let mut child = bellows(dir, &["fold"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let piped = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&piped.stdout), plain.stdout);
    fs::write(dir.join("x.folded"), "a;b 3\n").unwrap();
    fold(dir, &[], "x.folded").assert_error(1, &["no sample"]);
    fold(dir, &[], "none.txt").assert_error(1, &["cannot read none.txt"]);
    fs::write(dir.join("bare.txt"), "   app 700 1.5: 9 cpu-clock: 4011aa f+0x1 (/opt/app)\n").unwrap();
    fold(dir, &[], "bare.txt").assert_error(1, &["1 sample without a stack"]).says(["perf record -g"]);
    fs::write(dir.join("pic.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR 1 (x)\n").unwrap();
    let picture = fold(dir, &[], "pic.png");
    assert_eq!(picture.assert_error(1, &["looks like binary data"]).stdout, "");
    fs::write(dir.join("load.jfr"), b"FLR\0\0\x02\0\0").unwrap();
    fold(dir, &[], "load.jfr")
        .assert_error(1, &["flight recorder"])
        .says(["bellows flame load.jfr --format folded -o -"]);
    // Tables and flame graphs read it, too.
    run(dir, &["top", "script.txt", "--raw", "--limit", "3"]).ok().prints(["tcp_sendmsg"]);
    run(dir, &["flame", "script.txt", "-o", "cpu.svg"]).assert_ok();
    testkit::assert_has(fs::read_to_string(dir.join("cpu.svg")).unwrap(), ["$rabbit_exchange:route/2"]);
    fs::write(dir.join("x.html"), "<html>").unwrap();
    run(dir, &["top", "x.html"]).assert_error(1, &["it looks like HTML or an image"]);
    // Without a name for the file, it is one of the usual name, and other options have no meaning.
    let to_file = ["flame", "script.txt", "--format", "stackcollapse"];
    run(dir, &to_file).assert_ok();
    assert_eq!(fs::read_to_string(dir.join("cpu.folded")).unwrap(), plain.stdout);
    for (more, why) in [(["--from", "1"], "whole texts"), (["--title", "x"], "heading")] {
        run(dir, &[&to_file[..], &more].concat()).assert_error(2, &[why]);
    }
    run(dir, &["flame", "x.folded", "--tid"]).assert_error(2, &["--format stackcollapse"]);
}

#[test]
fn profiles_are_written_by_the_end_of_the_name_or_by_format() {
    let dir = &*folder();
    fs::write(dir.join("x.folded"), "t;main;a 3\nt;main;b 2\n").unwrap();
    for (file, starts) in [
        ("x.speedscope.json", &b"{\"$schema\""[..]),
        ("x.profile.json.gz", &[0x1f, 0x8b]),
        ("x.pb.gz", &[0x1f, 0x8b]),
        ("y.folded", b"t;main;a 3\n"),
        ("x.svg", b"<?xml"),
        ("picture", b"<?xml"),
    ] {
        assert_eq!(run(dir, &["flame", "x.folded", "-o", file]).ok().stdout, format!("{file}\n"));
        assert!(fs::read(dir.join(file)).unwrap().starts_with(starts), "{file}");
    }
    let named = run(dir, &["flame", "x.folded", "--format", "speedscope", "-o", "-"]).stdout;
    testkit::assert_begins(named, "{\"$schema\"");
    assert_eq!(run(dir, &["flame", "x.folded", "--format", "pprof"]).stdout, "cpu.pb.gz\n");
    assert_eq!(run(dir, &["top", "cpu.pb.gz", "--json"]).printed()["functions"][0]["function"], "a");
    // A name that means nothing, or what is only read.
    run(dir, &["flame", "x.folded", "-o", "x.json"]).assert_error(2, &["x.json tells no format by its end"]);
    run(dir, &["flame", "x.folded", "-o", "x.stacks"]).assert_error(2, &["read and not written"]);
    assert!(!dir.join("x.json").exists());
    run(dir, &["flame", "--help"]).prints(["svg", "pprof", "folded", "speedscope", "firefox"]);
}

#[test]
fn what_the_first_field_of_folded_text_is_can_be_said() {
    let dir = &*folder();
    fs::write(dir.join("x.folded"), "handle;parse 300\nhandle;write 100\n").unwrap();
    for (args, is_root, is_inferred) in [
        (&[][..], true, true),
        (&["--first-field", "function"], true, false),
        (&["--first-field", "thread"], false, false),
    ] {
        let table = run(dir, &[&["top", "x.folded", "--sort", "total"], args].concat()).ok().stdout;
        let root = table.lines().any(|line| line.ends_with("handle") && line.contains(" 100 "));
        assert_eq!((root, table.contains("handle")), (is_root, is_root), "{args:?}: {table}");
        let hint = if is_inferred { "--first-field thread" } else { "--first-field" };
        assert!(!is_root || table.contains(hint) == is_inferred, "{args:?}: {table}");
    }
    run(dir, &["diff", "x.folded", "x.folded", "--first-field", "thread"]).assert_ok();
}

/// A foreign link must not lead to another's file, and files that were read or recorded stay.
#[test]
fn a_file_that_nobody_named_harms_no_other() {
    let dir = &*folder();
    let at = |name: &str| dir.join(name);
    fs::write(at("x.folded"), "a;b 3\n").unwrap();
    fs::write(at("victim"), "precious").unwrap();
    std::os::unix::fs::symlink(at("victim"), at("cpu.svg")).unwrap();
    run(dir, &["flame", "x.folded"]).assert_ok();
    assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious");
    assert!(fs::symlink_metadata(at("cpu.svg")).unwrap().is_file());

    let precious = "# precious\na;b 3\n";
    fs::write(at("cpu.folded"), precious).unwrap();
    let words = ["flame", "cpu.folded", "--format", "folded"];
    run(dir, &words).assert_error(2, &["would replace the profile"]);
    run(dir, &["flame", "cpu.folded", "-o", "./cpu.folded"]).assert_error(2, &["would replace the profile"]);
    assert_eq!(fs::read_to_string(at("cpu.folded")).unwrap(), precious);
    fs::write(at("run.json"), "{}").unwrap();
    run(dir, &["flame", "x.folded"]).assert_error(2, &["a file of the recording"]);
}

/// Records the program; `None` where `perf` or a compiler is missing, or nothing may be recorded.
fn recorded(dir: &Path, name: &str, build: &[&str], mode: &[&str]) -> Option<PathBuf> {
    let (source, program) = (format!("{name}.c"), format!("./{name}"));
    fs::write(dir.join(&source), include_str!("../data/burn.c")).expect("written");
    let quiet = |command: &mut Command| {
        let ended = command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null()).status();
        ended.is_ok_and(|it| it.success())
    };
    let file = format!("{name}.data");
    let built = quiet(Command::new("cc").args(build).args(["-O1", "-g", "-o", name, &source]));
    let record = ["record", "-q", "-e", "cpu-clock:u", "-F", "499", "-o", &file];
    let made = built && quiet(Command::new("perf").args(record).args(mode).args(["--", &program]));
    made.then(|| dir.join(file))
}

/// Folded lines in which all that has no name of its own is called the same, sorted and added up. The C library has
/// several names for many of its functions, of which perf may take one and we the other.
fn by_stack(folded: &str) -> std::collections::BTreeMap<String, u64> {
    let mut sums = std::collections::BTreeMap::new();
    for line in folded.lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        let named = stack.split(';').map(|name| match name {
            name if name.starts_with('[') => "[unknown]",
            name => without_decoration(name),
        });
        let stack: Vec<&str> = named.collect();
        *sums.entry(stack.join(";")).or_insert(0) += count.parse::<u64>().expect("a number");
    }
    sums
}

/// The C library's `__GI___clock_gettime`, `__clock_gettime` and `clock_gettime` are one function, and so are
/// `__libc_start_main_impl` and `__libc_start_main`; `clock_gettime@@GLIBC_2.17` and `clock_gettime`.
fn without_decoration(name: &str) -> &str {
    let name = name.split_once('@').map_or(name, |(name, _version)| name);
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    name.trim_start_matches('_').trim_end_matches("_impl")
}

#[test]
fn recordings_give_the_stacks_that_perf_gives() {
    let dir = &*folder();
    let modes: [(&str, &[&str], &[&str]); 2] = [
        ("frame_pointers", &["-fno-omit-frame-pointer"], &["-g"]),
        ("dwarf", &["-fomit-frame-pointer"], &["--call-graph", "dwarf"]),
    ];
    for (name, build, mode) in modes {
        let Some(file) = recorded(dir, name, build, mode) else {
            testkit::skip!("no perf, no C compiler, or perf may not record (kernel.perf_event_paranoid)");
        };
        let script = Command::new("perf").args(["script", "-i"]).arg(&file).current_dir(dir).output().expect("perf");
        fs::write(dir.join("script.txt"), &script.stdout).unwrap();
        let theirs = fold(dir, &[], "script.txt");
        let file = file.to_str().unwrap();
        let ours = run(dir, &["flame", file, "--format", "folded", "-o", "-"]).ok();
        let (theirs, ours) = (by_stack(&theirs.stdout), by_stack(&ours.stdout));
        assert_eq!(ours, theirs, "{name}");
        assert!(ours.keys().any(|stack| stack.ends_with(";spin")), "{ours:?}");
        // The text gives the same again.
        let read = run(dir, &["flame", "script.txt", "--format", "folded", "-o", "-"]);
        assert_eq!(by_stack(&read.stdout), theirs, "{name}");
        run(dir, &["top", file]).assert_ok();
    }
}
