// The axis of changes: linear while all of them are small, else logarithmic beyond one per cent, so that a
// margin of one per cent and a hundredfold change stand on one axis.

import { significant } from '../core/format';
import type { FigureRow } from '../core/view';

/** Changes up to this share are drawn on a linear axis. */
const LINEAR = 0.25;
/** Up to this share the other axis is nearly linear, and up to this part of the largest change: all of it would be a point otherwise. */
const UNIT = 0.01;
const PART = 1 / 60;

/** Where a logarithmic axis begins to be one, in words: `1 %`. */
export function beyond(scale: ChangeScale): string {
  return `${Number((scale.beyond * 100).toPrecision(2))} %`;
}

export interface ChangeScale {
  /** Whether it is logarithmic, and from which share on. */
  log: boolean;
  beyond: number;
  /** Where a change lies, in per cent of the axis; never beyond its ends. */
  place(change: number): number;
  /** Changes that are named on the axis, with their places. */
  ticks: { at: number; label: string }[];
}

/** Changes beyond these are not told more exactly: an interval of two runs soon reaches from a millionth to a million times as much. */
const TOLD = [-0.9995, 1000] as const;

/** A change in per cent with its sign: `+1.20 %`, `-30.0 %`; none at all is `0 %`. */
export function signed(change: number): string {
  if (change === 0) return '0 %';
  if (change < TOLD[0]) return '< -99.9 %';
  if (change > TOLD[1]) return '> +100,000 %';
  const size = Math.abs(change * 100);
  const text = size >= 999.5 ? significant(size) : size.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
  return `${change < 0 ? '-' : '+'}${text} %`;
}

/** A tick: `-1 %`, `0`, `+30 %`, `x10`. */
export function tickName(change: number): string {
  if (change === 0) return '0';
  if (change >= 1) return `x${significant(change + 1).replace(/\.0+$/, '')}`;
  return `${change < 0 ? '-' : '+'}${Number(Math.abs(change * 100).toPrecision(3))} %`;
}

const NAMED = [-0.99, -0.9, -0.7, -0.5, -0.3, -0.1, -0.03, -0.01, 0, 0.01, 0.03, 0.1, 0.3, 1, 4, 9, 99, 999, 9999];

/** Figures of which every run of both sides has a value, so that there is a change. */
export function isKnown(figure: FigureRow): boolean {
  const hasSides = figure.a.length > 0 && figure.b.length > 0;
  return hasSides && figure.without[0] === 0 && figure.without[1] === 0;
}

/** Known figures that a test applies to: neither side has one run alone. */
export function isTested(figure: FigureRow): boolean {
  return isKnown(figure) && !figure.within_one_run;
}

/** An axis that holds the changes, intervals and margins of all figures, and nothing. */
export function changeScale(figures: readonly FigureRow[]): ChangeScale {
  let [low, high] = [-UNIT, UNIT];
  for (const it of figures.filter(isKnown)) {
    const ends = it.interval_says ? it.interval : [it.change, it.change];
    low = Math.min(low, ends[0] ?? it.change, it.change, -it.margin);
    high = Math.max(high, ends[1] ?? it.change, it.change, it.margin);
  }
  low = Math.max(low, -0.999_999);
  const log = Math.max(-low, high) > LINEAR;
  // Changes of a few intervals that end nowhere say nothing of how large the others are.
  const largest = Math.max(Math.log1p(Math.min(high, TOLD[1])), -Math.log1p(low));
  const unit = Math.max(UNIT, Number((largest * PART).toPrecision(1)));
  const bend = (change: number): number => (log ? Math.asinh(Math.log1p(Math.max(change, -0.999_999)) / unit) : change);
  const [from, to] = [bend(low), bend(high)];
  const room = (to - from) * 0.05;
  const place = (change: number): number => {
    const share = (bend(change) - from + room) / (to - from + 2 * room);
    return 100 * Math.min(1, Math.max(0, share));
  };
  const wanted = log ? NAMED : linearTicks(low, high, 5);
  const inside = wanted.filter((it) => it >= low && it <= high);
  return { log, beyond: unit, place, ticks: apart(inside, place) };
}

/** Round values from `low` to `high`, about as many as `most`, and `least` apart. */
export function linearTicks(low: number, high: number, most: number, least = 0): number[] {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(least, [1, 2, 5, 10].map((by) => by * power).find((it) => it >= rough) ?? rough);
  const out: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9; i++) out.push(Number((i * step).toPrecision(6)));
  return out;
}

/** Per cent of the axis that a name takes at least. */
const NAME = 13;

/** Ticks whose names do not run into each other; nothing stays, and what lies near it goes first. */
function apart(ticks: readonly number[], place: (v: number) => number): ChangeScale['ticks'] {
  const order = ticks.toSorted((a, b) => Math.abs(a) - Math.abs(b) || a - b);
  const kept: number[] = [];
  // The outermost tell how far the axis reaches: they come behind nothing.
  const ends = [ticks.at(0), ticks.at(-1)].filter((it) => it !== undefined);
  for (const tick of [0, ...ends, ...order]) {
    const isFree = kept.every((other) => Math.abs(place(other) - place(tick)) >= NAME);
    if (isFree) kept.push(tick);
  }
  kept.sort((a, b) => a - b);
  return kept.map((tick) => ({ at: place(tick), label: tickName(tick) }));
}
