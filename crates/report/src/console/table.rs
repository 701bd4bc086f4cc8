//! A table whose columns fit: numbers to the right, text to the left, and nothing cut but long names.

use super::text::{
    MOST_COLUMNS, Style, fit_end, fit_middle, left, right, sanitise, width, wrap, wrap_names, wrap_words,
};

use crate::numbers::FOOTNOTE;

/// Blanks between columns.
pub(super) const GAP: usize = 2;
const LEAST_WIDTH: usize = 8;
/// Columns that words need.
const LEAST_PROSE: usize = 16;
/// Columns that most names need, or both of their ends.
const LEAST_NAME: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// Rows of cells below one line of heads. Where it is wider than the screen, the column that gives way is broken
/// over several lines, and then columns move into a block of their own below the others, with the rows' names again:
/// of those that have no room there both ends are shown.
#[derive(Clone, Debug)]
pub(super) struct Table {
    heads: Vec<(String, Align)>,
    /// The column that is broken over several lines where the table would be too wide.
    pub(super) gives_way: Option<usize>,
    /// Least width of the column that gives way, if it is as wide, before columns move into another block.
    least: usize,
    names: usize,
    /// Columns left out, in this order, if the table is too wide even with the narrowest column that gives way.
    pub(super) drop: &'static [usize],
    /// Whether an empty line stands between blocks.
    pub(super) spaced: bool,
    rows: Vec<Vec<String>>,
    /// Text below a row, by its index.
    notes: Vec<(usize, String)>,
}

impl Table {
    /// A table without rows; of its heads, `name<|p50|p99`, a `<` puts a column's text at the left, numbers are right.
    pub(super) fn of(heads: &str) -> Self {
        let column = |head: &str| match head.strip_suffix('<') {
            Some(head) => (head.to_owned(), Align::Left),
            None => (head.to_owned(), Align::Right),
        };
        Self {
            heads: heads.split('|').map(column).collect(),
            gives_way: None,
            least: LEAST_PROSE,
            names: 0,
            drop: &[],
            spaced: false,
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Sets the head of a column, which may be any text; one that is padded makes its column at least as wide.
    pub(super) fn titled(mut self, column: usize, head: &str) -> Self {
        if let Some(it) = self.heads.get_mut(column) {
            head.clone_into(&mut it.0);
        }
        self
    }

    /// Makes this column give way, down to this width while there are columns that can be left out instead.
    pub(super) const fn give_way_to(&mut self, column: usize, least: usize) {
        self.gives_way = Some(column);
        self.least = least;
    }

    /// Says which column names the rows, which may be long: it gives way.
    pub(super) const fn named_by(&mut self, column: usize) {
        self.names = column;
        self.give_way_to(column, LEAST_NAME);
    }

    /// Columns that another column would have, behind a first column that is no wider than `least`.
    pub(super) fn room(&self, columns: usize, least: usize) -> usize {
        let widths = self.narrowed(Some(0), least);
        let all: Vec<usize> = (0..widths.len()).collect();
        columns.saturating_sub(total(&widths, &all) + GAP)
    }

    /// Adds a last column of text at the left.
    pub(super) fn column(&mut self, head: &str, cells: Vec<String>) {
        let before = self.heads.len();
        self.heads.push((head.to_owned(), Align::Left));
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.resize(before, String::new());
            row.push(cell);
        }
    }

    /// Whether a column is among the lines, and not left out.
    pub(super) fn shows(&self, column: usize, columns: usize) -> bool {
        self.shown(&self.narrowed(self.gives_way, self.least), columns).contains(&column)
    }

    /// Whether the lines fit with the column that gives way as narrow as it may be.
    pub(super) fn fits(&self, columns: usize) -> bool {
        let narrowest = self.narrowed(self.gives_way, self.least);
        total(&narrowest, &self.shown(&narrowest, columns)) <= columns
    }

    /// The width of each column, of one of them no more than `most`.
    fn narrowed(&self, column: Option<usize>, most: usize) -> Vec<usize> {
        let mut widths = self.widths();
        if let Some(w) = column.and_then(|it| widths.get_mut(it)) {
            *w = (*w).min(most);
        }
        widths
    }

    /// Makes the cells of the first column shorter where the table would be too wide, but none below `least`.
    pub(super) fn shorten_first(&mut self, columns: usize, least: usize, shortened: impl Fn(&str, usize) -> String) {
        let widths = self.widths();
        let shown = self.shown(&self.narrowed(Some(0), least), columns);
        let excess = total(&widths, &shown).saturating_sub(columns);
        let room = widths.first().map_or(0, |w| w.saturating_sub(excess)).max(least);
        let first = self.rows.iter_mut().filter_map(|row| row.first_mut());
        for cell in first.filter(|cell| width(cell) > room) {
            *cell = shortened(cell, room);
        }
    }

    /// Puts text below the last row.
    pub(super) fn note(&mut self, text: String) {
        if let Some(last) = self.rows.len().checked_sub(1).filter(|_| !text.is_empty()) {
            self.notes.push((last, text));
        }
    }

    /// The lines; where the columns have no room beside each other, also with the first one made shorter, the rows
    /// stand beside each other, and the notes below them.
    pub(super) fn lines_or_turned(&self, columns: usize, least: usize) -> Vec<String> {
        let mut short = self.clone();
        short.shorten_first(columns, least, fit_end);
        let widths = short.widths();
        let shown = short.shown(&widths, columns);
        if total(&widths, &shown) <= columns {
            return short.lines(columns);
        }
        let mut lines = self.turned(columns).lines(columns);
        for (index, note) in &self.notes {
            let name = self.rows.get(*index).and_then(|row| row.first()).filter(|_| self.rows.len() > 1);
            let name = name.map_or_else(String::new, |name| format!("{name}: "));
            lines.extend(note_lines(&format!("{name}{note}"), columns));
        }
        lines
    }

    fn turned(&self, columns: usize) -> Self {
        let names: Vec<String> = self.heads.iter().map(|(head, _)| head.trim().to_owned()).collect();
        let first = names.iter().map(|name| width(name)).max().unwrap_or(0);
        let each = columns.saturating_sub(first) / self.rows.len().max(1);
        let room = each.saturating_sub(GAP).max(LEAST_WIDTH);
        let of_row = |row: &Vec<String>| (fit_end(row.first().map_or("", String::as_str), room), Align::Right);
        let head = (names.first().cloned().unwrap_or_default(), Align::Left);
        let mut turned = Self::of("");
        turned.heads = std::iter::once(head).chain(self.rows.iter().map(of_row)).collect();
        for (column, name) in names.into_iter().enumerate().skip(1) {
            let cells = self.rows.iter().map(|row| row.get(column).cloned().unwrap_or_default());
            turned.row(std::iter::once(name).chain(cells).collect());
        }
        turned
    }

    /// Adds a row, of at most as many cells as there are heads.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert!(cells.len() <= self.heads.len(), "more cells than heads: {cells:?} below {:?}", self.heads);
        self.rows.push(cells);
    }

    /// The lines, the heads first, none wider than `columns` but for a first column that does not give way.
    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        let narrowest = self.narrowed(self.gives_way, self.least);
        let shown = self.shown(&narrowest, columns);
        let blocks = self.blocks(&narrowest, &shown, columns);
        let mut widths = self.widths();
        if let Some(giving) = self.gives_way
            && let Some(&wanted) = widths.get(giving)
        {
            let with_it = blocks.iter().filter(|block| block.contains(&giving));
            let others = with_it.map(|block| total(&widths, block) - wanted);
            let room = columns.saturating_sub(others.max().unwrap_or(0));
            widths[giving] = wanted.min(room.max(LEAST_WIDTH));
        }
        let mut lines = Vec::new();
        for (block, to_come) in blocks.iter().zip((0..blocks.len()).rev()) {
            if self.spaced && !lines.is_empty() {
                lines.push(String::new());
            }
            // A note is said once, below the last columns.
            let notes = if to_come == 0 { &self.notes[..] } else { &[] };
            let cuts = blocks.len() > 1 && self.gives_way == Some(self.names);
            lines.extend(self.block(block, &widths, columns, notes, cuts));
        }
        lines
    }

    pub(super) fn strong_lines(&self, style: Style) -> Vec<String> {
        with_heads(self.lines(style.columns), |heads| style.strong(heads))
    }

    pub(super) fn faint_lines(&self, style: Style) -> Vec<String> {
        with_heads(self.lines(style.columns), |heads| style.faint(heads))
    }

    /// Lines with dim heads, and below them the meaning of a percentile's mark where a cell beside the names has one.
    pub(super) fn latency_lines(&self, style: Style) -> Vec<String> {
        let footnote = self.footnote(style.columns).map(|it| style.faint(it));
        self.faint_lines(style).into_iter().chain(footnote).collect()
    }

    /// Meaning of a percentile's mark, where a cell that is shown beside the rows' names has one.
    pub(super) fn footnote(&self, columns: usize) -> Option<&'static str> {
        let shown = self.shown(&self.narrowed(self.gives_way, self.least), columns);
        let is_marked =
            |row: &Vec<String>| shown.iter().skip(1).any(|at| row.get(*at).is_some_and(|it| it.starts_with('~')));
        self.rows.iter().any(is_marked).then_some(FOOTNOTE)
    }

    /// The columns in as few blocks as fit, about as many in each, and those with the rows' names.
    fn blocks(&self, widths: &[usize], shown: &[usize], columns: usize) -> Vec<Vec<usize>> {
        let is_name = |column: &usize| *column == self.names;
        let rest: Vec<usize> = shown.iter().copied().filter(|it| !is_name(it)).collect();
        let with_names = |part: &[usize]| {
            let mut block = [part, &[self.names]].concat();
            block.sort_unstable();
            block
        };
        let fits = |part: &[usize]| total(widths, &with_names(part)) <= columns || part.len() < 2;
        let mut parts: Vec<&[usize]> = Vec::new();
        let mut first = 0;
        for end in 1..=rest.len() {
            if end == rest.len() || !fits(&rest[first..=end]) {
                parts.push(&rest[first..end]);
                first = end;
            }
        }
        let each = rest.len().div_ceil(parts.len().max(1)).max(1);
        if rest.chunks(each).all(fits) {
            parts = rest.chunks(each).collect();
        }
        match parts.as_slice() {
            [] if shown.is_empty() => Vec::new(),
            [] => vec![shown.to_vec()],
            parts => parts.iter().map(|part| with_names(part)).collect(),
        }
    }

    fn shown(&self, widths: &[usize], columns: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.heads.len()).collect();
        for dropped in self.drop {
            if total(widths, &shown) > columns {
                shown.retain(|column| column != dropped);
            }
        }
        shown
    }

    /// The lines of some columns; with `cuts` names are of one line.
    fn block(
        &self,
        shown: &[usize],
        widths: &[usize],
        columns: usize,
        notes: &[(usize, String)],
        cuts: bool,
    ) -> Vec<String> {
        let heads: Vec<String> = self.heads.iter().map(|(head, _)| head.clone()).collect();
        let mut lines = self.row_lines(&heads, shown, widths, cuts);
        let mut notes = notes.iter().peekable();
        for (index, row) in self.rows.iter().enumerate() {
            lines.extend(self.row_lines(row, shown, widths, cuts));
            while let Some((_, note)) = notes.next_if(|(of, _)| *of == index) {
                lines.extend(note_lines(note, columns));
            }
        }
        lines
    }

    /// A row, of as many lines as its highest cell.
    fn row_lines(&self, row: &[String], shown: &[usize], widths: &[usize], cuts: bool) -> Vec<String> {
        let broken = |&column: &usize| {
            let cell = row.get(column).map_or("", String::as_str);
            let broken = match Some(column) == self.gives_way {
                true if cuts => vec![fit_middle(cell, widths[column])],
                true => wrap_names(cell, widths[column]),
                false => vec![cell.to_owned()],
            };
            (column, broken)
        };
        let cells: Vec<(usize, Vec<String>)> = shown.iter().map(broken).collect();
        let height = cells.iter().map(|(_, lines)| lines.len()).max().unwrap_or(0);
        let line = |index: usize| {
            let cells = cells.iter().map(|(column, lines)| {
                let text = lines.get(index).map_or("", String::as_str);
                match self.heads[*column].1 {
                    Align::Left => left(text, widths[*column]),
                    Align::Right => right(text, widths[*column]),
                }
            });
            cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
        };
        (0..height.max(1)).map(line).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.heads.iter().map(|(head, _)| width(head)).collect();
        for row in &self.rows {
            widths.iter_mut().zip(row).for_each(|(w, cell)| *w = (*w).max(width(cell)));
        }
        widths
    }
}

/// Paints the heads: the first line of each block.
pub(super) fn with_heads(mut lines: Vec<String>, heads: impl Fn(&str) -> String) -> Vec<String> {
    let mut is_head = true;
    for line in &mut lines {
        if is_head {
            *line = heads(line);
        }
        is_head = line.is_empty();
    }
    lines
}

fn note_lines(note: &str, columns: usize) -> impl Iterator<Item = String> {
    let lines = match columns > MOST_COLUMNS {
        true => wrap_words(note, MOST_COLUMNS - GAP),
        false => wrap(note, columns.saturating_sub(GAP)),
    };
    lines.into_iter().map(|line| format!("  {line}"))
}

pub(super) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn total(widths: &[usize], shown: &[usize]) -> usize {
    let cells: usize = shown.iter().filter_map(|&column| widths.get(column)).sum();
    cells + GAP * shown.len().saturating_sub(1)
}

/// Rows below their heads, `name<|bytes`: text stands at the left below a head with a `<` behind it, numbers at the
/// right. Every cell is made harmless. The column that gives way is broken over several lines where the screen is too
/// narrow.
pub fn grid(
    heads: &str,
    gives_way: Option<usize>,
    rows: impl IntoIterator<Item = Vec<String>>,
    style: Style,
) -> String {
    let mut table = filled(heads, rows);
    match gives_way {
        Some(0) => table.named_by(0),
        column => table.gives_way = column,
    }
    table.lines(style.columns).join("\n") + "\n"
}

/// A [`grid`] whose first column names the rows; columns of `drop` are left out before it gets narrower than `least`.
pub fn named_grid(
    heads: &str,
    least: usize,
    drop: &'static [usize],
    rows: impl IntoIterator<Item = Vec<String>>,
    style: Style,
) -> String {
    let mut table = filled(heads, rows);
    table.give_way_to(0, least);
    table.drop = drop;
    table.lines(style.columns).join("\n") + "\n"
}

fn filled(heads: &str, rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::of(heads);
    rows.into_iter().for_each(|row| table.row(row.iter().map(|cell| sanitise(cell).into_owned()).collect()));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::of("<|p50|p99|function<");
        let cells = ["send ack", "301 us", "3.23 ms", "rabbit_channel:handle_method"];
        table.row(cells.map(str::to_owned).to_vec());
        table.gives_way = Some(3);
        table
    }

    #[test]
    fn what_is_too_wide_is_broken_and_never_cut() {
        for columns in 10..100 {
            let lines = table().lines(columns);
            let least = 8 + GAP + 8;
            assert!(lines.iter().all(|line| width(line) <= columns.max(least)), "{lines:#?}");
            let text: String = lines.concat().split_whitespace().collect();
            for part in ["301us", "3.23ms"] {
                assert!(text.contains(part), "{columns}: {lines:#?}");
            }
            let letters = |text: &str| text.chars().filter(|c| *c == '_' || *c == ':').count();
            assert_eq!(letters(&text), 3, "{columns}: {lines:#?}");
        }
        assert_eq!(table().lines(100).len(), 2);
        let expected = [
            "             p50      p99  function",
            "send ack  301 us  3.23 ms  rabbit_channel:",
            "                           handle_method",
        ];
        assert_eq!(table().lines(46), expected);
        // It has the room of a block of its own before it gets too narrow.
        assert_eq!(
            table().lines(40),
            [
                "             p50      p99",
                "send ack  301 us  3.23 ms",
                "          function",
                "send ack  rabbit_channel:handle_method",
            ]
        );
    }

    #[test]
    fn names_of_a_table_in_blocks_have_the_room_that_is_there_and_are_cut_in_the_middle() {
        let mut table = Table::of("self %|total %|function<|self %");
        for name in ["rabbit_channel:handle_method/3", "lists:map/2"] {
            table.row(["12.34", "56.78", name, "9.10"].map(str::to_owned).to_vec());
        }
        table.named_by(2);
        let expected = [
            "self %  total %  function              self %",
            " 12.34    56.78  rabbit_channel:         9.10",
            "                 handle_method/3",
            " 12.34    56.78  lists:map/2             9.10",
        ];
        assert_eq!(table.lines(45), expected);
        assert_eq!(
            table.lines(40),
            [
                "self %  total %  function",
                " 12.34    56.78  rabbit_cha…dle_method/3",
                " 12.34    56.78  lists:map/2",
                "function                 self %",
                "rabbit_cha…dle_method/3    9.10",
                "lists:map/2                9.10",
            ]
        );
    }

    #[test]
    fn rows_stand_beside_each_other_where_columns_do_not() {
        let mut table = Table::of("page<|pages|p50");
        for name in ["localhost:15692/a", "localhost:15692/b"] {
            table.row([name, "12", "3.23 ms"].map(str::to_owned).to_vec());
            table.note("all".to_owned());
        }
        let wide = table.lines_or_turned(40, 12);
        assert_eq!(wide[1], "localhost:15692/a     12  3.23 ms");
        let expected = [
            "page   …:15692/a  …:15692/b",
            "pages         12         12",
            "p50      3.23 ms    3.23 ms",
            "  localhost:15692/a: all",
            "  localhost:15692/b: all",
        ];
        assert_eq!(table.lines_or_turned(27, 12), expected);
    }

    #[test]
    fn columns_are_left_out_before_the_first_gets_too_narrow() {
        let mut table = table();
        table.row(vec!["connection 127.0.0.1:4".to_owned(), "1 ns".to_owned()]);
        table.give_way_to(0, 16);
        table.drop = &[3, 2];
        let heads = |columns| table.lines(columns).first().cloned().unwrap_or_default();
        assert!(heads(100).ends_with("p50      p99  function"));
        assert!(heads(40).ends_with("p50      p99"), "{}", heads(40));
        let narrow = table.lines(26);
        assert_eq!(
            narrow,
            ["                       p50", "send ack            301 us", "connection            1 ns", "127.0.0.1:4",]
        );
    }
}
