//! When the messages of a queue expire, and what a message itself says of that.

use measure::{Nanos, Time};
use wire::amqp091::Properties;

use crate::arguments::LONGEST_TTL_MS;
use crate::log::Log;
use crate::refusal::Refusal;

/// Fewer times than these are not looked through for messages that are gone.
const KEPT: usize = 64;

/// When the messages of one queue expire, those that do.
#[derive(Debug)]
pub(crate) struct Expiries {
    /// Addresses in order, with times in any; also of some messages that are gone.
    times: Vec<(u64, Time)>,
    /// None expires before.
    soonest: Time,
    /// How many there are when those of messages that are gone are forgotten.
    forget_at: usize,
}

impl Default for Expiries {
    fn default() -> Self {
        Self {
            times: Vec::new(),
            soonest: Time(u64::MAX),
            forget_at: KEPT,
        }
    }
}

impl Expiries {
    /// Notes when the newest message of `log` expires.
    pub(crate) fn add(&mut self, address: u64, at: Time, log: &Log) {
        if self.times.len() >= self.forget_at {
            self.times.retain(|(address, _)| log.holds(*address));
            self.forget_at = 2 * self.times.len() + KEPT;
            let soonest = self.times.iter().map(|(_, at)| *at).min();
            self.soonest = soonest.unwrap_or(Time(u64::MAX));
        }
        self.soonest = self.soonest.min(at);
        self.times.push((address, at));
    }

    /// When a message expires.
    pub(crate) fn of(&self, address: u64) -> Option<Time> {
        let at = self.times.binary_search_by_key(&address, |it| it.0).ok()?;
        self.times.get(at).map(|(_, at)| *at)
    }

    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.times.len()
    }

    /// The time before which none expires.
    #[inline]
    pub(crate) const fn soonest(&self) -> Time {
        self.soonest
    }
}

/// A message's own time to live, its expiration in milliseconds.
///
/// # Errors
/// One that is no such number, in RabbitMQ's words.
#[inline]
pub(crate) fn time_to_live(properties: &[u8]) -> Result<Option<Nanos>, Refusal> {
    match Properties::from_bytes(properties).expiration() {
        None => Ok(None),
        Some(text) => parse(text)
            .map(Some)
            .map_err(|why| Refusal::precondition(&format!("invalid expiration '{text}': {why}"))),
    }
}

/// Reads a number as Erlang's `string:to_integer` does.
fn parse(text: &str) -> Result<Nanos, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let rest = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &unsigned[..unsigned.len() - rest.len()];
    let number = digits.trim_start_matches('0');
    if digits.is_empty() {
        Err("no_integer".to_owned())
    } else if !rest.is_empty() {
        Err(format!("{{leftover_string,{rest:?}}}"))
    } else if text.starts_with('-') && !number.is_empty() {
        Err(format!("{{value_negative,-{number}}}"))
    } else {
        let ms = number.parse::<u64>().unwrap_or(match number {
            "" => 0,
            _ => u64::MAX,
        });
        match ms <= LONGEST_TTL_MS {
            true => Ok(Nanos::from_millis(ms)),
            false => Err(format!("{{value_too_large,{number}}}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_and_refused_as_rabbitmq_does() {
        for (text, ms) in [
            ("0", 0),
            ("-0", 0),
            ("+5", 5),
            ("007", 7),
            ("315360000000", 315_360_000_000),
        ] {
            assert_eq!(parse(text), Ok(Nanos::from_millis(ms)), "{text}");
        }
        for (text, why) in [
            ("", "no_integer"),
            ("soon", "no_integer"),
            (" 5", "no_integer"),
            ("--5", "no_integer"),
            ("10ms", "{leftover_string,\"ms\"}"),
            ("1.5", "{leftover_string,\".5\"}"),
            ("-5", "{value_negative,-5}"),
            ("315360000001", "{value_too_large,315360000001}"),
            (
                "99999999999999999999999",
                "{value_too_large,99999999999999999999999}",
            ),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()), "{text}");
        }
    }
}
