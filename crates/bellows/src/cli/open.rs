//! `open`: the report of a run in a browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use archive::FolderKind;
use clap::Args;

use super::args::RunsDir;
use super::{complete, find};
use crate::{Done, Failure, output};

/// Browsers that end later have opened the page.
const AT_ONCE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows open
  bellows open 7k2q

The browser is the first command of BROWSER that opens it: several are parted by colons, and %s stands for the \
report's path. Without BROWSER it is xdg-open's. The path is printed, too.")]
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
        let dir = find::to_draw(&self.run, &self.runs.runs)?;
        let page = dir.join(archive::file::REPORT);
        let page = if page.is_file() { page } else { write_report(&dir)? };
        output::print(&format!("{}\n", page.display()))?;
        let page = page.canonicalize().unwrap_or(page);
        let browsers = browsers(|name| std::env::var(name).ok()).map_err(str::to_owned);
        if let Err(why) = browsers.and_then(|browsers| show(&browsers, &page)) {
            output::line_aside(&format!("not opened: {why}"));
        }
        Ok(Done::Fine)
    }
}

/// Writes the report of a run, or of several, into its folder.
pub(super) fn write_report(dir: &Path) -> Result<PathBuf, Failure> {
    Ok(match FolderKind::of(dir) {
        Some(FolderKind::Pairs) => report::html::write_comparison(dir)?,
        Some(FolderKind::Limit) => report::html::write_limit(dir)?,
        None => report::html::write_report(dir)?,
    })
}

/// Opens a page in the first of several browsers that does; the error says why it is not open.
fn show(browsers: &str, page: &Path) -> Result<(), String> {
    let browsers = browsers.split(':').filter(|it| !it.trim().is_empty());
    let mut failed = Vec::new();
    for browser in browsers {
        match start(browser, page) {
            Ok(()) => return Ok(()),
            Err(why) => failed.push(why),
        }
    }
    Err(failed.join(", "))
}

/// Starts a browser, which may go on for as long as its page is read; the error says why it ended at once.
fn start(browser: &str, page: &Path) -> Result<(), String> {
    // A pipe that it held open would keep its reader waiting.
    let shown = |is_terminal: bool| if is_terminal { Stdio::inherit() } else { Stdio::null() };
    let mut running = Command::new("sh")
        .args(["-c", &script(browser), "sh"])
        .arg(page)
        .stdout(shown(output::style().terminal))
        .stderr(shown(output::style_aside().terminal))
        .spawn()
        .map_err(|error| format!("sh: {error}"))?;
    let started = Instant::now();
    let ended = loop {
        match running.try_wait() {
            Ok(None) if started.elapsed() < AT_ONCE => thread::sleep(POLL),
            ended => break ended,
        }
    };
    match ended {
        Ok(Some(status)) if !status.success() => Err(format!("{} ended with {status}", browser.trim())),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{}: {error}", browser.trim())),
    }
}

/// A browser's command as a script of the shell, whose first argument is the page: in the place of each `%s`, else at
/// the end. Within quotes it is quoted as they need it.
fn script(browser: &str) -> String {
    let mut script = String::new();
    let (mut quote, mut is_escaped, mut has_place) = (None, false, false);
    let mut rest = browser.trim().chars().peekable();
    while let Some(next) = rest.next() {
        if next == '%' && !is_escaped && rest.next_if_eq(&'s').is_some() {
            has_place = true;
            script.push_str(match quote {
                None => "\"$1\"",
                Some('"') => "$1",
                Some(_) => "'\"$1\"'",
            });
            continue;
        }
        match quote {
            _ if is_escaped => {}
            None if matches!(next, '"' | '\'') => quote = Some(next),
            Some(open) if open == next => quote = None,
            _ => {}
        }
        is_escaped = next == '\\' && !is_escaped && quote != Some('\'');
        script.push(next);
    }
    if has_place { script } else { script + " \"$1\"" }
}

/// The commands of browsers, parted by colons, by the environment's variables.
fn browsers(variable: impl Fn(&str) -> Option<String>) -> Result<String, &'static str> {
    let given = |name: &str| variable(name).filter(|it| !it.split(':').all(|it| it.trim().is_empty()));
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
        let of =
            |given: &[(&str, &str)]| browsers(|name| given.iter().find(|it| it.0 == name).map(|it| it.1.to_owned()));
        let display = ("DISPLAY", ":0");
        assert_eq!(of(&[("BROWSER", "w3m -N"), display]).as_deref(), Ok("w3m -N"));
        assert_eq!(of(&[("BROWSER", ""), display]).as_deref(), Ok("xdg-open"));
        assert_eq!(of(&[("WAYLAND_DISPLAY", "wayland-0")]).as_deref(), Ok("xdg-open"));
        assert!(of(&[("DISPLAY", "")]).is_err());
    }

    /// A name with blanks was taken apart, `%s` was handed on, and a list was one program.
    #[test]
    fn the_first_of_several_browsers_that_opens_it_does() {
        let dir = tempfile::tempdir().expect("a folder");
        let page = dir.path().join("a 'b\" $(exit 9);*.html");
        for command in ["cat", "cat %s", "cat \"%s\"", "cat '%s'", "true %s; cat %s"] {
            std::fs::write(&page, command).expect("a page");
            let opened = dir.path().join("opened");
            let browsers = format!(":false: {command} > {}", opened.display());
            assert_eq!(show(&browsers, &page), Ok(()), "{browsers}");
            let opened = std::fs::read_to_string(opened).expect("opened");
            assert_eq!(opened, command);
        }
        let failed = show("false:/nonexistent/browser", &page).expect_err("no browser");
        assert!(failed.contains("false ended with"), "{failed}");
        assert!(failed.contains("/nonexistent/browser ended"), "{failed}");
        assert_eq!(script(r"a \%s '\' %s"), r#"a \%s '\' "$1""#);
    }

    /// `open` and `runs report` choose the report alike: by what the folder holds.
    #[test]
    fn a_folder_is_drawn_as_a_run_unless_it_holds_trials() {
        let dir = tempfile::tempdir().expect("a folder");
        let of_run = report::html::write_report(dir.path()).map(drop).map_err(Failure::from);
        assert_eq!(write_report(dir.path()).map(drop), of_run);
        archive::LimitTrials::default().write(dir.path()).expect("trials");
        assert_ne!(write_report(dir.path()).map(drop), of_run);
    }

    /// `open` came back when the browser was closed.
    #[test]
    fn a_browser_is_not_waited_for() {
        let begun = Instant::now();
        assert_eq!(show("sleep 20; true", Path::new("x.html")), Ok(()));
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
