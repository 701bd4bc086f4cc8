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

write_down(N) -> busy(200 + N rem 2).

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

depot(N) -> search(N), {ok, N}.

search(N) when N rem 10 =:= 0 -> busy(20000);
search(_) -> busy(1000).

wrap(_) -> ok.

busy(Micros) -> busy_until(erlang:monotonic_time(microsecond) + Micros).

busy_until(Time) ->
    case erlang:monotonic_time(microsecond) of
        Now when Now >= Time -> ok;
        _ -> spin(50), busy_until(Time)
    end.

spin(0) -> ok;
spin(N) -> erlang:phash2(N), spin(N - 1).
"#;

fn shop(home: &File, node: &Node) {
    let file = home.join("shop.erl");
    std::fs::write(&file, SHOP).expect("a source");
    let load = format!(
        "persistent_term:put(orders, counters:new(1, [])), \
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

/// The functions of a tree that cost something, each with its caller and its calls.
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
    assert!(path.modules.contains(&"shop".to_owned()), "{:?}", path.modules);
    assert_eq!(path.left_out, Vec::<String>::new());
    let calls = path.calls.len() as u64;
    assert!(calls > 50 && !path.untraced.is_empty(), "{calls} calls");
    tree_is_that_of_the_shop(&path, calls);
    times_are_those_of_the_shop(&path);
    slow_calls_differ_where_the_shop_is_slow(&path);
    helper.close().expect("closed");
    let flags = "length([P || P <- processes(), {flags, [_ | _]} <- [erlang:trace_info(P, flags)]]).";
    assert_eq!(as_int(&eval(&node, flags)), Some(0));
}

/// Every order asks the store once, which asks the depot once.
fn tree_is_that_of_the_shop(path: &Path, calls: u64) {
    let shape = shape(path);
    let mut once = vec![
        ("[depot]", "gen_server:call/2"),
        ("[store]", "gen_server:call/2"),
        ("gen_server:call/2", "shop:order/1"),
        ("gen_server:call/2", "shop:store/1"),
        ("shop:busy/1", "shop:depot/1"),
        ("shop:busy/1", "shop:order/1"),
        ("shop:depot/1", "shop:handle_call/3"),
        ("shop:handle_call/3", "[depot]"),
        ("shop:handle_call/3", "[store]"),
        ("shop:order/1", ""),
        ("shop:rest/1", "shop:store/1"),
        ("shop:search/1", "shop:depot/1"),
        ("shop:store/1", "shop:handle_call/3"),
        ("shop:wrap/1", "shop:store/1"),
        ("shop:write_down/1", "shop:order/1"),
    ];
    once.sort_unstable();
    let told: Vec<_> = shape
        .iter()
        .filter(|(function, _, _)| !function.contains("busy_until") && !function.contains("spin"))
        .filter(|(function, _, _)| function != "timer:sleep/1")
        .collect();
    let expected: Vec<_> = once
        .iter()
        .map(|(function, caller)| ((*function).to_owned(), (*caller).to_owned(), calls))
        .collect();
    assert_eq!(told, expected.iter().collect::<Vec<_>>(), "{shape:#?}");
}

/// Own times and waits of one order add up to how long it took.
fn times_are_those_of_the_shop(path: &Path) {
    for call in &path.calls {
        let sum: u64 = call.costs.iter().map(|it| it.running + it.waiting).sum();
        let whole = u64::try_from(call.duration.as_nanos()).expect("a short time");
        let apart = whole.abs_diff(sum);
        assert!(apart < whole / 20 + 200_000, "{whole} ns, parts {sum} ns");
        // The least that the shop works for an order.
        assert!(whole > 1_200_000, "{whole} ns");
    }
}

fn slow_calls_differ_where_the_shop_is_slow(path: &Path) {
    let compared = path.comparison().expect("calls enough");
    let (slow, rest) = (millis(compared.slow_mean), millis(compared.rest_mean));
    assert!(slow > 38.0 && slow > rest * 3.0, "{slow} ms, {rest} ms");
    let found = |name: &str| {
        let found = compared.functions.iter().find(|it| it.function == name);
        found.unwrap_or_else(|| panic!("{name} in {compared:#?}"))
    };
    // The depot's search is what works longer, the store's rest what waits longer.
    let search = found("shop:search/1");
    let busy = ["shop:spin/1", "shop:busy_until/1"].map(|name| found(name).more());
    assert!(millis(busy.iter().sum()) > 15.0, "{busy:?}");
    let sleep = found("timer:sleep/1");
    let waits = millis(sleep.slow.waiting - sleep.rest.waiting);
    assert!(waits > 15.0, "{waits} ms");
    let first: Vec<_> = compared.functions.iter().take(3).map(|it| it.function.as_str()).collect();
    assert!(first.contains(&"shop:spin/1") && first.contains(&"timer:sleep/1"), "{first:?}");
    assert!(millis(search.more()) < 5.0, "{search:?}");
    let more: f64 = compared.functions.iter().map(Difference::more).sum();
    assert!((millis(more) / (slow - rest) - 1.0).abs() < 0.1, "{more}");
}
