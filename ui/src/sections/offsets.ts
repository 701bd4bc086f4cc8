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
import { chosenOf, type Tree } from '../flame/tree';
import type { Only } from './strip';
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

type Counted = Pick<Only, 'flags' | 'index'>;

/** How many rows a second has: none is shorter than what the times of samples tell apart. */
export function rowsOf({ tick_ns }: Pick<Profile, 'tick_ns'>): number {
  return Math.max(1, Math.min(ROWS, Math.floor(1e9 / tick_ns)));
}

/** Adds up the samples of each cell: of one class, of marked processes, of stacks with a frame where these are given. */
export function offsetsOf(
  profile: Profile,
  tree: Tree,
  frame: number | null,
  { flags, index }: Counted,
  first: number,
  columns: number,
) {
  const rows = rowsOf(profile);
  const weight = new Float64Array(columns * rows);
  const { time, weight: of } = profile;
  const isChosen = chosenOf(profile, tree, frame, flags, index);
  for (let i = 0; i < time.length; i++) {
    const second = Math.floor(time[i]!);
    const column = second - first;
    if (column < 0 || column >= columns || !isChosen(i)) continue;
    const row = Math.min(rows - 1, Math.floor((time[i]! - second) * rows + 1e-9));
    weight[column * rows + row]! += of[i]!;
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

export class OffsetMap {
  readonly element: HTMLElement;
  private readonly canvas = h('canvas', { 'aria-hidden': 'true' });
  private readonly chosen = h('canvas', { class: 'chosen', 'aria-hidden': 'true' });
  private readonly status = h('p', { class: 'hidden', 'aria-live': 'polite' });
  private readonly view: HTMLElement;
  private offsets: Offsets | null = null;
  private palette: Palette | null = null;
  private cellWidth = LEAST_PX;
  private key = '';
  /** The cell at which the window begins, once it is chosen; that under the pointer or the keys. */
  private anchor: Cell | null = null;
  private cursor: Cell | null = null;

  constructor(
    private readonly run: RunView,
    private readonly profile: Profile,
    private readonly store: Store,
  ) {
    this.view = h(
      'div',
      {
        class: 'offsets-view',
        tabindex: 0,
        role: 'application',
        'aria-label':
          'Heat map: seconds from left to right, the offset within each second upward, the colour is the number of ' +
          'samples. Arrow keys move, Enter chooses the beginning and then the end of the window, Escape goes back.',
        onpointerdown: (e: PointerEvent) => this.press(e),
        onpointermove: (e: PointerEvent) => this.move(e),
        onpointerup: (e: PointerEvent) => this.release(e),
        onpointerleave: () => tip.hide(),
        onkeydown: (e: KeyboardEvent) => this.press_key(e),
        onblur: () => tip.hide(),
      },
      h('div', { class: 'offsets-field' }, this.canvas, this.chosen),
    );
    const hint = h('span', { class: 'soft' }, ' seconds →, offset ↑; click two cells or drag for a window');
    const caption = h('figcaption', {}, h('b', {}, 'within each second'), hint);
    this.element = h('figure', { class: 'offsets' }, caption, this.view, this.status);
  }

  draw(tree: Tree, frame: number | null, counted: Counted, width: number, p: Palette): void {
    const [from, to] = this.run.span;
    const start = this.store.state.window?.[0] ?? from;
    const all = Math.max(1, Math.ceil(to - 1e-9) - Math.floor(from));
    const columns = Math.min(all, MOST_COLUMNS);
    const latest = Math.floor(from) + all - columns;
    const first = columns < all ? Math.min(latest, Math.floor(start)) : Math.floor(from);
    const key = [frame, counted.index, counted.flags, first, columns, width, p.dark].join();
    if (key !== this.key) {
      this.key = key;
      this.palette = p;
      this.offsets = offsetsOf(this.profile, tree, frame, counted, first, columns);
      this.cellWidth = Math.max(LEAST_PX, (width - GUTTER_PX) / columns);
      this.paint(p);
    }
    this.mark();
  }

  private paint(p: Palette): void {
    const { columns, rows, weight, first } = this.offsets!;
    const height = rows * this.rowHeight();
    const ctx = sized(this.canvas, GUTTER_PX + columns * this.cellWidth, height + 16);
    ctx.fillStyle = p.soft;
    ctx.font = `11px ${p.font}`;
    ctx.textAlign = 'right';
    ctx.textBaseline = 'middle';
    for (const share of [0, 0.5, 1]) {
      const y = Math.min(height - 6, Math.max(6, height * (1 - share)));
      ctx.fillText(share === 0 ? '0 ms' : share === 1 ? '1 s' : '500 ms', GUTTER_PX - 5, y);
    }
    ctx.textAlign = 'center';
    const step = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600].find((s) => s * this.cellWidth >= 48) ?? 900;
    for (let column = (step - (first % step)) % step; column < columns; column += step) {
      ctx.fillText(String(first + column), this.left(column) + 1, height + 9);
    }
    const most = weight.reduce((a, b) => Math.max(a, b), 0);
    ctx.fillStyle = p.shade;
    ctx.fillRect(GUTTER_PX, 0, columns * this.cellWidth, height);
    const gap = this.cellWidth > 5 ? 1 : 0;
    for (let column = 0; column < columns; column++) {
      for (let row = 0; row < rows; row++) {
        const value = weight[column * rows + row]!;
        if (value === 0) continue;
        ctx.fillStyle = heatColor(LEAST_LEVEL + (1 - LEAST_LEVEL) * (value / most), p.dark);
        ctx.fillRect(this.left(column), this.top(row), this.cellWidth - gap, this.rowHeight());
      }
    }
  }

  private rowHeight(): number {
    return (ROWS * ROW_PX) / this.offsets!.rows;
  }

  private left(column: number): number {
    return GUTTER_PX + column * this.cellWidth;
  }

  private top(row: number): number {
    return (this.offsets!.rows - 1 - row) * this.rowHeight();
  }

  /** Frames the window that holds, or the one that is being chosen, and the cell of the keys. */
  private mark(): void {
    const { offsets, palette: p } = this;
    if (!offsets || !p) return;
    const width = GUTTER_PX + offsets.columns * this.cellWidth;
    const ctx = sized(this.chosen, width, offsets.rows * this.rowHeight());
    const pending = this.anchor && windowOf(offsets, this.anchor, this.cursor ?? this.anchor);
    const window = pending ?? this.store.state.window;
    ctx.strokeStyle = p.accent;
    ctx.fillStyle = p.accent;
    for (const { column, low, high } of window ? cellsOf(offsets, window) : []) {
      const y = (offsets.rows - high) * this.rowHeight();
      const height = Math.max(2, (high - low) * this.rowHeight());
      ctx.globalAlpha = 0.25;
      ctx.fillRect(this.left(column), y, this.cellWidth, height);
      ctx.globalAlpha = 1;
      ctx.strokeRect(this.left(column) + 0.5, y + 0.5, Math.max(1, this.cellWidth - 1), height - 1);
    }
    if (!this.cursor) return;
    ctx.strokeStyle = p.ink;
    ctx.lineWidth = 1.5;
    const { column, row } = this.cursor;
    ctx.strokeRect(this.left(column), this.top(row), this.cellWidth, this.rowHeight());
  }

  private under(e: MouseEvent): Cell | null {
    const { offsets } = this;
    if (!offsets) return null;
    const rect = this.canvas.getBoundingClientRect();
    const column = Math.floor((e.clientX - rect.left - GUTTER_PX) / this.cellWidth);
    const row = offsets.rows - 1 - Math.floor((e.clientY - rect.top) / this.rowHeight());
    const inside = column >= 0 && column < offsets.columns && row >= 0 && row < offsets.rows;
    return inside ? { column, row } : null;
  }

  private press(e: PointerEvent): void {
    const cell = e.button === 0 ? this.under(e) : null;
    if (!cell) return;
    this.cursor = cell;
    if (this.anchor) this.choose(cell);
    else this.anchor = cell;
    this.mark();
  }

  private release(e: PointerEvent): void {
    const cell = this.under(e);
    const moved = cell && this.anchor && !same(cell, this.anchor);
    if (moved) this.choose(cell);
  }

  private move(e: PointerEvent): void {
    const cell = this.under(e);
    if (cell) {
      this.cursor = cell;
      tip.show(e.clientX, e.clientY, this.told(cell));
    } else tip.hide();
    this.mark();
  }

  private choose(end: Cell): void {
    const window = windowOf(this.offsets!, this.anchor!, end);
    this.anchor = null;
    this.store.set({ window: clampWindow(this.run.span, ...window) }, true);
  }

  private told(cell: Cell): string {
    const [from, to] = windowOf(this.offsets!, cell, cell);
    const weight = this.offsets!.weight[cell.column * this.offsets!.rows + cell.row]!;
    return `${seconds(from)} to ${seconds(to)}: ${amount(this.profile, weight)}`;
  }

  private press_key(e: KeyboardEvent): void {
    const { offsets } = this;
    if (!offsets || e.ctrlKey || e.metaKey || e.altKey) return;
    const moves: Record<string, readonly [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, 1],
      ArrowDown: [0, -1],
    };
    const move = moves[e.key];
    let text = '';
    if (move) {
      const at = this.cursor ?? { column: -1, row: 0 };
      this.cursor = {
        column: bounded(at.column + move[0], offsets.columns),
        row: bounded(at.row + move[1], offsets.rows),
      };
    } else if ((e.key === 'Enter' || e.key === ' ') && this.cursor) {
      if (this.anchor) {
        this.choose(this.cursor);
        text = 'window chosen, ';
      } else {
        this.anchor = this.cursor;
        text = 'the window begins here, ';
      }
    } else if (e.key === 'Escape' && this.anchor) {
      this.anchor = null;
      text = 'no window begins here, ';
      e.stopPropagation();
    } else return;
    e.preventDefault();
    this.mark();
    const cell = this.cursor;
    if (!cell) return;
    this.status.textContent = text + this.told(cell);
    const box = this.canvas.getBoundingClientRect();
    const x = box.left + this.left(cell.column) + this.cellWidth;
    tip.show(x, box.top + this.top(cell.row), this.told(cell));
  }
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
