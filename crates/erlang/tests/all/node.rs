//! Answers of a real node.

use crate::common;

use std::time::Duration;

use common::{Beam, eval};
use erlang::term::{Term, as_atom, as_int, as_list, as_text, atom, charlist, int, list, map, text, tuple};
use erlang::{ConnectOptions, Cookie, Error, Node};

#[test]
fn a_node_is_asked_and_learns_nothing_but_a_hidden_name() {
    let home = tempfile::tempdir().expect("a folder");
    let mut beam = Beam::start(home.path(), &[]);
    let node = Node::connect(&beam.options()).expect("connected");
    assert!(node.release() >= 25, "{}", node.release());

    // Whatever is sent comes back.
    let sent = tuple([
        int(-5),
        int(i64::MIN),
        int(1 << 31),
        list([int(-1), int(200)]),
        charlist("a list"),
        text("binary"),
        map([(atom("key"), list([]))]),
    ]);
    let same = node.call("erlang", "hd", vec![list([sent.clone()])]);
    let text_of = |term: &Term| erlang::term::show(term, 300);
    assert_eq!(text_of(&same.expect("the same")), text_of(&sent));
    for word in [text("käse"), charlist("käse")] {
        let same = node.call("erlang", "hd", vec![list([word])]).expect("the same");
        assert_eq!(as_text(&same).as_deref(), Some("käse"));
    }
    let sum = node.call("lists", "sum", vec![list([int(-1), int(-2), int(1 << 40)])]);
    assert_eq!(as_int(&sum.expect("a sum")), Some((1 << 40) - 3));

    // We are hidden, and our name is one of a thousand.
    let seen = node.call("erlang", "nodes", vec![]).expect("nodes");
    assert_eq!(as_list(&seen).expect("a list").len(), 0);
    let hidden = node.call("erlang", "nodes", vec![atom("hidden")]);
    let hidden = hidden.expect("nodes");
    let names: Vec<_> = as_list(&hidden).expect("a list").to_vec();
    assert_eq!(names.iter().filter_map(as_atom).collect::<Vec<_>>(), [node.local_name()]);
    assert!(node.local_name().starts_with("bellows-"));

    // Failures have their reason.
    let failed = node.call("no_such_module", "f", vec![]);
    let Err(Error::Exception { call, reason, .. }) = failed else { panic!("{failed:?}") };
    assert_eq!(call, "no_such_module:f/0");
    testkit::assert_has(reason, ["undef"]);
    let late = node.call_within(Duration::from_millis(50), "timer", "sleep", vec![int(400)]);
    let late = late.expect_err("late");
    assert!(matches!(late, Error::Timeout { is_fixed: true, .. }), "{late:?}");
    // An option has the time-out of the node alone.
    assert!(!late.problem().help.contains("--timeout"), "{late:?}");
    let hasty = ConnectOptions { timeout: Duration::from_secs(2), ..beam.options() };
    let hasty = Node::connect(&hasty).expect("a connection");
    let late = hasty.call("timer", "sleep", vec![int(4_000)]).expect_err("late");
    assert!(matches!(late, Error::Timeout { is_fixed: false, .. }), "{late:?}");
    assert!(late.problem().help.contains("--timeout"), "{late:?}");

    // Calls at once do not get each other's answers, and what prints does so there.
    std::thread::scope(|scope| {
        for i in 0..4 {
            let node = node.clone();
            scope.spawn(move || {
                for j in 0..50 {
                    let got = node.call("erlang", "+", vec![int(i), int(j)]);
                    assert_eq!(as_int(&got.expect("a sum")), Some(i128::from(i + j)));
                }
            });
        }
    });
    a_mailbox_is_a_process(&node);

    // Large results and deep ones: the latter are refused, and the connection goes on.
    let large = node.call("lists", "seq", vec![int(1), int(300_000)]);
    assert_eq!(as_list(&large.expect("numbers")).expect("a list").len(), 300_000);
    let deep = node.call(
        "lists",
        "foldl",
        vec![
            eval(&node, "fun(_, Inner) -> [Inner] end."),
            list([]),
            node.call("lists", "seq", vec![int(1), int(100_000)]).expect("a list"),
        ],
    );
    let deep = deep.expect_err("refused").to_string();
    testkit::assert_has(deep, ["cannot decode", "the result of lists:foldl/3", "nested deeper"]);
    let failed = node.evaluate(Duration::from_secs(20), "A = 1, A = 2.");
    let Err(Error::Exception { reason, .. }) = failed else { panic!("{failed:?}") };
    testkit::assert_has(reason, ["badmatch"]);
    let release = node.call("erlang", "system_info", vec![atom("otp_release")]);
    assert_eq!(as_text(&release.expect("a release")), Some(node.release().to_string()));

    a_lost_node_is_noticed(&node, &mut beam);
}

fn a_mailbox_is_a_process(node: &Node) {
    let mailbox = node.mailbox();
    let send = |to: Term, word: &str| node.call("erlang", "send", vec![to, atom(word)]);
    send(mailbox.pid(), "hello").expect("sent");
    let got = mailbox.receive(Duration::from_secs(20)).expect("a message");
    assert_eq!(got.as_ref().and_then(as_atom), Some("hello"));
    let none = mailbox.receive(Duration::from_millis(20)).expect("nothing");
    assert!(none.is_none(), "{none:?}");

    // Who monitors it learns of its end.
    let watched = node.mailbox();
    let watch = "fun(Watched, To) -> spawn(fun() -> R = monitor(process, Watched), To ! watching, \
                 receive {'DOWN', R, process, _, Why} -> To ! Why end end) end.";
    let spawn = |pid: Term| {
        let run = node.call("erlang", "apply", vec![eval(node, watch), list([pid, mailbox.pid()])]);
        run.expect("started");
    };
    let next = || {
        let got = mailbox.receive(Duration::from_secs(20)).expect("a message");
        got.as_ref().and_then(as_atom).expect("an atom").to_owned()
    };
    let pid = watched.pid();
    spawn(pid.clone());
    assert_eq!(next(), "watching");
    // The monitor's request comes after that word, unless the node has sent it before.
    node.call("erlang", "node", vec![]).expect("an answer");
    drop(watched);
    assert_eq!(next(), "normal");
    spawn(pid);
    assert_eq!([next(), next()], ["watching", "noproc"]);
}

fn a_lost_node_is_noticed(node: &Node, beam: &mut Beam) {
    let mut wrong = beam.options();
    wrong.cookie = Cookie::new("another").expect("a cookie");
    let refused = Node::connect(&wrong).expect_err("no cookie of the node");
    assert!(matches!(refused, Error::Cookie { .. }), "{refused:?}");
    let sentence = refused.problem().sentence();
    assert!(!sentence.contains("another") || sentence.contains("another one"));
    testkit::assert_has(sentence, ["--cookie-file"]);
    // Where it was found is told of each; one that fits is taken wherever it stands.
    let found = |text: &str, source: &str| Cookie::new(text).expect("a cookie").found_in(source);
    wrong.cookie = found("another", "/home/one");
    wrong.other_cookies = vec![found("a third", "/home/two")];
    let refused = Node::connect(&wrong).expect_err("no cookie of the node");
    testkit::assert_has(refused.problem().sentence(), ["/home/one, /home/two"]);
    wrong.other_cookies.push(beam.options().cookie);
    assert!(Node::connect(&wrong).is_ok());
    let mut other = beam.options();
    other.node = "somebody@127.0.0.1".parse().expect("a name");
    let found = Node::connect(&other).expect_err("another node").to_string();
    testkit::assert_has(found, ["the node there is not somebody@127.0.0.1"]);
    let mailbox = node.mailbox();
    beam.kill();
    let lost = mailbox.receive(Duration::from_secs(20)).expect_err("no node");
    testkit::assert_has(lost.to_string(), ["was lost"]);
    let lost = node.call("erlang", "node", vec![]).expect_err("no node");
    testkit::assert_has(lost.to_string(), ["was lost"]);
    let gone = Node::connect(&beam.options());
    assert!(matches!(gone, Err(Error::Unreachable(_))), "{gone:?}");
}
