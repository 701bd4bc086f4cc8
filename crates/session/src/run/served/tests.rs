//! The other end of our connections, as a played source sees it: no load, no broker, no socket.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::run::tests::{Heard, begun};
use crate::usage::{Reading, UsageSource};
use brokers::Listener;
use testkit::{ChildGuard, only};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Follow(u32),
    Leave,
}

/// A source with a given server, which records its calls.
#[derive(Clone, Default)]
struct Played(Rc<RefCell<(Server, Vec<Told>)>>);

impl UsageSource for Played {
    fn read(&mut self) -> Reading {
        Reading::default()
    }
    fn server(&mut self) -> Server {
        self.0.borrow().0.clone()
    }
    fn follow(&mut self, pid: u32) {
        self.0.borrow_mut().1.push(Told::Follow(pid));
    }
    fn leave(&mut self) {
        self.0.borrow_mut().1.push(Told::Leave);
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    told: Vec<Told>,
    found: Option<u32>,
    /// The broker's process, as the summary has it.
    pid: Option<u32>,
    shares_machine: bool,
    events: Vec<String>,
}

/// Looks once for each answer, while this listens on the broker's port; `kind` is empty where it is unknown.
fn look(listener: Listener, kind: &str, answers: &[Server]) -> Seen {
    let dir = tempfile::tempdir().expect("folder");
    let (mut context, record, writer) = begun(dir.path());
    context.listener = listener;
    context.broker.kind = kind.into();
    context.broker.pid = listener.given.or(listener.found);
    context.shared_machine = context.broker.pid.is_some();
    let (source, mut heard) = (Played::default(), Heard::default());
    let usage = Box::new(source.clone());
    let mut recording = Recording::new(context, record, writer, Profiling::off(), usage, &mut heard);
    for answer in answers {
        source.0.borrow_mut().0 = answer.clone();
        recording.look_who_serves();
    }
    let context = &recording.context;
    let (found, pid) = (context.listener.found, context.broker.pid);
    let shares_machine = context.shared_machine;
    drop(recording);
    Seen { told: source.0.take().1, found, pid, shares_machine, events: heard.events }
}

fn found(pid: u32) -> Listener {
    Listener { found: Some(pid), given: None }
}

fn unchanged(pid: u32) -> Seen {
    Seen { found: Some(pid), pid: Some(pid), shares_machine: true, ..Seen::default() }
}

#[test]
fn the_process_that_serves_takes_the_place_of_the_one_on_the_port() {
    let (port, broker, next) = (ChildGuard::idle(), ChildGuard::idle(), ChildGuard::idle());
    let serves = |it: &ChildGuard| Server::Processes(vec![it.id()]);
    let say = |it: &ChildGuard| format!("process {} (sleep) serves our connections", it.id());
    let to = |it: &ChildGuard| [Told::Leave, Told::Follow(it.id())];
    let seen = look(
        found(port.id()),
        "",
        &[Server::Unknown, serves(&port), serves(&broker), serves(&broker), Server::Unknown, serves(&next)],
    );
    let expected = Seen {
        told: [to(&broker), to(&next)].concat(),
        found: Some(next.id()),
        pid: Some(next.id()),
        shares_machine: true,
        events: vec![say(&broker), say(&next)],
    };
    assert_eq!(seen, expected, "each once");
    let seen = look(Listener::default(), "", &[serves(&broker)]);
    assert_eq!((seen.pid, seen.events), (Some(broker.id()), vec![say(&broker)]));
}

#[test]
fn who_is_related_to_the_process_on_the_port_changes_nothing() {
    let (child, other) = (ChildGuard::idle(), ChildGuard::idle());
    let this = std::process::id();
    for (presumed, serving) in [
        (this, vec![child.id()]),
        (child.id(), vec![this]),
        (this, vec![1, child.id()]),
        (child.id(), vec![other.id(), child.id()]),
    ] {
        let seen = look(found(presumed), "", &[Server::Processes(serving.clone())]);
        assert_eq!(seen, unchanged(presumed), "{serving:?}");
    }
    // Nor does anybody where the broker is known, or the user named it.
    let serves = || Server::Processes(vec![other.id()]);
    assert_eq!(look(found(child.id()), "rabbitmq", &[serves(), Server::Elsewhere]), unchanged(child.id()));
    let named = ChildGuard::idle();
    let listener = Listener { given: Some(named.id()), ..found(child.id()) };
    assert_eq!(look(listener, "", &[serves()]), Seen { found: Some(other.id()), ..unchanged(named.id()) });
}

#[test]
fn where_the_broker_cannot_be_seen_nobody_is_watched_in_its_place() {
    let (port, one, two) = (ChildGuard::idle(), ChildGuard::idle(), ChildGuard::idle());
    let several = Server::Processes(vec![one.id(), two.id()]);
    for server in [Server::Elsewhere, several] {
        let seen = look(found(port.id()), "", &[server.clone(), server.clone()]);
        let event = only(&seen.events);
        let start = format!("process {} listens on the broker's port, but", port.id());
        assert!(event.starts_with(&start) && event.ends_with(NAME_IT), "{event}");
        assert_eq!(seen, Seen { told: vec![Told::Leave], events: seen.events.clone(), ..Seen::default() });
    }
    // It comes into sight.
    let answers = [Server::Elsewhere, Server::Processes(vec![one.id()])];
    let seen = look(found(port.id()), "", &answers);
    assert_eq!((seen.pid, seen.shares_machine), (Some(one.id()), true));
    // Nobody was taken for it, and nobody is.
    assert_eq!(look(Listener::default(), "", &[Server::Elsewhere]), Seen::default());
}

/// The profile follows, or there is none: never that of a process that is not the broker.
#[test]
fn the_profile_is_of_the_process_that_serves() {
    let (port, broker) = (ChildGuard::idle(), ChildGuard::idle());
    let gone = ChildGuard::idle().id();
    for (server, is_profiled) in [
        (Server::Processes(vec![broker.id()]), true),
        (Server::Processes(vec![gone]), false),
        (Server::Elsewhere, false),
    ] {
        let dir = tempfile::tempdir().expect("folder");
        let (mut context, record, writer) = begun(dir.path());
        let options = [profile::Options::default()];
        let header = ProfileHeader::new(context.origin, record.origin_unix_ns);
        let run = writer.as_ref().expect("an archive").dir().to_owned();
        let profiling = match Profiling::attach(&options, port.id(), &header, &run, 0) {
            Ok(profiling) => profiling,
            Err(error) => testkit::skip!("no process can be profiled here: {error}"),
        };
        context.listener = found(port.id());
        context.profile = options.to_vec();
        let (source, mut heard) = (Played::default(), Heard::default());
        source.0.borrow_mut().0 = server.clone();
        let usage = Box::new(source);
        let mut recording = Recording::new(context, record, writer, profiling, usage, &mut heard);
        assert!(recording.profiling.is_waiting());
        recording.look_who_serves();
        assert_eq!(recording.profiling.is_waiting(), is_profiled, "{server:?}");
        let stacks = std::fs::read_dir(&run).expect("the run's folder").flatten();
        let stacks = stacks.filter(|file| file.file_name().to_string_lossy().ends_with(archive::file::STACKS));
        assert_eq!(stacks.count(), usize::from(is_profiled), "{server:?}");
    }
}
