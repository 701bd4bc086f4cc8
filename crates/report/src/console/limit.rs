//! A search for the highest rate that holds, on a terminal: what was found, every rate with its latencies, what to run next.

use archive::{LimitOutcome, LimitTrial, LimitTrials, ScaleRuns};
use measure::LatencySummary;

use super::table::{Align, Table};
use super::text::{Style, sanitise, wrap};
use crate::numbers::{duration, rate};
use crate::text::limit::{asked, headline, knee_text, notes, rates};
use crate::text::scale::{computed, mean, scale_explained};

/// Columns of the bar that shows a latency.
const BAR: usize = 16;

/// What was found, ending in a newline.
#[must_use]
pub fn limit(of: &LimitTrials, style: Style) -> String {
    let mut lines: Vec<String> = wrap(&sanitise(&headline(of)), style.columns)
        .iter()
        .map(|line| style.strong(line))
        .collect();
    if let Some(scale) = &of.scale {
        lines.extend(scaled(of, scale, style));
        return lines.join("\n") + "\n";
    }
    lines.extend(wrap(&sanitise(&asked(of)), style.columns));
    if let Some(text) = knee_text(of) {
        lines.extend(wrap(&sanitise(&text), style.columns));
    }
    if !of.trials.is_empty() {
        lines.push(String::new());
        lines.extend(table(of).lines(style.columns));
        lines.push(String::new());
        for note in notes(of) {
            lines.extend(wrap(&sanitise(&note), style.columns));
        }
    }
    for next in &of.suggested {
        let what = match next.name.as_str() {
            "calm" => "a third of it",
            _ => "four fifths of it",
        };
        lines.push(format!(
            "{} ({what}, {} msg/s):",
            style.strong(&sanitise(&next.name)),
            rate(next.rate)
        ));
        // As it stands: a line that is broken cannot be copied.
        lines.push(format!("  {}", sanitise(&next.command)));
    }
    lines.join("\n") + "\n"
}

/// Throughputs of numbers of clients, and what the law says of them.
fn scaled(of: &LimitTrials, scale: &ScaleRuns, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for text in scale_explained(scale) {
        lines.extend(wrap(&sanitise(&text), style.columns));
    }
    let noun = sanitise(scale.noun()).into_owned();
    let mut table = Table::new(&[
        (&noun, Align::Right),
        ("msg/s", Align::Right),
        ("each", Align::Right),
        ("fitted", Align::Right),
        ("runs", Align::Left),
    ]);
    table.drop_in_order(&[4, 2]);
    let law = scale.law.as_ref().map(computed);
    for clients in &scale.values {
        let Some(found) = mean(scale, *clients) else {
            continue;
        };
        let own = scale.runs.iter().filter(|it| it.clients == *clients);
        let own: Vec<String> = own.map(|it| rate(it.throughput)).collect();
        let count = f64::from(*clients);
        let fitted = law.map_or_else(|| "-".to_owned(), |it| rate(it.throughput(count)));
        table.row(vec![
            clients.to_string(),
            rate(found),
            rate(found / count),
            fitted,
            own.join(", "),
        ]);
    }
    if !scale.runs.is_empty() {
        lines.push(String::new());
        lines.extend(table.lines(style.columns));
        lines.push(String::new());
        for note in notes(of) {
            lines.extend(wrap(&sanitise(&note), style.columns));
        }
    }
    lines
}

/// A row for each rate, with the medians of its trials.
fn table(of: &LimitTrials) -> Table {
    let mut names = of.trials.iter().map(|it| it.latency_name.as_str());
    let name = names.rfind(|it| !it.is_empty()).unwrap_or("latency");
    let name = sanitise(name).into_owned();
    let mut table = Table::new(&[
        ("msg/s", Align::Right),
        ("held", Align::Left),
        (&format!("{name} p50"), Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("p99, log", Align::Left),
        ("why not", Align::Left),
    ]);
    table.drop_in_order(&[5, 4]);
    table.give_way_to(6, 18);
    let all = rates(of);
    let rows: Vec<Row<'_>> = all.iter().map(|rate| Row::of(of, *rate)).collect();
    let p99s: Vec<u64> = rows
        .iter()
        .filter_map(|it| it.median(|it| it.p99_ns))
        .collect();
    let ends = (p99s.iter().min(), p99s.iter().max());
    for row in &rows {
        let shown = |which: fn(&LatencySummary) -> u64| {
            row.median(which).map_or_else(|| "-".to_owned(), duration)
        };
        let bar = row
            .median(|it| it.p99_ns)
            .zip(ends.0.copied().zip(ends.1.copied()));
        table.row(vec![
            rate(row.rate),
            row.held(),
            shown(|it| it.p50_ns),
            shown(|it| it.p99_ns),
            shown(|it| it.p99_9_ns),
            bar.map_or_else(String::new, |(value, (low, high))| bar_of(value, low, high)),
            row.why(),
        ]);
    }
    table
}

/// The trials of a rate.
struct Row<'a> {
    rate: f64,
    trials: Vec<&'a LimitTrial>,
}

impl<'a> Row<'a> {
    fn of(of: &'a LimitTrials, rate: f64) -> Self {
        let trials = of.trials.iter().filter(|it| it.rate == rate).collect();
        Self { rate, trials }
    }

    fn held(&self) -> String {
        let held = |it: &&&LimitTrial| it.outcome == LimitOutcome::Held;
        let held = self.trials.iter().filter(held).count();
        format!("{held} of {}", self.trials.len())
    }

    /// The median of its trials, of two the larger.
    fn median(&self, which: fn(&LatencySummary) -> u64) -> Option<u64> {
        let latencies = self.trials.iter().filter_map(|it| it.latency.as_ref());
        let mut values: Vec<u64> = latencies.map(which).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    }

    /// Why it did not hold the last time that it did not.
    fn why(&self) -> String {
        let bad = |it: &&&LimitTrial| it.outcome != LimitOutcome::Held;
        let Some(last) = self.trials.iter().rev().find(bad) else {
            return String::new();
        };
        let why = sanitise(&last.why.join("; ")).into_owned();
        match last.outcome {
            LimitOutcome::Unclear => format!("says nothing of the broker: {why}"),
            _ => why,
        }
    }
}

/// A bar whose length is the logarithm of a value between two others.
fn bar_of(value: u64, low: u64, high: u64) -> String {
    let log = |ns: u64| (ns.max(1) as f64).ln();
    // What hardly differs is as long: a tenth more is noise.
    let room = (log(high) - log(low)).max(10.0_f64.ln());
    let share = match room > 0.0 {
        true => (log(value) - log(low)) / room,
        false => 1.0,
    };
    let eighths = 8.0 + share.clamp(0.0, 1.0) * (BAR as f64 - 1.0) * 8.0;
    let eighths = eighths.round() as usize;
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"].get(eighths % 8);
    "█".repeat(eighths / 8) + part.unwrap_or(&"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::width;

    fn trial(rate: f64, outcome: LimitOutcome, p99_ns: u64) -> LimitTrial {
        let latency = LatencySummary {
            count: 1_000,
            p50_ns: p99_ns / 10,
            p99_ns,
            p99_9_ns: p99_ns * 2,
            ..LatencySummary::default()
        };
        let why = match outcome {
            LimitOutcome::Held => vec![],
            _ => vec!["missed end-to-end p99 < 10ms".to_owned()],
        };
        LimitTrial {
            rate,
            outcome,
            why,
            latency_name: "end-to-end".to_owned(),
            latency: Some(latency),
            ..LimitTrial::default()
        }
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
            let style = Style {
                columns,
                ..Style::PLAIN
            };
            let text = limit(&of, style);
            assert!(
                text.lines().all(|it| width(it) <= columns),
                "{columns}\n{text}"
            );
            assert!(text.contains("1 of 2"), "{text}");
            assert!(text.contains("0 of 2"), "{text}");
        }
    }

    #[test]
    fn a_bar_grows_with_the_logarithm() {
        let (low, high) = (1_000_000, 100_000_000);
        let lengths: Vec<usize> = [1_000_000, 10_000_000, 100_000_000]
            .iter()
            .map(|it| bar_of(*it, low, high).chars().count())
            .collect();
        assert_eq!(lengths, [1, 9, 16]);
        // A tenth more is hardly longer.
        let alike: Vec<usize> = [9_390_000, 10_400_000]
            .iter()
            .map(|it| bar_of(*it, 9_390_000, 10_400_000).chars().count())
            .collect();
        assert_eq!(alike, [1, 2]);
    }
}
