%% A client that calls itself "shop", with a channel and its writer, for which more messages wait than for its
%% connection; and two processes that are equal but for their work, the busier one with the smaller identifier.
Us = self(),
Addresses = <<"127.0.0.1:45678 -> 127.0.0.1:5672">>,
Idle = fun () -> timer:sleep(infinity) end,
Start = fun (Name, Then) -> spawn(fun () -> put(process_name, Name), Then() end) end,
Reader = Start({rabbit_reader, <<Addresses/binary, " - shop">>}, Idle),
Channel = Start({rabbit_channel, {Addresses, 1}}, Idle),
Supervisor = spawn(fun () -> link(Channel), Idle() end),
Below = fun () -> put('$ancestors', [Supervisor]), Idle() end,
Writer = Start({rabbit_writer, {Addresses, 1}}, Below),
Busy = Start({busy, <<"x">>}, fun Work() -> lists:seq(1, 10000), timer:sleep(1), Work() end),
Calm = Start({calm, <<"x">>}, Idle),
spawn(fun () ->
          [ets:new(Table, [named_table, public]) || Table <- [connection_created, channel_created]],
          Named = [{name, Addresses}, {user_provided_name, <<"shop">>}],
          ets:insert(connection_created, {Reader, Named}),
          ets:insert(channel_created, {Channel, [{connection, Reader}]}),
          Us ! ready, Idle()
      end),
receive ready -> ok end,
[Pid ! message || {Pid, Count} <- [{Channel, 90}, {Writer, 80}, {Busy, 3}, {Calm, 3}], _ <- lists:seq(1, Count)].
