%% Looks at the stacks of processes on the path of an entry function, to find the modules that run there, and knows what
%% the processes are that serve its calls.
-module(bellows_sampler).
-export([start/0, modules/1, labels/1]).

%% Time between looks, in milliseconds; processes in one look; modules that are told.
-define(EVERY, 1).
-define(AT_ONCE, 4).
%% How far to go from a process to those that it waits for.
-define(DEPTH, 4).
-define(MOST, 40).
-define(LABELS, 5000).
%% What each server runs around its work, and what no work of its own.
-define(AROUND, [gen, gen_server, gen_server2, gen_statem, gen_event, proc_lib, sys, erlang, erts_internal, init, error_handler]).

start() -> spawn_link(fun () -> put('$initial_call', {bellows_keeper, sampler, 0}), loop([], #{}, #{}, now_ms()) end).

%% The modules that were met, those that were met most first.
modules(Sampler) -> ask(Sampler, modules).

%% #{Pid => {Role, Name}} of the processes that serve.
labels(Sampler) -> ask(Sampler, labels).

ask(Sampler, What) ->
    Sampler ! {What, self()},
    receive {What, Sampler, Reply} -> Reply after 10000 -> error(timeout) end.

%% Active: {Pid, functions around the entry}; Met: module to looks.
loop(Active, Met, Labels, Due) ->
    receive
        {active, Pid, Around} -> loop([{Pid, Around} | lists:keydelete(Pid, 1, Active)], Met, Labels, Due);
        rest -> loop([], Met, Labels, Due);
        {idle, Pid} -> loop(lists:keydelete(Pid, 1, Active), Met, Labels, Due);
        {label, Pid} when is_map_key(Pid, Labels); map_size(Labels) >= ?LABELS -> loop(Active, Met, Labels, Due);
        {label, Pid} -> loop(Active, Met, Labels#{Pid => bellows_role:of_process(Pid)}, Due);
        {modules, From} ->
            Sorted = lists:reverse(lists:sort([{Looks, Module} || {Module, Looks} <- maps:to_list(Met)])),
            From ! {modules, self(), [Module || {_, Module} <- lists:sublist(Sorted, ?MOST)]},
            loop(Active, Met, Labels, Due);
        {labels, From} ->
            From ! {labels, self(), Labels},
            loop(Active, Met, Labels, Due)
    after case Active of [] -> infinity; _ -> max(0, Due - now_ms()) end ->
        Seen = lists:foldl(fun ({Pid, Around}, Into) -> look(Pid, Around, ?DEPTH, Into) end, Met, lists:sublist(Active, ?AT_ONCE)),
        loop(Active, Seen, Labels, now_ms() + ?EVERY)
    end.

%% A process, and those that it waits for: it monitors them.
look(_, _, 0, Met) -> Met;
look(Pid, Around, Depth, Met) ->
    case process_info(Pid, current_stacktrace) of
        {current_stacktrace, [Top | _] = Stack} ->
            Others = case Top of
                         {gen, _, _, _} -> lists:sublist(monitored(Pid), ?AT_ONCE);
                         _ -> []
                     end,
            %% A server may answer before anybody looks at it: what it serves with is known all the same.
            Serving = [serving(Other) || Other <- Others],
            Running = [Module || {Module, _, _, _} <- inside(Stack, Around)],
            Modules = lists:usort([Module || Module <- Running ++ Serving, is_work(Module)]),
            Seen = lists:foldl(fun (Module, Into) -> maps:update_with(Module, fun (Looks) -> Looks + 1 end, 1, Into) end, Met, Modules),
            lists:foldl(fun (Other, Into) -> look(Other, [], Depth - 1, Into) end, Seen, Others);
        _ -> Met
    end.

%% The module that a server calls back.
serving(Pid) ->
    {Module, _, _} = proc_lib:translate_initial_call(Pid),
    Module.

monitored(Pid) ->
    case process_info(Pid, monitors) of
        {monitors, Monitors} -> [Other || {process, Other} <- Monitors, is_pid(Other), node(Other) =:= node()];
        undefined -> []
    end.

now_ms() -> erlang:monotonic_time(millisecond).

inside([{Module, Function, Arity, _} | Stack], Around) ->
    case lists:member({Module, Function, Arity}, Around) of
        true -> [];
        false -> [{Module, Function, Arity, []} | inside(Stack, Around)]
    end;
inside([], _) -> [].

is_work(Module) -> not lists:member(Module, ?AROUND) andalso not bellows_keeper:is_ours(Module).
