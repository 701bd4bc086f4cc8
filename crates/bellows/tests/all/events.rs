//! Profiles of a RabbitMQ: several events of one run, and names where the node writes none.

use crate::common;
use crate::common::managed;

use std::fs;
use std::path::Path;

use brokers::rabbitmq::{Config, RabbitMq};
use stacks::Profile;

fn printed(dir: &Path, args: &[&str]) -> String {
    common::run(dir, args).ok().stdout
}

#[test]
fn a_broker_is_sampled_by_several_events_at_once() {
    let (dir, node) = &managed::shared!();
    let experiment = format!(
        "name = \"events\"\n{}[phases]\nwarmup = \"1s\"\n\
         measure = \"4s\"\n[profile]\nevents = [\"cpu\", \"off-cpu\", \"page-faults\", \"no:such_event\"]\n\
         [[load]]\ndestination = \"queue://orders\"\nrate = 3000\nmax-pending = 1000\n",
        node.broker()
    );
    fs::write(dir.join("events.toml"), experiment).expect("write");
    let ended = common::run(dir, &["run", "events.toml"]).ok();
    let folder = &ended.run_dir(dir);
    let record = common::read_json(&folder.join("run.json"));
    let profiles = record["summary"]["profiles"].as_array().expect("profiles");
    if profiles.is_empty() {
        testkit::skip!("this user may not profile: {}", ended.stderr);
    }
    let known: Vec<_> = profiles.iter().map(|it| (it["event"].as_str(), it["unit"].as_str())).collect();
    let wanted = [("cpu", "samples"), ("off-cpu", "nanoseconds"), ("page-faults", "faults")];
    assert_eq!(known, wanted.map(|(event, unit)| (Some(event), Some(unit))), "{}", ended.stderr);
    // What cannot be had is told, with its cause and remedy, and spoils nothing else.
    testkit::assert_has(record["warnings"].to_string(), ["no profile of no:such_event"]);
    let figures = common::figures(dir);
    for event in ["cpu", "off-cpu", "page-faults"] {
        for extension in ["stacks", "folded", "svg"] {
            let length = fs::metadata(folder.join(format!("{event}.{extension}")));
            assert!(length.expect("file").len() > 100, "{event}.{extension}");
        }
        assert!(figures.contains(&format!("{event} profile: ")), "{figures}");
    }
    assert!(!folder.join("no:such_event.stacks").exists());
    let pprof = Profile::open(folder.join("page-faults.pb.gz")).expect("pprof");
    assert_eq!(pprof.header.unit, "faults");
    // Waiting is shown in milliseconds.
    common::file_has(folder.join("off-cpu.svg"), [" ms, "]);
    let copied = profiles.iter().all(|it| it["copied_share"].as_f64() > Some(0.9));
    let whole = profiles.iter().all(|it| it["complete_share"].as_f64() > Some(0.9));
    assert!(!copied || whole, "{profiles:#?}");
    // Threads of a node mostly wait.
    let waited = profiles.get(1).and_then(|it| it["weight"].as_u64());
    assert!(waited > Some(4_000_000_000), "{waited:?}");
    the_commands_take_the_event_that_is_named(dir);
}

fn the_commands_take_the_event_that_is_named(dir: &Path) {
    let top = |event: &[&str]| printed(dir, &[&["top", "last", "--limit", "8"], event].concat());
    let usual = top(&[]);
    assert!(usual.contains("samples") && usual.contains("by cpu-clock"), "{usual}");
    assert_eq!(top(&["--event", "cpu"]), usual);
    let waits = top(&["--event", "off-cpu"]);
    assert!(waits.contains(" ms ") && waits.contains("by context-switches"), "{waits}");
    let faults = top(&["--event", "page-faults"]);
    assert!(faults.contains("faults"), "{faults}");
    printed(dir, &["flame", "last", "--event", "off-cpu", "-o", "waits.svg"]);
    common::run(dir, &["top", "last", "--event", "brk"]).assert_error(1, &["brk"]);
}

#[test]
fn an_unknown_event_is_refused_with_those_that_are_known() {
    let dir = &*common::folder();
    let known = "cpu, off-cpu, context-switches, page-faults";
    for args in [
        &["record", "--pid", "1", "--event", "nmap"][..],
        &["top", "last", "--event", "nmap"],
        &["run", "demo", "--event", "nmap"],
        &["run", "demo", "--set", "profile.events=[\"nmap\"]"],
    ] {
        common::run(dir, args).ends(2).says(["nmap", known]);
    }
    common::run(dir, &["run", "demo", "--event", "cpu", "--event", "cpu"]).assert_error(2, &["twice"]);
}

/// A node as others start it: no flag has its JIT tell names, and it keeps no frame pointers.
#[test]
fn a_node_without_perf_support_has_names_and_whole_stacks() {
    testkit::needs_rabbitmq!();
    let dir = &*common::folder();
    let config = Config {
        guard: managed::guard(),
        // The last one holds.
        emulator_arguments: vec!["+JPperf".into(), "false".into()],
        ..Config::default()
    };
    let node = RabbitMq::start(&config, &mut |_| {}, &|| false).expect("a managed RabbitMQ");
    let (pid, url) = (node.pid().to_string(), node.url());
    let load = "producer queue://q --queue-type stream --rate 8000 --max-pending 500 --duration 7 --quiet --url";
    let load: Vec<&str> = load.split(' ').chain([url.as_str()]).collect();
    let load = common::start(common::bellows(dir, &load));
    let ended = common::run(dir, &["record", "--pid", &pid, "--duration", "4", "--quiet"]);
    load.end().assert_ok();
    assert!(!Path::new(&format!("/tmp/perf-{pid}.map")).exists());
    testkit::skip_for!(ended.may_not_profile());
    ended.assert_ok();
    let stacks = dir.join(ended.report()).with_file_name("cpu.stacks");
    let profile = Profile::open(stacks).expect("stacks");
    let summary = profile.summary(3);
    if summary.copied_share < 0.5 {
        testkit::skip!("this user may not copy stacks: {}", ended.stderr);
    }
    assert!(summary.samples > 300, "{summary:?}");
    assert!(summary.complete_share >= 0.97, "{summary:?}");
    assert!(summary.unknown_share < 0.01, "{summary:?}");
    let names = || profile.frames.iter().map(|frame| frame.name.as_str());
    assert!(names().filter(|it| it.starts_with("$rabbit_")).count() > 20);
    for name in ["$osiris_writer:handle_batch/2", "$global::process_main"] {
        assert!(names().any(|it| it == name), "{name}");
    }
}
