{ok, Pid, Name} = peer:start(#{name => "helper-" ++ os:getpid(), args => ["-hidden"]}),
Said = erpc:call(Name, fun() ->
    {erlang:system_info(otp_release), code:root_dir(), os:getenv("BINDIR"), erl_epmd:names()}
end),
peer:stop(Pid),
unicode:characters_to_binary(io_lib:format("~0tp", [Said])).
