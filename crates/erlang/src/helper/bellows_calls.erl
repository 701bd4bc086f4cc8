%% What functions cost: calls and own time of each, exactly, by the emulator's own counters (call_time), or what they allocate (call_memory), and who calls
%% whom, from short traces of a few of the busiest processes. The counters run in blocks, with blocks between them in
%% which nothing is traced: the difference is what the counting costs.
-module(bellows_calls).
-export([start/2]).

%% Length of a block without counters, as a part of one with them, and its least (ms).
-define(PAUSE_PART, 4).
-define(PAUSE_LEAST, 100).
%% Longest that counters run before the guard looks (ms).
-define(STEP, 20).
%% Longest wait for the first question, whether it has begun (ms).
-define(BEGUN, 5000).
-define(TRACER_WORDS, 33554432).
%% A short trace ends after so many messages, or so long (ms); all of them make so many.
-define(BURST_MESSAGES, 20000).
-define(BURST, 200).
-define(MOST_PROCESSES, 100).
-define(MOST_FUNCTIONS, 5000).

%% Options: counter (call_time, or call_memory from OTP 26 on), patterns, processes (see bellows_trace), for_ms, blocks (1: without a look at what
%% it costs), bursts (number of processes to trace shortly), limits.
start(Owner, #{patterns := Patterns} = Options) ->
    process_flag(priority, high),
    try
        Checked = bellows_trace:patterns(Patterns),
        Chosen = bellows_trace:chosen(maps:get(processes, Options)),
        count(Owner, Options#{patterns := Checked, processes := Chosen})
    of
        Result -> hand_out(Result)
    catch
        throw:Reason -> hand_out({refused, Reason})
    end.

hand_out(Result) ->
    receive {ask, Alias, _} -> bellows_keeper:answer(Alias, Result), hand_out(Result)
    after 60000 -> ok
    end.

count(Owner, #{counter := Counter, patterns := Patterns, processes := Processes, limits := Limits} = Options) ->
    Baseline = bellows_guard:baseline(),
    %% Counters send nothing, but a session has a tracer.
    Tracer = spawn_link(fun () -> put('$initial_call', {bellows_keeper, tracer, 0}), idle() end),
    Session = open(Owner, Tracer),
    %% Whoever asks first learns that it was not refused.
    receive {ask, Alias, begun} -> bellows_keeper:answer(Alias, begun) after ?BEGUN -> ok end,
    erlang:system_flag(scheduler_wall_time, true),
    Guard = bellows_guard:new(Limits, Baseline, Tracer),
    Blocks = maps:get(blocks, Options),
    Block = max(1, maps:get(for_ms, Options) div Blocks),
    Pause = max(?PAUSE_LEAST, Block div ?PAUSE_PART),
    flags(Session, Processes, true, [call]),
    {Rested, Quiet} = measured(fun () -> rest(Pause) end),
    Versions = bellows_version:of_modules([Module || {Module, _, _} <- Patterns]),
    {Counted, Costs, Ended} = blocks(Blocks, Session, Counter, Patterns, Block, Pause, Guard, #{}, [{off, Quiet}], Rested),
    Anew = [name(Module) || Module <- lists:usort(lost(Counted) ++ bellows_version:changed(Versions))],
    Functions = counted(Counted),
    flags(Session, Processes, false, [call]),
    unlink(Tracer),
    bellows_session:close(Session),
    {Tree, Bursts} = case {Ended, maps:get(bursts, Options)} of
                         {time, N} when N > 0 -> bursts(Owner, Patterns, busiest(Functions, N), Limits, Baseline);
                         _ -> {[], {0, 0, 0, none}}
                     end,
    {calls, functions(Functions), processes(Functions), lists:reverse(Costs), Ended, Tree, Bursts, Anew}.

open(Owner, Tracer) ->
    case bellows_session:open(Owner, Tracer) of
        {ok, Session} -> Session;
        {error, Reason} -> throw(Reason)
    end.

idle() -> receive _ -> idle() end.

flags(Session, processes, On, Flags) ->
    bellows_session:processes(Session, existing, On, Flags),
    bellows_session:processes(Session, new, On, Flags);
flags(Session, Pids, On, Flags) -> [bellows_session:processes(Session, Pid, On, Flags) || Pid <- Pids].

%% Blocks with counters, each followed by one without.
blocks(_, _, _, _, _, _, _, Counted, Costs, stop) -> {Counted, Costs, {asked, 0, 0}};
blocks(0, _, _, _, _, _, _, Counted, Costs, _) -> {Counted, Costs, time};
blocks(Left, Session, Counter, Patterns, Block, Pause, Guard, Counted, Costs, ok) ->
    [bellows_session:functions(Session, Pattern, true, [Counter]) || Pattern <- Patterns],
    Witnesses = bellows_version:witnesses(Session, Patterns, Counter),
    {Ended, Checked, On} = parts(max(1, Block div Pause), Block, Guard, Costs),
    [bellows_session:functions(Session, Pattern, pause, [Counter]) || Pattern <- Patterns],
    Known = lists:foldl(fun ({Module, _, _}, Sums) -> Sums#{{lost, Module} => true} end, Counted,
                        bellows_version:fallen(Session, Witnesses, Counter)),
    Sum = lists:foldl(fun (Pattern, Sums) -> read(Session, Counter, Pattern, Sums) end, Known, Patterns),
    [bellows_session:functions(Session, Pattern, false, [Counter]) || Pattern <- Patterns],
    case Ended of
        time ->
            Left > 1 andalso so_far(Sum, On),
            {Rested, Off} = measured(fun () -> rest(Pause) end),
            blocks(Left - 1, Session, Counter, Patterns, Block, Pause, Checked, Sum, [{off, Off} | On], Rested);
        Tripped -> {Sum, On, Tripped}
    end.

%% Tells whoever waits for it what was counted in the blocks until now: where the node goes away, there is nothing else.
so_far(Counted, Costs) ->
    receive
        {ask, Alias, so_far} ->
            Functions = counted(Counted),
            Result = {calls, functions(Functions), processes(Functions), lists:reverse(Costs), time, [], {0, 0, 0, none},
                      [name(Module) || Module <- lists:usort(lost(Counted))]},
            bellows_keeper:answer(Alias, {so_far, Result})
    after 0 -> ok
    end.

%% A block with counters in parts as long as the blocks without them, so that what comes now and then meets both alike.
parts(Left, Ms, Guard, Costs) ->
    {{Ended, Checked}, On} = measured(fun () -> watch(now_ms() + Ms div Left, Guard) end),
    case Ended of
        time when Left > 1 -> parts(Left - 1, Ms - Ms div Left, Checked, [{on, On} | Costs]);
        _ -> {Ended, Checked, [{on, On} | Costs]}
    end.

watch(Until, Guard) ->
    case now_ms() of
        Now when Now >= Until -> {time, Guard};
        Now ->
            case bellows_guard:check(Guard, Now) of
                {ok, Checked} ->
                    case rest(min(?STEP, Until - Now)) of
                        ok -> watch(Until, Checked);
                        stop -> {{asked, 0, 0}, Checked}
                    end;
                Tripped -> {bellows_guard:describe(Tripped), Guard}
            end
    end.

%% Waits, unless we are told to stop.
rest(Ms) -> receive {ask, _, stop} -> stop after Ms -> ok end.

%% Adds what the counters say, by function and process.
read(Session, Counter, Pattern, Counted) ->
    lists:foldl(fun (Function, Sums) ->
        case bellows_session:counters(Session, Function, Counter) of
            List when is_list(List) ->
                lists:foldl(fun ({Pid, Calls, Seconds, Micros}, Into) ->
                                    add(Function, Pid, Calls, Seconds * 1000000 + Micros, Into);
                                ({Pid, Calls, Words}, Into) ->
                                    add(Function, Pid, Calls, Words, Into)
                            end, Sums, List);
            _ -> Sums
        end
    end, Counted, bellows_session:matching(Pattern)).

%% Modules whose counters went away in a block, and the sums of functions.
lost(Counted) -> [Module || {lost, Module} <- maps:keys(Counted)].

counted(Counted) -> maps:filter(fun (Key, _) -> tuple_size(Key) =:= 3 end, Counted).

add(_, _, 0, _, Sums) -> Sums;
%% What this process does itself is none of the node's.
add(_, Pid, _, _, Sums) when Pid =:= self() -> Sums;
add(Function, Pid, Calls, Micros, Sums) ->
    maps:update_with(Function, fun (Pids) ->
        maps:update_with(Pid, fun ({C, M}) -> {C + Calls, M + Micros} end, {Calls, Micros}, Pids)
    end, #{Pid => {Calls, Micros}}, Sums).

%% {Result, {Microseconds, Reductions, Busy millionths of the schedulers}} of the node meanwhile.
measured(Fun) ->
    {Reductions0, _} = erlang:statistics(reductions),
    Wall0 = lists:sort(erlang:statistics(scheduler_wall_time)),
    Began = erlang:monotonic_time(microsecond),
    Result = Fun(),
    Micros = erlang:monotonic_time(microsecond) - Began,
    Wall1 = lists:sort(erlang:statistics(scheduler_wall_time)),
    {Reductions1, _} = erlang:statistics(reductions),
    Online = erlang:system_info(schedulers_online),
    {Busy, Whole} = lists:foldl(fun ({{Id, A0, T0}, {Id, A1, T1}}, {A, T}) when Id =< Online -> {A + A1 - A0, T + T1 - T0};
                                    (_, Sums) -> Sums
                                end, {0, 0}, lists:zip(Wall0, Wall1)),
    {Result, {Micros, Reductions1 - Reductions0, Busy * 1000000 div max(1, Whole)}}.

%% [{Module, Function, Arity, Calls, Own µs, Processes}], the most own time first.
functions(Counted) ->
    Rows = [begin
                {Calls, Micros} = totals(maps:values(Pids)),
                {Micros, {name(M), name(F), A, Calls, Micros, map_size(Pids)}}
            end || {{M, F, A}, Pids} <- maps:to_list(Counted)],
    [Row || {_, Row} <- lists:sublist(lists:reverse(lists:sort(Rows)), ?MOST_FUNCTIONS)].

%% [{Pid, Role, Name, Calls, Own µs}], the most own time first.
processes(Counted) ->
    [begin
         {Role, Name} = bellows_role:of_process(Pid),
         {list_to_binary(pid_to_list(Pid)), Role, Name, Calls, Micros}
     end || {Micros, Calls, Pid} <- lists:sublist(by_process(Counted), ?MOST_PROCESSES)].

by_process(Counted) ->
    Pids = maps:fold(fun (_, Of, Into) ->
        maps:fold(fun (Pid, {Calls, Micros}, Sums) ->
            maps:update_with(Pid, fun ({C, M}) -> {C + Calls, M + Micros} end, {Calls, Micros}, Sums)
        end, Into, Of)
    end, #{}, Counted),
    lists:reverse(lists:sort([{Micros, Calls, Pid} || {Pid, {Calls, Micros}} <- maps:to_list(Pids)])).

%% Processes that are still there, the busiest in these functions first.
busiest(Counted, Number) ->
    lists:sublist([Pid || {_, _, Pid} <- by_process(Counted), is_process_alive(Pid)], Number).

totals(Pairs) -> lists:foldl(fun ({C, M}, {Calls, Micros}) -> {C + Calls, M + Micros} end, {0, 0}, Pairs).

%% Short traces, one process after the other: {Tree, {Processes, Messages, Milliseconds, Ended}}.
bursts(Owner, Patterns, Pids, Limits, Baseline) ->
    Worker = self(),
    Tracer = spawn_opt(fun () -> bellows_tree:collect(Worker, ?BURST_MESSAGES) end,
                       [link, {priority, high}, {max_heap_size, #{size => ?TRACER_WORDS, kill => true, error_logger => false}}]),
    process_flag(trap_exit, true),
    Session = open(Owner, Tracer),
    [bellows_session:functions(Session, Pattern, [{'_', [], [{message, {caller}}]}], [local]) || Pattern <- Patterns],
    Guard = bellows_guard:new(Limits, Baseline, Tracer),
    {Traced, Millis, Ended} = burst(Pids, Session, Tracer, Guard, 0, 0),
    [bellows_session:functions(Session, Pattern, false, [local]) || Pattern <- Patterns],
    {Tree, Messages} = tree(Tracer, Ended),
    bellows_session:close(Session),
    {Tree, {Traced, Messages, Millis, Ended}}.

burst([], _, _, _, Traced, Millis) -> {Traced, Millis, time};
burst([Pid | Pids], Session, Tracer, Guard, Traced, Millis) ->
    Flags = [call, return_to, running, arity, monotonic_timestamp],
    Began = now_ms(),
    Tracer ! {next, Pid},
    bellows_session:processes(Session, Pid, true, Flags),
    Ended = await(Pid, Tracer, Began + ?BURST, Guard),
    bellows_session:processes(Session, Pid, false, Flags),
    Passed = Millis + now_ms() - Began,
    case Ended of
        {ok, Checked} -> burst(Pids, Session, Tracer, Checked, Traced + 1, Passed);
        Tripped -> {Traced + 1, Passed, Tripped}
    end.

await(Pid, Tracer, Until, Guard) ->
    case bellows_guard:check(Guard, Now = now_ms()) of
        {ok, Checked} when Now >= Until -> {ok, Checked};
        {ok, Checked} ->
            receive
                {full, Tracer, Pid} -> {ok, Checked};
                {ask, _, stop} -> {asked, 0, 0};
                {'EXIT', Tracer, _} -> {tracer_memory, ?TRACER_WORDS * 8, ?TRACER_WORDS * 8}
            after min(10, Until - Now) -> await(Pid, Tracer, Until, Checked)
            end;
        {tripped, time, _, _} -> {ok, Guard};
        Tripped -> bellows_guard:describe(Tripped)
    end.

%% What the tracer made of it; nothing of one that fell behind, as it would take long.
tree(Tracer, {asked, _, _}) -> tree(Tracer, time);
tree(Tracer, time) ->
    Tracer ! {tree, self()},
    receive
        {tree, Tracer, Rows, Messages} -> {Rows, Messages};
        {'EXIT', Tracer, _} -> {[], 0}
    after 5000 -> {[], 0}
    end;
tree(_, _) -> {[], 0}.

name(Name) -> atom_to_binary(Name, utf8).

now_ms() -> erlang:monotonic_time(millisecond).
