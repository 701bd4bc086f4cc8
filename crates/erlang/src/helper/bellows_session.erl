%% A trace session: on OTP 27 and later one of its own beside those of others; before that the node has only one, which
%% is ours where nobody else traces and no other bellows has claimed it.
-module(bellows_session).
-export([open/2, functions/4, processes/4, counters/3, close/1, undo/2, destroy/1, others/0]).

-define(CLAIM, bellows_tracing).

%% {ok, Session}, or {error, {busy, Text}} where somebody else traces. Tracer gets the messages.
open(Owner, Tracer) ->
    case code:ensure_loaded(trace) =/= {error, embedded} andalso erlang:function_exported(trace, session_create, 3) of
        true ->
            Session = trace:session_create(?MODULE, Tracer, []),
            %% Until this is noted the session ends with us, as nobody else knows of it.
            ok = bellows_keeper:undo_with(Owner, {?MODULE, destroy, [Session]}),
            {ok, {own, Session}};
        false -> open_only(Owner, Tracer, 5)
    end.

open_only(Owner, Tracer, Tries) ->
    case claim() of
        ok ->
            case others() of
                none -> {ok, {only, Owner, Tracer}};
                Text when Tries =< 1 -> unregister(?CLAIM), {error, {busy, Text}};
                %% Perhaps an earlier trace of ours is just being undone.
                _ -> unregister(?CLAIM), timer:sleep(100), open_only(Owner, Tracer, Tries - 1)
            end;
        taken when Tries =< 1 -> {error, {busy, <<"another bellows traces on this node">>}};
        taken -> timer:sleep(100), open_only(Owner, Tracer, Tries - 1)
    end.

claim() ->
    try register(?CLAIM, self()) of true -> ok catch error:badarg -> taken end.

%% Sets a pattern, or takes it away with false, or pauses or restarts its counters.
functions({own, Session}, Pattern, Match, Flags) -> trace:function(Session, Pattern, Match, Flags);
functions({only, Owner, Tracer}, Pattern, Match, Flags) ->
    (is_list(Match) orelse Match =:= true)
        andalso (ok = bellows_keeper:undo_with(Owner, {?MODULE, undo, [Pattern, Tracer]})),
    erlang:trace_pattern(Pattern, Match, Flags).

%% Sets or clears flags of processes.
processes({own, Session}, Processes, On, Flags) ->
    try trace:process(Session, Processes, On, Flags) catch error:badarg -> 0 end;
processes({only, _, Tracer}, Processes, On, Flags) ->
    try erlang:trace(Processes, On, [{tracer, Tracer} || On] ++ Flags) catch error:badarg -> 0 end.

%% What a function's counters say.
counters({own, Session}, Function, Counter) -> value(fun () -> trace:info(Session, Function, Counter) end);
counters({only, _, _}, Function, Counter) -> value(fun () -> erlang:trace_info(Function, Counter) end).

value(Ask) -> try Ask() of {_, Value} -> Value catch error:badarg -> undefined end.

%% Ends the session early, once its patterns are taken away, and its tracer; what is to be undone is undone again later, which does not matter.
close({own, Session}) -> destroy(Session);
close({only, _, Tracer}) ->
    clear_processes(Tracer),
    whereis(?CLAIM) =:= self() andalso unregister(?CLAIM),
    ok.

destroy(Session) -> catch trace:session_destroy(Session), ok.

%% Takes a pattern away, and the flags of processes that have our tracer, which may have gone.
undo(Pattern, Tracer) ->
    catch erlang:trace_pattern(Pattern, false, [local]),
    [catch erlang:trace_pattern(Pattern, false, [Counter]) || Counter <- [call_count, call_time, call_memory]],
    clear_processes(Tracer).

clear_processes(Tracer) ->
    exit(Tracer, kill),
    [clear(Process, Tracer) || Process <- [new_processes | erlang:processes()]],
    ok.

clear(Process, Tracer) ->
    try erlang:trace_info(Process, tracer) of
        {tracer, Tracer} -> erlang:trace(Process, false, [all]);
        %% Asking is what clears the flags of one whose tracer has gone.
        _ -> ok
    catch error:badarg -> ok
    end.

%% What shows that somebody traces, as text, or `none`.
others() ->
    case [Pid || Pid <- [new_processes, new_ports | erlang:processes()] ++ erlang:ports(), has_flags(Pid)] of
        [_ | _] = Traced ->
            text("~b processes or ports have trace flags, ~0p among them (tracer ~0p)~s",
                 [length(Traced), hd(Traced), tracer(hd(Traced)), tools()]);
        [] -> pattern_of_others()
    end.

has_flags(Pid) ->
    try erlang:trace_info(Pid, flags) of
        {flags, [_ | _]} -> true;
        _ -> false
    catch error:badarg -> false
    end.

tracer(Pid) ->
    try erlang:trace_info(Pid, tracer) of
        {tracer, Tracer} when is_pid(Tracer) ->
            case process_info(Tracer, registered_name) of
                {registered_name, Name} -> Name;
                _ -> Tracer
            end;
        {tracer, Tracer} -> Tracer;
        _ -> unknown
    catch error:badarg -> unknown
    end.

pattern_of_others() ->
    Set = [{Module, Function, Arity}
           || Key <- [traced, meta, call_count],
              {Module, _} <- code:all_loaded(),
              {Function, Arity} <- functions_of(Module),
              {_, Value} <- [info({Module, Function, Arity}, Key)],
              Value =/= false, Value =/= undefined, Value =/= []],
    case Set of
        [] -> none;
        [{Module, Function, Arity} | _] ->
            text("~b functions have trace patterns, ~0tp:~0tp/~b among them~s",
                 [length(Set), Module, Function, Arity, tools()])
    end.

functions_of(Module) -> try Module:module_info(functions) catch _:_ -> [] end.

info(Function, Key) -> try erlang:trace_info(Function, Key) catch error:badarg -> {Key, false} end.

%% Registered processes of known tracing tools.
tools() ->
    case [atom_to_list(Name) || Name <- [dbg, eprof, fprof, cprof, tprof, recon_trace_tracer, redbug], whereis(Name) =/= undefined] of
        [] -> "";
        Names -> "; running: " ++ lists:join(", ", Names)
    end.

text(Format, Arguments) -> unicode:characters_to_binary(io_lib:format(Format, Arguments, [{chars_limit, 400}])).
