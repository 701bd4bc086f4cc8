//! Calls of an entry function, followed through a chain of servers whose work is known, and calls that are timed.

use crate::{clean, common};

use std::time::Duration;

use common::{Beam, eval, follow};
use erlang::calls::{Difference, Path, RootOptions, TreeNode};
use erlang::term::as_int;
use erlang::timing::{TimeOptions, time};
use erlang::{Budget, Ended, Helper, Node};
use tempfile::TempDir;

const SHOP: &str = include_str!("../data/shop.erl");

fn shop() -> (TempDir, Beam, Node, Helper) {
    let (home, beam, node, helper) = common::loaded();
    common::load(home.path(), &node, "shop", SHOP);
    let open = "persistent_term:put(orders, counters:new(1, [])), \
                persistent_term:put(book, binary:copy(<<7>>, 50000)), ok = shop:start().";
    eval(&node, open);
    (home, beam, node, helper)
}

fn options(seconds: u64) -> RootOptions {
    options_of("shop:order/1", seconds)
}

fn options_of(root: &str, seconds: u64) -> RootOptions {
    let (root, duration) = (root.parse().expect("a pattern"), Duration::from_secs(seconds));
    let budget = Budget { backlog: 50_000, ..Budget::lasting(duration) };
    RootOptions { root, duration, limit: 10_000, rate: 1_000, messages: 5_000_000, budget, ..clean::root_options() }
}

/// The functions of a tree that were called, each with its caller and its calls.
fn shape(path: &Path) -> Vec<(&str, &str, u64)> {
    let nodes = path.tree.nodes();
    let caller = |node: &TreeNode| node.caller.map_or("", |it| nodes[it].function.as_str());
    let shape = nodes.iter().map(|node| (node.function.as_str(), caller(node), node.calls));
    let mut shape: Vec<_> = shape.filter(|(_, _, calls)| *calls > 0).collect();
    shape.sort();
    shape
}

fn millis(nanos: f64) -> f64 {
    nanos / 1e6
}

#[test]
fn calls_are_followed_into_the_servers_that_they_ask() {
    let (_home, _beam, node, helper) = shop();
    eval(&node, "shop:orders(2), ok.");
    let path = follow(&helper, &options(6), |_| false).expect("followed");
    assert_eq!(path.ended, Ended::Time, "{path:?}");
    assert!(path.modules.contains(&"shop".to_owned()), "{:?}", path.modules);
    assert_eq!(path.left_out, Vec::<String>::new());
    let calls = path.calls.len() as u64;
    assert!(calls > 50 && !path.untraced.is_empty(), "{calls} calls");
    tree_is_that_of_the_shop(&path, calls);
    times_are_those_of_the_shop(&path);
    slow_calls_differ_where_the_shop_is_slow(&path);
    calls_between_are_only_timed(&path);
    helper.close().expect("closed");
    let flags = "length([P || P <- processes(), {flags, [_ | _]} <- [erlang:trace_info(P, flags)]]).";
    assert_eq!(as_int(&eval(&node, flags)), Some(0));
}

/// Every order asks the store once, which asks the depot once.
fn tree_is_that_of_the_shop(path: &Path, calls: u64) {
    let looks = path.tree.own()["shop:look/0"].calls;
    let shelves = path.tree.own()["shop:shelf/1"].calls;
    let rests = path.tree.own()["timer:sleep/1"].calls;
    // Every tenth order rests; which orders are only timed is by chance.
    let tenth = calls / 20..=calls / 5;
    assert!(tenth.contains(&rests), "{rests} rests in {calls} calls");
    assert_eq!(shelves, 401 * rests + 11 * (calls - rests));
    assert_eq!(looks, shelves - calls + 2 * calls);
    let mut expected = [
        ("[depot]", "gen_server:call/2", calls),
        ("[store]", "gen_server:call/2", calls),
        ("gen_server:call/2", "shop:order/1", calls),
        ("gen_server:call/2", "shop:store/1", calls),
        ("shop:depot/1", "shop:handle_call/3", calls),
        ("shop:handle_call/3", "[depot]", calls),
        ("shop:handle_call/3", "[store]", calls),
        ("shop:look/0", "shop:shelf/1", shelves - calls),
        ("shop:look/0", "shop:work/1", 2 * calls),
        ("shop:order/1", "", calls),
        ("shop:rest/1", "shop:store/1", calls),
        ("shop:search/1", "shop:depot/1", calls),
        // A tail call takes the place of its caller.
        ("shop:shelf/1", "shop:depot/1", shelves),
        ("shop:store/1", "shop:handle_call/3", calls),
        ("shop:work/1", "shop:order/1", 3 * calls),
        ("shop:wrap/1", "shop:store/1", calls),
        ("shop:write_down/1", "shop:order/1", calls),
        ("timer:sleep/1", "shop:store/1", rests),
    ];
    expected.sort();
    assert_eq!(shape(path), expected);
}

/// Own times and waits of one order add up to how long it took; one of so many may have lost its core meanwhile.
fn times_are_those_of_the_shop(path: &Path) {
    let sums = path.calls.iter().map(|call| {
        let sum: u64 = call.costs.iter().map(|it| it.running + it.waiting).sum();
        (u64::try_from(call.duration.as_nanos()).expect("a short time"), sum)
    });
    let apart: Vec<_> = sums.filter(|(whole, sum)| whole.abs_diff(*sum) >= whole / 20 + 200_000).collect();
    assert!(apart.len() < 2, "of {} calls, ns and the sum of their parts: {apart:?}", path.calls.len());
}

/// Some orders between are not followed: they take as long as those before, and less than those that are.
fn calls_between_are_only_timed(path: &Path) {
    let effect = path.observer_effect().expect("calls of both kinds");
    assert_eq!(effect.followed, path.calls.len());
    assert!(effect.beside * 40 > effect.followed, "{effect:?}");
    assert!(effect.beside < effect.followed, "{effect:?}");
    let alone = median(path.untraced.clone());
    let apart = effect.beside_median.as_secs_f64() / alone.as_secs_f64();
    assert!((0.2..5.0).contains(&apart), "{effect:?}, {alone:?}");
    assert!(effect.ratio() > 0.3 && effect.ratio() < 20.0, "{effect:?}");
}

fn slow_calls_differ_where_the_shop_is_slow(path: &Path) {
    let compared = path.comparison().expect("calls enough");
    let (slow, rest) = (millis(compared.slow_mean), millis(compared.rest_mean));
    assert!(slow > 25.0 && slow > rest * 3.0, "{slow} ms, {rest} ms");
    let found = |name: &str| {
        compared.functions.iter().find(|it| it.function == name).unwrap_or_else(|| panic!("{name} in {compared:#?}"))
    };
    // The depot looks longer, the store rests.
    let first: Vec<_> = compared.functions.iter().map(|it| it.function.as_str()).take(2).collect();
    assert!(first.contains(&"shop:look/0") && first.contains(&"timer:sleep/1"), "{first:?}");
    let (look, sleep) = (found("shop:look/0"), found("timer:sleep/1"));
    assert!(look.slow.own > look.rest.own * 5.0, "{look:?}");
    assert!(millis(sleep.slow.waiting) > 15.0 && millis(sleep.slow.own) < 2.0, "{sleep:?}");
    let (shelf, call) = (found("shop:shelf/1"), found("gen_server:call/2"));
    assert!(shelf.slow.accumulated > look.slow.own * 0.9, "{shelf:?}");
    assert!(call.slow.accumulated > look.slow.own * 0.9, "{call:?}");
    let more: f64 = compared.functions.iter().map(Difference::more).sum();
    assert!((millis(more) / (slow - rest) - 1.0).abs() < 0.1, "{more}");
}

fn time_options(call: &str) -> TimeOptions {
    TimeOptions {
        call: call.to_owned(),
        times: 60,
        duration: Duration::from_secs(10),
        traced: 5,
        functions: Vec::new(),
        value: true,
        messages: 5_000_000,
        budget: Budget { backlog: 50_000, ..Budget::lasting(Duration::from_secs(20)) },
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The median of as many calls by `timer:tc`, in a process of its own.
fn by_the_clock(node: &Node, call: &str) -> Duration {
    let source = format!(
        "Self = self(), spawn(fun() -> {call}, \
            Times = [element(1, timer:tc(fun() -> {call} end)) || _ <- lists:seq(1, 60)], \
            Self ! {{micros, lists:nth(30, lists:sort(Times))}} end), receive {{micros, N}} -> N end."
    );
    let micros = as_int(&eval(node, &source)).expect("a number");
    Duration::from_micros(u64::try_from(micros).expect("a time"))
}

#[test]
fn times_are_those_of_the_nodes_own_clock() {
    let (_home, _beam, node, helper) = shop();
    for call in ["shop:search(10)", "lists:seq(1, 20000)"] {
        // Whatever else the machine does falls on one of the two; what is best of each is what counts.
        let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
        let agreed = (0..12).any(|_| {
            theirs = theirs.min(by_the_clock(&node, call));
            let timing = time(&helper, &time_options(call), || false, &mut None).expect("timed");
            assert_eq!((timing.times.len(), &timing.raised), (60, &None), "{timing:?}");
            ours = ours.min(median(timing.times));
            (0.8..1.2).contains(&(ours.as_secs_f64() / theirs.as_secs_f64()))
        });
        assert!(agreed, "{call}: {ours:?} by us, {theirs:?} by timer:tc");
    }
}

#[test]
fn a_timed_call_tells_its_value_its_words_and_its_functions() {
    let (_home, _beam, _node, helper) = shop();
    let timed = |options: &TimeOptions| time(&helper, options, || false, &mut None);
    let order = timed(&time_options("shop:order(7)")).expect("timed");
    assert_eq!(order.value.as_deref(), Some("8"));
    let path = order.path.expect("a path");
    assert_eq!(path.calls.len(), 5);
    let own = path.tree.own();
    for (function, calls) in
        [("shop:order/1", 5), ("[store]", 5), ("[depot]", 5), ("gen_server:call/2", 10), ("shop:look/0", 5 * 12)]
    {
        assert_eq!(own.get(function).map(|it| it.calls), Some(calls), "{function} in {own:#?}");
    }

    // A list of so many elements takes two words each.
    let list = timed(&time_options("lists:seq(1, 1000)")).expect("timed");
    let words = list.collected.expect("collections").words;
    assert!((2_000..2_400).contains(&words), "{words} words");
    assert!(list.reductions > Some(100), "{:?}", list.reductions);

    let secret = timed(&time_options("erlang:error({password, <<\"s3cret\">>})")).expect("timed");
    let raised = secret.raised.expect("an exception");
    assert_eq!((raised.class.as_str(), raised.reason.as_str()), ("error", "{password,***}"));
    assert!(secret.times.is_empty());

    for [call, said] in testkit::table(include_str!("../data/no-calls.txt")) {
        let refused = timed(&time_options(call)).expect_err("refused").to_string();
        assert!(refused.contains(said), "{call}: {refused}");
    }
}

#[test]
fn budgets_end_what_takes_too_much() {
    let (_home, _beam, node, helper) = shop();
    let tripped = |ended: &Ended| match ended {
        Ended::Tripped { limit, .. } => limit.clone(),
        other => format!("{other:?}"),
    };
    let mut large = time_options("lists:duplicate(100000000, a)");
    large.budget.node_bytes = 50 << 20;
    let timing = time(&helper, &large, || false, &mut None).expect("answered");
    let limit = tripped(&timing.ended);
    assert!(["heap", "node_memory"].contains(&limit.as_str()), "{timing:?}");
    let long = TimeOptions { duration: Duration::from_millis(500), ..time_options("timer:sleep(60000)") };
    let timing = time(&helper, &long, || false, &mut None).expect("answered");
    assert_eq!((timing.ended, timing.first), (Ended::Time, None));
    let ended = time(&helper, &time_options("timer:sleep(30000)"), || true, &mut None).expect("answered");
    let counting = common::calls_options("shop", Duration::from_secs(20));
    let counted = common::count(&helper, &counting, &|| true).expect("counted");
    assert_eq!((ended.ended, counted.ended), (Ended::Asked, Ended::Asked));

    eval(&node, "shop:orders(2), ok.");
    let few = RootOptions { functions: vec!["shop".parse().expect("a pattern")], limit: 7, ..options(20) };
    let path = follow(&helper, &few, |_| false).expect("followed");
    assert_eq!((&path.ended, path.calls.len()), (&Ended::Limit(7), 7));
    for (limit, options) in
        [("messages", RootOptions { messages: 500, ..options(20) }), ("rate", RootOptions { rate: 3, ..options(20) })]
    {
        assert_eq!(tripped(&follow(&helper, &options, |_| false).expect("followed").ended), limit);
    }
    let path = follow(&helper, &options(20), |at| at.untraced > 3).expect("followed");
    assert_eq!(path.ended, Ended::Asked);
    helper.close().expect("closed");
}

#[test]
fn functions_that_are_called_too_often_are_left_out() {
    let (_home, _beam, _node, helper) = shop();
    // 3,000 calls of a microsecond at most.
    let timing = time(&helper, &time_options("shop:count(3000)"), || false, &mut None).expect("timed");
    let path = timing.path.expect("a path");
    assert_eq!(path.calls.len(), 5, "{path:?}");
    assert_eq!(path.left_out, ["shop:count/2"]);
    let own = path.tree.own();
    assert_eq!(own["shop:count/1"].calls, 5);
    assert!(own["shop:count/1"].running > 0, "{own:?}");
    // Who names the module gets it.
    let named = TimeOptions { functions: vec!["shop".parse().expect("a pattern")], ..time_options("shop:count(3000)") };
    let path = time(&helper, &named, || false, &mut None).expect("timed").path;
    let path = path.expect("a path");
    assert_eq!(path.left_out, Vec::<String>::new());
    assert_eq!(path.tree.own()["shop:count/2"].calls, 5 * 3_001);
}

/// Processes that count to a number again and again, at the same time.
fn counting(node: &Node, processes: u32, to: u32) {
    let source = format!(
        "[spawn(fun L() -> shop:count({to}), timer:sleep(40), L() end) || _ <- lists:seq(1, {processes})], ok."
    );
    eval(node, &source);
}

#[test]
fn what_is_called_too_often_is_counted_once_and_left_out_from_the_start() {
    let (_home, _beam, node, helper) = shop();
    counting(&node, 1, 20_000);
    let mut options = options_of("shop:count/1", 3);
    let by_itself = follow(&helper, &options, |_| false).expect("followed");
    // The same where its module is named, as the node could not follow.
    options.functions = vec!["shop".parse().expect("a pattern")];
    let named = follow(&helper, &options, |_| false).expect("followed");
    for path in [by_itself, named] {
        assert_eq!((&path.ended, &path.left_out[..]), (&Ended::Time, &["shop:count/2".to_owned()][..]));
        let [hot] = path.counted.as_slice() else {
            panic!("{:?}", path.counted);
        };
        assert_eq!(hot.function, "shop:count/2");
        // One may have been on its way when the counters began or ended.
        let each = hot.calls as f64 / path.counted_calls as f64;
        assert!((19_000.0..41_000.0).contains(&each), "{each} in {}", path.counted_calls);
        assert!(hot.own > Duration::ZERO);
        // No call was lost to finding that out.
        assert!(path.calls.len() > 10, "{}", path.calls.len());
        assert!(path.messages < 2_000, "{}", path.messages);
        let own = path.tree.own();
        assert_eq!(own["shop:count/1"].calls, path.calls.len() as u64);
        assert!(!own.contains_key("shop:count/2"), "{own:?}");
    }
}

#[test]
fn of_many_calls_at_the_same_time_few_are_followed_and_each_whole() {
    let (_home, _beam, node, helper) = shop();
    // All of them would make 24,000 messages every 40 ms, which is too much in the long run. A few times that many may
    // wait: on a busy machine all begin before the node hears that no more may be followed.
    counting(&node, 30, 400);
    let mut options = options_of("shop:count/1", 6);
    options.budget.backlog = 500_000;
    options.functions = vec!["shop".parse().expect("a pattern")];
    let path = follow(&helper, &options, |_| false).expect("followed");
    assert_eq!(path.ended, Ended::Time, "{:?}", path.ended);
    assert!(path.left_out.is_empty(), "{:?}", path.left_out);
    let calls = path.calls.len() as u64;
    assert!(calls > 5 && path.beside.len() > 20, "{calls}, {}", path.beside.len());
    assert_eq!(path.tree.own()["shop:count/2"].calls, 401 * calls);
    helper.close().expect("closed");
    assert_eq!(common::left_behind(&node), None);
}

#[test]
fn calls_that_do_not_return_are_told() {
    let (home, _beam, node, helper) = common::loaded();
    let source = "-module(ends).\n-export([dies/0, throws/0, tries/0, loops/0]).\n\
         dies() -> timer:sleep(5), exit(bye).\nthrows() -> timer:sleep(5), throw(bye).\ntries() -> catch throws(), \
         tries().\n\
         loops() -> timer:sleep(5), loops().\n";
    common::load(home.path(), &node, "ends", source);
    let begin = "spawn(fun Loop() -> {_, M} = spawn_monitor(fun () -> ends:dies(), ok end), \
                 receive {'DOWN', M, _, _, _} -> ok end, Loop() end), \
                 spawn(fun ends:tries/0), spawn(fun ends:loops/0), ok.";
    eval(&node, begin);
    let of = |root: &str| follow(&helper, &options_of(root, 2), |_| false).expect("followed");
    // An exception is an end, also that of the process.
    for root in ["ends:dies/0", "ends:throws/0"] {
        let path = of(root);
        let seen = (path.untraced.len(), path.calls.len());
        assert!(seen.0 > 5 && seen.1 > 5, "{root}: {path:?}");
        let least = path.durations().first().copied();
        assert!(least >= Some(Duration::from_millis(5)), "{root}: {path:?}");
    }
    let path = of("ends:loops/0");
    assert!(path.untraced.is_empty() && path.begun > 20, "{path:?}");
}
