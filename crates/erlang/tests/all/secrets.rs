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
fn secrets_are_masked_in_arguments() {
    let (_home, _beam, node, helper) = loaded();
    for [module, function, arguments] in testkit::table(include_str!("../data/secret-arguments.txt")) {
        let given = eval(&node, &format!("{arguments}."));
        let call = vec![atom(module), atom(function), given, int(300)];
        let texts = helper.call("bellows_text", "arguments", call).expect("texts");
        let texts = as_list(&texts).expect("a list");
        let texts: Vec<_> = texts.iter().filter_map(as_text).collect();
        let all = texts.join(" ");
        assert!(all.contains("***") && !all.contains("s3cret"), "{function}: {all}");
    }
}

#[test]
fn values_are_cut_and_secrets_masked_in_every_shape_that_was_seen() {
    let (_home, _beam, node, _helper) = loaded();
    let shapes = include_str!("../data/secrets.txt").lines().filter_map(|line| line.split_once(" ⇒ "));
    let mut count = 0;
    for (value, expected) in shapes {
        assert_eq!(shown(&node, value), expected, "{value}");
        count += 1;
    }
    assert_eq!(count, 60);
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
