//! The search for the highest rate that holds: bracketed, bisected on a logarithmic scale, both ends confirmed.
//!
//! Trials are noisy near the limit, so that a rate may hold once and not the next time. The answer is therefore an
//! interval: below it every trial held, above it none did, and between lie the rates of which that cannot be said. Each
//! step follows from the trials alone, so that a search that was stopped goes on where it was.

use serde::{Deserialize, Serialize};

/// So many trials outweigh one that says the contrary.
const MOSTLY: u32 = 3;

/// A rate, and whether it held; `None` where it did not for a reason other than the broker.
type Trial = (f64, Option<bool>);

/// How rates are chosen. Rates are messages per second of all producers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitPlan {
    /// The first rate.
    pub first: f64,
    /// No rate below is tried.
    pub least: f64,
    /// No rate above is tried.
    pub most: f64,
    /// How far apart the ends may be, as a part of the lower one: 0.05 for 5 %.
    pub precision: f64,
    /// Trials that each end has to agree in.
    pub confirmations: u32,
    /// Trials in all, at most, whatever they found.
    pub most_trials: u32,
}

impl LimitPlan {
    /// A rate to three digits within what may be tried: its ends have as many digits as they have, and rounded ones
    /// would lie beyond them, or be tried again and again without ever being reached.
    fn rounded(&self, rate: f64) -> f64 {
        round_rate(rate).max(self.least).min(self.most)
    }
}

/// The next step of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LimitStep {
    /// Try this rate.
    Try(f64),
    /// There is nothing more to try.
    Found(FoundLimit),
}

/// Range of the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct FoundLimit {
    /// The highest rate below which every tried one held, in all trials or three of four; `None` where there is none.
    pub low: Option<f64>,
    /// The lowest rate that did not hold, and above which none did; `None` where there is none.
    pub high: Option<f64>,
    /// The lowest rate above `low` whose trials were all unclear.
    pub unclear: Option<f64>,
    /// No trial is left: an open end stays so, and `low` is confirmed.
    #[serde(default)]
    pub ended: bool,
    /// Both ends were confirmed, and are as close as was asked for, but for rates that hold in some trials only.
    pub confirmed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Tried {
    rate: f64,
    held: u32,
    missed: u32,
    unclear: u32,
}

impl Tried {
    /// One accident among three good trials is an accident.
    const fn is_held(&self) -> bool {
        self.held > 0 && self.held >= MOSTLY * self.missed
    }

    const fn is_missed(&self) -> bool {
        self.missed > 0 && self.missed >= MOSTLY * self.held
    }

    /// Unclear once may be an accident; twice, it is not.
    const fn is_unclear(&self) -> bool {
        self.held == 0 && self.missed == 0 && self.unclear > 1
    }
}

/// The next step after these trials, in whatever order they were made.
pub fn limit_step(search: &LimitPlan, trials: &[Trial]) -> LimitStep {
    let tried = tried(trials);
    let mut found = interval(&tried);
    match again(search, &tried).or_else(|| next_rate(search, &tried, &found)) {
        Some(rate) if trials.len() < search.most_trials as usize => LimitStep::Try(rate),
        Some(_) => LimitStep::Found(found),
        None => {
            found.ended = true;
            found.confirmed = found.low.is_some() && found.high.is_some();
            LimitStep::Found(found)
        }
    }
}

/// The most trials that a search still makes where all further ones agree on one limit.
pub fn most_trials_left(search: &LimitPlan, trials: &[Trial]) -> usize {
    let found = interval(&tried(trials));
    longest_way(search, &mut trials.to_vec(), found.low.unwrap_or(0.0), found.high.unwrap_or(f64::INFINITY))
}

/// The most further trials where all hold up to `low`, and none from `high` on.
fn longest_way(search: &LimitPlan, trials: &mut Vec<Trial>, low: f64, high: f64) -> usize {
    let LimitStep::Try(rate) = limit_step(search, trials) else { return 0 };
    let mut after = |holds, low, high| {
        trials.push((rate, Some(holds)));
        let further = longest_way(search, trials, low, high);
        trials.pop();
        1 + further
    };
    let held = if rate < high { after(true, low.max(rate), high) } else { 0 };
    let missed = if rate > low { after(false, low, high.min(rate)) } else { 0 };
    held.max(missed)
}

fn tried(trials: &[Trial]) -> Vec<Tried> {
    let mut tried: Vec<Tried> = Vec::new();
    for (rate, outcome) in trials.iter().filter(|it| it.0.is_finite()) {
        let at = tried.iter().position(|it| it.rate == *rate);
        let at = at.unwrap_or_else(|| {
            tried.push(Tried { rate: *rate, held: 0, missed: 0, unclear: 0 });
            tried.len() - 1
        });
        if let Some(it) = tried.get_mut(at) {
            match outcome {
                Some(true) => it.held += 1,
                Some(false) => it.missed += 1,
                None => it.unclear += 1,
            }
        }
    }
    tried.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    tried
}

fn interval(tried: &[Tried]) -> FoundLimit {
    let low = tried.iter().take_while(|it| it.is_held()).last();
    let high = tried.iter().rev().filter(|it| !it.is_unclear()).take_while(|it| it.is_missed()).last();
    let over = |it: &&Tried| it.is_unclear() && low.is_none_or(|low| it.rate > low.rate);
    FoundLimit {
        low: low.map(|it| it.rate),
        high: high.map(|it| it.rate),
        unclear: tried.iter().find(over).map(|it| it.rate),
        ..FoundLimit::default()
    }
}

/// A rate whose only trial was unclear, or that does not hold although a higher one does, until trials agree.
fn again(search: &LimitPlan, tried: &[Tried]) -> Option<f64> {
    let highest = tried.iter().rev().find(|it| it.is_held());
    let is_odd = |it: &&Tried| {
        let once = it.held == 0 && it.missed == 0 && it.unclear == 1;
        let is_below = highest.is_some_and(|high| high.rate > it.rate);
        let is_open = !it.is_held() && it.missed < search.confirmations;
        once || is_below && it.missed > 0 && is_open
    };
    tried.iter().find(is_odd).map(|it| it.rate)
}

fn next_rate(search: &LimitPlan, tried: &[Tried], found: &FoundLimit) -> Option<f64> {
    let (Some(lowest), Some(highest)) = (tried.first(), tried.last()) else {
        return Some(search.rounded(search.first));
    };
    let Some(low) = found.low else { return (lowest.rate > search.least).then(|| search.rounded(lowest.rate / 2.0)) };
    let end = found.high.or(found.unclear);
    let Some(end) = end else {
        return match highest.rate < search.most {
            true => Some(search.rounded(highest.rate * 2.0)),
            false => confirmed(search, tried, low, None),
        };
    };
    // Above the lower end, and below the upper one, lie the nearest rates that were tried.
    let after = tried.iter().find(|it| it.rate > low);
    let before = tried.iter().rev().find(|it| it.rate < end);
    let between = [(low, after.map_or(end, |it| it.rate)), (before.map_or(low, |it| it.rate), end)];
    let wide = between.into_iter().find(|(from, to)| !is_close(search, *from, *to));
    wide.map(|(from, to)| search.rounded((from * to).sqrt()))
        .filter(|rate| tried.iter().all(|it| it.rate != *rate))
        .or_else(|| confirmed(search, tried, low, found.high))
}

/// The end that has too few trials; `None` where both have enough.
fn confirmed(search: &LimitPlan, tried: &[Tried], low: f64, high: Option<f64>) -> Option<f64> {
    let lacks = |rate: f64, count: fn(&Tried) -> u32| {
        tried.iter().find(|it| it.rate == rate).is_some_and(|it| count(it) < search.confirmations)
    };
    let low = Some(low).filter(|low| lacks(*low, |it| it.held));
    low.or_else(|| high.filter(|high| lacks(*high, |it| it.missed)))
}

fn is_close(search: &LimitPlan, low: f64, high: f64) -> bool {
    // What is rounded to three digits lies up to half a percent away.
    high <= low * (1.0 + search.precision.max(0.01)) * (1.0 + 1e-9)
}

/// A rate to three digits: people read it, and type it.
pub fn round_rate(rate: f64) -> f64 {
    let digits = rate.abs().max(f64::MIN_POSITIVE).log10().floor() - 2.0;
    let step = 10_f64.powi(digits as i32);
    if digits >= 0.0 {
        (rate / step).round() * step
    } else {
        // A power of ten with a negative exponent has no exact place in a float.
        let steps = 10_f64.powi(-(digits as i32));
        (rate * steps).round() / steps
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
