//! Every kind of failure has its cause, observed value and remedy in fields of their own.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use experiment::{Experiment, ExperimentError, Origin, read_faults};
use measure::Problem;
use stacks::{FORMATS, Profile, ProfileError};

fn path() -> PathBuf {
    PathBuf::from("/some/where")
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

fn of_load() -> Vec<Problem> {
    let endpoint: load::Endpoint = "amqp://me:s3cret@h/v".parse().expect("an address");
    let endpoint = endpoint.to_string();
    let detail = || "what was observed".to_owned();
    let help = || "what to do".to_owned();
    let kinds = [
        "0".parse::<load::Endpoint>().expect_err("no address"),
        load::Error::Limit(Problem::new("too few", "7", "raise it")),
        load::Error::Connect { endpoint: endpoint.clone(), detail: detail(), help: help() },
        load::Error::Tls { endpoint: endpoint.clone(), detail: detail(), help: help() },
        load::Error::LogIn { endpoint: endpoint.clone(), detail: detail(), help: help() },
        load::Error::Refused {
            endpoint: endpoint.clone(),
            action: "declare a queue".to_owned(),
            detail: detail(),
            help: help(),
        },
        load::Error::TimedOut { endpoint: endpoint.clone(), detail: detail() },
        load::Error::Lost { endpoint: endpoint.clone(), detail: detail() },
        load::Error::Protocol { endpoint, detail: detail() },
        load::Error::Machine { action: "make a timer".to_owned(), detail: detail() },
    ];
    kinds.iter().map(load::Error::problem).collect()
}

fn of_files() -> Vec<Problem> {
    let of_archive = [
        archive::Error::Io { action: "read", path: path(), source: full() },
        archive::Error::NotARun { path: path() },
        archive::Error::UnknownSchema { path: path(), found: "x/9".to_owned(), expected: "x/1" },
        archive::Error::Damaged { path: path(), cause: "line 3".to_owned() },
    ];
    let dir = tempfile::tempdir().expect("a folder");
    let (none, run) = (dir.path().join("none"), dir.path().join("run"));
    let (empty, folded) = (dir.path().join("empty"), run.join("cpu.folded"));
    for folder in [&none, &run] {
        fs::create_dir(folder).expect("a folder");
    }
    for (file, text) in [(&empty, ""), (&folded, "main;work 3\n")] {
        fs::write(file, text).expect("a file");
    }
    let refused = |path: &Path, event| Profile::open_as(&FORMATS, path, event).expect_err("no such profile");
    let of_profiles =
        [refused(&path(), None), refused(&none, None), refused(&run, Some("mmap")), refused(&empty, None)];
    let of_archive = of_archive.iter().map(archive::Error::problem);
    of_archive.chain(of_profiles.iter().map(ProfileError::problem)).collect()
}

fn of_brokers() -> Vec<Problem> {
    let log = "a line of its log".to_owned();
    let kinds = [
        brokers::BrokerError::not_installed("RabbitMQ", &[path()], "install it"),
        brokers::BrokerError::no_erlang(&path(), "/bin"),
        brokers::BrokerError::no_space("RabbitMQ", &path(), 3_000_000, 300_000_000),
        brokers::BrokerError::exited("RabbitMQ", "exit status 1", log.clone()),
        brokers::BrokerError::not_ready("RabbitMQ", Duration::from_secs(60), log),
        brokers::BrokerError::Cancelled,
        brokers::BrokerError::guard("it was killed"),
        brokers::BrokerError::control("its queues and bindings", "no answer within 20 s", true),
        brokers::BrokerError::Fault("the broker is gone".to_owned()),
        brokers::BrokerError::Guard(Problem::io("create", &path(), &full())),
    ];
    kinds.iter().map(brokers::BrokerError::problem).collect()
}

fn of_experiments() -> Vec<Problem> {
    let refused = |text: &str| {
        let read = Experiment::from_toml(text, "x.toml");
        read.and_then(|experiment| experiment.validate()).expect_err(text).problem()
    };
    vec![
        refused("name = "),
        refused("name = 'x'\nraet = 3"),
        refused("name = 'x'"),
        refused("[broker]\nkind = 'attach'\npassword = 12345\nurl = 'amqp://h'"),
        refused("[broker]\nkind = 'embedded'\nschedulers = 2\n[[load]]\ndestinations = ['queue://q']"),
        refused("[[load]]\ndestinations = ['queue://q']\nrate = -1"),
        read_faults("[[fault]]\nkind = 'kill'\nat = '1s'", "faults.toml").expect_err("no process").problem(),
    ]
}

#[test]
fn every_kind_of_failure_has_cause_observed_value_and_remedy() {
    let all = [
        of_load(),
        of_files(),
        vec![profile::no_such_process(7)],
        of_brokers(),
        of_experiments(),
        vec![session::Error::Stopped { during: "warm-up" }.problem()],
    ];
    for problem in all.concat() {
        for (field, text) in [("cause", &problem.cause), ("value", &problem.value), ("help", &problem.help)] {
            assert!(!text.trim().is_empty(), "no {field}: {problem:?}");
            assert!(!text.contains(['\n', '\r']), "{field}: {problem:?}");
        }
        let told = format!("{problem:?}");
        assert!(!told.contains("s3cret") && !told.contains("12345"), "{told}");
    }
}

/// Machines read the fields separately: the first says the error and its place, the second the observed value.
#[test]
fn what_is_wrong_is_the_cause_and_what_was_observed_the_value() {
    let refused = |read: Result<Experiment, ExperimentError>| {
        let problem = read.and_then(|it| it.validate()).expect_err("refused").problem();
        (problem.cause, problem.value)
    };
    let file = |load: &str| Experiment::from_toml(&format!("[[load]]\ndestination = 'queue://q'\n{load}"), "x.toml");
    let typed = file("message-size = 8").map(|it| Experiment { origin: Origin::options(&[]), ..it });
    let set = |assignment| file("").and_then(|mut it| it.set(assignment).map(|()| it));
    let size = "a message of 8 bytes has no room for producer, sequence and time";
    let rate = "a rate is a number per second above 0, such as 20000, 0.5, 2k, 1M or 10/min";
    for (found, cause, value) in [
        (Experiment::built_in("nosuch"), "unknown experiment \"nosuch\"".to_owned(), "nosuch"),
        (typed, format!("--message-size: {size}"), "8"),
        (set("load.0.message-size=8"), format!("--set load.0.message-size=8: {size}"), "8"),
        (set("load.0.rate=abc"), format!("--set load.0.rate=abc: {rate}"), "abc"),
        (file("message-size = 8"), format!("x.toml:3: message-size = 8: {size}"), "8"),
        (file("raet = 8"), "x.toml:3: unknown key \"raet\"".to_owned(), "raet"),
    ] {
        assert_eq!(refused(found), (cause, value.to_owned()));
    }
}

#[test]
fn what_is_no_experiment_is_told_by_key_and_line() {
    for [text, cause, value, help] in testkit::table(include_str!("../data/no-experiments.txt")) {
        let problem = Experiment::from_toml(text, "x.toml").expect_err(text).problem();
        let cause = format!("x.toml:{cause}");
        assert_eq!([problem.cause, problem.value, problem.help], [&*cause, value, help], "{text}");
    }
}
