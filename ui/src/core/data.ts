// The page's data as it is embedded (crates/report/src/view), and how it is unpacked.

import type { Histograms } from './histograms';
import type { Inflated, Pause } from './inflate';
import type {
  Figures,
  LatencyGrid,
  LatencySummary,
  LinesHead,
  Metric,
  MetricInfo,
  ProducerTime,
  ProfileHead,
  RunView,
  SliceColumns,
} from './view';

export type WaitKey = keyof ProducerTime;

export type Column = (number | null)[];

/** A latency of the measured phase, of messages or of another scenario. */
export function latencyOf(figures: Figures, key: Metric): LatencySummary | undefined {
  const scenarios = Object.values(figures.scenarios).map((scenario) => scenario?.latency[key]);
  return figures.latency[key] ?? scenarios.find((latency) => latency !== undefined);
}

export function infoOf(run: RunView, key: Metric): MetricInfo {
  const found = run.metrics.find((metric) => metric.key === key);
  const unknown = { unit: 'ns', kind: 'histogram', scenario: '', part: false, meaning: '' } as const;
  if (!found) return { ...unknown, key, name: key.replaceAll('_', ' ') };
  // Two probes measure the same by the same names.
  const alike = run.metrics.some((metric) => metric.name === found.name && metric.scenario !== found.scenario);
  return alike ? { ...found, name: `${called(found.scenario)}: ${found.name}` } : found;
}

/** A scenario's name as people write it: `probe queue-page`. */
export function called(scenario: string): string {
  return scenario.replace('_', ' ').replaceAll('_', '-');
}

/** What a metric is called where the scenario's name stands above it already: `body` of `queue-page body`. */
export function shortName({ name, scenario }: MetricInfo): string {
  const own = called(scenario)
    .replace(/^(probe|trace) /, '')
    .replaceAll('-', ' ');
  const plain = name.replaceAll(/[-_]/g, ' ');
  return own !== '' && plain.startsWith(`${own} `) ? name.slice(own.length + 1) : name;
}

/** What stands before the titles of a scenario where something else has titles, too. */
export function whose(run: RunView, scenario: string): string {
  const { sent, received, scenarios } = run.figures;
  const isAlone = sent.total + received.total === 0 && Object.keys(scenarios).length === 1;
  return isAlone ? '' : `${called(scenario)}: `;
}

/** What was profiled and measured beside bellows: a broker under load, a server that probes alone asked, or any process. */
export function subject(run: RunView): 'broker' | 'server' | 'process' {
  const { sent, received, scenarios, programs } = run.figures;
  const operations = Object.values(scenarios);
  const hasMessages = sent.total + received.total > 0 || programs.length > 0;
  if (operations.length === 0 || hasMessages) return hasMessages ? 'broker' : 'process';
  return operations.every((it) => it.role === 'server') ? 'server' : 'broker';
}

/** A text of the page on the broker; where probes alone asked a server, on that. */
export function ofSubject(run: RunView, text: string): string {
  if (subject(run) !== 'server') return text;
  return text.replaceAll('broker', 'server').replaceAll('Broker', 'Server');
}

/** The count of a scenario with this key, alone or behind its name (`probe_failed`); 0 where there is none. */
export function count(scenario: string, counts: Record<string, unknown>, key: string): number {
  const own = counts[key] ?? counts[`${scenario}_${key}`];
  return typeof own === 'number' ? own : 0;
}

/** The latencies of the run, in the order in which they are shown. */
export function latencyKeys(run: RunView): Metric[] {
  return run.metrics.filter((metric) => metric.kind === 'histogram').map((metric) => metric.key);
}

/** The latency that the run asks about: of the whole operations of the scenario that leads; null where messages do. */
export function leadMetric({ lead, metrics, figures }: RunView): Metric | null {
  if (!lead) return null;
  const isOwn = ({ scenario, kind, part }: MetricInfo): boolean => scenario === lead && kind === 'histogram' && !part;
  const own = metrics.filter(isOwn);
  const named = figures.scenarios[lead]?.headline;
  return (own.find(({ key }) => key === named) ?? own[0])?.key ?? null;
}

/** The frame kinds by their number in the columns. */
export const KINDS = ['erlang', 'java', 'runtime', 'libc', 'kernel', 'native', 'unknown', 'thread'] as const;
export type Kind = (typeof KINDS)[number];

/** The lines that stacks stand at: a tree beside that of functions. Nodes come after their parents. */
export interface LineTree extends LinesHead {
  /** Per node: its node of the functions' tree. */
  of: Uint32Array;
  /** Per node: parent, -1 for a root; line, index in `file` and `number`. Read when it is first asked for. */
  tree(): { parent: Int32Array; line: Uint32Array };
  /** Per sample: its node. */
  leaf: Uint32Array;
}

/** A profile with its columns unpacked. Nodes come after their parents. */
export interface Profile extends ProfileHead {
  /** Per node: parent, -1 for a root; frame; index in `classes` of the samples that end there. */
  parent: Int32Array;
  frame: Uint32Array;
  class: Uint32Array;
  /** Lines of source code; null where none is known. */
  lineTree: LineTree | null;
  /** Per sample, in the order of time: seconds since the origin, leaf node, weight. */
  time: Float64Array;
  leaf: Uint32Array;
  weight: Float64Array;
  /** Per sample: 0 for no Erlang process, else its index in `processes` and 1; null where none is known. */
  process: Uint32Array | null;
  /** Per sample: index in `threads`; null where samples carry no time. It is unpacked when it is first asked for. */
  thread(): Uint32Array | null;
}

/** The profile of an event. Its columns are unpacked when somebody first looks at it. */
export interface EventProfile {
  head: ProfileHead;
  open(): Profile;
}

/** Makes something when it is first asked for. */
function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** The series in tenths of a second, with its latencies unpacked. */
export interface Slices extends SliceColumns {
  histograms: Histograms[];
}

export interface Page {
  run: RunView;
  histograms: Histograms[];
  slices: Slices | null;
  /** One for each event, the usual one first. */
  profiles: EventProfile[];
  /** Inflates the columns of the profiles, which can be opened then. */
  rest(pause: Pause): Promise<void>;
}

/** Reads the variable-length integers (LEB128) that the columns are made of. */
export class Varints {
  constructor(
    private readonly bytes: Uint8Array,
    private at = 0,
  ) {}

  read<T extends Uint32Array | Float64Array>(column: T): T {
    const { bytes } = this;
    // A loop that sees both kinds of columns costs three times as much.
    const read = column instanceof Uint32Array ? readInts : readFloats;
    const at = read(bytes, this.at, column as Uint32Array & Float64Array);
    if (at > bytes.length) throw new Error("the profile's columns end early");
    this.at = at;
    return column;
  }

  take(length: number): Uint8Array {
    const end = this.at + length;
    if (end > this.bytes.length) throw new Error("the profile's columns end early");
    const taken = this.bytes.subarray(this.at, end);
    this.at = end;
    return taken;
  }
}

/** Fills a column from the place `at`; returns the place behind it. Integers of one and two bytes are most of all. */
function readInts(bytes: Uint8Array, at: number, column: Uint32Array): number {
  for (let i = 0; i < column.length; i++) {
    let value = bytes[at++]!;
    if (value >= 128) {
      let byte = bytes[at++]!;
      value += (byte << 7) - 128;
      for (let shift = 14; byte >= 128; shift += 7) {
        byte = bytes[at++]!;
        // The bit that said that this byte follows is taken back.
        value += (byte << shift) - (1 << shift);
      }
    }
    column[i] = value;
  }
  return at;
}

/** The same for integers that may have more than 32 bits. */
function readFloats(bytes: Uint8Array, at: number, column: Float64Array): number {
  for (let i = 0; i < column.length; i++) {
    let value = bytes[at++]!;
    for (let byte = value, scale = 128; byte >= 128; scale *= 128) {
      byte = bytes[at++]!;
      value += (byte - 1) * scale;
    }
    column[i] = value;
  }
  return at;
}

/** Unpacks `json length (4 bytes, little endian) | json | columns`, all but the columns of the profiles: they are most. */
export async function unpack(packed: Inflated): Promise<Page> {
  const { bytes } = packed;
  const { view: run, length } = await unpackJson<RunView>(packed);
  await packed.until(run.profiles.reduce((end, head) => end - head.bytes, bytes.length));
  const input = new Varints(bytes.subarray(4 + length));
  const histograms = run.grids.map((grid) => unpackGrid(grid, input));
  const slices = run.slices && unpackSlices(run.slices, input);
  const profiles = run.profiles.map((head): EventProfile => {
    const columns = new Varints(input.take(head.bytes));
    return { head, open: once(() => unpackProfile(head, columns)) };
  });
  return { run, histograms, slices, profiles, rest: (pause) => packed.end(pause) };
}

/** The data of a page without columns: a comparison, a matrix of them, a search for a limit. */
export async function unpackView<T>(packed: Inflated): Promise<T> {
  return (await unpackJson<T>(packed)).view;
}

/** What stands before the columns, and the length of its text. */
async function unpackJson<T>(packed: Inflated): Promise<{ view: T; length: number }> {
  const { bytes } = packed;
  await packed.until(4);
  const length = new DataView(bytes.buffer).getUint32(0, true);
  await packed.until(4 + length);
  const text = new TextDecoder().decode(bytes.subarray(4, 4 + length));
  return { view: JSON.parse(text) as T, length };
}

function unpackSlices(slices: SliceColumns, input: Varints): Slices {
  const { t, dt } = slices;
  const end = t.map((start, i) => start + dt[i]!);
  return { ...slices, histograms: slices.grids.map((it) => unpackGrid({ ...it, t, end }, input)) };
}

function unpackGrid(grid: LatencyGrid, input: Varints): Histograms {
  const column = input.read(new Uint32Array(grid.cells));
  const bucket = input.read(new Uint32Array(grid.cells));
  for (let i = 1; i < column.length; i++) {
    // In the same column buckets count from the one before.
    if (column[i] === 0) bucket[i]! += bucket[i - 1]!;
    column[i]! += column[i - 1]!;
  }
  return { ...grid, column, bucket, count: input.read(new Float64Array(grid.cells)) };
}

function unpackProfile(head: ProfileHead, input: Varints): Profile {
  const parent = parents(input.read(new Uint32Array(head.nodes)));
  const frame = input.read(new Uint32Array(head.nodes));
  const classes = input.read(new Uint32Array(head.nodes));
  const tree = head.lines && unpackLines(head.lines, input);
  const time = input.read(new Float64Array(head.samples));
  const seconds = head.tick_ns / 1e9;
  let ticks = 0;
  for (let i = 0; i < time.length; i++) {
    ticks += time[i]!;
    time[i] = ticks * seconds;
  }
  const lineLeaf = input.read(new Uint32Array(head.samples));
  let leaf = lineLeaf;
  if (tree) {
    leaf = new Uint32Array(lineLeaf.length);
    for (let i = 0; i < leaf.length; i++) leaf[i] = tree.of[lineLeaf[i]!]!;
  }
  const weight = new Float64Array(head.samples);
  if (head.weighted) input.read(weight);
  else weight.fill(1);
  const process = head.processes.length > 0 ? input.read(new Uint32Array(head.samples)) : null;
  const thread = once(() => (head.timed ? input.read(new Uint32Array(head.samples)) : null));
  const lineTree = tree && { ...tree, leaf: lineLeaf };
  return { ...head, parent, frame, class: classes, time, leaf, weight, process, thread, lineTree };
}

function unpackLines(lines: LinesHead, input: Varints): Omit<LineTree, 'leaf'> {
  // The next node mostly, or one that lies so far from it: 0, -1, 1, -2 are 0 to 3.
  const of = input.read(new Uint32Array(lines.nodes));
  let next = 0;
  for (let i = 0; i < of.length; i++) {
    const folded = of[i]!;
    const node = next + ((folded >>> 1) ^ -(folded & 1));
    of[i] = node;
    next = node + 1;
  }
  const rest = new Varints(input.take(lines.bytes));
  const tree = once(() => {
    const parent = parents(rest.read(new Uint32Array(lines.nodes)));
    return { parent, line: rest.read(new Uint32Array(lines.nodes)) };
  });
  return { ...lines, of, tree };
}

/** A node names its parent by distance; 0 stands for none. */
function parents(distance: Uint32Array): Int32Array {
  const parent = new Int32Array(distance.length);
  for (let i = 0; i < parent.length; i++) parent[i] = distance[i] === 0 ? -1 : i - distance[i]!;
  return parent;
}
