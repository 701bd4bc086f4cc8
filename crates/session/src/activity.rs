//! Activity of the machine and the broker's processes beside computing, as named series of the run.

use archive::{SeriesName, SeriesUnit};
use linux::activity::{self, MeterRates, MeterValue, ProcessActivity, Unit};
use measure::Clock;

/// The source of the machine's series.
pub(crate) const MACHINE: &str = "machine";
/// The source of the series of the broker's processes, or of the process that is recorded.
pub(crate) const BROKER: &str = "broker";

/// Reads meters, and makes series of them.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    machine: MeterRates,
    processes: ProcessActivity,
    broker: MeterRates,
}

impl Activity {
    /// Activity of the machine and these processes since the previous call.
    pub(crate) fn read(&mut self, pids: &[u32]) -> Vec<(SeriesName, f64)> {
        // The clock is read right beside what divides by it.
        let meters = activity::machine();
        let machine = self.machine.next(Clock.now(), meters);
        let meters = self.processes.read(pids);
        let broker = self.broker.next(Clock.now(), meters);
        let machine = machine.into_iter().map(|value| series(MACHINE, value));
        let broker = broker.into_iter().map(|value| series(BROKER, value));
        machine.chain(broker).collect()
    }
}

fn series(source: &str, meter: MeterValue) -> (SeriesName, f64) {
    let unit = match (meter.name.unit, meter.is_rate) {
        (Unit::Things, false) => SeriesUnit::Count,
        (Unit::Things, true) => SeriesUnit::PerSecond,
        (Unit::Bytes, false) => SeriesUnit::Bytes,
        (Unit::Bytes, true) => SeriesUnit::BytesPerSecond,
        (Unit::CpuSeconds, true) => SeriesUnit::Cores,
        (Unit::Seconds, true) => SeriesUnit::Share,
        (Unit::CpuSeconds | Unit::Seconds, false) => SeriesUnit::Seconds,
    };
    let name = SeriesName::new(source, meter.name.name, unit);
    let labels = meter.name.labels.iter();
    let name = labels.fold(name, |name, (key, value)| name.with(key, value));
    (name, meter.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_and_this_process_have_series_from_the_second_reading_on() {
        let mut activity = Activity::default();
        let me = [std::process::id()];
        activity.read(&me);
        std::thread::sleep(std::time::Duration::from_millis(120));
        let values = activity.read(&me);
        let find = |source: &str, name: &str, label: &str| {
            let mut all = values.iter();
            let found = all.find(|(it, _)| {
                it.source == source && it.name == name && it.labels.values().any(|it| it == label)
            });
            found.map(|(name, value)| (name.unit, *value))
        };
        let (unit, cores) = find(MACHINE, "CPU", "user").unwrap();
        assert_eq!(unit, SeriesUnit::Cores);
        assert!(
            (0.0..=1.2 * f64::from(linux::cpus::usable())).contains(&cores),
            "{cores}"
        );
        let (unit, bytes) = find(BROKER, "memory", "anonymous").unwrap();
        assert_eq!(unit, SeriesUnit::Bytes);
        assert!(bytes > 1e5, "{bytes}");
        let (unit, rate) = find(BROKER, "context switches", "waited").unwrap();
        assert_eq!(unit, SeriesUnit::PerSecond);
        assert!(rate > 0.0, "it slept");
        assert!(find(BROKER, "memory", "anonymous").is_some());
        assert!(
            activity
                .read(&[])
                .iter()
                .all(|(name, _)| name.source == MACHINE)
        );
    }
}
