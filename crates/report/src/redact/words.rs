//! Names within values that are made of several words: commands, options, Erlang terms, values of headers.

use experiment::TextKind;
use measure::Length;

use super::names::{Names, folded, is_ordinary};

/// Placeholders whose values are found by their form.
const MARKS: [&str; 3] = ["{url}", "{host}", "{port}"];
/// Common content types; others are somebody's.
const TYPES: &str = "text/plain text/html text/xml text/csv application/json application/xml application/octet-stream \
                     application/x-protobuf application/protobuf application/avro application/cbor application/msgpack \
                     application/x-msgpack application/cloudevents+json application/gzip application/zip";
const ENCODINGS: &str = "gzip deflate identity br zstd snappy lz4 utf-8 base64";
/// Words of Erlang's terms and guards, and of RabbitMQ's records.
const TERM_WORDS: &str = "when andalso orelse and or xor not true false undefined ok error none infinity resource \
    queue exchange amqqueue rem div band bor bxor bsl bsr bnot is_atom is_binary is_boolean is_float is_function \
    is_integer is_list is_map is_number is_pid is_port is_reference is_tuple element hd tl length size tuple_size \
    map_size byte_size bit_size abs round trunc node self binary bytes utf8 integer";

/// Options of Erlang and Java that have one dash and several letters. Others may be `-pPASSWORD`.
const LONG_OPTIONS: &str = "noshell noinput sname name kernel rabbit pa pz boot smp env hidden proto_dist config \
                            mnesia os_mon sasl args_file start_epmd ea da esa server cp classpath jar";

/// Words of systems', TLS's and brokers' errors.
const OUTSIDE: &str = include_str!("outside.txt");

/// Whether a text is made of words that say nothing of anybody, and of numbers.
pub(super) fn are_own_words(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.into_iter().all(|word| {
        let word = folded(word);
        is_ordinary(&word) || is_one_of(OUTSIDE, &word)
    })
}

pub(super) fn is_one_of(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|it| it == word)
}

/// Notes a value and its words, unless it is a number or the usual one of a key.
pub(super) fn note_own_value(names: &mut Names, key: &str, text: &str) {
    let is_plain = text.parse::<f64>().is_ok() || ["true", "false", ""].contains(&text);
    let is_usual = match key {
        "content-type" => is_one_of(TYPES, text),
        "content-encoding" => is_one_of(ENCODINGS, text),
        _ => false,
    };
    if !is_plain && !is_usual {
        note_words(names, text);
        names.add(TextKind::Text, text);
    }
}

/// Texts and atoms within Erlang terms; variables are names of nothing.
pub(super) fn note_terms(names: &mut Names, value: &str) {
    let mut rest = value;
    while let Some(c) = rest.chars().next() {
        let behind = rest.get(c.len_utf8()..).unwrap_or_default();
        let is_of_word = |c: char| c.is_alphanumeric() || "_@".contains(c);
        rest = match c {
            // A character by itself: `$"`, `$\\n`.
            '$' => {
                let escaped = behind.strip_prefix('\\').unwrap_or(behind);
                let mut chars = escaped.chars();
                chars.next();
                chars.as_str()
            }
            '"' | '\'' => {
                let end = quoted_end(behind, c);
                let (text, behind) = behind.split_at(end);
                names.add(TextKind::Label, text);
                behind.get(1..).unwrap_or_default()
            }
            '0'..='9' => rest.trim_start_matches(|c| is_of_word(c) || "#.".contains(c)),
            _ if is_of_word(c) => {
                let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
                let (word, behind) = rest.split_at(end);
                let is_atom = !c.is_uppercase() && c != '_';
                if is_atom && !is_one_of(TERM_WORDS, word) {
                    names.add(TextKind::Label, word);
                }
                behind
            }
            _ => behind,
        };
    }
}

/// End of a quoted text: the first quote without a backslash before it.
fn quoted_end(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at,
            _ => {}
        }
    }
    text.len()
}

/// Notes words that are no number, option or address; of a template (`{host}:shop`) those beside its placeholders.
pub(super) fn note_words(names: &mut Names, value: &str) {
    let is_one_word = !value.contains(char::is_whitespace);
    let is_address = is_one_word && value.contains("://");
    if is_number(value) || is_address || are_options(value) {
        return;
    }
    let beside = MARKS.iter().fold(vec![value], |parts, mark| parts.iter().flat_map(|part| part.split(mark)).collect());
    if beside.len() > 1 {
        for part in beside {
            let part = part.trim_matches(|c: char| c.is_ascii_punctuation());
            note_words(names, part);
        }
        return;
    }
    if let Some((option, value)) = value.split_once('=')
        && is_one_word
        && option.starts_with(['-', '+'])
    {
        return note_words(names, value);
    }
    let kind = if is_path(value) { TextKind::Path } else { TextKind::Text };
    names.add(kind, value);
}

/// Options of programs, and numbers: `--quiet`, `+S 1:1 +sbwt none`, `-Xmx512m`. A joined value is somebody's.
fn are_options(value: &str) -> bool {
    let is_option = |word: &str| {
        let name = word.trim_start_matches(['-', '+']);
        let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        let is_size = ["Xmx", "Xms", "Xss", "Xmn"].iter().any(|it| {
            name.strip_prefix(it).is_some_and(|size| size.starts_with(|c: char| c.is_ascii_digit()) && is_number(size))
        });
        let dashes = word.len() - name.len();
        let is_long = dashes == 2 || word.starts_with('+') || is_one_of(LONG_OPTIONS, name);
        dashes > 0 && (name.len() <= 2 || is_size || is_long && name.chars().all(is_letter))
    };
    value.starts_with(['-', '+']) && value.split_whitespace().all(|word| is_option(word) || is_number(word))
}

pub(super) fn is_path(value: &str) -> bool {
    let endings = [".toml", ".json", ".pem", ".html", ".csv", ".md", ".xml", ".txt"];
    value.contains('/') || endings.iter().any(|it| value.ends_with(it))
}

/// A number, also with a unit, or several of them.
fn is_number(value: &str) -> bool {
    let part = |it: &str| {
        let rest = it.trim_start_matches(|c: char| c.is_ascii_digit() || ".+-".contains(c));
        let is_quantity = rest.chars().count() <= 5 || it.parse::<Length>().is_ok();
        it.starts_with(|c: char| c.is_ascii_digit()) && is_quantity
    };
    matches!(value, "" | "true" | "false" | "all" | "none" | "auto") || value.split([',', '-', '@']).all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(note: fn(&mut Names, &str), value: &str) -> Vec<String> {
        let mut names = Names::new(&[]);
        note(&mut names, value);
        names.all().map(|it| it.text.clone()).collect()
    }

    #[test]
    fn texts_and_atoms_of_terms_are_found_whatever_stands_between() {
        for [terms, found @ ..] in testkit::table::<4>(include_str!("../tests/redact/terms.txt")) {
            let found: Vec<&str> = found.into_iter().filter(|it| !it.is_empty()).collect();
            assert_eq!(noted(note_terms, terms), found, "{terms}");
        }
    }

    #[test]
    fn words_are_somebodys_but_for_marks_options_and_numbers() {
        for [words, found] in testkit::table(include_str!("../tests/redact/words.txt")) {
            assert_eq!(noted(note_words, words).concat(), found, "{words}");
        }
    }

    #[test]
    fn only_types_that_everybody_has_say_nothing() {
        let note = |names: &mut Names, value: &str| {
            let (key, value) = value.split_once('=').unwrap_or_default();
            note_own_value(names, key, value);
        };
        for public in ["content-type=application/json", "n=12", "content-encoding=gzip", "x=true"] {
            assert!(noted(note, public).is_empty(), "{public}");
        }
        for own in ["content-type=application/vnd.shop+json", "kind=application/json", "tenant=gzip"] {
            assert_eq!(noted(note, own).len(), 1, "{own}");
        }
    }
}
