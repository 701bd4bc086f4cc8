//! Rows of a short text, as data: a label at the left in a common column, and beside it words, a path or a latency.
//! A screen of 80 columns and more, and a pipe, shows as many as it has lines for; a narrower one those of 80 columns.

use std::borrow::Cow;
use std::ops::Range;

use archive::Tier;
use measure::{LatencySummary, Nanos};

use super::table::{GAP, Table};
use super::text::{MOST_COLUMNS, Style, fit_middle, left, sanitise, width, wrap_words};
use crate::numbers::{counted, percentile};
use crate::text::shortened;

/// Lines on a screen of [`COLUMNS`] and more.
pub(super) const MOST_LINES: usize = 15;
/// Columns of the narrowest screen that rows are chosen for.
pub(super) const COLUMNS: usize = 80;
/// Least width of the labels' column.
const LEAST_LABEL: usize = 13;
/// Letters of a label on a screen of [`COLUMNS`]; a wider one has more.
const MOST_LABEL: usize = 32;
/// Letters of the name of a run on such a screen.
const MOST_NAME: usize = 40;
/// Columns that the name of an item keeps before items are left out.
const ITEM_NAME: usize = 40;
/// Lines of sentences, and the rows that are left out before fewer lines are tried: what to do about a warning matters
/// more than rows that may go.
const ROW_LINES: [(RowLines, RowRank); 3] = [
    (RowLines::MOST, RowRank::Spare),
    (RowLines { text: 1, mark: 2 }, RowRank::Main),
    (RowLines { text: 1, mark: 1 }, RowRank::Verdict),
];
/// Letters below which the beginning of a sentence says too little.
const LEAST_CLAUSE: usize = 24;
/// End of a sentence that is not there as a whole.
const CUT: &str = " […]";

#[derive(Clone, Copy, Debug)]
struct RowLines {
    text: usize,
    /// Those behind a mark, but for notes.
    mark: usize,
}

impl RowLines {
    const MOST: Self = Self { text: 2, mark: 2 };
}

/// How soon a row is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowRank {
    /// A row that is always shown.
    Core,
    /// Where those that go last are gone.
    Verdict,
    /// Where no other row is left to go.
    Last,
    /// Where sentences of one line have no room either.
    Main,
    /// Likewise, but earlier.
    More,
    /// Before any sentence is shortened.
    Spare,
}

#[derive(Clone, Debug)]
pub(super) enum Content<'a> {
    Text(String),
    /// Items, each a name that may be shortened and text that may not; the last ones are left out for lack of room.
    List(Vec<(String, String)>),
    /// A name of code, in one line.
    Name(String),
    /// A latency, in a table with those beside it.
    Latency(&'a LatencySummary),
    /// The activity behind the run's name, and the broker at the right.
    Title(String, String),
    Mark(Tier, String),
    /// The report, and the command that follows.
    End(String, String),
}

#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    label: String,
    content: Content<'a>,
    rank: RowRank,
    alarm: bool,
    whole: bool,
}

impl<'a> Row<'a> {
    pub(super) fn new(rank: RowRank, label: &str, content: Content<'a>) -> Self {
        Self { label: sanitise(label).into_owned(), content, rank, alarm: false, whole: false }
    }

    pub(super) fn text(rank: RowRank, label: &str, text: &str) -> Self {
        Self::new(rank, label, Content::Text(sanitise(text).into_owned()))
    }

    /// Items beside a label, none of which is cut.
    pub(super) fn list(rank: RowRank, label: &str, items: Vec<String>) -> Self {
        let items = items.into_iter().map(|text| (String::new(), text));
        Self::named_list(rank, label, items)
    }

    /// Items beside a label, each a name and text behind it.
    pub(super) fn named_list(rank: RowRank, label: &str, items: impl Iterator<Item = (String, String)>) -> Self {
        let clean = |text: String| sanitise(&text).into_owned();
        let items = items.map(|(name, text)| (clean(name), clean(text)));
        Self::new(rank, label, Content::List(items.collect()))
    }

    pub(super) fn mark(rank: RowRank, tier: Tier, text: &str) -> Self {
        Self::new(rank, "", Content::Mark(tier, sanitise(text).into_owned()))
    }

    pub(super) fn alarmed(mut self) -> Self {
        self.alarm = true;
        self
    }

    /// Keeps the whole text: a part of its facts would say something else.
    pub(super) fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Whether it is a row of a table: of fewer than twenty samples no percentile has ten beyond it.
    fn is_in_table(&self) -> bool {
        matches!(self.content, Content::Latency(of) if of.supports(50.0))
    }

    /// The label, as long as a screen of so many columns has room for it.
    fn label(&self, columns: usize) -> Cow<'_, str> {
        let most = if matches!(self.content, Content::Title(..)) { MOST_NAME } else { MOST_LABEL };
        shortened(&self.label, most * columns.max(COLUMNS) / COLUMNS)
    }

    /// The row with as much of its sentence as such a number of lines holds.
    fn cut(&self, lines: RowLines, layout: Layout) -> Self {
        let content = match &self.content {
            Content::Text(text) if self.alarm && !self.whole => {
                Content::Text(cut_failure(text, lines.text, layout.beside()))
            }
            Content::Text(text) if !self.whole => Content::Text(cut(text, lines.text, layout.beside())),
            Content::List(items) if !self.whole => Content::List(cut_list(items, lines.text, layout.beside())),
            Content::Mark(tier, text) => {
                let room = layout.prose.saturating_sub(GAP);
                let lines = match tier {
                    Tier::Note => lines.text,
                    Tier::Invalid | Tier::Caution => lines.mark,
                };
                Content::Mark(*tier, cut_warning(text, lines, room))
            }
            Content::Title(flow, broker) => Content::Title(flow.clone(), cut(broker, lines.text, layout.columns)),
            other => other.clone(),
        };
        Self { content, ..self.clone() }
    }
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Width of the labels' column, with the gap behind it.
    label: usize,
    /// Columns that a line may fill.
    columns: usize,
    /// Columns that a sentence may fill.
    prose: usize,
}

impl Layout {
    fn of(rows: &[Row<'_>], columns: usize, prose: usize) -> Self {
        let labels = rows.iter().filter(|row| !matches!(row.content, Content::Title(..)));
        let labels = labels.map(|row| width(&row.label(columns)));
        Self { label: labels.max().unwrap_or(0).max(LEAST_LABEL) + GAP, columns, prose }
    }

    const fn beside(self) -> usize {
        self.prose.saturating_sub(self.label)
    }
}

/// Whether a screen has room for all rows, with two lines of each sentence.
pub(super) fn has_room(rows: &[Row<'_>], style: Style) -> bool {
    fit(rows, RowLines::MOST, style.columns.clamp(COLUMNS, MOST_COLUMNS))
}

/// Whether a screen has room for the rows that are always shown, with as little of the others as may be.
pub(super) fn has_room_for_core(rows: &[Row<'_>], style: Style) -> bool {
    let columns = style.columns.clamp(COLUMNS, MOST_COLUMNS);
    let (rows, lines) = chosen(rows.to_vec(), columns);
    fit(&rows, lines, columns)
}

/// Whether rows of such sentences fit on a screen of so many columns.
fn fit(rows: &[Row<'_>], lines: RowLines, columns: usize) -> bool {
    // Each row has a line at least.
    if rows.len() > MOST_LINES {
        return false;
    }
    let layout = Layout::of(rows, columns, columns);
    laid_out(&cut_rows(rows, lines, layout), layout, Style::PLAIN).len() <= MOST_LINES
}

/// The lines of rows on a screen. A narrow one breaks the lines of one with [`COLUMNS`]; a wide one fills its whole
/// width before a sentence is cut, or a row left out.
pub(super) fn lines(rows: Vec<Row<'_>>, style: Style) -> Vec<String> {
    let columns = style.columns.min(MOST_COLUMNS);
    let (rows, lines) = chosen(rows, columns.max(COLUMNS));
    let layout = Layout::of(&rows, columns, style.prose_columns().min(columns));
    if columns < COLUMNS {
        let shown = cut_rows(&rows, lines, Layout::of(&rows, COLUMNS, COLUMNS));
        return laid_out(&shown, layout, style);
    }
    let out = |lines: RowLines, layout: Layout| laid_out(&cut_rows(&rows, lines, layout), layout, style);
    let easy = out(RowLines::MOST, layout);
    if easy.len() <= MOST_LINES && easy == laid_out(&rows, layout, style) {
        return easy;
    }
    let wide = Layout { prose: columns, ..layout };
    let fitting = ROW_LINES.into_iter().map(|(lines, _)| out(lines, wide)).find(|lines| lines.len() <= MOST_LINES);
    fitting.unwrap_or_else(|| out(lines, wide))
}

fn cut_rows<'a>(rows: &[Row<'a>], lines: RowLines, layout: Layout) -> Vec<Row<'a>> {
    rows.iter().map(|row| row.cut(lines, layout)).collect()
}

/// The rows that a screen of so many columns has room for, and the lines that their sentences fill there.
fn chosen(mut rows: Vec<Row<'_>>, columns: usize) -> (Vec<Row<'_>>, RowLines) {
    let mut last_lines = RowLines::MOST;
    for (lines, least) in ROW_LINES {
        last_lines = lines;
        loop {
            if fit(&rows, lines, columns) {
                return (rows, lines);
            }
            let Some(rank) = rows.iter().map(|row| row.rank).max().filter(|rank| *rank >= least) else { break };
            let last = rows.iter().rposition(|row| row.rank == rank);
            rows.remove(last.unwrap_or(0));
        }
    }
    (rows, last_lines)
}

/// Items whose names are at most so wide.
fn shortened_items(items: &[(String, String)], most: usize) -> Vec<(String, String)> {
    items.iter().map(|(name, text)| (fit_middle(name, most), text.clone())).collect()
}

/// Lines of items between commas. An item that has room in a line of its own is not broken.
fn wrap_items(items: &[(String, String)], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (number, (name, text)) in (1..).zip(items) {
        let comma = if number < items.len() { "," } else { "" };
        let item = format!("{name}{text}{comma}");
        let Some(last) = lines.pop() else {
            lines.extend(wrap_words(&item, columns));
            continue;
        };
        let both = format!("{last} {item}");
        if width(&both) <= columns || width(&item) > columns {
            lines.extend(wrap_words(&both, columns));
        } else {
            lines.push(last);
            lines.extend(wrap_words(&item, columns));
        }
    }
    lines
}

/// As many items as such a number of lines holds: the last ones are left out before a name is shortened, and a first
/// one without room for its name has as much of it as there is room for.
fn cut_list(items: &[(String, String)], lines: usize, columns: usize) -> Vec<(String, String)> {
    let longest = items.iter().map(|(name, _)| width(name)).max().unwrap_or(0).min(columns.saturating_mul(lines));
    let numbers = || (1..=items.len()).rev();
    let widths = (ITEM_NAME..=longest.max(ITEM_NAME)).rev();
    let shortened = numbers().flat_map(|number| widths.clone().map(move |most| (number, most)));
    let mut last = Vec::new();
    for (number, most) in numbers().map(|number| (number, usize::MAX)).chain(shortened) {
        last = shortened_items(items.get(..number).unwrap_or(items), most);
        if number < items.len() {
            last.push((String::new(), "…".to_owned()));
        }
        if wrap_items(&last, columns).len() <= lines {
            return last;
        }
    }
    last
}

/// As much of a warning as such a number of lines holds: its last clause says what to do, and stays longer than
/// details in brackets and consequences.
fn cut_warning(text: &str, lines: usize, columns: usize) -> String {
    let fits = |text: &str| wrap_words(text, columns).len() <= lines;
    let mut short = text.to_owned();
    while !fits(&short)
        && let Some(bracket) = longest_bracket(&short)
    {
        short.replace_range(bracket, CUT.trim_start());
    }
    if fits(&short) {
        return short;
    }
    let ends = clause_ends(&short);
    let parts = ends.iter().rev().find(|(_, mark)| *mark == ';').and_then(|(at, _)| short.split_at_checked(*at));
    let with_advice = parts.and_then(|(finding, advice)| {
        let is_long = |part: &String| width(part) >= LEAST_CLAUSE + width(advice);
        cut_before(finding, advice, lines, columns).filter(is_long)
    });
    with_advice.unwrap_or_else(|| cut(&short, lines, columns))
}

/// As much of a failure as such a number of lines holds: its last clause is the cause, and stays longest.
fn cut_failure(text: &str, lines: usize, columns: usize) -> String {
    let fits = wrap_words(text, columns).len() <= lines;
    let parts = text.rfind(": ").filter(|_| !fits).and_then(|at| text.split_at_checked(at));
    let with_cause = parts.and_then(|(what, cause)| cut_before(what, cause, lines, columns));
    with_cause.unwrap_or_else(|| cut(text, lines, columns))
}

/// The longest part in brackets that is as long as a clause.
fn longest_bracket(text: &str) -> Option<Range<usize>> {
    let (mut depth, mut begin) = (0_usize, 0);
    let mut brackets = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' => {
                begin = if depth == 0 { at } else { begin };
                depth += 1;
            }
            ')' if depth == 1 => {
                let end = at + c.len_utf8();
                brackets.push(begin..end);
                depth = 0;
            }
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    brackets.into_iter().filter(|it| it.len() >= LEAST_CLAUSE).max_by_key(Range::len)
}

/// As much of a sentence as such a number of lines holds, up to the end of a clause, else of a word, and a mark.
fn cut(text: &str, lines: usize, columns: usize) -> String {
    if wrap_words(text, columns).len() <= lines {
        return text.to_owned();
    }
    cut_before(text, "", lines, columns).unwrap_or_else(|| text.to_owned())
}

/// Likewise with `tail` behind the mark; `None` where no word has room before it.
fn cut_before(text: &str, tail: &str, lines: usize, columns: usize) -> Option<String> {
    let fits = |text: &str| wrap_words(text, columns).len() <= lines;
    let marked = |part: &str| {
        let part = part.trim_end_matches([' ', ',', ';', ':']);
        format!("{}{CUT}{tail}", part.trim_end_matches(CUT))
    };
    let ends = clause_ends(text);
    let of_mark = |mark: char| ends.iter().rev().filter(move |(_, it)| *it == mark);
    let clauses = [';', ':', ','].into_iter().flat_map(of_mark).filter_map(|(at, _)| text.get(..*at));
    let words = text.match_indices(' ').rev().filter_map(|(at, _)| text.get(..at));
    let parts = clauses.filter(|part| width(part) >= LEAST_CLAUSE).chain(words);
    parts.map(marked).find(|part| fits(part))
}

/// Where clauses end, with the mark there; not within brackets.
fn clause_ends(text: &str) -> Vec<(usize, char)> {
    let mut depth = 0_i32;
    let mut ends = Vec::new();
    let behind = text.chars().skip(1).chain([' ']);
    for ((at, c), next) in text.char_indices().zip(behind) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' | ':' | ',' if depth <= 0 && next == ' ' => ends.push((at, c)),
            _ => {}
        }
    }
    ends
}

fn laid_out(rows: &[Row<'_>], layout: Layout, style: Style) -> Vec<String> {
    let groups = rows.chunk_by(|a, b| a.is_in_table() && b.is_in_table());
    let lines = groups.flat_map(|group| match group {
        [row, ..] if row.is_in_table() => table(group, layout, style),
        [row, ..] => row_lines(row, layout, style),
        [] => Vec::new(),
    });
    lines.collect()
}

fn row_lines(row: &Row<'_>, layout: Layout, style: Style) -> Vec<String> {
    let name = row.label(layout.columns);
    let label = left(&name, layout.label);
    let painted = if row.alarm { style.alarm(&label) } else { style.faint(&label) };
    let behind_label = |lines: Vec<String>| hung_lines(&painted, lines, layout.label, layout.columns);
    let beside = |text: &str| behind_label(wrap_words(text, layout.beside()));
    match &row.content {
        Content::Text(text) => beside(text),
        Content::List(items) => behind_label(wrap_items(items, layout.beside())),
        Content::Name(name) => behind_label(vec![fit_middle(&sanitise(name), layout.columns)]),
        Content::Latency(of) => beside(&few(of)),
        Content::Title(flow, broker) => title(&name, flow, broker, layout, style),
        Content::Mark(tier, text) => {
            let mark = match tier {
                Tier::Invalid => style.alarm("! "),
                Tier::Caution => style.caution("! "),
                Tier::Note => style.faint("! "),
            };
            hung_lines(&mark, wrap_words(text, layout.prose.saturating_sub(GAP)), GAP, layout.columns)
        }
        Content::End(report, next) => end(&painted, report, next, layout, style),
    }
}

/// Lines behind a head of so many columns, the further ones below the first. A word too wide for that, such as a path,
/// has a line of its own.
fn hung_lines(head: &str, lines: Vec<String>, at: usize, columns: usize) -> Vec<String> {
    let has_room = |line: &String| at + width(line) <= columns || width(line) > columns;
    let mut out = Vec::new();
    if lines.first().is_none_or(|first| !has_room(first)) {
        out.push(head.trim_end().to_owned());
    }
    for line in lines {
        let indent = if has_room(&line) { at } else { GAP.min(columns - width(&line)) };
        out.push(if out.is_empty() { format!("{head}{line}") } else { format!("{}{line}", " ".repeat(indent)) });
    }
    out.retain(|line| !line.is_empty());
    out
}

/// A latency in words: no percentile of fewer than twenty samples has ten beyond it.
pub(super) fn few(of: &LatencySummary) -> String {
    let samples = counted(of.count, "sample");
    let [min, mean, max] = [of.min_ns, of.mean_ns, of.max_ns].map(Nanos);
    if of.count == 1 { format!("{samples}: {max}") } else { format!("{samples}: min {min}, mean {mean}, max {max}") }
}

/// The run's name and activity, with the broker at the right, or below for lack of room.
fn title(name: &str, flow: &str, broker: &str, layout: Layout, style: Style) -> Vec<String> {
    let at = width(name) + GAP;
    let head = format!("{}{}", style.strong(name), " ".repeat(GAP));
    let used = at + width(flow);
    let needed = used + GAP + width(broker);
    if needed <= layout.columns {
        let edge = layout.columns.min(COLUMNS).max(needed);
        let blanks = " ".repeat(edge - used - width(broker));
        let line = format!("{head}{flow}{blanks}{broker}");
        return vec![line.trim_end().to_owned()];
    }
    let mut lines = hung_lines(&head, wrap_words(flow, layout.columns.saturating_sub(at)), at, layout.columns);
    if !broker.is_empty() {
        let at = at.min(layout.columns.saturating_sub(width(broker)));
        let room = layout.columns.saturating_sub(at);
        lines.extend(hung_lines(&" ".repeat(at), wrap_words(broker, room), at, layout.columns));
    }
    lines
}

/// The report and the next command, in one line where there is room. Both are copied: neither is broken where it has
/// room in a line.
fn end(painted: &str, report: &str, next: &str, layout: Layout, style: Style) -> Vec<String> {
    let named = format!("next: {next}");
    let used = layout.label + width(report);
    let needed = used + 2 * GAP + width(&named);
    if needed > layout.columns {
        let room = layout.columns.saturating_sub(layout.label);
        let mut command = vec![next.to_owned()];
        if let Some((first, remark)) = next.split_once(" (").filter(|_| width(next) > room) {
            command = std::iter::once(first.to_owned()).chain(wrap_words(&format!("({remark}"), room)).collect();
        }
        let label = style.faint(&left("next", layout.label));
        let mut lines = hung_lines(painted, vec![report.to_owned()], layout.label, layout.columns);
        lines.extend(hung_lines(&label, command, layout.label, layout.columns));
        return lines;
    }
    let edge = layout.columns.min(COLUMNS).max(needed);
    let blanks = " ".repeat(edge - used - width(&named));
    vec![format!("{painted}{report}{blanks}{named}")]
}

/// Percentiles that a table has, where there is room for them.
const PERCENTILES: [&[&str]; 4] =
    [&["p50", "p90", "p99", "p99.9"], &["p50", "p99", "p99.9"], &["p50", "p99"], &["p99"]];

/// Latencies below each other, with the percentiles that ten samples lie beyond.
fn table(rows: &[Row<'_>], layout: Layout, style: Style) -> Vec<String> {
    let latencies = rows.iter().filter_map(|row| match row.content {
        Content::Latency(of) => Some((row.label(layout.columns), of)),
        _ => None,
    });
    let rows: Vec<(Cow<'_, str>, &LatencySummary)> = latencies.collect();
    let cell = |of: &LatencySummary, name: &str| match percentile(of, name) {
        weak if weak.starts_with('~') => "-".to_owned(),
        text => text,
    };
    let tables = PERCENTILES.iter().map(|chosen| {
        let is_known = |name: &&&str| rows.iter().any(|(_, of)| cell(of, name) != "-");
        let shown: Vec<&&str> = chosen.iter().filter(is_known).collect();
        let names: String = shown.iter().map(|name| format!("|{name}")).collect();
        let head = " ".repeat(layout.label.saturating_sub(GAP));
        let mut table = Table::of(&format!("<{names}|max")).titled(0, &head);
        for (label, of) in &rows {
            let mut row = vec![label.clone().into_owned()];
            row.extend(shown.iter().map(|name| cell(of, name)));
            row.push(Nanos(of.max_ns).to_string());
            table.row(row);
        }
        table
    });
    let tables: Vec<Table> = tables.collect();
    let table = tables.iter().find(|table| table.fits(layout.columns)).or_else(|| tables.last());
    table.map_or_else(Vec::new, |table| table.faint_lines(Style { columns: layout.columns, ..style }))
}

#[cfg(test)]
mod tests {
    use testkit::{assert_begins, assert_ends, assert_has, assert_lacks};

    use super::*;
    use crate::console::tests::{flowing, latency};

    fn text_at(columns: usize, rows: Vec<Row<'_>>) -> String {
        let lines = lines(rows, Style { columns, ..Style::PLAIN });
        assert!(lines.len() <= MOST_LINES, "{lines:#?}");
        flowing(&lines.join(" "))
    }

    #[test]
    fn what_to_do_about_a_warning_stays_longer_than_its_details() {
        let text = "other processes took 1.8 of the 2 cores that broker (0.1) and bellows (0.1) run on (event loops \
                    waited 30 % of the time in the run queue): rates are too low and latencies too high; stop them";
        assert_eq!(cut_warning(text, 2, 120), text);
        let took = "other processes took 1.8 of the 2 cores";
        let used = format!("{took} that broker (0.1) and bellows (0.1) run on […]");
        let to_do = "rates are too low and latencies too high; stop them";
        assert_eq!(cut_warning(text, 2, 78), format!("{used}: {to_do}"));
        assert_eq!(cut_warning(text, 2, 60), format!("{used}; stop them"));
        assert_eq!(cut_warning(text, 1, 58), format!("{took} […]; stop them"));
        assert_eq!(cut_warning(text, 1, 30), "other processes took 1.8 […]");
        // Rows that may go do so before it is cut.
        let row = |at: usize| Row::text(RowRank::Main, &format!("row {at}"), "words");
        let mut rows: Vec<Row<'_>> = (0..20).map(row).collect();
        rows.push(Row::mark(RowRank::Core, Tier::Caution, text));
        for columns in [80, 120, 200] {
            assert_ends(text_at(columns, rows.clone()), "latencies too high; stop them");
        }
    }

    #[test]
    fn a_list_loses_whole_items_where_there_is_no_room_and_breaks_none_that_has_room_in_a_line() {
        let in_line = |items: &[(String, String)], columns: usize| {
            let kept = cut_list(items, 1, columns);
            wrap_items(&kept, columns).join(" ")
        };
        let classes = ["own code 36 %", "kernel: network 33 %", "waiting 17 %", "kernel: scheduling 12 %"];
        let plain = classes.map(|it| (String::new(), it.to_owned()));
        let three = "own code 36 %, kernel: network 33 %, waiting 17 %, …";
        for (columns, shown) in [(80, &*classes.join(", ")), (60, three), (5, "own code 36 %, …")] {
            assert_eq!(in_line(&plain, columns), shown);
        }
        let name = "channel bellows producer 0 of 12 to queue://my-stream (1)";
        let named = vec![(name.to_owned(), " 34 %".to_owned()), ("queue my-stream".to_owned(), " 12 %".to_owned())];
        let both = format!("{name} 34 %, queue my-stream 12 %");
        assert_eq!(in_line(&named, width(&both)), both);
        let only = format!("{name} 34 %, …");
        assert_eq!(in_line(&named, width(&only)), only);
        // A name is what one looks for: the others go before it is cut.
        assert_eq!(in_line(&named, width(&both) - 1), only);
        for columns in 50..width(&only) {
            let text = in_line(&named, columns);
            assert_eq!(width(&text), columns, "{text}");
            assert_ends(text, " 34 %, …");
        }
        let items = ["own code 36 %", "kernel: scheduling 16 %", "…"].map(|it| (String::new(), it.to_owned()));
        for columns in 24..39 {
            let whole = ["own code 36 %,", "kernel: scheduling 16 %, …"];
            let broken = ["own code 36 %,", "kernel: scheduling 16 %,", "…"];
            let expected: &[&str] = if columns < 26 { &broken } else { &whole };
            assert_eq!(wrap_items(&items, columns), expected);
        }
        assert_eq!(wrap_items(&items, 42), ["own code 36 %, kernel: scheduling 16 %, …"]);
        assert_eq!(wrap_items(&items, 16), ["own code 36 %,", "kernel:", "scheduling 16 %,", "…"]);
    }

    #[test]
    fn a_wide_screen_and_a_pipe_show_more_of_each_row_and_more_rows() {
        let sentence = "the broker used 1.9 cores, ".repeat(6);
        let row = |at: usize| Row::text(RowRank::Main, &format!("row {at}"), sentence.trim());
        let rows: Vec<Row<'_>> = (0..13).map(row).collect();
        let shown = [80, 120, 200].map(|columns| text_at(columns, rows.clone()));
        for text in &shown {
            assert_has(text, ["row 12 "]);
        }
        assert!(shown[0].contains(CUT) && shown[1].contains(CUT));
        assert!(shown[0].len() < shown[1].len());
        assert!(!shown[2].contains(CUT), "{}", shown[2]);
        // Rows went for lack of lines at 80 columns, where there were lines to spare.
        let whole = || rows.iter().cloned().map(Row::whole).collect::<Vec<_>>();
        assert_lacks(text_at(80, whole()), ["row 12 "]);
        assert_has(text_at(200, whole()), ["row 12 "]);
        // Also of a terminal, where sentences are narrower if they have room.
        assert!(!lines(rows, Style { terminal: true, columns: 200, ..Style::PLAIN }).join(" ").contains(CUT));
        let name = "probe of-a-page-with-a-long-name response";
        let row = || vec![Row::text(RowRank::Core, name, "words")];
        assert!(text_at(80, row()).contains('…'));
        assert_eq!(text_at(200, row()), format!("{name} words"));
    }

    #[test]
    fn a_sentence_ends_with_a_clause_else_with_a_word() {
        let text = "the generator was late (by 3 ms, at 2 s), in all: latencies are too high; leave it a core";
        assert_eq!(cut(text, 9, 20), text);
        for (columns, end) in [(80, "; leave"), (60, ": lat"), (44, ", in all"), (29, " (by")] {
            let (left, _) = text.split_once(end).unwrap();
            assert_eq!(cut(text, 1, columns), format!("{left} […]"));
        }
        let path = "/a/very/long/path/that/is/copied";
        assert_eq!(cut(path, 1, 10), path);
    }

    #[test]
    fn what_is_copied_has_a_line_of_its_own_before_it_is_broken_and_a_failure_keeps_its_cause() {
        let function = format!("Elixir.{}:handle_call/3", "a".repeat(55));
        let path = format!("/home/me/{}/report.html", "runs".repeat(14));
        let end = Content::End(path.clone(), format!("bellows runs show -v {} (1 more warning)", "r".repeat(50)));
        let rows = vec![
            Row::text(RowRank::Core, "program", &format!("its own figures are in {path}")),
            Row::new(RowRank::Core, "6.7 % self", Content::Name(function.clone())),
            Row::new(RowRank::Core, "report", end),
        ];
        let shown = lines(rows, Style { columns: COLUMNS, ..Style::PLAIN });
        let command = format!("  bellows runs show -v {}", "r".repeat(50));
        for whole in [format!("  {path}"), format!("  {function}"), command] {
            assert!(shown.contains(&whole), "{whole}: {shown:#?}");
        }
        assert!(shown.iter().all(|line| width(line) <= COLUMNS), "{shown:#?}");
        let failed = format!("lost the connection to amqp://h after {}: Connection refused", "a while, ".repeat(20));
        assert_ends(cut_failure(&failed, 2, 60), " […]: Connection refused");
        assert_eq!(cut_failure("no: host", 1, 60), "no: host");
    }

    #[test]
    fn percentiles_without_ten_samples_beyond_are_not_printed() {
        let (many, fewer, few) = (latency(1_000), latency(100), latency(9));
        let rows = [("many", &many), ("fewer", &fewer), ("few", &few)];
        let rows = rows.map(|(name, of)| Row::new(RowRank::Core, name, Content::Latency(of)));
        let lines = lines(rows.into(), Style::PLAIN);
        let expected = [
            "                  p50     p90      p99     max",
            "many           301 µs  619 µs  3.23 ms  251 ms",
            "fewer          301 µs  619 µs        -  251 ms",
            "few            9 samples: min 92.0 µs, mean 485 µs, max 251 ms",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_whole_row_is_not_cut_and_others_go_in_its_place() {
        let long = "16,000 sent; 12,319 outstanding, 0 lost, ".repeat(10);
        let of = |at: usize| Row::text(RowRank::Main, &format!("row {at}"), &long);
        let whole = Row::text(RowRank::Core, "messages", &long).whole();
        let rows: Vec<Row<'_>> = std::iter::once(whole).chain((0..9).map(of)).collect();
        let text = text_at(COLUMNS, rows);
        assert_begins(&text, format!("messages {}", long.trim()));
        assert_has(&text, ["row 0 16,000 sent; 12,319 outstanding, 0 lost, 16,000 sent […]"]);
        assert_lacks(text, ["row 8"]);
    }

    #[test]
    fn no_word_of_the_broker_is_cut() {
        let broker = "Apache ActiveMQ Artemis 2.40.0 with plugins, 10 quorum queues";
        for columns in 60..=100 {
            for name in ["demo", "a-name-of-forty-letters-that-is-its-longest"] {
                let title = Content::Title("100 msg/s for 20 s".into(), broker.into());
                let row = Row::new(RowRank::Core, name, title);
                let lines = lines(vec![row], Style { columns, ..Style::PLAIN });
                assert!(lines.iter().all(|line| width(line) <= columns), "{lines:#?}");
                assert_ends(flowing(&lines.join(" ")), broker);
            }
        }
    }

    #[test]
    fn rows_that_may_go_do_so_before_the_others_and_the_last_when_no_other_may() {
        let row = |rank, at: usize| Row::text(rank, &format!("row {at}"), "some words");
        let ranks = [RowRank::Last, RowRank::Spare, RowRank::More, RowRank::Main];
        let rows: Vec<Row<'_>> = (0..20).map(|at| row(ranks[at % 4], at)).collect();
        let lines = lines(rows, Style::PLAIN);
        // All five spare ones, and none of the others.
        let left: Vec<String> = (0..20).filter(|at| at % 4 != 1).map(|at| format!("row {at}")).collect();
        assert_eq!(lines.iter().map(|line| line.split("  ").next().unwrap()).collect::<Vec<&str>>(), left);
        // CPU went before the latencies that stand above it.
        let row = |rank: RowRank, at: usize| Row::text(rank, &format!("row {at}"), "some words");
        let shown = |core: usize| {
            let core = (1..=core).map(|at| row(RowRank::Core, at));
            let all = [row(RowRank::Main, 99), row(RowRank::Last, 0)].into_iter().chain(core);
            text_at(COLUMNS, all.collect())
        };
        assert_has(shown(14), ["row 0 "]);
        assert_lacks(shown(14), ["row 99"]);
        assert_lacks(shown(15), ["row 0 "]);
    }
}
