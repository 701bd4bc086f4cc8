//! What is counted is what the node's own tool counts of the same work.

use crate::common;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use common::{Beam, eval};
use erlang::calls::{Calls, CallsOptions, Counter};
use erlang::term::as_text;
use erlang::trace::{Trace, TraceEvent, TraceOptions};
use erlang::{Budget, Ended, Helper, Node, ProcessFilter};
use testkit::Random;

/// Tries until two measurements of the same work agree on a busy machine.
const TRIES: u32 = 40;
/// Times may differ by this factor, where `BELLOWS_WITHIN` names no smaller one: other work on the machine falls on one of
/// the two. `make prove` asks for 1.1.
const WITHIN: f64 = 1.5;
/// A list that makes `dict:from_list/1` call functions of its module some 250,000 times.
const WORK: &str = "L = [{N rem 5000, N} || N <- lists:seq(1, 30000)], ";

/// Waits until the counters run.
const BEGUN: &str = "fun Wait() -> case erlang:trace_info({dict, store, 3}, call_time) of \
     {_, false} -> timer:sleep(1), Wait(); _ -> ok end end().";

/// Calls and microseconds of functions.
type Counts = BTreeMap<String, (u64, f64)>;

/// What `eprof` says of the work.
fn by_eprof(node: &Node, file: &str) -> Counts {
    let source = format!(
        "{WORK} eprof:start(), {{ok, _}} = eprof:profile([], dict, from_list, [L], {{dict, '_', '_'}}), \
         ok = eprof:log(\"{file}\"), eprof:analyze(total), stopped = eprof:stop(), \
         {{ok, Text}} = file:read_file(\"{file}\"), Text."
    );
    let text = as_text(&eval(node, &source)).expect("a text");
    let row = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, calls, _, time, ..] = words.as_slice() else {
            return None;
        };
        let is_ours = name.starts_with("dict:");
        is_ours.then_some((
            name.replace('\'', ""),
            (calls.parse().ok()?, time.parse().ok()?),
        ))
    };
    text.lines().filter_map(row).collect()
}

/// What we say of it.
fn by_us(node: &Node, helper: &Helper) -> Counts {
    let options = CallsOptions {
        counter: Counter::Time,
        functions: vec!["dict".parse().expect("a pattern")],
        processes: ProcessFilter::All,
        duration: Duration::from_secs(2),
        blocks: 1,
        bursts: 0,
        budget: Budget::lasting(Duration::from_secs(20)),
    };
    let calls = thread::scope(|scope| {
        let counted = scope.spawn(|| Calls::count(helper, &options, &|| false).expect("counted"));
        // Counters of a session of ours are not seen by others.
        match node.release() {
            ..27 => drop(eval(node, BEGUN)),
            27.. => thread::sleep(Duration::from_secs(1)),
        }
        let run = format!(
            "{WORK} {{P, M}} = spawn_monitor(dict, from_list, [L]), receive {{'DOWN', M, _, P, _}} -> ok end."
        );
        eval(node, &run);
        counted.join().expect("joined")
    });
    assert_eq!(calls.ended, Ended::Time);
    let counts = calls.functions.iter();
    counts
        .map(|it| (it.function.clone(), (it.calls, it.own as f64)))
        .collect()
}

fn least(of: &mut Counts, more: &Counts) {
    for (name, (calls, time)) in more {
        let known = of.entry(name.clone()).or_insert((*calls, *time));
        *known = (*calls, known.1.min(*time));
    }
}

#[test]
fn calls_and_times_are_those_of_eprof() {
    let home = tempfile::tempdir().expect("a folder");
    let beam = Beam::start(home.path());
    let node = beam.connect();
    let helper = Helper::load(&node).expect("loaded");
    let file = home.path().join("eprof").display().to_string();
    let (mut theirs, mut ours) = (Counts::new(), Counts::new());
    let within = std::env::var("BELLOWS_WITHIN").map_or(WITHIN, |it| it.parse().expect("a number"));
    for attempt in 1..=TRIES {
        // Whatever else the machine does makes times longer, never shorter.
        least(&mut theirs, &by_eprof(&node, &file));
        least(&mut ours, &by_us(&node, &helper));
        let calls = |of: &Counts| {
            of.iter()
                .map(|(name, it)| (name.clone(), it.0))
                .collect::<Vec<_>>()
        };
        let time = |of: &Counts| of.values().map(|it| it.1).sum::<f64>();
        let all: u64 = theirs.values().map(|it| it.0).sum();
        assert!(all > 100_000, "{theirs:?}");
        let same_calls = calls(&theirs) == calls(&ours);
        let ratio = time(&ours) / time(&theirs);
        if same_calls && (1.0 / within..within).contains(&ratio) {
            eprintln!("{all} calls in both, own time {ratio:.3} times eprof's, after {attempt}");
            break;
        }
        assert!(
            attempt < TRIES,
            "ratio {ratio}: {theirs:?} by eprof, {ours:?} by us"
        );
    }
    helper.close().expect("closed");
}

#[test]
fn budgets_end_traces_and_say_which_limit_tripped() {
    let home = tempfile::tempdir().expect("a folder");
    let beam = Beam::start(home.path());
    let node = beam.connect();
    let helper = Helper::load(&node).expect("loaded");
    eval(
        &node,
        "[spawn(fun Loop() -> lists:seq(1, 300), Loop() end) || _ <- [1, 2]], ok.",
    );
    let usual = TraceOptions {
        functions: vec!["lists:seq/2".parse().expect("a pattern")],
        arguments: None,
        processes: ProcessFilter::All,
        limit: 100_000,
        rate: 100_000,
        returns: true,
        argument_bytes: 100,
        budget: Budget::lasting(Duration::from_secs(10)),
    };
    let ended = |options: &TraceOptions| {
        let mut trace = Trace::start(&helper, options).expect("a trace");
        let mut events = Vec::new();
        while trace.ended().is_none() {
            events.extend(trace.next(Duration::from_secs(5)).expect("events"));
        }
        let ended = trace.ended().cloned().expect("ended");
        trace.close().expect("closed");
        (ended, events)
    };
    let (few, events) = ended(&TraceOptions {
        limit: 5,
        ..usual.clone()
    });
    assert_eq!(few, Ended::Limit(5));
    let returned = |event: &&TraceEvent| matches!(event, TraceEvent::Return(it) if it.value.starts_with("[1,2,"));
    assert_eq!(events.iter().filter(returned).count(), 5, "{events:?}");

    let tripped = |options: &TraceOptions| match ended(options).0 {
        Ended::Tripped { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    // Two processes that do nothing else are faster than the tracer: only the rate may end this.
    let mut slow = usual.clone();
    slow.rate = 50;
    slow.budget.backlog = 1_000_000;
    slow.budget.tracer_bytes = 1 << 32;
    slow.budget.node_bytes = 1 << 32;
    slow.budget.run_queue = 1000;
    assert_eq!(tripped(&slow), "rate");
    let mut small = usual.clone();
    small.budget.backlog = 50;
    assert_eq!(tripped(&small), "backlog");
    small = usual.clone();
    small.budget.backlog = 1_000_000;
    small.budget.tracer_bytes = 1000;
    assert_eq!(tripped(&small), "tracer_memory");

    // Time, where nothing comes.
    let mut quiet = TraceOptions {
        arguments: Some("A, _ when A > 5".to_owned()),
        ..usual
    };
    quiet.budget.time = Duration::from_millis(300);
    assert_eq!(ended(&quiet).0, Ended::Time);
    helper.close().expect("closed");
}

#[test]
fn secrets_are_masked_and_values_cut() {
    let home = tempfile::tempdir().expect("a folder");
    let beam = Beam::start(home.path());
    let node = beam.connect();
    let helper = Helper::load(&node).expect("loaded");
    for (value, expected) in [
        (
            "[{user, <<\"guest\">>}, {password, <<\"s3cret\">>}]",
            "[{user,<<\"guest\">>},{password,***}]",
        ),
        (
            "#{<<\"access_token\">> => <<\"s3cret\">>}",
            "#{<<\"access_token\">> => ***}",
        ),
        (
            "{<<\"Authorization\">>, <<\"s3cret\">>}",
            "{<<\"Authorization\">>,***}",
        ),
        (
            "{internal_user, <<\"u\">>, <<\"s3cret\">>, [], m, []}",
            "{internal_user,<<\"u\">>,***,[],***,[]}",
        ),
        (
            "<<\"amqp://u:s3cret@host/\">>",
            "<<\"amqp://u:***@host/\">>",
        ),
        (
            "{'connection.start_ok', [], <<\"PLAIN\">>, <<0,\"u\",0,\"s3cret\">>, <<\"en\">>}",
            "{'connection.start_ok',[],<<\"PLAIN\">>,***,<<\"en\">>}",
        ),
        ("[a | b]", "[a|b]"),
        (
            "{\"text\", \"\", [7, 300], 1.5}",
            "{\"text\",[],[7,300],1.5}",
        ),
    ] {
        let argument = eval(&node, &format!("{value}."));
        let limit = erlang::term::int(300);
        let text = helper
            .call("bellows_text", "term", vec![argument, limit])
            .expect("a text");
        assert_eq!(as_text(&text).as_deref(), Some(expected));
    }
    for huge in [
        "lists:seq(1, 1000000)",
        "binary:copy(<<\"x\">>, 10000000)",
        "lists:foldl(fun(N, T) -> {N, T} end, x, lists:seq(1, 2000))",
        "maps:from_list([{N, N} || N <- lists:seq(1, 100000)])",
        "1 bsl 100000",
        "list_to_tuple(lists:seq(1, 100000))",
    ] {
        let called = format!("{}:text_term({huge}, 300).", Helper::module());
        let text = as_text(&eval(&node, &called)).expect("a text");
        assert!(text.len() < 320, "{} bytes of {huge}", text.len());
    }
    helper.close().expect("closed");
}

#[test]
fn secrets_are_masked_in_texts_bytes_and_arguments() {
    let home = tempfile::tempdir().expect("a folder");
    let beam = Beam::start(home.path());
    let node = beam.connect();
    let helper = Helper::load(&node).expect("loaded");
    let shown = |function: &str, arguments| {
        let shown = helper.call("bellows_text", function, arguments);
        shown.expect("a text")
    };
    let limit = || erlang::term::int(300);
    for (value, expected) in [
        // A text as a list, with an address, two of them, and one whose end is cut off.
        ("\"amqp://u:s3cret@host\"", "\"amqp://u:***@host\""),
        (
            "<<\"amqp://u:s3cret@a,amqp://u:s3@cret@b\">>",
            "<<\"amqp://u:***@a,amqp://u:***@b\">>",
        ),
        (
            "<<\"http://host:15672/api\">>",
            "<<\"http://host:15672/api\">>",
        ),
        ("[$a, 228 | \"//u: amqp://u:s3cret@h\"]", "[***]"),
        // What HTTP and JSON write.
        (
            "<<\"GET / HTTP/1.1\\r\\nAuthorization: Basic czNjcmV0\">>",
            "<<\"GET / HTTP/1.1\\r\\nAuthorization: ***\">>",
        ),
        (
            "<<\"{\\\"password\\\": \\\"s3 cret\\\", \\\"tags\\\": 1}\">>",
            "<<\"{\\\"password\\\": ***, \\\"tags\\\": 1}\">>",
        ),
        (
            "{basic, <<\"u\">>, <<\"s3cret\">>}",
            "{basic,<<\"u\">>,***}",
        ),
        // SASL's PLAIN, alone and in a frame.
        ("<<0, \"u\", 0, \"s3cret\">>", "<<***>> (9 bytes)"),
        (
            "<<5, \"PLAIN\", 0, 0, 0, 9, 0, \"u\", 0, \"s3cret\">>",
            "<<***>> (19 bytes)",
        ),
        ("<<1, 0, 2>>", "<<1,0,2>>"),
        // Names of secrets before them.
        ("[a, password, \"s3cret\", b]", "[a,password,***,b]"),
        ("{set, <<\"token\">>, s3cret}", "{set,<<\"token\">>,***}"),
    ] {
        let text = shown("term", vec![eval(&node, &format!("{value}.")), limit()]);
        assert_eq!(as_text(&text).as_deref(), Some(expected), "{value}");
    }
    for (module, function, arguments) in [
        (
            "rabbit_auth_backend_internal",
            "-user_login_authentication/2-fun-1-",
            "[u, <<\"s3cret\">>]",
        ),
        (
            "rabbit_auth_backend_internal",
            "update_user",
            "[u, <<\"s3cret\">>, []]",
        ),
        (
            "rabbit_auth_mechanism_plain",
            "next_null_pos",
            "[<<\"s3cret\">>, 0]",
        ),
        (
            "rabbit_credential_validator_accept_everything",
            "validate",
            "[u, <<\"s3cret\">>]",
        ),
        (
            "rabbit_mgmt_util",
            "is_authorized",
            "[r, c, u, <<\"s3cret\">>, e, f]",
        ),
        ("base64", "decode", "[<<\"s3cret\">>]"),
        ("maps", "put", "[<<\"password\">>, <<\"s3cret\">>, m]"),
    ] {
        let given = eval(&node, &format!("{arguments}."));
        let name = |name| erlang::term::atom(name);
        let texts = shown(
            "arguments",
            vec![name(module), name(function), given, limit()],
        );
        let texts = erlang::term::as_list(&texts).expect("a list");
        let texts: Vec<_> = texts.iter().filter_map(as_text).collect();
        let all = texts.join(" ");
        assert!(
            all.contains("***") && !all.contains("s3cret"),
            "{function}: {all}"
        );
    }
    helper.close().expect("closed");
}

/// Terms that hold a secret, and as what they are shown.
const SHAPES: [(&str, &str); 33] = [
    (
        r#"<<"Authorization: Token s3cret">>"#,
        r#"<<"Authorization: ***">>"#,
    ),
    (
        r#"<<"Authorization: ApiKey s3cret\r\nHost: h">>"#,
        r#"<<"Authorization: ***\r\nHost: h">>"#,
    ),
    (
        r#"<<"Cookie: a=1; sid=s3cret; x=2">>"#,
        r#"<<"Cookie: ***">>"#,
    ),
    (r#""x-api-key: s3cret""#, r#""x-api-key: ***""#),
    (r#"<<"password:\ts3cret">>"#, r#"<<"password:\t***">>"#),
    (r#""password=a;s3cret""#, r#""password=***""#),
    (r#""password=a,s3cret""#, r#""password=***""#),
    (r#""password=a b s3cret""#, r#""password=***""#),
    (r#""password=)s3cret""#, r#""password=***""#),
    (r#"<<"password='a' 's3cret'">>"#, r#"<<"password=***">>"#),
    (
        r#"<<"default_pass = s3cret">>"#,
        r#"<<"default_pass = ***">>"#,
    ),
    // JSON, and JSON in it.
    (
        r#"<<"{\"password\":[\"s3cret\"]}">>"#,
        r#"<<"{\"password\":***">>"#,
    ),
    (
        r#"<<"{\"password\":{\"v\":\"s3cret\"}}">>"#,
        r#"<<"{\"password\":***">>"#,
    ),
    (
        r#"<<"{\"a\":\"{\\\"password\\\":\\\"s3cret\\\",\\\"b\\\":1}\"}">>"#,
        r#"<<"{\"a\":\"{\\\"password\\\":***,\\\"b\\\":1}\"}">>"#,
    ),
    // Erlang's terms as text.
    (
        r#"<<"{<<\"password\">>,<<\"s3cret\">>}">>"#,
        r#"<<"{<<\"password\">>,***">>"#,
    ),
    (
        r##"<<"#{password => s3cret}">>"##,
        r##"<<"#{password => ***">>"##,
    ),
    // Improper lists, and texts that are written in parts.
    (r#"[password | <<"s3cret">>]"#, "[password|***]"),
    (r#"[password | "s3cret"]"#, "[password,***,...]"),
    (
        r#"[<<"password=">> | <<"s3cret">>]"#,
        r#"[<<"password=">>|***]"#,
    ),
    (
        r#"[<<"password">>, <<"=">>, "s3cret", b]"#,
        r#"[<<"password">>,***,***,b]"#,
    ),
    (r#""password=" ++ [<<"s3cret">>]"#, "[***]"),
    // Kinds between names and values.
    (
        r#"{set, password, longstr, <<"s3cret">>, b}"#,
        "{set,password,***,***,b}",
    ),
    (
        r#"[password, binary, <<"s3cret">>, b]"#,
        "[password,***,***,b]",
    ),
    // Long keys, and keys that are paths.
    (
        r#"#{<<"a123456789b123456789c123456789d123456789e123456789f123456789password">> => <<"s3cret">>}"#,
        r#"#{<<"a123456789b123456789c123456789d123456789e123456789f123456789password">> => ***}"#,
    ),
    (
        r#"[{["ssl", "password"], "s3cret"}]"#,
        r#"[{["ssl","password"],***}]"#,
    ),
    // Stacks have the number of arguments.
    (
        r#"{'EXIT', {badarg, [{mod, login, [<<"u">>, <<"s3cret">>], []}]}}"#,
        "{'EXIT',{badarg,[{mod,login,2,[]}]}}",
    ),
    (
        r#"[{mod, login, [<<"s3cret">>], [{file, "m.erl"}, {line, 4}]}]"#,
        r#"[{mod,login,1,[{file,"m.erl"},{line,4}]}]"#,
    ),
    (
        r#"{rabbit_auth_backend_ldap, login, [u, <<"s3cret">>]}"#,
        "{rabbit_auth_backend_ldap,login,***}",
    ),
    // What is none.
    ("{gen_server, call, [a, b]}", "{gen_server,call,[a,b]}"),
    (
        r#"{queue, declare, [a, b], [<<"c">>]}"#,
        r#"{queue,declare,[a,b],[<<"c">>]}"#,
    ),
    (
        r#"{compass, <<"bypass: x">>}"#,
        r#"{compass,<<"bypass: x">>}"#,
    ),
    (
        r#"[{resource, <<"/">>, queue, <<"q">>}]"#,
        r#"[{resource,<<"/">>,queue,<<"q">>}]"#,
    ),
    ("[{a, 1}, passwordless]", "[{a,1},passwordless]"),
];

#[test]
fn secrets_are_masked_in_every_shape_that_was_seen() {
    let home = tempfile::tempdir().expect("a folder");
    let beam = Beam::start(home.path());
    let node = beam.connect();
    let helper = Helper::load(&node).expect("loaded");
    for (value, expected) in SHAPES {
        let called = format!("{}:text_term({value}, 300).", Helper::module());
        let text = as_text(&eval(&node, &called));
        assert_eq!(text.as_deref(), Some(expected), "{value}");
    }
    helper.close().expect("closed");
}

/// Text of these characters, up to so many.
fn text(random: &mut Random, characters: &[&str], most: u64) -> String {
    (0..random.below(most + 1))
        .map(|_| random.of(characters))
        .collect()
}

/// The name of a secret, with something around it.
fn name(random: &mut Random, most: u64) -> String {
    const NAMES: [&str; 13] = [
        "password",
        "passwd",
        "passphrase",
        "Secret",
        "token",
        "COOKIE",
        "credential",
        "Authorization",
        "private_key",
        "private-key",
        "api_key",
        "x-api-key",
        "sasl",
    ];
    let around = ["a", "-", "_", "x", "b"];
    let (before, after) = (text(random, &around, most), text(random, &around, 6));
    format!("{before}{}{after}", random.of(&NAMES))
}

/// A text in which the secret follows a name.
fn line(random: &mut Random) -> String {
    let (name, blank) = (name(random, 12), random.of(&["", " ", "\\t", "  "]));
    let other = text(random, &["a", "1", ";", ",", " ", ")", "}", "&", "%"], 8);
    match random.below(7) {
        0 => format!("{name}={other}S3CRET"),
        1 => format!("{name}:{blank}{other}S3CRET"),
        2 => format!("GET / HTTP/1.1\\r\\n{name}:{blank}Scheme {other}S3CRET\\r\\nHost: h"),
        3 => format!("{{\\\"{name}\\\":{blank}\\\"{other}S3CRET\\\", \\\"b\\\": 1}}"),
        4 => {
            format!("{{\\\"{name}\\\"{blank}: [{blank}{{\\\"v\\\": \\\"{other}S3CRET\\\"}}]}}")
        }
        5 => format!(
            "{{\\\"a\\\": \\\"{{\\\\\\\"{name}\\\\\\\":{blank}\\\\\\\"{other}S3CRET\\\\\\\"}}\\\"}}"
        ),
        _ => format!("{name} = '{other}S3CRET'"),
    }
}

/// A term in which the secret belongs to a name.
fn term(random: &mut Random) -> String {
    let name = name(random, 80);
    let key = match random.below(3) {
        0 => format!("'{name}'"),
        1 => format!("<<\"{name}\">>"),
        _ => format!("\"{name}\""),
    };
    let secret = match random.below(3) {
        0 => "'S3CRET'",
        1 => "<<\"S3CRET\">>",
        _ => "\"S3CRET\"",
    };
    let kind = random.of(&["longstr", "binary", "string"]);
    match random.below(12) {
        0 => format!("{{{key}, {secret}}}"),
        1 => format!("{{set, {key}, {secret}, x}}"),
        2 => format!("{{set, {key}, {kind}, {secret}}}"),
        3 => format!("[x, {key}, {secret}, y]"),
        4 => format!("[{key} | {secret}]"),
        5 => format!("[{key}, {kind}, {secret}]"),
        6 => format!("#{{{key} => {secret}, b => 1}}"),
        7 => format!("#{{{key} => #{{v => [{secret}]}}}}"),
        8 => format!("{{ok, [{{{key}, [{{{secret}}}]}}]}}"),
        9 => format!("{{'EXIT', {{undef, [{{m, f, [x, {secret}], []}}]}}}}"),
        10 => format!("[{{[\"a\", {key}], {secret}}}]"),
        _ => format!("[<<\"u&{name}=\">>, {secret}, <<\"&b=1\">>]"),
    }
}

/// The secret is upper case, so that no name has its letters; as numbers it begins with those of `S3`.
#[test]
fn secrets_are_masked_in_random_shapes() {
    let home = tempfile::tempdir().expect("a folder");
    let beam = Beam::start(home.path());
    let node = beam.connect();
    let helper = Helper::load(&node).expect("loaded");
    let mut random = Random::new(0x5eed);
    for _ in 0..600 {
        let value = match random.below(4) {
            0 => format!("\"{}\"", line(&mut random)),
            1 => format!("[<<\"{}\">>]", line(&mut random)),
            _ => term(&mut random),
        };
        let called = format!("{}:text_term({value}, 300).", Helper::module());
        let text = as_text(&eval(&node, &called)).expect("a text");
        let is_shown =
            text.contains("S3CRET") || text.contains("83,51") || text.contains("67,82,69");
        assert!(!is_shown, "{value}: {text}");
    }
    helper.close().expect("closed");
}
