// A small box beside the pointer that says what is under it. There is one for the whole page; tables
// behind the charts hold the same for those without a pointer.

import { type Child, fill, h, swatch } from './dom';

const GAP = 14;

let box: HTMLElement | null = null;

function make(): HTMLElement {
  const made = h('div', { class: 'tip', 'aria-hidden': 'true', hidden: true });
  document.body.append(made);
  window.addEventListener('scroll', tip.hide, { capture: true, passive: true });
  window.addEventListener('beforeprint', tip.hide);
  return made;
}

export const tip = {
  /** Shows something beside a place of the window, on whichever side has room. */
  show(x: number, y: number, ...content: Child[]): void {
    box ??= make();
    fill(box, content);
    box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = box;
    const { clientWidth, clientHeight } = document.documentElement;
    const right = x + GAP + width <= clientWidth;
    const below = y + GAP + height <= clientHeight;
    const left = right ? x + GAP : Math.max(0, Math.min(x - GAP - width, clientWidth - width));
    box.style.left = `${left}px`;
    box.style.top = `${below ? y + GAP : Math.max(0, y - GAP - height)}px`;
  },

  hide(): void {
    if (box) box.hidden = true;
  },

  /** Says what is under the pointer while that is over an element; null hides the box. */
  on(element: GlobalEventHandlers, told: (e: MouseEvent) => Child[] | null): void {
    element.addEventListener('mousemove', (e: MouseEvent) => {
      const content = told(e);
      if (content) tip.show(e.clientX, e.clientY, ...content);
      else tip.hide();
    });
    element.addEventListener('mouseleave', tip.hide);
  },
};

export function tipRow(color: string, name: string, value: string): HTMLElement {
  return h('div', { class: 'row' }, swatch(color), h('span', {}, name), h('b', {}, value));
}
