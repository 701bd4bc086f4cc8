//! The memory of a real RabbitMQ from both sides under load: equal to the helper's view of its allocators, and with a
//! gap while the node stands still.

use crate::common;
use crate::common::managed::{self, SharedNode};

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use archive::{ERLANG_MEMORY, NamedSeries, read_named_series};
use common::{bellows, only_run, start, stop_for};
use erlang::alloc::{NodeMemory, node_memory};
use erlang::{Helper, Node};

/// Largest relative difference of two sides that are read at two times and in two ways.
const CLOSE: f64 = 0.08;
const STOPPED: Duration = Duration::from_secs(7);

fn experiment(dir: &Path, rabbit: &SharedNode) {
    let text = format!(
        "phases = {{ warmup = \"0s\", measure = \"20s\", drain = \"10s\" }}\nprofile.events = []\n\
         {}memory-every = \"250ms\"\n[[load]]\ndestination = \"queue://memory\"\nrate = 50\n",
        rabbit.broker()
    );
    std::fs::write(dir.join("m.toml"), text).expect("a file");
}

/// The series of a name, each by its one label.
fn series<'a>(all: &'a [NamedSeries], name: &str) -> BTreeMap<&'a str, &'a NamedSeries> {
    let own = all.iter();
    let own = own.filter(|it| it.name.source == ERLANG_MEMORY && it.name.name == name);
    own.map(|it| (it.name.labels.values().next().map_or("", String::as_str), it)).collect()
}

/// The value nearest to a time of the run.
fn at(series: &NamedSeries, t: f64) -> f64 {
    let away = |it: &&archive::NamedPoint| (it.t - t).abs();
    let nearest = series.points.iter().min_by(|a, b| away(a).total_cmp(&away(b)));
    nearest.expect("a value").value
}

fn assert_close(what: &str, run: f64, asked: u64) {
    let asked = asked as f64;
    let difference = (run - asked).abs() / asked;
    assert!(difference < CLOSE, "{what}: {run} in the run, {asked} asked");
}

/// Each side of the run equals the helper's.
fn sides_agree(all: &[NamedSeries], t: f64, asked: &NodeMemory) {
    let sides = series(all, "both sides");
    let carriers = asked.carriers();
    let resident = asked.machine.resident.expect("resident memory");
    assert_close("resident", at(sides["resident"], t), resident);
    assert_close("carriers", at(sides["carriers"], t), carriers.carrier_bytes);
    for kind in ["total", "processes", "ets", "code", "atom"] {
        let run = at(sides[format!("VM {kind}").as_str()], t);
        assert_close(kind, run, asked.vm[kind]);
    }
    let of = series(all, "carriers");
    for name in ["eheap_alloc", "ets_alloc", "binary_alloc"] {
        let told = asked.allocators.iter().find(|it| it.name == name);
        let told = told.expect("an allocator").all().carrier_bytes;
        let run = at(of[name], t);
        // Heaps come and go by carriers of megabytes.
        assert!((run - told as f64).abs() < 0.3 * told as f64 + 4e6, "{name}: {run}, {told}");
    }
    let sum: f64 = of.values().map(|it| at(it, t)).sum();
    assert_close("all carriers", sum, carriers.carrier_bytes);
    let blocks: f64 = series(all, "blocks").values().map(|it| at(it, t)).sum();
    // So do the blocks within.
    let asked = carriers.block_bytes as f64;
    assert!((blocks - asked).abs() < CLOSE * asked + 4e6, "all blocks: {blocks} in the run, {asked} asked");
}

/// The named parts lead from the VM's total to resident memory at every time.
fn parts_add_up(all: &[NamedSeries]) {
    let (sides, parts) = (series(all, "both sides"), series(all, "between the sides"));
    assert!(parts.len() >= 5, "{parts:?}");
    let (total, resident) = (&sides["VM total"].points, &sides["resident"].points);
    assert!(total.len() > 20, "{} readings", total.len());
    for (i, (total, resident)) in total.iter().zip(resident).enumerate() {
        let between: f64 = parts.values().map(|it| it.points[i].value).sum();
        let sum = total.value + between;
        // The machine's parts of resident memory are counted one after the other.
        assert!((sum - resident.value).abs() < 0.01 * resident.value, "{i}: {sum}, {resident:?}");
    }
}

#[test]
fn both_sides_are_series_of_a_run_with_a_gap_while_the_node_stands_still() {
    let (dir, rabbit) = &managed::shared!();
    experiment(dir, rabbit);
    let run = start(bellows(dir, &["run", "m.toml"]));
    common::wait_for("the run's folder", || dir.join("runs").read_dir().is_ok_and(|mut it| it.next().is_some()));
    std::thread::sleep(Duration::from_secs(5));
    let node = Node::connect(&rabbit.erlang()).expect("a connection");
    let helper = Helper::load(&node).expect("the helper");
    let asked = node_memory(&helper).expect("its memory");
    let asked_at = measure::wall_clock_unix_ns();
    helper.close().expect("a clean node");
    std::thread::sleep(Duration::from_secs(2));
    stop_for(rabbit.pid(), STOPPED);
    run.end_of_long().assert_ok();

    let folder = only_run(dir);
    let all = read_named_series(&folder).expect("series");
    let record = common::read_json(&folder.join("run.json"));
    let origin = record["origin_unix_ns"].as_u64().expect("a time");
    let t = asked_at.saturating_sub(origin) as f64 / 1e9;
    sides_agree(&all, t, &asked);
    parts_add_up(&all);
    let times: Vec<f64> = (series(&all, "time of a reading")[""].points.iter()).map(|it| it.t).collect();
    let gaps = times.iter().zip(times.iter().skip(1)).map(|(a, b)| b - a);
    let long: Vec<f64> = gaps.filter(|gap| *gap > STOPPED.as_secs_f64() - 1.0).collect();
    assert!(matches!(long.as_slice(), [gap] if *gap < STOPPED.as_secs_f64() + 6.0), "{times:?}");
    let events = record["events"].to_string();
    testkit::assert_has(&events, ["cannot be read: ", "is read again", "readings, each in "]);
    let queue = &record["topology"]["queues"][0];
    assert!(queue["name"] == "memory" && queue["consumers"].as_u64() >= Some(1), "{queue:#}");
    let cookie = std::fs::read_to_string(rabbit.cookie_file()).expect("the cookie");
    testkit::assert_lacks(record.to_string(), [cookie.trim()]);
}
