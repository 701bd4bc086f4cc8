//! `--help`, `-env`, `-mh`, and the table of docs/perf-test.md.

use std::fmt::Write;

use super::table::{Arg, OPTIONS, Opt, Status};

const INTRODUCTION: &str = "\
PerfTest's command line, output and meaning, on this engine

Usage: bellows perf-test [OPTION]...

Long options take one dash or two and may be shortened; options of one letter may be joined.
Latencies count from the time at which a message was due (-r, -P), where PerfTest's count from
when it was sent, and so leave stalls out. `bellows help perf-test` says what else differs.

Options:
";

const EXAMPLES: &str = "
Examples:
  bellows perf-test -x 1 -y 2 -u throughput-test -a --id test-1 -z 30
  bellows perf-test -u q -qq -r 5000 -c 100 -z 60 -o latencies.csv
";

/// Where the texts of options begin: behind their names, or below them where the screen is narrow.
const INDENT: usize = 40;
const NARROW_INDENT: usize = 8;
/// Columns from which on texts stand behind names.
const WIDE: usize = 100;
/// Where texts end at the latest.
const WIDEST: usize = 98;

pub(super) fn usage(columns: usize) -> String {
    let options = list(|option| !option.metrics, signature, columns);
    format!("{}{options}{EXAMPLES}", paragraphs(INTRODUCTION, columns))
}

pub(super) fn metrics(columns: usize) -> String {
    let options = list(|option| option.metrics, signature, columns);
    format!("Usage: bellows perf-test [OPTION]...\n\nOptions for metrics:\n{options}")
}

pub(super) fn variables(columns: usize) -> String {
    let options = list(
        |option| option.variable().is_some(),
        |option| format!("  {}", option.variable().unwrap_or_default()),
        columns,
    );
    let introduction = "\
Environment variables, read where the command line says nothing. The value of
RABBITMQ_PERF_TEST_ENV_PREFIX and _ stand before each name. Several values of one option are
divided by commas: VARIABLE_RATE='100:60,1000:10'.

";
    format!("{}{options}", paragraphs(introduction, columns))
}

fn list(wanted: impl Fn(&Opt) -> bool, name: impl Fn(&Opt) -> String, columns: usize) -> String {
    let is_wide = columns >= WIDE;
    let indent = if is_wide { INDENT } else { NARROW_INDENT };
    let mut text = String::new();
    for option in OPTIONS.iter().filter(|option| wanted(option)) {
        let what = match option.status {
            Status::Same | Status::Better => option.help.to_owned(),
            Status::Added => format!("{} (added)", option.help),
            Status::Refused => format!("{} (refused)", option.help),
        };
        let mut left = name(option);
        if !is_wide {
            let _ = writeln!(text, "{}", left.trim_end());
            left.clear();
        }
        for line in lines(&what, columns.min(WIDEST).saturating_sub(indent)) {
            let _ = writeln!(text, "{left:<indent$}{line}");
            left.clear();
        }
    }
    text
}

fn signature(option: &Opt) -> String {
    let value = match option.arg {
        Arg::No => "",
        Arg::One => " <arg>",
        Arg::Maybe => " [<arg>]",
        Arg::Many => " <arg>...",
    };
    let short = match option.short {
        "" => String::new(),
        short => format!("-{short},"),
    };
    format!(" {short}--{}{value} ", option.long)
}

/// Paragraphs, parted by empty lines, none wider than the screen or [`WIDEST`].
fn paragraphs(text: &str, columns: usize) -> String {
    let wrapped = text.split("\n\n").map(|paragraph| {
        let lines = lines(&paragraph.replace('\n', " "), columns.min(WIDEST));
        lines.join("\n").trim_end().to_owned()
    });
    let text = wrapped.collect::<Vec<_>>().join("\n\n");
    if text.ends_with('\n') { text } else { text + "\n" }
}

fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Command lines that are played beside PerfTest: options, line, and compared values.
    const BESIDE: &str = include_str!("../../tests/data/perf-test/beside.tsv");

    fn played() -> impl Iterator<Item = &'static str> {
        BESIDE.lines().filter(|row| !row.starts_with('#'))
    }

    fn is_played(option: &Opt) -> bool {
        let mut options = played().flat_map(|row| row.split('\t').next().unwrap_or_default().split(' '));
        !option.short.is_empty() && options.any(|name| name.strip_prefix('-') == Some(option.short))
    }

    /// The table of docs/perf-test.md.
    fn markdown() -> String {
        let mut text = String::from("| option | meaning | here | how, or why |\n| --- | --- | --- | --- |\n");
        for option in OPTIONS {
            let short = match option.short {
                "" => String::new(),
                short => format!("`-{short}` "),
            };
            let cell = |text: &str| text.replace('|', "\\|");
            let (help, note, status) = (cell(option.help), cell(option.note), format!("{:?}", option.status));
            let (status, played) = (status.to_lowercase(), if is_played(option) { ", played" } else { "" });
            let _ = writeln!(text, "| {short}`--{}` | {help} | {status}{played} | {note} |", option.long);
        }
        text
    }

    #[test]
    fn the_docs_have_every_option() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/perf-test.md");
        let text = std::fs::read_to_string(page).expect("docs/perf-test.md");
        let expected = markdown();
        assert!(text.contains(&expected), "docs/perf-test.md has another table; the right one is\n{expected}");
    }

    #[test]
    fn texts_fit_and_options_have_one_name_each() {
        for columns in [60, 80, 100] {
            for text in [usage(columns), metrics(columns), variables(columns)] {
                let lines = text.lines().filter(|line| !line.starts_with("  bellows "));
                for line in lines {
                    assert!(line.chars().count() <= columns, "{columns}: {line}");
                }
            }
        }
        for (i, option) in OPTIONS.iter().enumerate() {
            assert!(!option.long.is_empty() && !option.help.is_empty());
            assert!(option.status != Status::Refused || !option.note.is_empty(), "{option:?}");
            let is_same = |it: &Opt| it.long == option.long || (!option.short.is_empty() && it.short == option.short);
            assert!(!OPTIONS.iter().skip(i + 1).any(is_same), "{option:?}");
        }
    }

    #[test]
    fn what_is_played_is_an_option() {
        for row in played() {
            let cells: Vec<_> = row.split('\t').collect();
            let [options, line, _] = cells.as_slice() else {
                panic!("not three cells: {row}");
            };
            for name in options.split(' ') {
                let known = super::super::table::by_short(name.trim_start_matches('-'));
                assert!(known.is_some_and(|o| o.status != Status::Refused), "{row}");
                assert!(name == "-h" || line.split(' ').any(|word| word == name), "{name} is not in {line}");
            }
        }
    }
}
