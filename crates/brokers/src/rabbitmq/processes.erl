%% What the node's busiest Erlang processes do as JSON, in the shape of
%% stacks::ErlangProcess. No process is asked: what they do stands in tables, and in what each has
%% noted of itself.
Longest = 200,
Text = fun (Binary) when is_binary(Binary) ->
               Whole = case unicode:characters_to_binary(Binary) of
                           Binary -> Binary;
                           _ -> unicode:characters_to_binary(Binary, latin1)
                       end,
               case string:length(Whole) > Longest of
                   true -> unicode:characters_to_binary(string:slice(Whole, 0, Longest));
                   false -> Whole
               end;
           (Atom) when is_atom(Atom) -> atom_to_binary(Atom, utf8);
           (Other) -> unicode:characters_to_binary(io_lib:format("~0tp", [Other]))
       end,
Kept = 10000,

Busy = [{Reductions, Pid} || Pid <- processes(),
                             {reductions, Reductions} <- [process_info(Pid, reductions)]],
Pids = [Pid || {_, Pid} <- lists:sublist(lists:reverse(lists:sort(Busy)), Kept)],

InAllHosts = fun (List) -> lists:append([List(Host) || Host <- rabbit_vhost:list_names()]) end,
Process = fun (Queue) ->
    case amqqueue:get_pid(Queue) of
        Pid when is_pid(Pid) -> Pid;
        %% A quorum queue's process has a registered name, on each of its members the same.
        {Name, _} -> whereis(Name);
        _ -> none
    end
end,
Queues = maps:from_list([{Process(Queue), amqqueue:get_name(Queue)}
                         || Queue <- InAllHosts(fun (Host) -> rabbit_amqqueue:list(Host) end)]),

%% What the node's own metrics know of connections and channels, by process.
Rows = fun (Table) ->
    try [{Pid, Info} || {Pid, Info} <- ets:tab2list(Table), is_pid(Pid), is_list(Info)]
    catch _:_ -> [] end
end,
Connections = maps:from_list([{proplists:get_value(name, Info), Info}
                              || {_, Info} <- Rows(connection_created)]),
Readers = maps:from_list([{Pid, proplists:get_value(name, Info)}
                          || {Pid, Info} <- Rows(connection_created)]),
Given = fun (Info) -> proplists:get_value(user_provided_name, Info) end,
Namesakes = lists:foldl(fun (Info, Counts) -> maps:update_with(Given(Info), fun (N) -> N + 1 end, 1, Counts) end,
                        #{}, maps:values(Connections)),
%% The name that the client gave its connection tells more than its ports; of several with one name, the client's
%% address tells which.
Title = fun (Connection) ->
    case Given(maps:get(Connection, Connections, [])) of
        Name when is_binary(Name), Name =/= <<>> ->
            case maps:get(Name, Namesakes, 1) of
                1 -> Text(Name);
                _ ->
                    [Client | _] = binary:split(Connection, <<" -> ">>),
                    <<(Text(Name))/binary, " ", (Text(Client))/binary>>
            end;
        _ -> Text(Connection)
    end
end,
Host = fun (Connection) ->
    case proplists:get_value(vhost, maps:get(Connection, Connections, [])) of
        Name when is_binary(Name) -> Text(Name);
        _ -> <<>>
    end
end,

Roles = #{rabbit_channel => <<"channel">>, rabbit_reader => <<"connection">>,
          rabbit_writer => <<"writer">>, rabbit_limiter => <<"limiter">>,
          rabbit_amqqueue_process => <<"queue">>, rabbit_amqp_session => <<"session">>,
          rabbit_amqp_reader => <<"connection">>, rabbit_amqp_writer => <<"writer">>,
          heartbeat_sender => <<"heartbeat">>, heartbeat_receiver => <<"heartbeat">>},
Role = fun (Module) -> maps:get(Module, Roles, Text(Module)) end,

OfConnection = fun (Kind, Connection, Suffix) ->
    Name = Title(Connection),
    #{role => Role(Kind), name => <<Name/binary, Suffix/binary>>, connection => Name,
      vhost => Host(Connection)}
end,
OfQueue = fun ({resource, Vhost, queue, Name}) ->
                  #{role => <<"queue">>, name => Text(Name), vhost => Text(Vhost)};
              (_) -> #{}
          end,
%% A process that has neither a role nor a name is known by the module that it began in.
Other = fun (Registered, Dictionary, Initial) ->
    Begun = case proplists:get_value('$initial_call', Dictionary, Initial) of
                {Module, _, _} when is_atom(Module) -> Text(Module);
                _ -> <<>>
            end,
    case Registered of
        Name when is_atom(Name) -> #{name => Text(Name)};
        _ -> #{role => Begun}
    end
end,
Describe = fun (Pid, Registered, Dictionary, Initial) ->
    Noted = proplists:get_value(process_name, Dictionary),
    case {Queues, Readers, Noted} of
        {#{Pid := Queue}, _, _} -> OfQueue(Queue);
        {_, #{Pid := Connection}, _} -> OfConnection(rabbit_reader, Connection, <<>>);
        {_, _, {_, {resource, _, queue, _} = Queue}} -> OfQueue(Queue);
        {_, _, {Kind, {Connection, Number}}} when is_atom(Kind), is_binary(Connection), is_integer(Number) ->
            OfConnection(Kind, Connection, <<" (", (integer_to_binary(Number))/binary, ")">>);
        {_, _, {Kind, Connection}} when is_atom(Kind), is_binary(Connection) ->
            OfConnection(Kind, Connection, <<>>);
        _ -> Other(Registered, Dictionary, Initial)
    end
end,
Processes = [maps:put(id, list_to_binary(pid_to_list(Pid)),
                      Describe(Pid, Registered, Dictionary, Initial))
             || Pid <- Pids,
                [{registered_name, Registered}, {dictionary, Dictionary}, {initial_call, Initial}]
                    <- [process_info(Pid, [registered_name, dictionary, initial_call])]],
iolist_to_binary(rabbit_json:encode(Processes)).
