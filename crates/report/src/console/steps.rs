//! Progress of a known number of steps.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::live::{TICK, note};
use super::text::{Style, sanitise};
use crate::numbers::count;

/// A known number of steps, on standard error: a bar on a terminal, a line for each step in a pipe, or nothing.
#[derive(Debug)]
pub enum Steps {
    /// Nothing is shown.
    Quiet,
    /// A line for each step.
    Plain,
    /// One bar for all of them, and their time.
    Bar(ProgressBar),
}

impl Steps {
    /// A bar where `style` is that of a terminal, else lines.
    #[must_use]
    pub fn new(style: Style) -> Self {
        if !style.terminal {
            return Self::Plain;
        }
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        if let Ok(template) =
            ProgressStyle::with_template("[{bar:30}] {human_pos}/{human_len}, {elapsed}\n{msg}")
        {
            bar.set_style(template.progress_chars("=> "));
        }
        bar.enable_steady_tick(TICK);
        Self::Bar(bar)
    }

    /// The number done, of how many, and the next step.
    pub fn at(&self, done: usize, of: usize, text: &str) {
        let text = sanitise(text);
        match self {
            Self::Quiet => {}
            Self::Plain => {
                let number = count((done + 1).min(of) as u64);
                note(&format!("{number}/{}: {text}", count(of as u64)));
            }
            Self::Bar(bar) => {
                bar.set_length(of as u64);
                bar.set_position(done as u64);
                bar.set_message(text.into_owned());
                bar.tick();
            }
        }
    }

    /// Takes it off the screen.
    pub fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
