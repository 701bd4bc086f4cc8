// The types of the page's data, made from the Rust types in crates/report/src/view, which describe them.
// Renew with: make view

export type Awaited = "answers" | "credit" | "sockets" | "deliveries";
export type BindingRecord = { source: string, vhost: string, destination: string, destination_type: string,
  routing_key: string, arguments: Array<string>, };
export type BrokerSummary = { kind?: string, version?: string, pid?: number, };
export type BrokerUse = { cores: number, busiest_thread: number | null, busiest_thread_name: string | null,
  starved: number | null, };
export type Busy = "machine" | "thread" | "cores";
export type Capacity = { rate: number, shape: string, at_least: boolean, };
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
export type CellView = { values: Array<string>, label: string, outcome: ComparisonOutcome | null, decided: string,
  headline: string, explanation: string | null, page: Array<string>, figures: Array<FigureRow>, };
export type Class = "erlang_code" | "java_code" | "own_code" | "libraries" | "built_in_functions" | "ets" | "messages" |
  "garbage_collection" | "allocators" | "ports" | "scheduling" | "waiting" | "kernel_network" | "kernel_disk" |
  "kernel_memory" | "kernel_scheduling" | "kernel_other" | "virtual_machine" | "unnamed";
export type ClassView = { class: Class, name: string, meaning: string, outside: string, estimated: boolean, };
export type ClockBoundView = { name: string, bound_ns: number, refused: string | null, };
export type ComparedCurve = { metric: Metric, a: Array<Curve>, b: Array<Curve>, };
export type ComparedFrame = { parent?: number, name: number, a: number, b: number, interval: [number, number],
  asked: boolean, proven: boolean, visible: number | null, };
export type ComparedFunctions = { broker: CostChange, functions: Array<FunctionChange>, others: number,
  explained: Array<ExplainedChange>, other_builds?: Array<string>, renamed?: Array<RenamedFunction>, };
export type ComparedName = { function: string, module: string, };
export type ComparedPanel = { title: string, unit: QuantityUnit, t: Array<number>, dt: Array<number>,
  a: Array<Array<number | null>>, b: Array<Array<number | null>>, };
export type ComparedStacks = { schema: string, broker: CostChange, names: Array<ComparedName>,
  frames: Array<ComparedFrame>, level: number, least_share: number, };
export type ComparisonOutcome = "worse" | "better" | "same" | "undecided" | "noise";
export type ComparisonView = { name: string, created: string, bellows: string, outcome: ComparisonOutcome,
  headline: string, explanation: string | null, a: SideView, b: SideView, paired: boolean,
  differences: Array<ExperimentDifference>, forced: Array<string>, remarks: Array<string>, warnings: Array<SideWarning>,
  figures: Array<FigureRow>, functions: ComparedFunctions | null, stacks: ComparedStacks | null, notes: Array<string>,
  panels: Array<ComparedPanel>, curves: Array<ComparedCurve>, metrics: Array<MetricInfo>, hardware: Hardware, };
export type ConnectionTime = { busy: number, peer_full: number, resent: number, round_trip_ns: number,
  unsent_bytes: number, };
export type CostChange = { a: number, b: number, interval: [number, number], p: number, proven: boolean,
  visible: number | null, };
export type Curve = { metric: Metric, count: number, nines: Array<number>, ns: Array<number>, };
export type Decision = "changed" | "negligible" | "same" | "undecided";
export type Event = { t: number, label: string, };
export type EventKind = "on_cpu" | "off_cpu" | "memory" | "other";
export type Evidence = { seconds: number, requested_rate: number | null, counted: boolean, requested_deviation: number,
  closed_loop: boolean, sent_rate: number, received_rate: number, expected_rate: number | null, slow_consumers: boolean,
  late_share: number, producers: ProducerTime | null, in_flight_limit: number | null, answer_ns: number,
  loops: Array<LoopUse>, spun: boolean, loop_lag_median_ns: number, loop_lag_max_ns: number, lag_explains: number,
  cores: number, machine_cores: number, apart: boolean, idle: number | null, steal: number | null,
  client_cores: number | null, broker: BrokerUse | null, same_machine: boolean, round_trip_ns: number | null,
  idle_answer_ns: number | null, relay: string | null, relay_held_ns: number | null, behind_relay: ConnectionTime |
  null, connections: ConnectionTime | null, capacity: Capacity | null, };
export type ExchangeRecord = { name: string, vhost: string, type: string, };
export type ExperimentDifference = { key: string, a: string | null, b: string | null, };
export type ExplainedChange = { function: string, module: string, change: number, own: boolean, };
export type FailureCount = { reason: string, count: number, };
export type FaultView = { target: string, t: number, back_s: number | null, };
export type FigureRow = { decided: string, worse: boolean, interval_says: boolean, name: string, unit: QuantityUnit,
  more_is_better: boolean, a: Array<number>, b: Array<number>, without: [number, number], means: [number, number],
  change: number, interval: [number, number], p: number | null, corrected_p: number | null, margin: number,
  visible: number, decision: Decision, needed: number | null, within_one_run?: WithinOneRun | null, };
export type Figures = { sent: Throughput, received: Throughput, requested_rate: number | null, refused: number,
  returned: number, redelivered: number, ledger: LedgerSummary | null, late_share: number | null, measured_s: number,
  lasted: Lasted | null, latency: Summaries, cpu_us_per_message: PerMessage, cpu_cores: PerMessage, rss_mb: Rss,
  nodes: Array<NodeSummary>, scenarios: { [key in string]: ScenarioSummary }, programs: Array<ProgramSummary>,
  scrapes: Array<ScrapedPage>, rows: Array<NamedFigure>, clock_bounds: { [key in Metric]: ClockBoundView }, };
export type FoundLimit = { low: number | null, high: number | null, unclear: number | null, ended: boolean,
  confirmed: boolean, };
export type FunctionChange = { function: string, module: string, own: CostChange, total: CostChange, cut: number, };
export type Hardware = { cpu: string, cores: number, memory_bytes: number, kernel: string, os: string,
  clock_source: string | null, virtualised: boolean, settings: Array<[string, string]>, };
export type KneeView = { rate: number, p99_ns: number, };
export type KnownView = { text: string, source: string, };
export type Lasted = { sent_s: number, completed_s: number, received_s: number, };
export type LatencyBound = { that: string, ns: number, };
export type LatencyGrid = { metric: Metric, t: Array<number>, end: Array<number>, low: number, per_decade: number,
  cells: number, };
export type LatencySummary = { count: number, mean_ns: number, p50_ns: number, p90_ns: number, p99_ns: number,
  "p99.9_ns": number, "p99.99_ns": number, max_ns: number, };
export type Lateness = "broker_stalled" | "own_fault" | "broker" | "generator_stalled" | "machine_stalled" | "cores" |
  "generator";
export type LedgerSummary = { sent: number, delivered: number, lost: number, outstanding: number, returned: number,
  unconfirmed_missing: number, unconfirmed_delivered: number, duplicated: number, duplicated_redelivered: number,
  duplicated_resent: number, reordered: number, corrupt: number, foreign: number, exact: boolean, };
export type LeftOut = { id: string, why: string, };
export type LimitOutcome = "held" | "missed" | "unclear";
export type LimitView = { name: string, created: string, bellows: string, headline: string, asked: string,
  found: FoundLimit, certainty: string, latency_name: string, bounds: Array<LatencyBound>, trials: Array<TrialView>,
  suggested: Array<SuggestedRate>, notes: Array<string>, knee: KneeView | null, knee_text: string, scale: ScaleView |
  null, };
export type LimitedBy = "broker" | "generator" | "network" | "schedule" | "undecided";
export type LinesHead = { nodes: number, bytes: number, files: Array<string>, file: Array<number>,
  number: Array<number>, };
export type LookBand = { start: number, end: number, label: string, text: string, };
export type LoopUse = { cpu: number, idle: number, starved: number | null, };
export type MatrixKey = { key: string, values: Array<string>, };
export type MatrixView = { name: string, created: string, bellows: string, outcome: ComparisonOutcome, headline: string,
  a: SideView, b: SideView, differences: Array<ExperimentDifference>, keys: Array<MatrixKey>, key_names: Array<string>,
  cells: Array<CellView>, figures: Array<string>, main_figures: number, forced: Array<string>, remarks: Array<string>,
  warnings: Array<SideWarning>, notes: Array<string>, hardware: Hardware, };
export type Metric = string;
export type MetricInfo = { key: string, name: string, unit: string, kind: MetricKind, scenario: string, part: boolean,
  meaning: string, };
export type MetricKind = "histogram" | "counter" | "peak";
export type NamedFigure = { name: string, value: string, };
export type NamedLine = { label: string, values: Array<number | null>, };
export type NamedPanel = { source: string, name: string, unit: 'count' | 'per-second' | 'bytes' | 'bytes-per-second' |
  'cores' | 'share' | 'seconds', shown: boolean, t: Array<number>, dt: Array<number>, lines: Array<NamedLine>,
  left_out: number, };
export type NodeSummary = { node: number, cpu_cores: number, ran_s?: number | null, rss_mb: number, name?: string |
  null, clock_bound_s?: number | null, };
export type PageCpu = { seconds: number, interval: [number, number], };
export type Part = { text: string, code: boolean, whole: string | null, };
export type PerMessage = { broker: number | null, client: number | null, };
export type Percentiles = { p50: Array<number | null>, p99: Array<number | null>, max: Array<number | null>,
  mean?: Array<number | null>, };
export type Phase = "warmup" | "measure" | "drain";
export type PhaseSpan = { phase: Phase, start: number, end: number, };
export type Problem = { cause: string, value: string, help: string, log?: string, };
export type ProcessView = { label: string, id: string, role: string, connection: string | null, vhost: string | null,
  processes: number, };
export type ProducerTime = { ready: number, schedule: number, budget: number, credit: number, socket: number,
  blocked: number, away: number, };
export type ProfileHead = { event: string, kernel_event: string, event_kind: EventKind, unit: string,
  counts_samples: boolean, period_ns: number, frequency: number, lost: number, unknown_share: number,
  complete_share: number, covered: string, stacks: string, known: Array<KnownView>, notes: Array<string>,
  timed: boolean, tick_ns: number, modules: Array<string>, names: Array<string>, module: Array<number>,
  kind: Array<number>, language: Array<number>, lines: LinesHead | null, classes: Array<ClassView>,
  processes: Array<ProcessView>, threads: Array<string>, bytes: number, nodes: number, samples: number,
  weighted: boolean, };
export type ProgramSummary = { command: string, status: string, log: string, };
export type QuantityUnit = "ns" | "per_second" | "share" | "count" | "bytes" | "cores";
export type QueueRecord = { name: string, vhost: string, type: string, durable: boolean, messages: number,
  consumers: number, leader?: string, members?: Array<string>, arguments: Array<string>, };
export type Reason = { code: string, text: string, decided: boolean, };
export type RenamedFunction = { a: string, b: string, };
export type RepeatedFigure = { name: string, unit: QuantityUnit, values: Array<number | null>, mean: number,
  sd: number | null, min: number, max: number, interval: [number, number] | null, };
export type RepeatedRun = { id: string, state: RunState, invalid: boolean, cautious: boolean, apart: Array<string>, };
export type Repeats = { schema: string, name: string, requested: number, runs: Array<RepeatedRun>,
  figures: Array<RepeatedFigure>, };
export type RequestedSummary = { total: number, rate: number, achieved: number | null, late_share: number,
  over_time: Array<RequestedWindow>, };
export type RequestedWindow = { t: number, dt: number, requested: number, sent: number, };
export type RequirementChart = "rates" | "operations" | { "latency": Metric };
export type RequirementLine = { chart: RequirementChart, value: number, label: string, };
export type RequirementRow = { that: string, met: boolean | null, outcome: string, observed: string, limit: string,
  line: RequirementLine | null, };
export type Rss = { broker: number | null, client: number | null, };
export type RunBlocks = { seconds: number, block_s: number, why_not?: string | null, };
export type RunState = "running" | "complete" | "interrupted" | "failed";
export type RunView = { id: string, name: string, created: string, origin_unix_ms: number, state: RunState,
  error: Problem | null, headline: Array<Part>, lead: string | null, warnings: Array<ShownWarning>,
  notes: Array<string>, repeats: Repeats | null, remark: string | null, tags: Array<string>, figures: Figures,
  verdict: Verdict | null, workers: Array<WorkerColumn>, requirements: Array<RequirementRow>, broker: BrokerSummary,
  phases: Array<PhaseSpan>, events: Array<Event>, killed: Array<number>, faults: Array<FaultView>,
  returns: Array<Event>, stalls: Array<StallBand>, looks: Array<LookBand>, traces: Array<TraceView>, span: [number,
  number], metrics: Array<MetricInfo>, series: SeriesColumns, named: Array<NamedPanel>, slices: SliceColumns | null,
  grids: Array<LatencyGrid>, curves: Array<Curve>, topology: Topology, experiment: unknown, changed_keys: Array<string>,
  guarantee: string | null, limits: Array<[string, string]>, versions: Versions, hardware: Hardware, seed: string,
  command: Array<string>, cost_of_profiling: Array<string>, sampling_off: Array<SamplingOff>,
  profiles: Array<ProfileHead>, };
export type SamplingOff = { start: number, end: number, };
export type ScaleEstimate = { value: number, interval: [number, number] | null, };
export type ScaleLawView = { alone: ScaleEstimate, peak: number | null, clients: Array<number>,
  throughput: Array<number>, };
export type ScaleRunView = { id: string, clients: number, throughput: number, broker_cores: number | null,
  by_generator: boolean, report: Array<string>, };
export type ScaleView = { noun: string, runs: Array<ScaleRunView>, law: ScaleLawView | null, explained: Array<string>,
  };
export type ScenarioRole = "broker" | "server" | "watcher";
export type ScenarioSummary = { kind: string, unit: string, role: ScenarioRole, rate: number,
  requested?: RequestedSummary, failures: Array<FailureCount>, cpu_us_each: PerMessage, headline?: Metric,
  latency: Summaries, } & ({ [key in string]: number });
export type ScrapedPage = { name: string, url: string, completed: number, failed: number, unanswered: number,
  not_sent: number, response: LatencySummary, received_bytes: number, arrived_bytes: number, page_bytes: number,
  series: number, is_of_broker: boolean, broker_cpu?: PageCpu, };
export type SeriesColumns = { t: Array<number>, dt: Array<number>, requested: Array<number | null>, sent: Array<number>,
  completed: Array<number>, received: Array<number>, blocked: Array<number>, lag_ms: Array<number>,
  broker_cores: Array<number | null>, client_cores: Array<number | null>, broker_mb: Array<number | null>,
  client_mb: Array<number | null>, steal: Array<number | null>, waits: WaitShares,
  latency: { [key in Metric]: Percentiles }, counts: { [key in Metric]: Array<number | null> }, };
export type ShownWarning = { tier: Tier, code: WarningCode, text: string, };
export type SideRun = { id: string, report: Array<string>, invalid: boolean, cautious: boolean, };
export type SideView = { told: string, runs: Array<SideRun>, left_out: Array<LeftOut>, logs: boolean,
  within_one_run: RunBlocks | null, };
export type SideWarning = { tier: Tier, code: WarningCode, a: number, b: number, text: string, };
export type SliceColumns = { t: Array<number>, dt: Array<number>, requested: Array<number | null>, sent: Array<number>,
  completed: Array<number>, received: Array<number>, latency: { [key in Metric]: Percentiles },
  counts: { [key in Metric]: Array<number | null> }, grids: Array<SliceGrid>, };
export type SliceGrid = { metric: Metric, low: number, per_decade: number, cells: number, };
export type StallBand = { start: number, end: number, who: Stalled, away: boolean, text: string, };
export type Stalled = "broker" | "generator" | "machine";
export type SuggestedRate = { name: string, rate: number, command: string, };
export type Summaries = { [key in Metric]: LatencySummary };
export type Throughput = { total: number, rate: number, };
export type Tier = "invalid" | "caution" | "note";
export type Topology = { queues: Array<QueueRecord>, exchanges: Array<ExchangeRecord>, bindings: Array<BindingRecord>,
  omitted: number, lagging: boolean, consumers_left: boolean, };
export type TraceView = { function: string, node: string, kept: number, ended: [number, string] | null,
  slowest: Array<TracedCall>, };
export type TracedCall = { t_ns: number, pid: string, role: string, name: string, function: string,
  arguments: Array<string>, duration_ns?: number | null, returned: string, };
export type TrialView = { id: string, rate: number, outcome: LimitOutcome, why: Array<string>, sent: number,
  received: number, latency: LatencySummary | null, broker_cores: number | null, report: Array<string>, };
export type Verdict = { limited_by: LimitedBy, cause: Cause | null, sentence: string, reasons: Array<Reason>,
  evidence: Evidence, };
export type Versions = { bellows: string, broker: string | null, runtime: string | null, };
export type WaitShares = { ready: Array<number | null>, schedule: Array<number | null>, budget: Array<number | null>,
  credit: Array<number | null>, socket: Array<number | null>, blocked: Array<number | null>, away: Array<number | null>,
  working: Array<number | null>, };
export type WarningCode = "generator_saturated" | "rate_not_achieved" | "too_few_cores" | "debug_build" |
  "too_few_samples" | "lost_samples" | "profiler_throttled" | "profile_incomplete" | "clock_not_steady" | "cpu_steal" |
  "not_steady_state" | "connection_blocked" | "certificate_not_checked" | "connections_lost" | "messages_lost" |
  "messages_outstanding" | "messages_not_received" | "messages_not_accepted" | "cycles_failed" | "interrupted" |
  "load_ended" | "archive_incomplete" | "generator_late" | "broker_gone" | "stalled" | "messages_unanswered" |
  "scrapes_failed" | "nothing_selected" | "faults_missed" | "node_gone" | "trace_ended" | "traced" | "looked_into" |
  "not_permitted" | "worker_lost" | "worker_late" | "worker_clock" | "clock_bound" | "clock_bound_broken" |
  "workers_idle" | "collected";
export type WithinOneRun = { a: [number, number] | null, b: [number, number] | null, };
export type WorkerColumn = { head: string, number: boolean, cells: Array<string>, };
