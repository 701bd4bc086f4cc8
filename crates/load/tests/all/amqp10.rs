//! A load over AMQP 1.0 whose broker is a script; queues are an embedded broker's, as AMQP 0.9.1 goes to that.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use load::scenario::Scenario;
use load::{Auth, Control, Destination, Error, Group, Guarantee, Outcome, Plan, Protocol, RunEvent};
use measure::Nanos;
use wire::amqp10::{
    Attach, Begin, Close, Composite, Condition, DeclareTransaction, DeclaredTransaction, DeliveryState, Detach,
    Discharge, Disposition, End, Flow, MessageBody, MessageParts, Performative, Rejected, Symbol, TransactionalState,
    Transfer, TypedValue, fuzzing::HANDSHAKE,
};
use wire::amqp091::Reader;

use crate::common::{self, Kept};

#[derive(Clone, Copy)]
struct Script {
    window: u32,
    max_message_size: Option<u64>,
    /// Messages that it takes until the pause is over.
    credit: u32,
    pause: Duration,
    /// How often each message is answered, and how.
    answers: u32,
    state: DeliveryState<'static>,
    detach_at: Option<u32>,
    /// Transactions that it commits before it rolls one back; `None` where it has none.
    commits: Option<u32>,
}

const POLITE: Script = Script {
    window: 400,
    max_message_size: None,
    credit: 10_000,
    pause: Duration::ZERO,
    answers: 1,
    state: DeliveryState::Accepted,
    detach_at: None,
    commits: None,
};

/// The handle of the link to its coordinator.
const COORDINATOR: u32 = 1;

struct Peer {
    stream: TcpStream,
    script: Script,
    deliveries: u32,
    /// The id of the open transaction, which grows.
    transaction: Vec<u8>,
    /// Names of the frames that came.
    frames: Sender<&'static str>,
}

impl Peer {
    fn put<'a>(&mut self, channel: u16, what: &impl Composite<'a>) -> io::Result<()> {
        let mut bytes = vec![0, 0, 0, 0, 2, 0];
        bytes.extend(channel.to_be_bytes());
        what.write(&mut bytes);
        let size = bytes.len() as u32;
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        self.stream.write_all(&bytes)
    }

    fn credit(&mut self, credit: u32) -> io::Result<()> {
        self.link_credit(0, credit)
    }

    fn link_credit(&mut self, handle: u32, credit: u32) -> io::Result<()> {
        let flow = Flow {
            next_incoming_id: Some(self.deliveries),
            incoming_window: self.script.window,
            handle: Some(handle),
            delivery_count: Some(self.deliveries),
            link_credit: Some(credit),
            ..Flow::default()
        };
        self.put(0, &flow)
    }

    fn attached(&mut self, attach: &Attach<'_>) -> io::Result<()> {
        if attach.handle == COORDINATOR && self.script.commits.is_none() {
            let error = Condition { condition: Symbol("amqp:not-implemented"), ..Condition::default() };
            return self.put(0, &End { error: Some(error) });
        }
        let answer = Attach {
            name: attach.name,
            handle: attach.handle,
            is_receiver: true,
            target: attach.target,
            max_message_size: self.script.max_message_size,
            ..Attach::default()
        };
        self.put(0, &answer)?;
        self.link_credit(attach.handle, self.script.credit)
    }

    /// Answers a request for a transaction: once before it settles, and once as it does.
    fn coordinate(&mut self, request: TypedValue<'_>) -> io::Result<()> {
        let first = self.deliveries;
        self.deliveries += 1;
        let mut declared = Vec::new();
        let reason = Condition {
            condition: Symbol("amqp:transaction:rollback"),
            description: Some("no room"),
            info: TypedValue::Null,
        };
        let state = if DeclareTransaction::of(request).is_ok() {
            self.transaction.push(b't');
            DeclaredTransaction { txn_id: &self.transaction }.write(&mut declared);
            DeliveryState::Other(TypedValue::read(&mut Reader::new(&declared)).expect("a state"))
        } else {
            let discharge = Discharge::of(request).expect("a request");
            let is_open = discharge == Discharge { txn_id: &self.transaction, fail: Some(false) };
            self.script.commits = self.script.commits.and_then(|left| left.checked_sub(1)).filter(|_| is_open);
            match self.script.commits {
                Some(_) => DeliveryState::Accepted,
                None => DeliveryState::Rejected(Rejected { error: Some(reason) }),
            }
        };
        let disposition = Disposition { is_receiver: true, first, state: Some(state), ..Disposition::default() };
        self.put(0, &disposition)?;
        self.put(0, &Disposition { settled: Some(true), ..disposition })
    }

    /// Takes a message of a transaction, which settles nothing yet; rejects one of no transaction, or of another.
    fn enlist(&mut self, transfer: &Transfer<'_>) -> io::Result<()> {
        let first = self.deliveries;
        self.deliveries += 1;
        let expected = TransactionalState { txn_id: &self.transaction, outcome: TypedValue::Null };
        let is_right =
            matches!(transfer.state, Some(DeliveryState::Other(it)) if TransactionalState::of(it) == Ok(expected));
        let state = if is_right { transfer.state } else { Some(DeliveryState::Rejected(Rejected::default())) };
        let settled = Some(true);
        self.put(0, &Disposition { is_receiver: true, first, settled, state, ..Disposition::default() })
    }

    fn delivered(&mut self, is_settled: bool) -> io::Result<()> {
        let first = self.deliveries;
        self.deliveries += 1;
        if self.script.detach_at == Some(self.deliveries) {
            let error = Condition {
                condition: Symbol("amqp:resource-deleted"),
                description: Some("queue 'q' was deleted"),
                info: TypedValue::Null,
            };
            return self.put(0, &Detach { handle: 0, closed: Some(true), error: Some(error) });
        }
        let disposition = Disposition {
            is_receiver: true,
            first,
            settled: Some(true),
            state: Some(self.script.state),
            ..Disposition::default()
        };
        (0..self.script.answers).filter(|_| !is_settled).try_for_each(|_| self.put(0, &disposition))?;
        if self.deliveries == self.script.credit {
            thread::sleep(self.script.pause);
            self.script.credit = 0;
            return self.credit(10_000);
        }
        Ok(())
    }

    fn serve(mut self) -> io::Result<()> {
        self.stream.write_all(HANDSHAKE)?;
        let mut header = [0; 8];
        loop {
            self.stream.read_exact(&mut header)?;
            if header.starts_with(b"AMQP") {
                continue;
            }
            let size = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
            let mut body = vec![0; size as usize - 8];
            self.stream.read_exact(&mut body)?;
            if header[5] != 0 || body.is_empty() {
                continue;
            }
            let mut reader = Reader::new(&body);
            let performative = Performative::read(&mut reader).expect("a performative");
            let _ = self.frames.send(performative.name());
            match performative {
                Performative::Begin(_) => {
                    let begin =
                        Begin { remote_channel: Some(0), incoming_window: self.script.window, ..Begin::default() };
                    self.put(0, &begin)?;
                }
                Performative::Attach(attach) => self.attached(&attach)?,
                Performative::Transfer(it) if it.handle == COORDINATOR => {
                    let message = MessageParts::read(reader.rest()).expect("a message");
                    let MessageBody::Value(request) = message.body else { panic!("{message:?}") };
                    self.coordinate(request)?;
                }
                Performative::Transfer(it) if !self.transaction.is_empty() => self.enlist(&it)?,
                Performative::Transfer(it) if it.more != Some(true) => {
                    self.delivered(it.settled == Some(true))?;
                }
                Performative::Flow(flow) if flow.echo == Some(true) => self.credit(1)?,
                Performative::Close(_) => return self.put(0, &Close::default()),
                _ => {}
            }
        }
    }
}

/// Takes AMQP 1.0 by the script, and passes the rest on.
fn accept(
    mut stream: TcpStream,
    broker: std::net::SocketAddr,
    script: Script,
    frames: Sender<&'static str>,
) -> io::Result<()> {
    let mut header = [0; 8];
    stream.read_exact(&mut header)?;
    if header == wire::amqp10::SASL_HEADER {
        return Peer { stream, script, deliveries: 0, transaction: Vec::new(), frames }.serve();
    }
    let mut far = TcpStream::connect(broker)?;
    far.write_all(&header)?;
    common::pass_on(stream, far);
    Ok(())
}

fn run(script: Script, set: impl FnOnce(&mut Plan)) -> (Result<Outcome, Error>, Kept) {
    let (outcome, heard, _) = run_seen(script, set);
    (outcome, heard)
}

/// A run, and the frames that the script saw.
fn run_seen(script: Script, set: impl FnOnce(&mut Plan)) -> (Result<Outcome, Error>, Kept, Receiver<&'static str>) {
    let (sender, frames) = mpsc::channel();
    let broker = common::embedded();
    let address = broker.local_addr();
    let here = common::serve(move |_, stream| {
        // How a connection ends is its client's affair.
        let sender = sender.clone();
        thread::spawn(move || drop(accept(stream, address, script, sender)));
    });
    let mut group = common::group(here, Destination::queue("q"), (1, 0));
    group.protocol = Protocol::Amqp10;
    group.producers.sizes = 100.into();
    let phases = common::phases(0, 10_000, 500);
    let mut plan = Plan { groups: vec![group], phases, ..Plan::default() };
    set(&mut plan);
    let mut heard = Kept::default();
    let outcome = load::run(&plan, &Control::new(), &mut heard);
    (outcome, heard, frames)
}

fn messages(plan: &mut Plan, count: u64) {
    plan.groups[0].producers.message_count = Some(count);
}

#[test]
fn a_message_that_is_answered_twice_counts_once_and_is_told() {
    let states = [DeliveryState::Accepted, DeliveryState::Released];
    for (state, returned) in states.into_iter().zip([0, 50]) {
        let script = Script { answers: 3, state, ..POLITE };
        let (outcome, heard) = run(script, |plan| messages(plan, 50));
        let outcome = outcome.expect("it starts");
        let totals = &outcome.totals;
        assert_eq!((totals.sent, totals.completed, totals.returned), (50, 50, returned), "{outcome:?}");
        let told = |it: &&RunEvent| matches!(it, RunEvent::Note(text) if text.contains("a second time"));
        assert_eq!(heard.events.iter().filter(told).count(), 1, "{:?}", heard.events);
    }
}

#[test]
fn messages_above_what_the_broker_takes_are_refused_when_the_link_is_attached() {
    let small = Script { max_message_size: Some(1_000), ..POLITE };
    let narrow = Script { window: 3, ..POLITE };
    for (script, words) in [(small, "takes 1000 at most"), (narrow, "takes 3 at a time")] {
        let (outcome, _) = run(script, |plan| {
            plan.groups[0].producers.sizes = 500_000.into();
        });
        let error = outcome.map_or_else(Some, |it| it.error).expect("it is refused");
        let problem = error.problem();
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        assert!(problem.value.contains(words), "{problem:?}");
        assert!(problem.help.contains("message-size"), "{problem:?}");
    }
}

#[test]
fn a_detached_link_is_told_with_the_brokers_words_and_is_no_lost_connection() {
    let script = Script { detach_at: Some(5), ..POLITE };
    let (outcome, _, frames) = run_seen(script, |plan| messages(plan, 50));
    let error = outcome.map_or_else(Some, |it| it.error).expect("it ends");
    assert!(matches!(error, Error::Detached { .. }), "{error:?}");
    let text = error.to_string();
    for words in ["/queues/q", "detached", "amqp:resource-deleted", "queue 'q' was deleted"] {
        assert!(text.contains(words), "{text}");
    }
    // It is answered, and the connection closed.
    let mut frames = std::iter::from_fn(|| frames.recv_timeout(Duration::from_secs(10)).ok());
    assert!(frames.any(|it| it == Detach::NAME) && frames.any(|it| it == Close::NAME));
}

#[test]
fn a_commit_answers_its_messages_and_what_is_rolled_back_has_no_answer() {
    let commits = |plan: &mut Plan| {
        messages(plan, 50);
        plan.groups[0].producers.guarantee = Guarantee::Commits(7);
        assert_eq!(plan.in_flight_limit(), Some(7), "those of one transaction");
    };
    let (outcome, _) = run(Script { commits: Some(100), ..POLITE }, commits);
    let outcome = outcome.expect("it starts");
    let totals = &outcome.totals;
    assert_eq!((totals.sent, totals.completed, totals.nacked), (50, 50, 0), "{outcome:?}");
    assert!(outcome.error.is_none(), "{outcome:?}");

    let (outcome, _) = run(Script { commits: Some(3), ..POLITE }, commits);
    let outcome = outcome.expect("it starts");
    assert_eq!((outcome.totals.sent, outcome.totals.completed), (28, 21), "three commits of seven: {outcome:?}");
    let text = outcome.error.expect("it ends").to_string();
    for words in ["cannot commit transactions", "amqp:transaction:rollback", "no room"] {
        assert!(text.contains(words), "{text}");
    }

    let (outcome, _) = run(POLITE, commits);
    let error = outcome.map_or_else(Some, |it| it.error).expect("it is refused");
    let text = error.to_string();
    assert!(text.contains("no transactions over AMQP 1.0 (amqp:not-implemented)"), "{text}");
    assert!(text.contains(" amqp10://guest@"), "{text}");
}

/// A group and its broker's address, as of this protocol.
fn over(protocol: Protocol, mut group: Group) -> Group {
    (group.protocol, group.endpoint.protocol) = (protocol, protocol);
    group
}

/// It said `amqp://`, which nobody had asked for.
#[test]
fn a_broker_that_is_not_there_is_named_with_the_protocol_that_was_asked_for() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("an address");
    let group = over(Protocol::Amqp10, common::group(nobody, Destination::queue("q"), (1, 0)));
    let plan = Plan { groups: vec![group], ..Plan::default() };
    let error = load::run(&plan, &Control::new(), &mut Kept::default()).expect_err("nobody listens");
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains(" amqp10://guest@"), "{error}");
}

/// A broker that speaks one of the two protocols alone, and closes where another is asked for.
fn one_protocol(is_amqp10: bool, broker: std::net::SocketAddr) -> std::net::SocketAddr {
    common::serve(move |_, mut stream| {
        let pass = move || -> io::Result<()> {
            let mut header = [0; 8];
            stream.read_exact(&mut header)?;
            if is_amqp10 != (header == wire::amqp10::SASL_HEADER) {
                return stream.write_all(if is_amqp10 { b"AMQP\x03\x01\0\0" } else { b"AMQP\0\0\x09\x01" });
            }
            let mut far = TcpStream::connect(broker)?;
            far.write_all(&header)?;
            common::pass_on(stream, far);
            Ok(())
        };
        thread::spawn(move || drop(pass()));
    })
}

/// It was asked for its queues in a protocol that it does not speak.
#[test]
fn each_broker_of_a_mixed_load_is_prepared_in_its_own_protocol() {
    let broker = common::embedded();
    let address = broker.local_addr();
    let older = common::group(one_protocol(false, address), Destination::queue("older"), (1, 1));
    let newer = |at, queue| over(Protocol::Amqp10, common::group(at, Destination::queue(queue), (1, 1)));
    let run = |groups: Vec<Group>| {
        let mut plan = Plan { groups, phases: common::phases(0, 10_000, 500), ..Plan::default() };
        plan.groups.iter_mut().for_each(|group| group.producers.message_count = Some(50));
        load::run(&plan, &Control::new(), &mut Kept::default())
    };
    let outcome = run(vec![newer(address, "newer"), older]).expect("it starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_eq!((outcome.totals.sent, outcome.totals.received), (100, 100), "{outcome:?}");
    // It was told to write amqp10://, as it had.
    let error = run(vec![newer(one_protocol(true, address), "newer")]).expect_err("nobody declares its queue");
    assert!(error.to_string().starts_with("cannot manage queues over AMQP 0.9.1 at amqp10://guest@"), "{error}");
    assert!(error.problem().help.contains("are declared over AMQP 0.9.1"), "{error:?}");
}

/// The embedded broker's queues are declared over AMQP 0.9.1.
#[test]
fn who_proves_a_password_or_is_nobody_is_let_in_by_the_protocols_that_have_it() {
    let users = [("me", "s3cret"), ("guest", "guest")].map(|(name, password)| broker::User::new(name, password));
    let broker = common::started(broker::Config { users: users.to_vec(), ..broker::Config::default() });
    let run = |auth: Auth, protocol: Protocol, password: &str| {
        let mut group = over(protocol, common::group(broker.local_addr(), Destination::queue("q"), (1, 1)));
        (group.endpoint.auth, group.endpoint.user) = (auth, "me".to_owned());
        group.endpoint.set_password(password);
        let mut plan = Plan { groups: vec![group], phases: common::phases(0, 10_000, 500), ..Plan::default() };
        messages(&mut plan, 50);
        load::run(&plan, &Control::new(), &mut Kept::default())
    };
    for (auth, protocol, password) in [
        (Auth::ScramSha256, Protocol::Amqp10, "s3cret"),
        (Auth::Anonymous, Protocol::Amqp10, "wrong"),
        (Auth::Anonymous, Protocol::Amqp091, "wrong"),
    ] {
        let outcome = run(auth, protocol, password).expect("it starts");
        assert!(outcome.error.is_none(), "{outcome:?}");
        assert_eq!((outcome.totals.sent, outcome.totals.received), (50, 50), "{outcome:?}");
    }
    for (auth, protocol, words, help) in [
        (Auth::ScramSha256, Protocol::Amqp10, "wrong user or password", "--password"),
        (Auth::ScramSha256, Protocol::Amqp091, "only AMQP 1.0 has a login by SCRAM-SHA-256", "amqp10://"),
        // As guest with guest's own password it would be told to give another.
        (Auth::Plain, Protocol::Amqp10, "wrong user or password", "check user and password"),
        (Auth::External, Protocol::Amqp10, "\"PLAIN ANONYMOUS SCRAM-SHA-256\", not EXTERNAL", "--auth"),
    ] {
        let error = run(auth, protocol, "wrong").expect_err("it is refused");
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.problem().help.contains(help), "{error:?}");
    }
}

/// Every connection loses its link at the fifth message, which has no answer then.
#[test]
fn a_client_whose_link_was_detached_reconnects_and_goes_on_where_it_was() {
    let (outcome, _) = run(Script { detach_at: Some(5), ..POLITE }, |plan| {
        messages(plan, 50);
        plan.groups[0].producers.max_pending = 1;
        plan.groups[0].reconnect = common::reconnect(20);
    });
    let outcome = outcome.expect("it starts");
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_eq!((outcome.totals.sent, outcome.totals.completed), (50, 40), "{outcome:?}");
    assert!(common::lost_connections(&outcome) >= 9, "{outcome:?}");
}

/// As RabbitMQ does while its memory alarm lasts.
#[test]
fn a_broker_that_gives_no_credit_is_waited_for_and_told_whether_it_answers_or_not() {
    for guarantee in [Guarantee::Confirms, Guarantee::Unconfirmed] {
        let pause = Duration::from_millis(1_500);
        let script = Script { credit: 20, pause, window: 100_000, ..POLITE };
        let (outcome, heard) = run(script, |plan| {
            plan.phases.measure = Some(Nanos::from_millis(2_500));
            let producers = &mut plan.groups[0].producers;
            producers.guarantee = guarantee;
            producers.max_pending = 1_000;
            producers.arrivals = common::rate(500.0);
        });
        let outcome = outcome.expect("it starts");
        assert!(outcome.error.is_none(), "{outcome:?}");
        let waits = heard.measured.waits;
        assert!(waits.credit > Nanos::from_millis(1_000) && waits.budget < waits.credit, "{waits:?}");
        let blocked = heard.events.iter().filter_map(|it| match it {
            RunEvent::Blocked { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        assert_eq!(blocked.collect::<Vec<_>>(), ["it gave no credit for 1 s and longer"]);
        let lifted = |it: &&RunEvent| matches!(it, RunEvent::Unblocked { .. });
        assert_eq!(heard.events.iter().filter(lifted).count(), 1, "{:?}", heard.events);
    }
}
