//! `bellows help`: usage of commands, and the documents, which are in the binary.

use std::ffi::OsStr;
use std::slice;

use clap::{Args, CommandFactory};
use clap_complete::engine::ArgValueCompleter;
use report::console;

use super::{Cli, command_line, complete, grammar, old_names};
use crate::{Done, Failure, output, perf_test};

/// Two names this alike are taken for a slip of the pen (Jaro-Winkler similarity, 0 to 1).
const ALIKE: f64 = 0.75;

struct Topic {
    /// The name of the command that it is about, else a name of its own.
    name: &'static str,
    /// The name that it had before, which still finds it; empty where it had none.
    former: &'static str,
    /// The file below `docs`.
    file: &'static str,
    text: &'static str,
}

macro_rules! topic {
    ($name:literal, $file:literal) => {
        topic!($name, $file, "")
    };
    ($name:literal, $file:literal, $former:literal) => {
        Topic { name: $name, former: $former, file: $file, text: include_str!(concat!("../../../../docs/", $file)) }
    };
}

static TOPICS: [Topic; 39] = [
    topic!("getting-started", "getting-started.md"),
    topic!("experiments", "experiments.md"),
    topic!("keys", "keys.md"),
    topic!("flame-graphs", "experiments/flame-graphs.md"),
    topic!("management-api", "experiments/mgmt-api.md"),
    topic!("metrics-pages", "experiments/scrape-storm.md"),
    topic!("matched", "experiments/matched.md"),
    topic!("artemis-cases", "experiments/artemis.md"),
    topic!("reading-the-report", "reading-the-report.md"),
    topic!("stacks", "stacks.md"),
    topic!("diff", "differences.md", "differences"),
    topic!("ab", "compare.md", "comparison"),
    topic!("limit", "limit.md", "highest-rate"),
    topic!("ci", "ci.md"),
    topic!("continuous", "continuous.md"),
    topic!("metrics", "metrics.md"),
    topic!("probe", "probe.md", "probes"),
    topic!("scrape", "scrape.md", "scrapes"),
    topic!("erlang", "erlang.md", "erlang-nodes"),
    topic!("profile-formats", "profile-formats.md"),
    topic!("measurement", "measurement.md"),
    topic!("verdict", "verdict.md"),
    topic!("troubleshooting", "troubleshooting.md"),
    topic!("glossary", "glossary.md"),
    topic!("requirements", "requirements.md"),
    topic!("repeats", "repeats.md"),
    topic!("faults", "faults.md"),
    topic!("cluster", "cluster.md"),
    topic!("fleet", "fleet.md"),
    topic!("schedules", "schedules.md"),
    topic!("tls", "tls.md"),
    topic!("connections", "connections.md"),
    topic!("topology", "topology.md", "topologies"),
    topic!("perf-test", "perf-test.md", "perf-test-options"),
    topic!("artemis", "artemis-perf.md", "artemis-perf"),
    topic!("observer-effect", "observer-effect.md"),
    topic!("performance", "performance.md"),
    topic!("run-schema", "run.schema.json"),
    topic!("repeats-schema", "repeats.schema.json"),
];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows help                       commands and topics
  bellows help getting-started
  bellows help limit                 the usage of a command, and its document
  bellows help runs prune
  bellows help p99                   the pages that mention it")]
pub(crate) struct HelpArgs {
    /// Command, with its subcommand if it has any, topic, or words to search for; without one, commands and topics are
    /// listed
    #[arg(value_name = "COMMAND|TOPIC|WORDS", add = commands_and_topics())]
    names: Vec<String>,
}

impl HelpArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        output::print_paged(&explained(&self.names)?).map(|()| Done::Fine)
    }
}

/// The text for these names: the usage of a command with its document, a topic, or the pages that mention the words.
fn explained(names: &[String]) -> Result<String, Failure> {
    let current = &old_names::current_command(names);
    let [name, rest @ ..] = current.as_slice() else { return Ok(overview()) };
    let page = topic(name).filter(|_| rest.is_empty()).map(shown);
    match (usage(current), page) {
        (Ok(usage), Some(page)) => Ok(format!("{}\n\n{page}", usage.trim_end())),
        (Ok(usage), None) => Ok(usage),
        (Err(_), Some(page)) => Ok(page),
        (Err(unknown), None) if names == ["runs", "export"] => Err(unknown),
        (Err(unknown), None) => found(names).ok_or_else(|| match rest {
            [extra, ..] if topic(name).is_some() && usage(slice::from_ref(name)).is_err() => {
                let help = format!("`bellows help {name}` prints the whole topic");
                let cause = format!("the topic {name:?} has no part {extra:?}");
                Failure::usage(cause, help).observed(extra)
            }
            _ => unknown,
        }),
    }
}

/// The topic that has or had this name, or whose file is called so: `mgmt-api` of `mgmt-api.md`.
fn topic(name: &str) -> Option<&'static Topic> {
    let file = format!("{name}.md");
    let by = |is: &dyn Fn(&Topic) -> bool| TOPICS.iter().find(|topic| is(topic));
    by(&|topic| topic.name == name)
        .or_else(|| by(&|topic| !name.is_empty() && topic.former == name))
        .or_else(|| by(&|topic| topic.file.rsplit('/').next() == Some(file.as_str())))
}

/// The topic that a link to a file leads to.
fn topic_of(file: &str) -> Option<&'static str> {
    let is_it = |topic: &&Topic| topic.file.rsplit('/').next() == Some(file);
    TOPICS.iter().find(is_it).map(|topic| topic.name)
}

fn is_schema(name: &str) -> bool {
    name.ends_with("-schema")
}

/// A document for the eye; a schema, which is for programs, as it is.
fn shown(topic: &Topic) -> String {
    if is_schema(topic.name) { topic.text.to_owned() } else { console::page(topic.text, topic_of, output::style()) }
}

/// Part of a document that mentions words, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MatchKind {
    Title,
    Heading,
    Text,
}

struct Match {
    topic: &'static Topic,
    heading: &'static str,
    kind: MatchKind,
}

fn search(words: &str) -> Vec<Match> {
    let mut found = Vec::new();
    for topic in TOPICS.iter().filter(|topic| !is_schema(topic.name)) {
        let sections = console::page_sections(topic.text).into_iter();
        for (number, (heading, text)) in sections.enumerate() {
            let kind = match (mentions(heading, words), number) {
                (true, 0) => MatchKind::Title,
                (true, _) => MatchKind::Heading,
                (false, _) if mentions(&text, words) => MatchKind::Text,
                (false, _) => continue,
            };
            found.push(Match { topic, heading, kind });
        }
    }
    found.sort_by_key(|it| it.kind);
    found
}

/// Whether words of the text begin with each of these, whatever the case.
fn mentions(text: &str, words: &str) -> bool {
    let (text, words) = (text.to_lowercase(), words.to_lowercase());
    let begins_a_word = |word: &str| {
        let mut places = text.match_indices(word);
        places.any(|(at, _)| text.get(..at).is_some_and(|it| !it.ends_with(char::is_alphanumeric)))
    };
    !words.trim().is_empty() && words.split_whitespace().all(begins_a_word)
}

/// The only page that mentions these words, or the list of those that do; `None` where none does.
fn found(names: &[String]) -> Option<String> {
    let words = names.join(" ");
    let found = search(&words);
    let first = found.first()?;
    if found.iter().all(|it| it.topic.name == first.topic.name) {
        return Some(shown(first.topic));
    }
    let words = console::sanitise(&words);
    let mut page = format!("# Pages that mention {words}\n\n| page | heading |\n| --- | --- |\n");
    for Match { topic, heading, .. } in &found {
        let heading = heading.replace('|', "\\|");
        page.push_str(&format!("| bellows help {} | {heading} |\n", topic.name));
    }
    Some(console::page(&page, topic_of, output::style()))
}

fn commands_and_topics() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let all = Cli::command();
        let about = |it: &clap::Command| it.get_about().map(ToString::to_string).unwrap_or_default();
        let commands = all.get_subcommands().filter(|it| !it.is_hide_set());
        let commands: Vec<_> = commands.map(|it| (it.get_name().to_owned(), about(it))).collect();
        let topics = topics().filter(|(name, _)| all.find_subcommand(name).is_none());
        complete::starting_with(typed, commands.into_iter().chain(topics)).collect()
    })
}

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

fn overview() -> String {
    let mut page = String::from("\n# Topics\n\n| | |\n| --- | --- |\n");
    for (name, title) in topics() {
        page.push_str(&format!("| bellows help {name} | {title} |\n"));
    }
    let commands = styled(grammar().render_help());
    format!("{commands}\n{}", console::page(&page, topic_of, output::style()))
}

fn usage(names: &[String]) -> Result<String, Failure> {
    if names == ["perf-test"] {
        return Ok(perf_test::usage());
    }
    let mut command = Cli::command();
    command.build();
    let mut found = &mut command;
    for name in names {
        let known = found.get_subcommands().filter(|below| !below.is_hide_set());
        let known: Vec<String> = known.map(|below| below.get_name().to_owned()).collect();
        found = found.find_subcommand_mut(name).ok_or_else(|| unknown(name, &known))?;
    }
    Ok(styled(found.render_long_help()))
}

fn unknown(name: &str, commands: &[String]) -> Failure {
    let topics = TOPICS.iter().map(|topic| topic.name);
    let known = commands.iter().map(String::as_str).chain(topics);
    let likeness = |known: &&str| strsim::jaro_winkler(known, name);
    let nearest = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).filter(|known| likeness(known) >= ALIKE);
    let help = match nearest {
        _ if name == "export" => command_line::EXPORTS.to_owned(),
        Some(known) => format!("did you mean {known:?}? `bellows help` lists commands and topics"),
        None => "`bellows help` lists commands and topics".to_owned(),
    };
    Failure::usage(format!("there is no command and no topic {name:?}"), help).observed(name)
}

fn styled(text: clap::builder::StyledStr) -> String {
    if output::style().colour { text.ansi().to_string() } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn text(names: &[&str]) -> Result<String, Failure> {
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        explained(&names)
    }

    fn refused(names: &[&str]) -> measure::Problem {
        match text(names) {
            Err(Failure::Usage(problem)) => problem,
            other => panic!("{other:?}"),
        }
    }

    /// Nothing led to what an idle node holds.
    #[test]
    fn memory_of_an_idle_node_is_found_by_the_words_for_it() {
        for words in [&["idle", "memory"][..], &["idle"], &["memory"], &["hibernation"]] {
            let page = text(words).expect("found");
            let is_told = page.contains("idle memory too") && page.contains("erlang");
            assert!(is_told, "{words:?}: {page}");
        }
    }

    /// "Threshold" is the word of k6 for what `--require` is.
    #[test]
    fn thresholds_lead_to_requirements_and_pipelines() {
        let pages = text(&["threshold"]).expect("found");
        assert!(pages.contains("help requirements") && pages.contains("help ci"), "{pages}");
        let trend = text(&["trend"]).expect("found");
        assert!(trend.contains("runs history") || trend.contains("help ab"), "{trend}");
    }

    #[test]
    fn every_document_is_a_topic() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for entry in std::fs::read_dir(docs).expect("docs").flatten() {
            let path = entry.path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let is_page = path.extension().is_some_and(|it| it == "md" || it == "json");
            assert!(!is_page || TOPICS.iter().any(|topic| topic.text == text), "{} is not in TOPICS", path.display());
        }
    }

    /// Words that begin with a command, a topic or an old name were an error.
    #[test]
    fn words_are_searched_whatever_the_first_one_is() {
        for words in ["probe schedule", "verdict undecided", "history of runs", "report size", "consumer latency"] {
            let found = text(&words.split(' ').collect::<Vec<_>>());
            assert!(found.as_ref().is_ok_and(|it| !it.contains("Usage: bellows")), "{words}: {found:?}");
        }
        let calls = text(&["erlang", "time"]).expect("a text");
        assert!(calls.contains("Usage: bellows erlang calls"), "{calls}");
        assert!(refused(&["runs", "prnue"]).help.contains("\"prune\""));
        assert!(refused(&["runs", "export"]).help.contains("bellows runs show RUN --json"));
        let of_topic = refused(&["run-schema", "extra"]);
        assert!(of_topic.cause.contains("the topic \"run-schema\"") && of_topic.value == "extra", "{of_topic}");
    }

    /// `help limit` printed the usage alone, and the document was called otherwise.
    #[test]
    fn a_command_is_explained_by_its_usage_and_its_document() {
        let [limit, document, of_perf_test] =
            ["limit", "highest-rate", "perf-test"].map(|it| text(&[it]).expect("a text"));
        assert!(limit.contains("Usage: bellows limit") && limit.ends_with(&document), "{limit}");
        assert!(of_perf_test.contains("--producers"), "{of_perf_test}");
        for of in &TOPICS {
            for name in [of.name, of.former] {
                let found = topic(name).map(|it| it.name);
                assert!(name.is_empty() || found == Some(of.name), "{name}: {found:?}");
            }
        }
    }

    #[test]
    fn words_are_searched_in_titles_then_headings_then_text() {
        assert!(mentions("The P99 of it", "p99"));
        assert!(mentions("send, and its delay", "delay send"));
        assert!(!mentions("feedback", "back") && !mentions("all", " "));
        let found = search("latency");
        assert!(found.len() > 3 && found.is_sorted_by_key(|it| it.kind));
        // All words of a title stand on one page alone.
        let only = TOPICS.iter().find(|of| {
            let found = search(console::page_title(of.text));
            let is_title = found.first().is_some_and(|it| it.kind == MatchKind::Title);
            is_title && found.iter().all(|it| it.topic.name == of.name)
        });
        let only = only.expect("a page");
        let title: Vec<&str> = console::page_title(only.text).split(' ').collect();
        assert_eq!(text(&title), Ok(shown(only)));
        assert!(refused(&["mesurement"]).help.contains("\"measurement\""));
    }

    #[test]
    fn links_lead_to_topics() {
        for Topic { name, text, .. } in &TOPICS {
            // A screen on which no cell of a table is broken.
            let style = console::Style { terminal: true, columns: 10_000, ..console::Style::PLAIN };
            let shown = console::page(text, topic_of, style);
            for part in shown.split("(`bellows help ").skip(1) {
                let (target, _) = part.split_once("`)").unwrap_or((part, ""));
                assert!(topic(target).is_some(), "{name}: {target}");
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

    /// The help of a command names its document, and no file that only a checkout has.
    #[test]
    fn the_help_of_a_command_names_topics_that_there_are() {
        fn look(command: &mut clap::Command) {
            let text = command.render_long_help().to_string();
            assert!(!text.contains("docs/"), "{text}");
            for part in text.split("`bellows help ").skip(1) {
                let (target, _) = part.split_once('`').unwrap_or((part, ""));
                let target = target.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(topic(&target).is_some(), "{target}: {text}");
            }
            command.get_subcommands_mut().for_each(look);
        }
        look(&mut Cli::command());
    }
}
