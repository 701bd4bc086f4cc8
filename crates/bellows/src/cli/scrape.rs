//! `scrape`: pages of metrics as data, and what it costs to make them.

use std::path::PathBuf;

use clap::{Args, value_parser};
use measure::{Length, Nanos, Problem, Refused, count, counted};
use report::console::{self, ScrapeRow, SelectedRow};
use report::text::bytes;
use serde::Serialize;
use session::scrape::{
    MOST_SELECTED, Scrape, ScrapePlan, ScrapeSummary, ScrapeUrl, Selector, SeriesSummary,
};

use super::command_line::Url;
use super::secret::secret;
use crate::failure::{Done, Failure};
use crate::{output, signals};

/// Holds the password, or the token where no user is given.
const PASSWORD_VARIABLE: &str = "BELLOWS_SCRAPE_PASSWORD";
/// More often nobody needs a page.
const SHORTEST: Length = Length(Nanos::from_millis(10));

const EXAMPLES: &str = "\
Examples:
  bellows scrape http://localhost:15692/metrics
  bellows scrape http://localhost:15692/metrics/per-object --every 2s --for 20m
  bellows scrape http://a:15692/metrics http://b:15692/metrics --every 2s --for 60
  bellows scrape http://localhost:15692/metrics --for 30 --select 'rabbitmq_global_messages_*_total'
  bellows scrape http://localhost:15692/metrics/per-object --select 'sum(rabbitmq_queue_messages)'

`bellows help scrapes` tells more.";

/// What `bellows scrape` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ScrapeArgs {
    /// Pages in Prometheus' text format or OpenMetrics; several are requested in the same instant
    #[arg(value_name = "URL", required = true, num_args = 1..)]
    urls: Vec<Url>,
    /// Time between two requests of a page, in seconds (or 500ms, 2m)
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "5",
        requires = "length"
    )]
    every: Length,
    /// How long, in seconds (or 500ms, 20m); one request each if absent. A request that is open at the end is waited for, up to
    /// --timeout
    #[arg(
        long = "for",
        visible_alias = "duration",
        id = "length",
        value_name = "DURATION"
    )]
    length: Option<Length>,
    /// Series to show: a name (* and ? are wildcards) and labels, rabbitmq_queue_*{vhost="/",queue=~"q-.*"}, or
    /// 'sum by (LABEL, …) (SERIES)'. May be repeated
    #[arg(long, value_name = "SERIES")]
    select: Vec<Selector>,
    /// Selected series of a page at most
    #[arg(long, value_name = "N", default_value_t = MOST_SELECTED as u32, value_parser = value_parser!(u32).range(1..=10_000))]
    max_series: u32,
    /// The longest that a request may take, its page included
    #[arg(long, value_name = "DURATION", default_value = "60")]
    timeout: Length,
    /// Ask for pages that are not compressed
    #[arg(long)]
    no_gzip: bool,
    /// User of the pages; its password is in BELLOWS_SCRAPE_PASSWORD or a file. Without a user that is a bearer token
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// File that holds the password or token [default: the variable BELLOWS_SCRAPE_PASSWORD]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// PEM file with the authorities to trust, instead of the machine's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print the results as a JSON object
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, env = "BELLOWS_QUIET")]
    quiet: bool,
}

/// The results as data.
#[derive(Serialize)]
struct Results<'a> {
    scrapes: &'a [ScrapeSummary],
}

impl ScrapeArgs {
    /// Scrapes and prints.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let plans = self.plans()?;
        let control = load::Control::new();
        let at_once = signals::stop_load(&control)?;
        let length = self.length.map(|length| length.0);
        let mut said = Said::of(&plans);
        let summaries = session::scrape::scrape(&plans, length, &control, |plan, scrape| {
            let is_news = said.is_news(scrape);
            if is_news && !self.quiet {
                output::line_aside(&told(plan, scrape));
            }
        });
        at_once.check()?;
        let summaries = summaries?;
        if self.json {
            output::print_json(&Results {
                scrapes: &summaries,
            })?;
        } else {
            output::print(&console::scrapes(
                &rows(&summaries),
                &selected(&summaries),
                output::style(),
            ))?;
        }
        match never_came(&summaries) {
            None => Ok(Done::Fine),
            Some(problem) => Err(Failure::BrokeOff(problem)),
        }
    }

    fn plans(&self) -> Result<Vec<ScrapePlan>, Failure> {
        if self.length.is_some_and(|length| length.is_zero()) {
            return Err(Failure::usage(
                "--for 0 requests nothing",
                "give a length, or leave it out for one request",
            ));
        }
        for (option, length, shortest) in [
            ("--every", self.every, SHORTEST),
            ("--timeout", self.timeout, SHORTEST),
        ] {
            if length < shortest {
                let cause = format!("{option} {length} is too short");
                return Err(
                    Failure::usage(cause, format!("give at least {shortest}")).observed(length)
                );
            }
        }
        let password = secret(self.password_file.as_deref(), PASSWORD_VARIABLE)?;
        if self.user.is_some() && password.is_none() {
            let help = format!("set {PASSWORD_VARIABLE}, or name a file with --password-file");
            return Err(Failure::usage("--user needs a password", help));
        }
        let mut plans: Vec<ScrapePlan> = Vec::new();
        for url in &self.urls {
            let url: ScrapeUrl = url.0.parse().map_err(|refused: Refused| {
                Failure::Usage(Problem::new(
                    refused.what,
                    format_args!("{url:?}"),
                    refused.help,
                ))
            })?;
            let same = plans
                .iter()
                .filter(|plan| plan.url.short() == url.short())
                .count();
            let name = match same {
                0 => url.short().to_owned(),
                more => format!("{} ({})", url.short(), more + 1),
            };
            plans.push(ScrapePlan {
                name,
                url,
                every: self.every.0,
                timeout: self.timeout.0,
                select: self.select.clone(),
                most_series: self.max_series as usize,
                gzip: !self.no_gzip,
                user: self.user.clone(),
                password: password.clone(),
                ca: self.ca.clone(),
            });
        }
        Ok(plans)
    }
}

/// Which pages came so far. Of one that never does, the end says why.
struct Said(Vec<bool>);

impl Said {
    fn of(plans: &[ScrapePlan]) -> Self {
        Self(vec![false; plans.len()])
    }

    /// Whether this scrape is told when it ends.
    fn is_news(&mut self, scrape: &Scrape) -> bool {
        let Some(came) = self.0.get_mut(scrape.plan) else {
            return false;
        };
        *came |= scrape.result.is_ok();
        *came
    }
}

/// Why pages never came, once for all of them.
fn never_came(summaries: &[ScrapeSummary]) -> Option<Problem> {
    let mut missing = summaries.iter().filter(|it| it.completed == 0);
    let first = missing.next()?;
    let problem = first.problem.clone().unwrap_or_else(|| {
        let cause = format!("{} was not requested", first.url);
        Problem::new(cause, "stopped before", "scrape for longer")
    });
    Some(match missing.count() {
        0 => problem,
        more => Problem {
            value: format!(
                "{}; and {more} more without a page, see above",
                problem.value
            ),
            ..problem
        },
    })
}

/// One scrape in a line.
fn told(plan: &ScrapePlan, scrape: &Scrape) -> String {
    match &scrape.result {
        // A page without a name of its own is called by its address, which the cause names.
        Err(problem) if problem.cause.contains(&plan.name) => problem.to_string(),
        Err(problem) => format!("{}: {problem}", plan.name),
        Ok(_) => format!(
            "{}: {} series, {} in {}",
            plan.name,
            count(scrape.cost.series),
            bytes(scrape.cost.page_bytes),
            scrape.response(),
        ),
    }
}

fn rows(summaries: &[ScrapeSummary]) -> Vec<ScrapeRow> {
    // That one is told at the end.
    let first = summaries.iter().position(|it| it.completed == 0);
    let row = |(place, summary): (usize, &ScrapeSummary)| ScrapeRow {
        name: summary.name.clone(),
        completed: summary.completed,
        failed: summary.failed,
        not_sent: summary.not_sent,
        response: summary.response.clone(),
        bytes: summary.bytes,
        page_bytes: summary.page_bytes,
        page_bytes_max: summary.page_bytes_max,
        series: summary.series,
        parse_rate: match summary.parse_ns {
            0 => 0.0,
            ns => summary.parsed_bytes as f64 / ns as f64 * 1e9,
        },
        server_cpu_ns: summary.server_cpu_ns,
        notes: notes(summary, first == Some(place)),
    };
    summaries.iter().enumerate().map(row).collect()
}

fn notes(summary: &ScrapeSummary, is_told: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(problem) = summary.problem.as_ref().filter(|_| !is_told) {
        notes.push(format!("last failure: {}", problem.sentence()));
    }
    if summary.unanswered > 0 {
        notes.push(format!(
            "{}: {} had no answer at the end, and counts with the time that it waited",
            summary.name,
            counted(summary.unanswered, "request")
        ));
    }
    let unmatched = summary.unmatched.iter();
    notes.extend(unmatched.map(|what| format!("{}: {what}", summary.name)));
    if let Some(wrong) = &summary.first_wrong {
        notes.push(format!(
            "{}: {} skipped as wrong; the first: {wrong}",
            summary.name,
            counted(summary.wrong_lines, "line")
        ));
    }
    if summary.duplicates > 0 {
        notes.push(format!(
            "{}: {} stood twice on a page; the first value counts",
            summary.name,
            counted(summary.duplicates, "selected value")
        ));
    }
    notes
}

fn selected(summaries: &[ScrapeSummary]) -> Vec<SelectedRow> {
    let of = |summary: &ScrapeSummary| {
        let row = |series: &SeriesSummary| SelectedRow {
            series: series.to_string(),
            page: summary.name.clone(),
            value: series.value,
            rate: series.rate,
        };
        summary.selected.iter().map(row).collect::<Vec<_>>()
    };
    summaries.iter().flat_map(of).collect()
}
