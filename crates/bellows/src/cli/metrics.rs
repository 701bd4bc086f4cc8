//! Options that export a run's series during it.

use clap::Args;
use measure::Refused;
use session::{ExportOptions, Exporter, MetricsTarget};

use super::command_line::Url;
use crate::{Failure, output, prompt};

/// Holds the password or token of the server for metrics.
const TOKEN_VARIABLE: &str = "BELLOWS_METRICS_TOKEN";

#[derive(Debug, Args)]
#[command(next_help_heading = "Metrics while it runs")]
pub(super) struct MetricsArgs {
    /// Serve all series as OpenMetrics at http://HOST:PORT/metrics, for Prometheus; a port alone is of 127.0.0.1
    #[arg(long, value_name = "[HOST:]PORT", env = "BELLOWS_METRICS", value_parser = address)]
    metrics: Option<String>,
    /// Send all series once a second: a path of /write?db=NAME or /api/v2/write?org=ORG&bucket=NAME (InfluxDB), or one
    /// that ends in /v1/metrics (OTLP)
    #[arg(long, value_name = "URL", env = "BELLOWS_METRICS_TO", hide_env_values = true)]
    metrics_to: Option<Url>,
    /// User for that server, whose password is in BELLOWS_METRICS_TOKEN; without a user that is a token
    #[arg(long, value_name = "USER", requires = "metrics_to")]
    metrics_user: Option<String>,
}

/// `HOST:PORT`, or a port of this machine alone.
fn address(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
    match port.parse::<u16>() {
        Ok(_) if !host.is_empty() => Ok(format!("{host}:{port}")),
        _ => Err("write a port (9419), or HOST:PORT".to_owned()),
    }
}

impl MetricsArgs {
    /// Starts the requested exports; `None` without any.
    pub(super) fn start(&self, experiment: &str, quiet: bool) -> Result<Option<Exporter>, Failure> {
        let target = self.metrics_to.as_ref().filter(|url| !url.0.is_empty());
        if self.metrics.is_none() && target.is_none() {
            return Ok(None);
        }
        let parsed = target.map(|url| {
            url.0.parse::<MetricsTarget>().map_err(|refused: Refused| {
                let cause = format!("--metrics-to is no server for metrics: {}", refused.what);
                let failure = Failure::usage(cause, refused.help);
                // Of what is no URL nothing can be told apart, so all of it might be a secret.
                if url.0.contains("://") { failure.observed(format_args!("{url:?}")) } else { failure }
            })
        });
        let secret = prompt::given_secret(None, TOKEN_VARIABLE)?;
        if self.metrics_user.is_some() && secret.is_none() {
            return Err(Failure::usage("--metrics-user needs a password", format!("set {TOKEN_VARIABLE}")));
        }
        let options = ExportOptions {
            listen: self.metrics.clone(),
            target: parsed.transpose()?,
            user: self.metrics_user.clone(),
            secret,
        };
        let exporter = Exporter::start(&options, experiment)?;
        if let Some(url) = exporter.url().filter(|_| !quiet) {
            output::line_aside(&format!("metrics: {url}"));
        }
        Ok(Some(exporter))
    }
}

/// Ends the sending, and reports unsent series.
pub(super) fn finish(exporter: Option<Exporter>) {
    for line in exporter.map(Exporter::finish).into_iter().flatten() {
        output::line_aside(&line);
    }
}
