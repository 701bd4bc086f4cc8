//! Values of the command line, else of the environment, written as PerfTest writes them: `a=1,b=2`, `50mb`, `PT10M30S`,
//! `perf-test-%03d`. A value that cannot be read or an option without meaning here is an error, never ignored.

use std::str::FromStr;

use jiff::{Span, SpanRelativeTo};
use load::Argument;
use measure::Length;

use super::parser::{self, Given, ParseError, Parsed};
use super::table::{self, OPTION_NAMES, OPTIONS, Opt, Shown, Status};
use crate::Failure;

pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variable with PerfTest's prefix of environment variables.
const PREFIX: &str = "RABBITMQ_PERF_TEST_ENV_PREFIX";

/// Two names this alike may be a slip of the pen (Jaro similarity, 0 to 1), as clap has it.
const ALIKE: f64 = 0.7;

#[derive(Debug, Default)]
pub(super) struct Values {
    given: Vec<Given>,
    /// Variables that decided something, to be named.
    pub(super) from_environment: Vec<String>,
    /// Options that were given twice; PerfTest takes the first.
    pub(super) repeated: Vec<String>,
}

impl Values {
    /// Reads a command line, and the environment for options that it lacks.
    pub(super) fn read(args: &[String], environment: Environment<'_>) -> Result<Self, Failure> {
        let parsed = parser::parse(args).map_err(|error| unreadable(&error))?;
        if let Some(word) = parsed.given.iter().flat_map(seen_values).find(|word| is_long(word) && args.contains(word))
        {
            return Err(unreadable(&ParseError::Unknown(word.clone())));
        }
        if let Some(word) = parsed.rest.first() {
            return Err(stray(&parsed, word));
        }
        let mut values = Self::default();
        for given in parsed.given {
            values.add(given);
        }
        let prefix = environment(PREFIX).map(|prefix| prefix.trim().to_owned());
        for option in OPTIONS {
            values.add_variable(option, prefix.as_deref(), environment);
        }
        Ok(values)
    }

    fn add(&mut self, given: Given) {
        match self.given.iter_mut().find(|g| g.option == given.option) {
            Some(known) if given.option.arg == table::Arg::Many => known.values.extend(given.values),
            Some(known) if known.values == given.values => {}
            Some(_) => self.repeated.push(given.option.name()),
            None => self.given.push(given),
        }
    }

    fn add_variable(&mut self, option: &'static Opt, prefix: Option<&str>, environment: Environment<'_>) {
        let Some(name) = variable(option, prefix) else { return };
        if self.find(option.long).is_some() {
            return;
        }
        let Some(value) = environment(&name) else { return };
        let values = match option.arg {
            table::Arg::No if !value.eq_ignore_ascii_case("true") => return,
            table::Arg::No => Vec::new(),
            table::Arg::One | table::Arg::Maybe => vec![value],
            table::Arg::Many => value.split(',').map(str::to_owned).collect(),
        };
        self.given.push(Given { option, values, joined: None });
        self.from_environment.push(name);
    }

    pub(super) fn check(&self) -> Result<(), Failure> {
        let refused = self.given.iter().find(|given| given.option.status == Status::Refused);
        refused.map_or(Ok(()), |Given { option, .. }| {
            let text = format!("perf-test does not take {}: {}", option.name(), why(option));
            Err(Failure::usage(text, "leave it out").observed(option.name()))
        })
    }

    /// A failure that names the word as typed, where a slip of an option's name was read as a letter and its value.
    pub(super) fn as_typed(&self, failure: Failure) -> Failure {
        let Failure::Usage(problem) = &failure else { return failure };
        let refused = self.given.iter().find(|given| given.values.contains(&problem.value));
        refused.and_then(misread).map_or(failure, |word| unreadable(&ParseError::Unknown(word.to_owned())))
    }

    /// The options of the command line, written shortly, without addresses, secrets and those for metrics.
    pub(super) fn command_line(&self) -> String {
        let is_shown = |it: &&Given| matches!(it.option.shown(), Shown::Whole | Shown::AsArguments);
        let shown = self.given.iter().filter(|given| !given.option.metrics).filter(is_shown);
        shown.flat_map(words).collect::<Vec<_>>().join(" ")
    }

    fn find(&self, long: &str) -> Option<&Given> {
        debug_assert!(table::by_long(long).is_some(), "{long}");
        self.given.iter().find(|given| given.option.long == long)
    }

    pub(super) fn has(&self, long: &str) -> bool {
        self.find(long).is_some()
    }

    /// Whether `-f` has this value.
    pub(super) fn has_flag(&self, flag: &str) -> bool {
        self.list("flag").iter().any(|given| given == flag)
    }

    pub(super) fn text(&self, long: &str) -> Option<&str> {
        self.find(long)?.values.first().map(String::as_str)
    }

    pub(super) fn list(&self, long: &str) -> &[String] {
        self.find(long).map_or(&[], |given| &given.values)
    }

    /// A value parsed from text; `needed` describes a valid one.
    pub(super) fn parsed<T: FromStr>(&self, long: &str, needed: &str) -> Result<Option<T>, Failure> {
        self.text(long).map(|text| text.parse::<T>().map_err(|_| bad(long, text, needed))).transpose()
    }

    pub(super) fn whole(&self, long: &str, default: u32) -> Result<u32, Failure> {
        Ok(self.parsed::<u32>(long, "a whole number, 0 or more")?.unwrap_or(default))
    }

    pub(super) fn seconds(&self, long: &str, default: u32) -> Result<Length, Failure> {
        self.whole(long, default).map(|seconds| Length::seconds(seconds.into()))
    }

    /// One of several words by its value; `None` where the option was not given.
    pub(super) fn choice<T: Copy>(&self, long: &str, words: &[(&str, T)]) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(long) else { return Ok(None) };
        let known = words.iter().find(|(word, _)| *word == text).map(|(_, value)| Some(*value));
        let needed = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ");
        known.ok_or_else(|| bad(long, text, &needed()))
    }

    pub(super) fn flag(&self, long: &str, default: bool) -> Result<bool, Failure> {
        match self.text(long).map(str::to_lowercase).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(bad(long, other, "true or false")),
        }
    }
}

/// A command line as it was understood, for the archive: options by their short names, secrets hidden.
pub(super) fn archived(args: &[String]) -> Vec<String> {
    let parsed = parser::parse(args).unwrap_or_default();
    parsed.given.iter().flat_map(words).collect()
}

/// An option and its values as they may be shown.
fn words(given: &Given) -> Vec<String> {
    let name = match given.option.short {
        "" => format!("--{}", given.option.long),
        short => format!("-{short}"),
    };
    let values = given.values.iter().map(|value| shown_value(given.option, value));
    std::iter::once(name).chain(values).collect()
}

fn shown_value(option: &Opt, value: &str) -> String {
    match option.shown() {
        Shown::Whole => value.to_owned(),
        Shown::AsUrl => split_urls(value).map(web::redact::url).collect::<Vec<_>>().join(","),
        Shown::AsArguments => web::redact::arguments(value),
        Shown::Never => "***".to_owned(),
    }
}

/// The URLs of a list. A comma divides two where a scheme follows it: a password may hold one, too.
pub(super) fn split_urls(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(list);
    std::iter::from_fn(move || {
        let all = rest?;
        let begins = |after: &str| {
            let after = after.trim_start();
            after.starts_with("amqp://") || after.starts_with("amqps://")
        };
        let divider = all.match_indices(',').find(|(at, _)| all.get(at + 1..).is_some_and(begins));
        let (first, next) = match divider {
            Some((at, _)) => (all.get(..at).unwrap_or(all), all.get(at + 1..)),
            None => (all, None),
        };
        rest = next;
        Some(first.trim())
    })
}

pub(super) fn variable(option: &Opt, prefix: Option<&str>) -> Option<String> {
    let name = option.variable()?;
    Some(match prefix {
        None | Some("") => name,
        Some(prefix) => format!("{}_{name}", prefix.strip_suffix('_').unwrap_or(prefix)),
    })
}

/// The failure of a value that cannot be read.
pub(super) fn bad(long: &str, value: &str, needed: &str) -> Failure {
    let option = table::by_long(long);
    let name = option.map_or_else(|| long.to_owned(), Opt::name);
    let value = option.map_or_else(|| value.to_owned(), |option| shown_value(option, value));
    Failure::usage(format!("{name} {value:?} makes no sense"), format!("give {needed}")).observed(&value)
}

/// The note; where it points to another option's, that one's.
pub(super) fn why(option: &'static Opt) -> &'static str {
    let other = option.note.strip_prefix("as -");
    let other = other.and_then(|name| table::by_short(name).or_else(|| table::by_long(name.trim_start_matches('-'))));
    other.map_or(option.note, |other| other.note)
}

fn unreadable(error: &ParseError) -> Failure {
    let (value, cause, help) = match error {
        ParseError::Unknown(word) => {
            let help = fitting(word).unwrap_or_else(|| "see bellows perf-test --help".to_owned());
            (shown(word).to_owned(), format!("perf-test has no option {:?}", shown(word)), help)
        }
        ParseError::Ambiguous(word, names) => {
            let names: Vec<_> = names.iter().map(|name| format!("--{name}")).collect();
            let help = format!("write one of {} out", names.join(", "));
            (word.clone(), format!("{word} begins several options"), help)
        }
        ParseError::Missing(option) => {
            let name = option.name();
            (name.clone(), format!("{name} has no value"), format!("it is: {}", option.help))
        }
    };
    Failure::usage(cause, help).observed(value)
}

/// The failure of a word that belongs to no option. It is not shown where it may be a secret's piece: a blank divided
/// the value of the option before it, and a URL's password ends with an `@`.
fn stray(parsed: &Parsed, word: &str) -> Failure {
    let before = parsed.given.get(..parsed.before_rest).and_then(<[Given]>::last);
    if let Some(misread) = before.and_then(misread) {
        return unreadable(&ParseError::Unknown(misread.to_owned()));
    }
    let has_end_of_password = || parsed.rest.iter().any(|word| word.contains('@'));
    let is_piece = |given: &Given| match given.option.shown() {
        Shown::Whole => false,
        Shown::AsUrl => has_end_of_password(),
        Shown::AsArguments | Shown::Never => true,
    };
    let is_hidden = before.is_some_and(is_piece) || parsed.given.iter().any(is_piece) && word.contains('@');
    let shown = match is_hidden {
        true => "(not shown here, since it may be a secret's piece)".to_owned(),
        false => format!("{word:?}"),
    };
    let fitting = if is_hidden { None } else { fitting(word) };
    let help = fitting.unwrap_or_else(|| match before {
        Some(given) => format!("{} before it takes no more values: leave the word out", given.option.name()),
        None => "write the option that it belongs to before it".to_owned(),
    });
    Failure::usage(format!("perf-test takes no argument {shown} outside of an option"), help).observed(&shown)
}

/// The values that may be named.
fn seen_values(given: &Given) -> &[String] {
    if given.option.shown() == Shown::Never { &[] } else { &given.values }
}

/// Whether a word is written like a long option, which no value is.
fn is_long(word: &str) -> bool {
    word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The word that was read as an option of one letter and its value, and is most like the name of another.
fn misread(given: &Given) -> Option<&str> {
    let word = given.joined.as_deref().filter(|_| given.option.shown() == Shown::Whole);
    word.filter(|word| nearest(word).is_some())
}

/// The word without its value, which may hold a password.
fn shown(word: &str) -> &str {
    word.split('=').next().unwrap_or(word)
}

/// Whether a typed name may be this one with a slip of the pen.
pub(crate) fn is_slip(typed: &str, known: &str) -> bool {
    let is_alike = || strsim::jaro(typed, known) > ALIKE || is_transposed(typed, known);
    strsim::damerau_levenshtein(typed, known) <= (typed.len() / 4).max(1) && is_alike()
}

/// Whether a name of three letters or more has those of the other, all of them: few letters never look alike.
fn is_transposed(typed: &str, known: &str) -> bool {
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    typed.len() > 2 && sorted(typed) == sorted(known)
}

/// The option that is written most like this; `None` where it can be no slip of the pen.
fn nearest(word: &str) -> Option<&'static Opt> {
    let name = shown(word).trim_start_matches('-');
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    // A short name has one dash, and letters alone say nothing.
    let short = |option: &'static Opt| Some(option.short).filter(|it| it.len() > 1 && !word.starts_with("--"));
    let names =
        OPTIONS.iter().flat_map(|option| short(option).into_iter().chain([option.long]).map(move |it| (it, option)));
    names.filter(|(known, _)| is_slip(name, known)).min_by_key(|(known, _)| distance(known)).map(|(_, option)| option)
}

/// The option that fits a word: the one that is written most like it, or that is called so elsewhere in bellows.
fn fitting(word: &str) -> Option<String> {
    let nearest = nearest(word).map(|option| format!("the nearest is {}", option.name()));
    nearest.or_else(|| {
        let key = match shown(word).trim_start_matches('-') {
            "duration" => "measure",
            name => name,
        };
        let (_, name) = OPTION_NAMES.iter().find(|(known, _)| known.rsplit('.').next() == Some(key))?;
        Some(format!("perf-test has it as {name}"))
    })
}

/// Reads `key=value,…`: booleans and integers become such, the rest is text.
pub(super) fn key_values(option: &str, text: &str) -> Result<Vec<(String, Argument)>, Failure> {
    let one = |entry: &str| {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        if key.is_empty() {
            return Err(bad(option, text, "key=value, several divided by commas"));
        }
        Ok((key.to_owned(), value_of(key, value)))
    };
    let entries = text.split(',').filter(|entry| !entry.trim().is_empty());
    entries.map(one).collect()
}

fn value_of(key: &str, value: &str) -> Argument {
    if (key, value) == ("x-dead-letter-exchange", "amq.default") {
        // The default exchange has no name that could be written.
        return Argument::Text(String::new());
    }
    let Ok(value) = value.parse();
    value
}

/// Reads `1000`, `50mb`, `20gb`: powers of 1,000.
pub(super) fn byte_capacity(option: &str, text: &str) -> Result<i64, Failure> {
    let lower = text.to_lowercase();
    let units = [("kb", 1), ("mb", 2), ("gb", 3), ("tb", 4)];
    let split = units.iter().find_map(|(name, power)| Some((lower.strip_suffix(name)?, 1_000i64.pow(*power))));
    let (digits, factor) = split.unwrap_or((lower.as_str(), 1));
    let number = digits.parse::<i64>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
    let bytes = number.and_then(|number| number.checked_mul(factor));
    bytes.ok_or_else(|| bad(option, text, "bytes, such as 50mb or 100gb"))
}

/// Reads an ISO 8601 duration of days and less, in whole seconds, as `java.time.Duration` does.
pub(super) fn seconds_of_duration(option: &str, text: &str) -> Result<u64, Failure> {
    let iso = Some(text).filter(|text| text.starts_with(['P', 'p']));
    let span = iso.and_then(|text| text.parse::<Span>().ok());
    span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok())
        .and_then(|length| u64::try_from(length.as_secs()).ok())
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| bad(option, text, "an ISO 8601 duration above 0, such as PT15M or P5DT8H"))
}

/// `%d`, `%5d` and `%03d` with a number in their place, `%%` for a per cent sign; `None` for anything else.
pub(super) fn formatted(pattern: &str, number: u32) -> Option<String> {
    let mut text = String::new();
    let mut rest = pattern;
    let mut numbers = 0;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            text.push('%');
            rest = after;
            continue;
        }
        let (width, after) = after.split_once('d')?;
        let zeros = width.starts_with('0');
        let columns = match width {
            "" => 0,
            width => width.parse::<usize>().ok().filter(|n| *n <= 255)?,
        };
        text.push_str(&if zeros { format!("{number:0columns$}") } else { format!("{number:columns$}") });
        numbers += 1;
        rest = after;
    }
    text.push_str(rest);
    (numbers > 0).then_some(text)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::nodes;
    use super::*;

    pub(in crate::perf_test) fn read(line: &str) -> Result<Values, Failure> {
        let args: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Values::read(&args, &|_| None)
    }

    #[test]
    fn the_nearest_option_is_named() {
        let alike = [("--producer", "producers"), ("--qoss", "qos"), ("--uriss", "uris"), ("-msx", "use-millis")];
        for (word, option) in alike {
            assert_eq!(nearest(word).map(|o| o.long), Some(option), "{word}");
        }
        // To the last four `version`, `queue-file`, `heartbeat-sender-threads` and `variable-size` were the nearest.
        for word in ["--bogus-rate", "--x", "--duration", "--queue-name", "--host", "-xs"] {
            assert_eq!(nearest(word).map(|o| o.long), None, "{word}");
        }
    }

    #[test]
    fn what_is_refused_is_an_error() {
        let refuse = |line: &str| {
            let Err(Failure::Usage(problem)) = read(line).and_then(|v| v.check()) else {
                panic!("{line} is taken");
            };
            format!("{problem:?}")
        };
        assert!(refuse("-mdk secret").contains("Datadog's agent"));
        assert!(refuse("--verbose").contains("ledger"));
        assert!(!refuse("--uri=x://user:secret@h --bogus=secret").contains("secret"));
        assert!(refuse("stray").contains("stray"));
        for line in ["-h amqp://me:pa secret@h", "-o2p secret", "-o2uri http://h -o2id x -o2sec -secret -bogus"] {
            let told = format!("{:?}", read(line).and_then(|v| nodes::broker(&v).map(drop)));
            assert!(!told.contains("secret@") && !told.contains("-secret"), "{line}");
        }
        assert!(read("-b 0 -M 0 -nty").and_then(|v| v.check()).is_ok());
    }

    #[test]
    fn the_archived_command_line_holds_no_secret() {
        let line = "-h amqp://me:s3cret,x/@h,amqps://me:s3cret@i --oauth2-client-sec=s3cret -o2secs3cret -o2sec \
                    --s3cret -o2p client_assertion=s3cret s3cret=1 -x2 --consumers=3 -k key";
        let args: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let kept = archived(&args).join(" ");
        assert!(!kept.contains("s3cret"), "{kept}");
        assert!(kept.starts_with("-h amqp://me@h:5672/,amqps://me@i:5671/ "), "{kept}");
        assert!(kept.ends_with("-x 2 -y 3 -k key"), "{kept}");
    }

    #[test]
    fn the_environment_says_what_the_command_line_does_not() {
        let given = "PT_SIZE=100 PT_AUTOACK=TRUE PT_PREDECLARED=false PT_FLAG=persistent,mandatory PT_RATE=5 QOS=7";
        let given = format!("{PREFIX}=PT {given}");
        let value = |pair: &str, name: &str| Some(pair.strip_prefix(name)?.strip_prefix('=')?.to_owned());
        let environment = |name: &str| given.split(' ').find_map(|pair| value(pair, name));
        let values = Values::read(&["-r", "10"].map(str::to_owned), &environment).expect("read");
        assert_eq!((values.text("size"), values.text("rate")), (Some("100"), Some("10")));
        assert!(values.has("autoack") && !values.has("predeclared") && !values.has("qos"));
        assert_eq!((values.list("flag").len(), values.from_environment.len()), (2, 3));
    }

    #[test]
    fn the_first_of_two_counts_and_is_said() {
        let values = read("-x 1 -x 2 -f persistent -f mandatory -y 3 -y 3").expect("read");
        assert_eq!(values.text("producers"), Some("1"));
        assert_eq!(values.repeated, ["-x/--producers"]);
        assert_eq!(values.list("flag").len(), 2);
    }

    #[test]
    fn values_are_read_as_perf_test_reads_them() {
        let pairs = key_values("queue-args", "x-a=1,x-b=true,x-c=text,x-d,x-e=a=b").expect("read");
        let text: Vec<_> = pairs.iter().map(|(k, v)| format!("{k} {v:?}")).collect();
        assert_eq!(
            text,
            ["x-a Integer(1)", "x-b Flag(true)", "x-c Text(\"text\")", "x-d Text(\"\")", "x-e Text(\"a=b\")"]
        );
        assert!(key_values("queue-args", "=1").is_err());
        for (written, bytes) in [("0", 0), ("50mb", 50_000_000), ("3GB", 3_000_000_000)] {
            assert_eq!(byte_capacity("max-length-bytes", written).ok(), Some(bytes));
        }
        for wrong in ["", "mb", "1.5gb", "-1", "9999999999tb", "5mib"] {
            assert!(byte_capacity("max-length-bytes", wrong).is_err(), "{wrong}");
        }
        for (written, seconds) in [("PT10M30S", 630), ("P5DT8H", 460_800), ("pt1h", 3_600), ("P1D", 86_400)] {
            assert_eq!(seconds_of_duration("max-age", written).ok(), Some(seconds));
        }
        for wrong in ["", "P", "PT", "10M", "PT0S", "PTM", "PT1S2M", "P1DT", "PT-1M"] {
            assert!(seconds_of_duration("max-age", wrong).is_err(), "{wrong}");
        }
        let names = ["q-%d", "%03d", "%%%3d", "q", "%x", "%"].map(|pattern| formatted(pattern, 7));
        let told = names.each_ref().map(Option::as_deref);
        assert_eq!(told, [Some("q-7"), Some("007"), Some("%  7"), None, None, None]);
    }
}
