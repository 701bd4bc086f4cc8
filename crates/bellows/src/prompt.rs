//! Secrets, which are neither shown nor kept: asked of a person, or read from a file or a variable, since others would
//! see an option in the list of processes.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::Path;

use measure::Problem;
use report::console::Style;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use web::Secret;

use crate::{Failure, signals};

/// Bytes of a file with a secret.
const LONGEST: u64 = 64 << 10;

/// Echoes again when it is dropped.
struct Silent<'a>(&'a File, Termios);

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.0, OptionalActions::Now, &self.1);
    }
}

/// Asks at the terminal without echo, below the cause and other remedies; `None` where there is no terminal.
pub(crate) fn secret(question: &str, cause: Option<&Problem>) -> Result<Option<String>, Failure> {
    let Ok(mut terminal) = File::options().read(true).write(true).open("/dev/tty") else { return Ok(None) };
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Failed(Problem::new("cannot ask for a secret", error, "give it in the environment"))
    };
    let before = tcgetattr(&terminal).map_err(|error| failed(&error))?;
    // A Ctrl-C would end the process without anything being dropped.
    let (to_restore, echoing) = (terminal.try_clone().map_err(|error| failed(&error))?, before.clone());
    signals::tidy_before_the_end(move || {
        let _ = tcsetattr(&to_restore, OptionalActions::Now, &echoing);
        let _ = (&to_restore).write_all(b"\n");
    })?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    let cause = cause.map_or_else(String::new, |cause| report::console::error(cause, Style::of(&terminal)));
    terminal.write_all(cause.as_bytes()).map_err(|error| failed(&error))?;
    terminal.write_all(report::console::sanitise(question).as_bytes()).map_err(|error| failed(&error))?;
    let mut line = String::new();
    {
        tcsetattr(&terminal, OptionalActions::Flush, &hidden).map_err(|error| failed(&error))?;
        let _silent = Silent(&terminal, before);
        BufReader::new(&terminal).read_line(&mut line).map_err(|error| failed(&error))?;
    }
    let _ = terminal.write_all(b"\n");
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// The only line of a file, or else the variable, where it is set.
pub(crate) fn given_secret(file: Option<&Path>, variable: &str) -> Result<Option<Secret>, Failure> {
    let Some(path) = file else {
        let set = std::env::var(variable).ok();
        return Ok(set.filter(|it| !it.is_empty()).map(Secret::new));
    };
    let mut text = String::new();
    let opened = File::open(path).map(|file| file.take(LONGEST + 1));
    let read = opened.and_then(|mut file| file.read_to_string(&mut text));
    read.map_err(|error| Failure::io("read", path, &error))?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() || text.len() as u64 > LONGEST || text.contains(char::is_control) {
        let cause = format!("{} holds no password or token", path.display());
        return Err(Failure::failed(cause, "write it on its only line").observed(format_args!("{} bytes", text.len())));
    }
    Ok(Some(Secret::new(text)))
}
