// Draws a tree of stacks on a canvas: only the rows in view, only what is wide enough to see.

import { xml } from '../charts/export';
import { KINDS } from '../core/data';
import { h } from '../core/dom';
import { counted, fittedName, percent, points, visible } from '../core/format';
import { differenceColor, frameColor, type Palette, shadeKey } from '../core/theme';
import { tip } from '../core/tip';
import { exactAmount } from '../core/units';
import type { ProfileHead } from '../core/view';
import type { Change, Difference } from './difference';
import { type Box, boxAt, type Compare, type Layout, layout, neighbour, rowsOf } from './layout';
import { remarkOn } from './remarks';
import type { Tree, Weights } from './tree';

export const ROW = 18;
/** Narrower boxes, in pixels, are left out. */
const LEAST = 0.4;
/** Narrower boxes, in pixels, cannot be read: rows that have no others are scrolled to. */
const READABLE = 2;
const LEAST_ROWS = 3;
/** Pixels of a graph at most, sixty rows: what is deeper is scrolled to, and a line says so. */
const TALLEST = 60 * ROW;
/** The same of what is printed, where nobody scrolls. */
const TALLEST_PRINTED = 4000;

export type Named = Pick<
  ProfileHead,
  'names' | 'kind' | 'module' | 'modules' | 'event' | 'event_kind' | 'kernel_event' | 'unit' | 'period_ns'
>;

/** Colours of nodes that are none of their code or of a difference of shares, and what is said of each. */
export interface Colored {
  color(node: number, dark: boolean): string;
  told(node: number): string;
}

export interface Scene {
  tree: Tree;
  weights: Weights;
  compare: Compare;
  upward: boolean;
  zoom: number | null;
  /** Per frame: found by the search; null while nothing is searched. */
  hits: Uint8Array | null;
  frame: number | null;
  /** What shares are of. */
  sum: number;
  /** What the boxes are coloured by in place of the kind of code. */
  difference?: Difference | null;
  colored?: Colored;
  /** Whether nodes stand where the time puts them. */
  timed?: boolean;
  /** What a node is called in place of its frame's name, and what else is to be said of it. */
  label?(node: number): string | null;
  note?(node: number): string;
}

export class FlameCanvas {
  readonly element: HTMLElement;
  private readonly canvas = h('canvas', { 'aria-hidden': 'true' });
  private readonly space = h('div', { class: 'space' });
  private readonly view: HTMLElement;
  private readonly status = h('p', { class: 'hidden', 'aria-live': 'polite' });
  private readonly hiddenRows = h('p', { class: 'hidden-rows' });
  private scene: Scene | null = null;
  private found: Layout = { boxes: [], rows: 0 };
  private palette: Palette | null = null;
  private colors: string[] = [];
  private hovered: number | null = null;
  private focused: Box | null = null;
  private width = 0;
  /** Pixels of the whole graph, and those in view. */
  private height = 0;
  private shown = 0;
  /** How far the view is scrolled: to read it when the page was just changed, the browser lays the page out. */
  private scrolled = 0;

  constructor(
    private readonly profile: Named,
    label: string,
    /** A box was clicked, or Enter was pressed on it. */
    private readonly open: (node: number) => void,
    /** What can be done with a box is asked for, at a place of the window. */
    private readonly menu: ((node: number, x: number, y: number) => void) | null = null,
  ) {
    this.view = h(
      'div',
      {
        class: 'flame-view',
        tabindex: 0,
        role: 'application',
        'aria-label': label,
        onscroll: () => {
          this.scrolled = this.view.scrollTop;
          this.paint();
        },
        onmousemove: (e: MouseEvent) => this.hover(this.under(e), e.clientX, e.clientY),
        onmouseleave: () => this.hover(null),
        onclick: (e: MouseEvent) => {
          const box = this.under(e);
          this.focused = box;
          tip.hide();
          if (box) this.open(box.node);
        },
        oncontextmenu: (e: MouseEvent) => this.ask(e),
        onkeydown: (e: KeyboardEvent) => this.key(e),
        onblur: () => this.hover(null),
      },
      this.canvas,
      this.space,
    );
    this.element = h('div', { class: 'flame' }, this.view, this.hiddenRows, this.status);
  }

  draw(scene: Scene, width: number, palette: Palette, tallest = usualTallest()): void {
    if (this.palette?.dark !== palette.dark || this.colors.length === 0) this.paint_colors(palette);
    this.palette = palette;
    const first = this.scene === null || this.scene.upward !== scene.upward;
    this.scene = scene;
    this.width = width;
    this.found = layout(scene.tree, scene.weights, scene.zoom, scene.compare, LEAST / width, scene.timed);
    const height = Math.max(this.found.rows, LEAST_ROWS) * ROW;
    // In the order of time all stacks are narrow.
    const readable = scene.timed ? height : rowsOf(this.found, READABLE / width) * ROW;
    const shown = Math.min(Math.max(readable, LEAST_ROWS * ROW), tallest);
    // A graph that grows upward keeps what stood at its foot.
    const below = Math.max(0, this.height - this.shown - this.scrolled);
    [this.height, this.shown] = [height, shown];
    this.space.style.height = `${height}px`;
    this.view.style.height = `${shown}px`;
    const deeper = Math.ceil((height - shown) / ROW);
    this.hiddenRows.hidden = deeper === 0;
    this.hiddenRows.textContent = `${counted(deeper, 'more row')}: scroll in the graph`;
    const ratio = window.devicePixelRatio || 1;
    const size = [Math.round(width * ratio), Math.round(shown * ratio)] as const;
    // A canvas that is given its size is made anew, also where it had that size.
    if (this.canvas.width !== size[0]) this.canvas.width = size[0];
    if (this.canvas.height !== size[1]) this.canvas.height = size[1];
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${shown}px`;
    if (scene.upward ? height > shown : first && this.scrolled > 0) {
      this.view.scrollTop = scene.upward ? height - shown - (first ? 0 : below) : 0;
      this.scrolled = this.view.scrollTop;
    } else if (this.scrolled > 0) this.scrolled = this.view.scrollTop;
    this.paint();
  }

  svg(top: number): { body: string[]; height: number } {
    const { scene, palette } = this;
    if (!scene || !palette) return { body: [], height: 0 };
    const body = this.found.boxes.map((box) => {
      const y = top + this.top(box);
      const w = box.width * this.width;
      const name = this.name(box);
      const letters = Math.floor((w - 6) / 6.6);
      const text = fittedName(name, (it) => it.length <= letters);
      const title = `${name} ${this.tooltip(box.node)}`;
      return `<g><title>${xml(title)}</title><rect x="${(box.x * this.width).toFixed(1)}" y="${y}" width="${w.toFixed(1)}" height="${ROW - 1}" fill="${this.fill(box)}"/>${text ? `<text x="${(box.x * this.width + 3).toFixed(1)}" y="${y + 12.5}" fill="#17181c">${xml(text)}</text>` : ''}</g>`;
    });
    return { body, height: this.found.rows * ROW };
  }

  tooltip(node: number): string {
    const s = this.scene!;
    if (s.colored) return s.colored.told(node);
    const total = s.weights.total[node]!;
    const self = s.weights.self[node]!;
    const shares = `${percent(total / s.sum)} total, ${percent(self / s.sum)} self`;
    const notes = [s.note?.(node), s.difference && besideTheRest(s.difference.of(node))];
    return [shares, exactAmount(this.profile, total), ...notes.filter(Boolean)].join(', ');
  }

  private paint_colors(p: Palette): void {
    const { names, kind, module, modules } = this.profile;
    this.colors = names.map((name, i) => {
      const k = KINDS[kind[i]!] ?? 'unknown';
      const key = shadeKey(k, name, modules[module[i]!] ?? '');
      return frameColor(k, key, p.dark, this.profile.event_kind);
    });
  }

  private name(box: Box): string {
    const scene = this.scene!;
    const own = box.label ?? scene.label?.(box.node);
    return own ?? this.profile.names[scene.tree.frame[box.node]!]!;
  }

  private top(box: Box): number {
    return this.scene?.upward ? (this.found.rows - 1 - box.depth) * ROW : box.depth * ROW;
  }

  private fill(box: Box): string {
    const s = this.scene!;
    const p = this.palette!;
    const frame = s.tree.frame[box.node]!;
    const color = this.color(box.node, frame);
    const dim = s.hits ? !s.hits[frame] : s.frame !== null && s.frame !== frame;
    if (dim && !box.context) return `color-mix(in oklab, ${color} 30%, ${p.paper})`;
    return box.context ? `color-mix(in oklab, ${color} 45%, ${p.paper})` : color;
  }

  private color(node: number, frame: number): string {
    const { colored, difference } = this.scene!;
    if (colored) return colored.color(node, this.palette!.dark);
    if (!difference) return this.colors[frame]!;
    const { here, rest, proven } = difference.of(node);
    return differenceColor(here - rest, proven, difference.full, this.palette!.dark);
  }

  private paint(): void {
    const { scene, palette: p } = this;
    if (!scene || !p) return;
    const ctx = this.canvas.getContext('2d')!;
    const ratio = window.devicePixelRatio || 1;
    const height = this.canvas.height / ratio;
    const scroll = this.scrolled;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = p.paper;
    ctx.fillRect(0, 0, this.width, height);
    ctx.font = `11.5px ${p.font}`;
    ctx.textBaseline = 'middle';
    for (const box of this.found.boxes) {
      const y = this.top(box) - scroll;
      if (y + ROW < 0 || y > height) continue;
      this.paint_box(ctx, box, y, p);
    }
  }

  private paint_box(ctx: CanvasRenderingContext2D, box: Box, y: number, p: Palette): void {
    const x = box.x * this.width;
    const w = box.width * this.width;
    const gap = w > 3 ? 1 : w > 1.2 ? 0.4 : 0;
    ctx.fillStyle = this.fill(box);
    ctx.fillRect(x, y, Math.max(0.5, w - gap), ROW - 1);
    const scene = this.scene!;
    if ((scene.difference || scene.colored) && w > 3) {
      // White boxes have no edge on white paper.
      ctx.strokeStyle = p.faint;
      ctx.lineWidth = 0.5;
      ctx.strokeRect(x + 0.25, y + 0.25, w - gap - 0.5, ROW - 1.5);
    }
    const frame = scene.tree.frame[box.node]!;
    const marked = scene.hits?.[frame] || scene.frame === frame;
    const pointed = box.node === this.hovered || box.node === this.focused?.node;
    if ((marked || pointed) && w > 2) {
      ctx.strokeStyle = p.ink;
      ctx.lineWidth = pointed ? 1.5 : 1;
      ctx.strokeRect(x + 0.75, y + 0.75, w - gap - 1.5, ROW - 2.5);
    }
    if (w < 26) return;
    const dim = scene.hits ? !scene.hits[frame] : scene.frame !== null && scene.frame !== frame;
    // Dimmed boxes take on the paper's colour, so their ink is the page's.
    ctx.fillStyle = dim || box.context ? p.ink : '#17181c';
    ctx.globalAlpha = dim ? 0.62 : 1;
    ctx.fillText(fitting(ctx, this.name(box), w - 8), x + 4, y + ROW / 2 - 0.5);
    ctx.globalAlpha = 1;
  }

  private under(e: MouseEvent): Box | null {
    const rect = this.view.getBoundingClientRect();
    const x = (e.clientX - rect.left - this.view.clientLeft) / this.width;
    const row = Math.floor((e.clientY - rect.top - this.view.clientTop + this.view.scrollTop) / ROW);
    const depth = this.scene?.upward ? this.found.rows - 1 - row : row;
    return boxAt(this.found, x, depth);
  }

  /** By the pointer's second button at the box below it, by the keyboard's key at the one with the focus. */
  private ask(e: MouseEvent): void {
    const byKey = e.button !== 2;
    const at = this.found.boxes.find((b) => b.node === this.focused?.node);
    const box = byKey ? at : this.under(e);
    if (!box || !this.menu) return;
    e.preventDefault();
    tip.hide();
    const view = this.view.getBoundingClientRect();
    const x = byKey ? view.left + box.x * this.width : e.clientX;
    const y = byKey ? view.top + this.top(box) + ROW - this.view.scrollTop : e.clientY;
    this.menu(box.node, x, y);
  }

  private hover(box: Box | null, x = 0, y = 0): void {
    const node = box?.node ?? null;
    if (box) this.tell(box, x, y);
    else tip.hide();
    if (node === this.hovered) return;
    this.hovered = node;
    this.view.style.cursor = node === null ? '' : 'pointer';
    this.paint();
  }

  private tell(box: Box, x: number, y: number): void {
    const frame = this.scene!.tree.frame[box.node]!;
    const { module, modules } = this.profile;
    const remark = remarkOn(this.profile, frame);
    tip.show(
      x,
      y,
      h('b', { class: 'code' }, this.name(box)),
      h('div', { class: 'soft' }, modules[module[frame]!] ?? ''),
      h('div', {}, this.tooltip(box.node)),
      remark && h('div', { class: 'mark-text' }, remark),
    );
  }

  private key(e: KeyboardEvent): void {
    const s = this.scene;
    if (!s || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === 'Enter' && this.focused) {
      this.open(this.focused.node);
      e.preventDefault();
      return;
    }
    const moves = { ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: 'up', ArrowDown: 'down' } as const;
    let move: 'left' | 'right' | 'up' | 'down' | undefined = moves[e.key as keyof typeof moves];
    if (!move) return;
    if (s.upward && move === 'up') move = 'down';
    else if (s.upward && move === 'down') move = 'up';
    e.preventDefault();
    const at = this.found.boxes.find((b) => b.node === this.focused?.node);
    const next = at ? neighbour(this.found, s.tree, at, move) : (this.found.boxes.find((b) => !b.context) ?? null);
    if (!next) return;
    this.focused = next;
    this.status.textContent = `${visible(this.name(next))}, ${this.tooltip(next.node)}`;
    const top = this.top(next);
    const view = this.view;
    if (top < view.scrollTop) view.scrollTop = top;
    if (top + ROW > view.scrollTop + view.clientHeight) view.scrollTop = top + ROW - view.clientHeight;
    this.scrolled = view.scrollTop;
    const box = view.getBoundingClientRect();
    this.tell(next, box.left + next.x * this.width, box.top + top + ROW - view.scrollTop);
    this.paint();
  }
}

/** `9.50 % in the rest, +1.20 points`. */
export function besideTheRest({ here, rest, proven }: Change): string {
  const difference = `${percent(rest)} in the rest, ${points(here - rest)} points`;
  return proven || here === rest ? difference : `${difference}, not proven`;
}

function fitting(ctx: CanvasRenderingContext2D, name: string, width: number): string {
  // Letters of these fonts are 3 to 9 px wide: measure only where it is close.
  return fittedName(visible(name), (text) => {
    if (text.length * 9 < width) return true;
    return text.length * 3 <= width && ctx.measureText(text).width <= width;
  });
}

function usualTallest(): number {
  return document.documentElement.classList.contains('printing') ? TALLEST_PRINTED : TALLEST;
}
