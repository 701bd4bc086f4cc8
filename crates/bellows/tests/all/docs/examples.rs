//! The examples that `--help` shows, made short enough to be run.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// Commands and their subcommands.
pub(crate) fn documented() -> Vec<&'static str> {
    let all = "|demo|run|client|churn|probe|artemis|artemis perf client|perf-test|record|top|ab|diff|flame|broker|runs|\
               runs show|runs tag|runs note|runs report|runs rm|runs prune|open|doctor|scrape|topology|\
               topology generate|completions|man";
    all.split('|').collect()
}

/// Parts of examples and their replacements: shorter, with a run and a process that exist.
static INSTEAD: LazyLock<Vec<[&str; 2]>> = LazyLock::new(|| testkit::table(include_str!("../../data/instead.txt")));

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
    let line = INSTEAD.iter().fold(line.to_owned(), |line, [long, short]| line.replace(long, short));
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

/// One script of all examples, behind what they need.
pub(crate) fn script() -> String {
    include_str!("../../data/preparation.sh").to_owned() + &examples().concat()
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
