// What every call path costs on both sides: a flame graph as wide as the mean of both, coloured where a change is proven.

import { pictures } from '../charts/export';
import { KINDS } from '../core/data';
import { fill, h, section, stateChoice, swatches, widthOf } from '../core/dom';
import { duration } from '../core/format';
import type { Store } from '../core/state';
import { changeColor, LESS, MORE, palette, unprovenColor } from '../core/theme';
import type { ComparedFrame, ComparedStacks, ComparisonView } from '../core/view';
import { flameGraph, type Named, type Scene } from '../flame/canvas';
import { byWeight, link, markedWeight, search, type WeighedTree } from '../flame/tree';
import type { View } from '../sections/timeline';
import { searchBox, UPRIGHT, wholeGraph } from '../sections/tools';
import { signedTime } from './functions';

/** What a frame costs on both sides, and what is proven of it, as the picture's file says it. */
export function told(of: ComparedFrame): string {
  const [low, high] = of.interval;
  const proven = of.proven ? 'proven' : of.asked ? 'not proven' : 'not proven, nor anything below';
  const change = `A ${duration(of.a)}, B ${duration(of.b)}, ${signedTime(of.b - of.a)}`;
  // The interval of too few runs reaches from nothing to many times as much.
  return of.visible === null
    ? `${change}, ${proven}, too few runs`
    : `${change} [${signedTime(low)}, ${signedTime(high)}], ${proven}, shows from ${duration(of.visible)}`;
}

/** A comparison's call paths as the canvas draws them; `full` is the largest proven change, 0 where there is none. */
export function costTree({ frames, names }: ComparedStacks): WeighedTree & { named: Named; full: number } {
  const total = Float64Array.from(frames, (it) => (it.a + it.b) / 2);
  const self = total.slice();
  const parent = Int32Array.from(frames, (it) => it.parent ?? -1);
  let sum = 0;
  let full = 0;
  frames.forEach((it, at) => {
    const above = parent[at]!;
    if (above >= 0) self[above] = Math.max(0, self[above]! - total[at]!);
    else sum += total[at]!;
    if (it.proven) full = Math.max(full, Math.abs(it.b - it.a));
  });
  const frame = Uint32Array.from(frames, (it) => it.name);
  const modules = [...new Set(names.map((it) => it.module))];
  return {
    tree: link(frame, parent),
    weights: { self, total, sum },
    named: {
      names: names.map((it) => it.function),
      modules,
      module: names.map((it) => modules.indexOf(it.module)),
      kind: names.map((it) => KINDS.indexOf(it.module === '' ? 'thread' : 'native')),
      event: 'cpu',
      event_kind: 'on_cpu',
      kernel_event: '',
      unit: 'nanoseconds',
      period_ns: 0,
    },
    full,
  };
}

function legend(element: HTMLElement, full: number, dark: boolean): void {
  const colors = [
    [MORE, 'dearer in B'],
    [LESS, 'cheaper in B'],
    [unprovenColor(dark), 'not proven: chance gives as much'],
  ] as const;
  fill(element, swatches(colors), h('span', {}, full > 0 ? `full colour: ${duration(full)}` : 'no change is proven'));
}

/** The section; null where call paths were not compared. */
export function costGraph(view: ComparisonView, store: Store): View | null {
  const of = view.stacks;
  if (!of || of.frames.length === 0) return null;
  const { tree, weights, named, full } = costTree(of);
  const zoomed = (): number | null => {
    const { zoom } = store.state;
    return zoom !== null && zoom < of.frames.length ? zoom : null;
  };
  const graph = flameGraph(
    named,
    'Flame graph of both sides. Arrow keys move between frames, Enter zooms, Escape goes back. The function table holds the same as text.',
    (node) => store.set({ zoom: zoomed() === node ? null : node }, true),
  );
  const info = h('p', { class: 'hint', 'aria-live': 'polite' });
  const keys = h('p', { class: 'kinds' });
  const finder = searchBox(store, 'the cost');
  const place = h('div', { class: 'graph' }, graph.element, info, keys);
  const drawn = (top: number) => ({ ...graph.svg(top), width: widthOf(place) });
  const saved = pictures(`${view.name}-difference`, drawn, 'Save the graph');
  const tools = h('div', { class: 'tools' }, stateChoice(store, 'shape', 'shape', UPRIGHT), wholeGraph(store), saved);
  const element = section(
    'cost-graph',
    'Where the cost changed',
    'CPU per message by call path; widths are the mean of both sides',
    h('div', { class: 'bar-row' }, finder.element, tools),
    place,
  );
  const draw = (): void => {
    const p = palette();
    const { state } = store;
    const hits = state.search ? search(named.names, state.search) : null;
    const result = hits && {
      hits,
      share: markedWeight(tree, weights, hits) / weights.sum,
      frames: hits.reduce((count, hit) => count + hit, 0),
    };
    finder.show(result);
    const zoom = zoomed();
    const scene: Scene = {
      tree,
      weights,
      compare: byWeight(tree, weights, named.names),
      upward: state.shape === 'flame',
      zoom,
      hits,
      frame: null,
      sum: weights.sum,
      colored: {
        color: (node, dark) => {
          const { a, b, proven } = of.frames[node]!;
          return changeColor(b - a, proven, full, dark);
        },
        told: (node) => told(of.frames[node]!),
      },
    };
    const width = widthOf(place);
    if (width > 0) graph.draw(scene, width, p);
    fill(info, zoom === null ? hint(of) : `${named.names[of.frames[zoom]!.name]}: ${told(of.frames[zoom]!)}`);
    legend(keys, full, p.dark);
  };
  store.on(['zoom', 'search', 'shape'], draw);
  return { element, draw };
}

function hint({ least_share, level }: ComparedStacks): string {
  return (
    `Click a frame to zoom. What a frame calls is asked about only where something changed in it; of the coloured frames, ` +
    `${Number((level * 100).toPrecision(2))} % may be chance. Frames below ${Number((least_share * 100).toPrecision(2))} % belong to their callers.`
  );
}
