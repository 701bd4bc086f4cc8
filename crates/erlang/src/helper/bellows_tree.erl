%% Makes a tree of calls from trace messages: calls with their callers, returns, and the schedule of each process. The
%% stack is the one that the process has: a tail call takes the place of its caller, and callers that are not traced
%% stand between those that are.
-module(bellows_tree).
-export([collect/2]).

-define(NODES, 20000).

%% A tracer's loop. Most: messages of one process until the worker is told that it is enough.
collect(Worker, Most) ->
    put('$initial_call', {bellows_keeper, tracer, 0}),
    collect(#{worker => Worker, most => Most, messages => 0, of_pid => 0, stack => [], last => none, mode => run,
              ids => #{}, rows => #{}}).

collect(#{most := Most, of_pid := Most, worker := Worker} = State) ->
    receive
        {next, _} -> collect(next(State));
        {tree, Worker} -> Worker ! {tree, self(), rows(State), maps:get(messages, State)};
        Message when element(1, Message) =:= trace_ts -> collect(State)
    end;
collect(#{of_pid := Count, messages := Messages, most := Most, worker := Worker} = State) ->
    receive
        {next, _} -> collect(next(State));
        {tree, Worker} -> Worker ! {tree, self(), rows(State), Messages};
        Message when element(1, Message) =:= trace_ts ->
            Count + 1 =:= Most andalso (Worker ! {full, self(), element(2, Message)}),
            Next = message(Message, State),
            collect(Next#{of_pid := Count + 1, messages := Messages + 1})
    end.

next(State) -> State#{of_pid := 0, stack := [], last := none, mode := run}.

message({trace_ts, _, call, Function, Caller, At}, State) -> called(Function, Caller, at(At, State));
message({trace_ts, _, return_to, Function, At}, State) -> returned(Function, at(At, State));
message({trace_ts, _, Kind, _, At}, State) when Kind =:= out; Kind =:= out_exited; Kind =:= out_exiting ->
    (at(At, State))#{mode := wait};
message({trace_ts, _, Kind, _, At}, State) when Kind =:= in; Kind =:= in_exiting -> (at(At, State))#{mode := run};
message(_, State) -> State.

%% The time since the last message belongs to the function on top.
at(At, #{last := none} = State) -> State#{last := At};
at(At, #{stack := []} = State) -> State#{last := At};
at(At, #{last := Last, stack := [{_, Id} | _], mode := Mode, rows := Rows} = State) ->
    #{Id := {Parent, Function, Calls, Run, Wait}} = Rows,
    Row = case Mode of
              run -> {Parent, Function, Calls, Run + At - Last, Wait};
              wait -> {Parent, Function, Calls, Run, Wait + At - Last}
          end,
    State#{last := At, rows := Rows#{Id := Row}}.

called(Function, Caller, #{stack := Stack} = State) ->
    Below = case drop_to(Caller, Stack) of
                [] when Caller =:= undefined -> State#{stack := []};
                %% A caller that is not traced, called by the one on top.
                [] -> push(Caller, 0, State);
                Found -> State#{stack := Found}
            end,
    push(Function, 1, Below).

returned(Function, #{stack := [_ | Stack]} = State) ->
    case drop_to(Function, Stack) of
        [] when Function =:= undefined -> State#{stack := []};
        [] -> push(Function, 0, State#{stack := []});
        Found -> State#{stack := Found}
    end;
returned(_, State) -> State.

drop_to(_, []) -> [];
drop_to(Function, [{Function, _} | _] = Stack) -> Stack;
drop_to(Function, [_ | Stack]) -> drop_to(Function, Stack).

%% A function that calls itself stays one node.
push(Function, Calls, #{stack := [{Function, Id} | _] = Stack} = State) ->
    count(Id, Calls, State#{stack := [{Function, Id} | Stack]});
push(Function, Calls, #{stack := Stack, ids := Ids, rows := Rows} = State) ->
    Parent = case Stack of [{_, Above} | _] -> Above; [] -> 0 end,
    case Ids of
        #{{Parent, Function} := Id} -> count(Id, Calls, State#{stack := [{Function, Id} | Stack]});
        _ when map_size(Rows) >= ?NODES -> State;
        _ ->
            Id = map_size(Rows) + 1,
            State#{stack := [{Function, Id} | Stack], ids := Ids#{{Parent, Function} => Id},
                   rows := Rows#{Id => {Parent, Function, Calls, 0, 0}}}
    end.

count(Id, Calls, #{rows := Rows} = State) ->
    #{Id := {Parent, Function, Before, Run, Wait}} = Rows,
    State#{rows := Rows#{Id := {Parent, Function, Before + Calls, Run, Wait}}}.

%% [{Id, Parent, Module, Function, Arity, Calls, Own ns running, Own ns waiting}], parents first.
rows(#{rows := Rows}) ->
    [begin
         {M, F, A} = function(Function),
         {Id, Parent, atom_to_binary(M, utf8), atom_to_binary(F, utf8), A, Calls, nanos(Run), nanos(Wait)}
     end || {Id, {Parent, Function, Calls, Run, Wait}} <- lists:sort(maps:to_list(Rows))].

function({_, _, _} = Function) -> Function;
function(_) -> {unknown, unknown, 0}.

nanos(Native) -> erlang:convert_time_unit(Native, native, nanosecond).
