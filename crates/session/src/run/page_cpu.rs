//! CPU time that a page of metrics costs the broker beside a load, estimated from the CPU time of each interval and the
//! share of a page made in it.
//!
//! A line through `CPU time = a × length + b × pages` is fitted by least squares; a page that was in flight over several intervals
//! is shared out among them by time, and `b` is what one costs. Intervals depend on each other, so that the interval of `b` comes
//! from leaving out a block of them at a time (the jackknife).

use archive::PageCpu;
use compare::paired;
use measure::{Nanos, Time};

/// With fewer pages the interval holds the cost less often than stated where the broker has equally regular work of its
/// own: the requests did not come to each part of an interval
/// (`one_of_the_fewest_pages_holds_its_cost_as_often_as_it_says`).
const LEAST_PAGES: usize = 12;
/// Blocks that are left out, one at a time, at most.
const MOST_BLOCKS: usize = 20;
/// Where a page is being made for a larger share of the time, nothing is left to compare it with.
const MOST_BUSY: f64 = 0.9;
/// A share of the pages' variation that lengths do not explain; below it every interval is like the other.
const LEAST_VARIATION: f64 = 1e-3;
const CONFIDENCE: f64 = 0.95;

/// CPU time that was used between two instants.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsedCpu {
    pub(super) from: Time,
    pub(super) to: Time,
    pub(super) cpu: Nanos,
}

/// When a page was requested, and when it had been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) sent: Time,
    pub(super) done: Time,
}

/// The cost of a page; `None` where it is not identifiable: too few pages, one in flight all the time, equally many in
/// each interval, or a negative estimate because other work coincides with them. Both slices are in order of time, and
/// flights do not overlap.
pub(super) fn page_cpu(used: &[UsedCpu], flights: &[Flight]) -> Option<PageCpu> {
    let (rows, busy) = rows(used, flights);
    let pages = flights.len();
    let length: f64 = rows.iter().map(|row| row.seconds).sum();
    if pages < LEAST_PAGES || busy > MOST_BUSY * length {
        return None;
    }
    let blocks = pages.min(MOST_BLOCKS);
    if rows.len() < 2 * blocks {
        return None;
    }
    let all = Sums::of(&rows);
    let whole = all.slope()?;
    let edge = |block: usize| block * rows.len() / blocks;
    let count = blocks as f64;
    let without = (0..blocks).map(|block| {
        let left_out = rows.get(edge(block)..edge(block + 1)).unwrap_or_default();
        let slope = all.less(&Sums::of(left_out)).slope()?;
        Some(count * whole - (count - 1.0) * slope)
    });
    let values = without.collect::<Option<Vec<f64>>>()?;
    let (low, high) = paired(&values)?.interval(CONFIDENCE);
    (high >= 0.0).then_some(PageCpu {
        seconds: whole,
        interval: (low, high),
    })
}

/// One interval.
struct Row {
    seconds: f64,
    pages: f64,
    cpu: f64,
}

/// The intervals, and the seconds in which a page was in flight.
fn rows(used: &[UsedCpu], flights: &[Flight]) -> (Vec<Row>, f64) {
    let (mut rest, mut busy) = (flights, 0.0);
    let rows = used.iter().map(|of| {
        while let Some((_, others)) = rest.split_first().filter(|it| it.0.done <= of.from) {
            rest = others;
        }
        let mut pages = 0.0;
        for flight in rest.iter().take_while(|it| it.sent < of.to) {
            let both = flight.done.min(of.to).since(flight.sent.max(of.from));
            let whole = flight.done.since(flight.sent).max(Nanos(1));
            pages += both.as_secs_f64() / whole.as_secs_f64();
            busy += both.as_secs_f64();
        }
        Row {
            seconds: of.to.since(of.from).as_secs_f64(),
            pages,
            cpu: of.cpu.as_secs_f64(),
        }
    });
    (rows.collect(), busy)
}

/// Sums for the fit.
#[derive(Default)]
struct Sums {
    lengths: f64,
    mixed: f64,
    pages: f64,
    of_lengths: f64,
    of_pages: f64,
}

impl Sums {
    fn of(rows: &[Row]) -> Self {
        let mut sums = Self::default();
        for row in rows {
            sums.lengths += row.seconds * row.seconds;
            sums.mixed += row.seconds * row.pages;
            sums.pages += row.pages * row.pages;
            sums.of_lengths += row.seconds * row.cpu;
            sums.of_pages += row.pages * row.cpu;
        }
        sums
    }

    fn less(&self, other: &Self) -> Self {
        Self {
            lengths: self.lengths - other.lengths,
            mixed: self.mixed - other.mixed,
            pages: self.pages - other.pages,
            of_lengths: self.of_lengths - other.of_lengths,
            of_pages: self.of_pages - other.of_pages,
        }
    }

    fn slope(&self) -> Option<f64> {
        let free = self.lengths * self.pages - self.mixed * self.mixed;
        let is_told = free > LEAST_VARIATION * self.lengths * self.pages;
        is_told.then(|| (self.lengths * self.of_pages - self.mixed * self.of_lengths) / free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// A page every so often that takes `takes` and costs `cost`, in two minutes of seconds with 0.8 s of other CPU
    /// time and noise of ± 0.1 s.
    fn scene(every: u64, takes: u64, cost: f64) -> (Vec<UsedCpu>, Vec<Flight>) {
        let pages = (1..).map(|page| page * every + 300);
        let flights = pages.map(|sent| Flight {
            sent: at(sent),
            done: at(sent + takes),
        });
        let flights: Vec<_> = flights.take_while(|it| it.done <= at(120_000)).collect();
        let mut state = 7_u64;
        let used = (0..120).map(|second| {
            let (from, to) = (at(second * 1_000), at((second + 1) * 1_000));
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let noise = (state >> 40) as f64 / (1_u64 << 24) as f64 * 0.2 - 0.1;
            let shares = flights.iter().map(|it| {
                let both = it.done.min(to).since(it.sent.max(from)).as_secs_f64();
                both / it.done.since(it.sent).as_secs_f64()
            });
            let cpu = 0.8 + noise + cost * shares.sum::<f64>();
            UsedCpu {
                from,
                to,
                cpu: Nanos((cpu * 1e9) as u64),
            }
        });
        (used.collect(), flights)
    }

    #[test]
    fn a_known_cost_is_found_again() {
        for (takes, cost) in [(1_500, 1.9), (200, 0.3)] {
            let (used, flights) = scene(5_000, takes, cost);
            let found = page_cpu(&used, &flights).expect("told");
            let (low, high) = found.interval;
            assert!(low < cost && cost < high, "{cost}: {found:?}");
            assert!(low > 0.0 && high - low < 0.3, "{cost}: {found:?}");
            assert!((found.seconds - cost).abs() < 0.1, "{cost}: {found:?}");
        }
    }

    #[test]
    fn what_costs_nothing_has_an_interval_with_nothing_in_it() {
        let (used, flights) = scene(5_000, 1_500, 0.0);
        let (low, high) = page_cpu(&used, &flights).expect("told").interval;
        assert!(low < 0.0 && 0.0 < high, "{low} {high}");
    }

    /// Estimate for `pages` pages of 40 ms that are `due`, while other work of the broker comes every five seconds as
    /// they do.
    fn beside_work(pages: u64, cost: f64, due: &dyn Fn(u64) -> u64) -> Option<PageCpu> {
        let flights = (0..pages).map(|number| Flight {
            sent: at(due(number)),
            done: at(due(number) + 40),
        });
        let flights: Vec<_> = flights.collect();
        let used = (0..=pages * 5).map(|second| {
            let (from, to) = (at(second * 1_000), at((second + 1) * 1_000));
            let shares = flights.iter().map(|it| {
                let both = it.done.min(to).since(it.sent.max(from)).as_secs_f64();
                both / it.done.since(it.sent).as_secs_f64()
            });
            let noise = 0.01 * (second * 7 % 5) as f64;
            let work = if second.is_multiple_of(5) { 0.135 } else { 0.0 };
            let cpu = 0.8 + noise + work + cost * shares.sum::<f64>();
            UsedCpu {
                from,
                to,
                cpu: Nanos((cpu * 1e9) as u64),
            }
        });
        page_cpu(&used.collect::<Vec<_>>(), &flights)
    }

    /// Over 40 seeds: in how many the interval of a page without cost excludes zero, and in how many that of a cost
    /// holds it.
    fn claimed_and_held(pages: u64) -> (u32, u32) {
        let (mut claimed, mut held) = (0, 0);
        for seed in 0..40 {
            let times = web::scrape::RequestTimes {
                every: Nanos::from_millis(5_000),
                jitter: Some(seed),
            };
            let due = |number| times.due(number).0 / 1_000_000;
            claimed +=
                u32::from(beside_work(pages, 0.0, &due).is_some_and(|it| it.interval.0 > 0.0));
            let (low, high) = beside_work(pages, 0.3, &due).expect("told").interval;
            held += u32::from(low < 0.3 && 0.3 < high);
        }
        (claimed, held)
    }

    #[test]
    fn work_with_a_period_of_its_own_is_not_taken_for_the_pages() {
        let regular = beside_work(24, 0.0, &|number| number * 5_000 + 100).expect("told");
        assert!(regular.interval.0 > 0.1, "what jitter is for: {regular:?}");
        let (claimed, held) = claimed_and_held(24);
        assert!(claimed <= 2 && held >= 38, "{claimed} {held} of 40");
    }

    #[test]
    fn one_of_the_fewest_pages_holds_its_cost_as_often_as_it_says() {
        let (claimed, held) = claimed_and_held(LEAST_PAGES as u64);
        assert!(claimed <= 2 && held >= 38, "{claimed} {held} of 40");
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        // One page behind the other.
        let (used, flights) = scene(5_000, 5_000, 1.0);
        assert_eq!(page_cpu(&used, &flights), None);
        // A page in each second.
        let (used, flights) = scene(1_000, 100, 0.1);
        assert_eq!(page_cpu(&used, &flights), None);
        // Few pages.
        let (used, flights) = scene(5_000, 1_500, 1.0);
        assert_eq!(page_cpu(&used, &flights[..11]), None);
        assert_eq!(page_cpu(&used[..9], &flights), None);
        assert_eq!(page_cpu(&[], &[]), None);
    }
}
