// Logarithmic axes, and the line through the trials of each rate.

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
  const first = Math.floor(Math.log10(low));
  const named = (steps: readonly number[], every: number): number[] => {
    const out: number[] = [];
    for (let power = first; 10 ** power <= high; power++) {
      if (power % every !== 0) continue;
      for (const step of steps) {
        const value = Number((step * 10 ** power).toPrecision(6));
        if (value >= low && value <= high) out.push(value);
      }
    }
    return out;
  };
  const room = Math.max(2, most);
  for (const steps of STEPS) {
    const ticks = named(steps, 1);
    if (ticks.length <= room) return ticks;
  }
  let every = 2;
  while (named([1], every).length > room) every++;
  return named([1], every);
}

/** The median of the trials of each rate, of two the larger; the lowest rate first. */
export function medians(trials: readonly TrialView[], at: 0 | 1 | 2): [number, number][] {
  const rates = [...new Set(trials.map((it) => it.rate))].sort((a, b) => a - b);
  return rates.map((rate) => {
    const values = trials
      .filter((it) => it.rate === rate && it.latency !== null)
      .map((it) => it.latency![at])
      .sort((a, b) => a - b);
    return [rate, values[Math.floor(values.length / 2)] ?? 0];
  });
}
