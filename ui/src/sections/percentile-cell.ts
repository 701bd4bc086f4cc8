// A percentile in a table.

import { infoOf } from '../core/data';
import { type Child, h } from '../core/dom';
import { counted, duration, exactDuration, supports } from '../core/format';
import type { LatencySummary, Metric, RunView } from '../core/view';

/** The mark of a percentile that too few samples lie beyond, and what it means. */
export const WEAK = '†';
export const WEAK_MEANS = `${WEAK} fewer than 10 samples lie beyond`;

/** Says below a part of the page what its mark means, where it has one. */
export function explainMarks(part: HTMLElement): void {
  if (part.textContent?.includes(WEAK)) part.append(h('p', { class: 'hint marks' }, WEAK_MEANS));
}

/** A percentile as plain text, marked where too few samples lie beyond it. */
export function percentileText({ count }: Pick<LatencySummary, 'count'>, percentile: number, ns: number): string {
  return `${duration(ns)}${supports(count, percentile) ? '' : WEAK}`;
}

/** A percentile for a cell, marked where too few samples lie beyond it. */
export function percentileCell(latency: LatencySummary, percentile: number, ns: number): Child {
  if (latency.count === 0) return h('span', { class: 'none' }, '–');
  if (supports(latency.count, percentile)) return h('span', { title: exactDuration(ns) }, duration(ns));
  const why = `${exactDuration(ns)}; fewer than 10 of ${counted(latency.count, 'sample')} lie beyond ${percentile} %`;
  return h('span', { class: 'weak', title: why }, duration(ns), h('sup', {}, WEAK));
}

/** The name of a latency's row; with its bound where the clocks of two machines took it. */
export function latencyName(run: RunView, key: Metric): string {
  const { name } = infoOf(run, key);
  const bound = run.figures.clock_bounds[key];
  return bound ? `${name} ± ${duration(bound.bound_ns)}` : name;
}

/** Why latencies are not shown that the clocks of two machines took, a sentence each. */
export function refusals(run: RunView): HTMLElement[] {
  const all = Object.values(run.figures.clock_bounds);
  return all.flatMap((it) => (it.refused ? [h('p', { class: 'hint refused' }, `${it.refused}.`)] : []));
}
