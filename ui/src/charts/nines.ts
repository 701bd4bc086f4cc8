// Percentile curves: latency over the share of samples, on an axis of nines.

import uPlot from 'uplot';
import { type Child, h, widthOf } from '../core/dom';
import { duration, durationTick } from '../core/format';
import type { Palette } from '../core/theme';
import { tip, tipRow } from '../core/tip';
import type { Curve } from '../core/view';
import { logTicks } from './heat';
import { apart, clipped } from './panel';
import type { Pen, Scale } from './steps';

/** The name of a place on the axis of nines: 0 is p0, 1 is p90, 2 is p99. */
export function nineName(nines: number): string {
  if (nines === 0) return 'min';
  const share = 100 * (1 - 10 ** -nines);
  if (nines <= 2) return `p${Number(share.toFixed(2))}`;
  return `p${share.toFixed(Math.max(0, Math.round(nines) - 2))}`;
}

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

export function valueAt(curve: Curve, nines: number): number | null {
  for (let i = 0; i < curve.nines.length; i++) {
    if (curve.nines[i]! >= nines - 1e-9) return curve.ns[i]!;
  }
  return null;
}

export interface NinesLine {
  curve: Curve;
  name: string;
  color: (p: Palette) => string;
  width: number;
  /** One of many in the background: without a name. */
  behind?: boolean;
  /** The lower and the upper end of its interval at each place. */
  band?: readonly [Curve, Curve];
}

/** What all charts of a section share, so that they can be compared. */
export type NinesBounds = ReturnType<typeof nineBounds>;

/** Bounds that hold all of some curves, but what lies far below a median: that is noise of the clock. */
export function nineBounds(curves: readonly Curve[]) {
  let [most, low, high] = [0, Number.POSITIVE_INFINITY, 0];
  for (const curve of curves) {
    const median = valueAt(curve, Math.log10(2)) ?? 1;
    most = Math.max(most, curve.nines.at(-1) ?? 0);
    low = Math.min(low, Math.max(curve.ns[0] ?? 1, median / 10, 1));
    high = Math.max(high, ...curve.ns.slice(-1));
  }
  return { most: Math.max(most, 0.5), low: low / 1.15, high: high * 1.15 };
}

interface Part {
  line: NinesLine;
  strong: boolean;
  values: (number | null)[];
}

/** Curves joined on one axis, each split where its support ends. */
function join(lines: readonly NinesLine[]): { xs: number[]; parts: Part[] } {
  const all = lines.flatMap(({ curve }) => [...curve.nines, supported(curve.count)]);
  const xs = [...new Set(all)].sort((a, b) => a - b);
  const parts = lines.flatMap((line) => {
    const limit = supported(line.curve.count);
    const last = line.curve.nines.at(-1) ?? 0;
    const { nines, ns } = line.curve;
    // Both grow: each is gone through once.
    let place = 0;
    const all = xs.map((x) => {
      while (place < nines.length && nines[place]! < x - 1e-9) place++;
      return x > last + 1e-9 ? null : (ns[place] ?? null);
    });
    const where = (strong: boolean, inside: (x: number) => boolean): Part => ({
      line,
      strong,
      values: all.map((value, i) => (inside(xs[i]!) ? value : null)),
    });
    return [where(true, (x) => x <= limit + 1e-9), where(false, (x) => x >= limit - 1e-9)];
  });
  return { xs, parts };
}

const GUTTER = 128;

export type NinesChart = ReturnType<typeof ninesChart>;

/** A chart; a `small` one has no names beside its lines: its title names the one that counts. */
export function ninesChart(title: string, height: number, small: boolean) {
  const plot = h('div', { class: 'plot' });
  const ends = h('div', { class: 'ends', 'aria-hidden': 'true' });
  const caption = title ? h('figcaption', {}, h('b', {}, title)) : null;
  const frame = h('div', { class: 'frame' }, plot, ends);
  const element = h('figure', { class: small ? 'panel nines small' : 'panel nines' }, caption, frame);
  let drawn: { chart: uPlot; palette: Palette; xs: number[]; parts: Part[] } | null = null;

  const tell = (e: MouseEvent): Child[] | null => {
    if (!drawn) return null;
    const { chart: u, palette: p, parts } = drawn;
    const box = u.over.getBoundingClientRect();
    const left = e.clientX - box.left;
    if (left < 0 || left > box.width) return null;
    const x = Math.max(0, u.posToVal(left, 'x'));
    const share = (100 * (1 - 10 ** -x)).toFixed(Math.min(6, Math.max(0, Math.ceil(x))));
    const rows = parts.flatMap(({ line, strong }) => {
      const value = strong && !line.behind ? valueAt(line.curve, x) : null;
      return value === null ? [] : [tipRow(line.color(p), line.name, duration(value))];
    });
    return [h('div', { class: 'when' }, `p${share}`), ...rows];
  };

  const label = (u: uPlot, lines: readonly NinesLine[], p: Palette, narrow: boolean): void => {
    ends.classList.toggle('row', narrow && !small);
    ends.style.width = narrow || small ? '' : `${GUTTER - 8}px`;
    const named = small ? [] : lines.filter((line) => !line.behind);
    const marks = named.map((line) => {
      const mark = h('span', { class: 'mark' }, h('i'), h('span', { class: 'name' }, line.name));
      mark.style.setProperty('--c', line.color(p));
      return { mark, top: u.valToPos(line.curve.ns.at(-1) ?? 1, 'y') };
    });
    ends.replaceChildren(...apart(marks, Number.POSITIVE_INFINITY));
  };

  const draw = (lines: readonly NinesLine[], { most, low, high }: NinesBounds, p: Palette): void => {
    const width = widthOf(element);
    if (width === 0) return;
    drawn?.chart.destroy();
    const { xs, parts } = join(lines);
    const narrow = width < 520;
    const grid = { stroke: p.line, width: 1 };
    const axis = { font: `11px ${p.font}`, grid, stroke: p.soft, gap: 6, ticks: { show: false } };
    const chart = new uPlot(
      {
        width,
        height,
        // The last label of the axis stands in the middle below the chart's end.
        padding: [8, narrow || small ? 24 : GUTTER, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        scales: { x: { time: false, range: () => [0, most] }, y: { distr: 3, log: 10, range: () => [low, high] } },
        axes: [
          { ...axis, size: 26, splits: () => nineTicks(most), values: (u, s) => spaced(s, (v) => u.valToPos(v, 'x')) },
          {
            ...axis,
            size: narrow ? 48 : 58,
            filter: (_, splits) => splits,
            splits: (u) => logTicks(low, high, Math.max(4, (u.over?.clientHeight ?? 300) / 26)),
            values: (_, s) => s.map((v) => (v === null ? null : durationTick(v))),
          },
        ],
        series: [{}, ...parts.map((part) => stroke(part, p))],
        hooks: { drawClear: [(u) => paintBands(u, lines, p)], ready: [(u) => label(u, lines, p, narrow)] },
      },
      [xs, ...parts.map((part) => part.values)],
      plot,
    );
    drawn = { chart, palette: p, xs, parts };
  };

  /** As it was drawn last, for a file. */
  const picture = () => {
    if (!drawn) return [];
    const { chart, palette: p, xs, parts } = drawn;
    const lines = parts.map((part) => ({
      label: part.strong || part.line.behind || small ? '' : part.line.name,
      color: part.line.color(p),
      dash: part.strong ? undefined : [3, 3],
      width: part.line.width,
      trace: (pen: Pen, x: Scale, y: Scale) => polyline(pen, xs, part.values, x, y),
      end: part.values.findLast((v) => v !== null) ?? null,
    }));
    return [{ title: title || 'latency by percentile', unit: 'axis of nines; log axis', chart, lines }];
  };

  tip.on(plot, tell);
  return { element, draw, picture };
}

function paintBands(u: uPlot, lines: readonly NinesLine[], p: Palette): void {
  const { ctx } = u;
  clipped(u);
  ctx.globalAlpha = 0.22;
  for (const { band, color } of lines) {
    if (!band) continue;
    const [low, high] = band;
    const place = (curve: Curve, i: number): [number, number] => [
      u.valToPos(curve.nines[i]!, 'x', true),
      u.valToPos(Math.max(curve.ns[i]!, 1e-3), 'y', true),
    ];
    ctx.beginPath();
    for (let i = 0; i < high.nines.length; i++) ctx.lineTo(...place(high, i));
    for (let i = low.nines.length - 1; i >= 0; i--) ctx.lineTo(...place(low, i));
    ctx.closePath();
    ctx.fillStyle = color(p);
    ctx.fill();
  }
  ctx.restore();
}

function stroke(part: Part, p: Palette): uPlot.Series {
  return {
    points: { show: false },
    stroke: part.line.color(p),
    width: part.line.width,
    ...(part.strong ? {} : { dash: [3, 3] }),
  };
}

function polyline(pen: Pen, xs: readonly number[], ys: readonly (number | null)[], x: Scale, y: Scale): void {
  let down = false;
  xs.forEach((at, i) => {
    const v = ys[i];
    if (v === null || v === undefined) {
      down = false;
      return;
    }
    if (down) pen.lineTo(x(at), y(v));
    else pen.moveTo(x(at), y(v));
    down = true;
  });
}
