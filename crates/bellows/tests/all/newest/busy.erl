%% Work of plain Erlang that goes on until it is killed.
-module(busy).
-export([run/0]).

run() ->
    io:put_chars("@ready\n"),
    loop(#{}, 0).

loop(Map, N) ->
    Keys = lists:sort([erlang:phash2({N, I}) || I <- lists:seq(1, 200)]),
    Bin = term_to_binary({N, Keys}),
    {N, Keys} = binary_to_term(Bin),
    loop(maps:put(N rem 100, byte_size(Bin), Map), N + 1).
