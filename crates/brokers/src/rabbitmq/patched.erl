%% The modules that were replaced and that the node takes from elsewhere all the same, with where that is, as JSON: a list of texts.
Home = os:getenv("HOME"),
{ok, Modules} = file:consult(Home ++ "/patched.terms"),
Place = fun(Module) -> filename:join([Home, "ebin", atom_to_list(Module) ++ ".beam"]) end,
Taken = fun(Module) ->
            case code:which(Module) of
                File when is_list(File) -> filename:absname(File);
                Other -> Other
            end
        end,
Foreign = [unicode:characters_to_binary(io_lib:format("~ts from ~0tp", [Module, Taken(Module)]))
           || Module <- Modules, Taken(Module) =/= Place(Module)],
iolist_to_binary(rabbit_json:encode(Foreign)).
