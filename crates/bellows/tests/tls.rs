//! TLS and login by certificate against a real RabbitMQ.

mod common;

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;
use session::managed::{Config, RabbitMq, guard};

/// A node with TLS that the test itself drives; its guardian is this build's.
fn node() -> RabbitMq {
    let exe = OsString::from(env!("CARGO_BIN_EXE_bellows"));
    let config = Config {
        guard: vec![exe, guard::SUBCOMMAND.into()],
        tls: true,
        ..Config::default()
    };
    RabbitMq::start(&config, &mut |_| {}, &|| false).expect("a managed RabbitMQ")
}

fn client(dir: &Path, url: &str, args: &[&str]) -> common::Ended {
    let mut all = vec!["client", "queue://secured", "--url", url, "--duration", "1"];
    all.extend_from_slice(&["--max-pending", "100", "--json", "--no-archive"]);
    all.extend_from_slice(args);
    common::start(common::bellows(dir, &all)).end()
}

fn received(ended: &common::Ended) -> u64 {
    ended.assert_ok();
    let summary: Value = serde_json::from_str(&ended.stdout).expect("one object");
    let received = summary["received"]["total"].as_u64().expect("received");
    assert_eq!(summary["ledger"]["lost"].as_u64(), Some(0), "{summary:#}");
    received
}

#[test]
fn rabbitmq_is_loaded_over_tls_and_takes_certificates_for_logins() {
    if !testkit::has_rabbitmq() {
        testkit::skip!("rabbitmq-server is not installed: apt-get install rabbitmq-server");
    }
    let dir = tempfile::tempdir().expect("folder");
    let node = node();
    let (url, plain) = (node.url(), node.plain_url());
    let tls = node.endpoint().expect("endpoint").tls.expect("TLS");
    let own = tls.identity.expect("identity");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (ca, cert, key) = (
        text(&tls.ca.expect("authority")),
        text(&own.certificate),
        text(&own.key),
    );

    let ended = client(dir.path(), &url, &["--ca", &ca]);
    assert!(received(&ended) > 100, "{ended:#?}");
    assert!(!ended.stdout.contains("certificate_not_checked"));

    // The password is wrong: it is not needed.
    let nobody = url.replace("guest:guest@", "nobody:wrong@");
    let by_name = [
        "--ca", &ca, "--cert", &cert, "--key", &key, "--auth", "external",
    ];
    assert!(received(&client(dir.path(), &nobody, &by_name)) > 100);

    let ended = client(dir.path(), &url, &["--insecure"]);
    assert!(received(&ended) > 100);
    assert!(
        ended.stdout.contains("certificate_not_checked"),
        "{ended:#?}"
    );
    assert!(
        ended
            .stderr
            .contains("--insecure: the broker's certificate was not")
    );

    // The machine's own authorities have never heard of it.
    let ended = client(dir.path(), &url, &[]);
    ended.assert_error(
        1,
        &["cannot secure", "issued by nobody who is trusted here"],
    );
    assert!(ended.stderr.contains("--ca FILE"), "{ended:#?}");

    let ended = client(dir.path(), &url, &["--ca", &ca, "--sni", "other.example"]);
    ended.assert_error(1, &["not for \"other.example\" but for", "localhost"]);

    // The server's own key pair is of the authority, but no user has its name.
    let server = [
        "--ca",
        &ca,
        "--auth",
        "external",
        "--cert",
        &cert.replace("client.pem", "server.pem"),
        "--key",
        &key.replace("client-key.pem", "server-key.pem"),
    ];
    let ended = client(dir.path(), &url, &server);
    assert_eq!(ended.code(), Some(1), "{ended:#?}");

    let wrong = plain.replace("amqp://", "amqps://");
    let ended = client(dir.path(), &wrong, &["--ca", &ca]);
    ended.assert_error(1, &["AMQP without TLS"]);
    assert!(ended.stderr.contains("5671"), "{ended:#?}");
    let ended = client(dir.path(), &url.replace("amqps://", "amqp://"), &[]);
    // RabbitMQ resets the connection without a word.
    ended.assert_error(1, &["cannot connect", "could not log in"]);
    assert!(ended.stderr.contains("amqps://"), "{ended:#?}");

    let ended = client(dir.path(), &plain, &["--ca", &ca]);
    ended.assert_error(2, &["broker.ca has no effect without TLS"]);
}
