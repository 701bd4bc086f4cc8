//! Runs that are held to their requirements.

use crate::common;

use std::fs;

use common::{bellows, folder, run, seconds_recorded, start, wait_for};

fn demo(more: &[&str]) -> common::Ended {
    let short =
        common::words("demo --no-profile --set phases.warmup=0s --set phases.measure=1s --set load.0.rate=2000");
    run(&folder(), &[&short[..], more].concat())
}

#[test]
fn the_exit_code_says_whether_the_requirements_were_met() {
    demo(&["--require", "lost = 0", "--require", "sent rate >= 1k"]).ok().prints_not(["MISSED"]);

    demo(&["--require=end-to-end p50 >= 1h", "--require", "lost = 0"]).ends(3).prints(["end-to-end p50 >= 1h: "]);

    // 2,000 messages have too few beyond the 99.99th percentile.
    demo(&["--require", "end-to-end p99.99 < 1h"]).ends(4).prints(["end-to-end p99.99 < 1h: fewer than ten samples"]);
    // What was missed counts more than what cannot be told; the old name has the opposite sense.
    demo(&["--require", "end-to-end p99.99 < 1h", "--fail-if", "sent rate > 1"])
        .ends(3)
        .prints(["MISSED", "sent rate <= 1: "]);
}

#[test]
fn requirements_stand_in_files_json_and_junit() {
    let dir = &*folder();
    let text = "[broker]\nkind = \"embedded\"\n[profile]\nevents = []\n\
                [phases]\nwarmup = \"0s\"\nmeasure = \"500ms\"\n\
                [[load]]\ndestination = \"queue://q\"\nrate = \"1k\"\n\
                [[require]]\nthat = \"lost = 0\"\n[[require]]\nthat = \"stalls < 0\"\n";
    fs::write(dir.join("held.toml"), text).expect("file");
    let summary = run(dir, &["run", "held.toml", "--json", "--quiet", "--junit", "out.xml"]).ends(3).printed();
    assert_eq!(summary["requirements"][0]["met"], true, "{summary:#}");
    assert_eq!(summary["requirements"][1]["met"], false, "{summary:#}");
    common::schema::assert_valid(&summary);
    let parts = [
        "<testsuite name=\"run\"",
        "tests=\"3\" failures=\"1\" errors=\"0\"",
        "name=\"the run\"",
        "name=\"stalls &lt; 0\"",
        "<failure message=\"missed: ",
        "<system-out>met: 0</system-out>",
    ];
    common::file_has(dir.join("out.xml"), parts);
}

/// A CI server must not see the green file of an earlier run.
#[test]
fn a_run_that_measures_nothing_passes_nothing() {
    let dir = &*folder();
    fs::write(dir.join("old.xml"), "<testsuite/>").expect("file");
    let args = ["client", "queue://q", "--url", "amqp://127.0.0.1:1", "--require=lost = 0", "--junit", "old.xml"];
    run(dir, &args).assert_error(1, &["127.0.0.1:1"]);
    let xml = fs::read_to_string(dir.join("old.xml")).expect("old.xml");
    // The CI server shows the cause and the remedy, which were on standard error only.
    testkit::assert_has(&xml, ["errors=\"1\"", "127.0.0.1:1"]);
    testkit::assert_lacks(&xml, ["it has not ended"]);

    fs::write(dir.join("none.xml"), "<testsuite/>").expect("file");
    run(dir, &["run", "nosuch.toml", "--junit", "none.xml"]).ends(2).says(["nosuch.toml"]);
    common::file_has(dir.join("none.xml"), ["<error message=\"cannot read nosuch.toml"]);

    let line = common::words("demo --no-profile --set phases.warmup=30s --junit stopped.xml");
    let started = start(bellows(dir, &[&line[..], &["--require", "stalls <= 99"]].concat()));
    wait_for("second", || seconds_recorded(dir) > 0);
    started.signal("INT");
    started.end().ends(130).says(["stopped in warm-up: nothing measured"]);
    common::file_has(dir.join("stopped.xml"), ["<error message=\"stopped in warm-up: nothing measured"]);

    let refused = run(dir, &["demo", "--junit", "/nonexistent/x.xml"]);
    assert_eq!(refused.assert_error(1, &["/nonexistent/x.xml"]).stdout, "");
}

#[test]
fn what_cannot_be_required_is_refused() {
    let dir = &*folder();
    for (condition, part) in [
        ("p99 < 20ms", "is not a quantity"),
        ("end-to-end p99 < 20", "with its unit"),
        ("lost", "compares nothing"),
        ("lost", "\"lost = 0\""),
    ] {
        run(dir, &["demo", "--require", condition]).ends(2).says([part]);
    }
    let args = ["demo", "--no-profile", "--require", "connect time p99 < 1s"];
    run(dir, &args).assert_error(2, &["no latency called \"connect time\""]);
}
