%% The tracer that follows calls of an entry function through processes. Its process is on the entry's path from the call
%% to the return; where it calls another one as gen_server:call does, that one is on the path until it replies, and so
%% on. What happens outside of such a path is dropped.
%%
%% Patterns of the emulator (see bellows_follow) begin a path: the entry's lets its process send messages, and the one
%% of gen:do_call/4 the process that is called, both before anything else happens. They are silenced here, a while
%% after they have left the path, so that the next call need not wait for it.
-module(bellows_path).
-export([collect/2]).

%% Time from the path's end until a process is silenced, in milliseconds: one that is soon back need not be.
-define(LINGER, 20).
%% Time for which messages are held, to put them in order.
-define(HELD, 10).
%% Messages that wait, from which on too many come, where the worker names no other number.
-define(FLOOD, 10000).
%% What all calls cost in detail may take so many bytes; durations alone so many calls.
-define(DETAIL, 33554432).
-define(PLAIN, 100000).
%% Functions, and processes, that were seen calling the entry.
-define(CALLERS, 20).
-define(PIDS, 10000).
-define(NO_COLLECTIONS, {0, 0, 0, none, 0}).
%% Where calls are followed by turns: calls that are followed before one that is not, the least time for either kind (ms), and
%% calls that end while a followed one does not, before that is no longer waited for.
-define(IN_A_ROW, 3).
-define(FOLLOWING, 100).
-define(ALONE, 30).
-define(STUCK, 10).
-define(FLAGS, [return_to, running, exiting]).
-define(ALWAYS, [call, arity, monotonic_timestamp]).

%% A process: what it does on a path, requests to it that it has not begun, whether it is to be silenced, and when it last
%% left a path.
-record(process, {job = none, waiting = [], lingers = false, left = 0}).
%% A part of a path. Kind: entry, alone, or {served, Client, Base}. Call: the entry's number. Asked: the process that is called.
-record(job, {kind, call, stack, began, asked = none, above = none, spent = 0}).
%% A request: who made it, for which call of the entry, its place in the tree, and what was spent on it.
-record(request, {client, call, base, spent = 0}).

%% A tracer's loop. Options: sampler, limit (calls of the entry), rate (the same in a second), messages, perhaps flood.
collect(Worker, Options) ->
    put('$initial_call', {bellows_keeper, tracer, 0}),
    receive {session, Worker, Session} -> ok end,
    loop(0, [], Options#{worker => Worker, session => Session, phase => plain, chosen => all, allowed => infinity, number => 0, second => 0, in_second => 0,
                         plain => [], plain_count => 0, counted => 0, alone => [], alone_count => 0, at_once => infinity, mode => follow, since => 0,
                         row => 0, begun => 0, following => 0, passed => 0, calls => [], done => 0, detail => 0, lost => 0, callers => #{}, pids => #{},
                         gc => ?NO_COLLECTIONS}).

%% Seen: messages so far. Held: those that are not looked at yet, the last first, with their time.
loop(Seen, Held, #{worker := Worker, messages := Most, phase := Phase} = State) ->
    receive
        Message when element(1, Message) =:= trace_ts, Phase =:= detailed ->
            Seen =:= Most andalso stop({messages, Seen + 1, Seen}, State),
            loop(Seen + 1, [{element(tuple_size(Message), Message) , Message} | Held], begins(Message, State));
        Message when element(1, Message) =:= trace_ts ->
            Seen =:= Most andalso stop({messages, Seen + 1, Seen}, State),
            loop(Seen + 1, Held, message(Message, State));
        {drain, Due} ->
            flooded(Held, State),
            {Left, Next} = drain(Due - native(?HELD), Held, State),
            next_drain(),
            loop(Seen, Left, turn(Next));
        {quiet, Pid} ->
            quiet(Pid, Held, State),
            loop(Seen, Held, State);
        {phase, Worker, New, Chosen, Allowed, AtOnce} ->
            {[], Drained} = drain(infinity, Held, State),
            New =:= detailed andalso next_drain(),
            Worker ! {told, self(), ok},
            loop(Seen, [], begin_phase(New, Chosen, Allowed, AtOnce, Drained));
        {tell, Worker} ->
            Worker ! {told, self(), (maps:with([phase, plain, plain_count, counted, done, callers, pids], State))#{seen => Seen}},
            loop(Seen, Held, State);
        {so_far, Worker} ->
            Worker ! {told, self(), result(Seen, State)},
            loop(Seen, Held, State);
        {collections, Worker} ->
            Worker ! {told, self(), maps:get(gc, State)},
            loop(Seen, Held, State#{gc := ?NO_COLLECTIONS});
        {finish, Worker} ->
            {[], Drained} = drain(infinity, Held, State),
            Worker ! {told, self(), result(Seen, Drained)};
        _ -> loop(Seen, Held, State)
    end.

%% Messages of several processes do not come in the order in which things happened: where the tracer is busy, a process
%% keeps its own for a moment. So they are held, and those that are old enough are looked at in order.
drain(Until, Held, State) -> drain_sorted(Until, lists:keysort(1, lists:reverse(Held)), State).

drain_sorted(Until, [{At, Message} | Held], State) when At =< Until -> drain_sorted(Until, Held, message(Message, State));
drain_sorted(_, Held, State) -> {lists:reverse(Held), State}.

%% Where more messages come than can be looked at, the worker is told of the functions that send most: a tenth or more.
flooded(Held, State) ->
    Most = maps:get(flood, State, ?FLOOD),
    case process_info(self(), message_queue_len) of
        {message_queue_len, Waiting} when Waiting > Most ->
            Last = lists:sublist(Held, ?FLOOD),
            Calls = [Function || {_, {trace_ts, _, call, Function, Caller, _}} <- Last,
                                 not (is_tuple(Caller) andalso element(1, Caller) =:= bellows)],
            Counts = lists:foldl(fun (Function, Sums) -> maps:update_with(Function, fun (Count) -> Count + 1 end, 1, Sums) end,
                                 #{}, Calls),
            Least = length(Last) div 10,
            Many = [Function || {Function, Count} <- maps:to_list(Counts), Count > Least],
            Many =:= [] orelse flood(Many, State);
        _ -> ok
    end.

%% What was told before its time has come then, also where many messages wait.
next_drain() -> erlang:send_after(?HELD, self(), {drain, erlang:monotonic_time() + native(?HELD)}).

flood(Functions, #{worker := Worker}) -> Worker ! {flood, self(), Functions}.

stop(Reason, #{worker := Worker}) -> Worker ! {stop, self(), Reason}.

%% Paths that have begun are left, as well as what is known of others: they were not seen in the same way.
begin_phase(Phase, Chosen, Allowed, AtOnce, #{phase := Before, mode := Mode, sampler := Sampler} = State) ->
    [erase(Key) || {Key, Known} <- get(), is_left(Key, Known)],
    Sampler ! rest,
    %% A new phase begins with calls that are followed; one that begins once more goes on as it was.
    Next = case Before of
               Phase -> Mode;
               _ -> follow
           end,
    State#{phase := Phase, chosen := Chosen, allowed := Allowed, at_once := AtOnce, mode := Next, since := now_ms(),
           row := 0, begun := 0, following := 0, passed := 0, calls := [], done := 0, detail := 0}.

%% A call that is only timed goes on: its process is not traced before it returns.
is_left(_, #process{job = #job{kind = alone}}) -> false;
is_left({call, _}, _) -> true;
is_left({broken, _}, _) -> true;
is_left(Key, _) -> is_pid(Key).

%% Whether calls that begin from now on are followed.
turn(#{at_once := infinity} = State) -> State;
turn(#{mode := follow, since := Since, row := Row, following := Following, at_once := AtOnce} = State) ->
    Enough = Row >= ?IN_A_ROW andalso now_ms() - Since >= ?FOLLOWING,
    case Enough orelse Following >= AtOnce of
        true -> turned(alone, State);
        false -> State
    end;
turn(#{mode := alone, since := Since, row := Row, following := Following, at_once := AtOnce, passed := Passed} = State) ->
    IsStuck = Passed >= ?STUCK * AtOnce,
    case Row < ?IN_A_ROW andalso (Following < AtOnce orelse IsStuck) andalso now_ms() - Since >= ?ALONE of
        true when IsStuck -> turned(follow, State#{following := 0});
        true -> turned(follow, State);
        false -> State
    end.

%% A call that is followed begins: where no more may be, that is told before anything is made of what waits.
begins({trace_ts, _, call, _, {bellows, entry, _, _}, _}, #{mode := follow, begun := Begun, at_once := AtOnce} = State) ->
    case Begun + 1 >= AtOnce of
        true -> turned(alone, State#{begun := Begun + 1});
        false -> State#{begun := Begun + 1}
    end;
begins(_, State) -> State.

turned(Mode, #{worker := Worker} = State) ->
    Worker ! {mode, self(), Mode},
    State#{mode := Mode, since := now_ms(), passed := 0, begun := maps:get(following, State)}.

result(Seen, #{calls := Calls, plain := Plain, alone := Alone, number := Begun} = State) ->
    Nodes = bellows_stack:nodes(),
    (maps:with([done, lost], State))#{
        messages => Seen,
        begun => Begun,
        nodes => Nodes,
        calls => lists:reverse(Calls),
        plain => numbers(Plain),
        alone => numbers(Alone)
    }.

%% The last comes first, and goes last.
numbers(Nanos) -> << <<One:64>> || One <- lists:reverse(Nanos) >>.

message({trace_ts, Pid, call, Function, {bellows, Kind, Who, Caller}, At}, State) ->
    special(Kind, Pid, Function, Who, Caller, At, process(Pid), State);
message({trace_ts, Pid, call, Function, Caller, At}, State) ->
    case get(Pid) of
        #process{job = #job{stack = Stack} = Job} = Process ->
            %% Whoever calls something has its answer.
            put_job(Pid, Process, answered(At, Job#job{stack = bellows_stack:called(Function, Caller, At, Stack)}));
        %% Asked by one that is on no path, though its process was on one.
        undefined -> lingers(Pid);
        _ -> ok
    end,
    State;
message({trace_ts, Pid, return_to, Function, At}, State) ->
    case get(Pid) of
        #process{job = #job{}} = Process -> returned(Pid, Function, At, Process, State);
        _ -> State
    end;
message({trace_ts, Pid, Kind, _, At}, State) when Kind =:= in; Kind =:= in_exiting -> scheduled(Pid, run, At, State);
message({trace_ts, Pid, Kind, _, At}, State) when Kind =:= out; Kind =:= out_exiting -> scheduled(Pid, wait, At, State);
message({trace_ts, Pid, out_exited, _, At}, State) -> exited(Pid, At, State);
message({trace_ts, _, Kind, Info, _}, #{gc := Gc} = State) -> State#{gc := collected(Kind, Info, Gc)};
message(_, State) -> State.

process(Pid) ->
    case get(Pid) of
        undefined -> #process{};
        Process -> Process
    end.

put_job(Pid, Process, Job) -> put(Pid, Process#process{job = Job}).

%% Functions that have patterns of their own.

special(entry, Pid, Function, _, Caller, At, #process{job = none} = Process, State) ->
    case get({silenced, Pid}) of
        %% It was silenced while it began: its return does not come.
        Since when is_integer(Since), At =< Since ->
            State#{lost := maps:get(lost, State) + 1, number := maps:get(number, State) + 1};
        _ -> begin_call(Pid, Function, Caller, At, Process, State)
    end;
special(alone, Pid, _, _, Caller, At, #process{job = none} = Process, #{number := Number, pids := Pids} = State) ->
    put_job(Pid, Process, #job{kind = alone, stack = bellows_stack:based({alone, 0}, 0, Caller, At), began = At}),
    in_second(At, State#{number := Number + 1, row := 0, pids := note(Pid, ?PIDS, Pids)});
%% The entry once more on the path of a call that is followed, when no more were to be: it is not whole any more.
special(alone, Pid, _, _, _, _, #process{job = #job{call = Call}}, #{session := Session} = State) ->
    put({broken, Call}, true),
    bellows_session:processes(Session, Pid, true, ?FLAGS ++ ?ALWAYS),
    State;
special(asks, Pid, Function, Server, Caller, At, #process{job = #job{} = Job} = Process, State) ->
    #job{stack = Stack, call = Call} = Answered = answered(At, Job),
    Inside = bellows_stack:hidden(Function, Caller, At, Stack),
    Next = case is_pid(Server) andalso Server =/= Pid of
               true ->
                   Request = #request{client = Pid, call = Call, base = bellows_stack:top(Inside)},
                   still_traced(Server, Call, At, State),
                   #process{waiting = Waiting} = Asked = process(Server),
                   put(Server, Asked#process{waiting = Waiting ++ [Request]}),
                   sampled({label, Server}, State),
                   Answered#job{stack = Inside, asked = Server};
               false -> Answered#job{stack = Inside}
           end,
    put_job(Pid, Process, Next),
    State;
special(asks, _, _, Server, _, _, #process{job = none}, State) ->
    is_pid(Server) andalso lingers(Server),
    State;
special(serves, Pid, Function, Client, Caller, At, Process, State) ->
    case {request_of(Client, Process), Process} of
        {_, #process{job = #job{kind = entry, stack = Stack} = Job}} ->
            put_job(Pid, Process, Job#job{stack = bellows_stack:hidden(Function, Caller, At, Stack)});
        %% It began with this one already when it got a scheduler.
        {none, #process{job = #job{kind = {served, Client, _}, stack = Stack} = Job}} ->
            put_job(Pid, Process, Job#job{stack = bellows_stack:hidden(Function, Caller, At, Stack)});
        {none, #process{job = #job{}}} -> put_away(Pid, At, Process);
        {none, _} -> ok;
        {Request, _} ->
            put_away(Pid, At, Process),
            Free = process(Pid),
            #job{stack = Stack} = Job = begin_served(Pid, Request, At),
            Left = lists:delete(Request, Free#process.waiting),
            Inside = bellows_stack:hidden(Function, {served, Pid}, At, Stack),
            put_job(Pid, Free#process{waiting = Left}, Job#job{stack = Inside})
    end,
    State;
special(replies, Pid, Function, Client, Caller, At, Process, State) ->
    case Process of
        #process{job = #job{kind = {served, Client, _}} = Job} ->
            answer(Pid, At, Process#process{job = none}, Job);
        #process{job = #job{stack = Stack} = Job} ->
            put_job(Pid, without(Client, Process), Job#job{stack = bellows_stack:hidden(Function, Caller, At, Stack)});
        #process{waiting = [_ | _]} ->
            put(Pid, without(Client, Process)),
            lingers(Pid);
        _ -> lingers(Pid)
    end,
    State;
%% The same function calls it once more: the return from the last call was not told.
special(entry, Pid, Function, _, Caller, At, #process{job = #job{kind = entry, above = Caller}} = Process, State) ->
    erase({call, Process#process.job#job.call}),
    begin_call(Pid, Function, Caller, At, Process#process{job = none}, fewer(State#{lost := maps:get(lost, State) + 1}));
%% The entry once more on its own path.
special(entry, Pid, Function, _, Caller, At, #process{job = #job{stack = Stack} = Job} = Process, State) ->
    put_job(Pid, Process, answered(At, Job#job{stack = bellows_stack:called(Function, Caller, At, Stack)})),
    State;
special(_, _, _, _, _, _, _, State) -> State.

%% One that was silenced while it was asked may have begun without us, so that this call is not whole.
still_traced(Server, Call, At, #{session := Session}) ->
    case get({silenced, Server}) of
        Since when is_integer(Since), At =< Since ->
            bellows_session:processes(Session, Server, false, [silent]),
            bellows_session:processes(Session, Server, true, ?FLAGS ++ ?ALWAYS),
            put({broken, Call}, true);
        _ -> ok
    end.

request_of(Client, #process{waiting = Waiting}) ->
    case lists:keyfind(Client, #request.client, Waiting) of
        false -> none;
        Request -> Request
    end.

without(Client, #process{waiting = Waiting} = Process) ->
    Process#process{waiting = lists:keydelete(Client, #request.client, Waiting)}.

%% Calls of the entry.

begin_call(Pid, Function, Caller, At, Process, #{number := Number, callers := Callers, pids := Pids} = State) ->
    Base = bellows_stack:node_of(0, Function),
    Stack = bellows_stack:based({Function, Base}, 1, Caller, At),
    put({call, Number}, #{}),
    put_job(Pid, Process, #job{kind = entry, call = Number, stack = Stack, began = At, above = Caller}),
    sampled({active, Pid, [Function, Caller]}, State),
    #{row := Row, following := Following} = State,
    in_second(At, State#{number := Number + 1, row := Row + 1, following := Following + 1,
                         callers := note(Caller, ?CALLERS, Callers), pids := note(Pid, ?PIDS, Pids)}).

%% One call less is followed.
fewer(#{following := Following} = State) -> State#{following := max(0, Following - 1)}.

note(Key, Most, Known) when map_size(Known) < Most -> Known#{Key => true};
note(_, _, Known) -> Known.

in_second(At, #{rate := Rate} = State) ->
    Second = erlang:convert_time_unit(At, native, second),
    case State of
        #{second := Second, in_second := Rate} -> stop({rate, Rate + 1, Rate}, State), State#{in_second := Rate + 1};
        #{second := Second, in_second := Count} -> State#{in_second := Count + 1};
        _ -> State#{second := Second, in_second := 1}
    end.

returned(Pid, Function, At, #process{job = #job{} = Job} = Process, State) ->
    #job{kind = Kind, stack = Stack, above = Above} = Answered = answered(At, Job),
    case bellows_stack:returned(Function, At, Stack) of
        base when Kind =:= entry -> end_call(Pid, At, Process, Answered, State);
        base when Kind =:= alone -> end_alone(Pid, At, Process, State);
        %% It goes on to serve, and replies later.
        base -> put_job(Pid, Process, Answered#job{stack = bellows_stack:to_base(At, Stack), above = Above}), State;
        Next -> put_job(Pid, Process, Answered#job{stack = Next}), State
    end.

%% A call has ended: it returned, or an exception ended it, perhaps with its process.
end_call(Pid, At, Process, #job{stack = Stack, call = Number, began = Began}, State) ->
    put(Pid, Process#process{job = none}),
    sampled({idle, Pid}, State),
    lingers(Pid),
    Costs = bellows_stack:merge(call_costs(Number), bellows_stack:costs(bellows_stack:to_base(At, Stack))),
    erase({call, Number}),
    Nanos = erlang:convert_time_unit(At - Began, native, nanosecond),
    Whole = case erase({broken, Number}) of
                true -> broken;
                undefined -> whole
            end,
    counted(Pid, Whole, Began, Nanos, Costs, fewer(State)).

%% One that was only timed has ended: its process is traced once more.
end_alone(Pid, At, #process{job = #job{began = Began}, waiting = Waiting} = Process, #{session := Session} = State) ->
    case Waiting of
        [] -> silence(Pid, State);
        _ ->
            put(Pid, Process#process{job = none}),
            bellows_session:processes(Session, Pid, true, ?FLAGS ++ ?ALWAYS)
    end,
    timed(At - Began, State).

timed(Native, #{alone := Alone, alone_count := Count, passed := Passed} = State) when Count < ?PLAIN ->
    State#{alone := [nanos(Native) | Alone], alone_count := Count + 1, passed := Passed + 1};
timed(_, #{passed := Passed} = State) -> State#{passed := Passed + 1}.

call_costs(Number) ->
    case get({call, Number}) of
        undefined -> #{};
        Costs -> Costs
    end.

counted(_, whole, _, Nanos, _, #{phase := plain, plain := Plain, plain_count := Count} = State) when Count < ?PLAIN ->
    State#{plain := [Nanos | Plain], plain_count := Count + 1};
counted(_, _, _, _, _, #{phase := counted, counted := Count} = State) -> State#{counted := Count + 1};
counted(Pid, whole, Began, Nanos, Costs, #{phase := detailed, allowed := Allowed} = State) ->
    case too_many(Costs, Allowed) of
        [] -> kept(Pid, Began, Nanos, Costs, State);
        Many -> flood(Many, State), State#{allowed := infinity}
    end;
counted(_, _, _, _, _, #{phase := detailed, lost := Lost} = State) -> State#{lost := Lost + 1};
counted(_, _, _, _, _, State) -> State.

%% What still comes when all have come is not kept.
kept(_, _, _, _, #{done := Done, limit := Limit} = State) when Done >= Limit -> State;
kept(Pid, Began, Nanos, Costs, #{calls := Calls, done := Done, detail := Bytes} = State) ->
    Detail = << <<Node:32, Count:32, (nanos(Run)):64, (nanos(Wait)):64>> || {Node, {Count, Run, Wait}} <- maps:to_list(Costs) >>,
    Micros = erlang:convert_time_unit(Began + erlang:time_offset(), native, microsecond),
    Call = {Micros, list_to_binary(pid_to_list(Pid)), Nanos, Detail},
    All = Bytes + byte_size(Detail) + 64,
    Done + 1 =:= maps:get(limit, State) andalso stop({limit, Done + 1, Done + 1}, State),
    All > ?DETAIL andalso Bytes =< ?DETAIL andalso stop({details, All, ?DETAIL}, State),
    State#{calls := [Call | Calls], done := Done + 1, detail := All}.

%% The functions that are called most, without which a call of the entry makes no more calls than are allowed.
too_many(_, infinity) -> [];
too_many(Costs, Allowed) ->
    case maps:fold(fun (_, {Calls, _, _}, Sum) -> Sum + Calls end, 0, Costs) of
        Sum when Sum =< Allowed -> [];
        Sum ->
            ByFunction = lists:foldl(fun ({Node, _, Function}, Sums) ->
                case Costs of
                    #{Node := {Calls, _, _}} -> maps:update_with(Function, fun (Before) -> Before + Calls end, Calls, Sums);
                    _ -> Sums
                end
            end, #{}, bellows_stack:nodes()),
            most(Sum - Allowed, lists:reverse(lists:sort([{Calls, Function} || {Function, Calls} <- maps:to_list(ByFunction)])))
    end.

most(Over, [{Calls, {_, _, _} = Function} | More]) when Over > 0, Calls > 1 -> [Function | most(Over - Calls, More)];
most(Over, [{Calls, _} | More]) when Over > 0, Calls > 1 -> most(Over, More);
most(_, _) -> [].

nanos(Native) -> max(0, erlang:convert_time_unit(Native, native, nanosecond)).

%% Requests to others.

begin_served(Pid, #request{client = Client, call = Call, base = Base, spent = Spent}, At) ->
    Node = case bellows_stack:node_of(Base, {served, Pid}) of
               full -> Base;
               Number -> Number
           end,
    %% Parts of one request are one call.
    Calls = case Spent of 0 -> 1; _ -> 0 end,
    #job{kind = {served, Client, Base}, call = Call, stack = bellows_stack:based({{served, Pid}, Node}, Calls, none, At),
         began = At, spent = Spent}.

%% A server begins something else before it has replied.
put_away(Pid, At, #process{job = #job{kind = {served, Client, Base}, call = Call} = Job, waiting = Waiting} = Process) ->
    Spent = pay(At, answered(At, Job)),
    Request = #request{client = Client, call = Call, base = Base, spent = max(1, Spent)},
    put(Pid, Process#process{job = none, waiting = Waiting ++ [Request]});
put_away(_, _, _) -> ok.

%% A server has replied, or its client waits no longer.
answer(Pid, At, Process, #job{kind = {served, Client, _}, call = Call} = Job) ->
    put(Pid, Process),
    Spent = pay(At, answered(At, Job)),
    lingers(Pid),
    case get(Client) of
        #process{job = #job{call = Call, asked = Pid, stack = Stack} = Asking} = Waits ->
            put_job(Client, Waits, Asking#job{stack = bellows_stack:give(Spent, Stack), asked = none});
        _ -> ok
    end.

%% Adds what a part of a path cost to the call of the entry; the time that was spent on it, with earlier parts.
pay(At, #job{call = Call, stack = Stack, began = Began, spent = Spent}) ->
    case get({call, Call}) of
        undefined -> ok;
        Costs -> put({call, Call}, bellows_stack:merge(Costs, bellows_stack:costs(bellows_stack:to_base(At, Stack))))
    end,
    Spent + At - Began.

%% The process goes on, so nobody serves it any more.
answered(_, #job{asked = none} = Job) -> Job;
answered(At, #job{asked = Server, call = Call} = Job) ->
    case get(Server) of
        #process{job = #job{kind = {served, _, _}, call = Call} = Served} = Process ->
            put(Server, Process#process{job = none}),
            pay(At, answered(At, Served));
        #process{waiting = Waiting} = Process ->
            put(Server, Process#process{waiting = [It || It <- Waiting, It#request.call =/= Call]});
        _ -> ok
    end,
    lingers(Server),
    Job#job{asked = none}.

scheduled(Pid, Mode, At, State) ->
    case get(Pid) of
        #process{job = #job{stack = Stack} = Job} = Process ->
            put_job(Pid, Process, Job#job{stack = bellows_stack:scheduled(Mode, At, Stack)});
        %% One that tells not when it begins with a request does so when it gets a scheduler.
        #process{waiting = [#request{} = Request | Waiting]} = Process when Mode =:= run ->
            case tells(Pid, State) of
                true -> ok;
                false -> put_job(Pid, Process#process{waiting = Waiting}, begin_served(Pid, Request, At))
            end;
        _ -> ok
    end,
    State.

exited(Pid, At, State) ->
    case erase(Pid) of
        #process{job = #job{kind = alone, began = Began}} -> timed(At - Began, State);
        #process{job = #job{kind = entry} = Job} = Process ->
            Next = end_call(Pid, At, Process, answered(At, Job), State),
            erase(Pid),
            Next;
        #process{job = #job{} = Job} ->
            pay(At, answered(At, Job)),
            State;
        _ -> State
    end.

%% Whether a process runs code that has a pattern for the beginning of a request.
tells(Pid, #{tells := Behaviours}) ->
    case get({tells, Pid}) of
        undefined ->
            Tells = case process_info(Pid, dictionary) of
                        {dictionary, Noted} ->
                            case lists:keyfind('$initial_call', 1, Noted) of
                                {_, {Module, _, _}} -> has_behaviour(Module, Behaviours);
                                _ -> false
                            end;
                        _ -> false
                    end,
            put({tells, Pid}, Tells),
            Tells;
        Tells -> Tells
    end.

has_behaviour(Module, Behaviours) ->
    try Module:module_info(attributes) of
        Attributes ->
            lists:any(fun ({Kind, Names}) when Kind =:= behaviour; Kind =:= behavior ->
                              lists:any(fun (Name) -> lists:member(Name, Behaviours) end, Names);
                          (_) -> false
                      end, Attributes)
    catch _:_ -> false
    end.

%% Processes that have left the path.

lingers(Pid) ->
    Process = process(Pid),
    Process#process.lingers orelse erlang:send_after(?LINGER, self(), {quiet, Pid}),
    put(Pid, Process#process{lingers = true, left = now_ms()}),
    ok.

quiet(Pid, Held, State) ->
    case get(Pid) of
        #process{job = none, waiting = [], left = Left} = Process ->
            case Left + ?LINGER - now_ms() of
                More when More > 0 -> wait_on(More, Pid, Process);
                _ ->
                    %% Perhaps it is on a path once more.
                    case lists:any(fun ({_, Message}) -> element(2, Message) =:= Pid end, Held) of
                        true -> wait_on(?LINGER, Pid, Process);
                        false -> silence(Pid, State)
                    end
            end;
        #process{} = Process -> put(Pid, Process#process{lingers = false});
        undefined -> ok
    end.

wait_on(Ms, Pid, Process) ->
    erlang:send_after(Ms, self(), {quiet, Pid}),
    put(Pid, Process).

silence(Pid, #{session := Session, chosen := Chosen, pids := Pids}) ->
    erase(Pid),
    bellows_session:processes(Session, Pid, false, ?FLAGS),
    case Chosen =:= all orelse is_map_key(Pid, Chosen) orelse is_map_key(Pid, Pids) of
        true ->
            bellows_session:processes(Session, Pid, true, [silent, call]);
        false -> bellows_session:processes(Session, Pid, false, ?ALWAYS)
    end,
    put({silenced, Pid}, erlang:monotonic_time()).

%% While modules are looked for, the sampler looks at processes on the path; later it knows what those that serve are.
sampled(What, #{sampler := Sampler, phase := plain}) -> Sampler ! What;
sampled({label, _} = What, #{sampler := Sampler}) ->
    case get(What) of
        undefined -> put(What, told), Sampler ! What;
        told -> ok
    end;
sampled(_, _) -> ok.

%% Garbage collections: {minor, major, words that were used before them and not after, words before the first, words
%% after the last}.
collected(gc_minor_start, Info, Gc) -> collects(used(Info), Gc);
collected(gc_major_start, Info, Gc) -> collects(used(Info), Gc);
collected(gc_minor_end, Info, {Minor, Major, Words, First, _}) -> {Minor + 1, Major, Words - used(Info), First, used(Info)};
collected(gc_major_end, Info, {Minor, Major, Words, First, _}) -> {Minor, Major + 1, Words - used(Info), First, used(Info)};
collected(_, _, Gc) -> Gc.

collects(Used, {Minor, Major, Words, none, Last}) -> {Minor, Major, Words + Used, Used, Last};
collects(Used, {Minor, Major, Words, First, Last}) -> {Minor, Major, Words + Used, First, Last}.

%% Words of its young heap that a process uses, and of messages and the like beside it.
used(Info) -> proplists:get_value(heap_size, Info, 0) + proplists:get_value(mbuf_size, Info, 0).

native(Ms) -> erlang:convert_time_unit(Ms, millisecond, native).

now_ms() -> erlang:monotonic_time(millisecond).
