// Latencies by time: counts in narrow logarithmic buckets for each column of time. The heat map and, for any
// window, percentile curves and figures are added up from them.

import { sampleAt } from '../flame/tree';
import type { Curve, LatencyGrid, LatencySummary, Metric } from './view';

/** The cells of one metric, in the order of columns, then of buckets. */
export interface Histograms extends LatencyGrid {
  column: Uint32Array;
  bucket: Uint32Array;
  count: Float64Array;
}

const ROWS_PER_DECADE = 20;

/** What is drawn: cells of rows that are a few pixels high. */
export type Grid = ReturnType<typeof gridOf>;

export function gridOf(h: Histograms) {
  const column: number[] = [];
  const row: number[] = [];
  const count: number[] = [];
  let [low, high] = [Number.POSITIVE_INFINITY, 0];
  const each = Math.max(1, Math.round(h.per_decade / ROWS_PER_DECADE));
  for (let i = 0; i < h.count.length; i++) {
    const r = Math.floor((h.low + h.bucket[i]!) / each);
    const last = count.length - 1;
    if (last >= 0 && column[last] === h.column[i] && row[last] === r) count[last]! += h.count[i]!;
    else {
      column.push(h.column[i]!);
      row.push(r);
      count.push(h.count[i]!);
    }
    low = Math.min(low, r);
    high = Math.max(high, r);
  }
  const perDecade = h.per_decade / each;
  return {
    metric: h.metric,
    t: h.t,
    end: h.end,
    // Lower bound of row 0, and how much larger each row is than the one below.
    low_ns: 10 ** (low / perDecade),
    ratio: 10 ** (1 / perDecade),
    rows: count.length === 0 ? 0 : high - low + 1,
    column,
    row: row.map((r) => r - low),
    count,
  };
}

/** Counts of a window, by value. */
export interface Distribution {
  metric: Metric;
  count: number;
  /** The middle of each bucket that holds something, growing, and its count. */
  ns: number[];
  counts: number[];
  /** First and last moment of the columns that it is made of. */
  span: readonly [number, number];
}

/** Adds up the columns whose middle lies in a window; the one at its middle where none does. */
export function within(h: Histograms, from: number, to: number): Distribution | null {
  const middle = (from + to) / 2;
  const inside = h.t.map((t, i) => {
    const at = (t + h.end[i]!) / 2;
    return at >= from && at <= to;
  });
  if (!inside.includes(true)) {
    const at = h.t.findIndex((t, i) => middle >= t && middle <= h.end[i]!);
    if (at < 0) return null;
    inside[at] = true;
  }
  const [first, last] = [inside.indexOf(true), inside.lastIndexOf(true)];
  const sums: number[] = [];
  let total = 0;
  // Cells come in the order of their columns.
  for (let i = sampleAt(h.column, first); i < h.count.length && h.column[i]! <= last; i++) {
    if (!inside[h.column[i]!]) continue;
    const bucket = h.bucket[i]!;
    sums[bucket] = (sums[bucket] ?? 0) + h.count[i]!;
    total += h.count[i]!;
  }
  if (total === 0) return null;
  const ns: number[] = [];
  const counts: number[] = [];
  sums.forEach((sum, bucket) => {
    ns.push(10 ** ((h.low + bucket + 0.5) / h.per_decade));
    counts.push(sum);
  });
  return { metric: h.metric, count: total, ns, counts, span: [h.t[first]!, h.end[last]!] };
}

export function curveOf(d: Distribution): Curve {
  let seen = 0;
  const nines = d.counts.map((count) => {
    seen += count;
    // The largest value stands half a sample before infinity.
    const beyond = seen >= d.count ? 0.5 : d.count - seen;
    return -Math.log10(beyond / d.count);
  });
  return { metric: d.metric, count: d.count, nines: [0, ...nines], ns: [d.ns[0]!, ...d.ns] };
}

export function summaryOf(d: Distribution): LatencySummary {
  const at = (percentile: number): number => {
    const wanted = Math.max(1, Math.ceil((d.count * percentile) / 100 - 1e-9));
    let seen = 0;
    const i = d.counts.findIndex((count) => {
      seen += count;
      return seen >= wanted;
    });
    return Math.round(d.ns[i < 0 ? d.ns.length - 1 : i]!);
  };
  const sum = d.ns.reduce((all, ns, i) => all + ns * d.counts[i]!, 0);
  return {
    count: d.count,
    mean_ns: Math.round(sum / d.count),
    p50_ns: at(50),
    p90_ns: at(90),
    p99_ns: at(99),
    'p99.9_ns': at(99.9),
    'p99.99_ns': at(99.99),
    max_ns: at(100),
  };
}
