// Callers above, callees below one function.

import type { Part } from '../charts/export';
import type { Profile } from '../core/data';
import { fill, h } from '../core/dom';
import type { Store } from '../core/state';
import { palette } from '../core/theme';
import type { Analysis } from '../flame/analysis';
import { flameGraph, type Scene } from '../flame/canvas';
import { byName, byWeight, type Compare, type Tree, type WeighedTree, type Weights } from '../flame/tree';

export function comparison(tree: Tree, weights: Weights, profile: Profile, store: Store): Compare {
  return store.state.order === 'name' ? byName(tree, profile.names) : byWeight(tree, weights, profile.names);
}

export function callersAndCallees(analysis: Analysis, store: Store) {
  const { profile } = analysis;
  const title = h('p', { class: 'sandwich' });
  let trees: [Tree, Tree] | null = null;
  const select = (which: 0 | 1) => (node: number) => {
    const frame = trees?.[which].frame[node];
    if (frame !== undefined) store.set({ frame }, true);
  };
  const upper = flameGraph(profile, 'Callers of the selected function', select(0));
  const lower = flameGraph(profile, 'Callees of the selected function', select(1));
  const element = h('div', {}, title, upper.element, lower.element);
  return {
    element,
    svg: (top: number): Part => {
      if (!trees) return { body: [], height: 0 };
      const above = upper.svg(top);
      const below = lower.svg(top + above.height);
      return { body: [...above.body, ...below.body], height: above.height + below.height };
    },
    draw: (width: number, scene: Scene): void => {
      const { frame: chosen } = store.state;
      const known = chosen !== null && chosen < profile.names.length;
      const frame = known ? chosen : analysis.hottest();
      upper.element.hidden = frame === null;
      lower.element.hidden = frame === null;
      if (frame === null) {
        trees = null;
        fill(title, 'No sample lies in this window.');
        return;
      }
      fill(
        title,
        'Callers above, callees below ',
        h('b', {}, profile.names[frame]!),
        known ? null : ', the function with the largest self share; choose another in the table',
      );
      const above = analysis.callers(frame);
      const below = analysis.callees(frame);
      trees = [above.tree, below.tree];
      const p = palette();
      const part = { sum: scene.sum, zoom: null, hits: scene.hits, frame: null };
      const show = (graph: typeof upper, { tree, weights }: WeighedTree, upward: boolean, tallest: number): void => {
        const compare = comparison(tree, weights, profile, store);
        graph.draw({ tree, weights, ...part, upward, compare }, width, p, tallest);
      };
      show(upper, above, true, 260);
      show(lower, below, false, 320);
    },
  };
}
