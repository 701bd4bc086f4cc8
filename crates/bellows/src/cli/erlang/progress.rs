//! Progress of a task: a bar on a terminal, from two seconds on; nothing in a pipe. Commands that look repeatedly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use measure::Length;
use report::console::Steps;
use serde::Serialize;

use crate::{Done, Failure, output, signals};

/// Shortest task with a bar.
const LEAST: Duration = Duration::from_secs(2);
/// Time from one look to the next, and to the first.
const EVERY: Duration = Duration::from_millis(250);

/// A bar that advances with time until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Progress {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    text: Mutex<String>,
    done: AtomicBool,
}

impl Progress {
    pub(super) fn of_time(length: Duration, text: &str) -> Self {
        let mut progress = Self::default();
        progress.say(text);
        if !output::style_aside().terminal || length < LEAST {
            return progress;
        }
        let shared = Arc::clone(&progress.shared);
        let show = move || shared.show(length);
        // Without a thread nothing is shown, and all else works.
        let thread = thread::Builder::new().name("progress".into()).spawn(show);
        progress.thread = thread.ok();
        progress
    }

    pub(super) fn say(&self, text: &str) {
        text.clone_into(&mut self.shared.text.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It cannot panic, and the bar is only a courtesy.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn show(&self, length: Duration) {
        let begun = Instant::now();
        let mut steps = None;
        loop {
            thread::park_timeout(EVERY);
            if self.done.load(Ordering::Relaxed) {
                break;
            }
            let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let of = length.as_secs().max(1) as usize;
            let done = (begun.elapsed().as_secs() as usize).min(of);
            steps.get_or_insert_with(|| Steps::new(output::style_aside())).at(done, of, &text);
        }
        if let Some(steps) = steps {
            steps.clear();
        }
    }
}

/// The shortest step of a wait, after which a wish to stop is noticed.
const STEP: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
pub(super) struct Repetition {
    /// Time from one look to the next; one look if absent.
    pub(super) every: Option<Length>,
    pub(super) count: Option<u32>,
}

impl Repetition {
    /// Looks the requested number of times, or until stopped: each gets its number, and a check for the end.
    pub(super) fn run(
        self,
        mut look: impl FnMut(u32, &dyn Fn() -> bool) -> Result<(), Failure>,
    ) -> Result<Done, Failure> {
        let (control, at_once) = signals::stop_load()?;
        let stop = || control.is_stopping();
        let last = match self.every {
            Some(_) => self.count.unwrap_or(u32::MAX),
            None => 1,
        };
        let mut due = Instant::now();
        for number in 1..=last {
            look(number, &stop)?;
            at_once.check()?;
            due += self.every.map_or(Duration::ZERO, |it| it.0.into());
            while number < last && Instant::now() < due && !control.is_stopping() {
                thread::sleep(STEP.min(due.saturating_duration_since(Instant::now())));
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
