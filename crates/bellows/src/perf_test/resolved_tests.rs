//! Command lines and their meaning.

use experiment::LoadSpec;
use load::{Ack, Allocation, Argument, Auth, Declare, QueueType, Refusal, StreamOffset};
use measure::{Length, Rate};

use super::*;

fn read(line: &str) -> Result<ResolvedRun, Failure> {
    resolve(&super::super::values::tests::read(line)?, "id".into())
}

fn experiment(line: &str) -> Experiment {
    let resolved = read(line).unwrap_or_else(|e| panic!("{line}: {e:?}"));
    let valid = resolved.experiment.validate();
    valid.unwrap_or_else(|e| panic!("{line}: {e}"));
    resolved.experiment
}

fn load(line: &str) -> LoadSpec {
    let load = experiment(line).load;
    load.into_iter().next().expect("a load")
}

#[track_caller]
fn assert_refused<const N: usize>(lines: [&str; N]) {
    for line in lines {
        assert!(read(line).is_err(), "{line}");
    }
}

#[test]
fn errors_name_the_options_of_perf_test() {
    for (line, option) in [
        ("-h amqp://h -se", "-se/--sasl-external"),
        ("-h amqp://h -sni x", "-sni/--server-name-indication"),
        ("-M 1", "-M/--framemax"),
    ] {
        let refused = read(line).expect("a test").experiment.validate();
        let error = refused.expect_err(line).to_string();
        assert!(error.contains(option), "{error}");
    }
}

#[test]
fn nothing_said_is_what_perf_test_does() {
    let spec = load("");
    assert_eq!((spec.total_producers, spec.consumers.total), (Some(1), Some(1)));
    assert_eq!(spec.message_size.to_string(), "12");
    assert_eq!((spec.confirm, spec.max_pending, spec.rate), (false, Some(0), None));
    assert_eq!((spec.consumers.prefetch, spec.consumers.ack), (0, Ack::Every(1)));
    assert!(!spec.queue.durable && !spec.persistent && spec.queue.auto_delete && !spec.handling.delete);
    assert_eq!(spec.recover.map(|wait| wait.to_string()), Some("5s".into()));
    let exchange = spec.queue.exchange.expect("an exchange");
    assert_eq!((exchange.name.as_str(), exchange.kind.as_str()), ("direct", "direct"));
    assert!(exchange.durable);
    // A queue of its own, bound with a key that nobody else has.
    assert_eq!(spec.destination, "topic://perf-test-id");
    assert_eq!(spec.queue.routing_key.map(|key| key.len()), Some(36));
    let experiment = experiment("");
    assert!(experiment.phases.measure.is_zero() && experiment.ledger);
    // And one for the question what the broker still holds.
    assert_eq!(experiment.phases.drain, Length::seconds(4));
    assert_eq!(experiment.broker.url.as_deref(), Some("amqp://localhost"));
}

#[test]
fn queues_are_declared_as_perf_test_declares_them() {
    let spec = load("-u q -sq -ma PT1H -ll balanced");
    assert_eq!((spec.queue.queue_type, spec.consumers.prefetch), (QueueType::Stream, 200));
    let text = |key: &str| format!("{:?}", spec.queue.arguments.get(key));
    assert_eq!(text("x-max-length-bytes"), "Some(Integer(20000000000))");
    assert_eq!(text("x-stream-max-segment-size-bytes"), "Some(Integer(500000000))");
    assert_eq!(text("x-max-age"), "Some(Text(\"3600s\"))");
    assert!(spec.persistent && !spec.queue.auto_delete);
    let spec = load("-sq -u q -mlb 0 -q 10");
    assert_eq!((spec.consumers.prefetch, spec.queue.arguments.len()), (10, 1));
    let spec = load("-u q -qa x-queue-type=quorum,x-max-length=5 -ad false");
    assert_eq!((spec.queue.queue_type, spec.queue.arguments.len()), (QueueType::Quorum, 1));
    assert!(!spec.queue.auto_delete);
    assert_eq!(load("-u q -p").handling.declare, Declare::IfMissing);
    assert!(load("-u q -f persistent").queue.durable && load("-u q -qq").persistent);
    let spec = load("-E -u a,b -y 2 -Y 2");
    let shape = (spec.exclusive, spec.consumers.per_destination, spec.consumers.connections);
    assert_eq!(shape, (true, 4, Some(1)));
    let spec = load("-E -qp q-%d -qpf 1 -qpt 3 -y 7");
    let shape = (spec.exclusive, spec.consumers.total, spec.consumers.connections);
    assert_eq!(shape, (true, Some(7), Some(3)));
    assert!(load("-E").destination.starts_with("topic://"));
    assert_eq!(load("-E -f persistent -y 2").destinations.len(), 2);
    assert!(load("-u q -po").handling.delete && !load("-u q -po -ad false").handling.delete);
    assert_refused(["-p", "-sq -u q -mlb 100mb -smssb 200mb", "-u a,,b"]);
}

#[test]
fn exchanges_keys_and_queues_belong_together_as_in_perf_test() {
    let exchange = |line: &str| {
        let spec = load(line);
        let exchange = spec.queue.exchange.expect("an exchange");
        (exchange.name, exchange.kind)
    };
    for (line, name, kind) in [
        ("-u q -t topic", "topic", "topic"),
        ("-u q -e x", "x", "direct"),
        ("-u q -e x -t fanout", "x", "fanout"),
        ("-u q -e amq.default -k q", "", "direct"),
        ("-u q -e", "direct", "direct"),
    ] {
        assert_eq!(exchange(line), (name.into(), kind.into()), "{line}");
    }
    // One key for all that are listed, so that each queue gets every message.
    let spec = load("-u a,b -y 2 -x 3");
    assert_eq!(spec.destinations, ["queue://a", "queue://b"]);
    assert_eq!((spec.consumers.per_destination, spec.consumers.total), (2, None));
    assert_eq!((spec.consumers.connections, spec.total_producers), (Some(2), Some(3)));
    assert!(spec.queue.routing_key.is_some() && !experiment("-u a,b").ledger);
    // The queue's name in a sequence.
    assert_eq!(load("-qp q-%d -qpf 1 -qpt 2").queue.routing_key, None);
    assert_eq!(load("-qp q-%d -qpf 1 -qpt 2 -k k").queue.routing_key.as_deref(), Some("k"));
    // Types, arguments and names of their own for consumers that name no queue.
    let spec = load("-y 3 -qq");
    assert_eq!((spec.destinations.len(), spec.consumers.total), (3, Some(3)));
    assert!(load("-y 0").destination.starts_with("topic://"));
    assert!(!load("-u q -sb").queue.bind);
    assert_eq!(load("-u q -K").random_routing_keys, Some(0));
    assert_eq!(load("-u q -rkcs 50").random_routing_keys, Some(50));
    for line in ["-u q", "-qp q%d -qpf 1 -qpt 3", "-y 3"] {
        assert!(experiment(line).ledger, "{line}");
    }
    for line in ["-qp q%d -qpf 1 -qpt 3 -t fanout", "-y 3 -qq", "-u q -K", "-u q -sb"] {
        assert!(!experiment(line).ledger, "{line}");
    }
}

#[test]
fn counts_rates_and_channels_are_each_clients() {
    let spec = load("-x 4 -X 2 -y 2 -Y 3 -qp q%d -qpf 0 -qpt 2 -r 10 -C 7 -D 3");
    assert_eq!(spec.destinations, ["queue://q0", "queue://q1", "queue://q2"]);
    assert_eq!((spec.total_producers, spec.producer_connections), (Some(8), Some(4)));
    assert_eq!((spec.consumers.total, spec.consumers.connections), (Some(6), Some(2)));
    assert_eq!((spec.message_count, spec.consumers.message_count), (56, Some(18)));
    assert!(spec.rate_per_producer && spec.rate.map(Rate::get) == Some(10.0));
    let rate = |line: &str| load(line).rate.map(Rate::get);
    assert_eq!((rate("-P 0.5"), rate("-r 0"), rate("-r -1")), (Some(2.0), None, None));
    let schedule = |line: &str| load(line).schedule.map(|schedule| schedule.to_string());
    let steps = "steps:repeat=true,100@60s,0@10s";
    assert_eq!(schedule("-vr 100:60 0:10").as_deref(), Some(steps));
    assert_eq!((rate("-vr 100:60 -r 5"), schedule("-vr 100:60 -P 1")), (None, None));
    let size = |line: &str| load(line).message_size.to_string();
    assert_eq!(size("-vs 1000:30 -vs 5:10"), "steps:1000@30s,12@10s,repeat=true");
    assert_eq!(size("-B Cargo.toml,src"), "files:Cargo.toml,src");
    assert_eq!(size("-jb"), "json:12,fields=1000,count=100");
    assert_eq!(size("-jb -s 500 -bfc 7 -bc 3"), "json:500,fields=7,count=3");
    // Producers are there and send nothing.
    let idle = load("-r 0");
    assert!(idle.rate.is_none() && idle.start_after > Some(Length::seconds(1_000_000)));
    assert_refused(["-P 0.05", "-vr 100", "-vr 100:0", "-vs a:1", "-X 0", "-jb -bfc many"]);
}

/// Asking the broker what it still holds takes up to a second, which is a part of it.
#[test]
fn the_end_takes_no_longer_than_the_shutdown_timeout() {
    for (line, ms) in [("", 4_000), ("-st 3", 2_000), ("-st 1", 500), ("-st 0", 0)] {
        let drain = experiment(&format!("-u q {line}")).phases.drain;
        assert_eq!(drain.0, Nanos::from_millis(ms), "{line}");
    }
}

#[test]
fn producers_do_what_perf_test_s_do() {
    let spec = load("-u q -c 0 -s 5 -f mandatory");
    assert_eq!((spec.confirm, spec.max_pending, spec.mandatory), (true, Some(0), true));
    assert_eq!((spec.message_size.to_string(), spec.confirm_timeout), ("12".into(), None));
    assert_eq!(load("-c 5").confirm_timeout, Some(Length::seconds(30)));
    assert_eq!(load("-m 10").commit_every, 10);
    assert_eq!(load("-prsd 5").start_delay, Some(Length::seconds(5)));
    assert_eq!(load("-u q -dcr").recover, None);
    let recover = load("-u q -cri 30-60").recover.map(|wait| wait.to_string());
    assert_eq!(recover.as_deref(), Some("30s-1m"));
    let line = "-u q -T text/plain -mp priority=5,expiration=2000,deliveryMode=2,foo=bar,\
                n=1,timestamp=2024-05-01T12:00:00Z,correlationId=7";
    let spec = load(line);
    let given = &spec.properties;
    assert_eq!(given.content_type.as_deref(), Some("text/plain"));
    assert_eq!((given.priority, given.timestamp), (Some(5), Some(1_714_564_800)));
    assert_eq!(given.correlation_id.as_deref(), Some("7"));
    assert_eq!((spec.ttl, spec.persistent), (Some(Length::seconds(2)), true));
    assert_eq!(spec.headers.keys().collect::<Vec<_>>(), ["foo", "n"]);
    assert_refused(["-c 1 -m 1", "-cri 60-30", "-mp priority=high", "-mp priority=300", "-mf json", "-tnd perhaps"]);
}

#[test]
fn consumers_do_what_perf_test_s_do() {
    let spec = load("-u q -q 100 -Q 200 -A 10 -n 5 -R 50 -L 1500 -ca x-priority=3");
    assert_eq!((spec.consumers.ack, spec.consumers.prefetch), (Ack::Every(10), 100));
    assert_eq!((spec.consumers.amqp091.channel_prefetch, spec.consumers.commit_every), (200, 5));
    assert_eq!(spec.consumers.service.rate.map(Rate::get), Some(50.0));
    assert_eq!(spec.consumers.service.latency[0].to_string(), "1ms500us");
    assert_eq!(spec.consumers.amqp091.arguments.len(), 1);
    assert_eq!(load("-u q -vl 0:10 1000:5").consumers.service.latency[1].to_string(), "1ms@5s");
    let spec = load("-u q -a -A 5 -na -n 3");
    assert_eq!((spec.consumers.ack, spec.consumers.refuse), (Ack::Auto, None));
    assert_eq!(spec.consumers.commit_every, 0);
    assert_eq!(load("-u q -na").consumers.refuse, Some(Refusal::Requeue));
    assert_eq!(load("-u q -na -re false").consumers.refuse, Some(Refusal::Discard));
    assert_eq!(load("-u q -po -pi 10").consumers.poll.map(|p| p.to_string()), Some("10ms".into()));
    assert_eq!(load("-u q -csd 3").consumers.start_after, Length::seconds(3));
    // Producers wait for the consumers, unless these wait themselves.
    for (line, seconds) in [("-u q -y 2 -S", [0, 1, 2, 2]), ("-u q -y 2 -S -csd 5", [5, 1, 0, 0])] {
        let experiment = experiment(line);
        let LoadSpec { consumers, start_after, .. } = &experiment.load[0];
        let producers = start_after.unwrap_or_default();
        let starts = [consumers.start_after, consumers.apart, producers, experiment.phases.warmup];
        assert_eq!(starts, seconds.map(Length::seconds), "{line}");
    }
    assert_eq!(experiment("-u q -ew empty").until, Some(StopCondition::Empty));
    for (line, offset) in [
        ("-sco FIRST", StreamOffset::First),
        ("-sco 17", StreamOffset::Offset(17)),
        ("-sco 2022-06-03T07:45:54Z", StreamOffset::Time(1_654_242_354)),
        ("-sco 2022-06-03T09:45:54+02:00", StreamOffset::Time(1_654_242_354)),
        ("-ca x-stream-offset=5 -sco next", StreamOffset::Next),
    ] {
        let spec = load(&format!("-u q -sq {line}"));
        assert_eq!(spec.consumers.amqp091.stream_offset, offset);
        assert!(spec.consumers.amqp091.arguments.is_empty());
    }
    // Goes to the broker as it is.
    let spec = load("-u q -p -q 5 -ca x-stream-offset=1h");
    assert_eq!(spec.queue.queue_type, QueueType::Stream);
    assert_eq!(spec.consumers.amqp091.arguments["x-stream-offset"], Argument::Text("1h".into()));
    assert_refused(["-q 70000", "-ew late", "-vl 5"]);
}

#[test]
fn brokers_are_reached_as_perf_test_reaches_them() {
    let broker = |line: &str| read(line).expect(line).experiment.broker;
    let spec = broker("-H amqp://a,amqp://b,amqp://c -b 30 -M 8192 -tsbs 65536 -trbs -1 -sul 3");
    assert_eq!(spec.url.as_deref(), Some("amqp://a"));
    assert_eq!(spec.further_urls, ["amqp://b", "amqp://c"]);
    assert_eq!(spec.allocation, Allocation::Random);
    assert_eq!((spec.heartbeat, spec.frame_max), (Some(30), Some(8_192)));
    assert_eq!((spec.send_buffer, spec.receive_buffer), (Some(65_536), None));
    assert_eq!(broker("-cal round-robin").allocation, Allocation::RoundRobin);
    let spec = broker("-h amqps://a -se -sni b --tls-cert c.pem --tls-key k.pem");
    assert_eq!((spec.auth, spec.sni.as_deref()), (Auth::External, Some("b")));
    assert!(!spec.insecure, "verified unless told otherwise");
    let spec = broker("-o2uri https://t -o2id me -o2sec s3cret -o2p orgId=1 -o2p a=b");
    let oauth2 = spec.oauth2.expect("a token endpoint");
    assert_eq!(oauth2.client_id, "me");
    assert_eq!(oauth2.parameters["orgId"], "1");
    assert!(!format!("{oauth2:?}").contains("s3cret"));
    assert_refused(["-H amqp://a,amqp://b -sul 3", "-H amqp://a,amqp://b -sul 0", "-sul 2", "-cal nearest"]);
    assert_refused(["-sni a,b", "-o2id me", "-b 70000"]);
}
