// One figure with its name, its unit, and what stands under it.

import { type Child, h } from '../core/dom';
import { shortened } from '../core/format';

export type Tile = HTMLElement;

/** Letters of a label: two lines. */
const LONGEST = 44;

export function tile(label: string, value: Child, unit: string, under: string, title: string): Tile {
  const short = shortened(label, LONGEST);
  return h(
    'div',
    { class: 'tile', title },
    h('dt', { title: short === label ? null : label }, short),
    h('dd', {}, h('span', { class: 'figure' }, value), h('span', { class: 'unit' }, unit)),
    under ? h('dd', { class: 'under' }, under) : null,
  );
}
