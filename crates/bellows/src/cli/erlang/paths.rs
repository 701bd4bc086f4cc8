//! Tables and data of paths of calls: durations, costs of functions on the path, and the difference of slow calls.

use std::time::Duration;

use erlang::calls::{Accumulated, Comparison, CountedFunction, Difference, ObserverEffect, Path, PerCall};
use measure::{Nanos, count, counted};
use report::console::{grid, sanitise, sentence};
use serde::Serialize;

use crate::{Failure, output};

/// Share of the additional time of slow calls below which a function is not shown.
const LEAST_SHARE: f64 = 0.01;
/// Functions that were left out, and are shown.
const LEFT_OUT: usize = 8;
/// Functions with more time than a call of the entry that are named.
const LONGER: usize = 3;
/// Functions in the table of slow calls.
const SLOW_ROWS: usize = 12;

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Spread {
    calls: usize,
    min_ns: u64,
    pub(super) p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    mean_ns: u64,
}

impl Spread {
    /// The distribution of these durations; `None` without any.
    pub(super) fn of(durations: &[Duration]) -> Option<Self> {
        let mut nanos: Vec<_> = durations.iter().map(|it| Nanos::from(*it).0).collect();
        nanos.sort_unstable();
        let (min, max) = (*nanos.first()?, *nanos.last()?);
        let sum: u128 = nanos.iter().copied().map(u128::from).sum();
        // The smallest that so many per cent of the calls did not exceed.
        let at = |percent: usize| nanos[(nanos.len() * percent).div_ceil(100).max(1) - 1];
        Some(Self {
            calls: nanos.len(),
            min_ns: min,
            p50_ns: at(50),
            p90_ns: at(90),
            p99_ns: at(99),
            max_ns: max,
            mean_ns: u64::try_from(sum / nanos.len() as u128).unwrap_or(u64::MAX),
        })
    }

    fn row(&self, what: &str) -> Vec<String> {
        let times = [self.min_ns, self.p50_ns, self.p90_ns, self.p99_ns, self.max_ns, self.mean_ns];
        let mut row = vec![what.to_owned(), count(self.calls as u64)];
        row.extend(times.map(|time| Nanos(time).to_string()));
        row
    }
}

/// Prints how long calls of each kind took.
pub(super) fn print_spreads(head: &str, spreads: &[(&str, Spread)]) -> Result<(), Failure> {
    let heads = format!("{head}<|number|min|p50|p90|p99|max|mean");
    let rows = spreads.iter().map(|(what, spread)| spread.row(what));
    output::print(&grid(&heads, Some(0), rows, output::style()))
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionRow<'a> {
    pub(super) function: &'a str,
    calls: u64,
    own_ns: u64,
    waiting_ns: u64,
    accumulated_ns: u64,
    accumulated_waiting_ns: u64,
}

/// The functions that cost something, the one with most own time first.
pub(super) fn functions(path: &Path) -> Vec<FunctionRow<'_>> {
    let (own, all) = (path.tree.own(), path.tree.accumulated());
    let of = |(function, own): (&&'_ str, &Accumulated)| -> Option<FunctionRow<'_>> {
        let (function, all) = all.get_key_value(*function)?;
        let costs = own.calls + own.running + own.waiting > 0;
        costs.then_some(FunctionRow {
            function,
            calls: own.calls,
            own_ns: own.running,
            waiting_ns: own.waiting,
            accumulated_ns: all.running,
            accumulated_waiting_ns: all.waiting,
        })
    };
    let mut rows: Vec<_> = own.iter().filter_map(of).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.own_ns, row.waiting_ns)));
    rows
}

/// The sums in the table of functions, and why one call of a function may take longer than the longest of the entry.
fn about_functions(rows: &[FunctionRow<'_>], path: &Path) -> String {
    let mut text = format!(
        "What {} did, added up; times per call are those of a call of the function.",
        counted(path.calls.len() as u64, "followed call")
    );
    let longest = path.durations().last().map_or(0, |it| Nanos::from(*it).0);
    let longer = rows.iter().filter(|row| {
        let all = row.accumulated_ns.saturating_add(row.accumulated_waiting_ns);
        all / row.calls.max(1) > longest
    });
    let names: Vec<_> = longer.map(|row| row.function).take(LONGER).collect();
    if !names.is_empty() {
        text += &format!(
            " More per call than the longest took ({}): {}. Calls of it were running when they began to be traced, so \
             that their time is told and they are not counted, or several processes did it at once.",
            Nanos(longest),
            sanitise(&names.join(", "))
        );
    }
    text
}

/// Prints the first functions of a path; times are per call of the function.
pub(super) fn print_functions(rows: &[FunctionRow<'_>], number: usize, path: &Path) -> Result<(), Failure> {
    let about = sentence(&about_functions(rows, path), output::style());
    output::print(&format!("\n{about}"))?;
    let heads = "function<|calls|own|%|own/call|acc/call|waits/call|acc waits/call";
    let whole: u64 = rows.iter().map(|row| row.own_ns).sum();
    let rows = rows.iter().take(number).map(|row| {
        let each = |nanos: u64| match row.calls {
            0 => String::new(),
            calls => Nanos(nanos / calls).to_string(),
        };
        let share = row.own_ns as f64 * 100.0 / whole.max(1) as f64;
        vec![
            row.function.to_owned(),
            count(row.calls),
            Nanos(row.own_ns).to_string(),
            format!("{share:.1}"),
            each(row.own_ns),
            each(row.accumulated_ns),
            each(row.waiting_ns),
            each(row.accumulated_waiting_ns),
        ]
    });
    output::print(&grid(heads, Some(0), rows, output::style()))
}

/// Prints the difference of slow calls to the others.
pub(super) fn print_comparison(compared: &Comparison) -> Result<(), Failure> {
    let longer = compared.slow_mean - compared.rest_mean;
    let shown: Vec<_> =
        compared.functions.iter().filter(|it| it.more() > longer * LEAST_SHARE).take(SLOW_ROWS).collect();
    let mean = |nanos: f64| Nanos(nanos as u64);
    let head = format!(
        "\nWhat slow calls do that fast ones do not: the slowest {} took {} in the mean, the other {} {}.\n",
        count(compared.slow as u64),
        mean(compared.slow_mean),
        count(compared.rest as u64),
        mean(compared.rest_mean),
    );
    output::print_prose(&head)?;
    if shown.is_empty() {
        return output::print_prose("No function takes much longer in them: the time is spread over all.\n");
    }
    let heads = "function<|longer|%|calls slow|fast|own slow|fast|waits slow|fast|acc slow|fast";
    let rows = shown.into_iter().map(|it| difference_row(it, longer));
    output::print(&grid(heads, Some(0), rows, output::style()))
}

fn difference_row(it: &Difference, longer: f64) -> Vec<String> {
    let time = |nanos: f64| match nanos {
        none if none < 1.0 => String::new(),
        some => Nanos(some as u64).to_string(),
    };
    let both = |of: fn(&PerCall) -> f64| [time(of(&it.slow)), time(of(&it.rest))];
    let mut row = vec![
        it.function.clone(),
        time(it.more()),
        format!("{:.0}", it.more() * 100.0 / longer.max(1.0)),
        format!("{:.1}", it.slow.calls),
        format!("{:.1}", it.rest.calls),
    ];
    row.extend(both(|it| it.own));
    row.extend(both(|it| it.waiting));
    row.extend(both(|it| it.accumulated));
    row
}

/// The traced part of the path, and the rest.
pub(super) fn provenance(path: &Path) -> String {
    let mut text = format!(
        "Traced, from {}: {}.\nOwn time contains BIFs and functions that are not traced. Waits stand apart; those of a \
         caller do not contain what [the process] does that it asks. Tracing makes times longer.",
        counted(path.messages, "trace message"),
        sanitise(&path.modules.join(", ")),
    );
    text += &left_out(path);
    if path.unfinished > 0 {
        text += &format!(
            "\nNot counted: {} that did not come to an end, or were not followed from the beginning.",
            counted(path.unfinished, "call")
        );
    }
    text
}

/// The omitted functions, with their counts where there are any.
fn left_out(path: &Path) -> String {
    // A node may tell anything.
    let more = |shown: usize| match path.left_out.len().saturating_sub(shown) {
        0 => String::new(),
        more => format!(" and {} more", count(more as u64)),
    };
    if path.counted.is_empty() {
        let shown: Vec<_> = path.left_out.iter().take(LEFT_OUT).cloned().collect();
        return match shown.len() {
            0 => String::new(),
            some => format!(
                "\nCalled too often to be traced, so that their time is their callers': {}{}. `bellows erlang calls` \
                 with their modules counts them.",
                sanitise(&shown.join(", ")),
                more(some)
            ),
        };
    }
    let each = |it: &CountedFunction| {
        let (calls, own) = (count(it.calls), Nanos::from(it.own));
        format!("\n  {} ({calls}, {own})", sanitise(&it.function))
    };
    let shown: String = path.counted.iter().take(LEFT_OUT).map(each).collect();
    format!(
        "\nCalled too often to be traced, so that their time is their callers'; calls and own time by the node's \
         counters while {} came before, what those processes did between them included:{shown}{}",
        counted(path.counted_calls, "call"),
        match more(path.counted.len().min(LEFT_OUT)) {
            none if none.is_empty() => none,
            more => format!("\n {more}"),
        }
    )
}

#[derive(Debug, Serialize)]
pub(super) struct PathRows<'a> {
    ended: String,
    modules: &'a [String],
    left_out: &'a [String],
    /// Calls of the entry in which functions were counted, and the counts of those that were omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    counted: Option<CountedRows<'a>>,
    messages: u64,
    /// Calls of the entry that began.
    calls_begun: u64,
    unfinished_calls: u64,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    loaded_anew: &'a [String],
    durations: Option<Spread>,
    functions: Vec<FunctionRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slow: Option<SlowRows<'a>>,
}

#[derive(Debug, Serialize)]
struct CountedRows<'a> {
    calls: u64,
    functions: &'a [CountedFunction],
}

#[derive(Debug, Serialize)]
struct SlowRows<'a> {
    slow_calls: usize,
    other_calls: usize,
    slow_mean_ns: u64,
    other_mean_ns: u64,
    functions: Vec<SlowRow<'a>>,
}

#[derive(Debug, Serialize)]
struct SlowRow<'a> {
    function: &'a str,
    longer_ns: i64,
    slow: PerCall,
    others: PerCall,
}

pub(super) fn rows<'a>(path: &'a Path, compared: Option<&'a Comparison>) -> PathRows<'a> {
    let counted = || CountedRows { calls: path.counted_calls, functions: &path.counted };
    PathRows {
        ended: path.ended.describe(),
        modules: &path.modules,
        left_out: &path.left_out,
        counted: (path.counted_calls > 0).then(counted),
        messages: path.messages,
        calls_begun: path.begun,
        unfinished_calls: path.unfinished,
        loaded_anew: &path.loaded_anew,
        durations: Spread::of(&path.durations()),
        functions: functions(path),
        slow: compared.map(|compared| SlowRows {
            slow_calls: compared.slow,
            other_calls: compared.rest,
            slow_mean_ns: compared.slow_mean as u64,
            other_mean_ns: compared.rest_mean as u64,
            functions: compared.functions.iter().map(slow_row).collect(),
        }),
    }
}

fn slow_row(of: &Difference) -> SlowRow<'_> {
    SlowRow { function: &of.function, longer_ns: of.more() as i64, slow: of.slow, others: of.rest }
}

/// With fewer calls of either kind the ratio of medians is rough.
const FEW: usize = 10;

#[derive(Debug, Serialize)]
pub(super) struct ObserverRow {
    followed_calls: usize,
    followed_p50_ns: u64,
    beside_calls: usize,
    beside_p50_ns: u64,
    ratio: f64,
}

impl ObserverRow {
    pub(super) fn of(effect: &ObserverEffect) -> Self {
        Self {
            followed_calls: effect.followed,
            followed_p50_ns: Nanos::from(effect.followed_median).0,
            beside_calls: effect.beside,
            beside_p50_ns: Nanos::from(effect.beside_median).0,
            ratio: effect.ratio(),
        }
    }
}

/// A line for the terminal, empty where no call was followed.
pub(super) fn effect_line(path: &Path) -> String {
    match path.observer_effect() {
        Some(effect) => effect_text(&effect),
        None if path.calls.is_empty() => String::new(),
        None => "\nObserver effect: not known, as no call came between the followed ones; --duration gives more \
                 time.\n"
            .to_owned(),
    }
}

fn effect_text(effect: &ObserverEffect) -> String {
    let rough = if effect.followed.min(effect.beside) < FEW { " Of so few calls this is rough." } else { "" };
    format!(
        "\nObserver effect: {} took {} (median), {} between them, of which only this function was traced, {}: {:.2} \
         times as long.{rough}\n",
        counted(effect.followed as u64, "followed call"),
        Nanos::from(effect.followed_median),
        counted(effect.beside as u64, "call"),
        Nanos::from(effect.beside_median),
        effect.ratio(),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cli::erlang) fn path() -> Path {
        Path {
            tree: erlang::calls::CallTree::default(),
            calls: Vec::new(),
            untraced: Vec::new(),
            beside: Vec::new(),
            begun: 0,
            unfinished: 0,
            loaded_anew: Vec::new(),
            modules: Vec::new(),
            left_out: Vec::new(),
            counted_calls: 1,
            counted: Vec::new(),
            messages: 1,
            ended: erlang::Ended::Time,
        }
    }

    #[test]
    fn a_function_with_more_time_than_a_call_is_explained() {
        let call = |ms| erlang::calls::EntryCall {
            began: std::time::UNIX_EPOCH,
            pid: "<0.1.0>".to_owned(),
            duration: Duration::from_millis(ms),
            costs: Vec::new(),
        };
        let row = |function, accumulated_ns| {
            let (calls, own_ns) = (2, 1);
            FunctionRow { function, calls, own_ns, waiting_ns: 0, accumulated_ns, accumulated_waiting_ns: 0 }
        };
        let path = Path { calls: vec![call(5), call(3)], ..path() };
        let text = |rows: &[FunctionRow<'_>]| about_functions(rows, &path);
        let short = text(&[row("m:f/1", 9_000_000)]);
        assert_eq!(short, "What 2 followed calls did, added up; times per call are those of a call of the function.");
        let long = text(&[row("m:f/1", 9_000_000), row("m:g/1", 11_000_000)]);
        assert!(long.contains("than the longest took (5.00 ms): m:g/1. "), "{long}");
    }

    #[test]
    fn spreads_are_those_of_the_nearest_rank() {
        let durations: Vec<_> = (1..=200).map(Duration::from_nanos).collect();
        let spread = Spread::of(&durations).expect("calls");
        let told = [spread.min_ns, spread.p50_ns, spread.p90_ns, spread.p99_ns, spread.max_ns];
        assert_eq!((told, spread.mean_ns), ([1, 100, 180, 198, 200], 100));
        let one = Spread::of(&[Duration::from_nanos(7)]).expect("a call");
        assert_eq!((one.p50_ns, one.p99_ns, one.mean_ns), (7, 7, 7));
        assert!(Spread::of(&[]).is_none());
    }

    #[test]
    fn what_a_node_tells_of_what_was_left_out_is_no_panic_and_no_line_of_its_own() {
        let counted =
            CountedFunction { function: "m:f\nerror: g/1".to_owned(), calls: 7, own: Duration::from_micros(3) };
        let mut path = Path {
            modules: vec!["m\nerror: n".to_owned()],
            // More than were left out.
            counted: vec![counted.clone(), counted],
            ..path()
        };
        let text = provenance(&path);
        assert!(text.contains("f\u{240a}error: g/1 (7, 3.00 µs)"), "{text}");
        path.left_out = std::mem::take(&mut path.counted).into_iter().map(|it| it.function).collect();
        for text in [text, provenance(&path)] {
            assert!(!text.lines().any(|it| it.starts_with("error")), "{text}");
        }
    }

    #[test]
    fn both_medians_their_numbers_and_the_ratio_are_told() {
        let mut effect = ObserverEffect {
            followed: 15,
            followed_median: Duration::from_millis(600),
            beside: 5,
            beside_median: Duration::from_millis(400),
        };
        let expected = "\nObserver effect: 15 followed calls took 600 ms (median), 5 calls between them, of which only \
                        this function was traced, 400 ms: 1.50 times as long. Of so few calls this is rough.\n";
        assert_eq!(effect_text(&effect), expected);
        effect.beside = 10;
        assert!(effect_text(&effect).ends_with("1.50 times as long.\n"));
    }
}
