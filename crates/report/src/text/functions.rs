//! Sentences on functions whose cost changed between two sides. Names are raw: who shows them makes them harmless.

use archive::{ComparedFrame, ComparedFunctions, CostChange, ExplainedChange, QuantityUnit, RenamedFunction};

use crate::numbers::{TOO_FEW_RUNS, count, figure};

/// Functions with other names on both sides that are listed.
const MOST_RENAMED: usize = 3;

/// Functions that explain the change of the broker's CPU, in a sentence; `None` where none does.
pub(crate) fn explanation(of: &ComparedFunctions) -> Option<String> {
    let whole = of.broker.change();
    let parts = &of.explained;
    let sum: f64 = parts.iter().map(|it| it.change).sum();
    if parts.is_empty() {
        return None;
    }
    let one_way = parts.iter().all(|it| it.change * whole > 0.0);
    if !of.broker.proven {
        let parts = parts.iter().map(|it| part(it, true));
        return Some(format!("no change of the CPU per message as a whole is proven, but B needs {}", listed(parts)));
    }
    // Where other functions changed the other way, the parts are more than the whole.
    if !one_way || sum.abs() > whole.abs() * 1.005 {
        let parts = parts.iter().map(|it| part(it, true));
        return Some(format!("B needs {} CPU per message: {}", more_or_less(whole), listed(parts)));
    }
    let word = if whole < 0.0 { "saved" } else { "added" };
    let (first, others) = parts.split_first()?;
    let told =
        format!("{} of the {} {word} per message are {}", time(first.change.abs()), time(whole.abs()), place(first));
    let others = others.iter().map(|it| part(it, false));
    Some(listed(std::iter::once(told).chain(others)))
}

/// `600 ns in route and below`, or `600 ns more in route and below`.
fn part(of: &ExplainedChange, signed: bool) -> String {
    let size = if signed { more_or_less(of.change) } else { time(of.change.abs()) };
    format!("{size} {}", place(of))
}

fn more_or_less(change: f64) -> String {
    let word = if change < 0.0 { "less" } else { "more" };
    format!("{} {word}", time(change.abs()))
}

/// A function's name without the sign that the emulator puts before those of Erlang.
fn without_sign(name: &str) -> &str {
    name.strip_prefix('$').unwrap_or(name)
}

/// Place of a change; the JIT's mark of Erlang code is no part of a name.
fn place(of: &ExplainedChange) -> String {
    let function = without_sign(&of.function);
    if of.own { format!("in {function} itself") } else { format!("in {function} and below") }
}

fn listed(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// Costs of a frame of the differential flame graph on both sides, and whether the change is proven.
pub(crate) fn frame_told(of: &ComparedFrame) -> String {
    let (low, high) = of.interval;
    let proven = match (of.proven, of.asked) {
        (true, _) => "proven",
        (false, true) => "not proven",
        (false, false) => "not proven, nor anything below",
    };
    let change = format!("A {}, B {}, {}", time(of.a), time(of.b), signed_time(of.change()));
    match of.visible {
        Some(visible) => {
            format!("{change} [{}, {}], {proven}, shows from {}", signed_time(low), signed_time(high), time(visible))
        }
        // The interval of so few reaches from nothing to many times as much.
        None => format!("{change}, {proven}, too few runs"),
    }
}

/// The interval of a change of cost; meaningless where runs are too few to show any.
pub(crate) fn cost_interval(of: &CostChange) -> String {
    match of.visible {
        Some(_) => format!("{} to {}", signed_time(of.interval.0), signed_time(of.interval.1)),
        None => TOO_FEW_RUNS.to_owned(),
    }
}

pub(crate) fn time(ns: f64) -> String {
    figure(ns, QuantityUnit::Ns)
}

pub(crate) fn signed_time(ns: f64) -> String {
    if ns == 0.0 {
        return "0".to_owned();
    }
    let sign = if ns < 0.0 { "-" } else { "+" };
    sign.to_owned() + &time(ns.abs())
}

/// `libcrypto.so, libz.so and beam.smp`; `None` without any.
fn all_of(files: &[String]) -> Option<String> {
    let (last, others) = files.split_last()?;
    Some(if others.is_empty() { last.clone() } else { format!("{} and {last}", others.join(", ")) })
}

/// Why changes of the classes of these files are estimates.
pub(crate) fn estimated_changes(files: &[String]) -> Option<String> {
    let files = all_of(files)?;
    Some(format!(
        "A and B differ in the symbols of {files} (different builds, or symbols on one side alone). Unnamed functions \
         count for their caller's class, so changes of its classes are estimates, ~; debug symbols (Debian's -dbgsym \
         packages) on both sides name them."
    ))
}

/// Why functions of these files are one row each.
pub(crate) fn other_builds(files: &[String]) -> Option<String> {
    let files = all_of(files)?;
    Some(format!(
        "A and B run different builds of {files}, at least one of them stripped. Unnamed functions cannot be matched \
         between builds, so those of a file are one row, [no symbol in FILE]; debug symbols (Debian's -dbgsym \
         packages) name them."
    ))
}

/// Functions with other names on both sides.
pub(super) fn renamed(of: &ComparedFunctions) -> Option<String> {
    let mut names: Vec<String> = of.renamed.iter().take(MOST_RENAMED).map(both_names).collect();
    let (have, are) = match of.renamed.len() {
        0 => return None,
        1 => ("One function has another number in its name on A".to_owned(), "it is one row"),
        n => (format!("{} functions have other numbers in their names on A", count(n as u64)), "each is one row"),
    };
    match of.renamed.len() - names.len() {
        0 => {}
        more => names.push(format!("{} more", count(more as u64))),
    }
    Some(format!("{have}, mostly of arguments; {are}, under its name on B: {}.", names.join(", ")))
}

/// A function's name on B, and that on A, or its arity alone.
fn both_names(of: &RenamedFunction) -> String {
    let (a, b) = (without_sign(&of.a), without_sign(&of.b));
    let arity = match (a.rsplit_once('/'), b.rsplit_once('/')) {
        (Some((of_a, arity)), Some((of_b, _))) if of_a == of_b => Some(arity),
        _ => None,
    };
    arity.map_or_else(|| format!("{b} (A: {a})"), |arity| format!("{b} (A: /{arity})"))
}
