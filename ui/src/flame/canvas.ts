// Draws a tree of stacks on a canvas: only the rows in view, only what is wide enough to see.

import type { Part } from '../charts/export';
import { KINDS } from '../core/data';
import { h, styled } from '../core/dom';
import { counted, fittedName, percent, points, visible, xml } from '../core/format';
import { differenceColor, frameColor, type Palette, shadeKey } from '../core/theme';
import { tip } from '../core/tip';
import { exactAmount } from '../core/units';
import type { ProfileHead } from '../core/view';
import type { Change, Difference } from './difference';
import { remarkOn } from './remarks';
import { type Box, boxAt, type Compare, type Layout, layout, neighbour, rowsOf, type Tree, type Weights } from './tree';

const ROW = 18;
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

/** The graph: `open` is called for a box that was clicked, or on which Enter was pressed; `menu` where more is asked for. */
export function flameGraph(
  profile: Named,
  label: string,
  open: (node: number) => void,
  menu: ((node: number, x: number, y: number) => void) | null = null,
) {
  const canvas = h('canvas', { 'aria-hidden': 'true' });
  const space = h('div', { class: 'space' });
  const status = h('p', { class: 'hidden', 'aria-live': 'polite' });
  const hiddenRows = h('p', { class: 'hidden-rows' });
  let drawn: { scene: Scene; palette: Palette } | null = null;
  let found: Layout = { boxes: [], rows: 0 };
  let colors: string[] = [];
  let hovered: number | null = null;
  let focused: Box | null = null;
  let width = 0;
  /** Pixels of the whole graph, and those in view. */
  let [height, shown] = [0, 0];
  /** How far the view is scrolled: to read it when the page was just changed, the browser lays the page out. */
  let scrolled = 0;

  const topOf = (box: Box): number => (drawn?.scene.upward ? found.rows - 1 - box.depth : box.depth) * ROW;
  const frameOf = (box: Box): number => drawn!.scene.tree.frame[box.node]!;
  const nameOf = (box: Box): string => box.label ?? drawn!.scene.label?.(box.node) ?? profile.names[frameOf(box)]!;
  const withFocus = (): Box | undefined => found.boxes.find((b) => b.node === focused?.node);

  const tooltip = (node: number): string => {
    const { colored, weights, sum, note, difference } = drawn!.scene;
    if (colored) return colored.told(node);
    const total = weights.total[node]!;
    const shares = `${percent(total / sum)} total, ${percent(weights.self[node]! / sum)} self`;
    const notes = [note?.(node), difference && besideTheRest(difference.of(node))];
    return [shares, exactAmount(profile, total), ...notes.filter(Boolean)].join(', ');
  };

  const isDim = (frame: number): boolean => {
    const { hits, frame: selected } = drawn!.scene;
    return hits ? !hits[frame] : selected !== null && selected !== frame;
  };

  const colorOf = (node: number, frame: number): string => {
    const { colored, difference } = drawn!.scene;
    const { dark } = drawn!.palette;
    if (colored) return colored.color(node, dark);
    if (!difference) return colors[frame]!;
    const { here, rest, proven } = difference.of(node);
    return differenceColor(here - rest, proven, difference.full, dark);
  };

  const fillOf = (box: Box): string => {
    const color = colorOf(box.node, frameOf(box));
    const strength = box.context ? 45 : isDim(frameOf(box)) ? 30 : 100;
    return strength === 100 ? color : `color-mix(in oklab, ${color} ${strength}%, ${drawn!.palette.paper})`;
  };

  const paintBox = (ctx: CanvasRenderingContext2D, box: Box, y: number, p: Palette, scene: Scene): void => {
    const x = box.x * width;
    const w = box.width * width;
    const gap = w > 3 ? 1 : w > 1.2 ? 0.4 : 0;
    ctx.fillStyle = fillOf(box);
    ctx.fillRect(x, y, Math.max(0.5, w - gap), ROW - 1);
    if ((scene.difference || scene.colored) && w > 3) {
      // White boxes have no edge on white paper.
      ctx.strokeStyle = p.faint;
      ctx.lineWidth = 0.5;
      ctx.strokeRect(x + 0.25, y + 0.25, w - gap - 0.5, ROW - 1.5);
    }
    const frame = frameOf(box);
    const marked = scene.hits?.[frame] || scene.frame === frame;
    const pointed = box.node === hovered || box.node === focused?.node;
    if ((marked || pointed) && w > 2) {
      ctx.strokeStyle = p.ink;
      ctx.lineWidth = pointed ? 1.5 : 1;
      ctx.strokeRect(x + 0.75, y + 0.75, w - gap - 1.5, ROW - 2.5);
    }
    if (w < 26) return;
    // Dimmed boxes take on the paper's colour, so their ink is the page's.
    ctx.fillStyle = isDim(frame) || box.context ? p.ink : '#17181c';
    ctx.globalAlpha = isDim(frame) ? 0.62 : 1;
    ctx.fillText(fitting(ctx, nameOf(box), w - 8), x + 4, y + ROW / 2 - 0.5);
    ctx.globalAlpha = 1;
  };

  const paint = (): void => {
    if (!drawn) return;
    const { palette: p, scene } = drawn;
    const ctx = canvas.getContext('2d')!;
    const ratio = window.devicePixelRatio || 1;
    const visibleHeight = canvas.height / ratio;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = p.paper;
    ctx.fillRect(0, 0, width, visibleHeight);
    ctx.font = `11.5px ${p.font}`;
    ctx.textBaseline = 'middle';
    for (const box of found.boxes) {
      const y = topOf(box) - scrolled;
      if (y + ROW >= 0 && y <= visibleHeight) paintBox(ctx, box, y, p, scene);
    }
  };

  const under = (e: MouseEvent): Box | null => {
    const rect = view.getBoundingClientRect();
    const x = (e.clientX - rect.left - view.clientLeft) / width;
    const row = Math.floor((e.clientY - rect.top - view.clientTop + view.scrollTop) / ROW);
    return boxAt(found, x, drawn?.scene.upward ? found.rows - 1 - row : row);
  };

  const tell = (box: Box, x: number, y: number): void => {
    const frame = frameOf(box);
    const { module, modules } = profile;
    const remark = remarkOn(profile, frame);
    tip.show(
      x,
      y,
      h('b', { class: 'code' }, nameOf(box)),
      h('div', { class: 'soft' }, modules[module[frame]!] ?? ''),
      h('div', {}, tooltip(box.node)),
      remark && h('div', { class: 'mark-text' }, remark),
    );
  };

  const hover = (box: Box | null, x = 0, y = 0): void => {
    const node = box?.node ?? null;
    if (box) tell(box, x, y);
    else tip.hide();
    if (node === hovered) return;
    hovered = node;
    view.style.cursor = node === null ? '' : 'pointer';
    paint();
  };

  const onclick = (e: MouseEvent): void => {
    focused = under(e);
    tip.hide();
    if (focused) open(focused.node);
  };

  /** By the pointer's second button at the box below it, by the keyboard's key at the one with the focus. */
  const oncontextmenu = (e: MouseEvent): void => {
    const byKey = e.button !== 2;
    const box = byKey ? withFocus() : under(e);
    if (!box || !menu) return;
    e.preventDefault();
    tip.hide();
    const rect = view.getBoundingClientRect();
    const x = byKey ? rect.left + box.x * width : e.clientX;
    const y = byKey ? rect.top + topOf(box) + ROW - view.scrollTop : e.clientY;
    menu(box.node, x, y);
  };

  const onkeydown = (e: KeyboardEvent): void => {
    if (!drawn || e.ctrlKey || e.metaKey || e.altKey) return;
    const { tree, upward } = drawn.scene;
    if (e.key === 'Enter' && focused) {
      open(focused.node);
      e.preventDefault();
      return;
    }
    const vertical = upward ? (['down', 'up'] as const) : (['up', 'down'] as const);
    const moves = { ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: vertical[0], ArrowDown: vertical[1] } as const;
    const move = moves[e.key as keyof typeof moves] as (typeof moves)[keyof typeof moves] | undefined;
    if (!move) return;
    e.preventDefault();
    const at = withFocus();
    const next = at ? neighbour(found, tree, at, move) : (found.boxes.find((b) => !b.context) ?? null);
    if (!next) return;
    focused = next;
    status.textContent = `${visible(nameOf(next))}, ${tooltip(next.node)}`;
    const top = topOf(next);
    if (top < view.scrollTop) view.scrollTop = top;
    if (top + ROW > view.scrollTop + view.clientHeight) view.scrollTop = top + ROW - view.clientHeight;
    scrolled = view.scrollTop;
    const box = view.getBoundingClientRect();
    tell(next, box.left + next.x * width, box.top + top + ROW - view.scrollTop);
    paint();
  };

  const onscroll = (): void => {
    scrolled = view.scrollTop;
    paint();
  };
  const view = h(
    'div',
    {
      class: 'flame-view',
      tabindex: 0,
      role: 'application',
      'aria-label': label,
      onscroll,
      onmousemove: (e: MouseEvent) => hover(under(e), e.clientX, e.clientY),
      onmouseleave: () => hover(null),
      onclick,
      oncontextmenu,
      onkeydown,
      onblur: () => hover(null),
    },
    canvas,
    space,
  );

  const draw = (scene: Scene, wide: number, palette: Palette, tallest = usualTallest()): void => {
    if (drawn?.palette.dark !== palette.dark) {
      const { names, kind, module, modules, event_kind } = profile;
      colors = names.map((name, i) => {
        const k = KINDS[kind[i]!] ?? 'unknown';
        return frameColor(k, shadeKey(k, name, modules[module[i]!] ?? ''), palette.dark, event_kind);
      });
    }
    const first = drawn?.scene.upward !== scene.upward;
    drawn = { scene, palette };
    width = wide;
    found = layout(scene.tree, scene.weights, scene.zoom, scene.compare, LEAST / width, scene.timed);
    const all = Math.max(found.rows, LEAST_ROWS) * ROW;
    // In the order of time all stacks are narrow.
    const readable = scene.timed ? all : rowsOf(found, READABLE / width) * ROW;
    const seen = Math.min(Math.max(readable, LEAST_ROWS * ROW), tallest);
    // A graph that grows upward keeps what stood at its foot.
    const below = Math.max(0, height - shown - scrolled);
    [height, shown] = [all, seen];
    space.style.height = `${height}px`;
    view.style.height = `${shown}px`;
    const deeper = Math.ceil((height - shown) / ROW);
    hiddenRows.hidden = deeper === 0;
    hiddenRows.textContent = `${counted(deeper, 'more row')}: scroll in the graph`;
    const ratio = window.devicePixelRatio || 1;
    const size = [Math.round(width * ratio), Math.round(shown * ratio)] as const;
    // A canvas that is given its size is made anew, also where it had that size.
    if (canvas.width !== size[0]) canvas.width = size[0];
    if (canvas.height !== size[1]) canvas.height = size[1];
    styled(canvas, { width: `${width}px`, height: `${shown}px` });
    if (scene.upward ? height > shown : first && scrolled > 0) {
      view.scrollTop = scene.upward ? height - shown - (first ? 0 : below) : 0;
      scrolled = view.scrollTop;
    } else if (scrolled > 0) scrolled = view.scrollTop;
    paint();
  };

  const svg = (top: number): Part => {
    if (!drawn) return { body: [], height: 0 };
    const body = found.boxes.map((box) => {
      const y = top + topOf(box);
      const w = box.width * width;
      const name = nameOf(box);
      const letters = Math.floor((w - 6) / 6.6);
      const text = fittedName(name, (it) => it.length <= letters);
      const title = `${name} ${tooltip(box.node)}`;
      return `<g><title>${xml(title)}</title><rect x="${(box.x * width).toFixed(1)}" y="${y}" width="${w.toFixed(1)}" height="${ROW - 1}" fill="${fillOf(box)}"/>${text ? `<text x="${(box.x * width + 3).toFixed(1)}" y="${y + 12.5}" fill="#17181c">${xml(text)}</text>` : ''}</g>`;
    });
    return { body, height: found.rows * ROW };
  };

  return { element: h('div', { class: 'flame' }, view, hiddenRows, status), draw, svg };
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
