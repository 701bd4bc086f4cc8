// Which panels a run has: only those that its data can fill.

import type uPlot from 'uplot';
import { bounds, cellAt, drawHeat, logTicks } from '../charts/heat';
import type { Line, PanelSpec } from '../charts/panel';
import { held } from '../charts/steps';
import { type Column, infoOf, type Slices, subject } from '../core/data';
import { duration, durationTick, megabytes, si, significant } from '../core/format';
import type { Grid } from '../core/histograms';
import type { RunView } from '../core/view';
import { requirementLines } from './requirements';
import { perSecond, scenarioPanels, some } from './scenario';

const cores = (v: number): string => `${significant(v)} cores`;
const count = (v: number): string => si(Math.round(v));

const known = (lines: Line[]): Line[] => lines.filter(({ values }) => some(values));

function rates(run: RunView, slices: Slices | null): PanelSpec | null {
  const s = slices ?? run.series;
  const dashed = { format: perSecond, width: 1, dash: [4, 3] };
  const lines = known([
    { label: 'sent', values: s.sent, color: (p) => p.send, format: perSecond, area: true },
    { label: 'completed', values: s.completed, color: (p) => p.send, ...dashed },
    { label: 'received', values: s.received, color: (p) => p.receive, format: perSecond },
  ]);
  if (lines.length === 0) return null;
  if (some(s.requested) && (some(s.sent) || some(s.received))) {
    lines.unshift({ label: 'requested', values: s.requested, color: (p) => p.faint, format: perSecond, width: 1 });
  }
  lines.push(...requirementLines(run, 'rates', s.t.length, perSecond));
  const times = { t: s.t, dt: s.dt };
  return { id: 'rates', title: 'rates', unit: 'messages per second', height: 116, lines, times };
}

/** The latency panel of one metric: the heat map with its percentiles over it, by seconds or by slices. */
export function latency(run: RunView, map: Grid, tools: HTMLElement[], slices: Slices | null = null): PanelSpec | null {
  const { metric } = map;
  const from = slices ?? run.series;
  const series = from.latency[metric];
  if (!series) return null;
  const { p50, p99, max } = series;
  const required = requirementLines(run, { latency: metric }, from.t.length, duration);
  const limits = required.map((it) => it.values[0] ?? 0);
  const whole = bounds(map);
  const low = Math.min(whole[0], ...limits.map((limit) => limit / 1.2));
  const high = Math.max(whole[1], ...limits.map((limit) => limit * 1.2));
  const line = (label: string, values: Column, width: number, dash?: number[]): Line => ({
    label,
    values,
    color: (p) => p.ink,
    format: duration,
    width,
    halo: true,
    ...(dash ? { dash } : {}),
  });
  return {
    id: 'latency',
    title: `latency: ${infoOf(run, metric).name}`,
    unit: 'log axis; the stronger the colour, the more samples',
    height: 196,
    lines: [
      line('max', max, 1, [2, 3]),
      line('p99', p99, 1.75),
      line('p50', p50, 1.25),
      ...required.map((it) => ({ ...it, halo: true })),
    ],
    log: [low, high],
    tick: durationTick,
    ticks: (u: uPlot) => logTicks(low, high, Math.max(3, u.over.clientHeight / 18 || 9)),
    under: (u, p) => drawHeat(map, u, p),
    spot: (time, value) => cellAt(map, time, value),
    tools,
    times: { t: from.t, dt: from.dt },
  };
}

function cpu(run: RunView): PanelSpec | null {
  const { broker_cores: broker, client_cores: client, steal } = run.series;
  const lines = known([
    { label: subject(run), values: broker, color: (p) => p.ink, format: cores, area: true },
    { label: 'bellows', values: client, color: (p) => p.delay, format: cores },
  ]);
  if (lines.length === 0) return null;
  if (some(steal)) {
    const values = steal.map((v) => (v === null ? null : v * run.hardware.cores));
    lines.push({ label: 'stolen', values, color: (p) => p.faint, format: cores, width: 1 });
  }
  const profiler = run.profiles.length > 0 ? '; bellows with its profiler' : '';
  const unit = (run.hardware.cores > 0 ? `cores, of ${run.hardware.cores}` : 'cores') + profiler;
  return { id: 'cpu', title: 'CPU', unit, height: 84, lines };
}

function memory(run: RunView): PanelSpec | null {
  const s = run.series;
  const lines = known([
    { label: subject(run), values: s.broker_mb, color: (p) => p.ink, format: megabytes, area: true },
    { label: 'bellows', values: s.client_mb, color: (p) => p.delay, format: megabytes },
  ]);
  if (lines.length === 0) return null;
  const unit = 'resident, MB';
  return { id: 'memory', title: 'memory', unit, height: 72, lines, times: held(s, run.killed) };
}

/** Messages in flight at the end of each interval, and what counts as such here. */
export function inFlight(run: RunView): { unit: string; values: Column } | null {
  const { sent, received } = run.figures;
  if (sent.total === 0) return null;
  const s = run.series;
  // With more deliveries than messages (a topic) or without consumers, `sent - received` says
  // nothing; what waits for its acknowledgement still does.
  const consumed = received.total > 0 && received.total <= sent.total;
  if (!consumed && !some(s.completed)) return null;
  const done = consumed ? s.received : s.completed;
  let level = 0;
  const values = s.t.map((_, i) => {
    level += ((s.sent[i] ?? 0) - (done[i] ?? 0)) * s.dt[i]!;
    return Math.max(0, Math.round(level));
  });
  const rest = consumed ? 'received' : 'acknowledged';
  return { unit: `messages sent and not yet ${rest}, at the end of each interval`, values };
}

/** All panels but the latency one, which depends on the metric chosen. */
export function panels(run: RunView, slices: Slices | null = null): { before: PanelSpec[]; after: PanelSpec[] } {
  const level = inFlight(run);
  // The scenario that the run asks about comes first.
  const names = Object.keys(run.figures.scenarios);
  names.sort((a, b) => Number(b === run.lead) - Number(a === run.lead));
  const scenarios = names.map((name) => scenarioPanels(run, name, slices));
  const label = level?.unit.includes('received') ? 'not received' : 'not acknowledged';
  const waiting: PanelSpec | null = level && {
    id: 'in-flight',
    title: scenarios.length > 0 ? 'messages in flight' : 'in flight',
    unit: level.unit,
    height: 64,
    lines: [{ label, values: level.values, color: (p) => p.receive, format: count, area: true }],
  };
  const keep = (list: (PanelSpec | null)[]): PanelSpec[] => list.filter((s) => s !== null);
  // One panel of rates stands above the latencies, so that both are on the first screen.
  const own = scenarios.flatMap(({ before, after }) => [...before, ...after]);
  const messages = rates(run, slices);
  const leading = scenarios[0]?.before[0];
  const first = run.lead ? (leading ?? messages) : (messages ?? leading);
  const further = [...own, messages].filter((it) => it !== first);
  return { before: first ? [first] : [], after: keep([...further, cpu(run), memory(run), waiting]) };
}
