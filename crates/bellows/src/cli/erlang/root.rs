//! `erlang calls --root`: calls of one function, followed into the processes that they ask.

use std::ffi::OsString;
use std::path::Path as File;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, value_parser};
use erlang::calls::{Following, Path, RootOptions, RootPhase, RootProgress};
use erlang::{Ended, FunctionPattern, Helper};
use measure::{Length, Nanos, count, counted, shell_word};
use report::console::{Style, prose, sanitise};
use serde::Serialize;

use super::connect::{left, measured};
use super::options::{CountArgs, print_neighbours};
use super::paths::{self, ObserverRow, PathRows, Spread};
use super::progress::Progress;
use super::stacks::Stacks;
use super::trace::per_second;
use crate::profile_formats::Output;
use crate::{Done, Failure, output, signals};

/// Calls needed to follow 15: a quarter comes before, one or two are counted, and a fourth of the rest is only timed.
const CALLS_FOR_MANY: u64 = 30;
const SECOND: u64 = 1_000_000_000;

#[derive(Debug, Args)]
pub(super) struct RootArgs {
    /// Follow calls of this function, MODULE:FUNCTION/ARITY, into the processes that they ask, and tell the slow ones
    /// from the fast ones
    #[arg(long, value_name = "M:F/A", value_parser = entry)]
    pub(super) root: Option<FunctionPattern>,
    /// Calls of --root after which it ends
    #[arg(long, value_name = "N", requires = "root", default_value_t = 1_000,
          value_parser = value_parser!(u32).range(1..=100_000))]
    max_calls: u32,
    /// Withdraw when --root is called so often in one second, as 100 or 100/s
    #[arg(long, value_name = "N/s", requires = "root", default_value = "500", value_parser = per_second,
          help_heading = "Budget")]
    rate: u32,
    /// Withdraw after so many trace messages
    #[arg(long, value_name = "MESSAGES", requires = "root", default_value_t = 5_000_000,
          value_parser = value_parser!(u32).range(1..=100_000_000), help_heading = "Budget")]
    max_messages: u32,
}

/// Reads one function with its arity: each of several would be a root of its own.
fn entry(text: &str) -> Result<FunctionPattern, String> {
    let pattern: FunctionPattern = text.parse().map_err(|it: measure::Refused| it.to_string())?;
    match (&pattern.function, pattern.arity) {
        (Some(_), Some(_)) => Ok(pattern),
        _ => Err("name one function with its number of arguments, such as rabbit_mgmt_wm_queues:to_json/2".into()),
    }
}

#[derive(Debug, Serialize)]
struct RootRows<'a> {
    root: String,
    /// While only the entry was traced, before the others.
    untraced: Option<Spread>,
    /// Calls between the followed ones of which only the entry was traced.
    beside: Option<Spread>,
    observer: Option<ObserverRow>,
    #[serde(flatten)]
    path: PathRows<'a>,
}

impl RootArgs {
    pub(super) fn execute(
        &self,
        count: &CountArgs,
        functions: &[FunctionPattern],
        output: Option<(&File, Output)>,
        waits: bool,
    ) -> Result<Done, Failure> {
        let Some(root) = &self.root else { return Ok(Done::Fine) };
        self.follow(root, count, functions, |path| {
            let larger = Larger::of(path, count);
            // Beside a table the command line stands above.
            let advice = if count.json { larger.advice() } else { larger.brief() };
            show(path, root, count, &larger)?;
            // What is known is printed by then, also where there is nothing to draw.
            let Some((file, format)) = output else { return Ok(()) };
            let stacks = Stacks {
                tree: &path.tree,
                waits,
                title: &root.to_string(),
                subtitle: counted(path.calls.len() as u64, "call"),
                none: &advice,
            };
            stacks.write(file, format)
        })
    }

    /// Follows calls; `show` prints them, before the node has undone everything.
    fn follow(
        &self,
        root: &FunctionPattern,
        count: &CountArgs,
        functions: &[FunctionPattern],
        show: impl FnOnce(&Path) -> Result<(), Failure>,
    ) -> Result<Done, Failure> {
        let lasting = count.budget.lasting()?;
        let options = RootOptions {
            root: root.clone(),
            functions: functions.to_vec(),
            processes: count.processes.filter(),
            duration: lasting,
            limit: self.max_calls,
            rate: self.rate,
            messages: self.max_messages,
            budget: count.budget.path_budget(lasting),
        };
        let stopped = signals::stop_flag()?;
        let node = count.node.connect("erlang calls")?;
        let helper = Helper::load(&node)?;
        let begins = format!("follows {root} on {} for {}", node.name(), count.budget.duration);
        let lasting = lasting + Duration::from_millis(200);
        let (mut progress, mut last) = (None, None);
        let following = Following::begin(&helper, &options)?;
        let look = |at| {
            // It was not refused.
            let progress = progress.get_or_insert_with(|| {
                output::line_aside(&begins);
                Progress::of_time(lasting, "waits for calls")
            });
            progress.say(&told(at));
            last = Some(at);
            stopped.load(Ordering::Relaxed)
        };
        let mut so_far = None;
        let path = following.wait(look, &mut so_far);
        drop(progress);
        if let (Err(_), Some(at), None) = (&path, last, &so_far) {
            let until_then = told(at);
            output::line_aside(&format!(
                "until then: {until_then}. Its figures are kept by the node, and went with it"
            ));
        }
        let (path, gone) = measured(path, so_far)?;
        let shown = show(&path);
        left(helper, shown.and(gone.map_or(Ok(Done::Fine), Err)))
    }
}

fn told(at: RootProgress) -> String {
    match (at.phase, at.untraced) {
        (RootPhase::Alone, 0) => "waits for calls".to_owned(),
        (RootPhase::Alone, calls) => format!("only the entry is traced: {}", counted(calls, "call")),
        (RootPhase::Counting, _) => "counts the functions of a call".to_owned(),
        (RootPhase::Following, _) => {
            format!("followed: {}, {}", counted(at.calls, "call"), counted(at.messages, "trace message"))
        }
    }
}

/// Prints the results, and the reason of the end.
fn show(path: &Path, root: &FunctionPattern, count: &CountArgs, larger: &Larger) -> Result<(), Failure> {
    let compared = path.comparison();
    match count.json {
        true => output::print_json(&RootRows {
            root: root.to_string(),
            untraced: Spread::of(&path.untraced),
            beside: Spread::of(&path.beside),
            observer: path.observer_effect().as_ref().map(ObserverRow::of),
            path: paths::rows(path, compared.as_ref()),
        })?,
        false => print(path, root, count.limit, larger)?,
    }
    if !matches!(path.ended, Ended::Time) {
        output::line_aside(&path.ended.describe());
    }
    for module in &path.loaded_anew {
        output::line_aside(&format!(
            "{} was loaded anew meanwhile, which ends its trace: calls are missing, run it again",
            sanitise(module)
        ));
    }
    Ok(())
}

fn none_ended(path: &Path, root: &FunctionPattern) -> String {
    match path.begun {
        0 => format!("{root} was not called meanwhile; calls that began before are not seen\n"),
        begun => format!(
            "{root} was called {}; none of the calls returned (ended by an exception or a tail call, or still running: \
             --duration gives them more time)\n",
            counted(begun, "time")
        ),
    }
}

/// Outcomes of the calls where none was followed to its end.
fn none_followed(path: &Path) -> String {
    let (before, beside) = (path.untraced.len() as u64, path.beside.len() as u64);
    let rest = path.begun.saturating_sub(before + beside);
    let parts = [
        (before, "returned before functions below were traced"),
        (beside, "came between those to be followed, and were only timed"),
        (rest, "began before the trace, or had not returned at its end"),
    ];
    let told = parts.iter().filter(|it| it.0 > 0).map(|(calls, what)| format!("{} {what}", count(*calls)));
    let told: Vec<_> = told.collect();
    format!("No call was followed to its end. Of {}: {}. To follow some", counted(path.begun, "call"), told.join("; "))
}

fn print(path: &Path, root: &FunctionPattern, number: usize, larger: &Larger) -> Result<(), Failure> {
    let kinds = [
        ("only this function traced", path.untraced.clone()),
        ("the same, between followed ones", path.beside.clone()),
        ("followed", path.durations()),
    ];
    let spreads: Vec<_> = kinds.iter().filter_map(|(what, durations)| Some((*what, Spread::of(durations)?))).collect();
    if spreads.is_empty() {
        return output::print_prose(&none_ended(path, root));
    }
    paths::print_spreads("calls", &spreads)?;
    output::print_prose(&paths::effect_line(path))?;
    if path.calls.is_empty() {
        let advice = larger.advice();
        return output::print(&advised(&format!("{}: {advice}", none_followed(path)), output::style()));
    }
    let rows = paths::functions(path);
    paths::print_functions(&rows, number, path)?;
    print_neighbours(&path.tree, rows.iter().map(|row| row.function))?;
    match path.comparison() {
        Some(compared) => paths::print_comparison(&compared)?,
        None => {
            let told = format!("Fewer than ten calls have no slow ones to set apart: {}", larger.advice());
            output::print(&advised(&told, output::style()))?;
        }
    }
    output::print_prose(&format!("\n{}\n", paths::provenance(path)))
}

/// A sentence over as many lines as the screen demands, and the command line of its advice, which stays whole.
fn advised(told: &str, style: Style) -> String {
    let (sentence, command) = told.split_once("\n  ").unwrap_or((told, ""));
    let command = if command.is_empty() { String::new() } else { format!("  {command}\n") };
    format!("\n{}{command}", prose(sentence, style))
}

/// The option that lets more calls be followed to their end, with a value to try.
#[derive(Debug)]
struct Larger(Option<[String; 2]>);

impl Larger {
    /// A larger value of the limit that ended the trace.
    fn of(path: &Path, count: &CountArgs) -> Self {
        let (limit, allowed) = match &path.ended {
            Ended::Tripped { limit, allowed, .. } => (limit.as_str(), *allowed),
            Ended::Limit(calls) => ("limit", *calls),
            Ended::Time | Ended::Asked | Ended::Gone => {
                let longer = longer(path.begun, count.budget.duration);
                return Self(Some(["--duration".to_owned(), longer.to_string()]));
            }
        };
        let (option, unit, most) = match limit {
            "limit" => ("--max-calls", 1, 100_000),
            "rate" => ("--rate", 1, 100_000),
            "messages" => ("--max-messages", 1, 100_000_000),
            "backlog" => ("--max-backlog", 1, 1_000_000),
            "node_memory" => ("--max-memory", 1 << 20, 1_000_000),
            "run_queue" => ("--max-run-queue", 1, 1_000_000),
            _ => return Self(None),
        };
        let value = (allowed / unit).saturating_mul(4).min(most);
        Self(Some([option.to_owned(), value.to_string()]))
    }

    /// Advice in a few words.
    fn brief(&self) -> String {
        match &self.0 {
            Some([option, value]) => format!("allow more, such as with {option} {value}"),
            None => "name modules, so that less is traced".to_owned(),
        }
    }

    /// Advice, with a command line that can be copied.
    fn advice(&self) -> String {
        let Some(larger) = &self.0 else { return "name modules, so that less is traced".to_owned() };
        let again = again(words(std::env::args_os()), larger);
        format!("allow more, or name modules, so that less is traced:\n  {again}")
    }
}

/// Estimated time for following enough calls, from the number begun in this time; four times as much where none came.
fn longer(begun: u64, lasted: Length) -> Length {
    let nanos = match begun {
        0 => lasted.0.0.saturating_mul(4),
        begun => (lasted.0.0 / begun).saturating_mul(CALLS_FOR_MANY),
    };
    let seconds = nanos.max(lasted.0.0.saturating_add(1)).div_ceil(SECOND);
    Length(Nanos(seconds.saturating_mul(SECOND)))
}

/// The words of a command line. One that is not UTF-8, such as a strange file's name, is shown as well as possible.
fn words(line: impl Iterator<Item = OsString>) -> impl Iterator<Item = String> {
    line.map(|word| word.to_string_lossy().into_owned())
}

/// This command line with another value of an option.
fn again(words: impl Iterator<Item = String>, [option, value]: &[String; 2]) -> String {
    let mut kept = Vec::new();
    let mut is_value = false;
    for word in words {
        // The old name of --duration.
        let word = match word.strip_prefix("--for") {
            Some(rest) if rest.is_empty() || rest.starts_with('=') => format!("--duration{rest}"),
            _ => word,
        };
        let is_option = word == *option;
        let has_both = word.starts_with(&format!("{option}="));
        if !(is_value || is_option || has_both) {
            kept.push(shell_word(&word));
        }
        is_value = is_option;
    }
    kept.extend([option.clone(), value.clone()]);
    sanitise(&kept.join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use measure::{Length, Nanos};
    use report::console::{Style, width};

    use super::{Larger, advised, again, entry, longer, none_followed, words};
    use crate::cli::erlang::paths::tests::path;

    #[test]
    fn where_no_call_was_followed_it_is_told_what_became_of_each() {
        let ms = std::time::Duration::from_millis(1);
        let mut path = path();
        (path.begun, path.untraced, path.beside) = (5, vec![ms], vec![ms; 2]);
        let expected = "No call was followed to its end. Of 5 calls: 1 returned before functions below were traced; 2 \
                        came between those to be followed, and were only timed; 2 began before the trace, or had not \
                        returned at its end. To follow some";
        assert_eq!(none_followed(&path), expected);
        // The error's help only pointed back.
        let larger = Larger(Some(["--duration", "20s"].map(str::to_owned)));
        assert_eq!(larger.brief(), "allow more, such as with --duration 20s");
    }

    /// The sentence was as wide as it is.
    #[test]
    fn advice_fits_the_screen_and_its_command_line_stays_whole() {
        let command = format!("  bellows erlang calls {}", "n".repeat(60));
        let text = advised(&format!("{}:\n{command}", "too few ".repeat(12)), Style { columns: 40, ..Style::PLAIN });
        let (sentence, last) = text.trim_end().rsplit_once('\n').expect("two lines");
        assert_eq!(last, command);
        assert!(sentence.lines().count() > 2 && sentence.lines().all(|line| width(line) <= 40), "{text}");
    }

    #[test]
    fn the_next_time_is_long_enough_for_calls_that_come_as_often() {
        let seconds = |number: u64| Length(Nanos(number * 1_000_000_000));
        assert_eq!(longer(10, seconds(20)), seconds(60));
        assert_eq!(longer(0, seconds(5)), seconds(20));
        // Always longer than it was, also where calls are slow.
        assert_eq!(longer(100, seconds(20)), seconds(21));
        assert!(longer(1, Length(Nanos(u64::MAX))) > seconds(1));
    }

    #[test]
    fn the_next_command_line_has_the_larger_limit_once() {
        let line = "bellows erlang calls n@h --rate 500 --root x:y/1 --rate=7 --role";
        let words = line.split(' ').map(str::to_owned).chain(["my role".to_owned()]);
        let expected = "bellows erlang calls n@h --root x:y/1 --role 'my role' --rate 2000";
        assert_eq!(again(words, &["--rate".to_owned(), "2000".to_owned()]), expected);
        let words = "bellows --for 5s --for=5s n@h --duration=5s".split(' ');
        let limit = ["--duration", "9s"].map(str::to_owned);
        assert_eq!(again(words.map(str::to_owned), &limit), "bellows n@h --duration 9s");
    }

    #[test]
    fn a_command_line_with_a_word_that_is_no_text_is_shown_and_no_panic() {
        use std::ffi::OsString;
        use std::os::unix::ffi::OsStringExt as _;

        let line = [&b"bellows"[..], b"-o", b"\xff.svg"].map(|word| OsString::from_vec(word.to_vec()));
        let limit = ["--duration", "9s"].map(str::to_owned);
        assert_eq!(again(words(line.into_iter()), &limit), "bellows -o '\u{fffd}.svg' --duration 9s");
    }

    #[test]
    fn a_root_is_one_function() {
        assert!(entry("rabbit_mgmt_wm_queues:to_json/2").is_ok());
        for wrong in ["lists", "lists:map", "lists:map/", "_:_/1"] {
            assert!(entry(wrong).is_err(), "{wrong}");
        }
    }
}
