//! Named series, of the machine, of the broker's processes and of scraped pages, as panels on the time axis.

use std::collections::BTreeMap;

use archive::{ERLANG_MEMORY, FaultOutcome, NamedSeries, SeriesName, SeriesUnit, read_named_series};
use serde::Serialize;

use super::changes;
use super::series::short;

/// Lines of a panel; more are indistinguishable.
const MOST_LINES: usize = 8;
/// Values of a line. Those of longer runs are means over several intervals.
const MOST_POINTS: usize = 1_500;
/// Panels of a run.
const MOST_PANELS: usize = 200;
/// Sources that are read in every run, and therefore shown where somebody asks for them.
const ALWAYS_READ: [&str; 2] = ["machine", "broker"];
/// Series of Erlang nodes' memory beside those that somebody asked for.
const BESIDE_MEMORY: [&str; 3] = ["blocks", "page cache of the machine", "time of a reading"];
/// Gap in a panel: more than so many times the usual distance between values.
const GAP: f64 = 2.5;

/// Series of one source and name, drawn together.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct NamedPanel {
    /// Source of the values: the machine, the broker, or a scrape.
    pub source: String,
    /// Quantity that is drawn.
    pub name: String,
    /// Unit of its values.
    #[cfg_attr(
        test,
        ts(type = "'count' | 'per-second' | 'bytes' | 'bytes-per-second' | 'cores' | 'share' | 'seconds'")
    )]
    pub unit: SeriesUnit,
    /// Whether it is shown without being asked for.
    pub shown: bool,
    /// Start of each interval in seconds since the origin.
    pub t: Vec<f64>,
    /// Length of each in seconds.
    pub dt: Vec<f64>,
    /// The largest first.
    pub lines: Vec<NamedLine>,
    /// Series that were left out because they are smaller.
    pub left_out: usize,
}

/// A series of a panel.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct NamedLine {
    /// The values of its labels; empty where it has none.
    pub label: String,
    /// One entry per interval; `null` where nothing was read.
    pub values: Vec<Option<f64>>,
}

/// The panels of a run; none, and a note, where its named series cannot be read.
pub(super) fn read(dir: &std::path::Path, faults: &[FaultOutcome], notes: &mut Vec<String>) -> Vec<NamedPanel> {
    match read_named_series(dir) {
        Ok(series) => panels(series, faults),
        Err(e) => {
            notes.push(format!("the named series cannot be read: {e}"));
            Vec::new()
        }
    }
}

/// In the order in which series of each were first defined.
fn panels(all: Vec<NamedSeries>, faults: &[FaultOutcome]) -> Vec<NamedPanel> {
    let mut groups: Vec<Vec<NamedSeries>> = Vec::new();
    let mut places = BTreeMap::new();
    for series in all {
        let name = &series.name;
        // Series that are always zero say nothing, unless somebody asked for them.
        let is_asked_for = !ALWAYS_READ.contains(&name.source.as_str());
        if series.points.is_empty() || is_zero(&series) && !is_asked_for {
            continue;
        }
        let key = (name.source.clone(), name.name.clone(), name.unit, own_node(name));
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(series),
            None => groups.push(vec![series]),
        }
    }
    if groups.len() > MOST_PANELS {
        groups.sort_by_key(|group| group.iter().all(is_zero));
    }
    groups.truncate(MOST_PANELS);
    by_node(groups).into_iter().filter_map(|group| panel(group, faults)).collect()
}

/// Puts series of several nodes of a cluster beside each other, in the order of the nodes, whosever page came first.
fn by_node(groups: Vec<Vec<NamedSeries>>) -> Vec<Vec<NamedSeries>> {
    let place = |group: &[NamedSeries]| {
        let name = &group.first()?.name;
        let of_page = name.source.rsplit_once(" of node ");
        let (base, node) = match own_node(name) {
            Some(node) => (name.source.clone(), node),
            None => of_page.map(|(base, node)| (base.to_owned(), node.to_owned()))?,
        };
        Some((base, node.trim_start_matches("node ").parse::<u32>().ok()?))
    };
    let mut firsts = BTreeMap::new();
    let keyed = groups.into_iter().enumerate().map(|(at, group)| match place(&group) {
        None => ((at, 0), group),
        Some((base, node)) => ((*firsts.entry(base).or_insert(at), node), group),
    });
    let mut keyed: Vec<((usize, u32), Vec<NamedSeries>)> = keyed.collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, group)| group).collect()
}

fn is_zero(series: &NamedSeries) -> bool {
    series.points.iter().all(|point| point.value == 0.0)
}

fn panel(mut group: Vec<NamedSeries>, faults: &[FaultOutcome]) -> Option<NamedPanel> {
    let name = group.first()?.name.clone();
    group.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
    let left_out = group.len().saturating_sub(MOST_LINES);
    group.truncate(MOST_LINES);
    // A node has the same place, and so the same colour, in every panel.
    group.sort_by_key(|series| node(series).map(str::to_owned));
    // A page is made when it is requested, and its values hold until the next.
    let is_of_seconds = ALWAYS_READ.contains(&name.source.as_str()) || name.source == ERLANG_MEMORY;
    if is_of_seconds && !name.unit.is_rate() {
        end_with_readings(&mut group, &changes_of(&name, faults));
    }
    let times = Times::of(&group);
    let lines = group.iter().map(|series| NamedLine { label: label(series), values: times.column(series) });
    Some(NamedPanel {
        shown: is_shown(&name),
        name: match own_node(&name) {
            Some(node) => format!("{}, node {node}", name.name),
            None => name.name,
        },
        source: name.source,
        unit: name.unit,
        lines: lines.collect(),
        t: times.intervals.iter().map(|(t, _)| short(*t)).collect(),
        dt: times.intervals.iter().map(|(_, dt)| short(*dt)).collect(),
        left_out,
    })
}

/// When faults killed the source of these series, and when it was back.
fn changes_of(name: &SeriesName, faults: &[FaultOutcome]) -> Vec<f64> {
    if !["broker", ERLANG_MEMORY].contains(&name.source.as_str()) {
        return Vec::new();
    }
    let node = own_node(name);
    let is_its = |fault: &&FaultOutcome| {
        let number = fault.node.unwrap_or(0).to_string();
        node.as_ref().is_none_or(|node| *node == number)
    };
    faults.iter().filter(is_its).flat_map(changes).collect()
}

/// Gives readings the interval that ends with them, as rates have: memory stands at the same place as the CPU of its
/// second. Where a process went away or came back within one, the value before holds until then.
fn end_with_readings(group: &mut [NamedSeries], changes: &[f64]) {
    let mut times: Vec<f64> = group.iter().flat_map(|it| &it.points).map(|point| point.t).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    for point in group.iter_mut().flat_map(|it| &mut it.points) {
        let (read, length) = (point.t, point.dt);
        let earlier = times.partition_point(|it| *it < read).checked_sub(1).and_then(|at| times.get(at));
        let later = times.get(times.partition_point(|it| *it <= read)).copied().unwrap_or(f64::INFINITY);
        // Nothing was read before the run began.
        let first = if read > 0.0 { 0.0 } else { read - length };
        let begins = changes.iter().chain(earlier).filter(|it| **it < read);
        point.t = begins.fold((read - length).max(first), |latest, it| latest.max(*it));
        let ends = changes.iter().filter(|it| **it > read && **it < later.min(read + length));
        let end = ends.fold(f64::INFINITY, |least, it| least.min(*it));
        point.dt = if end.is_finite() { end - point.t } else { read - point.t };
    }
}

/// Whether series of this name are shown before anybody asks for them.
fn is_shown(name: &SeriesName) -> bool {
    let is_beside = name.source == ERLANG_MEMORY && BESIDE_MEMORY.contains(&name.name.as_str());
    !ALWAYS_READ.contains(&name.source.as_str()) && !is_beside
}

/// The cluster node whose panel a series belongs to, if further labels distinguish it from others of that node.
fn own_node(name: &SeriesName) -> Option<String> {
    let node = name.labels.get("node").filter(|_| name.labels.len() > 1);
    node.cloned().filter(|_| name.source == ERLANG_MEMORY)
}

/// The node of a cluster that a series is of, if nothing else distinguishes it.
fn node(series: &NamedSeries) -> Option<&str> {
    let labels = &series.name.labels;
    labels.get("node").filter(|_| labels.len() == 1).map(String::as_str)
}

fn label(series: &NamedSeries) -> String {
    if let Some(node) = node(series) {
        return format!("node {node}");
    }
    let is_in_title = own_node(&series.name).is_some();
    let labels = series.name.labels.iter();
    let told = labels.filter(|(key, _)| !(is_in_title && *key == "node"));
    let values: Vec<&str> = told.map(|(_, value)| value.as_str()).collect();
    values.join(", ")
}

fn mean(series: &NamedSeries) -> f64 {
    let sum: f64 = series.points.iter().map(|point| point.value).sum();
    sum / series.points.len().max(1) as f64
}

/// The time from the end of an interval to the begin of the next, if unusually long.
fn gap(end: f64, begin: f64, longest: f64) -> Option<(f64, f64)> {
    let length = begin - end;
    (longest > 0.0 && length > longest).then_some((end, length))
}

/// The middle one of the distances between times, in their order; 0 for fewer than three.
fn usual_distance(times: &[(f64, f64)]) -> f64 {
    let pairs = times.iter().zip(times.iter().skip(1));
    let mut distances: Vec<f64> = pairs.map(|(a, b)| b.0 - a.0).collect();
    distances.sort_by(f64::total_cmp);
    let middle = distances.get(distances.len() / 2).copied();
    middle.filter(|_| distances.len() > 1).unwrap_or_default()
}

/// The intervals of a panel: every time at which one of its series has a value, or several of them together.
struct Times {
    intervals: Vec<(f64, f64)>,
    /// Index of the interval, by the bits of a time, which is never negative zero or NaN.
    places: BTreeMap<u64, usize>,
}

impl Times {
    fn of(group: &[NamedSeries]) -> Self {
        let points = group.iter().flat_map(|series| &series.points);
        let mut all: Vec<(f64, f64)> = points.map(|point| (point.t, point.dt)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.dedup_by(|a, b| a.0 == b.0);
        let together = all.len().div_ceil(MOST_POINTS).max(1);
        let mut intervals: Vec<(f64, f64)> = Vec::new();
        let mut places = BTreeMap::new();
        let longest = GAP * usual_distance(&all);
        for times in all.chunks(together) {
            let (Some((from, _)), Some((t, dt))) = (times.first(), times.last()) else { continue };
            let before = intervals.last();
            // It has no value, so that no line is drawn through it.
            let gap = before.and_then(|(begin, dt)| gap(begin + dt, *from, longest));
            intervals.extend(gap);
            let place = intervals.len();
            places.extend(times.iter().map(|(t, _)| (t.to_bits(), place)));
            intervals.push((*from, t + dt - from));
        }
        Self { intervals, places }
    }

    /// One value per interval: the mean of those that fell into it.
    fn column(&self, series: &NamedSeries) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0u32); self.intervals.len()];
        for point in &series.points {
            let place = self.places.get(&point.t.to_bits()).copied();
            if let Some((sum, count)) = place.and_then(|place| sums.get_mut(place)) {
                *sum += point.value;
                *count += 1;
            }
        }
        let means = sums.into_iter().map(|(sum, count)| {
            let mean = sum / f64::from(count);
            (count > 0).then(|| short(mean))
        });
        means.collect()
    }
}

#[cfg(test)]
mod tests {
    use archive::NamedPoint;

    use super::*;
    use crate::tests::fixtures::fault;

    fn series(source: &str, label: &str, values: &[(f64, f64)]) -> NamedSeries {
        let name = SeriesName::new(source, "memory", SeriesUnit::Bytes).with("kind", label);
        let points = values.iter().map(|(t, value)| NamedPoint { t: *t, dt: 1.0, value: *value });
        NamedSeries { name, points: points.collect() }
    }

    fn memory_of(node: &str, kind: &str) -> NamedSeries {
        let name = SeriesName::new(ERLANG_MEMORY, "both sides", SeriesUnit::Bytes);
        let name = name.with("kind", kind).with("node", node);
        NamedSeries { name, ..series("", "", &[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]) }
    }

    #[test]
    fn series_of_one_name_share_a_panel_the_largest_first() {
        let all = vec![
            series("machine", "small", &[(0.0, 1.0), (1.0, 2.0)]),
            series("page", "x", &[(0.5, 7.0)]),
            series("machine", "large", &[(1.0, 20.0), (2.0, 30.0)]),
            series("machine", "never", &[(0.0, 0.0), (2.0, 0.0)]),
        ];
        let panels = panels(all, &[]);
        let [machine, page] = panels.as_slice() else {
            panic!("{panels:?}");
        };
        assert_eq!((machine.shown, page.shown), (false, true));
        // Each is of the second that ended when it was read: it stood a second right of the CPU.
        assert_eq!((&machine.t[..], &machine.dt[..]), (&[-1.0, 0.0, 1.0][..], &[1.0; 3][..]));
        let lines = machine.lines.iter().map(|it| (&*it.label, &*it.values));
        let expected: [(&str, &[Option<f64>]); 2] =
            [("large", &[None, Some(20.0), Some(30.0)]), ("small", &[Some(1.0), Some(2.0), None])];
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_a_killed_node_held_is_drawn_until_the_kill() {
        let kill = FaultOutcome { for_good: true, ..fault("kill", Some(1), 2.25) };
        let all = vec![memory_of("0", "resident"), memory_of("1", "resident"), series("machine", "", &[(2.0, 1.0)])];
        let panels = panels(all, &[kill]);
        let last = panels.iter().map(|it| it.dt.last().copied());
        assert_eq!(last.flatten().collect::<Vec<f64>>(), [1.0, 1.25, 1.0]);
    }

    #[test]
    fn nodes_stand_in_their_order_and_each_has_a_panel_of_its_memory() {
        let of = |(node, value): (&str, f64)| {
            let name = SeriesName::new("broker", "memory of nodes", SeriesUnit::Bytes).with("node", node);
            NamedSeries { name, ..series("broker", "", &[(0.0, value)]) }
        };
        let panels = panels([("1", 9.0), ("0", 5.0), ("2", 7.0)].map(of).into(), &[]);
        let labels: Vec<&str> = panels[0].lines.iter().map(|it| it.label.as_str()).collect();
        assert_eq!(labels, ["node 0", "node 1", "node 2"]);
        let all = [("0", "resident"), ("0", "carriers"), ("1", "resident")];
        let panels = super::panels(all.map(|(node, kind)| memory_of(node, kind)).into(), &[]);
        let told = panels.iter().map(|it| (it.name.as_str(), it.lines.len(), it.shown));
        assert_eq!(told.collect::<Vec<_>>(), [("both sides, node 0", 2, true), ("both sides, node 1", 1, true)]);
        assert_eq!(panels[1].lines[0].label, "resident");
    }

    #[test]
    fn a_line_breaks_where_nothing_was_read() {
        let read = [0.0, 1.0, 2.0, 3.0, 9.0, 10.0];
        let panels = panels(vec![series("page", "x", &read.map(|t| (t, 1.0)))], &[]);
        let panel = testkit::only(&panels);
        let places = panel.t.iter().zip(&panel.lines[0].values);
        let empty: Vec<f64> = places.filter(|(_, v)| v.is_none()).map(|(t, _)| *t).collect();
        assert_eq!((empty, panel.t.len()), (vec![4.0], 7));
        assert_eq!(panel.dt[4], 5.0);
    }

    #[test]
    fn too_many_lines_and_too_long_runs_are_bounded_and_keep_their_means() {
        let long: Vec<(f64, f64)> = (0..4_000).map(|i| (f64::from(i), f64::from(i % 2))).collect();
        let mut all = vec![series("machine", "long", &long)];
        all.extend((0..20).map(|i| series("page", &i.to_string(), &[(1.0, f64::from(i) + 1.0)])));
        let panels = panels(all, &[]);
        let [machine, page] = panels.as_slice() else {
            panic!("{panels:?}");
        };
        assert!(machine.t.len() <= MOST_POINTS && machine.t.len() > MOST_POINTS / 2);
        let values: Vec<f64> = machine.lines[0].values.iter().copied().flatten().collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let covered: f64 = machine.dt.iter().sum();
        assert!((covered - 4_000.0).abs() < 0.5, "{covered}");
        assert_eq!((page.lines.len(), page.left_out), (MOST_LINES, 12));
        assert_eq!(page.lines[0].label, "19");
    }
}
