// How latency is distributed: percentile curves on an axis of nines, and the same as a table.

import { panelsSvg, pictures } from '../charts/export';
import { type NinesChart, type NinesLine, nineBounds, ninesChart } from '../charts/nines';
import { called, infoOf, latencyKeys, latencyOf, type Page, shortName } from '../core/data';
import { button, csv, fill, h, save, section, table } from '../core/dom';
import { duration, exactDuration, grouped, PERCENTILES } from '../core/format';
import { curveOf } from '../core/histograms';
import type { Store } from '../core/state';
import { type Palette, palette } from '../core/theme';
import type { Curve, Figures, Metric, MetricInfo, RunView } from '../core/view';
import { distributions, figuresOf } from '../core/window';
import { latencyName, percentileCell, refusals, WEAK_MEANS } from './percentile-cell';
import { partColor } from './scenario';
import type { View } from './timeline';

interface LineStyle {
  color: (p: Palette) => string;
  faint: boolean;
}

/** How each metric is drawn: intended time strong, actual time faint beside it. */
const STYLES: Partial<Record<Metric, LineStyle>> = {
  ack_response: { color: (p) => p.send, faint: false },
  end_to_end: { color: (p) => p.receive, faint: false },
  send_ack: { color: (p) => p.send, faint: true },
  transfer: { color: (p) => p.receive, faint: true },
  send_delay: { color: (p) => p.delay, faint: true },
  cycle: { color: (p) => p.send, faint: false },
  open: { color: (p) => p.receive, faint: false },
};

/** The same for requests of a probe, by their names without that of the probe. */
const REQUEST_STYLES: Record<string, LineStyle> = {
  response: { color: (p) => p.send, faint: false },
  'from send': { color: (p) => p.send, faint: true },
  connect: { color: (p) => p.receive, faint: true },
  secure: { color: (p) => p.delay, faint: true },
};

/** A curve as it is drawn below a title, which names its scenario where `isTitled`. */
function line(run: RunView, curve: Curve, isTitled: boolean): NinesLine {
  const info = infoOf(run, curve.metric);
  const short = shortName(info);
  const style = STYLES[curve.metric] ?? REQUEST_STYLES[short];
  const color = style?.color ?? ((p: Palette) => partColor(run, info, p.dark));
  return {
    curve,
    name: isTitled ? short : info.name,
    color: style?.faint ? (p) => `color-mix(in oklab, ${color(p)} 55%, ${p.paper})` : color,
    width: style && !style.faint ? 2 : 1.25,
  };
}

/** Lines of one chart at most: more cannot be told apart. */
const MOST_LINES = 6;

/** The curves of one chart, or, where `alone`, of a chart each. */
interface Group {
  title: string;
  curves: Curve[];
  alone: boolean;
}

/** Curves that a reader compares: all, or where they are many those of each scenario, and parts a chart each. */
export function groups(run: RunView, curves: readonly Curve[]): Group[] {
  if (curves.length <= MOST_LINES) return [{ title: '', curves: [...curves], alone: false }];
  const kind = ({ scenario, part }: MetricInfo): string => (part ? `parts: ${scenario}` : scenario);
  const found = new Map<string, Group>();
  for (const curve of curves) {
    const info = infoOf(run, curve.metric);
    const title = kind(info);
    const group = found.get(title) ?? { title, curves: [], alone: info.part };
    group.curves.push(curve);
    found.set(title, group);
  }
  const all = [...found.values()].map((group) => ({
    ...group,
    alone: group.alone || group.curves.length > MOST_LINES,
  }));
  return all.toSorted((a, b) => Number(a.alone) - Number(b.alone));
}

interface Chart {
  chart: NinesChart;
  lines: (curves: readonly Curve[]) => NinesLine[];
}

function chartsOf(run: RunView, group: Group): Chart[] {
  const own = new Set(group.curves.map((curve) => curve.metric));
  const lines = (curves: readonly Curve[]): NinesLine[] =>
    curves
      .filter((curve) => own.has(curve.metric))
      .map((curve) => line(run, curve, group.title !== '' && !group.alone));
  if (!group.alone) return [{ chart: ninesChart(called(group.title), 340, false), lines }];
  // The others stand in the background of each, for comparison.
  return group.curves.map(({ metric }) => ({
    chart: ninesChart(infoOf(run, metric).name, 190, true),
    lines: (curves) =>
      lines(curves)
        .map((it) =>
          it.curve.metric === metric
            ? { ...it, width: 2 }
            : { ...it, color: (p: Palette) => p.line, width: 1, behind: true },
        )
        .sort((a, b) => Number(b.behind ?? false) - Number(a.behind ?? false)),
  }));
}

/** The section; its curves and its table are those of the window, else of the measured phase. */
export function percentiles(page: Page, store: Store): View | null {
  const { run } = page;
  const measured = run.curves.filter((c) => c.count > 0 && c.ns.length > 0);
  if (measured.length === 0) return null;
  const all = groups(run, measured).map((group) => {
    return { alone: group.alone, charts: chartsOf(run, group), bounds: nineBounds(group.curves) };
  });
  const charts = all.flatMap((it) => it.charts.map(({ chart }) => chart));
  const hint = h('span', { class: 'hint' });
  const rows = h('div', { class: 'scroll' });
  let curves: readonly Curve[] = measured;
  const draw = (): void => {
    const p = palette();
    const { window } = store.state;
    curves = window ? distributions(page, window).map(curveOf) : measured;
    const figures = window ? figuresOf(page, window) : run.figures;
    for (const group of all) for (const { chart, lines } of group.charts) chart.draw(lines(curves), group.bounds, p);
    const of = window ? 'what was answered in it, in whole intervals' : 'measured phase';
    fill(hint, `${of}; both axes logarithmic`);
    fill(rows, summaryTable(run, figures, window !== null));
  };
  store.on(['window'], draw);
  const boxOf = (group: (typeof all)[number]): HTMLElement => {
    const elements = group.charts.map(({ chart }) => chart.element);
    return h('div', { class: group.alone ? 'multiples' : 'charts' }, elements);
  };
  const tools = [
    ...pictures(`${run.id}-percentiles`, (top) => pictureOf(charts, top)),
    button('CSV', () => save(`${run.id}-percentiles.csv`, curveCsv(run, curves), 'text/csv')),
  ];
  const explained = run.metrics.some((it) => it.part)
    ? 'Parts of an operation count from the end of the one before, the others from the time that it was due.'
    : 'Strong lines count from the intended send time, faint ones from the actual one.';
  const element = section(
    'latency',
    'How latency is distributed',
    [hint, h('div', { class: 'tools' }, tools)],
    all.map(boxOf),
    h('p', { class: 'hint' }, `${explained} Dashed: fewer than 10 samples lie beyond.`),
    rows,
    refusals(run),
  );
  return { element, draw };
}

function summaryTable(run: RunView, figures: Figures, ofWindow: boolean): HTMLElement {
  const exact = (ns: number): HTMLElement => h('span', { title: exactDuration(ns) }, duration(ns));
  const rows = latencyKeys(run).flatMap((key) => {
    const l = latencyOf(figures, key);
    if (!l || l.count === 0) return [];
    const percentiles = PERCENTILES.map(([, p, field]) => percentileCell(l, p, l[field]));
    return [[latencyName(run, key), exact(l.mean_ns), ...percentiles, exact(l.max_ns), grouped(l.count)]];
  });
  const numbers = ['mean', ...PERCENTILES.map(([name]) => name), 'max', 'samples'];
  const made = table(
    ofWindow ? 'Latencies of the window, to 1 %' : 'Latencies of the measured phase',
    ['metric', ...numbers.map((number) => ({ number }))],
    rows,
  );
  const weak = made.querySelector('.weak');
  if (weak) made.append(h('tfoot', {}, h('tr', {}, h('td', { colspan: 9 }, WEAK_MEANS))));
  return made;
}

function curveCsv(run: RunView, curves: readonly Curve[]): string {
  const rows = curves.flatMap(({ metric, nines, ns }) =>
    nines.map((n, i) => [infoOf(run, metric).name, 1 - 10 ** -n, ns[i]!]),
  );
  return csv([['metric', 'share_at_or_below', 'ns'], ...rows]);
}

function pictureOf(charts: NinesChart[], top: number) {
  const drawn = charts.flatMap((chart) => chart.picture());
  const width = Math.max(0, ...drawn.map(({ chart }) => chart.width));
  return { ...panelsSvg(drawn, palette(), top), width };
}
