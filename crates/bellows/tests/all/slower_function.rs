//! `bellows ab` of a broker of which one function takes a few per cent of the CPU more: found, and named.

use crate::common;

use std::path::Path;

use common::{bellows, folder, run, start};

/// The function that the fault makes slower, and the fault's own, whatever of them the compiler leaves a function.
const FUNCTIONS: [&str; 3] = ["VirtualHost::route", "Faults::slow_route", "rules::burn"];

fn experiment(dir: &Path, measure: &str) {
    let text = format!(
        "name = \"slower\"\n[broker]\nkind = \"embedded\"\n[profile]\nfrequency = 4999\n\
         [phases]\nwarmup = \"400ms\"\nmeasure = \"{measure}\"\ndrain = \"5s\"\n\
         [[load]]\nmax-pending = 100\n"
    );
    std::fs::write(dir.join("slower.toml"), text).expect("an experiment");
}

#[test]
#[ignore = "a comparison of many runs: make prove"]
fn a_function_that_got_slower_by_two_per_cent_of_the_cpu_is_found_and_named() {
    let dir = &*folder();
    // Where there is time to prove more, a smaller change, twice what is worth a sentence, and longer runs.
    let is_proof = std::env::var_os("BELLOWS_SEEDS").is_some();
    let (measure, share) = if is_proof { ("10s", 0.01) } else { ("2500ms", 0.02) };
    experiment(dir, measure);
    let slower = |share: f64| format!("fault=[{{ kind = \"slow-route\", share = {share} }}]");
    // A broker with faults hands messages over otherwise than one without: both sides have one, A's of no effect.
    let (hardly, slower) = (slower(0.0001), slower(share));
    let line = common::words("ab slower.toml --pairs 8 --seed 5 --flame slower.svg --json");
    let sides = ["--a-set", &hardly, "--b-set", &slower];
    let found = start(bellows(dir, &[&line[..], &sides].concat())).end_of_long().printed();
    let functions = &found["functions"];
    let named = functions["explained"].as_array().expect("explained");
    let first = named.first().unwrap_or_else(|| panic!("nothing is named: {found:#}"));
    let name = first["function"].as_str().expect("a name");
    let is_slower = |name: &str| FUNCTIONS.iter().any(|it| name.contains(it));
    assert!(is_slower(name), "{name} of {named:#?}");
    // The change that was made lies where the interval says, or half its width beside: of twenty right intervals one
    // misses.
    let whole = functions["broker"]["a"].as_f64().expect("the broker's");
    let mut all = functions["functions"].as_array().expect("rows").iter();
    let row = all.find(|row| row["function"] == name).expect("its row");
    let of = if first["own"] == true { "own" } else { "total" };
    let [low, high] = [0, 1].map(|i| row[of]["interval"][i].as_f64().expect("a bound") / whole);
    let beside = (high - low) / 2.0;
    let is_told = low - beside < share && share < high + beside && high - low < 3.0 * share;
    assert!(is_told, "{share} of {low} to {high}");

    // The picture marks it, and is small.
    let svg = std::fs::read_to_string(dir.join("slower.svg")).expect("the picture");
    assert!(svg.len() < 3_000_000, "{}", svg.len());
    assert!(FUNCTIONS.iter().any(|it| marked(&svg, it)), "{FUNCTIONS:?} have no colour");

    // The folder decides the same again, and its page has the call paths.
    let pairs = common::folder_with(dir, "comparison-stacks.json").expect("a folder of pairs");
    let again = run(dir, &["ab", pairs.to_str().expect("text"), "--json"]).printed();
    assert_eq!(again["functions"]["explained"][0]["function"], name);
    let broker = &again["functions"]["broker"];
    assert!(broker["a"].is_number() && broker["b"].is_number(), "{broker:#}");
}

/// Whether a frame of this name is proven to be dearer, and drawn so.
fn marked(svg: &str, name: &str) -> bool {
    svg.split("<title>").skip(1).any(|frame| {
        let (title, drawn) = frame.split_once("</title>").unwrap_or_default();
        let fill = drawn.split("fill=\"").nth(1).unwrap_or_default();
        let is_grey = fill.starts_with("rgb(205,204,202)") || fill.starts_with("rgb(255,255,255)");
        title.contains(name) && title.contains(", proven") && !is_grey
    })
}

#[test]
fn a_picture_of_a_matrix_or_of_runs_without_profiles_is_refused() {
    let dir = &*folder();
    experiment(dir, "200ms");
    let ab = |more: &str| run(dir, &common::words(&format!("ab slower.toml --aa --pairs 2 --flame x.svg {more}")));
    ab("--over load.0.producers=1,2").assert_error(2, &["one comparison", "x.svg"]);
    ab("--no-profile --quiet").assert_error(2, &["--flame draws", "none are taken"]);
    assert!(!dir.join("x.svg").exists());
}
