%% The node's queues, exchanges and bindings as JSON, in the shape of archive::Topology. Evaluated inside the
%% node: one call, where rabbitmqctl needs three.
Text = fun (Binary) when is_binary(Binary) ->
               case unicode:characters_to_binary(Binary) of
                   Binary -> Binary;
                   _ -> unicode:characters_to_binary(Binary, latin1)
               end;
           (Atom) when is_atom(Atom) -> atom_to_binary(Atom, utf8);
           (Other) -> unicode:characters_to_binary(io_lib:format("~0tp", [Other]))
       end,
Name = fun ({resource, _, _, Own}) -> Text(Own) end,
InAllHosts = fun (List) -> lists:append([List(Host) || Host <- rabbit_vhost:list_names()]) end,
Kept = 1000,

Queues = InAllHosts(fun (Host) -> rabbit_amqqueue:list(Host) end),
Queue = fun (Each) ->
    %% A queue whose process does not answer still has a name.
    Info = try rabbit_amqqueue:info(Each, [type, durable, messages, consumers, arguments])
           catch _:_ -> [] end,
    Get = fun (Key, Default) ->
              case proplists:get_value(Key, Info, Default) of '' -> Default; Value -> Value end
          end,
    #{name => Name(amqqueue:get_name(Each)),
      type => Text(Get(type, <<"unknown">>)),
      durable => Get(durable, false),
      messages => Get(messages, 0),
      consumers => Get(consumers, 0),
      arguments => [<<(Text(Key))/binary, "=", (Text(Value))/binary>>
                    || {Key, _, Value} <- Get(arguments, [])]}
end,

IsDeclared = fun (Exchange) ->
    case Name(element(2, Exchange)) of
        <<>> -> false;
        <<"amq.", _/binary>> -> false;
        _ -> true
    end
end,
Exchanges = lists:filter(IsDeclared, InAllHosts(fun (Host) -> rabbit_exchange:list(Host) end)),
Exchange = fun (Each) ->
    [{type, Type}] = rabbit_exchange:info(Each, [type]),
    #{name => Name(element(2, Each)), type => Text(Type)}
end,

Bindings = InAllHosts(fun (Host) -> rabbit_binding:list(Host) end),
Binding = fun (Each) ->
    Info = rabbit_binding:info(Each, [source_name, destination_name, routing_key]),
    Get = fun (Key) -> Text(proplists:get_value(Key, Info)) end,
    #{source => Get(source_name), destination => Get(destination_name),
      routing_key => Get(routing_key)}
end,

Take = fun (Describe, List) -> lists:map(Describe, lists:sublist(List, Kept)) end,
Omitted = lists:sum([max(0, length(List) - Kept) || List <- [Queues, Exchanges, Bindings]]),
iolist_to_binary(rabbit_json:encode(#{queues => Take(Queue, Queues),
                                      exchanges => Take(Exchange, Exchanges),
                                      bindings => Take(Binding, Bindings),
                                      omitted => Omitted})).
