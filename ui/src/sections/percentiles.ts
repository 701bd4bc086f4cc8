// How latency is distributed: percentile curves on an axis of nines, and the same as a table.

import uPlot from 'uplot';
import { type Drawn, panelSvg, png, svg } from '../charts/export';
import { logTicks } from '../charts/heat';
import { infoOf, latencyKeys, latencyOf } from '../core/data';
import { button, csv, fill, h, save, table } from '../core/dom';
import { duration, durationTick, exactDuration, grouped, PERCENTILES } from '../core/format';
import { type Palette, palette } from '../core/theme';
import type { Curve, Metric, RunView } from '../core/view';
import { percentileCell } from './figures';
import { partColor } from './scenario';
import type { View } from './timeline';

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

interface LineStyle {
  color: (p: Palette) => string;
  faint: boolean;
}

/** The parts of a whole are drawn in one hue. */
function styleOf(run: RunView, metric: Metric): LineStyle {
  const info = infoOf(run, metric);
  const part: LineStyle = { color: (p) => partColor(run, info, p.dark), faint: false };
  return STYLES[metric] ?? part;
}

/** The name of a place on the axis of nines: 0 is p0, 1 is p90, 2 is p99. */
export function nineName(nines: number): string {
  if (nines === 0) return 'min';
  const share = 100 * (1 - 10 ** -nines);
  if (nines <= 2) return `p${Number(share.toFixed(2))}`;
  return `p${share.toFixed(Math.max(0, Math.round(nines) - 2))}`;
}

/** Ticks: the median, then each nine. */
export function nineTicks(most: number): number[] {
  const out = [0, Math.log10(2), 1];
  for (let n = 2; n <= most + 1e-9; n++) out.push(n);
  return out;
}

/** Names of ticks, left out where they would run into the one before. */
export function spaced(ticks: readonly number[], position: (v: number) => number): string[] {
  let free = Number.NEGATIVE_INFINITY;
  return ticks.map((tick) => {
    const name = nineName(tick);
    const half = name.length * 3.6;
    const at = position(tick);
    if (at - half < free) return '';
    free = at + half + 6;
    return name;
  });
}

/** The number of nines beyond which fewer than ten samples lie. */
export function supported(count: number): number {
  return count > 10 ? Math.log10(count / 10) : 0;
}

/** The value of a curve at a place; curves are steps. */
export function valueAt(curve: Curve, nines: number): number | null {
  for (let i = 0; i < curve.nines.length; i++) {
    if (curve.nines[i]! >= nines - 1e-9) return curve.ns[i]!;
  }
  return null;
}

interface Part {
  curve: Curve;
  strong: boolean;
  values: (number | null)[];
}

/** Curves joined on one axis, each split where its support ends. */
function join(curves: Curve[]): { xs: number[]; parts: Part[] } {
  const xs = [...new Set(curves.flatMap((c) => [...c.nines, supported(c.count)]))].sort(
    (a, b) => a - b,
  );
  const parts = curves.flatMap((curve) => {
    const limit = supported(curve.count);
    const last = curve.nines.at(-1) ?? 0;
    const at = (x: number): number | null => (x > last + 1e-9 ? null : valueAt(curve, x));
    return [
      { curve, strong: true, values: xs.map((x) => (x <= limit + 1e-9 ? at(x) : null)) },
      { curve, strong: false, values: xs.map((x) => (x >= limit - 1e-9 ? at(x) : null)) },
    ];
  });
  return { xs, parts };
}

export function percentiles(run: RunView): View | null {
  const curves = run.curves.filter((c) => c.count > 0 && c.ns.length > 0);
  if (curves.length === 0) return null;
  const plot = h('div', { class: 'plot' });
  const ends = h('div', { class: 'ends', 'aria-hidden': 'true' });
  const readout = h('output', { class: 'readout' });
  const { xs, parts } = join(curves);
  const most = Math.max(...xs);
  let low = Number.POSITIVE_INFINITY;
  let high = 0;
  for (const c of curves) {
    // What lies below the median's tenth is noise of the clock: the axis need not show it all.
    for (const ns of c.ns) {
      low = Math.min(low, Math.max(ns, 1));
      high = Math.max(high, ns);
    }
  }
  low /= 1.15;
  high *= 1.15;
  let chart: uPlot | null = null;

  const moved = (u: uPlot): void => {
    const left = u.cursor.left ?? -1;
    if (left < 0) {
      fill(readout, '\u00a0');
      return;
    }
    const x = Math.max(0, u.posToVal(left, 'x'));
    const share = 100 * (1 - 10 ** -x);
    const digits = Math.min(6, Math.max(0, Math.ceil(x)));
    const texts = curves.map((c) => {
      const value = valueAt(c, x);
      return value === null ? '' : `${infoOf(run, c.metric).name} ${duration(value)}`;
    });
    fill(readout, [`p${share.toFixed(digits)}`, ...texts.filter((t) => t)].join(' · '));
  };

  const draw = (): void => {
    const p = palette();
    const width = plot.parentElement?.clientWidth ?? 0;
    if (width === 0) return;
    const narrow = width < 620;
    const font = `11px ${p.font}`;
    const grid = { stroke: p.line, width: 1 };
    chart?.destroy();
    chart = new uPlot(
      {
        width,
        height: narrow ? 300 : 340,
        padding: [8, narrow ? 10 : 128, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        scales: {
          x: { time: false, range: () => [0, most] },
          y: { distr: 3, log: 10, range: () => [low, high] },
        },
        axes: [
          {
            font,
            grid,
            stroke: p.soft,
            ticks: { show: false },
            size: 26,
            gap: 6,
            splits: () => nineTicks(most),
            values: (u, s) => spaced(s, (v) => u.valToPos(v, 'x')),
          },
          {
            font,
            grid,
            stroke: p.soft,
            ticks: { show: false },
            size: narrow ? 48 : 58,
            gap: 6,
            filter: (_, splits) => splits,
            splits: (u) => logTicks(low, high, Math.max(4, (u.over?.clientHeight ?? 300) / 26)),
            values: (_, s) => s.map((v) => (v === null ? null : durationTick(v))),
          },
        ],
        series: [{}, ...parts.map((part) => lineStyle(run, part, p))],
        hooks: { setCursor: [moved], ready: [(u) => labels(run, u, curves, ends, p, narrow)] },
      },
      [xs, ...parts.map((part) => part.values)],
      plot,
    );
  };

  const element = h(
    'section',
    { id: 'latency', 'aria-labelledby': 'latency-title' },
    h(
      'header',
      {},
      h('h2', { id: 'latency-title' }, 'How latency is distributed'),
      h('span', { class: 'hint' }, 'measured phase; both axes logarithmic'),
      h(
        'div',
        { class: 'tools' },
        button('SVG', () => chart && exportSvg(run, chart, parts, 'svg')),
        button('PNG', () => chart && exportSvg(run, chart, parts, 'png')),
        button('CSV', () => save(`${run.id}-percentiles.csv`, curveCsv(run, curves), 'text/csv')),
      ),
    ),
    readout,
    h('div', { class: 'charts nines' }, h('div', { class: 'frame' }, plot, ends)),
    h(
      'p',
      { class: 'hint' },
      `${run.metrics.some((it) => it.part) ? 'Parts of an operation count from the end of the one before, the others from the time that it was due.' : 'Strong lines count from the intended send time, faint ones from the actual one.'} Dashed: fewer than 10 samples lie beyond.`,
    ),
    h('div', { class: 'scroll' }, summaryTable(run)),
  );
  fill(readout, '\u00a0');
  return { element, draw };
}

function lineStyle(run: RunView, part: Part, p: Palette): uPlot.Series {
  const style = styleOf(run, part.curve.metric);
  const color = style.color(p);
  return {
    points: { show: false },
    stroke: style.faint ? `color-mix(in oklab, ${color} 55%, ${p.paper})` : color,
    width: style.faint || !STYLES[part.curve.metric] ? 1.25 : 2,
    ...(part.strong ? {} : { dash: [3, 3] }),
  };
}

/** Names at the right ends of the lines. */
function labels(
  run: RunView,
  u: uPlot,
  curves: Curve[],
  ends: HTMLElement,
  p: Palette,
  narrow: boolean,
): void {
  ends.replaceChildren();
  ends.classList.toggle('row', narrow);
  const marks = curves.map((curve) => {
    const mark = h(
      'span',
      { class: 'mark' },
      h('i'),
      h('span', { class: 'name' }, infoOf(run, curve.metric).name),
    );
    const style = styleOf(run, curve.metric);
    const color = style.color(p);
    mark.style.setProperty(
      '--c',
      style.faint ? `color-mix(in oklab, ${color} 65%, ${p.paper})` : color,
    );
    return { mark, y: u.valToPos(curve.ns.at(-1) ?? 1, 'y') };
  });
  ends.style.width = narrow ? '' : '120px';
  if (!narrow) {
    marks.sort((a, b) => a.y - b.y);
    marks.forEach((m, i) => {
      m.y = Math.max(m.y, i > 0 ? marks[i - 1]!.y + 14 : 0);
      m.mark.style.top = `${m.y}px`;
    });
  }
  ends.append(...marks.map((m) => m.mark));
}

/** Every metric's percentiles: the chart's table, and the numbers to quote. */
function summaryTable(run: RunView): HTMLElement {
  const rows = latencyKeys(run)
    .flatMap((key) => {
      const l = latencyOf(run.figures, key);
      return l && l.count > 0 ? [{ key, l }] : [];
    })
    .map(({ key, l }) => [
      infoOf(run, key).name,
      h('span', { title: exactDuration(l.mean_ns) }, duration(l.mean_ns)),
      ...PERCENTILES.map(([, p, field]) => percentileCell(l, p, l[field])),
      h('span', { title: exactDuration(l.max_ns) }, duration(l.max_ns)),
      grouped(l.count),
    ]);
  const number = (label: string) => ({ label, number: true });
  const made = table(
    'Latencies of the measured phase',
    [
      { label: 'metric' },
      number('mean'),
      ...PERCENTILES.map(([name]) => number(name)),
      number('max'),
      number('samples'),
    ],
    rows,
  );
  const weak = made.querySelector('.weak');
  if (weak)
    made.append(
      h('tfoot', {}, h('tr', {}, h('td', { colspan: 9 }, '† fewer than 10 samples lie beyond'))),
    );
  return made;
}

function curveCsv(run: RunView, curves: Curve[]): string {
  return csv([
    ['metric', 'share_at_or_below', 'ns'],
    ...curves.flatMap((c) =>
      c.nines.map((n, i) => [infoOf(run, c.metric).name, 1 - 10 ** -n, c.ns[i]!]),
    ),
  ]);
}

function exportSvg(run: RunView, chart: uPlot, parts: Part[], kind: 'svg' | 'png'): void {
  const p = palette();
  const drawn: Drawn = {
    title: 'latency by percentile',
    unit: 'axis of nines; log axis',
    chart,
    lines: parts.map((part) => {
      const style = lineStyle(run, part, p);
      return {
        label: part.strong ? '' : infoOf(run, part.curve.metric).name,
        color: String(style.stroke),
        dash: part.strong ? undefined : [3, 3],
        width: style.width ?? 1,
        y: part.values as number[],
      };
    }),
  };
  const part = panelSvg(drawn, p, 8);
  const text = svg(chart.width, part.height + 16, p, part.body);
  if (kind === 'svg') save(`${run.id}-percentiles.svg`, text, 'image/svg+xml');
  else
    void png(text, chart.width, part.height + 16).then((b) => save(`${run.id}-percentiles.png`, b));
}
