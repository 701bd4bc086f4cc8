//! Calls of an entry function, followed through a chain of servers whose work is known, and calls that are timed.

mod common;

use std::path::Path as File;
use std::time::Duration;

use common::{Beam, eval};
use erlang::calls::{Difference, Path, RootOptions, TreeNode, follow};
use erlang::term::as_int;
use erlang::{Budget, Ended, Helper, Node, ProcessFilter};

/// A shop whose entry asks a store, which asks a depot. The store works, and rests in every tenth order; the depot works.
const SHOP: &str = r#"
-module(shop).
-behaviour(gen_server).
-export([start/0, order/1, orders/1, store/1, depot/1, init/1, handle_call/3, handle_cast/2]).

start() ->
    {ok, _} = gen_server:start({local, store}, ?MODULE, store, []),
    {ok, _} = gen_server:start({local, depot}, ?MODULE, depot, []),
    ok.

orders(Pause) -> spawn(fun Loop() -> receive stop -> ok after Pause -> ok end, customer(), Loop() end).

customer() -> N = counters_next(), shop:order(N), ok.

counters_next() -> counters:add(persistent_term:get(orders), 1, 1), counters:get(persistent_term:get(orders), 1).

order(N) ->
    write_down(N),
    {ok, Price} = gen_server:call(store, {order, N}),
    Price + 1.

write_down(_) -> work(2).

init(Name) -> {ok, Name}.

handle_call({order, N}, _, store) -> {reply, store(N), store};
handle_call({fetch, N}, _, depot) -> {reply, depot(N), depot}.

handle_cast(_, State) -> {noreply, State}.

store(N) ->
    rest(N),
    {ok, Box} = gen_server:call(depot, {fetch, N}),
    wrap(N),
    {ok, Box}.

rest(N) when N rem 10 =:= 0 -> timer:sleep(20);
rest(_) -> ok.

depot(N) -> found = search(N), {ok, N}.

%% Each order needs one look at each shelf; every tenth one is at the end.
search(N) when N rem 10 =:= 0 -> shelf(400);
search(_) -> shelf(10).

shelf(0) -> found;
shelf(N) -> look(), shelf(N - 1).

look() -> erlang:crc32(persistent_term:get(book)).

wrap(_) -> ok.

work(0) -> ok;
work(N) -> look(), work(N - 1).
"#;

fn shop(home: &File, node: &Node) {
    let file = home.join("shop.erl");
    std::fs::write(&file, SHOP).expect("a source");
    let load = format!(
        "persistent_term:put(orders, counters:new(1, [])), persistent_term:put(book, binary:copy(<<7>>, 50000)), \
         {{ok, shop, Code}} = compile:file(\"{}\", [binary]), \
         {{module, shop}} = code:load_binary(shop, \"shop.erl\", Code), ok = shop:start().",
        file.display()
    );
    eval(node, &load);
}

fn options(seconds: u64) -> RootOptions {
    let duration = Duration::from_secs(seconds);
    RootOptions {
        root: "shop:order/1".parse().expect("a pattern"),
        functions: Vec::new(),
        processes: ProcessFilter::All,
        duration,
        limit: 10_000,
        rate: 1_000,
        messages: 5_000_000,
        budget: Budget {
            backlog: 50_000,
            ..Budget::lasting(duration)
        },
    }
}

/// The functions of a tree that were called, each with its caller and its calls.
fn shape(path: &Path) -> Vec<(String, String, u64)> {
    let nodes = path.tree.nodes();
    let caller = |node: &TreeNode| node.caller.map_or("", |it| nodes[it].function.as_str());
    let shape = nodes
        .iter()
        .map(|node| (node.function.clone(), caller(node).to_owned(), node.calls));
    let mut shape: Vec<_> = shape.filter(|(_, _, calls)| *calls > 0).collect();
    shape.sort();
    shape
}

fn millis(nanos: f64) -> f64 {
    nanos / 1e6
}

/// Waits until a customer has ordered since the counters were put back.
fn follow_orders(node: &Node, helper: &Helper, options: &RootOptions) -> Path {
    eval(node, "persistent_term:put(customer, shop:orders(2)), ok.");
    let path = follow(helper, options, |_| false).expect("followed");
    eval(node, "persistent_term:get(customer) ! stop, ok.");
    path
}

#[test]
fn calls_are_followed_into_the_servers_that_they_ask() {
    let home = tempfile::tempdir().expect("a folder");
    let beam = Beam::start(home.path());
    let node = beam.connect();
    shop(home.path(), &node);
    let helper = Helper::load(&node).expect("loaded");
    let path = follow_orders(&node, &helper, &options(6));
    assert_eq!(path.ended, Ended::Time, "{path:?}");
    assert!(
        path.modules.contains(&"shop".to_owned()),
        "{:?}",
        path.modules
    );
    assert_eq!(path.left_out, Vec::<String>::new());
    let calls = path.calls.len() as u64;
    assert!(calls > 50 && !path.untraced.is_empty(), "{calls} calls");
    tree_is_that_of_the_shop(&path, calls);
    times_are_those_of_the_shop(&path);
    slow_calls_differ_where_the_shop_is_slow(&path);
    helper.close().expect("closed");
    let flags =
        "length([P || P <- processes(), {flags, [_ | _]} <- [erlang:trace_info(P, flags)]]).";
    assert_eq!(as_int(&eval(&node, flags)), Some(0));
}

/// Every order asks the store once, which asks the depot once.
fn tree_is_that_of_the_shop(path: &Path, calls: u64) {
    let slow = calls / 10;
    let looks = path.tree.own()["shop:look/0"].calls;
    let shelves = path.tree.own()["shop:shelf/1"].calls;
    let rests = path.tree.own()["timer:sleep/1"].calls;
    assert!(rests.abs_diff(slow) <= 1, "{rests} rests in {calls} calls");
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
    ]
    .map(|(function, caller, calls)| (function.to_owned(), caller.to_owned(), calls));
    expected.sort();
    assert_eq!(shape(path), expected);
}

/// Own times and waits of one order add up to how long it took.
fn times_are_those_of_the_shop(path: &Path) {
    for call in &path.calls {
        let sum: u64 = call.costs.iter().map(|it| it.running + it.waiting).sum();
        let whole = u64::try_from(call.duration.as_nanos()).expect("a short time");
        let apart = whole.abs_diff(sum);
        assert!(apart < whole / 20 + 200_000, "{whole} ns, parts {sum} ns");
    }
}

fn slow_calls_differ_where_the_shop_is_slow(path: &Path) {
    let compared = path.comparison().expect("calls enough");
    let (slow, rest) = (millis(compared.slow_mean), millis(compared.rest_mean));
    assert!(slow > 25.0 && slow > rest * 3.0, "{slow} ms, {rest} ms");
    let found = |name: &str| {
        let found = compared.functions.iter().find(|it| it.function == name);
        found.unwrap_or_else(|| panic!("{name} in {compared:#?}"))
    };
    // The depot looks longer, the store rests.
    let names = compared.functions.iter().map(|it| it.function.as_str());
    let first: Vec<_> = names.take(2).collect();
    assert!(
        first.contains(&"shop:look/0") && first.contains(&"timer:sleep/1"),
        "{first:?}"
    );
    let (look, sleep) = (found("shop:look/0"), found("timer:sleep/1"));
    assert!(look.slow.own > look.rest.own * 5.0, "{look:?}");
    assert!(
        millis(sleep.slow.waiting) > 15.0 && millis(sleep.slow.own) < 2.0,
        "{sleep:?}"
    );
    let (shelf, call) = (found("shop:shelf/1"), found("gen_server:call/2"));
    assert!(shelf.slow.accumulated > look.slow.own * 0.9, "{shelf:?}");
    assert!(call.slow.accumulated > look.slow.own * 0.9, "{call:?}");
    let more: f64 = compared.functions.iter().map(Difference::more).sum();
    assert!((millis(more) / (slow - rest) - 1.0).abs() < 0.1, "{more}");
}
