// What the time goes into: the classes of the window's samples, as one bar. A class shows its part of the graph.

import type { Profile } from '../core/data';
import { fill, h, styled, swatch, widthOf } from '../core/dom';
import { percent } from '../core/format';
import type { Store } from '../core/state';
import { classColor } from '../core/theme';
import { amount } from '../core/units';
import type { ClassView } from '../core/view';
import type { Analysis } from '../flame/analysis';

/** What a name in the bar takes: per letter, and around it. */
const LETTER_PX = 6.5;
const AROUND_PX = 12;

/** The class that was chosen, by its index; null where none was that exists. */
export function chosenClass(profile: Profile, key: string): { label: string; index: number } | null {
  const index = profile.classes.findIndex((it) => it.class === key);
  return index < 0 ? null : { label: profile.classes[index]!.name, index };
}

/** The share of a class, behind the mark of an estimate, as the terminal has it. */
export const shareText = (of: ClassView, share: number): string => `${of.estimated ? '~' : ''}${percent(share)}`;

export function classBar(profile: Profile, store: Store) {
  const bar = h('div', { class: 'class-bar', 'aria-hidden': 'true' });
  const legend = h('ul', { class: 'class-legend' });
  const group = { class: 'classes', role: 'group', 'aria-label': 'What the time goes into' };
  let keys: string[] = [];
  const draw = (analysis: Analysis, dark: boolean): void => {
    const { sum } = analysis.weights;
    const chosen = store.state.class;
    const width = widthOf(bar);
    const shown = profile.classes
      .map((it, i) => ({ ...it, weight: analysis.classes[i]! }))
      .filter((it) => it.weight > 0);
    const known = shown.some((it) => it.class === chosen);
    const parts = shown.map((it) => {
      const share = sum > 0 ? it.weight / sum : 0;
      const title = `${it.name}: ${it.meaning}; ${amount(profile, it.weight)} of ${amount(profile, sum)}`;
      const selected = it.class === chosen;
      const fade = known && !selected ? 'faded' : null;
      const color = classColor(it.class, dark, profile.event_kind);
      const label = share * width >= it.name.length * LETTER_PX + AROUND_PX && it.name;
      const choose = (): void => store.set({ class: selected ? '' : it.class, zoom: null }, true);
      const segment = h('div', { class: fade, title, onclick: choose }, label);
      styled(segment, { background: color, flexGrow: String(it.weight) });
      const shown = [swatch(color), `${it.name} `, h('b', {}, shareText(it, share))];
      const button = h('button', { type: 'button', title, 'aria-pressed': String(selected), onclick: choose }, shown);
      return { segment, item: h('li', { class: fade }, button) };
    });
    // The button that has the focus is made anew: it keeps it.
    const focused = keys[[...legend.children].findIndex((it) => it.contains(document.activeElement))];
    keys = shown.map((it) => it.class);
    // Of one class or process alone, the rest of the bar is empty.
    const rest = sum - shown.reduce((all, it) => all + it.weight, 0);
    const empty = styled(h('div', { class: 'empty' }), { flexGrow: String(rest) });
    fill(
      bar,
      parts.map((it) => it.segment),
      rest > 0 && empty,
    );
    fill(
      legend,
      parts.map((it) => it.item),
    );
    if (focused) legend.children[keys.indexOf(focused)]?.querySelector('button')?.focus();
  };
  return { element: h('div', group, bar, legend), draw };
}
