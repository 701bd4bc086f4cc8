%% What a node's processes, schedulers and memory do in a window of time.
-module(bellows_top).
-export([start/2]).

-define(MOST_ROWS, 1000).
%% How long processes are looked at before those of the node go on, in microseconds.
-define(AHEAD, 1000).
-define(MOST_TABLES, 10).
-define(MOST_FLOW, 50).
%% Rows of a table of metrics that are looked at for flow control.
-define(FLOW_ROWS, 5000).
%% Words of the heap of whoever reads: 100,000 processes take a twentieth of it.
-define(MOST_WORDS, 33554432).
-define(ALARM_MS, 1000).
%% Processes below a supervisor that are looked at for a client's name.
-define(MOST_BESIDE, 20).
%% Characters of a name.
-define(LONGEST, 200).

%% A worker, for whoever asks it: the first Limit processes by Sort (reductions, memory, messages, binaries) in a window
%% of Ms, or in what has passed when it is told to stop. Flow: whether to look for connections, channels and queues in
%% flow control.
start(_, {Ms, Sort, Limit, Flow}) ->
    Us = self(),
    Heap = #{size => ?MOST_WORDS, kill => true, error_logger => false},
    Reader = spawn_opt(fun () -> begin_reading(Us, Ms, Sort, min(Limit, ?MOST_ROWS), Flow) end,
                       [link, {max_heap_size, Heap}]),
    await(Reader).

await(Reader) ->
    receive
        {ask, _, stop} -> Reader ! stop, await(Reader);
        {window, Reader, Answer} -> receive {ask, Alias, window} -> bellows_keeper:answer(Alias, Answer) end
    end.

%% It fails quietly, and the worker with it: the node's log is not ours.
begin_reading(Worker, Ms, Sort, Limit, Flow) ->
    put('$initial_call', {bellows_keeper, reader, 0}),
    try Worker ! {window, self(), read(Ms, Sort, Limit, Flow)}
    catch Class:Reason:Stack -> exit({failed, bellows_keeper:failure(Class, Reason, Stack)})
    end.

read(Ms, Sort, Limit, Flow) ->
    %% The node counts those who want this, and forgets about us when we end.
    erlang:system_flag(scheduler_wall_time, true),
    Before = now_us(),
    Schedulers = schedulers(),
    Counters = counters(),
    Reductions = maps:from_list(ahead(fun reductions/2, processes(), [])),
    Scanned = now_us(),
    receive stop -> ok after max(0, Ms - (Scanned - Before) div 1000) -> ok end,
    After = now_us(),
    Utilisation = utilisation(Schedulers, schedulers()),
    Passed = passed(Counters, counters()),
    Best = best(Reductions, Sort, Limit),
    erlang:system_flag(scheduler_wall_time, false),
    Rows = described(Best),
    {Flows, FlowsWhole} = case Flow of true -> flows(); false -> {[], true} end,
    #{window_us => After - Before,
      processes => Rows,
      schedulers => Utilisation,
      run_queue => erlang:statistics(total_run_queue_lengths_all),
      counters => Passed,
      memory => maps:from_list(erlang:memory()),
      counts => counts(),
      flow => lists:sublist(Flows, ?MOST_FLOW), flow_count => length(Flows), flow_whole => FlowsWhole,
      alarms => alarms(),
      rabbitmq => rabbitmq(),
      tables => tables(),
      uptime_ms => element(1, erlang:statistics(wall_clock)),
      took_us => Scanned - Before + now_us() - After}.

now_us() -> erlang:monotonic_time(microsecond).

schedulers() ->
    case erlang:statistics(scheduler_wall_time_all) of
        undefined -> [];
        All -> lists:sort(All)
    end.

%% [{Kind, Number, share in millionths}].
utilisation(Before, After) ->
    Normal = erlang:system_info(schedulers),
    Dirty = Normal + erlang:system_info(dirty_cpu_schedulers),
    Kind = fun (Id) when Id =< Normal -> normal; (Id) when Id =< Dirty -> dirty_cpu; (_) -> dirty_io end,
    Of = maps:from_list([{Id, {Active, Total}} || {Id, Active, Total} <- Before]),
    [{Kind(Id), Id, (Active - Active0) * 1000000 div (Total - Total0)}
     || {Id, Active, Total} <- After, {Active0, Total0} <- [maps:get(Id, Of, none)], Total > Total0].

counters() ->
    {{input, In}, {output, Out}} = erlang:statistics(io),
    {Switches, _} = erlang:statistics(context_switches),
    {Collections, _, _} = erlang:statistics(garbage_collection),
    {Reductions, _} = erlang:statistics(exact_reductions),
    #{reductions => Reductions, context_switches => Switches, collections => Collections,
      input_bytes => In, output_bytes => Out}.

passed(Before, After) -> maps:map(fun (Key, Value) -> Value - maps:get(Key, Before) end, After).

%% Folds over processes: some of them before those of the node go on, and then others after these have had their turn. Behind
%% all of them a busy node would take half a minute for it, and before all of them they would wait for long.
ahead(_, [], Known) -> Known;
ahead(Look, Pids, Known) ->
    process_flag(priority, high),
    {Left, Next} = until(now_us() + ?AHEAD, Look, Pids, Known),
    process_flag(priority, normal),
    erlang:yield(),
    ahead(Look, Left, Next).

until(_, _, [], Known) -> {[], Known};
until(Due, Look, [Pid | Pids], Known) ->
    Next = Look(Pid, Known),
    case now_us() >= Due of
        true -> {Pids, Next};
        false -> until(Due, Look, Pids, Next)
    end.

reductions(Pid, Known) ->
    case Pid =/= self() andalso process_info(Pid, reductions) of
        {_, Count} -> [{Pid, Count} | Known];
        _ -> Known
    end.

%% One pass over all processes, which keeps those alone that can be among the first.
best(Reductions, Sort, Limit) ->
    Look = fun (Pid, {Count, Kept}) when Count > 2 * Limit + 1000 -> candidate(Pid, Reductions, Sort, {Limit, first(Kept, Limit)});
               (Pid, Known) -> candidate(Pid, Reductions, Sort, Known)
           end,
    {_, Kept} = ahead(Look, processes(), {0, []}),
    first(Kept, Limit).

candidate(Pid, Reductions, Sort, {Count, Kept}) ->
    case Pid =/= self() andalso process_info(Pid, [reductions, memory, message_queue_len]) of
        [{_, Total}, {_, Memory}, {_, Messages}] ->
            Passed = max(0, Total - maps:get(Pid, Reductions, 0)),
            Key = case Sort of
                      reductions -> Passed;
                      memory -> Memory;
                      messages -> Messages;
                      binaries -> binaries(Pid)
                  end,
            %% Of those that are equal the busiest come first.
            {Count + 1, [{Key, Passed, Pid, Memory, Messages} | Kept]};
        _ -> {Count, Kept}
    end.

first(Kept, Limit) -> lists:sublist(lists:reverse(lists:sort(Kept)), Limit).

%% A process that holds several parts of one binary holds it once.
binaries(Pid) ->
    case process_info(Pid, binary) of
        {binary, Binaries} -> lists:sum([Size || {_, Size, _} <- lists:ukeysort(1, Binaries)]);
        undefined -> 0
    end.

described(Best) ->
    Quorum = quorum([Name || {_, _, Pid, _, _} <- Best, {registered_name, Name} <- [registered(Pid)]]),
    Look = fun ({_, Passed, Pid, Memory, Messages}, Rows) ->
               Row = #{pid => list_to_binary(pid_to_list(Pid)), reductions => Passed, memory => Memory, messages => Messages,
                       binaries => binaries(Pid), doing => doing(Pid), flow => in_flow(Pid)},
               [maps:merge(role(Pid, Quorum), Row) | Rows]
           end,
    lists:reverse(ahead(Look, Best, [])).

registered(Pid) ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> {registered_name, Name};
        _ -> none
    end.

role(Pid, Quorum) ->
    case registered(Pid) of
        {_, Name} when is_map_key(Name, Quorum) -> named(<<"queue">>, queue_name(maps:get(Name, Quorum)));
        _ ->
            {Role, Name} = bellows_role:of_process(Pid),
            named(Role, of_client(Pid, Name))
    end.

%% Of a client that gave itself a name its connection has it. Its channels and other processes are called after its
%% addresses alone, and get the name from the connection's row, which is found beside them in the node's tables.
of_client(Pid, Name) ->
    [Addresses | Number] = binary:split(Name, <<" (">>),
    Given = case {binary:match(Addresses, <<" -> ">>), binary:match(Addresses, <<" - ">>)} of
                {{_, _}, nomatch} -> given(Addresses, [Pid | beside(Pid)]);
                _ -> <<>>
            end,
    case Given of
        <<>> -> Name;
        _ -> iolist_to_binary([Addresses, <<" - ">>, Given, [[<<" (">>, Rest] || Rest <- Number]])
    end.

given(_, []) -> <<>>;
given(Addresses, [Pid | Pids]) ->
    Connection = proplists:get_value(connection, row(channel_created, Pid), Pid),
    Info = row(connection_created, Connection),
    case {proplists:get_value(name, Info), proplists:get_value(user_provided_name, Info)} of
        {Addresses, Given} when is_binary(Given) -> Given;
        _ -> given(Addresses, Pids)
    end.

%% The first of those that a process has supervisors in common with: of a writer its channel, of a heartbeat its connection.
beside(Pid) ->
    Supervisors = case process_info(Pid, dictionary) of
                      {dictionary, Noted} -> lists:sublist(proplists:get_value('$ancestors', Noted, []), 2);
                      undefined -> []
                  end,
    lists:append([lists:sublist(Links, ?MOST_BESIDE) || Supervisor <- Supervisors, is_pid(Supervisor),
                                                        node(Supervisor) =:= node(),
                                                        {links, Links} <- [process_info(Supervisor, links)]]).

row(Table, Key) ->
    try ets:lookup(Table, Key) of
        [{_, Info}] when is_list(Info) -> Info;
        _ -> []
    catch error:badarg -> []
    end.

named(Role, Name) -> #{role => text(Role), name => text(Name)}.

queue_name({resource, <<"/">>, _, Name}) -> text(Name);
queue_name({resource, Vhost, _, Name}) -> <<(text(Name))/binary, " in ", (text(Vhost))/binary>>.

%% The process of a quorum queue has a registered name, which the queue's record tells.
quorum([]) -> #{};
quorum(Names) ->
    Khepri = erlang:function_exported(rabbit_khepri, is_enabled, 0) andalso rabbit_khepri:is_enabled(),
    Table = case Khepri of true -> rabbit_khepri_queue; _ -> rabbit_queue end,
    Leader = {element, 7, '$_'},
    Spec = [{'_', [{is_tuple, Leader}, {'=:=', {element, 1, Leader}, Name}], [{{Name, {element, 2, '$_'}}}]}
            || Name <- Names],
    try maps:from_list([{Name, Queue} || {Name, {resource, _, _, _} = Queue} <- ets:select(Table, Spec)])
    catch error:badarg -> #{} end.

%% Whether the process waits for credit of another one.
in_flow(Pid) ->
    case process_info(Pid, dictionary) of
        {dictionary, Noted} -> case proplists:get_value(credit_blocked, Noted, []) of [_ | _] -> true; _ -> false end;
        undefined -> false
    end.

%% A text of bounded length, in UTF-8.
text(Binary) when is_binary(Binary) ->
    Short = binary:part(Binary, 0, min(4 * ?LONGEST, byte_size(Binary))),
    Whole = case unicode:characters_to_binary(Short) of
                Short -> Short;
                {incomplete, Good, _} -> Good;
                _ -> unicode:characters_to_binary(Short, latin1)
            end,
    string:slice(Whole, 0, ?LONGEST);
text(Atom) when is_atom(Atom) -> text(atom_to_binary(Atom, utf8));
text(Other) -> text(unicode:characters_to_binary(io_lib:format("~0tP", [Other, 20]))).

doing(Pid) ->
    case process_info(Pid, [status, current_function]) of
        [{_, Status}, {_, {Module, Function, Arity}}] ->
            #{status => atom_to_binary(Status, utf8),
              function => text(iolist_to_binary(io_lib:format("~ts:~ts/~b", [Module, Function, Arity])))};
        [{_, Status}, _] -> #{status => atom_to_binary(Status, utf8), function => <<>>};
        _ -> #{status => <<"exited">>, function => <<>>}
    end.

counts() ->
    Io = lists:append(lists:sublist([Set || Set <- erlang:system_info(check_io), is_list(Set)], 64)),
    #{processes => erlang:system_info(process_count), process_limit => erlang:system_info(process_limit),
      ports => erlang:system_info(port_count), port_limit => erlang:system_info(port_limit),
      atoms => erlang:system_info(atom_count), atom_limit => erlang:system_info(atom_limit),
      tables => length(ets:all()),
      descriptors => descriptors(), descriptor_limit => proplists:get_value(max_fds, Io, 0)}.

descriptors() ->
    case prim_file:list_dir("/proc/self/fd") of
        {ok, Names} -> length(Names);
        _ -> 0
    end.

%% Who is slowed down, as of the last time that each told its metrics.
flows() ->
    {Connections, A} = scan(connection_metrics, fun connection/2),
    {Channels, B} = scan(channel_metrics, fun channel/2),
    {Queues, C} = scan(queue_metrics, fun queue/2),
    {Connections ++ Channels ++ Queues, A andalso B andalso C}.

scan(Table, Describe) ->
    try ets:select(Table, [{'_', [], ['$_']}], 500) of
        First -> scan(First, Describe, 0, [])
    catch error:badarg -> {[], true} end.

scan('$end_of_table', _, _, Found) -> {Found, true};
scan(_, _, Seen, Found) when Seen >= ?FLOW_ROWS -> {Found, false};
scan({Rows, Continuation}, Describe, Seen, Found) ->
    New = [Describe(element(1, Row), State) || Row <- Rows, is_list(element(2, Row)),
                                               State <- [proplists:get_value(state, element(2, Row))],
                                               State =:= flow orelse State =:= blocked orelse State =:= blocking],
    scan(ets:select(Continuation), Describe, Seen + length(Rows), New ++ Found).

connection(Pid, State) -> flow(<<"connection">>, of_process(connection_created, Pid), State).
channel(Pid, State) -> flow(<<"channel">>, of_process(channel_created, Pid), State).
queue({resource, _, queue, Name}, State) -> flow(<<"queue">>, text(Name), State);
queue(Other, State) -> flow(<<"queue">>, text(Other), State).

flow(Kind, Name, State) -> #{kind => Kind, name => Name, state => atom_to_binary(State, utf8)}.

of_process(Table, Pid) ->
    try text(proplists:get_value(name, ets:lookup_element(Table, Pid, 2), Pid))
    catch error:badarg -> text(Pid) end.

%% booting, core_started, ready, stopping or stopped; empty where there is no RabbitMQ, or one that does not say.
rabbitmq() ->
    try rabbit_boot_state:get() of
        State when is_atom(State) -> text(State);
        _ -> <<>>
    catch _:_ -> <<>> end.

alarms() ->
    try gen_event:call(rabbit_alarm, rabbit_alarm, get_alarms, ?ALARM_MS) of
        Alarms when is_list(Alarms) -> [text(Alarm) || Alarm <- lists:sublist(Alarms, 20)];
        _ -> []
    catch _:_ -> [] end.

tables() ->
    Word = erlang:system_info(wordsize),
    All = [{Words * Word, Table} || Table <- ets:all(), Words <- [ets:info(Table, memory)], is_integer(Words)],
    [#{name => text(ets:info(Table, name)), bytes => Bytes, rows => rows(Table)}
     || {Bytes, Table} <- lists:sublist(lists:reverse(lists:sort(All)), ?MOST_TABLES)].

rows(Table) ->
    case ets:info(Table, size) of
        Rows when is_integer(Rows) -> Rows;
        _ -> 0
    end.
