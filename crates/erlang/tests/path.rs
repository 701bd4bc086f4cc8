//! Calls of an entry function, followed through a chain of servers whose work is known, and calls that are timed.

mod common;

use std::path::Path as File;
use std::thread;
use std::time::Duration;

use common::{Beam, eval};
use erlang::calls::{Path, RootOptions, follow};
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
    RootOptions {
        root: "shop:order/1".parse().expect("a pattern"),
        functions: Vec::new(),
        processes: ProcessFilter::All,
        duration: Duration::from_secs(seconds),
        limit: 10_000,
        rate: 1_000,
        messages: 5_000_000,
        budget: Budget::lasting(Duration::from_secs(seconds)),
    }
}

#[test]
fn calls_are_followed_into_the_servers_that_they_ask() {
    let home = tempfile::tempdir().expect("a folder");
    let beam = Beam::start(home.path());
    let node = beam.connect();
    shop(home.path(), &node);
    eval(&node, "persistent_term:put(customer, shop:orders(2)), ok.");
    let helper = Helper::load(&node).expect("loaded");
    let path = follow(&helper, &options(4), |_| false).expect("followed");
    for n in path.tree.nodes() { eprintln!("{n:?}"); }
    eprintln!("{:?} {} {:?} plain {} {:?}", path.ended, path.calls.len(), path.modules, path.untraced.len(), path.messages);
    eprintln!("{:#?}", path.comparison());
}
