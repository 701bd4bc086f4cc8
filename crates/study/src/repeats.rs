//! Runs of one experiment, taken together.

use archive::{Quantity, RepeatedFigure, RepeatedRun, Repeats, RunRecord, RunState, RunSummary, Tier};
use compare::{apart, spread};

/// The headline figures of runs of one experiment, in the order in which they were made. A run that is not complete
/// has no values: it was measured for another length of time, or not to its end.
pub fn repeats(name: &str, requested: u32, records: &[RunRecord]) -> Repeats {
    let summaries: Vec<Option<&RunSummary>> = records.iter().map(complete).collect();
    let mut quantities: Vec<Quantity> = Vec::new();
    for quantity in summaries.iter().flatten().flat_map(|summary| Quantity::headline(summary)) {
        if !quantities.contains(&quantity) {
            quantities.push(quantity);
        }
    }
    let mut runs: Vec<RepeatedRun> = records.iter().map(run).collect();
    let mut figures = Vec::new();
    for quantity in quantities {
        let values: Vec<Option<f64>> =
            summaries.iter().map(|summary| quantity.of((*summary)?).ok().filter(|value| value.is_finite())).collect();
        for run in apart(&values) {
            if let Some(run) = runs.get_mut(run) {
                run.apart.push(quantity.name());
            }
        }
        figures.extend(figure(&quantity, values));
    }
    Repeats { schema: Repeats::SCHEMA.to_owned(), name: name.to_owned(), requested, runs, figures }
}

fn complete(record: &RunRecord) -> Option<&RunSummary> {
    let whole = record.state == RunState::Complete;
    record.summary.as_ref().filter(|_| whole)
}

fn run(record: &RunRecord) -> RepeatedRun {
    let warnings = record.summary.iter().flat_map(|summary| &summary.warnings);
    let tiers: Vec<Tier> = warnings.map(|warning| warning.tier).collect();
    RepeatedRun {
        id: record.id.clone(),
        state: record.state,
        invalid: tiers.contains(&Tier::Invalid),
        cautious: tiers.contains(&Tier::Caution),
        apart: Vec::new(),
    }
}

fn figure(quantity: &Quantity, values: Vec<Option<f64>>) -> Option<RepeatedFigure> {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    Some(RepeatedFigure { name: quantity.name(), unit: quantity.unit(), values, spread: spread(&known)? })
}

#[cfg(test)]
mod tests {
    use archive::Throughput;
    use testkit::only;

    use super::*;

    fn record(state: RunState, rate: f64) -> RunRecord {
        let mut summary = RunSummary::default();
        summary.flow_mut().sent = Throughput { total: 100, rate };
        RunRecord { id: format!("run-{rate}"), state, summary: Some(summary), ..RunRecord::default() }
    }

    #[test]
    fn only_complete_runs_have_values_and_one_says_where_it_lies_apart() {
        let records = [
            record(RunState::Complete, 100.0),
            record(RunState::Interrupted, 7.0),
            record(RunState::Complete, 110.0),
            record(RunState::Complete, 120.0),
        ];
        let found = repeats("x", 5, &records);
        assert_eq!(found.runs.len(), 4);
        let sent = only(&found.figures);
        assert_eq!(sent.name, "sent rate");
        assert_eq!(sent.values, [Some(100.0), None, Some(110.0), Some(120.0)]);
        assert_eq!((sent.spread.mean, sent.spread.min, sent.spread.max), (110.0, 100.0, 120.0));
        // SciPy: t.interval(0.95, 2, 110, 10 / sqrt(3))
        let (low, high) = sent.spread.interval.expect("an interval");
        assert!((low - 85.158_6).abs() < 1e-3 && (high - 134.841_4).abs() < 1e-3);
        let rates = [100.0, 101.0, 100.0, 20.0, 99.0];
        let records = rates.map(|rate| record(RunState::Complete, rate));
        let apart = repeats("x", 5, &records).runs.into_iter().map(|it| it.apart.join(", "));
        assert_eq!(apart.collect::<Vec<_>>(), ["", "", "", "sent rate", ""]);
    }
}
