//! `bellows ab` against the embedded broker: finding a change, stopping and resuming runs, refusals.

use crate::common;

use std::path::Path;
use std::time::Duration;

use common::pages::page_after;
use common::{Ended, bellows, figure, folder, folder_with, kept_with, read_json, run, wait_for};
use serde_json::Value;

fn experiment() -> common::Folder {
    let dir = folder();
    experiment_of(&dir, 200, 600);
    dir
}

pub(crate) fn experiment_of(dir: &Path, warmup: u32, measure: u32) {
    let text = format!(
        "name = \"turns\"\n[broker]\nkind = \"embedded\"\n[profile]\nevents = []\n\
         [phases]\nwarmup = \"{warmup}ms\"\nmeasure = \"{measure}ms\"\ndrain = \"5s\"\n\
         [[load]]\nrate = 2000\n"
    );
    std::fs::write(dir.join("turns.toml"), text).expect("an experiment");
}

/// Side B delays every confirm, by more than a full machine does.
pub(crate) const SLOW: [&str; 2] = ["--b-set", "fault=[{ kind = \"slow-ack\", at = \"0s\", delay = \"200ms\" }]"];

fn pairs(folder: &Path) -> Value {
    read_json(&folder.join("pairs.json"))
}

fn made(folder: &Path) -> Vec<String> {
    let runs = pairs(folder)["runs"].as_array().cloned();
    let id = |run: Value| run["id"].as_str().expect("an id").to_owned();
    runs.expect("runs").into_iter().map(id).collect()
}

/// Five pairs in this folder, and what was told of the last three.
fn a_change_is_found_in_turns(dir: &Path, pairs_dir: &Path, ended: &Ended) {
    let found = ended.printed();
    let p50 = figure(&found, "ack response p50");
    assert_eq!(p50["decision"], "changed", "{p50:#}");
    assert!(p50["change"].as_f64() > Some(1.0), "{p50:#}");
    assert_eq!(found["paired"], true);
    assert_eq!(found["b"]["runs"].as_array().map(Vec::len), Some(5));

    // Every line says which run it is, and the order is that of the seed.
    let kept = pairs(pairs_dir);
    let sides: Vec<&str> =
        kept["runs"].as_array().expect("runs").iter().map(|run| run["side"].as_str().expect("a side")).collect();
    // More where others had the machine's cores.
    assert!(sides.len() >= 10, "{sides:?}");
    assert!(sides.chunks(2).all(|pair| pair[0] != pair[1]), "each pair has both: {sides:?}");
    assert_eq!(sides[1], sides[2], "ABBA or BAAB: {sides:?}");
    assert!(ended.stderr.contains("pair 5 of 5, "), "{}", ended.stderr);
    // Each run but the first is announced with the time elapsed and left.
    let mut lines = ended.stderr.lines();
    let has_time = lines.any(|line| line.contains("pair 5 of 5, ") && line.contains(" elapsed, "));
    assert!(has_time, "{}", ended.stderr);

    // The runs are found as all others are, and compared again with the same result.
    let ids = |side: &str| -> Vec<&str> {
        let runs = found[side]["runs"].as_array().expect("runs").iter();
        runs.map(|run| run["id"].as_str().expect("an id")).collect()
    };
    let named = [&["ab", "--paired", "--force", "--json"][..], &ids("a")[..], &["--with"], &ids("b")[..]].concat();
    let again = run(dir, &named).printed();
    run(dir, &["runs", "--filter", "tag=side-a"]).prints(["pair-5"]);
    assert_eq!(figure(&again, "ack response p50"), p50);
    assert_eq!(read_json(&pairs_dir.join("comparison.json")), found);
}

#[test]
fn runs_that_were_killed_are_gone_on_with_and_none_is_lost() {
    let dir = &*experiment();
    let all = ["ab", "turns.toml", "--pairs", "3", "--aa", "--quiet"];
    let mut child = bellows(dir, &all).spawn().expect("bellows");
    let done = || folder_with(dir, "pairs.json").map(|it| made(&it)).unwrap_or_default();
    wait_for("three runs", || done().len() >= 3);
    let before = done();
    let (pairs_dir, suffix) = kept_with(dir, "pairs.json");
    // While it goes on, nobody else adds runs, which would disturb those of both.
    run(dir, &[&all[..], &["--resume", &suffix]].concat()).assert_error(1, &["another bellows"]);
    child.kill().expect("killed");
    child.wait().expect("ended");
    let before = match made(&pairs_dir) {
        later if later.len() > before.len() => later,
        _ => before,
    };

    let other = ["ab", "turns.toml", "--resume", &suffix];
    run(dir, &[&other[..], &SLOW].concat()).assert_error(2, &["other sides"]);
    let more = ["ab", "turns.toml", "--pairs", "2", "--aa", "--resume", &suffix];
    run(dir, &more).assert_error(2, &["fixed at the beginning"]);

    let ended = run(dir, &[&all[..], &["--resume", &suffix]].concat());
    assert!(matches!(ended.code(), Some(0 | 3 | 4)), "{}{}", ended.stdout, ended.stderr);
    let after = made(&pairs_dir);
    assert!(after.len() >= 6, "{after:?}");
    assert!(after.starts_with(&before), "{before:?} {after:?}");
    assert!(ended.stdout.starts_with("A against itself, 3 pairs"), "{}", ended.stdout);
}

#[test]
fn a_run_that_had_ended_when_the_command_was_killed_is_not_made_again() {
    let dir = &*experiment();
    let all = ["ab", "turns.toml", "--pairs", "2", "--aa", "--quiet"];
    run(dir, &all);
    let pairs_dir = folder_with(dir, "pairs.json").expect("a folder");
    let before = made(&pairs_dir);
    // As if it had been killed between the end of its last run and the note of it.
    let mut kept = pairs(&pairs_dir);
    kept["runs"].as_array_mut().expect("runs").pop();
    std::fs::write(pairs_dir.join("pairs.json"), kept.to_string()).expect("written");
    let name = pairs_dir.to_str().expect("a name");
    let ended = run(dir, &[&all[..], &["--resume", name]].concat());
    assert!(ended.stderr.contains("had ended before"), "{}", ended.stderr);
    assert_eq!(made(&pairs_dir), before);
}

/// Values that the record hides may differ, and cannot be compared later.
#[test]
fn sides_that_differ_in_hidden_words_are_not_the_same() {
    let dir = &*experiment();
    let command = |password: &str| format!(r#"command=["sh", "-c", "sleep 60", "--password", "{password}"]"#);
    let path = dir.join("turns.toml");
    let text = std::fs::read_to_string(&path).expect("an experiment");
    let text = text.replace("rate = 2000", &format!("kind = \"command\"\n{}", command("one")));
    std::fs::write(&path, text).expect("written");
    let ab = |password: &str, more: &[&str]| {
        let set = format!("load.0.{}", command(password));
        let all = ["ab", "turns.toml", "--pairs", "2", "--quiet", "--b-set", &set];
        run(dir, &[&all[..], more].concat())
    };
    ab("two", &[]).prints_not(["against itself"]);
    let pairs_dir = folder_with(dir, "pairs.json").expect("a folder");
    let kept = pairs(&pairs_dir);
    assert_eq!(kept["a"], kept["b"], "as the record shows them");
    let name = pairs_dir.to_str().expect("a name");
    for password in ["two", "three"] {
        ab(password, &["--resume", name]).assert_error(2, &["hides (***)"]).says(["without --resume"]);
    }
}

#[test]
fn looks_that_were_fixed_keep_their_level_whoever_goes_on() {
    let dir = &*experiment();
    let short = ["--set", "phases.warmup=50ms", "--set", "phases.measure=150ms"];
    let line = ["ab", "turns.toml", "--aa", "--pairs", "7", "--quiet"];
    // Whatever is measured lies within such margins.
    let wide = ["--margin", "100%", "--latency-margin", "100%", "--until-decided"];
    let first = run(dir, &[&line[..], &short, &wide].concat());
    assert!(matches!(first.code(), Some(0 | 3 | 4)), "{first:#?}");
    let pairs_dir = folder_with(dir, "pairs.json").expect("a folder");
    let decided = || read_json(&pairs_dir.join("comparison.json"));
    let level = decided()["level"].as_f64().expect("a level");
    assert_eq!(decided()["looks"], serde_json::json!([5, 7]));
    assert!(level < 0.04, "{level}");
    // Gone on with to all pairs: a look was taken, and each had a stricter level.
    let folder = pairs_dir.to_str().expect("a name");
    let rest = run(dir, &[&line[..], &short, &["--resume", folder]].concat());
    assert!(matches!(rest.code(), Some(0 | 3 | 4)), "{rest:#?}");
    assert!(made(&pairs_dir).len() >= 14, "all pairs are made");
    assert_eq!(decided()["looks"], serde_json::json!([5, 7]));
    assert_eq!(decided()["level"].as_f64(), Some(level));
}

#[test]
fn what_makes_no_sense_says_why() {
    let dir = &*experiment();
    let ab = |more: &[&str]| run(dir, &[&["ab", "turns.toml"], more].concat());
    ab(&[]).assert_error(2, &["the same"]);
    ab(&["--aa", "--set", "phases.measure=0s"]).assert_error(2, &["an end"]);
    ab(&["--aa", "--resume", "none"]).assert_error(1, &["none"]);
    ab(&["--aa", "--b-set", "load.0.rate=1"]).ends(2);
    ab(&["--aa", "--pairs", "1"]).ends(2);
    // What would fail at the end, or with the first run of side B.
    for (more, said) in [
        (&["--aa", "-o", "none/x.html"][..], "none/x.html"),
        (&["--b", "rabbitmq@/none"], "no RabbitMQ found"),
        (&["--b-set", "broker.scheduler=1"], "--b-set broker.scheduler="),
        (&["--b-set", "load.0.rate"], "--b-set load.0.rate: it has no value"),
    ] {
        let ended = ab(more);
        assert!(ended.code() != Some(0) && ended.stderr.contains(said), "{more:?}: {ended:#?}");
        assert!(!ended.stderr.contains("pair 1 of"), "{more:?}: {ended:#?}");
    }
    let runs = std::fs::read_dir(dir.join(common::RUNS));
    let made = runs.into_iter().flatten().flatten().map(|it| made(&it.path()));
    assert_eq!(made.flatten().count(), 0, "no run was made");
}

/// Fewer than five pairs prove nothing: adding some is no second look.
#[test]
fn too_few_pairs_say_so_at_once_and_may_become_more() {
    let dir = &*experiment();
    let ab = |more: &[&str]| run(dir, &[&["ab", "turns.toml", "--json"], &SLOW[..], more].concat());
    let few = ab(&["--pairs", "2", "--seed", "3"]);
    let told = few.stderr.find("warning: 2 pairs cannot prove a change; use at least 5, or take this as a try");
    assert!(told < few.stderr.find("pair 1 of 2") && told.is_some(), "{}", few.stderr);
    let p50 = few.printed();
    let p50 = figure(&p50, "ack response p50");
    assert_eq!((p50["decision"].as_str(), &p50["needed"]), (Some("undecided"), &Value::Null));
    let (folder, end) = kept_with(dir, "pairs.json");
    let before = made(&folder);
    let more = ab(&["--pairs", "5", "--resume", &end]).ends(3);
    a_change_is_found_in_turns(dir, &folder, &more);
    let after = made(&folder);
    assert!(after.starts_with(&before) && after.len() >= 10, "{after:?}");
    // These could have decided something.
    ab(&["--pairs", "8", "--resume", &end]).assert_error(2, &["fixed at the beginning"]);
}

#[test]
fn a_comparison_has_a_page_and_files_for_ci_servers() {
    let dir = &*experiment();
    let all = ["ab", "turns.toml", "--pairs", "2", "--quiet"];
    let files = ["--junit", "ab.xml", "--markdown", "ab.md", "--go-bench", "ab.txt", "-o", "ab.html"];
    let ended = run(dir, &[&all[..], &SLOW, &files].concat());
    assert!([Some(3), Some(4)].contains(&ended.code()), "{}", ended.stderr);
    for (name, part) in [
        ("ab.xml", "<testcase classname=\"turns\" name=\"ack response p50\">"),
        ("ab.md", "| ack response p50 |"),
        ("ab.txt", "\nside: b\nBenchmarkTurns 1 "),
        ("ab.html", "data-page=\"comparison\""),
    ] {
        common::file_has(dir.join(name), [part]);
    }

    // The page lies beside the runs, is named at the end, and made again.
    let (pairs_dir, end) = kept_with(dir, "pairs.json");
    let page = pairs_dir.join("report.html");
    let last = ended.stdout.lines().last().unwrap_or_default();
    assert!(!ended.stderr.contains("report: "), "{}", ended.stderr);
    ended.says(["page: ab.html"]);
    assert_eq!(last, format!("report: {}", page.display()), "{}", ended.stdout);
    let before = std::fs::read(&page).expect("a page");
    std::fs::remove_file(&page).expect("removed");
    let folder = pairs_dir.to_str().expect("a name");
    let again = run(dir, &["runs", "report", folder]).ok();
    assert_eq!(again.stdout.trim(), page.to_str().expect("a name"));
    assert_eq!(std::fs::read(&page).expect("a page"), before);
    // Its name's end is enough, and another file may be named.
    run(dir, &["runs", "report", &end, "-o", "again.html"]).assert_ok();
    common::file_has(dir.join("again.html"), ["data-page=\"comparison\""]);

    what_broke_off_did(dir, &pairs_dir);
    // Where nothing was decided, that is said.
    std::fs::remove_file(pairs_dir.join("comparison.json")).expect("removed");
    let undecided = run(dir, &["runs", "report", folder]);
    undecided.assert_error(1, &["comparison.json"]);
    undecided.says(["two pairs", "--resume"]);

    // A folder of this name is not taken for the experiment that is called so.
    std::fs::rename(&pairs_dir, dir.join("demo")).expect("renamed");
    run(dir, &["ab", "demo"]).assert_error(2, &["A and B are the same"]).says(["a folder of runs in turns"]);
}

/// Runs that broke off before all were made are an error for CI servers, also where they are compared once more.
fn what_broke_off_did(dir: &Path, pairs_dir: &Path) {
    let file = pairs_dir.join("comparison.json");
    let mut decided = read_json(&file);
    decided["broke_off"] = "the broker went".into();
    std::fs::write(&file, decided.to_string()).expect("written");
    let folder = pairs_dir.to_str().expect("a name");
    run(dir, &["ab", folder, "--junit", "again.xml"]);
    common::file_has(dir.join("again.xml"), ["<error message=\"the broker went\""]);
}

#[test]
fn a_job_that_fails_leaves_no_older_result() {
    let dir = &*folder();
    std::fs::write(dir.join("ab.xml"), "<testsuite>all passed</testsuite>").expect("a file");
    let text = "name = \"none\"\n[broker]\nkind = \"rabbitmq\"\nroot = \"/nowhere\"\n[phases]\nmeasure = \
                \"1s\"\n[[load]]\n";
    std::fs::write(dir.join("none.toml"), text).expect("an experiment");
    run(dir, &["ab", "none.toml", "--aa", "--pairs", "2", "--junit", "ab.xml", "--quiet"]).ends(1);
    let left = std::fs::read_to_string(dir.join("ab.xml")).expect("a file");
    assert!(left.contains("errors=\"1\"") && !left.contains("all passed"), "{left}");
}

#[test]
fn the_time_of_scraped_pages_is_compared() {
    let dir = &*experiment();
    let [fast, slow] = [5, 60].map(|ms| page_after(Duration::from_millis(ms)));
    let text = std::fs::read_to_string(dir.join("turns.toml")).expect("an experiment");
    let scrape = format!("[[scrape]]\nname = \"per-object\"\nurl = \"{fast}\"\nevery = \"100ms\"\n");
    std::fs::write(dir.join("turns.toml"), text + &scrape).expect("an experiment");
    let slow = format!("scrape.0.url={slow}");
    let ended = run(dir, &["ab", "turns.toml", "--pairs", "5", "--seed", "3", "--json", "--b-set", &slow]);
    let found = ended.printed();
    let p50 = figure(&found, "per-object page p50");
    assert!(p50["change"].as_f64() > Some(2.0), "{p50:#}");
    // A machine that is full may hold up a whole run of the fast page, and one such of five leaves it open.
    let of_fast = p50["a"].as_array().expect("a value per run");
    if of_fast.iter().all(|it| it.as_f64() < Some(40e6)) {
        assert_eq!(p50["decision"], "changed", "{p50:#}");
        assert_eq!(ended.code(), Some(3), "worse: {}", ended.stderr);
    } else {
        eprintln!("a run of the fast page was held up, and what is decided is not looked at: {p50:#}");
    }
    // Six pages are too few for a percentile.
    assert_eq!(figure(&found, "per-object page max")["unit"], "ns");
}
