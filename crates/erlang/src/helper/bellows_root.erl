%% Calls of an entry function, wherever they are made, followed into the processes that they ask.
-module(bellows_root).
-export([start/2]).

%% Time that only the entry is traced, as a part of all.
-define(PLAIN_PART, 4).

%% Options: root (a pattern), patterns (modules below it; none: those that are met), processes (see bellows_trace), for_ms, limit,
%% rate, messages, limits (see bellows_guard).
start(Owner, #{root := Root, patterns := Patterns} = Options) ->
    process_flag(priority, high),
    try
        [Entry] = bellows_trace:patterns([Root]),
        Checked = bellows_trace:patterns(Patterns),
        follow(Owner, Options#{root := Entry, patterns := Checked, processes := bellows_trace:chosen(maps:get(processes, Options))})
    catch
        throw:Reason -> refuse(Reason)
    end.

refuse(Reason) ->
    receive {ask, Alias, _} -> bellows_keeper:answer(Alias, {refused, Reason}), refuse(Reason)
    after 60000 -> ok
    end.

follow(Owner, #{root := Entry, limits := Limits, processes := Processes} = Options) ->
    Baseline = bellows_guard:baseline(),
    case bellows_follow:open(Owner, [Entry], maps:with([limit, rate, messages], Options)) of
        {error, Reason} -> throw(Reason);
        {ok, #{tracer := Tracer} = Opened} ->
            {Flagged, Chosen} = case Processes of
                                    processes -> {all, all};
                                    Pids -> {{only, Pids}, maps:from_keys(Pids, true)}
                                end,
            Follow = bellows_follow:plain(Flagged, Opened, Chosen),
            Guard = bellows_guard:new(Limits, Baseline, Tracer),
            watch(Options#{follow => Follow, guard => Guard, tracer => Tracer, phase => plain, modules => [], left_out => [],
                           turn => now_ms() + maps:get(for_ms, Options) div ?PLAIN_PART, due => now_ms()})
    end.

%% Until something ends it; answers how far it is.
watch(#{due := Due, tracer := Tracer} = State) ->
    receive
        {ask, Alias, stop} -> finish({asked, 0, 0}, State, [Alias]);
        {ask, Alias, _} ->
            #{plain_count := Plain, done := Done, seen := Seen} = bellows_follow:told(maps:get(follow, State)),
            bellows_keeper:answer(Alias, {running, maps:get(phase, State), Plain, Done, Seen}),
            watch(State);
        {flood, Tracer, Functions} ->
            {LeftOut, Follow} = bellows_follow:thinner(Functions, maps:get(follow, State)),
            watch(State#{follow := Follow, left_out := maps:get(left_out, State) ++ LeftOut});
        {stop, Tracer, Reason} -> finish(Reason, State, []);
        {'EXIT', Tracer, Reason} -> exit({tracer, Reason});
        _ -> watch(State)
    after max(0, Due - now_ms()) -> tick(State)
    end.

tick(#{guard := Guard} = State) ->
    Now = now_ms(),
    case bellows_guard:check(Guard, Now) of
        {ok, Checked} -> watch(turn(Now, State#{guard := Checked, due := Now + bellows_guard:every()}));
        {tripped, time, _, _} -> finish(time, State, []);
        Tripped -> finish(bellows_guard:describe(Tripped), State, [])
    end.

%% The second phase begins when the time has come, and a call was seen.
turn(Now, #{phase := plain, turn := Turn, follow := Follow, patterns := Given} = State) when Now >= Turn ->
    case bellows_follow:told(Follow) of
        #{plain_count := 0} -> State;
        #{callers := Callers, pids := Pids, plain := Durations} ->
            %% What one of them calls on its way must be seen, to know when it gets control again.
            {Modules, Allowed} = case Given of
                                     [] -> {bellows_follow:modules(Follow), bellows_follow:allowed(Durations)};
                                     _ -> {Given, infinity}
                                 end,
            #{root := {Module, _, _}} = State,
            All = lists:usort([{Module, '_', '_'} | Modules]) ++ [Caller || {_, _, _} = Caller <- maps:keys(Callers)],
            Processes = callers(Pids, State),
            Detailed = bellows_follow:detailed(All, Processes, Follow, chosen(Processes), Allowed),
            State#{phase := detailed, modules := All, follow := Detailed, began => Now}
    end;
turn(_, State) -> State.

%% Those that have called the entry, those that are as they are, and all that start from now on.
callers(_, #{processes := Pids}) when is_list(Pids) -> {only, Pids};
callers(Pids, _) ->
    Kinds = maps:from_keys([Kind || Pid <- maps:keys(Pids), Kind <- [kind(Pid)], Kind =/= unknown], true),
    Alike = [Pid || Pid <- erlang:processes(), is_map_key(Pid, Pids) orelse is_map_key(kind(Pid), Kinds)],
    {new, Alike}.

kind(Pid) ->
    case process_info(Pid, [initial_call, dictionary]) of
        [{_, Initial}, {_, Noted}] ->
            case lists:keyfind('$initial_call', 1, Noted) of
                {_, {Module, Function, Arity}} -> {Module, Function, Arity};
                _ when Initial =:= {erlang, apply, 2} -> unknown;
                _ -> Initial
            end;
        undefined -> unknown
    end.

chosen({_, Pids}) -> maps:from_keys(Pids, true).

finish(Ended, #{follow := Follow, modules := Modules} = State, Askers) ->
    Anew = [atom_to_binary(Module, utf8) || {Module, _, _} <- bellows_follow:fallen(Follow)],
    Path = bellows_follow:result(Follow),
    Result = Path#{ended => Ended, loaded_anew => Anew, modules => [bellows_time:name(Pattern) || Pattern <- Modules],
                   left_out => [bellows_time:name(Function) || Function <- lists:usort(maps:get(left_out, State))]},
    [bellows_keeper:answer(Alias, {done, Result}) || Alias <- Askers],
    hand_out(Result).

hand_out(Result) ->
    receive
        {ask, Alias, _} -> bellows_keeper:answer(Alias, {done, Result}), hand_out(Result);
        _ -> hand_out(Result)
    after 60000 -> ok
    end.

now_ms() -> erlang:monotonic_time(millisecond).
