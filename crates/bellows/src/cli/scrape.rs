//! `scrape`: pages of metrics as data, and the cost of making them.

use std::path::PathBuf;
use std::time::Duration;

use archive::{SeriesName, SeriesPoint};
use clap::builder::FalseyValueParser;
use clap::{Args, value_parser};
use measure::{Interval, Length, Nanos, Phase, Problem, Refused, counted};
use report::console::{self, Live, PageRequests, ScrapeRow, SelectedRow, Shape};
use serde::Serialize;
use web::scrape::{
    MOST_SELECTED, Scrape, ScrapeObserver, ScrapePlan, ScrapeSecond, ScrapeSummary, ScrapeUrl, Selector, SeriesSummary,
};

use super::command_line::Url;
use crate::{Done, Failure, output, prompt, signals};

/// Holds the password, or the token where no user is given.
const PASSWORD_VARIABLE: &str = "BELLOWS_SCRAPE_PASSWORD";
const SHORTEST: Length = Length(Nanos::from_millis(10));

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows scrape http://localhost:15692/metrics
  bellows scrape http://localhost:15692/metrics/per-object --every 2s --duration 20m
  bellows scrape http://a:15692/metrics http://b:15692/metrics --every 2s --duration 60
  bellows scrape http://localhost:15692/metrics --duration 30 --select 'rabbitmq_global_*_total'
  bellows scrape http://localhost:15692/metrics/per-object --select 'sum(rabbitmq_queue_messages)'

`bellows help scrape` tells more.")]
pub(crate) struct ScrapeArgs {
    /// Pages in Prometheus' text format or OpenMetrics; several are requested in the same instant
    #[arg(value_name = "URL", required = true, num_args = 1..)]
    urls: Vec<Url>,
    /// Time from one request of a page to the next, in seconds (or 500ms, 2m)
    #[arg(long, value_name = "DURATION", default_value = "5", requires = "length")]
    every: Length,
    /// How long, in seconds (or 500ms, 20m); one request each if absent. A request that is open at the end is waited
    /// for, up to --timeout
    #[arg(long = "duration", id = "length", value_name = "DURATION")]
    length: Option<Length>,
    /// Series to show: a name (* and ? are wildcards) and labels, rabbitmq_queue_*{vhost="/",queue=~"q-.*"}, or
    /// 'sum by (LABEL, …) (SERIES)'. May be repeated
    #[arg(long, value_name = "SERIES")]
    select: Vec<Selector>,
    /// Selected series of a page at most
    #[arg(long, value_name = "N", default_value_t = MOST_SELECTED as u32,
          value_parser = value_parser!(u32).range(1..=10_000))]
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
    #[arg(long, env = "BELLOWS_QUIET", value_parser = FalseyValueParser::new())]
    quiet: bool,
}

#[derive(Serialize)]
struct Results<'a> {
    scrapes: &'a [ScrapeSummary],
}

impl ScrapeArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let plans = self.plans()?;
        let (control, at_once) = signals::stop_load()?;
        let length = self.length.map(|length| length.0);
        let mut show = Show::new(self.live(&plans), &plans, length, control.clone());
        let summaries = web::scrape::scrape(&plans, length, &control, &mut show);
        if show.close() {
            return Err(Failure::Closed);
        }
        at_once.check()?;
        let summaries = summaries?;
        output::print_result(self.json, &Results { scrapes: &summaries }, |style| {
            console::scrapes(&rows(&summaries), &selected(&summaries), style)
        })?;
        never_came(&summaries).map_or(Ok(Done::Fine), |problem| Err(Failure::BrokeOff(problem)))
    }

    fn live(&self, plans: &[ScrapePlan]) -> Live {
        let about: Vec<String> = plans.iter().map(|plan| plan.url.to_string()).collect();
        let shape = Shape {
            title: "scrape".to_owned(),
            about: about.join(" "),
            measure: self.length.map(|length| length.0),
            ..Shape::default()
        };
        output::live(shape, self.json, self.quiet)
    }

    fn plans(&self) -> Result<Vec<ScrapePlan>, Failure> {
        if self.length.is_some_and(|length| length.is_zero()) {
            let cause = "--duration 0 requests nothing";
            return Err(Failure::usage(cause, "give a length, or leave it out for one request"));
        }
        for (option, length, shortest) in [("--every", self.every, SHORTEST), ("--timeout", self.timeout, SHORTEST)] {
            if length < shortest {
                let cause = format!("{option} {length} is too short");
                return Err(Failure::usage(cause, format!("give at least {shortest}")).observed(length));
            }
        }
        let password = prompt::given_secret(self.password_file.as_deref(), PASSWORD_VARIABLE)?;
        if self.user.is_some() && password.is_none() {
            let help = format!("set {PASSWORD_VARIABLE}, or name a file with --password-file");
            return Err(Failure::usage("--user needs a password", help));
        }
        let mut plans: Vec<ScrapePlan> = Vec::new();
        for url in &self.urls {
            let url: ScrapeUrl = url.0.parse().map_err(|refused: Refused| {
                Failure::Usage(Problem::new(refused.what, format_args!("{url:?}"), refused.help))
            })?;
            let same = plans.iter().filter(|plan| plan.url.short() == url.short()).count();
            let name = match same {
                0 => url.short().to_owned(),
                more => format!("{} ({})", url.short(), more + 1),
            };
            plans.push(ScrapePlan {
                jitter: None,
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

struct Show {
    live: Live,
    control: load::Control,
    /// Whether the last request of each page failed; pages that never came are reported at the end.
    away: Vec<Option<u64>>,
    /// The page that is awaited, where each is requested once.
    once: Option<String>,
    /// When the second before ended.
    before: Nanos,
}

impl Show {
    fn new(mut live: Live, plans: &[ScrapePlan], length: Option<Nanos>, control: load::Control) -> Self {
        let once = length.is_none().then(|| match plans {
            [only] => format!("requesting {}", only.url),
            several => format!("requesting {}", counted(several.len() as u64, "page")),
        });
        match &once {
            Some(step) => live.step(step),
            None => live.phase(Phase::Measure, length),
        }
        for plan in plans {
            live.page(&plan.name, PageRequests::default());
        }
        Self { live, once, control, away: vec![None; plans.len()], before: Nanos::ZERO }
    }

    /// Clears the screen; returns whether the output's reader has gone.
    fn close(&mut self) -> bool {
        self.live.clear();
        self.live.is_closed()
    }
}

impl ScrapeObserver for Show {
    fn scraped(&mut self, plan: &ScrapePlan, scrape: &Scrape) {
        let Some(away) = self.away.get_mut(scrape.plan) else { return };
        match &scrape.result {
            Err(_) if scrape.is_unanswered => {}
            Err(problem) => {
                // The end says why a page that is requested once did not come.
                if away.is_none() && self.once.is_none() {
                    self.live.say(&told(plan, problem));
                }
                *away = Some(away.unwrap_or(0) + 1);
            }
            Ok(_) => {
                if let Some(failed) = away.take() {
                    let times = counted(failed, "request");
                    self.live.say(&format!("{}: a page again, after {times} that failed", plan.name));
                }
                self.live.values(&values(plan, scrape));
            }
        }
    }

    fn second(&mut self, second: &ScrapeSecond<'_>) {
        let elapsed = Duration::from_nanos(second.elapsed.0);
        let open = second.waiting.iter().flatten().count() as u64;
        if let Some(step) = self.once.as_ref() {
            if open > 0 {
                self.live.waiting(step, elapsed);
            }
            return;
        }
        for (page, waiting) in second.pages.iter().zip(second.waiting) {
            let requests = PageRequests { completed: page.completed, failed: page.failed, waiting: *waiting };
            self.live.page(&page.name, requests);
        }
        let point = SeriesPoint {
            t: self.before.as_secs_f64(),
            dt: second.elapsed.saturating_sub(self.before).as_secs_f64(),
            phase: Phase::Measure,
            ..SeriesPoint::default()
        };
        self.before = second.elapsed;
        self.live.point(&point, &Interval::new());
        if second.over > Nanos::ZERO && open > 0 {
            let text = format!("waiting for {}, in flight at the end", counted(open, "request"));
            self.live.waiting(&text, Duration::from_nanos(second.over.0));
        }
        if self.live.is_closed() {
            self.control.stop();
        }
    }
}

/// The values to show of a page: its cost, and the selected series as the page has them.
fn values(plan: &ScrapePlan, scrape: &Scrape) -> Vec<(SeriesName, f64)> {
    let Ok(selected) = &scrape.result else { return Vec::new() };
    let cost = scrape.cost_series(plan).into_iter();
    let selected = selected.iter().map(|it| {
        let (unit, value) = match &it.rate {
            Some(rate) => (rate.unit, rate.per_second),
            None => (it.name.unit, it.value),
        };
        (SeriesName::new(&plan.name, &it.shown, unit), value)
    });
    cost.map(|it| (it.name, it.value)).chain(selected).collect()
}

fn never_came(summaries: &[ScrapeSummary]) -> Option<Problem> {
    let mut missing = summaries.iter().filter(|it| it.completed == 0);
    let first = missing.next()?;
    let problem = first.problem.clone().unwrap_or_else(|| {
        let cause = format!("{} was not requested", first.url);
        Problem::new(cause, "stopped before", "scrape for longer")
    });
    Some(match missing.count() {
        0 => problem,
        more => Problem { value: format!("{}; and {more} more without a page, see above", problem.value), ..problem },
    })
}

fn told(plan: &ScrapePlan, problem: &Problem) -> String {
    // A page without a name of its own is called by its address, which the cause names.
    if problem.cause.contains(&plan.name) { problem.to_string() } else { format!("{}: {problem}", plan.name) }
}

fn rows(summaries: &[ScrapeSummary]) -> Vec<ScrapeRow> {
    // That one is told at the end.
    let first = summaries.iter().position(|it| it.completed == 0);
    let row = |(place, summary): (usize, &ScrapeSummary)| ScrapeRow {
        page: summary.page(),
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
    let name = &summary.name;
    if summary.unanswered > 0 {
        let open = counted(summary.unanswered, "request");
        notes.push(format!("{name}: {open} had no answer at the end, and counts with the time that it waited"));
    }
    notes.extend(summary.unmatched.iter().map(|what| format!("caution: {name}: {what}")));
    // Where a page has only wrong lines, that is why it failed.
    let is_why = |wrong: &&String| summary.problem.as_ref().is_some_and(|it| it.value.contains(wrong.as_str()));
    if let Some(wrong) = summary.first_wrong.as_ref().filter(|it| !is_why(it)) {
        let lines = counted(summary.wrong_lines, "line");
        notes.push(format!("{name}: {lines} skipped as wrong; the first: {wrong}"));
    }
    if summary.duplicates > 0 {
        let values = counted(summary.duplicates, "selected value");
        notes.push(format!("{name}: {values} stood twice on a page; the first value counts"));
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
