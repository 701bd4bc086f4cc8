//! Redaction of single texts.

use experiment::TextKind;

use super::experiment::{note_experiment, note_value};
use super::names::Names;
use super::text::{outside, redacted, said};

fn shown(noted: &[(TextKind, &str)], text: &str) -> String {
    let mut names = Names::new(&["demo"]);
    for (kind, name) in noted {
        names.add(*kind, name);
    }
    redacted(&mut names, text)
}

#[test]
fn noted_names_are_replaced_where_they_stand_as_names() {
    for [noted, text, expected] in testkit::table(include_str!("../tests/redact/noted.txt")) {
        let noted = noted.split(" | ").filter_map(|it| it.split_once(' '));
        let kind = |word: &str| TextKind::ALL.into_iter().find(|it| it.name() == word).expect("a kind");
        let noted: Vec<_> = noted.map(|(word, name)| (kind(word), name)).collect();
        assert_eq!(shown(&noted, text), expected, "{text}");
    }
}

#[test]
fn names_of_built_in_experiments_stay_whole_where_a_queue_is_called_as_a_part_of_them() {
    let noted = |text: &str| {
        let mut names = Names::new(&["classic-in-out", "demo"]);
        names.add(TextKind::Queue, "in-out");
        let shown = redacted(&mut names, text);
        (shown.clone(), names.without_phrases(&shown))
    };
    let (shown, checked) = noted("2026-11-26T08-26-06Z-classic-in-out-avug, in-out, CLASSIC-IN-OUT");
    assert_eq!(shown, "2026-11-26T08-26-06Z-classic-in-out-avug, queue-1, CLASSIC-IN-OUT");
    assert!(!checked.contains("in-out"), "{checked}");
    for (text, shown) in [
        // A longer word, a longer name or a node's only has the built-in one in it.
        ("aclassic-in-out", "aclassic-queue-1"),
        ("my-classic-in-out", "my-classic-queue-1"),
        ("classic-in-out-2", "classic-queue-1-2"),
        ("2026-11-26T08-26-06Z-ab-classic-in-out-b49b", "2026-11-26T08-26-06Z-ab-classic-in-out-b49b"),
    ] {
        assert_eq!(noted(text).0, shown);
    }
}

#[test]
fn a_queue_that_is_called_as_a_built_in_experiment_is_told_to_stay_readable() {
    let built_in = [serde_json::json!({ "name": "demo" })];
    let kept = |experiment: &str| {
        let mut names = Names::beside(&built_in);
        names.add(TextKind::Queue, "demo");
        names.add(TextKind::User, "guest");
        names.add(TextKind::Experiment, experiment);
        names.kept().cloned().collect::<Vec<_>>()
    };
    assert_eq!(kept("mine"), ["demo"]);
    assert_eq!(kept("demo"), [""; 0], "the experiment has named it");
}

/// It was `text-2` beside the experiment's name.
#[test]
fn the_description_of_a_built_in_experiment_stays() {
    let told = "Orders of ACME-4711 at noon";
    let built_in = [serde_json::json!({ "name": "demo", "description": told })];
    let shown = |name: &str| {
        let mut names = Names::beside(&built_in);
        note_experiment(&mut names, &serde_json::json!({ "name": name, "description": told }));
        redacted(&mut names, told)
    };
    assert_eq!(shown("demo"), told);
    assert_ne!(shown("mine"), told);
}

#[test]
fn names_are_of_the_kinds_that_the_rows_of_their_keys_say() {
    for [shown, keys] in testkit::table(include_str!("../tests/redact/kinds.txt")) {
        for key in keys.split(' ') {
            let mut names = Names::new(&[]);
            note_value(&mut names, key, "acme-depot");
            assert_eq!(redacted(&mut names, "acme-depot"), shown, "{key}");
        }
    }
}

/// A page lists every figure of a run by its name.
#[test]
fn figures_of_a_probe_have_its_name_whatever_word_it_is() {
    for figure in ["failed", "requests rate", "requests achieved", "response p99", "wait", "wait p99", "page p50"] {
        let mut names = Names::new(&[]);
        names.give(TextKind::Label, "queues");
        assert_eq!(redacted(&mut names, &format!("queues {figure}")), format!("label-1 {figure}"));
    }
}

#[test]
fn addresses_paths_and_nodes_are_known_by_their_form() {
    for [text, expected] in testkit::table(include_str!("../tests/redact/addresses.txt")) {
        assert_eq!(shown(&[], text), expected, "{text}");
    }
}

#[test]
fn of_what_others_say_only_words_that_tell_nothing_are_left() {
    let mut names = Names::new(&[]);
    for [text, expected] in testkit::table(include_str!("../tests/redact/outside.txt")) {
        assert_eq!(outside(&mut names, text), expected);
    }
}

#[test]
fn behind_the_colon_of_a_sentence_stands_what_others_said() {
    for (text, named) in [
        ("the supervisor was restarted: connection refused by acme", "acme"),
        ("connections reconnect: CONNECTION_FORCED - closed by alice", "alice"),
        ("the broker unblocked a connection", "\0"),
    ] {
        assert_eq!(said(&mut Names::new(&[]), text), text.replace(named, "\u{2026}"));
    }
}
