// A series of intervals as a step line. Each interval is drawn from its start to its end, whatever
// follows it: a gap ends the line, and does not take away the interval before it.

import { sampleAt } from '../flame/tree';

/** Starts and lengths of intervals, in seconds. */
export interface Times {
  t: number[];
  dt: number[];
}

type Values = readonly (number | null)[];
export type Scale = (value: number) => number;

export interface Pen {
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
}

/**
 * Values read at the end of each interval, as memory is, stand for that interval, as CPU does; where a cut lies in it,
 * the value before holds until then.
 */
export function held({ t, dt }: Times, cuts: readonly number[]): Times {
  const ends = t.map((at, i) => at + dt[i]!);
  const from = ends.map((end, i) => cuts.find((cut) => cut > t[i]! && cut < end) ?? t[i]!);
  const until = (i: number): number => {
    const next = t[i + 1];
    return next !== undefined && next - ends[i]! <= dt[i]! * 0.5 ? from[i + 1]! : ends[i]!;
  };
  return { t: from, dt: from.map((at, i) => until(i) - at) };
}

/** First and last index of every run of intervals that have a value and touch each other. */
export function runs({ t, dt }: Times, values: Values): [number, number][] {
  const out: [number, number][] = [];
  let last: [number, number] | null = null;
  for (let i = 0; i < t.length; i++) {
    if (values[i] === null || values[i] === undefined) {
      last = null;
      continue;
    }
    const touches = i > 0 && t[i]! - (t[i - 1]! + dt[i - 1]!) <= dt[i - 1]! * 0.5;
    if (last && touches) last[1] = i;
    else {
      last = [i, i];
      out.push(last);
    }
  }
  return out;
}

/** Draws the line; with a `floor` each run is led down to it at both ends, as the outline of an area. */
export function trace(pen: Pen, times: Times, values: Values, x: Scale, y: Scale, floor: number | null = null): void {
  const { t, dt } = times;
  for (const [first, last] of runs(times, values)) {
    if (floor !== null) {
      pen.moveTo(x(t[first]!), floor);
      pen.lineTo(x(t[first]!), y(values[first]!));
    } else pen.moveTo(x(t[first]!), y(values[first]!));
    for (let i = first; i <= last; i++) {
      const end = i < last ? t[i + 1]! : t[i]! + dt[i]!;
      pen.lineTo(x(end), y(values[i]!));
      if (i < last) pen.lineTo(x(end), y(values[i + 1]!));
    }
    if (floor !== null) pen.lineTo(x(t[last]! + dt[last]!), floor);
  }
}

/** The interval that holds a time; null where none does. */
export function intervalAt({ t, dt }: Times, time: number): number | null {
  const next = sampleAt(t, time);
  const i = t[next] === time ? next : next - 1;
  return i >= 0 && time <= t[i]! + dt[i]! + 1e-6 ? i : null;
}
