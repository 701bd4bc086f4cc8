//! A matrix on a terminal: where it helps and where it hurts first, then every cell's effects with their intervals.

use archive::{ComparedCell, ComparedFigure, ComparedMatrix};

use super::comparison;
use super::table::Table;
use super::text::{Style, sanitise, wrap_hanging};
use crate::text::comparison::{DecisionText, ShownColumns, change_and_interval, decision, short_units, table_values};
use crate::text::matrix::{headline, notes, outcome, sides, values};

/// Columns that a decision keeps while there are columns that can be left out instead.
const LEAST_DECISION: usize = 23;
/// The place of the last of the means, which narrow screens leave out.
const MEAN_OF_B: usize = 2;

/// Lines of the end of a matrix, below which the page's path stands.
const MOST_LINES: usize = 14;

/// The end of a matrix, ending in a newline: where it helps and where it hurts, and its cells as far as they have room.
/// All of it is in [`matrix()`] and on the page.
pub fn matrix_brief(of: &ComparedMatrix, style: Style) -> String {
    let mut lines = first(of, style);
    let cells = match of.keys.as_slice() {
        [rows, columns] => glance(of, &rows.values, &columns.values),
        _ => effects(of, of.figures().0.into_iter().take(1)),
    };
    let cells = cells.lines(style.line_columns());
    if lines.len() + cells.len() <= MOST_LINES {
        lines.extend(cells);
    }
    lines.join("\n") + "\n"
}

/// The decision, and the sides.
fn first(of: &ComparedMatrix, style: Style) -> Vec<String> {
    let mut lines = style.strong_lines(&headline(of));
    for (name, told) in ["A", "B"].iter().zip(sides(of)) {
        lines.extend(wrap_hanging(&format!("{name}: {}", sanitise(&told)), style.line_columns()));
    }
    let mut forced: Vec<&String> = of.comparisons().flat_map(|it| &it.forced).collect();
    forced.dedup();
    lines.extend(forced.into_iter().flat_map(|it| comparison::forced(it, style)));
    lines
}

/// All of a matrix, ending in a newline.
pub fn matrix(of: &ComparedMatrix, style: Style) -> String {
    let mut lines = first(of, style);
    if let [rows, columns] = of.keys.as_slice() {
        lines.push(String::new());
        let head = archive::short_names(&of.keys).join(" (rows) by ") + " (columns)";
        lines.extend(style.lines_of(&sanitise(&head)));
        lines.extend(glance(of, &rows.values, &columns.values).lines(style.line_columns()));
    }
    let (figures, main) = of.figures();
    let mut shown = ShownColumns::ALL;
    if main > 0 {
        lines.push(String::new());
        let named = archive::short_names(&of.keys).join(" / ");
        lines.extend(style.lines_of(&sanitise(&format!("effects by {named}"))));
        let table = effects(of, figures.iter().take(main).copied());
        lines.extend(table.lines(style.line_columns()));
        shown.means = table.shows(MEAN_OF_B, style.line_columns());
    }
    lines.push(String::new());
    let mut notes = notes(of, shown);
    if figures.len() > main {
        let further: Vec<&str> = figures.iter().skip(main).copied().collect();
        notes.push(format!("The page and --json have the other figures of each cell, too: {}.", further.join(", ")));
    }
    let notes = notes.into_iter();
    lines.extend(notes.flat_map(|note| style.prose_lines(&sanitise(&note))));
    lines.join("\n") + "\n"
}

/// Outcome of each cell of two keys.
fn glance(of: &ComparedMatrix, rows: &[String], columns: &[String]) -> Table {
    let mut table = Table::of("<");
    rows.iter().for_each(|row| table.row(vec![sanitise(row).into_owned()]));
    for column in columns {
        let cell = |row: &String| of.cells.iter().find(|cell| cell.values == [row.as_str(), column.as_str()]);
        let cells = rows.iter().map(|row| cell(row).map_or("", outcome).to_owned());
        table.column(&sanitise(column), cells.collect());
    }
    table
}

/// The effects on some figures, of each cell.
fn effects<'a>(of: &ComparedMatrix, figures: impl Iterator<Item = &'a str>) -> Table {
    let mut table = Table::of("<|A|B|change|interval|decision<");
    table.drop = &[1, MEAN_OF_B];
    table.give_way_to(5, LEAST_DECISION);
    for name in figures {
        table.row(vec![sanitise(name).into_owned()]);
        for cell in &of.cells {
            let mut figures = cell.comparison.iter().flat_map(|it| &it.figures);
            table.row(effect(cell, figures.find(|figure| figure.name == name)));
        }
    }
    table
}

fn effect(cell: &ComparedCell, of: Option<&ComparedFigure>) -> Vec<String> {
    let label = format!("  {}", sanitise(&values(cell)));
    let Some(of) = of else { return [vec![label], vec![String::new(); 4], vec![outcome(cell).to_owned()]].concat() };
    let (a, b) = table_values(of);
    let (change, interval) = change_and_interval(of);
    let units = cell.comparison.as_ref().map_or("runs", short_units);
    vec![label, a, b, change, interval, decision(of, DecisionText::Short(units))]
}

#[cfg(test)]
mod tests {
    use archive::{Comparison, Decision, MatrixKey, PairedMatrix, QuantityUnit};
    use testkit::assert_has;

    use super::*;
    use crate::console::tests::flowing;
    use crate::tests::fixtures;

    fn of(keys: &[(&str, &[&str])]) -> ComparedMatrix {
        let owned = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect();
        let keys = keys.iter().map(|(key, values)| MatrixKey { key: (*key).to_owned(), values: owned(values) });
        let plan = PairedMatrix::new("x", 1, 8, keys.collect());
        let figure = |name: &str, change: f64, decision| ComparedFigure {
            means: (1e6, 1e6 * (1.0 + change)),
            needed: (decision == Decision::Undecided).then_some(2_023),
            ..fixtures::figure(name, QuantityUnit::Ns, decision, change)
        };
        let cells = plan.cells.iter().enumerate().map(|(at, cell)| {
            let decision = [Decision::Changed, Decision::Undecided][at % 2];
            let figures = vec![
                figure("ack response p50", 0.1, Decision::Same),
                figure("ack response p99", at as f64 * 1.7 - 0.8, decision),
                figure("broker cpu", 0.02, Decision::Negligible),
            ];
            let comparison = Some(Comparison { figures, ..Comparison::default() });
            ComparedCell { values: cell.values.clone(), comparison, ..ComparedCell::default() }
        });
        ComparedMatrix { cells: cells.collect(), keys: plan.keys, ..ComparedMatrix::default() }
    }

    #[test]
    fn every_cell_has_its_effects_and_the_table_fits() {
        let style = Style { columns: 80, ..Style::PLAIN };
        let two =
            of(&[("load.0.queue-type", &["classic", "quorum", "stream"]), ("load.0.num-destinations", &["1", "100"])]);
        let text = matrix(&two, style);
        let parts = [
            "B is ",
            "queue-type (rows) by num-destinations (columns)\n",
            "classic  better",
            "effects by queue-type / num-destinations\n",
            "ack response p99\n  classic / 1 ",
            "inconclusive (2,023",
            "the other figures of each cell, too: ack response p50.",
        ];
        assert_has(&text, parts);
        let three = of(&[
            ("load.0.queue-type", &["classic", "quorum"]),
            ("load.0.num-destinations", &["1", "100"]),
            ("load.0.message-size", &["uniform:1000-200000", "12"]),
        ]);
        for text in [text, matrix(&three, style)] {
            assert_eq!(text.lines().find(|line| line.chars().count() > 80), None, "{text}");
        }
        // Columns that a narrow table leaves out are not explained.
        for columns in [60, 140] {
            let text = matrix(&two, Style { columns, ..Style::PLAIN });
            let has_means = text.lines().any(|line| line.trim_start().starts_with("A  "));
            let is_told = flowing(&text).contains("A and B are geometric means");
            assert_eq!((is_told, has_means), (columns == 140, columns == 140), "{text}");
        }
    }
}
