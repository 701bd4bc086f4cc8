// Trees of weighted stacks. All is computed per node, not per sample, so that a million samples
// cost no more than one pass over them and one over the distinct stacks.

import type { Profile } from '../core/data';

/** A tree whose nodes come after their parents. Node lists are chains: `first`, then `next`. */
export interface Tree {
  frame: Uint32Array;
  parent: Int32Array;
  /** First child per node; the last entry is the first root. -1 ends a chain. */
  first: Int32Array;
  next: Int32Array;
}

export interface Weights {
  self: Float64Array;
  total: Float64Array;
  sum: number;
}

/** Sums by frame. */
export type Sums = Pick<Weights, 'self' | 'total'>;

export type WeighedTree = { tree: Tree; weights: Weights };

export function link(frame: Uint32Array, parent: Int32Array): Tree {
  const n = frame.length;
  const first = new Int32Array(n + 1).fill(-1);
  const next = new Int32Array(n).fill(-1);
  for (let i = n - 1; i >= 0; i--) {
    const p = parent[i]!;
    const at = p < 0 ? n : p;
    next[i] = first[at]!;
    first[at] = i;
  }
  return { frame, parent, first, next };
}

/** The children of a node, or the roots for -1. */
export function children(tree: Tree, node: number): number[] {
  const out: number[] = [];
  for (let c = tree.first[node < 0 ? tree.frame.length : node]!; c >= 0; c = tree.next[c]!) {
    out.push(c);
  }
  return out;
}

/** The first of growing numbers that is not below `time`: the first sample at or after it. */
export function sampleAt(times: ArrayLike<number>, time: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle]! < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The weight of each stack in `from <= t < to`, of the marked processes alone where some are, and the sum of all. */
export function leaves(
  profile: Profile,
  from: number,
  to: number,
  marked: Uint8Array | null = null,
  weight: Float64Array = profile.weight,
): { self: Float64Array; sum: number } {
  const self = new Float64Array(profile.nodes);
  const { leaf, time, process } = profile;
  const start = sampleAt(time, from);
  const end = sampleAt(time, to);
  let sum = 0;
  if (marked && process) {
    for (let i = start; i < end; i++) {
      sum += weight[i]!;
      if (marked[process[i]!]) self[leaf[i]!]! += weight[i]!;
    }
  } else {
    for (let i = start; i < end; i++) {
      self[leaf[i]!]! += weight[i]!;
      sum += weight[i]!;
    }
  }
  return { self, sum };
}

/** Adds every node's weight to its ancestors', in a column that is there already where it has the length. */
export function totals(self: Float64Array, parent: Int32Array, known?: Float64Array): Float64Array {
  const total = known?.length === self.length ? known : new Float64Array(self.length);
  total.set(self);
  for (let i = total.length - 1; i >= 0; i--) {
    const p = parent[i]!;
    if (p >= 0) total[p]! += total[i]!;
  }
  return total;
}

/** Per node, of a root's or of all: 1 where no ancestor has the same frame, so that recursion counts once. */
export function outermost(tree: Tree, frames: number, root = -1): Uint8Array {
  const n = tree.frame.length;
  const flags = new Uint8Array(n);
  const onPath = new Uint32Array(frames);
  const leave = (node: number): void => {
    onPath[tree.frame[node]!]!--;
  };
  let node = root < 0 ? tree.first[n]! : root;
  while (node >= 0) {
    const frame = tree.frame[node]!;
    flags[node] = onPath[frame]! === 0 ? 1 : 0;
    onPath[frame]!++;
    const child = tree.first[node]!;
    if (child >= 0) {
      node = child;
      continue;
    }
    leave(node);
    while (node !== root && tree.next[node]! < 0 && tree.parent[node]! >= 0) {
      node = tree.parent[node]!;
      leave(node);
    }
    node = node === root ? -1 : tree.next[node]!;
  }
  return flags;
}

/** Per node: 1 at and below a root. Nodes come after their parents: none before the root is below it. */
export function insideOf(tree: Tree, root: number): Uint8Array {
  const inside = new Uint8Array(tree.frame.length);
  for (let i = root; i < inside.length; i++) {
    const p = tree.parent[i]!;
    inside[i] = i === root || (p >= 0 && inside[p]) ? 1 : 0;
  }
  return inside;
}

/** Self and total weight per frame, of the nodes at and below a root where there is one; recursion counts once. */
export function functions(tree: Tree, weights: Weights, flags: Uint8Array, frames: number, root = -1): Sums {
  const self = new Float64Array(frames);
  const total = new Float64Array(frames);
  const inside = root < 0 ? null : insideOf(tree, root);
  const { frame } = tree;
  for (let i = Math.max(0, root); i < flags.length; i++) {
    const weight = weights.total[i]!;
    if (!(weight > 0) || (inside && !inside[i])) continue;
    const of = frame[i]!;
    self[of]! += weights.self[i]!;
    if (flags[i]) total[of]! += weight;
  }
  return { self, total };
}

/** Per node: 1 where the node or an ancestor is one of the marked frames. */
export function below(tree: Tree, marked: Uint8Array): Uint8Array {
  const out = new Uint8Array(tree.frame.length);
  for (let i = 0; i < out.length; i++) {
    const p = tree.parent[i]!;
    out[i] = marked[tree.frame[i]!]! | (p >= 0 ? out[p]! : 0);
  }
  return out;
}

/** The weight of all samples whose stack contains a marked frame at least once. */
export function markedWeight(tree: Tree, weights: Weights, marked: Uint8Array): number {
  const covered = below(tree, marked);
  let sum = 0;
  for (let i = 0; i < covered.length; i++) {
    const p = tree.parent[i]!;
    if (covered[i] && (p < 0 || !covered[p])) sum += weights.total[i]!;
  }
  return sum;
}

/** Marks the frames whose name a regular expression matches; null where it is not one. */
export function search(names: readonly string[], pattern: string): Uint8Array | null {
  let expression: RegExp;
  try {
    // Without capitals in the pattern, case does not matter.
    expression = new RegExp(pattern, /[A-Z]/.test(pattern.replace(/\\./g, '')) ? '' : 'i');
  } catch {
    return null;
  }
  return Uint8Array.from(names, (name) => (expression.test(name) ? 1 : 0));
}

/** Samples of stacks that contain a frame, of the marked processes and of one class, where these are given. */
export interface Chosen {
  frame: number | null;
  flags: Uint8Array | null;
  index: number | null;
}

/** Whether a sample is chosen. */
export function chosenOf(profile: Profile, tree: Tree, { frame, flags, index }: Chosen): (sample: number) => boolean {
  const { names, leaf, process, class: classOf } = profile;
  const marked = new Uint8Array(names.length);
  if (frame !== null) marked[frame] = 1;
  const covered = frame === null ? null : below(tree, marked);
  return (i) =>
    (!flags || flags[process?.[i] ?? 0] === 1) &&
    (index === null || classOf[leaf[i]!] === index) &&
    (!covered || covered[leaf[i]!] === 1);
}

/** Samples per bin of time: of all stacks, and of those that are chosen. */
export function overTime(profile: Profile, tree: Tree, of: Chosen, from: number, width: number, bins: number) {
  const all = new Float64Array(bins);
  const part = new Float64Array(bins);
  const { time, weight } = profile;
  const inside = chosenOf(profile, tree, of);
  const whole = !of.flags && of.index === null && of.frame === null;
  // Samples stand in the order of their time: those of a bin lie side by side.
  let i = sampleAt(time, from);
  for (let bin = 0; bin < bins; bin++) {
    const end = sampleAt(time, from + (bin + 1) * width);
    let [sum, own] = [0, 0];
    for (; i < end; i++) {
      sum += weight[i]!;
      if (!whole && inside(i)) own += weight[i]!;
    }
    all[bin] = sum;
    part[bin] = whole ? sum : own;
  }
  return { all, part };
}

/** A tree under construction: children are found by their frame. */
export class Builder {
  readonly frame: number[] = [];
  readonly parent: number[] = [];
  readonly self: number[] = [];
  private readonly known = new Map<number, number>();

  constructor(private readonly frames: number) {}

  child(parent: number, frame: number): number {
    const key = (parent + 1) * this.frames + frame;
    const found = this.known.get(key);
    if (found !== undefined) return found;
    const id = this.frame.length;
    this.frame.push(frame);
    this.parent.push(parent);
    this.self.push(0);
    this.known.set(key, id);
    return id;
  }

  finish(): WeighedTree {
    const parent = Int32Array.from(this.parent);
    const self = Float64Array.from(this.self);
    const total = totals(self, parent);
    let sum = 0;
    for (let i = 0; i < total.length; i++) if (parent[i]! < 0) sum += total[i]!;
    return { tree: link(Uint32Array.from(this.frame), parent), weights: { self, total, sum } };
  }
}

/** All that is called below a function, wherever it is called: subtrees laid on each other. */
export function callees(tree: Tree, weights: Weights, flags: Uint8Array, frames: number, wanted: number): WeighedTree {
  const builder = new Builder(frames);
  const merged = new Int32Array(tree.frame.length).fill(-1);
  for (let i = 0; i < merged.length; i++) {
    if (weights.total[i] === 0) continue;
    const p = tree.parent[i]!;
    const above = p >= 0 ? merged[p]! : -1;
    if (above >= 0) merged[i] = builder.child(above, tree.frame[i]!);
    else if (tree.frame[i] === wanted && flags[i]) merged[i] = builder.child(-1, wanted);
    else continue;
    builder.self[merged[i]!]! += weights.self[i]!;
  }
  return builder.finish();
}

/** All paths that lead to a function: the function is the root, its callers come below it. */
export function callers(tree: Tree, weights: Weights, flags: Uint8Array, frames: number, wanted: number): WeighedTree {
  const builder = new Builder(frames);
  for (let i = 0; i < tree.frame.length; i++) {
    if (tree.frame[i] !== wanted || !flags[i] || weights.total[i] === 0) continue;
    let at = -1;
    for (let node = i; node >= 0; node = tree.parent[node]!) {
      at = builder.child(at, tree.frame[node]!);
    }
    builder.self[at]! += weights.total[i]!;
  }
  return builder.finish();
}

export function path(tree: Tree, node: number): number[] {
  const out: number[] = [];
  for (let i = node; i >= 0; i = tree.parent[i]!) out.push(i);
  return out.reverse();
}

/** A name as the `folded` files of a run have it: `;` parts fields, `#` begins a comment, a last number is a count. */
export function foldedName(name: string, empty: string): string {
  const plain = name
    .replaceAll(';', ':')
    .replace(/[\u0000-\u001f\u007f-\u009f]/g, '?')
    .trim();
  if (plain === '') return empty;
  const last = plain.search(/\s\S*$/);
  const count = last >= 0 && Number.isFinite(Number(plain.slice(last + 1)));
  const safe = count ? `${plain.slice(0, last)}_${plain.slice(last + 1)}` : plain;
  return safe.startsWith('#') ? `_${safe}` : safe;
}

/** Folded stacks, as `flamegraph.pl` reads them: `a;b;c 12`. */
export function folded(profile: Profile, tree: Tree, weights: Weights): string {
  const prefix: string[] = [];
  const lines: string[] = [];
  for (let i = 0; i < tree.frame.length; i++) {
    const p = tree.parent[i]!;
    const name = foldedName(profile.names[tree.frame[i]!]!, '[unknown]');
    prefix[i] = weights.total[i] === 0 ? '' : p < 0 ? name : `${prefix[p]};${name}`;
    if (weights.self[i]! > 0) lines.push(`${prefix[i]} ${weights.self[i]}`);
  }
  return lines.sort().join('\n') + '\n';
}

// Where each frame is drawn: rectangles in units of the whole width.

export interface Box {
  node: number;
  /** Left edge and width, 0 to 1. */
  x: number;
  width: number;
  depth: number;
  /** Above the node that was zoomed into: drawn faint, over the whole width. */
  context: boolean;
  /** What stands here in place of the frame's name, because frames beside it are not drawn. */
  label: string | null;
}

/** Rows that are drawn: no browser draws an element of tens of thousands of them. */
export const MOST_ROWS = 1000;
/** Rows that are drawn of what called the node that was zoomed into. */
const MOST_ABOVE = 100;
/** Stands for a frame in the last row and all that it called. A zoom into it shows them. */
export const DEEPER = '[deeper frames]';
/** Stands for a frame in the first row and all that called it. */
export const OUTER = '[outer frames]';

export interface Layout {
  boxes: Box[];
  rows: number;
}

export type Compare = (a: number, b: number) => number;

/** Heaviest first; equal ones by name, so that the order never depends on chance. */
export function byWeight(tree: Tree, weights: Weights, names: readonly string[]): Compare {
  const name = byName(tree, names);
  return (a, b) => weights.total[b]! - weights.total[a]! || name(a, b);
}

/** By name, as the classic tools do. */
export function byName(tree: Tree, names: readonly string[]): Compare {
  return (a, b) => {
    const x = names[tree.frame[a]!]!;
    const y = names[tree.frame[b]!]!;
    return x < y ? -1 : x > y ? 1 : a - b;
  };
}

/** Lays out what is at least `least` wide (a share of the whole), without recursion: stacks can be deeper than ours. */
export function layout(
  tree: Tree,
  weights: Weights,
  zoom: number | null,
  compare: Compare,
  least: number,
  /** Whether what is left out leaves a gap, so that all else stands where it belongs. */
  gaps = false,
): Layout {
  const boxes: Box[] = [];
  const open: Box[] = [];
  let rows = 0;
  const { total } = weights;
  /** The children of a node, or the roots for -1: those that are drawn, or that leave a gap. */
  const drawnBelow = (node: number, scale: number): number[] => {
    const list: number[] = [];
    let child = tree.first[node < 0 ? tree.frame.length : node]!;
    for (; child >= 0; child = tree.next[child]!) {
      if (gaps || total[child]! * scale >= least) list.push(child);
    }
    return list;
  };
  const place = (list: number[], x: number, scale: number, depth: number): boolean => {
    const isSeen = (node: number): boolean => total[node]! * scale >= least;
    const placed: Box[] = [];
    let left = x;
    for (const node of list.length > 1 ? list.sort(compare) : list) {
      const width = weights.total[node]! * scale;
      if (isSeen(node)) placed.push({ node, x: left, width, depth, context: false, label: null });
      left += width;
    }
    if (depth >= MOST_ROWS) return placed.length === 0;
    // What goes in last is visited first.
    for (const box of placed.reverse()) open.push(box);
    return true;
  };
  // What was filtered fills the width, too.
  const all = children(tree, -1).reduce((sum, root) => sum + weights.total[root]!, 0);
  let scale = all > 0 ? 1 / all : 0;
  if (zoom !== null && weights.total[zoom]! > 0) {
    const above = path(tree, zoom).slice(0, -1);
    const cut = above.length > MOST_ABOVE;
    const shown = cut ? above.slice(-MOST_ABOVE) : above;
    shown.forEach((node, depth) => {
      const label = cut && depth === 0 ? OUTER : null;
      boxes.push({ node, x: 0, width: 1, depth, context: true, label });
    });
    scale = 1 / weights.total[zoom]!;
    place([zoom], 0, scale, shown.length);
  } else if (scale > 0) {
    place(drawnBelow(-1, scale), 0, scale, 0);
  }
  for (let box = open.pop(); box !== undefined; box = open.pop()) {
    boxes.push(box);
    rows = Math.max(rows, box.depth + 1);
    if (!place(drawnBelow(box.node, scale), box.x, scale, box.depth + 1)) box.label = DEEPER;
  }
  return { boxes, rows };
}

/** Rows of boxes that are at least `least` wide: a stack of narrower ones gives the graph no height. */
export function rowsOf({ boxes }: Layout, least: number): number {
  return boxes.reduce((most, { depth, width }) => (width < least ? most : Math.max(most, depth + 1)), 0);
}

/** The box at a place, boxes being sorted in no particular way. */
export function boxAt(found: Layout, x: number, depth: number): Box | null {
  for (const box of found.boxes) {
    if (box.depth === depth && x >= box.x && x < box.x + box.width) return box;
  }
  return null;
}

export function neighbour(found: Layout, tree: Tree, from: Box, move: 'up' | 'down' | 'left' | 'right'): Box | null {
  if (move === 'up') {
    const parent = tree.parent[from.node]!;
    return found.boxes.find((b) => b.node === parent) ?? null;
  }
  if (move === 'down') {
    const below = found.boxes.filter((b) => tree.parent[b.node] === from.node);
    return below.reduce<Box | null>((best, b) => (best && best.width >= b.width ? best : b), null);
  }
  const row = found.boxes.filter((b) => b.depth === from.depth).sort((a, b) => a.x - b.x);
  const at = row.findIndex((b) => b.node === from.node);
  return row[at + (move === 'left' ? -1 : 1)] ?? null;
}
