//! A comparison as Markdown, as GitHub and GitLab show it: for a comment, or the summary of a job.

use std::fmt::Write as _;

use archive::{ComparedCell, ComparedFigure, ComparedFunctions, ComparedMatrix, Comparison, CostChange, Decision};

use crate::console::sanitise;
use crate::text::comparison as words;
use crate::text::functions;
use crate::text::matrix as matrix_words;

const MOST_FUNCTIONS: usize = 10;

pub(super) fn text(name: &str, of: Option<&ComparedMatrix>) -> String {
    let mut out = format!("### {}\n\n", escape(name));
    match of {
        None => out.push_str("The comparison was not made, or broke off.\n"),
        Some(of) => match of.alone() {
            Some(one) => {
                told(&mut out, one);
                out.push_str(&how(&words::notes(one, words::ShownColumns::ALL)));
            }
            None => matrix(&mut out, of),
        },
    }
    out
}

/// Every cell in a row, then the sentences of each.
fn matrix(out: &mut String, of: &ComparedMatrix) {
    let _ = writeln!(out, "**{}**\n", escape(&matrix_words::headline(of)));
    let sides = ["A", "B"].iter().zip(matrix_words::sides(of));
    out.extend(sides.map(|(side, told)| format!("- {side}: {}\n", escape(&told))));
    let (figures, main) = of.figures();
    let figures = figures.get(..main).unwrap_or_default();
    let names = archive::short_names(&of.keys);
    let heads = names.iter().chain(figures).map(|it| format!(" {} |", escape(it)));
    let _ = writeln!(out, "\n|{} decision |", heads.collect::<String>());
    let rules = names.iter().map(|_| " --- |").chain(figures.iter().map(|_| " ---: |"));
    let _ = writeln!(out, "|{} --- |", rules.collect::<String>());
    for cell in &of.cells {
        let values = cell.values.iter().map(|it| escape(it));
        let effects = figures.iter().map(|name| effect(cell, name));
        let cells = values.chain(effects).map(|it| format!(" {it} |"));
        let decided = matrix_words::outcome(cell);
        let _ = writeln!(out, "|{} {decided} |", cells.collect::<String>());
    }
    for cell in &of.cells {
        if let Some(one) = &cell.comparison {
            let label = escape(&of.label(cell));
            let _ = write!(out, "\n<details><summary>{label}</summary>\n\n");
            told(out, one);
            out.push_str("\n</details>\n");
        }
    }
    out.push_str(&how(&matrix_words::notes(of, words::ShownColumns::ALL)));
}

/// The change of a figure in a cell with its interval; bold where it is proven and matters.
fn effect(cell: &ComparedCell, name: &str) -> String {
    let figures = cell.comparison.iter().flat_map(|it| &it.figures);
    let Some(of) = figures.into_iter().find(|it| it.name == name) else { return String::new() };
    if !of.is_tested() {
        let units = cell.comparison.as_ref().map_or("runs", words::short_units);
        return escape(&words::decision(of, words::DecisionText::Short(units)));
    }
    let (change, interval) = words::change_and_interval(of);
    let change = bold(change, of.decision == Decision::Changed);
    format!("{change} ({interval})")
}

fn bold(text: String, is_bold: bool) -> String {
    if is_bold { format!("**{text}**") } else { text }
}

fn how(notes: &[String]) -> String {
    let mut out = "\n<details><summary>How it is decided</summary>\n\n".to_owned();
    out.extend(notes.iter().map(|note| format!("- {}\n", escape(note))));
    out + "\n</details>\n"
}

fn told(out: &mut String, of: &Comparison) {
    let _ = writeln!(out, "**{}**\n", escape(&words::headline(of)));
    if let Some(functions) = of.functions.as_ref().and_then(functions::explanation) {
        let _ = writeln!(out, "{}.\n", escape(&functions));
    }
    out.extend([("A", &of.a), ("B", &of.b)].map(|(side, of)| format!("- {side}: {}\n", escape(&words::told(of)))));
    let forced = of.forced.iter().map(|it| format!("- **caution**: compared despite a problem: {}\n", escape(it)));
    out.extend(forced);
    if !of.figures.is_empty() {
        out.push_str(
            "\n| | A | B | change | interval | decision |\n\
             | --- | ---: | ---: | ---: | ---: | --- |\n",
        );
        out.extend(of.figures.iter().map(|it| row(it, words::units(of)) + "\n"));
    }
    out.push_str(&within(of));
    out.extend(of.remarks.iter().map(|remark| format!("\n{}\n", escape(remark))));
    out.extend(of.functions.as_ref().map(changed));
}

/// The intervals within the only run of a side.
fn within(of: &Comparison) -> String {
    let rows = words::within_rows(of);
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: [String; 5]| format!("| {} |\n", cells.join(" | "));
    let mut out = "\n".to_owned() + &line(words::WITHIN.map(str::to_owned));
    out.push_str("| --- | ---: | ---: | ---: | ---: |\n");
    out.extend(rows.into_iter().map(|row| line(row.map(|cell| escape(&cell)))));
    out
}

fn row(of: &ComparedFigure, units: &str) -> String {
    let (a, b) = words::table_values(of);
    let (change, interval) = words::change_and_interval(of);
    // Changes are bold: Markdown has no colours.
    let decided =
        bold(escape(&words::decision(of, words::DecisionText::Full(units))), of.decision == Decision::Changed);
    let name = escape(&of.name);
    format!("| {name} | {a} | {b} | {change} | {interval} | {decided} |")
}

/// The functions whose cost changed, behind a summary of how many there are.
fn changed(of: &ComparedFunctions) -> String {
    let proven: Vec<_> = (of.functions.iter()).filter(|it| it.own.proven || it.total.proven).collect();
    if proven.is_empty() {
        return "\nNo change of a function's cost is proven.\n".to_owned();
    }
    let mut out = format!(
        "\n<details><summary>{} changed in cost beyond chance</summary>\n\n\
         | CPU per message | A | B | change | with callees |\n| --- | ---: | ---: | ---: | ---: |\n",
        crate::numbers::counted(proven.len() as u64, "function")
    );
    let change = |it: &CostChange| bold(functions::signed_time(it.change()), it.proven);
    let mut row = |name: &str, own: &CostChange, total: &str| {
        let (a, b) = (functions::time(own.a), functions::time(own.b));
        let _ = writeln!(out, "| {name} | {a} | {b} | {} |{total} |", change(own));
    };
    row("the whole broker", &of.broker, "");
    for function in proven.iter().take(MOST_FUNCTIONS) {
        row(&escape(&function.function), &function.own, &format!(" {}", change(&function.total)));
    }
    if proven.len() > MOST_FUNCTIONS {
        let _ = writeln!(out, "| {} more | | | | |", proven.len() - MOST_FUNCTIONS);
    }
    out.push_str("\n</details>\n");
    out
}

/// Text that is no markup: names come from brokers and networks, and Markdown holds HTML, links and mentions, too.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in sanitise(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // A name with an @ would call somebody, one with a # link to an issue.
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}
