// The flame chart: each thread's stacks in the order of their time, neighbours with the same frame as one.

import type { Profile } from '../core/data';
import { link, sampleAt, type Tree, totals, type Weights } from './tree';

/** More samples than this have no room beside each other, and a chart of them would be noise. */
export const MOST_IN_ORDER = 10_000;

export interface Chronology {
  tree: Tree;
  weights: Weights;
  /** Per node: the times of its first and its last sample, and its thread. */
  from: Float64Array;
  to: Float64Array;
  thread: Uint32Array;
}

/** Which samples of a window are wanted. */
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

/** How many samples of a window are wanted. */
export function countOf(profile: Profile, wanted: Wanted): number {
  return byThread(profile, wanted).reduce((sum, [, samples]) => sum + samples.length, 0);
}

/**
 * Nodes of `shown` in the order of time. Nodes come in the order in which they are drawn, so that their numbers
 * compare them. `sum` is what shares are of.
 */
export function chronology(
  profile: Profile,
  shown: Tree,
  map: Int32Array | null,
  wanted: Wanted,
  sum: number,
): Chronology {
  const frame: number[] = [];
  const parent: number[] = [];
  const self: number[] = [];
  const from: number[] = [];
  const to: number[] = [];
  const of: number[] = [];
  for (const [thread, samples] of byThread(profile, wanted)) {
    // The stack before: its nodes of the shown tree, and those that were made of them.
    let before: number[] = [];
    let made: number[] = [];
    for (const i of samples) {
      const stack: number[] = [];
      const leaf = profile.leaf[i]!;
      for (let at = map ? map[leaf]! : leaf; at >= 0; at = shown.parent[at]!) stack.push(at);
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
    from: Float64Array.from(from),
    to: Float64Array.from(to),
    thread: Uint32Array.from(of),
  };
}
