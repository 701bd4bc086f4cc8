%% Keeps the node clean. One keeper runs per node and version of bellows; each connection of bellows joins it, and
%% gets an owner: a process that watches the connection, holds a lease that the other side renews, and runs workers,
%% which do what the connection asks for. A worker says how to undo what it is about to do before it does it. Whatever
%% ends first - worker, owner, keeper, lease or connection -, those that are left undo it.
%%
%% When the last owner has gone, the keeper goes, and the process that loaded these modules (load.erl), which runs no
%% code of theirs, removes them.
-module(bellows_keeper).
-export([start/0, join/2, leave/1, run/4, stop/2, why/2, answer/2, is_ours/1, undo_with/2, ours/0, failure/3]).

%% Time for one clean-up, and for a process to end that was told to, in milliseconds.
-define(CLEAN_UP, 10000).
%% A keeper that nobody joined goes after this time, in milliseconds.
-define(UNJOINED, 5000).
-define(CALL, 30000).
%% The same where it undoes something: a busy node with many processes takes long.
-define(UNDO, 120000).

%% Starts the keeper, for the process that loaded these modules; {error, taken} where one runs already.
start() ->
    Self = self(),
    {Pid, Monitor} = spawn_opt(fun () -> begin_keeping(Self) end, [monitor, {priority, high}]),
    receive
        {Pid, Reply} -> demonitor(Monitor, [flush]), Reply;
        {'DOWN', Monitor, process, Pid, _} -> {error, taken}
    end.

%% Makes an owner for the connection that process Client of another node stands for. `gone` where no keeper runs, or
%% where it is just leaving: the caller loads the modules and tries again.
join(Client, LeaseMs) when is_pid(Client), is_integer(LeaseMs), LeaseMs > 0 ->
    case whereis(?MODULE) of
        undefined -> gone;
        Keeper -> call(Keeper, {join, Client, LeaseMs})
    end.

%% Undoes all that this owner's workers did, and ends it: `last` where the keeper goes with it.
leave(Owner) ->
    Monitor = monitor(process, Owner),
    Owner ! leave,
    receive {'DOWN', Monitor, process, Owner, _} -> ok
    after ?UNDO -> error(timeout)
    end,
    case whereis(?MODULE) of
        undefined -> last;
        Keeper ->
            case call(Keeper, {left, Owner}) of
                gone -> last;
                Left -> Left
            end
    end.

%% Runs Module:Function(Owner, Argument) as a worker: {ok, Worker}.
run(Owner, Module, Function, Argument) -> call(Owner, {run, Module, Function, Argument}).

%% Ends a worker, and undoes what it did.
stop(Owner, Worker) -> call(Owner, {stop, Worker}, ?UNDO).

%% Why a worker has ended: `ended`, or {failed, Text}.
why(Owner, Worker) -> call(Owner, {why, Worker}).

%% For workers: answers what was asked with `{ask, Asker, Request}`. Where the connection to the one who asked has gone,
%% the node does not try to make another.
answer(Asker, Reply) -> _ = erlang:send(Asker, {Asker, Reply}, [noconnect]), ok.

%% Whether a module is this one: all of these are one when they are loaded.
is_ours(Module) -> Module =:= ?MODULE.

%% For workers: the processes that work for this connection.
ours() -> [self(), get({?MODULE, owner}), whereis(?MODULE)].

%% For workers, before they do something: how to undo it. It must not mind if there is nothing to undo.
undo_with(Owner, {Module, Function, Arguments} = Undo)
  when is_atom(Module), is_atom(Function), is_list(Arguments) ->
    call(Owner, {undo_with, self(), Undo}).

%% The keeper.

begin_keeping(Starter) ->
    name(keeper),
    try register(?MODULE, self()) of
        true ->
            Starter ! {self(), {ok, self()}},
            keep(#{}, ?UNJOINED)
    catch
        error:badarg -> Starter ! {self(), {error, taken}}
    end.

%% Owners: what each has told of its workers, and of what is to be undone.
keep(Owners, Unjoined) ->
    receive
        {call, From, {join, Client, Lease}} ->
            Self = self(),
            {Owner, _} = spawn_opt(fun () -> own(Self, Client, Lease) end, [monitor, {priority, high}]),
            reply(From, {ok, Owner}),
            keep(Owners#{Owner => {[], []}}, infinity);
        {call, From, {left, Owner}} ->
            %% The news of its end may still be on its way.
            reply(From, case map_size(maps:remove(Owner, Owners)) of 0 -> last; _ -> others end),
            keep(Owners, Unjoined);
        {call, From, {note, Owner, Workers, Undos}} ->
            reply(From, ok),
            keep(Owners#{Owner => {Workers, Undos}}, Unjoined);
        {'DOWN', _, process, Owner, _} when is_map_key(Owner, Owners) ->
            {Workers, Undos} = maps:get(Owner, Owners),
            finish(Workers, Undos),
            case maps:remove(Owner, Owners) of
                Left when map_size(Left) =:= 0 -> ok;
                Left -> keep(Left, infinity)
            end;
        _ -> keep(Owners, Unjoined)
    after Unjoined -> ok
    end.


%% An owner.

own(Keeper, Client, Lease) ->
    name(owner),
    process_flag(trap_exit, true),
    monitor(process, Keeper),
    monitor(process, Client),
    own(#{keeper => Keeper, lease => Lease, until => now_ms() + Lease, workers => #{}, failed => none}).

%% Workers: what is to be undone of each, the latest first.
own(#{workers := Workers, lease := Lease, until := Until} = State) ->
    receive
        %% From the other side itself: it waits for nobody here.
        renew -> own(State#{until := now_ms() + Lease});
        {call, From, {run, Module, Function, Argument}} ->
            Self = self(),
            Worker = spawn_link(fun () ->
                name(worker),
                receive go -> work(Self, Module, Function, Argument) end
            end),
            Next = note(State#{workers := Workers#{Worker => []}}),
            Worker ! go,
            reply(From, {ok, Worker}),
            own(Next);
        {call, From, {undo_with, Worker, Undo}} when is_map_key(Worker, Workers) ->
            Undos = maps:get(Worker, Workers),
            Next = note(State#{workers := Workers#{Worker := [Undo | Undos]}}),
            reply(From, ok),
            own(Next);
        {call, From, {stop, Worker}} ->
            Next = end_worker(Worker, State),
            reply(From, ok),
            own(Next);
        {call, From, {why, Worker}} ->
            reply(From, case State of
                            #{failed := {Worker, Text}} -> {failed, Text};
                            _ -> ended
                        end),
            own(State);
        {'EXIT', Worker, {failed, Text}} -> own(end_worker(Worker, State#{failed := {Worker, Text}}));
        {'EXIT', Worker, _} -> own(end_worker(Worker, State));
        leave -> leave_all(State);
        {'DOWN', _, process, _, _} -> leave_all(State);
        _ -> own(State)
    after max(0, Until - now_ms()) -> leave_all(State)
    end.

%% A worker that fails does so quietly: the node's log is not ours.
work(Owner, Module, Function, Argument) ->
    put({?MODULE, owner}, Owner),
    try apply(Module, Function, [Owner, Argument])
    catch Class:Reason:Stack -> exit({failed, failure(Class, Reason, Stack)})
    end.

leave_all(#{workers := Workers}) ->
    finish(maps:keys(Workers), lists:append(maps:values(Workers))).

end_worker(Worker, #{workers := Workers} = State) when is_map_key(Worker, Workers) ->
    finish([Worker], maps:get(Worker, Workers)),
    note(State#{workers := maps:remove(Worker, Workers)});
end_worker(_, State) -> State.

%% Tells the keeper, which needs it where this process is killed. Without a keeper there is nobody to tell, and the
%% message that says so comes next.
note(#{keeper := Keeper, workers := Workers} = State) ->
    _ = call(Keeper, {note, self(), maps:keys(Workers), lists:append(maps:values(Workers))}),
    State.

%% Ends workers, and undoes what they did once none is left that could do more.
finish(Workers, Undos) ->
    Monitors = [begin
                    Monitor = monitor(process, Worker),
                    unlink(Worker),
                    exit(Worker, kill),
                    Monitor
                end || Worker <- Workers],
    [receive {'DOWN', Monitor, process, _, _} -> ok after ?CLEAN_UP -> ok end || Monitor <- Monitors],
    lists:foreach(fun undo/1, Undos).

undo({Module, Function, Arguments}) ->
    {Pid, Monitor} = spawn_opt(fun () ->
        name(undo),
        catch apply(Module, Function, Arguments)
    end, [monitor, {priority, high}]),
    receive {'DOWN', Monitor, process, Pid, _} -> ok
    after ?CLEAN_UP -> exit(Pid, kill), demonitor(Monitor, [flush])
    end.

%% What tools show of a process that has no name: its first call.
name(Function) -> put('$initial_call', {?MODULE, Function, 0}).

now_ms() -> erlang:monotonic_time(millisecond).

%% Why a worker failed, without arguments, which may be secrets.
failure(Class, Reason, Stack) ->
    Calls = [{Module, Function, case is_list(Arguments) of true -> length(Arguments); false -> Arguments end}
             || {Module, Function, Arguments, _} <- lists:sublist(Stack, 5)],
    bellows_text:term({Class, Reason, Calls}, 600).

call(To, Request) -> call(To, Request, ?CALL).

call(To, Request, Longest) when node(To) =:= node() ->
    Monitor = monitor(process, To),
    To ! {call, {self(), Monitor}, Request},
    receive
        {Monitor, Reply} -> demonitor(Monitor, [flush]), Reply;
        {'DOWN', Monitor, process, To, _} -> gone
    after Longest -> demonitor(Monitor, [flush]), error(timeout)
    end.

reply({Pid, Monitor}, Reply) -> Pid ! {Monitor, Reply}.
