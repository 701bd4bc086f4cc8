//! A run's series in progress, of generator, machine, broker and scraped pages: served as an OpenMetrics page, and
//! pushed to metrics servers. [`Exporter`] stands between the run and its other observers.

mod open_metrics;
mod snapshot;
mod target;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use archive::{Event, SeriesName, SeriesPoint};
use brokers::managed::Progress;
use measure::{Interval, Nanos, Phase, Problem, wall_clock_unix_ns};

use crate::{Error, Observer};
use snapshot::Snapshot;
pub use target::MetricsTarget;
use web::Secret;
use web::http::Login;
use web::page_server::{Page, serve_page};
use web::push::{PushNews, PushServer, PushTexts, Pusher};

const PATH: &str = "/metrics";
const TEXTS: PushTexts = PushTexts {
    one: "set of metrics",
    many: "sets of metrics",
    reach: "check the address of --metrics-to, and that the server runs; the run goes on",
    login: "give --metrics-user, or BELLOWS_METRICS_TOKEN",
    path: "check the path of --metrics-to, and that the database is there",
    size: "raise the server's limit, or select fewer series of scraped pages",
    redirected: "give --metrics-to the new address",
    lost: "the run folder has all of them (metrics.jsonl, series.jsonl)",
    recovered: "the server of --metrics-to accepts metrics again",
};

/// Where series go.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// Where the page is served: `HOST:PORT`.
    pub listen: Option<String>,
    /// The server that gets the series once a second.
    pub target: Option<MetricsTarget>,
    /// The user of that server, where it requires one; the secret is then a password.
    pub user: Option<String>,
    /// A password, or else a token.
    pub secret: Option<Secret>,
}

/// Series of a run on their way out.
#[derive(Debug)]
pub struct Exporter {
    snapshot: Shared,
    url: Option<String>,
    pusher: Option<(MetricsTarget, Pusher)>,
    start_unix_ns: u64,
}

/// Snapshots are served whole: a slow reader holds up nobody.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Arc<Snapshot>>>);

impl Shared {
    fn now(&self) -> Arc<Snapshot> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&held)
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut held));
    }
}

impl Page for Shared {
    fn content_type(&self) -> &'static str {
        open_metrics::CONTENT_TYPE
    }

    fn write(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        open_metrics::write(self.now(), out)
    }
}

impl Exporter {
    /// Serves and sends the series of an experiment's runs. Errors: an address in use, or senseless server options.
    pub fn start(options: &ExportOptions, experiment: &str) -> Result<Self, Error> {
        let snapshot = Shared(Arc::new(Mutex::new(Arc::new(Snapshot::new(experiment)))));
        let url = options.listen.as_ref().map(|address| {
            let served = serve_page(address, PATH, snapshot.clone());
            let refused = format!("cannot serve metrics on {address}");
            served.map_err(|e| Problem::new(refused, e, "choose another HOST:PORT for --metrics"))
        });
        let url = url.transpose()?.map(|address| format!("http://{address}{PATH}"));
        let pusher = options.target.as_ref().map(|target| {
            let (user, secret) = (options.user.clone(), options.secret.clone());
            let login = Login { user, secret, scheme: target.scheme() };
            let server = PushServer { url: target.url().to_owned(), login, tenant: None, texts: TEXTS };
            Pusher::start(server).map(|pusher| (target.clone(), pusher))
        });
        Ok(Self { snapshot, url, pusher: pusher.transpose()?, start_unix_ns: wall_clock_unix_ns() })
    }

    /// Where the page is, where one is served.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// An observer that takes the series, and passes everything on to `next`.
    pub fn observer<'a>(&'a mut self, next: &'a mut dyn Observer) -> impl Observer + 'a {
        Exported { exporter: self, next }
    }

    /// Waits a little for unsent series; returns messages about those that were not sent.
    pub fn finish(self) -> Vec<String> {
        self.pusher.into_iter().flat_map(|(_, pusher)| pusher.finish()).map(|news| told(&news)).collect()
    }

    fn send(&self) {
        if let Some((target, pusher)) = &self.pusher {
            let snapshot = self.snapshot.now();
            pusher.queue(target.request(&snapshot, self.start_unix_ns, wall_clock_unix_ns()));
        }
    }
}

fn told(news: &PushNews) -> String {
    match news {
        PushNews::Failed(problem) => format!("{problem}; {}", problem.help),
        PushNews::Recovered(text) => text.clone(),
    }
}

struct Exported<'a> {
    exporter: &'a mut Exporter,
    next: &'a mut dyn Observer,
}

impl Observer for Exported<'_> {
    fn progress(&mut self, progress: Progress<'_>) {
        self.next.progress(progress);
    }

    fn missing(&mut self, text: &str, waited: Duration) {
        self.next.missing(text, waited);
    }

    fn phase(&mut self, phase: Phase, length: Option<Nanos>) {
        self.next.phase(phase, length);
    }

    fn point(&mut self, point: &SeriesPoint, cumulative: &Interval) {
        self.exporter.snapshot.change(|it| it.set(point));
        self.exporter.send();
        if let Some((_, pusher)) = &self.exporter.pusher {
            for news in pusher.news() {
                self.next.event(&Event { t: point.t + point.dt, label: told(&news) });
            }
        }
        self.next.point(point, cumulative);
    }

    fn interval(&mut self, interval: &Interval) {
        self.exporter.snapshot.change(|it| it.add(interval));
        self.next.interval(interval);
    }

    fn values(&mut self, values: &[(SeriesName, f64)]) {
        self.exporter.snapshot.change(|it| it.tell(values));
        self.next.values(values);
    }

    fn page_failed(&mut self, page: &str) {
        self.next.page_failed(page);
    }

    fn event(&mut self, event: &Event) {
        self.next.event(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Observer for Heard {
        fn page_failed(&mut self, page: &str) {
            self.0.push(page.to_owned());
        }
    }

    #[test]
    fn a_failed_page_is_told_while_series_are_exported() {
        let mut exporter = Exporter::start(&ExportOptions::default(), "test").unwrap();
        let mut heard = Heard::default();
        exporter.observer(&mut heard).page_failed("broker");
        assert_eq!(heard.0, ["broker"]);
    }
}
