//! Progress of a task: a bar on a terminal, where it lasts two seconds or more; nothing in a pipe.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use report::console::Steps;

use crate::output;

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
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    text: String,
    done: bool,
}

impl Progress {
    /// A task of this length, and its text.
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

    /// Shows the current step.
    pub(super) fn say(&self, text: &str) {
        text.clone_into(&mut self.shared.state().text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.state().done = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and the bar is only a courtesy.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, length: Duration) {
        let begun = Instant::now();
        let mut steps = None;
        loop {
            let waited = self
                .changed
                .wait_timeout_while(self.state(), EVERY, |state| !state.done);
            let text = {
                let state = &waited.unwrap_or_else(PoisonError::into_inner).0;
                if state.done {
                    break;
                }
                state.text.clone()
            };
            let of = length.as_secs().max(1) as usize;
            let done = (begun.elapsed().as_secs() as usize).min(of);
            steps
                .get_or_insert_with(|| Steps::new(output::style_aside()))
                .at(done, of, &text);
        }
        if let Some(steps) = steps {
            steps.clear();
        }
    }
}
