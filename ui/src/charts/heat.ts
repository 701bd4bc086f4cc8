// The latency heat map: time x log latency, darker where more messages fell. Percentiles alone
// hide two modes; this shows them.

import type uPlot from 'uplot';
import { counted, duration } from '../core/format';
import type { Grid } from '../core/histograms';
import { heatColor, type Palette } from '../core/theme';

const LEVELS = 24;

export function bounds(map: Grid): readonly [number, number] {
  const high = map.low_ns * map.ratio ** map.rows;
  return [map.low_ns / map.ratio ** 0.5, high * map.ratio ** 0.5];
}

/** Ticks at 1, and at 2 and 5 where there is room, of each decade. */
export function logTicks(low: number, high: number, most: number): number[] {
  // Within a decade 1, 2 and 5 can be a single tick, or none.
  const fine = high < 5 * low ? [[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9]] : [];
  const all = [...fine, [1, 2, 5], [1, 3], [1]].map((steps) => stepsOfDecades(low, high, steps));
  return all.find((it) => it.length <= most) ?? all.at(-1)!;
}

/** The steps within each decade, or each of so many, that lie between two values. */
export function stepsOfDecades(low: number, high: number, steps: readonly number[], every = 1): number[] {
  const out: number[] = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
    if (power % every === 0) out.push(...steps.map((step) => Number((step * 10 ** power).toPrecision(6))));
  }
  return out.filter((value) => value >= low && value <= high);
}

/** The cells as they were drawn last, and at what place. */
const pictures = new WeakMap<Grid, { key: string; picture: HTMLCanvasElement }>();

/** Draws the cells; while neither the place nor the colours change, what was drawn before. */
export function drawHeat(map: Grid, u: uPlot, p: Palette): void {
  const { left, top, width, height } = u.bbox;
  const { x, y } = u.scales;
  const key = [left, top, width, height, x?.min, x?.max, y?.min, y?.max, p.dark].join();
  let known = pictures.get(map);
  if (known?.key !== key) {
    const picture = document.createElement('canvas');
    [picture.width, picture.height] = [u.ctx.canvas.width, u.ctx.canvas.height];
    drawCells(map, u, picture.getContext('2d')!, p);
    known = { key, picture };
    pictures.set(map, known);
  }
  u.ctx.drawImage(known.picture, 0, 0);
}

/** Draws the cells. Counts are per second, so that a short column is not pale for being short. */
function drawCells(map: Grid, u: uPlot, ctx: CanvasRenderingContext2D, p: Palette): void {
  const colors = Array.from({ length: LEVELS }, (_, i) => heatColor(i / (LEVELS - 1), p.dark));
  const rowEdges = Float64Array.from({ length: map.rows + 1 }, (_, r) =>
    Math.round(u.valToPos(map.low_ns * map.ratio ** r, 'y', true)),
  );
  const at = (time: number): number => Math.round(u.valToPos(time, 'x', true));
  const lefts = Float64Array.from(map.t, at);
  const rights = Float64Array.from(map.end, at);
  const top = peak(map);
  // A colour is told to the canvas once for all of its cells: to read it costs more than to draw one.
  const cells = colors.map((): number[] => []);
  for (let i = 0; i < map.count.length; i++) {
    const column = map.column[i]!;
    const length = map.end[column]! - map.t[column]!;
    const level = intensity(map.count[i]! / length, top);
    cells[Math.min(LEVELS - 1, Math.floor(level * LEVELS))]!.push(i);
  }
  colors.forEach((color, level) => {
    ctx.fillStyle = color;
    for (const i of cells[level]!) {
      const x = lefts[map.column[i]!]!;
      const row = map.row[i]!;
      const y = rowEdges[row + 1]!;
      const width = Math.max(1, rights[map.column[i]!]! - x);
      ctx.fillRect(x, y, width, Math.max(1, rowEdges[row]! - y));
    }
  });
}

/** What lies in the cell at a place: `1.00 ms to 1.12 ms: 1,204 samples`. */
export function cellAt(map: Grid, time: number, ns: number): string | null {
  const row = Math.floor(Math.log(ns / map.low_ns) / Math.log(map.ratio));
  for (let i = 0; i < map.count.length; i++) {
    const column = map.column[i]!;
    if (map.row[i] !== row || time < map.t[column]! || time >= map.end[column]!) continue;
    const low = map.low_ns * map.ratio ** row;
    return `${duration(low)} to ${duration(low * map.ratio)}: ${counted(map.count[i]!, 'sample')}`;
  }
  return null;
}

/** How strong a count looks beside the largest one, 0 to 1: a root keeps rare cells visible, and modes apart. */
export function intensity(count: number, most: number): number {
  return (count / most) ** 0.4;
}

export function peak(map: Grid): number {
  let most = 0;
  for (let i = 0; i < map.count.length; i++) {
    const column = map.column[i]!;
    most = Math.max(most, map.count[i]! / (map.end[column]! - map.t[column]!));
  }
  return most;
}
