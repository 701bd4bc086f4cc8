%% Counts of queues, from what the node holds of them in tables. No queue is asked, unless that is requested; classic
%% queues can be asked, and the leaders of quorum queues.
-module(bellows_queues).
-export([read/4, serve/2]).

-define(CHUNK, 1000).
%% Rows and bytes of an answer at most, and bytes of a name.
-define(MOST_ROWS, 100000).
-define(MOST_BYTES, 16777216).
-define(LONGEST_NAME, 255).
%% Queues that are read before everybody else on the node gets a turn.
-define(AT_ONCE, 200000).
%% Words that the reader's heap needs for a queue.
-define(WORDS, 80).
-define(OTHER_NODE_MS, 5000).
-define(ASKED_AT_ONCE, 16).
%% Where a row's numbers come from.
-define(UNKNOWN, 0).
-define(HELD, 1).
-define(ASKED, 2).
-define(SILENT, 3).
-define(NEVER_ASKED, 4).

%% Queues of a virtual host (`all`: of all), those first that Sort (ready, unacked, name) puts there, Limit at most.
%% Fresh is `held`, or {QueueMs, AllMs}: each queue is asked and may take that long, and all of them.
read(Vhost, Sort, Limit, Fresh) ->
    Began = erlang:monotonic_time(),
    case table() of
        none -> not_rabbitmq;
        Table ->
            Size = ets:info(Table, size),
            {Us, Ref} = {self(), make_ref()},
            Read = fun () -> Us ! {Ref, read(Table, Vhost, Sort, min(Limit, ?MOST_ROWS), Fresh, Began)} end,
            %% A short piece of work of known length and size: behind the processes of a busy node it would take seconds.
            Priority = case Size =< ?AT_ONCE of true -> high; false -> normal end,
            spawn_opt(Read, [link, {priority, Priority}, {min_heap_size, min(Size, ?AT_ONCE) * ?WORDS}]),
            receive {Ref, Answer} -> Answer end
    end.

%% As a worker: reads as often as it is asked to.
serve(_, _) ->
    process_flag(priority, high),
    serve().

serve() ->
    receive
        {ask, From, {Vhost, Sort, Limit, Fresh}} ->
            bellows_keeper:answer(From, read(Vhost, Sort, Limit, Fresh));
        _ -> ok
    end,
    serve().

read(Table, Vhost, Sort, Limit, Fresh, Began) ->
    Queues = queues(Table, Vhost),
    Homes = lists:usort([Node || {_, _, Node} <- Queues, Node =/= node(), Node =/= none]),
    {Counts, Names, Silent} = others(Homes, Vhost),
    Consumers = lists:foldl(fun count/2, #{}, [consumers() | Names]),
    Held = [counted(Queue, Counts, Consumers) || Queue <- Queues],
    Rows = case Fresh of
               held -> Held;
               {QueueMs, AllMs} ->
                   process_flag(priority, normal),
                   asked(Held, QueueMs, now_ms() + AllMs)
           end,
    {Ready, Unacked, Unknown} = totals(Rows),
    Best = best(Rows, Sort, Limit),
    {Batches, Left} = batches(Best),
    #{queues => length(Queues), ready => Ready, unacked => Unacked, unknown => Unknown,
      asked => length([1 || Row <- Rows, element(4, Row) =:= ?ASKED]),
      silent => length([1 || Row <- Rows, element(4, Row) =:= ?SILENT]),
      never_asked => length([1 || Fresh =/= held, {_, _, _, _, Kind, _} <- Rows, not can_be_asked(Kind)]),
      sent => length(Best) - Left, batches => Batches,
      silent_nodes => [atom_to_binary(Node, utf8) || Node <- Silent],
      collects => atom_to_binary(setting(collect_statistics, none), utf8),
      intervals => #{classic => setting(collect_statistics_interval, 5000),
                     quorum => setting(quorum_tick_interval, 5000),
                     stream => setting(stream_tick_interval, 5000)},
      took_us => erlang:convert_time_unit(erlang:monotonic_time() - Began, native, microsecond)}.

table() ->
    %% A module that is not there would be looked for on the disk each time.
    Khepri = erlang:function_exported(rabbit_khepri, is_enabled, 0) andalso rabbit_khepri:is_enabled(),
    Table = case Khepri of true -> rabbit_khepri_queue; _ -> rabbit_queue end,
    case ets:info(Table, size) of
        undefined -> none;
        _ -> Table
    end.

setting(Key, Default) ->
    case application:get_env(rabbit, Key) of
        {ok, Value} when is_integer(Value); is_atom(Value) -> Value;
        _ -> Default
    end.

now_ms() -> erlang:monotonic_time(millisecond).

%% [{Name, Type, Node}]. A record is amqqueue, name, durable, auto-delete, owner, arguments, pid, ..., type, ...
queues(Table, Vhost) ->
    TypeAt = try position(bellows_type, tuple_to_list(amqqueue:pattern_match_on_type(bellows_type)), 1)
             catch _:_ -> none end,
    Type = case TypeAt of
               none -> rabbit_classic_queue;
               _ -> {element, TypeAt, '$_'}
           end,
    Head = setelement(2, amqqueue:pattern_match_all(), name_pattern(Vhost)),
    Spec = [{setelement(7, Head, '$1'), [], [{{{element, 2, '$_'}, Type, '$1'}}]}],
    true = ets:safe_fixtable(Table, true),
    try [{Name, kind(Kind), home(Pid)} || {Name, Kind, Pid} <- chunks(ets:select(Table, Spec, ?CHUNK), [])]
    after ets:safe_fixtable(Table, false) end.

name_pattern(all) -> '_';
name_pattern(Vhost) -> {resource, Vhost, queue, '_'}.

position(What, [What | _], At) -> At;
position(What, [_ | Rest], At) -> position(What, Rest, At + 1).

chunks('$end_of_table', All) -> lists:append(All);
chunks({Some, Continuation}, All) -> chunks(ets:select(Continuation), [Some | All]).

home(Pid) when is_pid(Pid) -> node(Pid);
home({_, Node}) when is_atom(Node) -> Node;
home(_) -> none.

kind(rabbit_classic_queue) -> <<"classic">>;
kind(rabbit_quorum_queue) -> <<"quorum">>;
kind(rabbit_stream_queue) -> <<"stream">>;
kind(Module) when is_atom(Module) -> binary:part(name(atom_to_binary(Module, utf8)), 0, min(40, atom_length(Module)));
kind(_) -> <<"other">>.

atom_length(Atom) -> byte_size(atom_to_binary(Atom, utf8)).

name(Name) when byte_size(Name) > ?LONGEST_NAME -> binary:part(Name, 0, ?LONGEST_NAME);
name(Name) -> Name.

%% What other nodes hold: of the queues that live there, their numbers (#{Node => #{Name => {Ready, Unacked}}}); of all
%% queues, the consumers that are connected there. And the nodes that did not tell.
others(Homes, Vhost) ->
    Spec = [{{name_pattern(Vhost), '_', '_', '_', '_'}, [], ['$_']}],
    Numbers = selected(Homes, queue_coarse_metrics, Spec),
    %% Who was silent once is not waited for twice.
    Answered = [Node || {Node, {ok, _}} <- Numbers],
    Consumers = selected(lists:usort(Answered ++ (nodes() -- Homes)), consumer_created, consumers_spec()),
    {maps:from_list([{Node, maps:from_list([{Name, {R, U}} || {Name, R, U, _, _} <- Rows])}
                     || {Node, {ok, Rows}} <- Numbers]),
     [Names || {_, {ok, Names}} <- Consumers],
     lists:usort([Node || {Node, Answer} <- Numbers ++ Consumers, not told(Node, Answer, Homes)])}.

%% What all these nodes hold in a table, asked at once.
selected(Nodes, Table, Spec) ->
    lists:zip(Nodes, erpc:multicall(Nodes, ets, select, [Table, Spec], ?OTHER_NODE_MS)).

told(_, {ok, _}, _) -> true;
%% Without such a table it is no node of RabbitMQ, or has stopped it: it has no consumers. Of a queue's home we want more.
told(Node, {error, {exception, badarg, _}}, Homes) -> not lists:member(Node, Homes);
told(_, _, _) -> false.

consumers_spec() -> [{'_', [], [{element, 1, {element, 1, '$_'}}]}].

consumers() ->
    try ets:select(consumer_created, consumers_spec()) catch error:badarg -> [] end.

count(Names, Counts) ->
    lists:foldl(fun (Name, Sum) -> maps:update_with(Name, fun (N) -> N + 1 end, 1, Sum) end, Counts, Names).

counted({Name, Kind, Node}, Remote, Consumers) ->
    {Source, Ready, Unacked} = held(Name, Node, Remote),
    {Name, Ready, Unacked, Source, Kind, maps:get(Name, Consumers, 0)}.

held(Name, Node, _) when Node =:= node() ->
    try ets:lookup(queue_coarse_metrics, Name) of
        [Row] when is_integer(element(2, Row)), is_integer(element(3, Row)) ->
            {?HELD, element(2, Row), element(3, Row)};
        _ -> {?UNKNOWN, 0, 0}
    catch error:badarg -> {?UNKNOWN, 0, 0} end;
held(Name, Node, Remote) ->
    case Remote of
        #{Node := #{Name := {Ready, Unacked}}} when is_integer(Ready), is_integer(Unacked) ->
            {?HELD, Ready, Unacked};
        _ -> {?UNKNOWN, 0, 0}
    end.

totals(Rows) ->
    lists:foldl(fun ({_, _, _, ?UNKNOWN, _, _}, {R, U, N}) -> {R, U, N + 1};
                    ({_, Ready, Unacked, _, _, _}, {R, U, N}) -> {R + Ready, U + Unacked, N}
                end, {0, 0, 0}, Rows).

%% The queues are asked, some at a time. Those who ask die with us.
asked(Rows, QueueMs, End) -> asked(Rows, QueueMs, End, queue:new(), []).

asked([{_, _, _, Source, Kind, _} = Row | Rows], QueueMs, End, Waiting, Done) ->
    case can_be_asked(Kind) of
        true -> asked_one([Row | Rows], QueueMs, End, Waiting, Done);
        false when Source =:= ?UNKNOWN -> asked(Rows, QueueMs, End, Waiting, [Row | Done]);
        false -> asked(Rows, QueueMs, End, Waiting, [setelement(4, Row, ?NEVER_ASKED) | Done])
    end;
asked([], QueueMs, End, Waiting, Done) ->
    case queue:out(Waiting) of
        {{value, First}, Rest} -> asked([], QueueMs, End, Rest, [answer(First) | Done]);
        {empty, _} -> lists:reverse(Done)
    end.

asked_one([Row | Rows], QueueMs, End, Waiting, Done) ->
    case {now_ms() >= End, queue:len(Waiting) < ?ASKED_AT_ONCE} of
        {true, _} -> asked([], QueueMs, End, Waiting, lists:reverse([late(Late) || Late <- [Row | Rows]], Done));
        {_, true} -> asked(Rows, QueueMs, End, queue:in(ask(Row, QueueMs), Waiting), Done);
        {_, false} ->
            {{value, First}, Rest} = queue:out(Waiting),
            asked([Row | Rows], QueueMs, End, Rest, [answer(First) | Done])
    end.

%% No time was left to ask it.
late({_, _, _, ?HELD, Kind, _} = Row) ->
    setelement(4, Row, case can_be_asked(Kind) of true -> ?SILENT; false -> ?NEVER_ASKED end);
late(Row) -> Row.

%% Of a stream, and of types that plugins bring, RabbitMQ itself knows what the tables hold, and nobody knows more.
can_be_asked(Kind) -> Kind =:= <<"classic">> orelse Kind =:= <<"quorum">>.

ask(Row, QueueMs) ->
    {Us, Ref} = {self(), make_ref()},
    Pid = spawn_link(fun () -> Us ! {Ref, info(Row, QueueMs)} end),
    {Row, Pid, Ref, now_ms() + QueueMs}.

answer({{Name, _, _, _, Kind, _} = Row, Pid, Ref, Until}) ->
    receive
        {Ref, {Ready, Unacked, Consumers}} -> {Name, Ready, Unacked, ?ASKED, Kind, Consumers};
        {Ref, failed} -> silent(Row)
    after max(0, Until - now_ms()) ->
        unlink(Pid),
        exit(Pid, kill),
        receive {Ref, _} -> ok after 0 -> ok end,
        silent(Row)
    end.

silent({_, _, _, ?UNKNOWN, _, _} = Row) -> Row;
silent(Row) -> setelement(4, Row, ?SILENT).

%% {Ready, Unacked, Consumers} by the queue itself, wherever it is.
info({Name, _, _, _, Kind, _}, QueueMs) ->
    try
        {ok, Queue} = rabbit_amqqueue:lookup(Name),
        Counts = info_of(Kind, Queue, QueueMs),
        true = lists:all(fun is_integer/1, Counts),
        list_to_tuple(Counts)
    catch _:_ -> failed end.

info_of(<<"classic">>, Queue, _) ->
    Keys = [messages_ready, messages_unacknowledged, consumers],
    Info = rabbit_amqqueue:info(Queue, Keys),
    [proplists:get_value(Key, Info) || Key <- Keys];
%% RabbitMQ's own info is that of the tables. The leader knows; any member leads to it.
info_of(<<"quorum">>, Queue, QueueMs) ->
    {Name, Leader} = amqqueue:get_pid(Queue),
    Members = case amqqueue:get_type_state(Queue) of
                  #{nodes := Nodes} when is_list(Nodes) -> lists:delete(Leader, Nodes);
                  %% Later releases keep an identifier of each member.
                  #{nodes := Nodes} when is_map(Nodes) -> lists:delete(Leader, maps:keys(Nodes));
                  _ -> []
              end,
    Ids = [{Name, Node} || Node <- [Leader | Members]],
    Ask = fun (Query) ->
              {ok, {_, Count}, _} = ra:leader_query(Ids, Query, QueueMs),
              Count
          end,
    [Ask(Query) || Query <- [fun rabbit_fifo:query_messages_ready/1, fun rabbit_fifo:query_messages_checked_out/1,
                             fun rabbit_fifo:query_consumer_count/1]].

%% The first rows by this order, without sorting all that are not among them.
best(Rows, Sort, Limit) ->
    Keyed = [{key(Sort, Row), Row} || Row <- Rows],
    [Row || {_, Row} <- first(Keyed, Limit, 2 * Limit + ?CHUNK, 0, [])].

key(ready, Row) -> {-element(2, Row), -element(3, Row), element(1, Row)};
key(unacked, Row) -> {-element(3, Row), -element(2, Row), element(1, Row)};
key(name, Row) -> element(1, Row).

first([], Limit, _, _, Kept) -> lists:sublist(lists:sort(Kept), Limit);
first(Rows, Limit, Most, Count, Kept) when Count >= Most ->
    first(Rows, Limit, Most, Limit, lists:sublist(lists:sort(Kept), Limit));
first([Row | Rows], Limit, Most, Count, Kept) -> first(Rows, Limit, Most, Count + 1, [Row | Kept]).

%% Rows in binaries of so many, and the number of those for which there was no room.
batches(Rows) -> batches(Rows, 0, 0, [], []).

batches([], _, _, Batch, Batches) -> {lists:reverse(close(Batch, Batches)), 0};
batches(Rows, Bytes, _, Batch, Batches) when Bytes > ?MOST_BYTES ->
    {lists:reverse(close(Batch, Batches)), length(Rows)};
batches(Rows, Bytes, ?CHUNK, Batch, Batches) -> batches(Rows, Bytes, 0, [], close(Batch, Batches));
batches([Row | Rows], Bytes, Count, Batch, Batches) ->
    Packed = packed(Row),
    batches(Rows, Bytes + byte_size(Packed), Count + 1, [Packed | Batch], Batches).

close([], Batches) -> Batches;
close(Batch, Batches) -> [iolist_to_binary(lists:reverse(Batch)) | Batches].

packed({{resource, Vhost, queue, Name}, Ready, Unacked, Source, Kind, Consumers}) ->
    {Host, Cut} = {name(Vhost), name(Name)},
    <<(byte_size(Host)):8, Host/binary, (byte_size(Cut)):8, Cut/binary, (byte_size(Kind)):8, Kind/binary,
      Source:8, Ready:64, Unacked:64, Consumers:32>>.
