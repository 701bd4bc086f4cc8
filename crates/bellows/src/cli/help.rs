//! `bellows help`: usage of commands, and the documents, which are in the binary.

use std::ffi::OsStr;

use clap::{Args, CommandFactory};
use clap_complete::engine::ArgValueCompleter;
use report::console;

use super::{Cli, complete, grammar, old_names};
use crate::failure::{Done, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  bellows help                       commands and topics
  bellows help getting-started
  bellows help runs prune
  bellows help measurement | less";

/// Two names this alike are taken for a slip of the pen (Jaro-Winkler similarity, 0 to 1).
const ALIKE: f64 = 0.75;

/// A document that is in the binary.
struct Topic {
    name: &'static str,
    /// The file below `docs`.
    file: &'static str,
    text: &'static str,
}

/// A topic with its document.
macro_rules! topic {
    ($name:literal, $file:literal) => {
        Topic {
            name: $name,
            file: $file,
            text: include_str!(concat!("../../../../docs/", $file)),
        }
    };
}

/// The documents by their topics. A topic is called like its file, but where a command has that name.
const TOPICS: [Topic; 36] = [
    topic!("getting-started", "getting-started.md"),
    topic!("experiments", "experiments.md"),
    topic!("keys", "keys.md"),
    topic!("flame-graphs", "experiments/flame-graphs.md"),
    topic!("management-api", "experiments/mgmt-api.md"),
    topic!("metrics-pages", "experiments/scrape-storm.md"),
    topic!("reading-the-report", "reading-the-report.md"),
    topic!("stacks", "stacks.md"),
    topic!("differences", "differences.md"),
    topic!("comparison", "compare.md"),
    topic!("highest-rate", "limit.md"),
    topic!("ci", "ci.md"),
    topic!("continuous", "continuous.md"),
    topic!("metrics", "metrics.md"),
    topic!("probes", "probe.md"),
    topic!("scrapes", "scrape.md"),
    topic!("erlang-nodes", "erlang.md"),
    topic!("profile-formats", "profile-formats.md"),
    topic!("measurement", "measurement.md"),
    topic!("verdict", "verdict.md"),
    topic!("troubleshooting", "troubleshooting.md"),
    topic!("glossary", "glossary.md"),
    topic!("requirements", "requirements.md"),
    topic!("repeats", "repeats.md"),
    topic!("faults", "faults.md"),
    topic!("cluster", "cluster.md"),
    topic!("schedules", "schedules.md"),
    topic!("tls", "tls.md"),
    topic!("connections", "connections.md"),
    topic!("topologies", "topology.md"),
    topic!("perf-test-options", "perf-test.md"),
    topic!("artemis-perf", "artemis-perf.md"),
    topic!("observer-effect", "observer-effect.md"),
    topic!("performance", "performance.md"),
    topic!("run-schema", "run.schema.json"),
    topic!("repeats-schema", "repeats.schema.json"),
];

/// Options of `bellows help`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HelpArgs {
    /// Command, with its subcommand if it has any, or topic; without one, both are listed
    #[arg(value_name = "COMMAND|TOPIC", add = commands_and_topics())]
    names: Vec<String>,
}

impl HelpArgs {
    /// Prints it.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        match self.names.as_slice() {
            [] => output::print(&overview())?,
            [name] if name == "perf-test" => {
                return crate::perf_test::execute(vec!["--help".into()]);
            }
            [name, rest @ ..] => match (document(name), rest) {
                (Some(text), []) => output::print(&shown(name, text))?,
                (Some(_), [extra, ..]) => {
                    let help = format!("`bellows help {name}` prints the whole topic");
                    let cause = format!("the topic {name:?} has no part {extra:?}");
                    return Err(Failure::usage(cause, help).observed(extra));
                }
                (None, _) => {
                    output::print(&usage(&old_names::current_command(&self.names))?)?;
                }
            },
        }
        Ok(Done::Fine)
    }
}

/// The topic of this name, or the one whose file is called so where no command is: `mgmt-api` of `mgmt-api.md`.
fn document(name: &str) -> Option<&'static str> {
    let named = TOPICS.iter().find(|topic| topic.name == name);
    let is_command = || Cli::command().find_subcommand(name).is_some();
    let file = |topic: &&Topic| topic.file.rsplit('/').next() == Some(&format!("{name}.md"));
    let found = named.or_else(|| TOPICS.iter().find(file).filter(|_| !is_command()));
    found.map(|topic| topic.text)
}

/// The topic that a link to a file leads to. A command may have the file's name.
fn topic_of(file: &str) -> Option<&'static str> {
    let is_it = |topic: &&Topic| topic.file.rsplit('/').next() == Some(file);
    TOPICS.iter().find(is_it).map(|topic| topic.name)
}

fn is_schema(name: &str) -> bool {
    name.ends_with("-schema")
}

/// A document for the eye; a schema, which is for programs, as it is.
fn shown(name: &str, text: &str) -> String {
    match is_schema(name) {
        true => text.to_owned(),
        false => console::page(text, topic_of, output::style()),
    }
}

/// Completes commands and topics.
fn commands_and_topics() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let commands = Cli::command();
        let commands = commands.get_subcommands().filter(|it| !it.is_hide_set());
        let named = |it: &clap::Command| {
            let about = it.get_about().map(ToString::to_string);
            (it.get_name().to_owned(), about.unwrap_or_default())
        };
        let commands: Vec<_> = commands.map(named).collect();
        complete::starting_with(typed, commands.into_iter().chain(topics())).collect()
    })
}

/// The topics, each with its title.
fn topics() -> impl Iterator<Item = (String, String)> {
    TOPICS.iter().map(|Topic { name, text, .. }| {
        let title = match *name {
            "run-schema" => "The object that `--json` prints, as a JSON schema",
            "repeats-schema" => "The object that `--repeat` prints with `--json`, as a JSON schema",
            _ => console::page_title(text),
        };
        ((*name).to_owned(), title.to_owned())
    })
}

/// The commands, and the topics.
fn overview() -> String {
    let mut page = String::from("\n# Topics\n\n| | |\n| --- | --- |\n");
    for (name, title) in topics() {
        page.push_str(&format!("| bellows help {name} | {title} |\n"));
    }
    let commands = styled(grammar().render_help());
    format!(
        "{commands}\n{}",
        console::page(&page, topic_of, output::style())
    )
}

fn usage(names: &[String]) -> Result<String, Failure> {
    let mut command = Cli::command();
    command.build();
    let mut found = &mut command;
    for name in names {
        let known: Vec<String> = found
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
            .map(|below| below.get_name().to_owned())
            .collect();
        found = found
            .find_subcommand_mut(name)
            .ok_or_else(|| unknown(name, &known))?;
    }
    Ok(styled(found.render_long_help()))
}

fn unknown(name: &str, commands: &[String]) -> Failure {
    let topics = TOPICS.iter().map(|topic| topic.name);
    let known = commands.iter().map(String::as_str).chain(topics);
    let likeness = |known: &&str| strsim::jaro_winkler(known, name);
    let nearest = known
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .filter(|known| likeness(known) >= ALIKE);
    let help = match nearest {
        Some(known) => format!("did you mean {known:?}? `bellows help` lists commands and topics"),
        None => "`bellows help` lists commands and topics".to_owned(),
    };
    Failure::usage(format!("there is no command and no topic {name:?}"), help).observed(name)
}

fn styled(text: clap::builder::StyledStr) -> String {
    match output::style().colour {
        true => text.ansi().to_string(),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The binary contains all documents.
    #[test]
    fn every_document_is_a_topic() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for entry in std::fs::read_dir(docs).expect("docs").flatten() {
            let path = entry.path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let is_page = path
                .extension()
                .is_some_and(|it| it == "md" || it == "json");
            assert!(
                !is_page || TOPICS.iter().any(|topic| topic.text == text),
                "{} is not in TOPICS",
                path.display()
            );
        }
    }

    #[test]
    fn a_topic_has_no_parts() {
        let names = ["run-schema", "extra"].map(str::to_owned).to_vec();
        match (HelpArgs { names }).execute() {
            Err(Failure::Usage(problem)) => {
                assert!(
                    problem.cause.contains("the topic \"run-schema\""),
                    "{problem}"
                );
                assert_eq!(problem.value, "extra");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_topic_hides_a_command() {
        let command = Cli::command();
        for Topic { name, .. } in TOPICS {
            assert!(command.find_subcommand(name).is_none(), "{name}");
        }
    }

    /// A link in a document leads to another document, never to the options of a command with its file's name.
    #[test]
    fn links_lead_to_topics() {
        for Topic { name, text, .. } in TOPICS {
            let shown = console::page(text, topic_of, console::Style::PLAIN);
            for part in shown.split("(`bellows help ").skip(1) {
                let (target, _) = part.split_once("`)").unwrap_or((part, ""));
                assert!(document(target).is_some(), "{name}: {target}");
            }
            let links = text.split("](").skip(1);
            let targets = links.filter_map(|link| link.split([')', '#']).next());
            // An example is a report with its picture, which a terminal cannot show.
            let is_page = |it: &&str| it.ends_with(".md") && !it.starts_with("http");
            let pages = targets.filter(|it| is_page(it) && !it.starts_with("examples/"));
            for page in pages {
                let file = page.rsplit('/').next().unwrap_or(page);
                assert!(topic_of(file).is_some(), "{name}: {page}");
            }
        }
    }

    /// The help of a command names its document.
    #[test]
    fn the_help_of_a_command_names_topics_that_there_are() {
        fn look(command: &mut clap::Command) {
            let text = command.render_long_help().to_string();
            for part in text.split("`bellows help ").skip(1) {
                let (target, _) = part.split_once('`').unwrap_or((part, ""));
                let target = target.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(document(&target).is_some(), "{target}: {text}");
            }
            for below in command.get_subcommands_mut() {
                look(below);
            }
        }
        look(&mut Cli::command());
    }

    /// Texts that users of the binary read name no file of the checkout.
    #[test]
    fn help_names_no_file_that_only_a_checkout_has() {
        fn look(command: &mut clap::Command) {
            let text = command.render_long_help().to_string();
            assert!(!text.contains("docs/"), "{text}");
            for below in command.get_subcommands_mut() {
                look(below);
            }
        }
        look(&mut Cli::command());
    }
}
