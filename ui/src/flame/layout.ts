// Where each frame is drawn: rectangles in units of the whole width.

import { children, path, type Tree, type Weights } from './tree';

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
  const below = (node: number, scale: number): number[] => {
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
    place(below(-1, scale), 0, scale, 0);
  }
  for (let box = open.pop(); box !== undefined; box = open.pop()) {
    boxes.push(box);
    rows = Math.max(rows, box.depth + 1);
    if (!place(below(box.node, scale), box.x, scale, box.depth + 1)) box.label = DEEPER;
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
