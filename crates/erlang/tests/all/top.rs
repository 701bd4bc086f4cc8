//! `top` of a node whose tables are those of RabbitMQ.

use crate::common;

use std::time::Duration;

use common::{eval, loaded};
use erlang::top::{TopRequest, TopSort, top};

const SCENE: &str = include_str!("../data/clients.erl");

#[test]
fn names_do_not_depend_on_the_rows_that_are_shown_and_among_equals_work_decides() {
    let (_home, _beam, node, helper) = loaded();
    eval(&node, SCENE);
    let request = TopRequest { window: Duration::from_millis(300), sort: TopSort::Messages, limit: 4, flow: false };
    let window = top(&helper, &request, &|| false).expect("a window");
    let rows: Vec<_> = window.processes.iter().map(|it| (it.role.as_str(), it.name.as_str())).collect();
    let client = "127.0.0.1:45678 -> 127.0.0.1:5672 - shop (1)";
    let expected = [("channel", client), ("writer", client), ("busy", "x"), ("calm", "x")];
    assert_eq!(rows, expected);
}
