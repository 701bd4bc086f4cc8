// Where it burned: samples over time, flame graph and function table, all of the same window.

import { png, svg } from '../charts/export';
import { Panel, type Shared } from '../charts/panel';
import { KINDS, type Profile } from '../core/data';
import { button, choice, csv, fill, h, save } from '../core/dom';
import { counted, percent, seconds, significant } from '../core/format';
import type { Pointer, State, Store } from '../core/state';
import { KIND_LABELS, kindColor, palette } from '../core/theme';
import type { RunView } from '../core/view';
import { Analysis } from '../flame/analysis';
import { FlameCanvas, type Scene } from '../flame/canvas';
import { byName, byWeight, type Compare } from '../flame/layout';
import { remarkOn } from '../flame/remarks';
import { folded, overTime, type Tree, type Weights } from '../flame/tree';
import { ClassBar, chosenClass } from './classes';
import { FunctionTable, sorted } from './functions';
import { sampling } from './sampling';
import { clampWindow, effectiveWindow, type View, wholeName } from './timeline';
import { chosen, WorkTable } from './work';

/** SVG elements and their height. */
type Part = { body: string[]; height: number };

type Result = { hits: Uint8Array; share: number; frames: number } | null;

/** The profile's section. Split into parts that each own some elements and one `draw`. */
export function burn(run: RunView, profile: Profile, store: Store, pointer: Pointer): View {
  const analysis = new Analysis(profile);
  const facts = h('p', { class: 'facts' });
  const info = h('p', { class: 'hint' });
  const open = (node: number): void => {
    const frame = analysis.tree.frame[node]!;
    // The first click zooms, the second on the same frame shows its share over time.
    if (store.state.zoom === node) {
      store.set({ frame: store.state.frame === frame ? null : frame }, true);
    } else store.set({ zoom: node }, true);
  };
  const graph = new FlameCanvas(
    profile,
    'Flame graph. Arrow keys move between frames, Enter zooms, Escape goes back. The function table holds the same as text.',
    open,
  );
  const pair = callersAndCallees(analysis, store);
  const table = new FunctionTable(profile, store);
  const classes = new ClassBar(profile, store);
  const work = profile.processes.length > 0 ? new WorkTable(profile, store) : null;
  const strip = timeStrip(run, analysis, store, pointer);
  const finder = searchBox(store);
  const legend = h('p', { class: 'kinds' });
  const controls = toolbar(run, analysis, store, () => {
    const part = (store.state.shape === 'callers' ? pair : graph).svg(8);
    const width = split.querySelector('.graph')!.clientWidth;
    const height = part.height + 16;
    return { text: svg(width, height, palette(), part.body), width, height };
  });
  const window_ = windowInputs(run, store);
  const split = h(
    'div',
    { class: 'split' },
    h('div', { class: 'graph' }, graph.element, pair.element, info, legend),
    h('div', {}, work?.element ?? null, table.element),
  );
  const element = h(
    'section',
    { id: 'burn', 'aria-labelledby': 'burn-title' },
    h(
      'header',
      {},
      h('h2', { id: 'burn-title' }, 'Where it burned'),
      profile.timed ? window_.element : null,
    ),
    facts,
    known(profile),
    profile.timed ? strip.element : null,
    classes.element,
    h('div', { class: 'bar-row' }, finder.element, controls),
    split,
  );

  const draw = (): void => {
    const p = palette();
    const [from, to] = effectiveWindow(run, store);
    const { state } = store;
    const only = onlyOf(profile, state);
    analysis.window(from, to, only.flags, only.index);
    const result: Result = state.search ? analysis.find(state.search) : null;
    finder.show(result, analysis.weights.sum);
    const width = split.querySelector('.graph')!.clientWidth;
    const two = state.shape === 'callers';
    graph.element.hidden = two;
    pair.element.hidden = !two;
    const scene: Scene = {
      tree: analysis.tree,
      weights: analysis.weights,
      compare: comparison(analysis.tree, analysis.weights, profile, store),
      upward: state.shape === 'flame',
      zoom: zoomOf(store, profile),
      hits: result?.hits ?? null,
      frame: state.frame,
      sum: analysis.weights.sum,
    };
    if (width > 0) {
      if (two) pair.draw(width, scene);
      else graph.draw(scene, width, p, printing() ? 4000 : undefined);
    }
    classes.draw(analysis, p.dark);
    work?.draw(analysis);
    table.draw(analysis, scene.zoom, result?.hits ?? null, p.dark);
    drawLegend(legend, analysis, p.dark);
    window_.show();
    const name = state.window ? 'window' : wholeName(run);
    fill(facts, sampling(run, profile, [from, to], name).join(' · '));
    const frame = state.frame ?? (scene.zoom === null ? null : analysis.tree.frame[scene.zoom]!);
    const remark = frame !== null && frame < profile.names.length ? remarkOn(profile, frame) : '';
    fill(info, hint(store, only.label), remark && h('span', {}, ` ${remark}`));
  };
  store.listen((_, changed) => {
    if (['window', 'frame', 'who', 'class'].some((key) => changed.has(key as keyof State)))
      strip.draw();
    const own = [
      'window',
      'zoom',
      'frame',
      'search',
      'shape',
      'order',
      'sort',
      'by',
      'who',
      'class',
    ] as const;
    if (own.some((key) => changed.has(key))) draw();
  });
  return {
    element,
    draw: () => {
      strip.draw(true);
      draw();
    },
  };
}

/** The node that fills the graph; null for all. */
function zoomOf(store: Store, profile: Profile): number | null {
  const { zoom } = store.state;
  return zoom !== null && zoom < profile.nodes ? zoom : null;
}

function printing(): boolean {
  return document.documentElement.classList.contains('printing');
}

/** The samples that were chosen: whose they are, and of which class. */
interface Only {
  /** Empty where all are. */
  label: string;
  flags: Uint8Array | null;
  index: number | null;
}

function onlyOf(profile: Profile, { by, who, class: key }: State): Only {
  const whose = chosen(profile, by, who);
  const of = chosenClass(profile, key);
  const labels = [of?.label, whose?.label].filter((it) => it !== undefined);
  return {
    label: labels.join(' of '),
    flags: whose?.flags ?? null,
    index: of?.index ?? null,
  };
}

function hint(store: Store, only: string): string {
  if (only !== '' && store.state.zoom === null)
    return `Only ${only}; shares are of all samples; click it again, or Escape, for all.`;
  if (store.state.zoom !== null)
    return 'Click the frame again for its share over time, Escape to go back.';
  return 'Click a frame to zoom; narrow frames are left out.';
}

function comparison(tree: Tree, weights: Weights, profile: Profile, store: Store): Compare {
  return store.state.order === 'name'
    ? byName(tree, profile.names)
    : byWeight(tree, weights, profile.names);
}

/** The kinds of code by self share: legend and first answer in one. */
function drawLegend(element: HTMLElement, analysis: Analysis, dark: boolean): void {
  const { profile } = analysis;
  const sums = new Array<number>(KINDS.length).fill(0);
  for (const row of analysis.rows) sums[profile.kind[row.frame]!]! += row.self;
  const order = sums.map((sum, i) => ({ sum, kind: KINDS[i]! })).filter((k) => k.sum > 0);
  fill(
    element,
    order
      .sort((a, b) => b.sum - a.sum)
      .map(({ sum, kind }) => {
        const swatch = h('i', { class: 'swatch' });
        swatch.style.background = kindColor(kind, dark);
        return h(
          'span',
          { title: `self share of ${KIND_LABELS[kind]} code` },
          swatch,
          `${KIND_LABELS[kind]} ${percent(sum / analysis.weights.sum)}`,
        );
      }),
  );
}

/** Callers above, callees below the selected function. */
function callersAndCallees(
  analysis: Analysis,
  store: Store,
): { element: HTMLElement; draw(width: number, scene: Scene): void; svg(top: number): Part } {
  const { profile } = analysis;
  const title = h('p', { class: 'sandwich' });
  let trees: [Tree, Tree] | null = null;
  const select = (which: 0 | 1) => (node: number) => {
    const frame = trees?.[which].frame[node];
    if (frame !== undefined) store.set({ frame }, true);
  };
  const upper = new FlameCanvas(profile, 'Callers of the selected function', select(0));
  const lower = new FlameCanvas(profile, 'Callees of the selected function', select(1));
  const element = h('div', {}, title, upper.element, lower.element);
  return {
    element,
    svg: (top) => {
      if (!trees) return { body: [], height: 0 };
      const above = upper.svg(top);
      const below = lower.svg(top + above.height);
      return { body: [...above.body, ...below.body], height: above.height + below.height };
    },
    draw: (width, scene) => {
      const { frame: chosen } = store.state;
      const known = chosen !== null && chosen < profile.names.length;
      const frame = known ? chosen : analysis.hottest();
      upper.element.hidden = frame === null;
      lower.element.hidden = frame === null;
      if (frame === null) {
        trees = null;
        fill(title, 'No sample lies in this window.');
        return;
      }
      fill(
        title,
        'Callers above, callees below ',
        h('b', {}, profile.names[frame]!),
        known ? null : ', the function with the largest self share; choose another in the table',
      );
      const above = analysis.callers(frame);
      const below = analysis.callees(frame);
      trees = [above.tree, below.tree];
      const p = palette();
      const part = { sum: scene.sum, zoom: null, hits: scene.hits, frame: null };
      upper.draw(
        {
          ...above,
          ...part,
          upward: true,
          compare: comparison(above.tree, above.weights, profile, store),
        },
        width,
        p,
        260,
      );
      lower.draw(
        {
          ...below,
          ...part,
          upward: false,
          compare: comparison(below.tree, below.weights, profile, store),
        },
        width,
        p,
        320,
      );
    },
  };
}

/** What is known of patterns in the stacks, each with its source; null where there is none. */
function known({ known, timed }: Profile): HTMLElement | null {
  if (known.length === 0) return null;
  const lead = timed ? 'Known, of the whole run: ' : 'Known: ';
  return h(
    'ul',
    { class: 'known', 'aria-label': 'Known patterns' },
    known.map(({ text, source }) =>
      h('li', {}, h('b', {}, lead), `${text}. `, h('a', { href: source }, host(source))),
    ),
  );
}

/** What a link says of where it leads. */
const host = (url: string): string => url.replace(/^https:\/\/(www\.)?/, '');

/** Samples over time in cores, and the selected function's part of them. */
function timeStrip(
  run: RunView,
  analysis: Analysis,
  store: Store,
  pointer: Pointer,
): { element: HTMLElement; draw(force?: boolean): void } {
  const { profile } = analysis;
  const element = h('div', { class: 'charts strip' });
  const [from, to] = run.span;
  const width = Math.max(0.25, Math.ceil((to - from) / 300));
  const bins = Math.max(1, Math.ceil((to - from) / width));
  const shared: Shared = {
    t: Array.from({ length: bins }, (_, i) => from + i * width),
    dt: new Array<number>(bins).fill(width),
    visible: () => run.span,
    phases: run.phases,
    events: run.events,
    stalls: run.stalls,
    window: () => effectiveWindow(run, store),
    chosen: () => store.state.window !== null,
    choose: (a, b) => store.set({ window: clampWindow(run.span, a, b) }, true),
    hover: (t) => pointer.set(t),
  };
  let panel: Panel | null = null;
  pointer.listen((t) => {
    panel?.cross(t);
    panel?.pointer(t);
  });
  let drawn = '';
  const draw = (force = false): void => {
    const { frame } = store.state;
    const known = frame !== null && frame < profile.names.length ? frame : null;
    const only = onlyOf(profile, store.state);
    const key = `${known} ${only.index} ${only.flags} ${only.label}`;
    if (panel && !force && key === drawn) {
      panel.refresh();
      return;
    }
    drawn = key;
    const { all, part } = overTime(
      profile,
      analysis.tree,
      known,
      from,
      width,
      bins,
      only.flags,
      only.index,
    );
    const inCores = profile.period_ns > 0;
    // Waits of one second each second are one thread that waits.
    const isTime = profile.unit === 'nanoseconds';
    const scale = (inCores ? profile.period_ns / 1e9 : isTime ? 1e-9 : 1) / width;
    const rate = inCores ? 'cores' : isTime ? 'threads' : '';
    const format = (v: number): string => `${significant(v)} ${rate || `${profile.unit}/s`}`;
    const trim = (values: Float64Array): (number | null)[] => Array.from(values, (v) => v * scale);
    const parts = [known === null ? '' : profile.names[known]!, only.label];
    const name = parts.filter((part) => part !== '').join(' in ');
    const spec = {
      id: 'samples',
      title: name === '' ? 'samples over time' : name,
      unit: `${rate || `${profile.unit} per second`}${name === '' ? '' : ', of all samples'}`,
      height: 62,
      lines: [
        {
          label: name === '' ? 'sampled' : 'all samples',
          values: trim(all),
          color: (p: ReturnType<typeof palette>) => (name === '' ? p.ink : p.faint),
          format,
          width: 1.25,
          area: name === '',
        },
        ...(name === ''
          ? []
          : [
              {
                label: known === null ? 'these samples' : 'this function',
                values: trim(part),
                color: (p: ReturnType<typeof palette>) => p.accent,
                format,
                area: true,
              },
            ]),
      ],
    };
    panel = new Panel(spec, shared, () => true);
    element.replaceChildren(panel.element);
    if (element.clientWidth > 0) panel.draw(element.clientWidth, palette());
  };
  return { element, draw };
}

/** The regular expression, and what it found. */
function searchBox(store: Store): {
  element: HTMLElement;
  show(result: Result, sum: number): void;
} {
  const input = h('input', {
    type: 'search',
    id: 'search',
    placeholder: 'search: regular expression  ( / )',
    'aria-label': 'Search functions by regular expression',
    spellcheck: 'false',
    autocomplete: 'off',
    oninput: () => store.set({ search: input.value }),
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
        result && ` of samples, ${counted(result.frames, 'function')}`,
      );
    },
  };
}

function toolbar(
  run: RunView,
  analysis: Analysis,
  store: Store,
  picture: () => { text: string; width: number; height: number },
): HTMLElement {
  const { profile } = analysis;
  const shape = choice(
    'shape',
    [
      ['icicle', 'icicle', 'Root at the top'],
      ['flame', 'flame', 'Root at the bottom'],
      ['callers', 'callers & callees', 'Around the function selected in the table'],
    ],
    store.state.shape,
    (v) => store.set({ shape: v }),
  );
  const order = choice(
    'order',
    [
      ['heavy', 'heaviest first', 'Left-heavy'],
      ['name', 'by name', 'Alphabetical'],
    ],
    store.state.order,
    (v) => store.set({ order: v }),
  );
  const back = button('whole graph', () => store.set({ zoom: null }, true), { class: 'quiet' });
  const sync = (): void => {
    shape.set(store.state.shape);
    order.set(store.state.order);
    back.disabled = store.state.zoom === null;
  };
  store.listen(sync);
  sync();
  const name = `${run.id}-${profile.event}`;
  return h(
    'div',
    { class: 'tools' },
    shape.element,
    order.element,
    back,
    button('SVG', () => save(`${name}.svg`, picture().text, 'image/svg+xml'), {
      title: 'Save the graph as SVG',
    }),
    button(
      'PNG',
      () => {
        const { text, width, height } = picture();
        void png(text, width, height).then((blob) => save(`${name}.png`, blob));
      },
      { title: 'Save the graph as PNG' },
    ),
    button(
      'folded',
      () => save(`${name}.folded`, folded(profile, analysis.tree, analysis.weights)),
      {
        title: 'Save the stacks of the window, folded',
      },
    ),
    button('CSV', () => save(`${name}-functions.csv`, functionCsv(analysis, store), 'text/csv'), {
      title: 'Save the function table as CSV',
    }),
  );
}

function functionCsv(analysis: Analysis, store: Store): string {
  const { profile, weights } = analysis;
  const rows = sorted(analysis.rowsBelow(zoomOf(store, profile)), store.state.sort, profile.names);
  return csv([
    [
      'function',
      'module',
      `self_${profile.unit}`,
      `total_${profile.unit}`,
      'self_share',
      'total_share',
    ],
    ...rows.map((r) => [
      profile.names[r.frame]!,
      profile.modules[profile.module[r.frame]!] ?? '',
      r.self,
      r.total,
      r.self / weights.sum,
      r.total / weights.sum,
    ]),
  ]);
}

/** The window as two numbers: the way to it without a pointer. */
function windowInputs(run: RunView, store: Store): { element: HTMLElement; show(): void } {
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
