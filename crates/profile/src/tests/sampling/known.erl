%% Burns its time in native code, below functions whose shares are 3 to 1.
-module(known).
-export([start/0, turns/0, pages/0, rounds/0, matches/2]).

start() ->
    {Table, Binary, Term} = given(),
    ready(),
    loop(Table, Binary, Term).

%% Two processes of the same code that take turns: one does three units of work, then the other does one.
turns() ->
    Given = given(),
    Three = spawn(fun() -> work(3, Given) end),
    One = spawn(fun() -> work(1, Given) end),
    io:format("~p~n~p~n", [Three, One]),
    Three ! {your_turn, One},
    ready(),
    %% The table goes with the process that made it.
    receive never -> ok end.

%% Asks for memory again and again: with the flags +MMmcs 0 the emulator keeps none in store. Beside it, a thread for
%% files works and waits by turns, however many other threads of the node have something to do.
pages() ->
    spawn(fun files/0),
    ready(),
    large().

files() ->
    {ok, _} = file:read_file_info("/", [raw]),
    receive after 10 -> files() end.

large() ->
    [_] = two_binaries(),
    large().

two_binaries() -> [copies(1) + copies(1)].

copies(N) -> N + byte_size(binary:copy(<<"0123456789abcdef">>, 4 bsl 20)).

%% Works in a module that is loaded anew for each round, in a function that is called after it. Their names are of the
%% same length, so that all that the emulator notes of one may stand where it had noted the one before.
rounds() ->
    {_, Binary, _} = given(),
    %% Has the compiler loaded, and its modules.
    late = load(round_99),
    ready(),
    round(100, Binary).

round(N, Binary) ->
    Function = list_to_atom("round_" ++ integer_to_list(N)),
    late = load(Function),
    [late:Function(Binary) || _ <- lists:seq(1, 3000)],
    round(N + 1, Binary).

%% round_100(B) -> round_100(B, 10).
%% round_100(_, 0) -> 0;
%% round_100(B, N) -> known:matches(B, 9) + round_100(B, N - 1).
load(Function) ->
    B = {var, 1, 'B'},
    N = {var, 1, 'N'},
    Work = fun(Left) -> {call, 1, {atom, 1, Function}, [B, Left]} end,
    Matches = {call, 1, {remote, 1, {atom, 1, known}, {atom, 1, matches}}, [B, {integer, 1, 9}]},
    Less = {op, 1, '-', N, {integer, 1, 1}},
    Forms = [{attribute, 1, module, late},
             {attribute, 1, export, [{Function, 1}]},
             {function, 1, Function, 1, [{clause, 1, [B], [], [Work({integer, 1, 10})]}]},
             {function, 1, Function, 2,
              [{clause, 1, [{var, 1, '_'}, {integer, 1, 0}], [], [{integer, 1, 0}]},
               {clause, 1, [B, N], [], [{op, 1, '+', Matches, Work(Less)}]}]}],
    {ok, late, Code} = compile:forms(Forms),
    code:purge(late), code:delete(late), code:purge(late),
    {module, late} = code:load_binary(late, [], Code),
    late.

work(Units, {Table, Binary, Term} = Given) ->
    receive
        {your_turn, Other} ->
            [unit(Table, Binary, Term) || _ <- lists:seq(1, Units)],
            Other ! {your_turn, self()},
            work(Units, Given)
    end.

unit(Table, Binary, Term) ->
    [_] = one_select(Table),
    [_] = one_match(Binary),
    [_] = one_pack(Term).

given() ->
    Table = ets:new(known, [set]),
    [ets:insert(Table, {N, N rem 7, "value"}) || N <- lists:seq(1, 300)],
    Binary = binary:copy(<<"a message that holds no needle; ">>, 1000),
    Term = [{N, <<"payload">>, #{key => N}} || N <- lists:seq(1, 300)],
    {Table, Binary, Term}.

ready() ->
    io:format("@ready~n"),
    %% The node ends with the test.
    spawn(fun() -> io:get_line(""), halt() end).

loop(Table, Binary, Term) ->
    [_] = three_selects(Table),
    [_] = one_select(Table),
    [_] = three_matches(Binary),
    [_] = one_match(Binary),
    [_] = three_packs(Term),
    [_] = one_pack(Term),
    loop(Table, Binary, Term).

%% The list is made after the call, so that the caller stays on the stack.
three_selects(Table) -> [selects(Table, 9)].
one_select(Table) -> [selects(Table, 3)].
three_matches(Binary) -> [matches(Binary, 9)].
one_match(Binary) -> [matches(Binary, 3)].
three_packs(Term) -> [packs(Term, 9)].
one_pack(Term) -> [packs(Term, 3)].

selects(_, 0) -> 0;
selects(Table, N) ->
    [Key | _] = ets:select(Table, [{{'$1', 3, '_'}, [{'>', '$1', 10}], ['$1']}]),
    Key + selects(Table, N - 1).

matches(_, 0) -> 0;
matches(Binary, N) ->
    nomatch = binary:match(Binary, <<"needle!">>),
    N + matches(Binary, N - 1).

packs(_, 0) -> 0;
packs(Term, N) ->
    Binary = term_to_binary(Term),
    byte_size(Binary) + packs(Term, N - 1).
