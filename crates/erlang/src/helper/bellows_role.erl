%% What a process is: its registered name, or its role in RabbitMQ with the name of its queue or connection. No process
%% is asked: it stands in what each has noted of itself, and in the node's tables.
-module(bellows_role).
-export([of_process/1, processes/1]).

%% {Role, Name}, both texts; either may be empty.
of_process(Pid) when node(Pid) =:= node() ->
    case process_info(Pid, [registered_name, initial_call, dictionary]) of
        undefined -> {<<>>, <<>>};
        Info -> describe(Pid, Info)
    end;
of_process(_) -> {<<>>, <<>>}.

%% The processes that have a role, such as <<"queue">>.
processes(Role) ->
    [Pid || Pid <- erlang:processes(), {Known, _} <- [of_process(Pid)], Known =:= Role].

describe(Pid, [{_, Registered}, {_, Initial}, {_, Dictionary}]) ->
    case {proplists:get_value(process_name, Dictionary), Registered} of
        {{_, {resource, Host, queue, Queue}}, _} -> {<<"queue">>, in_host(Host, Queue)};
        {{Kind, {Connection, Number}}, _} when is_atom(Kind), is_binary(Connection), is_integer(Number) ->
            {role(Kind), <<Connection/binary, " (", (integer_to_binary(Number))/binary, ")">>};
        {{Kind, Connection}, _} when is_atom(Kind), is_binary(Connection) -> {role(Kind), Connection};
        {_, Name} when is_atom(Name) -> {<<>>, text(Name)};
        _ ->
            case connection(Pid) of
                none ->
                    case proplists:get_value('$initial_call', Dictionary, Initial) of
                        {Module, _, _} when is_atom(Module) -> {role(Module), <<>>};
                        _ -> {<<>>, <<>>}
                    end;
                Name -> {<<"connection">>, Name}
            end
    end.

connection(Pid) ->
    try ets:lookup(connection_created, Pid) of
        [{_, Info}] when is_list(Info) -> given(Info);
        _ -> none
    catch error:badarg -> none
    end.

given(Info) ->
    case proplists:get_value(user_provided_name, Info) of
        Name when is_binary(Name), Name =/= <<>> -> Name;
        _ -> case proplists:get_value(name, Info) of Name when is_binary(Name) -> Name; _ -> <<>> end
    end.

in_host(<<"/">>, Queue) -> text(Queue);
in_host(Host, Queue) -> <<(text(Queue))/binary, " in ", (text(Host))/binary>>.

role(rabbit_channel) -> <<"channel">>;
role(rabbit_reader) -> <<"connection">>;
role(rabbit_writer) -> <<"writer">>;
role(rabbit_limiter) -> <<"limiter">>;
role(rabbit_amqqueue_process) -> <<"queue">>;
role(rabbit_amqp_session) -> <<"session">>;
role(rabbit_amqp_reader) -> <<"connection">>;
role(rabbit_amqp_writer) -> <<"writer">>;
role(heartbeat_sender) -> <<"heartbeat">>;
role(heartbeat_receiver) -> <<"heartbeat">>;
role(Module) -> text(Module).

text(Name) when is_atom(Name) -> atom_to_binary(Name, utf8);
text(Name) when is_binary(Name) -> Name.
