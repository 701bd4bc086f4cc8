// Where each frame is drawn: rectangles in units of the whole width.

import { children, path, type Tree, type Weights } from './tree';

export interface Box {
  node: number;
  /** Left edge and width, 0 to 1. */
  x: number;
  width: number;
  /** Rows from the root. */
  depth: number;
  /** Above the node that was zoomed into: drawn faint, over the whole width. */
  context: boolean;
}

export interface Layout {
  boxes: Box[];
  rows: number;
}

/** Compares siblings. */
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

/**
 * Lays out what is at least `least` wide (a share of the whole width). Anything narrower is left
 * out together with all that it called: the cost is that of what can be seen.
 */
export function layout(
  tree: Tree,
  weights: Weights,
  zoom: number | null,
  compare: Compare,
  least: number,
): Layout {
  const boxes: Box[] = [];
  let rows = 0;
  const visit = (list: number[], x: number, scale: number, depth: number): void => {
    const seen = list.filter((node) => weights.total[node]! * scale >= least).sort(compare);
    let left = x;
    for (const node of seen) {
      const width = weights.total[node]! * scale;
      boxes.push({ node, x: left, width, depth, context: false });
      rows = Math.max(rows, depth + 1);
      visit(children(tree, node), left, scale, depth + 1);
      left += width;
    }
  };
  if (zoom !== null && weights.total[zoom]! > 0) {
    const above = path(tree, zoom).slice(0, -1);
    above.forEach((node, depth) => {
      boxes.push({ node, x: 0, width: 1, depth, context: true });
    });
    visit([zoom], 0, 1 / weights.total[zoom]!, above.length);
  } else if (weights.sum > 0) {
    visit(children(tree, -1), 0, 1 / weights.sum, 0);
  }
  return { boxes, rows };
}

/** The box at a place, boxes being sorted in no particular way. */
export function boxAt(found: Layout, x: number, depth: number): Box | null {
  for (const box of found.boxes) {
    if (box.depth === depth && x >= box.x && x < box.x + box.width) return box;
  }
  return null;
}

/** The neighbour that an arrow key leads to. */
export function neighbour(
  found: Layout,
  tree: Tree,
  from: Box,
  move: 'up' | 'down' | 'left' | 'right',
): Box | null {
  if (move === 'up') {
    const parent = tree.parent[from.node]!;
    return found.boxes.find((b) => b.node === parent) ?? null;
  }
  if (move === 'down') {
    return widest(found.boxes.filter((b) => tree.parent[b.node] === from.node));
  }
  const row = found.boxes.filter((b) => b.depth === from.depth).sort((a, b) => a.x - b.x);
  const at = row.findIndex((b) => b.node === from.node);
  return row[at + (move === 'left' ? -1 : 1)] ?? null;
}

function widest(boxes: Box[]): Box | null {
  return boxes.reduce<Box | null>((best, b) => (best && best.width >= b.width ? best : b), null);
}
