//! The command line as the archive keeps it: made from the parsed values, in which secrets, addresses and changes of an
//! experiment have types of their own, and not from the typed words.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory};
use experiment::{LoadSpec, OptionNames};
use measure::Refused;
use web::Secret;

use super::{Cli, artemis, old_names};
use crate::perf_test::is_slip;

/// A URL, whose password `Debug` does not show.
#[derive(Clone)]
pub(super) struct Url(pub(super) String);

/// A change `KEY=VALUE` of an experiment, which may contain a secret.
#[derive(Clone)]
pub(super) struct Assignment(pub(super) String);

impl From<String> for Url {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<String> for Assignment {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&web::redact::url(&self.0))
    }
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&web::redact::assignment(&self.0))
    }
}

/// A header `NAME: VALUE`, whose value `Debug` does not show.
#[derive(Clone)]
pub(super) struct Header {
    pub(super) name: String,
    pub(super) value: Secret,
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // What was typed may be a secret, and is not repeated.
        let (name, value) = text.split_once(':').ok_or("write NAME: VALUE")?;
        Ok(Self { name: name.trim().to_owned(), value: Secret::new(value.trim()) })
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

/// Options of `client`, `churn`, `probe` and `artemis perf` that are called otherwise than the key that they set.
pub(super) const OPTION_NAMES: OptionNames = &[
    ("load.0.url", "--consumer-url"),
    ("ack", "--ack-every"),
    ("arguments", "--queue-args"),
    ("churn.kind", "churn"),
    ("commit-every", "--commit-interval"),
    ("confirm", "--no-confirm"),
    ("consumer-commit-every", "--commit-interval"),
    ("destination", "DESTINATION"),
    ("destinations", "DESTINATION"),
    ("declare", "--no-declare"),
    ("ledger", "--no-ledger"),
    ("message-ids", "--enable-msg-id"),
    ("oauth2.client-id", "--oauth2-client-id"),
    ("oauth2.uri", "--oauth2-uri"),
    ("phases.measure", "--duration"),
    ("probe.0.url", "URL"),
    ("producer-connections", "--shared-connections"),
    ("subscription", "--durable or --shared"),
    ("timestamps", "--enable-timestamp"),
];

/// Gives an option that has no text of its own the meaning of the key that it sets, which one of these tables has.
pub(super) fn described<const N: usize>(tables: [OptionNames; N]) -> impl FnMut(Arg) -> Arg {
    move |arg| {
        let Some(long) = arg.get_long().filter(|_| arg.get_help().is_none()) else { return arg };
        let named = OPTION_NAMES.iter().find(|(_, option)| option.strip_prefix("--") == Some(long));
        let set = named.map_or(long, |(key, _)| *key);
        let mut keys = tables.iter().flat_map(|keys| keys.iter());
        match keys.find(|(key, _)| *key == set) {
            Some((_, meaning)) => arg.help(help_of(meaning, &tables)),
            None => arg,
        }
    }
}

/// A meaning in words of a command line: keys of these tables are options, and the broker is one that runs.
pub(super) fn help_of(meaning: &str, tables: &[OptionNames]) -> String {
    let meaning = meaning.trim().trim_start_matches("`attach`: ").trim_end_matches('.');
    let is_key = |word: &str| tables.iter().any(|keys| keys.iter().any(|(key, _)| *key == word));
    let parts = meaning.split('`').enumerate().map(|(place, part)| match place % 2 {
        1 if is_key(part) => format!("--{part}"),
        _ => part.to_owned(),
    });
    parts.collect()
}

/// Variables of the environment that do not affect a run: those of output, and of where and how it is kept.
const NOT_OF_THE_RUN: [&str; 5] = ["BELLOWS_NOTE", "BELLOWS_QUIET", "BELLOWS_RUNS", "BELLOWS_STRICT", "BELLOWS_TAGS"];

/// The command line that does it again, but for secrets, with the options that the environment gave. The program's own
/// name stands first, not where it happens to lie.
pub(super) fn archived(args: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut words = vec!["bellows".to_owned()];
    let mut command = Cli::command();
    command.build();
    let args = old_names::current(args);
    if let Ok(matches) = command.clone().try_get_matches_from(args) {
        add(&command, &matches, &mut words);
    }
    words
}

fn add(command: &Command, matches: &ArgMatches, words: &mut Vec<String>) {
    if let Some((name, below)) = matches.subcommand() {
        words.push(name.to_owned());
        if name == "perf-test" {
            let args = below.get_raw("args").unwrap_or_default();
            let args: Vec<OsString> = args.map(OsString::from).collect();
            words.extend(crate::perf_test::archived(&args));
        } else if let Some(command) = command.find_subcommand(name) {
            add(command, below, words);
        }
        return;
    }
    let mut given: Vec<(usize, &Arg)> = command
        .get_arguments()
        .filter_map(|arg| {
            let id = arg.get_id().as_str();
            let first = match matches.value_source(id)? {
                ValueSource::CommandLine => matches.indices_of(id)?.next()?,
                // What is given twice counts last.
                ValueSource::EnvVariable if is_of_the_run(arg) => 0,
                _ => return None,
            };
            Some((first, arg))
        })
        .collect();
    given.sort_by_key(|(first, _)| *first);
    for (_, arg) in given {
        add_argument(arg, matches, words);
    }
}

/// Whether a value from the environment affects the run. Secrets stay there.
fn is_of_the_run(arg: &Arg) -> bool {
    let name = arg.get_env().and_then(std::ffi::OsStr::to_str);
    let is_secret = arg.get_value_parser().type_id() == std::any::TypeId::of::<Secret>();
    name.is_some_and(|name| !NOT_OF_THE_RUN.contains(&name)) && !is_secret
}

/// An option with its values, once for each time that it was given; the values alone where it has no name.
fn add_argument(arg: &Arg, matches: &ArgMatches, words: &mut Vec<String>) {
    let name = arg.get_long().map(|long| format!("--{long}"));
    let name = name.or_else(|| arg.get_short().map(|short| format!("-{short}")));
    let times = matches.get_raw_occurrences(arg.get_id().as_str());
    if arg.get_id() == "set_before" {
        for value in times.into_iter().flatten().flatten() {
            let value = shown(arg.get_value_parser(), &value.to_string_lossy());
            words.extend(["--set".to_owned(), value]);
        }
        return;
    }
    if !arg.get_action().takes_values() {
        words.extend(name);
        return;
    }
    for values in times.into_iter().flatten() {
        words.extend(name.clone());
        let values = values.map(|value| shown(arg.get_value_parser(), &value.to_string_lossy()));
        match arg.get_value_delimiter() {
            Some(delimiter) => words.push(values.collect::<Vec<_>>().join(&delimiter.to_string())),
            None => words.extend(values),
        }
    }
}

/// A value as its type allows it to be shown.
fn shown(parser: &ValueParser, value: &str) -> String {
    use std::any::TypeId;
    let kind = parser.type_id();
    if kind == TypeId::of::<Secret>() {
        "***".to_owned()
    } else if kind == TypeId::of::<Url>() {
        web::redact::url(value)
    } else if kind == TypeId::of::<Header>() {
        value.parse::<Header>().map_or_else(|_| "***".to_owned(), |header| format!("{header:?}"))
    } else if kind == TypeId::of::<(String, load::Argument)>() {
        let (key, value) = value.split_once('=').unwrap_or_default();
        format!("{key}={}", web::redact::argument(key, value))
    } else if kind == TypeId::of::<Assignment>() {
        web::redact::assignment(value)
    } else if load::Endpoint::is_url(value) {
        // A destination that is or holds the broker's address.
        web::redact::url(value)
    } else {
        value.to_owned()
    }
}

/// Commands that people try, and the words that mean them here.
const ELSEWHERE: [(&str, &str); 7] = [
    ("list", "runs"),
    ("ls", "runs"),
    ("show", "runs show"),
    ("rm", "runs rm"),
    ("tag", "runs tag"),
    ("prune", "runs prune"),
    ("version", "--version"),
];

/// A tip for `bellows export`, also behind `runs` and `help`.
pub(super) const EXPORTS: &str =
    "'bellows runs show RUN --json' prints figures, 'bellows flame RUN -o FILE' converts a profile";

/// A tip for `bellows runs compare`.
const COMPARES: &str = "'bellows ab A --with B' decides what changed, 'bellows diff A B' compares profiles";

/// A tip for `bellows runs delete`.
const DELETES: &str = "it is called 'bellows runs rm'";

/// A tip for `bellows run --no-archive`.
const KEEPS: &str = "its folder is always kept: '--runs DIR' puts it elsewhere, 'bellows runs rm' deletes it";

/// A tip for `bellows runs tag=before`.
const FILTERS: &str = "'bellows runs --filter tag=before' lists the runs that a filter finds";

/// A tip for `bellows runs --trend`.
const TREND: &str = "'bellows runs history EXPERIMENT' shows changes from run to run";

/// Tips for commands that lack an argument, by the beginning of their usage.
const LACKING: [(&str, &str); 2] = [
    ("bellows erlang memory ", "name modules to count, such as rabbit_channel, or give --allocators, which needs none"),
    (
        "bellows erlang calls ",
        "name modules to count, such as rabbit_channel, or a function to follow with --root MODULE:FUNCTION/ARITY",
    ),
];

/// A tip for a command or an option that does not exist, or a command that lacks an argument.
fn tip(error: &clap::Error) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(typed))) => {
            let usage = usage(error)?;
            let is_first = usage.contains("bellows [OPTIONS] <COMMAND>") || usage.contains("bellows <COMMAND>");
            let meant = ELSEWHERE.iter().find(|(name, _)| is_first && name == typed);
            let tip = match typed.as_str() {
                "export" => EXPORTS,
                "compare" | "diff" | "ab" => COMPARES,
                "delete" | "remove" => DELETES,
                typed if typed.contains('=') && !is_first => FILTERS,
                _ => "",
            };
            let has_tip = !tip.is_empty() && (is_first || usage.contains("bellows runs "));
            let meant = meant.map(|(_, meant)| format!("it is called 'bellows {meant}'"));
            meant.or_else(|| has_tip.then(|| tip.to_owned()))
        }
        (ErrorKind::MissingRequiredArgument, _) => {
            let usage = usage(error)?;
            let tip = LACKING.iter().find(|(command, _)| usage.contains(command));
            tip.map(|(_, tip)| (*tip).to_owned())
        }
        (ErrorKind::UnknownArgument, _) => match error.get(ContextKind::InvalidArg)? {
            ContextValue::String(typed) if typed == "--trend" && usage(error)?.contains("bellows runs ") => {
                Some(TREND.to_owned())
            }
            ContextValue::String(typed) if typed == "--no-archive" && usage(error)?.contains("bellows run ") => {
                Some(KEEPS.to_owned())
            }
            ContextValue::String(typed) if error.get(ContextKind::SuggestedArg).is_none() => meant_by(error, typed),
            _ => None,
        },
        _ => None,
    }
}

fn usage(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::Usage)? {
        ContextValue::StyledStr(usage) => Some(usage.to_string()),
        _ => None,
    }
}

/// The error with its usage without the environment: what a variable gives is shown as if it were required.
pub(super) fn without_environment(mut error: clap::Error, grammar: Command, typed: &[OsString]) -> clap::Error {
    let again = unset_variables(grammar).try_get_matches_from(typed);
    if let Err(again) = again
        && again.kind() == error.kind()
        && let Some(usage) = again.get(ContextKind::Usage)
    {
        error.insert(ContextKind::Usage, usage.clone());
    }
    error
}

/// The grammar in which no option has a variable.
fn unset_variables(command: Command) -> Command {
    command.mut_args(|arg| arg.env(None::<&'static str>)).mut_subcommands(unset_variables)
}

/// An error of the command line for people, without possible secrets.
pub(super) fn readable(mut error: clap::Error) -> clap::Error {
    use std::error::Error as _;
    // It repeats a whole argument, with its value.
    if let Some(ContextValue::StyledStrs(_)) = error.get(ContextKind::Suggested) {
        error.remove(ContextKind::Suggested);
    }
    if is_far_fetched(&error) {
        error.remove(ContextKind::SuggestedArg);
        // It has the suggested option, which nobody gave.
        if let Some(usage) = usage_of(&error) {
            error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
        }
    }
    if let Some(tip) = tip(&error) {
        error.remove(ContextKind::SuggestedSubcommand);
        suggest(&mut error, tip);
    }
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let argument = text(&error, ContextKind::InvalidArg);
    let typed = text(&error, ContextKind::InvalidValue);
    if error.kind() == ErrorKind::ValueValidation
        && let (Some(argument), Some(typed)) = (&argument, &typed)
    {
        let value = shown_value(argument, typed);
        let why = match error.source() {
            // What the parser says may repeat the value.
            Some(source) if value == *typed => match source.downcast_ref::<Refused>() {
                Some(Refused { what, help }) if !help.is_empty() => format!(": {what}\n\n  tip: {help}"),
                _ => format!(": {}", in_words(source)),
            },
            _ => String::new(),
        };
        return clap::Error::raw(
            error.kind(),
            format!("invalid value '{value}' for '{argument}'{why}\n\nFor more information, try '--help'.\n"),
        );
    }
    if let Some(argument) = argument.filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        if let Some(key) = key_of(&error, &argument) {
            suggest(&mut error, format!("experiments have it as '--set {key}=VALUE'"));
        }
        let hidden = match argument.split_once('=') {
            Some((option, _)) if argument.starts_with('-') => format!("{option}=***"),
            _ if argument.starts_with('-') => argument,
            // A filter as of `runs`.
            Some(("tag", value)) if !value.contains([':', '@', '=']) => argument,
            _ if argument.contains([':', '@', '=']) => "***".to_owned(),
            _ => web::redact::text(&argument),
        };
        error.insert(ContextKind::InvalidArg, ContextValue::String(hidden));
    }
    if let Some(typed) = typed {
        let hidden = shown_value("", &typed);
        error.insert(ContextKind::InvalidValue, ContextValue::String(hidden));
    }
    error
}

/// The usage of the command that an error is about, without any option.
fn usage_of(error: &clap::Error) -> Option<clap::builder::StyledStr> {
    let usage = usage(error)?;
    let mut all = Cli::command();
    all.build();
    let mut command = &mut all;
    for word in usage.split_whitespace().skip_while(|word| *word != "bellows").skip(1) {
        if command.find_subcommand(word).is_none() {
            break;
        }
        command = command.find_subcommand_mut(word)?;
    }
    Some(command.render_usage())
}

/// The option of the command that may be meant, since clap suggests none of few letters; or the commands beside it that
/// have the option as it was typed.
fn meant_by(error: &clap::Error, argument: &str) -> Option<String> {
    let typed = argument.split('=').next()?.strip_prefix("--")?;
    let usage = usage(error)?;
    let (mut path, grammar) = ("bellows".to_owned(), Cli::command());
    let (mut command, mut group) = (&grammar, &grammar);
    for word in usage.split_whitespace().skip_while(|word| *word != "bellows").skip(1) {
        let Some(below) = command.find_subcommand(word) else { break };
        if !std::ptr::eq(group, command) {
            path = format!("{path} {}", command.get_name());
        }
        (group, command) = (command, below);
    }
    let options = |of: &'_ Command| -> Vec<String> {
        of.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long).map(str::to_owned).collect()
    };
    if let Some(known) = options(command).into_iter().find(|known| is_slip(typed, known)) {
        return Some(format!("a similar argument exists: '--{known}'"));
    }
    let beside =
        group.get_subcommands().filter(|it| !it.is_hide_set() && options(it).iter().any(|known| known == typed));
    let have: Vec<_> = beside.map(|it| format!("'{path} {}'", it.get_name())).collect();
    if path == "bellows artemis perf"
        && let Some(own) = artemis::own_name(command.get_name(), typed)
    {
        return Some(own.to_owned());
    }
    // What many commands have says nothing about this one.
    let is_told = (1..=MOST_BESIDE).contains(&have.len()) && !std::ptr::eq(group, &raw const grammar);
    let why = match (path.as_str(), command.get_name()) {
        ("bellows artemis perf", "consumer") => "a consumer sends nothing: ",
        ("bellows artemis perf", "producer") => "a producer consumes nothing: ",
        _ => "",
    };
    is_told.then(|| format!("{why}it is an option of {}", have.join(" and ")))
}

/// More commands that have an option are not named.
const MOST_BESIDE: usize = 2;

/// Whether an option that the error suggests is another one than was typed: clap asks for few letters in common.
fn is_far_fetched(error: &clap::Error) -> bool {
    let name = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.split('=').next().map(|it| it.trim_start_matches('-')),
        _ => None,
    };
    let names = name(ContextKind::InvalidArg).zip(name(ContextKind::SuggestedArg));
    names.is_some_and(|(typed, known)| !known.contains(typed) && !is_slip(typed, known))
}

fn suggest(error: &mut clap::Error, tip: String) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
}

/// The key of experiments that an option of `client` sets, where it was given to a command that runs experiments.
fn key_of(error: &clap::Error, argument: &str) -> Option<String> {
    let usage = usage(error)?;
    let mut runs_experiments = ["bellows run ", "bellows demo "].iter();
    runs_experiments.find(|command| usage.contains(**command))?;
    let option = argument.split('=').next()?;
    let named = OPTION_NAMES.iter().find(|(_, names)| names.split(" or ").any(|name| name == option));
    match named.map_or(option.strip_prefix("--")?, |(key, _)| *key) {
        "warmup" => Some("phases.warmup".to_owned()),
        "url" => Some("broker.url".to_owned()),
        key if LoadSpec::KEYS.contains(&key) => Some(format!("load.0.{key}")),
        _ => None,
    }
}

/// A value that an option does not take. One that was typed behind the wrong option may be a secret.
fn shown_value(argument: &str, value: &str) -> String {
    let has_grammar = ["--schedule", "--message-size", "--require", "--fail-if", "--where", "--filter", "--select"]
        .iter()
        .any(|name| argument.starts_with(name));
    let suspicious: &[char] = if has_grammar { &[] } else { &['@', '='] };
    if value.contains("://") || value.contains(suspicious) { "***".to_owned() } else { web::redact::text(value) }
}

fn in_words(source: &(dyn std::error::Error + 'static)) -> String {
    use std::num::{IntErrorKind, ParseIntError};
    if let Some(error) = source.downcast_ref::<ParseIntError>() {
        return match error.kind() {
            IntErrorKind::PosOverflow => "the number is too large",
            _ => "it must be a whole number, 0 or more",
        }
        .to_owned();
    }
    if source.is::<std::net::AddrParseError>() {
        return "it must be an IP address, with a port where one is needed".to_owned();
    }
    let text = source.to_string();
    match text.split_once(" is not in ").and_then(|(_, range)| range.split_once("..=")) {
        Some((least, most)) => format!("it must be a whole number from {least} to {most}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use measure::Length;

    use super::*;

    fn refused(line: &str) -> String {
        let error = Cli::command().try_get_matches_from(line.split(' ')).unwrap_err();
        readable(error).render().to_string()
    }

    #[test]
    fn options_of_loads_are_keys_of_experiments() {
        for (line, key) in [
            ("bellows run stream-publish --producers 5", "load.0.producers"),
            ("bellows demo --quiet --warmup=5", "phases.warmup"),
            ("bellows demo --ttl secret:word@host", "load.0.ttl"),
        ] {
            let text = refused(line);
            assert!(text.contains(&format!("'--set {key}=VALUE'")) && !text.contains("secret"), "{text}");
        }
        assert!(refused("bellows runs show tag=mem tag=disk").contains("'tag=disk'"));
        assert!(refused("bellows runs tag=mem").contains(FILTERS));
        // A transaction's messages are all in flight: the window was ignored without a word.
        assert!(refused("bellows client --max-pending 5 --commit-interval 5").contains("--commit-interval"));
        for line in ["bellows top --rate 5", "bellows demo --ratio 5"] {
            assert!(!refused(line).contains("--set"), "{line}");
        }
        let text = refused("bellows run --no-archive");
        assert!(text.contains(KEEPS) && text.contains("Usage: bellows run [OPTIONS]"), "{text}");
        let text = refused("bellows demo --require p99<50");
        assert!(text.contains("is not a quantity\n\n  tip: ") && text.contains("ack response p99"), "{text}");
        // Of options that only share some letters one was said to be similar.
        for (option, is_alike) in [("--mesage-count", true), ("--num-messages", false), ("--ulr", true)] {
            let text = refused(&format!("bellows artemis perf client {option} 5 q"));
            assert_eq!(text.contains("a similar"), is_alike, "{text}");
        }
        let text = refused("bellows artemis perf consumer --message-size 5 q");
        let beside = "it is an option of 'bellows artemis perf client' and 'bellows artemis perf producer'";
        assert!(text.contains(beside), "{text}");
    }

    #[test]
    fn a_command_that_does_not_exist_or_lacks_modules_has_a_tip() {
        for [line, tip] in testkit::table(include_str!("../../tests/data/tips.txt")) {
            let text = refused(line);
            assert!(text.contains(tip) && !text.contains("a similar"), "{text}");
        }
    }

    /// `Usage: bellows runs history --runs <DIR> <EXPERIMENT>`, where BELLOWS_RUNS is set.
    #[test]
    fn usage_does_not_require_what_a_variable_gives() {
        // Cargo sets this one, whatever the shell has.
        let runs = Arg::new("runs").long("runs").env("CARGO_PKG_NAME");
        let below = Command::new("history").arg(runs).arg(Arg::new("name").required(true));
        let grammar = Command::new("bellows").subcommand(below);
        let typed = ["bellows", "history"].map(OsString::from);
        let error = grammar.clone().try_get_matches_from(&typed).unwrap_err();
        assert!(error.render().to_string().contains("--runs <runs>"));
        let text = without_environment(error, grammar, &typed).render().to_string();
        assert!(text.contains("<name>"), "{text}");
        assert!(!text.contains("--runs"), "{text}");
    }

    #[test]
    fn what_the_environment_decides_is_kept() {
        // Cargo sets these two, whatever the shell has.
        let option = |id: &'static str, env: &'static str| Arg::new(id).long(id).env(env);
        let secret = option("password", "CARGO_PKG_NAME").value_parser(clap::value_parser!(Secret));
        let command = Command::new("bellows").subcommand(
            Command::new("run")
                .arg(option("broker-root", "CARGO_PKG_VERSION"))
                .arg(option("set_before", "CARGO_PKG_NAME").value_delimiter(','))
                .arg(option("absent", "BELLOWS_IS_NOT_SET"))
                .arg(secret)
                .arg(Arg::new("rate").long("rate")),
        );
        let line = ["bellows", "run", "--rate", "5"];
        let matches = command.clone().get_matches_from(line);
        let mut words = Vec::new();
        add(&command, &matches, &mut words);
        let root = env!("CARGO_PKG_VERSION");
        let wanted = format!("run --broker-root {root} --set bellows --rate 5");
        assert_eq!(words.join(" "), wanted);
    }

    /// `--limit` or `-n` is a number of rows in every command, and `--every` the time from one to the next; old
    /// spellings are not shown.
    #[test]
    fn an_option_means_the_same_in_every_command() {
        fn check(command: &Command) {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let name = command.get_name();
                let long = arg.get_long().unwrap_or_default();
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty(), "{name}: {long} sets no key");
                assert_eq!(arg.get_short() == Some('n'), long == "limit", "{name}: {arg:?}");
                let is_time = arg.get_value_parser().type_id() == std::any::TypeId::of::<Length>();
                let is_step = is_time && help.contains("to the next");
                assert_eq!(is_step, long == "every", "{name}: {arg:?}");
                for other in ["number", "for", "fail-if", "slo"] {
                    assert_ne!(long, other, "{name}");
                }
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    /// Of a line in which `|` is a blank within a word.
    fn kept(line: &str) -> String {
        let words = std::iter::once("/usr/bin/bellows").chain(line.split(' '));
        archived(words.map(|word| OsString::from(word.replace('|', " ")))).join(" ")
    }

    #[test]
    fn what_was_parsed_is_kept_without_its_secrets() {
        for [line, wanted] in testkit::table(include_str!("../../tests/data/kept-commands.txt")) {
            let kept = kept(line);
            assert!(!kept.contains("s3cret"), "{kept}");
            assert_eq!(kept.replace(" --set load", " load"), wanted);
        }
    }

    #[test]
    fn secrets_and_addresses_are_typed_as_such() {
        fn look(command: &Command, found: &mut usize) {
            for arg in command.get_arguments() {
                let name = arg.get_long().unwrap_or_default();
                let kind = arg.get_value_parser().type_id();
                let words = ["pass", "secret", "token", "cookie", "url", "uri"];
                // Where a secret is kept is none.
                let speaks = |word: &&str| name.contains(*word) && !name.ends_with("-file");
                if arg.get_action().takes_values() && words.iter().any(speaks) {
                    *found += 1;
                    let typed = kind == std::any::TypeId::of::<Secret>() || kind == std::any::TypeId::of::<Url>();
                    assert!(typed, "{} --{name} is kept as it is", command.get_name());
                }
            }
            for below in command.get_subcommands() {
                look(below, found);
            }
        }
        let mut found = 0;
        look(&Cli::command(), &mut found);
        assert!(found > 10, "{found}");
    }

    #[test]
    fn errors_repeat_no_secret() {
        for line in [
            "bellows client --pasword=s3cret",
            "bellows run x amqp://me:s3cret@h",
            "bellows client --rate amqp://me:s3cret@h",
            "bellows client --duration amqp://me:s3cret@h",
            "bellows client --schedule amqp://me:s3cret@h",
            "bellows client --pid me:s3cret@h",
            "bellows client --queue-type s3cret=s3cret",
        ] {
            let text = refused(line);
            assert!(!text.contains("s3cret"), "{text}");
        }
    }
}
