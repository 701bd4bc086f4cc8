// The flame chart: each thread's stacks in the order of their time, neighbours with the same frame as one.

import type { Profile } from '../core/data';
import { timeStep } from '../core/format';
import { link, sampleAt, type Tree, totals } from './tree';

/** More samples than this have no room beside each other, and a chart of them would be noise. */
export const MOST_IN_ORDER = 10_000;

export type Chronology = ReturnType<typeof chronology>;

export interface Wanted {
  from: number;
  to: number;
  /** Per node of the whole tree: whether samples that end there are wanted. */
  leaves: Uint8Array;
  /** Per process, and 0 for none; null for all. */
  marked: Uint8Array | null;
}

/** The samples of a window by thread, the busiest thread first. */
function byThread(profile: Profile, wanted: Wanted): [thread: number, samples: number[]][] {
  const { time, leaf, process, weight } = profile;
  const thread = profile.thread();
  const lists = new Map<number, { samples: number[]; sum: number }>();
  const end = sampleAt(time, wanted.to);
  for (let i = sampleAt(time, wanted.from); i < end; i++) {
    if (!wanted.leaves[leaf[i]!]) continue;
    if (wanted.marked && !wanted.marked[process?.[i] ?? 0]) continue;
    const of = thread?.[i] ?? 0;
    const list = lists.get(of) ?? { samples: [], sum: 0 };
    list.samples.push(i);
    list.sum += weight[i]!;
    lists.set(of, list);
  }
  const all = [...lists].sort((a, b) => b[1].sum - a[1].sum || a[0] - b[0]);
  return all.map(([of, { samples }]) => [of, samples]);
}

export function countOf(profile: Profile, wanted: Wanted): number {
  return byThread(profile, wanted).reduce((sum, [, samples]) => sum + samples.length, 0);
}

/** Nodes of `shown` in the order in which they are drawn, so that their numbers compare them; shares are of `sum`. */
export function chronology(profile: Profile, shown: Tree, map: Int32Array | null, wanted: Wanted, sum: number) {
  const frame: number[] = [];
  const parent: number[] = [];
  const self: number[] = [];
  const from: number[] = [];
  const to: number[] = [];
  const of: number[] = [];
  // Per sample in the order in which they are drawn: its time, the weight of those before it, and whether its thread begins.
  const drawn: { time: number; before: number; first: boolean }[] = [];
  let drawnWeight = 0;
  for (const [thread, samples] of byThread(profile, wanted)) {
    // The stack before: its nodes of the shown tree, and those that were made of them.
    let before: number[] = [];
    let made: number[] = [];
    for (const [at, i] of samples.entries()) {
      drawn.push({ time: profile.time[i]!, before: drawnWeight, first: at === 0 });
      drawnWeight += profile.weight[i]!;
      const stack: number[] = [];
      const leaf = profile.leaf[i]!;
      for (let up = map ? map[leaf]! : leaf; up >= 0; up = shown.parent[up]!) stack.push(up);
      stack.reverse();
      let same = 0;
      while (same < stack.length && before[same] === stack[same]) same++;
      made = made.slice(0, same);
      for (let depth = same; depth < stack.length; depth++) {
        made.push(frame.length);
        parent.push(depth === 0 ? -1 : made[depth - 1]!);
        frame.push(shown.frame[stack[depth]!]!);
        self.push(0);
        from.push(profile.time[i]!);
        to.push(profile.time[i]!);
        of.push(thread);
      }
      for (const node of made) to[node] = profile.time[i]!;
      self[made.at(-1)!]! += profile.weight[i]!;
      before = stack;
    }
  }
  const above = Int32Array.from(parent);
  const own = Float64Array.from(self);
  return {
    tree: link(Uint32Array.from(frame), above),
    weights: { self: own, total: totals(own, above), sum },
    // Per node: the times of its first and its last sample, and its thread.
    from: Float64Array.from(from),
    to: Float64Array.from(to),
    thread: Uint32Array.from(of),
    samples: drawn,
  };
}

/** Pixels from a tick of a flame chart to the next at least. */
const LEAST_PX = 64;

/** The axis of a flame chart, 0 to 1: where each thread begins, and then round times as far as they have room. */
export function ticksOf({ samples, weights }: Chronology, width: number) {
  const all = weights.self.reduce((sum, it) => sum + it, 0);
  const ticks: { x: number; t: number }[] = [];
  let [last, step, next] = [Number.NEGATIVE_INFINITY, 1, 0];
  samples.forEach(({ time, before, first }, i) => {
    const x = all > 0 ? before / all : 0;
    if (first) {
      const following = samples.findIndex((it, at) => at > i && it.first);
      const end = samples.at(following < 0 ? -1 : following - 1)!;
      const share = all > 0 ? (end.before - before) / all : 0;
      step = timeStep(((end.time - time) * LEAST_PX) / Math.max(1, share * width));
    }
    if (!first && time < next) return;
    next = (Math.floor(time / step + 1e-9) + 1) * step;
    if ((x - last) * width < LEAST_PX) return;
    last = x;
    ticks.push({ x, t: first ? time : next - step });
  });
  return ticks;
}
