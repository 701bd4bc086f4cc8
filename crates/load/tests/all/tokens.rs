//! A password that is renewed while the load runs.

use broker::User;
use load::{Control, Destination, Outcome, Token};

use crate::common::{self, Deaf};

/// A load that logs in with `one`, and whose token becomes `then` in the middle.
fn run(then: &'static str) -> Outcome {
    let users = vec![User::new("svc", "one"), User::new("svc", "two")];
    let broker = common::started(broker::Config { users, ..broker::Config::default() });
    let token = Token::new("one");
    let mut group = common::group(broker.local_addr(), Destination::queue("tokens"), (2, 1));
    group.endpoint.user = "svc".into();
    group.endpoint.token = Some(token.clone());
    let renew = common::after(400, move || token.renew(then));
    let outcome = load::run(&common::measured(group, 900), &Control::new(), &mut Deaf).expect("the load starts");
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
    let text = run("three").error.expect("refused").to_string();
    assert!(text.contains("NOT_ALLOWED") && text.contains("new secret"), "{text}");
    assert!(!text.contains("three"), "{text}");
}
