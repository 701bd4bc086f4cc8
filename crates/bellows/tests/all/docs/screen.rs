//! Runs a script in a pipe or in a pseudo-terminal of some width, and judges its output: cut words, panics, repeated
//! warnings, and commands that are silent for over a second (in a pipe: two).

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Stands before each command in the output, with its arguments behind it.
const MARK: char = '\u{1e}';
/// Delay that a busy machine adds to the longest silence of a command.
const LATE: Duration = Duration::from_millis(500);
/// Commands that are silent by option, or whose output is another tool's.
const SILENT: [&str; 3] = ["--quiet", "--json", "artemis"];
const TOLD: [&str; 4] = ["invalid: ", "caution: ", "note: ", "warning: "];
/// A path this long is not broken up, for it must be copied whole.
const LONG_PATH: usize = 20;

/// Ends a script's jobs, at the latest after ten seconds: a node that is still starting ignores signals.
const END_JOBS: &str = "set +e; jobs -p | xargs -r kill; \
                        for _ in {1..50}; do [ -n \"$(jobs -pr)\" ] || break; sleep 0.2; done; \
                        jobs -pr | xargs -r kill -9; wait";

/// Where a script's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    Pipe,
    Terminal(usize),
}

/// A script's output, and how it ended.
pub(crate) struct Shown {
    /// `None` where it had to be stopped.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) text: String,
    /// Commands that were silent for too long.
    silences: Vec<String>,
}

/// Runs a script of bash in `folder` with this build's bellows first on the path, for at most `limit`; runs whose
/// phases the script does not set have these `lengths`.
pub(crate) fn play(script: &str, folder: &Path, screen: Screen, lengths: &str, limit: Duration) -> Shown {
    let programs = folder.join(".programs");
    fs::create_dir_all(&programs).expect("folder");
    let marked = format!(
        "#!/bin/sh\n[ -n \"$BELLOWS_WALK\" ] && printf '\\036%s\\n' \"$*\" >&2\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_bellows")
    );
    let wrapper = programs.join("bellows");
    fs::write(&wrapper, marked).expect("wrapper");
    let file = programs.join("script");
    let guarded = format!("trap '{END_JOBS}' EXIT\n{script}");
    fs::write(&file, guarded).expect("script");
    Command::new("chmod").arg("755").arg(&wrapper).status().expect("chmod");

    let run = format!("exec 2>&1; exec bash -euo pipefail {}", file.display());
    let mut command = Command::new(if screen == Screen::Pipe { "bash" } else { "script" });
    if let Screen::Terminal(columns) = screen {
        let inside = format!("stty cols {columns} rows 40; {run}");
        command.args(["--quiet", "--return", "--flush", "--command", &inside, "/dev/null"]);
        command.env("TERM", "xterm-256color").env("SHELL", "/bin/bash");
    } else {
        command.args(["-c", &run]);
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = command
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("BELLOWS_WALK", "1")
        .env("BELLOWS_RUNS", folder.join("runs"))
        .env("XDG_DATA_HOME", folder.join("data"))
        .env("BELLOWS_SET", lengths)
        .env("PAGER", "cat")
        .env("BROWSER", "true")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash, or script of util-linux");
    let mut output = child.stdout.take().expect("piped");
    let (to, chunks) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok(length @ 1..) = output.read(&mut buffer) {
            let _ = to.send((Instant::now(), buffer[..length].to_vec()));
        }
    });
    let mut watch = Watch::new(screen.silence() + LATE);
    let deadline = Instant::now() + limit;
    let mut bytes = Vec::new();
    let mut in_time = true;
    loop {
        match chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((at, chunk)) => {
                watch.chunk(at, &chunk);
                bytes.extend(chunk);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                in_time = false;
                let _ = child.kill();
                break;
            }
        }
    }
    let status = child.wait().expect("wait");
    Shown {
        status: Some(status).filter(|_| in_time),
        text: String::from_utf8_lossy(&bytes).into_owned(),
        silences: watch.silences,
    }
}

/// Notes silences. Those before the next command's mark are the script's own, such as a `sleep`.
struct Watch {
    allowed: Duration,
    command: String,
    last: Instant,
    silences: Vec<String>,
}

impl Watch {
    fn new(allowed: Duration) -> Self {
        Self { allowed, command: "--quiet".to_owned(), last: Instant::now(), silences: Vec::new() }
    }

    fn chunk(&mut self, at: Instant, chunk: &[u8]) {
        let text = String::from_utf8_lossy(chunk);
        let silence = at.duration_since(self.last);
        self.last = at;
        let is_told_so = SILENT.iter().any(|word| self.command.contains(word));
        if silence > self.allowed && !text.starts_with(MARK) && !is_told_so {
            let line = format!("`bellows {}` said nothing for {silence:.1?}", self.command);
            self.silences.push(line);
        }
        if let Some((_, rest)) = text.rsplit_once(MARK) {
            self.command = rest.lines().next().unwrap_or_default().trim().to_owned();
        }
    }
}

impl Screen {
    /// Longest silence of a command. Where each word is a line that stays, there are fewer.
    const fn silence(self) -> Duration {
        match self {
            Self::Pipe => Duration::from_secs(2),
            Self::Terminal(_) => Duration::from_secs(1),
        }
    }
}

impl Shown {
    /// Faults of the output, one per line; empty where all is well.
    pub(crate) fn faults(&self, screen: Screen) -> String {
        let mut faults = String::new();
        for part in self.text.split(MARK).skip(1) {
            let (command, printed) = part.split_once('\n').unwrap_or((part, ""));
            let command = command.trim();
            let lines = lines(printed);
            if printed.contains("panicked at") {
                let _ = writeln!(faults, "`bellows {command}` panicked");
            }
            for warning in told_twice(&lines) {
                let _ = writeln!(faults, "`bellows {command}` says twice: {warning}");
            }
            if let Screen::Terminal(columns) = screen {
                for line in lines.iter().filter(|line| is_cut(command, line, columns)) {
                    let line = &line.shown;
                    let _ = writeln!(faults, "`bellows {command}` at {columns} columns: {line}");
                }
            }
        }
        faults
    }

    /// The commands that were silent for too long. A busy machine makes some of them.
    pub(crate) fn silences(&self) -> String {
        self.silences.join("\n")
    }
}

/// A line as a terminal shows it, without colours and cursor movements.
struct Line {
    shown: String,
    /// Progress, drawn again and again: each of its lines is filled up to the terminal's width, so that several stand
    /// in one.
    is_drawn: bool,
}

fn lines(printed: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    for line in printed.split(['\n', '\r']) {
        let mut shown = String::new();
        let mut is_drawn = false;
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            if character != '\u{1b}' {
                shown.push(character);
            } else if characters.next_if_eq(&'[').is_some() {
                while characters.next_if(|c| !c.is_ascii_alphabetic()).is_some() {}
                is_drawn |= characters.next().is_some_and(|end| end != 'm');
            }
        }
        lines.push(Line { shown, is_drawn });
    }
    lines
}

fn breaks_a_word(line: &str, columns: usize) -> bool {
    let characters: Vec<char> = line.chars().collect();
    let mut edges = (columns..characters.len()).step_by(columns);
    let is_word = |at: usize| characters.get(at).is_some_and(|c| !c.is_whitespace());
    edges.any(|edge| is_word(edge - 1) && is_word(edge))
}

/// Whether its output is for programs.
fn is_data(command: &str) -> bool {
    let folds = command.starts_with("fold ") && !command.contains("--help");
    let writes = command.starts_with("flame ") && command.ends_with(" -o -");
    folds || writes || command.contains("--json")
}

/// Whether the terminal breaks a word of the line, or the line itself cuts one off.
fn is_cut(command: &str, line: &Line, columns: usize) -> bool {
    let Line { shown, is_drawn } = line;
    let line = shown.as_str();
    // Other tools' lines, programs' input and what has to be copied stay whole.
    let has_own_form = ["perf-test", "artemis", "erlang trace", "help run-schema", "help repeats-schema"]
        .iter()
        .any(|start| command.starts_with(start) && !command.contains("--help"))
        || is_data(command);
    let is_code = line.starts_with("    ") && command.starts_with("help");
    // Of a command in the background.
    let is_end = line.starts_with("error: lost the connection");
    let is_example = line.trim_start().starts_with("bellows ");
    // In a row of the end of a command: it stays in one line, and nothing of it may be cut off.
    let ends_in_example = line.rsplit("  ").next().unwrap_or_default().starts_with("bellows ");
    // clap does not break it.
    let is_usage = line.starts_with("Usage: ");
    let last = line.split_whitespace().last().unwrap_or_default();
    let is_path = last.contains('/') && last.chars().count() > LONG_PATH;
    if has_own_form || is_end || is_code || is_example || is_usage || is_path {
        return false;
    }
    let ends_cut = line.trim_end().ends_with('…') && !command.contains("help");
    let is_too_long = match is_drawn {
        _ if ends_in_example => false,
        true => breaks_a_word(line, columns),
        false => line.chars().count() > columns,
    };
    is_too_long || ends_cut
}

/// The warnings that stand there more than once, with the line behind each, into which a terminal may break them.
fn told_twice(lines: &[Line]) -> Vec<String> {
    let shown = || lines.iter().map(|line| line.shown.as_str());
    let behind = shown().skip(1).chain([""]);
    let pairs = shown().zip(behind).map(|(line, next)| (line.trim().trim_start_matches("! "), next));
    let told = pairs.filter(|(line, _)| TOLD.iter().any(|word| line.starts_with(word)));
    let mut told: Vec<String> = told.map(|(line, next)| format!("{line} {}", next.trim())).collect();
    told.sort_unstable();
    let mut twice: Vec<String> =
        told.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone()).collect();
    twice.dedup();
    twice
}

#[test]
fn what_is_wrong_is_found() {
    let shown = |text: &str| Shown { status: None, text: format!("{MARK}demo\n{text}"), silences: Vec::new() };
    let terminal = Screen::Terminal(20);
    for [text, fault] in testkit::table(include_str!("../../data/screens.txt")) {
        let text = &text.replace('␛', "\u{1b}");
        let found = shown(text).faults(terminal);
        assert!(found.contains(fault) && found.is_empty() == fault.is_empty(), "{text}: {found}");
    }
}
