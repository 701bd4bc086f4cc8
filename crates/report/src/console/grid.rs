//! A table of cells that were made elsewhere.

use super::table::{Align, Table};
use super::text::{Style, sanitise};

/// A column of a [`grid`].
#[derive(Clone, Copy, Debug)]
pub struct GridColumn {
    /// What stands above it.
    pub head: &'static str,
    /// Whether it holds numbers, which stand at the right.
    pub is_number: bool,
}

impl GridColumn {
    /// A column of text.
    #[must_use]
    pub const fn text(head: &'static str) -> Self {
        let is_number = false;
        Self { head, is_number }
    }

    /// A column of numbers.
    #[must_use]
    pub const fn number(head: &'static str) -> Self {
        let is_number = true;
        Self { head, is_number }
    }
}

/// Rows below their heads, every cell made harmless. The column that gives way is broken over several lines where the
/// screen is too narrow.
#[must_use]
pub fn grid(
    columns: &[GridColumn],
    gives_way: Option<usize>,
    rows: impl IntoIterator<Item = Vec<String>>,
    style: Style,
) -> String {
    let mut table = filled(columns, rows);
    match gives_way {
        Some(0) => table.named_by(0),
        Some(column) => table.give_way(column),
        None => {}
    }
    table.lines(style.columns).join("\n") + "\n"
}

/// The same, where the first column names what the others are about: columns of `drop` are left out, one after the
/// other, before it gets narrower than `least`.
#[must_use]
pub fn named_grid(
    columns: &[GridColumn],
    least: usize,
    drop: &'static [usize],
    rows: impl IntoIterator<Item = Vec<String>>,
    style: Style,
) -> String {
    let mut table = filled(columns, rows);
    table.give_way_to(0, least);
    table.drop_in_order(drop);
    table.lines(style.columns).join("\n") + "\n"
}

fn filled(columns: &[GridColumn], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let align = |column: &GridColumn| match column.is_number {
        true => (column.head, Align::Right),
        false => (column.head, Align::Left),
    };
    let heads: Vec<(&str, Align)> = columns.iter().map(align).collect();
    let mut table = Table::new(&heads);
    for row in rows {
        table.row(row.iter().map(|cell| sanitise(cell).into_owned()).collect());
    }
    table
}
