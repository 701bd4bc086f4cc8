//! `runs data`: the data of brokers that experiments prepared.

use std::path::PathBuf;

use clap::Args;
use measure::{Problem, counted};
use report::console;
use session::{PreparedData, PreparedFolder};

use crate::failure::{Done, Failure};
use crate::output;

/// Options of `bellows runs data`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bellows runs data\n  bellows runs data --remove 3f2a9c01d4e5b678\n  bellows runs data --remove all\n\nExperiments with broker.data = \"prepare\" keep it; `bellows help experiments` says what it is for."
)]
pub(super) struct DataArgs {
    /// Remove prepared data: its name, or `all`. May be repeated
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "remove")]
    json: bool,
    /// Folder, where an experiment names one (broker.data-dir)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl DataArgs {
    /// Lists kept data, or removes some.
    pub(super) fn execute(self) -> Result<Done, Failure> {
        let folder = PreparedFolder::of(self.dir.as_deref()).map_err(Failure::Failed)?;
        let kept = folder.list().map_err(Failure::Failed)?;
        if !self.remove.is_empty() {
            return remove(&folder, &kept, &self.remove);
        }
        if self.json {
            output::print_json(&kept)?;
            return Ok(Done::Fine);
        }
        if kept.is_empty() {
            let none = format!("no prepared data in {}\n", folder.dir().display());
            output::print(&none)?;
            return Ok(Done::Fine);
        }
        let rows: Vec<(&str, String)> = kept
            .iter()
            .map(|data| (data.key.as_str(), described(data)))
            .collect();
        output::print(&console::listed(&rows, output::style()))?;
        Ok(Done::Fine)
    }
}

fn described(data: &PreparedData) -> String {
    let what = match data.what.as_str() {
        "" => String::new(),
        what => format!("; {what}"),
    };
    format!(
        "{} of {}, {}, {}{what}",
        megabytes(data.bytes),
        data.broker,
        data.experiment,
        data.created
    )
}

fn remove(
    folder: &PreparedFolder,
    kept: &[PreparedData],
    names: &[String],
) -> Result<Done, Failure> {
    let is_all = names.iter().any(|name| name == "all");
    let is_kept = |name: &&String| kept.iter().any(|data| data.key == **name);
    if let Some(unknown) = names.iter().find(|name| !is_all && !is_kept(name)) {
        return Err(Failure::Failed(Problem::new(
            format!("there is no prepared data {unknown}, and nothing was removed"),
            folder.dir().display(),
            "`bellows runs data` lists what there is",
        )));
    }
    let meant = kept
        .iter()
        .filter(|data| is_all || names.contains(&data.key));
    let (mut number, mut bytes) = (0, 0);
    for data in meant {
        folder.remove(&data.key).map_err(Failure::Failed)?;
        output::print(&format!("{}\n", data.key))?;
        number += 1;
        bytes += data.bytes;
    }
    let folders = counted(number, "folder");
    output::print(&format!("removed {folders}, {}\n", megabytes(bytes)))?;
    Ok(Done::Fine)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
