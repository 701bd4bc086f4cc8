//! Leftovers of bellows on an Erlang node.

/// Erlang that tells what of bellows is on a node: modules, names, processes, processes with trace flags, functions of
/// these modules with a trace pattern or a counter, and trace sessions. Where there is none its value is the text
/// [`NOTHING_LEFT`].
#[must_use]
pub fn left_on_node(modules: &[&str]) -> String {
    format!(
        "Named = fun(A) -> lists:prefix(\"bellows_\", atom_to_list(A)) end, \
         M = [A || {{A, _}} <- code:all_loaded(), Named(A)], \
         N = [A || A <- registered(), Named(A)], \
         P = [A || A <- processes(), {{dictionary, D}} <- [process_info(A, dictionary)], \
                   {{'$initial_call', {{B, _, _}}}} <- D, Named(B)], \
         F = [A || A <- [new | processes()], {{flags, [_ | _]}} <- [catch erlang:trace_info(A, flags)]], \
         T = [{{Mod, A, B}} || Mod <- [{}], {{A, B}} <- Mod:module_info(functions), \
                        K <- [traced, call_count, call_time, meta], \
                        {{_, V}} <- [erlang:trace_info({{Mod, A, B}}, K)], V =/= false, V =/= undefined], \
         S = [A || erlang:function_exported(trace, session_info, 1), {{A, _}} <- trace:session_info(all), Named(A)], \
         lists:flatten(io_lib:format(\"~p\", [[M, N, P, F, T, S]])).",
        modules.join(", ")
    )
}

/// The value of [`left_on_node`] on a clean node.
pub const NOTHING_LEFT: &str = "[[],[],[],[],[],[]]";
