//! Every command of the docs is run: each fenced `sh` block of README.md and the pages of docs is one script, run in an
//! empty folder with this build's `bellows` first on the path, and so is every example that `--help` shows. `make`
//! targets are looked up instead (`make demo` and `make test` are what CI itself runs).
//!
//! Their output is judged, in a pipe and in terminals of 60, 80 and 120 columns. `make test` walks the blocks that
//! changed since `make prove` walked all (`docs/walked.txt`), in a pipe, and all of `--help` and `bellows help`;
//! `make prove` (`scripts/walk`) does the whole of it, and writes down what it has walked.

mod blocks;
mod examples;
mod screen;

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use blocks::{Block, blocks, changed_blocks, root};
use experiment::Requirement;
use screen::{Screen, play};

const DEFAULT_PORT: &str = "5672";

const LIMIT: Duration = Duration::from_secs(180);

const SCREENS: [Screen; 4] = [Screen::Pipe, Screen::Terminal(60), Screen::Terminal(80), Screen::Terminal(120)];

/// Blocks at a time.
const LANES: usize = 4;
/// Parts of blocks that compute much and long; the others mostly wait.
const LONG: [&str; 4] = ["calibrate", "run stream-", "run classic-", "run artemis-"];

/// Lengths of `make test`, where the commands only need to work. The docs show lengths that suit a person.
const SHORT: &str = "phases.warmup=300ms,phases.measure=1500ms";
/// Lengths of `make prove`, where what a command prints each second is judged, too, and of blocks that look at a
/// window.
const LONGER: &str = "phases.warmup=1s,phases.measure=3s";
const WINDOW: &str = "--from ";

/// Times that a script is run again where a busy machine may have made it silent.
const AGAIN: u32 = 2;

/// Whether silent commands are faults: not in `make test`, where other tests keep the machine busy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silence {
    Allowed,
    Fault,
}

/// Units of time that stand for another figure of the same thing on another machine.
const TIMES: [&str; 4] = ["ns", "us", "µs", "ms"];
/// Figures that are dots at their places.
const DOTS: [char; 2] = ['•', '⬤'];

/// The lines that the docs show and that were not printed, but for their figures.
fn not_printed(block: &Block, printed: &str) -> String {
    let printed: Vec<String> = printed.lines().map(without_figures).collect();
    let shown = block.shown.iter().filter(|line| !line.trim().is_empty());
    let missing = shown.filter(|line| !printed.contains(&without_figures(line)));
    missing.map(|line| format!("{}: nothing like this is printed: {line}\n", block.place)).collect()
}

/// A line with `#` in place of each number, seconds in place of other units of time, without dots that are figures
/// too, and one blank between words.
fn without_figures(line: &str) -> String {
    let mut text = String::new();
    for word in line.split_whitespace() {
        let mut figure = false;
        let is_time = text.ends_with("# ") && TIMES.contains(&word.trim_end_matches([',', ';']));
        let word = if is_time { word.trim_start_matches(['n', 'u', 'µ', 'm']) } else { word.trim_matches(DOTS) };
        // `0 %` on one machine is `under 0.1 %` on another.
        if word.is_empty() || word == "under" {
            continue;
        }
        for c in word.chars() {
            match c {
                '0'..='9' if !figure => {
                    figure = true;
                    text.push('#');
                }
                '0'..='9' => {}
                '.' | ',' if figure => {}
                c => {
                    figure = false;
                    text.push(c);
                }
            }
        }
        text.push(' ');
    }
    text.trim_end().to_owned()
}

/// Runs a script in an empty folder; returns its faults, empty where all is well.
fn walk(block: &Block, screen: Screen, limit: Duration, silence: Silence) -> String {
    let (place, script) = (&block.place, &block.script);
    for attempt in 0.. {
        let folder = tempfile::tempdir().expect("temporary folder");
        let lengths = match silence {
            Silence::Allowed if !script.contains(WINDOW) => SHORT,
            Silence::Allowed | Silence::Fault => LONGER,
        };
        let shown = play(script, folder.path(), screen, lengths, limit);
        let mut faults = shown.faults(screen);
        if screen == Screen::Pipe {
            faults += &not_printed(block, &shown.text);
        }
        let silences = if silence == Silence::Fault { shown.silences() } else { String::new() };
        // Other blocks take the cores meanwhile: "cannot tell" is an answer of a search, too.
        let is_open = script.contains("bellows limit ") && shown.status.is_some_and(|status| status.code() == Some(4));
        if !is_open && !shown.status.is_some_and(|status| status.success()) {
            let how = shown.status.map_or_else(|| format!("still running after {limit:?}"), |s| s.to_string());
            return format!("{place}, {screen:?}: {how}\n--- script\n{script}--- output\n{}\n", shown.text);
        }
        if !faults.is_empty() || (!silences.is_empty() && attempt == AGAIN) {
            return format!("{place}, {screen:?}:\n{faults}{silences}\n");
        }
        if silences.is_empty() {
            break;
        }
    }
    String::new()
}

fn walk_one(block: &Block, screen: Screen, silence: Silence) -> String {
    let began = Instant::now();
    let faults = walk(block, screen, LIMIT, silence);
    eprintln!("{} {screen:?}: {:.0?}", block.place, began.elapsed());
    faults
}

/// Walks blocks, which mostly wait.
fn walk_blocks(blocks: Vec<Block>, screen: Screen, silence: Silence) -> String {
    let is_long = |block: &Block| LONG.iter().any(|it| block.script.contains(it));
    let (long, short): (Vec<Block>, Vec<Block>) = blocks.into_iter().partition(is_long);
    let blocks: Mutex<VecDeque<Block>> = Mutex::new(long.into_iter().chain(short).collect());
    // Lanes that begin with those that work much and others that begin with the rest share the cores best.
    let next = |n: usize| {
        let mut blocks = blocks.lock().expect("no walk has failed");
        if n > 1 { blocks.pop_front() } else { blocks.pop_back() }
    };
    let walked = |block: Block| (walk_one(&block, screen, silence), block);
    let lane = &|n: usize| -> Vec<(String, Block)> {
        std::iter::from_fn(|| next(n)).map(walked).filter(|(faults, _)| !faults.is_empty()).collect()
    };
    let wrong: Vec<(String, Block)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..LANES).map(|n| scope.spawn(move || lane(n))).collect();
        threads.into_iter().flat_map(|it| it.join().expect("walk")).collect()
    });
    // A node that a block starts may not be up in time where others take the cores: what is wrong is wrong alone, too.
    let again = wrong.iter().map(|(faults, block)| {
        eprintln!("once more, alone: {faults}");
        walk_one(block, screen, silence)
    });
    again.collect()
}

#[test]
fn figures_are_told_apart_from_words() {
    assert_eq!(without_figures("sent:  1,001 msg/s in 2.5 s, 3us"), "sent: # msg/s in # s, #us");
    assert_eq!(without_figures("p99  261 µs,  0.3 ms to 2 ns, under 0.1 %  •   ⬤ •"), "p# # s, # s to # s, # %");
}

/// Where a RabbitMQ listens, an embedded broker on its port would be refused, and the load beside it would go to the
/// RabbitMQ.
#[test]
fn brokers_of_the_docs_have_ports_of_their_own_and_loads_name_them() {
    let listen = "bellows broker --listen 127.0.0.1:";
    let loads = ["client", "producer", "consumer", "perf-test", "artemis perf"];
    let mut ports = Vec::new();
    for block in blocks() {
        let place = &block.place;
        let begun: Vec<&str> = block.script.split(listen).skip(1).collect();
        let own: Vec<&str> = begun.iter().filter_map(|it| it.get(..4)).collect();
        assert!(!own.contains(&DEFAULT_PORT), "{place}");
        let script = block.script.replace("\\\n", " ");
        for line in script.lines().filter(|_| !own.is_empty()) {
            let is_load = loads.iter().any(|it| line.contains(&format!("bellows {it} ")));
            let named = own.iter().any(|port| line.contains(port));
            let is_secured = line.contains("amqps://127.0.0.1");
            let by_variable = script.contains("export BELLOWS_URL=");
            assert!(!is_load || named || is_secured || by_variable, "{place}: {line}");
        }
        ports.extend(own.into_iter().map(str::to_owned));
    }
    let distinct: BTreeSet<&String> = ports.iter().collect();
    assert_eq!(distinct.len(), ports.len(), "a port of two blocks");
    assert!(ports.len() > 15, "{ports:?}");
}

#[test]
fn changed_commands_in_the_docs_work() {
    let faults = walk_blocks(changed_blocks(), Screen::Pipe, Silence::Allowed);
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn help_fits_every_screen() {
    let mut script: String = examples::documented().into_iter().map(examples::help).collect();
    script.push_str("bellows help\n");
    for topic in examples::topics(&root()) {
        script.push_str(&format!("bellows help {topic}\n"));
    }
    let faults: String =
        SCREENS.iter().map(|screen| walk(&Block::of("help", &script), *screen, LIMIT, Silence::Allowed)).collect();
    assert!(faults.is_empty(), "{faults}");
}

/// All screens, or the one that `BELLOWS_SCREEN` names: `pipe`, or a terminal's columns.
fn screens() -> impl Iterator<Item = Screen> {
    let name = std::env::var("BELLOWS_SCREEN").ok();
    let is_asked = move |screen: &Screen| match (name.as_deref(), screen) {
        (None, _) => true,
        (Some(name), Screen::Pipe) => name == "pipe",
        (Some(name), Screen::Terminal(columns)) => name == columns.to_string(),
    };
    SCREENS.into_iter().filter(is_asked)
}

#[test]
fn every_condition_in_help_and_docs_is_read() {
    let quoted = "(?:--(slo|require|fail-if|where)[ =]|that = |)";
    let condition = "['\"`]([a-z][^'\"`<>=|{}\n]* (?:<|<=|>|>=|=|!=) [0-9][^'\"`|\n]*)['\"`]";
    let pattern = regex::Regex::new(&format!("{quoted}{condition}")).expect("a pattern");
    let of_latency = regex::Regex::new(" (p[0-9]|max |mean )").expect("a pattern");
    let pages = blocks::pages().into_iter().chain(blocks::experiments());
    let pages = pages.map(|page| std::fs::read_to_string(page).expect("page"));
    let mut read = 0;
    for text in examples::all_help().into_iter().chain(pages) {
        for found in pattern.captures_iter(&text) {
            let option = found.get(1).map_or("", |it| it.as_str());
            let is_known = !option.is_empty() || found[0].starts_with("that = ");
            // `rate = 5` is a key's value.
            if !is_known && !of_latency.is_match(&found[2]) {
                continue;
            }
            let condition = &found[2];
            let refused = match option {
                "fail-if" => Requirement::unless(condition).err(),
                _ => condition.parse::<Requirement>().err(),
            };
            assert!(refused.is_none(), "{condition:?}: {refused:?}");
            read += 1;
        }
    }
    assert!(read > 20, "{read} conditions");
}

/// Rewrites `docs/walked.txt` where all is well in a pipe.
#[test]
#[ignore = "takes minutes: make prove"]
fn every_command_in_the_docs_works_on_every_screen() {
    let mut faults = String::new();
    for screen in screens() {
        let is_pipe = matches!(screen, Screen::Pipe);
        let silence = if is_pipe { Silence::Allowed } else { Silence::Fault };
        let found = walk_blocks(blocks(), screen, silence);
        if is_pipe && found.is_empty() {
            let lines = blocks().into_iter();
            let lines = lines.map(|it| format!("{} {}\n", it.number(), it.place));
            std::fs::write(blocks::walked(), lines.collect::<String>()).expect("docs/walked.txt");
        }
        faults.push_str(&found);
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
#[ignore = "takes minutes, and a port that the docs use: make prove"]
fn every_example_of_help_works_on_every_screen() {
    let script = examples::script();
    let limit = Duration::from_secs(600);
    let block = Block::of("examples", &script);
    let faults: String = screens().map(|screen| walk(&block, screen, limit, Silence::Fault)).collect();
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn links_between_the_docs_lead_somewhere() {
    let mut faults = String::new();
    for page in blocks::pages() {
        let text = std::fs::read_to_string(&page).expect("page");
        let folder = page.parent().unwrap_or(Path::new("/"));
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if target.starts_with("http") || target.contains(['`', ' ']) {
                continue;
            }
            let file = if file.is_empty() { page.clone() } else { folder.join(file) };
            let there = std::fs::read_to_string(&file).ok();
            let is_there = file.exists()
                && (anchor.is_empty() || there.is_some_and(|text| text.lines().any(|line| anchor_of(line) == anchor)));
            if !is_there {
                faults.push_str(&format!("{}: {target}\n", page.display()));
            }
        }
    }
    assert!(faults.is_empty(), "links that lead nowhere:\n{faults}");
}

/// The anchor of a heading, as GitHub makes it; nothing for other lines.
fn anchor_of(line: &str) -> String {
    let Some(text) = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')) else {
        return String::new();
    };
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().replace(' ', "-").to_ascii_lowercase()
}
