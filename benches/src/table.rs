//! The result: one row per figure, with its goal and the peers beside it.

use std::fmt::Write as _;

use serde::Serialize;

/// One figure.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Name of the figure.
    pub what: String,
    /// Unit of all values of this row.
    pub unit: &'static str,
    /// The value of bellows.
    pub value: f64,
    /// Peers of the same run, by name.
    pub peers: Vec<PeerValue>,
    /// The goal, in words, and whether it was reached.
    pub goal: Option<Goal>,
    /// Remark for the reader.
    pub note: Option<String>,
}

/// A peer's value; `ratio` is bellows / peer.
#[derive(Debug, Serialize)]
pub struct PeerValue {
    pub name: &'static str,
    pub value: f64,
    pub ratio: f64,
}

#[derive(Debug, Serialize)]
pub struct Goal {
    pub text: String,
    pub reached: bool,
}

impl Row {
    pub fn new(what: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self { what: what.into(), unit, value, peers: Vec::new(), goal: None, note: None }
    }

    pub fn beside(mut self, name: &'static str, value: f64) -> Self {
        self.peers.push(PeerValue { name, value, ratio: self.value / value });
        self
    }

    pub fn goal(mut self, text: impl Into<String>, reached: bool) -> Self {
        self.goal = Some(Goal { text: text.into(), reached });
        self
    }

    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.note = Some(text.into());
        self
    }
}

/// The table for people; `ratio` is bellows / peer, so below 1 is cheaper.
pub fn text(rows: &[Row]) -> String {
    let mut out = String::new();
    let width = rows.iter().map(|r| r.what.len()).max().unwrap_or(0);
    for row in rows {
        let _ = write!(out, "{:width$}  {:>10} {:<8}", row.what, figure(row.value), row.unit);
        for peer in &row.peers {
            let _ = write!(out, "  {} {} (ratio {})", peer.name, figure(peer.value), figure(peer.ratio));
        }
        if let Some(goal) = &row.goal {
            let _ = write!(out, "  [{}: {}]", goal.text, if goal.reached { "yes" } else { "NO" });
        }
        out.push('\n');
        if let Some(note) = &row.note {
            let _ = writeln!(out, "{:width$}    {note}", "");
        }
    }
    out
}

/// A table as the documents have it, all columns but the first on the right.
pub fn markdown(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count().max(4)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| match column {
            0 => format!(" {cell:width$} |"),
            _ => format!(" {cell:>width$} |"),
        });
        format!("|{}\n", cells.collect::<String>())
    };
    let rule = widths.iter().enumerate().map(|(column, &width)| match column {
        0 => "-".repeat(width),
        _ => format!("{}:", "-".repeat(width - 1)),
    });
    let rule: Vec<String> = rule.collect();
    let mut out = line(&mut head.iter().copied());
    out += &line(&mut rule.iter().map(String::as_str));
    for row in rows {
        out += &line(&mut row.iter().map(String::as_str));
    }
    out
}

/// Three significant digits.
fn figure(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 100.0 {
        format!("{value:.0}")
    } else if magnitude >= 10.0 {
        format!("{value:.1}")
    } else if magnitude >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// The middle of at least one value.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len().is_multiple_of(2) { f64::midpoint(values[half - 1], values[half]) } else { values[half] }
}

#[cfg(test)]
mod tests {
    use super::{markdown, median};

    #[test]
    fn tables_have_columns_of_one_width() {
        let rows = [vec!["none".to_owned(), "1.0".to_owned()], vec!["a longer name".to_owned(), "12,345.6".to_owned()]];
        let expected = "\
| method        |     cost |
| ------------- | -------: |
| none          |      1.0 |
| a longer name | 12,345.6 |
";
        assert_eq!(markdown(&["method", "cost"], &rows), expected);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0].into_iter()), 3.0);
        assert_eq!(median([9.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 9.0].into_iter()), 3.0);
    }
}
