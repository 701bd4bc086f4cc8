%% The stack of one process, made of its trace messages, and the tree of all stacks. The tree stands in the dictionary of
%% the process that uses this module: a number for each function below its callers. What each of them cost stands with
%% the stack, as it is asked for by stack.
%%
%% A stack has the functions that are traced, and those of their callers that are not. A tail call takes the place of its
%% caller, as it does on the real stack. The time of a function that is not traced belongs to the traced one that called
%% it, as nobody says when it returns.
-module(bellows_stack).
-export([new/1, based/4, node_of/2, called/4, hidden/4, returned/3, scheduled/3, to_base/2, give/2, top/1, costs/1,
         merge/2, nodes/0, row/2]).

-define(NODES, 20000).

%% Frames: {Function, Node, Cost, Depth, Calls, Run, Wait}, the top first, where Cost is the number of the function that
%% pays, and Depth how often it stands there in a row. The base never leaves. Depth is 0 for a function at the bottom whose
%% call nobody saw: its return is not told, so that it leaves when something else that is not on the stack calls.
-record(stack, {frames = [], base = none, above = none, last = none, mode = run, costs = #{}}).

%% The stack of a process of which nothing is known. Costs: what others cost before.
new(Costs) -> #stack{costs = Costs}.

%% A stack with a function that is there for good: its number in the tree, calls that were just made of it, and who called
%% it. Where it ends with a call of another, that one has the same caller.
based({Function, Node}, Calls, Above, At) -> #stack{base = {Function, Node, Node, 1, Calls, 0, 0}, above = Above, last = At}.

%% The number of a function below another, 0 where nobody calls it; `full` where there are too many.
node_of(Parent, Function) ->
    case get({Parent, Function}) of
        undefined ->
            case get(nodes) of
                undefined -> new_node(1, Parent, Function);
                Known when Known < ?NODES -> new_node(Known + 1, Parent, Function);
                _ -> full
            end;
        Number -> Number
    end.

new_node(Number, Parent, Function) ->
    put(nodes, Number),
    put({Parent, Function}, Number),
    Number.

%% A traced function is called.
called(Function, Caller, At, Stack) -> push(Function, 1, below(Caller, at(At, Stack))).

%% The same for one that is only traced for us: what it does belongs to the one that called it.
hidden(Function, Caller, At, Stack) ->
    #stack{frames = Frames} = Below = below(Caller, at(At, Stack)),
    {Node, Cost} = place(Below),
    Below#stack{frames = [{Function, Node, Cost, 1, 0, 0, 0} | Frames]}.

%% A traced function returns to another. `base` where that is not on the stack, and the stack has a base.
returned(_, At, #stack{frames = [], base = none} = Stack) -> at(At, Stack);
returned(Function, At, Stack) ->
    case drop_to(Function, pop(at(At, Stack))) of
        {found, Found} -> Found;
        none -> unknown(Function, Stack, At)
    end.

unknown(undefined, #stack{base = none} = Stack, At) -> emptied(at(At, Stack));
unknown(Function, #stack{base = none} = Stack, At) -> push(Function, 0, emptied(at(At, Stack)));
unknown(_, _, _) -> base.

%% The process gets a scheduler, or loses it.
scheduled(Mode, At, Stack) -> (at(At, Stack))#stack{mode = Mode}.

%% All above the base has gone.
to_base(At, Stack) -> emptied(at(At, Stack)).

%% Part of the wait of the function on top, in the past or still to come, is accounted for by somebody else.
give(Time, #stack{frames = [{Function, Node, Cost, Depth, Calls, Run, Wait} | Frames]} = Stack) ->
    Stack#stack{frames = [{Function, Node, Cost, Depth, Calls, Run, Wait - Time} | Frames]};
give(_, Stack) -> Stack.

%% The number of the function on top.
top(Stack) -> element(1, place(Stack)).

%% What each function cost, by its number: {Calls, Running, Waiting}.
costs(Stack) ->
    #stack{base = Base, costs = Costs} = emptied(Stack),
    case Base of
        none -> Costs;
        _ -> pay(Base, Costs)
    end.

merge(Costs, More) -> maps:fold(fun add/3, Costs, More).

add(Node, {Calls, Run, Wait}, Costs) ->
    case Costs of
        #{Node := {C, R, W}} -> Costs#{Node := {C + Calls, R + Run, W + Wait}};
        _ -> Costs#{Node => {Calls, Run, Wait}}
    end.

%% [{Number, Parent, Function}], parents first.
nodes() ->
    lists:sort([{Number, Parent, Function} || {{Parent, Function}, Number} <- get(), is_integer(Parent), is_integer(Number)]).

%% What the other side reads of a function: {Number, Parent, Module, Name, Arity, Calls, ns running, ns waiting}.
row({Number, Parent, Function}, Costs) ->
    {Calls, Run, Wait} = maps:get(Number, Costs, {0, 0, 0}),
    {Module, Name, Arity} = named(Function),
    {Number, Parent, Module, Name, Arity, Calls, nanos(Run), nanos(Wait)}.

named({Module, Name, Arity}) -> {atom_to_binary(Module, utf8), atom_to_binary(Name, utf8), Arity};
named(_) -> {<<"unknown">>, <<"unknown">>, 0}.

nanos(Native) -> erlang:convert_time_unit(Native, native, nanosecond).

%% The time since the last message belongs to the function on top.
at(At, #stack{last = none} = Stack) -> Stack#stack{last = At};
at(At, #stack{frames = [Frame | Frames]} = Stack) -> Stack#stack{frames = [spend(At, Frame, Stack) | Frames], last = At};
at(At, #stack{base = none} = Stack) -> Stack#stack{last = At};
at(At, #stack{base = Base} = Stack) -> Stack#stack{base = spend(At, Base, Stack), last = At}.

spend(At, {Function, Node, Cost, Depth, Calls, Run, Wait}, #stack{last = Last, mode = run}) ->
    {Function, Node, Cost, Depth, Calls, Run + At - Last, Wait};
spend(At, {Function, Node, Cost, Depth, Calls, Run, Wait}, #stack{last = Last}) ->
    {Function, Node, Cost, Depth, Calls, Run, Wait + At - Last}.

%% The stack up to the caller. One that is not known is not traced, and called by the traced one that is next below.
below(Caller, #stack{base = Base} = Stack) ->
    case drop_to(Caller, Stack) of
        {found, Found} -> Found;
        none when Caller =:= undefined -> emptied(Stack);
        none when Base =/= none, Caller =:= Stack#stack.above -> emptied(Stack);
        none -> push(Caller, 0, drop_untraced(Stack))
    end.

drop_untraced(#stack{frames = [{_, Node, Cost, Depth, _, _, _} = Frame | Frames], costs = Costs} = Stack)
  when Node =/= Cost; Depth =:= 0 ->
    drop_untraced(Stack#stack{frames = Frames, costs = pay(Frame, Costs)});
drop_untraced(Stack) -> Stack.

pop(#stack{frames = [{Function, Node, Cost, Depth, Calls, Run, Wait} | Frames]} = Stack) when Depth > 1 ->
    Stack#stack{frames = [{Function, Node, Cost, Depth - 1, Calls, Run, Wait} | Frames]};
pop(#stack{frames = [Frame | Frames], costs = Costs} = Stack) -> Stack#stack{frames = Frames, costs = pay(Frame, Costs)};
pop(Stack) -> Stack.

drop_to(Function, #stack{frames = Frames} = Stack) ->
    case lists:keymember(Function, 1, Frames) of
        true -> {found, dropped(Function, Stack)};
        false when Frames =:= [], Function =:= element(1, Stack#stack.base) -> {found, Stack};
        false when Function =:= element(1, Stack#stack.base) -> {found, emptied(Stack)};
        false -> none
    end.

dropped(Function, #stack{frames = [{Function, _, _, _, _, _, _} | _]} = Stack) -> Stack;
dropped(Function, #stack{frames = [Frame | Frames], costs = Costs} = Stack) ->
    dropped(Function, Stack#stack{frames = Frames, costs = pay(Frame, Costs)}).

emptied(#stack{frames = Frames, costs = Costs} = Stack) ->
    Stack#stack{frames = [], costs = lists:foldl(fun pay/2, Costs, Frames)}.

pay({_, _, _, _, 0, 0, 0}, Costs) -> Costs;
pay({_, _, Cost, _, Calls, Run, Wait}, Costs) -> add(Cost, {Calls, Run, max(0, Wait)}, Costs).

%% A function that calls itself stays one, Calls: 1, or 0 for one that is not traced.
push(Function, Calls, #stack{frames = [{Function, Node, _, 0, _, _, _} | _] = Frames} = Stack) ->
    Stack#stack{frames = [{Function, Node, Node, 1, Calls, 0, 0} | Frames]};
push(Function, Calls, #stack{frames = [{Function, Node, Cost, Depth, Before, Run, Wait} | Frames]} = Stack) ->
    Stack#stack{frames = [{Function, Node, Cost, Depth + 1, Before + Calls, Run, Wait} | Frames]};
push(Function, Calls, #stack{frames = Frames} = Stack) ->
    {Above, Payer} = place(Stack),
    case node_of(Above, Function) of
        full -> Stack#stack{frames = [{Function, Above, Payer, 1, 0, 0, 0} | Frames]};
        Node when Calls =:= 0, Payer =:= 0 -> Stack#stack{frames = [{Function, Node, Node, 0, 0, 0, 0} | Frames]};
        Node when Calls > 0 -> Stack#stack{frames = [{Function, Node, Node, 1, Calls, 0, 0} | Frames]};
        Node -> Stack#stack{frames = [{Function, Node, Payer, 1, 0, 0, 0} | Frames]}
    end.

%% The function on top, and who pays for it.
place(#stack{frames = [{_, Node, Cost, _, _, _, _} | _]}) -> {Node, Cost};
place(#stack{base = {_, Node, Cost, _, _, _, _}}) -> {Node, Cost};
place(_) -> {0, 0}.
