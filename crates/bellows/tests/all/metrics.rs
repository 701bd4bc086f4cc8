//! Series that go out while a run is on: to Debian's Prometheus and InfluxDB, and to servers that refuse them.

use crate::common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::pages::answer;
use common::{Broker, bellows, folder, free_port, listener, only_run, start, wait_for};
use serde_json::Value;
use testkit::ChildGuard;

/// A server of Debian's that ends with the test.
fn server(dir: &Path, program: &str, args: &[&str]) -> ChildGuard {
    let log = fs::File::create(dir.join("server.log")).expect("a log");
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("a log")).stderr(log);
    ChildGuard(command.spawn().expect(program))
}

fn is_installed(program: &str) -> bool {
    Path::new("/usr/bin").join(program).exists()
}

/// The body of an answer with status 200.
fn ask(port: u16, method: &str, target: &str) -> Option<String> {
    let answer = common::ask_page(port, &format!("{method} {target} HTTP/1.0"), "Content-Length: 0\r\n").ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn dashboard_expressions() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/bellows.json");
    let dashboard = json(&fs::read_to_string(file).expect("the dashboard"));
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let all = targets.map(|target| target["expr"].as_str().expect("a query").to_owned());
    all.collect()
}

/// Host and port of a run's page, once it has written them into this file.
fn page_of(said: &Path) -> String {
    let page = || {
        let said = fs::read_to_string(said).expect("a file");
        let line = said.lines().find_map(|line| line.strip_prefix("metrics: http://"));
        line.and_then(|url| url.strip_suffix("/metrics")).map(str::to_owned)
    };
    wait_for("the page", || page().is_some());
    page().expect("a page")
}

fn lasting<'a>(seconds: &'a str, address: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = common::words("client queue://demo --rate 2000 --json --max-pending 500");
    [&all[..], &["--duration", seconds, "--url", address], more].concat()
}

fn load<'a>(address: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    lasting("5", address, more)
}

#[test]
fn prometheus_scrapes_what_the_run_recorded() {
    if !is_installed("prometheus") {
        testkit::skip!("no prometheus; apt-get install prometheus");
    }
    let (broker, dir) = &common::broker_in_folder();
    // Where the page is, is said on standard error.
    let said = dir.join("said");
    let mut command = bellows(dir, &lasting("15", &broker.url, &["--metrics", "0"]));
    command.stdout(Stdio::piped()).stderr(fs::File::create(&said).expect("a file"));
    let started = command.spawn().expect("bellows");
    let page = page_of(&said);
    let config = format!(
        "global: {{scrape_interval: 500ms, scrape_timeout: 400ms}}\n\
         scrape_configs:\n- job_name: bellows\n  static_configs: [{{targets: ['{page}']}}]\n"
    );
    fs::write(dir.join("prometheus.yml"), config).expect("a file");
    let port = free_port();
    let listen = format!("--web.listen-address=127.0.0.1:{port}");
    let _server = server(dir, "prometheus", &["--config.file=prometheus.yml", "--storage.tsdb.path=data", &listen]);
    wait_for("Prometheus", || ask(port, "GET", "/-/ready").is_some());
    let query = |text: &str| {
        let answer = ask(port, "GET", &format!("/api/v1/query?query={text}"))?;
        let value = json(&answer);
        let first = value["data"]["result"].get(0)?["value"][1].as_str()?;
        first.parse::<f64>().ok()
    };
    // One scrape may end too late on a full machine.
    wait_for("a scrape of the measured phase", || {
        query("up") == Some(1.0)
            && query("sum(rate(bellows_messages_sent_total%5B3s%5D))").is_some_and(|rate| rate > 1_500.0)
    });
    let rate = query("sum(rate(bellows_messages_sent_total%5B3s%5D))").expect("a rate");
    let p99 = "histogram_quantile(0.99,bellows_latency_seconds_bucket%7Blatency=%22ack_response%22%7D)";
    let p99 = query(p99).expect("a quantile");
    let exact = "bellows_latency_quantile_seconds%7Blatency=%22ack_response%22,quantile=%220.99%22%7D";
    assert!(query(exact).is_some_and(|s| s > 0.0));
    // The machine's, and those of both processes.
    let cores = query("sum(bellows_machine_cpu_cores)").expect("cores");
    assert!(cores > 0.0 && cores < 1e4, "{cores}");
    assert_eq!(query("count(bellows_process_memory_bytes)"), Some(2.0));
    for expression in dashboard_expressions() {
        let text = expression.replace("$__rate_interval", "3s").replace("$experiment", ".*");
        let text: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert!(query(&text).is_some(), "nothing is shown for {expression}");
    }
    let ended = started.wait_with_output().expect("an end");
    assert!(ended.status.success(), "{}", fs::read_to_string(&said).unwrap_or_default());
    let summary = json(&String::from_utf8_lossy(&ended.stdout));
    assert!((rate - 2_000.0).abs() < 700.0, "{rate}");
    let recorded = summary["scenarios"]["messages"]["latency"]["ack_response"]["p99_ns"].as_f64().expect("p99") / 1e9;
    // Buckets are 1, 2 and 5 of each decade, and the run went on after the question.
    assert!(p99 < recorded * 30.0 + 0.01 && p99 > recorded / 30.0, "{p99} {recorded}");
}

#[test]
fn influxdb_is_sent_every_message_that_was_counted() {
    if !is_installed("influxd") {
        testkit::skip!("no influxd; apt-get install influxdb");
    }
    let dir = folder();
    let (port, rpc) = (free_port(), free_port());
    let at = |name: &str| dir.path().join(name).display().to_string();
    let config = format!(
        "reporting-disabled = true\nbind-address = \"127.0.0.1:{rpc}\"\n[meta]\ndir = \"{}\"\n\
         [data]\ndir = \"{}\"\nwal-dir = \"{}\"\n[http]\nbind-address = \"127.0.0.1:{port}\"\n\
         [monitor]\nstore-enabled = false\n",
        at("meta"),
        at("data"),
        at("wal"),
    );
    fs::write(dir.path().join("influx.conf"), config).expect("a file");
    let _server = server(dir.path(), "influxd", &["-config", "influx.conf"]);
    wait_for("InfluxDB", || ask(port, "GET", "/query?q=SHOW%20DATABASES").is_some());
    ask(port, "POST", "/query?q=CREATE%20DATABASE%20load").expect("a database");
    let broker = Broker::start(dir.path());
    let to = format!("http://127.0.0.1:{port}/write?db=load");
    let ended = start(bellows(dir.path(), &load(&broker.url, &["--metrics-to", &to]))).end().ok();
    let summary = json(&ended.stdout);
    let messages = &summary["scenarios"]["messages"];
    let query = |text: &str| {
        let text = text.replace(' ', "%20").replace('"', "%22");
        let answer = ask(port, "GET", &format!("/query?db=load&q={text}")).expect("an answer");
        json(&answer)["results"][0]["series"][0]["values"].clone()
    };
    let last = |name: &str| query(&format!("SELECT LAST(counter) FROM {name}"))[0][1].as_u64();
    assert_eq!(last("bellows_messages_sent"), messages["sent"]["total"].as_u64());
    assert_eq!(last("bellows_messages_received"), messages["received"]["total"].as_u64());
    let latency = query("SELECT LAST(count) FROM bellows_latency_seconds WHERE latency='ack_response'");
    assert_eq!(latency[0][1].as_u64(), messages["sent"]["total"].as_u64());
    let seconds = query("SELECT COUNT(gauge) FROM bellows_machine_context_switches_per_second");
    assert!(seconds[0][1].as_u64().is_some_and(|count| count >= 4), "{seconds}");
    assert!(!ended.stderr.contains("not sent"), "{}", ended.stderr);
}

/// Answers every request with a status, and keeps its body.
fn refusing(status: &'static str) -> (String, std::sync::mpsc::Receiver<String>) {
    let (listener, address) = listener();
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
            let mut request = Vec::new();
            let _ = stream.read_to_end(&mut request);
            let _ = tell.send(String::from_utf8_lossy(&request).into_owned());
            let _ = stream.write_all(answer(status, "you sent sesame").as_bytes());
        }
    });
    (format!("http://{address}/v1/metrics"), told)
}

#[test]
fn a_server_that_refuses_is_told_of_once_and_its_token_never() {
    let (broker, dir) = &common::broker_in_folder();
    let (to, told) = refusing("401 Unauthorized");
    let ended =
        start(bellows(dir, &lasting("2", &broker.url, &["--metrics-to", &to])).env("BELLOWS_METRICS_TOKEN", "sesame"))
            .end()
            .ok();
    let first = told.recv_timeout(Duration::from_secs(1)).expect("a request");
    assert!(first.to_lowercase().contains("authorization: bearer sesame"), "{first}");
    assert_eq!(ended.stderr.matches("401 Unauthorized").count(), 1, "{}", ended.stderr);
    ended.says(["BELLOWS_METRICS_TOKEN", "were not sent"]);
    let mut kept = ended.stderr + &ended.stdout;
    for file in fs::read_dir(only_run(dir)).expect("a run").flatten() {
        kept += &String::from_utf8_lossy(&fs::read(file.path()).expect("a file"));
    }
    assert!(!kept.contains("sesame"));
}

#[test]
fn addresses_that_make_no_sense_are_refused_and_a_server_that_is_silent_delays_nothing() {
    let (broker, dir) = &common::broker_in_folder();
    let refuse = |more: &[&str], part: &str| {
        start(bellows(dir, &load(&broker.url, more))).end().assert_error(2, &[part]);
    };
    refuse(&["--metrics-to", "http://127.0.0.1:1/"], "its path names no protocol");
    refuse(&["--metrics-to", "http://u:geheim@127.0.0.1/v1/metrics"], "it contains a password");
    // Taken by the broker.
    start(bellows(dir, &load(&broker.url, &["--metrics", broker.address()])))
        .end()
        .assert_error(1, &["cannot serve metrics"]);

    let (_silent, address) = listener();
    let to = format!("http://{address}/v1/metrics");
    let begun = Instant::now();
    let ended = start(bellows(dir, &lasting("2", &broker.url, &["--metrics-to", &to]))).end().ok();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(ended.stderr.contains("were not sent"), "{}", ended.stderr);
}

/// A page with a gauge and a counter that grows by ten from one request to the next.
fn page_of_both() -> String {
    let (listener, address) = listener();
    thread::spawn(move || {
        for (number, mut stream) in listener.incoming().flatten().enumerate() {
            let _ = stream.read(&mut [0; 4096]);
            let jobs = number * 10;
            let page = format!("# TYPE jobs counter\njobs {jobs}\n# TYPE depth gauge\ndepth 7\n");
            let _ = stream.write_all(answer("200 OK\r\nContent-Type: text/plain; version=0.0.4", &page).as_bytes());
        }
    });
    format!("http://{address}/metrics")
}

#[test]
fn a_scrapes_gauges_stay_beside_its_rates() {
    let dir = &*folder();
    let text = format!(
        "name = \"both\"\n[broker]\nkind = \"embedded\"\n[profile]\nevents = []\n\
         [phases]\nwarmup = \"100ms\"\nmeasure = \"5s\"\ndrain = \"2s\"\n[[load]]\nrate = 100\n\
         [[scrape]]\nurl = \"{}\"\nname = \"page\"\nevery = \"500ms\"\nselect = [\"jobs\", \"depth\"]\n",
        page_of_both()
    );
    fs::write(dir.join("both.toml"), text).expect("a file");
    let (to, told) = refusing("200 OK");
    let to = to.replace("/v1/metrics", "/write?db=load");
    let said = dir.join("said");
    let mut command = bellows(dir, &["run", "both.toml", "--metrics", "0", "--metrics-to", &to]);
    command.stdout(Stdio::null()).stderr(fs::File::create(&said).expect("a file"));
    let mut started = command.spawn().expect("bellows");
    let page = page_of(&said);
    let port: u16 = page.rsplit(':').next().and_then(|it| it.parse().ok()).expect("a port");
    let all = ["bellows_page_jobs", "bellows_page_depth", "bellows_page_scrape_time"];
    let lacks = |page: &str| all.iter().any(|name| !page.contains(name));
    wait_for("a rate", || ask(port, "GET", "/metrics").is_some_and(|page| page.contains(all[0])));
    for _ in 0..10 {
        let page = ask(port, "GET", "/metrics").expect("a page");
        assert!(!lacks(&page), "{page}");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(started.wait().expect("an end").success());
    let sent: Vec<String> = told.try_iter().collect();
    let rates = sent.iter().filter(|lines| lines.contains(all[0]));
    let lacking: Vec<_> = rates.clone().filter(|lines| lacks(lines)).collect();
    assert!(rates.count() > 1 && lacking.is_empty(), "{lacking:?} of {sent:?}");
}

#[test]
fn a_server_that_returns_as_another_process_has_used_cpu() {
    let (broker, dir) = &common::broker_in_folder();
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let serve = |seconds: &str| {
        let mut command = bellows(dir, &lasting(seconds, &broker.url, &["--metrics", &address]));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(ChildGuard).expect("bellows")
    };
    let is_there = || ask(port, "GET", "/metrics").is_some();
    let mut first = serve("2");
    wait_for("the page", is_there);
    let url = format!("http://{address}/metrics");
    let args = ["scrape", &url, "--every", "100ms", "--for", "6", "--json"];
    let scraped = start(bellows(dir, &args));
    let probed = start(bellows(dir, &["probe", &url, "--every", "100ms", "--duration", "6", "--json"]));
    first.wait().expect("its end");
    thread::sleep(Duration::from_millis(800));
    let second = serve("60");
    let (scraped, probed) = (scraped.end(), probed.end());
    drop(second);
    let object = scraped.json();
    let page = &object["scrapes"][0];
    let help = page["problem"]["help"].as_str().unwrap_or_default();
    assert!(help.starts_with("the page existed before"), "{page:#}");
    assert!(page["failed"].as_u64() >= Some(1), "{page:#}");
    // Messages were sent meanwhile: the two have used milliseconds for each page.
    assert!(page["server_cpu_ns"].as_u64() > Some(100_000), "{page:#}");
    let object = probed.says(["requests are answered again, after "]).json();
    let cpu = object["cpu_cores"]["broker"].as_f64();
    assert!(cpu > Some(0.0) && cpu < Some(2.0), "{object:#}");
}
