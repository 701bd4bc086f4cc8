//! From what was measured to what a load could have come to.

use archive::Capacity;
use load::{Plan, Sizes};

use super::{BUSY, Calibration, Point, Workload};

/// So few messages in flight per producer that each waits for the one before.
const FEW: u32 = 3;
/// So many times the connections that were measured say nothing any more.
const BEYOND: f64 = 20.0;

impl Calibration {
    /// What the generator made here of a load like this one; `None` where none is like it.
    pub(crate) fn capacity(&self, plan: &Plan) -> Option<Capacity> {
        let producing = plan.groups.iter().find(|g| g.producer_count() > 0)?;
        let producers: usize = plan.groups.iter().map(load::Group::producer_count).sum();
        let consumers: usize = plan.groups.iter().map(load::Group::consumer_count).sum();
        let settings = &producing.producers;
        let Sizes::Fixed(size) = settings.sizes else {
            return None;
        };
        if settings.commit_every > 0 || plan.is_closed_loop() {
            return None;
        }
        let few = settings.confirm && (1..=FEW).contains(&settings.max_pending);
        let workload = match (consumers > 0, settings.confirm) {
            _ if few => Workload::OneByOne,
            (true, _) => Workload::InOut,
            (false, true) => Workload::Confirm,
            (false, false) => Workload::Publish,
        };
        let (rate, connections) = self.rate(workload, size, producers)?;
        let mut shape = format!(
            "{}, {size} B, {connections} producer{}, one event loop",
            workload.name(),
            if connections == 1 { "" } else { "s" }
        );
        if self.others_cores >= BUSY {
            let others = self.others_cores;
            shape += &format!(", while other processes used {others:.1} cores");
        }
        Some(Capacity {
            rate,
            shape,
            at_least: false,
        })
    }

    /// Messages per second, and the number of connections that were measured. Between two sizes the
    /// time per message is taken to grow evenly, as copying does.
    fn rate(&self, workload: Workload, size: usize, connections: usize) -> Option<(f64, usize)> {
        let distance = |point: &&Point| (connections as f64 / point.connections as f64).ln().abs();
        let like: Vec<&Point> = self
            .points
            .iter()
            .filter(|p| p.workload == workload && p.rate > 0.0 && p.connections > 0)
            .collect();
        let nearest = like
            .iter()
            .copied()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        if distance(&nearest) > BEYOND.ln() {
            return None;
        }
        let mut line: Vec<&Point> = like
            .into_iter()
            .filter(|p| p.connections == nearest.connections)
            .collect();
        line.sort_by_key(|p| p.size);
        Some((1.0 / seconds_each(&line, size)?, nearest.connections))
    }
}

/// Seconds per message of this size, on the line through the measured sizes.
fn seconds_each(line: &[&Point], size: usize) -> Option<f64> {
    let each = |p: &Point| 1.0 / p.rate;
    let above = line.iter().position(|p| p.size >= size);
    let (low, high) = match above {
        Some(0) => return line.first().map(|p| each(p)),
        Some(at) => (line.get(at - 1)?, line.get(at)?),
        // Beyond the largest: as from the one before to it.
        None if line.len() > 1 => (line.get(line.len() - 2)?, line.last()?),
        None => return line.last().map(|p| each(p)),
    };
    let part = (size as f64 - low.size as f64) / (high.size as f64 - low.size as f64);
    Some((each(low) + (each(high) - each(low)) * part).max(each(low).min(each(high))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::{Destination, Group};

    fn calibration() -> Calibration {
        let point = |workload, size, connections, rate| Point {
            workload,
            size,
            connections,
            rate,
            client_ns: 100.0,
            broker_ns: 100.0,
            loop_lag_max_ns: 0,
        };
        Calibration {
            points: vec![
                point(Workload::Publish, 12, 1, 8e6),
                point(Workload::Confirm, 12, 1, 4e6),
                point(Workload::Confirm, 1_024, 1, 1e6),
                point(Workload::Confirm, 16_384, 1, 1e5),
                point(Workload::Confirm, 12, 100, 2e6),
                point(Workload::OneByOne, 12, 1, 3e4),
            ],
            ..Calibration::here()
        }
    }

    fn plan(set: impl FnOnce(&mut Group)) -> Plan {
        let queue = Destination::parse("queue://q").unwrap();
        let mut group = Group::new("amqp://localhost".parse().unwrap(), vec![queue]);
        (group.producers.max_pending, group.producers.sizes) = (1_000, Sizes::Fixed(12));
        (
            group.producers.per_destination,
            group.consumers.per_destination,
        ) = (1, 0);
        set(&mut group);
        Plan {
            groups: vec![group],
            ..Plan::default()
        }
    }

    fn rate(set: impl FnOnce(&mut Group)) -> Option<f64> {
        Some(calibration().capacity(&plan(set))?.rate)
    }

    #[test]
    fn what_was_measured_is_what_is_said() {
        assert_eq!(rate(|_| {}), Some(4e6));
        assert_eq!(rate(|g| g.producers.confirm = false), Some(8e6));
        assert_eq!(rate(|g| g.producers.max_pending = 1), Some(3e4));
        assert_eq!(rate(|g| g.producers.per_destination = 60), Some(2e6));
        let capacity = calibration().capacity(&plan(|_| {})).unwrap();
        assert_eq!(
            capacity.shape,
            "publish with confirms, 12 B, 1 producer, one event loop"
        );
    }

    #[test]
    fn between_sizes_the_time_per_message_is_interpolated() {
        let close = |size: usize, expected: f64| {
            let found = rate(|g| g.producers.sizes = Sizes::Fixed(size)).unwrap();
            assert!((found / expected - 1.0).abs() < 0.01, "{size}: {found}");
        };
        close(1_024, 1e6);
        // Half-way from 0.25 us to 1 us.
        close(518, 1.6e6);
        // 10 us at 16 KiB, 9 us more for each further 15 KiB.
        close(31_744, 1e6 / 19.0);
    }

    #[test]
    fn what_was_not_measured_is_not_guessed() {
        assert_eq!(rate(|g| g.producers.per_destination = 10_000), None);
        assert_eq!(rate(|g| g.consumers.per_destination = 1), None);
        assert_eq!(rate(|g| g.producers.per_destination = 0), None);
        assert_eq!(rate(|g| g.producers.sizes = Sizes::List(vec![1, 2])), None);
        assert_eq!(rate(|g| g.producers.commit_every = 10), None);
    }
}
