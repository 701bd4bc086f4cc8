%% What the node's allocators took from the machine and gave out, what its threads do, and what the machine says of the
%% node's process.
-module(bellows_alloc).
-export([read/0, account/2, stop_accounting/1]).

%% Bytes of a file of /proc at most.
-define(MOST, 16384).

%% Allocators, and memory from both sides.
read() ->
    Began = erlang:monotonic_time(microsecond),
    Machine = [{Name, text(File)} || {Name, File} <- [{status, "/proc/self/status"},
                                                      {rollup, "/proc/self/smaps_rollup"},
                                                      {machine, "/proc/meminfo"}]],
    Allocators = [allocator(Name) || Name <- lists:sort(erlang:system_info(alloc_util_allocators))],
    #{allocators => [Sums || Sums <- Allocators, Sums =/= disabled],
      memory => maps:from_list(erlang:memory()),
      cached_segments => cached_segments(),
      machine => maps:from_list(Machine),
      os_pid => list_to_binary(os:getpid()),
      took_us => erlang:monotonic_time(microsecond) - Began}.

text(File) ->
    case prim_file:read_file(File) of
        {ok, Text} -> binary:copy(binary:part(Text, 0, min(?MOST, byte_size(Text))));
        _ -> <<>>
    end.

%% Sums over the instances of an allocator.
allocator(Name) ->
    try erlang:system_info({allocator, Name}) of
        Instances when is_list(Instances) ->
            Infos = [Info || {instance, _, Info} <- Instances],
            #{name => atom_to_binary(Name, utf8), instances => length(Infos),
              multi => sums(mbcs, Infos), single => sums(sbcs, Infos), pool => sums(mbcs_pool, Infos)};
        _ -> disabled
    catch error:_ -> disabled end.

%% {carriers, their bytes, blocks, their bytes}.
sums(Kind, Infos) ->
    Of = [Sizes || Info <- Infos, {Key, Sizes} <- Info, Key =:= Kind],
    Sum = fun (Key) -> lists:sum([current(lists:keyfind(Key, 1, Sizes)) || Sizes <- Of]) end,
    Blocks = [Block || Sizes <- Of, {blocks, All} <- Sizes, {_, Block} <- All],
    OfBlocks = fun (Key) -> lists:sum([current(lists:keyfind(Key, 1, Block)) || Block <- Blocks]) end,
    {Sum(carriers), Sum(carriers_size), OfBlocks(count), OfBlocks(size)}.

current(Found) when is_tuple(Found), is_integer(element(2, Found)) -> element(2, Found);
current(_) -> 0.

%% Segments that the VM keeps for the next carrier.
cached_segments() ->
    try
        lists:sum([Cached || {instance, _, Info} <- erlang:system_info({allocator, mseg_alloc}),
                             {memkind, Kind} <- Info, {status, Status} <- Kind,
                             {cached_segments, Cached} <- Status])
    catch _:_ -> 0 end.

%% What threads do in Ms, for whoever asks this worker. Somebody else's accounting is left alone: it is read at both
%% ends. Ours is turned off whatever happens to us.
account(Owner, Ms) ->
    Ours = atomics:new(1, []),
    ok = bellows_keeper:undo_with(Owner, {?MODULE, stop_accounting, [Ours]}),
    WasOn = erlang:system_flag(microstate_accounting, true),
    case WasOn of
        true -> ok;
        false -> atomics:put(Ours, 1, 1)
    end,
    Before = states(),
    receive {ask, _, stop} -> ok after Ms -> ok end,
    After = states(),
    stop_accounting(Ours),
    States = [{Type, State, max(0, Time - maps:get({Type, State}, Before, 0))}
              || {{Type, State}, Time} <- lists:sort(maps:to_list(After))],
    receive {ask, Alias, _} -> bellows_keeper:answer(Alias, {WasOn, States}) end.

stop_accounting(Ours) ->
    case atomics:exchange(Ours, 1, 0) of
        1 -> erlang:system_flag(microstate_accounting, false), ok;
        0 -> ok
    end.

%% #{{Type, State} => microseconds of all threads of the type}.
states() ->
    lists:foldl(fun add/2, #{}, erlang:statistics(microstate_accounting)).

add(#{type := Type, counters := Counters}, Sums) ->
    maps:fold(fun (State, Count, All) ->
                  Time = erlang:convert_time_unit(Count, perf_counter, microsecond),
                  maps:update_with({Type, State}, fun (Sum) -> Sum + Time end, Time, All)
              end, Sums, Counters).
