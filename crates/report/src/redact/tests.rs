//! Redaction of single texts.

use super::experiment::note_experiment;
use super::names::{NameKind, Names};
use super::text::{outside, redacted, said};

fn shown(noted: &[(NameKind, &str)], text: &str) -> String {
    let mut names = Names::new(&["demo"]);
    for (kind, name) in noted {
        names.add(*kind, name);
    }
    redacted(&mut names, text)
}

#[test]
fn noted_names_are_replaced_where_they_stand_as_names() {
    use NameKind::{Experiment, Label, Queue, Text, User, VirtualHost};
    let orders = &[(Queue, "orders"), (Queue, "orders.eu"), (VirtualHost, "shop")];
    let secret = &[(Queue, "secret-orders")];
    // Words of every report.
    let words = &[(Queue, "test"), (Queue, "a")];
    // Somebody's queue may be called as its kind is; paths of every broker are nobody's.
    let kinds = &[(Queue, "classic"), (Label, "per-object"), (Label, "/metrics/per-object"), (Text, "quorum")];
    let pages = &[(Label, "/metrics of node 0"), (Label, "shop of node 0"), (Label, "shop of node 1")];
    // An apostrophe in a word quotes nothing.
    let log = "look for a queue's limits and its leader, and into the broker's log";
    type Case<'a> = (&'a [(NameKind, &'a str)], &'a str, &'a str);
    let cases: [Case<'_>; 15] = [
        (
            orders,
            "queue orders.eu and orders in shop, ORDERS, bookshop, reorders",
            "queue queue-1 and queue-2 in vhost-1, queue-2, bookshop, reorders",
        ),
        // Eight characters and more are found within words, too; numbered queues are different queues.
        (secret, "xsecret-ordersx", "xqueue-1x"),
        (secret, "secret-orders secret-orders2 secret-orders12 secret-orders2", "queue-1 queue-2 queue-3 queue-2"),
        // One that looks like a pseudonym has one of its own.
        (&[(Queue, "queue-1"), (Queue, "payments")], "payments, queue-1", "queue-2, queue-3"),
        (
            words,
            "a test of queue test, of 'a' and queue://test",
            "a test of queue queue-1, of 'queue-2' and queue://queue-1",
        ),
        (words, "test", "queue-1"),
        // Names that every broker has stay.
        (&[(VirtualHost, "/"), (User, "guest"), (Experiment, "demo")], "guest in / of demo", "guest in / of demo"),
        // In addresses they stand behind percent signs.
        (
            &[(Queue, "my orders"), (Queue, "ä/b")],
            "http://localhost:1/api/queues/%2F/my%20orders my%20orders %C3%A4%2Fb",
            "http://localhost:1/api/queues/%2F/queue-1 queue-1 queue-2",
        ),
        (kinds, "classic", "queue-1"),
        (kinds, "/metrics/per-object", "/metrics/per-object"),
        (kinds, "quorum", "quorum"),
        (
            pages,
            "/metrics of node 0, shop of node 0, shop of node 1",
            "/metrics of node 0, label-1 of node 0, label-1 of node 1",
        ),
        (&[], "a{queue=\"x of node 0\"}", "a{queue=\"label-1\"}"),
        (&[], log, log),
        (&[], "no queue 'orders'", "no queue 'queue-1'"),
    ];
    for (noted, text, expected) in cases {
        assert_eq!(shown(noted, text), expected, "{text}");
    }
}

#[test]
fn names_of_built_in_experiments_stay_whole_where_a_queue_is_called_as_a_part_of_them() {
    let noted = |text: &str| {
        let mut names = Names::new(&["classic-in-out", "demo"]);
        names.add(NameKind::Queue, "in-out");
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
        names.add(NameKind::Queue, "demo");
        names.add(NameKind::User, "guest");
        names.add(NameKind::Experiment, experiment);
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

/// A page lists every figure of a run by its name.
#[test]
fn figures_of_a_probe_have_its_name_whatever_word_it_is() {
    for figure in ["failed", "requests rate", "requests achieved", "response p99", "wait", "wait p99", "page p50"] {
        let mut names = Names::new(&[]);
        names.give(NameKind::Label, "queues");
        assert_eq!(redacted(&mut names, &format!("queues {figure}")), format!("label-1 {figure}"));
    }
}

#[test]
fn addresses_paths_and_nodes_are_known_by_their_form() {
    for (text, expected) in [
        ("amqp://alice:x@db.corp:5672/shop down", "amqp://user-1@host-1:5672/vhost-1 down"),
        ("amqp://guest@localhost:5672/", "amqp://guest@localhost:5672/"),
        ("http://db.corp:15672/api/queues/shop?name=o", "http://host-1:15672/api/queues/path-1?text-1"),
        ("GET /metrics/per-object", "GET /metrics/per-object"),
        // Fields that a page is asked for stay.
        ("GET /api/queues?columns=name,messages_ready at 1 s", "GET /api/queues?columns=name,messages_ready at 1 s"),
        ("GET /metrics/detailed?family=queue_metrics&page=2", "GET /metrics/detailed?family=queue_metrics&page=2"),
        ("GET /api/queues?name=orders", "GET /api/queues?text-1"),
        ("GET /api/queues?columns=Orders-7", "GET /api/queues?text-1"),
        ("from 10.1.2.3:4 to 127.0.0.1:5672, [fe80::1]:7", "from host-1:4 to 127.0.0.1:5672, [host-2]:7"),
        ("RabbitMQ 3.10.8 on Erlang/OTP 25.3.2.8", "RabbitMQ 3.10.8 on Erlang/OTP 25.3.2.8"),
        ("node rabbit@prod-db.corp. It left", "node node-1. It left"),
        ("rabbitmq@/opt/ours and cpu@1", "rabbitmq@path-1 and cpu@1"),
        ("cannot read /home/alice/x.toml: gone", "cannot read path-1: gone"),
        (
            "the certificate is not for \"db.corp\" but for DnsName(\"q.corp\"), DnsName(\"*.r.corp\")",
            "the certificate is not for \"text-1\" but for DnsName(\"text-2\"), DnsName(\"text-3\")",
        ),
        (
            "lost /a/b c,/srv/x;/srv/y|/srv/z (/srv/v) '/srv/my u', /srv/o'brien/w",
            "lost path-1 c,path-2 (path-3) 'path-4', path-5",
        ),
        (
            "see http://db.corp/api;s3cret and http://db.corp,http://dc.corp.",
            "see http://host-1/path-1 and http://host-1,http://host-2.",
        ),
        (
            "inequivalent arg 'x-max-length': 'high' of `unknown` field `tenant`, run `bellows doctor --all`",
            "inequivalent arg 'x-max-length': 'high' of `unknown` field `text-1`, run `bellows doctor --all`",
        ),
        ("54,800 /s into / of it, 12 msg/s", "54,800 /s into / of it, 12 msg/s"),
        ("no queue 'o/p q' in vhost 'it'", "no queue 'queue-1' in vhost 'vhost-1'"),
        ("sum(rabbitmq_queue_messages{queue=\"o\"})", "sum(rabbitmq_queue_messages{queue=\"label-1\"})"),
        ("rabbit_channel:handle_method/3 took 12:34:56", "rabbit_channel:handle_method/3 took 12:34:56"),
        ("tcp://{host}:{port}", "tcp://{host}:{port}"),
        ("queue://orders topic://amq.topic", "queue://queue-1 topic://amq.topic"),
    ] {
        assert_eq!(shown(&[], text), expected, "{text}");
    }
}

#[test]
fn of_what_others_say_only_words_that_tell_nothing_are_left() {
    let mut names = Names::new(&[]);
    for (text, expected) in [
        ("Connection refused (os error 111)", "Connection refused (os error 111)"),
        (
            "certificate not valid for name \"db.corp\"; only for Initech, DnsName(\"q\")",
            "certificate not valid for name \"queue-1\"; only for \u{2026} DnsName(\"\u{2026}\")",
        ),
        (
            "only for DnsName(\"rabbitmq.internal.local\"), DnsName(\"server\"), by messages.node.local",
            "only for DnsName(\"text-1\"), DnsName(\"\u{2026}\"), by \u{2026}",
        ),
        (
            "inequivalent arg 'x-max-length' for queue 'a7': 'high' is not 'none', 1.5 s",
            "inequivalent arg 'x-max-length' for queue 'queue-2': '\u{2026}' is not '\u{2026}', 1.5 s",
        ),
        ("NOT_FOUND - no queue 'orders' in vhost '/'", "NOT_FOUND - no queue 'queue-3' in vhost '/'"),
        ("connection reset by peer", "connection reset by peer"),
        ("acme-payments\n at 7 s", "\u{2026}\n at 7 s"),
    ] {
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
