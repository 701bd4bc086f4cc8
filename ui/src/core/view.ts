// The types of the page's data, made from the Rust types in crates/report/src/view, which describe each field.
// Renew with: make view

/** Reasons for producers or consumers to wait. */
export type Awaited = "answers" | "credit" | "sockets" | "deliveries";

/** A binding. */
export type BindingRecord = { source: string, vhost: string, destination: string, destination_type: string,
  routing_key: string, arguments: Array<string>, };

/** Broker under load. */
export type BrokerSummary = { kind?: string, version?: string, pid?: number, };

/** The broker's use of CPU. */
export type BrokerUse = { cores: number, busiest_thread: number | null, busiest_thread_name: string | null,
  starved: number | null, };

/** Evidence that the broker has no CPU left. */
export type Busy = "machine" | "thread" | "cores";

/** Throughput of the generator against the embedded broker. */
export type Capacity = { rate: number, shape: string, at_least: boolean, };

/** Cause of the verdict; the figures are in [`Facts`]. */
export type Cause = { "code": "broke_off" } | { "code": "all_failed" } | { "code": "some_failed" } |
  { "code": "too_short" } | { "code": "no_load" } | { "code": "rate_met", late: Lateness | null, } |
  { "code": "consumers_slow" } | { "code": "consumers_behind", why: Cause, } | { "code": "think_time" } |
  { "code": "service_time" } | { "code": "own_fault", deliveries: boolean, } | { "code": "others_fill_machine" } |
  { "code": "stalled_for_cores" } | { "code": "generator_lacks_cores", others: number | null, } |
  { "code": "both_fill_machine" } | { "code": "machine_full" } | { "code": "both_busy" } |
  { "code": "generator_busy" } | { "code": "generator_late" } | { "code": "nothing_due" } | { "code": "unclear" } |
  { "code": "broker_busy", wait: Awaited, busy: Busy, } | { "code": "broker_lacks_cores", wait: Awaited, } |
  { "code": "broker_stalled", for_s: number, times: number, } | { "code": "broker_slow", wait: Awaited, } |
  { "code": "in_flight_limit" } | { "code": "broker_unknown" } | { "code": "round_trip" } | { "code": "proxy_way" } |
  { "code": "link_full", wait: Awaited, } | { "code": "network_full" } | { "code": "proxy_full", wait: Awaited, } |
  { "code": "proxy_hides", wait: Awaited, } | { "code": "slow_even_idle" } | { "code": "broker_does_not_read" } |
  { "code": "sockets_full" } | { "code": "no_credit" } | { "code": "alarm" } | { "code": "no_connection" } |
  { "code": "consumers_idle" };

/** A cell as a person sees it. */
export type CellView = { values: Array<string>, label: string, outcome: ComparisonOutcome | null, decided: string,
  headline: string, explanation: string | null, page: Array<string>, figures: Array<FigureRow>, };

/** Class of a sample's code. */
export type Class = "erlang_code" | "java_code" | "own_code" | "libraries" | "built_in_functions" | "ets" | "messages" |
  "garbage_collection" | "allocators" | "ports" | "scheduling" | "waiting" | "kernel_network" | "kernel_disk" |
  "kernel_memory" | "kernel_scheduling" | "kernel_other" | "virtual_machine" | "unnamed";

/** A class that samples fall into. */
export type ClassView = { class: Class, name: string, meaning: string, outside: string, };

/** How a latency is distributed in the measured phase, of every run. */
export type ComparedCurve = { metric: Metric, a: Array<Curve>, b: Array<Curve>, };

/** A frame below its callers, with its cost and that of its calls. */
export type ComparedFrame = { parent?: number, name: number, a: number, b: number, interval: [number, number],
  asked: boolean, proven: boolean, visible: number | null, };

/** Costs of the broker's functions per message on both sides, in nanoseconds of CPU time. */
export type ComparedFunctions = { broker: CostChange, functions: Array<FunctionChange>, others: number,
  explained: Array<ExplainedChange>, other_builds?: Array<string>, renamed?: Array<RenamedFunction>, };

/** Name of a frame. */
export type ComparedName = { function: string, module: string, };

/** A quantity over the measured phase, of every run. */
export type ComparedPanel = { title: string, unit: QuantityUnit, t: Array<number>, dt: Array<number>,
  a: Array<Array<number | null>>, b: Array<Array<number | null>>, };

/** Call paths of two sides as one tree, in nanoseconds of CPU time per message. */
export type ComparedStacks = { schema: string, broker: CostChange, names: Array<ComparedName>,
  frames: Array<ComparedFrame>, level: number, least_share: number, };

/** Outcome of all figures together. */
export type ComparisonOutcome = "worse" | "better" | "same" | "undecided" | "noise";

/** A comparison as a person sees it. */
export type ComparisonView = { name: string, created: string, bellows: string, outcome: ComparisonOutcome,
  headline: string, explanation: string | null, a: SideView, b: SideView, paired: boolean,
  differences: Array<ExperimentDifference>, forced: Array<string>, remarks: Array<string>, warnings: Array<SideWarning>,
  figures: Array<FigureRow>, functions: ComparedFunctions | null, stacks: ComparedStacks | null, notes: Array<string>,
  panels: Array<ComparedPanel>, curves: Array<ComparedCurve>, metrics: Array<MetricInfo>, hardware: Hardware, };

/** The kernel's TCP figures of the connections to the broker, all added up. */
export type ConnectionTime = { busy: number, peer_full: number, resent: number, round_trip_ns: number,
  unsent_bytes: number, };

/** A cost per message on both sides, nanoseconds. */
export type CostChange = { a: number, b: number, interval: [number, number], p: number, proven: boolean,
  visible: number | null, };

/** One metric's distribution over the measured phase: values at growing percentiles. */
export type Curve = { metric: Metric, count: number, nines: Array<number>, ns: Array<number>, };

/** Decision on a figure. */
export type Decision = "changed" | "negligible" | "same" | "undecided";

/** A labelled moment. */
export type Event = { t: number, label: string, };

/** Kind of an event. */
export type EventKind = "on_cpu" | "off_cpu" | "memory" | "other";

/** Observations of the measured phase. Shares are of time (0 to 1), CPU is in cores. */
export type Evidence = { seconds: number, requested_rate: number | null, counted: boolean, requested_deviation: number,
  closed_loop: boolean, sent_rate: number, received_rate: number, expected_rate: number | null, slow_consumers: boolean,
  late_share: number, producers: ProducerTime | null, in_flight_limit: number | null, answer_ns: number,
  loops: Array<LoopUse>, spun: boolean, loop_lag_median_ns: number, loop_lag_max_ns: number, lag_explains: number,
  cores: number, machine_cores: number, apart: boolean, idle: number | null, steal: number | null,
  client_cores: number | null, broker: BrokerUse | null, same_machine: boolean, round_trip_ns: number | null,
  idle_answer_ns: number | null, relay: string | null, relay_held_ns: number | null, behind_relay: ConnectionTime |
  null, connections: ConnectionTime | null, capacity: Capacity | null, };

/** An exchange. */
export type ExchangeRecord = { name: string, vhost: string, type: string, };

/** A key whose values differ. */
export type ExperimentDifference = { key: string, a: string | null, b: string | null, };

/** A function that explains a part of a change. */
export type ExplainedChange = { function: string, module: string, change: number, own: boolean, };

/** Operations that failed for one reason. */
export type FailureCount = { reason: string, count: number, };

/** A fault as the first screen shows it. */
export type FaultView = { target: string, t: number, back_s: number | null, };

/** A figure and the decision on it in words. */
export type FigureRow = { decided: string, worse: boolean, interval_says: boolean, name: string, unit: QuantityUnit,
  more_is_better: boolean, a: Array<number>, b: Array<number>, without: [number, number], means: [number, number],
  change: number, interval: [number, number], p: number | null, corrected_p: number | null, margin: number,
  visible: number, decision: Decision, needed: number | null, within_one_run?: WithinOneRun | null, };

/** The figures of the measured phase; `null` where something could not be had. */
export type Figures = { sent: Throughput, received: Throughput, requested_rate: number | null, refused: number,
  returned: number, redelivered: number, ledger: LedgerSummary | null, late_share: number | null, measured_s: number,
  lasted: Lasted | null, latency: Summaries, cpu_us_per_message: PerMessage, cpu_cores: PerMessage, rss_mb: Rss,
  nodes: Array<NodeSummary>, scenarios: { [key in string]: ScenarioSummary }, programs: Array<ProgramSummary>,
  scrapes: Array<ScrapedPage>, rows: Array<NamedFigure>, };

/** Range of the limit. */
export type FoundLimit = { low: number | null, high: number | null, unclear: number | null, ended: boolean,
  confirmed: boolean, };

/** Cost of a function. */
export type FunctionChange = { function: string, module: string, own: CostChange, total: CostChange, cut: number, };

/** The machine, as the kernel describes it. */
export type Hardware = { cpu: string, cores: number, memory_bytes: number, kernel: string, os: string,
  clock_source: string | null, virtualised: boolean, settings: Array<[string, string]>, };

/** The knee, at which latency begins to rise faster than the rate. */
export type KneeView = { rate: number, p99_ns: number, };

/** A known pattern. */
export type KnownView = { text: string, source: string, };

/** Seconds from the measured phase's beginning to the last message sent, acknowledged and received; 0 without any. */
export type Lasted = { sent_s: number, completed_s: number, received_s: number, };

/** A latency that must not be exceeded. */
export type LatencyBound = { that: string, ns: number, };

/** Counts by time and by logarithm of the latency. Its cells travel as variable-length integers (LEB128)
 * beside this, in the order of columns, then of buckets: the columns of all cells, each as distance from the
 * cell before; their buckets, as distance from the one before in the same column, else from the lowest; their counts. */
export type LatencyGrid = { metric: Metric, t: Array<number>, end: Array<number>, low: number, per_decade: number,
  cells: number, };

/** Figures of a latency histogram. All values are nanoseconds; all are 0 at `count` 0. */
export type LatencySummary = { count: number, mean_ns: number, p50_ns: number, p90_ns: number, p99_ns: number,
  "p99.9_ns": number, "p99.99_ns": number, max_ns: number, };

/** Why messages left late. */
export type Lateness = "broker_stalled" | "own_fault" | "broker" | "generator_stalled" | "machine_stalled" | "cores" |
  "generator";

/** Where a message can stand. All counts are of messages, per queue, or per subscriber where each
 * gets every message, unless said otherwise. `sent` is the sum of `delivered`, `lost`,
 * `outstanding`, `returned` and `unconfirmed_missing`. */
export type LedgerSummary = { sent: number, delivered: number, lost: number, outstanding: number, returned: number,
  unconfirmed_missing: number, unconfirmed_delivered: number, duplicated: number, duplicated_redelivered: number,
  reordered: number, corrupt: number, foreign: number, exact: boolean, };

/** A run that does not count. */
export type LeftOut = { id: string, why: string, };

/** Outcome of a trial. */
export type LimitOutcome = "held" | "missed" | "unclear";

/** A search as a person sees it. */
export type LimitView = { name: string, created: string, bellows: string, headline: string, asked: string,
  found: FoundLimit, certainty: string, latency_name: string, bounds: Array<LatencyBound>, trials: Array<TrialView>,
  suggested: Array<SuggestedRate>, notes: Array<string>, knee: KneeView | null, knee_text: string, scale: ScaleView |
  null, };

/** Who or what kept the run from more messages. */
export type LimitedBy = "broker" | "generator" | "network" | "schedule" | "undecided";

/** The lines of a profile; their tree follows in the columns. */
export type LinesHead = { nodes: number, bytes: number, files: Array<string>, file: Array<number>,
  number: Array<number>, };

/** An inspection of the broker, in seconds since the origin. */
export type LookBand = { start: number, end: number, label: string, text: string, };

/** Use of an event loop's time, in shares. */
export type LoopUse = { cpu: number, idle: number, starved: number | null, };

/** A key that is varied, and its values. */
export type MatrixKey = { key: string, values: Array<string>, };

/** A matrix as a person sees it. */
export type MatrixView = { name: string, created: string, bellows: string, outcome: ComparisonOutcome, headline: string,
  a: SideView, b: SideView, differences: Array<ExperimentDifference>, keys: Array<MatrixKey>, key_names: Array<string>,
  cells: Array<CellView>, figures: Array<string>, main_figures: number, forced: Array<string>, remarks: Array<string>,
  warnings: Array<SideWarning>, notes: Array<string>, hardware: Hardware, };

/** A metric, as its index in the registry. */
export type Metric = string;

/** Description of a metric. */
export type MetricInfo = { key: string, name: string, unit: string, kind: MetricKind, scenario: string, part: boolean,
  meaning: string, };

/** How the values of a metric are kept and summed up. */
export type MetricKind = "histogram" | "counter" | "peak";

/** A figure of the whole run. */
export type NamedFigure = { name: string, value: string, };

/** A series of a panel. */
export type NamedLine = { label: string, values: Array<number | null>, };

/** Series of one source and name, drawn together. */
export type NamedPanel = { source: string, name: string, unit: 'count' | 'per-second' | 'bytes' | 'bytes-per-second' |
  'cores' | 'share' | 'seconds', shown: boolean, t: Array<number>, dt: Array<number>, lines: Array<NamedLine>,
  left_out: number, };

/** CPU and memory of a cluster's node in the measured phase, with its descendants. */
export type NodeSummary = { node: number, cpu_cores: number, ran_s?: number | null, rss_mb: number, };

/** CPU time that a page costs the broker, beyond its use for the load. */
export type PageCpu = { seconds: number, interval: [number, number], };

/** A piece of the sentence. */
export type Part = { text: string, code: boolean, whole: string | null, };

/** CPU of the two sides: in microseconds per operation (of messages, the larger number of those sent and those
 * received), or in cores. Absent where it could not be read. */
export type PerMessage = { broker: number | null, client: number | null, };

/** Percentiles in nanoseconds, per interval; `null` where nothing was recorded in it. */
export type Percentiles = { p50: Array<number | null>, p99: Array<number | null>, max: Array<number | null>,
  mean?: Array<number | null>, };

/** The part of a run that an interval belongs to. No interval spans two. */
export type Phase = "warmup" | "measure" | "drain";

/** One phase in seconds since the origin. */
export type PhaseSpan = { phase: Phase, start: number, end: number, };

/** A failure as a user meets it: what went wrong, what was observed, and what to do. Each crate's
 * error type says which failures it tells apart, and makes one of these of each; only `report`
 * turns them into text. Nothing in it is secret. */
export type Problem = { cause: string, value: string, help: string, log?: string, };

/** An Erlang process, or several of one role, connection and virtual host. */
export type ProcessView = { label: string, id: string, role: string, connection: string | null, vhost: string | null,
  processes: number, };

/** Use of the producers' time, as shares that add up to 1. */
export type ProducerTime = { ready: number, schedule: number, budget: number, credit: number, socket: number,
  blocked: number, away: number, };

/** The part of a profile that travels as JSON; the columns follow it in the binary part. */
export type ProfileHead = { event: string, kernel_event: string, event_kind: EventKind, unit: string,
  counts_samples: boolean, period_ns: number, frequency: number, lost: number, throttled: number, unknown_share: number,
  complete_share: number, covered: string, stacks: string, known: Array<KnownView>, own_cpu_ns: number,
  notes: Array<string>, timed: boolean, tick_ns: number, modules: Array<string>, names: Array<string>,
  module: Array<number>, kind: Array<number>, language: Array<number>, lines: LinesHead | null,
  classes: Array<ClassView>, processes: Array<ProcessView>, threads: Array<string>, bytes: number, nodes: number,
  samples: number, weighted: boolean, };

/** A program that loaded the broker. */
export type ProgramSummary = { command: string, status: string, log: string, };

/** Unit of a figure. */
export type QuantityUnit = "ns" | "per_second" | "share" | "count" | "bytes" | "cores";

/** A queue. */
export type QueueRecord = { name: string, vhost: string, type: string, durable: boolean, messages: number,
  consumers: number, leader?: string, members?: Array<string>, arguments: Array<string>, };

/** One fact, in words. */
export type Reason = { code: string, text: string, decided: boolean, };

/** A function that takes another number of arguments in another version, so that it has another name. */
export type RenamedFunction = { a: string, b: string, };

/** One figure in all runs. */
export type RepeatedFigure = { name: string, unit: QuantityUnit, values: Array<number | null>, mean: number,
  sd: number | null, min: number, max: number, interval: [number, number] | null, };

/** One of the runs. */
export type RepeatedRun = { id: string, state: RunState, invalid: boolean, cautious: boolean, apart: Array<string>, };

/** Runs of one experiment, one after the other. */
export type Repeats = { schema: string, name: string, requested: number, runs: Array<RepeatedRun>,
  figures: Array<RepeatedFigure>, };

/** Requested and sent messages. Of other scenarios its messages are their operations, which are sent when they begin. */
export type RequestedSummary = { total: number, rate: number, achieved: number | null, late_share: number,
  over_time: Array<RequestedWindow>, };

/** A part of [`RequestedSummary::over_time`]. */
export type RequestedWindow = { t: number, dt: number, requested: number, sent: number, };

/** A chart in which a requirement may be a line. */
export type RequirementChart = "rates" | "operations" | { "latency": Metric };

/** A requirement as a line in a chart. */
export type RequirementLine = { chart: RequirementChart, value: number, label: string, };

/** One requirement of a run, and its outcome. */
export type RequirementRow = { that: string, met: boolean | null, outcome: string, observed: string, limit: string,
  line: RequirementLine | null, };

/** Peak resident memory in MB (10^6 bytes). */
export type Rss = { broker: number | null, client: number | null, };

/** How the only run of a side is cut for intervals within it. */
export type RunBlocks = { seconds: number, block_s: number, why_not?: string | null, };

/** How far a run got. */
export type RunState = "running" | "complete" | "interrupted" | "failed";

/** A run as a person sees it. */
export type RunView = { id: string, name: string, created: string, origin_unix_ms: number, state: ViewState,
  error: Problem | null, headline: Array<Part>, lead: string | null, warnings: Array<ShownWarning>,
  notes: Array<string>, repeats: Repeats | null, remark: string | null, tags: Array<string>, figures: Figures,
  verdict: Verdict | null, requirements: Array<RequirementRow>, broker: BrokerSummary, phases: Array<PhaseSpan>,
  events: Array<Event>, killed: Array<number>, faults: Array<FaultView>, returns: Array<Event>,
  stalls: Array<StallBand>, looks: Array<LookBand>, traces: Array<TraceView>, span: [number, number],
  metrics: Array<MetricInfo>, series: SeriesColumns, named: Array<NamedPanel>, slices: SliceColumns | null,
  grids: Array<LatencyGrid>, curves: Array<Curve>, topology: Topology, experiment: unknown, changed_keys: Array<string>,
  guarantee: string | null, limits: Array<[string, string]>, versions: Versions, hardware: Hardware, seed: string,
  command: Array<string>, cost_of_profiling: Array<string>, sampling_off: Array<SamplingOff>,
  profiles: Array<ProfileHead>, };

/** A time in which sampling was off, in seconds since the origin. */
export type SamplingOff = { start: number, end: number, };

/** A value and its 95 % interval, where there is one. */
export type ScaleEstimate = { value: number, interval: [number, number] | null, };

/** The fitted law as a person sees it. */
export type ScaleLawView = { alone: ScaleEstimate, contention: ScaleEstimate, coherence: ScaleEstimate, peak: number |
  null, clients: Array<number>, throughput: Array<number>, };

/** A run as a person sees it. */
export type ScaleRunView = { id: string, clients: number, throughput: number, broker_cores: number | null,
  by_generator: boolean, report: Array<string>, };

/** Runs with different numbers of clients, as a person sees them. */
export type ScaleView = { key: string, noun: string, runs: Array<ScaleRunView>, law: ScaleLawView | null,
  explained: Array<string>, };

/** System that the operations of a scenario load. */
export type ScenarioRole = "broker" | "server" | "watcher";

/** Outcome of a scenario's operations. Counts are of those that were due in the measured phase; totals of messages are
 * of the whole run. */
export type ScenarioSummary = { kind: string, unit: string, role: ScenarioRole, rate: number,
  requested?: RequestedSummary, failures: Array<FailureCount>, cpu_us_each: PerMessage, headline?: Metric,
  latency: Summaries, } & ({ [key in string]: number });

/** Outcome of the requests for a page of metrics, from the load's beginning to its end. */
export type ScrapedPage = { name: string, url: string, completed: number, failed: number, unanswered: number,
  not_sent: number, response: LatencySummary, received_bytes: number, arrived_bytes: number, page_bytes: number,
  series: number, is_of_broker: boolean, broker_cpu?: PageCpu, };

/** The series: one entry per interval in each column; `null` where something could not be had. */
export type SeriesColumns = { t: Array<number>, dt: Array<number>, requested: Array<number | null>, sent: Array<number>,
  completed: Array<number>, received: Array<number>, blocked: Array<number>, lag_ms: Array<number>,
  broker_cores: Array<number | null>, client_cores: Array<number | null>, broker_mb: Array<number | null>,
  client_mb: Array<number | null>, steal: Array<number | null>, waits: WaitShares,
  latency: { [key in Metric]: Percentiles }, counts: { [key in Metric]: Array<number | null> }, };

/** A warning as the page shows it, with the observed values in its sentence. */
export type ShownWarning = { tier: Tier, code: WarningCode, text: string, };

/** A run that counts. */
export type SideRun = { id: string, report: Array<string>, invalid: boolean, cautious: boolean, };

/** A side of the comparison. */
export type SideView = { told: string, runs: Array<SideRun>, left_out: Array<LeftOut>, logs: boolean,
  within_one_run: RunBlocks | null, };

/** A warning that runs of a comparison have. */
export type SideWarning = { tier: Tier, code: WarningCode, a: number, b: number, text: string, };

/** The series in slices: one entry per slice in each column. */
export type SliceColumns = { t: Array<number>, dt: Array<number>, requested: Array<number | null>, sent: Array<number>,
  completed: Array<number>, received: Array<number>, latency: { [key in Metric]: Percentiles },
  counts: { [key in Metric]: Array<number | null> }, grids: Array<SliceGrid>, };

/** Counts by slice and by logarithm of the latency, as [`super::LatencyGrid`] with the times of the slices. */
export type SliceGrid = { metric: Metric, low: number, per_decade: number, cells: number, };

/** A stall, in seconds since the origin. */
export type StallBand = { start: number, end: number, who: Stalled, away: boolean, text: string, };

/** The side that stood still. */
export type Stalled = "broker" | "generator" | "machine";

/** A rate that people want next, and how it is run. */
export type SuggestedRate = { name: string, rate: number, command: string, };

/** Latencies by metric, in the order of the registry. */
export type Summaries = { [key in Metric]: LatencySummary };

/** A total that includes warm-up and drain, and a rate over the measured phase alone. */
export type Throughput = { total: number, rate: number, };

/** How much a warning takes from the numbers. */
export type Tier = "invalid" | "caution" | "note";

/** The broker's objects. */
export type Topology = { queues: Array<QueueRecord>, exchanges: Array<ExchangeRecord>, bindings: Array<BindingRecord>,
  omitted: number, lagging: boolean, consumers_left: boolean, };

/** A trace, and its slowest calls. */
export type TraceView = { scenario: string, function: string, node: string, kept: number, ended: [number, string] |
  null, slowest: Array<TracedCall>, };

/** A call that a trace saw. */
export type TracedCall = { t_ns: number, pid: string, role: string, name: string, function: string,
  arguments: Array<string>, duration_ns?: number | null, returned: string, };

/** A trial as a person sees it. Latencies are in nanoseconds. */
export type TrialView = { id: string, rate: number, outcome: LimitOutcome, why: Array<string>, sent: number,
  received: number, latency: LatencySummary | null, broker_cores: number | null, report: Array<string>, };

/** The conclusion. */
export type Verdict = { limited_by: LimitedBy, cause: Cause | null, sentence: string, reasons: Array<Reason>,
  evidence: Evidence, };

/** Versions of all that took part. */
export type Versions = { bellows: string, broker: string | null, runtime: string | null, };

/** How far a run got. */
export type ViewState = "complete" | "interrupted" | "failed" | "cut_off";

/** Waits of producers, as shares of their time; `null` without producers. */
export type WaitShares = { ready: Array<number | null>, schedule: Array<number | null>, budget: Array<number | null>,
  credit: Array<number | null>, socket: Array<number | null>, blocked: Array<number | null>, away: Array<number | null>,
  working: Array<number | null>, };

/** The kinds of warning, for machines. */
export type WarningCode = "generator_saturated" | "rate_not_achieved" | "too_few_cores" | "debug_build" |
  "too_few_samples" | "lost_samples" | "profiler_throttled" | "profile_incomplete" | "clock_not_steady" | "cpu_steal" |
  "not_steady_state" | "connection_blocked" | "certificate_not_checked" | "connections_lost" | "messages_lost" |
  "messages_outstanding" | "messages_not_received" | "messages_not_accepted" | "cycles_failed" | "interrupted" |
  "load_ended" | "archive_incomplete" | "generator_late" | "broker_gone" | "stalled" | "messages_unanswered" |
  "scrapes_failed" | "nothing_selected" | "faults_missed" | "node_gone" | "trace_ended" | "traced" | "looked_into" |
  "not_permitted";

/** How well runs that stand alone know a quantile: 95 % intervals by the stationary bootstrap over blocks of seconds.
 * They say nothing of how far runs differ, so that nothing is decided by them. */
export type WithinOneRun = { a: [number, number] | null, b: [number, number] | null, };
