//! PerfTest's parsing of a command line: Apache Commons CLI's `DefaultParser`, rule by rule. Long names may be
//! shortened and take one dash or two, short names of several letters stand alone, those of one letter may be joined
//! (`-ap`, `-x3`).

use super::table::{self, Arg, OPTIONS, Opt, Shown};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) option: &'static Opt,
    pub(super) values: Vec<String>,
    /// The word as typed, where its first letters are the option and the others its value.
    pub(super) joined: Option<String>,
}

impl Given {
    fn takes_more(&self) -> bool {
        match self.option.arg {
            Arg::No => false,
            Arg::One | Arg::Maybe => self.values.is_empty(),
            Arg::Many => true,
        }
    }

    fn lacks_a_value(&self) -> bool {
        matches!(self.option.arg, Arg::One | Arg::Many) && self.values.is_empty()
    }
}

#[derive(Default)]
pub(super) struct Parsed {
    pub(super) given: Vec<Given>,
    /// Words that are neither option nor value.
    pub(super) rest: Vec<String>,
    /// How many of `given` the first of `rest` follows.
    pub(super) before_rest: usize,
    /// The last of `given` still takes values.
    open: bool,
    /// `--` was seen.
    only_rest: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ParseError {
    Unknown(String),
    /// Several options begin like this.
    Ambiguous(String, Vec<&'static str>),
    Missing(&'static Opt),
}

pub(super) fn parse(args: &[String]) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::default();
    for arg in args {
        parsed.word(arg)?;
    }
    parsed.close()?;
    Ok(parsed)
}

impl Parsed {
    fn word(&mut self, word: &str) -> Result<(), ParseError> {
        if self.only_rest {
            self.stray(word);
        } else if word == "--" {
            self.only_rest = true;
        } else if self.open && (!is_option(word) || self.takes_anything()) {
            self.value(unquoted(word));
        } else if word.starts_with("--") {
            self.long(word)?;
        } else if word.starts_with('-') && word != "-" {
            self.short(word)?;
        } else {
            self.stray(word);
        }
        Ok(())
    }

    fn stray(&mut self, word: &str) {
        if self.rest.is_empty() {
            self.before_rest = self.given.len();
        }
        self.rest.push(word.to_owned());
    }

    /// A secret may begin with a dash, and is nothing to be looked up among the options and named in an error.
    fn takes_anything(&self) -> bool {
        let secret = |given: &Given| given.option.shown() == Shown::Never;
        self.given.last().is_some_and(|given| secret(given) && given.lacks_a_value())
    }

    /// `-x`, `-x1`, `-x=1`, `-qq`, `-ap`, `-producers`, `-producers=1`.
    fn short(&mut self, word: &str) -> Result<(), ParseError> {
        let name = bare(word);
        // A secret that follows its option at once would be the name of the file of `-o` otherwise.
        let secret = table::by_short("o2sec").zip(name.strip_prefix("o2sec"));
        if let Some((option, value)) = secret.filter(|(_, value)| !value.is_empty()) {
            return self.assigned(Some(option), value.strip_prefix('=').unwrap_or(value), word);
        }
        if name.chars().count() == 1 {
            let option = table::by_short(name);
            return self.option(option.ok_or_else(|| ParseError::Unknown(word.to_owned()))?);
        }
        let Some((key, value)) = name.split_once('=') else {
            return if let Some(option) = table::by_short(name) {
                self.option(option)
            } else if !named(name).is_empty() {
                self.long(word)
            } else if let Some((option, value)) = joined_long(name) {
                self.assigned(Some(option), value, word)
            } else if let Some(option) = many(name) {
                self.assigned(Some(option), after_first(name), word)
            } else {
                self.joined(word)
            };
        };
        if key.chars().count() == 1 {
            let option = table::by_short(key).filter(|option| option.arg != Arg::No);
            return self.assigned(option, value, word);
        }
        if let Some(option) = many(key) {
            self.option(option)?;
            self.value(after_first(key));
            self.value(value);
            self.open = false;
            return Ok(());
        }
        self.long(word)
    }

    /// `--producers`, `--producers=1`, or as much of the name as no other option has.
    fn long(&mut self, word: &str) -> Result<(), ParseError> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let mut names = named(bare(name));
        if names.len() > 1 {
            let names = names.iter().map(|option| option.long).collect();
            return Err(ParseError::Ambiguous(name.to_owned(), names));
        }
        let option = names.pop();
        match value {
            Some(value) => {
                let option = option.filter(|option| option.arg != Arg::No);
                self.assigned(option, value, word)
            }
            None => self.option(option.ok_or_else(|| ParseError::Unknown(word.to_owned()))?),
        }
    }

    /// `-ap`, `-apx3`: letters up to the first that takes a value, which is the rest.
    fn joined(&mut self, word: &str) -> Result<(), ParseError> {
        let mut rest = word.get(1..).unwrap_or_default();
        while let Some(letter) = rest.chars().next() {
            let (name, after) = rest.split_at(letter.len_utf8());
            let option = table::by_short(name).ok_or_else(|| ParseError::Unknown(word.to_owned()))?;
            self.option(option)?;
            if self.open && !after.is_empty() {
                self.value(unquoted(after));
                if let Some(last) = self.given.last_mut() {
                    last.joined = Some(word.to_owned());
                }
                return Ok(());
            }
            rest = after;
        }
        Ok(())
    }

    fn assigned(&mut self, option: Option<&'static Opt>, value: &str, word: &str) -> Result<(), ParseError> {
        self.option(option.ok_or_else(|| ParseError::Unknown(word.to_owned()))?)?;
        self.value(value);
        self.open = false;
        Ok(())
    }

    fn option(&mut self, option: &'static Opt) -> Result<(), ParseError> {
        self.close()?;
        let given = Given { option, values: Vec::new(), joined: None };
        self.open = given.takes_more();
        self.given.push(given);
        Ok(())
    }

    fn value(&mut self, value: &str) {
        if let Some(last) = self.given.last_mut() {
            last.values.push(value.to_owned());
            self.open = last.takes_more();
        }
    }

    /// No more values come for the last option.
    fn close(&self) -> Result<(), ParseError> {
        match self.given.last() {
            Some(last) if self.open && last.lacks_a_value() => Err(ParseError::Missing(last.option)),
            _ => Ok(()),
        }
    }
}

/// Whether a word would be read as an option, where it might also be a value. No name begins with
/// a digit, so negative numbers never are (a test holds this).
fn is_option(word: &str) -> bool {
    if !word.starts_with('-') || word == "-" {
        return false;
    }
    let name = bare(word).split('=').next().unwrap_or_default();
    let first = name.get(..1).unwrap_or_default();
    let one_dash = !word.starts_with("--");
    table::by_short(name).is_some()
        || !named(name).is_empty()
        || one_dash && (table::by_short(first).is_some() || joined_long(bare(word)).is_some())
}

fn bare(word: &str) -> &str {
    word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or(word)
}

/// The option with this long name, else all whose long names begin with it.
fn named(name: &str) -> Vec<&'static Opt> {
    if let Some(option) = table::by_long(name) {
        return vec![option];
    }
    OPTIONS.iter().filter(|option| option.long.starts_with(name)).collect()
}

/// A long name with its value right behind it, `producers3`, and the value.
fn joined_long(name: &str) -> Option<(&'static Opt, &str)> {
    let option = OPTIONS
        .iter()
        .filter(|option| option.arg != Arg::No)
        .filter(|option| name.len() > option.long.len() + 1 && name.starts_with(option.long))
        .max_by_key(|option| option.long.len())?;
    Some((option, name.get(option.long.len()..)?))
}

/// The option of one letter that takes many values, as `-D` takes Java properties.
fn many(name: &str) -> Option<&'static Opt> {
    table::by_short(name.get(..1)?).filter(|option| option.arg == Arg::Many)
}

fn after_first(name: &str) -> &str {
    name.get(1..).unwrap_or_default()
}

/// Without the quotation marks around it, where it has none inside.
fn unquoted(value: &str) -> &str {
    let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    inner.filter(|v| !v.contains('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Command lines, words divided by `|`, and the result of Commons CLI 1.9 with the options of PerfTest 2.22.1.
    const RECORDED: &str = include_str!("../../tests/data/perf-test/command-lines.tsv");

    fn outcome(line: &str) -> String {
        let args: Vec<_> = line.split('|').map(str::to_owned).collect();
        let parsed = match parse(&args) {
            Ok(parsed) => parsed,
            Err(ParseError::Unknown(_)) => return "unknown".into(),
            Err(ParseError::Ambiguous(..)) => return "ambiguous".into(),
            Err(ParseError::Missing(_)) => return "missing".into(),
        };
        let one = |given: &Given| format!("{}[{}]", given.option.long, given.values.join(", "));
        let given: Vec<_> = parsed.given.iter().map(one).collect();
        format!("{}\t[{}]", given.join(" "), parsed.rest.join(", "))
    }

    #[test]
    fn command_lines_are_read_as_commons_cli_reads_them() {
        for recorded in RECORDED.lines() {
            let (line, expected) = recorded.split_once('\t').expect("a tab");
            assert_eq!(outcome(line), expected, "{line}");
        }
        assert!(RECORDED.lines().count() > 140);
    }

    #[test]
    fn no_name_begins_with_a_digit() {
        let digit = |name: &str| name.starts_with(|c: char| c.is_ascii_digit());
        assert!(OPTIONS.iter().all(|o| !digit(o.short) && !digit(o.long)));
    }
}
