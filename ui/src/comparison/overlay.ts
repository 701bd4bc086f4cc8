// Both sides on one axis: every run faint, the mean of each side strong.

import uPlot from 'uplot';
import { logTicks } from '../charts/heat';
import { type NinesLine, nineBounds, ninesChart } from '../charts/nines';
import { type Panel, type PanelSpec, panelOf, type Shared } from '../charts/panel';
import { trace } from '../charts/steps';
import { h, later, scrolling, section, table, widthOf } from '../core/dom';
import { bytesTick, duration, durationTick, siTick } from '../core/format';
import { type Palette, palette } from '../core/theme';
import type { ComparedCurve, ComparedPanel, ComparisonView, Curve, QuantityUnit } from '../core/view';
import { valued } from '../sections/repeats';
import type { View } from '../sections/timeline';

type Side = 'a' | 'b';
const SIDES: readonly Side[] = ['a', 'b'];

/** The colour of a side: A is what is compared with, and grey. */
export function sideColor(side: Side): (p: Palette) => string {
  return (p) => (side === 'a' ? p.soft : p.accent);
}

function faint(side: Side): (p: Palette) => string {
  return (p) => `color-mix(in oklab, ${sideColor(side)(p)} 32%, ${p.paper})`;
}

export function mean(lines: readonly (readonly (number | null)[])[]): (number | null)[] {
  const length = Math.max(0, ...lines.map((line) => line.length));
  return Array.from({ length }, (_, i) => {
    const known = lines.map((line) => line[i] ?? null).filter((v) => v !== null);
    return known.length === 0 ? null : known.reduce((sum, v) => sum + v, 0) / known.length;
  });
}

/** The geometric mean of curves where all of them have a value: each run counts alike, as it does in the table. */
export function meanCurve(curves: readonly Curve[]): Curve | null {
  const [first] = curves;
  if (!first) return null;
  const length = Math.min(...curves.map((it) => it.ns.length));
  const at = (i: number): number =>
    Math.exp(curves.reduce((sum, it) => sum + Math.log(Math.max(1, it.ns[i]!)), 0) / curves.length);
  return {
    metric: first.metric,
    count: Math.min(...curves.map((it) => it.count)),
    nines: first.nines.slice(0, length),
    ns: Array.from({ length }, (_, i) => at(i)),
  };
}

/** Runs below which an interval of a mean says nothing: with two, Student's t multiplies by 12.7. */
const LEAST_RUNS = 3;
/** The 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom; beyond them a bound above all others. */
const T: readonly number[] = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11,
  2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/** The ends of the 95 % interval of the geometric mean at each percentile, a run being one value; null below 3 runs. */
export function interval(curves: readonly Curve[]): readonly [Curve, Curve] | null {
  const mean = meanCurve(curves);
  if (!mean || curves.length < LEAST_RUNS) return null;
  const runs = curves.length;
  const t = T[runs - 2] ?? 2.042;
  const factors = mean.ns.map((ns, i) => {
    const off = curves.map((it) => Math.log(Math.max(1, it.ns[i]!)) - Math.log(Math.max(1, ns)));
    const squares = off.reduce((sum, it) => sum + it * it, 0) / (runs - 1);
    return Math.exp((t * Math.sqrt(squares)) / Math.sqrt(runs));
  });
  return [
    { ...mean, ns: mean.ns.map((ns, i) => ns / factors[i]!) },
    { ...mean, ns: mean.ns.map((ns, i) => ns * factors[i]!) },
  ];
}

const UNITS: Partial<Record<QuantityUnit, { name: string; tick: (v: number) => string }>> = {
  per_second: { name: 'per second', tick: siTick },
  ns: { name: 'each second; log axis', tick: durationTick },
  cores: { name: 'cores', tick: siTick },
  bytes: { name: 'resident', tick: bytesTick },
};

function under(of: ComparedPanel): (u: uPlot, p: Palette) => void {
  return (u, p) => {
    const { ctx } = u;
    ctx.lineWidth = uPlot.pxRatio;
    const x = (v: number): number => u.valToPos(v, 'x', true);
    const y = (v: number): number => u.valToPos(v, 'y', true);
    for (const side of SIDES) {
      ctx.strokeStyle = faint(side)(p);
      for (const line of of[side]) {
        const path = new Path2D();
        trace(path, of, drawable(of, line), x, y);
        ctx.stroke(path);
      }
    }
  };
}

/** A line without what a logarithmic axis cannot show. */
function drawable(of: ComparedPanel, line: readonly (number | null)[]): (number | null)[] {
  return of.unit === 'ns' ? line.map((v) => (v !== null && v > 0 ? v : null)) : [...line];
}

/** The smallest and the largest value of all runs; null where there is none above 0. */
export function bounds(of: ComparedPanel): readonly [number, number] | null {
  const all = SIDES.flatMap((side) => of[side].flat());
  const known = all.filter((v): v is number => v !== null && v > 0);
  if (known.length === 0) return null;
  return [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
}

function spec(of: ComparedPanel, index: number): PanelSpec {
  const unit = UNITS[of.unit];
  const [low, high] = bounds(of) ?? [1, 10];
  const log = of.unit === 'ns' ? ([low / 1.3, high * 1.3] as const) : null;
  return {
    id: `both-${index}`,
    title: of.title,
    unit: unit?.name ?? '',
    height: 130,
    lines: SIDES.filter((side) => of[side].length > 0).map((side) => ({
      label: side.toUpperCase(),
      values: drawable(of, mean(of[side])),
      color: sideColor(side),
      format: (value: number) => valued(value, of.unit),
      width: 2,
    })),
    tick: unit?.tick ?? siTick,
    most: high,
    ...(log && { log, ticks: (u: uPlot) => logTicks(...log, Math.max(3, (u.over?.clientHeight ?? 130) / 24)) }),
    under: under(of),
  };
}

function panelTable(of: ComparedPanel): HTMLElement {
  const columns = [{ number: 'from, s' }, ...SIDES.map((side) => ({ number: side.toUpperCase() }))];
  const means = SIDES.map((side) => mean(of[side]));
  const shown = (value: number | null | undefined): string => (value == null ? '–' : valued(value, of.unit));
  const rows = of.t.map((t, i) => [String(t), ...means.map((line) => shown(line[i]))]);
  return scrolling(table(`${of.title}, mean of the runs`, columns, rows));
}

/** What happened over time; null where no run could be read. */
export function overTime(view: ComparisonView): View | null {
  const { panels } = view;
  const ends = panels.map((it) => (it.t.at(-1) ?? 0) + (it.dt.at(-1) ?? 0));
  const end = Math.max(0, ...ends);
  if (!(end > 0)) return null;
  const list: Panel[] = panels.map((of, index) => {
    const shared: Shared = {
      t: of.t,
      dt: of.dt,
      visible: () => [0, end],
      phases: [],
      events: [],
      stalls: [],
      window: () => null,
      choose: () => {},
      hover: (t) => {
        for (const panel of list) panel.pointer(t);
      },
    };
    return panelOf(spec(of, index), shared, () => index === panels.length - 1);
  });
  const elements = list.map((panel) => panel.element);
  const body = h('div', { class: 'panels' }, elements);
  const element = section(
    'time',
    'Over time',
    'seconds of the measured phase; strong: mean of the runs, faint: each run',
    body,
    later('Table', () => h('div', {}, view.panels.map(panelTable))),
  );
  const draw = (): void => {
    const width = widthOf(body);
    if (width === 0) return;
    for (const panel of list) panel.draw(width, palette());
  };
  return { element, draw };
}

function lines(of: ComparedCurve): NinesLine[] {
  const runs = SIDES.flatMap((side) =>
    of[side].map((curve) => ({ curve, name: '', color: faint(side), width: 1, behind: true })),
  );
  const means = SIDES.flatMap((side) => {
    const curve = meanCurve(of[side]);
    if (!curve) return [];
    const band = interval(of[side]);
    const line = { curve, name: side.toUpperCase(), color: sideColor(side), width: 2 };
    return [band ? { ...line, band } : line];
  });
  return [...runs, ...means];
}

const NINES: readonly (readonly [string, number])[] = [
  ['p50', Math.log10(2)],
  ['p90', 1],
  ['p99', 2],
  ['p99.9', 3],
];

function curveTable(view: ComparisonView): HTMLElement {
  const rows = view.curves.flatMap((of) =>
    SIDES.flatMap((side) => {
      const curve = meanCurve(of[side]);
      if (!curve) return [];
      const band = interval(of[side]);
      const at = NINES.map(([, nines]) => {
        const i = curve.nines.findIndex((it) => it >= nines - 1e-9);
        if (i < 0) return '–';
        const value = duration(curve.ns[i]!);
        return band ? `${value} [${band.map((it) => duration(it.ns[i]!)).join(', ')}]` : value;
      });
      return [[nameOf(view, of), side.toUpperCase(), ...at]];
    }),
  );
  const heads = ['latency', 'side', ...NINES.map(([number]) => ({ number }))];
  return scrolling(table('Geometric means of the runs, in brackets 95 % intervals', heads, rows));
}

function nameOf(view: ComparisonView, of: ComparedCurve): string {
  const found = view.metrics.find((metric) => metric.key === of.metric);
  return found?.name ?? of.metric.replaceAll('_', ' ');
}

/** How latency is distributed on both sides; null where nothing was recorded. */
export function bothCurves(view: ComparisonView): View | null {
  const all = view.curves
    .filter((of) => of.a.length + of.b.length > 0)
    .map((of) => ({
      lines: lines(of),
      bounds: nineBounds([...of.a, ...of.b]),
      chart: ninesChart(nameOf(view, of), 300, false),
    }));
  if (all.length === 0) return null;
  const banded = view.curves.some((of) => SIDES.some((side) => interval(of[side]) !== null));
  const charts = all.map(({ chart }) => chart.element);
  const element = section(
    'latency',
    'How latency is distributed',
    `strong: geometric mean of the runs at each percentile${banded ? ', shaded: its 95 % interval over the runs' : '; fewer than 3 runs of a side tell no interval'}, faint: each run; both axes logarithmic; dashed: fewer than 10 samples of a run lie beyond`,
    h('div', { class: 'charts' }, charts),
    later('Table', () => curveTable(view)),
  );
  const draw = (): void => {
    for (const { chart, lines: drawn, bounds } of all) chart.draw(drawn, bounds, palette());
  };
  return { element, draw };
}
