// The figures of a chosen window, from the series and the histograms by time.

import { count, infoOf, type Page } from './data';
import { type Distribution, summaryOf, within } from './histograms';
import type { Figures, LatencySummary, Metric, Throughput } from './view';

/** What was answered in a window, by metric, in the order in which metrics are shown. */
export function distributions({ histograms: of }: Page, [from, to]: readonly [number, number]): Distribution[] {
  const window = `${from} ${to}`;
  // Several sections ask for those of the same window.
  if (latest?.of !== of || latest.window !== window) {
    latest = { of, window, all: of.flatMap((h) => within(h, from, to) ?? []) };
  }
  return latest.all;
}

let latest: { of: Page['histograms']; window: string; all: Distribution[] } | null = null;

function intervals({ run }: Page, [from, to]: readonly [number, number]): number[] {
  const { t, dt } = run.series;
  const inside = (i: number): boolean => {
    const middle = t[i]! + dt[i]! / 2;
    return middle >= from && middle <= to;
  };
  return t.map((_, i) => i).filter(inside);
}

/** The figures as far as they are known of a window; what became of each message is known of the whole run only. */
export function figuresOf(page: Page, window: readonly [number, number]): Figures {
  const { run } = page;
  const { series } = run;
  const inside = intervals(page, window);
  const length = inside.reduce((sum, i) => sum + series.dt[i]!, 0);
  const integral = (column: readonly (number | null)[]): number =>
    inside.reduce((sum, i) => sum + (column[i] ?? 0) * series.dt[i]!, 0);
  const flow = (column: readonly number[]): Throughput => {
    const total = integral(column);
    return { total: Math.round(total), rate: length > 0 ? total / length : 0 };
  };
  const known = (column: readonly (number | null)[]): boolean => inside.some((i) => column[i] !== null);
  const cores = (column: readonly (number | null)[]): number | null =>
    known(column) && length > 0 ? integral(column) / length : null;
  // As in the figures of the whole run, the profiler is left out: it takes much the same all the time.
  const whole = run.figures.cpu_cores.client;
  const profiler = Math.max(0, (run.verdict?.evidence.client_cores ?? 0) - (whole ?? 0));
  const all = cores(series.client_cores);
  const client = all === null || whole === null ? all : whole > 0 ? Math.max(0, all - profiler) : 0;
  const peak = (column: readonly (number | null)[]): number | null =>
    known(column) ? Math.max(...inside.map((i) => column[i] ?? 0)) : null;
  const sent = flow(series.sent);
  const received = flow(series.received);
  const messages = Math.max(sent.total, received.total);
  const each = (used: number | null): number | null => {
    const own = run.figures.cpu_us_per_message;
    const told = own.broker !== null || own.client !== null;
    return told && used !== null && messages > 0 ? (used * length * 1e6) / messages : null;
  };
  const latency: Record<Metric, LatencySummary> = {};
  for (const d of distributions(page, window)) latency[d.metric] = summaryOf(d);
  const scenarios: Figures['scenarios'] = {};
  for (const [name, of] of Object.entries(run.figures.scenarios)) {
    if (!of) continue;
    const counts: Record<Metric, number> = {};
    for (const [key, column] of Object.entries(series.counts)) {
      const { scenario, kind } = infoOf(run, key);
      if (scenario !== name || !column) continue;
      counts[key] = kind === 'peak' ? (peak(column) ?? 0) : Math.round(integral(column));
    }
    const none = { broker: null, client: null };
    const rate = length > 0 ? count(name, counts, 'completed') / length : 0;
    const own = { rate, failures: [], cpu_us_each: none, latency: {} };
    scenarios[name] = Object.assign({}, of, counts, own);
  }
  return {
    ...run.figures,
    sent,
    received,
    requested_rate: null,
    refused: 0,
    returned: 0,
    redelivered: 0,
    ledger: null,
    late_share: null,
    measured_s: length,
    lasted: null,
    latency,
    cpu_us_per_message: { broker: each(cores(series.broker_cores)), client: each(client) },
    cpu_cores: { broker: cores(series.broker_cores), client },
    rss_mb: { broker: peak(series.broker_mb), client: peak(series.client_mb) },
    scenarios,
  };
}
