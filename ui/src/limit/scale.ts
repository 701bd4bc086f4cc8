// Logarithmic axes, and the line through the trials of each rate.

import { stepsOfDecades } from '../charts/heat';
import type { MAIN_PERCENTILES as PERCENTILES } from '../core/format';
import type { Stretch } from '../core/state';
import type { TrialView } from '../core/view';

/** Ends of an axis that holds all values, with room at both. */
export function bounds(values: readonly number[], room: number): readonly [number, number] {
  const above = values.filter((it) => it > 0);
  if (above.length === 0) return [1, 10];
  return [Math.min(...above) / room, Math.max(...above) * room];
}

/** Where a value lies between two others, from 0 to 1. */
export function logPlace(value: number, low: number, high: number): number {
  const share = Math.log(Math.max(value, low) / low) / Math.log(high / low);
  return Math.min(1, Math.max(0, share));
}

/** Steps within a power of ten that may be named, the densest first. */
const STEPS = [[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8], [1, 2, 3, 5], [1, 2, 5], [1, 3], [1]] as const;

/** Values with names: round ones of each power of ten, fewer where these would be too many. */
export function logTicksOf(low: number, high: number, most: number): number[] {
  const room = Math.max(2, most);
  const ticks = STEPS.map((steps) => stepsOfDecades(low, high, steps)).find((it) => it.length <= room);
  if (ticks) return ticks;
  let every = 2;
  while (stepsOfDecades(low, high, [1], every).length > room) every++;
  return stepsOfDecades(low, high, [1], every);
}

export type PercentileKey = (typeof PERCENTILES)[number][2];

/** The median of the trials of each rate that tell of the broker, the lowest rate first. */
export function medians(trials: readonly TrialView[], key: PercentileKey): [number, number][] {
  const telling = trials.filter((it) => it.outcome !== 'unclear' && it.latency !== null);
  const rates = [...new Set(telling.map((it) => it.rate))].sort((a, b) => a - b);
  return rates.map((rate) => {
    const values = telling
      .filter((it) => it.rate === rate)
      .map((it) => it.latency![key])
      .sort((a, b) => a - b);
    const upper = values[Math.floor(values.length / 2)] ?? 0;
    const lower = values[Math.floor((values.length - 1) / 2)] ?? upper;
    return [rate, (lower + upper) / 2];
  });
}

export type Point = readonly [number, number];

/** How far a text reaches above its base line, and below, pixels. */
const ASCENT = 11;
const DESCENT = 4;
/** How far lines are looked at, and texts moved, at a time. */
const STEP = 8;

/** Points along a line through others, none far from the next. */
export function along(line: readonly Point[]): Point[] {
  return line.flatMap(([x, y], i) => {
    const [nextX, nextY] = line[i + 1] ?? [x, y];
    const steps = Math.max(1, Math.ceil(Math.hypot(nextX - x, nextY - y) / STEP));
    return Array.from({ length: steps }, (_, step): Point => {
      const share = step / steps;
      return [x + share * (nextX - x), y + share * (nextY - y)];
    });
  });
}

/** Where a text of this width begins beside a level line, above it or below, to cover the fewest of these points. */
export function besideLevel(level: number, [left, right]: Stretch, width: number, points: readonly Point[]): Point {
  let best: Point = [left, level - 5];
  let fewest = Number.POSITIVE_INFINITY;
  for (const y of [level - 5, level + 14]) {
    for (let x = left; x + width <= right || x === left; x += STEP) {
      const covers = ([px, py]: Point): boolean =>
        px > x - STEP && px < x + width + STEP && py > y - ASCENT - 2 && py < y + DESCENT + 2;
      const covered = points.filter(covers).length;
      if (covered < fewest) [best, fewest] = [[x, y], covered];
    }
  }
  return best;
}
