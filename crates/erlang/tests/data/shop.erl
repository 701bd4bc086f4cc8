%% A shop whose entry asks a store, which asks a depot. The store rests in every tenth order; both work.
-module(shop).
-behaviour(gen_server).
-export([start/0, order/1, orders/1, search/1, count/1, init/1, handle_call/3, handle_cast/2]).

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

count(N) -> {ok, count(N, 0)}.

count(0, Sum) -> Sum;
count(N, Sum) -> count(N - 1, Sum + N).

work(0) -> ok;
work(N) -> look(), work(N - 1).
