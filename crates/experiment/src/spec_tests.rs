use load::{Distribution, RateProfile, SizeStep, Sizes, Spacing, Step};
use measure::{Bytes, Nanos, Problem};

use super::{BrokerKind, Experiment, OAuth2Spec, Origin, ScheduleSpec, Secret, SizeSpec, built_ins};

#[test]
fn a_built_in_experiment_reads_back_as_it_is_printed() {
    for built_in in built_ins() {
        let mut once = Experiment::built_in(built_in.name).unwrap();
        once.set("phases.measure=7s").unwrap();
        let printed = once.to_toml();
        assert_eq!(once.to_json(), read(&printed).to_json(), "{printed}");
    }
}

pub(super) fn read(text: &str) -> Experiment {
    Experiment::from_toml(text, "x.toml").unwrap_or_else(|e| panic!("{text}\n{e}"))
}

/// The error of an experiment that is refused; empty where it is fine.
pub(super) fn refused(text: &str) -> String {
    let checked = Experiment::from_toml(text, "x.toml").and_then(|read| read.validate());
    checked.err().map_or_else(String::new, |error| error.to_string())
}

fn shape(text: &str) -> RateProfile {
    let spec: ScheduleSpec = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    spec.resolve(false).unwrap().profile().clone()
}

#[test]
fn every_shape_is_read() {
    let second = Nanos::SECOND;
    assert_eq!(shape("constant:0.5"), shape("constant:rate=0.5"));
    let rise = Step { from: 100.0, to: 5_000.0, length: Nanos::from_millis(500) };
    let steps = vec![Step::level(1_000.0, Nanos(10 * second.0)), rise];
    assert_eq!(shape("steps:1000@10s, 100-5000@500ms,repeat=true"), RateProfile::Steps { steps, repeat: true });
    assert_eq!(shape("ramp:from=100,to=20000,over=60s"), RateProfile::ramp(100.0, 20_000.0, Nanos(60 * second.0)));
    let burst = RateProfile::bursts(10.0, second, 0.5, Nanos(4 * second.0));
    assert_eq!(shape("burst:rate=10,on=1s,off=4s,idle=0.5"), burst);
    let sine = RateProfile::Sine { mean: 5.0, amplitude: 4.0, period: Nanos(20 * second.0) };
    assert_eq!(shape("sine:mean=5,amplitude=4,period=20s"), sine);
    let arrivals = |text: &str| {
        let spec: ScheduleSpec = text.parse().unwrap();
        spec.resolve(true).unwrap().spacing()
    };
    assert_eq!(arrivals("poisson:5000,seed=7"), Spacing::Poisson { seed: 7 });
    assert_eq!(arrivals("sine:mean=5,amplitude=4,period=20s,arrivals=poisson"), Spacing::Poisson { seed: 0 });
    assert_eq!(arrivals("constant:1"), Spacing::Even);
}

#[test]
fn what_is_wrong_with_a_schedule_is_named_with_the_nearest_name_or_an_example() {
    for [text, parts @ ..] in testkit::table::<3>(include_str!("../tests/data/no-schedules.txt")) {
        let said = text.parse::<ScheduleSpec>().unwrap_err().to_string();
        testkit::assert_has(said, parts);
    }
}

fn experiment(load: &str) -> Result<Experiment, super::ExperimentError> {
    Experiment::from_toml(&format!("[[load]]\n{load}\n"), "x.toml")
}

#[test]
fn a_table_says_the_same_as_a_text() {
    let table = experiment("[load.schedule]\nshape = \"ramp\"\nfrom = 100\nto = 2e4\nover = \"60s\"").unwrap();
    let text = experiment("schedule = \"ramp:from=100,to=20000,over=60s\"").unwrap();
    assert_eq!(table, text);
    let steps = "shape = \"steps\"\nsteps = [\"1000@10s\", \"5000@10s\"]\nrepeat = true";
    let text = experiment("schedule = \"steps:1000@10s,5000@10s,repeat=true\"").unwrap();
    assert_eq!(experiment(&format!("[load.schedule]\n{steps}")).unwrap(), text);
    let error = experiment("[load.schedule]\nshape = \"ramp\"\nfrom = 1\nuntil = 2").unwrap_err();
    assert!(error.to_string().starts_with("x.toml:2"), "{error}");
    assert!(error.to_string().contains("unknown key of \"ramp\" \"until\""), "{error}");
    testkit::assert_has(experiment("[load.schedule]\nfrom = 1").unwrap_err().to_string(), ["needs a shape"]);
}

#[test]
fn what_is_kept_reads_back_the_same() {
    for [text] in testkit::table(include_str!("../tests/data/kept.txt")) {
        let once = experiment(text).unwrap();
        let again = Experiment::from_toml(&once.to_toml(), "again").unwrap();
        assert_eq!(once, again, "{}", once.to_toml());
        let json = once.to_json();
        assert!(json["load"][0].is_object(), "{json}");
    }
    let spec: ScheduleSpec = "steps:1@1s,2@1s,repeat=true".parse().unwrap();
    assert_eq!(spec.to_string().parse::<ScheduleSpec>().unwrap(), spec);
}

#[test]
fn the_pace_that_is_set_last_counts() {
    let mut experiment = experiment("rate = 20000").unwrap();
    experiment.set("load.0.schedule=poisson:50").unwrap();
    assert_eq!(experiment.load[0].rate, None);
    experiment.set("load.0.schedule.rate=70").unwrap();
    let schedule = experiment.load[0].schedule.clone().unwrap();
    assert_eq!(schedule, "poisson:70".parse().unwrap());
    experiment.set("load.0.think-time=5ms").unwrap();
    assert!(experiment.load[0].schedule.is_none());
    experiment.set("load.0.rate=1").unwrap();
    assert!(experiment.load[0].think_time.is_none());
    experiment.validate().unwrap();
}

#[test]
fn two_paces_are_one_too_many() {
    for (load, part) in [
        ("rate = 5\nschedule = \"constant:5\"", "load.0.schedule: there is a rate too"),
        ("rate-per-producer = true", "without a rate"),
        ("think-time = \"5ms\"\nmax-pending = 5", "one answer at a time"),
        ("schedule = \"trace:/nonexistent.csv\"", "/nonexistent.csv"),
        ("message-size = 4", "4 bytes"),
        ("resend = true", "add recover"),
        ("resend = true\nrecover = \"1s\"\nconfirm = false", "no answer is requested"),
        ("resend = true\nrecover = \"1s\"\nmessage-size = 31", "31 bytes has no room"),
    ] {
        testkit::assert_has(experiment(load).unwrap().validate().unwrap_err().to_string(), [part]);
    }
}

#[test]
fn every_kind_of_sizes_is_read() {
    let sizes = |text: &str| text.parse::<SizeSpec>().unwrap().resolve().unwrap();
    assert_eq!(sizes("12"), Sizes::Fixed(12));
    assert_eq!(sizes("100, 2000"), Sizes::List(vec![100, 2_000]));
    assert_eq!(sizes("list:100"), Sizes::List(vec![100]));
    let random = |text: &str| match sizes(text) {
        Sizes::Random { distribution, seed } => (distribution, seed),
        other => panic!("{other:?}"),
    };
    assert_eq!(random("uniform:100-2000,seed=9"), (Distribution::Uniform { min: 100, max: 2_000 }, 9));
    let normal = |min, max| Distribution::Normal { mean: 1_000.0, deviation: 200.0, min, max };
    assert_eq!(random("normal:mean=1000,sd=200").0, normal(200, 1_800));
    assert_eq!(random("normal:mean=1000,sd=200,min=12,max=5000").0, normal(12, 5_000));
    assert_eq!(sizes("100-2000"), sizes("uniform:100-2000"));
    assert_eq!(random("exponential:1000,max=5000").0, Distribution::Exponential { mean: 1_000.0, min: 12, max: 5_000 });
    let lognormal = Distribution::LogNormal { median: 800.0, sigma: 0.5, min: 108, max: 5_912 };
    assert_eq!(random("lognormal:median=800,sigma=0.5").0, lognormal);
    let step = |size, ms| SizeStep { size, length: Nanos::from_millis(ms) };
    let steps = vec![step(100, 30_000), step(2_000, 500)];
    assert_eq!(sizes("steps:100@30s, 2000@500ms,repeat=true"), Sizes::Steps { steps, repeat: true });
    assert_eq!(random("weighted:12x9,2000x0.5").0, Distribution::Weighted(vec![(12, 9.0), (2_000, 0.5)]));
    for [text, part] in testkit::table(include_str!("../tests/data/no-sizes.txt")) {
        testkit::assert_has(text.parse::<SizeSpec>().unwrap_err().to_string(), [part]);
    }
}

#[test]
fn rates_and_sizes_have_units_in_text_lists_and_tables() {
    let sizes = |text: &str| text.parse::<SizeSpec>().unwrap().resolve().unwrap();
    for (text, plain) in [
        ("4KiB", "4096"),
        ("1kB-4KiB", "1000-4096"),
        ("12, 1kB", "12,1000"),
        ("weighted:12x9,2kBx1", "weighted:12x9,2000x1"),
        ("steps:1KiB@1s,2kB@1s", "steps:1024@1s,2000@1s"),
        ("normal:mean=1kB,sd=200B,max=2KiB", "normal:mean=1000,sd=200,max=2048"),
    ] {
        assert_eq!(sizes(text), sizes(plain), "{text}");
    }
    for (text, plain) in [
        ("steps:1k@10s,100-5k@60s", "steps:1000@10s,100-5000@60s"),
        ("constant:120/min", "constant:2"),
        ("burst:rate=20k,on=1s,off=4s,idle=6/min", "burst:rate=20000,on=1s,off=4s,idle=0.1"),
    ] {
        assert_eq!(shape(text), shape(plain), "{text}");
    }
    let read = |text: &str| experiment(text).unwrap().load.remove(0);
    assert_eq!(read("rate = \"2k\"").rate, read("rate = 2000").rate);
    assert_eq!(read("rate = \"30/min\"").rate, read("rate = 0.5").rate);
    let size = |text: &str| read(text).message_size.resolve().unwrap();
    assert_eq!(size("message-size = \"4KiB\""), Sizes::Fixed(4_096));
    assert_eq!(size("message-size = [12, \"1kB\"]"), Sizes::List(vec![12, 1_000]));
    let churn = Experiment::from_toml("[churn]\nkind = \"queues\"\nmessage-size = \"1KiB\"", "x");
    assert_eq!(churn.unwrap().churn.unwrap().message_size, Bytes(1_024));
}

#[test]
fn an_open_loop_has_a_wide_window_unless_another_is_given() {
    for (load, window) in [
        ("", 1),
        ("rate = 500", 1_000),
        ("schedule = \"poisson:500\"", 1_000),
        ("think-time = \"5ms\"", 1),
        ("rate = 500\nmax-pending = 1", 1),
        ("max-pending = 0", 0),
    ] {
        let experiment = experiment(load).unwrap();
        experiment.validate().unwrap();
        let plan = experiment.plan(&experiment.endpoint().unwrap(), 1).unwrap();
        assert_eq!(plan.groups[0].producers.max_pending, window, "{load}");
        assert_eq!(experiment.to_json()["load"][0]["max-pending"], window, "{load}");
    }
}

#[test]
fn what_is_beyond_the_usual_reads_back() {
    let text = include_str!("../tests/data/beyond-the-usual.toml");
    let once = read(text);
    assert_eq!(once, read(&once.to_toml()));
    let load = &once.load[0];
    assert_eq!(load.handling.declare, load::Declare::IfMissing);
    assert_eq!(load.consumers.service.latency[1].to_string(), "2ms@5s");
    assert_eq!(load.properties.message_type.as_deref(), Some("order"));
    let bad = Experiment::from_toml("[[load]]\ndeclare = \"perhaps\"", "test");
    assert!(bad.unwrap_err().to_string().contains("if-missing"));
}

#[test]
fn files_are_read_once_however_often_an_experiment_is_planned() {
    let dir = tempfile::tempdir().expect("folder");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let (trace, body) = (file("trace.csv", "0\n0.5\n"), file("body", "a body of its own"));
    let text =
        format!("[[load]]\nschedule = \"trace:{}\"\nmessage-size = \"files:{}\"", trace.display(), body.display());
    let experiment = read(&text);
    experiment.validate().expect("valid");
    std::fs::remove_file(trace).expect("removed");
    std::fs::remove_file(body).expect("removed");
    let endpoint = experiment.endpoint().expect("an endpoint");
    let copy = experiment.clone();
    for planned in [&experiment, &copy] {
        assert!(planned.plan(&endpoint, 1).is_ok(), "nothing is read again");
    }
    let again = read(&text);
    assert!(again.validate().is_err(), "another experiment reads its own");
}

#[test]
fn a_page_of_the_broker_is_kept_and_the_password_of_another_is_not() {
    let text = "name = \"x\"\n[broker]\nkind = \"rabbitmq\"\n[[load]]\n\
        [[scrape]]\nurl = \"/metrics/detailed?family=queue_metrics\"\n\
        [[scrape]]\nurl = \"http://me:hunter2@127.0.0.1:1/metrics\"\n";
    let json = read(text).to_json();
    let urls: Vec<&str> = (0..2).map(|i| json["scrape"][i]["url"].as_str().unwrap()).collect();
    assert_eq!(urls[0], "/metrics/detailed?family=queue_metrics");
    assert!(!json.to_string().contains("hunter2"), "{json}");
}

#[test]
fn secrets_in_headers_and_arguments_are_in_no_archive() {
    let text = "name = \"x\"\n[broker]\nkind = \"embedded\"\n[[load]]\n\
        arguments = { x-max-length = 5, x-token = \"s3cret\" }\n\
        consumer-arguments = { x-pass = 4711, x-priority = 1 }\n[load.headers]\n\
        password = \"s3cret\"\nauthorization = \"Bearer s3cret\"\nx-api-key = \"s3cret\"\n\
        x-login = \"Basic s3cret\"\ntenant = \"blue\"\nnumber = 7\n";
    let experiment = read(text);
    let json = experiment.to_json();
    let load = &json["load"][0];
    for told in [json.to_string(), experiment.to_toml()] {
        assert!(!told.contains("s3cret") && !told.contains("4711"), "{told}");
    }
    for (table, key) in
        [("headers", "password"), ("headers", "x-login"), ("arguments", "x-token"), ("consumer-arguments", "x-pass")]
    {
        assert_eq!(load[table][key], "***", "{table}.{key}");
    }
    assert_eq!(load["headers"]["tenant"], "blue");
    assert_eq!(load["headers"]["number"], 7);
    assert_eq!(load["arguments"]["x-max-length"], 5);
    assert_eq!(load["consumer-arguments"]["x-priority"], 1);
}

/// Every value in a table that is no table, with its dotted path.
fn values(of: &toml::Value, path: &str, found: &mut Vec<(String, String)>) {
    let below = |key: &str| format!("{path}{}{key}", if path.is_empty() { "" } else { "." });
    match of {
        toml::Value::Table(table) => {
            for (key, value) in table {
                values(value, &below(key), found);
            }
        }
        toml::Value::Array(items) if items.iter().all(toml::Value::is_table) => {
            for (index, item) in items.iter().enumerate() {
                values(item, &below(&index.to_string()), found);
            }
        }
        value => found.push((path.to_owned(), value.to_string())),
    }
}

/// Fields of tables of the file that hold a secret, as the sources declare them.
fn declared_secrets() -> usize {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let files = std::fs::read_dir(folder).expect("sources").flatten();
    let texts = files.map(|file| std::fs::read_to_string(file.path()).expect("a source"));
    let of =
        |text: String| text.lines().map(str::trim_end).filter(|row| row.ends_with(": Option<Secret> = None,")).count();
    texts.map(of).sum()
}

/// `--set` dropped the secrets that have no key.
#[test]
fn a_change_keeps_every_secret() {
    let text = "name = \"x\"\n[broker]\nkind = \"attach\"\npassword = \"s3cret\"\n\
        [broker.oauth2]\nuri = \"http://h/token\"\nclient-id = \"me\"\n[broker.oauth2.parameters]\norg = \"1\"\n\
        [[load]]\nrate = 5\n[load.headers]\ntenant = \"blue\"\n\
        [[probe]]\nurl = \"http://h:1/\"\n[[probe]]\nname = \"b\"\nurl = \"http://h:2/\"\n\
        [[scrape]]\nurl = \"http://h:1/metrics\"\npassword = \"s3cret\"\n";
    let mut experiment = read(text);
    let secret = || Some(Secret::new("s3cret"));
    experiment.broker.oauth2.as_mut().unwrap().client_secret = secret();
    experiment.probe[1].password = secret();
    assert_eq!(experiment.secrets().len(), declared_secrets());
    let shown = format!("{experiment:?} {}", serde_json::to_string(&experiment).unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
    let mut found = Vec::new();
    values(&toml::Value::try_from(&experiment).unwrap(), "", &mut found);
    let is_hidden = |value: &str| value.contains("***");
    for (path, value) in found.iter().filter(|(_, value)| !is_hidden(value)) {
        let mut edited = experiment.clone();
        let set = edited.set(&format!("{path}={value}"));
        set.unwrap_or_else(|e| panic!("{path}={value}: {e}"));
        assert_eq!(edited.secrets(), experiment.secrets(), "{path}");
        assert_eq!(edited.to_json(), experiment.to_json(), "{path}");
    }
    // A new table has none of the old one's.
    experiment.set("probe=[{ url = \"http://h:3/\" }]").unwrap();
    assert_eq!(experiment.probe[0].password, None);
    assert_eq!(experiment.secrets().len(), declared_secrets() - 1);
}

#[test]
fn what_differs_in_hidden_words_is_known_before_they_are_hidden() {
    let of = |password: &str, rate: u32| {
        let text = format!(
            "name = \"x\"\n[broker]\nkind = \"embedded\"\n[[load]]\nrate = {rate}\n\
             [[load]]\nkind = \"command\"\ncommand = [\"sh\", \"-c\", \"sleep 9\", \"--password\", \"{password}\"]\n"
        );
        read(&text)
    };
    let one = of("one", 5);
    assert_eq!(one.to_json(), of("two", 5).to_json());
    assert!(one.differs_in_hidden(&of("two", 5)) && one.differs_in_hidden(&of("two", 6)));
    assert!(!one.differs_in_hidden(&of("one", 5)) && !one.differs_in_hidden(&of("one", 6)));
}

/// `--resume` went on with the runs of another password.
#[test]
fn every_secret_is_one_of_the_hidden_values() {
    let of = |broker: &str, page: &str| {
        let text = format!(
            "name = \"x\"\n# {page}\n[broker]\nkind = \"attach\"\npassword = \"{broker}\"\n[[load]]\n\
             [[scrape]]\nurl = \"http://h:1/metrics\"\npassword = \"{page}\"\n"
        );
        read(&text)
    };
    let one = of("one", "one");
    for other in [of("two", "one"), of("one", "two")] {
        assert_eq!(one.to_json(), other.to_json());
        assert!(one.differs_in_hidden(&other));
    }
    assert!(!one.differs_in_hidden(&of("one", "one")));
    let with_token = |secret: &str| {
        let mut experiment = one.clone();
        experiment.broker.oauth2 =
            Some(OAuth2Spec { client_secret: Some(Secret::new(secret)), ..OAuth2Spec::default() });
        experiment
    };
    assert!(with_token("one").differs_in_hidden(&with_token("two")));
    assert!(!with_token("one").differs_in_hidden(&with_token("one")));
    // Where the values were written is none of them.
    let mut changed = one.clone();
    changed.set("scrape.0.password=\"two\"").unwrap();
    assert!(one.differs_in_hidden(&changed));
    changed.set("scrape.0.password=\"one\"").unwrap();
    assert!(!one.differs_in_hidden(&changed));
    // A text may be a number; only the broker's could.
    for text in ["1e5", "007", "1_000", "true", "2026-01-01 00:00:00"] {
        changed.set(&format!("scrape.0.password={text}")).unwrap();
        assert_eq!(changed.scrape[0].password, Some(Secret::new(text)));
        changed.set(&format!("broker.password={text}")).unwrap();
        assert_eq!(changed.broker.password, Some(Secret::new(text)));
    }
    let refused = changed.set("load.0.producers=true").unwrap_err().to_string();
    assert!(refused.contains("a whole number"), "{refused}");
}

#[test]
fn where_every_load_has_its_own_broker_the_first_is_watched() {
    let port = |loads: &str| {
        let experiment = read(&format!("name = \"x\"\n[broker]\nkind = \"attach\"\n{loads}"));
        experiment.endpoint().unwrap().port
    };
    let own = |port: u16| format!("[[load]]\ndestination = \"queue://q\"\nurl = \"amqp://127.0.0.1:{port}\"\n");
    let default = "[[load]]\ndestination = \"queue://q\"\n";
    assert_eq!(port(&(own(7_001) + &own(7_002))), 7_001);
    assert_eq!(port(&(own(7_001) + default)), 5_672);
    assert_eq!(port(default), 5_672);
}

/// A name that the archive could not read again is refused before the run.
#[test]
fn a_name_is_as_long_as_the_archive_takes_it() {
    let of = |bytes: usize| refused(&format!("name = \"{}\"\n[[load]]\n", "n".repeat(bytes)));
    assert_eq!(of(1_000), "");
    testkit::assert_has(of(1_001), ["name has 1001 bytes"]);
}

/// Figures go by names in which capitals, spaces, `-` and `_` are alike: of two alike, one would be compared with the
/// other's values.
#[test]
fn probes_and_pages_that_results_do_not_tell_apart_are_refused() {
    let both = |kind: &str, one: &str, other: &str| {
        let table =
            |name: &str| format!("[[{kind}]]\nname = \"{name}\"\nurl = \"http://localhost:1/x\"\nevery = \"1s\"\n");
        let (one, other) = (table(one), table(other));
        refused(&format!("name = \"x\"\n[[load]]\ndestination = \"queue://q\"\n{one}{other}"))
    };
    for (one, other) in [("per-object", "per-object"), ("per-object", "per_object")] {
        assert_ne!(both("probe", one, other), "", "{one} {other}");
        assert_ne!(both("scrape", one, other), "", "{one} {other}");
    }
    testkit::assert_has(both("scrape", "per-object", "Per Object"), ["too similar for results"]);
    assert_eq!(both("scrape", "per-object", "perobject"), "");
}

#[test]
fn options_that_a_started_broker_does_not_have_are_refused_before_it_starts() {
    let artemis = "[broker]\nkind = 'artemis'\n[[load]]\ndestination = 'queue://q'\n";
    for (change, key) in [
        ("load.0.queue-type=quorum", "queue-type"),
        ("load.0.arguments.x-max-length=10", "x-max-length"),
        ("load.0.arguments.MyLimit=10", "MyLimit"),
        ("load.0.exchange.name=foo", "exchange"),
    ] {
        let mut asked = read(artemis);
        asked.set(change).unwrap();
        let text = asked.validate().unwrap_err().problem().sentence();
        assert!(text.contains(&format!("--set {change}")) && text.contains(key), "{text}");
        assert!(text.contains("ActiveMQ Artemis has none") && !text.contains('{'), "{text}");
    }
    let topic = "[broker]\nkind = 'rabbitmq'\n[[load]]\ndestination = 'topic://t'\nprotocol = 'amqp10'\n";
    for topic in [topic, topic.replace("rabbitmq", "embedded").as_str()] {
        testkit::assert_has(refused(topic), ["x.toml:4", "without subscription"]);
        assert_eq!(refused(&topic.replace("topic:", "queue:")), "");
    }
    // The only destination counts where no others are named.
    assert_eq!(refused(&format!("{topic}destinations = ['queue://q']\n")), "");
    // Every message was lost, and the remedy was another one.
    let keyed = "[[load]]\ndestination = 'queue://acme'\nrouting-key = 'acme.key.7'\n";
    let text = refused(keyed);
    assert!(text.contains("x.toml:3") && text.contains("the default exchange routes by the queue's name"), "{text}");
    for fine in
        [keyed.replace("acme.key.7", "acme"), keyed.replace("queue:", "topic:"), format!("{keyed}exchange = {{}}")]
    {
        assert_eq!(refused(&fine), "");
    }
    let selects = format!("{topic}destinations = ['queue://q']\nselector = 'a = 1'\n");
    testkit::assert_has(refused(&selects), ["x.toml:7", "selectors of queues"]);
    let taken = [format!("{selects}queue-type = 'stream'\n"), format!("{artemis}selector = 'a = 1'\n")];
    assert_eq!(taken.map(|it| refused(&it)), [""; 2]);
    testkit::assert_has(refused("[[load]]\nselector = 'a = 1'\n"), ["x.toml:2", "only AMQP 1.0 has selectors"]);
    let commits = "commit-every = 5\nconsumer-commit-every = 5\n";
    let text = refused(&format!("{topic}destinations = ['queue://q']\n{commits}"));
    assert!(text.contains("x.toml:7") && text.contains("has transactions over AMQP 1.0"), "{text}");
    assert_eq!(refused(&format!("{artemis}{commits}")), "");
    let artemis = artemis.replace("queue://", "topic://");
    assert_eq!(refused(&artemis), "");
    let by_url = "[broker]\nkind = 'attach'\nurl = 'amqp10://h'\n[[load]]\n";
    let asked = read(by_url);
    assert_eq!(asked.protocol_of(&asked.load[0]), load::Protocol::Amqp10);
    assert_eq!(asked.to_json()["broker"]["url"], "amqp10://guest@h:5672/");
    // It was archived as if nobody had asked for it: compared with AMQP 0.9.1, and without its limits.
    assert_eq!(asked.to_json()["load"][0]["protocol"], "amqp10");
    // Each load has its own.
    let cluster = "[broker]\nkind = 'attach'\nurl = 'amqp://h'\nfurther-urls = ['amqp://g']\n";
    let both = read(&format!("{cluster}[[load]]\n[[load]]\nprotocol = 'amqp10'\n"));
    let plan = both.plan(&load::Endpoint::new("h", 1), 1).expect("a plan");
    for (group, protocol) in plan.groups.iter().zip([load::Protocol::Amqp091, load::Protocol::Amqp10]) {
        let nodes = [group.protocol, group.endpoint.protocol, group.further[0].protocol];
        assert_eq!(nodes, [protocol; 3]);
    }
    let text = refused(&format!("{by_url}protocol = 'amqp091'\n"));
    assert!(text.contains("x.toml:5") && text.contains("the broker's URL says amqp10://"), "{text}");
    let churn = |kind: &str| refused(&by_url.replace("[[load]]", &format!("[churn]\nkind = '{kind}'")));
    assert_eq!([churn("connections"), churn("links")], [""; 2]);
    testkit::assert_has(churn("queues"), ["x.toml:5", "AMQP 1.0 has sessions and links"]);
}

/// `ab --b-set` and `--over` change values, too: an error names the option that gave the value, whenever it is found.
#[test]
fn errors_name_the_option_that_was_given() {
    let mut experiment = Experiment::built_in("demo").expect("it is there");
    let refused = experiment.set_by("--b-set", "broker.memory-limit=512MiB");
    let told = refused.expect_err("no such key").problem().cause;
    assert!(told.starts_with("--b-set broker.memory-limit=512MiB: "), "{told}");
    experiment.set_by("--over", "load.0.message-size=8").expect("a size");
    let told = experiment.validate().expect_err("too small").problem().cause;
    assert!(told.starts_with("--over load.0.message-size=8: "), "{told}");
    let typed = Experiment { origin: Origin::options(&[]), ..Experiment::default() };
    let told = |key: &str| typed.explain(Problem::new("it is wrong", "", "change it").about(key)).cause;
    assert_eq!(told("probe.0.ca"), "--ca: it is wrong");
    assert_eq!(told("probe.0"), "it is wrong", "no option sets all of it");
}

#[test]
fn keys_that_are_not_the_defaults_are_told() {
    let text = "name = \"x\"\n[broker]\nkind = \"embedded\"\n[phases]\nmeasure = \"20s\"\n\
        [[load]]\nproducers = 1\nrate = 10\n[[probe]]\nurl = \"http://h/\"\n";
    let experiment = read(text);
    let changed = experiment.changed_keys();
    for (keys, are_told) in [
        (["name", "broker.kind", "phases.measure", "load.0.rate", "probe.0.url"], true),
        (["threads", "ledger", "phases.drain", "load.0.producers", "probe.0.timeout"], false),
    ] {
        for key in keys {
            assert_eq!(changed.iter().any(|it| it == key), are_told, "{key}: {changed:?}");
        }
    }
    let json = experiment.to_json();
    let path = |key: &str| format!("/{}", key.replace('.', "/"));
    let unknown: Vec<_> = changed.iter().filter(|it| json.pointer(&path(it)).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    // The address of a broker that nobody spoke to was archived.
    let probed = "name = \"x\"\n[broker]\nkind = \"attach\"\nurl = \"amqp://h:1\"\n[[probe]]\nurl = \"http://h:1/\"\n";
    for (load, is_kept) in [("", false), ("[[load]]\nproducers = 1\n", true)] {
        let experiment = read(&format!("{probed}{load}"));
        let archived = experiment.to_json()["broker"].get("url").is_some();
        let is_told = experiment.changed_keys().iter().any(|it| it == "broker.url");
        assert_eq!((archived, is_told), (is_kept, is_kept), "{load}");
    }
}

/// A RabbitMQ was started and named beside the probed server, which was not watched.
#[test]
fn no_broker_is_started_where_only_other_servers_are_probed() {
    let probed = "[phases]\nmeasure = \"1s\"\n[[probe]]\nurl = \"http://127.0.0.1:18097/\"\n";
    let alone = read(probed);
    assert!(alone.asks_servers_alone());
    assert_eq!(alone.endpoint().map(|it| it.port), Ok(18_097));
    alone.validate().unwrap();
    for needs in ["[broker]\ntls = true\n", "[[load]]\n", "[[probe]]\nname = \"b\"\nurl = \"/api/overview\"\n"] {
        assert_eq!(read(&format!("{probed}{needs}")).broker.kind, BrokerKind::Rabbitmq, "{needs}");
    }
    for set in ["broker.kind=rabbitmq", "probe.0.url=/api/overview", "load=[{ producers = 1 }]"] {
        let mut changed = alone.clone();
        changed.set(set).unwrap();
        assert_eq!(changed.broker.kind, BrokerKind::Rabbitmq, "{set}");
    }
    let mut by_option = read("[[load]]\n");
    by_option.broker.kind = BrokerKind::Embedded;
    by_option.set("load.0.rate=5").unwrap();
    assert_eq!(by_option.broker.kind, BrokerKind::Embedded);
}

/// It holds no key that one of the two protocols does not know, and its windows are alike.
#[test]
fn the_matched_experiment_is_of_either_protocol() {
    for protocol in ["amqp091", "amqp10"] {
        for (queue_type, consumers) in [("classic", 1), ("quorum", 1), ("stream", 0)] {
            let mut matched = Experiment::built_in("matched").expect("it is there");
            matched.set(&format!("load.0.protocol={protocol}")).unwrap();
            matched.set(&format!("load.0.queue-type={queue_type}")).unwrap();
            matched.set(&format!("load.0.consumers={consumers}")).unwrap();
            matched.validate().unwrap_or_else(|e| panic!("{protocol}, {queue_type}: {e}"));
        }
    }
    let matched = Experiment::built_in("matched").expect("it is there");
    let load = &matched.load[0];
    assert_eq!(load.in_flight_window(), u32::from(load.consumers.prefetch));
    // The report tells the limit from what is archived.
    assert!(matched.to_json()["broker"]["advanced"].as_str().is_some_and(|it| it.contains("{max_link_credit, 400}")));
}

/// A wildcard has no place where messages are published, and each protocol's keys have none with another.
#[test]
fn mqtt_is_asked_for_by_kind_url_or_key_and_refused_where_it_is_not_spoken() {
    let mosquitto = "[broker]\nkind = 'mosquitto'\n";
    let attached = "[broker]\nkind = 'attach'\nurl = 'mqtt://h'\n";
    for head in [mosquitto, attached] {
        let both = read(&format!(
            "{head}[[load]]\nproducers = 0\nsubscribe = ['a/#', 'b']\nqos = 2\n[[load]]\nconsumers = 0\n\
             destination = 'topic://a/%i'\nqos = 0\nmqtt-version = '3.1.1'\n"
        ));
        assert_eq!(both.protocol_of(&both.load[0]), load::Protocol::Mqtt);
        let plan = both.plan(&both.endpoint().unwrap(), 0).unwrap();
        let names: Vec<String> = plan.groups.iter().flat_map(|it| &it.destinations).map(ToString::to_string).collect();
        assert_eq!(names, ["topic://a/#", "topic://b", "topic://a/%i"]);
        let found = plan.groups.iter().map(|it| (it.producers.guarantee, it.endpoint.connection.mqtt_version));
        let (confirms, none) = (load::Guarantee::Confirms, load::Guarantee::Unconfirmed);
        assert_eq!(found.collect::<Vec<_>>(), [(confirms, load::MqttVersion::V5), (none, load::MqttVersion::V311)]);
        assert!(both.validate().is_ok());
    }
    for (text, parts) in [
        ("[broker]\nkind = 'rabbitmq'\n[[load]]\nprotocol = 'mqtt'\n", ["does not speak it", "mosquitto"]),
        ("[broker]\nkind = 'mosquitto'\n[[load]]\nprotocol = 'amqp10'\n", ["does not speak it", "another broker.kind"]),
        ("[broker]\nkind = 'embedded'\n[[load]]\nqos = 1\n", ["no effect without MQTT", "protocol mqtt"]),
        ("[broker]\nkind = 'mosquitto'\n[[load]]\nsubscribe = ['a']\n", ["filters have none", "producers = 0"]),
        ("[broker]\nkind = 'mosquitto'\n[[load]]\ndestination = 'topic://a/+'\n", ["has a wildcard", "subscribe"]),
        (
            "[broker]\nkind = 'mosquitto'\n[[load]]\nconfirm = false\nqos = 1\n",
            ["has acknowledgements", "one of the two"],
        ),
    ] {
        let text = read(text).validate().unwrap_err().problem().sentence();
        testkit::assert_has(text, parts);
    }
}
