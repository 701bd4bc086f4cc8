%% Calls of an entry function, wherever they are made, followed into the processes that they ask.
-module(bellows_root).
-export([start/2]).

%% Time that only the entry is traced, as a part of all; the same of the time after it in which functions are counted at most, and
%% the least of that (ms).
-define(PLAIN_PART, 4).
-define(COUNTED_PART, 2).
-define(COUNTED, 200).
%% Calls that are counted where there is time for them: one alone may find its answer in a cache, and the next one make it anew.
-define(COUNTED_CALLS, 4).
%% Calls below one of the entry are at most this part of the messages that may wait: each makes two, and slow calls more than others. What is
%% left out from the start leaves some room.
-define(WAITING_PART, 8).
-define(ROOM, 2).
%% Bytes that a message takes until it is looked at, and the least number of calls that are allowed.
-define(MESSAGE, 256).
-define(LEAST_ALLOWED, 300).
%% Functions that were left out, and what was counted of them, that are told.
-define(TOLD, 100).

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
    %% What is expected makes less than this wait.
    Most = (maps:with([limit, rate, messages], Options))#{flood => maps:get(backlog, Limits) div 2},
    case bellows_follow:open(Owner, [Entry], Most) of
        {error, Reason} -> throw(Reason);
        {ok, #{tracer := Tracer} = Opened} ->
            {Flagged, Chosen} = case Processes of
                                    processes -> {all, all};
                                    Pids -> {{only, Pids}, maps:from_keys(Pids, true)}
                                end,
            Follow = bellows_follow:plain(Flagged, Opened, Chosen),
            Guard = bellows_guard:new(Limits, Baseline, Tracer),
            Now = now_ms(),
            watch(Options#{follow => Follow, guard => Guard, tracer => Tracer, phase => plain, modules => [], left_out => [],
                           counted => {0, []}, turn => Now + maps:get(for_ms, Options) div ?PLAIN_PART,
                           until => Now + maps:get(for_ms, Options), due => Now})
    end.

%% Until something ends it; answers how far it is.
watch(#{due := Due, tracer := Tracer} = State) ->
    receive
        {ask, Alias, stop} -> finish({asked, 0, 0}, State, [Alias]);
        {ask, Alias, so_far} ->
            Path = bellows_follow:so_far(maps:get(follow, State)),
            bellows_keeper:answer(Alias, {so_far, result(time, [], Path, State)}),
            watch(State);
        {ask, Alias, _} ->
            #{plain_count := Plain, done := Done, seen := Seen} = bellows_follow:told(maps:get(follow, State)),
            bellows_keeper:answer(Alias, {running, maps:get(phase, State), Plain, Done, Seen}),
            watch(State);
        {flood, Tracer, Functions} ->
            {LeftOut, Follow} = bellows_follow:thinner(Functions, maps:get(follow, State)),
            watch(State#{follow := Follow, left_out := maps:get(left_out, State) ++ LeftOut});
        {mode, Tracer, Mode} ->
            bellows_follow:mode(Mode, maps:get(follow, State)),
            watch(State);
        {stop, Tracer, Reason} -> finish(Reason, State, []);
        {'EXIT', Tracer, Reason} -> exit({tracer, Reason});
        _ -> watch(State)
    after max(0, Due - now_ms()) -> tick(State)
    end.

tick(#{guard := Guard, phase := Phase} = State) ->
    Now = now_ms(),
    Checked = case Phase of
                  plain -> bellows_guard:learn(Guard, Now);
                  _ -> bellows_guard:check(Guard, Now)
              end,
    case Checked of
        {ok, Next} -> watch(turn(Now, State#{guard := Next, due := Now + bellows_guard:every()}));
        {tripped, time, _, _} -> finish(time, State, []);
        Tripped -> finish(bellows_guard:describe(Tripped), State, [])
    end.

%% The second phase begins when the time has come, and a call was seen; the third when enough were counted, or time is up.
turn(Now, #{phase := plain, turn := Turn, follow := Follow, patterns := Given, until := Until} = State) when Now >= Turn ->
    case bellows_follow:told(Follow) of
        #{plain_count := 0} -> State;
        #{callers := Callers, pids := Pids, plain := Durations} ->
            Modules = case Given of
                          [] -> bellows_follow:modules(Follow);
                          _ -> Given
                      end,
            #{root := {Module, _, _}} = State,
            %% What one of them calls on its way must be seen, to know when it gets control again.
            All = lists:usort([{Module, '_', '_'} | Modules]) ++ [Caller || {_, _, _} = Caller <- maps:keys(Callers)],
            Processes = callers(Pids, State),
            Counted = bellows_follow:counted(All, Processes, Follow, chosen(Processes)),
            State#{phase := counted, modules := All, durations => Durations, follow := Counted, began => now_ms(),
                   turn := now_ms() + (Until - now_ms()) div ?COUNTED_PART}
    end;
turn(Now, #{phase := counted, turn := Turn, began := Began, follow := Follow} = State) when Now - Began >= ?COUNTED ->
    case bellows_follow:told(Follow) of
        #{counted := Few} when Few < ?COUNTED_CALLS, Now < Turn -> State;
        #{counted := Calls, pids := Pids} -> detailed(max(1, Calls), Pids, State)
    end;
turn(_, State) -> State.

%% What would be too much for the node, or for what is measured, is left out from the start.
detailed(Calls, Pids, #{follow := Follow, modules := Modules, patterns := Given, durations := Durations} = State) ->
    {Tally, Uncounted} = bellows_follow:tally(Follow),
    Bearable = bearable(State),
    {Allowed, Most} = case Given of
                          [] ->
                              Few = min(Bearable, bellows_follow:allowed(Durations)),
                              {Few, Few div ?ROOM};
                          _ -> {infinity, Bearable}
                      end,
    {LeftOut, Expected} = too_often(Tally, Calls, Most),
    Processes = callers(Pids, State),
    AtOnce = max(1, Bearable div max(1, Expected)),
    Detailed = bellows_follow:detailed(Modules, Processes, Uncounted, chosen(Processes), Allowed, LeftOut, AtOnce),
    State#{phase := detailed, follow := Detailed, left_out := maps:get(left_out, Detailed), counted := {Calls, Tally}}.

%% Calls below one of the entry whose messages may wait all together.
bearable(#{limits := #{backlog := Backlog, tracer_bytes := Bytes}}) ->
    max(?LEAST_ALLOWED, min(Backlog, Bytes div ?MESSAGE) div ?WAITING_PART).

%% The functions that are called most, without which a call of the entry makes no more calls than these; and how many it makes then.
too_often(Tally, Calls, Most) ->
    Sum = lists:sum([Of || {_, Of, _} <- Tally]),
    too_often(lists:reverse(lists:keysort(2, Tally)), Calls, Most, Sum, []).

too_often([{Function, Of, _} | More], Calls, Most, Sum, LeftOut) when Sum > Most * Calls ->
    too_often(More, Calls, Most, Sum - Of, [Function | LeftOut]);
too_often(_, Calls, _, Sum, LeftOut) -> {LeftOut, Sum div Calls}.

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

finish(Ended, #{follow := Follow} = State, Askers) ->
    Anew = [atom_to_binary(Module, utf8) || {Module, _, _} <- bellows_follow:fallen(Follow)],
    Result = result(Ended, Anew, bellows_follow:result(Follow), State),
    [bellows_keeper:answer(Alias, {done, Result}) || Alias <- Askers],
    hand_out(Result).

result(Ended, Anew, Path, #{modules := Modules, left_out := LeftOut, counted := {Calls, Tally}} = State) ->
    Path#{ended => Ended, loaded_anew => Anew, modules => [bellows_time:name(Pattern) || Pattern <- Modules],
          left_out => [bellows_time:name(Function) || Function <- lists:usort(LeftOut)],
          counted_calls => Calls, counted => counted(LeftOut, Tally), phase => maps:get(phase, State)}.

%% What was counted of the functions that were left out, those with most own time first.
counted(LeftOut, Tally) ->
    Left = maps:from_keys(LeftOut, true),
    Rows = [{Micros, Of, Function} || {Function, Of, Micros} <- Tally, is_map_key(Function, Left)],
    [{atom_to_binary(Module, utf8), atom_to_binary(Name, utf8), Arity, Of, Micros} ||
        {Micros, Of, {Module, Name, Arity}} <- lists:sublist(lists:reverse(lists:sort(Rows)), ?TOLD)].

hand_out(Result) ->
    receive
        {ask, Alias, _} -> bellows_keeper:answer(Alias, {done, Result}), hand_out(Result);
        _ -> hand_out(Result)
    after 60000 -> ok
    end.

now_ms() -> erlang:monotonic_time(millisecond).
