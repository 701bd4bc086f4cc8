%% Evaluated on the node, as it stands here, to load the helper's module: Helper is its name, File and Code what
%% code:atomic_load/1 wants of it, Client and Lease what the keeper's join/2 wants. The process that this starts loads it,
%% starts the keeper, joins it for Client, and removes the module when the keeper has gone. It runs none of its code while
%% it does so, needs nobody's connection, and does it also where Client has gone before it joined.
%%
%% atomic_load never ends processes that run earlier code: where there is such code, someone is just removing it.
Asker = self(),
Reference = make_ref(),
Pause = 20,

Await = fun Await(0) -> ok;
            Await(Left) ->
                IsOurs = fun (Pid) ->
                             case process_info(Pid, dictionary) of
                                 {dictionary, Noted} ->
                                     case lists:keyfind('$initial_call', 1, Noted) of
                                         {_, {Helper, load, _}} -> false;
                                         {_, {Helper, _, _}} -> true;
                                         _ -> false
                                     end;
                                 undefined -> false
                             end
                         end,
                case lists:any(IsOurs, processes()) of
                    true -> timer:sleep(200), Await(Left - 1);
                    false -> ok
                end
        end,

%% Who has the keeper's name is the one who may remove the module: nobody can start a keeper meanwhile.
Remove = fun (Reason) ->
             case catch register(Helper, self()) of
                 true ->
                     %% Of a keeper that was killed the owners undo what is to be undone.
                     Reason =:= normal orelse Await(300),
                     code:purge(Helper),
                     code:delete(Helper),
                     code:purge(Helper);
                 _ -> taken_by_another
             end
         end,

Load = fun Load(0) -> Asker ! {Reference, {error, busy}};
           Load(Left) ->
               Again = fun () -> timer:sleep(Pause), Load(Left - 1) end,
               case code:atomic_load([{Helper, File, Code}]) of
                   ok ->
                       case Helper:keeper_start() of
                           {ok, Pid} ->
                               Monitor = monitor(process, Pid),
                               Asker ! {Reference, Helper:keeper_join(Client, Lease)},
                               receive {'DOWN', Monitor, process, Pid, Reason} -> Remove(Reason) end;
                           {error, taken} ->
                               case Helper:keeper_join(Client, Lease) of
                                   gone -> Again();
                                   Joined -> Asker ! {Reference, Joined}
                               end
                       end;
                   {error, Reasons} ->
                       case lists:all(fun ({_, Why}) -> Why =:= not_purged end, Reasons) of
                           true -> Again();
                           false -> Asker ! {Reference, {error, Reasons}}
                       end
               end
       end,

{Loader, Watch} = spawn_opt(fun () ->
                                put('$initial_call', {Helper, load, 0}),
                                Load(500)
                            end, [monitor, {priority, high}]),
receive
    {Reference, Reply} -> demonitor(Watch, [flush]), Reply;
    {'DOWN', Watch, process, Loader, Why} -> {error, Why}
after 30000 -> {error, timeout}
end.
