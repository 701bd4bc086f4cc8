// The list of keys that `?` opens.

import { button, h } from '../core/dom';

const KEYS: readonly (readonly [string, string])[] = [
  ['/', 'search functions by regular expression'],
  ['Escape', 'leave the search box; then one step back: zoom, search, function, filters, window'],
  ['← →', 'move the crosshair on the time axis, move between frames in the flame graph'],
  ['Shift + ← →', 'choose a window on the time axis'],
  ['↑ ↓', 'move between callers and callees in the flame graph'],
  ['Enter', 'zoom to the frame; again: its share over time'],
  ['Menu, Shift + F10', 'what else can be done with a frame or a function'],
  ['r', 'functions of the language, or all by name'],
  ['?', 'this list'],
];

export function toggleKeys(): void {
  const shown = document.querySelector<HTMLDialogElement>('.keys');
  if (shown) {
    shown.close();
    return;
  }
  const rows = KEYS.map(([key, what]) => h('tr', {}, h('th', { scope: 'row' }, h('kbd', {}, key)), h('td', {}, what)));
  // Escape closes it, and is no step back of the page.
  const onkeydown = (e: KeyboardEvent): void => {
    if (e.key !== 'Escape') return;
    e.stopPropagation();
    e.preventDefault();
    dialog.close();
  };
  const dialog = h(
    'dialog',
    { class: 'keys', 'aria-label': 'Keys', onclose: () => dialog.remove(), onkeydown },
    h('table', {}, h('caption', {}, 'Keys'), h('tbody', {}, rows)),
    button('close', () => dialog.close()),
  );
  document.body.append(dialog);
  dialog.showModal();
}
