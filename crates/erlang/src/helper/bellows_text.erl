%% Terms as text: cut to a number of parts and bytes, without walking the rest, and with secrets masked.
-module(bellows_text).
-export([term/2, arguments/4, result/4]).

-define(MASK, "***").
-define(DEPTH, 8).
-define(PARTS, 200).
-define(ELEMENTS, 24).
-define(BYTES, 96).
%% Bytes of each end of a key that are searched for the name of a secret.
-define(NAME, 256).
%% Elements between a name and its secret at most.
-define(BETWEEN, 4).
%% Elements of a key that is a path: ["management", "ssl", "password"].
-define(PATH, 8).
%% Names of secrets, or parts of them.
-define(SECRETS, "passw|passphrase|passcode|secret|token|cookie|credential|authorization|private[-_ ]?key"
                 "|api[-_ ]?key|sasl|jwt").

%% A term in at most about Limit bytes.
term(Term, Limit) ->
    {Text, _} = write(Term, ?DEPTH, ?PARTS),
    cut(unicode:characters_to_binary(Text), Limit).

%% The arguments of a call, as texts. One that follows the name of a secret is one.
arguments(Module, Function, Arguments, Limit) ->
    Secret = secret_arguments(Module, Function),
    Texts = fun Texts(_, _, []) -> [];
                Texts(Index, Hidden, [Argument | Rest]) ->
                    Text = case Hidden > 0 orelse is_among(Index, Secret) of
                               true -> <<?MASK>>;
                               false -> term(Argument, Limit)
                           end,
                    After = behind(Argument, Rest),
                    [Text | Texts(Index + 1, max(Hidden - 1, After), Rest)]
            end,
    Texts(1, 0, Arguments).

%% What a function returned.
result(Module, Function, Value, Limit) ->
    case secret_arguments(Module, Function) of
        all -> <<?MASK>>;
        _ -> term(Value, Limit)
    end.

is_among(_, all) -> true;
is_among(Index, {from, First}) -> Index >= First;
is_among(Index, Indexes) -> lists:member(Index, Indexes).

%% Arguments that are secrets by their place: `all` of them and the result, those {from, First} on, or a list.
secret_arguments(rabbit_password, _) -> all;
secret_arguments(credentials_obfuscation, _) -> all;
secret_arguments(crypto, _) -> all;
secret_arguments(pubkey_pbe, _) -> all;
secret_arguments(rabbit_pbe, _) -> all;
secret_arguments(base64, _) -> all;
secret_arguments(auth, _) -> all;
secret_arguments(erlang, Function) when Function =:= set_cookie; Function =:= get_cookie -> all;
secret_arguments(rabbit_access_control, check_user_pass_login) -> [2];
secret_arguments(rabbit_reader, auth_phase) -> [1];
secret_arguments(rabbit_framing_amqp_0_9_1, decode_method_fields) -> [2];
%% Heads of requests as they come, byte by byte.
secret_arguments(cowboy_http, _) -> all;
secret_arguments(cow_http, _) -> all;
secret_arguments(cow_http_hd, Function) -> holds(Function, ["auth", "cookie"], all);
%% Names of users stand before their passwords.
secret_arguments(rabbit_mgmt_util, Function) -> holds(Function, ["is_authorized"], {from, 3});
secret_arguments(Module, Function) ->
    Name = atom_to_list(Module),
    case [Prefix || Prefix <- ["rabbit_auth_mechanism", "rabbit_credential_valid", "rabbit_auth_backend"],
                    lists:prefix(Prefix, Name)] of
        [] -> [];
        ["rabbit_auth_backend"] ->
            case holds(Function, ["passw", "hash", "salt", "credential"], all) of
                all -> all;
                [] -> holds(Function, ["authenticat", "login", "add_user", "update_user", "put_user"], {from, 2})
            end;
        _ -> all
    end.

%% Secret where the function's name has one of these parts.
holds(Function, Parts, Secret) ->
    Name = atom_to_list(Function),
    case lists:any(fun (Part) -> string:find(Name, Part) =/= nomatch end, Parts) of
        true -> Secret;
        false -> []
    end.

%% Fields of records that are secrets by their place.
secret_fields({internal_user, _, _, _, _, _}) -> [3, 5];
secret_fields({internal_user, _, _, _}) -> [3];
secret_fields({'connection.start_ok', _, _, _, _}) -> [4];
secret_fields({'connection.secure', _}) -> [2];
secret_fields({'connection.secure_ok', _}) -> [2];
secret_fields({'connection.update_secret', _, _}) -> [2];
secret_fields({'v1_0.sasl_init', _, _, _}) -> [3];
secret_fields({'v1_0.sasl_response', _}) -> [2];
secret_fields({'v1_0.sasl_challenge', _}) -> [2];
secret_fields({context, _, _, _}) -> [3];
secret_fields({basic, _, _}) -> [3];
secret_fields({bearer, _}) -> [2];
secret_fields(Record) when element(1, Record) =:= amqp_params_network, tuple_size(Record) > 3 -> [3];
secret_fields(Record) when element(1, Record) =:= amqp_params_direct, tuple_size(Record) > 3 -> [3];
%% What a process shall call, or was called with when it ended.
secret_fields({Module, Function, Arguments}) when is_atom(Module), is_atom(Function), is_list(Arguments) ->
    case is_secret(Module) orelse is_secret(Function) orelse secret_arguments(Module, Function) =/= [] of
        true -> [3];
        false -> []
    end;
secret_fields(Tuple) when tuple_size(Tuple) > 1 ->
    case is_secret(element(1, Tuple)) of
        true -> lists:seq(2, min(?ELEMENTS, tuple_size(Tuple)));
        false ->
            Names = [Index || Index <- lists:seq(2, min(?ELEMENTS, tuple_size(Tuple)) - 1), is_secret(element(Index, Tuple))],
            lists:append([[Name + 1 | [Name + 2 || is_atom(element(Name + 1, Tuple))]] || Name <- Names])
    end;
secret_fields(_) -> [].

%% Whether what belongs to this key is a secret.
is_secret(Key) when is_atom(Key) -> is_secret_name(atom_to_binary(Key, utf8));
is_secret(Key) when is_binary(Key), byte_size(Key) =< ?NAME -> is_secret_name(Key);
is_secret(Key) when is_binary(Key) ->
    is_secret_name(binary:part(Key, 0, ?NAME)) orelse is_secret_name(binary:part(Key, byte_size(Key), -?NAME));
is_secret([Character | _] = Key) when is_integer(Character) ->
    is_secret_name(unicode:characters_to_binary(leading(Key, ?NAME)));
is_secret([Part | _] = Path) when is_atom(Part); is_binary(Part); is_list(Part) -> is_secret_path(Path, ?PATH);
is_secret(_) -> false.

%% Whether a part of a key is the name of a secret.
is_secret_path([Part | Path], Left) when Left > 0 ->
    IsName = is_atom(Part) orelse is_binary(Part) orelse is_list(Part) andalso Part =/= [] andalso is_integer(hd(Part)),
    IsName andalso is_secret(Part) orelse is_secret_path(Path, Left - 1);
is_secret_path(Last, Left) -> Left > 0 andalso is_binary(Last) andalso is_secret(Last).

%% How many elements behind the name of a secret belong to it: also what says of which kind it is, as in AMQP's tables, and
%% what stands between them in a text that is written in parts.
belonging(List) -> belonging(List, ?BETWEEN).

belonging([Next | Rest], Left) when Left > 0 ->
    case is_between(Next) of
        true -> 1 + belonging(Rest, Left - 1);
        false when is_atom(Next) -> 2;
        false -> 1
    end;
belonging(_, _) -> 1.

%% How many elements behind this one are secrets: those of a name, or the lines of a key in PEM.
behind(Head, Rest) ->
    case is_key_head(Head) of
        true -> ?ELEMENTS;
        false ->
            case is_secret(Head) of
                true -> belonging(Rest);
                false -> 0
            end
    end.

is_key_head(Line) when is_binary(Line) ->
    re:run(binary:part(Line, 0, min(byte_size(Line), ?NAME)), pattern(key_head), [{capture, none}]) =:= match;
is_key_head([Character | _] = Line) when is_integer(Character) -> is_key_head(unicode:characters_to_binary(leading(Line, ?NAME)));
is_key_head(_) -> false.

is_between(Text) when is_binary(Text), byte_size(Text) < 8 -> re:run(Text, pattern(between), [{capture, none}]) =:= match;
is_between([Character | _] = Text) when is_integer(Character) -> is_between(unicode:characters_to_binary(leading(Text, 8)));
is_between(_) -> false.

is_secret_name(Name) -> re:run(Name, pattern(name), [{capture, none}]) =:= match.

%% {Text, parts left}. Depth and parts bound the work.
write(_, _, Parts) when Parts =< 0 -> {"...", 0};
write(_, Depth, Parts) when Depth =< 0 -> {"...", Parts - 1};
write(Atom, _, Parts) when is_atom(Atom) -> {io_lib:write_atom(Atom), Parts - 1};
write(Integer, _, Parts) when is_integer(Integer) ->
    case erts_debug:flat_size(Integer) of
        Words when Words > 16 -> {["<integer of ", integer_to_list(Words * 8), " bytes>"], Parts - 1};
        _ -> {integer_to_list(Integer), Parts - 1}
    end;
write(Float, _, Parts) when is_float(Float) -> {io_lib:format("~p", [Float]), Parts - 1};
write(Binary, _, Parts) when is_binary(Binary) -> {binary(Binary), Parts - 1};
write(Bits, _, Parts) when is_bitstring(Bits) ->
    {["<", integer_to_list(bit_size(Bits)), " bits>"], Parts - 1};
%% A frame of a stack: arguments of functions that handle secrets are there, too.
write({Module, Function, [_ | _] = Arguments, []}, Depth, Parts) when is_atom(Module), is_atom(Function) ->
    write({Module, Function, arity(Arguments, 0), []}, Depth, Parts);
write({Module, Function, [_ | _] = Arguments, [{Key, _} | _] = Location}, Depth, Parts)
  when is_atom(Module), is_atom(Function), Key =:= file orelse Key =:= line orelse Key =:= error_info ->
    write({Module, Function, arity(Arguments, 0), Location}, Depth, Parts);
write(Tuple, Depth, Parts) when is_tuple(Tuple) ->
    Shown = min(tuple_size(Tuple), ?ELEMENTS),
    Secret = secret_fields(Tuple),
    {Texts, Left} = lists:mapfoldl(fun (Index, Rest) ->
        case lists:member(Index, Secret) of
            true -> {?MASK, Rest};
            false -> write(element(Index, Tuple), Depth - 1, Rest)
        end
    end, Parts - 1, lists:seq(1, Shown)),
    More = [",..." || tuple_size(Tuple) > Shown],
    {[${, lists:join($,, Texts), More, $}], Left};
write([], _, Parts) -> {"[]", Parts - 1};
write(List, Depth, Parts) when is_list(List) ->
    case printable(List, ?BYTES, []) of
        {Text, More} -> {[$", quoted(masked(Text, More)), $", ["..." || More]], Parts - 1};
        no ->
            case is_secret_list(List) of
                true -> {"[***]", Parts - 1};
                false -> list(List, Depth - 1, Parts - 1, ?ELEMENTS, [])
            end
    end;
write(Map, Depth, Parts) when is_map(Map) -> map(maps:next(maps:iterator(Map)), Depth - 1, Parts - 1, ?ELEMENTS, []);
write(Fun, _, Parts) when is_function(Fun) ->
    {module, Module} = erlang:fun_info(Fun, module),
    {arity, Arity} = erlang:fun_info(Fun, arity),
    {["#Fun<", atom_to_list(Module), "/", integer_to_list(Arity), ">"], Parts - 1};
write(Other, _, Parts) -> {io_lib:format("~0p", [Other]), Parts - 1}.

list(_, _, Parts, Elements, Texts) when Parts =< 0; Elements =:= 0 -> {[$[, joined(Texts), ",...]"], Parts};
list([Head | Tail], Depth, Parts, Elements, Texts) ->
    {Text, Left} = write(Head, Depth, Parts),
    case Tail of
        [] -> {[$[, joined([Text | Texts]), $]], Left};
        [_ | _] ->
            case behind(Head, Tail) of
                0 -> list(Tail, Depth, Left, Elements - 1, [Text | Texts]);
                Hidden -> list_after(Tail, Hidden, Depth, Left, Elements - 1, [Text | Texts])
            end;
        _ ->
            {Last, Rest} = case is_secret(Head) of
                               true -> {?MASK, Left};
                               false -> write(Tail, Depth, Left)
                           end,
            {[$[, joined([Text | Texts]), $|, Last, $]], Rest}
    end.

%% The rest of a list behind the name of a secret, whose first elements, so many, are the secret; all, where they are characters.
list_after([Character | _], _, _, Parts, _, Texts) when is_integer(Character) -> {[$[, joined([?MASK | Texts]), ",...]"], Parts};
list_after([_ | Rest], Hidden, Depth, Parts, Elements, Texts) when Hidden > 0, Elements > 0 ->
    list_after(Rest, Hidden - 1, Depth, Parts, Elements - 1, [?MASK | Texts]);
list_after([_ | _] = List, _, Depth, Parts, Elements, Texts) -> list(List, Depth, Parts, Elements, Texts);
list_after([], _, _, Parts, _, Texts) -> {[$[, joined(Texts), $]], Parts};
list_after(_, _, _, Parts, _, Texts) -> {[$[, joined(Texts), "|...]"], Parts}.

%% How many arguments a function has, of a list that may be of anything.
arity([_ | Arguments], Arity) when Arity < 255 -> arity(Arguments, Arity + 1);
arity(_, Arity) -> Arity.

map(none, _, Parts, _, Texts) -> {["#{", joined(Texts), $}], Parts};
map(_, _, Parts, Elements, Texts) when Parts =< 0; Elements =:= 0 -> {["#{", joined(Texts), ",...}"], Parts};
map({Key, Value, Iterator}, Depth, Parts, Elements, Texts) ->
    {KeyText, Left} = write(Key, Depth, Parts),
    {ValueText, Rest} = case is_secret(Key) of
                            true -> {?MASK, Left};
                            false -> write(Value, Depth, Left)
                        end,
    map(maps:next(Iterator), Depth, Rest, Elements - 1, [[KeyText, " => ", ValueText] | Texts]).

joined(Texts) -> lists:join($,, lists:reverse(Texts)).

%% {Characters, whether there are more} of a list of printable characters.
printable([], _, Taken) -> {lists:reverse(Taken), false};
printable(_, 0, Taken) -> {lists:reverse(Taken), true};
printable([C | Rest], Left, Taken) when is_integer(C), C >= 32, C < 127; C =:= $\n; C =:= $\r; C =:= $\t ->
    printable(Rest, Left - 1, [C | Taken]);
printable(_, _, _) -> no.

binary(Binary) ->
    Shown = binary:part(Binary, 0, min(byte_size(Binary), ?BYTES)),
    IsCut = byte_size(Binary) > ?BYTES,
    More = ["..." || IsCut],
    Size = [[" (", integer_to_list(byte_size(Binary)), " bytes)"] || IsCut],
    case characters(Shown) of
        no ->
            case is_secret_bytes(Shown) of
                true -> ["<<" ?MASK ">> (", integer_to_list(byte_size(Binary)), " bytes)"];
                false ->
                    Bytes = [integer_to_list(Byte)
                             || <<Byte>> <= binary:part(Shown, 0, min(byte_size(Shown), ?ELEMENTS))],
                    Rest = [",..." || byte_size(Binary) > ?ELEMENTS],
                    ["<<", lists:join($,, Bytes), Rest, ">>" | Size]
            end;
        Text -> ["<<\"", quoted(masked(Text, IsCut)), "\"", More, ">>" | Size]
    end.

%% Bytes that are no text and hold a name of a secret, or the user and password of SASL's mechanism PLAIN.
is_secret_bytes(Bytes) ->
    re:run(Bytes, pattern(bytes), [{capture, none}]) =:= match.

%% A list of bytes or characters that is no text of its own, and holds a secret as such.
is_secret_list(List) ->
    case leading(List, ?BYTES) of
        [] -> false;
        Text -> is_secret_bytes(unicode:characters_to_binary(Text)) orelse masked(Text, true) =/= Text
    end.

%% The characters at the beginning of a list.
leading(List, Most) -> leading(List, Most, []).

leading([C | Rest], Left, Taken)
  when Left > 0, is_integer(C), C >= 0, C < 16#D800; Left > 0, is_integer(C), C > 16#DFFF, C =< 16#10FFFF ->
    leading(Rest, Left - 1, [C | Taken]);
leading(_, _, Taken) -> lists:reverse(Taken).

%% The characters of a text whose end may be cut off; `no` where it is none.
characters(Binary) ->
    Text = case unicode:characters_to_list(Binary) of
               List when is_list(List) -> List;
               {incomplete, List, Rest} when byte_size(Rest) < 4 -> List;
               _ -> [0]
           end,
    case lists:all(fun (C) -> C >= 32 andalso C =/= 127 andalso not (C > 127 andalso C < 160)
                              orelse C =:= $\n orelse C =:= $\r orelse C =:= $\t end, Text) of
        true -> Text;
        false -> no
    end.

%% A text without the secrets that show in it: keys in PEM, passwords of addresses such as amqp://user:password@host, what follows
%% HTTP's schemes of authorization, the name of a secret, or an option of that name. The end of one that is cut may be one's beginning.
masked(Text, IsCut) ->
    Whole = lists:foldl(fun ({Pattern, With}, Masked) ->
                            re:replace(Masked, pattern(Pattern), With, [global, {return, list}])
                        end, Text, [{key, "\\1***"}, {address, "\\1***@"}, {scheme, "\\1 ***"}, {named, "\\1***"}, {option, "\\1***"}]),
    case IsCut of
        true -> re:replace(Whole, pattern(cut_address), "\\1***", [{return, list}]);
        false -> Whole
    end.

%% Patterns are compiled once for each process.
pattern(Name) ->
    case get({?MODULE, Name}) of
        undefined ->
            {ok, Pattern} = re:compile(source(Name), [caseless, dotall | [unicode || not lists:member(Name, [bytes, name, between])]]),
            put({?MODULE, Name}, Pattern),
            Pattern;
        Pattern -> Pattern
    end.

source(name) -> ?SECRETS "|(?<![a-z])(?:pwd|pass)(?:$|[^a-z])";
source(between) -> "^[\\s:=>\"'<{\\[(]+$";
source(address) -> "(://[^/\\s:@]*:)[^/\\s]*@";
source(cut_address) -> "(://[^/\\s:@]*:)[^/\\s@]*$";
source(key_head) -> "-----BEGIN [A-Z0-9 ]*PRIVATE KEY";
source(key) -> "(-----BEGIN [A-Z0-9 ]*PRIVATE KEY).*?(?:-----END[^-]*-----|$)";
%% Its value is the next word, or what is quoted.
source(option) ->
    "((?<![^\\s\"'=])-{1,2}[\\w.-]*(?:" ?SECRETS "|(?<![a-z])pwd|(?<![a-z])pass(?![a-z]))[\\w.-]*[ \\t]+)"
    "(?:(\\\\*)([\"']).*?(?:\\2\\3|$)|\\S+)";
source(scheme) -> "\\b(basic|bearer|digest|negotiate) +[\\w+/=.~-]{4,}";
%% What is quoted ends at the same quotes, with as many backslashes, and something that ends a value; what begins like a list or an
%% object, or is quoted in another way, ends with the text, and everything else with the line: it may hold any character.
source(named) ->
    "((?:" ?SECRETS "|(?<![a-z])pwd|(?<![a-z])pass(?![a-z]))[\\w.%\\[\\]-]*"
    "(?:\\\\*[\"'])?(?:>>)?\\s*(?:=>|[:=]|,(?=\\s*(?:<<|\\\\*[\"'\\[{#])))\\s*)"
    "(?:(\\\\*)([\"']).*?(?<!\\\\)\\2\\3(?=[ \\t]*(?:[,}\\])\\r\\n]|$))|\\\\*[\"'\\[{(<#].*|[^\\r\\n]+)";
source(bytes) -> ?SECRETS "|plain\\x00|\\x00[^\\x00-\\x1f]+\\x00[^\\x00-\\x1f]+".

quoted(Text) ->
    lists:map(fun ($") -> "\\\"";
                  ($\\) -> "\\\\";
                  ($\n) -> "\\n";
                  ($\r) -> "\\r";
                  ($\t) -> "\\t";
                  (C) -> C
              end, Text).

cut(Text, Limit) when byte_size(Text) =< Limit -> Text;
cut(Text, Limit) ->
    case unicode:characters_to_binary(binary:part(Text, 0, Limit)) of
        Cut when is_binary(Cut) -> <<Cut/binary, "...">>;
        {_, Cut, _} -> <<Cut/binary, "...">>
    end.
