%% Calls a function again and again in a process of its own, with a bounded heap: how long each call takes, what it costs
%% in reductions and memory, and which functions it calls.
-module(bellows_time).
-export([start/2, one/4, name/1]).

%% Calls whose garbage collections are counted; calls to find modules in, for so long at most (ms).
-define(COLLECTED, 10).
-define(LEARNED, 20).
-define(LEARNING, 100).
-define(TEXT, 65536).
-define(SHOWN, 300).
-define(FRAMES, 6).
%% An empty call is made so often, to know what the clock costs.
-define(EMPTY, 200).
%% Functions that are called too often are left out so many times.
-define(THINNER, 5).
%% Time in which the tracer looks at what it holds (ms).
-define(SETTLE, 50).
%% Calls that are told before the end.
-define(SO_FAR, 100000).

%% Options: source (text), times, for_ms, traced (calls), patterns (modules; none: those that are met), result (whether it is
%% told), limits (see bellows_guard).
start(Owner, #{source := Source, patterns := Patterns, limits := Limits} = Options) ->
    process_flag(priority, high),
    try
        Call = parse(Source),
        Checked = bellows_trace:patterns(Patterns),
        Baseline = bellows_guard:baseline(),
        process_flag(trap_exit, true),
        Runner = runner(maps:get(node_bytes, Limits)),
        Until = now_ms() + maps:get(for_ms, Options),
        Result = measure(Call, Owner, Options#{patterns := Checked, runner => Runner, baseline => Baseline, until => Until,
                                               guard => guard(Options, Baseline, Runner)}),
        unlink(Runner),
        exit(Runner, kill),
        hand_out({done, Result})
    catch
        throw:Reason -> hand_out({refused, Reason})
    end.

%% What the guard says of a tracer holds for the process that calls. A last call may take as long as all others.
guard(#{for_ms := For, limits := #{node_bytes := Bytes} = Limits}, Baseline, Runner) ->
    bellows_guard:new(Limits#{tracer_bytes := Bytes, for_ms := 2 * For}, Baseline, Runner).

hand_out(Result) ->
    receive
        {ask, Alias, _} -> bellows_keeper:answer(Alias, Result), hand_out(Result);
        _ -> hand_out(Result)
    after 60000 -> ok
    end.

%% One call of an exported function with terms as arguments, nothing else: it is not evaluated, but read.
parse(Source) when byte_size(Source) > ?TEXT -> throw({bad_expression, <<"it is too long">>});
parse(Source) ->
    Text = case string:trim(unicode:characters_to_list(Source)) of
               [] -> throw({bad_expression, <<"it is empty">>});
               Trimmed -> [C || C <- string:trim(Trimmed, trailing, ".")] ++ "."
           end,
    {Module, Function, Arguments} = try
        {ok, Tokens, _} = erl_scan:string(Text),
        {ok, [{call, _, {remote, _, {atom, _, M}, {atom, _, F}}, Given}]} = erl_parse:parse_exprs(Tokens),
        {M, F, [erl_parse:normalise(Argument) || Argument <- Given]}
    catch _:_ -> throw({bad_expression, Source})
    end,
    is_there(Module, Function, length(Arguments)),
    {Module, Function, Arguments}.

is_there(Module, Function, Arity) ->
    case code:ensure_loaded(Module) of
        {module, Module} -> ok;
        {error, _} -> throw(bellows_trace:no_module(Module))
    end,
    bellows_keeper:is_ours(Module) andalso throw(bellows_trace:no_module(Module)),
    erlang:function_exported(Module, Function, Arity)
        orelse throw(bellows_trace:no_function(Module, Function, Arity, Module:module_info(exports))).

%% The process that calls.

runner(Bytes) ->
    Words = Bytes div erlang:system_info(wordsize),
    Heap = #{size => Words, kill => true, error_logger => false},
    Worker = self(),
    spawn_opt(fun () -> put('$initial_call', {bellows_keeper, runner, 0}), run(Worker) end, [link, {max_heap_size, Heap}]).

run(Worker) ->
    receive
        {run, Worker, Call, Times, Deadline, Into} ->
            {reductions, Before} = process_info(self(), reductions),
            {Done, Raised} = again(Call, Times, Deadline, Into, 0, none),
            {reductions, After} = process_info(self(), reductions),
            Worker ! {ran, self(), Done, Raised, After - Before},
            run(Worker);
        %% A collection before and one after them show all that they allocate.
        {collect, Worker, Call, Times, Deadline, Into} ->
            garbage_collect(),
            {Done, Raised} = again(Call, Times, Deadline, Into, 0, none),
            garbage_collect(),
            Worker ! {ran, self(), Done, Raised, 0},
            run(Worker)
    end.

again(_, Times, _, _, Times, Raised) -> {Times, Raised};
again({Module, Function, Arguments} = Call, Times, Deadline, Into, Done, Raised) ->
    Began = erlang:monotonic_time(),
    case ?MODULE:one(Module, Function, Arguments, ok) of
        ok ->
            Ended = erlang:monotonic_time(),
            atomics:put(Into, Done + 1, Ended - Began),
            next(Call, Times, Deadline, Into, Done + 1, Raised, Ended);
        Failed ->
            Ended = erlang:monotonic_time(),
            atomics:put(Into, Done + 1, Ended - Began),
            next(Call, Times, Deadline, Into, Done + 1, failed(Failed, Raised), Ended)
    end.

next(_, _, Deadline, _, Done, Raised, Now) when Now >= Deadline -> {Done, Raised};
next(Call, Times, Deadline, Into, Done, Raised, _) -> again(Call, Times, Deadline, Into, Done, Raised).

failed(Failed, none) -> {1, Failed};
failed(_, {Count, First}) -> {Count + 1, First}.

%% The call; its value is dropped, unless Want is `value`.
one(Module, Function, Arguments, Want) ->
    try apply(Module, Function, Arguments) of
        Value when Want =:= value -> {value, Value};
        _ -> ok
    catch
        Class:Reason:Stack -> {raised, Class, Reason, Stack}
    end.

%% What is measured, in parts.

measure({Module, Function, Arguments} = Call, Owner, #{runner := Runner} = Options) ->
    Into = atomics:new(max(?EMPTY, maps:get(times, Options)), []),
    Empty = empty(Into, Options),
    First = case Empty of
                #{nanos := _} -> first(Call, Options);
                #{ended := _} -> Empty
            end,
    case First of
        #{ended := time} ->
            Deadline = erlang:monotonic_time() + native(maps:get(until, Options) - now_ms()),
            put(so_far, {First#{empty => Empty}, Into, maps:get(times, Options)}),
            {Times, Ended, State} = ran(run, Call, maps:get(times, Options), Deadline, Into, Options),
            Timed = First#{ended := Ended, times => numbers(Into, Times), empty => Empty},
            Costs = case State of
                        {Done, Raised, Reductions} ->
                            #{reductions => max(0, Reductions - maps:get(reductions, Empty) * Done) div max(1, Done),
                              raised => raised(Raised, {Module, Function})};
                        none -> #{}
                    end,
            Is = is_process_alive(Runner) andalso Ended =:= time andalso maps:get(traced, Options) > 0,
            maps:merge(maps:merge(Timed, Costs), case Is of
                                                     true -> followed(Call, {Module, Function, length(Arguments)}, Owner, Options);
                                                     false -> #{}
                                                 end);
        _ -> First
    end.

%% Nanoseconds of a call that does nothing, and its reductions: what the measuring costs.
empty(Into, Options) ->
    Call = {erlang, self, []},
    case ran(run, Call, ?EMPTY, infinity, Into, Options) of
        {Done, time, {Done, none, Reductions}} ->
            Sorted = lists:sort([atomics:get(Into, Index) || Index <- lists:seq(1, Done)]),
            #{nanos => nanos(lists:nth(Done div 2, Sorted)), reductions => Reductions div Done};
        {_, Ended, _} -> #{ended => Ended}
    end.

%% The first call, whose value or exception is told.
first({Module, Function, Arguments}, #{runner := Runner, result := Wanted} = Options) ->
    Want = case Wanted of true -> value; false -> ok end,
    Self = self(),
    Ref = make_ref(),
    %% The value may be large: only its text leaves the process.
    Tell = fun () ->
               Began = erlang:monotonic_time(),
               Value = ?MODULE:one(Module, Function, Arguments, Want),
               Nanos = nanos(erlang:monotonic_time() - Began),
               Self ! {Ref, Nanos, told(Value, {Module, Function})}
           end,
    Into = atomics:new(1, []),
    Runner ! {run, Self, {erlang, apply, [Tell, []]}, 1, infinity, Into},
    case await(Runner, Options) of
        {ran, _, _, _} ->
            receive {Ref, Nanos, Told} -> Told#{first => Nanos, ended => case Told of #{raised := _} -> raised; _ -> time end} end;
        Ended -> #{ended => Ended}
    end.

told({value, Value}, {Module, Function}) -> #{value => bellows_text:result(Module, Function, Value, ?SHOWN)};
told(ok, _) -> #{};
told(Raised, Call) -> #{raised => raised({1, Raised}, Call)}.

%% {Number, Class, Reason, functions of the stack}.
raised(none, _) -> none;
raised({Count, {raised, Class, Reason, Stack}}, {Module, Function}) ->
    {Count, atom_to_binary(Class, utf8), bellows_text:result(Module, Function, Reason, ?SHOWN),
     [function(Frame) || Frame <- lists:sublist(Stack, ?FRAMES), not bellows_keeper:is_ours(element(1, Frame))]}.

function({Module, Function, Arguments, Where}) when is_list(Arguments) -> function({Module, Function, length(Arguments), Where});
function({Module, Function, Arity, _}) -> name({Module, Function, Arity}).

name({Module, '_', '_'}) -> atom_to_binary(Module, utf8);
name({Module, Function, Arity}) -> unicode:characters_to_binary(io_lib:format("~0tp:~0tp/~0p", [Module, Function, Arity])).

%% {Number of calls, what ended them, what they cost or `none` where the process has gone}.
ran(How, Call, Times, Deadline, Into, #{runner := Runner} = Options) ->
    [atomics:put(Into, Index, 0) || Index <- lists:seq(1, Times)],
    Runner ! {How, self(), Call, Times, Deadline, Into},
    case await(Runner, Options) of
        {ran, Done, Raised, Reductions} -> {Done, time, {Done, Raised, Reductions}};
        Ended -> {made(Into, Times, 0), Ended, none}
    end.

%% Calls that came to an end.
made(_, Times, Times) -> Times;
made(Into, Times, Done) ->
    case atomics:get(Into, Done + 1) of
        0 -> Done;
        _ -> made(Into, Times, Done + 1)
    end.

%% What was measured until now, if the first call has ended.
so_far(undefined) -> running;
so_far({First, Into, Times}) -> {so_far, First#{times => numbers(Into, made(Into, min(Times, ?SO_FAR), 0))}}.

numbers(Into, Done) -> << <<(nanos(atomics:get(Into, Index))):64>> || Index <- lists:seq(1, Done) >>.

%% Until the runner has done what it was told to; it is ended where a limit trips, or the time is over.
await(Runner, #{guard := Guard} = Options) ->
    receive
        {ran, Runner, Done, Raised, Reductions} -> {ran, Done, Raised, Reductions};
        {'EXIT', Runner, killed} -> {heap, maps:get(node_bytes, maps:get(limits, Options)), maps:get(node_bytes, maps:get(limits, Options))};
        {'EXIT', Runner, _} -> {exited, 0, 0};
        {'EXIT', _, Reason} -> exit(Reason);
        {flood, _, Functions} ->
            thinner(Functions),
            await(Runner, Options);
        {ask, Alias, stop} ->
            unlink(Runner),
            exit(Runner, kill),
            bellows_keeper:answer(Alias, stopping),
            {asked, 0, 0};
        {ask, Alias, so_far} ->
            bellows_keeper:answer(Alias, so_far(get(so_far))),
            await(Runner, Options);
        {ask, Alias, _} ->
            bellows_keeper:answer(Alias, running),
            await(Runner, Options)
    after bellows_guard:every() ->
        case bellows_guard:check(Guard, now_ms()) of
            {ok, Checked} -> await(Runner, Options#{guard := Checked});
            Tripped ->
                unlink(Runner),
                exit(Runner, kill),
                case bellows_guard:describe(Tripped) of
                    {tracer_memory, Observed, Limit} -> {heap, Observed, Limit};
                    {backlog, Observed, Limit} -> {mailbox, Observed, Limit};
                    Other -> Other
                end
        end
    end.

%% Garbage collections, and the functions that are called, where nobody else traces.
followed(Call, Entry, Owner, #{runner := Runner, limits := Limits, baseline := Baseline} = Options) ->
    case bellows_follow:open(Owner, [Entry], #{limit => 1000000, rate => 1000000, messages => maps:get(messages, Options)}) of
        {error, Reason} -> #{refused => Reason};
        {ok, #{tracer := Tracer} = Opened} ->
            Into = atomics:new(max(?LEARNED, maps:get(traced, Options)), []),
            Guard = bellows_guard:new(Limits, Baseline, Tracer),
            Watched = Options#{guard := Guard},
            Deadline = fun (Ms) -> erlang:monotonic_time() + native(Ms) end,
            Run = fun (How) -> fun () -> ran(How, Call, ?COLLECTED, Deadline(?LEARNING), Into, Watched) end end,
            Counted = bellows_follow:collections(Runner, Run(run), Opened),
            Allocated = bellows_follow:collections(Runner, Run(collect), Opened),
            Chosen = #{Runner => true},
            Plain = bellows_follow:plain({only, [Runner]}, Opened, Chosen),
            Learned = ran(run, Call, ?LEARNED, Deadline(?LEARNING), Into, Watched),
            #{plain := Durations} = bellows_follow:told(Runner, Plain),
            {Modules, Allowed} = case maps:get(patterns, Options) of
                                     [] -> {bellows_follow:modules(Plain), bellows_follow:allowed(Durations)};
                                     Given -> {Given, infinity}
                                 end,
            All = lists:usort([{element(1, Entry), '_', '_'} | Modules]),
            put(follow, bellows_follow:detailed(All, {only, [Runner]}, Plain, Chosen, Allowed)),
            put(left_out, []),
            Traced = traced(Call, Into, Learned, Deadline, ?THINNER, Watched),
            Path = bellows_follow:result(get(follow)),
            Names = fun (Functions) -> [name(Function) || Function <- lists:usort(Functions)] end,
            #{path => Path#{modules => Names(All), left_out => Names(get(left_out)), ended => element(2, Traced)},
              collected => collected(Counted, Allocated)}
    end.

%% Once more where functions were left out meanwhile.
traced(Call, Into, {_, time, _}, Deadline, Again, #{runner := Runner, traced := Times, until := Until} = Options) ->
    put(again, false),
    Ran = ran(run, Call, Times, Deadline(max(1000, Until - now_ms())), Into, Options),
    %% What the last call told may still be on its way, and is held then.
    _ = bellows_follow:told(Runner, get(follow)),
    timer:sleep(?SETTLE),
    receive {flood, _, Functions} -> thinner(Functions) after 0 -> ok end,
    case get(again) of
        true when Again > 0 -> traced(Call, Into, Ran, Deadline, Again - 1, Options);
        _ -> Ran
    end;
traced(_, _, {_, Ended, _}, _, _, _) -> {0, Ended, none}.

%% What is called too often is left out, and what was traced before dropped.
thinner(Functions) ->
    {LeftOut, Follow} = bellows_follow:thinner(Functions, get(follow)),
    put(follow, Follow),
    put(left_out, get(left_out) ++ LeftOut),
    put(again, true).

%% {Calls, minor, major, calls once more, words}.
collected({{Calls, time, _}, {Minor, Major, _, _, _}}, {{More, time, _}, {_, _, Words, First, Last}}) when is_integer(First) ->
    {Calls, Minor, Major, More, max(0, Words - First + Last)};
collected(_, _) -> none.

native(Ms) -> erlang:convert_time_unit(max(0, Ms), millisecond, native).

nanos(Native) -> erlang:convert_time_unit(Native, native, nanosecond).

now_ms() -> erlang:monotonic_time(millisecond).
