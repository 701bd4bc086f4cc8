%% One module of several: escript scripts/helper.escript NAME OUT.beam bellows_a.erl bellows_b.erl ...
%%
%% A node asks each of its processes whether it runs a module's code before it removes that module: one module is
%% removed in a fraction of the time that many take. Function f of bellows_a becomes a_f of NAME; every function that
%% its module exports is exported. A tuple of a module, a function and something else names the merged function, too; the
%% keeper's name, as of a process, is that of the merged module.
-mode(compile).

main([Name, Out | Sources]) ->
    Read = [read(Source) || Source <- Sources],
    Known = maps:from_list([{Module, {prefix(Module), local(Forms)}} || {Module, Forms} <- Read]),
    Into = list_to_atom(Name),
    Exported = [{attribute, 0, export, [{join(prefix(Module), F), A} || {F, A} <- exported(Forms)]}
                || {Module, Forms} <- Read],
    Records = [Form || {_, Forms} <- Read, {attribute, _, record, _} = Form <- Forms],
    Functions = [merged(Form, Module, Known, Into) || {Module, Forms} <- Read, {function, _, _, _, _} = Form <- Forms],
    Merged = [{attribute, 0, file, {Name ++ ".erl", 0}}, {attribute, 0, module, Into} | Exported] ++ Records ++ Functions,
    case compile:forms(Merged, [deterministic, return_errors, warnings_as_errors, report]) of
        {ok, Into, Beam} -> ok = file:write_file(Out, Beam);
        {ok, Into, Beam, []} -> ok = file:write_file(Out, Beam);
        Failed -> io:format(standard_error, "~p~n", [Failed]), halt(1)
    end.

read(Source) ->
    {ok, Forms} = epp:parse_file(Source, []),
    [] = [Error || {error, Error} <- Forms],
    [Module] = [Module || {attribute, _, module, Module} <- Forms],
    {Module, Forms}.

prefix(Module) -> lists:nthtail(length("bellows_"), atom_to_list(Module)).

join(Prefix, Function) -> list_to_atom(Prefix ++ "_" ++ atom_to_list(Function)).

local(Forms) -> maps:from_list([{{F, A}, local} || {function, _, F, A, _} <- Forms]).

exported(Forms) -> lists:append([Names || {attribute, _, export, Names} <- Forms]).

merged({function, Line, Function, Arity, Clauses}, Module, Known, Into) ->
    {Prefix, Local} = maps:get(Module, Known),
    Walk = fun Walk({call, L, {atom, L2, F}, Arguments}) ->
                   Called = case is_map_key({F, length(Arguments)}, Local) of
                                true -> join(Prefix, F);
                                false -> F
                            end,
                   {call, L, {atom, L2, Called}, Walk(Arguments)};
               Walk({'fun', L, {function, F, A}}) when is_map_key({F, A}, Local) ->
                   {'fun', L, {function, join(Prefix, F), A}};
               Walk({'fun', L, {function, {atom, L2, M}, {atom, L3, F}, A}}) when is_map_key(M, Known) ->
                   {'fun', L, {function, {atom, L2, Into}, {atom, L3, there(M, F, Known)}, A}};
               Walk({remote, L, {atom, L2, M}, {atom, L3, F}}) when is_map_key(M, Known) ->
                   {remote, L, {atom, L2, Into}, {atom, L3, there(M, F, Known)}};
               Walk({tuple, L, [{atom, L2, M}, {atom, L3, F}, Third]}) when is_map_key(M, Known) ->
                   {tuple, L, [{atom, L2, Into}, {atom, L3, there(M, F, Known)}, Walk(Third)]};
               Walk({atom, L, bellows_keeper}) -> {atom, L, Into};
               Walk(Parts) when is_list(Parts) -> [Walk(Part) || Part <- Parts];
               Walk(Parts) when is_tuple(Parts) -> list_to_tuple([Walk(Part) || Part <- tuple_to_list(Parts)]);
               Walk(Other) -> Other
           end,
    {function, Line, join(Prefix, Function), Arity, Walk(Clauses)}.

there(Module, Function, Known) -> join(element(1, maps:get(Module, Known)), Function).
