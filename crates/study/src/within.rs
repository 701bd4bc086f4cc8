//! How well the only run of a side knows its own latencies: intervals of their percentiles within that run.

use std::path::Path;

use archive::{ComparedSide, Comparison, LatencySlices, RunBlocks, RunReader, plain_name};
use compare::{LEAST_BLOCKS, NoInterval, within_one_run};
use measure::Metric;

const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// Blocks that a run is cut into, on average, as far as they are no shorter and no longer than these seconds.
const BLOCKS: f64 = 12.0;
const SHORTEST_S: f64 = 5.0;
const LONGEST_S: f64 = 10.0;
/// Fixed: the same run, the same draws.
const SEED: u64 = 1994;

/// Finds the intervals within the only run of each side that has one run alone, by the folders of these runs.
pub fn compare_within(compared: &mut Comparison, a: Option<&Path>, b: Option<&Path>) {
    for (is_a, folder) in [(true, a), (false, b)] {
        let (Some(folder), true) = (folder, side(compared, is_a).within_one_run.is_some()) else { continue };
        match RunReader::open(folder).and_then(|run| run.latency_slices()) {
            Ok(slices) => {
                let all: Vec<(Metric, &LatencySlices)> = slices.iter().map(|(metric, of)| (*metric, of)).collect();
                within(compared, is_a, &all);
            }
            Err(error) => why_not(compared, is_a, error.to_string()),
        }
    }
}

/// Finds the intervals of one side from what its only run measured over time.
pub(crate) fn within(compared: &mut Comparison, is_a: bool, all: &[(Metric, &LatencySlices)]) {
    let longest = all.iter().max_by(|x, y| seconds(x.1).total_cmp(&seconds(y.1)));
    let Some((_, longest)) = longest else {
        return why_not(compared, is_a, "it has no histograms of latencies".to_owned());
    };
    let seconds = seconds(longest);
    // No block is shorter than what was measured together.
    let block_s = (seconds / BLOCKS).clamp(SHORTEST_S, LONGEST_S).max(longest.width());
    let (mut none, mut is_any) = (None, false);
    for (metric, of) in all {
        let shares = PERCENTILES.map(|it| it / 100.0);
        match within_one_run(of.slices(), block_s / of.width(), &shares, SEED) {
            Ok(found) => {
                for (percentile, (low, high)) in PERCENTILES.iter().zip(found) {
                    let name = plain_name(&format!("{} p{percentile}", metric.name()));
                    let figures = compared.figures.iter_mut().filter(|it| plain_name(&it.name) == name);
                    for within in figures.filter_map(|it| it.within_one_run.as_mut()) {
                        let place = if is_a { &mut within.a } else { &mut within.b };
                        *place = Some((low as f64, high as f64));
                        is_any = true;
                    }
                }
            }
            Err(why) => none = none.or(Some(told(why, block_s.max(of.width())))),
        }
    }
    if let Some(blocks) = &mut side(compared, is_a).within_one_run {
        *blocks = RunBlocks { seconds, block_s, why_not: none.filter(|_| !is_any) };
    }
}

const fn side(compared: &mut Comparison, is_a: bool) -> &mut ComparedSide {
    if is_a { &mut compared.a } else { &mut compared.b }
}

fn seconds(of: &LatencySlices) -> f64 {
    of.width() * of.slices().len() as f64
}

fn told(why: NoInterval, block_s: f64) -> String {
    match why {
        NoInterval::TooShort { blocks } => format!(
            "it is too short: {:.0} s were measured, and an interval takes at least {LEAST_BLOCKS} blocks of \
             {block_s:.0} s",
            blocks * block_s
        ),
        NoInterval::Empty => "nothing was measured in it".to_owned(),
    }
}

fn why_not(compared: &mut Comparison, is_a: bool, why: String) {
    if let Some(blocks) = &mut side(compared, is_a).within_one_run {
        blocks.why_not = Some(why);
    }
}
