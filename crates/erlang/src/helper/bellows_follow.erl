%% Follows calls of an entry function in phases. At first only the entry is traced, to know how long it takes and who
%% calls it, while a sampler finds the modules that run below it. Their functions may be counted then. At last these modules
%% are traced, too, in the processes on the entry's path (see bellows_path). Whoever uses this looks at the budgets meanwhile.
-module(bellows_follow).
-export([open/3, plain/3, counted/4, tally/1, detailed/5, detailed/7, mode/2, thinner/2, modules/1, told/1, told/2, allowed/1, fallen/1,
         result/1, so_far/1, close/1, collections/3]).

-define(TRACER_WORDS, 33554432).
-define(ALWAYS, [call, silent, arity, monotonic_timestamp]).
-define(FLAGS, [return_to, running, exiting | ?ALWAYS]).
%% What is traced of a process while it is on the path.
-define(ON_PATH, [return_to, running, exiting]).
-define(ANSWER, 30000).
-define(LEAST_ALLOWED, 300).

%% {ok, Follow}, or {error, Reason} where somebody else traces. Entry: [{Module, Function, Arity}]. Options: limit, rate and
%% messages (see bellows_path).
open(Owner, Entry, Options) ->
    Worker = self(),
    process_flag(trap_exit, true),
    Sampler = bellows_sampler:start(),
    Tells = [Module || {{Module, _, _}, _} <- serving()],
    Tracer = spawn_opt(fun () -> bellows_path:collect(Worker, Options#{sampler => Sampler, tells => Tells}) end,
                       [link, {priority, high}, {message_queue_data, off_heap},
                        {max_heap_size, #{size => ?TRACER_WORDS, kill => true, error_logger => false}}]),
    case bellows_session:open(Owner, Tracer) of
        {ok, Session} ->
            Tracer ! {session, self(), Session},
            {ok, #{session => Session, tracer => Tracer, sampler => Sampler, entry => Entry, patterns => []}};
        {error, Reason} ->
            [begin unlink(Pid), exit(Pid, kill) end || Pid <- [Sampler, Tracer]],
            {error, Reason}
    end.

%% Only the entry is traced, in all processes or some.
plain(Processes, Follow, Chosen) ->
    #{session := Session, entry := Entry} = Follow,
    phase(plain, Chosen, infinity, infinity, Follow),
    flag(Processes, Follow),
    [bellows_session:functions(Session, Pattern, entry([return_to, exiting]), [local]) || Pattern <- Entry],
    Follow#{patterns := Entry}.

%% The functions of these modules are counted, too, in the same or other processes and in those that they ask. Nothing is
%% sent of them, so that they cannot be too many.
counted(Modules, Processes, #{session := Session, patterns := Patterns} = Follow, Chosen) ->
    unflag(Follow),
    phase(counted, Chosen, infinity, infinity, Follow),
    [bellows_session:functions(Session, Pattern, true, [call_time]) || Pattern <- Modules],
    Asked = asked({trace, '$1', [], [call, silent]}, [{message, false}], [{message, false}]),
    [bellows_session:functions(Session, Pattern, Match, [local]) || {Pattern, Match} <- Asked],
    flag(Processes, Follow),
    Follow#{counted => Modules, patterns := Patterns ++ [Pattern || {Pattern, _} <- Asked]}.

%% What was counted, and counts no more: [{Function, Calls, Microseconds in itself}].
tally(#{session := Session, counted := Patterns} = Follow) ->
    %% Patterns may overlap, and a counter has gone on when it is read again.
    Functions = lists:usort([Function || Pattern <- Patterns, Function <- bellows_session:matching(Pattern)]),
    Rows = [{Function, Calls, Micros} || Function <- Functions,
                                         {Calls, Micros} <- [sums(bellows_session:counters(Session, Function, call_time))], Calls > 0],
    [bellows_session:functions(Session, Pattern, false, [call_time]) || Pattern <- Patterns],
    {Rows, maps:remove(counted, Follow)}.

sums(Counts) when is_list(Counts) ->
    lists:foldl(fun ({_, Calls, Seconds, Micros}, {C, M}) -> {C + Calls, M + Seconds * 1000000 + Micros} end, {0, 0}, Counts);
sums(_) -> {0, 0}.

%% The modules on the path are traced, too, in the same or other processes. Allowed: calls below one of the entry, beyond
%% which the functions that are called most are left out. LeftOut: functions that are from the start. AtOnce: calls of the entry that
%% are followed at the same time, and sometimes none; `infinity` follows all.
detailed(Modules, Processes, Follow, Chosen, Allowed) -> detailed(Modules, Processes, Follow, Chosen, Allowed, [], infinity).

detailed(Modules, Processes, Follow, Chosen, Allowed, LeftOut, AtOnce) ->
    #{session := Session, entry := Entry} = Follow,
    unflag(Follow),
    phase(detailed, Chosen, Allowed, AtOnce, Follow),
    %% Later patterns take the place of earlier ones.
    Patterns = [{Pattern, [{'_', [], [{message, {caller}}]}]} || Pattern <- calling() ++ Modules]
        ++ serving() ++ replying() ++ asking() ++ [{Pattern, entry(?ON_PATH)} || Pattern <- Entry],
    [bellows_session:functions(Session, Pattern, Match, [local]) || {Pattern, Match} <- Patterns],
    Really = leave_out(LeftOut, Follow),
    flag(Processes, Follow),
    Follow#{patterns := [Pattern || {Pattern, _} <- Patterns], chosen => Chosen, allowed => Allowed, at_once => AtOnce,
            left_out => Really}.

%% Calls of the entry that begin from now on are followed, or only timed (`alone`): their processes are not traced until they return.
mode(Mode, #{session := Session, entry := Entry}) ->
    Match = case Mode of
                follow -> entry(?ON_PATH);
                alone -> alone()
            end,
    [bellows_session:again(Session, Pattern, Match, [local]) || Pattern <- Entry],
    ok.

unflag(#{session := Session}) ->
    bellows_session:processes(Session, existing, false, ?FLAGS),
    bellows_session:processes(Session, new, false, ?FLAGS).

%% Traces these functions no more; those of them that can be missed.
leave_out(Functions, #{session := Session} = Follow) ->
    LeftOut = Functions -- needed(Follow),
    [bellows_session:functions(Session, Function, false, [local]) || Function <- LeftOut],
    LeftOut.

needed(#{entry := Entry}) -> Entry ++ [Pattern || {Pattern, _} <- serving() ++ replying() ++ asking()].

%% These functions are called too often: those that can be missed are traced no more, and all begins once more. Which
%% those are, and what is followed then.
thinner(Functions, #{chosen := Chosen, allowed := Allowed, at_once := AtOnce} = Follow) ->
    LeftOut = leave_out(Functions, Follow),
    Next = case LeftOut of
               [] -> infinity;
               _ -> Allowed
           end,
    phase(detailed, Chosen, Next, AtOnce, Follow),
    {LeftOut, Follow#{allowed := Next}}.

phase(Phase, Chosen, Allowed, AtOnce, #{tracer := Tracer}) ->
    ask({phase, self(), Phase, Chosen, Allowed, AtOnce}, Tracer).

flag(all, #{session := Session}) ->
    bellows_session:processes(Session, existing, true, ?ALWAYS),
    bellows_session:processes(Session, new, true, ?ALWAYS);
flag({new, Pids}, #{session := Session}) ->
    [bellows_session:processes(Session, Pid, true, ?ALWAYS) || Pid <- Pids],
    bellows_session:processes(Session, new, true, ?ALWAYS);
flag({only, Pids}, #{session := Session}) ->
    [bellows_session:processes(Session, Pid, true, ?ALWAYS) || Pid <- Pids].

%% The modules that the sampler has met, as patterns.
modules(#{sampler := Sampler}) -> [{Module, '_', '_'} || Module <- bellows_sampler:modules(Sampler)].

%% What the tracer has seen so far, and that with all that a process did up to now.
told(#{tracer := Tracer}) -> ask({tell, self()}, Tracer).

told(Pid, #{session := Session} = Follow) ->
    bellows_session:delivered(Session, Pid),
    told(Follow).

%% Calls below one of the entry: with more than one in two microseconds tracing takes longer than the work. The slowest
%% tenth is what is looked for, so that its middle is what counts.
allowed([]) -> ?LEAST_ALLOWED;
allowed(Nanos) ->
    Sorted = lists:sort(Nanos),
    max(?LEAST_ALLOWED, lists:nth((length(Sorted) * 19 + 19) div 20, Sorted) div 2000).

%% Entries whose pattern went away, as their module was loaded anew.
fallen(#{session := Session, entry := Entry}) ->
    bellows_version:fallen(Session, [{Pattern, Pattern} || Pattern <- Entry], traced).

%% What the tracer has made of all, with names for the processes that served: it ends with that.
result(#{session := Session, tracer := Tracer, sampler := Sampler} = Follow) ->
    stop_tracing(Follow),
    bellows_session:delivered(Session, all),
    unlink(Tracer),
    Path = named(ask({finish, self()}, Tracer), Sampler),
    close(Follow),
    Path.

%% The same of all that the tracer has looked at until now: it goes on.
so_far(#{tracer := Tracer, sampler := Sampler}) -> named(ask({so_far, self()}, Tracer), Sampler).

named(Path, Sampler) ->
    Labels = bellows_sampler:labels(Sampler),
    Path#{nodes := [node_row(Node, Labels) || Node <- maps:get(nodes, Path)]}.

node_row({Number, Parent, {served, Pid}}, Labels) ->
    {Role, Name} = maps:get(Pid, Labels, {<<>>, <<>>}),
    {Number, Parent, Role, Name};
node_row(Node, _) ->
    {Number, Parent, Module, Name, Arity, _, _, _} = bellows_stack:row(Node, #{}),
    {Number, Parent, Module, Name, Arity}.

stop_tracing(Follow) ->
    unflag(Follow),
    untraced(Follow).

%% Takes all patterns away, and counters that still count.
untraced(#{session := Session, patterns := Patterns} = Follow) ->
    [bellows_session:functions(Session, Pattern, false, [local]) || Pattern <- Patterns],
    [bellows_session:functions(Session, Pattern, false, [call_time]) || Pattern <- maps:get(counted, Follow, [])],
    ok.

close(#{session := Session, tracer := Tracer, sampler := Sampler} = Follow) ->
    untraced(Follow),
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- [Sampler, Tracer]],
    bellows_session:close(Session).

%% Runs something while the garbage collections of a process are traced: its result, and what bellows_path says of them.
collections(Pid, Fun, #{session := Session, tracer := Tracer}) ->
    bellows_session:processes(Session, Pid, true, [garbage_collection, monotonic_timestamp]),
    Result = Fun(),
    bellows_session:processes(Session, Pid, false, [garbage_collection, monotonic_timestamp]),
    bellows_session:delivered(Session, Pid),
    {Result, ask({collections, self()}, Tracer)}.

ask(Request, Tracer) ->
    Monitor = monitor(process, Tracer),
    Tracer ! Request,
    receive
        {told, Tracer, Reply} -> demonitor(Monitor, [flush]), Reply;
        {'DOWN', Monitor, process, Tracer, Reason} -> error({no_tracer, Reason})
    after ?ANSWER -> error(timeout)
    end.

%% Patterns: {Function, Match}. What begins with `bellows` in a message is for bellows_path.

entry(Flags) ->
    [{'_', [], [{silent, false}, {trace, [], Flags}, {message, {{bellows, entry, none, {caller}}}}]}].

%% Its call and its return are told, and nothing between them.
alone() ->
    [{'_', [], [{silent, false}, {trace, [call, running], [return_to, exiting]}, {message, {{bellows, alone, none, {caller}}}}]}].

%% Frames below which others serve; each function that there is.
calling() ->
    [{Module, call, Arity} || Module <- [gen_server, gen_server2, gen_statem], Arity <- [2, 3], has(Module, call, Arity)].

asking() ->
    Flags = [call, return_to, running, exiting, arity, monotonic_timestamp],
    asked({trace, '$1', [silent], Flags}, [{message, {{bellows, asks, '$1', {caller}}}}], [{message, {{bellows, asks, none, {caller}}}}]).

%% What is done with a process of this node that is asked, and what is told of that and of others.
asked(Trace, Here, Elsewhere) ->
    [{{gen, do_call, 4},
      [{['$1', '_', '_', '_'], [{is_pid, '$1'}, {'=:=', {node, '$1'}, {node}}], [Trace | Here]},
       {'_', [], Elsewhere}]} || has(gen, do_call, 4)].

%% Where a server begins with a request, by behaviour. OTP 29 has other functions, and another order of arguments, than the releases before.
serving() ->
    Body = [{message, {{bellows, serves, '$1', {caller}}}}],
    Rest = {'_', [], [{message, {caller}}]},
    From = {'$1', '_'},
    Request = {'$gen_call', From, '_'},
    Called = case has(gen_server, handle_msg, 3) of
        true -> ['_', '_', '_', From];
        false -> ['_', '_', From, '_']
    end,
    Serving = [{gen_server, [{try_handle_call, Called}]},
               {gen_server2, [{handle_msg, [Request, '_']}]},
               {gen_statem, [{loop_receive_result, ['_', '_', '_', {{call, From}, '_'}]}, {loop_msg, ['_', '_', '_', Request]}]}],
    [{{Module, Function, length(Arguments)}, [{Arguments, [], Body}, Rest]} ||
        {Module, Functions} <- Serving, {Function, Arguments} <- Functions, has(Module, Function, length(Arguments))].

replying() ->
    Match = [{[{'$1', '_'}, '_'], [{is_pid, '$1'}], [{message, {{bellows, replies, '$1', {caller}}}}]},
             {'_', [], [{message, {caller}}]}],
    [{{Module, reply, 2}, Match} || Module <- [gen, gen_server2], has(Module, reply, 2)].

has(Module, Function, Arity) ->
    code:ensure_loaded(Module) =/= {error, nofile} andalso
        (try lists:member({Function, Arity}, Module:module_info(functions)) catch error:undef -> false end).
