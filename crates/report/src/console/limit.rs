//! A search for the highest rate that holds, on a terminal: the result, rates with latencies, next commands.

use archive::{LimitOutcome, LimitTrial, LimitTrials, ScaleRuns, SuggestedRate};
use measure::LatencySummary;

use super::table::{Table, or_dash};
use super::text::{Style, sanitise, width};
use crate::numbers::{percentile, rate};
use crate::text::limit::{asked, headline, knee_text, notes, rates, row_note, typical_trial};
use crate::text::scale::{mean, scale_explained, throughputs};

/// Columns of the bar that shows a latency.
const BAR: usize = 16;
/// The place of a column that narrow screens leave out.
const P99_9: usize = 5;
/// Name of the lower suggested rate.
const CALM: &str = "calm";
/// Rates, or numbers of clients, that the end of a search shows.
const NEAREST: usize = 5;

/// Where a table says why a rate did not hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WhyNot {
    Beside,
    Below,
    Nowhere,
}

/// The end of a search in at most fifteen lines of 80 columns, ending in a newline: the interval, the rates next to
/// it, and the commands that follow. All trials are in [`limit()`] and on the page.
pub fn limit_brief(of: &LimitTrials, style: Style) -> String {
    let mut lines = style.strong_lines(&headline(of));
    if let Some(scale) = &of.scale {
        if !scale.runs.is_empty() {
            lines.extend(throughput_table(scale, NEAREST).lines(style.line_columns()));
        }
        return lines.join("\n") + "\n";
    }
    lines.extend(style.lines_of(&sanitise(&asked(of))));
    let nearest = nearest(of);
    if !nearest.is_empty() {
        let table = table(of, &nearest, WhyNot::Nowhere);
        lines.extend(table.lines(style.line_columns()));
        lines.extend(table.footnote(style.line_columns()).map(|it| style.faint(it)));
        lines.extend(lowest_failed(of, &nearest).iter().flat_map(|it| style.lines_of(it)));
    }
    let name = |next: &SuggestedRate| {
        let share = if next.name == CALM { "1/3" } else { "4/5" };
        format!("{} ({share} of the limit)  ", sanitise(&next.name))
    };
    for next in &of.suggested {
        let name = name(next);
        let room = style.line_columns().saturating_sub(width(&name));
        let command = command_lines(&sanitise(&next.command), room).join("\n");
        lines.push(format!("{}{command}", style.strong(&name)));
    }
    lines.join("\n") + "\n"
}

/// Lines of a command that a shell reads back: broken before options, behind a backslash.
fn command_lines(command: &str, columns: usize) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut is_quoted = false;
    for word in command.split(' ') {
        match parts.last_mut().filter(|_| is_quoted || !word.starts_with("--")) {
            Some(part) => *part += &format!(" {word}"),
            None => parts.push(word.to_owned()),
        }
        is_quoted ^= word.replace("\\'", "").matches('\'').count() % 2 == 1;
    }
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.pop() {
            None => lines.push(part),
            Some(line) if width(&line) + width(&part) + 3 <= columns => lines.push(format!("{line} {part}")),
            Some(line) => lines.extend([format!("{line} \\"), format!("  {part}")]),
        }
    }
    lines
}

/// Why the lowest of these rates failed at which no trial held; `None` where none did.
fn lowest_failed(of: &LimitTrials, rates: &[f64]) -> Option<String> {
    let row = rates.iter().map(|rate| Row::of(of, *rate)).find(Row::has_failed)?;
    let why = row.why();
    (!why.is_empty()).then(|| format!("{} msg/s did not hold ({why})", rate(row.rate)))
}

/// The rates next to the interval, the lowest first.
fn nearest(of: &LimitTrials) -> Vec<f64> {
    let mut all = rates(of);
    if let Some(end) = of.found.as_ref().and_then(|it| it.low.or(it.high).or(it.unclear)) {
        let distance = |rate: &f64| (rate / end).ln().abs();
        all.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    }
    all.truncate(NEAREST);
    all.sort_by(f64::total_cmp);
    all
}

/// All trials of a search, ending in a newline.
pub fn limit(of: &LimitTrials, style: Style) -> String {
    let mut lines = style.strong_lines(&headline(of));
    if let Some(scale) = &of.scale {
        lines.extend(scaled(of, scale, style));
        return lines.join("\n") + "\n";
    }
    lines.extend(style.lines_of(&sanitise(&asked(of))));
    lines.extend(knee_text(of).iter().flat_map(|it| style.lines_of(&sanitise(it))));
    if !of.trials.is_empty() {
        lines.push(String::new());
        let all = rates(of);
        let beside = table(of, &all, WhyNot::Beside);
        let table = if beside.fits(style.line_columns()) { beside } else { table(of, &all, WhyNot::Below) };
        lines.extend(table.lines(style.line_columns()));
        let footnote = table.footnote(style.line_columns()).into_iter().flat_map(|it| style.lines_of(it));
        lines.extend(footnote.map(|line| style.faint(&line)));
        lines.push(String::new());
        lines.extend(row_note(of).into_iter().flat_map(|it| style.lines_of(it)));
        lines.extend(notes(of).iter().flat_map(|it| style.lines_of(&sanitise(it))));
    }
    for next in &of.suggested {
        let what = if next.name == CALM { "a third of the limit" } else { "four fifths of the limit" };
        lines.push(format!("{} ({what}, {} msg/s):", style.strong(&sanitise(&next.name)), rate(next.rate)));
        let command = command_lines(&sanitise(&next.command), style.line_columns().saturating_sub(2));
        lines.extend(command.iter().map(|line| format!("  {line}")));
    }
    lines.join("\n") + "\n"
}

/// Throughputs of numbers of clients, and the law's explanation.
fn scaled(of: &LimitTrials, scale: &ScaleRuns, style: Style) -> Vec<String> {
    let mut lines: Vec<String> = scale_explained(scale).iter().flat_map(|it| style.lines_of(&sanitise(it))).collect();
    if !scale.runs.is_empty() {
        lines.push(String::new());
        lines.extend(throughput_table(scale, usize::MAX).lines(style.line_columns()));
        lines.push(String::new());
        lines.extend(notes(of).iter().flat_map(|it| style.lines_of(&sanitise(it))));
    }
    lines
}

/// A row for each number of clients, of the largest ones.
fn throughput_table(scale: &ScaleRuns, most: usize) -> Table {
    let mut table = Table::of("|msg/s|each|fitted|runs<").titled(0, &sanitise(scale.noun()));
    table.drop = &[4, 2];
    let law = scale.law.as_ref();
    let all = throughputs(scale);
    let left_out = all.len().saturating_sub(most);
    for (clients, all) in all.into_iter().skip(left_out) {
        let found = mean(&all);
        let own: Vec<String> = all.iter().map(|it| rate(*it)).collect();
        let count = f64::from(clients);
        let fitted = or_dash(law.map(|it| rate(it.throughput(count))));
        table.row(vec![clients.to_string(), rate(found), rate(found / count), fitted, own.join(", ")]);
    }
    table
}

/// A row for each rate, with one of its trials. Why it did not hold stands beside it, if whole words fit, else below.
fn table(of: &LimitTrials, rates: &[f64], why: WhyNot) -> Table {
    let is_beside = why == WhyNot::Beside;
    let name = of.trials.iter().map(|it| it.latency_name.as_str()).rfind(|it| !it.is_empty()).unwrap_or("latency");
    let why_not = if is_beside { "|why not<" } else { "" };
    let name = sanitise(name).replace('|', "/");
    let heads = format!("msg/s|held<|trial|{name} p50|p99|p99.9|p99, log<{why_not}");
    let rows: Vec<Row<'_>> = rates.iter().map(|rate| Row::of(of, *rate)).collect();
    let mut table = Table::of(&heads);
    table.drop = &[6, P99_9];
    if is_beside {
        let longest = rows.iter().filter_map(|row| row.why().split(' ').map(width).max()).max();
        table.give_way_to(7, longest.unwrap_or(0).max(18));
    }
    let p99s = || rows.iter().filter_map(|it| Some(it.latency()?.p99_ns));
    let ends = p99s().min().zip(p99s().max());
    for row in &rows {
        let shown = |name: &str| or_dash(row.latency().map(|it| percentile(it, name)));
        let bar = row.latency().map(|it| it.p99_ns).zip(ends);
        let mut cells = vec![
            rate(row.rate),
            row.held(),
            row.shown.map_or_else(String::new, |it| it.0.to_string()),
            shown("p50"),
            shown("p99"),
            shown("p99.9"),
            bar.map_or_else(String::new, |(value, (low, high))| bar_of(value, low, high)),
        ];
        cells.extend(is_beside.then(|| row.why()));
        table.row(cells);
        if why == WhyNot::Below {
            table.note(row.why());
        }
    }
    table
}

/// The trials of a rate, with their numbers, and the one that is shown.
struct Row<'a> {
    rate: f64,
    trials: Vec<(usize, &'a LimitTrial)>,
    shown: Option<(usize, &'a LimitTrial)>,
}

impl<'a> Row<'a> {
    fn of(of: &'a LimitTrials, rate: f64) -> Self {
        let trials = (1..).zip(&of.trials).filter(|(_, it)| it.rate == rate);
        Self { rate, trials: trials.collect(), shown: typical_trial(of, rate) }
    }

    fn held(&self) -> String {
        if self.trials.iter().all(|it| !it.1.tells()) {
            return "unclear".to_owned();
        }
        let count = |outcome: LimitOutcome| self.trials.iter().filter(|it| it.1.outcome == outcome).count();
        let (held, unclear) = (count(LimitOutcome::Held), count(LimitOutcome::Unclear));
        let told = format!("{held} of {}", self.trials.len() - unclear);
        if unclear == 0 { told } else { format!("{told}, {unclear} unclear") }
    }

    /// Whether a trial missed a requirement, and none held.
    fn has_failed(&self) -> bool {
        let any = |outcome: LimitOutcome| self.trials.iter().any(|it| it.1.outcome == outcome);
        any(LimitOutcome::Missed) && !any(LimitOutcome::Held)
    }

    fn latency(&self) -> Option<&LatencySummary> {
        self.shown?.1.latency.as_ref()
    }

    /// Why the shown trial did not hold; if it did, why the last other one did not, with its number.
    fn why(&self) -> String {
        let is_bad = |it: &&(usize, &LimitTrial)| it.1.outcome != LimitOutcome::Held;
        let shown = self.shown.filter(|it| is_bad(&it));
        let Some((number, trial)) = shown.or_else(|| self.trials.iter().rev().find(is_bad).copied()) else {
            return String::new();
        };
        let why = sanitise(&trial.why.join("; ")).into_owned();
        let why = match trial.outcome {
            LimitOutcome::Unclear => {
                let reason = trial.unclear.as_ref().map_or_else(String::new, |it| format!(", {it}"));
                sanitise(&format!("unclear{reason} ({why})")).into_owned()
            }
            _ => why,
        };
        if shown.is_some() { why } else { format!("trial {number}: {why}") }
    }
}

/// A bar whose length is the logarithm of a value between two others.
fn bar_of(value: u64, low: u64, high: u64) -> String {
    let log = |ns: u64| (ns.max(1) as f64).ln();
    // Similar values are equally long: a tenth more is noise.
    let room = (log(high) - log(low)).max(10.0_f64.ln());
    let share = (log(value) - log(low)) / room;
    let eighths = 8.0 + share.clamp(0.0, 1.0) * (BAR as f64 - 1.0) * 8.0;
    let eighths = eighths.round() as usize;
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"].get(eighths % 8);
    "█".repeat(eighths / 8) + part.unwrap_or(&"")
}

#[cfg(test)]
mod tests {
    use archive::FoundLimit;

    use super::*;
    use crate::console::tests::flowing;
    use crate::numbers::FOOTNOTE;
    use testkit::{assert_begins, assert_ends, assert_has, assert_lacks};

    fn trial(rate: f64, outcome: LimitOutcome, p99_ns: u64) -> LimitTrial {
        let (p50_ns, p99_9_ns) = (p99_ns / 10, p99_ns * 2);
        let latency = Some(LatencySummary { count: 1_000, p50_ns, p99_ns, p99_9_ns, ..LatencySummary::default() });
        let why = (outcome != LimitOutcome::Held).then(|| "missed end-to-end p99 < 10ms".to_owned());
        let (why, latency_name) = (why.into_iter().collect(), "end-to-end".to_owned());
        LimitTrial { rate, outcome, why, latency_name, latency, ..LimitTrial::default() }
    }

    fn missed(p99_ns: u64, why: &str) -> LimitTrial {
        LimitTrial { why: vec![why.to_owned()], ..trial(20_000.0, LimitOutcome::Missed, p99_ns) }
    }

    #[test]
    fn every_rate_has_a_row_with_its_trials_and_the_table_fits_every_screen() {
        let of = LimitTrials {
            slos: vec!["end-to-end p99 < 10ms".to_owned()],
            trials: vec![
                trial(20_000.0, LimitOutcome::Held, 1_000_000),
                trial(80_000.0, LimitOutcome::Missed, 90_000_000),
                trial(40_000.0, LimitOutcome::Held, 3_000_000),
                trial(40_000.0, LimitOutcome::Missed, 30_000_000),
                trial(80_000.0, LimitOutcome::Unclear, 80_000_000),
            ],
            ..LimitTrials::default()
        };
        for columns in 40..140 {
            let text = limit(&of, Style { columns, ..Style::PLAIN });
            assert!(text.lines().all(|it| width(it) <= columns), "{columns}\n{text}");
            assert_has(&text, ["1 of 2", "0 of 1, 1 unclear"]);
            // Its mark is explained where a percentile has it.
            assert_ne!(text.matches('~').count(), 1, "{columns}\n{text}");
        }
        let why = "missed rabbitmq_queue_messages_ready_bytes < 1000000";
        let long = LimitTrials { trials: vec![missed(9_000_000, why)], ..LimitTrials::default() };
        for columns in [60, 80, 100] {
            let text = limit(&long, Style { columns, ..Style::PLAIN });
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(why.split(' ').all(|word| words.contains(&word)), "{text}");
        }
    }

    #[test]
    fn a_row_is_one_trial_and_says_which() {
        let trials = vec![missed(90_000_000, "first"), missed(30_000_000, "second")];
        let mut of = LimitTrials { trials, ..LimitTrials::default() };
        let row = |of: &LimitTrials| {
            let text = limit(of, Style::PLAIN);
            let mut lines = text.lines();
            flowing(lines.find(|it| it.contains(" of ") && it.contains("20,000")).unwrap_or_default())
        };
        let first = row(&of);
        assert_begins(&first, "20,000 0 of 2 1 9.00 ms 90.0 ms ~180 ms");
        assert_ends(first, " first");
        of.trials.push(trial(20_000.0, LimitOutcome::Held, 50_000_000));
        let third = row(&of);
        assert_begins(&third, "20,000 1 of 3 3 5.00 ms 50.0 ms");
        assert_ends(third, " trial 2: second");
        // Of 1,000 messages one lies beyond the p99.9.
        assert!(limit(&of, Style::PLAIN).contains(FOOTNOTE));
        for trial in &mut of.trials {
            trial.latency.as_mut().expect("a latency").count = 10_000;
        }
        assert!(!limit(&of, Style::PLAIN).contains('~'));
    }

    /// "0 of 2" held stood beside a sentence that called the rate unclear.
    #[test]
    fn a_rate_whose_trials_cannot_tell_is_unclear() {
        let unclear = || trial(20_000.0, LimitOutcome::Unclear, 1_000_000);
        let of = LimitTrials { trials: vec![unclear(), unclear()], ..LimitTrials::default() };
        assert_has(limit_brief(&of, Style::PLAIN), ["20,000  unclear"]);
    }

    #[test]
    fn the_end_of_a_search_has_at_most_fifteen_lines() {
        let rate = |at: u32| f64::from(at) * 10_000.0;
        let held = (1..8).map(|at| trial(rate(at), LimitOutcome::Held, 1_000_000));
        let missed = (8..16).map(|at| trial(rate(at), LimitOutcome::Missed, 1_000_000));
        let command = "bellows run mine.toml --set load.0.rate=24000 --set phases.measure=30s";
        let next = |name: &str| SuggestedRate { name: name.to_owned(), rate: 24_000.0, command: command.to_owned() };
        let (low, high) = (Some(rate(7)), Some(rate(8)));
        let of = LimitTrials {
            slos: vec!["end-to-end p99 < 10ms".to_owned()],
            trials: held.chain(missed).collect(),
            found: Some(FoundLimit { low, high, confirmed: true, ..FoundLimit::default() }),
            suggested: ["calm", "busy"].map(next).into(),
            ..LimitTrials::default()
        };
        let style = Style { columns: 80, ..Style::PLAIN };
        let text = limit_brief(&of, style);
        assert!(text.lines().count() <= 15, "{text}");
        let why = "80,000 msg/s did not hold (missed end-to-end p99 < 10ms)";
        let broken =
            "calm (1/3 of the limit)  bellows run mine.toml --set load.0.rate=24000 \\\n  --set phases.measure=30s\n";
        assert_has(&text, ["70,000", why, broken]);
        assert_has(limit_brief(&of, Style::PLAIN), [command]);
        let mut long = of.clone();
        long.trials[7].why = vec!["missed end-to-end p99 < 10ms".to_owned(); 20];
        for pipe in [limit_brief(&long, Style::PLAIN), limit(&long, Style::PLAIN)] {
            assert!(pipe.lines().all(|line| width(line) <= 200), "{pipe}");
        }
        assert_eq!(command_lines("a --set 'b c --d' --e", 5), ["a \\", "  --set 'b c --d' \\", "  --e"]);
        assert_lacks(text, ["150,000"]);
        assert_has(limit(&of, style), ["150,000"]);
    }

    #[test]
    fn a_bar_grows_with_the_logarithm() {
        let length = |ns, low, high| bar_of(ns, low, high).chars().count();
        let lengths = [1_000_000, 10_000_000, 100_000_000].map(|ns| length(ns, 1_000_000, 100_000_000));
        assert_eq!(lengths, [1, 9, 16]);
        // A tenth more is hardly longer.
        assert_eq!([9_390_000, 10_400_000].map(|ns| length(ns, 9_390_000, 10_400_000)), [1, 2]);
    }
}
