// Each second as a column, the offsets within it as rows, as FlameScope shows them: what happens every so often, and
// for how long, is a pattern here. Two cells choose a window.

import type { Profile } from '../core/data';
import { h } from '../core/dom';
import { seconds } from '../core/format';
import type { Store, Stretch } from '../core/state';
import { heatColor, type Palette } from '../core/theme';
import { tip } from '../core/tip';
import { amount } from '../core/units';
import type { RunView } from '../core/view';
import { type Chosen, chosenOf, type Tree } from '../flame/tree';
import { clampWindow } from './timeline';

/** Rows of a second, as in FlameScope: 20 ms each. */
const ROWS = 50;
const ROW_PX = 3;
const GUTTER_PX = 50;
/** Columns are no narrower; where there are too many for the width, they scroll. */
const LEAST_PX = 2;
/** How strong the weakest cell looks, 0 to 1: it can be told from an empty one. */
const LEAST_LEVEL = 0.08;
/** Seconds that are drawn: an hour; no browser draws a picture of a day. */
const MOST_COLUMNS = 3_600;

/** Weights of a profile by second and offset: per cell, column by column from the second `first` on. */
type Offsets = ReturnType<typeof offsetsOf>;

export interface Cell {
  column: number;
  row: number;
}

/** How many rows a second has: none is shorter than what the times of samples tell apart. */
export function rowsOf({ tick_ns }: Pick<Profile, 'tick_ns'>): number {
  return Math.max(1, Math.min(ROWS, Math.floor(1e9 / tick_ns)));
}

/** Adds up the samples of each cell: of one class, of marked processes, of stacks with a frame where these are given. */
export function offsetsOf(profile: Profile, tree: Tree, of: Chosen, first: number, columns: number) {
  const rows = rowsOf(profile);
  const weight = new Float64Array(columns * rows);
  const { time } = profile;
  const isChosen = chosenOf(profile, tree, of);
  for (let i = 0; i < time.length; i++) {
    const second = Math.floor(time[i]!);
    const column = second - first;
    if (column < 0 || column >= columns || !isChosen(i)) continue;
    const row = Math.min(rows - 1, Math.floor((time[i]! - second) * rows + 1e-9));
    weight[column * rows + row]! += profile.weight[i]!;
  }
  return { first, columns, rows, weight };
}

/** The time from the beginning of the earlier cell to the end of the later one. */
export function windowOf({ first, rows }: Offsets, a: Cell, b: Cell): readonly [number, number] {
  const start = (cell: Cell): number => first + cell.column + cell.row / rows;
  return [Math.min(start(a), start(b)), Math.max(start(a), start(b)) + 1 / rows];
}

/** The cells of a window: per column, its first row and the one behind its last. */
export function cellsOf({ first, columns, rows }: Offsets, [from, to]: Stretch) {
  const out: { column: number; low: number; high: number }[] = [];
  const last = Math.min(columns - 1, Math.ceil(to - 1e-9) - 1 - first);
  for (let column = Math.max(0, Math.floor(from) - first); column <= last; column++) {
    const start = first + column;
    const low = Math.max(0, (from - start) * rows);
    const high = Math.min(rows, (to - start) * rows);
    if (high > low) out.push({ column, low, high });
  }
  return out;
}

const MOVES: Record<string, readonly [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, 1],
  ArrowDown: [0, -1],
};

export function offsetMap(run: RunView, profile: Profile, store: Store) {
  const canvas = h('canvas', { 'aria-hidden': 'true' });
  const chosen = h('canvas', { class: 'chosen', 'aria-hidden': 'true' });
  const status = h('p', { class: 'hidden', 'aria-live': 'polite' });
  let offsets: Offsets | null = null;
  let palette: Palette | null = null;
  let cellWidth = LEAST_PX;
  let key = '';
  /** The cell at which the window begins, once it is chosen; that under the pointer or the keys. */
  let anchor: Cell | null = null;
  let cursor: Cell | null = null;

  const rows = rowsOf(profile);
  const rowHeight = (ROWS * ROW_PX) / rows;
  const leftOf = (column: number): number => GUTTER_PX + column * cellWidth;
  const topOf = (row: number): number => (rows - 1 - row) * rowHeight;

  const paint = ({ columns, weight, first }: Offsets, p: Palette): void => {
    const height = rows * rowHeight;
    const ctx = sized(canvas, GUTTER_PX + columns * cellWidth, height + 16);
    ctx.fillStyle = p.soft;
    ctx.font = `11px ${p.font}`;
    ctx.textAlign = 'right';
    ctx.textBaseline = 'middle';
    for (const share of [0, 0.5, 1]) {
      const y = Math.min(height - 6, Math.max(6, height * (1 - share)));
      ctx.fillText(share === 0 ? '0 ms' : share === 1 ? '1 s' : '500 ms', GUTTER_PX - 5, y);
    }
    ctx.textAlign = 'center';
    const step = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600].find((s) => s * cellWidth >= 48) ?? 900;
    for (let column = (step - (first % step)) % step; column < columns; column += step) {
      ctx.fillText(String(first + column), leftOf(column) + 1, height + 9);
    }
    const most = weight.reduce((a, b) => Math.max(a, b), 0);
    ctx.fillStyle = p.shade;
    ctx.fillRect(GUTTER_PX, 0, columns * cellWidth, height);
    const gap = cellWidth > 5 ? 1 : 0;
    weight.forEach((value, at) => {
      if (value === 0) return;
      ctx.fillStyle = heatColor(LEAST_LEVEL + (1 - LEAST_LEVEL) * (value / most), p.dark);
      ctx.fillRect(leftOf(Math.floor(at / rows)), topOf(at % rows), cellWidth - gap, rowHeight);
    });
  };

  /** Frames the window that holds, or the one that is being chosen, and the cell of the keys. */
  const mark = (): void => {
    if (!offsets || !palette) return;
    const ctx = sized(chosen, GUTTER_PX + offsets.columns * cellWidth, rows * rowHeight);
    const window = anchor ? windowOf(offsets, anchor, cursor ?? anchor) : store.state.window;
    ctx.strokeStyle = palette.accent;
    ctx.fillStyle = palette.accent;
    for (const { column, low, high } of window ? cellsOf(offsets, window) : []) {
      const y = (rows - high) * rowHeight;
      const height = Math.max(2, (high - low) * rowHeight);
      ctx.globalAlpha = 0.25;
      ctx.fillRect(leftOf(column), y, cellWidth, height);
      ctx.globalAlpha = 1;
      ctx.strokeRect(leftOf(column) + 0.5, y + 0.5, Math.max(1, cellWidth - 1), height - 1);
    }
    if (!cursor) return;
    ctx.strokeStyle = palette.ink;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(leftOf(cursor.column), topOf(cursor.row), cellWidth, rowHeight);
  };

  const under = (e: MouseEvent): Cell | null => {
    const rect = canvas.getBoundingClientRect();
    const column = Math.floor((e.clientX - rect.left - GUTTER_PX) / cellWidth);
    const row = rows - 1 - Math.floor((e.clientY - rect.top) / rowHeight);
    const isInside = offsets && column >= 0 && column < offsets.columns && row >= 0 && row < rows;
    return isInside ? { column, row } : null;
  };

  /** Begins a window at a cell, or ends it there. */
  const choose = (cell: Cell): void => {
    const begin = anchor;
    anchor = begin ? null : cell;
    if (begin) store.set({ window: clampWindow(run.span, ...windowOf(offsets!, begin, cell)) }, true);
  };

  const told = (cell: Cell): string => {
    const [from, to] = windowOf(offsets!, cell, cell);
    const weight = offsets!.weight[cell.column * rows + cell.row]!;
    return `${seconds(from)} to ${seconds(to)}: ${amount(profile, weight)}`;
  };

  const onpointerdown = (e: PointerEvent): void => {
    const cell = e.button === 0 ? under(e) : null;
    if (!cell) return;
    cursor = cell;
    choose(cell);
    mark();
  };
  const onpointermove = (e: PointerEvent): void => {
    const cell = under(e);
    if (cell) {
      cursor = cell;
      tip.show(e.clientX, e.clientY, told(cell));
    } else tip.hide();
    mark();
  };
  const onpointerup = (e: PointerEvent): void => {
    const cell = under(e);
    if (cell && anchor && !same(cell, anchor)) choose(cell);
  };
  const onkeydown = (e: KeyboardEvent): void => {
    if (!offsets || e.ctrlKey || e.metaKey || e.altKey) return;
    const move = MOVES[e.key];
    let text = '';
    if (move) {
      const { column, row } = cursor ?? { column: -1, row: 0 };
      cursor = { column: bounded(column + move[0], offsets.columns), row: bounded(row + move[1], rows) };
    } else if ((e.key === 'Enter' || e.key === ' ') && cursor) {
      text = anchor ? 'window chosen, ' : 'the window begins here, ';
      choose(cursor);
    } else if (e.key === 'Escape' && anchor) {
      anchor = null;
      text = 'no window begins here, ';
      e.stopPropagation();
    } else return;
    e.preventDefault();
    mark();
    if (!cursor) return;
    status.textContent = text + told(cursor);
    const box = canvas.getBoundingClientRect();
    tip.show(box.left + leftOf(cursor.column) + cellWidth, box.top + topOf(cursor.row), told(cursor));
  };

  const draw = (tree: Tree, of: Chosen, width: number, p: Palette): void => {
    const [from, to] = run.span;
    const start = store.state.window?.[0] ?? from;
    const all = Math.max(1, Math.ceil(to - 1e-9) - Math.floor(from));
    const columns = Math.min(all, MOST_COLUMNS);
    const latest = Math.floor(from) + all - columns;
    const first = columns < all ? Math.min(latest, Math.floor(start)) : Math.floor(from);
    const next = [of.frame, of.index, of.flags, first, columns, width, p.dark].join();
    if (next !== key) {
      key = next;
      palette = p;
      offsets = offsetsOf(profile, tree, of, first, columns);
      cellWidth = Math.max(LEAST_PX, (width - GUTTER_PX) / columns);
      paint(offsets, p);
    }
    mark();
  };

  const view = h(
    'div',
    {
      class: 'offsets-view',
      tabindex: 0,
      role: 'application',
      'aria-label':
        'Heat map: seconds from left to right, the offset within each second upward, the colour is the number of ' +
        'samples. Arrow keys move, Enter chooses the beginning and then the end of the window, Escape goes back.',
      onpointerdown,
      onpointermove,
      onpointerup,
      onpointerleave: tip.hide,
      onkeydown,
      onblur: tip.hide,
    },
    h('div', { class: 'offsets-field' }, canvas, chosen),
  );
  const hint = h('span', { class: 'soft' }, ' seconds →, offset ↑; click two cells or drag for a window');
  const caption = h('figcaption', {}, h('b', {}, 'within each second'), hint);
  return { element: h('figure', { class: 'offsets' }, caption, view, status), draw };
}

const same = (a: Cell, b: Cell): boolean => a.column === b.column && a.row === b.row;

const bounded = (value: number, count: number): number => Math.max(0, Math.min(count - 1, value));

/** A canvas of this size, empty, in units of the page's pixels. */
function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext('2d')!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}
