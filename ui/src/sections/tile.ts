// One figure with its name, its unit, and what stands under it.

import { type Child, h } from '../core/dom';

export type Tile = HTMLElement;

export function tile(
  label: string,
  value: Child,
  unit: string,
  under: string,
  title: string,
): Tile {
  return h(
    'div',
    { class: 'tile', title },
    h('dt', {}, label),
    h('dd', {}, h('span', { class: 'figure' }, value), h('span', { class: 'unit' }, unit)),
    under ? h('dd', { class: 'under' }, under) : null,
  );
}
