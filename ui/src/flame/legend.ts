// What the colours of a difference mean.

import { h } from '../core/dom';

/** A swatch beside each meaning. */
export function swatches(colors: readonly (readonly [string, string])[]): HTMLElement[] {
  return colors.map(([color, text]) => {
    const swatch = h('i', { class: 'swatch edged' });
    swatch.style.background = color;
    return h('span', {}, swatch, text);
  });
}
