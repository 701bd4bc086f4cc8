//! Secrets in terms are masked on the node.

use crate::common;

use common::{eval, loaded};
use erlang::term::{as_list, as_text, atom, int};
use erlang::{Helper, Node};
use testkit::Random;

/// A value as the helper shows it.
fn shown(node: &Node, value: &str) -> String {
    let text = eval(node, &format!("{}:text_term({value}, 300).", Helper::module()));
    as_text(&text).expect("a text")
}

#[test]
fn values_are_cut() {
    let (_home, _beam, node, _helper) = loaded();
    for huge in [
        "lists:seq(1, 1000000)",
        "binary:copy(<<\"x\">>, 10000000)",
        "lists:foldl(fun(N, T) -> {N, T} end, x, lists:seq(1, 2000))",
        "maps:from_list([{N, N} || N <- lists:seq(1, 100000)])",
        "1 bsl 100000",
        "list_to_tuple(lists:seq(1, 100000))",
    ] {
        let length = shown(&node, huge).len();
        assert!(length < 320, "{length} bytes of {huge}");
    }
}

#[test]
fn secrets_are_masked_in_arguments() {
    let (_home, _beam, node, helper) = loaded();
    for (module, function, arguments) in [
        ("rabbit_auth_backend_internal", "-user_login_authentication/2-fun-1-", "[u, <<\"s3cret\">>]"),
        ("rabbit_auth_backend_internal", "update_user", "[u, <<\"s3cret\">>, []]"),
        ("rabbit_auth_mechanism_plain", "next_null_pos", "[<<\"s3cret\">>, 0]"),
        ("rabbit_credential_validator_accept_everything", "validate", "[u, <<\"s3cret\">>]"),
        ("rabbit_mgmt_util", "is_authorized", "[r, c, u, <<\"s3cret\">>, e, f]"),
        ("base64", "decode", "[<<\"s3cret\">>]"),
        ("maps", "put", "[<<\"password\">>, <<\"s3cret\">>, m]"),
    ] {
        let given = eval(&node, &format!("{arguments}."));
        let call = vec![atom(module), atom(function), given, int(300)];
        let texts = helper.call("bellows_text", "arguments", call).expect("texts");
        let texts = as_list(&texts).expect("a list");
        let texts: Vec<_> = texts.iter().filter_map(as_text).collect();
        let all = texts.join(" ");
        assert!(all.contains("***") && !all.contains("s3cret"), "{function}: {all}");
    }
}

/// Terms that hold a secret, and as what they are shown.
const SHAPES: [(&str, &str); 60] = [
    ("[{user, <<\"guest\">>}, {password, <<\"s3cret\">>}]", "[{user,<<\"guest\">>},{password,***}]"),
    ("#{<<\"access_token\">> => <<\"s3cret\">>}", "#{<<\"access_token\">> => ***}"),
    ("{<<\"Authorization\">>, <<\"s3cret\">>}", "{<<\"Authorization\">>,***}"),
    ("{internal_user, <<\"u\">>, <<\"s3cret\">>, [], m, []}", "{internal_user,<<\"u\">>,***,[],***,[]}"),
    ("<<\"amqp://u:s3cret@host/\">>", "<<\"amqp://u:***@host/\">>"),
    (
        "{'connection.start_ok', [], <<\"PLAIN\">>, <<0,\"u\",0,\"s3cret\">>, <<\"en\">>}",
        "{'connection.start_ok',[],<<\"PLAIN\">>,***,<<\"en\">>}",
    ),
    ("[a | b]", "[a|b]"),
    ("{\"text\", \"\", [7, 300], 1.5}", "{\"text\",[],[7,300],1.5}"),
    // A text as a list, with an address, two of them, and one whose end is cut off.
    ("\"amqp://u:s3cret@host\"", "\"amqp://u:***@host\""),
    ("<<\"amqp://u:s3cret@a,amqp://u:s3@cret@b\">>", "<<\"amqp://u:***@a,amqp://u:***@b\">>"),
    ("<<\"http://host:15672/api\">>", "<<\"http://host:15672/api\">>"),
    ("[$a, 228 | \"//u: amqp://u:s3cret@h\"]", "[***]"),
    // What HTTP and JSON write.
    ("<<\"GET / HTTP/1.1\\r\\nAuthorization: Basic czNjcmV0\">>", "<<\"GET / HTTP/1.1\\r\\nAuthorization: ***\">>"),
    (
        "<<\"{\\\"password\\\": \\\"s3 cret\\\", \\\"tags\\\": 1}\">>",
        "<<\"{\\\"password\\\": ***, \\\"tags\\\": 1}\">>",
    ),
    ("{basic, <<\"u\">>, <<\"s3cret\">>}", "{basic,<<\"u\">>,***}"),
    // SASL's PLAIN, alone and in a frame.
    ("<<0, \"u\", 0, \"s3cret\">>", "<<***>> (9 bytes)"),
    ("<<5, \"PLAIN\", 0, 0, 0, 9, 0, \"u\", 0, \"s3cret\">>", "<<***>> (19 bytes)"),
    ("<<1, 0, 2>>", "<<1,0,2>>"),
    // Names of secrets before them.
    ("[a, password, \"s3cret\", b]", "[a,password,***,b]"),
    ("{set, <<\"token\">>, s3cret}", "{set,<<\"token\">>,***}"),
    (r#"<<"run --password s3cret --port 5">>"#, r#"<<"run --password *** --port 5">>"#),
    (r#"<<"run --password 's3cret s3cret' -p x">>"#, r#"<<"run --password *** -p x">>"#),
    (r#""erl -setcookie s3cret -noshell""#, r#""erl -setcookie *** -noshell""#),
    (r#"["run", "--api-key", "s3cret", "x"]"#, r#"["run","--api-key",***,"x"]"#),
    (
        r#"<<"-----BEGIN RSA PRIVATE KEY-----\ns3cret\ns3cret\n-----END RSA PRIVATE KEY-----\nx">>"#,
        r#"<<"-----BEGIN RSA PRIVATE KEY***\nx">>"#,
    ),
    (
        r#"[<<"-----BEGIN PRIVATE KEY-----">>, <<"s3cret">>, <<"s3cret">>]"#,
        r#"[<<"-----BEGIN PRIVATE KEY***">>,***,***]"#,
    ),
    (r#"<<"-----BEGIN CERTIFICATE-----\nMII">>"#, r#"<<"-----BEGIN CERTIFICATE-----\nMII">>"#),
    (r#"<<"Authorization: Token s3cret">>"#, r#"<<"Authorization: ***">>"#),
    (r#"<<"Authorization: ApiKey s3cret\r\nHost: h">>"#, r#"<<"Authorization: ***\r\nHost: h">>"#),
    (r#"<<"Cookie: a=1; sid=s3cret; x=2">>"#, r#"<<"Cookie: ***">>"#),
    (r#""x-api-key: s3cret""#, r#""x-api-key: ***""#),
    (r#"<<"password:\ts3cret">>"#, r#"<<"password:\t***">>"#),
    (r#""password=a;s3cret""#, r#""password=***""#),
    (r#""password=a,s3cret""#, r#""password=***""#),
    (r#""password=a b s3cret""#, r#""password=***""#),
    (r#""password=)s3cret""#, r#""password=***""#),
    (r#"<<"password='a' 's3cret'">>"#, r#"<<"password=***">>"#),
    (r#"<<"default_pass = s3cret">>"#, r#"<<"default_pass = ***">>"#),
    // JSON, and JSON in it.
    (r#"<<"{\"password\":[\"s3cret\"]}">>"#, r#"<<"{\"password\":***">>"#),
    (r#"<<"{\"password\":{\"v\":\"s3cret\"}}">>"#, r#"<<"{\"password\":***">>"#),
    (
        r#"<<"{\"a\":\"{\\\"password\\\":\\\"s3cret\\\",\\\"b\\\":1}\"}">>"#,
        r#"<<"{\"a\":\"{\\\"password\\\":***,\\\"b\\\":1}\"}">>"#,
    ),
    // Erlang's terms as text.
    (r#"<<"{<<\"password\">>,<<\"s3cret\">>}">>"#, r#"<<"{<<\"password\">>,***">>"#),
    (r##"<<"#{password => s3cret}">>"##, r##"<<"#{password => ***">>"##),
    // Improper lists, and texts that are written in parts.
    (r#"[password | <<"s3cret">>]"#, "[password|***]"),
    (r#"[password | "s3cret"]"#, "[password,***,...]"),
    (r#"[<<"password=">> | <<"s3cret">>]"#, r#"[<<"password=">>|***]"#),
    (r#"[<<"password">>, <<"=">>, "s3cret", b]"#, r#"[<<"password">>,***,***,b]"#),
    (r#""password=" ++ [<<"s3cret">>]"#, "[***]"),
    // Kinds between names and values.
    (r#"{set, password, longstr, <<"s3cret">>, b}"#, "{set,password,***,***,b}"),
    (r#"[password, binary, <<"s3cret">>, b]"#, "[password,***,***,b]"),
    // Long keys, and keys that are paths.
    (
        r#"#{<<"a123456789b123456789c123456789d123456789e123456789f123456789password">> => <<"s3cret">>}"#,
        r#"#{<<"a123456789b123456789c123456789d123456789e123456789f123456789password">> => ***}"#,
    ),
    (r#"[{["ssl", "password"], "s3cret"}]"#, r#"[{["ssl","password"],***}]"#),
    // Stacks have the number of arguments.
    (r#"{'EXIT', {badarg, [{mod, login, [<<"u">>, <<"s3cret">>], []}]}}"#, "{'EXIT',{badarg,[{mod,login,2,[]}]}}"),
    (r#"[{mod, login, [<<"s3cret">>], [{file, "m.erl"}, {line, 4}]}]"#, r#"[{mod,login,1,[{file,"m.erl"},{line,4}]}]"#),
    (r#"{rabbit_auth_backend_ldap, login, [u, <<"s3cret">>]}"#, "{rabbit_auth_backend_ldap,login,***}"),
    // What is none.
    ("{gen_server, call, [a, b]}", "{gen_server,call,[a,b]}"),
    (r#"{queue, declare, [a, b], [<<"c">>]}"#, r#"{queue,declare,[a,b],[<<"c">>]}"#),
    (r#"{compass, <<"bypass: x">>}"#, r#"{compass,<<"bypass: x">>}"#),
    (r#"[{resource, <<"/">>, queue, <<"q">>}]"#, r#"[{resource,<<"/">>,queue,<<"q">>}]"#),
    ("[{a, 1}, passwordless]", "[{a,1},passwordless]"),
];

#[test]
fn secrets_are_masked_in_every_shape_that_was_seen() {
    let (_home, _beam, node, _helper) = loaded();
    for (value, expected) in SHAPES {
        assert_eq!(shown(&node, value), expected, "{value}");
    }
}

/// Text of these characters, up to so many.
fn text(random: &mut Random, characters: &[&str], most: u64) -> String {
    (0..random.below(most + 1)).map(|_| random.of(characters)).collect()
}

/// The name of a secret, with something around it.
fn name(random: &mut Random, most: u64) -> String {
    const NAMES: &str = "password passwd passphrase Secret token COOKIE credential Authorization private_key \
                         private-key api_key x-api-key sasl";
    let names: Vec<&str> = NAMES.split(' ').collect();
    let around = ["a", "-", "_", "x", "b"];
    let (before, after) = (text(random, &around, most), text(random, &around, 6));
    format!("{before}{}{after}", random.of(&names))
}

/// A text in which the secret follows a name.
fn line(random: &mut Random) -> String {
    let (name, blank) = (name(random, 12), random.of(&["", " ", "\\t", "  "]));
    let other = text(random, &["a", "1", ";", ",", " ", ")", "}", "&", "%"], 8);
    match random.below(10) {
        7 => format!("run --{name} {}S3CRET -x 1", other.replace(' ', "")),
        8 => format!("run -x 1 -{name}  '{other} S3CRET' x"),
        9 => format!("{other}-----BEGIN EC PRIVATE KEY-----\\n{other}S3CRET\\nS3CRET"),
        0 => format!("{name}={other}S3CRET"),
        1 => format!("{name}:{blank}{other}S3CRET"),
        2 => format!("GET / HTTP/1.1\\r\\n{name}:{blank}Scheme {other}S3CRET\\r\\nHost: h"),
        3 => format!("{{\\\"{name}\\\":{blank}\\\"{other}S3CRET\\\", \\\"b\\\": 1}}"),
        4 => {
            format!("{{\\\"{name}\\\"{blank}: [{blank}{{\\\"v\\\": \\\"{other}S3CRET\\\"}}]}}")
        }
        5 => format!("{{\\\"a\\\": \\\"{{\\\\\\\"{name}\\\\\\\":{blank}\\\\\\\"{other}S3CRET\\\\\\\"}}\\\"}}"),
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
    let (_home, _beam, node, _helper) = loaded();
    let mut random = Random::new(0x5eed);
    for _ in 0..600 {
        let value = match random.below(4) {
            0 => format!("\"{}\"", line(&mut random)),
            1 => format!("[<<\"{}\">>]", line(&mut random)),
            _ => term(&mut random),
        };
        let text = shown(&node, &value);
        let is_shown = text.contains("S3CRET") || text.contains("83,51") || text.contains("67,82,69");
        assert!(!is_shown, "{value}: {text}");
    }
}
