//! The broker as clients see it, through `wire`'s client, in virtual time.

use wire::amqp091::{
    BasicCancel, BasicGet, BasicNack, BasicPublish, BasicQos, ChannelOpen, ClientConfig, ConfirmSelect, Properties,
    QueueBind, QueueDeclare, QueueDelete, TxCommit, TxRollback, TxSelect, Value,
};

use crate::config::{Config, User};
use crate::node::Verdict;
use crate::reactor::TICK;
use crate::tests::harness::*;

#[test]
fn one_confirm_answers_a_batch_and_returns_come_first() {
    let (mut w, [p]) = with_queue(Config::default());
    assert_eq!(w.ask(p, 1, &ConfirmSelect::default()), Seen::Method("ConfirmSelectOk".to_owned()));
    w.publish_numbers(p, "q", 0..100);
    assert_eq!(w.seen(p), [Seen::Confirm { tag: 100, multiple: true, nack: false }]);
    w.publish_with(p, "", "nowhere", true, "lost");
    w.publish_with(p, "", "nowhere", false, "unnoticed");
    let lost = Seen::Returned { code: 312, body: "lost".to_owned() };
    assert_eq!(w.seen(p), [lost, Seen::Confirm { tag: 102, multiple: true, nack: false }]);
}

#[test]
fn a_full_queue_that_refuses_answers_nack() {
    for limit in ["x-max-length", "x-max-length-bytes"] {
        let mut w = world();
        let p = w.client();
        let arguments = table(&[(limit, Value::I32(2)), ("x-overflow", Value::from("reject-publish"))]);
        w.ask(p, 1, &QueueDeclare { queue: "q", arguments: arguments.view(), ..Default::default() });
        w.ask(p, 1, &ConfirmSelect::default());
        w.publish_numbers(p, "q", 0..3);
        let [taken, refused] = [(2, true, false), (3, false, true)];
        let confirm = |(tag, multiple, nack)| Seen::Confirm { tag, multiple, nack };
        assert_eq!(w.seen(p), [confirm(taken), confirm(refused)], "{limit}");
    }
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let (mut w, [p, c]) = with_queue(Config::default());
    assert_eq!(w.ask(p, 1, &TxSelect {}), method("TxSelect"));
    w.publish_numbers(p, "q", 0..3);
    w.consume(c, "q", "c");
    assert_eq!(w.bodies(c), bodies(0..0));
    assert_eq!(w.ask(p, 1, &TxRollback {}), method("TxRollback"));
    w.publish_numbers(p, "q", 3..5);
    w.publish_with(p, "", "nowhere", true, "lost");
    w.send(p, 1, &TxCommit {});
    let lost = Seen::Returned { code: 312, body: "lost".to_owned() };
    assert_eq!(w.seen(p), [lost, method("TxCommit")]);
    assert_eq!(w.bodies(c), bodies(3..5));

    let t = w.client();
    w.ask(t, 1, &TxSelect {});
    w.cut(c);
    w.consume(t, "q", "t");
    assert_eq!(w.bodies(t).len(), 2);
    w.ack(t, 1, false);
    w.ask(t, 1, &TxRollback {});
    w.ack(t, 2, false);
    w.ask(t, 1, &TxCommit {});
    w.cut(t);
    let last = w.client();
    w.consume(last, "q", "c");
    assert_eq!(w.bodies(last), ["3"], "only the committed acknowledgement counts");
}

#[test]
fn consumers_hear_when_their_queue_goes() {
    let (mut w, [owner, c]) = with_queue(Config::default());
    w.consume(c, "q", "tag");
    w.ask(owner, 1, &QueueDelete { queue: "q", ..QueueDelete::default() });
    assert_eq!(w.seen(c), [Seen::Cancelled("tag".to_owned())]);
}

#[test]
fn queues_go_with_their_last_consumer_or_their_owner() {
    let mut w = world();
    let (a, b) = (w.client(), w.client());
    w.ask(a, 1, &QueueDeclare { queue: "auto", auto_delete: true, ..QueueDeclare::default() });
    w.ask(a, 1, &QueueDeclare { queue: "mine", exclusive: true, ..QueueDeclare::default() });
    let exists = |w: &mut World, name: &str| {
        let probe = w.client();
        let passive = QueueDeclare { queue: name, passive: true, ..QueueDeclare::default() };
        !matches!(w.ask(probe, 1, &passive), Seen::ChannelClosed(404, _))
    };
    w.consume(b, "auto", "c");
    assert!(exists(&mut w, "auto"));
    w.ask(b, 1, &BasicCancel { consumer_tag: "c", no_wait: false });
    assert!(!exists(&mut w, "auto"));
    assert!(exists(&mut w, "mine"));
    w.cut(a);
    assert!(!exists(&mut w, "mine"));
}

#[test]
fn mistakes_close_the_channel_or_the_connection_with_rabbitmqs_words() {
    let (mut w, [c]) = with_queue(Config::default());
    let channel_error = |w: &mut World, code: u16, text: &str| {
        assert_eq!(w.seen(c), [Seen::ChannelClosed(code, text.to_owned())]);
        w.ask(c, 1, &ChannelOpen::default());
    };
    w.send(c, 1, &consume("x", ""));
    channel_error(&mut w, 404, "NOT_FOUND - no queue 'x' in vhost '/'");
    w.publish(c, "x", "k", "body");
    channel_error(&mut w, 404, "NOT_FOUND - no exchange 'x' in vhost '/'");
    w.ack(c, 7, false);
    channel_error(&mut w, 406, "PRECONDITION_FAILED - unknown delivery tag 7");
    w.send(c, 1, &QueueBind { queue: "q", routing_key: "k", ..QueueBind::default() });
    channel_error(&mut w, 403, "ACCESS_REFUSED - operation not permitted on the default exchange");
    w.send(c, 1, &TxCommit {});
    channel_error(&mut w, 406, "PRECONDITION_FAILED - channel is not transactional");
    w.consume(c, "q", "tag");
    w.send(c, 1, &consume("q", "tag"));
    let text = "NOT_ALLOWED - attempt to reuse consumer tag 'tag'";
    assert_eq!(w.seen(c), [Seen::Closed(530, text.to_owned()), Seen::End]);
    let c = w.client();
    w.send(c, 1, &BasicQos { prefetch_size: 1, ..BasicQos::default() });
    assert!(matches!(&w.seen(c)[..], [Seen::Closed(540, _), Seen::End]));
    let c = w.client();
    let immediate = BasicPublish { immediate: true, ..BasicPublish::default() };
    w.publish_as(c, &immediate, Properties::NONE, "x");
    let text = "NOT_IMPLEMENTED - immediate=true";
    assert_eq!(w.seen(c), [Seen::Closed(540, text.to_owned()), Seen::End]);
}

#[test]
fn publishes_after_a_mistake_on_the_same_channel_are_dropped() {
    let (mut w, [c]) = with_queue(Config::default());
    w.publish(c, "none", "k", "mistake");
    w.publish(c, "", "q", "dropped");
    assert!(matches!(&w.seen(c)[..], [Seen::ChannelClosed(404, _)]));
    w.ask(c, 1, &ChannelOpen::default());
    assert_eq!(w.ask(c, 1, &BasicGet { queue: "q", ..BasicGet::default() }), Seen::GetEmpty);
}

#[test]
fn logins_are_checked() {
    let users = vec![User::new("me", "secret")];
    let mut w = World::new(Config { users, ..Config::default() });
    let me = ClientConfig { user: "me".to_owned(), password: wire::Secret::new("secret"), ..ClientConfig::default() };
    let fine = w.arrive(me.clone());
    assert_eq!(w.seen(fine), [Seen::Open]);
    let wrong = w.arrive(guest());
    let text = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. \
                For details see the broker logfile.";
    assert_eq!(w.seen(wrong), [Seen::Closed(403, text.to_owned()), Seen::End]);
    let lost = w.arrive(ClientConfig { virtual_host: "other".to_owned(), ..me });
    let text = "NOT_ALLOWED - vhost other not found";
    assert_eq!(w.seen(lost), [Seen::Closed(530, text.to_owned()), Seen::End]);
}

/// Whatever the broker says in between: half a heartbeat after that it may not notice yet.
#[test]
fn the_shortest_heartbeat_is_kept() {
    let mut w = World::new(Config { heartbeat_s: 1, ..Config::default() });
    let c = w.client();
    for quiet in (0..30).chain(0..30) {
        w.pass_by(TICK, quiet);
        w.queue(c, "q");
    }
    assert_eq!(w.seen(c), []);
}

#[test]
fn declaring_without_a_name_gives_one_that_an_empty_name_stands_for() {
    let mut w = world();
    let c = w.client();
    let Seen::Method(answer) = w.ask(c, 1, &QueueDeclare::default()) else { panic!("no answer") };
    let name = answer.split('"').nth(1).expect("a name").to_owned();
    assert!(name.starts_with("amq.gen-"));
    w.publish(c, "", &name, "hello");
    let got = w.ask(c, 1, &BasicGet::default());
    assert_eq!(got, Seen::GetOk { redelivered: false, left: 0, body: "hello".to_owned() });
}

fn busy_session() -> Vec<u8> {
    let mut w = world();
    let c = w.client();
    w.ask(c, 1, &QueueDeclare { queue: "q", auto_delete: true, ..QueueDeclare::default() });
    w.ask(c, 1, &QueueBind { queue: "q", exchange: "amq.topic", routing_key: "a.#", ..Default::default() });
    w.ask(c, 1, &ConfirmSelect::default());
    for i in 0..20 {
        w.publish_with(c, "amq.topic", "a.b", i % 3 == 0, &i.to_string());
        w.publish_with(c, "", "nowhere", true, "back");
    }
    w.seen(c);
    w.qos(c, 5, false);
    w.consume(c, "q", "c");
    w.ack(c, 3, true);
    w.send(c, 1, &BasicNack { delivery_tag: 5, multiple: true, requeue: true });
    w.pump();
    w.send(c, 2, &ChannelOpen::default());
    w.send(c, 2, &TxSelect {});
    w.send(c, 2, &BasicGet { queue: "q", ..BasicGet::default() });
    w.send(c, 2, &TxCommit {});
    w.send(c, 1, &BasicCancel { consumer_tag: "c", no_wait: false });
    w.pump();
    w.sent(c).to_vec()
}

#[test]
fn damaged_input_harms_nobody_else_and_leaks_nothing() {
    let session = busy_session();
    let mut w = world();
    let witness = w.client();
    w.queue(witness, "witness");
    // A fixed linear congruential generator (Knuth's MMIX): the same damage every time.
    let (mut state, mut survived) = (1u64, 0);
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..5_000 {
        let mut bytes = session.clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            bytes[at] = match random(3) {
                0 => random(256) as u8,
                1 => bytes[at] ^ (1 << random(8)),
                _ => 0,
            };
        }
        bytes.truncate(random(bytes.len()).max(bytes.len() / 2));
        let key = w.node.connect(w.now, false);
        let mut left = &bytes[..];
        while let Verdict::Read = w.node.verdict(key) {
            let before = left.len();
            // In pieces, so that frames are cut anywhere.
            let mut piece = &left[..left.len().min(1 + random(400))];
            let offered = piece.len();
            w.node.input(key, w.now, &mut piece);
            left = &left[offered - piece.len()..];
            w.node.turn();
            w.node.written(key, w.node.output(key).len());
            if left.is_empty() || left.len() == before && random(4) == 0 {
                break;
            }
        }
        survived += usize::from(w.node.verdict(key) == Verdict::Read);
        w.node.disconnect(key);
        w.node.turn();
    }
    assert!((500..4_500).contains(&survived), "{survived} sessions went through in spite of it");
    w.publish(witness, "", "witness", "alive");
    let got = w.ask(witness, 1, &BasicGet { queue: "witness", no_ack: true, ..BasicGet::default() });
    assert_eq!(got, Seen::GetOk { redelivered: false, left: 0, body: "alive".to_owned() });
    // Damaged names leave queues behind; with them goes everything.
    assert_eq!(w.node.clear(), 0);
}
