%% The emulator's own traces say of each caller its line, and its backtraces the address that is returned to.
begin
    erlang:system_flag(backtrace_depth, 64),
    spawn(fun() -> lists:map(fun(_) -> lists:foldl(fun(_, _) -> lists:sort(fun(_, _) -> receive never -> ok end
        end, [b, a]) end, 0, [1]) end, [1]) end),
    spawn(fun() -> maps:map(fun(_, _) -> orddict:fold(fun(_, _, _) -> lists:foreach(fun(_) ->
        gb_sets:fold(fun(_, _) -> timer:sleep(infinity) end, 0, gb_sets:from_list([1])) end, [1]) end, 0,
        [{a, 1}]) end, #{a => 1}) end),
    timer:sleep(300),
    Of = fun(P) ->
        {backtrace, B} = process_info(P, backtrace),
        {current_stacktrace, [_ | S]} = process_info(P, current_stacktrace),
        Found = re:run(B, "Return addr (0x[0-9a-f]+) [(](.+?) [+] ", [global, {capture, all_but_first, list}]),
        R = case Found of nomatch -> []; {match, M} -> M end,
        Lines = [{lists:flatten(io_lib:format("~w:~w/~w", [M, F, A])), proplists:get_value(file, L, ""),
            proplists:get_value(line, L, 0)} || {M, F, A, L} <- S],
        case [N || [_, N] <- R] =:= [N || {N, _, _} <- Lines] of
            true -> [[A, N, F, integer_to_list(L)] || {[A, N], {N, F, L}} <- lists:zip(R, Lines)];
            false -> []
        end
    end,
    lists:flatten(lists:join($;, [lists:join($,, It) ||
        It <- lists:usort(lists:append([Of(P) || P <- processes(), P =/= self()]))]))
end.
