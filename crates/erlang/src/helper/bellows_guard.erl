%% Budgets of a trace or profile: how long it may last, how far its tracer may lag, what memory it may take, and how far
%% the node's run queue and memory may rise meanwhile. The process that controls a trace looks at them every few
%% milliseconds, at high priority.
-module(bellows_guard).
-export([baseline/0, new/3, check/2, learn/2, every/0, describe/1]).

-define(EVERY, 20).
%% The node's memory and run queue are looked at every so many checks. A run queue that is long for a moment, as when
%% many timers end together, is none that has risen: that takes so many looks in a row.
-define(NODE_EVERY, 5).
-define(IN_A_ROW, 10).

every() -> ?EVERY.

%% What the node does before anything is traced.
baseline() ->
    Runs = [begin timer:sleep(10), queued() end || _ <- lists:seq(1, 10)],
    #{run_queue => lists:sum(Runs) / length(Runs), memory => erlang:memory(total)}.

%% Limits: for_ms, backlog (messages), tracer_bytes, node_bytes (rise), run_queue (rise of the mean).
new(Limits, Baseline, Tracer) ->
    #{limits => Limits, baseline => Baseline, tracer => Tracer, began => now_ms(), checks => 0, long => 0, looks => []}.

%% {ok, Guard}, or {tripped, Which, Observed, Limit}.
check(#{limits := Limits, tracer := Tracer, checks := Checks} = Guard, Now) ->
    #{for_ms := For, backlog := Backlog, tracer_bytes := TracerBytes} = Limits,
    case Now - maps:get(began, Guard) of
        Passed when Passed >= For -> {tripped, time, Passed, For};
        _ ->
            case process_info(Tracer, [message_queue_len, memory]) of
                [{_, Waiting}, _] when Waiting > Backlog -> {tripped, backlog, Waiting, Backlog};
                [_, {_, Bytes}] when Bytes > TracerBytes -> {tripped, tracer_memory, Bytes, TracerBytes};
                _ when Checks rem ?NODE_EVERY =:= 0 -> check_node(Guard#{checks := Checks + 1});
                _ -> {ok, Guard#{checks := Checks + 1}}
            end
    end.

check_node(#{limits := #{node_bytes := MaxBytes, run_queue := MaxQueue}, baseline := Baseline} = Guard) ->
    #{run_queue := Queue0, memory := Memory0} = Baseline,
    Queue = queued(),
    Long = case Queue - Queue0 > MaxQueue of
               true -> maps:get(long, Guard) + 1;
               false -> 0
           end,
    case erlang:memory(total) - Memory0 of
        Rise when Rise > MaxBytes -> {tripped, node_memory, Rise, MaxBytes};
        _ when Long >= ?IN_A_ROW -> {tripped, run_queue, Queue, round(Queue0 + MaxQueue)};
        _ -> {ok, Guard#{long := Long}}
    end.

%% The same while what is traced costs the node nearly nothing: its run queue and memory are what it does by itself, from which a
%% rise counts later.
learn(#{checks := Checks} = Guard, Now) when Checks rem ?NODE_EVERY =:= 0 ->
    #{baseline := #{run_queue := Queue0, memory := Memory0} = Baseline, looks := Before} = Guard,
    Looks = lists:sublist([queued() | Before], ?IN_A_ROW),
    %% As long as it lasts until it counts as a rise.
    Queue = case length(Looks) of
                ?IN_A_ROW -> max(Queue0, lists:min(Looks));
                _ -> Queue0
            end,
    Memory = max(Memory0, erlang:memory(total)),
    check(Guard#{looks := Looks, long := 0, baseline := Baseline#{run_queue := Queue, memory := Memory}}, Now);
learn(Guard, Now) -> check(Guard, Now).

%% What to show of a limit that tripped.
describe({tripped, Which, Observed, Limit}) -> {Which, Observed, Limit}.

queued() -> erlang:statistics(total_run_queue_lengths).

now_ms() -> erlang:monotonic_time(millisecond).
