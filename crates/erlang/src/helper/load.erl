%% Evaluated on the node, as it stands here, to load the helper's module: Helper is its name, File and Code what
%% code:atomic_load/1 wants of it, Client and Lease what the keeper's join/2 wants. The process that this starts loads it,
%% starts the keeper, joins it for Client, and removes the module when the keeper has gone. It runs none of its code while
%% it does so, needs nobody's connection, and does it also where Client has gone before it joined.
%%
%% Who loads or removes the code holds a name meanwhile, which all that do so share: what one has just loaded another would
%% take for earlier code, or delete. atomic_load never ends processes that run earlier code: where there is such code,
%% someone is just removing it.
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

%% Whether the name is ours now, within a time.
Hold = fun Hold(0) -> false;
           Hold(Left) ->
               case catch register(bellows_loading, self()) of
                   true -> true;
                   _ -> timer:sleep(Pause), Hold(Left - 1)
               end
       end,
LetGo = fun () -> unregister(bellows_loading) end,

%% While the name is ours nobody starts a keeper. Where there is one, its own loader removes the module.
Remove = fun (Reason) ->
             Hold(1500) andalso
                 begin
                     case whereis(Helper) of
                         undefined ->
                             %% Of a keeper that was killed the owners undo what is to be undone.
                             Reason =:= normal orelse Await(300),
                             code:purge(Helper),
                             code:delete(Helper),
                             %% The code is old from here on, so that nobody can load before it is purged.
                             LetGo(),
                             code:purge(Helper);
                         _ -> LetGo()
                     end
                 end
         end,

%% {keeper, Pid} that runs from now on, or what is said to the one who asked.
Start = fun () ->
            case whereis(Helper) of
                undefined ->
                    case code:atomic_load([{Helper, File, Code}]) of
                        ok -> case Helper:keeper_start() of {ok, Pid} -> {keeper, Pid}; _ -> again end;
                        {error, Reasons} ->
                            case lists:all(fun ({_, Why}) -> Why =:= not_purged end, Reasons) of
                                true -> again;
                                false -> {error, Reasons}
                            end
                    end;
                %% Another was faster: the next one who asks joins its keeper.
                _ -> gone
            end
        end,

Load = fun Load(0) -> Asker ! {Reference, {error, busy}};
           Load(Left) ->
               case Hold(Left) of
                   false -> Load(0);
                   true ->
                       Started = Start(),
                       LetGo(),
                       case Started of
                           {keeper, Pid} ->
                               Monitor = monitor(process, Pid),
                               Asker ! {Reference, Helper:keeper_join(Client, Lease)},
                               receive {'DOWN', Monitor, process, Pid, Reason} -> Remove(Reason) end;
                           again -> timer:sleep(Pause), Load(Left - 1);
                           Said -> Asker ! {Reference, Said}
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
