// What the time goes into: the classes of the window's samples, as one bar. A class shows its part of the graph.

import type { Profile } from '../core/data';
import { fill, h, styled, swatch, widthOf } from '../core/dom';
import { percent } from '../core/format';
import type { Store } from '../core/state';
import { classColor } from '../core/theme';
import { amount } from '../core/units';
import type { Analysis } from '../flame/analysis';

/** What a name in the bar takes: per letter, and around it. */
const LETTER_PX = 6.5;
const AROUND_PX = 12;

/** The class that was chosen, by its index; null where none was that exists. */
export function chosenClass(profile: Profile, key: string): { label: string; index: number } | null {
  const index = profile.classes.findIndex((it) => it.class === key);
  return index < 0 ? null : { label: profile.classes[index]!.name, index };
}

export class ClassBar {
  readonly element: HTMLElement;
  private readonly bar = h('div', { class: 'class-bar', 'aria-hidden': 'true' });
  private readonly legend = h('ul', { class: 'class-legend' });
  private keys: string[] = [];

  constructor(
    private readonly profile: Profile,
    private readonly store: Store,
  ) {
    this.element = h(
      'div',
      { class: 'classes', role: 'group', 'aria-label': 'What the time goes into' },
      this.bar,
      this.legend,
    );
  }

  draw(analysis: Analysis, dark: boolean): void {
    const { classes } = this.profile;
    const { sum } = analysis.weights;
    const chosen = this.store.state.class;
    const width = widthOf(this.bar);
    const shown = classes.map((it, i) => ({ ...it, weight: analysis.classes[i]! })).filter((it) => it.weight > 0);
    const choose = (key: string) => (): void => this.store.set({ class: key === chosen ? '' : key, zoom: null }, true);
    const known = shown.some((it) => it.class === chosen);
    const parts = shown.map((it) => {
      const share = sum > 0 ? it.weight / sum : 0;
      const title = `${it.name}: ${it.meaning}; ${amount(this.profile, it.weight)} of ${amount(this.profile, sum)}`;
      const selected = it.class === chosen;
      const fade = known && !selected ? 'faded' : null;
      const color = classColor(it.class, dark, this.profile.event_kind);
      const label = share * width >= it.name.length * LETTER_PX + AROUND_PX && it.name;
      const segment = h('div', { class: fade, title, onclick: choose(it.class) }, label);
      styled(segment, { background: color, flexGrow: String(it.weight) });
      const button = h(
        'button',
        { type: 'button', title, 'aria-pressed': selected ? 'true' : 'false', onclick: choose(it.class) },
        swatch(color),
        `${it.name} `,
        h('b', {}, percent(share)),
      );
      return { segment, item: h('li', { class: fade }, button) };
    });
    // The button that has the focus is made anew: it keeps it.
    const focused = [...this.legend.children].findIndex((it) => it.contains(document.activeElement));
    const key = focused < 0 ? '' : this.keys[focused];
    this.keys = shown.map((it) => it.class);
    // Of one class or process alone, the rest of the bar is empty.
    const rest = sum - shown.reduce((all, it) => all + it.weight, 0);
    const empty = styled(h('div', { class: 'empty' }), { flexGrow: String(rest) });
    const segments = parts.map((it) => it.segment);
    const items = parts.map((it) => it.item);
    fill(this.bar, segments, rest > 0 && empty);
    fill(this.legend, items);
    const again = key ? this.keys.indexOf(key) : -1;
    if (again >= 0) this.legend.children[again]!.querySelector('button')!.focus();
  }
}
