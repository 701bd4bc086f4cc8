//! A table of cells that were made elsewhere.

use super::table::Table;
use super::text::{Style, sanitise};

/// Rows below their heads, `name<|bytes`: text stands at the left below a head with a `<` behind it, numbers at the
/// right. Every cell is made harmless. The column that gives way is broken over several lines where the screen is too
/// narrow.
#[must_use]
pub fn grid(
    heads: &str,
    gives_way: Option<usize>,
    rows: impl IntoIterator<Item = Vec<String>>,
    style: Style,
) -> String {
    let mut table = filled(heads, rows);
    match gives_way {
        Some(0) => table.named_by(0),
        Some(column) => table.give_way(column),
        None => {}
    }
    table.lines(style.columns).join("\n") + "\n"
}

/// A [`grid`] whose first column names the rows; columns of `drop` are left out before it gets narrower than `least`.
#[must_use]
pub fn named_grid(
    heads: &str,
    least: usize,
    drop: &'static [usize],
    rows: impl IntoIterator<Item = Vec<String>>,
    style: Style,
) -> String {
    let mut table = filled(heads, rows);
    table.give_way_to(0, least);
    table.drop_in_order(drop);
    table.lines(style.columns).join("\n") + "\n"
}

fn filled(heads: &str, rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::of(heads);
    for row in rows {
        table.row(row.iter().map(|cell| sanitise(cell).into_owned()).collect());
    }
    table
}
