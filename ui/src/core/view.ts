// The types of the page's data, made from the Rust types in crates/report/src/view.
// Renew with: make view

/** Reasons for producers or consumers to wait. */
export type Awaited = "answers" | "credit" | "sockets" | "deliveries";

/** A binding. */
export type BindingRecord = {
/** Source exchange; empty for the default exchange. */
source: string,
/** Virtual host of both. */
vhost: string,
/** Destination queue or exchange. */
destination: string,
/** Type of the destination, `queue` or `exchange`. */
destination_type: string,
/** Routing key. */
routing_key: string,
/** Arguments as `key=value`: those that an exchange of headers compares. */
arguments: Array<string>, };

/** Broker under load. */
export type BrokerSummary = {
/** `rabbitmq`, `embedded`, or what the broker calls itself, in lower case; absent of a server that is no broker. */
kind?: string,
/** Its version, if it gives one. */
version?: string,
/** Its process, where it runs on this machine and could be found. */
pid?: number, };

/** The broker's use of CPU. */
export type BrokerUse = {
/** CPU of its processes. */
cores: number,
/** Share of a core that its busiest thread used. */
busiest_thread: number | null,
/** The name of that thread. */
busiest_thread_name: string | null,
/** Its threads together were ready to run and without a core for this many seconds a second. */
starved: number | null, };

/** Evidence that the broker has no CPU left. */
export type Busy = "machine" | "thread" | "cores";

/** Throughput of the generator against the embedded broker. */
export type Capacity = {
/** Messages per second. */
rate: number,
/** The load that it was measured with, in words. */
shape: string,
/** A lower bound: the machine was busy meanwhile, or the embedded broker, which shared it, was the limit. */
at_least: boolean, };

/** Cause of the verdict; the figures are in [`Facts`]. */
export type Cause = { "code": "broke_off" } | { "code": "all_failed" } | { "code": "some_failed" } | { "code": "too_short" } | { "code": "no_load" } | { "code": "rate_met",
/** Lateness that matters more: the broker stood still for a while, or some of it was late for this reason. */
late: Lateness | null, } | { "code": "consumers_slow" } | { "code": "consumers_behind",
/** Why they did. */
why: Cause, } | { "code": "think_time" } | { "code": "service_time" } | { "code": "own_fault",
/** Deliveries were lacking, not messages to send. */
deliveries: boolean, } | { "code": "others_fill_machine" } | { "code": "stalled_for_cores" } | { "code": "generator_lacks_cores",
/** Cores that other processes took, where that is much. */
others: number | null, } | { "code": "both_fill_machine" } | { "code": "machine_full" } | { "code": "both_busy" } | { "code": "generator_busy" } | { "code": "generator_late" } | { "code": "nothing_due" } | { "code": "unclear" } | { "code": "broker_busy",
/** Reason for the wait. */
wait: Awaited,
/** Evidence that no CPU is left. */
busy: Busy, } | { "code": "broker_lacks_cores",
/** Reason for the wait. */
wait: Awaited, } | { "code": "broker_stalled",
/** How long in all, seconds. */
for_s: number,
/** How often. */
times: number, } | { "code": "broker_slow",
/** Reason for the wait. */
wait: Awaited, } | { "code": "in_flight_limit" } | { "code": "broker_unknown" } | { "code": "round_trip" } | { "code": "proxy_way" } | { "code": "link_full",
/** Reason for the wait. */
wait: Awaited, } | { "code": "network_full" } | { "code": "proxy_full",
/** Reason for the wait. */
wait: Awaited, } | { "code": "proxy_hides",
/** Reason for the wait. */
wait: Awaited, } | { "code": "slow_even_idle" } | { "code": "broker_does_not_read" } | { "code": "sockets_full" } | { "code": "no_credit" } | { "code": "alarm" } | { "code": "no_connection" } | { "code": "consumers_idle" };

/** A cell as a person sees it. */
export type CellView = {
/** A value of each key. */
values: Array<string>,
/** Label: `queue-type=classic, num-destinations=1`. */
label: string,
/** Outcome of its figures; `None` where nothing is decided. */
outcome: ComparisonOutcome | null,
/** The outcome in a few words. */
decided: string,
/** Changes in it, in a sentence. */
headline: string,
/** Functions that explain it, in a sentence. */
explanation: string | null,
/** Its own page beside this one, as names of folders and file; empty without one. */
page: Array<string>,
/** Every figure that is decided. */
figures: Array<FigureRow>, };

/** Class of a sample's code. */
export type Class = "erlang_code" | "java_code" | "own_code" | "libraries" | "built_in_functions" | "ets" | "messages" | "garbage_collection" | "allocators" | "ports" | "scheduling" | "waiting" | "kernel_network" | "kernel_disk" | "kernel_memory" | "kernel_scheduling" | "kernel_other" | "virtual_machine" | "unnamed";

/** A class that samples fall into. */
export type ClassView = {
/** The class. */
class: Class,
/** Name of the class. */
name: string,
/** Meaning of the class. */
meaning: string,
/** Name of its samples that are in no function of Erlang, Java or Go. */
outside: string, };

/** How a latency is distributed in the measured phase, of every run. */
export type ComparedCurve = {
/** Metric of the curves. */
metric: Metric,
/** A curve for each run of A. */
a: Array<Curve>,
/** A curve for each run of B. */
b: Array<Curve>, };

/** A frame below its callers, with its cost and that of its calls. */
export type ComparedFrame = {
/** The caller, an index that is smaller than its own. */
parent?: number,
/** Index into [`ComparedStacks::names`]. */
name: number,
/** Mean of A's runs. */
a: number,
/** Mean of B's runs. */
b: number,
/** Interval of B less A, as strict as the decision. */
interval: [number, number],
/** Whether something changed in it or below. Only then its calls were tested. */
asked: boolean,
/** Whether the change of the whole of it is none of chance. */
proven: boolean,
/** Smallest change that so many runs show in four of five experiments; `None` where they are too few. */
visible: number | null, };

/** Costs of the broker's functions per message on both sides, in nanoseconds of CPU time. */
export type ComparedFunctions = {
/** Cost of the whole broker. */
broker: CostChange,
/** Costs of functions that are dear enough to test: proven changes first, then by the change of the own cost. */
functions: Array<FunctionChange>,
/** Sum of the changes of all other functions' own costs; with those of `functions` it makes the broker's change. */
others: number,
/** At most three functions that explain the broker's change, most of it first; no part of it stands in two. */
explained: Array<ExplainedChange>,
/** Files of which both sides ran other builds; their functions without names are one row for each file. */
other_builds?: Array<string>,
/** Functions with another name on A, each one row and one frame under its name on B; the dearest first. */
renamed?: Array<RenamedFunction>, };

/** Name of a frame. */
export type ComparedName = {
/** The function, or the group of threads. */
function: string,
/** The library, program, or `[jit]` and `[kernel]`, that it is of; empty of a group of threads. */
module: string, };

/** A quantity over the measured phase, of every run. */
export type ComparedPanel = {
/** Title: `received rate`. */
title: string,
/** Unit of the values. */
unit: QuantityUnit,
/** Start of each interval in seconds since the measured phase began. */
t: Array<number>,
/** Length of each interval. */
dt: Array<number>,
/** A line for each run of A, in the order of its runs; `null` where something could not be had. */
a: Array<Array<number | null>>,
/** A line for each run of B. */
b: Array<Array<number | null>>, };

/** Call paths of two sides as one tree, in nanoseconds of CPU time per message. */
export type ComparedStacks = {
/** Always [`ComparedStacks::SCHEMA`]. */
schema: string,
/** The whole broker. */
broker: CostChange,
/** Functions and groups of threads, each once. */
names: Array<ComparedName>,
/** Frames, callers first. */
frames: Array<ComparedFrame>,
/** The level at which all frames together were decided. */
level: number,
/** Frames below this share of both sides' CPU were left out; their callers keep what they cost. */
least_share: number, };

/** Outcome of all figures together. */
export type ComparisonOutcome = "worse" | "better" | "same" | "undecided" | "noise";

/** A comparison as a person sees it. */
export type ComparisonView = {
/** The experiment's name. */
name: string,
/** When its first run began, RFC 3339 in UTC; empty where that is not known. */
created: string,
/** Version of the bellows that wrote the page. */
bellows: string,
/** Outcome of all figures together. */
outcome: ComparisonOutcome,
/** Changes, in a sentence. */
headline: string,
/** Functions that explain it, in a sentence. */
explanation: string | null,
/** Baseline of the comparison. */
a: SideView,
/** Candidate of the comparison. */
b: SideView,
/** Whether the runs stand in pairs, in their order. */
paired: boolean,
/** Keys of the experiment in which the sides differ. */
differences: Array<ExperimentDifference>,
/** Why the sides should not be compared, where that was forced. */
forced: Array<string>,
/** Recomputed parts, and parts missing on this page. */
remarks: Array<string>,
/** Warnings of the runs, each once. */
warnings: Array<SideWarning>,
/** Every figure that is decided. */
figures: Array<FigureRow>,
/** Functions whose costs changed. */
functions: ComparedFunctions | null,
/** Costs of call paths, and proven changes. */
stacks: ComparedStacks | null,
/** How it is decided, a sentence each. */
notes: Array<string>,
/** Charts of every run over time. */
panels: Array<ComparedPanel>,
/** Percentile curves of both sides. */
curves: Array<ComparedCurve>,
/** Metrics of the curves. */
metrics: Array<MetricInfo>,
/** The machine of the first run. */
hardware: Hardware, };

/** The kernel's TCP figures of the connections to the broker, all added up. */
export type ConnectionTime = {
/** Share of the time with bytes in flight on a connection, on average. */
busy: number,
/** Share of the time in which the broker's receive window was full: it did not read. */
peer_full: number,
/** Share of segments that had to be sent again. */
resent: number,
/** TCP's smoothed round trip under load, at the measured phase's end, mean over the connections, nanoseconds. */
round_trip_ns: number,
/** Bytes that waited in our sockets then, mean over the connections. */
unsent_bytes: number, };

/** A cost per message on both sides, nanoseconds. */
export type CostChange = {
/** Mean of A's runs. */
a: number,
/** Mean of B's runs. */
b: number,
/** Interval of B less A, as strict as the decision. */
interval: [number, number],
/** Two-sided probability of such a change, or a larger one, by chance, corrected for the other functions. */
p: number,
/** Whether the change is significant. */
proven: boolean,
/** Smallest change that so many runs show in four of five experiments; `None` where they are too few. */
visible: number | null, };

/** One metric's distribution over the measured phase: values at growing percentiles. */
export type Curve = {
/** Metric of the values. */
metric: Metric,
/** Samples that it is made of. */
count: number,
/** Share of samples at or below the value, as the number of nines: `-log10(1 - share)`. */
nines: Array<number>,
/** The values, nanoseconds. */
ns: Array<number>, };

/** Decision on a figure. */
export type Decision = "changed" | "negligible" | "same" | "undecided";

/** A labelled moment. */
export type Event = {
/** Seconds since the origin. */
t: number,
/** One short sentence. */
label: string, };

/** Kind of an event. */
export type EventKind = "on_cpu" | "off_cpu" | "memory" | "other";

/** Observations of the measured phase. Shares are of time (0 to 1), CPU is in cores. */
export type Evidence = {
/** Length of the measured phase. */
seconds: number,
/** Requested messages per second; `None` if unthrottled. */
requested_rate: number | null,
/** The load was a number of messages, all of which were sent in the measured phase. */
counted: boolean,
/** Standard deviation of the number of requested messages, where arrivals are random. */
requested_deviation: number,
/** Producers were asked to wait between an answer and their next message. */
closed_loop: boolean,
/** Messages sent per second. */
sent_rate: number,
/** Messages received per second. */
received_rate: number,
/** Deliveries per second that the messages sent should have led to; `None` without both sides. */
expected_rate: number | null,
/** Consumers were asked to take their time. */
slow_consumers: boolean,
/** Share of the messages that were sent over 1 ms late. */
late_share: number,
/** Use of the producers' time; `None` without producers. */
producers: ProducerTime | null,
/** Messages that may be in flight, all producers together; `None` without such a limit. */
in_flight_limit: number | null,
/** Mean time until the broker answers a message, nanoseconds; 0 without answers. */
answer_ns: number,
/** The event loops. */
loops: Array<LoopUse>,
/** The event loops spun while they waited: their CPU says nothing. */
spun: boolean,
/** Median of the seconds' worst loop lag, nanoseconds. */
loop_lag_median_ns: number,
/** The worst loop lag, nanoseconds. */
loop_lag_max_ns: number,
/** Share of the seconds whose loop lag was 1 ms or more, and over half of the latencies' 99th percentile. */
lag_explains: number,
/** Cores that bellows may use. */
cores: number,
/** Cores of the machine; 0 where that is not known. */
machine_cores: number,
/** Bellows and the broker may not use the same cores. */
apart: boolean,
/** Share of the machine's time that was idle. */
idle: number | null,
/** Share of the machine's time that its hypervisor took. */
steal: number | null,
/** CPU of bellows. */
client_cores: number | null,
/** CPU of the broker's processes, where they are known. */
broker: BrokerUse | null,
/** Broker and generator share this machine. */
same_machine: boolean,
/** Time that connecting to the broker took: about one round trip, nanoseconds. */
round_trip_ns: number | null,
/** The broker's shortest answer time before the load, nanoseconds: the whole way and back, through any proxy. */
idle_answer_ns: number | null,
/** The process on this machine that passes connections on to the broker: a tunnel, a proxy. */
relay: string | null,
/** Delay of bytes to the broker in that process, nanoseconds: those held at the measured phase's end, at its rate. */
relay_held_ns: number | null,
/** TCP's figures of that process's own connections to the broker. */
behind_relay: ConnectionTime | null,
/** TCP's figures of the connections to the broker. */
connections: ConnectionTime | null,
/** Throughput of the generator against the embedded broker (`bellows doctor --calibrate`). */
capacity: Capacity | null, };

/** An exchange. */
export type ExchangeRecord = {
/** Name; empty for the default exchange. */
name: string,
/** Its virtual host. */
vhost: string,
/** `direct`, `topic`, … */
type: string, };

/** A key whose values differ. */
export type ExperimentDifference = {
/** The key, as `--set` writes it: `broker.schedulers`. */
key: string,
/** Its value on side A; `None` where it has none. */
a: string | null,
/** Its value on side B. */
b: string | null, };

/** A function that explains a part of a change. */
export type ExplainedChange = {
/** Its name. */
function: string,
/** The library, program, or `[jit]` and `[kernel]`, that it is of. */
module: string,
/** Change of its cost with its calls, negative for less, without the part that earlier functions explain. */
change: number,
/** Whether `change` is of its own cost alone, as its stacks are mostly cut and its calls are not known. */
own: boolean, };

/** Operations that failed for one reason. */
export type FailureCount = {
/** The reason. */
reason: string,
/** How many. */
count: number, };

/** A fault as the first screen shows it. */
export type FaultView = {
/** Its target: `node 1`, or the broker. */
target: string,
/** When it began, in seconds since the origin. */
t: number,
/** Seconds from then until the target was back; `null` where it was not. */
back_s: number | null, };

/** A figure and the decision on it in words. */
export type FigureRow = {
/** Decision in words. */
decided: string,
/** Whether it changed for the worse. */
worse: boolean,
/** Whether its interval is meaningful: too few runs give a meaningless one, and one run of a side gives none. */
interval_says: boolean,
/** Its name, as requirements write it. */
name: string,
/** Unit of its values. */
unit: QuantityUnit,
/** Whether more of it is better. */
more_is_better: boolean,
/** Its value in each run of A; 0 where it has none. */
a: Array<number>,
/** Its value in each run of B. */
b: Array<number>,
/** Runs of A and of B in which it is nothing at all. Where there are any, no test applies. */
without: [number, number],
/** Geometric means of both, of the runs that have it. */
means: [number, number],
/** Relative change from A to B; negative where B is smaller. */
change: number,
/** Interval of the change, as strict as the decision; where no test applies, the change twice. */
interval: [number, number],
/** Two-sided probability of such a change, or a larger one, by chance; `None` where no test applies. */
p: number | null,
/** `p` corrected for the other figures; of pairs, that of the exact test if it is what prevents a decision. Changed
 * if `level` at most; `None` also where so few runs can show none. */
corrected_p: number | null,
/** Changes within this share do not matter. */
margin: number,
/** Smallest relative change that so many runs show in four of five experiments; at most 1e9, as for too few runs. */
visible: number,
/** Decision at `level`. */
decision: Decision,
/** Pairs, or runs of each side, that would show a change as large as the margin; for undecided figures, if known. */
needed: number | null,
/** How well the only run of a side knows the figure, where no test applies. */
within_one_run?: WithinOneRun | null, };

/** The figures of the measured phase; `null` where something could not be had. */
export type Figures = {
/** Messages sent. */
sent: Throughput,
/** Messages delivered. */
received: Throughput,
/** Mean of the measured phase; `null` when unthrottled. */
requested_rate: number | null,
/** Messages that the broker refused. */
refused: number,
/** Messages that the broker returned. */
returned: number,
/** Deliveries with the redelivered flag. */
redelivered: number,
/** Outcome of every message; `null` where no ledger was kept. */
ledger: LedgerSummary | null,
/** Share of the measured phase's messages sent over 1 ms late; `null` when unthrottled. */
late_share: number | null,
/** Measured length of the measured phase, seconds. */
measured_s: number,
/** Over which times the rates are, of a load that ended by itself; else `null`. */
lasted: Lasted | null,
/** Latencies of messages. */
latency: Summaries,
/** CPU time per message, microseconds. */
cpu_us_per_message: PerMessage,
/** CPU in cores. */
cpu_cores: PerMessage,
/** Peak resident memory, 10^6 bytes. */
rss_mb: Rss,
/** The nodes of a cluster in their order, where several run on this machine. */
nodes: Array<NodeSummary>,
/** Outcomes of scenarios other than messages, by name. */
scenarios: { [key in string]: ScenarioSummary },
/** Other programs that loaded the broker; their output has the figures of their load. */
programs: Array<ProgramSummary>,
/** Cost of pages of metrics that were requested beside the load. */
scrapes: Array<ScrapedPage>, };

/** Range of the limit. */
export type FoundLimit = {
/** The highest rate that held, and below which every rate held that was tried. */
low: number | null,
/** The lowest rate that did not hold, and above which none did. */
high: number | null,
/** The lowest rate above `low` whose trials were all unclear. */
unclear: number | null,
/** No trial is left: an open end stays so, and `low` is confirmed. */
ended: boolean,
/** Both ends were confirmed, and are as close as was asked for, but for rates that hold in some trials only. */
confirmed: boolean, };

/** Cost of a function. */
export type FunctionChange = {
/** Its name. */
function: string,
/** The library, program, or `[jit]` and `[kernel]`, that it is of. */
module: string,
/** Cost with it at the leaf of the stack. */
own: CostChange,
/** Cost with it anywhere on the stack. */
total: CostChange,
/** Share of its cost, on both sides together, whose stacks end before their thread's start (0 to 1). */
cut: number, };

/** The machine, as the kernel describes it. */
export type Hardware = {
/** Processor model. */
cpu: string,
/** Cores of the machine, within the limits of bellows' control groups; its affinity does not count. */
cores: number,
/** Memory in bytes. */
memory_bytes: number,
/** Kernel name and release. */
kernel: string,
/** Operating system name. */
os: string,
/** The kernel's clock source. */
clock_source: string | null,
/** Whether a hypervisor is present. */
virtualised: boolean,
/** Kernel settings that bear on the result, such as `kernel.perf_event_paranoid`. */
settings: Array<[string, string]>, };

/** The knee, at which latency begins to rise faster than the rate. */
export type KneeView = {
/** Messages per second. */
rate: number,
/** The 99th percentile there, nanoseconds. */
p99_ns: number, };

/** A known pattern. */
export type KnownView = {
/** Its share, its samples' work and its cure elsewhere, in a sentence. */
text: string,
/** The address where that is written. */
source: string, };

/** Seconds from the measured phase's beginning to the last message sent, acknowledged and received; 0 without any. */
export type Lasted = {
/** Until the last was sent. */
sent_s: number,
/** Until the last was acknowledged. */
completed_s: number,
/** Until the last was received. */
received_s: number, };

/** A latency that must not be exceeded. */
export type LatencyBound = {
/** The objective as people write it: `end-to-end p99 < 10ms`. */
that: string,
/** The latency that must not be exceeded, in nanoseconds. */
ns: number, };

/** Counts by time and by logarithm of the latency. Its cells travel as variable-length integers (LEB128)
 * beside this, in the order of columns, then of buckets: the columns of all cells, each as distance from the
 * cell before; their buckets, as distance from the one before in the same column, else from the lowest; their counts. */
export type LatencyGrid = {
/** Metric of the cells. */
metric: Metric,
/** Start of each column in seconds since the origin. */
t: Array<number>,
/** End of each column. */
end: Array<number>,
/** The lowest bucket; bucket `b` begins at `10^(b / per_decade)` nanoseconds. */
low: number,
/** Buckets per decade of latency. */
per_decade: number,
/** Number of cells. */
cells: number, };

/** Figures of a latency histogram. All values are nanoseconds; all are 0 at `count` 0. */
export type LatencySummary = {
/** How many latencies were recorded. */
count: number,
/** Arithmetic mean, from bucket mid-points. */
mean_ns: number,
/** The median. */
p50_ns: number,
/** 90th percentile. */
p90_ns: number,
/** 99th percentile. */
p99_ns: number,
/** 99.9th percentile. */
"p99.9_ns": number,
/** 99.99th percentile. */
"p99.99_ns": number,
/** Largest value, to the histogram's precision. */
max_ns: number, };

/** Why messages left late. */
export type Lateness = "broker_stalled" | "own_fault" | "broker" | "generator_stalled" | "machine_stalled" | "cores" | "generator";

/** Where a message can stand. All counts are of messages, per queue, or per subscriber where each
 * gets every message, unless said otherwise. `sent` is the sum of `delivered`, `lost`,
 * `outstanding`, `returned` and `unconfirmed_missing`. */
export type LedgerSummary = {
/** Sent, once per queue or subscriber that should get them. */
sent: number,
/** Delivered at least once. */
delivered: number,
/** Confirmed, neither returned nor delivered by the end of the drain, and not outstanding. */
lost: number,
/** Confirmed, neither returned nor delivered by the end of the drain, and the broker may hold
 * them: a queue's own count says so, or it could not be asked, or a consumer's connection was
 * down or had not given everything away. */
outstanding: number,
/** Given back by the broker, which had no queue for them, and not delivered; confirmed or not. */
returned: number,
/** Never confirmed, and neither returned nor delivered by the end of the drain. */
unconfirmed_missing: number,
/** Never confirmed, and delivered all the same. */
unconfirmed_delivered: number,
/** Deliveries without the redelivered flag, less the messages that had at least one. */
duplicated: number,
/** Deliveries with the flag, less the messages that had no delivery without it: what
 * at-least-once delivery allows. */
duplicated_redelivered: number,
/** Delivered only late: every delivery of the message was without the redelivered flag, and to
 * a consumer that had had a newer message of the same producer without the flag. */
reordered: number,
/** Deliveries whose content is not what was sent. Where the header is hit, nobody can tell
 * which message it was, so it counts as missing too. */
corrupt: number,
/** Deliveries of what no producer of this run sent here; they count nowhere else. */
foreign: number,
/** Whether memory sufficed for all counts to be exact. */
exact: boolean, };

/** A run that does not count. */
export type LeftOut = {
/** The run folder's name. */
id: string,
/** Why, in a few words. */
why: string, };

/** Outcome of a trial. */
export type LimitOutcome = "held" | "missed" | "unclear";

/** A search as a person sees it. */
export type LimitView = {
/** The experiment's name. */
name: string,
/** When the first trial began, RFC 3339 in UTC; empty where that is not known. */
created: string,
/** Version of the bellows that wrote the page. */
bellows: string,
/** The result, in a sentence. */
headline: string,
/** Conditions for a rate, in a sentence. */
asked: string,
/** The ends. */
found: FoundLimit,
/** How certain they are, in a tag. */
certainty: string,
/** Name of the trials' latency; empty where none was measured. */
latency_name: string,
/** Latencies that must not be exceeded. */
bounds: Array<LatencyBound>,
/** Every trial, in the order of time. */
trials: Array<TrialView>,
/** Rates that people want next. */
suggested: Array<SuggestedRate>,
/** How it was searched, and limitations of the result. */
notes: Array<string>,
/** The knee, at which latency begins to rise faster than the rate. */
knee: KneeView | null,
/** The knee, or why it is not known; empty where no latency was measured. */
knee_text: string,
/** Throughput against the number of clients, where that was varied. */
scale: ScaleView | null, };

/** Who or what kept the run from more messages. */
export type LimitedBy = "broker" | "generator" | "network" | "schedule" | "undecided";

/** The lines of a profile; their tree follows in the columns. */
export type LinesHead = {
/** Number of nodes of the tree of lines. */
nodes: number,
/** Bytes of the columns that are read when lines are asked for. */
bytes: number,
/** Names of files, without their folders. */
files: Array<string>,
/** Per line: index into `files`; the first is of all that has no line. */
file: Array<number>,
/** Per line: its number, 0 where it has none. */
number: Array<number>, };

/** An inspection of the broker, in seconds since the origin. */
export type LookBand = {
/** When it began. */
start: number,
/** When it ended. */
end: number,
/** The command: `bellows erlang top`. */
label: string,
/** The inspection in a sentence. */
text: string, };

/** Use of an event loop's time, in shares. */
export type LoopUse = {
/** Running on a core. */
cpu: number,
/** Idle, the time to wake up included. */
idle: number,
/** Ready to run and without a core; `None` where the kernel keeps no account of it. */
starved: number | null, };

/** A key that is varied, and its values. */
export type MatrixKey = {
/** Key as `--over` names it: `load.0.queue-type`. */
key: string,
/** Its values, in the order in which they were given. */
values: Array<string>, };

/** A matrix as a person sees it. */
export type MatrixView = {
/** The experiment's name. */
name: string,
/** When its first run began, RFC 3339 in UTC; empty where that is not known. */
created: string,
/** Version of the bellows that wrote the page. */
bellows: string,
/** Outcome of all cells together. */
outcome: ComparisonOutcome,
/** Cells where it helps and where it hurts, in a sentence. */
headline: string,
/** Baseline of all cells. */
a: SideView,
/** Candidate of all cells. */
b: SideView,
/** Keys of the experiment in which the sides differ, in every cell. */
differences: Array<ExperimentDifference>,
/** The keys that are varied. */
keys: Array<MatrixKey>,
/** Short names of the keys. */
key_names: Array<string>,
/** The cells, the last key's value changing first. */
cells: Array<CellView>,
/** The names of all figures that cells have. */
figures: Array<string>,
/** Number of leading `figures` that answer a reader's first questions. */
main_figures: number,
/** Why the sides should not be compared, where that was forced. */
forced: Array<string>,
/** Recomputed and missing parts. */
remarks: Array<string>,
/** Warnings of the runs, each once. */
warnings: Array<SideWarning>,
/** How it is decided, a sentence each. */
notes: Array<string>,
/** The machine of the first run. */
hardware: Hardware, };

/** A metric, as its index in the registry. */
export type Metric = string;

/** Description of a metric. */
export type MetricInfo = {
/** The key in JSON and the tag in the HDR log: lower case, digits and `_`. */
key: string,
/** The name that people read. */
name: string,
/** `ns` for a histogram; what is counted for the others, such as `cycles`. */
unit: string,
/** How values are kept. */
kind: MetricKind,
/** The scenario that it belongs to. */
scenario: string,
/** Whether it is one part of a whole that another histogram of the scenario measures: the means
 * of all parts add up. */
part: boolean,
/** Meaning in one sentence. */
meaning: string, };

/** How the values of a metric are kept and summed up. */
export type MetricKind = "histogram" | "counter" | "peak";

/** A series of a panel. */
export type NamedLine = {
/** The values of its labels; empty where it has none. */
label: string,
/** One entry per interval; `null` where nothing was read. */
values: Array<number | null>, };

/** Series of one source and name, drawn together. */
export type NamedPanel = {
/** Source of the values: the machine, the broker, or a scrape. */
source: string,
/** Quantity that is drawn. */
name: string,
/** Unit of its values. */
unit: 'count' | 'per-second' | 'bytes' | 'bytes-per-second' | 'cores' | 'share' | 'seconds',
/** Whether it is shown without being asked for. */
shown: boolean,
/** Start of each interval in seconds since the origin. */
t: Array<number>,
/** Length of each in seconds. */
dt: Array<number>,
/** The largest first. */
lines: Array<NamedLine>,
/** Series that were left out because they are smaller. */
left_out: number, };

/** CPU and memory of a cluster's node in the measured phase, with its descendants. */
export type NodeSummary = {
/** Its number, from 0 on. */
node: number,
/** CPU time per second that it ran, in cores. */
cpu_cores: number,
/** How many seconds of the measured phase it ran, where it was away for a part of it. */
ran_s?: number | null,
/** Peak resident memory in MB (10^6 bytes). */
rss_mb: number, };

/** CPU time that a page costs the broker, beyond its use for the load. */
export type PageCpu = {
/** Estimated seconds per page. */
seconds: number,
/** The interval that holds it with a confidence of 95 %. */
interval: [number, number], };

/** A piece of the sentence. */
export type Part = {
/** The words. */
text: string,
/** A name from the code, to be set in its typeface. */
code: boolean,
/** The whole name, where the words are not all of it. */
whole: string | null, };

/** CPU of the two sides: in microseconds per operation (of messages, the larger number of those sent and those
 * received), or in cores. Absent where it could not be read. */
export type PerMessage = {
/** The broker's process tree. */
broker: number | null,
/** bellows itself. */
client: number | null, };

/** Percentiles in nanoseconds, per interval; `null` where nothing was recorded in it. */
export type Percentiles = {
/** The median. */
p50: Array<number | null>,
/** The 99th percentile. */
p99: Array<number | null>,
/** The highest value. */
max: Array<number | null>,
/** The mean, of a part: means of parts add up. */
mean?: Array<number | null>, };

/** The part of a run that an interval belongs to. No interval spans two. */
export type Phase = "warmup" | "measure" | "drain";

/** One phase in seconds since the origin. */
export type PhaseSpan = {
/** Phase of the span. */
phase: Phase,
/** First moment, in seconds since the origin. */
start: number,
/** End, in seconds since the origin. */
end: number, };

/** A failure as a user meets it: what went wrong, what was observed, and what to do. Each crate's
 * error type says which failures it tells apart, and makes one of these of each; only `report`
 * turns them into text. Nothing in it is secret. */
export type Problem = {
/** Failure or senseless value, and where: `cannot connect to amqp://guest@localhost:5672/`. */
cause: string,
/** Observed value: the system's words, the broker's reply, the number that is out of range. Where the cause quotes
 * it, text leaves it out here. */
value: string,
/** The remedy. */
help: string,
/** Lines of a log that explain the cause; empty where there is none. */
log?: string, };

/** An Erlang process, or several of one role, connection and virtual host. */
export type ProcessView = {
/** Label: `queue orders-7`. */
label: string,
/** Its identifier, `<0.123.0>`; empty where it stands for several. */
id: string,
/** Role: `queue`, `channel`; empty where not known. */
role: string,
/** The connection that it works for; empty where it works for none, null where it stands for processes of several. */
connection: string | null,
/** The virtual host that it works for; empty for none, null where it stands for processes of several. */
vhost: string | null,
/** Processes that it stands for. */
processes: number, };

/** Use of the producers' time, as shares that add up to 1. */
export type ProducerTime = {
/** A message was due and could go: the event loop had not come to it. */
ready: number,
/** No message was due. */
schedule: number,
/** The in-flight budget was used up: answers were awaited. */
budget: number,
/** The broker gave no credit (AMQP 1.0). */
credit: number,
/** The socket took no more bytes. */
socket: number,
/** The broker had blocked the connection. */
blocked: number,
/** There was no connection. */
away: number, };

/** The part of a profile that travels as JSON; the columns follow it in the binary part. */
export type ProfileHead = {
/** Sampled event: `cpu`. */
event: string,
/** The kernel's name of it. */
kernel_event: string,
/** Kind of the event. */
event_kind: EventKind,
/** Unit of a sample's weight. */
unit: string,
/** Whether weights are, or may be, sums of samples, each of which counts in tests against chance. */
counts_samples: boolean,
/** Nanoseconds of CPU time that a weight of 1 stands for; 0 where it stands for none. */
period_ns: number,
/** Samples per second of CPU time. */
frequency: number,
/** Samples that the kernel dropped. */
lost: number,
/** How often the kernel stopped sampling for a while. */
throttled: number,
/** Share of the frames without a name. */
unknown_share: number,
/** Share of the stacks that reach their thread's start. */
complete_share: number,
/** Share of the process's CPU time that the samples cover, in words; empty where that is not known. */
covered: string,
/** How the stacks were unwound, in one line; empty where that is not known. */
stacks: string,
/** Known patterns in the stacks of the whole run, largest share first. */
known: Array<KnownView>,
/** CPU time of the profiler itself, nanoseconds. */
own_cpu_ns: number,
/** Notes for its reader. */
notes: Array<string>,
/** Whether samples carry a time; without, every window holds all of them. */
timed: boolean,
/** Sample times are multiples of this many nanoseconds. */
tick_ns: number,
/** Names of modules. */
modules: Array<string>,
/** Names of functions and of groups of threads. */
names: Array<string>,
/** Per name: index into `modules`. */
module: Array<number>,
/** Per name: its kind. */
kind: Array<number>,
/** Per function, in the order of `names`: 1 for one of Erlang, Java or Go, 2 for the loop of a scheduler, which
 * nothing above called, else 0; empty where no function is of such a language. */
language: Array<number>,
/** Lines of source code; `None` where none is known. */
lines: LinesHead | null,
/** The classes that nodes are of, from the broker's own code down to the kernel. */
classes: Array<ClassView>,
/** The Erlang processes of the node, largest share first; empty where none is known. */
processes: Array<ProcessView>,
/** Names of threads; empty where samples carry no time. */
threads: Array<string>,
/** Bytes of the columns. */
bytes: number,
/** Number of nodes of the tree. */
nodes: number,
/** Number of samples. */
samples: number,
/** Whether the columns hold weights; without, each sample weighs 1. */
weighted: boolean, };

/** A program that loaded the broker. */
export type ProgramSummary = {
/** Its command line, without secrets. */
command: string,
/** How it ended: `exit status 0`. */
status: string,
/** The file of the run folder with its output. */
log: string, };

/** Unit of a figure. */
export type QuantityUnit = "ns" | "per_second" | "share" | "count" | "bytes" | "cores";

/** A queue. */
export type QueueRecord = {
/** The queue's name. */
name: string,
/** Its virtual host. */
vhost: string,
/** `classic`, `quorum`, `stream`, or what the broker says. */
type: string,
/** Survives a restart. */
durable: boolean,
/** Messages in it at the end of the run, as the broker counts them; a stream's count lags behind. */
messages: number,
/** Consumers that are subscribed to it. */
consumers: number,
/** The node of a cluster that its process or its leader is on; empty where all queues are on one. */
leader?: string,
/** The nodes that have it, where it is replicated. */
members?: Array<string>,
/** Arguments as `key=value`. */
arguments: Array<string>, };

/** One fact, in words. */
export type Reason = {
/** Code for machines: `in_flight_full`, `loop_busy`, `broker_cpu`, … */
code: string,
/** Sentence for people. */
text: string,
/** The verdict rests on it; others are circumstances. */
decided: boolean, };

/** A function that takes another number of arguments in another version, so that it has another name. */
export type RenamedFunction = {
/** Its name on A. */
a: string,
/** Its name on B. */
b: string, };

/** One figure in all runs. */
export type RepeatedFigure = {
/** Its name, as requirements write it. */
name: string,
/** Unit of its values. */
unit: QuantityUnit,
/** A value for each run; `None` where it cannot be told or the run is not complete. */
values: Array<number | null>,
/** Arithmetic mean of the values. */
mean: number,
/** Sample standard deviation (n - 1); `None` for one value. */
sd: number | null,
/** The smallest value. */
min: number,
/** The largest value. */
max: number,
/** 95 % interval of the mean by Student's t; `None` for fewer than three values. */
interval: [number, number] | null, };

/** One of the runs. */
export type RepeatedRun = {
/** The run folder's name; empty where none was kept. */
id: string,
/** How far it got. Only complete runs count. */
state: RunState,
/** A warning says that one of its numbers must not be used. */
invalid: boolean,
/** Has warnings of tier caution: they say which of its numbers are off, and which way. */
cautious: boolean,
/** Names of figures in which it is an outlier. */
apart: Array<string>, };

/** Runs of one experiment, one after the other. */
export type Repeats = {
/** Always [`Repeats::SCHEMA`]. */
schema: string,
/** The experiment's name. */
name: string,
/** Runs that were requested. */
requested: number,
/** The runs that were made, in the order of time. */
runs: Array<RepeatedRun>,
/** The headline figures, in the order in which they are shown. */
figures: Array<RepeatedFigure>, };

/** Requested and sent messages. Of other scenarios its messages are their operations, which are sent when they
 * begin. */
export type RequestedSummary = {
/** Messages due in warm-up and measured phase: the integral of the rate. Random arrivals deviate from it. */
total: number,
/** The mean of the measured phase, as long as messages were due in it, in messages per second. */
rate: number,
/** Messages sent in the measured phase divided by those requested in it; `None` where none were. */
achieved: number | null,
/** Share of the measured phase's messages that were sent later than 1 ms after their time (0 to 1). */
late_share: number,
/** The measured phase in the order of time: a second each, or so much longer that there are at most 600. */
over_time: Array<RequestedWindow>, };

/** A part of [`RequestedSummary::over_time`]. */
export type RequestedWindow = {
/** Its start in seconds since the run's origin. */
t: number,
/** Its measured length in seconds. */
dt: number,
/** Requested messages per second. */
requested: number,
/** Messages per second sent. */
sent: number, };

/** A chart in which a requirement may be a line. */
export type RequirementChart = "rates" | "operations" | { "latency": Metric };

/** A requirement as a line in a chart. */
export type RequirementLine = {
/** The chart. */
chart: RequirementChart,
/** Its height: nanoseconds, or something per second. */
value: number,
/** Label at its end. */
label: string, };

/** One requirement of a run, and its outcome. */
export type RequirementRow = {
/** The condition as people write it: `end-to-end p99 < 20ms`. */
that: string,
/** Whether it held; `null` where that cannot be told. */
met: boolean | null,
/** `met` in a word: `met`, `missed` or `unknown`. */
outcome: string,
/** Observed value, or why it cannot be told. */
observed: string,
/** Required value. */
limit: string,
/** Its line in a chart; `null` without one. */
line: RequirementLine | null, };

/** Peak resident memory in MB (10^6 bytes). */
export type Rss = {
/** The broker's process tree. */
broker: number | null,
/** bellows itself. */
client: number | null, };

/** How the only run of a side is cut for intervals within it. */
export type RunBlocks = {
/** Seconds that were measured. */
seconds: number,
/** Mean length of the blocks that are drawn, in seconds. */
block_s: number,
/** Why it gives no interval; `None` where it does. */
why_not?: string | null, };

/** How far a run got. */
export type RunState = "running" | "complete" | "interrupted" | "failed";

/** A run as a person sees it. */
export type RunView = {
/** The run folder's name. */
id: string,
/** The experiment's name. */
name: string,
/** Wall-clock start, RFC 3339 in UTC. */
created: string,
/** Origin of all times by the wall clock, milliseconds since 1970-01-01 UTC. */
origin_unix_ms: number,
/** How far the run got. */
state: ViewState,
/** The error of a failed run. */
error: Problem | null,
/** One sentence on the whole run. */
headline: Array<Part>,
/** Scenario whose operations the run asks about; `null` where these are its messages. */
lead: string | null,
/** Warnings about the numbers. */
warnings: Array<ShownWarning>,
/** Missing and unreadable parts. */
notes: Array<string>,
/** Figures over all runs of the same experiment, whose last it is. */
repeats: Repeats | null,
/** Note that people gave the run. */
remark: string | null,
/** Words by which people find it. */
tags: Array<string>,
/** The figures of the measured phase. */
figures: Figures,
/** Who limited the run; `null` where there was no load. */
verdict: Verdict | null,
/** Requirements and their outcomes. */
requirements: Array<RequirementRow>,
/** Broker under load. */
broker: BrokerSummary,
/** Phases in the order of time. */
phases: Array<PhaseSpan>,
/** Labelled moments, those of faults first. */
events: Array<Event>,
/** When faults killed the broker or a node of it, and when that was back, in seconds since the origin. */
killed: Array<number>,
/** Faults that took place. */
faults: Array<FaultView>,
/** Nodes that were back after the end of [`Self::span`]: one of a cluster may take longer than the load. */
returns: Array<Event>,
/** Stalls of the broker, the generator or the machine. */
stalls: Array<StallBand>,
/** Inspections of the broker by other commands. */
looks: Array<LookBand>,
/** Functions that were traced on the broker's node. */
traces: Array<TraceView>,
/** First and last moment in any chart, in seconds since the origin. */
span: [number, number],
/** Metrics in the order in which they are shown. */
metrics: Array<MetricInfo>,
/** Columns of the charts over time. */
series: SeriesColumns,
/** Named series of the machine, of the broker's processes and of scraped pages. */
named: Array<NamedPanel>,
/** The series in tenths of a second, where it has been kept; their cells travel behind those of the grids. */
slices: SliceColumns | null,
/** Latencies by time for each metric; their cells travel beside this. */
grids: Array<LatencyGrid>,
/** A percentile curve for each metric. */
curves: Array<Curve>,
/** The broker's objects. */
topology: Topology,
/** The resolved experiment. */
experiment: unknown,
/** Keys of the experiment whose values are not the defaults, as `load.0.rate`; empty where that is not known. */
changed_keys: Array<string>,
/** Versions of all that took part. */
versions: Versions,
/** The machine. */
hardware: Hardware,
/** Seed of everything random in the run, as text: a browser's numbers end at 2^53. */
seed: string,
/** The command that does it again. */
command: Array<string>,
/** Overhead of profiling, a sentence each; empty where it was not switched on and off in blocks. */
cost_of_profiling: Array<string>,
/** Blocks in which sampling was off, in the order of time. */
sampling_off: Array<SamplingOff>,
/** The profiles, one for each event, the usual one first; their columns travel beside this, one behind the other. */
profiles: Array<ProfileHead>, };

/** A time in which sampling was off, in seconds since the origin. */
export type SamplingOff = {
/** When it began. */
start: number,
/** When it ended. */
end: number, };

/** A value and its 95 % interval, where there is one. */
export type ScaleEstimate = {
/** The value. */
value: number,
/** The interval; `None` where the value lies at its bound, or runs are too few. */
interval: [number, number] | null, };

/** The fitted law as a person sees it. */
export type ScaleLawView = {
/** Messages per second of one client alone. */
alone: ScaleEstimate,
/** Share of the work that waits for shared resources. */
contention: ScaleEstimate,
/** Coordination cost of each pair of clients. */
coherence: ScaleEstimate,
/** The number of clients with the highest throughput. */
peak: number | null,
/** Numbers of clients at which the curve is drawn. */
clients: Array<number>,
/** The throughput there. */
throughput: Array<number>, };

/** A run as a person sees it. */
export type ScaleRunView = {
/** The run's id. */
id: string,
/** The number of clients. */
clients: number,
/** Messages per second. */
throughput: number,
/** CPU of the broker in cores. */
broker_cores: number | null,
/** Whether the generator limited the run. */
by_generator: boolean,
/** Parts of the path from this page to the run's own; empty without one. */
report: Array<string>, };

/** Runs with different numbers of clients, as a person sees them. */
export type ScaleView = {
/** The key that is varied. */
key: string,
/** Name of the varied clients: `producers`. */
noun: string,
/** Every run, in the order of time. */
runs: Array<ScaleRunView>,
/** The fitted law; `None` where there are too few numbers of clients. */
law: ScaleLawView | null,
/** Explanation by the law, a sentence each. */
explained: Array<string>, };

/** System that the operations of a scenario load. */
export type ScenarioRole = "broker" | "server" | "watcher";

/** Outcome of a scenario's operations. Counts are of those that were due in the measured phase; totals of messages are
 * of the whole run. */
export type ScenarioSummary = {
/** Loaded objects: `messages`, `connections`, `channels` or `queues`; the URL of a probe. */
kind: string,
/** Name of its operations. */
unit: string,
/** Loaded system. */
role: ScenarioRole,
/** Operations that ended in order inside the measured phase, per second of its measured length; of messages, the
 * larger rate of those that were sent and those that were received. */
rate: number,
/** Operations that its schedule requested; absent where a producer is unthrottled or waits for answers. */
requested?: RequestedSummary,
/** Why operations failed. */
failures: Array<FailureCount>,
/** CPU time of the measured phase per operation that ended in it, microseconds; absent beside other load. */
cpu_us_each: PerMessage,
/** The latency of a whole operation among `latency`. */
headline?: Metric,
/** How long operations took, and each step of them. */
latency: Summaries, } & ({ [key in string]: number });

/** Outcome of the requests for a page of metrics, from the load's beginning to its end. */
export type ScrapedPage = {
/** Name of the page. */
name: string,
/** Address, without secrets. */
url: string,
/** Requests that brought a page. */
completed: number,
/** Requests that failed. */
failed: number,
/** Requests that were sent, and had no page at the end. */
unanswered: number,
/** Requests that were due and not sent, because the ones before took longer than the time between two. */
not_sent: number,
/** From when a request was due until its page had been read. */
response: LatencySummary,
/** Bytes that arrived for all requests, compressed where the server compresses. */
received_bytes: number,
/** Bytes that arrived for a page, the median. */
arrived_bytes: number,
/** Bytes of a page, not compressed: the median of those that were due in the measured phase. */
page_bytes: number,
/** Series of a page: the median. */
series: number,
/** The broker of the run serves it, and no other page that is scraped. */
is_of_broker: boolean,
/** Cost of a page to that broker; absent where it cannot be told. */
broker_cpu?: PageCpu, };

/** The series: one entry per interval in each column; `null` where something could not be had. */
export type SeriesColumns = {
/** Start of each interval in seconds since the origin. */
t: Array<number>,
/** Measured length of each in seconds. */
dt: Array<number>,
/** Messages, or cycles, per second that were requested. */
requested: Array<number | null>,
/** Messages per second sent. */
sent: Array<number>,
/** Messages per second acknowledged. */
completed: Array<number>,
/** Messages per second received. */
received: Array<number>,
/** Messages per second that found the in-flight window full. */
blocked: Array<number>,
/** The worst lag of an event loop, milliseconds. */
lag_ms: Array<number>,
/** CPU of the broker's processes. */
broker_cores: Array<number | null>,
/** CPU of bellows. */
client_cores: Array<number | null>,
/** Resident memory of the broker's processes, 10^6 bytes. */
broker_mb: Array<number | null>,
/** Resident memory of bellows, 10^6 bytes. */
client_mb: Array<number | null>,
/** Share of the machine's time that its hypervisor took. */
steal: Array<number | null>,
/** Waits of producers. */
waits: WaitShares,
/** Latencies of each metric. */
latency: { [key in Metric]: Percentiles },
/** Counts of scenarios other than messages: per second for counters, as they are for peaks. */
counts: { [key in Metric]: Array<number | null> }, };

/** A warning as the page shows it, with the observed values in its sentence. */
export type ShownWarning = {
/** Consequence for the numbers. */
tier: Tier,
/** Its kind. */
code: WarningCode,
/** Sentence of the warning. */
text: string, };

/** A run that counts. */
export type SideRun = {
/** The run folder's name. */
id: string,
/** Its report beside the page, as names of folders and file. */
report: Array<string>,
/** A warning makes it invalid by itself. */
invalid: boolean,
/** A caution says that some of its numbers are off. */
cautious: boolean, };

/** A side of the comparison. */
export type SideView = {
/** Number and kind of the runs, in a sentence. */
told: string,
/** Its runs that count, in the order in which figures have their values. */
runs: Array<SideRun>,
/** Its runs that do not count. */
left_out: Array<LeftOut>,
/** Whether its runs are histogram logs, of which nothing else is known. */
logs: boolean,
/** How its only run was cut for intervals within it; `None` where it has several. */
within_one_run: RunBlocks | null, };

/** A warning that runs of a comparison have. */
export type SideWarning = {
/** Consequence for the numbers. */
tier: Tier,
/** Its kind. */
code: WarningCode,
/** Runs of A that have it. */
a: number,
/** Runs of B that have it. */
b: number,
/** Sentence of the first of them. */
text: string, };

/** The series in slices: one entry per slice in each column. */
export type SliceColumns = {
/** Start of each slice in seconds since the origin. */
t: Array<number>,
/** Measured length of each in seconds. */
dt: Array<number>,
/** Messages, or cycles, per second that were requested. */
requested: Array<number | null>,
/** Messages per second sent. */
sent: Array<number>,
/** Messages per second acknowledged. */
completed: Array<number>,
/** Messages per second received. */
received: Array<number>,
/** Latencies of each metric. */
latency: { [key in Metric]: Percentiles },
/** Counts of scenarios other than messages, as [`super::SeriesColumns::counts`]. */
counts: { [key in Metric]: Array<number | null> },
/** Latencies by time for each metric; their cells travel behind those of [`super::RunView::grids`]. */
grids: Array<SliceGrid>, };

/** Counts by slice and by logarithm of the latency, as [`super::LatencyGrid`] with the times of the slices. */
export type SliceGrid = {
/** Metric of the cells. */
metric: Metric,
/** The lowest bucket; bucket `b` begins at `10^(b / per_decade)` nanoseconds. */
low: number,
/** Buckets per decade of latency. */
per_decade: number,
/** Number of cells. */
cells: number, };

/** A stall, in seconds since the origin. */
export type StallBand = {
/** When it began. */
start: number,
/** When it ended. */
end: number,
/** The side that stood still. */
who: Stalled,
/** All connections were down. */
away: boolean,
/** The stall in a sentence. */
text: string, };

/** The side that stood still. */
export type Stalled = "broker" | "generator" | "machine";

/** A rate that people want next, and how it is run. */
export type SuggestedRate = {
/** `calm`, or `busy`. */
name: string,
/** Messages per second of all producers. */
rate: number,
/** The command line that runs the experiment at it. */
command: string, };

/** Latencies by metric, in the order of the registry. */
export type Summaries = { [key in Metric]: LatencySummary };

/** A total that includes warm-up and drain, and a rate over the measured phase alone. */
export type Throughput = {
/** Whole run. */
total: number,
/** Messages per second of the measured phase, by its measured length. */
rate: number, };

/** How much a warning takes from the numbers. */
export type Tier = "invalid" | "caution" | "note";

/** The broker's objects. */
export type Topology = {
/** All queues (at most 1,000 are kept, [`Topology::omitted`] counts the others). */
queues: Array<QueueRecord>,
/** Exchanges that somebody declared. */
exchanges: Array<ExchangeRecord>,
/** Bindings, the default exchange's among them. */
bindings: Array<BindingRecord>,
/** Objects left out because there were too many. */
omitted: number,
/** Messages and consumers are from the broker's statistics, which lag by some seconds, not from the queues. */
lagging: boolean,
/** The run's own consumers had left when the broker was asked, so that a queue has at most those of others. */
consumers_left: boolean, };

/** A trace, and its slowest calls. */
export type TraceView = {
/** Its scenario, by which its metrics are found. */
scenario: string,
/** The function. */
function: string,
/** The Erlang node. */
node: string,
/** Calls in the archive. */
kept: number,
/** When it ended before the load did, in seconds since the origin, and why. */
ended: [number, string] | null,
/** The slowest calls of the whole run, the slowest first. */
slowest: Array<TracedCall>, };

/** A call that a trace saw. */
export type TracedCall = {
/** When, in nanoseconds since the run's origin. */
t_ns: number,
/** The process that made it, such as `<0.512.0>`. */
pid: string,
/** Role of that process: `queue`, `connection`; empty where that is not known. */
role: string,
/** Its queue, its connection, or its registered name; empty where it has none. */
name: string,
/** The function: `rabbit_mgmt_wm_queues:to_json/2`. */
function: string,
/** Its arguments as texts, cut, secrets masked; empty where they were switched off. */
arguments: Array<string>,
/** How long it took, waits included; absent where its return was not seen. */
duration_ns?: number | null,
/** `ok`, or the class of the exception that ended it: `error`, `exit`, `throw`; empty if no return was seen. */
returned: string, };

/** A trial as a person sees it. Latencies are in nanoseconds. */
export type TrialView = {
/** The run's id. */
id: string,
/** Requested messages per second. */
rate: number,
/** Outcome of the trial. */
outcome: LimitOutcome,
/** Why the rate did not hold, and first why that is unclear, where it is. */
why: Array<string>,
/** Messages per second that were sent, and received. */
sent: number,
/** See `sent`. */
received: number,
/** Latency of the measured phase; `None` where none was measured. */
latency: LatencySummary | null,
/** CPU of the broker in cores. */
broker_cores: number | null,
/** Parts of the path from this page to the run's own; empty without one. */
report: Array<string>, };

/** The conclusion. */
export type Verdict = {
/** Limiting side, or the schedule. */
limited_by: LimitedBy,
/** Why; `None` where nothing was concluded. */
cause: Cause | null,
/** One sentence, without a full stop. */
sentence: string,
/** Facts that it rests on, and consequences, the weightiest first. */
reasons: Array<Reason>,
/** The figures. */
evidence: Evidence, };

/** Versions of all that took part. */
export type Versions = {
/** Version of bellows. */
bellows: string,
/** The broker, as it calls itself: `RabbitMQ 3.10.8`. */
broker: string | null,
/** The broker's runtime: `Erlang/OTP 25`. */
runtime: string | null, };

/** How far a run got. */
export type ViewState = "complete" | "interrupted" | "failed" | "cut_off";

/** Waits of producers, as shares of their time; `null` without producers. */
export type WaitShares = {
/** Waits for the event loop: a message was due and could go. */
ready: Array<number | null>,
/** Waits for the time of the next message. */
schedule: Array<number | null>,
/** Waits for answers: the in-flight window was full. */
budget: Array<number | null>,
/** Waits for credit, which the broker gives. */
credit: Array<number | null>,
/** Waits for the socket, which took no more bytes. */
socket: Array<number | null>,
/** Waits for the broker, which had blocked the connection. */
blocked: Array<number | null>,
/** Waits for a connection. */
away: Array<number | null>,
/** Share of the event loops' time that they were at work. */
working: Array<number | null>, };

/** The kinds of warning, for machines. */
export type WarningCode = "generator_saturated" | "rate_not_achieved" | "too_few_cores" | "debug_build" | "too_few_samples" | "lost_samples" | "profiler_throttled" | "profile_incomplete" | "clock_not_steady" | "cpu_steal" | "not_steady_state" | "connection_blocked" | "certificate_not_checked" | "connections_lost" | "messages_lost" | "messages_outstanding" | "messages_not_received" | "messages_not_accepted" | "cycles_failed" | "interrupted" | "load_ended" | "archive_incomplete" | "generator_late" | "broker_gone" | "stalled" | "messages_unanswered" | "scrapes_failed" | "nothing_selected" | "faults_missed" | "node_gone" | "trace_ended" | "traced" | "looked_into" | "not_permitted";

/** How well runs that stand alone know a quantile: 95 % intervals by the stationary bootstrap over blocks of seconds.
 * They say nothing of how far runs differ, so that nothing is decided by them. */
export type WithinOneRun = {
/** Interval of the only run of A; `None` where A has several, or the figure is no quantile. */
a: [number, number] | null,
/** Interval of the only run of B. */
b: [number, number] | null, };
