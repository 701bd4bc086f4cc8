//! Tables of a profile: its functions, its classes of code, and whose work a node does.

use std::borrow::Cow;

use measure::Named;
use serde::Serialize;
use stacks::{
    Class, Frame, FunctionCount, FunctionShare, LanguageShare, PatternShare, Profile, ProfileHeader, ProfileSummary,
    WaitBy, Work, WorkBy, WorkKind,
};

use super::table::Table;
use super::text::{Style, sanitise};
use crate::difference::differences;
use crate::numbers::{count, counted, percent_digits, weight, weight_digits, weight_head};
use crate::text;

measure::named! {
    /// Order of the rows.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum FunctionSort {
        /// Share with the function at the leaf.
        #[default]
        SelfShare = "self",
        /// Share with the function anywhere in the stack.
        Total = "total",
        /// Difference between the shares in the chosen seconds and in the rest; what chance gives comes last.
        Change = "change",
    }
}

/// Kind of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FunctionRowOf {
    /// Functions, each by its name.
    #[default]
    Function,
    /// Functions of Erlang, Java or Go with the native code below them, and classes of the samples without one.
    Language,
    /// Lines of source code, where they are known, and functions where not.
    Line,
    /// Modules: Erlang modules, Java classes, libraries and programs.
    Module,
    /// Groups of threads, which have all that their threads do at the leaf.
    Thread,
    /// Classes of code.
    Class,
    /// Processes, grouped by their work.
    Work(WorkBy),
    /// Endings of waits.
    Wait(WaitBy),
}

impl FunctionRowOf {
    /// One of them, and a heading.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Function | Self::Language => "function",
            Self::Line => "line",
            Self::Module => "module",
            Self::Thread => "thread",
            Self::Class => "class",
            Self::Work(by) => by.name(),
            Self::Wait(by) => by.name(),
        }
    }

    /// The profile with them in place of functions.
    pub(super) fn grouped(self, profile: &Profile) -> Cow<'_, Profile> {
        match self {
            Self::Function => Cow::Borrowed(profile),
            Self::Language => profile.by_language_function().map_or(Cow::Borrowed(profile), Cow::Owned),
            Self::Line => Cow::Owned(profile.by_line()),
            Self::Module => Cow::Owned(profile.by_module()),
            Self::Thread => Cow::Owned(profile.by_thread_group()),
            Self::Class => Cow::Owned(profile.by_class()),
            Self::Work(by) => Cow::Owned(profile.by_work(by)),
            Self::Wait(by) => Cow::Owned(profile.by_wait(by)),
        }
    }
}

/// A table of functions, and its options.
pub struct FunctionTable<'a> {
    /// Kind of the rows.
    pub of: FunctionRowOf,
    /// At most this many rows.
    pub limit: usize,
    /// Their order, largest first.
    pub sort: FunctionSort,
    /// Only functions of which this says yes, by their name.
    pub only: &'a dyn Fn(&str) -> bool,
    /// The rest of the profile, to compare this part with.
    pub rest: Option<&'a Profile>,
    /// Name of the part; `None` where it is the whole.
    pub which: Option<&'a str>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionRow {
    /// The function, and its shares of all samples (0 to 1).
    #[serde(flatten)]
    pub share: FunctionShare,
    /// Weight of the samples that have it at the leaf.
    pub samples: u64,
    /// Its shares of the rest; `None` where nothing is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<RestShare>,
}

/// Shares of a function in the rest, and whether they differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RestShare {
    /// Share of the rest's samples that have it at the leaf.
    #[serde(rename = "self")]
    pub self_share: f64,
    /// Share of the rest's samples that have it anywhere.
    pub total: f64,
    /// Whether chance explains the difference at the leaf: at most three standard errors, or fewer than ten samples.
    pub by_chance: bool,
}

/// The rows that are shown, and of how many.
#[derive(Clone, Debug)]
pub struct FunctionRows {
    /// The rows.
    pub shown: Vec<FunctionRow>,
    /// Functions of which [`FunctionTable::only`] says yes.
    pub matching: usize,
    /// Number of all functions.
    pub all: usize,
}

impl FunctionRow {
    fn change(&self) -> f64 {
        self.rest.map_or(0.0, |rest| self.share.self_share - rest.self_share)
    }

    /// How large the change is, and nothing where chance gives as much.
    fn told_change(&self) -> f64 {
        self.rest.filter(|rest| !rest.by_chance).map_or(0.0, |_| self.change().abs())
    }
}

impl FunctionTable<'_> {
    fn compared(&self) -> Option<&Profile> {
        self.rest.filter(|rest| !rest.samples.is_empty())
    }

    /// The functions of Erlang, Java or Go of which [`Self::only`] says yes, with the native code below them.
    pub fn language_rows(&self, profile: &Profile) -> Vec<LanguageShare> {
        let mut rows = profile.language_functions();
        rows.retain(|row| (self.only)(&row.function));
        rows.truncate(self.limit);
        rows
    }

    /// The functions of the table.
    pub fn rows(&self, profile: &Profile) -> FunctionRows {
        let profile = self.of.grouped(profile);
        let mut rows = match self.compared() {
            Some(rest) => compared(&profile, &self.of.grouped(rest)),
            None => profile.functions().into_iter().map(alone).collect(),
        };
        // Stable: functions that are equal in this stay in the order of their self share.
        match self.sort {
            FunctionSort::SelfShare => {}
            FunctionSort::Total => rows.sort_by(|a, b| b.share.total.total_cmp(&a.share.total)),
            FunctionSort::Change => {
                rows.sort_by(|a, b| b.told_change().total_cmp(&a.told_change()));
            }
        }
        let all = rows.len();
        rows.retain(|row| (self.only)(&row.share.function));
        let matching = rows.len();
        rows.truncate(self.limit);
        FunctionRows { shown: rows, matching, all }
    }
}

fn alone(of: FunctionCount) -> FunctionRow {
    FunctionRow { share: of.share, samples: of.self_weight, rest: None }
}

fn compared(part: &Profile, rest: &Profile) -> Vec<FunctionRow> {
    let rows = differences(rest, part).into_iter().map(|it| FunctionRow {
        share: FunctionShare { function: it.function, module: it.module, self_share: it.own.b, total: it.total.b },
        samples: it.weights[1],
        rest: Some(RestShare { self_share: it.own.a, total: it.total.a, by_chance: !it.own.proven }),
    });
    rows.collect()
}

/// Warns of a profile with too few samples for shares, before any share, ending in a newline; empty for others.
pub fn few_samples(profile: &Profile, style: Style) -> String {
    // Files of other tools have one sample for many. What they weigh otherwise says nothing of how many there were.
    let samples = match profile.header.unit.as_str() {
        "samples" | ProfileHeader::WEIGHT => profile.total_weight().max(profile.samples.len() as u64),
        _ => 0,
    };
    // No sample weighs less than 1.
    let most = if profile.header.unit == ProfileHeader::WEIGHT { "at most " } else { "" };
    if samples == 0 || samples >= ProfileSummary::FEW_SAMPLES {
        return String::new();
    }
    // Of a share of a half, where it is least known.
    let points = 100.0 / (samples as f64).sqrt();
    let text = format!(
        "{most}{} {} too few for shares: each may be off by {points:.0} points. Record longer, or while there is more \
         work.",
        counted(samples, "sample"),
        if samples == 1 { "is" } else { "are" }
    );
    let lines = style.prose_lines(&text);
    lines.iter().map(|line| style.strong(line) + "\n").collect()
}

/// Functions of a profile, and notes on the whole, ending in a newline. Shares are of all samples, whatever is shown.
pub fn functions(profile: &Profile, options: &FunctionTable<'_>, style: Style) -> String {
    let rows = options.rows(profile);
    let unit = sanitise(&profile.header.unit);
    let is_function = options.of == FunctionRowOf::Function;
    let counted = |heads| Table::of(heads).titled(2, weight_head(&unit));
    let (table, name) = match options.compared() {
        None if is_function => (counted("self %|total %||module<|<"), 4),
        None => (counted("self %|total %||<"), 3),
        Some(_) => (Table::of("self %|rest %|change|total %|rest %|<"), 5),
    };
    let mut table = table.titled(name, options.of.name());
    table.named_by(name);
    for row in &rows.shown {
        let function = sanitise(&row.share.function).into_owned();
        let (own, total) = (percent_digits(row.share.self_share), percent_digits(row.share.total));
        table.row(match row.rest {
            None => {
                let module = is_function.then(|| sanitise(&row.share.module).into_owned());
                let figures = [own, total, weight_digits(row.samples, &unit)];
                figures.into_iter().chain(module).chain([function]).collect()
            }
            Some(rest) => vec![
                own,
                percent_digits(rest.self_share),
                change(row.change(), rest.by_chance),
                total,
                percent_digits(rest.total),
                function,
            ],
        });
    }
    let mut lines = table.strong_lines(style);
    lines.push(String::new());
    if is_function {
        lines.extend(known_patterns(&profile.known_patterns(), style));
    }
    lines.extend(footer(profile, options, &counted_rows(profile, options, &rows), style));
    if is_function {
        lines.extend(estimated_names(profile).into_iter().flat_map(|it| style.faint_prose(&it)));
    }
    lines.join("\n") + "\n"
}

/// Self share of the functions that are called after their neighbours; `None` where it is too small to show.
fn estimated_names(profile: &Profile) -> Option<String> {
    let functions = profile.functions();
    let near = functions.iter().filter(|it| Frame::is_name_near(&it.share.function));
    let share: f64 = near.map(|it| it.share.self_share).sum();
    (share >= LEAST_SPLIT).then(|| {
        format!(
            "estimated names {} % of self (`[near …]`: no symbol of their own): install debug symbols",
            percent_digits(share)
        )
    })
}

/// A difference of shares in points, or the sign for one that chance gives.
pub(super) fn change(difference: f64, by_chance: bool) -> String {
    if by_chance { "~".to_owned() } else { format!("{:+.2}", difference * 100.0) }
}

/// `3 of 12 functions`; `3 of 4 matching functions (12 in all)`.
pub(super) fn shown_of(counts: [usize; 3], noun: &str) -> String {
    let [shown, matching, all] = counts.map(|it| it as u64);
    match matching == all {
        true => format!("{} of {}", count(shown), counted(all, noun)),
        false => {
            let matching = counted(matching, &format!("matching {noun}"));
            format!("{} of {matching} ({} in all)", count(shown), count(all))
        }
    }
}

fn counted_rows(profile: &Profile, options: &FunctionTable<'_>, rows: &FunctionRows) -> String {
    let counts = shown_of([rows.shown.len(), rows.matching, rows.all], options.of.name());
    if rows.matching == rows.all {
        return counts;
    }
    let together = options.of.grouped(profile).share_with(|frame| (options.only)(&frame.name));
    format!("{counts}, together in {} % of the samples", percent_digits(together))
}

/// Notes on the whole below a table; `rows` says how many of its rows are shown.
fn footer(profile: &Profile, options: &FunctionTable<'_>, rows: &str, style: Style) -> Vec<String> {
    let unit = sanitise(&profile.header.unit);
    let summary = profile.summary(0);
    let which = options.which.map(|which| match options.compared() {
        None => sanitise(which).into_owned(),
        Some(rest) => format!(
            "{}; rest: the other {}; change: of self % in points, ~ not significant (within three standard errors \
             of independent samples, or fewer than ten samples)",
            sanitise(which),
            weight(rest.total_weight(), &unit)
        ),
    });
    let counts = format!(
        "{rows}; {}, {} lost{}",
        weight(summary.weight, &unit),
        count(summary.lost),
        text::clock(&summary).map_or_else(String::new, |clock| { format!(", taken {}", sanitise(&clock)) })
    );
    let names = || {
        format!(
            "unknown share {} % (a frame without a name), complete share {} % (reaches its root)",
            percent_digits(summary.unknown_share),
            percent_digits(summary.complete_share)
        )
    };
    // Threads and endings of waits are known without a stack.
    let is_of_stacks = !matches!(options.of, FunctionRowOf::Thread | FunctionRowOf::Wait(_));
    let names = is_of_stacks.then(names);
    let told = [names, text::covered(&summary), text::stacks(&summary).filter(|_| is_of_stacks)];
    let lines = which.into_iter().chain([counts]).chain(told.into_iter().flatten()).chain(notes(profile));
    lines.flat_map(|line| style.faint_prose(&line)).collect()
}

struct SplitColumn {
    head: &'static str,
    meaning: &'static str,
    classes: &'static [Class],
}

/// Columns that the samples of a language's functions are split into. Each class is in one of them.
static SPLIT: [SplitColumn; 6] = [
    SplitColumn {
        head: "own",
        meaning: "code of the function itself",
        classes: &[Class::ErlangCode, Class::JavaCode, Class::OwnCode],
    },
    SplitColumn {
        head: "C code",
        meaning: "built-in functions, ETS, ports, libraries and other native code that it calls",
        classes: &[
            Class::BuiltInFunctions,
            Class::Ets,
            Class::Ports,
            Class::Libraries,
            Class::VirtualMachine,
            Class::Unnamed,
        ],
    },
    SplitColumn { head: "GC", meaning: "garbage collection", classes: &[Class::GarbageCollection] },
    SplitColumn { head: "alloc", meaning: "allocators", classes: &[Class::Allocators] },
    SplitColumn { head: "msg", meaning: "messages between processes, and copying them", classes: &[Class::Messages] },
    SplitColumn {
        head: "system",
        meaning: "the kernel, waiting and scheduling",
        classes: &[
            Class::KernelNetwork,
            Class::KernelDisk,
            Class::KernelMemory,
            Class::KernelScheduling,
            Class::KernelOther,
            Class::Waiting,
            Class::Scheduling,
        ],
    },
];
/// A smaller share of all samples has no digit in a column.
const LEAST_SPLIT: f64 = 0.0005;

impl SplitColumn {
    fn share(&self, row: &LanguageShare) -> f64 {
        row.classes.iter().filter(|it| self.classes.contains(&it.class)).map(|it| it.share).sum()
    }

    fn cell(&self, row: &LanguageShare) -> String {
        match self.share(row) {
            share if share < LEAST_SPLIT => String::new(),
            share => format!("{:.1}", share * 100.0),
        }
    }
}

/// The columns in which some row has a share.
fn split_columns(rows: &[LanguageShare]) -> Vec<&'static SplitColumn> {
    SPLIT.iter().filter(|it| rows.iter().any(|row| it.share(row) >= LEAST_SPLIT)).collect()
}

/// A table of functions of a language, each split by the kind of code in it and below it.
pub(super) fn language_table(rows: &[LanguageShare], style: Style) -> Vec<String> {
    let columns = split_columns(rows);
    let heads: String = columns.iter().map(|it| format!("{}|", it.head)).collect();
    let mut table = Table::of(&format!("total %|{heads}function<"));
    table.named_by(columns.len() + 1);
    for row in rows {
        let mut cells = vec![percent_digits(row.share)];
        cells.extend(columns.iter().map(|it| it.cell(row)));
        cells.push(sanitise(&row.function).into_owned());
        table.row(cells);
    }
    table.strong_lines(style)
}

/// Functions of Erlang, Java or Go with the native code below them, and notes on the whole, ending in a newline; all
/// shares are of all samples, and those of all rows add up to them. `None` where no such function is known, or the
/// table compares, sorts otherwise, or has rows of another kind.
pub fn language_functions(profile: &Profile, options: &FunctionTable<'_>, style: Style) -> Option<String> {
    let is_usual = options.of == FunctionRowOf::Function && options.sort == FunctionSort::SelfShare;
    let mut rows = profile.language_functions();
    if rows.is_empty() || !is_usual || options.compared().is_some() {
        return None;
    }
    let all = rows.len();
    rows.retain(|row| (options.only)(&row.function));
    let matching = rows.len();
    let together: f64 = rows.iter().map(|row| row.share).sum();
    let others = rows.split_off(options.limit.min(rows.len()));
    let mut counts = shown_of([rows.len(), matching, all], "row");
    if matching < all {
        counts += &format!(", together {} % of the samples", percent_digits(together));
    }
    rows.extend(one_row(&others));
    let mut lines = language_table(&rows, style);
    lines.push(String::new());
    lines.extend(known_patterns(&profile.known_patterns(), style));
    let columns = split_columns(&rows).into_iter().map(|it| format!("{}: {}; ", it.head, it.meaning));
    let columns: String = columns.collect();
    let legend = format!("figures are % of the samples; {columns}native functions by name: `bellows top --raw`");
    lines.extend(style.faint_prose(&legend));
    let estimated = text::estimated_classes(profile.unnamed_machine_share()).into_iter();
    lines.extend(estimated.flat_map(|it| style.faint_prose(&format!("classes are {it}"))));
    lines.extend(footer(profile, options, &counts, style));
    Some(lines.join("\n") + "\n")
}

fn one_row(others: &[LanguageShare]) -> Option<LanguageShare> {
    (!others.is_empty()).then(|| LanguageShare {
        function: format!("others ({})", counted(others.len() as u64, "row")),
        class: None,
        share: others.iter().map(|it| it.share).sum(),
        weight: others.iter().fold(0, |sum, it| sum.saturating_add(it.weight)),
        classes: others.iter().flat_map(|it| it.classes.clone()).collect(),
    })
}

/// A sentence on each, with the address where it is written.
pub(super) fn known_patterns(all: &[PatternShare], style: Style) -> Vec<String> {
    let line = |of: &PatternShare| {
        let text = format!("known: {} ({})", text::known_pattern(of), of.source);
        style.prose_lines(&sanitise(&text))
    };
    all.iter().flat_map(line).collect()
}

pub(super) fn notes(profile: &Profile) -> impl Iterator<Item = String> {
    profile.notes.iter().map(|note| format!("note: {}", sanitise(note)))
}

/// Classes of a profile's samples, and notes on the whole, ending in a newline.
pub fn classes(profile: &Profile, style: Style) -> String {
    let unit = sanitise(&profile.header.unit);
    let mut table = Table::of("share %||class<|what it holds<").titled(1, weight_head(&unit));
    table.gives_way = Some(3);
    let unnamed = profile.unnamed_machine_share();
    for row in profile.class_shares() {
        table.row(vec![
            text::class_share(&row, unnamed, percent_digits),
            weight_digits(row.weight, &unit),
            row.class.name().to_owned(),
            row.class.meaning().to_owned(),
        ]);
    }
    let mut lines = table.strong_lines(style);
    lines.extend([String::new(), style.faint(&weight(profile.total_weight(), &unit))]);
    let estimated = text::estimated_classes(unnamed).into_iter();
    lines.extend(estimated.flat_map(|it| style.faint_prose(&format!("~ {it}"))));
    lines.extend(notes(profile).flat_map(|note| style.faint_prose(&note)));
    lines.join("\n") + "\n"
}

/// The rows of the table: the largest shares first, at most `limit`; the others are added up in one more.
pub fn work_rows(profile: &Profile, by: WorkBy, limit: usize) -> Vec<Work> {
    let mut rows = profile.work(by);
    let others = rows.split_off(limit.min(rows.len()));
    rows.extend(together(&others));
    rows
}

/// Table of the work of a profile's processes, and notes on the whole, ending in a newline.
pub fn work(profile: &Profile, by: WorkBy, limit: usize, style: Style) -> String {
    let rows = work_rows(profile, by, limit);
    let mut lines = if rows.is_empty() {
        let text = "no Erlang process is known in this profile: it is of another program, or was recorded \
                    without stack copies; profile a RabbitMQ node as root (`bellows help stacks`)";
        style.prose_lines(text)
    } else {
        table(profile, by, &rows, style)
    };
    lines.extend(notes(profile).flat_map(|note| style.faint_prose(&note)));
    lines.join("\n") + "\n"
}

fn table(profile: &Profile, by: WorkBy, rows: &[Work], style: Style) -> Vec<String> {
    let unit = sanitise(&profile.header.unit);
    let mut table = Table::of("share %||processes|<").titled(1, weight_head(&unit)).titled(3, by.name());
    table.gives_way = Some(3);
    for row in rows {
        table.row(vec![
            percent_digits(row.share),
            weight_digits(row.weight, &unit),
            count(row.processes as u64),
            sanitise(&row.of).into_owned(),
        ]);
    }
    let mut lines = table.strong_lines(style);
    let footer = format!(
        "{}, {}",
        weight(profile.total_weight(), &unit),
        counted(sum(rows, |it| it.processes) as u64, "process")
    );
    lines.extend([String::new(), style.faint(&footer)]);
    if let guessed @ 1.. = sum(rows, |it| it.from_stacks) {
        let text = "known by their stacks alone, since they had ended or the node was not asked";
        lines.extend(style.faint_prose(&format!("{text}: {}", count(guessed as u64))));
    }
    lines
}

fn sum(rows: &[Work], of: fn(&Work) -> usize) -> usize {
    rows.iter().map(of).sum()
}

fn together(others: &[Work]) -> Option<Work> {
    (!others.is_empty()).then(|| Work {
        of: format!("others ({})", counted(others.len() as u64, "row")),
        kind: WorkKind::Others,
        role: String::new(),
        share: others.iter().map(|it| it.share).sum(),
        weight: others.iter().fold(0, |sum, it| sum.saturating_add(it.weight)),
        processes: sum(others, |it| it.processes),
        from_stacks: sum(others, |it| it.from_stacks),
    })
}

#[cfg(test)]
mod tests {
    use stacks::{ClassShare, ErlangProcess, Sample};

    use super::*;
    use crate::console::tests::flowing;

    #[test]
    fn every_class_is_in_one_column_and_all_columns_fit() {
        for class in Class::ALL {
            assert_eq!(SPLIT.iter().filter(|it| it.classes.contains(&class)).count(), 1, "{class}");
        }
        let classes = Class::ALL.map(|class| ClassShare { class, share: 1.0 / Class::ALL.len() as f64, weight: 1 });
        let (function, weight) = ("$rabbit_amqqueue_process:handle_method/3".into(), classes.len() as u64);
        let row = LanguageShare { function, class: None, share: 1.0, weight, classes: classes.to_vec() };
        let lines = language_table(&[row], Style { columns: 80, ..Style::PLAIN });
        assert_eq!(flowing(&lines[0]), "total % own C code GC alloc msg system function");
        assert!(lines.iter().all(|line| line.len() <= 80), "{lines:#?}");
    }

    #[test]
    fn notes_stand_below_and_the_rows_hold_all_samples() {
        let sample = |process, weight| Sample { weight, complete: true, process, ..Sample::default() };
        let ids = ["<0.1.0>", "<0.2.0>", "<0.3.0>"];
        let profile = Profile {
            processes: ids.map(ErlangProcess::unnamed).to_vec(),
            samples: vec![sample(Some(0), 5), sample(None, 3), sample(Some(1), 1), sample(Some(2), 1)],
            notes: vec!["line 7 is damaged".into()],
            ..Profile::default()
        };
        let rows = work_rows(&profile, WorkBy::Process, 2);
        let found: Vec<_> = rows.iter().map(|row| (row.kind, row.share, row.weight, row.processes)).collect();
        assert_eq!(
            found,
            [(WorkKind::Processes, 0.5, 5, 1), (WorkKind::NoProcess, 0.3, 3, 0), (WorkKind::Others, 0.2, 2, 2)]
        );
        for profile in [&profile, &Profile { processes: Vec::new(), ..profile.clone() }] {
            testkit::assert_ends(work(profile, WorkBy::Process, 2, Style::PLAIN), "\nnote: line 7 is damaged\n");
        }
    }
}
