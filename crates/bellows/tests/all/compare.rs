//! `bellows ab` on runs against the embedded broker: a run against itself, a slower load, refusals.

use crate::common;

use std::path::Path;

use common::{figure, folder, run};

fn experiment(dir: &Path, file: &str, more: &str) {
    let text = format!(
        "name = \"paced\"\n[broker]\nkind = \"embedded\"\n[profile]\nevents = []\n\
         [phases]\nwarmup = \"200ms\"\nmeasure = \"700ms\"\ndrain = \"5s\"\n\
         [[load]]\nrate = 2000\n{more}"
    );
    std::fs::write(dir.join(format!("{file}.toml")), text).expect("an experiment");
}

fn runs(dir: &Path, tag: &str, times: &str, more: &str) {
    experiment(dir, tag, more);
    let file = format!("{tag}.toml");
    run(dir, &["run", &file, "--quiet", "--repeat", times, "--tag", tag]).assert_ok();
}

const SLOW: &str = "[[fault]]\nkind = \"slow-ack\"\nat = \"0s\"\ndelay = \"20ms\"\n";

#[test]
fn a_change_is_found_and_what_differs_otherwise_is_refused() {
    let dir = &*folder();
    runs(dir, "before", "5", "");
    runs(dir, "after", "5", SLOW);

    // Sides differ in the broker alone, unless somebody insists.
    let sides = ["ab", "tag=before", "--with", "tag=after"];
    run(dir, &sides).assert_error(1, &["different loads", "fault"]);
    let with = |more: &[&str]| run(dir, &[&sides[..], &["--force"], more].concat());
    let ended = with(&["--json"]);
    let found = ended.printed();
    let p50 = figure(&found, "ack response p50");
    assert_eq!(p50["decision"], "changed", "{p50:#}");
    assert!(p50["change"].as_f64() > Some(1.0), "{p50:#}");
    assert_eq!(ended.code(), Some(3), "worse");
    assert_eq!(found["a"]["runs"].as_array().map(Vec::len), Some(5));
    assert_eq!(p50["a"].as_array().map(Vec::len), Some(5));
    let names = found["figures"].as_array().expect("figures").iter();
    assert!(names.clone().all(|it| it["name"] != "sent rate"), "a rate was requested");

    // The other way round the same change is for the better.
    let found = run(dir, &["ab", "tag=after", "--with", "tag=before", "--json", "--force"]).printed();
    let again = figure(&found, "ack response p50");
    let product = (1.0 + p50["change"].as_f64().unwrap()) * (1.0 + again["change"].as_f64().unwrap());
    assert!((product - 1.0).abs() < 1e-9, "{product}");
    assert!(again["change"].as_f64() < Some(0.0), "{again:#}");

    // The end is short, as that of runs in turns.
    let short = with(&[]);
    short.prints(["changed, worse"]).prints_not(["not paired"]).says(["--verbose shows all figures"]);
    assert!(short.stdout.lines().count() <= 14, "{}", short.stdout);
    // Whether something else is better by chance decides whether it is "for the worse" or "(worse)".
    with(&["--verbose"]).prints([": B has", "worse", "ack response p50", "changed, worse", "not paired", "despite"]);
    let paired = with(&["--json", "--paired"]).printed();
    assert_eq!(figure(&paired, "ack response p50")["decision"], "changed");
}

#[test]
fn what_cannot_be_compared_says_why() {
    let dir = &*folder();
    runs(dir, "one", "3", "");
    run(dir, &["ab", "tag=one", "--with", "tag=none"]).assert_error(1, &["tag=none"]);
    run(dir, &["ab", "tag=one", "--with", "last"]).assert_error(2, &["both sides"]);
    run(dir, &["ab", "tag=one", "--with", "tag=one", "--margin=-1%"]).ends(2).says(["per cent"]);
    // Options of one kind of comparison have no meaning for the other.
    run(dir, &["ab", "tag=one", "--with", "last", "--pairs", "5"]).assert_error(2, &["--pairs"]);
    run(dir, &["ab", "one.toml", "--aa", "--force"]).assert_error(2, &["--force"]);
    run(dir, &["ab", "last"]).assert_error(2, &["nothing to compare with"]);
    run(dir, &["ab", "no-such"]).assert_error(2, &["no-such"]);
    let ids = std::fs::read_dir(dir.join(common::RUNS)).expect("runs").flatten();
    let ids: Vec<String> = ids.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    // One run of a side decides nothing, and is too short for intervals within it.
    let sides = ["ab", &ids[0], "--with", &ids[1], &ids[2]];
    run(dir, &[&sides[..], &["--verbose"]].concat())
        .ends(4)
        .prints(["inconclusive: one run of A", "A is one run, without an interval within it: it is too short"]);
    let json = run(dir, &[&sides[..], &["--json"]].concat()).printed();
    for of in json["figures"].as_array().expect("figures") {
        assert_eq!(of["decision"], "undecided", "{of:#}");
    }
    // Pairs are for tests.
    run(dir, &["ab", &ids[0], "--with", &ids[1], "--paired"]).assert_error(1, &["too few runs", "1 of 1 run"]);
}

#[test]
fn folders_of_runs_are_compared_and_the_page_links_to_the_runs_beside_it() {
    let dir = &*folder();
    experiment(dir, "paced", "");
    for side in ["old", "new"] {
        run(dir, &["run", "paced.toml", "--quiet", "--repeat", "2", "--runs", side]).assert_ok();
    }
    let ended = run(dir, &["ab", "old", "--with", "new/", "--json", "-o", "page.html", "--junit", "c.xml"]);
    let found = ended.says(["report: page.html"]).printed();
    for side in ["a", "b"] {
        assert_eq!(found[side]["runs"].as_array().map(Vec::len), Some(2));
    }
    for (file, part) in [("page.html", "data-page=\"comparison\""), ("c.xml", "classname=\"paced\"")] {
        common::file_has(dir.join(file), [part]);
    }
    std::fs::create_dir(dir.join("empty")).expect("a folder");
    run(dir, &["ab", "empty", "--with", "new"]).assert_error(1, &["holds no run", "empty"]);
}
