%% Makes a tree of calls from the trace messages of one process after the other: calls with their callers, returns, and
%% the schedule of each process.
-module(bellows_tree).
-export([collect/2]).

%% A tracer's loop. Most: messages of one process until the worker is told that it is enough.
collect(Worker, Most) ->
    put('$initial_call', {bellows_keeper, tracer, 0}),
    collect(Worker, Most, none, 0, 0, bellows_stack:new(#{})).

%% Messages: of all processes, and Count of this one, Pid. What comes late of one before it stands on no stack of this one.
collect(Worker, Most, Pid, Messages, Count, Stack) ->
    receive
        {next, Next} -> collect(Worker, Most, Next, Messages, 0, bellows_stack:new(bellows_stack:costs(Stack)));
        {tree, Worker} ->
            Costs = bellows_stack:costs(Stack),
            Rows = [bellows_stack:row(Node, Costs) || Node <- bellows_stack:nodes()],
            Worker ! {tree, self(), Rows, Messages};
        Message when element(1, Message) =:= trace_ts, element(2, Message) =:= Pid, Count < Most ->
            Count + 1 =:= Most andalso (Worker ! {full, self(), Pid}),
            collect(Worker, Most, Pid, Messages + 1, Count + 1, message(Message, Stack));
        Message when element(1, Message) =:= trace_ts -> collect(Worker, Most, Pid, Messages, Count, Stack)
    end.

message({trace_ts, _, call, Function, Caller, At}, Stack) -> bellows_stack:called(Function, Caller, At, Stack);
message({trace_ts, _, return_to, Function, At}, Stack) -> bellows_stack:returned(Function, At, Stack);
message({trace_ts, _, Kind, _, At}, Stack) when Kind =:= out; Kind =:= out_exited; Kind =:= out_exiting ->
    bellows_stack:scheduled(wait, At, Stack);
message({trace_ts, _, Kind, _, At}, Stack) when Kind =:= in; Kind =:= in_exiting -> bellows_stack:scheduled(run, At, Stack);
message(_, Stack) -> Stack.
