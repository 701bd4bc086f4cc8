//! Several bellows that account what a node's threads do: it is one flag of the whole node.

use crate::clean::{Deed, start_client};
use crate::common;

use std::thread;
use std::time::Duration;

use common::{Beam, eval, kill, started};
use erlang::alloc::{Microstates, microstates};
use erlang::term::{as_atom, as_int};
use erlang::{Error, Helper, Node};

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(2);
/// Whether the accounting is on; it is off afterwards.
const TURN_OFF: &str = "erlang:system_flag(microstate_accounting, false).";

fn account(beam: &Beam, window: Duration) -> Result<Microstates, Error> {
    let node = beam.connect();
    let helper = Helper::load(&node).expect("the helper");
    let states = microstates(&helper, window, &|| false);
    helper.close().expect("a clean node");
    states
}

/// The schedulers were accounted for the whole window, by bellows and nobody else.
fn assert_whole(states: &Microstates, window: Duration, node: &Node) {
    let schedulers = as_int(&eval(node, "erlang:system_info(schedulers).")).expect("a number");
    let seconds = states.kinds.iter().find(|it| it.threads == "scheduler").expect("schedulers").seconds;
    let whole = window.as_secs_f64() * schedulers as f64;
    assert!(seconds >= whole * 0.95, "{seconds} s of {whole} s");
    assert!(!states.was_on, "nobody else had turned it on");
}

fn is_on(node: &Node) -> bool {
    as_atom(&eval(node, TURN_OFF)) == Some("true")
}

fn wait_until_accounted(node: &Node) {
    let source = "fun W() -> case whereis(bellows_accountant) of \
         undefined -> timer:sleep(5), W(); _ -> timer:sleep(50) end end().";
    eval(node, source);
}

#[test]
fn two_share_the_accounting_whoever_ends_first() {
    let (_home, beam, witness) = started();
    for [first, second] in [[SHORT, LONG], [LONG, SHORT]] {
        let (first_states, second_states) = thread::scope(|scope| {
            let other = scope.spawn(|| account(&beam, first));
            wait_until_accounted(&witness);
            let second = account(&beam, second);
            (other.join().expect("a thread"), second)
        });
        assert_whole(&first_states.expect("states"), first, &witness);
        assert_whole(&second_states.expect("states"), second, &witness);
        assert!(!is_on(&witness), "it is left on");
    }
}

#[test]
fn what_is_killed_leaves_the_accounting_to_others_and_nothing_behind() {
    let (_home, beam, witness) = started();
    // Another one shares it meanwhile.
    let client = start_client(&beam, Deed::Account, true);
    wait_until_accounted(&witness);
    let states = thread::scope(|scope| {
        let other = scope.spawn(|| account(&beam, LONG));
        thread::sleep(SHORT);
        kill(client);
        other.join().expect("a thread")
    });
    assert_whole(&states.expect("states"), LONG, &witness);
    assert!(!is_on(&witness), "it is left on");
    // Another one begins just then.
    for _ in 0..5 {
        let client = start_client(&beam, Deed::Account, true);
        wait_until_accounted(&witness);
        kill(client);
        let states = account(&beam, SHORT);
        assert_whole(&states.expect("states"), SHORT, &witness);
        assert!(!is_on(&witness), "it is left on");
    }
    let left = "[A || A <- registered(), lists:prefix(\"bellows_\", atom_to_list(A))] =:= [].";
    assert_eq!(as_atom(&eval(&witness, left)), Some("true"));
}

#[test]
fn what_somebody_else_accounts_is_left_alone_and_an_accounting_that_is_ended_is_told() {
    let (_home, beam, witness) = started();
    eval(&witness, "erlang:system_flag(microstate_accounting, true).");
    assert!(account(&beam, SHORT).expect("states").was_on);
    assert!(is_on(&witness), "it is turned off");
    // Another version of bellows.
    let other = "P = spawn(fun () -> register(bellows_accountant, self()), \
         (fun L() -> receive {use, _, U} -> U ! {self(), busy, 12345}, L(); \
         {done, _, A} -> A ! {A, done}, L(); stop -> ok end end)() end), \
         monitor(process, P), timer:sleep(50), P.";
    eval(&witness, other);
    let error = account(&beam, SHORT).expect_err("refused");
    let problem = error.problem();
    assert!(problem.cause.contains("another version of bellows"), "{problem:?}");
    assert!(problem.value.contains("12 s") && problem.help.contains("--duration 0s"), "{problem:?}");
    eval(&witness, "bellows_accountant ! stop, timer:sleep(50).");

    let ended = thread::scope(|scope| {
        let ours = scope.spawn(|| account(&beam, LONG));
        wait_until_accounted(&witness);
        eval(&witness, "exit(whereis(bellows_accountant), kill).");
        ours.join().expect("a thread")
    });
    testkit::assert_has(ended.expect_err("it was ended").to_string(), ["accounting_was_ended"]);
    assert!(!is_on(&witness), "it is left on");
}
