// Who limited the run: the sentence, what decided it, what producers waited for over time, and the
// figures that it rests on.

import { apart, margins } from '../charts/panel';
import { ofSubject, type WaitKey } from '../core/data';
import {
  type Child,
  type Column,
  fill,
  h,
  later,
  pairs,
  scrolling,
  section,
  svg,
  tableOfColumns,
  widthOf,
  withCode,
} from '../core/dom';
import { counted, duration, grouped, percent, significant, timeTick } from '../core/format';
import type { Store } from '../core/state';
import { tip } from '../core/tip';
import type { Evidence, RunView, Verdict } from '../core/view';
import { isFirst } from './scenario';
import { effectiveWindow, type View } from './timeline';

/** From the bottom of the stack to its top: the generator's own, the broker's, the schedule's. */
export const WAITS: readonly (readonly [WaitKey, string, string])[] = [
  ['ready', 'event loop', 'A message was due and could go: the event loop had not come to it'],
  ['budget', 'answers', "The in-flight window was full: the broker's answers were awaited"],
  ['credit', 'credit', 'The broker gave no credit (AMQP 1.0)'],
  ['socket', 'socket', 'The socket took no more bytes'],
  ['blocked', 'blocked', 'The broker had blocked the connection'],
  ['away', 'no connection', 'There was no connection'],
  ['schedule', 'nothing due', 'No message was due'],
];

/** What is other where operations come and go, and no messages, by what they are called: `cycles`, `requests`. */
function ofOperations(unit: string): Partial<Record<WaitKey, readonly [string, string]>> {
  const one = unit.replace(/s$/, '');
  const all = unit.charAt(0).toUpperCase() + unit.slice(1);
  return {
    ready: ['event loop', `A ${one} was due and had a place: the event loop had not come to it`],
    budget: ['places taken', `${all} that had not ended took all places (--max-open)`],
    schedule: ['nothing due', `No ${one} was due`],
  };
}

export interface Words {
  waits: readonly (readonly [WaitKey, string, string])[];
  who: string;
  unit: string;
  sent: string;
}

/** The words for messages, or for the operations of a run without them. */
export function words(unit: string | undefined): Words {
  if (unit === undefined) return { waits: WAITS, who: 'producers', unit: 'msg/s', sent: 'sent' };
  const own = ofOperations(unit);
  const waits = WAITS.map(([key, ...usual]) => [key, ...(own[key] ?? usual)] as const);
  return { waits, who: unit, unit: `${unit}/s`, sent: 'begun' };
}

/** Who limited the run, as the terminal says it at its end. */
export function who({ cause, limited_by, sentence }: Pick<Verdict, 'cause' | 'limited_by' | 'sentence'>): string {
  if (cause?.code === 'some_failed' || cause?.code === 'all_failed') return 'failures';
  const told = (cause?.code === 'rate_met' ? /^(.+?) was met: / : /(?:^|; )limited by ([^:]+)/).exec(sentence);
  return told?.[1] ?? (limited_by === 'schedule' ? 'the requested rate' : limited_by);
}

/** More bars than this tell no more. */
const MOST_BARS = 240;
const HEIGHT = 96;
const LOOP_HEIGHT = 22;
const GAP = 18;

/** A stretch of time and the shares of each cause in it, in the order of [`WAITS`]. */
export interface Bar {
  from: number;
  to: number;
  shares: number[];
  /** The share of the event loops' time that they were at work. */
  working: number | null;
}

/** The series as bars: one for each interval, or for several where there are many. */
export function bars(run: RunView): Bar[] {
  const { t, dt, waits } = run.series;
  if (!waits) return [];
  const known = t.map((_, i) => i).filter((i) => WAITS.some(([key]) => (waits[key][i] ?? 0) > 0) && dt[i]! > 0);
  const each = Math.max(1, Math.ceil(known.length / MOST_BARS));
  const out: Bar[] = [];
  for (let first = 0; first < known.length; first += each) {
    const part = known.slice(first, first + each);
    const seconds = part.reduce((sum, i) => sum + dt[i]!, 0);
    const mean = (column: (number | null)[]): number =>
      part.reduce((sum, i) => sum + (column[i] ?? 0) * dt[i]!, 0) / seconds;
    const last = part.at(-1)!;
    out.push({
      from: t[part[0]!]!,
      to: t[last]! + dt[last]!,
      shares: WAITS.map(([key]) => mean(waits[key])),
      working: waits.working.some((v) => v !== null) ? mean(waits.working) : null,
    });
  }
  return out;
}

function totals(all: Bar[], [from, to]: readonly [number, number]): number[] {
  const inside = all.filter((b) => b.to > from + 1e-3 && b.from < to - 1e-3);
  const list = inside.length > 0 ? inside : all;
  const seconds = list.reduce((sum, b) => sum + b.to - b.from, 0);
  return WAITS.map((_, k) => list.reduce((sum, b) => sum + b.shares[k]! * (b.to - b.from), 0) / (seconds || 1));
}

/** The causes that occur, with their shares; `y` is where the stack has them. */
function marks(shares: number[], words: Words): { key: WaitKey; text: string; title: string; y: number }[] {
  let below = 0;
  return words.waits.flatMap(([key, name, title], k) => {
    const share = shares[k]!;
    const y = below + share / 2;
    below += share;
    return share < 0.0005 ? [] : [{ key, text: `${name} ${percent(share)}`, title, y }];
  });
}

function swatch(key: string, text: string, title: string): HTMLElement {
  return h('span', { class: `mark wait-${key}`, title }, h('i', {}), text);
}

function labels(list: ReturnType<typeof marks>): HTMLElement {
  const placed = list.map((m) => ({ mark: swatch(m.key, m.text, m.title), top: (1 - m.y) * HEIGHT + 1 }));
  return h('div', { class: 'ends', 'aria-hidden': 'true' }, apart(placed, HEIGHT - 3));
}

/** Round moments between two, at most so many. */
export function ticks(start: number, end: number, most: number): number[] {
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600];
  const length = end - start;
  const step = steps.find((s) => length / s <= Math.max(2, most)) ?? length / 2;
  const out: number[] = [];
  for (let i = Math.ceil(start / step); i * step <= end + 1e-9; i++) {
    out.push(Math.round(i * step * 1000) / 1000);
  }
  return out;
}

function picture(run: RunView, all: Bar[], words: Words, width: number): SVGElement {
  const { left, right } = margins(width);
  const [start, end] = run.span;
  const inner = width - left - right;
  const x = (time: number): number => left + ((time - start) / (end - start)) * inner;
  const loops = all.some((b) => b.working !== null);
  const bottom = HEIGHT + (loops ? GAP + LOOP_HEIGHT : 0);
  const root = svg('svg', {
    width,
    height: bottom + 20,
    role: 'img',
    'aria-label': `What ${words.who} waited for over time; the table below has the figures`,
  });
  for (const phase of run.phases.filter((p) => p.phase !== 'measure')) {
    const size = { width: Math.max(0, x(phase.end) - x(phase.start)), height: bottom };
    root.append(svg('rect', { class: 'aside', x: x(phase.start), y: 0, ...size }));
  }
  for (const bar of all) {
    let top = HEIGHT;
    const at = { x: x(bar.from), width: Math.max(0.5, x(bar.to) - x(bar.from) - 0.6) };
    words.waits.forEach(([key], k) => {
      const size = bar.shares[k]! * HEIGHT;
      if (size < 0.05) return;
      top -= size;
      root.append(svg('rect', { ...at, class: `wait-${key}`, y: top, height: size }));
    });
    if (bar.working === null) continue;
    const size = bar.working * LOOP_HEIGHT;
    const back = { ...at, class: 'wait-schedule', y: HEIGHT + GAP, height: LOOP_HEIGHT };
    const work = { ...at, class: 'wait-ready', y: bottom - size, height: size };
    root.append(svg('rect', back), svg('rect', work));
  }
  const tick = (y: number, text: string): SVGElement => svg('text', { x: left - 6, y, 'text-anchor': 'end' }, text);
  root.append(tick(9, '100 %'), tick(HEIGHT, '0'));
  if (loops) {
    const name = { x: left, y: HEIGHT + GAP - 5, class: 'name' };
    root.append(svg('text', name, 'event loops busy'), tick(HEIGHT + GAP + 9, '100 %'));
  }
  for (const time of ticks(start, end, Math.floor(inner / 70))) {
    const text = timeTick(time, end - start);
    root.append(svg('text', { x: x(time), y: bottom + 14, 'text-anchor': 'middle' }, text));
  }
  tip.on(root, (e) => {
    const time = start + ((e.clientX - root.getBoundingClientRect().left - left) / inner) * (end - start);
    const bar = all.find((it) => time >= it.from && time < it.to);
    return bar ? told(bar, words) : null;
  });
  return root;
}

function told(bar: Bar, words: Words): Child[] {
  const round = (t: number): number => Math.round(t * 100) / 100;
  const rows = words.waits.flatMap(([key, name], k) => {
    const share = bar.shares[k]!;
    return share > 0 ? [waitRow(key, name, percent(share))] : [];
  });
  return [
    h('div', { class: 'when' }, `${round(bar.from)} to ${round(bar.to)} s`),
    ...rows.toReversed(),
    bar.working === null ? null : waitRow('ready', 'event loops busy', percent(bar.working)),
  ];
}

function waitRow(key: string, name: string, value: string): HTMLElement {
  const swatch = h('i', { class: `swatch wait-${key}` });
  return h('div', { class: 'row' }, swatch, h('span', {}, name), h('b', {}, value));
}

function reasons(verdict: Verdict): Child[] {
  const item = (r: { text: string }): HTMLElement => h('li', {}, withCode(r.text));
  const decided = verdict.reasons.filter((r) => r.decided);
  const others = verdict.reasons.filter((r) => !r.decided);
  return [
    decided.length > 0 ? h('ul', { class: 'because' }, decided.map(item)) : null,
    others.length > 0
      ? later(counted(others.length, 'more fact'), () => h('ul', { class: 'because' }, others.map(item)))
      : null,
  ];
}

type Row = readonly [string, string | null];

const share = (value: number | null | undefined): string | null =>
  value === null || value === undefined ? null : percent(value);
const length = (ns: number | null): string | null => (ns === null || ns === 0 ? null : duration(ns));
const cores = (value: number | null): string | null => (value === null ? null : `${significant(value)} cores`);

/** What is known of the generator. CPU of the profiler is no part of the run's figures. */
export function ours(e: Evidence, words: Words, isProfiled = false): Row[] {
  const rate = (value: number | null): string | null => (value === null ? null : `${significant(value)} ${words.unit}`);
  const most = (get: (l: Evidence['loops'][number]) => number | null): number | null =>
    e.loops.reduce<number | null>((max, l) => {
      const value = get(l);
      return value === null ? max : Math.max(max ?? 0, value);
    }, null);
  return [
    ['requested', e.requested_rate === null ? 'unthrottled' : rate(e.requested_rate)],
    [words.sent, rate(e.sent_rate)],
    [`${words.sent} over 1 ms late`, e.requested_rate === null ? null : share(e.late_share)],
    ['received', e.received_rate > 0 ? rate(e.received_rate) : null],
    ...words.waits.map(([key, name]): Row => {
      const value = e.producers?.[key] ?? 0;
      return [`${words.who} waited: ${name}`, value > 0 ? percent(value) : null];
    }),
    ['event loops', String(e.loops.length)],
    ['busiest loop, busy', share(most((l) => 1 - l.idle))],
    ['its CPU', e.spun ? 'spins' : share(most((l) => l.cpu))],
    ['waited for a core', share(most((l) => l.starved))],
    ['loop lag, median second', length(e.loop_lag_median_ns)],
    ['loop lag, worst', length(e.loop_lag_max_ns)],
    [
      `CPU of bellows${isProfiled ? ' with its profiler' : ''}`,
      (e.client_cores ?? 0) > 0 ? cores(e.client_cores) : null,
    ],
    [
      'could make, by calibration',
      e.capacity ? `${e.capacity.at_least ? 'at least ' : ''}${rate(e.capacity.rate)}` : null,
    ],
    ['calibrated with', e.capacity?.shape ?? null],
  ];
}

export function theirs(e: Evidence): Row[] {
  const b = e.broker;
  const tcp = e.connections;
  const machine = e.machine_cores || e.cores;
  return [
    ['allowed in flight', e.in_flight_limit === null ? null : grouped(e.in_flight_limit)],
    ['answer time, mean', length(e.answer_ns)],
    ['simplest answer before the load', length(e.idle_answer_ns)],
    ['CPU of the broker', b ? cores(b.cores) : 'not known'],
    [`its busiest thread${b?.busiest_thread_name ? `, ${b.busiest_thread_name}` : ''}`, share(b?.busiest_thread)],
    ['its threads waited for cores', b?.starved == null ? null : `${significant(b.starved)} s/s`],
    ['machine', `${counted(machine, 'core')}${e.cores < machine ? `, ${e.cores} for bellows` : ''}`],
    ['machine idle', share(e.idle)],
    ['taken by the hypervisor', e.steal ? share(e.steal) : null],
    ['shared by broker and bellows', e.same_machine ? 'yes' : 'not known to be'],
    ['passes connections on', e.relay],
    ['TCP round trip, best', length(e.round_trip_ns)],
    ['TCP round trip, at the end', tcp ? length(tcp.round_trip_ns) : null],
    ['receive window full', share(tcp?.peer_full)],
    ['segments sent again', share(tcp?.resent)],
    ['waiting in each socket', tcp ? counted(tcp.unsent_bytes, 'byte') : null],
  ];
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** The section; `null` for runs without a verdict. */
export function limit(run: RunView, store: Store): View | null {
  const verdict = run.verdict;
  if (!verdict) return null;
  const all = bars(run);
  const scenarios = Object.entries(run.figures.scenarios);
  const spoken = words(scenarios.find(([name]) => isFirst(run, name))?.[1]?.unit);
  const plot = h('div', { class: 'plot' });
  const frame = h('div', { class: 'frame' }, plot);
  const legend = h('div', { class: 'legend', 'aria-hidden': 'true' });
  const title = h('b', {}, `what ${spoken.who} waited for`);
  const caption = h('figcaption', {}, title, h('span', { class: 'unit' }, 'share of their time'), legend);
  const chart = all.length === 0 ? null : h('figure', { class: 'panel waits' }, caption, frame);
  const others = theirs(verdict.evidence).map(([name, value]): Row => [ofSubject(run, name), value]);
  const own = pairs('Load and generator', ours(verdict.evidence, spoken, run.profiles.length > 0));
  const rest = pairs(ofSubject(run, 'Broker, machine and the way between'), others);
  const evidence = h('div', { class: 'columns' }, own, rest);
  const element = section(
    'limit',
    'Who limited this run',
    h('span', { class: `who ${verdict.limited_by}` }, ofSubject(run, who(verdict))),
    h('p', { class: 'sentence' }, withCode(sentence(verdict.sentence))),
    reasons(verdict),
    chart,
    chart ? later('The waits as a table', () => waitTable(run, all, spoken)) : null,
    h('details', { class: 'behind evidence' }, h('summary', {}, 'The evidence'), evidence),
  );
  let drawn = 0;
  const draw = (): void => {
    const width = widthOf(frame);
    if (!chart || width === 0) return;
    const list = marks(totals(all, effectiveWindow(run, store)), spoken);
    // The window changes the labels alone, and the style sheet colours the picture.
    if (width !== drawn) plot.replaceChildren(picture(run, all, spoken, width));
    drawn = width;
    frame.querySelector('.ends')?.remove();
    const narrow = margins(width).right < 100;
    fill(legend, narrow ? list.map((m) => swatch(m.key, m.text, m.title)) : []);
    if (!narrow) frame.append(labels(list));
  };
  store.on(['window'], draw);
  return { element, draw };
}

function waitTable(run: RunView, all: Bar[], words: Words): HTMLElement {
  const length = run.span[1] - run.span[0];
  const shown = tableOfColumns(`What ${words.who} waited for`, all, [
    [{ number: 'from, s' }, ({ from }) => timeTick(Math.round(from * 100) / 100, Math.min(length, 100))],
    ...words.waits.map(([, number], k): Column<Bar> => {
      return all.some((b) => b.shares[k]! > 0) && [{ number }, (b) => percent(b.shares[k]!)];
    }),
    [{ number: 'event loops busy' }, ({ working }) => (working === null ? '–' : percent(working))],
  ]);
  return scrolling(shown, { tabindex: 0 });
}
