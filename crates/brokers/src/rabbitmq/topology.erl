%% The node's queues, exchanges and bindings as JSON, in the words of the management API (broker_objects.rs reads both).
%% Evaluated inside the node: one call, where rabbitmqctl needs three.
Text = fun (Binary) when is_binary(Binary) ->
               case unicode:characters_to_binary(Binary) of
                   Binary -> Binary;
                   _ -> unicode:characters_to_binary(Binary, latin1)
               end;
           (Atom) when is_atom(Atom) -> atom_to_binary(Atom, utf8);
           (Other) -> unicode:characters_to_binary(io_lib:format("~0tp", [Other]))
       end,
Name = fun ({resource, _, _, Own}) -> Text(Own) end,
Host = fun ({resource, Vhost, _, _}) -> Text(Vhost) end,
InAllHosts = fun (List) -> lists:append([List(Host0) || Host0 <- rabbit_vhost:list_names()]) end,
%% The management API makes the same of a table. What cannot be written as JSON is written as Erlang would.
Table = fun (Arguments) ->
    try
        Made = rabbit_misc:amqp_table(Arguments),
        _ = rabbit_json:encode(Made),
        Made
    catch
        _:_ -> maps:from_list([{Text(Key), Text(Value)} || {Key, _, Value} <- Arguments])
    end
end,
Kept = 1000,

%% Records of one kind are compared by their names first.
Queues = lists:sort(InAllHosts(fun (Each) -> rabbit_amqqueue:list(Each) end)),
Queue = fun (Each) ->
    %% A queue whose process does not answer still has a name.
    Info = try rabbit_amqqueue:info(Each, [type, durable, messages, consumers, arguments])
           catch _:_ -> [] end,
    Get = fun (Key, Default) ->
              case proplists:get_value(Key, Info, Default) of '' -> Default; Value -> Value end
          end,
    Own = amqqueue:get_name(Each),
    Leader = case catch amqqueue:get_pid(Each) of
                 Pid when is_pid(Pid) -> node(Pid);
                 {_, Node} when is_atom(Node) -> Node;
                 _ -> ''
             end,
    Members = case catch amqqueue:get_type_state(Each) of
                  #{nodes := Nodes} when is_list(Nodes) -> Nodes;
                  %% Mirrors of a classic queue, which RabbitMQ 4 does not have any more.
                  _ -> case catch amqqueue:get_slave_pids(Each) of
                           Mirrors when is_list(Mirrors) -> [node(Mirror) || Mirror <- Mirrors, is_pid(Mirror)];
                           _ -> []
                       end
              end,
    #{name => Name(Own),
      vhost => Host(Own),
      type => Text(Get(type, <<"unknown">>)),
      durable => Get(durable, false),
      messages => Get(messages, 0),
      consumers => Get(consumers, 0),
      leader => Text(Leader),
      members => [Text(Member) || Member <- Members, is_atom(Member)],
      arguments => Table(Get(arguments, []))}
end,

IsDeclared = fun (Exchange) ->
    case Name(element(2, Exchange)) of
        <<>> -> false;
        <<"amq.", _/binary>> -> false;
        _ -> true
    end
end,
Exchanges = lists:sort(lists:filter(IsDeclared, InAllHosts(fun (Each) -> rabbit_exchange:list(Each) end))),
Exchange = fun (Each) ->
    [{type, Type}] = rabbit_exchange:info(Each, [type]),
    #{name => Name(element(2, Each)), vhost => Host(element(2, Each)), type => Text(Type)}
end,

Bindings = lists:sort(InAllHosts(fun (Each) -> rabbit_binding:list(Each) end)),
Binding = fun (Each) ->
    Info = rabbit_binding:info(Each, [vhost, source_name, destination_kind, destination_name, routing_key, arguments]),
    Get = fun (Key) -> Text(proplists:get_value(Key, Info)) end,
    #{source => Get(source_name), vhost => Get(vhost), destination => Get(destination_name),
      destination_type => Get(destination_kind), routing_key => Get(routing_key),
      arguments => Table(proplists:get_value(arguments, Info))}
end,

Take = fun (Describe, List) -> lists:map(Describe, lists:sublist(List, Kept)) end,
Omitted = lists:sum([max(0, length(List) - Kept) || List <- [Queues, Exchanges, Bindings]]),
iolist_to_binary(rabbit_json:encode(#{queues => Take(Queue, Queues),
                                      exchanges => Take(Exchange, Exchanges),
                                      bindings => Take(Binding, Bindings),
                                      omitted => Omitted})).
