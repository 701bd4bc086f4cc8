//! The examples that `--help` shows, made short enough to be run.

use std::path::Path;
use std::process::Command;

/// Commands and their subcommands.
pub(crate) fn documented() -> Vec<&'static str> {
    let all = "|demo|run|client|churn|churn connections|churn channels|churn queues|probe|artemis|artemis perf client|\
               perf-test|record|top|ab|diff|flame|broker|runs|runs show|runs tag|runs note|runs report|runs rm|\
               runs prune|open|doctor|scrape|topology|topology generate|completions|man";
    all.split('|').collect()
}

/// Parts of examples and their replacements: shorter, with a run and a process that exist.
const INSTEAD: [(&str, &str); 52] = [
    ("7k2q x3m4 --with 9d1f c8p0", "tag=before --with tag=after"),
    // The management API of a real RabbitMQ, which `topology.rs` has.
    ("topology apply queues.json", "topology generate --queues 3"),
    ("topology export -o all.json", "topology generate --queues 4"),
    ("topology delete queues.json", "topology generate --queues 5"),
    // Pages: the one that a load serves.
    (
        "http://localhost:15672/api/queues?columns=name,messages_ready' --user guest",
        "http://localhost:15692/metrics?columns=name' --user guest --duration 1",
    ),
    ("http://localhost:8161/", "http://localhost:15692/metrics"),
    ("https://localhost:15671/api/overview --ca ca.pem", "http://localhost:15692/metrics --duration 1"),
    ("ramp:from=1,to=100,over=60s", "ramp:from=1,to=100,over=1s"),
    ("15692/metrics/per-object", "15692/metrics"),
    ("http://a:15692", "http://127.0.0.1:15692"),
    ("http://b:15692", "http://localhost:15692"),
    ("rabbitmq_global_*_total", "bellows_broker_*"),
    ("sum(rabbitmq_queue_messages)", "sum(bellows_broker_open_files)"),
    ("--every 2s --duration 20m", "--every 1s --duration 2"),
    ("--every 2s --duration 60", "--every 1s --duration 2"),
    ("report runs/2026-11-21T00-12-33Z-ab-mine-7k2q", "report $(ls -d runs/*-ab-* | tail -n 1)"),
    // They last until they are stopped.
    ("--show-latency queue", "--show-latency --duration 1 queue"),
    ("--clientID test_id", "--clientID test_id --duration 1"),
    // RabbitMQ's alone.
    (" --request-reply", ""),
    ("--duration 60", "--duration 1"),
    ("--duration 30", "--duration 1"),
    ("--duration 20", "--duration 1"),
    ("--duration 10", "--duration 1"),
    ("--every 60s", "--every 1s --duration 2"),
    ("beam.smp@10:00..11:00", "@-1h.."),
    ("--warmup 20", "--warmup 0"),
    ("--warmup 5", "--warmup 0"),
    ("-z 60", "-z 1"),
    ("-z 30", "-z 1"),
    ("--message-count 1000000", "--message-count 2000"),
    ("--message-count 100000", "--message-count 2000"),
    ("--broker-root /opt/rabbitmq_server-4.2.1", ""),
    ("phases.measure=30s", "phases.measure=2s"),
    // Enough blocks, in one run.
    ("--observer --event cpu,off-cpu --freq 99,999", "--observer --set phases.measure=3s --set profile.blocks=500ms"),
    ("--pid 4711", "--pid $broker"),
    ("--name beam.smp", "--pid $broker"),
    ("7k2q x3m4", "last"),
    ("7k2q", "last"),
    ("last --event mmap", "last --event cpu"),
    ("--from 10 --to 20", "--from 0 --to 90"),
    ("--from 10 --to 12", "--from 0 --to 90"),
    // A part that leaves something to compare with.
    ("diff --where 'end-to-end p99 > 50ms'", "diff $(ls runs | grep demo | tail -n 1) --from 1 --to 3"),
    ("diff --from 12 --to 15", "diff $(ls runs | grep demo | tail -n 1) --from 1 --to 3"),
    // Nobody knows lines of the embedded broker, and the last run has no times off CPU.
    ("--by line --grep rabbit_exchange", "--by module"),
    ("last --event off-cpu", "$(dirname $(ls runs/*/off-cpu.stacks | tail -n 1)) --event off-cpu"),
    // The last run with a profile is one without a load, and nobody stands still.
    ("last --where 'end-to-end p99 > 50ms'", "$(ls runs | grep demo | tail -n 1) --where 'end-to-end max > 1us'"),
    ("last --where stall", "$(ls runs | grep demo | tail -n 1) --where 'end-to-end max > 1us'"),
    ("/etc/bash_completion.d/", "./"),
    ("~/.zfunc/", "./"),
    ("~/.config/fish/completions/", "./"),
    // A page of the manual is laid out by `man`.
    ("man -l -", "cat > bellows.1"),
    ("perf script |", "cat script.txt |"),
];

/// Set-up for examples: a broker at the default address, a run, and files of those names.
pub(crate) const PREPARATION: &str = "\
bellows broker --listen 127.0.0.1:5672 > /dev/null &
broker=$!
sleep 1
for side in before after; do
bellows demo --quiet --no-profile --repeat 2 --tag $side --set phases.warmup=0s --set phases.measure=1s > /dev/null
done
bellows demo --quiet > /dev/null
set -- runs/*/latency.hlog
cp $1 a1.hlog; cp $2 a2.hlog; cp $3 b1.hlog; cp $4 b2.hlog
cp $1 before.hlog; cp $3 after.hlog
cp runs/*/profile.pb.gz runs/*/cpu.folded .
cp profile.pb.gz before.pb.gz
cp profile.pb.gz after.pb.gz
printf 'beam.smp 7/8 [000] 1.5: 1001001 cpu-clock:\\n\\t10 main+0x1 (/bin/x)\\n\\n' > script.txt
printf '[[fault]]\\nkind = \"lose\"\\nevery = 100\\n' > faults.toml
printf 'token' > token
bellows client queue://page --quiet --no-archive --metrics 15692 --rate 10 > /dev/null 2>&1 &
sleep 1
printf '[broker]\\nkind = \"embedded\"\\n[[load]]\\nrate = 100\\n' > mine.toml
";

/// The examples as scripts, in the order in which `--help` shows them.
pub(crate) fn examples() -> Vec<String> {
    let mut examples: Vec<String> = Vec::new();
    for command in documented() {
        let words: Vec<&str> = command.split_whitespace().collect();
        let help = help_of(&words);
        // Runs in turns take long, but for those that exist.
        let is_short = |line: &&&str| command != "ab" || line.contains("--with");
        for line in shown(&help).iter().filter(is_short) {
            let line = line.trim();
            match examples.last_mut().filter(|last| last.ends_with('\\')) {
                Some(last) => *last = format!("{} {line}", last.trim_end_matches('\\')),
                None => examples.push(line.to_owned()),
            }
        }
    }
    assert!(examples.len() > 40, "{examples:#?}");
    examples.dedup();
    examples.iter().map(|line| short(line)).collect()
}

/// Example lines of a help text. None is so long that it wraps.
fn shown(help: &str) -> Vec<&str> {
    let (_, shown) = help.split_once("\nExamples:\n").unwrap_or_default();
    let lines: Vec<&str> = shown.lines().take_while(|line| line.starts_with("  ")).collect();
    let mut goes_on = false;
    for line in &lines {
        assert!(goes_on || line.contains("bellows"), "{line:?} is broken");
        goes_on = line.ends_with('\\');
    }
    lines
}

fn short(example: &str) -> String {
    // Three blanks part a command from what is said of it.
    let line = example.split("   ").next().unwrap_or_default();
    let line = INSTEAD.iter().fold(line.to_owned(), |line, (long, short)| line.replace(long, short));
    let line = line.replace("--out /usr/local/share/man/man1", "--out man");
    let line = line.replace("/tmp/before.html", "before.html");
    if line.starts_with("bellows broker") {
        // It lasts until it is stopped, and the usual port is taken.
        return format!("BELLOWS_LISTEN=127.0.0.1:0 timeout --signal INT 1 {line} || test $? = 124\n");
    }
    if line.starts_with("bellows ab") || line.contains("--require") {
        // What it decides of few short runs is not known.
        return format!("{line} || test $? -le 4\n");
    }
    if line.starts_with("bellows record") {
        // A process that does nothing has no profile.
        let load = "bellows client queue://work --quiet --no-archive --duration 3";
        return format!("{load} > /dev/null 2>&1 & load=$!\n{line}\nwait $load\n");
    }
    line + "\n"
}

/// One script of all examples that takes what they need from `PREPARATION`.
pub(crate) fn script() -> String {
    PREPARATION.to_owned() + &examples().concat()
}

fn help_of<S: AsRef<std::ffi::OsStr>>(command: &[S]) -> String {
    let help = Command::new(env!("CARGO_BIN_EXE_bellows")).args(command).arg("--help").output();
    String::from_utf8(help.expect("help").stdout).expect("text")
}

pub(crate) fn help(command: &str) -> String {
    format!("bellows {command} --help\n")
}

/// The `--help` of every command, one per line.
pub(crate) fn all_help() -> Vec<String> {
    let mut commands = vec![Vec::new()];
    let mut helps = Vec::new();
    while let Some(command) = commands.pop() {
        let help = help_of(&command);
        // Those of the program itself stand in groups.
        let mut parts = if command.is_empty() { help.split("\nOptions:\n") } else { help.split("\nCommands:\n") };
        let below = parts.nth(usize::from(!command.is_empty())).unwrap_or_default().lines();
        let below = below.take_while(|line| command.is_empty() || !line.is_empty());
        let names = below.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        for name in names.filter(|name| !name.is_empty() && *name != "help") {
            commands.push([&command[..], &[name.to_owned()]].concat());
        }
        shown(&help);
        helps.push(help.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    assert!(helps.len() > documented().len(), "{} commands", helps.len());
    helps
}

/// The documents in the binary.
pub(crate) fn topics(root: &Path) -> Vec<String> {
    let docs = std::fs::read_dir(root.join("docs")).expect("docs").flatten();
    let pages = docs.map(|page| page.path()).filter(|page| page.extension().is_some_and(|it| it == "md"));
    let topics = pages.filter_map(|page| Some(page.file_stem()?.to_str()?.to_owned()));
    topics.filter(|topic| topic != "perf-test").chain(["perf-test-options".to_owned()]).collect()
}
