%% What the node's allocators took from the machine and gave out, what its threads do, and what the machine says of the
%% node's process.
-module(bellows_alloc).
-export([read/0, account/2, stop_accounting/2]).

%% Bytes of a file of /proc at most.
-define(MOST, 16384).
%% The name of the process that has the accounting: one on a node, whatever versions of bellows are there.
-define(ACCOUNTANT, bellows_accountant).
%% How often a process that is just ending is followed by another, and the longest that one answers, in milliseconds.
-define(ATTEMPTS, 20).
-define(ANSWER, 5000).

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

%% What threads do in Ms, for whoever asks this worker: {ok, WasOn, States}, or {busy, SinceMs} where another version of
%% bellows accounts on this node.
%%
%% The accounting is one flag of the whole node. A process of its own turns it on for its first user and off behind its
%% last; all workers of this version share it, those of others find its name taken. Somebody else's accounting is left
%% alone: it is read at both ends.
account(Owner, Ms) ->
    Answer = account(Owner, Ms, ?ATTEMPTS),
    receive {ask, Alias, _} -> bellows_keeper:answer(Alias, Answer) end.

account(_, _, 0) -> error(accounting_did_not_begin);
account(Owner, Ms, Left) ->
    Accountant = accountant(),
    ok = bellows_keeper:undo_with(Owner, {?MODULE, stop_accounting, [Accountant, self()]}),
    Monitor = monitor(process, Accountant),
    Accountant ! {use, ?MODULE, self()},
    receive
        {Accountant, on, WasOn} -> {ok, WasOn, window(Ms, Accountant, Monitor, WasOn)};
        {Accountant, busy, SinceMs} -> {busy, SinceMs};
        %% It was just ending.
        {'DOWN', Monitor, process, Accountant, _} -> account(Owner, Ms, Left - 1)
    after ?ANSWER -> error(accounting_did_not_begin)
    end.

window(Ms, Accountant, Monitor, WasOn) ->
    Before = states(),
    receive
        {'DOWN', Monitor, process, Accountant, _} ->
            WasOn orelse erlang:system_flag(microstate_accounting, false),
            error(accounting_was_ended);
        {ask, _, stop} -> ok
    after Ms -> ok
    end,
    After = states(),
    stop_accounting(Accountant, self()),
    [{Type, State, max(0, Time - maps:get({Type, State}, Before, 0))}
     || {{Type, State}, Time} <- lists:sort(maps:to_list(After))].

%% The process that has the flag, which this starts where there is none.
accountant() ->
    case whereis(?ACCOUNTANT) of
        undefined ->
            Self = self(),
            {Pid, Monitor} = spawn_opt(fun () -> begin_accounting(Self) end, [monitor, {priority, high}]),
            receive
                {Pid, registered} -> demonitor(Monitor, [flush]), Pid;
                %% Somebody else was faster.
                {'DOWN', Monitor, process, Pid, _} -> accountant()
            end;
        Pid -> Pid
    end.

begin_accounting(Starter) ->
    put('$initial_call', {bellows_keeper, accountant, 0}),
    try register(?ACCOUNTANT, self()) of
        true ->
            Users = #{Starter => monitor(process, Starter)},
            Starter ! {self(), registered},
            account_for(#{users => Users, was_on => unknown, since => now_ms()})
    catch error:badarg -> ok
    end.

%% Users: those for whom the accounting is on, watched; the starter from the beginning.
account_for(#{users := Users, since := Since} = State) ->
    receive
        {use, ?MODULE, User} ->
            #{was_on := WasOn} = Next = used(User, State),
            User ! {self(), on, WasOn},
            account_for(Next);
        {use, _, User} ->
            User ! {self(), busy, now_ms() - Since},
            account_for(State);
        {done, User, Alias} ->
            is_map_key(User, Users) andalso demonitor(maps:get(User, Users), [flush]),
            account_without(User, State, fun () -> Alias ! {Alias, done} end);
        {'DOWN', _, process, User, _} -> account_without(User, State, fun () -> ok end);
        _ -> account_for(State)
    end.

used(User, #{users := Users, was_on := WasOn} = State) ->
    On = case WasOn of
             unknown -> erlang:system_flag(microstate_accounting, true);
             _ -> WasOn
         end,
    Watched = case Users of
                  #{User := Monitor} -> Monitor;
                  _ -> monitor(process, User)
              end,
    State#{users := Users#{User => Watched}, was_on := On}.

%% Behind the last user the flag is off and the name is free before anybody hears of it.
account_without(User, #{users := Users, was_on := WasOn} = State, Tell) ->
    case maps:remove(User, Users) of
        Left when map_size(Left) =:= 0 ->
            WasOn =:= false andalso erlang:system_flag(microstate_accounting, false),
            unregister(?ACCOUNTANT),
            Tell();
        Left ->
            Tell(),
            account_for(State#{users := Left})
    end.

%% Afterwards User has no part in the accounting, and it is off where nobody has.
stop_accounting(Accountant, User) ->
    Monitor = monitor(process, Accountant, [{alias, reply_demonitor}]),
    Accountant ! {done, User, Monitor},
    receive
        {Monitor, done} -> ok;
        {'DOWN', Monitor, process, Accountant, _} -> ok
    end.

%% #{{Type, State} => microseconds of all threads of the type}.
states() ->
    lists:foldl(fun add/2, #{}, erlang:statistics(microstate_accounting)).

add(#{type := Type, counters := Counters}, Sums) ->
    maps:fold(fun (State, Count, All) ->
                  Time = erlang:convert_time_unit(Count, perf_counter, microsecond),
                  maps:update_with({Type, State}, fun (Sum) -> Sum + Time end, Time, All)
              end, Sums, Counters).

now_ms() -> erlang:monotonic_time(millisecond).
