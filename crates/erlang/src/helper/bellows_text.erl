%% Terms as text: cut to a number of parts and bytes, without walking the rest, and with secrets masked.
-module(bellows_text).
-export([term/2, arguments/4, result/4]).

-define(MASK, "***").
-define(DEPTH, 8).
-define(PARTS, 200).
-define(ELEMENTS, 24).
-define(BYTES, 96).

%% A term in at most about Limit bytes.
term(Term, Limit) ->
    {Text, _} = write(Term, ?DEPTH, ?PARTS),
    cut(unicode:characters_to_binary(Text), Limit).

%% The arguments of a call, as texts.
arguments(Module, Function, Arguments, Limit) ->
    Secret = secret_arguments(Module, Function),
    [case Secret =:= all orelse lists:member(Index, Secret) of
         true -> <<?MASK>>;
         false -> term(Argument, Limit)
     end || {Index, Argument} <- lists:zip(lists:seq(1, length(Arguments)), Arguments)].

%% What a function returned.
result(Module, Function, Value, Limit) ->
    case secret_arguments(Module, Function) of
        all -> <<?MASK>>;
        _ -> term(Value, Limit)
    end.

%% Arguments that are secrets by their place.
secret_arguments(rabbit_password, _) -> all;
secret_arguments(rabbit_credential_validation, _) -> [2];
secret_arguments(rabbit_access_control, check_user_pass_login) -> [2];
secret_arguments(rabbit_auth_backend_internal, Function)
  when Function =:= add_user; Function =:= change_password; Function =:= add_user_sans_validation;
       Function =:= validate_and_alternate_credentials; Function =:= validate_credentials;
       Function =:= change_password_sans_validation; Function =:= change_password_hash; Function =:= hash_password ->
    [2, 3];
secret_arguments(Module, handle_response) when is_atom(Module) ->
    case lists:prefix("rabbit_auth_mechanism", atom_to_list(Module)) of true -> all; false -> [] end;
secret_arguments(credentials_obfuscation, _) -> all;
secret_arguments(crypto, _) -> all;
secret_arguments(pubkey_pbe, _) -> all;
secret_arguments(rabbit_pbe, _) -> all;
secret_arguments(erlang, Function) when Function =:= set_cookie; Function =:= get_cookie -> all;
secret_arguments(auth, _) -> all;
secret_arguments(_, _) -> [].

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
secret_fields(Record) when element(1, Record) =:= amqp_params_network, tuple_size(Record) > 3 -> [3];
secret_fields(Record) when element(1, Record) =:= amqp_params_direct, tuple_size(Record) > 3 -> [3];
secret_fields(Tuple) when tuple_size(Tuple) > 1 ->
    case is_secret(element(1, Tuple)) of
        true -> lists:seq(2, tuple_size(Tuple));
        false -> []
    end;
secret_fields(_) -> [].

%% Whether what belongs to this key is a secret.
is_secret(Key) when is_atom(Key) -> is_secret_name(atom_to_list(Key));
is_secret(Key) when is_binary(Key), byte_size(Key) =< 64 -> is_secret_name(binary_to_list(Key));
is_secret([Character | _] = Key) when is_integer(Character) ->
    try length(Key) =< 64 andalso lists:all(fun is_integer/1, Key) andalso is_secret_name(Key)
    catch error:badarg -> false
    end;
is_secret(_) -> false.

is_secret_name(Name) ->
    Lower = string:lowercase([C || C <- Name, C < 128]),
    lists:any(fun (Part) -> string:find(Lower, Part) =/= nomatch end,
              ["passw", "passphrase", "passcode", "secret", "token", "cookie", "credential", "authorization",
               "private_key", "privatekey", "api_key", "apikey", "sasl", "jwt"]).

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
        {Text, More} -> {[$", quoted(Text), $", ["..." || More]], Parts - 1};
        no -> list(List, Depth - 1, Parts - 1, ?ELEMENTS, [])
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
        [_ | _] -> list(Tail, Depth, Left, Elements - 1, [Text | Texts]);
        _ ->
            {Last, Rest} = write(Tail, Depth, Left),
            {[$[, joined([Text | Texts]), $|, Last, $]], Rest}
    end.

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
    More = ["..." || byte_size(Binary) > ?BYTES],
    Size = [[" (", integer_to_list(byte_size(Binary)), " bytes)"] || byte_size(Binary) > ?BYTES],
    case characters(Shown) of
        no ->
            Bytes = [integer_to_list(Byte) || <<Byte>> <= binary:part(Shown, 0, min(byte_size(Shown), ?ELEMENTS))],
            Rest = [",..." || byte_size(Binary) > ?ELEMENTS],
            ["<<", lists:join($,, Bytes), Rest, ">>" | Size];
        Text -> ["<<\"", quoted(without_password(Text)), "\"", More, ">>" | Size]
    end.

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

%% The password of an address, such as amqp://user:password@host.
without_password(Text) ->
    case re:run(Text, "://[^/@:]*:([^/@]*)(@|$)", [unicode, {capture, [1], list}]) of
        {match, [[_ | _] = Password]} -> lists:flatten(string:replace(Text, ":" ++ Password, ":" ++ ?MASK));
        _ -> Text
    end.

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
