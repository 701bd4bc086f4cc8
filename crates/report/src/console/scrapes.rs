//! Cost of scrapes, and the series that they selected.

use archive::ScrapedPage;
use measure::{LatencySummary, count, counted};

use super::table::{Table, or_dash, with_heads};
use super::text::{Style, fit_end, sanitise, sentence};
use crate::numbers::{bytes, duration, nonzero, percentile, rate, value_as_it_is};

const MOST_SHOWN: usize = 50;
/// Columns that a page's name keeps where the table is wide.
const LEAST_NAME: usize = 12;
const TIMES: &str = "times: from the due time of a request until its page was read";
const SIZES: &str = "page size, series and arrived: median per page; what arrived may be compressed";
const SERVER_CPU: &str = "server CPU: all CPU of the server meanwhile, divided by the requests";
const IN_ALL: &str = "page size and arrived: median per page; what arrived may be compressed; in all: of all requests";

/// The scrapes of a page.
#[derive(Clone, Debug)]
pub struct ScrapeRow {
    /// The page, and the outcome of its requests.
    pub page: ScrapedPage,
    /// Bytes that were parsed per second of parsing; 0 where nothing was.
    pub parse_rate: f64,
    /// CPU time of the server per request, nanoseconds, where it is known.
    pub server_cpu_ns: Option<u64>,
    /// Remarks: the last failure, the first malformed line.
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
pub fn scrapes(rows: &[ScrapeRow], selected: &[SelectedRow], style: Style) -> String {
    let heads = "page<|pages|failed|p50|p99|max|arrived|page size|series|parse rate|server CPU";
    let mut table = Table::of(heads);
    rows.iter().for_each(|row| table.row(cells(row)));
    // Columns without room stand below the others, and not each in a line of its own.
    table.named_by(0);
    if table.fits(style.columns) {
        table.shorten_first(style.columns, LEAST_NAME, fit_end);
    }
    let mut out = table.lines(style.columns).join("\n") + "\n";
    let mut say = |text: &str| out.push_str(&sentence(text, style));
    say(&format!("{TIMES}; {SIZES}"));
    if rows.iter().any(|row| row.server_cpu_ns.is_some()) {
        say(SERVER_CPU);
    }
    table.footnote(style.columns).into_iter().for_each(&mut say);
    for row in rows {
        let page = &row.page;
        if page.not_sent > 0 {
            say(&format!(
                "{}: {} due and not sent: the pages before took longer than the interval",
                page.name,
                counted(page.not_sent, "request")
            ));
        }
        if let Some(largest) = largest(page.page_bytes, page.page_bytes_max) {
            say(&format!("{}: {largest}", page.name));
        }
        row.notes.iter().for_each(|note| say(note));
    }
    if !selected.is_empty() {
        out.push('\n');
        out.push_str(&series(selected, style));
    }
    out
}

/// A page's row: the first cells of every table, and these.
fn row<const N: usize>(page: &ScrapedPage, further: [String; N]) -> Vec<String> {
    let mut cells = vec![sanitise(&page.name).into_owned(), count(page.completed), count(page.failed)];
    cells.extend(waited(&page.response));
    cells.extend(further);
    cells
}

fn note(page: &ScrapedPage) -> String {
    let mut notes = nonzero(&[
        (page.unanswered, "had no answer at the end"),
        (page.not_sent, "were due and not sent: the pages before took longer than the interval"),
    ]);
    notes.extend(largest(page.page_bytes, page.page_bytes_max));
    notes.extend(broker_cpu(page));
    notes.join("; ")
}

/// Cost of the pages that were requested beside a load, a row each; no lines without any.
pub(super) fn pages(pages: &[ScrapedPage], style: Style) -> Vec<String> {
    if pages.is_empty() {
        return Vec::new();
    }
    let mut table = Table::of("scraped page<|pages|failed|p50|p99|max|page size|arrived|in all");
    for page in pages {
        let arrived = (page.arrived_bytes > 0).then(|| bytes(page.arrived_bytes));
        let [size, all] = [page.page_bytes, page.received_bytes].map(bytes);
        table.row(row(page, [size, or_dash(arrived), all]));
        table.note(note(page));
    }
    let lines = table.lines_or_turned(style.columns, LEAST_NAME);
    let mut lines = with_heads(lines, |heads| style.faint(heads));
    lines.extend(style.faint_prose(&format!("{TIMES}; {IN_ALL}")));
    lines.extend(table.footnote(style.columns).map(|it| style.faint(it)));
    lines
}

/// The 50th and 99th percentile and the maximum of the times that requests waited, also where no page came.
fn waited(response: &LatencySummary) -> [String; 3] {
    match response.count {
        0 => ["-", "-", "-"].map(str::to_owned),
        _ => [percentile(response, "p50"), percentile(response, "p99"), duration(response.max_ns)],
    }
}

/// Cost of a page in the broker's CPU, where the broker serves it.
fn broker_cpu(page: &ScrapedPage) -> Option<String> {
    let Some(cpu) = page.broker_cpu else {
        let text =
            "CPU per page: unknown (fewer than 12 pages, pages without a break, or other work at the same times)";
        return (page.is_of_broker && page.completed > 0).then(|| text.to_owned());
    };
    let (low, high) = cpu.interval;
    let spread = format!("[{}, {}]", seconds(low), seconds(high));
    Some(match low > 0.0 {
        true => format!("CPU per page: {} of the broker {spread}", seconds(cpu.seconds)),
        false => format!("CPU per page: too small to measure {spread}"),
    })
}

/// Seconds that may be less than nothing.
fn seconds(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "" };
    format!("{sign}{}", duration((seconds.abs() * 1e9) as u64))
}

/// Size of the largest page, where sizes differ.
fn largest(median: u64, max: u64) -> Option<String> {
    let is_larger = max > median;
    let [median, max] = [median, max].map(bytes);
    (is_larger && median != max).then(|| format!("the largest page had {max}, the median {median}"))
}

fn cells(row: &ScrapeRow) -> Vec<String> {
    let page = &row.page;
    let of_page = |text: String| or_dash((page.completed > 0).then_some(text));
    let parsed = (row.parse_rate > 0.0).then(|| format!("{}/s", bytes(row.parse_rate as u64)));
    let cpu = row.server_cpu_ns.map(|ns| format!("{}/request", duration(ns)));
    let further = [
        of_page(bytes(page.arrived_bytes)),
        of_page(bytes(page.page_bytes)),
        of_page(count(page.series)),
        or_dash(parsed),
        // The cost of refusals is none of a page.
        of_page(or_dash(cpu)),
    ];
    self::row(page, further)
}

fn series(selected: &[SelectedRow], style: Style) -> String {
    // Of a single page it need not be said which.
    let mut pages: Vec<&str> = selected.iter().map(|row| row.page.as_str()).collect();
    pages.dedup();
    let mut table =
        Table::of(if pages.len() > 1 { "series<|page<|last value|rate" } else { "series<|last value|rate" });
    table.named_by(0);
    let is_cut = selected.len() > MOST_SHOWN;
    let mut shown: Vec<&SelectedRow> = selected.iter().collect();
    if is_cut {
        let size = |row: &SelectedRow| row.rate.unwrap_or(row.value).abs();
        shown.sort_by(|a, b| size(b).total_cmp(&size(a)));
    }
    for row in shown.into_iter().take(MOST_SHOWN) {
        let mut cells = vec![sanitise(&row.series).into_owned()];
        cells.extend((pages.len() > 1).then(|| sanitise(&row.page).into_owned()));
        cells.extend([value_as_it_is(row.value), or_dash(row.rate.map(|it| format!("{}/s", rate(it))))]);
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

#[cfg(test)]
mod tests {
    use testkit::assert_has;

    use super::*;

    #[test]
    fn the_end_of_a_scrape_has_room_on_a_small_screen() {
        let page = ScrapedPage {
            name: "127.0.0.1:15692/metrics/per-object".into(),
            completed: 600,
            failed: 2,
            not_sent: 3,
            arrived_bytes: 1_234_567,
            page_bytes: 34_500_000,
            page_bytes_max: 36_500_000,
            series: 230_123,
            ..ScrapedPage::default()
        };
        let notes = vec!["last failure: no answer".to_owned()];
        let row = ScrapeRow { page, parse_rate: 1.2e8, server_cpu_ns: Some(310_000_000), notes };
        for columns in [80, 120, 200] {
            let text = scrapes(std::slice::from_ref(&row), &[], Style { columns, ..Style::PLAIN });
            assert!(text.lines().count() <= 15, "{columns}: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
            assert_has(&text, ["34.5 MB", "230,123", "310 ms/request", "127.0"]);
        }
    }
}
