//! Commands that look again and again.

use std::time::{Duration, Instant};

use measure::Length;
use serde::Serialize;

use crate::failure::{Done, Failure};
use crate::{output, signals};

/// The shortest step of a wait, after which a wish to stop is noticed.
const STEP: Duration = Duration::from_millis(50);

/// A length of time for the standard library.
pub(super) const fn time(length: Length) -> Duration {
    Duration::from_nanos(length.0.0)
}

/// When to look again, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repetition {
    /// Time from one look to the next; one look if absent.
    pub(super) every: Option<Length>,
    /// Looks at most.
    pub(super) count: Option<u32>,
}

impl Repetition {
    /// Looks the requested number of times, or until stopped.
    pub(super) fn run(
        self,
        mut look: impl FnMut(u32) -> Result<(), Failure>,
    ) -> Result<Done, Failure> {
        self.run_windows(|number, _| look(number))
    }

    /// Runs looks that last: each gets a function that tells whether it should end.
    pub(super) fn run_windows(
        self,
        mut look: impl FnMut(u32, &dyn Fn() -> bool) -> Result<(), Failure>,
    ) -> Result<Done, Failure> {
        let control = load::Control::new();
        let at_once = signals::stop_load(&control)?;
        let stop = || control.is_stopping();
        let last = match self.every {
            Some(_) => self.count.unwrap_or(u32::MAX),
            None => 1,
        };
        let mut due = Instant::now();
        for number in 1..=last {
            look(number, &stop)?;
            at_once.check()?;
            due += self.every.map_or(Duration::ZERO, time);
            while number < last && Instant::now() < due && !control.is_stopping() {
                std::thread::sleep(STEP.min(due.saturating_duration_since(Instant::now())));
            }
            if control.is_stopping() {
                break;
            }
            // Who was late does not catch up.
            due = due.max(Instant::now() - STEP);
        }
        at_once.check()?;
        Ok(Done::Fine)
    }

    /// Prints a look as data: one value as a whole, several one a line.
    pub(super) fn print_json(self, value: &impl Serialize) -> Result<(), Failure> {
        match self.every {
            None => output::print_json(value),
            Some(_) => output::print_json_line(value),
        }
    }
}
