//! Exit codes, and what is printed where a command fails. `bellows --help` says what 0 to 5 mean; 130 and 143 stand for
//! an end by SIGINT or SIGTERM before anything was measured or a repeated run complete, or by a second signal.

use std::process::ExitCode;

use measure::Problem;
use report::console;

use crate::{Done, Failure, output, signals};

/// Prints the failure, with `json` as an object on standard output too, and returns its exit code.
pub(crate) fn exit_code(outcome: Result<Done, Failure>, json: bool) -> ExitCode {
    let (problem, code, is_printed) = match outcome {
        Ok(Done::Fine) | Err(Failure::Closed) => return ExitCode::SUCCESS,
        Ok(Done::Invalid) => return ExitCode::from(5),
        Ok(Done::Missed) => return ExitCode::from(3),
        Ok(Done::Unknown) => return ExitCode::from(4),
        Err(Failure::Code(code)) => return ExitCode::from(code),
        Err(Failure::Usage(problem)) => (problem, 2, false),
        Err(Failure::Failed(problem)) => (problem, 1, false),
        Err(Failure::BrokeOff(problem)) => (problem, 1, true),
        Err(Failure::BrokeOffAsTold(problem)) => {
            output::aside(&console::help(&harmless(problem), output::style_aside()));
            return ExitCode::from(1);
        }
        Err(Failure::Stopped(problem)) => return stopped(&problem, json),
        Err(Failure::StoppedLate(problem)) => return stopped(&problem, false),
    };
    let problem = harmless(problem);
    if json && !is_printed {
        // Where standard output is closed, the exit code and standard error are left.
        let _ = output::print_json(&console::error_as_json(&problem));
    }
    // Where standard error is closed too, the exit code is all that is left to say.
    output::aside(&console::error(&problem, output::style_aside()));
    ExitCode::from(code)
}

/// Reports an end by a signal, which the user wanted and is no error.
fn stopped(problem: &Problem, json: bool) -> ExitCode {
    if json {
        let _ = output::print_json(&console::error_as_json(problem));
    }
    output::line_aside(&problem.to_string());
    ExitCode::from(signals::first_exit_code())
}

/// Prints clap's own text: help and version to standard output, usage errors to standard error, and with `json` as an
/// object on standard output too.
pub(crate) fn usage(error: &clap::Error, json: bool) -> ExitCode {
    let text = error.render();
    if error.use_stderr() {
        if json {
            let _ = output::print_json(&console::error_as_json(&harmless(usage_problem(error))));
        }
        let style = output::style_aside();
        let text = if style.colour { text.ansi().to_string() } else { text.to_string() };
        output::aside(&console::prose(&web::redact::urls(&text), style));
    } else {
        let style = output::style();
        // A closed pipe (`bellows --help | head`) is nothing to complain about.
        let _ = output::print(&if style.colour { text.ansi().to_string() } else { text.to_string() });
    }
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// Hides passwords of URLs, which may have been typed in the wrong place, and adapts the help to the typed command.
fn harmless(problem: Problem) -> Problem {
    let words: Vec<String> = (std::env::args_os().take(2)).map(|word| word.to_string_lossy().into_owned()).collect();
    Problem {
        cause: web::redact::urls(&problem.cause),
        value: web::redact::urls(&problem.value),
        help: report::text::remedy(&problem.help, &words),
        ..problem
    }
}

fn usage_problem(error: &clap::Error) -> Problem {
    let text = error.render().to_string();
    let paragraphs: Vec<&str> = text.trim().split("\n\n").collect();
    let first = paragraphs.first().copied().unwrap_or_default();
    let cause = first.strip_prefix("error: ").unwrap_or(first);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    // What was typed stands in quotes.
    let value = cause.split('\'').nth(1).unwrap_or_default();
    let help = paragraphs.iter().skip(1).map(|text| words(text));
    Problem::new(words(cause), value, help.collect::<Vec<_>>().join("; "))
}
