//! The tree of calls that trace messages make.

use crate::beams::{evaluate, helper};

/// Recording of a process of OTP 25 that calls functions of `outer`, which is not traced, and `shop`, which is: kinds
/// of messages, and nanoseconds.
const RECORDED: &str = include_str!("../data/recorded.txt");

/// Functions with their callers and calls, in the order in which they came, where a tracer got these messages.
fn tree(messages: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let compile = |module: &str| {
        let source = helper().join(format!("{module}.erl"));
        format!("{{ok, _}} = compile:file({source:?}, []), ")
    };
    let source = format!(
        "{} {} {RECORDED}
         Self = self(), Tracer = spawn_link(fun () -> bellows_tree:collect(Self, 1000) end),
         Tell = fun (Pid, Message) -> Tracer ! list_to_tuple([trace_ts, Pid | tuple_to_list(Message)]) end,
         {messages}
         Tracer ! {{tree, Self}},
         Rows = receive {{tree, Tracer, All, _}} -> All end,
         Name = fun (0) -> root; (N) -> [Found] = [{{M, F}} || {{I, _, M, F, _, _, _, _}} <- Rows, I =:= N], Found end,
         [io:format(\"~p < ~p: ~b~n\", [Name(I), Name(Above), Calls]) || {{I, Above, _, _, _, Calls, _, _}} <- Rows], \
halt().",
        compile("bellows_stack"),
        compile("bellows_tree"),
    );
    let text = evaluate(folder.path(), &source).replace(['<', '>', '"', '{', '}'], "");
    text.lines().map(|it| it.replace(',', ":")).collect()
}

#[test]
fn a_function_that_has_returned_has_nothing_more_above_it() {
    let told = tree("P = Self, Tracer ! {next, P}, [Tell(P, Message) || Message <- Recorded],");
    assert_eq!(
        told,
        [
            "outer:first  root: 0",
            "shop:order  outer:first: 1",
            "outer:between  shop:order: 0",
            "shop:look  outer:between: 1",
            "outer:second  root: 0",
            "shop:bill  outer:second: 2",
            "shop:look  shop:bill: 2",
            "run:loop  root: 0",
            "shop:order  run:loop: 1",
            "outer:between  shop:order: 0",
            "shop:look  outer:between: 1",
        ]
    );
}

#[test]
fn a_function_that_was_running_already_leaves_after_calls_of_itself() {
    let told = tree(
        "P = Self, Tracer ! {next, P}, {Loop, Look} = {{shop, loop, 1}, {shop, look, 1}},
         [Tell(P, Message) || Message <- [{call, Look, Loop, 10}, {return_to, Loop, 20}, {call, Loop, Loop, 30},
             {call, Look, Loop, 40}, {return_to, Loop, 50}, {return_to, Loop, 60}, {call, Look, {run, main, 0}, 70}]],",
    );
    assert_eq!(told, ["shop:loop  root: 1", "shop:look  shop:loop: 2", "run:main  root: 0", "shop:look  run:main: 1",]);
}

#[test]
fn what_comes_late_of_one_process_is_on_no_stack_of_the_next() {
    let told = tree(
        "Other = spawn(fun () -> ok end), Tracer ! {next, Other}, Tracer ! {next, Self},
         Tell(Other, {call, {shop, late, 0}, {shop, order, 1}, 270000}),
         [Tell(Self, Message) || Message <- lists:sublist(Recorded, 2)],",
    );
    assert_eq!(told, ["outer:first  root: 0", "shop:order  outer:first: 1"]);
}
