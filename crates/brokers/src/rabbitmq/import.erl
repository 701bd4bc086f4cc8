%% Imports the definitions that lie in the node's directory, and says "ok", or why not, as JSON.
Home = os:getenv("HOME"),
{ok, Definitions} = file:read_file(Home ++ "/definitions.json"),
Result = try rabbit_definitions:import_raw(Definitions)
         catch Class:Reason -> {Class, Reason} end,
Text = case Result of
           ok -> <<"ok">>;
           Other ->
               Printed = unicode:characters_to_binary(io_lib:format("~0tP", [Other, 30])),
               binary:part(Printed, 0, min(byte_size(Printed), 600))
       end,
try iolist_to_binary(rabbit_json:encode(Text)) catch _:_ -> <<"\"it fails\"">> end.
