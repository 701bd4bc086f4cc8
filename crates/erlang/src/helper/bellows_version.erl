%% Whether the code that is traced is still the code that was: the emulator takes the patterns and counters of a module away,
%% without a word, when it is loaded anew.
-module(bellows_version).
-export([of_modules/1, changed/1, witnesses/3, fallen/3]).

%% What tells one loading of a module from another.
of_modules(Modules) -> maps:from_list([{Module, version(Module)} || Module <- lists:usort(Modules)]).

version(Module) ->
    Sum = try erlang:get_module_info(Module, md5) catch error:_ -> none end,
    {Sum, erlang:check_old_code(Module)}.

%% The modules that are no longer what they were. Old code that was purged meanwhile is no new one.
changed(Versions) ->
    [Module || {Module, {Sum, Old}} <- maps:to_list(Versions), {SumNow, OldNow} <- [version(Module)],
               SumNow =/= Sum orelse (OldNow andalso not Old)].

%% For each pattern a function that has it: a look at that one is cheap, and tells of all. Nothing for a pattern that stands nowhere.
witnesses(Session, Patterns, Key) ->
    [{Pattern, Found} || Pattern <- Patterns, {value, Found} <- [first(Session, bellows_session:matching(Pattern), Key)]].

first(_, [], _) -> none;
first(Session, [Function | Functions], Key) ->
    case stands(Session, Function, Key) of
        true -> {value, Function};
        false -> first(Session, Functions, Key)
    end.

%% The patterns that stand no longer.
fallen(Session, Witnesses, Key) -> [Pattern || {Pattern, Function} <- Witnesses, not stands(Session, Function, Key)].

stands(Session, Function, Key) ->
    case bellows_session:counters(Session, Function, Key) of
        Nothing when Nothing =:= false; Nothing =:= undefined -> false;
        _ -> true
    end.
