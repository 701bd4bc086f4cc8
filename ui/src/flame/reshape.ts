// Stacks without what the reader hid, and with a function that calls itself as one frame.

import { Builder, type Tree } from './tree';

/** A tree as it is shown: `map` has the node here for each of the whole tree, `first` the first of those for each here. */
export type Shown = ReturnType<typeof reshape>;

/** Whoever called a hidden frame takes its place; the first row, that of the threads, always stays. */
export function reshape(whole: Tree, hidden: Uint8Array, collapse: boolean) {
  const builder = new Builder(hidden.length);
  const map = new Int32Array(whole.frame.length);
  const first: number[] = [];
  for (let i = 0; i < map.length; i++) {
    const parent = whole.parent[i]!;
    const frame = whole.frame[i]!;
    const above = parent < 0 ? -1 : map[parent]!;
    const joins = above >= 0 && (hidden[frame] || (collapse && builder.frame[above] === frame));
    const node = joins ? above : builder.child(above, frame);
    map[i] = node;
    first[node] ??= i;
  }
  return { tree: builder.finish().tree, map, first };
}

/** The weight of each node here, from that of each stack of the whole tree. */
export function reshapedWeights({ map, first }: Shown, self: Float64Array): Float64Array {
  const out = new Float64Array(first.length);
  for (let i = 0; i < self.length; i++) out[map[i]!]! += self[i]!;
  return out;
}
