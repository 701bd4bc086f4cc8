// The first screen: what happened, whether warnings wait below, and the four figures that matter most.

import type { Page } from '../core/data';
import { fill, h, withCode } from '../core/dom';
import { shortened, unbroken } from '../core/format';
import type { Store } from '../core/state';
import type { RunView } from '../core/view';
import { figuresOf } from '../core/window';
import { firstTiles } from './figures';
import { explainMarks } from './percentile-cell';
import { missed } from './requirements';
import type { View } from './timeline';
import { titled, toWarnings, wayDown } from './warnings';

const STATES: Record<RunView['state'], string> = {
  complete: 'complete',
  interrupted: 'stopped by the user',
  failed: 'failed',
  running: 'cut off',
};

export function masthead({ name, versions, created, state, requirements, warnings }: RunView): HTMLElement[] {
  const short = missed(requirements);
  return [
    ...titled(name, [versions.broker, versions.runtime], created),
    h('span', { class: `state ${state}` }, STATES[state]),
    ...(short ? [wayDown(short, 'requirements', true)] : []),
    toWarnings(warnings),
  ];
}

/** What people say of the run; null where nobody said anything. */
export function remark(run: RunView): HTMLElement | null {
  if (!run.remark && run.tags.length === 0) return null;
  const tags = run.tags.map((tag) => h('span', { class: 'tag' }, tag));
  return h('p', { class: 'remark' }, run.remark, tags);
}

/** Letters of a name in the sentence where there is room: 64 of a queue's behind what it is. */
const MOST_LETTERS = 70;
const LINES = 2;

/** The sentence's shortened names, as long as its two lines hold them, or as many as it needs without them. */
export function fitNames(main: HTMLElement): void {
  const sentence = main.querySelector<HTMLElement>('.headline');
  if (!sentence) return;
  const height = Number.parseFloat(getComputedStyle(sentence).lineHeight);
  const lines = (): number => Math.round(sentence.offsetHeight / height);
  for (const name of sentence.querySelectorAll<HTMLElement>('code[title]')) {
    name.dataset.short ??= name.innerText;
    const { short } = name.dataset;
    name.textContent = short;
    const most = Math.max(LINES, lines());
    for (let letters = MOST_LETTERS; letters > short.length; letters -= 3) {
      name.textContent = shortened(name.title, letters);
      if (lines() <= most) break;
      name.textContent = short;
    }
  }
}

export function headline(run: RunView): HTMLElement {
  const why = run.error && [run.error.cause, run.error.value].filter(Boolean).join(': ');
  const sentence = run.headline.map(({ text, code, whole }) =>
    code ? h('code', { title: whole }, text) : unbroken(text),
  );
  return h(
    'div',
    { class: 'lead' },
    h('p', { class: 'headline' }, sentence),
    run.error ? h('p', { class: 'failure' }, h('b', {}, 'The run failed:'), withCode(` ${why}`)) : null,
    run.error?.help ? h('p', { class: 'failure help' }, withCode(run.error.help)) : null,
    run.error?.log ? h('pre', { class: 'failure log' }, run.error.log) : null,
  );
}

export function glance(page: Page, store: Store): View {
  const tiles = h('dl', { class: 'tiles' });
  const element = h('section', { id: 'glance', 'aria-label': 'The most important figures' }, tiles);
  const draw = (): void => {
    const { window } = store.state;
    const { run } = page;
    const shown = window ? { ...run, figures: figuresOf(page, window) } : run;
    fill(tiles, firstTiles(shown, run).slice(0, 4));
    fill(element, tiles);
    explainMarks(element);
  };
  store.on(['window'], draw);
  return { element, draw };
}
