//! Use of machine and processes other than CPU: memory by kind, disks, networks, page faults, context switches,
//! pressure. Each reading is a list of meters; rates come from two of them.

mod machine;
mod process;

use std::collections::BTreeMap;

use measure::Time;

pub use machine::machine;
pub use process::ProcessActivity;

/// Unit of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// Things of any kind.
    Things,
    /// Bytes of memory, of a disk or of a network.
    Bytes,
    /// Seconds of one core.
    CpuSeconds,
    /// Seconds in which something was the case.
    Seconds,
}

/// Name of a meter, and the labels that tell it from others of that name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeterName {
    /// `memory`, `disk`.
    pub name: &'static str,
    /// Each with its value: a device, a direction.
    pub labels: Vec<(&'static str, String)>,
    /// Unit of amounts.
    pub unit: Unit,
}

/// Amount of a meter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// As it is now.
    Level(f64),
    /// Everything since some time in the past; it never goes back unless it begins again.
    Total(f64),
}

/// All meters at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meters(Vec<(MeterName, Amount)>);

impl Meters {
    fn level(&mut self, name: &'static str, labels: &[Label<'_>], unit: Unit, value: impl Into<Option<f64>>) {
        self.push(name, labels, unit, value.into().map(Amount::Level));
    }

    fn total(&mut self, name: &'static str, labels: &[Label<'_>], unit: Unit, value: impl Into<Option<f64>>) {
        self.push(name, labels, unit, value.into().map(Amount::Total));
    }

    /// Adds a meter, where it has an amount.
    fn push(&mut self, name: &'static str, labels: &[Label<'_>], unit: Unit, amount: Option<Amount>) {
        let labels = labels.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        self.0.extend(amount.map(|amount| (MeterName { name, labels, unit }, amount)));
    }

    /// The meters in the order in which they were read.
    pub fn iter(&self) -> impl Iterator<Item = &(MeterName, Amount)> {
        self.0.iter()
    }
}

type Label<'a> = (&'static str, &'a str);

/// A meter's level, or its total per second of elapsed time.
#[derive(Clone, Debug, PartialEq)]
pub struct MeterValue {
    /// Of what.
    pub name: MeterName,
    /// Whether it is a rate: the growth of a total, divided by elapsed time.
    pub is_rate: bool,
    /// Its value, in units or units per second.
    pub value: f64,
}

/// Makes rates of totals.
#[derive(Clone, Debug, Default)]
pub struct MeterRates {
    before: Option<(Time, BTreeMap<MeterName, f64>)>,
}

impl MeterRates {
    /// Levels as they are, and totals as their growth per second since the reading before. Totals have no rate in the
    /// first reading, when they are new, and when they have begun again.
    pub fn next(&mut self, at: Time, meters: Meters) -> Vec<MeterValue> {
        let elapsed = self.before.as_ref().map(|(then, _)| at.since(*then));
        let seconds = elapsed.map_or(0.0, |elapsed| elapsed.as_secs_f64());
        let mut totals = BTreeMap::new();
        let mut values = Vec::with_capacity(meters.0.len());
        for (name, amount) in meters.0 {
            match amount {
                Amount::Level(value) => values.push(MeterValue { name, is_rate: false, value }),
                Amount::Total(total) => {
                    let then = self.before.as_ref().and_then(|(_, all)| all.get(&name));
                    let grown = then.map(|then| total - then).filter(|grown| *grown >= 0.0);
                    if let Some(grown) = grown.filter(|_| seconds > 0.0) {
                        values.push(MeterValue { name: name.clone(), is_rate: true, value: grown / seconds });
                    }
                    totals.insert(name, total);
                }
            }
        }
        self.before = Some((at, totals));
        values
    }
}

#[cfg(test)]
mod tests {
    use measure::Nanos;

    use super::*;

    fn total(value: f64) -> Meters {
        let mut meters = Meters::default();
        meters.total("disk", &[("device", "vda")], Unit::Bytes, value);
        meters.level("memory", &[], Unit::Bytes, 7.0);
        meters
    }

    #[test]
    fn totals_become_rates_and_levels_stay() {
        let mut rates = MeterRates::default();
        let at = |ms| Time(0) + Nanos::from_millis(ms);
        let mut next = |ms, value| {
            let values = rates.next(at(ms), total(value));
            values.iter().map(|it| (it.name.name, it.is_rate, it.value)).collect::<Vec<_>>()
        };
        let level = ("memory", false, 7.0);
        assert_eq!(next(0, 1000.0), [level], "one reading says nothing of rates");
        assert_eq!(next(500, 1100.0), [("disk", true, 200.0), level]);
        assert_eq!(next(1000, 3.0), [level], "it has begun again");
        assert_eq!(next(2000, 3.0), [("disk", true, 0.0), level]);
        assert_eq!(next(2000, 9.0), [level], "no time has passed");
    }
}
