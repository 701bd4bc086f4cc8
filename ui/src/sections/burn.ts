// Where it burned: the profile of an event as samples over time, flame graph and function table of the same window.

import type { Part } from '../charts/export';
import { type Clock, clockOf } from '../core/clock';
import { type EventProfile, KINDS, type Page, type Profile } from '../core/data';
import { choice, fill, h, section, stateChoice, styled, swatch, swatches, widthOf, withCode } from '../core/dom';
import { grouped, percent, points, seconds, xml } from '../core/format';
import type { Pause } from '../core/inflate';
import type { Pointer, State, Store } from '../core/state';
import { KIND_LABELS, kindColor, LESS, MORE, palette, sameColor, unprovenColor } from '../core/theme';
import { eventLabel } from '../core/units';
import type { RunView } from '../core/view';
import { Analysis } from '../flame/analysis';
import { flameGraph, type Scene } from '../flame/canvas';
import { type Chronology, MOST_IN_ORDER, ticksOf } from '../flame/chronology';
import type { Difference } from '../flame/difference';
import { remarkOn } from '../flame/remarks';
import { callersAndCallees, comparison } from './callers';
import { classBar } from './classes';
import { functionTables } from './functions';
import { actions, openMenu } from './menu';
import { sampling } from './sampling';
import { type Only, onlyOf, timeStrip } from './strip';
import { effectiveWindow, type View, wholeName, wholeSpan } from './timeline';
import { filters, type Result, searchBox, toolbar, windowInputs } from './tools';
import { workTable } from './work';

/** The section: what is common to all events, and below it the one that was chosen. */
export function burn({ run, profiles, rest }: Page, store: Store, pointer: Pointer): View {
  const chosen = (): EventProfile => profiles.find(({ head }) => head.event === store.state.event) ?? profiles[0]!;
  const views = new Map<EventProfile, EventView>();
  const events = choice<string>(
    'event',
    profiles.map(({ head }) => [head.event, eventLabel(head, run.profiles), `Sampled: ${head.event}`]),
    chosen().head.event,
    (event) => {
      const before = chosen();
      const next = profiles.find(({ head }) => head.event === event);
      const first = next === profiles[0];
      store.set({ event: first ? '' : event, ...carried(store.state, before, next) }, true);
    },
  );
  const strip = stateChoice(store, 'strip', 'samples over time', [
    ['rate', 'over time', 'Samples over time'],
    ['offsets', 'within seconds', 'A heat map: each second is a column, the offsets in it are rows'],
  ]);
  const window_ = windowInputs(run, store);
  const timed = h('div', { class: 'burn-time' }, strip, window_.element);
  const place = h('div', {});
  const element = section('burn', 'Where it burned', [profiles.length > 1 ? events.element : null, timed], place);
  const viewOf = (event: EventProfile): EventView => {
    const known = views.get(event);
    const view = known ?? eventView(run, event.open(), store, pointer, () => chosen() === event);
    views.set(event, view);
    return view;
  };
  let ready = false;
  const prepare = async (pause: Pause): Promise<void> => {
    await rest(pause);
    ready = true;
    chosen().open();
    await pause();
    const view = viewOf(chosen());
    await pause();
    view.count();
    await pause();
  };
  const draw = (): void => {
    if (!ready) return;
    const event = chosen();
    const view = viewOf(event);
    if (place.firstChild !== view.element) place.replaceChildren(view.element);
    timed.hidden = !event.head.timed;
    events.set(event.head.event);
    window_.show();
    view.draw();
  };
  store.on(['event'], draw);
  store.on(['window'], window_.show);
  return { element, draw, prepare };
}

/** What was chosen of one profile, in another: functions are the same by name and module. */
function carried(state: State, from: EventProfile, to: EventProfile | undefined): Partial<State> {
  const [a, b] = [from.head, to?.head];
  const same = (frame: number | null): number | null => {
    if (frame === null || !b) return null;
    const module = (head: typeof a, i: number): string => head.modules[head.module[i]!] ?? '';
    const found = b.names.findIndex((name, i) => name === a.names[frame] && module(b, i) === module(a, frame));
    return found < 0 ? null : found;
  };
  const hide = state.hide.map(same).filter((frame) => frame !== null);
  return { zoom: null, frame: same(state.frame), focus: same(state.focus), hide };
}

type EventView = ReturnType<typeof eventView>;

/** The profile of one event, `active` while that is shown. Split into parts that each own some elements and one `draw`. */
function eventView(run: RunView, profile: Profile, store: Store, pointer: Pointer, active: () => boolean) {
  const analysis = new Analysis(profile);
  const facts = h('p', { class: 'facts' });
  const info = h('p', { class: 'hint' });
  let ordered: Chronology | null = null;
  const open = (node: number): void => {
    const { state } = store;
    const chart = ordered;
    const frame = (chart?.tree ?? analysis.tree).frame[node]!;
    const whole = analysis.wholeOf(node);
    // The first click zooms, the second on the same frame shows its share over time. In the order of time the first
    // shows the share, the second narrows the window to the frame.
    if (chart && state.frame !== frame) store.set({ frame }, true);
    else if (chart) store.set({ window: spanOf(profile, chart, node) }, true);
    else if (state.zoom === whole) {
      store.set({ frame: state.frame === frame ? null : frame }, true);
    } else store.set({ zoom: whole }, true);
  };
  const menu = (frame: number, node: number | null, x: number, y: number): void => {
    const thread = KINDS[profile.kind[frame]!] === 'thread';
    openMenu(store, profile.names[frame]!, actions(store.state, frame, node, thread), x, y);
  };
  const graph = flameGraph(
    profile,
    'Flame graph. Arrow keys move between frames, Enter zooms, the menu key says what else can be done, Escape goes back. The function table holds the same as text.',
    open,
    (node, x, y) => {
      const frame = (ordered?.tree ?? analysis.tree).frame[node]!;
      menu(frame, ordered ? null : analysis.wholeOf(node), x, y);
    },
  );
  const pair = callersAndCallees(analysis, store);
  const table = functionTables(profile, store, (frame, x, y) => menu(frame, null, x, y));
  const classes = classBar(profile, store);
  const work = profile.processes.length > 0 ? workTable(profile, store) : null;
  const strip = timeStrip(run, analysis, store, pointer);
  const finder = searchBox(store);
  const chips = filters(analysis, store);
  const legend = h('p', { class: 'kinds' });
  const controls = toolbar(run, analysis, store, (top) => {
    const width = widthOf(side);
    if (store.state.shape === 'callers') return { ...pair.svg(top), width };
    const above = ordered ? timesSvg(ordered, width, clock, top) : { body: [], height: 0 };
    const part = graph.svg(top + above.height);
    return { body: [...above.body, ...part.body], height: above.height + part.height, width };
  });
  const clock = clockOf(run, store);
  const times = h('div', { class: 'chart-times', 'aria-hidden': 'true' });
  const side = h('div', { class: 'graph' }, times, graph.element, pair.element, info, legend);
  const split = h('div', { class: 'split' }, side, h('div', {}, work?.element ?? null, table.element));
  const element = h(
    'div',
    { class: 'event' },
    facts,
    cost(run),
    known(profile),
    profile.timed ? strip.element : null,
    classes.element,
    h('div', { class: 'bar-row' }, finder.element, controls),
    chips.element,
    split,
  );

  const count = (): Only => {
    const [from, to] = effectiveWindow(run, store);
    const { state } = store;
    const only = onlyOf(profile, state);
    analysis.shape(state);
    const filter = { marked: only.flags, only: only.index, focus: only.focus };
    const beside = state.difference && state.window !== null ? wholeSpan(run) : null;
    analysis.window(from, to, filter, beside);
    return only;
  };
  const draw = (): void => {
    const p = palette();
    const { state } = store;
    const only = count();
    const result: Result = state.search ? analysis.find(state.search) : null;
    finder.show(result);
    const width = widthOf(side);
    const two = state.shape === 'callers';
    const chart = !two && state.order === 'time' && profile.timed ? analysis.inOrder() : 0;
    ordered = typeof chart === 'number' ? null : chart;
    graph.element.hidden = two;
    pair.element.hidden = !two;
    times.hidden = ordered === null;
    if (ordered) drawTimes(times, ordered, width, clock);
    const zoom = analysis.nodeOf(state.zoom);
    const scene: Scene = {
      tree: analysis.tree,
      weights: analysis.weights,
      compare: comparison(analysis.tree, analysis.weights, profile, store),
      upward: state.shape === 'flame',
      zoom,
      hits: result?.hits ?? null,
      frame: state.frame,
      sum: analysis.weights.sum,
      difference: two || ordered ? null : analysis.difference,
    };
    if (width > 0) {
      const drawn = ordered ? { ...scene, ...inOrder(profile, ordered) } : scene;
      if (two) pair.draw(width, scene);
      else graph.draw(drawn, width, p);
    }
    classes.draw(analysis, p.dark);
    work?.draw(analysis);
    table.draw(analysis, zoom, result?.hits ?? null, p.dark);
    chips.draw();
    if (scene.difference) drawDifference(legend, scene.difference, p.dark);
    else drawLegend(legend, analysis, p.dark);
    const name = state.window ? 'window' : wholeName(run);
    fill(facts, sampling(run, profile, effectiveWindow(run, store), name).join(' · '));
    const frame = state.frame ?? (zoom === null ? null : analysis.tree.frame[zoom]!);
    const remark = frame !== null && frame < profile.names.length ? remarkOn(profile, frame) : '';
    fill(info, hint(store, only.label, chart), remark && h('span', {}, ` ${remark}`));
  };
  store.listen((_, changed) => {
    // A change of the event draws all of it.
    if (!active() || changed.has('event')) return;
    if (changed.has('clock')) strip.draw(true);
    const above = ['window', 'frame', 'who', 'class', 'focus', 'strip'] as const;
    if (above.some((key) => changed.has(key))) strip.draw();
    const elsewhere: (keyof State)[] = ['axis', 'metric', 'panels', 'theme', 'strip'];
    if ([...changed].some((key) => !elsewhere.includes(key))) draw();
  });
  return {
    element,
    /** Adds up the samples of the window, which `draw` does otherwise. */
    count,
    draw: () => {
      strip.draw(true);
      draw();
    },
  };
}

/** The ticks of a flame chart's axis: how far right they stand in pixels, and their times. */
function timesOf(chart: Chronology, width: number, clock: Clock): { left: number; text: string }[] {
  const unit = clock.isWall() ? '' : ' s';
  return ticksOf(chart, width).map(({ x, t }) => ({ left: x * width, text: clock.tick(t, 0, 0.5) + unit }));
}

function drawTimes(element: HTMLElement, chart: Chronology, width: number, clock: Clock): void {
  const ticks = timesOf(chart, width, clock).map(({ left, text }) =>
    styled(h('span', { class: 'tick' }, text), { left: `${left}px` }),
  );
  fill(element, ticks);
}

/** Pixels of the axis of a flame chart; the style sheet has them, too. */
const TIMES_PX = 16;

function timesSvg(chart: Chronology, width: number, clock: Clock, top: number): Part {
  const soft = xml(palette().soft);
  const body = timesOf(chart, width, clock).map(
    ({ left, text }) =>
      `<path d="M${left.toFixed(1)} ${top}v${TIMES_PX}" stroke="${soft}"/><text class="time" x="${(left + 4).toFixed(1)}" y="${top + 12}" fill="${soft}">${xml(text)}</text>`,
  );
  return { body, height: TIMES_PX };
}

function inOrder(profile: Profile, chart: Chronology): Partial<Scene> {
  const { tree, weights, from, to, thread } = chart;
  return {
    tree,
    weights,
    compare: (a, b) => a - b,
    zoom: null,
    timed: true,
    label: (node) => (tree.parent[node]! < 0 ? profile.threads[thread[node]!] || null : null),
    note: (node) => `${seconds(from[node]!)} to ${seconds(to[node]!)}`,
  };
}

function spanOf(profile: Profile, chart: Chronology, node: number): readonly [number, number] {
  const milli = (t: number): number => Math.round(t * 1000) / 1000;
  const from = milli(chart.from[node]! - 0.0005);
  return [from, Math.max(from + 0.001, milli(chart.to[node]! + profile.tick_ns / 1e9 + 0.0005))];
}

function hint(store: Store, only: string, chart: Chronology | number): string {
  const { state } = store;
  if (state.order === 'time' && state.shape !== 'callers') {
    if (typeof chart !== 'number')
      return "Each thread's stacks in the order of their time. Click a frame for its share over time, again for its time alone as window.";
    return `${grouped(chart)} samples are too many to stand in the order of their time: choose a window with at most ${grouped(MOST_IN_ORDER)}. Until then the heaviest stand first.`;
  }
  if (only !== '' && state.zoom === null)
    return `Only ${only}; shares are of all samples; click it again, or Escape, for all.`;
  if (state.zoom !== null) return 'Click the frame again for its share over time, Escape to go back.';
  return 'Click a frame to zoom, with the second button for more; narrow frames are left out.';
}

/** The kinds of code by self share: legend and first answer in one. */
function drawLegend(element: HTMLElement, analysis: Analysis, dark: boolean): void {
  const { profile } = analysis;
  const sums = new Array<number>(KINDS.length).fill(0);
  for (const row of analysis.rows) sums[profile.kind[row.frame]!]! += row.self;
  const order = sums.map((sum, i) => ({ sum, kind: KINDS[i]! })).filter((k) => k.sum > 0);
  order.sort((a, b) => b.sum - a.sum);
  const names = order.map(({ sum, kind }) => {
    const name = KIND_LABELS[kind] ?? kind;
    const color = swatch(kindColor(kind, dark, profile.event_kind));
    const share = `${name} ${percent(sum / analysis.weights.sum)}`;
    return h('span', { title: `self share of ${name} code` }, color, share);
  });
  fill(element, names);
}

function drawDifference(element: HTMLElement, difference: Difference, dark: boolean): void {
  const { full, unseen, empty } = difference;
  if (empty) {
    fill(element, 'No sample is left to compare with: choose a smaller window.');
    return;
  }
  const colors = [
    [MORE, 'more than in the rest'],
    [LESS, 'less'],
    [sameColor(dark), 'the same'],
    [unprovenColor(dark), 'not proven: chance gives as much'],
  ] as const;
  fill(
    element,
    swatches(colors),
    h('span', {}, full > 0 ? `full colour: ${points(full).slice(1)} points` : 'no change is proven'),
    unseen > 0 && h('span', {}, `${percent(unseen)} of the rest is in stacks that the window has not`),
  );
}

/** What profiling cost, the first sentence open and how that was found out behind it; nothing where it is not known. */
function cost(run: RunView): HTMLElement | null {
  const [first, ...more] = run.cost_of_profiling;
  if (first === undefined) return null;
  const items = more.map((sentence) => h('li', {}, withCode(sentence)));
  return h('details', { class: 'cost facts' }, h('summary', {}, withCode(first)), h('ul', {}, items));
}

/** What is known of patterns in the stacks, each with its source; null where there is none. */
function known({ known, timed }: Profile): HTMLElement | null {
  if (known.length === 0) return null;
  const lead = timed ? 'Known, of all samples of the run: ' : 'Known: ';
  return h(
    'ul',
    { class: 'known', 'aria-label': 'Known patterns' },
    known.map(({ text, source }) => h('li', {}, h('b', {}, lead), `${text}. `, h('a', { href: source }, host(source)))),
  );
}

const host = (url: string): string => url.replace(/^https:\/\/(www\.)?/, '');
