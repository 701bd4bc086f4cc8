// The page: unpacks the data, builds the sections in the order of the reader's questions.

import 'uplot/dist/uPlot.min.css';
import './style/base.css';
import './style/page.css';
import './style/charts.css';
import './style/comparison.css';
import './style/limit.css';
import './style/profile.css';
import './style/media.css';
import { matrixSheet } from './comparison/matrix';
import { comparisonSheet, partsOf, type Sheet } from './comparison/page';
import { type Page, unpack, unpackView } from './core/data';
import { fill, forgetWidths, h, stateChoice } from './core/dom';
import { visible } from './core/format';
import { Inflater } from './core/inflate';
import { INITIAL, Pointer, type State, Store } from './core/state';
import type { ComparisonView, LimitView, MatrixView, RunView } from './core/view';
import { limitSheet } from './limit/page';
import { burn } from './sections/burn';
import { details } from './sections/details';
import { figures } from './sections/figures';
import { fitNames, glance, headline, masthead, remark } from './sections/head';
import { toggleKeys } from './sections/keys';
import { limit } from './sections/limit';
import { percentiles } from './sections/percentiles';
import { repeats } from './sections/repeats';
import { requirements } from './sections/requirements';
import { markScopes } from './sections/scope';
import { timeline, type View } from './sections/timeline';
import { traces } from './sections/traces';
import { warnings } from './sections/warnings';
import { workers } from './sections/workers';

const root = document.documentElement;

function addressed(): Store {
  return new Store(location.hash, (fragment, step) => {
    const url = `${location.pathname}${location.search}${fragment ? `#${fragment}` : ''}`;
    if (step) history.pushState(null, '', url);
    else history.replaceState(null, '', url);
  });
}

/** Title of the browser's tab: the run, so that several of an experiment are told apart. */
function titleOf({ name, id, created }: RunView): string {
  const parts = [name, id.split('-').at(-1), created.replace('T', ' ').slice(0, 16), 'bellows'];
  return visible(parts.filter(Boolean).join(' · '));
}

function runSheet(page: Page, store: Store): Sheet {
  const { run, profiles } = page;
  const pointer = new Pointer();
  const parts = partsOf(
    null,
    remark(run),
    headline(run),
    glance(page, store),
    timeline(page, store, pointer),
    warnings(run),
    requirements(run),
    repeats(run),
    limit(run, store),
    figures(page, store),
    workers(run),
    traces(run),
    profiles.length > 0 ? burn(page, store, pointer) : null,
    percentiles(page, store),
    details(run),
  );
  markScopes(run, store, parts.main);
  return {
    ...parts,
    masthead: masthead(run),
    version: run.versions.bellows,
    hint: '? keys · the address keeps what you see',
    title: titleOf(run),
  };
}

/** Puts the parts on the page; they are still empty. */
function show(sheet: Sheet, store: Store, app: HTMLElement): View[] {
  const { main, views } = sheet;
  if (sheet.title) document.title = sheet.title;
  applyTheme(store.state.theme);
  const theme = stateChoice(store, 'theme', 'colours', [
    ['auto', 'auto', 'As the system is set'],
    ['light', 'light'],
    ['dark', 'dark'],
  ]);
  fill(
    app,
    h('header', { class: 'masthead' }, sheet.masthead, theme),
    main,
    h('footer', {}, h('span', {}, `bellows ${sheet.version}`), h('span', {}, sheet.hint)),
  );
  const draw = (): void => {
    forgetWidths();
    fitNames(main);
    for (const view of views) view.draw();
  };
  store.on(['theme'], () => {
    applyTheme(store.state.theme);
    draw();
  });
  follow(store, app, draw);
  fitNames(main);
  return views;
}

/** Waits for a task of its own, before which the browser paints and answers the reader. */
const nextTask = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

/** Draws what the reader sees at once (until `data-ready`), the rest in tasks of their own (until `data-complete`). */
async function drawFirst(views: readonly View[]): Promise<void> {
  const isSeen = ({ element }: View): boolean => element.getBoundingClientRect().top < innerHeight;
  let seen = true;
  for (const view of views) {
    if (seen && !isSeen(view)) {
      seen = false;
      root.dataset.ready = String(Math.round(performance.now()));
    }
    if (!seen) await nextTask();
    await view.prepare?.(seen ? async () => {} : nextTask);
    view.draw();
    // The charts draw themselves when all else that was begun has ended.
    await Promise.resolve();
  }
  const now = String(Math.round(performance.now()));
  root.dataset.ready ??= now;
  root.dataset.complete = now;
}

/** Redraws when the page's width, colours or medium change; keys and the address steer the state. */
function follow(store: Store, app: HTMLElement, draw: () => void): void {
  let width = app.clientWidth;
  const resize = (): void => {
    if (app.clientWidth === width) return;
    width = app.clientWidth;
    requestAnimationFrame(draw);
  };
  // An observer hears of a width when its frame is laid out already: charts of the last one would be in that frame.
  window.addEventListener('resize', resize);
  new ResizeObserver(resize).observe(app);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  window.addEventListener('hashchange', () => store.load(location.hash));
  window.addEventListener('popstate', () => store.load(location.hash));
  window.addEventListener('beforeprint', () => {
    root.classList.add('printing');
    for (const folded of document.querySelectorAll('#warnings details')) {
      folded.toggleAttribute('open', true);
    }
    root.dataset.theme = 'light';
    draw();
  });
  window.addEventListener('afterprint', () => {
    root.classList.remove('printing');
    applyTheme(store.state.theme);
    draw();
  });
  document.addEventListener('keydown', (e) => {
    const typing = e.target instanceof HTMLInputElement && e.target.type !== 'radio';
    if (e.key === '/' && !typing) {
      document.getElementById('search')?.focus();
      e.preventDefault();
    } else if (e.key === '?' && !typing) {
      toggleKeys();
      e.preventDefault();
    } else if (e.key === 'Escape' && back(store)) e.preventDefault();
  });
}

/** One step back: the zoom, then the search, the function, the focus, what is hidden, the class, the process, the time axis, the window. */
function back(store: Store): boolean {
  const { state } = store;
  const order = ['zoom', 'search', 'frame', 'focus', 'hide', 'class', 'who', 'axis', 'window'] as const;
  const key = order.find((it) => String(state[it]) !== String(INITIAL[it]));
  if (!key) return false;
  store.set({ [key]: key === 'hide' ? state.hide.slice(0, -1) : INITIAL[key] }, key !== 'search');
  return true;
}

function applyTheme(theme: State['theme']): void {
  if (theme === 'auto') delete root.dataset.theme;
  else root.dataset.theme = theme;
}

async function sheetOf(kind: string | undefined, packed: Inflater, store: Store): Promise<Sheet> {
  if (kind === 'comparison') return comparisonSheet(await unpackView<ComparisonView>(packed), store);
  if (kind === 'limit') return limitSheet(await unpackView<LimitView>(packed));
  if (kind === 'matrix') return matrixSheet(await unpackView<MatrixView>(packed));
  return runSheet(await unpack(packed), store);
}

async function main(): Promise<void> {
  const app = document.getElementById('app');
  const data = document.getElementById('data')?.firstChild;
  if (!app || !(data instanceof Comment)) return;
  try {
    if (typeof DecompressionStream === 'undefined') {
      throw new Error('this browser cannot unpack the data; Chrome 80, Firefox 113, Safari 16.4 or later can');
    }
    const packed = new Inflater(data.data);
    const store = addressed();
    const sheet = await sheetOf(data.parentElement?.dataset.page, packed, store);
    await drawFirst(show(sheet, store, app));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    fill(app, h('p', { class: 'failed' }, `This report cannot be shown: ${why}`));
    console.error(error);
  }
}

void main();
