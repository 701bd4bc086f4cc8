%% A trace session: on OTP 27 and later one of its own beside those of others; before that the node has only one, which
%% is ours where nobody else traces and no other bellows has claimed it.
-module(bellows_session).
-export([open/2, functions/4, again/4, matching/1, processes/4, delivered/2, counters/3, close/1, undo/3, destroy/1, others/0]).

-define(CLAIM, bellows_tracing).
%% How long messages of a trace may be on their way, in milliseconds.
-define(DELIVERED, 1000).

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
        taken when Tries =< 1 -> {error, {busy, <<"another bellows traces on this node; a run with [[trace]] does until its measured phase has ended">>}};
        taken -> timer:sleep(100), open_only(Owner, Tracer, Tries - 1)
    end.

claim() ->
    try register(?CLAIM, self()) of true -> ok catch error:badarg -> taken end.

%% Sets a pattern, or takes it away with false, or pauses or restarts its counters. Throws {busy, Text} where somebody
%% else counts one of its functions: their counters would begin anew.
functions({own, Session}, Pattern, Match, Flags) -> trace:function(Session, Pattern, Match, Flags);
functions({only, Owner, Tracer}, Pattern, Match, Flags) ->
    (is_list(Match) orelse Match =:= true) andalso claim_functions(Owner, Tracer, Pattern, Flags),
    erlang:trace_pattern(Pattern, Match, Flags).

%% Sets a pattern of ours once more, where its module was loaded anew.
again({own, _} = Session, Pattern, Match, Flags) -> functions(Session, Pattern, Match, Flags);
again({only, _, _}, Pattern, Match, Flags) -> erlang:trace_pattern(Pattern, Match, Flags).

%% Throws where somebody else counts one of the functions that are ours from now on.
claim_functions(Owner, Tracer, Pattern, Flags) ->
    Ours = case get({?MODULE, functions}) of undefined -> #{}; Known -> Known end,
    New = [Function || Function <- matching(Pattern), not is_map_key(Function, Ours)],
    case patterns(New, [call_time, call_memory]) of
        none -> put({?MODULE, functions}, maps:merge(Ours, maps:from_keys(New, ours)));
        Text -> throw({busy, Text})
    end,
    ok = bellows_keeper:undo_with(Owner, {?MODULE, undo, [Pattern, Flags, Tracer]}).

%% The functions of a pattern, also where the module has gone.
matching({Module, Function, Arity}) ->
    [{Module, F, A} || {F, A} <- functions_of(Module), Function =:= '_' orelse Function =:= F,
                       Arity =:= '_' orelse Arity =:= A].

%% Sets or clears flags of processes. Our own are left out: a trace of their calls would feed itself.
processes(Session, Processes, On, Flags) ->
    Count = set(Session, Processes, On, Flags),
    Ours = [Pid || On, Processes =:= existing, Pid <- bellows_keeper:ours(), is_pid(Pid)],
    lists:foreach(fun (Pid) -> set(Session, Pid, false, Flags) end, Ours),
    Count.

set({own, Session}, Processes, On, Flags) ->
    try trace:process(Session, Processes, On, Flags) catch error:badarg -> 0 end;
set({only, _, Tracer}, Processes, On, Flags) ->
    try erlang:trace(Processes, On, [{tracer, Tracer} || On] ++ Flags) catch error:badarg -> 0 end.

%% Waits until the tracer has all messages of what a process, or all of them, did up to now: they do not travel in order
%% with those of others. What takes too long is not waited for.
delivered(Session, Process) ->
    Ref = case Session of
              {own, Own} -> trace:delivered(Own, Process);
              {only, _, _} -> erlang:trace_delivered(Process)
          end,
    receive {trace_delivered, Process, Ref} -> ok after ?DELIVERED -> late end.

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

%% Takes away what was set of a pattern, and the flags of processes that have our tracer, which may have gone.
undo(Pattern, Flags, Tracer) ->
    catch erlang:trace_pattern(Pattern, false, Flags),
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
            text("~s trace flags, ~0p among them (tracer ~0p)~s",
                 [case length(Traced) of
                      1 -> "1 process or port has";
                      Many -> io_lib:format("~b processes or ports have", [Many])
                  end, hd(Traced), tracer(hd(Traced)), tools()]);
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

%% What tells of a function's call_time and call_memory stops the whole node for a moment: they are looked at in
%% functions/4, of the functions that are ours to be.
pattern_of_others() ->
    Functions = [{Module, Function, Arity} || {Module, _} <- code:all_loaded(), {Function, Arity} <- functions_of(Module)],
    patterns(Functions, [traced, meta, call_count]).

patterns(Functions, Keys) ->
    Set = [Found || Key <- Keys, Found <- Functions, {_, Value} <- [info(Found, Key)],
                    Value =/= false, Value =/= undefined, {Key, Value} =/= {meta, []}],
    case Set of
        [] -> none;
        [{Module, Function, Arity} | _] ->
            text("~s trace patterns or counters, ~0tp:~0tp/~b among them~s",
                 [case length(Set) of 1 -> "1 function has"; Many -> io_lib:format("~b functions have", [Many]) end,
                  Module, Function, Arity, tools()])
    end.

functions_of(Module) -> try erlang:get_module_info(Module, functions) catch _:_ -> [] end.

info(Function, Key) -> try erlang:trace_info(Function, Key) catch error:badarg -> {Key, false} end.

%% Registered processes of known tracing tools.
tools() ->
    case [atom_to_list(Name) || Name <- [dbg, eprof, fprof, cprof, tprof, recon_trace_tracer, redbug], whereis(Name) =/= undefined] of
        [] -> "";
        Names -> "; running: " ++ lists:join(", ", Names)
    end.

text(Format, Arguments) -> unicode:characters_to_binary(io_lib:format(Format, Arguments, [{chars_limit, 400}])).
