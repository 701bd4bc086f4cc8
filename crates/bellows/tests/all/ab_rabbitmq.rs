//! `bellows ab` on a real RabbitMQ: a module that was just made slower is found and named.

use crate::common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{bellows, figure, folder, named, run, start};
use serde_json::Value;

fn module(name: &str) -> PathBuf {
    let plugins = Path::new("/usr/lib/rabbitmq/lib");
    let installed = std::fs::read_dir(plugins).expect("an installed RabbitMQ");
    let rabbits = installed.flatten().flat_map(|release| {
        let plugins = std::fs::read_dir(release.path().join("plugins"));
        plugins.into_iter().flatten().flatten()
    });
    let mut files = rabbits.map(|it| it.path().join("ebin").join(format!("{name}.beam")));
    files.find(|it| it.is_file()).expect("the module")
}

/// A folder with `rabbit_exchange`, of which `route/2` counts to `turns` first.
fn slow_routing(dir: &Path, turns: u32) {
    std::fs::create_dir(dir.join("ebin")).expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/patch/slow.escript");
    let compiled = Command::new("escript")
        .arg(script)
        .arg(module("rabbit_exchange"))
        .args(["route", "2", &turns.to_string(), "ebin"])
        .current_dir(dir)
        .status();
    assert!(compiled.expect("escript").success());
}

/// The fewest pairs that can prove something.
const PROVING: u32 = 5;

/// `BELLOWS_PAIRS` is set where there is time to prove it; two show that the patch is in B's broker, and where it
/// costs.
fn pairs() -> u32 {
    let pairs = std::env::var("BELLOWS_PAIRS");
    pairs.map_or(2, |pairs| pairs.parse().expect("a number"))
}

fn change(of: &Value) -> f64 {
    of["b"].as_f64().expect("b") - of["a"].as_f64().expect("a")
}

#[test]
#[ignore = "a comparison of many runs: make prove"]
fn a_module_that_got_slower_is_found_and_named() {
    testkit::needs_rabbitmq!();
    let dir = &*folder();
    let pairs = pairs();
    slow_routing(dir, 3_000);
    let line = format!(
        "ab classic-in-out --b-patch ebin --pairs {pairs} --set phases.warmup=500ms --set phases.measure=2s --set \
         profile.frequency=4999 --flame route.svg --json"
    );
    let ended = start(bellows(dir, &common::words(&line))).end_of_long();
    let found = ended.printed();
    let cpu = figure(&found, "broker cpu");
    assert!(cpu["change"].as_f64() > Some(0.1), "{cpu:#}");

    let what = found["b"]["what"].as_str().expect("what B is");
    assert!(what.contains("rabbit_exchange"), "{what}");
    let functions = found["functions"]["functions"].as_array().expect("functions");
    let route = named(&found["functions"]["functions"], "function", "$rabbit_exchange:route/2");
    // What the loop costs is below the function, and is the change of the whole, but for noise.
    let (part, whole) = (change(&route["total"]), change(&found["functions"]["broker"]));
    assert!(part > whole * 0.5, "{part} of {whole}");
    // The column of own costs adds up to the broker's change.
    let told: f64 = functions.iter().map(|it| change(&it["own"])).sum();
    let others = found["functions"]["others"].as_f64().unwrap();
    assert!((told + others - whole).abs() < 1e-6 * whole.abs());
    match pairs {
        PROVING.. => is_proven(dir, ended.code(), &found, route),
        _ => assert_eq!(ended.code(), Some(4), "too few to tell: {found:#}"),
    }
}

/// The change is one, the function is named for it, and the picture shows it.
fn is_proven(dir: &Path, code: Option<i32>, found: &Value, route: &Value) {
    assert_eq!(code, Some(3), "worse: {found:#}");
    let cpu = figure(found, "broker cpu");
    assert_eq!(cpu["decision"], "changed", "{cpu:#}");
    assert_eq!(route["total"]["proven"], true, "{route:#}");
    // It is named first, and what it newly calls is not; nor are its callers.
    let explained = found["functions"]["explained"].as_array();
    let explained = explained.expect("what explains the change");
    assert_eq!(explained[0]["function"], "$rabbit_exchange:route/2", "{explained:#?}");
    // Its frame has the colour of what is dearer.
    let svg = std::fs::read_to_string(dir.join("route.svg")).expect("a picture");
    let frames: Vec<&str> = svg.split("<title>").collect();
    let orange = frames.iter().filter(|it| it.starts_with("$rabbit_exchange:route/2 ("));
    let fills: Vec<&str> = orange
        .filter(|it| it.contains(", proven"))
        .filter_map(|it| it.split("fill=\"").nth(1)?.split('"').next())
        .collect();
    assert!(!fills.is_empty(), "no proven frame of route/2");
    for fill in fills {
        let numbers = fill.trim_start_matches("rgb(").trim_end_matches(')');
        let rgb: Vec<u32> = numbers.split(',').map(|it| it.parse().expect("a number")).collect();
        assert!(rgb[0] > rgb[2] + 20, "dearer is orange, not {fill}");
    }
}

#[test]
fn a_patch_that_is_none_says_so_before_a_broker_starts() {
    let dir = &*folder();
    std::fs::create_dir(dir.join("ebin")).expect("a folder");
    let patched = |kind: &str| {
        let kind = format!("broker.kind={kind}");
        let set = ["run", "classic-in-out", "--set", "broker.patch=ebin", "--set"];
        run(dir, &[&set[..], &[&kind]].concat())
    };
    patched("rabbitmq").assert_error(1, &["no .beam file"]);
    patched("embedded").assert_error(2, &["broker.patch", "no effect"]);
}
