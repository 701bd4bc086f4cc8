// Scenarios other than messages: what each did, by the metrics that the run describes.

import type { Line, PanelSpec } from '../charts/panel';
import { type Column, called, count, type Slices, shortName, subject, whose } from '../core/data';
import { h, withCode } from '../core/dom';
import { bytes, bytesTick, counted, duration, durationTick, grouped, inDrain, si, significant } from '../core/format';
import { heatColor, type Palette } from '../core/theme';
import type { MetricInfo, RunView, ScenarioSummary } from '../core/view';
import { requirementLines } from './requirements';
import { type Tile, tile } from './tile';

function parts(run: RunView, scenario: string): MetricInfo[] {
  return run.metrics.filter((metric) => metric.part && metric.scenario === scenario);
}

/** One hue, stronger with each part of the whole. */
export function partColor(run: RunView, part: MetricInfo, dark: boolean): string {
  const all = parts(run, part.scenario);
  const at = all.findIndex((metric) => metric.key === part.key);
  return heatColor(0.3 + (0.7 * Math.max(0, at)) / Math.max(1, all.length - 1), dark);
}

/** How many operations, what became of them, and what each cost the broker. */
export function scenarioTiles(run: RunView, name: string, scenario: ScenarioSummary): Tile[] {
  const { kind, unit, rate } = scenario;
  const requested = scenario.requested?.rate;
  const counts = run.metrics.filter((it) => it.scenario === name && it.kind !== 'histogram');
  const exact = counts.map((it) => {
    const value = count(name, scenario, it.key);
    return `${it.name} ${it.unit === 'bytes' ? bytes(value) : grouped(value)}`;
  });
  const asked = requested === undefined ? '' : `, ${significant(requested)} ${unit}/s requested`;
  const failures = scenario.failures.map((f) => `${grouped(f.count)}: ${f.reason}`);
  // A URL says less than the name that somebody gave, and takes more room.
  const label = kind.includes('://') ? called(name) : kind;
  const completed = count(name, scenario, 'completed');
  const late = inDrain(completed, rate, run.figures.measured_s);
  const tiles = [
    tile(
      label,
      significant(rate),
      `${unit}/s`,
      `${grouped(completed)} ${scenario.role === 'server' ? 'answered' : 'in order'}${late}${asked}`,
      `${kind}; ${grouped(rate, 2)} ${unit}/s ended in the measured phase; of those due in it: ${exact.join('; ') || 'none'}`,
    ),
  ];
  // Of calls that others make it is theirs to say what failed.
  if (counts.some((it) => it.key === 'failed' || it.key === `${name}_failed`)) {
    const of = `of ${grouped(count(name, scenario, 'begun'))}`;
    tiles.push(tile('failed', grouped(count(name, scenario, 'failed')), unit, of, failures.join('; ') || 'none'));
  }
  for (const key of ['raised', 'open']) {
    const of = counts.find((it) => it.key === `${name}_${key}`);
    const number = count(name, scenario, key);
    if (of && number > 0) tiles.push(tile(of.name, grouped(number), unit, '', of.meaning));
  }
  const missed = count(name, scenario, 'not_begun');
  if (missed > 0) tiles.push(tile('not begun', grouped(missed), unit, 'no room in time', 'due, and no room'));
  const atEnd = count(name, scenario, 'in_flight_at_end');
  for (const it of counts.filter((it) => it.kind === 'peak')) {
    const most = count(name, scenario, it.key);
    const under = atEnd > 0 ? `${grouped(atEnd)} when the run ended` : '';
    if (most > 0) tiles.push(tile(it.name, grouped(most), `${it.unit} at most`, under, it.meaning));
  }
  const one = unit.replace(/s$/, '');
  const cost = (who: string, us: number | null, cores: number | null): void => {
    if (us === null) return;
    const under = cores === null ? '' : `${significant(cores)} of ${counted(run.hardware.cores, 'core')}`;
    const exactly = `${us} CPU-microseconds per ${one}`;
    tiles.push(tile(`${who} CPU`, significant(us / 1e3), `ms/${one}`, under, exactly));
  };
  cost(subject(run), scenario.cpu_us_each.broker, run.figures.cpu_cores.broker);
  cost('bellows', scenario.cpu_us_each.client, run.figures.cpu_cores.client);
  return tiles;
}

export function failures(run: RunView, name: string, scenario: ScenarioSummary): HTMLElement | null {
  if (scenario.failures.length === 0) return null;
  const own = whose(run, name);
  const items = scenario.failures.map((f) => h('li', {}, withCode(`${own}${grouped(f.count)} failed: ${f.reason}`)));
  return h('ul', { class: 'hint' }, items);
}

export const perSecond = (v: number): string => `${si(v)}/s`;
const COLORS: readonly ((p: Palette) => string)[] = [
  (p) => p.receive,
  (p) => p.send,
  (p) => p.delay,
  (p) => p.accent,
  (p) => p.ink,
  (p) => p.soft,
  (p) => p.accent,
];
/** Counters from this place on are parts of those before, such as the reasons of failures: the whole shows between their dots. */
const PARTS_FROM = 4;

/** A rate from this on has five operations in each slice: enough for a line. */
const MANY = 50;

/** Counts of a scenario by times that are long enough for its rate. */
interface Counted {
  t: number[];
  dt: number[];
  counts: Record<string, Column | undefined>;
  requested: Column;
  /** Seconds that each value is of; none where that is as fine as it is recorded. */
  over?: number;
}

/** Counts over the time between two operations, a second at least: one in a tenth of it would be ten per second. */
export function windowed(run: RunView, name: string, slices: Slices | null): Counted {
  const scenario = run.figures.scenarios[name];
  const rate = scenario?.requested?.rate ?? scenario?.rate ?? MANY;
  if (rate >= MANY && slices) return slices;
  const { t, dt, counts, requested } = run.series;
  const asked = rate > 0 ? 1 / rate : 1;
  // A second is what the series has; much of a run in one window would say nothing of when.
  const length = (t.at(-1) ?? 0) + (dt.at(-1) ?? 0) - (t[0] ?? 0);
  const over = asked <= 1.001 || asked > length / 4 ? 1 : asked;
  const middle = (i: number): number => t[i]! + dt[i]! / 2;
  const width = (from: number, to: number): number => t[to - 1]! + dt[to - 1]! - t[from]!;
  // No window has parts of two phases.
  const begins = new Set(run.phases.map((it) => t.findIndex((_, i) => middle(i) >= it.start)));
  let begin = 0;
  const at = t.map((_, i) => {
    if (begins.has(i)) begin = i;
    return Math.floor((middle(i) - t[begin]!) / over);
  });
  const firsts = at.flatMap((window, i) => (window === at[i - 1] && !begins.has(i) ? [] : [i]));
  const ends = firsts.map((_, w) => firsts[w + 1] ?? t.length);
  // What is left at an end is a part of a window: one operation in a moment would be a hundred per second. It
  // belongs to the window before; of rare ones nobody knows how many a whole window would have had.
  for (let w = firsts.length - 1; w > 0; w--) {
    const [first, end] = [firsts[w]!, ends[w]!];
    const isAlone = begins.has(first);
    const isLast = end === t.length || begins.has(end);
    if (!isLast || width(first, end) >= over * (isAlone ? 0.5 : 0.95)) continue;
    if (over <= 1 && !isAlone) ends[w - 1] = end;
    firsts.splice(w, 1);
    ends.splice(w, 1);
  }
  const peaks = new Set(run.metrics.filter((it) => it.kind === 'peak').map((it) => it.key));
  const merge = (column: Column, peak: boolean): Column =>
    firsts.map((from, w) => {
      const known = column.slice(from, ends[w]).map((value, i) => [value, dt[from + i]!] as const);
      const some = known.filter((it): it is readonly [number, number] => it[0] !== null);
      if (some.length === 0) return null;
      if (peak) return Math.max(...some.map(([value]) => value));
      const sum = some.reduce((all, [value, seconds]) => all + value * seconds, 0);
      return sum / width(from, ends[w]!);
    });
  const merged = Object.entries(counts).map(([key, column]) => [key, column && merge(column, peaks.has(key))]);
  return {
    t: firsts.map((from) => t[from]!),
    dt: firsts.map((from, w) => width(from, ends[w]!)),
    counts: Object.fromEntries(merged),
    requested: merge(requested, false),
    over,
  };
}

/** Whether the rate that the series requests is that of this scenario. */
export function isFirst(run: RunView, name: string): boolean {
  const { sent, received, scenarios } = run.figures;
  return sent.total + received.total === 0 && Object.keys(scenarios)[0] === name;
}

export function scenarioPanels(run: RunView, name: string, slices: Slices | null = null) {
  const { t, dt, counts, requested, over } = windowed(run, name, slices);
  const own = run.metrics.filter((metric) => metric.scenario === name);
  const rates: Line[] = [];
  if (isFirst(run, name) && requested.some((v) => v !== null && v > 0))
    rates.push({ label: 'requested', values: requested, color: (p) => p.faint, format: perSecond, width: 1 });
  const all = own.filter((it) => it.kind === 'counter' && counts[it.key]);
  const ours = run.figures.scenarios[name]?.unit || all[0]?.unit;
  // What counts something else, such as bytes, has an axis of its own.
  const others = all.filter((it) => it.unit !== ours && some(counts[it.key]));
  all
    .filter((it) => it.unit === ours)
    .forEach((metric, i) => {
      // Places are those of all counters: what failed looks the same in each panel, also where nothing was completed.
      if (!some(counts[metric.key])) return;
      rates.push({
        label: metric.name,
        values: counts[metric.key]!,
        color: COLORS[i % COLORS.length]!,
        format: perSecond,
        ...(i === 0 ? { width: 1, dash: [4, 3] } : {}),
        ...(i >= PARTS_FROM ? { dash: [2, 4] } : {}),
        area: i === 1,
      });
    });
  rates.push(...requirementLines(run, 'operations', t.length, perSecond));
  const unit = ours ?? 'operations';
  const owner = whose(run, name);
  const times = { t, dt };
  const window = over ? `, counted over ${significant(over)} s` : '';
  const rate = { id: `rates-${name}`, title: owner + unit, unit: `${unit} per second${window}`, height: 116 };
  const single = (
    metric: MetricInfo,
    kind: string,
    title: string,
    unit: string,
    format: (v: number) => string,
  ): PanelSpec => {
    const values = counts[metric.key]!;
    const lines: Line[] = [{ label: metric.name, values, color: (p) => p.receive, format, area: true }];
    return { id: `${kind}-${metric.key}`, title: owner + title, unit, height: 64, times, lines };
  };
  const stack = stacked(run, name, owner);
  const peaks = own.filter((it) => it.kind === 'peak' && some(counts[it.key]));
  return {
    before: rates.length === 0 ? [] : [{ ...rate, lines: rates, times }],
    after: [
      ...(stack ? [stack] : []),
      ...peaks.map((it) => single(it, 'peak', `${ours ?? name} ${it.name}`, it.meaning, (v) => grouped(v))),
      ...others.map((it) =>
        it.unit === 'bytes'
          ? { ...single(it, 'rate', it.name, 'per second', (v) => `${bytes(v)}/s`), tick: bytesTick }
          : single(it, 'rate', it.name, `${it.unit} per second`, perSecond),
      ),
    ],
  };
}

/** Whether a column has anything but nothing in it. */
export function some(column: Column | undefined): boolean {
  return column?.some((v) => v !== null && v > 0) ?? false;
}

/** The means of the parts upon each other: means add up to the whole's, percentiles do not. */
function stacked(run: RunView, name: string, owner: string): PanelSpec | null {
  const mean = (part: MetricInfo) => run.series.latency[part.key]?.mean;
  const taken = parts(run, name).filter((part) => some(mean(part)));
  if (taken.length === 0) return null;
  let below: Column = run.series.t.map(() => null);
  const lines: Line[] = taken.map((part) => {
    const own = mean(part)!;
    below = own.map((v, i) => (v === null ? below[i]! : (below[i] ?? 0) + v));
    return {
      label: owner ? shortName(part) : part.name,
      values: below,
      shown: own,
      color: (p) => partColor(run, part, p.dark),
      format: duration,
      width: 1,
      solid: true,
    };
  });
  return {
    id: `steps-${name}`,
    title: `${owner}where the time goes`,
    unit: 'mean of each step, upon each other',
    height: 150,
    lines: lines.toReversed(),
    tick: durationTick,
  };
}
