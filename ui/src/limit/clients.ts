// Throughput against the number of clients: every run as a dot, the fitted law as a curve, and the line of those whom nothing hinders.

import { nameOf } from '../comparison/runs';
import { linearTicks } from '../comparison/scale';
import { h, remarkList, scrolling, section, svg, tableOfColumns } from '../core/dom';
import { significant, siTick } from '../core/format';
import type { ScaleRunView, ScaleView } from '../core/view';
import type { View } from '../sections/timeline';
import { chartSection, frame, grid, mark, upright } from './frame';

function told(run: ScaleRunView, noun: string): string {
  const limited = run.by_generator ? '\nthe generator was the limit' : '';
  return `${run.clients} ${noun}: ${significant(run.throughput)} msg/s${limited}`;
}

function dot(run: ScaleRunView, x: number, y: number, noun: string): SVGElement {
  return mark(run, run.by_generator ? 'unclear' : 'held', told(run, noun), [x, y]);
}

function draw(view: ScaleView, width: number, label: string): SVGElement {
  const { law, noun } = view;
  const right = Math.max(...view.runs.map((it) => it.clients)) * 1.04;
  const seen = [...view.runs.map((it) => it.throughput), ...(law?.throughput ?? [])];
  const top = Math.max(1, ...seen) * 1.18;
  const of = frame(width, `throughput against ${noun}: ${label}`);
  const { chart, floor } = of;
  const inner = { width: of.right - of.left, height: floor - of.top };
  const x = (clients: number): number => of.left + (inner.width * clients) / right;
  const y = (rate: number): number => of.top + inner.height * (1 - rate / top);
  grid(
    of,
    { values: linearTicks(0, top, Math.max(2, Math.floor(inner.height / 44))), at: y, name: siTick },
    { values: linearTicks(0, right, Math.max(2, Math.floor(inner.width / 56)), 1), at: x, name: String },
    noun,
  );
  if (law) {
    // As far as it fits into the chart: where nobody hinders anybody, the throughput soon leaves it.
    const end = Math.min(right, top / law.alone.value);
    const [x2, y2] = [x(end), y(end * law.alone.value)];
    const isRight = x2 > width * 0.6;
    const place = { x: x2 + (isRight ? -8 : 6), y: y2 + 14, 'text-anchor': isRight ? 'end' : 'start' };
    const name = svg('text', { class: 'bound', ...place }, 'none hinders another');
    chart.append(svg('line', { class: 'bound', x1: x(0), y1: y(0), x2, y2 }), name);
    const points = law.clients.map((it, i) => `${x(it).toFixed(1)},${y(law.throughput[i] ?? 0).toFixed(1)}`).join(' ');
    chart.append(svg('polyline', { class: 'line p1', points }));
    if (law.peak !== null && law.peak <= right) upright(of, x(law.peak), `peak ${significant(law.peak)}`);
  }
  for (const run of view.runs) chart.append(dot(run, x(run.clients), y(run.throughput), noun));
  return chart;
}

/** The chart; null where no run has ended. */
export function clientsCurve(view: ScaleView, headline: string): View | null {
  if (view.runs.length === 0) return null;
  const keys = [h('span', { class: 'key held-trial' }, '●', ' a run')];
  if (view.runs.some((it) => it.by_generator)) {
    keys.push(h('span', { class: 'key unclear-trial' }, '○', ' limited by the generator'));
  }
  const hint =
    'dots: runs; line: the Universal Scalability Law as fitted; dashed: its throughput without contention and coherence';
  return chartSection(`Throughput against ${view.noun}`, hint, keys, (width) => draw(view, width, headline));
}

export function clientsTable(view: ScaleView, notes: readonly string[]): HTMLElement {
  const shown = tableOfColumns('Runs', view.runs, [
    [{ number: '' }, (_, at) => String(at + 1)],
    [{ number: view.noun }, (run) => String(run.clients)],
    [{ number: 'msg/s' }, (run) => significant(run.throughput)],
    [{ number: 'each, msg/s' }, (run) => significant(run.throughput / run.clients)],
    [{ number: 'broker, cores' }, ({ broker_cores: cores }) => (cores === null ? '–' : significant(cores))],
    ['limited by the generator', (run) => run.by_generator && 'yes'],
    ['run', (run) => nameOf(run)],
  ]);
  return section('trials', 'Every run', 'in the order of time', scrolling(shown), remarkList(...notes));
}
