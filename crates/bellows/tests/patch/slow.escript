#!/usr/bin/env escript
%% slow.escript BEAM FUNCTION ARITY TURNS DIR
%% Takes a module's abstract code out of its .beam file, adds a loop of so many turns to each clause of a function, and compiles it again
%% into a folder.
main([Beam, Function, Arity, Turns, Folder]) ->
    {ok, {Module, [{abstract_code, {_, Forms}}]}} = beam_lib:chunks(Beam, [abstract_code]),
    {ok, {_, [{compile_info, Info}]}} = beam_lib:chunks(Beam, [compile_info]),
    Of = {list_to_atom(Function), list_to_integer(Arity)},
    Loop = loop(Turns),
    Slow = [slow(Form, Of, Loop) || Form <- Forms],
    Options = proplists:get_value(options, Info, []) -- [warnings_as_errors],
    {ok, Module, Code} = compile:forms(Slow, [debug_info | Options]),
    ok = file:write_file(filename:join(Folder, atom_to_list(Module) ++ ".beam"), Code).

slow({function, Line, Name, Arity, Clauses}, {Name, Arity}, Loop) ->
    {function, Line, Name, Arity, [{clause, L, Head, Guards, [Loop | Body]} || {clause, L, Head, Guards, Body} <- Clauses]};
slow(Form, _, _) ->
    Form.

loop(Turns) ->
    {ok, Tokens, _} = erl_scan:string("lists:foldl(fun (Turn, Sum) -> Turn + Sum end, 0, lists:seq(1, " ++ Turns ++ "))."),
    {ok, [Loop]} = erl_parse:parse_exprs(Tokens),
    Loop.
