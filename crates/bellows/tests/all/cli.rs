//! The command line itself: help, wrong usage, reading kept runs, closed pipes.

use crate::common;

use std::fs;
use std::io::Read;
use std::process::Stdio;

use common::{Broker, bellows, folder, run, start, words};

const COMMANDS: &str = "demo run client artemis perf-test churn probe limit record top ab diff flame broker runs open \
    doctor scrape erlang topology help completions man";

const FOLDED: &str = "\
scheduler;$rabbit_channel:handle_method/3;$rabbit_exchange:route/2 60
scheduler;$rabbit_channel:handle_method/3;$ets:select/2 30
scheduler;[unknown] 10
";

#[test]
fn every_command_explains_itself_with_an_example() {
    let dir = &*folder();
    for command in words(COMMANDS) {
        for flag in ["--help", "-h"] {
            if (command, flag) == ("perf-test", "-h") {
                // PerfTest's -h is the broker's address.
                continue;
            }
            let help = run(dir, &[command, flag]).ok();
            help.prints(["Examples:\n", &format!("  bellows {command}")]);
            let widest = help.stdout.lines().map(|l| l.chars().count()).max();
            assert!(widest <= Some(100), "{command} {flag} wraps at 100 columns: {}", help.stdout);
        }
    }
    let help = run(dir, &["--help"]);
    for command in words(COMMANDS) {
        let about = help.stdout.lines().find(|l| l.trim_start().starts_with(&format!("{command} ")));
        assert!(about.is_some(), "{command} is not listed:\n{}", help.stdout);
    }
    help.prints_not(["__guard"]).prints(["3 a requirement was missed"]);
    let version = run(dir, &["--version"]);
    assert!(version.stdout.starts_with("bellows 0."), "{version:?}");
    // Closed loops have one message in flight, unless another number is given.
    let help = run(dir, &["artemis", "perf", "producer", "--help"]);
    let option = help.stdout.split("--max-pending").nth(1).unwrap_or_default();
    assert!(option.split("--").next().unwrap_or_default().contains("[default: 1]"), "{option}");
}

#[test]
fn wrong_usage_ends_with_2_and_leaves_nothing() {
    let dir = &*folder();
    for line in include_str!("../data/wrong-usage.txt").lines() {
        let ended = run(dir, &words(line)).ends(2);
        assert!(ended.stdout.is_empty() && !ended.stderr.contains("panicked"), "{ended:#?}");
    }
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "something was left");
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
    let dir = &*folder();
    let file = "name = \"x\"\n\n[[load]]\ndestination = \"queue://q\"\nmax-pendign = 5\n";
    fs::write(dir.join("mine.toml"), file).unwrap();
    run(dir, &["run", "mine.toml"])
        .assert_error(2, &["mine.toml:5", "\"max-pendign\""])
        .says(["help: did you mean \"max-pending\"?"]);

    run(dir, &["run", "embedded", "--set", "load.0.raet=5"])
        .assert_error(2, &["--set load.0.raet=5", "\"raet\""])
        .says(["\"rate\""]);

    run(dir, &["run", "stream-publsh"]).assert_error(2, &["stream-publsh"]).says(["\"stream-publish\""]);
    let listed = run(dir, &["run", "--list"]).ok().stdout;
    assert!(listed.lines().any(|line| line.starts_with("stream-publish ")), "{listed}");
}

#[test]
fn profiles_of_other_tools_make_tables_and_flame_graphs() {
    let dir = &*folder();
    fs::write(dir.join("x.folded"), FOLDED).unwrap();
    let parts = ["90.00  ", "$rabbit_channel:handle_method/3", "unknown share 10.00 %"];
    run(dir, &["top", "x.folded", "--sort", "total", "--limit", "1"]).ok().prints(parts);

    let rows = run(dir, &["top", "x.folded", "--grep", r"^\$ets\w*:", "--json"]).json();
    assert_eq!(rows["functions"][0]["function"], "$ets:select/2");
    assert_eq!(rows["functions"].as_array().map(Vec::len), Some(1));
    let language = &rows["language_functions"][0];
    assert_eq!(language["function"], "$ets:select/2");
    assert_eq!(language["classes"][0]["class"], "erlang_code");
    let language = run(dir, &["top", "x.folded"]).stdout;
    let lines: Vec<String> = language.lines().take(4).map(|line| words(line).join(" ")).collect();
    let expected = [
        "total % own C code function",
        "60.00 60.0 $rabbit_exchange:route/2",
        "30.00 30.0 $ets:select/2",
        "10.00 10.0 code without a name",
    ];
    assert_eq!(lines, expected, "{language}");
    run(dir, &["top", "x.folded", "--raw"]).prints(["self %"]);

    let flame = run(dir, &["flame", "x.folded", "-o", "x.svg", "--title", "a title"]).ok();
    assert_eq!(flame.stdout, "x.svg\n");
    testkit::assert_has(fs::read_to_string(dir.join("x.svg")).unwrap(), ["a title", "$rabbit_exchange:route/2"]);
    let piped = run(dir, &["flame", "x.folded", "-o", "-"]);
    assert!(piped.stdout.trim_end().ends_with("</svg>"), "{}", piped.stdout.len());

    // A profile may come through a pipe.
    let shell = std::process::Command::new("bash")
        .args(["-c", "\"$0\" top <(cat x.folded)", env!("CARGO_BIN_EXE_bellows")])
        .current_dir(dir)
        .output()
        .expect("bash");
    assert!(shell.status.success(), "{shell:?}");
    // What is no plain file stays what it is.
    let stdout = run(dir, &["flame", "x.folded", "-o", "/dev/stdout"]);
    assert_eq!(stdout.stdout, piped.stdout);
    run(dir, &["flame", "x.folded", "-o", "/dev/null"]).assert_ok();
    std::os::unix::fs::symlink("x.svg", dir.join("link.svg")).expect("link");
    fs::write(dir.join("x.svg"), "old").expect("file");
    run(dir, &["flame", "x.folded", "-o", "link.svg"]).assert_ok();
    testkit::assert_has(fs::read_to_string(dir.join("x.svg")).expect("drawn"), ["</svg>"]);
    run(dir, &["flame", "x.folded", "-o", "no/such/x.svg"])
        .assert_error(1, &["cannot write no/such/x.svg", "No such file"]);
    run(dir, &["record"]).ends(2).says(["--pid <PID>|--name <NAME>"]);
    for (code, window, why) in [
        (1, ["flame", "--from", "5", "--to", "6"].as_slice(), "no sample of x.folded lies between 5 s and 6 s"),
        (1, &["top", "--from", "900"], "no sample of x.folded lies after 900 s"),
        (2, &["top", "--from", "6", "--to", "5"], "the window from 6 s to 5 s is empty"),
    ] {
        run(dir, &[window, &["x.folded"]].concat()).assert_error(code, &[why]);
    }
}

#[test]
fn runs_that_are_not_there_are_named() {
    let dir = &*folder();
    for args in [
        &["top"] as &[&str],
        &["top", "last"],
        &["flame"],
        &["diff", "--from", "1"],
        &["runs", "show"],
        &["runs", "report"],
    ] {
        run(dir, args).assert_error(1, &["there is no run in runs"]);
    }
    run(dir, &["runs", "report", "7k2q"]).assert_error(1, &["no run or file is named \"7k2q\""]);
    run(dir, &["runs"]).ok().prints(["no runs in runs"]);
    assert_eq!(run(dir, &["runs", "--json"]).stdout, "[]\n");
    fs::create_dir_all(dir.join("empty")).unwrap();
    run(dir, &["runs", "report", "empty"]).assert_error(1, &["empty is not a run"]);
    fs::write(dir.join("junk.folded"), [0xff, 0, 1, 2]).unwrap();
    run(dir, &["top", "junk.folded"]).assert_error(1, &["junk.folded"]);
}

#[test]
fn the_doctor_sees_this_machine() {
    let dir = &*folder();
    let ended = run(dir, &["doctor"]).ok();
    ended.prints([" checks: "]);
    let widest = ended.stdout.lines().map(|l| l.chars().count()).max();
    assert!(widest <= Some(100), "{}", ended.stdout);
    let checks = run(dir, &["doctor", "--json"]).printed();
    assert!(checks.as_array().is_some_and(|c| c.len() >= 5), "{checks}");
    start(bellows(dir, &["doctor", "--calibrate", "--show"]).env("XDG_DATA_HOME", dir))
        .end()
        .assert_error(1, &["nothing is kept for this machine"])
        .says(["help: run `bellows doctor --calibrate`"]);
}

/// The shells that `completions` and the documentation name.
const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];

#[test]
fn completions_and_manual_cover_every_command() {
    let dir = &*folder();
    for shell in SHELLS {
        run(dir, &["completions", shell]).ok().prints(["BELLOWS_COMPLETE"]);
        let commands = completed(dir, shell, &[""]);
        for command in words(COMMANDS) {
            assert!(commands.contains(command), "{shell} {command}: {commands}");
        }
        assert!(!commands.contains("__guard"), "{shell}: {commands}");
    }
    let page = run(dir, &["man"]);
    assert!(page.stdout.contains(".TH bellows"), "{page:?}");
    run(dir, &["man", "--out", "man1"]).assert_ok();
    assert!(dir.join("man1/bellows-client.1").is_file());
    for page in fs::read_dir(dir.join("man1")).unwrap().flatten() {
        let text = fs::read_to_string(page.path()).unwrap();
        let leaks = text.contains("__guard") || page.path().to_string_lossy().contains("guard");
        assert!(!leaks, "{page:?}");
    }
}

fn completed(dir: &std::path::Path, shell: &str, words: &[&str]) -> String {
    let mut args = vec!["--", "bellows"];
    args.extend(words);
    let mut command = bellows(dir, &args);
    command.env("BELLOWS_COMPLETE", shell).env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    start(command).end().ok().stdout
}

#[test]
fn shells_complete_experiments_runs_and_the_options_of_perf_test() {
    let dir = &*folder();
    fs::write(dir.join("mine.toml"), "").unwrap();
    let broker = Broker::start(dir);
    run(dir, &["client", "--url", &broker.url, "--message-count", "10", "--quiet"]).assert_ok();
    let id = common::only_run(dir);
    let id = id.file_name().unwrap().to_str().unwrap();
    let (_, short) = id.split_once("Z-").unwrap();
    for shell in SHELLS {
        for [words, offered] in testkit::table(include_str!("../data/completed.txt")) {
            let words = words.replace("SHORT", &short[..3]);
            let words: Vec<&str> = words.split(' ').collect();
            let offered = offered.replace("ID", id).replace("SHORT", short);
            let all = completed(dir, shell, &words);
            let found = all.lines().any(|line| line.trim().starts_with(&offered));
            assert!(found, "{shell} {words:?}: {all}");
        }
    }
    // As bash itself does it.
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_bellows"));
    let script = "eval \"$(bellows completions bash)\"; COMP_WORDS=(bellows run stream-p); COMP_CWORD=2; \
                  _clap_complete_bellows bellows stream-p run; echo \"${COMPREPLY[@]}\"";
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", script]);
    let path = std::env::var("PATH").unwrap_or_default();
    bash.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    let ended = start(bash).end();
    assert_eq!(ended.stdout, "stream-publish\n", "{ended:?}");
}

/// Zsh loads the installed file at its first completion, and those were missing.
#[test]
fn zsh_completes_from_the_first_time_on() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_bellows"));
    let dir = &*folder();
    let script = run(dir, &["completions", "zsh"]);
    fs::write(dir.join("_bellows"), script.stdout).unwrap();
    let mut zsh = std::process::Command::new("zsh");
    let line = "compdef() {}; _describe() { print -l ${(P)argv[-1]} }; fpath=(. $fpath); autoload -U _bellows; \
                words=(bellows run str); CURRENT=3; _bellows; print again; _bellows";
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    zsh.args(["-fc", line]).current_dir(dir).env("PATH", path);
    let Ok(ended) = zsh.output() else {
        testkit::skip!("zsh is not installed: apt-get install zsh");
    };
    let said = String::from_utf8_lossy(&ended.stdout);
    let (first, again) = said.split_once("again\n").unwrap_or_default();
    assert!(first.starts_with("stream-publish:"), "{ended:?}");
    assert_eq!(first, again, "{ended:?}");
}

#[test]
fn an_error_about_the_command_line_is_json_where_everything_is() {
    let dir = &*folder();
    for args in [
        &["client", "--json", "--rate", "fast"] as &[&str],
        &["run", "--json"],
        &["demo", "--json", "--no-such-option"],
    ] {
        let ended = run(dir, args).ends(2);
        let value = ended.printed();
        let cause = value["error"]["cause"].as_str().unwrap();
        assert!(!cause.is_empty() && !cause.contains("error:"), "{value}");
        assert!(value["error"]["help"].as_str().unwrap().contains("--help"), "{value}");
        assert!(ended.stderr.starts_with("error: "), "{ended:?}");
    }
    // These have their own, which takes a file.
    let ended = run(dir, &["artemis", "perf", "client", "--json"]);
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let dir = &*folder();
    fs::write(dir.join("x.folded"), FOLDED).unwrap();
    for args in [&["--help"] as &[&str], &["completions", "bash"], &["top", "x.folded"], &["doctor"]] {
        let mut command = bellows(dir, args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{args:?}: {stderr}");
        assert_eq!(stderr, "", "{args:?}");
    }
}

#[test]
fn the_broker_says_when_it_is_ready_and_ends_with_its_signals() {
    let dir = &*folder();
    for name in ["INT", "TERM"] {
        let broker = start(bellows(dir, &["broker", "--listen", "127.0.0.1:0"]));
        // It says so at once; the signal must find its handlers in place.
        std::thread::sleep(std::time::Duration::from_millis(500));
        broker.signal(name);
        let ended = broker.end().ok();
        assert!(ended.says(["nothing survives"]).stdout.starts_with("ready amqp://127.0.0.1:"), "{ended:?}");
    }
    let broker = Broker::start(dir);
    run(dir, &["broker", "--listen", broker.address()]).assert_error(1, &["cannot listen on", broker.address()]);
}

const TIERS: [&str; 4] = ["invalid: ", "caution: ", "note: ", "! "];

/// At an unreachable rate, so that there is a warning: once, with the verdict that it refers to, and without steps that
/// do not happen.
#[test]
fn a_warning_is_told_once_and_the_verdict_that_it_names_is_there() {
    let (broker, dir) = &common::broker_in_folder();
    let url = &broker.url;
    for line in [
        format!("client queue://once --url {url} --rate 50000000 --duration 1 --warmup 0"),
        format!("perf-test -h {url} -r 50000000 -z 1"),
        format!("artemis perf client --url {url} --rate 50000000 --duration 1 --warmup 0 queue://once"),
    ] {
        // A rate that is not met is no failure of the run.
        let ended = run(dir, &words(&line)).ok();
        let text = format!("{}{}", ended.stdout, ended.stderr);
        let mut warnings: Vec<&str> =
            text.lines().filter(|line| TIERS.iter().any(|tier| line.starts_with(tier))).collect();
        assert!(!warnings.is_empty(), "{line}: {text}");
        warnings.sort_unstable();
        assert!(warnings.windows(2).all(|two| two[0] != two[1]), "{line}: {text}");
        let named = !text.contains("see the verdict") || text.contains("\nverdict: ") || text.contains("\nlimited by ");
        assert!(named && !text.contains("the profiler"), "{line}: {text}");
    }
}

/// Copying a built-in experiment took a checkout.
#[test]
fn an_experiment_is_printed_as_it_is_or_as_options_change_it() {
    let dir = &*folder();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/demo.toml");
    let own = fs::read_to_string(file).unwrap();
    let printed = run(dir, &["run", "demo", "--print"]).ok();
    assert_eq!(printed.stdout, own);
    fs::write(dir.join("own.toml"), &own).unwrap();
    let args = ["run", "own.toml", "--print", "--rate", "5", "--duration", "2s", "--require", "lost = 0"];
    let changed = run(dir, &args).ok();
    let read = experiment::Experiment::from_toml(&changed.stdout, "printed").unwrap();
    assert_eq!(read.load[0].rate.map(|rate| rate.get()), Some(5.0));
    assert_eq!([read.phases.measure.to_string(), read.require[0].that.to_string()], ["2s", "lost = 0"]);
    assert!(!dir.join(common::RUNS).exists());
}

#[test]
fn a_report_is_opened_or_named() {
    let dir = &*folder();
    run(dir, &words("demo --no-profile --quiet --set phases.warmup=0s --rate 100 --duration 300ms")).assert_ok();
    let kept = common::only_run(dir);
    let record = common::record(dir);
    assert_eq!(record["experiment"]["load"][0]["rate"], 100.0);
    assert_eq!(record["experiment"]["phases"]["measure"], "300ms");
    let page = kept.join("report.html");
    fs::remove_file(&page).unwrap();
    let open = |browser: Option<&str>| {
        let mut command = bellows(dir, &["open"]);
        for name in ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY"] {
            command.env_remove(name);
        }
        command.envs(browser.map(|it| ("BROWSER", it)));
        let ended = start(command).end().ok();
        assert!(ended.stdout.contains("report.html\n"), "{ended:?}");
        ended
    };
    open(None).says(["BROWSER names no browser"]);
    assert!(page.is_file());
    let opened = open(Some("no-such-browser:echo opened %s > opened"));
    assert_eq!(opened.stderr, "");
    let shown = fs::read_to_string(dir.join("opened")).unwrap();
    assert!(shown.starts_with("opened /"), "{shown}");
    for broken in ["/nonexistent/browser", "false"] {
        open(Some(broken)).says(["not opened: "]);
    }
}

/// A page of help is longer than a screen, and its beginning was gone.
#[test]
fn long_help_goes_through_the_pager_of_a_terminal() {
    let dir = &*folder();
    let shown = |pager: &str| {
        let program = env!("CARGO_BIN_EXE_bellows");
        let inside = format!("stty cols 80 rows 20; exec {program} help limit");
        let mut command = std::process::Command::new("script");
        command
            .args(["--quiet", "--return", "--command", &inside, "/dev/null"])
            .current_dir(dir)
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .env("PAGER", pager)
            .stdin(Stdio::null());
        start(command).end().ok().stdout
    };
    let paged = shown("sed s/^/page:/");
    assert!(paged.starts_with("page:"), "{paged}");
    fs::write(dir.join("no-program"), "").unwrap();
    for plain in ["", "no-such-pager-at-all", "./no-program"] {
        let text = shown(plain);
        assert!(text.contains("Usage:") && !text.contains("page:"), "{text}");
    }
    // Left early.
    assert!(!shown("head -n 3").is_empty());
    run(dir, &["help", "p99"]).ok().prints(["bellows help requirements"]);
}
