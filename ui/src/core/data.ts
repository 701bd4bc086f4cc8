// What Rust embeds in the page (crates/report/src/html/data.rs) and how it is unpacked.

export type PhaseName = 'warmup' | 'measure' | 'drain';
/** What is measured of a message, headline first. */
export const MESSAGE_KEYS = [
  'ack_response',
  'end_to_end',
  'send_ack',
  'transfer',
  'send_delay',
] as const;
/** The parts of a cycle of churn in the order of time. */
export const PARTS = [
  'wait',
  'connect',
  'secure',
  'log_in',
  'open_channel',
  'declare',
  'delete',
  'close_channel',
  'close',
] as const;
/** What is measured of a cycle: twice from when it was due, and each part. */
export const STEP_KEYS = ['cycle', 'open', ...PARTS] as const;

export type MessageKey = (typeof MESSAGE_KEYS)[number];
export type StepKey = (typeof STEP_KEYS)[number];
export type MetricKey = MessageKey | StepKey;

export interface Phase {
  phase: PhaseName;
  start: number;
  end: number;
}

/** All values are nanoseconds; all are 0 at count 0. */
export interface Latency {
  count: number;
  mean_ns: number;
  p50_ns: number;
  p90_ns: number;
  p99_ns: number;
  'p99.9_ns': number;
  'p99.99_ns': number;
  max_ns: number;
}

export interface Throughput {
  total: number;
  rate: number;
}

/** What became of every message, the warm-up's too. */
export interface Ledger {
  sent: number;
  delivered: number;
  lost: number;
  outstanding: number;
  returned: number;
  unconfirmed_missing: number;
  unconfirmed_delivered: number;
  duplicated: number;
  duplicated_redelivered: number;
  reordered: number;
  corrupt: number;
  foreign: number;
  exact: boolean;
}

/** What became of the cycles that were due in the measured phase. */
export interface Churn {
  kind: string;
  /** Cycles per second that ended in order in the measured phase. */
  rate: number;
  begun: number;
  completed: number;
  failed: number;
  late: number;
  under_way: number;
  not_begun: number;
  failures: { reason: string; count: number }[];
  messages: number;
  cpu_ms_per_cycle: { broker: number | null; client: number | null };
  steps: Partial<Record<StepKey, Latency>>;
}

/** The figures of the measured phase; `null` where something could not be had. */
export interface Figures {
  sent: Throughput;
  completed: Throughput;
  received: Throughput;
  blocked: Throughput;
  requested_rate: number | null;
  refused: number;
  returned: number;
  redelivered: number;
  ledger: Ledger | null;
  late_share: number | null;
  measured_s: number;
  latency: Record<MessageKey, Latency>;
  cpu_us_per_message: { broker: number | null; client: number | null };
  cpu_cores: { broker: number | null; client: number | null };
  rss_mb: { broker: number | null; client: number | null };
  /** Absent where messages were the load. */
  churn?: Churn;
}

/** What producers wait for: shares of their time. */
export type WaitKey = 'ready' | 'schedule' | 'budget' | 'socket' | 'blocked' | 'away';

/** What was observed (crates/archive/src/verdict.rs): shares of time, CPU in cores. */
export interface Evidence {
  seconds: number;
  requested_rate: number | null;
  sent_rate: number;
  received_rate: number;
  late_share: number;
  producers: Record<WaitKey, number> | null;
  in_flight_limit: number | null;
  answer_ns: number;
  loops: { cpu: number; idle: number; starved: number | null }[];
  spun: boolean;
  loop_lag_median_ns: number;
  loop_lag_max_ns: number;
  cores: number;
  machine_cores: number;
  idle: number | null;
  steal: number | null;
  client_cores: number | null;
  broker: {
    cores: number;
    busiest_thread: number | null;
    busiest_thread_name: string | null;
    starved: number | null;
  } | null;
  same_machine: boolean;
  round_trip_ns: number | null;
  idle_answer_ns: number | null;
  relay: string | null;
  connections: {
    busy: number;
    peer_full: number;
    resent: number;
    round_trip_ns: number;
    unsent_bytes: number;
  } | null;
  capacity: { rate: number; shape: string; at_least: boolean } | null;
}

/** Who limited the run. */
export interface Verdict {
  limited_by: 'broker' | 'generator' | 'network' | 'schedule' | 'undecided';
  sentence: string;
  reasons: { code: string; text: string; decided: boolean }[];
  evidence: Evidence;
}

type Column = (number | null)[];

/** One entry per interval of the series. */
export interface Series {
  t: number[];
  dt: number[];
  requested: Column;
  sent: Column;
  completed: Column;
  received: Column;
  blocked: Column;
  lag_ms: Column;
  broker_cores: Column;
  client_cores: Column;
  broker_mb: Column;
  client_mb: Column;
  steal: Column;
  /** Shares of the producers' time, and that of the event loops' time that they were at work. */
  waits?: Record<WaitKey | 'working', Column>;
  latency: Partial<Record<MetricKey, { p50: Column; p99: Column; max: Column }>>;
  /** Absent where messages were the load. */
  cycles?: {
    begun: number[];
    completed: number[];
    failed: number[];
    under_way: number[];
    mean_ns: Partial<Record<StepKey, Column>>;
  };
}

/** A latency of the measured phase, of messages or of a step. */
export function latencyOf(figures: Figures, key: MetricKey): Latency | undefined {
  const messages: Partial<Record<MetricKey, Latency>> = figures.latency;
  const steps: Partial<Record<MetricKey, Latency>> = figures.churn?.steps ?? {};
  return messages[key] ?? steps[key];
}

/** Counts by time (columns of equal or growing length) and by logarithm of the latency. */
export interface HeatMap {
  metric: MetricKey;
  /** Start of each column in seconds, and the end of each. */
  t: number[];
  end: number[];
  /** Lower bound of row 0 in nanoseconds; each row is `ratio` times the one below. */
  low_ns: number;
  ratio: number;
  rows: number;
  /** Triples of column delta, row, count, in the order of columns. */
  cells: number[];
}

/** One metric's distribution: values at growing percentiles of the measured phase. */
export interface Curve {
  metric: MetricKey;
  count: number;
  /** Share of samples at or below the value, as the number of nines: -log10(1 - share). */
  nines: number[];
  ns: number[];
}

export interface QueueRow {
  name: string;
  type: string;
  durable: boolean;
  messages: number;
  consumers: number;
  arguments: string[];
}

export interface RunData {
  format: number;
  id: string;
  name: string;
  created: string;
  state: 'complete' | 'interrupted' | 'failed' | 'cut_off';
  error: string | null;
  headline: { text: string; code: boolean }[];
  warnings: { code: string; text: string }[];
  notes: string[];
  figures: Figures;
  verdict: Verdict | null;
  broker: { kind: string; version: string | null; pid: number | null };
  phases: Phase[];
  events: { t: number; label: string }[];
  span: [number, number];
  series: Series;
  heat: HeatMap[];
  curves: Curve[];
  topology: {
    queues: QueueRow[];
    exchanges: { name: string; type: string }[];
    bindings: { source: string; destination: string; routing_key: string }[];
    omitted: number;
  };
  experiment: unknown;
  versions: { bellows: string; broker: string | null; runtime: string | null };
  hardware: {
    cpu: string;
    cores: number;
    memory_bytes: number;
    kernel: string;
    os: string;
    clock_source: string | null;
    virtualised: boolean;
    settings: [string, string][];
  };
  seed: string;
  command: string[];
  profile: ProfileHead | null;
}

/** The frame kinds by their number in the columns. */
export const KINDS = [
  'erlang',
  'java',
  'runtime',
  'libc',
  'kernel',
  'native',
  'unknown',
  'thread',
] as const;
export type Kind = (typeof KINDS)[number];

/** The part of a profile that travels as JSON. The columns follow it in the binary part. */
export interface ProfileHead {
  event: string;
  kernel_event: string;
  unit: string;
  /** Nanoseconds of CPU time that a weight of 1 stands for; 0 where it stands for none. */
  period_ns: number;
  frequency: number;
  lost: number;
  throttled: number;
  unknown_share: number;
  complete_share: number;
  own_cpu_ns: number;
  notes: string[];
  /** Whether samples carry a time; without, every window holds all of them. */
  timed: boolean;
  /** Sample times are multiples of this many nanoseconds. */
  tick_ns: number;
  modules: string[];
  names: string[];
  /** Per name: index into `modules`, and index into `KINDS`. */
  module: number[];
  kind: number[];
  nodes: number;
  samples: number;
  /** Whether the columns hold weights; without, each sample weighs 1. */
  weighted: boolean;
}

/** A profile with its columns unpacked. Nodes come after their parents. */
export interface Profile extends ProfileHead {
  /** Per node: parent, -1 for a root; frame. */
  parent: Int32Array;
  frame: Uint32Array;
  /** Per sample, in the order of time: seconds since the origin, leaf node, weight. */
  time: Float64Array;
  leaf: Uint32Array;
  weight: Float64Array;
}

export interface Page {
  run: RunData;
  profile: Profile | null;
}

/** Reads the variable-length integers (LEB128) that the columns are made of. */
export class Varints {
  constructor(
    private readonly bytes: Uint8Array,
    private at = 0,
  ) {}

  /** Reads one integer for each place of `column`. */
  read<T extends Uint32Array | Float64Array>(column: T): T {
    const { bytes } = this;
    let at = this.at;
    for (let i = 0; i < column.length; i++) {
      let byte = bytes[at++]!;
      let value = byte & 127;
      for (let scale = 128; byte >= 128; scale *= 128) {
        byte = bytes[at++]!;
        value += (byte & 127) * scale;
      }
      column[i] = value;
    }
    if (at > bytes.length) throw new Error("the profile's columns end early");
    this.at = at;
    return column;
  }
}

/** Unpacks `json length (4 bytes, little endian) | json | columns`. */
export function unpack(bytes: Uint8Array): Page {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  const json = new TextDecoder().decode(bytes.subarray(4, 4 + length));
  const run = JSON.parse(json) as RunData;
  const head = run.profile;
  return { run, profile: head ? unpackProfile(head, bytes.subarray(4 + length)) : null };
}

function unpackProfile(head: ProfileHead, columns: Uint8Array): Profile {
  const input = new Varints(columns);
  // A node names its parent by distance; 0 stands for none.
  const distance = input.read(new Uint32Array(head.nodes));
  const parent = Int32Array.from(distance, (d, i) => (d === 0 ? -1 : i - d));
  const frame = input.read(new Uint32Array(head.nodes));
  const time = input.read(new Float64Array(head.samples));
  const seconds = head.tick_ns / 1e9;
  let ticks = 0;
  for (let i = 0; i < time.length; i++) {
    ticks += time[i]!;
    time[i] = ticks * seconds;
  }
  const leaf = input.read(new Uint32Array(head.samples));
  const weight = new Float64Array(head.samples);
  if (head.weighted) input.read(weight);
  else weight.fill(1);
  return { ...head, parent, frame, time, leaf, weight };
}

function decode(base64: string): Uint8Array<ArrayBuffer> {
  // Browsers since 2025 do it at once; others take ten times as long, which is not much either.
  const native = (Uint8Array as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> })
    .fromBase64;
  if (native) return native.call(Uint8Array, base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** Decodes the base64 text of a gzip stream without any request. */
export async function inflate(base64: string): Promise<Uint8Array> {
  const packed = decode(base64.trim());
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
