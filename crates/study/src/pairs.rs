//! Runs of two sides in turns: which is made next, and which count.

use archive::{ComparedSideName, Comparison, LeftOut, PairedRun, PairedRuns, RunRecord, Tier};
use compare::{level_of_each, order, turns};
use measure::Problem;

use crate::comparison::{Gathered, decide_together, gather};
use crate::figures::ComparisonOptions;
use crate::spoiled::{disturbance, disturbed_by, spoiled, spoiled_by, spoiled_runs};

/// Fewer pairs than these show nothing: the exact test that guards every verdict cannot.
pub const LEAST_PAIRS: u32 = compare::LEAST_PAIRS as u32;

/// A run that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextRun {
    /// The pair that it belongs to, from 0 on.
    pub pair: u32,
    /// Its side.
    pub side: ComparedSideName,
}

/// The run that is made next; `None` where all pairs are made, or too many were spoiled. A pair with a spoiled run is
/// repeated as a whole, under the same circumstances. What a side spoiled itself is evidence, and is not repeated.
pub(crate) fn next_run(of: &PairedRuns) -> Option<NextRun> {
    let all = planned_pairs(of);
    let order = order(of.seed, all as usize);
    (0..all).zip(order.chunks(2)).find_map(|(pair, sides)| {
        let is_made = |side: &ComparedSideName| of.runs.iter().any(|it| (it.pair, it.side) == (pair, *side));
        let side = sides.iter().copied().find(|side| !is_made(side))?;
        (!is_given_up(of, pair)).then_some(NextRun { pair, side })
    })
}

/// Pairs that are made in all, as far as nothing hits those to come.
fn planned_pairs(of: &PairedRuns) -> u32 {
    of.pairs.saturating_add(of.made_anew().len() as u32)
}

/// Whether the other run of a pair is not made any more, since neither side spoiled the first.
fn is_given_up(of: &PairedRuns, pair: u32) -> bool {
    let mut runs = of.runs.iter().filter(|it| it.pair == pair);
    runs.any(|run| run.spoiled.is_some() && !run.own)
}

/// Runs that are still to be made, as far as nothing hits them.
pub fn runs_left(of: &PairedRuns) -> usize {
    let open = (0..planned_pairs(of)).filter(|pair| !is_given_up(of, *pair));
    let made = |pair| of.runs.iter().filter(|it| it.pair == pair).count();
    open.map(|pair| 2_usize.saturating_sub(made(pair))).sum()
}

/// The pairs that count, as numbers of runs in [`PairedRuns::runs`]: of A and of B. Where no more are made and too few
/// are left, those of a disturbed machine fill the gap, the least disturbed first: some machines are never left alone.
fn counted_pairs(of: &PairedRuns, disturbance: impl Fn(usize) -> f64) -> Vec<(usize, usize)> {
    let last = of.runs.iter().map(|run| run.pair).max();
    let all = last.map_or(0..0, |last| 0..last + 1);
    let whole = all.filter_map(|pair| whole_pair(of, pair));
    let is_disturbed = |at: usize| of.runs.get(at).is_some_and(|run| run.disturbed);
    let (mut disturbed, mut counted): (Vec<_>, Vec<_>) = whole.partition(|(a, b)| is_disturbed(*a) || is_disturbed(*b));
    if next_run(of).is_none() {
        let missing = (of.pairs as usize).saturating_sub(counted.len() + of.own_pairs());
        let of_run = |at: usize| {
            if is_disturbed(at) { disturbance(at) } else { 0.0 }
        };
        let of_pair = |pair: &(usize, usize)| of_run(pair.0).max(of_run(pair.1));
        disturbed.sort_by(|one, other| of_pair(one).total_cmp(&of_pair(other)));
        counted.extend(disturbed.into_iter().take(missing));
        counted.sort_unstable();
    }
    counted
}

/// The runs of a pair, where both were made and none is spoiled.
fn whole_pair(of: &PairedRuns, pair: u32) -> Option<(usize, usize)> {
    let place = |side: ComparedSideName| {
        let counts = |run: &PairedRun| run.pair == pair && run.side == side && run.spoiled.is_none();
        of.runs.iter().position(counts)
    };
    Some((place(ComparedSideName::A)?, place(ComparedSideName::B)?))
}

/// A run as one of a pair.
pub fn paired_run(next: NextRun, record: &RunRecord) -> PairedRun {
    PairedRun {
        pair: next.pair,
        side: next.side,
        id: record.id.clone(),
        spoiled: spoiled(record),
        own: spoiled_by(record).is_some(),
        disturbed: record.summary.as_ref().and_then(disturbed_by).is_some(),
    }
}

/// The numbers of pairs at which an experiment of so many may end, the last of them included.
fn looks(pairs: u32) -> Vec<u32> {
    let mut looks: Vec<u32> =
        [pairs / 2, pairs * 3 / 4].into_iter().filter(|it| (LEAST_PAIRS..pairs).contains(it)).collect();
    looks.push(pairs);
    looks.dedup();
    looks
}

/// The numbers of pairs at which a resumed experiment may end or might have ended: looks that were fixed for the runs
/// `before`, and may have been taken, keep their stricter level, also where nobody wants to look again.
pub fn looks_again(pairs: u32, until_decided: bool, before: &[u32]) -> Vec<u32> {
    match until_decided {
        true => looks(pairs),
        false if before.last() == Some(&pairs) => before.to_vec(),
        false => vec![pairs],
    }
}

/// The cell of a matrix that has its turn, and its run; `None` where all runs are made. Pairs of all cells are made in
/// rounds, one of each cell, in an order that the seed draws for each round: what drifts hits all cells alike.
pub fn next_run_of(cells: &[&PairedRuns], seed: u64) -> Option<(usize, NextRun)> {
    let open = cells.iter().enumerate().filter_map(|(cell, of)| Some((cell, next_run(of)?)));
    open.min_by_key(|(cell, next)| (next.pair, turns(seed, next.pair, cells.len()).iter().position(|it| it == cell)))
}

/// The runs of a cell, and those of its pairs that count.
#[derive(Clone, Debug)]
pub struct CellRuns<'a> {
    /// The runs.
    pub runs: &'a PairedRuns,
    /// The record of each.
    pub records: &'a [RunRecord],
    /// The pairs that count, as numbers of runs: of A and of B. Those of a disturbed machine are among them only where
    /// no more are made and too few others are left, the least disturbed first.
    pub counted: Vec<(usize, usize)>,
}

impl<'a> CellRuns<'a> {
    /// All that was made of a cell.
    pub fn new(runs: &'a PairedRuns, records: &'a [RunRecord]) -> Self {
        let summary = |at: usize| records.get(at).and_then(|it| it.summary.as_ref());
        Self { counted: counted_pairs(runs, |at| summary(at).map_or(0.0, disturbance)), runs, records }
    }

    /// Whether as many pairs as were requested count or are evidence against a side.
    pub fn is_whole(&self) -> bool {
        self.counted.len() + self.runs.own_pairs() >= self.runs.pairs as usize
    }

    fn gather(&self, options: ComparisonOptions) -> Result<Gathered, Problem> {
        if let Some(problem) = self.spoiled() {
            return Err(problem);
        }
        let made = |side| self.made(side).collect::<Vec<_>>();
        let (of_a, of_b) = (made(ComparedSideName::A), made(ComparedSideName::B));
        let spoiled = spoiled_runs(&of_a, &of_b);
        let cloned = |of: &[&RunRecord]| of.iter().map(|it| (*it).clone()).collect::<Vec<_>>();
        if self.is_apart() {
            // What the runs say that are left is shown, of each side for itself.
            let options = ComparisonOptions { paired: false, ..options };
            return gather(&cloned(&of_a), &cloned(&of_b), spoiled, options);
        }
        let side = |place: fn(&(usize, usize)) -> usize| -> Vec<RunRecord> {
            self.counted.iter().map(place).filter_map(|at| self.records.get(at)).cloned().collect()
        };
        gather(&side(|it| it.0), &side(|it| it.1), spoiled, options)
    }

    /// Whether sides spoiled so many runs that too few pairs count for a test: runs stand for themselves then.
    fn is_apart(&self) -> bool {
        self.counted.len() < 2 && self.runs.runs.iter().any(|it| it.own)
    }

    fn made(&self, side: ComparedSideName) -> impl Iterator<Item = &'a RunRecord> {
        let all = self.runs.runs.iter().zip(self.records);
        all.filter_map(move |(run, record)| (run.side == side).then_some(record))
    }

    /// That no more runs are made, since too many were spoiled, and why the first was.
    fn spoiled(&self) -> Option<Problem> {
        let made = &self.runs.runs;
        let is_own = made.iter().any(|it| it.own);
        let spoiled = made.iter().filter(|it| it.spoiled.is_some()).count();
        // That a side spoiled its runs is a result.
        if is_own || self.counted.len() > 1 || spoiled == 0 || next_run(self.runs).is_some() {
            return None;
        }
        let warnings = self.records.iter().flat_map(|it| &it.summary);
        let mut warnings = warnings.flat_map(|it| &it.warnings);
        let invalid = warnings.find(|it| it.tier == Tier::Invalid && !it.text.is_empty());
        let why = invalid.map_or_else(String::new, |it| format!(": {}", it.text));
        let help = "see the warnings in the reports of these runs, and fix their causes first";
        Some(Problem::new("too few runs are valid", format!("{spoiled} of {} runs{why}", made.len()), help))
    }

    /// That pairs of a disturbed machine fill the gap.
    fn disturbed(&self) -> Option<String> {
        let is_disturbed = |at: usize| self.runs.runs.get(at).is_some_and(|run| run.disturbed);
        let disturbed = self.counted.iter();
        let disturbed: Vec<_> = disturbed.filter(|(a, b)| is_disturbed(*a) || is_disturbed(*b)).copied().collect();
        let number = |(a, _): &(usize, usize)| self.runs.runs.get(*a).map_or(0, |run| run.pair + 1);
        let what = match (disturbed.as_slice(), self.counted.len()) {
            ([], _) => return None,
            (all, pairs) if all.len() == pairs => "All valid pairs were".to_owned(),
            ([one], pairs) => format!("1 of the {pairs} valid pairs, pair {}, was", number(one)),
            (some, pairs) => format!("{} of the {pairs} valid pairs were", some.len()),
        };
        Some(format!(
            "{what} disturbed by other programs on this machine, and no quieter pair replaced them: a disturbance of \
             one side looks like a change, of both like noise."
        ))
    }

    fn leave_out(&self, compared: &mut Comparison) {
        if self.is_apart() {
            // They are told of each side for itself.
            return;
        }
        for run in &self.runs.runs {
            let Some(why) = left_out(self.runs, run, &self.counted) else { continue };
            let side = match run.side {
                ComparedSideName::A => &mut compared.a,
                ComparedSideName::B => &mut compared.b,
            };
            side.left_out.push(LeftOut { id: run.id.clone(), why });
        }
    }
}

/// Decides the pairs of each cell that count, at one level over all cells' figures; silent cells keep none from it.
pub fn compare_cells(
    cells: &[CellRuns<'_>],
    looks: &[u32],
    options: ComparisonOptions,
) -> Vec<Result<Comparison, Problem>> {
    let at: Vec<usize> = looks.iter().map(|look| *look as usize).collect();
    let options =
        ComparisonOptions { paired: true, planned: true, level: level_of_each(&at, options.level), ..options };
    let mut gathered = Vec::new();
    let place = |cell: &CellRuns<'_>| cell.gather(options).map(|it| gathered.push(it));
    let places: Vec<_> = cells.iter().map(place).collect();
    let mut decided = decide_together(gathered, options).into_iter();
    let cells = cells.iter().zip(places).filter_map(|(cell, place)| {
        let mut compared = match place {
            Ok(()) => decided.next()?,
            Err(problem) => return Some(Err(problem)),
        };
        cell.leave_out(&mut compared);
        compared.remarks.extend(cell.disturbed());
        compared.looks = looks.to_vec();
        Some(Ok(compared))
    });
    cells.collect()
}

/// Whether the last look that all cells have reached leaves nothing open, by the pairs up to it alone.
pub fn is_decided(cells: &[CellRuns<'_>], looks: &[u32], options: ComparisonOptions) -> bool {
    let made = cells.iter().map(|cell| cell.counted.len()).min();
    let reached = looks.iter().map(|look| *look as usize).filter(|look| made.is_some_and(|made| *look <= made));
    let Some(look) = reached.max() else { return false };
    let seen = cells.iter().map(|cell| {
        let counted: Vec<(usize, usize)> = cell.counted.iter().take(look).copied().collect();
        let last = counted.iter().map(|(a, b)| *a.max(b)).max();
        let made = last.map_or(0, |last| last + 1);
        CellRuns { runs: cell.runs, records: cell.records.get(..made).unwrap_or(cell.records), counted }
    });
    let seen: Vec<CellRuns<'_>> = seen.collect();
    compare_cells(&seen, looks, options).iter().all(|it| it.as_ref().is_ok_and(|compared| !compared.is_undecided()))
}

/// Why a run stands in no pair that counts.
fn left_out(of: &PairedRuns, run: &PairedRun, counted: &[(usize, usize)]) -> Option<String> {
    let counts = |at: &usize| of.runs.get(*at) == Some(run);
    if counted.iter().any(|(a, b)| counts(a) || counts(b)) {
        return None;
    }
    let other = of.runs.iter().find(|it| it.pair == run.pair && it.side != run.side);
    Some(match (&run.spoiled, other) {
        (Some(why), _) => why.clone(),
        (None, None) => "the other run of its pair was not made".to_owned(),
        (None, Some(PairedRun { spoiled: Some(why), .. })) => {
            format!("the other run of its pair does not count: {why}")
        }
        _ if run.disturbed => "the machine was disturbed".to_owned(),
        _ => "the machine was disturbed during the other run of its pair".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use testkit::Random;

    use super::*;

    fn of(pairs: u32) -> PairedRuns {
        PairedRuns { seed: 7, pairs, ..PairedRuns::default() }
    }

    fn run_of(next: NextRun, number: usize, spoiled: Option<String>, own: bool, disturbed: bool) -> PairedRun {
        PairedRun { pair: next.pair, side: next.side, id: format!("run-{number}"), spoiled, own, disturbed }
    }

    /// Makes runs until there is nothing left to make; `spoil` says which are spoiled, by their number.
    fn made(pairs: u32, spoil: impl Fn(usize) -> bool, disturb: impl Fn(usize) -> bool) -> PairedRuns {
        let mut of = of(pairs);
        while let Some(next) = next_run(&of) {
            let number = of.runs.len();
            assert!(number < 4 * pairs as usize + 8, "it ends");
            let spoiled = spoil(number).then(|| "invalid".to_owned());
            of.runs.push(run_of(next, number, spoiled, false, disturb(number)));
        }
        of
    }

    #[test]
    fn as_many_pairs_count_as_were_asked_for_whatever_was_spoiled_or_disturbed() {
        let whole = made(8, |_| false, |_| false);
        assert_eq!((whole.runs.len(), counted_pairs(&whole, |_| 0.0).len()), (16, 8));
        for bad in 0..16 {
            let one = made(8, |number| number == bad, |_| false);
            assert_eq!(counted_pairs(&one, |_| 0.0).len(), 8, "{bad}");
            // The partner of the first of a pair is not made any more.
            assert_eq!(one.runs.len(), if bad % 2 == 0 { 17 } else { 18 }, "{bad}");
        }
        let hopeless = made(8, |_| true, |_| false);
        assert_eq!((hopeless.runs.len(), counted_pairs(&hopeless, |_| 0.0).len()), (12, 0));
        let never = made(8, |_| false, |_| true);
        assert_eq!((never.runs.len(), counted_pairs(&never, |_| 0.0).len()), (24, 8));
        let told = |of: &PairedRuns| CellRuns::new(of, &[]).disturbed().unwrap_or_default();
        assert!(told(&never).starts_with("All valid pairs were disturbed"));
        let twice = made(2, |_| false, |number| ![0, 1].contains(&number));
        assert!(told(&twice).starts_with("1 of the 2 valid pairs, pair 2, was disturbed"));
        let once = made(8, |_| false, |number| number == 3);
        assert_eq!(told(&once), "");
        let counted = counted_pairs(&once, |_| 0.0);
        assert_eq!((once.runs.len(), counted.len()), (18, 8));
        assert!(counted.iter().all(|(a, b)| ![*a, *b].contains(&3)), "{counted:?}");
    }

    fn beside(facts: archive::Facts) -> RunRecord {
        let verdict = Some(archive::Verdict { facts, ..archive::Verdict::default() });
        let summary = Some(archive::RunSummary { verdict, ..archive::RunSummary::default() });
        RunRecord { state: archive::RunState::Complete, summary, ..RunRecord::default() }
    }

    /// The hypervisor took half of the machine from a run of the first pair, and little from those of the others.
    #[test]
    fn of_disturbed_pairs_the_least_disturbed_count() {
        let never = made(2, |_| false, |_| true);
        let records = [0.05, 0.5, 0.2, 0.1, 0.1, 0.1]
            .map(|steal| beside(archive::Facts { machine_cores: 2, steal: Some(steal), ..archive::Facts::default() }));
        let counted = CellRuns::new(&never, &records).counted;
        let mut runs: Vec<usize> = counted.iter().flat_map(|(a, b)| [*a, *b]).collect();
        runs.sort_unstable();
        assert_eq!((never.runs.len(), runs), (6, vec![2, 3, 4, 5]));
    }

    fn any_run(random: &mut Random, next: NextRun, number: usize) -> PairedRun {
        let (spoiled, own, disturbed) = match random.below(9) {
            0 => (true, true, false),
            1 => (true, true, true),
            2 => (true, false, false),
            3 | 4 => (false, false, true),
            _ => (false, false, false),
        };
        run_of(next, number, spoiled.then(|| format!("failed {number}")), own, disturbed)
    }

    fn check_reasons(of: &PairedRuns, counted: &[(usize, usize)]) {
        for (at, run) in of.runs.iter().enumerate() {
            let counts = counted.iter().any(|(a, b)| *a == at || *b == at);
            let Some(why) = left_out(of, run, counted) else {
                assert!(counts, "{run:?} of {of:#?}");
                continue;
            };
            let mut others = of.runs.iter();
            let other = others.find(|it| it.pair == run.pair && it.side != run.side);
            let is_true = match why.as_str() {
                "the machine was disturbed" => run.disturbed,
                "the machine was disturbed during the other run of its pair" => other.is_some_and(|it| it.disturbed),
                "the other run of its pair was not made" => other.is_none(),
                why => match why.strip_prefix("the other run of its pair does not count: ") {
                    Some(why) => other.is_some_and(|it| it.spoiled.as_deref() == Some(why)),
                    None => run.spoiled.as_deref() == Some(why),
                },
            };
            assert!(is_true && !counts, "{why}: {run:?} of {of:#?}");
        }
    }

    /// No more pairs are made anew than may be, none counts that was disturbed more than one left out.
    #[test]
    fn pairs_are_left_out_and_made_anew_by_one_rule() {
        let mut random = Random::new(11);
        for round in 0..2_000 {
            let mut of = PairedRuns { seed: round, ..of(1 + round as u32 % 9) };
            let cores: Vec<f64> = (0..40).map(|_| random.below(5) as f64).collect();
            let disturbance = |at: usize| cores[at];
            while let Some(next) = next_run(&of) {
                let left = runs_left(&of);
                let run = any_run(&mut random, next, of.runs.len());
                let is_clean = !run.is_hit();
                of.runs.push(run);
                if is_clean {
                    assert_eq!(runs_left(&of) + 1, left, "{of:#?}");
                }
                check_reasons(&of, &counted_pairs(&of, disturbance));
            }
            assert_eq!(runs_left(&of), 0, "{of:#?}");
            let made = of.runs.iter().map(|it| it.pair + 1).max().unwrap_or(0);
            assert_eq!(made - of.pairs, of.made_anew().len() as u32, "{of:#?}");
            assert!(made - of.pairs <= of.pairs / 2, "{of:#?}");
            let counted = counted_pairs(&of, disturbance);
            let cores = |(a, b): (usize, usize)| {
                let of_run = |at: usize| if of.runs[at].disturbed { disturbance(at) } else { 0.0 };
                of_run(a).max(of_run(b))
            };
            let most = counted.iter().map(|it| cores(*it)).fold(0.0, f64::max);
            let left = (0..made).filter_map(|pair| whole_pair(&of, pair));
            let mut left = left.filter(|it| !counted.contains(it)).peekable();
            let settled = counted.len() + of.own_pairs();
            assert!(settled <= of.pairs as usize, "{of:#?}");
            assert!(left.peek().is_none() || settled == of.pairs as usize, "{of:#?}");
            assert!(left.all(|it| cores(it) >= most), "{counted:?} of {of:#?}");
        }
    }

    /// CPU of other programs, as steal, counts beside that of broker and generator.
    #[test]
    fn a_run_beside_other_programs_is_disturbed() {
        let run = |broker: f64, change: fn(&mut archive::RunSummary)| {
            let mut record = beside(archive::Facts {
                machine_cores: 2,
                idle: Some(0.02),
                steal: Some(0.0),
                client_cores: Some(0.4),
                same_machine: true,
                broker: Some(archive::BrokerUse { cores: broker, ..archive::BrokerUse::default() }),
                ..archive::Facts::default()
            });
            change(record.summary.as_mut().unwrap());
            paired_run(NextRun { pair: 0, side: ComparedSideName::A }, &record).disturbed
        };
        assert!(!run(1.5, |_| ()), "they fill the machine themselves");
        assert!(run(0.6, |_| ()));
        let has_room = |of: &mut archive::RunSummary| of.verdict.as_mut().unwrap().facts.idle = Some(0.3);
        assert!(!run(0.6, has_room));
        let waits = |of: &mut archive::RunSummary| {
            of.verdict.as_mut().unwrap().cause = Some(archive::Cause::OthersFillMachine);
        };
        assert!(run(1.5, waits));
        assert!(run(1.5, |of| crate::example_warnings::warn(of, archive::WarningCode::CpuSteal, Tier::Caution)));
    }

    #[test]
    fn looks_are_few_and_none_is_too_early() {
        assert_eq!(looks(8), [6, 8]);
        assert_eq!(looks(20), [10, 15, 20]);
        assert_eq!(looks(5), [5]);
        assert_eq!(looks(2), [2]);
        // Looks that were fixed once stay, whoever goes on.
        assert_eq!(looks_again(8, false, &[]), [8]);
        assert_eq!(looks_again(8, true, &[8]), [6, 8]);
        assert_eq!(looks_again(8, false, &[6, 8]), [6, 8]);
        assert_eq!(looks_again(8, false, &[4, 6]), [8], "of another plan");
    }
}

#[cfg(test)]
#[path = "matrix_tests.rs"]
mod matrix_tests;
