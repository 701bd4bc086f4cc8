//! `open`: the report of a run in a browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use archive::FolderKind;
use clap::Args;

use super::args::RunsDir;
use super::{complete, find};
use crate::failure::{Done, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  bellows open
  bellows open 7k2q

The browser is the command of BROWSER, else xdg-open's. The report's path is printed, too.";

/// Options of `bellows open`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OpenArgs {
    /// Run: path, id, part at either end of its id that only it has, an experiment that ran once, or `last`; or the
    /// folder of runs in turns, or of trials
    #[arg(value_name = "RUN", default_value = find::LAST, add = complete::runs())]
    run: String,
    #[command(flatten)]
    runs: RunsDir,
}

impl OpenArgs {
    /// Prints the report's path and opens it; writes it first where there is none.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let dir = find::folder(&self.run, &self.runs.runs)?;
        let page = dir.join(archive::file::REPORT);
        let page = match page.is_file() {
            true => page,
            false => written(&dir)?,
        };
        output::print(&format!("{}\n", page.display()))?;
        if let Err(why) = show(&page.canonicalize().unwrap_or(page)) {
            output::line_aside(&format!("not opened: {why}"));
        }
        Ok(Done::Fine)
    }
}

/// Writes the report of a run, or of several, into its folder.
fn written(dir: &Path) -> Result<PathBuf, Failure> {
    Ok(match FolderKind::of(dir) {
        Some(FolderKind::Pairs) => report::html::write_comparison(dir)?,
        Some(FolderKind::Limit) => report::html::write_limit(dir)?,
        None => report::html::write_report(dir)?,
    })
}

/// Opens a page; the error says why it is not open.
fn show(page: &Path) -> Result<(), String> {
    let browser = browser(|name| std::env::var(name).ok())?;
    let mut words = browser.split_whitespace();
    let program = words.next().unwrap_or_default();
    match Command::new(program).args(words).arg(page).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// The command line of the browser by the environment's variables.
fn browser(variable: impl Fn(&str) -> Option<String>) -> Result<String, &'static str> {
    let given = |name: &str| variable(name).filter(|it| !it.trim().is_empty());
    let display = || given("WAYLAND_DISPLAY").or_else(|| given("DISPLAY"));
    given("BROWSER")
        .or_else(|| display().map(|_| "xdg-open".to_owned()))
        .ok_or("there is no display, and BROWSER names no browser")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_is_the_named_one_else_the_displays() {
        let of = |given: &[(&str, &str)]| {
            browser(|name| {
                let found = given.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let display = ("DISPLAY", ":0");
        assert_eq!(
            of(&[("BROWSER", "w3m -N"), display]).as_deref(),
            Ok("w3m -N")
        );
        assert_eq!(of(&[("BROWSER", ""), display]).as_deref(), Ok("xdg-open"));
        assert_eq!(
            of(&[("WAYLAND_DISPLAY", "wayland-0")]).as_deref(),
            Ok("xdg-open")
        );
        assert!(of(&[("DISPLAY", "")]).is_err());
    }
}
