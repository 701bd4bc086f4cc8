//! A table whose columns fit: numbers to the right, text to the left, one column that gives way.

use super::text::{fit, left, right, width};

/// Blanks between columns.
const GAP: usize = 2;

/// How a column lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// Text stands at the left.
    Left,
    /// Numbers stand at the right.
    Right,
}

/// Rows of cells below one line of heads.
#[derive(Debug)]
pub(super) struct Table {
    heads: Vec<(&'static str, Align)>,
    /// The column that is cut where the table would be too wide.
    gives_way: usize,
    /// The column that is never cut, also where its lines are wider than the screen.
    whole: Option<usize>,
    /// Columns that are left out, in this order, before any is cut.
    drop: &'static [usize],
    rows: Vec<Vec<String>>,
    /// Lines below a row, by its index.
    notes: Vec<(usize, String)>,
}

impl Table {
    pub(super) fn new(heads: &[(&'static str, Align)], gives_way: usize) -> Self {
        Self {
            heads: heads.to_vec(),
            gives_way,
            whole: None,
            drop: &[],
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Never cuts this column, which should be the first one: people type what stands in it.
    pub(super) fn keep_whole(&mut self, column: usize) {
        self.whole = Some(column);
    }

    /// Leaves these columns out, one after the other, where the table would be too wide.
    pub(super) fn drop_in_order(&mut self, columns: &'static [usize]) {
        self.drop = columns;
    }

    /// Puts a line below the last row, which is cut where it is too long.
    pub(super) fn note(&mut self, text: String) {
        if let Some(last) = self.rows.len().checked_sub(1).filter(|_| !text.is_empty()) {
            self.notes.push((last, text));
        }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The lines, the heads first, none wider than `columns` but for a cell that is kept whole.
    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        let mut widths = self.widths(columns);
        let mut shown: Vec<usize> = (0..self.heads.len()).collect();
        for dropped in self.drop {
            if total(&widths, &shown) > columns {
                shown.retain(|column| column != dropped);
            }
        }
        let excess = total(&widths, &shown).saturating_sub(columns);
        if let Some(w) = widths.get_mut(self.gives_way) {
            *w = w.saturating_sub(excess).max(8);
        }
        let whole = self.whole.and_then(|column| widths.get(column).copied());
        let columns = columns.max(whole.unwrap_or(0));
        let line = |row: &[&str]| {
            let cells = shown.iter().map(|&column| {
                let (cell, width) = (row.get(column).copied().unwrap_or(""), widths[column]);
                match self.heads[column].1 {
                    Align::Left => left(cell, width),
                    Align::Right => right(cell, width),
                }
            });
            let out = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
            fit(out.trim_end(), columns).into_owned()
        };
        let heads: Vec<&str> = self.heads.iter().map(|(head, _)| *head).collect();
        let mut lines = vec![line(&heads)];
        let mut notes = self.notes.iter().peekable();
        for (index, row) in self.rows.iter().enumerate() {
            lines.push(line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
            while let Some((_, note)) = notes.next_if(|(of, _)| *of == index) {
                lines.push(fit(&format!("  {note}"), columns).into_owned());
            }
        }
        lines
    }

    /// The width that each column wants.
    fn widths(&self, columns: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.heads.iter().map(|(head, _)| width(head)).collect();
        for row in &self.rows {
            for (column, (w, cell)) in widths.iter_mut().zip(row).enumerate() {
                let whole = self.whole == Some(column);
                let wanted = width(cell);
                *w = (*w).max(if whole { wanted } else { wanted.min(columns) });
            }
        }
        widths
    }
}

/// The width of a line with these columns.
fn total(widths: &[usize], shown: &[usize]) -> usize {
    let cells: usize = shown.iter().filter_map(|&column| widths.get(column)).sum();
    cells + GAP * shown.len().saturating_sub(1)
}
