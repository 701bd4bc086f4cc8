// What one does with the graph: search, shape, order, filters and exports; and the window as two numbers.

import { type Part, pictures } from '../charts/export';
import { button, csv, fill, h, save, stateChoice } from '../core/dom';
import { counted, percent, seconds } from '../core/format';
import type { Store } from '../core/state';
import type { RunView } from '../core/view';
import type { Analysis } from '../flame/analysis';
import { folded } from '../flame/tree';
import { sorted } from './functions';
import { clampWindow, effectiveWindow, wholeName } from './timeline';

/** What a search found: per frame, its share of all samples, and how many functions. */
export type Result = { hits: Uint8Array; share: number; frames: number } | null;

/** The regular expression, and what it found; shares are of samples, or of what else is drawn. */
export function searchBox(store: Store, of = 'samples'): { element: HTMLElement; show(result: Result): void } {
  const input = h('input', {
    type: 'search',
    id: 'search',
    placeholder: 'search: regular expression  ( / )',
    'aria-label': 'Search functions by regular expression',
    spellcheck: 'false',
    autocomplete: 'off',
    oninput: () => store.set({ search: input.value }),
    // Escape leaves the box, and keeps what it holds; the next one is a step back of the page.
    onkeydown: (e: KeyboardEvent) => {
      if (e.key !== 'Escape') return;
      input.blur();
      e.preventDefault();
      e.stopPropagation();
    },
  });
  const output = h('output', { for: 'search', class: 'matched', 'aria-live': 'polite' });
  return {
    element: h('div', { class: 'search' }, input, output),
    show: (result) => {
      const { search } = store.state;
      if (input.value !== search) input.value = search;
      const bad = search !== '' && result === null;
      input.setAttribute('aria-invalid', bad ? 'true' : 'false');
      output.classList.toggle('bad', bad);
      fill(
        output,
        bad && 'not a regular expression',
        result && h('b', {}, percent(result.share)),
        result && ` of ${of}, ${counted(result.frames, 'function')}`,
      );
    },
  };
}

/** The ways that a graph stands; the first one unless another was chosen. */
export const UPRIGHT = [
  ['icicle', 'icicle', 'Root at the top'],
  ['flame', 'flame', 'Root at the bottom'],
] as const;

export function wholeGraph(store: Store): HTMLButtonElement {
  const back = button('whole graph', () => store.set({ zoom: null }, true), { class: 'quiet' });
  const sync = (): void => {
    back.disabled = store.state.zoom === null;
  };
  store.on(['zoom'], sync);
  sync();
  return back;
}

export function toolbar(
  run: RunView,
  analysis: Analysis,
  store: Store,
  draw: (top: number) => Part & { width: number },
): HTMLElement {
  const { profile } = analysis;
  const around = ['callers', 'callers & callees', 'Around the function selected in the table'] as const;
  const inTime = ['time', 'by time', "Flame chart: each thread's stacks in the order of their time"] as const;
  const orders = [
    ['heavy', 'heaviest first', 'Left-heavy'],
    ['name', 'by name', 'Alphabetical'],
    ...(profile.timed ? [inTime] : []),
  ] as const;
  const collapse = button('collapse recursion', () => store.set({ collapse: !store.state.collapse }), {
    title: 'Draw a function that calls itself as one frame',
  });
  const difference = button('difference to the rest', () => {
    const on = !store.state.difference;
    store.set({ difference: on, sort: on ? 'change' : 'self' });
  });
  const sync = (): void => {
    collapse.setAttribute('aria-pressed', String(store.state.collapse));
    const chosen = store.state.window !== null;
    difference.disabled = !chosen;
    difference.title = chosen
      ? `Colour by the difference between the window and the rest of the ${wholeName(run)}`
      : 'Choose a window first: it is compared with the rest';
    difference.setAttribute('aria-pressed', String(chosen && store.state.difference));
  };
  store.listen(sync);
  sync();
  const name = `${run.id}-${profile.event}`;
  return h(
    'div',
    { class: 'tools' },
    stateChoice(store, 'shape', 'shape', [...UPRIGHT, around]),
    stateChoice(store, 'order', 'order', orders, (value) => (value === 'time' ? { zoom: null } : {})),
    collapse,
    profile.timed ? difference : null,
    wholeGraph(store),
    pictures(name, draw, 'Save the graph'),
    button('folded', () => save(`${name}.folded`, folded(profile, analysis.tree, analysis.weights)), {
      title: 'Save the stacks of the window, folded',
    }),
    button('CSV', () => save(`${name}-functions.csv`, functionCsv(analysis, store), 'text/csv'), {
      title: 'Save the function table as CSV',
    }),
  );
}

function functionCsv(analysis: Analysis, store: Store): string {
  const { profile, weights } = analysis;
  const rows = sorted(analysis.rowsBelow(analysis.nodeOf(store.state.zoom)), store.state.sort, profile.names);
  return csv([
    [
      'function',
      'module',
      `self_${profile.unit}`,
      `total_${profile.unit}`,
      'self_share',
      'total_share',
      ...(analysis.difference ? ['rest_self_share', 'self_change_proven'] : []),
    ],
    ...rows.map((r) => [
      profile.names[r.frame]!,
      profile.modules[profile.module[r.frame]!] ?? '',
      r.self,
      r.total,
      r.self / weights.sum,
      r.total / weights.sum,
      ...(r.change ? [r.change.rest, r.change.proven ? 1 : 0] : []),
    ]),
  ]);
}

/** What is hidden and focused on, each with a button that takes it back. */
export function filters(analysis: Analysis, store: Store): { element: HTMLElement; draw(): void } {
  const { names } = analysis.profile;
  const element = h('p', { class: 'filters', role: 'group', 'aria-label': 'Filters' });
  const chip = (lead: string, frame: number, undo: () => void): HTMLElement => {
    const back = button('×', undo, { class: 'quiet', 'aria-label': `${lead} ${names[frame]!}: take back` });
    return h('span', {}, `${lead} `, h('b', { class: 'code' }, names[frame]!), back);
  };
  return {
    element,
    draw: () => {
      const { focus, hide } = store.state;
      const known = hide.filter((frame) => frame < names.length);
      const inside = focus !== null && focus < names.length ? focus : null;
      element.hidden = known.length === 0 && inside === null;
      fill(
        element,
        inside !== null && chip('only', inside, () => store.set({ focus: null }, true)),
        known.map((frame) => chip('hidden', frame, () => store.set({ hide: hide.filter((it) => it !== frame) }, true))),
      );
    },
  };
}

/** The window as two numbers: the way to it without a pointer. */
export function windowInputs(run: RunView, store: Store): { element: HTMLElement; show(): void } {
  const change = (): void => {
    const from = Number(low.value);
    const to = Number(high.value);
    if (Number.isFinite(from) && Number.isFinite(to) && from < to) {
      store.set({ window: clampWindow(run.span, from, to) }, true);
    }
  };
  const field = (label: string): HTMLInputElement =>
    h('input', { type: 'number', step: 'any', 'aria-label': label, onchange: change });
  const low = field('window from, seconds');
  const high = field('window to, seconds');
  const name = h('span');
  const reset = button('×', () => store.set({ window: null }, true), {
    class: 'quiet',
    title: `Back to the ${wholeName(run)}`,
    'aria-label': `Back to the ${wholeName(run)}`,
  });
  return {
    element: h('div', { class: 'window' }, name, low, '–', high, 's', reset),
    show: () => {
      const [from, to] = effectiveWindow(run, store);
      low.value = String(Number(from.toFixed(3)));
      high.value = String(Number(to.toFixed(3)));
      fill(name, store.state.window ? 'window' : wholeName(run));
      reset.hidden = store.state.window === null;
      low.title = seconds(from);
      high.title = seconds(to);
    },
  };
}
