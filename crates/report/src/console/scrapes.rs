//! What scrapes cost, and what they selected.

use archive::ScrapedPage;
use measure::{LatencySummary, count, counted};

use super::table::{Align, FOOTNOTE, Table};
use super::text::{Style, sanitise, wrap};
use crate::numbers::{bytes, duration, marked, rate, value_as_it_is};

/// Selected series that are shown at most.
const MOST_SHOWN: usize = 50;
/// Columns that a page's name keeps where the table is wide.
const LEAST_NAME: usize = 12;
/// What the times are.
const TIMES: &str = "times from when a request was due until its page had been read";
const SIZES: &str = "page size, series and arrived: of a page, the median; arrived: compressed where the server compresses";
const SERVER_CPU: &str =
    "server CPU: all that the server used meanwhile, for whomever, divided by the requests";
const IN_ALL: &str = "page size and arrived: of a page, the median; arrived: compressed where the server compresses, in all: of all requests";

/// The scrapes of a page.
#[derive(Clone, Debug)]
pub struct ScrapeRow {
    /// The page.
    pub name: String,
    /// Requests that brought a page.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were due and not sent.
    pub not_sent: u64,
    /// From when a request was due until its page had been read.
    pub response: LatencySummary,
    /// Bytes of a page as they arrived, the median.
    pub bytes: u64,
    /// Bytes of a page, the median.
    pub page_bytes: u64,
    /// Those of the largest.
    pub page_bytes_max: u64,
    /// Series of a page, the median.
    pub series: u64,
    /// Bytes that were parsed per second of parsing; 0 where nothing was.
    pub parse_rate: f64,
    /// CPU time of the server per request, nanoseconds, where it is known.
    pub server_cpu_ns: Option<u64>,
    /// What is to be said of them: the last failure, the first wrong line.
    pub notes: Vec<String>,
}

/// A selected series.
#[derive(Clone, Debug)]
pub struct SelectedRow {
    /// Its name and labels, as they stand on a page.
    pub series: String,
    /// The page.
    pub page: String,
    /// Its last value.
    pub value: f64,
    /// Growth per second, of a counter.
    pub rate: Option<f64>,
}

/// The table of scrapes, and below it the one of selected series.
#[must_use]
pub fn scrapes(rows: &[ScrapeRow], selected: &[SelectedRow], style: Style) -> String {
    let heads = [
        ("page", Align::Left),
        ("pages", Align::Right),
        ("failed", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("arrived", Align::Right),
        ("page size", Align::Right),
        ("series", Align::Right),
        ("parsed", Align::Right),
        ("server CPU", Align::Right),
    ];
    let mut table = Table::new(&heads);
    for row in rows {
        table.row(cells(row));
    }
    let lines = table.lines_or_turned(style.columns, LEAST_NAME);
    let mut out = lines.join("\n") + "\n";
    let mut say = |text: &str| {
        out.push_str(&(wrap(&sanitise(text), style.prose_columns()).join("\n") + "\n"));
    };
    say(&format!("{TIMES}; {SIZES}"));
    if rows.iter().any(|row| row.server_cpu_ns.is_some()) {
        say(SERVER_CPU);
    }
    if rows
        .iter()
        .any(|row| row.response.count > 0 && !row.response.supports(99.0))
    {
        say(FOOTNOTE);
    }
    for row in rows {
        if row.not_sent > 0 {
            say(&format!(
                "{}: {} due and not sent: the pages before took longer than the time between two",
                row.name,
                counted(row.not_sent, "request")
            ));
        }
        if let Some(largest) = largest(row.page_bytes, row.page_bytes_max) {
            say(&format!("{}: {largest}", row.name));
        }
        row.notes.iter().for_each(|note| say(note));
    }
    if !selected.is_empty() {
        out.push('\n');
        out.push_str(&series(selected, style));
    }
    out
}

/// What stands in a page's row.
fn row(page: &ScrapedPage) -> Vec<String> {
    let time = |ns: u64, percentile: f64| match page.response.count {
        0 => "-".to_owned(),
        _ => marked(ns, page.response.supports(percentile)),
    };
    vec![
        sanitise(&page.name).into_owned(),
        count(page.completed),
        count(page.failed),
        time(page.response.p50_ns, 50.0),
        time(page.response.p99_ns, 99.0),
        match page.response.count {
            0 => "-".to_owned(),
            _ => duration(page.response.max_ns),
        },
        bytes(page.page_bytes),
        // An earlier version wrote none.
        match page.arrived_bytes {
            0 => "-".to_owned(),
            size => bytes(size),
        },
        bytes(page.received_bytes),
    ]
}

/// What is to be known of a page besides.
fn note(page: &ScrapedPage) -> String {
    let missed = [
        (page.unanswered, "had no answer at the end"),
        (
            page.not_sent,
            "were due and not sent: the pages before took longer than the time between two",
        ),
    ];
    let missed = missed.iter().filter(|(number, _)| *number > 0);
    let mut notes: Vec<String> = missed
        .map(|(number, what)| format!("{} {what}", count(*number)))
        .collect();
    // An earlier version wrote the size of the last page alone.
    let is_known = page.page_bytes_max > 0;
    notes.extend(largest(page.page_bytes, page.page_bytes_max).filter(|_| is_known));
    notes.extend(broker_cpu(page));
    notes.join("; ")
}

/// What the pages cost that were requested beside a load, a row each; no lines where there were none.
pub(super) fn pages(pages: &[ScrapedPage], style: Style) -> Vec<String> {
    if pages.is_empty() {
        return Vec::new();
    }
    let heads = [
        ("scraped page", Align::Left),
        ("pages", Align::Right),
        ("failed", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("page size", Align::Right),
        ("arrived", Align::Right),
        ("in all", Align::Right),
    ];
    let mut table = Table::new(&heads);
    let mut weak = false;
    for page in pages {
        weak |= page.response.count > 0 && !page.response.supports(99.0);
        table.row(row(page));
        table.note(note(page));
    }
    let mut lines = table.lines_or_turned(style.columns, LEAST_NAME);
    if let Some(heads) = lines.first_mut() {
        *heads = style.faint(heads);
    }
    lines.extend(
        wrap(&format!("{TIMES}; {IN_ALL}"), style.prose_columns())
            .iter()
            .map(|line| style.faint(line)),
    );
    if weak {
        lines.push(style.faint(FOOTNOTE));
    }
    lines
}

/// What a page costs the broker's CPU, where the broker serves it.
fn broker_cpu(page: &ScrapedPage) -> Option<String> {
    let Some(cpu) = page.broker_cpu else {
        let text = "what a page costs the broker's CPU cannot be told: fewer than 12 pages, one all the time, or other work at the same times";
        return (page.is_of_broker && page.completed > 0).then(|| text.to_owned());
    };
    let (low, high) = cpu.interval;
    let spread = format!("[{}, {}]", seconds(low), seconds(high));
    Some(match low > 0.0 {
        true => format!(
            "a page costs the broker {} of CPU {spread}",
            seconds(cpu.seconds)
        ),
        false => {
            format!("what a page costs the broker's CPU cannot be told from nothing: {spread}")
        }
    })
}

/// Seconds that may be less than nothing.
fn seconds(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "" };
    format!("{sign}{}", duration((seconds.abs() * 1e9) as u64))
}

/// What is to be said of the largest page, where pages were not all alike.
fn largest(median: u64, max: u64) -> Option<String> {
    let (median, max) = (bytes(median), bytes(max));
    (median != max).then(|| format!("the largest page had {max}, the median {median}"))
}

fn cells(row: &ScrapeRow) -> Vec<String> {
    // What came of a request is one thing; how long it waited counts also where no page came.
    let waited = row.response.count > 0;
    let time = |ns: u64, percentile: f64| match waited {
        false => "-".to_owned(),
        true => marked(ns, row.response.supports(percentile)),
    };
    let of_page = |text: String| match row.completed {
        0 => "-".to_owned(),
        _ => text,
    };
    vec![
        sanitise(&row.name).into_owned(),
        count(row.completed),
        count(row.failed),
        time(row.response.p50_ns, 50.0),
        time(row.response.p99_ns, 99.0),
        match waited {
            false => "-".to_owned(),
            true => duration(row.response.max_ns),
        },
        of_page(bytes(row.bytes)),
        of_page(bytes(row.page_bytes)),
        of_page(count(row.series)),
        match row.parse_rate {
            0.0 => "-".to_owned(),
            speed => format!("{}/s", bytes(speed as u64)),
        },
        // What refusing takes is no cost of a page.
        row.server_cpu_ns
            .filter(|_| row.completed > 0)
            .map_or_else(|| "-".to_owned(), |ns| format!("{}/request", duration(ns))),
    ]
}

fn series(selected: &[SelectedRow], style: Style) -> String {
    let mut heads = vec![("series", Align::Left), ("page", Align::Left)];
    // Of a single page it need not be said which.
    let mut pages: Vec<&str> = selected.iter().map(|row| row.page.as_str()).collect();
    pages.dedup();
    if pages.len() < 2 {
        heads.pop();
    }
    heads.extend([("last value", Align::Right), ("rate", Align::Right)]);
    let mut table = Table::new(&heads);
    table.named_by(0);
    let is_cut = selected.len() > MOST_SHOWN;
    let mut shown: Vec<&SelectedRow> = selected.iter().collect();
    if is_cut {
        let size = |row: &SelectedRow| row.rate.unwrap_or(row.value).abs();
        shown.sort_by(|a, b| size(b).total_cmp(&size(a)));
    }
    for row in shown.into_iter().take(MOST_SHOWN) {
        let mut cells = vec![sanitise(&row.series).into_owned()];
        if pages.len() > 1 {
            cells.push(sanitise(&row.page).into_owned());
        }
        cells.extend([
            value_as_it_is(row.value),
            row.rate
                .map_or_else(|| "-".to_owned(), |it| format!("{}/s", rate(it))),
        ]);
        table.row(cells);
    }
    let mut out = table.lines(style.columns).join("\n") + "\n";
    if is_cut {
        out.push_str(&format!(
            "the {MOST_SHOWN} largest of {} series, by their rates and values: --json has all\n",
            count(selected.len() as u64)
        ));
    }
    out
}
