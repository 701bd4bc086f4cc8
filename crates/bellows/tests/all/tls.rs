//! TLS and login by certificate against a real RabbitMQ.

use crate::common;
use crate::common::managed;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use brokers::rabbitmq::{Config, RabbitMq};

/// A node with TLS that the test itself drives; its guardian is this build's.
fn node() -> RabbitMq {
    let config = Config { guard: managed::guard(), tls: true, ..Config::default() };
    RabbitMq::start(&config, &mut |_| {}, &|| false).expect("a managed RabbitMQ")
}

fn client(dir: &Path, url: &str, args: &[&str]) -> common::Ended {
    let line = "client queue://secured --duration 1 --rate 300 --max-pending 100 --json --no-archive --url";
    common::run(dir, &[&common::words(line)[..], &[url], args].concat())
}

fn received(ended: &common::Ended) -> u64 {
    let summary = ended.json();
    let messages = &summary["scenarios"]["messages"];
    let received = messages["received"]["total"].as_u64().expect("received");
    assert_eq!(messages["ledger"]["lost"].as_u64(), Some(0), "{summary:#}");
    received
}

#[test]
fn rabbitmq_is_loaded_over_tls_and_takes_certificates_for_logins() {
    testkit::needs_rabbitmq!();
    let dir = &*common::folder();
    let node = node();
    let (url, plain) = (node.url(), node.plain_url());
    let tls = node.endpoint().expect("endpoint").tls.expect("TLS");
    let own = tls.identity.expect("identity");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (ca, cert, key) = (text(&tls.ca.expect("authority")), text(&own.certificate), text(&own.key));

    let ended = client(dir, &url, &["--ca", &ca]);
    assert!(received(&ended) > 100, "{ended:#?}");
    assert!(!ended.stdout.contains("certificate_not_checked"));

    // The password is wrong: it is not needed.
    let nobody = url.replace("guest:guest@", "nobody:wrong@");
    let by_name = ["--ca", &ca, "--cert", &cert, "--key", &key, "--auth", "external"];
    assert!(received(&client(dir, &nobody, &by_name)) > 100);

    let ended = client(dir, &url, &["--insecure"]);
    assert!(received(&ended) > 100);
    ended.prints(["certificate_not_checked"]).says(["--insecure: the broker's certificate was not"]);

    // The machine's own authorities have never heard of it.
    client(dir, &url, &[])
        .assert_error(1, &["cannot secure", "issued by nobody who is trusted here"])
        .says(["--ca FILE"]);

    client(dir, &url, &["--ca", &ca, "--sni", "other.example"])
        .assert_error(1, &["not for \"other.example\" but for", "localhost"]);

    // The server's own key pair is of the authority, but no user has its name.
    let server = [cert.replace("client.pem", "server.pem"), key.replace("client-key.pem", "server-key.pem")];
    client(dir, &url, &["--ca", &ca, "--auth", "external", "--cert", &server[0], "--key", &server[1]]).ends(1);

    let wrong = plain.replace("amqp://", "amqps://");
    client(dir, &wrong, &["--ca", &ca]).assert_error(1, &["AMQP without TLS"]).says(["5671"]);
    let ended = client(dir, &url.replace("amqps://", "amqp://"), &[]);
    // Erlang/OTP 25 resets the connection without a word, 27 says in TLS that it does not understand.
    let told: &[&str] = if ended.stderr.contains("it speaks TLS") {
        &["does not speak AMQP", "(amqps)"]
    } else {
        &["cannot connect", "could not log in"]
    };
    ended.assert_error(1, told).says(["amqps"]);

    client(dir, &plain, &["--ca", &ca]).assert_error(2, &["--ca has no effect without TLS"]);
    perf_test_does_the_same(dir, &url, [&ca, &cert, &key]);
}

/// PerfTest's options for TLS, with ours for certificates, and errors that name those.
fn perf_test_does_the_same(dir: &Path, url: &str, [ca, cert, key]: [&str; 3]) {
    let perf_test = |url: &str, more: &[&str]| {
        let usual = ["perf-test", "-h", url, "-u", "perf-test", "-z", "1"];
        common::run(dir, &[&usual, &["-r", "500", "-f", "mandatory"][..], more].concat())
    };
    let sends = |ended: common::Ended| {
        let average = ended.stdout.lines().find_map(|line| line.split_once("sending rate avg: "));
        let rate = average.and_then(|(_, rate)| rate.split(' ').next()?.parse::<u32>().ok());
        assert!(rate.is_some_and(|rate| rate > 100), "{ended:#?}");
        ended.ok()
    };
    let nobody = url.replace("guest:guest@", "nobody:wrong@");
    let by_name = ["-se", "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key];
    sends(perf_test(url, &["--tls-ca", ca]));
    sends(perf_test(url, &["--tls-ca", ca, "-sni", "localhost", "-sst", "5"]));
    sends(perf_test(&nobody, &by_name));
    sends(perf_test(url, &["--tls-insecure"])).says(["--tls-insecure: the broker's"]);

    perf_test(url, &[])
        .assert_error(1, &["issued by nobody who is trusted here"])
        .says(["--tls-ca FILE", "--tls-insecure"]);
    perf_test(url, &["--tls-ca", ca, "-sni", "other.example"]).assert_error(1, &["not for \"other.example\" but for"]);
    perf_test(url, &["-udsc", "--tls-ca", ca]).assert_error(2, &["use-default-ssl-context"]);
    perf_test(&url.replace("amqps", "amqp"), &["--tls-ca", ca])
        .assert_error(2, &["--tls-ca has no effect without TLS"]);
}

#[test]
fn the_embedded_broker_makes_its_own_certificates() {
    let dir = &*common::folder();
    let listen = ["--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0"];
    let start = |more: &[&str]| {
        let all = [&["broker", "--exit-with-stdin"], &listen[..], more].concat();
        let mut command = common::bellows(dir, &all);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("bellows");
        let lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let find = |line: String| line.strip_prefix("ready amqps://").map(str::to_owned);
        let found = lines.map_while(Result::ok).find_map(find);
        (child, format!("amqps://{}", found.expect("a TLS address")))
    };
    let (mut broker, url) = start(&["--tls-make", "."]);
    assert!(received(&client(dir, &url, &["--ca", "ca.pem"])) > 100);
    let by_name = ["--ca", "ca.pem", "--cert", "client.pem", "--key", "client-key.pem"];
    let by_name = [&by_name[..], &["--auth", "external"]].concat();
    let nobody = url.replace("amqps://", "amqps://nobody:wrong@");
    assert!(received(&client(dir, &nobody, &by_name)) > 100);
    client(dir, &url, &[]).assert_error(1, &["issued by nobody who is trusted here"]);
    drop(broker.stdin.take());
    broker.wait().expect("it ends");

    // The second finds what the first has made.
    let before = std::fs::read(dir.join("ca.pem")).expect("authority");
    let (mut broker, url) = start(&["--tls-make", ".", "--tls-require-cert"]);
    let after = std::fs::read(dir.join("ca.pem")).expect("authority");
    assert_eq!(before, after);
    client(dir, &url, &["--ca", "ca.pem"]).assert_error(1, &["CertificateRequired"]);
    assert!(received(&client(dir, &url, &by_name)) > 100);
    drop(broker.stdin.take());
    broker.wait().expect("it ends");

    common::run(dir, &["broker", "--tls-listen", "127.0.0.1:0"]).assert_error(2, &["--tls-listen needs a certificate"]);
    let files = ["--tls-cert", "nowhere.pem", "--tls-key", "client-key.pem"];
    common::run(dir, &[&["broker"], &listen[..], &files].concat()).assert_error(1, &["nowhere.pem", "No such file"]);
}
