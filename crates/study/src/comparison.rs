//! The difference between archived runs of two sides.

use std::collections::HashSet;

use archive::{
    ComparedFamily, ComparedRun, ComparedSide, Comparison, DeliveryPromise, LeftOut, Quantity, RunBlocks, RunRecord,
    RunState, RunSummary, Tier, WarningCode,
};
use measure::{Metric, Nanos, Problem};
use serde_json::{Value, json};

use crate::figures::{ComparisonOptions, FigureKind, Undecided, decide, undecided};
use crate::spoiled::{spoiled, spoiled_by, spoiled_runs};

/// Parts of an experiment in which sides may differ: compared, or without effect on the load. A profile costs CPU.
const MAY_DIFFER: [&str; 5] = ["broker", "name", "description", "require", "note"];
const MOST_REASONS: usize = 20;

const HIDDEN_WORDS: &str = "words of the load and the broker that are hidden (***) were not compared";

const UNLIKE_WINDOWS: &str = "AMQP 0.9.1 and 1.0 have unlike windows here (in-flight limits, prefetch, link credit): \
                              rates and latencies compare these, too; the experiment matched sets them alike";

const MOST_SHOWN: usize = 100;
/// Letters of a changed value in the line of a side.
const MOST_OF_CHANGE: usize = 40;

const OTHER_PROMISE: &str = "the runs' acknowledgements mean different things";

type TextOfRun = fn(&RunRecord) -> String;

/// Texts that all runs have alike which may be compared, each with what is wrong where they differ, and the remedy.
/// Whatever is planned, what differs there would be taken for the broker's.
const SAME: [(TextOfRun, &str, &str); 3] = [
    (machine, "the runs were made on different machines", "compare runs of one machine"),
    (
        maker,
        "the runs were made by different versions of bellows, whose own cost differs",
        "make both sides with one version",
    ),
    (
        blocks,
        "the runs were profiled in different blocks (profile.blocks, --observer), and their figures include the cost \
         of profiling",
        "give both sides the same blocks",
    ),
];

/// Compares runs of two sides. Those that are not complete, or that a warning calls invalid, are left out. Sides of
/// other machines or loads, or of too few runs, are refused; `force` compares what can be all the same.
pub fn comparison(a: &[RunRecord], b: &[RunRecord], options: ComparisonOptions) -> Result<Comparison, Problem> {
    let [made_a, made_b] = [a, b].map(|side| side.iter().collect::<Vec<_>>());
    let mut gathered = gather(a, b, spoiled_runs(&made_a, &made_b), options)?;
    decide(gathered.figures.iter_mut(), options);
    Ok(gathered.decided())
}

pub(crate) struct Gathered {
    compared: Comparison,
    figures: Vec<Undecided>,
}

impl Gathered {
    fn decided(self) -> Comparison {
        let figures = self.figures.into_iter().map(|it| it.figure);
        Comparison { figures: figures.collect(), ..self.compared }
    }
}

/// Decides the figures of several pairs of sides at one level, and says so.
pub(crate) fn decide_together(mut all: Vec<Gathered>, options: ComparisonOptions) -> Vec<Comparison> {
    let figures = all.iter_mut().flat_map(|it| &mut it.figures);
    decide(figures, options);
    let count = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
    let family =
        ComparedFamily { cells: count(all.len()), figures: count(all.iter().map(|it| it.figures.len()).sum()) };
    let decided = all.into_iter().map(|it| Comparison { family: (family.cells > 1).then_some(family), ..it.decided() });
    decided.collect()
}

/// The figures of two sides with the difference of each; those that count `spoiled` runs stand first.
pub(crate) fn gather(
    a: &[RunRecord],
    b: &[RunRecord],
    spoiled: Vec<Undecided>,
    options: ComparisonOptions,
) -> Result<Gathered, Problem> {
    let (mut of_a, mut of_b) = counted_sides(a, b, options);
    // Runs that are evidence against their side belong to the same experiment, too.
    let sides = [("A", a), ("B", b)].map(|(name, all)| (name, evidence(all, options.force)));
    let mut forced = incomparable(&sides[0].1, &sides[1].1, options.planned);
    forced.extend(sides.iter().filter_map(|(name, side)| mixed(name, side)));
    let mut seen = HashSet::new();
    forced.retain(|problem| seen.insert(problem.sentence()));
    forced.truncate(MOST_REASONS);
    if let Some(first) = forced.first().filter(|_| !options.force) {
        let help = format!("{}, or compare anyway with --force", first.help);
        return Err(Problem::new(&first.cause, &first.value, help));
    }
    check_enough([&of_a, &of_b], [a, b], options)?;
    let is_none = |side: &Side<'_>| side.records.is_empty();
    if is_none(&of_a) || is_none(&of_b) {
        // A side spoiled all of its runs, and so all pairs: those of the other one are shown.
        let alone = ComparisonOptions { paired: false, ..options };
        let found = counted_sides(a, b, alone);
        if is_none(&found.0) || is_none(&found.1) {
            (of_a, of_b) = found;
        }
    }
    let mut figures = figures(&of_a, &of_b, options);
    let names = figures.iter().map(|it| it.figure.name.as_str());
    let per_time = per_time(names, of_a.summaries().chain(of_b.summaries()));
    let bounds = clock_bounds(&of_a.summaries().chain(of_b.summaries()).collect::<Vec<_>>());
    let runs = (of_a.records.len(), of_b.records.len());
    figures.splice(0..0, spoiled.into_iter().map(|it| it.of_runs(runs)));
    let changed = options.planned.then(|| change(&of_a, &of_b)).flatten();
    let (of_a, mut of_b) = (of_a.told(), of_b.told());
    // The brokers' names tell the sides apart otherwise.
    if let Some(changed) = changed.filter(|_| of_a.what == of_b.what) {
        of_b.what.push_str(&changed);
    }
    let compared = Comparison {
        schema: Comparison::SCHEMA.to_owned(),
        a: of_a,
        b: of_b,
        paired: options.paired && runs.0 == runs.1,
        level: options.level,
        forced: forced.iter().map(Problem::sentence).chain(unlike_windows(a, b)).collect(),
        remarks: [hidden_words(a.iter().chain(b)), per_time, bounds, promises(a, b)].into_iter().flatten().collect(),
        ..Comparison::default()
    };
    Ok(Gathered { compared, figures })
}

/// Refuses sides that have too few runs, or others than pairs have; that a side spoils all of its runs is a result.
fn check_enough(sides: [&Side<'_>; 2], made: [&[RunRecord]; 2], options: ComparisonOptions) -> Result<(), Problem> {
    // A run alone tells how well it knows itself, but pairs are for tests.
    let least = if options.paired || options.planned { 2 } else { 1 };
    let spoils = |all: &[RunRecord]| all.iter().any(|it| spoiled_by(it).is_some());
    let is_any = made.iter().any(|all| spoils(all));
    for ((name, side), all) in ["A", "B"].into_iter().zip(sides).zip(made) {
        // Of a pair the partner spoils both, and of what was planned that a side spoils its runs is what was found.
        if !(spoils(all) || (options.paired || options.planned) && is_any) {
            enough(name, side, least, options.planned)?;
        }
    }
    let [a, b] = sides.map(|it| it.records.len());
    let help = "leave out the unpaired run, or compare without --paired";
    let refused = Problem::new("pairs need as many runs on both sides", format!("{a} of A and {b} of B count"), help);
    refused.unless(!options.paired || a == b)
}

/// The runs of a side that count, and those that are evidence against it.
fn evidence(all: &[RunRecord], force: bool) -> Vec<&RunRecord> {
    let tells = |it: &&RunRecord| left_out(it, force).is_none() || spoiled_by(it).is_some();
    all.iter().filter(tells).collect()
}

struct Side<'a> {
    records: Vec<&'a RunRecord>,
    left_out: Vec<LeftOut>,
}

/// The runs of both sides that count. Of a pair both do, or none.
fn counted_sides<'r>(a: &'r [RunRecord], b: &'r [RunRecord], options: ComparisonOptions) -> (Side<'r>, Side<'r>) {
    let of = |all: &'r [RunRecord], others: &[RunRecord]| {
        let mut side = Side { records: Vec::new(), left_out: Vec::new() };
        for (place, record) in all.iter().enumerate() {
            let partner = others.get(place).filter(|_| options.paired);
            let is_spoiled = |it: &RunRecord| left_out(it, options.force).is_some();
            let alone = partner.is_some_and(is_spoiled);
            let alone = alone.then(|| "the other run of its pair does not count".to_owned());
            match left_out(record, options.force).or(alone) {
                None => side.records.push(record),
                Some(why) => side.left_out.push(LeftOut { id: record.id.clone(), why }),
            }
        }
        side
    };
    (of(a, b), of(b, a))
}

/// Why a run does not count; `None` where it does.
pub(crate) fn left_out(record: &RunRecord, force: bool) -> Option<String> {
    let is_whole = record.state == RunState::Complete && record.summary.is_some();
    spoiled(record).filter(|_| !(force && is_whole))
}

impl<'a> Side<'a> {
    fn summaries(&self) -> impl Iterator<Item = &'a RunSummary> {
        self.records.iter().filter_map(|it| it.summary.as_ref())
    }

    fn told(self) -> ComparedSide {
        let mut what: Vec<String> = self.records.iter().map(|it| version(it)).collect();
        what.dedup();
        let run = |record: &&RunRecord| {
            let tier = gravest(record);
            let (invalid, cautious) = (tier == Some(Tier::Invalid), tier == Some(Tier::Caution));
            ComparedRun { id: record.id.clone(), invalid, cautious }
        };
        // Until somebody reads its seconds.
        let why_not = Some("its seconds were not examined".to_owned());
        ComparedSide {
            what: what.join("; "),
            runs: self.records.iter().map(run).collect(),
            left_out: self.left_out,
            within_one_run: (self.records.len() == 1).then(|| RunBlocks { why_not, ..RunBlocks::default() }),
            logs: false,
        }
    }
}

/// The broker under load, with its version and its runtime's.
pub(crate) fn version(record: &RunRecord) -> String {
    let versions = &record.versions;
    let broker = versions.broker_name().unwrap_or_default();
    match &versions.runtime {
        Some(runtime) => format!("{broker} on {runtime}"),
        None => broker,
    }
}

/// The gravest tier of a run's warnings, as its own report has it.
fn gravest(record: &RunRecord) -> Option<Tier> {
    record.summary.iter().flat_map(|it| &it.warnings).map(|it| it.tier).min()
}

/// Refuses a side with too few runs; of `planned` ones the same command makes more.
fn enough(name: &str, side: &Side<'_>, least: usize, planned: bool) -> Result<(), Problem> {
    let help = match planned {
        true => "add pairs later with --resume, or make more (--pairs): a decision takes at least five",
        false => "make more with `bellows run … --repeat 8`: a decision takes at least five",
    };
    let count = side.records.len();
    let all = measure::counted((count + side.left_out.len()) as u64, "run");
    let cause = format!("side {name} has too few runs to show how much runs differ");
    Problem::new(cause, format!("{count} of {all} complete and valid"), help).unless(count >= least)
}

pub(crate) fn incomparable(a: &[&RunRecord], b: &[&RunRecord], planned: bool) -> Vec<Problem> {
    let (Some(first), others) = (a.first(), a.iter().skip(1).chain(b)) else { return Vec::new() };
    let mut found = Vec::new();
    for other in others {
        for (text, cause, help) in SAME {
            let (ours, theirs) = (text(first), text(other));
            if ours != theirs {
                found.push(Problem::new(cause, format!("{ours} and {theirs}"), help));
            }
        }
        if planned {
            continue;
        }
        let [ours, theirs] = [first, other].map(|it| DeliveryPromise::of(&it.experiment));
        if let Some((ours, theirs)) = ours.zip(theirs).filter(|(ours, theirs)| ours.is_unlike(theirs)) {
            let values = format!("{ours} - and {theirs}");
            found.push(Problem::new(OTHER_PROMISE, values, "compare runs that promise the same"));
        }
        if let Some((key, values)) = differing(&first.experiment, &other.experiment, "") {
            let (what, help) = experiments_differ(&key);
            found.push(Problem::new(format!("{what}: {key} differs"), values, help));
        }
    }
    found
}

/// Meanings of acknowledgements on both sides, where they differ.
fn promises(a: &[RunRecord], b: &[RunRecord]) -> Option<String> {
    let of = |side: &[RunRecord]| side.iter().find_map(|it| DeliveryPromise::of(&it.experiment));
    let (a, b) = of(a).zip(of(b)).filter(|(a, b)| a != b)?;
    Some(format!("acknowledgements mean different things. A is {a}. B is {b}."))
}

/// Unthrottled loads of two protocols, unless client and broker have the windows of both alike, as in `matched`.
fn unlike_windows(a: &[RunRecord], b: &[RunRecord]) -> Option<String> {
    let sides = [&a.first()?.experiment, &b.first()?.experiment];
    let loads = sides.map(|it| it.get("load").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default());
    let protocols = loads.map(|all| all.iter().map(protocol).collect::<Vec<_>>());
    let windows = loads.map(|all| all.iter().map(windows_of).collect::<Option<Vec<_>>>());
    let is_rated = loads.iter().all(|all| all.iter().all(|load| load.get("rate").is_some_and(|it| !it.is_null())));
    let sets_credit = |of: &Value| {
        let advanced = of.pointer("/broker/advanced").and_then(Value::as_str);
        advanced.is_some_and(|it| it.contains("max_link_credit"))
    };
    let are_alike = windows[0].is_some() && windows[0] == windows[1] && sides.into_iter().all(sets_credit);
    (protocols[0] != protocols[1] && !is_rated && !are_alike).then(|| UNLIKE_WINDOWS.to_owned())
}

fn protocol(load: &Value) -> &str {
    load.get("protocol").and_then(Value::as_str).unwrap_or(PROTOCOL)
}

/// Limits of a load's messages in flight, to and from the broker; `None` where the broker's may be lower.
fn windows_of(load: &Value) -> Option<[u64; 2]> {
    let number = |key: &str| load.get(key).and_then(Value::as_u64).filter(|it| *it > 0);
    let consumers = number("total-consumers").or_else(|| number("consumers"));
    let prefetch = if consumers.is_some() { number("prefetch")? } else { 0 };
    Some([number("max-pending")?, prefetch])
}

/// The effect on figures of a key that differs between two experiments, and what can be compared.
fn experiments_differ(key: &str) -> (&'static str, &'static str) {
    match key.split('.').next() {
        Some("phases" | "until") => (
            "the runs have different lengths: the longer one has more chances to be slow, and fills more \
             memory",
            "compare runs of one length",
        ),
        Some("profile") => (
            "the runs were profiled differently, and their figures include the cost of profiling",
            "compare runs with the same profile",
        ),
        Some("threads" | "ledger") => ("the runs had different generators", "compare runs with the same generator"),
        _ => ("the runs put different loads on the broker", "compare runs of one experiment"),
    }
}

/// The load of a run as others can have it, too: its experiment without what differs between sides.
pub(crate) fn load_of(record: &RunRecord) -> String {
    let mut load = record.experiment.clone();
    if let Some(keys) = load.as_object_mut() {
        keys.retain(|key, _| !MAY_DIFFER.contains(&key.as_str()));
    }
    load.to_string()
}

/// Mark of hidden words of the load or the broker in a run; a password, which changes no measurement, has none.
pub(crate) fn hidden_words<'r>(mut runs: impl Iterator<Item = &'r RunRecord>) -> Option<String> {
    let hides = |it: &Value| it.to_string().replace(r#""password":"***""#, "").contains("***");
    let parts = ["load", "prepare", "broker"];
    let is_hidden = runs.any(|run| parts.iter().filter_map(|key| run.experiment.get(key)).any(hides));
    is_hidden.then(|| HIDDEN_WORDS.to_owned())
}

/// Why the CPU of what is loaded is not per message, where it is a figure per time.
pub(crate) fn per_time<'r>(
    mut figures: impl Iterator<Item = &'r str>,
    mut runs: impl Iterator<Item = &'r RunSummary>,
) -> Option<String> {
    let cores = figures.find(|name| Quantity::is_cores(name))?;
    let target = cores.split(' ').next().unwrap_or(cores);
    let why = match runs.any(RunSummary::has_messages) {
        true => "messages were not the whole load",
        false => "no messages were counted",
    };
    Some(format!(
        "{why}: the {target}'s CPU is compared per time ({cores}), not per message, so a load that gets more done \
         uses more of it; costs of functions are not compared"
    ))
}

/// The widest bound of each latency that the clocks of two machines took.
fn clock_bounds(runs: &[&RunSummary]) -> Option<String> {
    let widest = |latency: Metric| {
        let bounds = runs.iter().filter_map(|it| it.clock_bound(latency)).filter(|it| !it.is_refused);
        let widest = Nanos::from_secs_f64(bounds.map(|it| it.bound_s).reduce(f64::max)?);
        Some(format!("{} ± {widest}", latency.name()))
    };
    let all: Vec<String> = Metric::MESSAGES.into_iter().filter_map(widest).collect();
    (!all.is_empty()).then(|| format!("{}: taken by the clocks of two machines, which agree to that", all.join(", ")))
}

/// Where two runs' brokers were that bellows did not start, where that differs: both addresses.
pub(crate) fn elsewhere(a: &RunRecord, b: &RunRecord) -> Option<String> {
    let place = |of: &RunRecord| {
        let broker = of.experiment.get("broker");
        let part = |key: &str| broker.and_then(|it| it.get(key)).cloned();
        json!([part("kind"), part("url")])
    };
    differing(&place(a), &place(b), "broker").map(|it| it.1)
}

fn machine(record: &RunRecord) -> String {
    format!("{} with {} cores", record.hardware.cpu, record.hardware.cores)
}

fn maker(record: &RunRecord) -> String {
    let mut warnings = record.summary.iter().flat_map(|it| &it.warnings);
    let is_debug = warnings.any(|it| it.code() == WarningCode::DebugBuild);
    let build = if is_debug { ", a debug build" } else { "" };
    format!("bellows {}{build}", record.versions.bellows)
}

fn blocks(record: &RunRecord) -> String {
    let length = record.experiment.pointer("/profile/blocks").and_then(Value::as_str);
    length.map_or_else(|| "no blocks".to_owned(), |it| format!("blocks of {it}"))
}

/// Why the runs of a side are not of one broker. One that never answered told no version, and is no other one.
fn mixed(name: &str, side: &[&RunRecord]) -> Option<Problem> {
    let (first, others) = side.split_first()?;
    let version = |of: fn(&RunRecord) -> Option<&String>| {
        let mut known = side.iter().filter_map(|it| of(it));
        let first = known.next()?;
        let other = known.find(|it| *it != first)?;
        Some(("version".to_owned(), format!("{first} and {other}")))
    };
    let broker = |it: &RunRecord| it.experiment.get("broker").cloned().unwrap_or_default();
    let mut others = others.iter();
    let (key, values) = version(|it| it.versions.broker.as_ref())
        .or_else(|| version(|it| it.versions.runtime.as_ref()))
        .or_else(|| others.find_map(|it| differing(&broker(first), &broker(it), "broker")))?;
    let cause = format!("the runs of side {name} are of several brokers: {key} differs");
    Some(Problem::new(cause, values, "choose runs of one broker"))
}

/// The first key that differs between planned sides, of the load before the broker's: `; load.0.rate 100 → 200`.
fn change(a: &Side<'_>, b: &Side<'_>) -> Option<String> {
    let [a, b] = [a.records.first()?, b.records.first()?].map(|it| &it.experiment);
    let of_broker = || differing(a.get("broker")?, b.get("broker")?, "broker");
    let (key, _) = differing(a, b, "").or_else(of_broker)?;
    let value = |of: &Value| {
        let value = of.pointer(&format!("/{}", key.replace('.', "/")));
        let value = value.map_or_else(|| "none".to_owned(), Value::to_string);
        if value.chars().count() > MOST_OF_CHANGE { "…".to_owned() } else { value }
    };
    let (a, b) = (value(a), value(b));
    Some(if a == b { format!("; {key} differs") } else { format!("; {key} {a} → {b}") })
}

/// The first key of two experiments whose values differ, and both values, cut.
fn differing(a: &Value, b: &Value, path: &str) -> Option<(String, String)> {
    let below = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    match (a, b) {
        (Value::Object(of_a), Value::Object(of_b)) => {
            let keys = of_a.keys().chain(of_b.keys());
            let mut compared = keys.filter(|key| !path.is_empty() || !MAY_DIFFER.contains(&key.as_str()));
            compared.find_map(|key| {
                let of = |all: &serde_json::Map<String, Value>| all.get(key).cloned().unwrap_or_default();
                differing(&of(of_a), &of(of_b), &below(key))
            })
        }
        (Value::Array(of_a), Value::Array(of_b)) => {
            let of = |all: &[Value], index: usize| all.get(index).cloned().unwrap_or_default();
            (0..of_a.len().max(of_b.len()))
                .find_map(|index| differing(&of(of_a, index), &of(of_b, index), &below(&index.to_string())))
        }
        (a, b) if is_default(a, path) && is_default(b, path) => None,
        (a, b) => (a != b).then(|| {
            let shown = |it: &Value| if is_default(it, path) { format!("{PROTOCOL:?}") } else { it.to_string() };
            let [a, b] = [a, b].map(|it| shown(it).chars().collect::<Vec<char>>());
            let common = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            let [a, b] = [a, b].map(|it| cut(&it, common));
            (path.to_owned(), format!("{a} and {b}"))
        }),
    }
}

/// The protocol of a load that names none.
const PROTOCOL: &str = "amqp091";

/// Whether a load's protocol is that of one which names none.
fn is_default(value: &Value, path: &str) -> bool {
    path.ends_with(".protocol") && (value.is_null() || value == PROTOCOL)
}

/// A value as JSON around the letter from which it differs: an ellipsis for what is left out, its end stays.
fn cut(value: &[char], differs_at: usize) -> String {
    let from = differs_at.saturating_sub(MOST_SHOWN / 2).min(value.len().saturating_sub(MOST_SHOWN));
    let shown = value.iter().skip(from).take(MOST_SHOWN);
    let before = value.iter().take(usize::from(from > 0)).chain((from > 0).then_some(&'…'));
    let is_cut = from + MOST_SHOWN < value.len();
    let after = is_cut.then_some(&'…').into_iter().chain(value.last().filter(|_| is_cut));
    before.chain(shown).chain(after).collect()
}

/// Rates that are nothing in some runs alone, also where a rate was requested and is no figure: that a broker stopped
/// to deliver, or to take messages, is one. The last of the ways of a message stands for those before it.
pub(crate) fn stopped_rates(runs: &[&RunSummary]) -> impl Iterator<Item = Quantity> {
    let kinds = [&["received rate", "completed rate", "sent rate"][..], &["requests rate", "cycles rate"]];
    kinds.into_iter().filter_map(|names| {
        let mut rates = names.iter().filter_map(|it| it.parse::<Quantity>().ok());
        rates.find(|rate| {
            let known = || runs.iter().filter_map(|it| rate.of(it).ok());
            known().any(|it| it <= 0.0) && known().any(|it| it > 0.0)
        })
    })
}

fn figures(a: &Side<'_>, b: &Side<'_>, options: ComparisonOptions) -> Vec<Undecided> {
    let mut quantities: Vec<Quantity> = Vec::new();
    let runs: Vec<&RunSummary> = a.summaries().chain(b.summaries()).collect();
    for quantity in runs.iter().flat_map(|summary| Quantity::decided(summary)) {
        // A rate that some runs alone have missed stands before what it cost.
        match quantities.contains(&quantity) {
            true => {}
            false if quantity.is_rate() => quantities.insert(0, quantity),
            false => quantities.push(quantity),
        }
    }
    let stopped: Vec<Quantity> = stopped_rates(&runs).filter(|it| !quantities.contains(it)).collect();
    quantities.splice(0..0, stopped);
    let replaced = |it: &Quantity| quantities.iter().any(|other| other.stands_for(it));
    let kept: Vec<bool> = quantities.iter().map(|it| !replaced(it)).collect();
    let quantities = quantities.into_iter().zip(kept).filter_map(|(it, is_kept)| is_kept.then_some(it));
    let of = |quantity: &Quantity, side: &Side<'_>| -> Vec<Option<f64>> {
        side.summaries().map(|summary| quantity.of(summary).ok()).collect()
    };
    let sent: u64 = runs.iter().map(|it| it.flow().sent.total).sum();
    let messages = sent as f64 / (a.records.len() + b.records.len()).max(1) as f64;
    let decided = quantities.filter_map(|quantity| {
        let (of_a, of_b) = (of(&quantity, a), of(&quantity, b));
        let kind = FigureKind::of(&quantity, messages, options);
        undecided(&kind, of_a, of_b, options)
    });
    decided.collect()
}

#[cfg(test)]
#[path = "comparison_level_tests.rs"]
pub(crate) mod comparison_level_tests;
#[cfg(test)]
#[path = "comparison_spoiled_tests.rs"]
mod comparison_spoiled_tests;
#[cfg(test)]
#[path = "comparison_tests.rs"]
mod comparison_tests;
