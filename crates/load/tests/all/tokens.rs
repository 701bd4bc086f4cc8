//! A password that is renewed while the load runs.

use std::thread;
use std::time::Duration;

use broker::User;
use load::{Control, Destination, Endpoint, Group, Outcome, Phases, Plan, RunEvent, Sink, Token};
use measure::{Interval, Nanos};

struct Nothing;

impl Sink for Nothing {
    fn interval(&mut self, _: &Interval) {}
    fn event(&mut self, _: RunEvent) {}
}

/// A load that logs in with `one`, and whose token becomes `then` in the middle.
fn run(then: &'static str) -> Outcome {
    let config =
        broker::Config { users: vec![User::new("svc", "one"), User::new("svc", "two")], ..broker::Config::default() };
    let broker = broker::Broker::bind(config).expect("bind").spawn().expect("spawn");
    let token = Token::new("one");
    let mut endpoint = Endpoint::new("127.0.0.1", broker.local_addr().port());
    endpoint.user = "svc".into();
    endpoint.token = Some(token.clone());
    let group = Group::new(endpoint, vec![Destination::queue("tokens")]);
    let mut plan = Plan {
        groups: vec![group],
        phases: Phases { measure: Some(Nanos::from_millis(900)), ..Phases::default() },
        ..Plan::default()
    };
    plan.groups[0].producers.per_destination = 2;
    plan.groups[0].consumers.per_destination = 1;
    let renew = thread::spawn(move || {
        thread::sleep(Duration::from_millis(400));
        token.renew(then);
    });
    let outcome = load::run(&plan, &Control::new(), &mut Nothing).expect("the load starts");
    renew.join().expect("renewed");
    outcome
}

#[test]
fn a_renewed_token_reaches_the_broker_on_every_connection() {
    let outcome = run("two");
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert!(outcome.totals.received > 100);
}

#[test]
fn a_token_that_the_broker_refuses_ends_the_load_with_its_words() {
    let outcome = run("three");
    let text = outcome.error.expect("refused").to_string();
    assert!(text.contains("NOT_ALLOWED") && text.contains("new secret"), "{text}");
    assert!(!text.contains("three"), "{text}");
}
