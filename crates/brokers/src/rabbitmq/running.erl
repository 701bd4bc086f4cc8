%% The names of the cluster's nodes that run, as JSON: a list of texts.
Running = case erlang:function_exported(rabbit_nodes, list_running, 0) of
              true -> rabbit_nodes:list_running();
              false -> rabbit_nodes:all_running()
          end,
iolist_to_binary(rabbit_json:encode([atom_to_binary(Node, utf8) || Node <- Running])).
