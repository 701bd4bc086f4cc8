// What can be done with a function, beside the pointer or the frame that has the focus.

import { button, h } from '../core/dom';
import type { State, Store } from '../core/state';

type Action = readonly [label: string, change: Partial<State>];

/** What can be done with a function, and, where it is one of the graph's frames, with that frame. */
export function actions(state: State, frame: number, node: number | null, thread: boolean): Action[] {
  const list: Action[] = [];
  if (node !== null && state.zoom !== node) list.push(['zoom to this frame', { zoom: node }]);
  if (thread) return list;
  if (state.frame !== frame) list.push(['share over time', { frame }]);
  list.push(['callers & callees', { frame, shape: 'callers' }]);
  if (state.focus !== frame) list.push(['only stacks with this function', { focus: frame, zoom: null }]);
  list.push(['hide this function', { hide: [...state.hide.filter((it) => it !== frame), frame] }]);
  return list;
}

let shown: { element: HTMLElement; close(): void } | null = null;

/** Opens a menu at a place of the window. Arrow keys move, Escape closes, and the focus goes back. */
export function openMenu(store: Store, name: string, list: Action[], x: number, y: number): void {
  shown?.close();
  const before = document.activeElement;
  const items = list.map(([label, change]) => {
    const choose = (): void => {
      close();
      store.set(change, true);
    };
    return button(label, choose, { role: 'menuitem', tabindex: -1 });
  });
  const element = h(
    'div',
    {
      class: 'menu',
      role: 'menu',
      'aria-label': name,
      onkeydown: (e: KeyboardEvent) => {
        const at = items.indexOf(document.activeElement as HTMLButtonElement);
        const step = e.key === 'ArrowDown' ? 1 : e.key === 'ArrowUp' ? -1 : 0;
        if (e.key === 'Escape' || e.key === 'Tab') close();
        else if (step !== 0) items[(at + step + items.length) % items.length]!.focus();
        else return;
        e.preventDefault();
        e.stopPropagation();
      },
    },
    h('b', { class: 'code' }, name),
    items,
  );
  const outside = (e: Event): void => {
    if (!element.contains(e.target as Node)) close();
  };
  const close = (): void => {
    element.remove();
    document.removeEventListener('pointerdown', outside, true);
    window.removeEventListener('resize', close);
    shown = null;
    if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
  };
  shown = { element, close };
  document.body.append(element);
  const { clientWidth, clientHeight } = document.documentElement;
  element.style.left = `${Math.max(0, Math.min(x, clientWidth - element.offsetWidth - 4))}px`;
  element.style.top = `${Math.max(0, Math.min(y, clientHeight - element.offsetHeight - 4))}px`;
  document.addEventListener('pointerdown', outside, true);
  window.addEventListener('resize', close);
  items[0]?.focus({ preventScroll: true });
}
