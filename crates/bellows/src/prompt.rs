//! Asking a person for a secret, which is neither shown nor kept.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use measure::Problem;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::Failure;
use crate::signals;

/// Echoes again when it is dropped.
struct Silent<'a>(&'a File, Termios);

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.0, OptionalActions::Now, &self.1);
    }
}

/// Asks at the terminal without echo; `None` where there is no terminal.
pub(crate) fn secret(question: &str) -> Result<Option<String>, Failure> {
    let Ok(mut terminal) = File::options().read(true).write(true).open("/dev/tty") else {
        return Ok(None);
    };
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Failed(Problem::new(
            "cannot ask for a secret",
            error,
            "give it in the environment",
        ))
    };
    let before = tcgetattr(&terminal).map_err(|error| failed(&error))?;
    // A Ctrl-C would end the process without anything being dropped.
    let (to_restore, echoing) = (
        terminal.try_clone().map_err(|error| failed(&error))?,
        before.clone(),
    );
    signals::tidy_before_the_end(move || {
        let _ = tcsetattr(&to_restore, OptionalActions::Now, &echoing);
        let _ = (&to_restore).write_all(b"\n");
    })?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    terminal
        .write_all(report::console::sanitise(question).as_bytes())
        .map_err(|error| failed(&error))?;
    let mut line = String::new();
    {
        tcsetattr(&terminal, OptionalActions::Flush, &hidden).map_err(|error| failed(&error))?;
        let _silent = Silent(&terminal, before);
        BufReader::new(&terminal)
            .read_line(&mut line)
            .map_err(|error| failed(&error))?;
    }
    let _ = terminal.write_all(b"\n");
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}
