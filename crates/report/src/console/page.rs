//! A page of the documents on a terminal: the part of Markdown that `docs/` uses, as plain text.

use super::text::{Style, left, width, wrap};

/// Widest line of prose: longer ones are harder to read.
const WIDEST: usize = 100;
/// How far code and the cells of a table that became a list are indented.
const INDENT: usize = 4;
/// Blanks between two columns of a table.
const GAP: usize = 2;

/// The topic of `bellows help` that holds a file, by the file's name: `erlang.md`; `None` where none does.
pub type TopicOf = fn(&str) -> Option<&'static str>;

/// The page as text, ending in a newline. Code keeps its lines, however long; everything else is wrapped.
pub fn page(markdown: &str, topic_of: TopicOf, style: Style) -> String {
    let columns = style.columns.min(WIDEST);
    let mut page =
        Page { columns, table_columns: if style.terminal { style.columns } else { columns }, style, out: Vec::new() };
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() {
            page.blank();
        } else if line.starts_with("```") {
            let code = lines.by_ref().take_while(|line| !line.starts_with("```"));
            page.code(code);
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line, topic_of)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row, topic_of));
            }
            page.table(&rows);
        } else if let Some(heading) = heading(line) {
            page.blank();
            page.out.push(style.strong(&inline(heading, topic_of)));
        } else {
            let mut text = line.trim().to_owned();
            while let Some(next) = lines.next_if(|next| continues(next)) {
                text.push(' ');
                text.push_str(next.trim());
            }
            let indent = line.len() - line.trim_start().len();
            page.prose(&inline(&text, topic_of), indent);
        }
    }
    page.out.join("\n").trim_end().to_owned() + "\n"
}

/// The title of a page: its first heading.
pub fn page_title(markdown: &str) -> &str {
    markdown.lines().find_map(heading).unwrap_or_default()
}

/// The sections of a page: each heading, and the text up to the next as one line.
pub fn page_sections(markdown: &str) -> Vec<(&str, String)> {
    let mut sections: Vec<(&str, String)> = Vec::new();
    let mut is_code = false;
    for line in markdown.lines() {
        is_code ^= line.starts_with("```");
        if let Some(heading) = heading(line).filter(|_| !is_code) {
            sections.push((heading, String::new()));
        } else if let Some((_, text)) = sections.last_mut() {
            text.push(' ');
            text.push_str(line.trim());
        }
    }
    sections
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    text.strip_prefix(' ').filter(|_| text.len() < line.len()).map(str::trim)
}

/// Whether a line goes on with the paragraph before it.
fn continues(line: &str) -> bool {
    let text = line.trim_start();
    !text.is_empty() && !["```", "|", "#"].iter().any(|mark| text.starts_with(mark)) && bullet(text).is_none()
}

/// The mark of a list's entry, as `- ` or `2. `.
fn bullet(text: &str) -> Option<&str> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let marks = text.strip_prefix("- ").map(|_| 2);
    let numbered = text.get(digits..).filter(|rest| digits > 0 && rest.starts_with(". "));
    marks.or(numbered.map(|_| digits + 2)).and_then(|length| text.get(..length))
}

/// The cells of a table's row; `\|` is a bar inside one.
fn cells(row: &str, topic_of: TopicOf) -> Vec<String> {
    let row = row.trim().trim_start_matches('|');
    let row = row.strip_suffix('|').unwrap_or(row);
    let cells = row.replace("\\|", "\u{0}");
    cells.split('|').map(|cell| inline(&cell.replace('\u{0}', "|"), topic_of).trim().to_owned()).collect()
}

/// Text without the marks for bold, and with links in words: another page's is a command.
fn inline(text: &str, topic_of: TopicOf) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, label, target, after)) = link(rest) {
        let picture = before.strip_suffix('!');
        out.push_str(picture.unwrap_or(before));
        let file = target.split('#').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        if picture.is_some() {
            out.push_str(&format!("[picture: {label}]"));
        } else if target.starts_with("http") {
            out.push_str(&format!("{label} ({target})"));
        } else if let Some(topic) = topic_of(file) {
            out.push_str(&format!("{label} (`bellows help {topic}`)"));
        } else {
            out.push_str(label);
        }
        rest = after;
    }
    out.push_str(rest);
    out.replace("**", "")
}

/// The first `[label](target)`, between the text before and after it. Code is left alone.
fn link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let mut from = 0;
    loop {
        let open = from + text.get(from..)?.find('[')?;
        let is_code = text.get(..open)?.matches('`').count() % 2 == 1;
        let found = text.get(open + 1..).and_then(|tail| {
            let (label, tail) = tail.split_once("](")?;
            let (target, after) = tail.split_once(')')?;
            (!label.contains(['[', ']'])).then_some((label, target, after))
        });
        match found {
            Some((label, target, after)) if !is_code => return Some((text.get(..open)?, label, target, after)),
            _ => from = open + 1,
        }
    }
}

/// A page in the making.
struct Page {
    columns: usize,
    table_columns: usize,
    style: Style,
    out: Vec<String>,
}

impl Page {
    fn blank(&mut self) {
        if self.out.last().is_some_and(|line| !line.is_empty()) {
            self.out.push(String::new());
        }
    }

    fn code<'a>(&mut self, lines: impl Iterator<Item = &'a str>) {
        let indent = " ".repeat(INDENT);
        self.out.extend(lines.map(|line| match line {
            "" => String::new(),
            line => format!("{indent}{line}"),
        }));
    }

    /// A paragraph, or an entry of a list, whose lines are indented behind its mark.
    fn prose(&mut self, text: &str, indent: usize) {
        let mark = bullet(text).unwrap_or_default();
        let indent = if mark.is_empty() { 0 } else { indent };
        let rest = text.get(mark.len()..).unwrap_or_default();
        self.hanging(&(" ".repeat(indent) + mark), rest);
    }

    /// Text behind a head; further lines are indented by the head's width.
    fn hanging(&mut self, head: &str, text: &str) {
        let indent = width(head);
        let lines = wrap(text, self.columns.saturating_sub(indent).max(1));
        let mut head = head.to_owned();
        for line in lines {
            self.out.push(format!("{head}{line}"));
            head = " ".repeat(indent);
        }
        if !head.trim().is_empty() {
            self.out.push(head.trim_end().to_owned());
        }
    }

    /// A table, whose cells are wrapped; where the longest words have no room, each row becomes a list of its cells.
    fn table(&mut self, rows: &[Vec<String>]) {
        let [heads, _, rows @ ..] = rows else { return };
        let widest = |of: fn(&str) -> usize| -> Vec<usize> {
            (0..heads.len())
                .map(|i| {
                    rows.iter().chain([heads]).filter_map(|row| row.get(i)).map(|cell| of(cell)).max().unwrap_or(0)
                })
                .collect()
        };
        let longest_words = widest(|cell| cell.split(' ').map(width).max().unwrap_or(0));
        let widths = fitted(&widest(width), &longest_words, self.table_columns);
        let Some(widths) = widths else {
            rows.iter().for_each(|row| self.listed(heads, row));
            return;
        };
        if heads.iter().any(|head| !head.is_empty()) {
            self.aligned(heads, true, &widths);
        }
        rows.iter().for_each(|row| self.aligned(row, false, &widths));
    }

    fn aligned(&mut self, row: &[String], is_head: bool, widths: &[usize]) {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect();
        let lines = cells.iter().map(Vec::len).max().unwrap_or(0);
        for number in 0..lines {
            let parts = cells.iter().zip(widths).map(|(cell, width)| {
                let part = cell.get(number).map_or("", String::as_str);
                left(part, width + GAP)
            });
            let line: String = parts.collect();
            let line = line.trim_end();
            self.out.push(if is_head { self.style.faint(line) } else { line.to_owned() });
        }
    }

    fn listed(&mut self, heads: &[String], row: &[String]) {
        let mut cells = row.iter().zip(heads).filter(|(cell, _)| !cell.is_empty());
        if let Some((first, _)) = cells.next() {
            self.hanging("", first);
        }
        let indent = " ".repeat(INDENT);
        let names = heads.len() > 2;
        for (cell, head) in cells {
            let head = if names && !head.is_empty() { format!("{head}: ") } else { String::new() };
            self.hanging(&indent, &(head + cell));
        }
    }
}

/// Widths of a table's columns, of which `least` hold the longest words: the last takes the remaining room, and where
/// that is less than a third, the widest are narrowed. `None` where even the longest words have no room.
fn fitted(natural: &[usize], least: &[usize], columns: usize) -> Option<Vec<usize>> {
    let room = columns.checked_sub(GAP * natural.len().saturating_sub(1))?;
    let (last, others) = natural.split_last()?;
    let rest = room.saturating_sub(others.iter().sum());
    if rest >= room / 3 && least.last().is_some_and(|least| rest >= *least) {
        return Some([others, &[rest.min(*last)]].concat());
    }
    let at_most = |most: usize| -> Vec<usize> {
        natural.iter().zip(least).map(|(natural, least)| most.clamp(*least, *natural)).collect()
    };
    (1..=natural.iter().max().copied()?).rev().map(at_most).find(|widths| widths.iter().sum::<usize>() <= room)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(columns: usize, markdown: &str) -> String {
        let style = Style { columns, ..Style::PLAIN };
        let topic_of = |file: &str| match file {
            "measurement.md" => Some("measurement"),
            "erlang.md" => Some("erlang-nodes"),
            _ => None,
        };
        page(markdown, topic_of, style)
    }

    #[test]
    fn links_are_commands_and_code_is_left_alone() {
        let text = "See [this](measurement.md#x), [that](#y), [it](https://example.org) and `[[load]](a)`.";
        let expected = "See this (`bellows help measurement`), that, it (https://example.org) and `[[load]](a)`.\n";
        assert_eq!(at(100, text), expected);
        // A topic may be called otherwise than its file, and a file may be none.
        assert_eq!(
            at(100, "[a](../erlang.md#b) [c](grafana/bellows.json) [d](x.md)"),
            "a (`bellows help erlang-nodes`) c d\n"
        );
        assert_eq!(at(100, "![A report](docs/report.png)"), "[picture: A report]\n");
    }

    #[test]
    fn paragraphs_and_lists_are_wrapped_and_code_is_not_and_has_no_sections() {
        let text = "# A page\n\none two\nthree four\n\n- first of\n  all\n- second\n\n```sh\na command\n```\n";
        assert_eq!(at(10, text), "A page\n\none two\nthree four\n\n- first of\n  all\n- second\n\n    a command\n");
        assert_eq!(page_title(text), "A page");
        let text = "# One\n\nfirst\ntext\n```sh\n# no heading\n```\n## Two\n";
        let sections = page_sections(text);
        assert_eq!(sections[0].0, "One");
        assert!(sections[0].1.contains("first text"), "{sections:?}");
        assert!(sections[0].1.contains("# no heading"), "{sections:?}");
        assert_eq!(sections[1..], [("Two", String::new())]);
    }

    #[test]
    fn a_table_is_as_wide_as_the_screen_with_wrapped_cells_and_without_room_becomes_a_list() {
        let text = "| key | type | meaning |\n| --- | --- | --- |\n| rate | number of messages | how many of them |\n";
        let expected = "key   type         meaning\nrate  number of    how many of\n      messages     them\n";
        assert_eq!(at(30, text), expected);
        let long = "word ".repeat(24);
        let wide = |terminal| {
            let style = Style { columns: 140, terminal, ..Style::PLAIN };
            let text = format!("| a | b |\n| --- | --- |\n| c | {long}|\n{long}");
            let page = page(&text, |_| None, style);
            page.lines().map(width).collect::<Vec<_>>()
        };
        assert_eq!(wide(true), [4, 122, 99, 19]);
        assert_eq!(wide(false), [4, 97, 27, 99, 19]);
        let text = "| key | meaning |\n| --- | --- |\n| `a\\|b` | the first one |\n";
        assert_eq!(at(40, text), "key    meaning\n`a|b`  the first one\n");
        assert_eq!(at(16, text), "key    meaning\n`a|b`  the first\n       one\n");
        assert_eq!(at(12, text), "`a|b`\n    the\n    first\n    one\n");
    }
}
