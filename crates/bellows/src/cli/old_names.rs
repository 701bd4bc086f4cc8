//! Old names of commands, and of one option: they stay understood, and are neither listed nor completed.

use std::ffi::{OsStr, OsString};

/// Words that begin a command line, and the words of today that mean them.
const OLD_NAMES: [(&[&str], &[&str]); 9] = [
    (&["producer"], &["client", "--consumers", "0"]),
    (&["consumer"], &["client", "--producers", "0"]),
    (&["fold"], &["flame", "--format", "stackcollapse", "--output", "-"]),
    (&["calibrate"], &["doctor", "--calibrate"]),
    (&["history"], &["runs", "history"]),
    (&["report"], &["runs", "report"]),
    (&["compare"], &["ab"]),
    (&["erlang", "alloc"], &["erlang", "memory", "--allocators"]),
    (&["erlang", "time"], &["erlang", "calls", "--time"]),
];

/// Number of words of an old name, and its words of today.
fn old_name<W: AsRef<OsStr>>(typed: &[W]) -> Option<(usize, &'static [&'static str])> {
    let is_typed = |old: &[&str]| {
        let mut pairs = old.iter().zip(typed);
        typed.len() >= old.len() && pairs.all(|(old, word)| word.as_ref() == OsStr::new(old))
    };
    let mut names = OLD_NAMES.iter();
    let (old, new) = names.find(|(old, _)| is_typed(old))?;
    Some((old.len(), *new))
}

/// An option's old name, and today's, of all commands but PerfTest's, which has options of its own.
const OLD_OPTION: (&str, &str) = ("--for", "--duration");

/// An argument with today's name of its option.
fn current_option(arg: OsString) -> OsString {
    let (old, new) = OLD_OPTION;
    match arg.to_str().and_then(|text| text.strip_prefix(old)) {
        Some(value) if value.is_empty() || value.starts_with('=') => format!("{new}{value}").into(),
        _ => arg,
    }
}

/// A command line, the program's name first, with today's name of its command and of its options.
pub(super) fn current(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    if args.get(1).is_none_or(|first| first != "perf-test") {
        args = args.into_iter().map(current_option).collect();
    }
    if let Some((length, new)) = args.get(1..).and_then(old_name) {
        let rest = args.split_off(1 + length);
        args.truncate(1);
        args.extend(new.iter().map(OsString::from));
        args.extend(rest);
    }
    args
}

/// The words that name a command today, without options that belong to its old name.
pub(super) fn current_command(names: &[String]) -> Vec<String> {
    let Some((length, new)) = old_name(names) else { return names.to_vec() };
    let new = new.iter().take_while(|word| !word.starts_with('-'));
    let rest = names.iter().skip(length).cloned();
    new.map(|word| (*word).to_owned()).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split(' ').map(OsString::from)
    }

    #[test]
    fn an_old_name_is_todays_command_with_its_options() {
        for [typed, meant] in testkit::table(include_str!("../../tests/data/old-names.txt")) {
            assert_eq!(current(words(typed)), words(meant).collect::<Vec<_>>());
        }
        let names = ["erlang", "time"].map(str::to_owned);
        assert_eq!(current_command(&names), ["erlang", "calls"]);
        assert_eq!(current_command(&["fold".to_owned()]), ["flame"]);
    }

    #[test]
    fn todays_commands_take_what_the_old_ones_took() {
        for line in include_str!("../../tests/data/old-commands.txt").lines() {
            let parsed = Cli::command().try_get_matches_from(current(words(line)));
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
    }

    #[test]
    fn old_names_are_no_commands() {
        let all = Cli::command();
        for (old, _) in OLD_NAMES {
            let mut names = old.iter();
            let found = names.try_fold(&all, |command, name| command.find_subcommand(name));
            assert!(found.is_none(), "{old:?}");
        }
    }
}
