// Latency against rate: every trial as a dot, the medians as lines, the interval and what must not be exceeded.

import { h, svg, withoutCode } from '../core/dom';
import { duration, durationTick, MAIN_PERCENTILES as PERCENTILES, siTick, supports } from '../core/format';
import type { LimitOutcome, LimitView, TrialView } from '../core/view';
import { WEAK, WEAK_MEANS } from '../sections/percentile-cell';
import type { View } from '../sections/timeline';
import { chartSection, frame, grid, mark, upright } from './frame';
import { along, besideLevel, logPlace, logTicksOf, medians, type Point, bounds as spread } from './scale';

const LETTER = 6.5;
/** The one whose trials are dots. */
const DOTTED = 'p99_ns';

export const OUTCOMES: Record<LimitOutcome, string> = { held: 'held', missed: 'did not hold', unclear: 'unclear' };

function told(trial: TrialView, name: string): string {
  const { latency: of } = trial;
  const one = ([label, percentile, key]: (typeof PERCENTILES)[number]): string =>
    `${label} ${duration(of?.[key] ?? 0)}${of && supports(of.count, percentile) ? '' : WEAK}`;
  const all = of ? PERCENTILES.map(one).join(', ') : 'no latency';
  const latency = all.includes(WEAK) ? `${all}\n${WEAK_MEANS}` : all;
  const why = trial.why.length > 0 ? `\n${withoutCode(trial.why.join('; '))}` : '';
  return `${siTick(trial.rate)} msg/s ${OUTCOMES[trial.outcome]}\n${name} ${latency}${why}`;
}

/** A dot where the rate held, else a cross. */
function markOf(trial: TrialView, x: number, y: number, name: string): SVGElement {
  const cross = svg('path', { d: `M${x - 4.5},${y - 4.5}l9,9m0,-9l-9,9` });
  const shape = trial.outcome === 'held' ? undefined : cross;
  return mark(trial, trial.outcome, told(trial, name), [x, y], shape);
}

function draw(view: LimitView, width: number): SVGElement {
  const measured = view.trials.filter((it) => it.latency !== null);
  const rates = measured.map((it) => it.rate);
  const { low, high } = view.found;
  const ends = [low, high].filter((it) => it !== null);
  const latencies = measured.flatMap((it) => PERCENTILES.map(([, , key]) => it.latency![key]));
  const limits = view.bounds.map((it) => it.ns);
  const [left, right] = spread([...rates, ...ends], 1.12);
  const [bottom, top] = spread([...latencies, ...limits], 1.5);
  const label = `${view.latency_name} latency against rate: ${view.headline}`;
  const of = frame(width, label);
  const { chart, floor } = of;
  const inner = { width: of.right - of.left, height: floor - of.top };
  const x = (rate: number): number => of.left + inner.width * logPlace(rate, left, right);
  const y = (ns: number): number => of.top + inner.height * (1 - logPlace(ns, bottom, top));
  if (low !== null || high !== null) {
    const [from, to] = [x(low ?? left), x(high ?? right)];
    const rect = { x: from, y: of.top, width: Math.max(1, to - from), height: inner.height };
    chart.append(svg('rect', { class: 'interval', ...rect }, svg('title', {}, view.headline)));
  }
  grid(
    of,
    { values: logTicksOf(bottom, top, Math.floor(inner.height / 34)), at: y, name: durationTick },
    { values: logTicksOf(left, right, Math.floor(inner.width / 56)), at: x, name: siTick },
    'requested, msg/s',
  );
  for (const bound of view.bounds) {
    const at = y(bound.ns);
    chart.append(svg('line', { class: 'bound', x1: of.left, x2: of.right, y1: at, y2: at }));
  }
  if (view.knee) upright(of, x(view.knee.rate), `knee ${siTick(view.knee.rate)}`);
  const names: [number, number, string, number][] = [];
  // What no name of a bound should cover.
  const drawn: Point[] = [];
  for (const [at, [name, , key]] of PERCENTILES.entries()) {
    const line = medians(measured, key).map(([rate, ns]): Point => [x(rate), y(ns)]);
    if (line.length === 0) continue;
    const points = line.map(([left, top]) => `${left.toFixed(1)},${top.toFixed(1)}`).join(' ');
    chart.append(svg('polyline', { class: `line p${at}`, points }));
    drawn.push(...along(line));
    const first = line.at(0);
    if (first) names.push([first[0], first[1] - 8, name, at]);
  }
  // At the left, where latencies lie apart; where they do not, the names still do. The highest percentile is the topmost.
  let below = Number.POSITIVE_INFINITY;
  for (const [left, wanted, name, at] of names) {
    below = Math.min(wanted, below - 14);
    chart.append(svg('text', { class: `name p${at}`, x: left - 4, y: below }, name));
    const ends = [left, left + name.length * LETTER].map((end): Point => [end, below - 4]);
    drawn.push(...along(ends));
  }
  for (const trial of measured) {
    const [left, top] = [x(trial.rate), y(trial.latency![DOTTED])];
    chart.append(markOf(trial, left, top, view.latency_name));
    drawn.push([left, top]);
  }
  for (const { that, ns } of view.bounds) {
    const ends = [of.left + 6, of.right - 6] as const;
    const [left, top] = besideLevel(y(ns), ends, that.length * LETTER, drawn);
    chart.append(svg('text', { class: 'bound', x: left, y: top }, that));
  }
  return chart;
}

/** The section; null where no trial measured a latency. */
export function curve(view: LimitView): View | null {
  if (view.trials.every((it) => it.latency === null)) return null;
  const has = (outcome: LimitOutcome): boolean => view.trials.some((it) => it.outcome === outcome);
  const legend = (['held', 'missed', 'unclear'] as const)
    .filter(has)
    .map((outcome) =>
      h('span', { class: `key ${outcome}-trial` }, outcome === 'held' ? '●' : '✕', ` ${OUTCOMES[outcome]}`),
    );
  const hint =
    'lines: medians of trials that are not unclear; marks: p99 of every trial; shaded: the limit; both axes logarithmic' +
    (has('unclear') ? '; unclear: missed for a reason other than the broker' : '');
  return chartSection(`${view.latency_name} latency against rate`, hint, legend, (width) => draw(view, width));
}
