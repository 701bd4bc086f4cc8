%% Call traces with budgets. Two processes: the tracer gets the trace messages, and makes bounded texts of them; the
%% worker controls it, looks at the budgets, keeps what is ready, and hands it out when asked.
-module(bellows_trace).
-export([start/2, patterns/1, chosen/1, no_module/1, no_function/4]).

%% Texts that were not fetched yet may take so many bytes.
-define(UNREAD, 8388608).
%% Calls that wait for their return, all processes together.
-define(OPEN, 10000).
%% The same in one process: each has words on its stack until it returns, and a function that goes on in a tail call never does.
-define(NESTED, 50).
%% Events in one answer.
-define(BATCH, 200).
-define(ARGUMENT, 300).
%% After the last call that counts, returns are awaited so long (ms).
-define(RETURNS, 2000).
-define(TRACER_WORDS, 16777216).
%% A tracer that is so far behind the calls ends (ms): what it tells is of another time, and what waits takes memory.
-define(LATE, 2000).
%% At the end it has so long for what waits (ms).
-define(DRAIN, 2000).
%% How often we look whether the patterns still stand (ms).
-define(STAND, 1000).

%% Options: patterns [{Module, Function | '_', Arity | '_'}], match <<>> or text, processes all | {pids, [Text]} |
%% {role, Text}, limit, rate, returns, arguments, limits (see bellows_guard).
start(Owner, Options) ->
    process_flag(priority, high),
    case prepare(Options) of
        {ok, Ready} -> trace(Owner, Ready);
        {error, Reason} -> fail(Reason)
    end.

%% Tells the one who asks why there is no trace.
fail(Reason) ->
    receive {ask, Alias, _} -> bellows_keeper:answer(Alias, {refused, Reason}), fail(Reason)
    after 30000 -> ok
    end.

prepare(#{patterns := Patterns, match := Match, processes := Chosen} = Options) ->
    try
        Checked = patterns(Patterns),
        Body = case Options of
                   #{returns := true} -> [{exception_trace}];
                   _ -> []
               end,
        Spec = match(Match, Body),
        fits(Spec, Checked, Match),
        {ok, Options#{patterns := Checked, match := Spec, processes := chosen(Chosen)}}
    catch
        throw:Reason -> {error, Reason}
    end.

%% Whether each names functions that are there.
patterns(Patterns) -> lists:map(fun pattern/1, Patterns).

pattern({Module, Function, Arity} = Pattern) when is_atom(Module), Module =/= '_' ->
    case code:ensure_loaded(Module) of
        {module, Module} -> ok;
        {error, _} -> throw(no_module(Module))
    end,
    bellows_keeper:is_ours(Module) andalso throw(no_module(Module)),
    Functions = Module:module_info(functions),
    Fits = [1 || {F, A} <- Functions,
                 Function =:= '_' orelse Function =:= F, Arity =:= '_' orelse Arity =:= A],
    Fits =:= [] andalso throw(no_function(Module, Function, Arity, Functions)),
    Pattern.

%% A module that is not there, with the loaded ones whose names differ from its in one place by two letters at most.
no_module(Module) ->
    Loaded = [Name || {Name, _} <- code:all_loaded(), not bellows_keeper:is_ours(Name)],
    {no_module, <<(text("~0tp", [Module]))/binary, (there_is(near(Module, Loaded)))/binary>>}.

%% At most three of these names that differ from the one that was asked for in one place by two letters at most.
near(Asked, Names) ->
    Near = [Name || Name <- Names, length(atom_to_list(Name)) > 2, is_near(atom_to_list(Asked), atom_to_list(Name))],
    [text("~0tp", [Name]) || Name <- lists:sublist(lists:usort(Near), 3)].

there_is([]) -> <<>>;
there_is(Names) -> iolist_to_binary(["; there is ", lists:join(", ", Names)]).

is_near(Asked, Name) ->
    Longest = max(length(Asked), length(Name)),
    %% Of a short name a letter alone is a slip.
    Slips = case Longest > 5 of true -> 2; false -> 1 end,
    Begin = same(Asked, Name),
    Begin + same(lists:reverse(Asked), lists:reverse(Name)) >= Longest - Slips andalso Begin > 0
        andalso abs(length(Asked) - length(Name)) =< Slips.

%% How many characters both begin with.
same([C | A], [C | B]) -> 1 + same(A, B);
same(_, _) -> 0.

%% A function that is none of these, and with which numbers of arguments it is, or those that are called nearly so.
no_function(Module, Function, Arity, Functions) ->
    Asked = case Arity of
                '_' -> text("~0tp:~0tp", [Module, Function]);
                _ -> text("~0tp:~0tp/~0tp", [Module, Function, Arity])
            end,
    Others = case lists:usort([A || {F, A} <- Functions, F =:= Function]) of
                 [] -> near(Function, [F || {F, _} <- Functions]);
                 Arities -> [["/", integer_to_list(Other)] || Other <- Arities]
             end,
    {no_function, <<Asked/binary, (there_is(Others))/binary>>}.

match(<<>>, Body) -> [{'_', [], Body}];
match(Text, Body) ->
    {Head, Guard} = case string:split(Text, " when ") of
                        [Arguments, Condition] -> {Arguments, [" when ", Condition]};
                        [Arguments] -> {Arguments, ""}
                    end,
    Source = unicode:characters_to_list([<<"fun ([">>, Head, <<"])">>, Guard, <<" -> true end.">>]),
    with_body(try
        {ok, Tokens, _} = erl_scan:string(Source),
        {ok, [{'fun', _, {clauses, [_] = Clauses}}]} = erl_parse:parse_exprs(Tokens),
        ms_transform:transform_from_shell(dbg, Clauses, [])
    catch _:_ -> throw({bad_match, Text})
    end, Body, Text).

with_body([{Head, Guard, _}], Body, _) -> [{Head, Guard, Body}];
with_body(_, _, Text) -> throw({bad_match, Text}).

%% A pattern of two arguments never matches a function of three.
fits([{Head, _, _}], Patterns, Text) when is_list(Head) ->
    Arities = lists:usort([Arity || {Module, Function, Wanted} <- Patterns, {Name, Arity} <- Module:module_info(functions),
                                    Function =:= '_' orelse Function =:= Name, Wanted =:= '_' orelse Wanted =:= Arity]),
    case catch length(Head) of
        Given when is_integer(Given) -> lists:member(Given, Arities) orelse throw({other_arity, Text});
        _ -> throw({bad_match, Text})
    end;
fits(_, _, _) -> ok.

chosen(all) -> processes;
chosen({role, Role}) ->
    case bellows_role:processes(Role) of
        [] -> throw({no_role, Role});
        Pids -> Pids
    end;
chosen({pids, Texts}) -> lists:map(fun pid/1, Texts).

%% A pid's text, such as <0.512.0>, or a registered name.
pid(Text) ->
    Pid = try list_to_pid(binary_to_list(Text))
          catch error:badarg ->
              try whereis(binary_to_existing_atom(Text, utf8)) catch error:badarg -> undefined end
          end,
    is_pid(Pid) andalso node(Pid) =:= node() andalso is_process_alive(Pid) orelse throw({no_process, Text}),
    Pid.

trace(Owner, #{limits := Limits} = Options) ->
    Worker = self(),
    Tracer = spawn_opt(fun () -> collect(Worker, Options) end,
                       [link, {priority, high}, {max_heap_size, #{size => ?TRACER_WORDS, kill => true, error_logger => false}}]),
    process_flag(trap_exit, true),
    Baseline = bellows_guard:baseline(),
    case begin_trace(bellows_session:open(Owner, Tracer), Options) of
        {error, Reason} -> fail(Reason);
        {ok, Session} ->
            control(#{owner => Owner, session => Session, tracer => Tracer, patterns => maps:get(patterns, Options),
                      match => maps:get(match, Options), standing => standing(Session, maps:get(patterns, Options)),
                      look => now_ms() + ?STAND,
                      guard => bellows_guard:new(Limits, Baseline, Tracer), due => now_ms(), state => running,
                      events => queue:new(), unread => 0, asker => none, failing => 0})
    end.

begin_trace({ok, Session} = Opened, #{patterns := Patterns, match := Match, processes := Processes, arguments := Bytes}) ->
    %% Arguments that nobody wants are not copied either.
    Flags = [call, monotonic_timestamp | [arity || Bytes =:= 0]],
    case Processes of
        processes ->
            bellows_session:processes(Session, existing, true, Flags),
            bellows_session:processes(Session, new, true, Flags);
        Pids -> [bellows_session:processes(Session, Pid, true, Flags) || Pid <- Pids]
    end,
    try
        [bellows_session:functions(Session, Pattern, Match, [local]) || Pattern <- Patterns],
        Opened
    catch
        throw:Reason -> bellows_session:close(Session), {error, Reason}
    end;
begin_trace({error, _} = Refused, _) -> Refused.

%% The worker's loop. Events go out in the order in which they came.
control(#{due := Due, tracer := Tracer} = State) ->
    receive
        {event, Tracer, Event, Bytes} -> control(keep(Event, Bytes, State));
        {stop, Tracer, Reason} -> control(stop(Reason, State));
        {quiet, Tracer} -> control(quiet(State));
        {'EXIT', Tracer, killed} -> control(stop({tracer_memory, ?TRACER_WORDS * 8, ?TRACER_WORDS * 8}, State));
        {'EXIT', Tracer, {failed, _} = Reason} -> exit(Reason);
        {'EXIT', Tracer, _} -> control(State);
        {'EXIT', _, Reason} -> exit(Reason);
        {ask, Alias, next} -> answer(State#{asker := Alias});
        {ask, Alias, stop} -> answer(stop({asked, 0, 0}, State#{asker := Alias}));
        _ -> control(State)
    after max(0, Due - now_ms()) ->
        tick(State)
    end.

tick(#{state := running, guard := Guard} = State) ->
    Now = now_ms(),
    Next = State#{due := Now + bellows_guard:every()},
    case bellows_guard:check(Guard, Now) of
        {ok, Checked} -> control(stands(Now, Next#{guard := Checked}));
        Tripped -> control(stop(bellows_guard:describe(Tripped), Next))
    end;
tick(State) -> control(State#{due := now_ms() + 60000}).

standing(Session, Patterns) -> bellows_version:witnesses(Session, Patterns, traced).

%% Patterns that went away with their module's code are set again, and that is told.
stands(Now, #{look := Look, session := Session, standing := Standing, match := Match} = State) when Now >= Look ->
    Next = State#{look := Now + ?STAND},
    case bellows_version:fallen(Session, Standing, traced) of
        [] -> Next;
        Fallen ->
            [bellows_session:again(Session, Pattern, Match, [local]) || Pattern <- Fallen],
            Set = standing(Session, Fallen),
            %% One that fits nothing now may do so later.
            Left = [case lists:keyfind(Pattern, 1, Set) of false -> Stood; Stands -> Stands end || {Pattern, _} = Stood <- Standing,
                    lists:member(Pattern, Fallen)],
            Modules = lists:usort([Module || {{Module, _, _}, _} <- Set]),
            lists:foldl(fun (Module, Into) -> keep({loaded_anew, atom_to_binary(Module, utf8)}, 100, Into) end,
                        Next#{standing := [Kept || {Pattern, _} = Kept <- Standing, not lists:member(Pattern, Fallen)] ++ Left},
                        Modules)
    end;
stands(_, State) -> State.

keep(Event, Bytes, State) ->
    Next = give(add(Event, Bytes, State)),
    case Next of
        #{unread := Left, state := running} when Left > ?UNREAD -> stop({unread, Left, ?UNREAD}, Next);
        _ -> Next
    end.

%% No call counts any more: those that came are awaited to return.
quiet(#{session := Session, patterns := Patterns} = State) ->
    [bellows_session:functions(Session, Pattern, false, [local]) || Pattern <- Patterns],
    State#{standing := []}.

stop({Why, _, _} = Reason, #{state := running, session := Session, tracer := Tracer} = State) when Why =:= time; Why =:= asked ->
    end_calls(State),
    %% Those that were made in time are told, however late the tracer is with them.
    bellows_session:delivered(Session, all),
    Tracer ! {drain, self()},
    drain(Reason, now_ms() + ?DRAIN, State);
stop(Reason, #{state := running, tracer := Tracer} = State) ->
    %% Without a tracer no message is made any more, also before the flags are gone.
    end_tracer(Tracer),
    end_calls(State),
    ended(Reason, State);
stop(_, State) -> State.

end_calls(#{session := Session, patterns := Patterns}) ->
    [bellows_session:functions(Session, Pattern, false, [local]) || Pattern <- Patterns].

end_tracer(Tracer) ->
    unlink(Tracer),
    exit(Tracer, kill).

%% What the tracer still has, until it has told all of it or the time for that is over.
drain(_, _, #{unread := Unread} = State) when Unread > ?UNREAD -> ended({unread, Unread, ?UNREAD}, State);
drain(Reason, Until, #{tracer := Tracer} = State) ->
    receive
        {event, Tracer, Event, Bytes} -> drain(Reason, Until, add(Event, Bytes, State));
        {ask, Alias, _} -> drain(Reason, Until, State#{asker := Alias});
        {drained, Tracer} -> ended(Reason, State);
        {stop, Tracer, Other} -> ended(Other, State);
        {'EXIT', Tracer, killed} -> ended({tracer_memory, ?TRACER_WORDS * 8, ?TRACER_WORDS * 8}, State);
        {'EXIT', Tracer, {failed, _} = Failure} -> exit(Failure);
        {'EXIT', Tracer, _} -> drain(Reason, Until, State);
        {'EXIT', _, Why} -> exit(Why)
    after max(0, Until - now_ms()) -> ended({behind, ?DRAIN, ?LATE}, State)
    end.

ended(Reason, #{session := Session, tracer := Tracer} = State) ->
    end_tracer(Tracer),
    bellows_session:close(Session),
    Kept = last_events(Tracer, State),
    give(Kept#{state := {done, Reason}}).

add(Event, Bytes, #{events := Events, unread := Unread} = State) ->
    State#{events := queue:in({Event, Bytes}, Events), unread := Unread + Bytes}.

%% What the tracer sent before it ended.
last_events(Tracer, State) ->
    receive {event, Tracer, Event, Bytes} -> last_events(Tracer, add(Event, Bytes, State))
    after 0 -> State
    end.

answer(State) -> control(give(State)).

%% Answers the one who asks, if there is something to say.
give(#{asker := none} = State) -> State;
give(#{asker := Alias, events := Events, unread := Unread, state := Status} = State) ->
    case {take(Events, ?BATCH, []), Status} of
        {{[], _}, running} -> State;
        {{Taken, Left}, _} ->
            bellows_keeper:answer(Alias, {[Event || {Event, _} <- Taken], case queue:is_empty(Left) of
                                                                              true -> Status;
                                                                              false -> running
                                                                          end}),
            State#{asker := none, events := Left, unread := Unread - lists:sum([Bytes || {_, Bytes} <- Taken])}
    end.

take(Queue, 0, Taken) -> {lists:reverse(Taken), Queue};
take(Queue, N, Taken) ->
    case queue:out(Queue) of
        {{value, Event}, Left} -> take(Left, N - 1, [Event | Taken]);
        {empty, Left} -> {lists:reverse(Taken), Left}
    end.

%% The tracer. What it fails with may hold secrets, and the node's log is not ours: it fails quietly.

collect(Worker, Options) ->
    put('$initial_call', {bellows_keeper, tracer, 0}),
    try begin_collecting(Worker, Options)
    catch error:Reason:Stack -> exit({failed, bellows_keeper:failure(error, Reason, Stack)})
    end.

begin_collecting(Worker, #{limit := Limit, rate := Rate} = Options) ->
    collect(#{worker => Worker, left => Limit, number => 0, rate => Rate, second => 0, in_second => 0,
              returns => maps:get(returns, Options), arguments => maps:get(arguments, Options),
              offset => erlang:time_offset(), open => #{}, waiting => 0, roles => #{}}).

collect(#{left := 0, waiting := 0, worker := Worker} = State) ->
    Worker ! {stop, self(), {limit, maps:get(number, State), maps:get(number, State)}};
collect(#{left := 0, worker := Worker} = State) ->
    Until = maps:get(until, State, now_ms() + ?RETURNS),
    is_map_key(until, State) orelse (Worker ! {quiet, self()}),
    receive Message -> collect(message(Message, State#{until => Until}))
    after max(0, Until - now_ms()) ->
        Worker ! {stop, self(), {limit, maps:get(number, State), maps:get(number, State)}}
    end;
collect(State) ->
    receive Message -> collect(message(Message, State)) end.

message({trace_ts, Pid, call, Call, At}, #{left := Left} = State) when Left > 0 -> called(Pid, Call, At, State);
message({trace_ts, Pid, call, Call, _}, #{returns := true} = State) ->
    %% Its return comes, too, and must not be taken for another's.
    open(Pid, {function(Call), none, 0}, State);
message({trace_ts, Pid, return_from, Function, Value, At}, State) -> returned(Pid, Function, {ok, Value}, At, State);
message({trace_ts, Pid, exception_from, Function, {Class, Reason}, At}, State) ->
    returned(Pid, Function, {Class, Reason}, At, State);
message({drain, Worker}, #{worker := Worker} = State) -> Worker ! {drained, self()}, State;
message(_, State) -> State.

called(Pid, Call, At, #{worker := Worker, rate := Rate} = State) ->
    Second = erlang:convert_time_unit(At, native, second),
    Late = erlang:convert_time_unit(erlang:monotonic_time() - At, native, millisecond),
    case State of
        _ when Late > ?LATE ->
            Worker ! {stop, self(), {behind, Late, ?LATE}},
            exit(normal);
        #{second := Second, in_second := Rate} ->
            Worker ! {stop, self(), {rate, Rate + 1, Rate}},
            exit(normal);
        #{second := Second, in_second := Count} -> show(Pid, Call, At, State#{in_second := Count + 1});
        _ -> show(Pid, Call, At, State#{second := Second, in_second := 1})
    end.

show(Pid, {Module, Function, Arguments} = Call, At, #{number := Number, left := Left, arguments := Bytes} = State) ->
    {{Role, Name}, Known} = role(Pid, State),
    Texts = case is_list(Arguments) of
                true when Bytes > 0 -> bellows_text:arguments(Module, Function, Arguments, Bytes);
                _ -> []
            end,
    {_, _, Arity} = function(Call),
    Event = {call, Number, micros(At, State), list_to_binary(pid_to_list(Pid)), Role, Name,
             atom_to_binary(Module, utf8), atom_to_binary(Function, utf8), Arity, Texts},
    send(Event, State),
    Next = Known#{number := Number + 1, left := Left - 1},
    case State of
        #{returns := true} -> open(Pid, {function(Call), Number, At}, Next);
        _ -> Next
    end.

open(Pid, Call, #{open := Open, waiting := Waiting, worker := Worker} = State) when Waiting < ?OPEN ->
    Calls = maps:get(Pid, Open, []),
    length(Calls) >= ?NESTED andalso begin
        Worker ! {stop, self(), {nested, ?NESTED + 1, ?NESTED}},
        exit(normal)
    end,
    Counts = case Call of {_, none, _} -> 0; _ -> 1 end,
    State#{open := Open#{Pid => [Call | Calls]}, waiting := Waiting + Counts};
open(_, _, #{worker := Worker}) ->
    Worker ! {stop, self(), {open_calls, ?OPEN, ?OPEN}},
    exit(normal).

returned(Pid, {Module, Name, _} = Function, Value, At, #{open := Open, waiting := Waiting} = State) ->
    case Open of
        #{Pid := [{Function, none, _} | Calls]} -> State#{open := left_open(Pid, Calls, Open)};
        #{Pid := [{Function, Number, Began} | Calls]} ->
            {Kind, Result} = Value,
            Nanos = erlang:convert_time_unit(At - Began, native, nanosecond),
            send({return, Number, micros(At, State), Nanos, atom_to_binary(Kind, utf8),
                  bellows_text:result(Module, Name, Result, ?ARGUMENT)}, State),
            State#{open := left_open(Pid, Calls, Open), waiting := Waiting - 1};
        %% It was called before the trace began.
        _ -> State
    end.

left_open(Pid, [], Open) -> maps:remove(Pid, Open);
left_open(Pid, Calls, Open) -> Open#{Pid := Calls}.

role(Pid, #{roles := Roles} = State) ->
    case Roles of
        #{Pid := Role} -> {Role, State};
        _ ->
            Role = bellows_role:of_process(Pid),
            Kept = case map_size(Roles) < 1000 of true -> Roles; false -> #{} end,
            {Role, State#{roles := Kept#{Pid => Role}}}
    end.

send(Event, #{worker := Worker}) -> Worker ! {event, self(), Event, erlang:external_size(Event)}.

function({Module, Function, Arguments}) when is_list(Arguments) -> {Module, Function, length(Arguments)};
function(Function) -> Function.

micros(At, #{offset := Offset}) -> erlang:convert_time_unit(At + Offset, native, microsecond).

text(Format, Arguments) -> unicode:characters_to_binary(io_lib:format(Format, Arguments, [{chars_limit, 200}])).

now_ms() -> erlang:monotonic_time(millisecond).
