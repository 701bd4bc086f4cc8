//! A table whose columns fit: numbers to the right, text to the left, one column that gives way.

use super::text::{fit, left, right, width};

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
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(heads: &[(&'static str, Align)], gives_way: usize) -> Self {
        Self {
            heads: heads.to_vec(),
            gives_way,
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The lines, the heads first, none wider than `columns`.
    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        const GAP: usize = 2;
        let mut widths: Vec<usize> = self.heads.iter().map(|(head, _)| width(head)).collect();
        for row in &self.rows {
            for (w, cell) in widths.iter_mut().zip(row) {
                *w = (*w).max(width(cell).min(columns));
            }
        }
        let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        if let Some(w) = widths.get_mut(self.gives_way) {
            *w = w.saturating_sub(total.saturating_sub(columns)).max(8);
        }
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut out = String::new();
            for ((cell, w), (_, align)) in cells.zip(&widths).zip(&self.heads) {
                if !out.is_empty() {
                    out.push_str(&" ".repeat(GAP));
                }
                out.push_str(&match align {
                    Align::Left => left(cell, *w),
                    Align::Right => right(cell, *w),
                });
            }
            fit(out.trim_end(), columns).into_owned()
        };
        let heads = line(&mut self.heads.iter().map(|(head, _)| *head));
        let rows = self
            .rows
            .iter()
            .map(|row| line(&mut row.iter().map(String::as_str)));
        std::iter::once(heads).chain(rows).collect()
    }
}
