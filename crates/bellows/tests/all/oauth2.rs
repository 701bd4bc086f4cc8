//! Access tokens as RabbitMQ itself checks them: its own plugin verifies their signature, scopes
//! and life. RabbitMQ 3.10 remembers what a channel may do for a while (a minute, here a second);
//! then it refuses whose token has expired, and newer ones end the connection.

use crate::common;
use crate::common::managed;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use brokers::rabbitmq::{Config, RabbitMq};
use common::pages::{answer, serve};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Lifetime of a token, seconds.
const LIFE: u64 = 4;
const KEY: &[u8] = b"the key that only the endpoint and the broker know";

/// The broker's side: it accepts tokens signed with that key, and checks each second whether they are still valid.
const ADVANCED: &str = r#"[{rabbit, [{channel_tick_interval, 1000}]}, {rabbitmq_auth_backend_oauth2, [
  {resource_server_id, <<"rabbitmq">>},
  {key_config, [{default_key, <<"test">>}, {signing_keys, #{<<"test">> => {map, #{
    <<"kty">> => <<"MAC">>, <<"alg">> => <<"HS256">>, <<"use">> => <<"sig">>,
    <<"value">> => <<"the key that only the endpoint and the broker know">>}}}}]}]}]."#;

/// HMAC-SHA256 (RFC 2104); the key is shorter than a block.
fn sign(text: &str) -> Vec<u8> {
    let pad = |mask: u8| -> Vec<u8> {
        let byte = |at: usize| KEY.get(at).copied().unwrap_or(0) ^ mask;
        (0..64).map(byte).collect()
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner);
    outer.finalize().to_vec()
}

fn token() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("clock").as_secs();
    let header = json!({"alg": "HS256", "typ": "JWT", "kid": "test"});
    let all = ["configure", "read", "write"].map(|right| format!("rabbitmq.{right}:*/*"));
    let claims = json!({"aud": ["rabbitmq"], "scope": all, "client_id": "perf", "exp": now + LIFE});
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(&text));
    format!("{text}.{signature}")
}

/// The client in a form, and in a header (RFC 6749, 2.3.1).
const FORM: &str = "client_id=perf&client_secret=s3cret";
const HEADER: &str = "Basic cGVyZjpzM2NyZXQ=";

/// A token endpoint that grants up to `most` to the right client, and refuses the rest. Counts those granted.
fn endpoint(most: usize, client: &'static str) -> (String, Arc<AtomicUsize>) {
    let granted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&granted);
    let address = serve(move |request, stream| {
        let form = String::from_utf8(request.body).expect("text");
        let is_client = request.head.contains(client) || form.contains(client);
        let next = |count: usize| (count < most).then_some(count + 1);
        let is_granted = is_client && count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok();
        let answer = match is_granted {
            true => answer("200 X", &json!({"access_token": token(), "expires_in": LIFE}).to_string()),
            false => answer("401 X", &json!({"error": "invalid_client"}).to_string()),
        };
        stream.write_all(answer.as_bytes()).expect("answer");
    });
    (format!("http://{address}/token"), granted)
}

fn run(dir: &Path, uri: &str) -> common::Started {
    let text = include_str!("../data/experiments/tokens.toml").replace("URI", uri).replace("ADVANCED", ADVANCED);
    std::fs::write(dir.join("tokens.toml"), text).expect("file");
    let mut command = common::bellows(dir, &["run", "tokens.toml", "--json", "--quiet"]);
    common::start(command.env("BELLOWS_OAUTH2_CLIENT_SECRET", "s3cret"))
}

#[test]
#[ignore = "a start of its own, and lifetimes of tokens: make prove"]
fn a_run_outlives_its_tokens_and_ends_with_the_last() {
    testkit::needs_rabbitmq!();
    let (kept, cut) = (common::folder(), common::folder());
    let (many, granted) = endpoint(usize::MAX, FORM);
    // Enough for the start and one renewal.
    let (few, granted_few) = endpoint(2, FORM);
    let (renewed, expired) = (run(kept.path(), &many), run(cut.path(), &few));

    let object = renewed.end().json();
    let messages = &object["scenarios"]["messages"];
    assert_eq!(messages["ledger"]["lost"], 0, "{object:#}");
    let received = messages["received"]["total"].as_u64().expect("received");
    assert!(received >= 2_150, "{received} of some 2,200");
    let lives = granted.load(Ordering::Relaxed);
    assert!(lives >= 4, "only {lives} tokens in 11 s");

    let ended = expired.end().ends(1);
    assert_eq!(granted_few.load(Ordering::Relaxed), 2);
    assert!(ended.stderr.contains("403"), "{ended:#?}");

    for dir in [kept.path(), cut.path()] {
        let run = common::only_run(dir);
        for file in std::fs::read_dir(run).expect("run").flatten() {
            let bytes = std::fs::read(file.path()).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            testkit::assert_lacks(&text, ["s3cret", "eyJhbGciOi"]);
        }
    }
}

#[test]
#[ignore = "a start of its own, and lifetimes of tokens: make prove"]
fn perf_test_logs_in_with_tokens() {
    testkit::needs_rabbitmq!();
    let dir = &*common::folder();
    let config = Config {
        guard: managed::guard(),
        plugins: vec!["rabbitmq_auth_backend_oauth2".to_owned()],
        settings: [("auth_backends.1".to_owned(), "rabbit_auth_backend_oauth2".to_owned())].into(),
        advanced: Some(ADVANCED.to_owned()),
        ..Config::default()
    };
    let node = RabbitMq::start(&config, &mut |_| {}, &|| false).expect("a managed RabbitMQ");
    let (uri, granted) = endpoint(usize::MAX, HEADER);
    let url = node.url();
    let perf_test = |seconds: &str, more: &[&str]| {
        let usual = ["perf-test", "-h", &url, "-u", "tokens", "-z", seconds, "-r", "200"];
        common::run(dir, &[&usual[..], more].concat())
    };
    perf_test("10", &["-o2uri", &uri, "-o2id", "perf", "-o2sec", "s3cret", "-o2p", "orgId=1"])
        .ok()
        .prints(["receiving rate avg: "]);
    let lives = granted.load(Ordering::Relaxed);
    assert!(lives >= 3, "only {lives} tokens in 10 s");

    // Neither the URL's login nor another secret will do.
    perf_test("1", &[]).assert_error(1, &["ACCESS_REFUSED"]);
    let wrong = ["-o2uri", &uri, "-o2id", "perf", "-o2sec", "wr0ng"];
    perf_test("1", &wrong).assert_error(1, &["no token from", "invalid_client"]).says_not(["wr0ng"]);
}

#[test]
fn plugins_that_are_not_there_are_named() {
    testkit::needs_rabbitmq!();
    let dir = &*common::folder();
    let plugins = |name: &str| {
        let text = format!("name = \"x\"\nbroker.plugins = [\"{name}\"]\n[[load]]\ndestination = \"queue://x\"\n");
        std::fs::write(dir.join("x.toml"), text).expect("file");
        common::run(dir, &["run", "x.toml"])
    };
    plugins("rabbitmq_auth_backend_oauth")
        .assert_error(1, &["lacks a plugin", "rabbitmq_auth_backend_oauth\""])
        .says(["rabbitmq_auth_backend_oauth2"]);
    plugins("no name").assert_error(2, &["is not the name of a plugin"]);
}
