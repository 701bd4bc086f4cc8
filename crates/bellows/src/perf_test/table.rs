//! PerfTest's options as data: what the parser, `--help` and docs/perf-test.md are made from.

use experiment::OptionNames;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arg {
    No,
    One,
    /// One value, or none.
    Maybe,
    /// All words up to the next option.
    Many,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Same,
    /// Means the same, with a fault of the original mended or something added.
    Better,
    /// An error, because it has no meaning here; the note gives the reason.
    Refused,
    /// Not an option of PerfTest, whose JVM is configured in other ways.
    Added,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opt {
    /// Name after one dash; empty where it has none.
    pub(super) short: &'static str,
    /// Name after two dashes (or one).
    pub(super) long: &'static str,
    pub(super) arg: Arg,
    pub(super) status: Status,
    /// One line of `--help`.
    pub(super) help: &'static str,
    /// Difference, reason of a refusal, or another note.
    pub(super) note: &'static str,
    /// Belongs to `--metrics-help` rather than to `--help`.
    pub(super) metrics: bool,
}

/// How an option's value may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Whole,
    /// Without a URL's password.
    AsUrl,
    /// `key=value,…`, without values that may be secrets.
    AsArguments,
    Never,
}

impl Opt {
    pub(super) fn shown(&self) -> Shown {
        match self.long {
            "uri" | "uris" | "oauth2-token-endpoint" => Shown::AsUrl,
            "queue-args" | "message-properties" | "consumer-args" => Shown::AsArguments,
            "oauth2-client-secret"
            | "oauth2-parameters"
            | "metrics-datadog-api-key"
            | "metrics-datadog-application-key" => Shown::Never,
            _ => Shown::Whole,
        }
    }

    /// Both names: `-x/--producers`.
    pub(super) fn name(&self) -> String {
        if self.short.is_empty() { format!("--{}", self.long) } else { format!("-{}/--{}", self.short, self.long) }
    }

    /// Its environment variable, without a prefix. None is read for options that only print, and for those
    /// without a short name, which are refused or not PerfTest's.
    pub(super) fn variable(&self) -> Option<String> {
        let prints = matches!(self.short, "" | "?" | "v" | "env" | "mh");
        (!prints).then(|| self.long.replace('-', "_").to_uppercase())
    }
}

pub(super) fn by_short(name: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| !option.short.is_empty() && option.short == name)
}

pub(super) fn by_long(name: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| option.long == name)
}

macro_rules! options {
    (@name "" $long:tt) => { concat!("--", $long) };
    (@name $short:tt $long:tt) => { concat!("-", $short, "/--", $long) };
    ($($status:ident $short:tt $long:tt $arg:ident $metrics:literal $help:literal $note:literal
       $(sets $($key:literal)+)?;)*) => {
        /// Every option of PerfTest 2.24, which include those of 2.22.
        pub(super) static OPTIONS: &[Opt] = &[$(Opt {
            short: $short, long: $long, arg: Arg::$arg, status: Status::$status,
            help: $help, note: $note, metrics: $metrics,
        }),*];
        /// Options by the keys of an experiment that they set, or that they take the place of: a queue is received from
        /// without a subscription, and its URL alone asks for AMQP 1.0.
        pub(super) const OPTION_NAMES: OptionNames = &[
            ("subscription", "-u/--queue"),
            ("protocol", "amqp10://"),
            $($($(($key, options!(@name $short $long)),)+)?)*
        ];
    };
}

options! {
    Same "?" "help" No false "show this" "";
    Same "v" "version" No false "show the version" "";
    Better "env" "environment-variables" No false "show the environment variables that are read"
        "those of the options for metrics, too; without VERBOSE, whose option is refused";
    Same "mh" "metrics-help" No false "show the options for metrics" "";
    Same "d" "id" One false "name of the test, in every line; default: made from the time" "";

    Same "h" "uri" One false "the broker, default amqp://localhost" "" sets "broker.url";
    Same "H" "uris" One false "the brokers, separated by commas" "a lost connection reconnects to the next"
        sets "broker.further-urls";
    Same "cal" "connection-allocation" One false
        "how connections are assigned to several brokers: random (default), round-robin" "" sets "broker.allocation";
    Same "sst" "servers-startup-timeout" One false "seconds to wait for the broker to be up, default: fail at once" "";
    Better "sul" "servers-up-limit" One false "brokers that must be up, with -sst; default: all"
        "the test has those that were up first; PerfTest 2.22 ends with an error where another one is not up";
    Same "se" "sasl-external" No false "log in with SASL EXTERNAL" "with --tls-cert and --tls-key" sets "broker.auth";
    Same "sni" "server-name-indication" One false "server name for TLS" "one: several make no sense for one address"
        sets "broker.sni";
    Added "" "tls-ca" One false "file with the authorities that may sign the broker's certificate"
        "default: the system's" sets "broker.ca";
    Added "" "tls-cert" One false "file with the client's certificate" "" sets "broker.cert";
    Added "" "tls-key" One false "file with the key of the client's certificate" "" sets "broker.key";
    Added "" "tls-insecure" No false "do not verify the broker's certificate"
        "PerfTest never does, unless told to; here it is verified unless told not to, and every output says so"
        sets "broker.insecure";
    Refused "udsc" "use-default-ssl-context" No false "use the JVM's TLS settings"
        "there is no JVM here, whose key stores it would take: amqps:// verifies with the system's certificates, \
         --tls-ca, --tls-cert and --tls-key name others";
    Better "o2uri" "oauth2-token-endpoint" One false "OAuth 2 token endpoint"
        "tokens are renewed on all connections before they expire" sets "broker.oauth2" "broker.oauth2.uri";
    Same "o2id" "oauth2-client-id" One false "OAuth 2 client id" "" sets "broker.oauth2.client-id";
    Same "o2sec" "oauth2-client-secret" One false "OAuth 2 client secret"
        "better given as BELLOWS_OAUTH2_CLIENT_SECRET: command lines are public";
    Same "o2gr" "oauth2-grant-type" One false "OAuth 2 grant type, default client_credentials" "there is no other";
    Same "o2p" "oauth2-parameters" Many false "further parameters for the token endpoint, such as orgId=1234" "";
    Same "b" "heartbeat" One false "heartbeat interval in seconds to ask for" "0, the default, takes the broker's"
        sets "broker.heartbeat";
    Same "M" "framemax" One false "largest frame in bytes to ask for" "at most 131072, which 0, the default, means too"
        sets "broker.frame-max";
    Same "tsbs" "tcp-send-buffer-size" One false "SO_SNDBUF in bytes" "" sets "broker.send-buffer";
    Same "trbs" "tcp-receive-buffer-size" One false "SO_RCVBUF in bytes" "" sets "broker.receive-buffer";
    Same "tnd" "tcp-no-delay" One false "TCP_NODELAY, default true" "with false, Nagle's algorithm is measured, too"
        sets "broker.nagle";
    Better "dcr" "disable-connection-recovery" No false "end with the first connection that is lost"
        "with an error and exit code 1, where PerfTest 2.22 ends with 0";
    Better "cri" "connection-recovery-interval" One false
        "seconds before a lost connection reconnects, or a range such as 30-60; default 5"
        "what became due during an outage is sent late and keeps its intended time" sets "recover";

    Same "t" "type" One false "exchange type, default direct" "direct is taken";
    Better "e" "exchange" Maybe false "exchange, default named like its type; amq.default is the default exchange"
        "amq.default works without -p, too, where PerfTest 2.22 tries to declare it, and fails";
    Same "u" "queue" One false "queue, or several separated by commas; default: generated" ""
        sets "destination" "destinations";
    Same "k" "routing-key" One false "routing key, default: generated" "";
    Same "K" "random-routing-key" No false "another routing key for every message" "" sets "random-routing-keys";
    Same "rkcs" "routing-key-cache-size" One false "random routing keys to make in advance" "";
    Same "sb" "skip-binding-queues" No false "do not bind queues to the exchange" "";
    Same "p" "predeclared" No false "use queues that exist already" "";
    Same "E" "exclusive" No false "queues for one connection only"
        "consumers of one queue share a connection; -ew empty means idle";
    Same "ad" "auto-delete" One false "delete queues when they are used no longer, default true" "";
    Same "qa" "queue-args" Many false "arguments of the queues, such as x-max-length=10, separated by commas" ""
        sets "arguments";
    Same "qq" "quorum-queue" No false "quorum queues: persistent messages, no auto-delete" "";
    Same "sq" "stream-queue" No false
        "streams: persistent messages, no auto-delete, 20 GB in segments of 500 MB, prefetch 200" "";
    Same "ll" "leader-locator" One false "where leaders are placed: client-local, balanced" "";
    Same "mlb" "max-length-bytes" One false "largest size of a queue, such as 50mb; 0 for no limit" "";
    Same "smssb" "stream-max-segment-size-bytes" One false "largest segment of a stream, at most 3gb" "";
    Same "ma" "max-age" One false "age at which a stream's segments go, such as PT10M30S or P5DT8H" "";
    Same "qp" "queue-pattern" One false "names of a sequence of queues, such as perf-test-%d" "";
    Same "qpf" "queue-pattern-from" One false "first number of the sequence" "";
    Same "qpt" "queue-pattern-to" One false "last number of the sequence" "";
    Same "qf" "queue-file" One false "file with one queue name a line, used like a sequence" "";

    Same "x" "producers" One false "producers, default 1; with a sequence of queues each takes the next" ""
        sets "total-producers";
    Same "X" "producer-channel-count" One false "channels of each producer's connection, default 1" ""
        sets "producer-connections";
    Better "r" "rate" One false "messages a second of each producer, default: no limit; 0 sends nothing"
        "latencies count from the time at which a message was due, so that a stall is not left out; below 1 a second \
         works" sets "rate";
    Better "P" "publishing-interval" One false "seconds between two messages of each producer, 0.1 at least"
        "as -r: latencies count from when a message was due";
    Same "vr" "variable-rate" Many false "rates with their lengths, RATE:SECONDS, over and over" "" sets "schedule";
    Same "prsd" "producer-random-start-delay" One false
        "start each producer at a random moment within this many seconds"
        "with a rate, producers are spread evenly without it";
    Same "pst" "producer-scheduler-threads" One false "threads that send by the clock"
        "no effect: there is no such pool";
    Same "s" "size" One false "body size in bytes, default and smallest 12" "" sets "message-size";
    Same "vs" "variable-size" Many false "sizes with their lengths, SIZE:SECONDS, over and over" "";
    Same "B" "body" One false "files with bodies, separated by commas"
        "sent as they are; a folder stands for its files; the header x-bellows tells messages apart";
    Same "T" "body-content-type" One false "content type of the bodies" "also without -B";
    Better "jb" "json-body" No false "bodies of random JSON of the size that -s says"
        "exactly as long as -s says, no name twice in a body, taken in turn, the same in every test";
    Same "bfc" "body-field-count" One false "fields to make in advance for -jb, default 1000" "";
    Same "bc" "body-count" One false "bodies to make in advance for -jb, default 100" "";
    Same "mp" "message-properties" One false "properties and headers of every message, such as priority=5" ""
        sets "headers" "properties";
    Same "f" "flag" Many false "persistent (queues are then durable), mandatory"
        "another flag is an error, not ignored";
    Better "c" "confirm" One false
        "unconfirmed messages allowed for each producer; 0 is no limit, default -1: no confirms" "latencies with 0 too"
        sets "max-pending";
    Better "ct" "confirm-timeout" One false "seconds to wait for confirms before giving up, default 30"
        "a message that waits longer for its answer ends the test with an error";
    Same "m" "ptxsize" One false "messages in a producer's transaction, default 0: none" "" sets "commit-every";
    Better "C" "pmessages" One false "messages of each producer, default 0: no limit"
        "shared out among the producers to the last message; the end waits for messages in flight, at most -st"
        sets "message-count";

    Same "y" "consumers" One false "consumers, default 1; with a sequence of queues each takes the next" ""
        sets "total-consumers";
    Same "Y" "consumer-channel-count" One false "channels of each consumer's connection, default 1" ""
        sets "consumer-connections";
    Same "R" "consumer-rate" One false "messages a second that each consumer takes, default: no limit" "";
    Same "L" "consumer-latency" One false "microseconds that a consumer works on a message, default 0" "";
    Same "vl" "variable-latency" Many false "consumer latencies with their lengths, MICROSECONDS:SECONDS, over and over"
        "";
    Same "a" "autoack" No false "the broker does not wait for acknowledgements" "-A, -n and -na have no effect then";
    Better "A" "multi-ack-every" One false "messages per acknowledgement, default 0: one each"
        "what is left over is acknowledged when deliveries pause";
    Same "q" "qos" One false "unacknowledged messages allowed for each consumer, default 0: no limit" ""
        sets "ack" "prefetch";
    Same "Q" "global-qos" One false "the same for the whole channel, default 0" "" sets "channel-prefetch";
    Same "n" "ctxsize" One false "acknowledgements in a consumer's transaction, default 0: none" ""
        sets "consumer-commit-every";
    Same "na" "nack" No false "refuse messages" "" sets "refuse";
    Same "re" "requeue" One false "whether refused messages go back into the queue, default true" "";
    Same "po" "polling" No false "ask for each message with basic.get" "" sets "poll";
    Same "pi" "polling-interval" One false "milliseconds between two basic.get, default 0" "";
    Same "ca" "consumer-args" One false "arguments of the subscriptions, such as x-priority=10, separated by commas" ""
        sets "consumer-arguments";
    Same "sco" "stream-consumer-offset" One false
        "where consumers start in a stream: first, last, next (default), an offset, or a time such as \
         2026-11-21T12:00:00Z"
        "" sets "stream-offset";
    Same "csd" "consumer-start-delay" One false "seconds before consumers start" "";
    Same "S" "slow-start" No false "start consumers one second apart"
        "producers wait for all of them, unless there is -csd; that time is warm-up";
    Better "D" "cmessages" One false "messages of each consumer, default 0: no limit"
        "counted for all consumers together" sets "consume-count";
    Same "ew" "exit-when" One false
        "end when consumers are idle for a second, and with empty queues are empty, too: empty, idle"
        "once what -C asks for is sent";

    Same "z" "time" One false "seconds to run; 0, the default: until it is stopped" "" sets "phases.measure";
    Better "st" "shutdown-timeout" One false "seconds that the end takes at most, default 5"
        "messages in flight are awaited, and count in the latencies; where some are missing, the last second, or half \
         of one alone, is left to ask the broker what it still holds, so that lost messages are told from late ones";
    Better "i" "interval" One false "seconds between two lines, default 1"
        "an interval in which nothing moved has a line too, and so has the rest at the end, from 50 ms on";
    Better "ms" "use-millis" No false "latencies in milliseconds" "measured in nanoseconds all the same";
    Better "mf" "metrics-format" One false "lines on the console: default, compact"
        "percentiles of every message and the true maximum, and 99.9 and 99.99 at the end of each line";
    Better "o" "output-file" One false "file for the intervals as CSV" "as -mf, in columns at the end";
    Refused "" "verbose" No false "print every message"
        "printing would be what is measured; the ledger says what became of every message";
    Refused "" "verbose-full" No false "print every message with its body" "as --verbose";

    Same "hst" "heartbeat-sender-threads" One false "threads that send heartbeats"
        "no effect: the event loops send them";
    Same "ctp" "consumers-thread-pools" One false "thread pools of the consumers" "no effect: there is no such pool";
    Same "niot" "nio-threads" One false "threads for network traffic"
        "no effect: one event loop carries all connections";
    Same "niotp" "nio-thread-pool" One false "size of the pool for network traffic" "no effect: there is no such pool";
    Same "nty" "netty" No false "use Netty" "no effect: there is no JVM";
    Same "ntyt" "netty-threads" One false "Netty's threads" "no effect: there is no JVM";
    Same "ntyep" "netty-epoll" No false "Netty with epoll" "no effect: epoll is always used";
    Refused "ntykq" "netty-kqueue" No false "Netty with kqueue" "kqueue is not Linux's";

    Refused "ei" "expected-instances" One false "instances to start together"
        "one process carries thousands of connections, so there is nothing to synchronise; several on one machine are \
         best one experiment with several [[load]]";
    Refused "isn" "instance-sync-namespace" One false "Kubernetes namespace of the instances" "as -ei";
    Refused "ist" "instance-sync-timeout" One false "seconds to wait for the instances" "as -ei";
    Same "em" "exposed-metrics" One false "further metrics with fixed values, such as expected_published=50000" "";

    Better "mpr" "metrics-prometheus" No true "serve metrics for Prometheus"
        "on this machine's loopback address only, unless -mpp names another; also 0.999, 0.9999 and the true maximum; \
         without confirm_size, how many messages a confirm covers";
    Same "mpe" "metrics-prometheus-endpoint" One true "path of the metrics, default /metrics" "";
    Better "mpp" "metrics-prometheus-port" One true "port of the metrics, default 8080, or HOST:PORT"
        "0.0.0.0:8080 opens it to other machines";
    Same "mpx" "metrics-prefix" One true "prefix of the metrics' names, default perftest_" "";
    Same "mt" "metrics-tags" One true "labels of every metric, such as a=b, separated by commas" "";
    Same "mcla" "metrics-command-line-arguments" No true "a metric with the command line as its label"
        "no URI is shown, however it was written";
    Refused "mc" "metrics-client" No true "metrics of the Java client" "there is no Java client here";
    Refused "mcl" "metrics-class-loader" No true "metrics of the class loader" "there is no JVM here";
    Refused "mjm" "metrics-jvm-memory" No true "metrics of the JVM's memory"
        "there is no JVM here; the report shows the client's memory";
    Refused "mjgc" "metrics-jvm-gc" No true "metrics of the garbage collector" "there is no JVM here";
    Refused "mjp" "metrics-processor" No true "metrics of the processor, by the JVM"
        "there is no JVM here; the report shows the client's CPU";
    Refused "mjt" "metrics-jvm-thread" No true "metrics of the JVM's threads" "there is no JVM here";
    Refused "mjx" "metrics-jmx" No true "metrics by JMX" "there is no JVM here; take -mpr";
    Refused "mda" "metrics-datadog" No true "metrics to Datadog"
        "nothing is sent to services; Datadog's agent reads -mpr";
    Refused "mdak" "metrics-datadog-application-key" One true "Datadog application key" "as -mda";
    Refused "mdd" "metrics-datadog-descriptions" No true "send descriptions to Datadog" "as -mda";
    Refused "mdh" "metrics-datadog-host-tag" One true "tag for Datadog's host" "as -mda";
    Refused "mdk" "metrics-datadog-api-key" One true "Datadog API key" "as -mda";
    Refused "mds" "metrics-datadog-step-size" One true "seconds between two reports to Datadog" "as -mda";
    Refused "mdu" "metrics-datadog-uri" One true "Datadog's address" "as -mda";
}
