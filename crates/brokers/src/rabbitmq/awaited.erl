%% Queues that do not serve yet, as JSON: a list of at most five names. After a start the leaders of streams and quorum queues are
%% found while clients are taken already.
Serves = fun (Queue) ->
    case amqqueue:get_pid(Queue) of
        Pid when is_pid(Pid) ->
            %% The process of before the start has a number that may be none any more.
            node(Pid) =:= node() andalso (try is_process_alive(Pid) catch _:_ -> false end);
        {Name, _} ->
            whereis(Name) =/= undefined andalso ra_leaderboard:lookup_leader(Name) =/= undefined;
        _ ->
            false
    end
end,
All = fun (Vhost) -> rabbit_amqqueue:list(Vhost) ++ rabbit_amqqueue:list_down(Vhost) end,
Queues = lists:append([All(Vhost) || Vhost <- rabbit_vhost:list_names()]),
Text = fun ({resource, _, _, Name}) -> unicode:characters_to_binary(io_lib:format("~ts", [Name])) end,
Awaited = [Text(amqqueue:get_name(Queue)) || Queue <- Queues, not Serves(Queue)],
iolist_to_binary(rabbit_json:encode(lists:sublist(Awaited, 5))).
