// What the reader has chosen. It lives in the URL's fragment, so that a link shows what one saw.

import type { Metric } from './view';

export type Theme = 'auto' | 'light' | 'dark';
export type Shape = 'icicle' | 'flame' | 'callers';
export type Order = 'heavy' | 'name' | 'time';
/** What stands above the graph: samples over time, or each second's as a column of a heat map. */
export type Strip = 'rate' | 'offsets';
export type Axis = 'run' | 'window';
/** How times are told: from the beginning of the load, or by the wall clock. */
export type ClockKind = 'run' | 'wall';
export type SortBy = 'self' | 'total' | 'change' | 'name';
/** Rows of the function table: functions of the language with the native code below them, or all functions by name. */
export type FunctionsShown = 'language' | 'raw';
/** What the work of Erlang processes is split by. */
export type SplitBy = 'process' | 'role' | 'connection' | 'vhost';

export interface State {
  /** Chosen seconds of the run; null for the measured phase. */
  window: readonly [number, number] | null;
  /** What the time axis shows: the whole run, or the window alone. */
  axis: Axis;
  clock: ClockKind;
  /** The event whose profile is shown; empty for the first. */
  event: string;
  strip: Strip;
  /** Node of the profile's tree that fills the graph. */
  zoom: number | null;
  /** Frame whose share over time is shown. */
  frame: number | null;
  /** Function whose samples alone the graph shows. */
  focus: number | null;
  /** Functions that are left out of all stacks: what they did counts for their callers. */
  hide: readonly number[];
  /** Whether a function that calls itself is one frame. */
  collapse: boolean;
  /** Whether the graph is coloured by the difference between the window and the rest of the measured phase. */
  difference: boolean;
  search: string;
  shape: Shape;
  order: Order;
  sort: SortBy;
  table: FunctionsShown;
  by: SplitBy;
  /** The key of whose samples alone the graph shows; empty for all. */
  who: string;
  /** The class whose samples alone the graph shows; empty for all. */
  class: string;
  metric: Metric | null;
  /** Panels that are shown although they are not at first, or the other way round. */
  panels: readonly string[];
  theme: Theme;
}

export const INITIAL: State = {
  window: null,
  axis: 'run',
  clock: 'run',
  event: '',
  strip: 'rate',
  zoom: null,
  frame: null,
  focus: null,
  hide: [],
  collapse: false,
  difference: false,
  search: '',
  shape: 'icicle',
  order: 'heavy',
  sort: 'self',
  table: 'language',
  by: 'process',
  who: '',
  class: '',
  metric: null,
  panels: [],
  theme: 'auto',
};

/** The fragment of a state, without `#`; only what differs from the initial state. */
export function toFragment(state: State): string {
  const out = new URLSearchParams();
  if (state.window) out.set('t', state.window.map((t) => Number(t.toFixed(3))).join('-'));
  if (state.axis !== INITIAL.axis) out.set('axis', state.axis);
  if (state.clock !== INITIAL.clock) out.set('clock', state.clock);
  if (state.event) out.set('event', state.event);
  if (state.strip !== INITIAL.strip) out.set('strip', state.strip);
  if (state.zoom !== null) out.set('zoom', String(state.zoom));
  if (state.frame !== null) out.set('frame', String(state.frame));
  if (state.focus !== null) out.set('focus', String(state.focus));
  if (state.hide.length > 0) out.set('hide', state.hide.join('.'));
  if (state.collapse) out.set('recursion', 'collapsed');
  if (state.difference) out.set('difference', 'rest');
  if (state.search) out.set('search', state.search);
  if (state.shape !== INITIAL.shape) out.set('shape', state.shape);
  if (state.order !== INITIAL.order) out.set('order', state.order);
  if (state.sort !== INITIAL.sort) out.set('sort', state.sort);
  if (state.table !== INITIAL.table) out.set('table', state.table);
  if (state.by !== INITIAL.by) out.set('by', state.by);
  if (state.who) out.set('who', state.who);
  if (state.class) out.set('class', state.class);
  if (state.metric) out.set('metric', state.metric);
  for (const panel of state.panels) out.append('panel', panel);
  if (state.theme !== INITIAL.theme) out.set('theme', state.theme);
  return out.toString();
}

/** The state of a fragment; whatever makes no sense is left at its initial value. */
export function fromFragment(fragment: string): State {
  const input = new URLSearchParams(fragment.replace(/^#/, ''));
  const one = <T extends string>(key: string, allowed: readonly T[], otherwise: T): T => {
    const value = input.get(key);
    return allowed.find((a) => a === value) ?? otherwise;
  };
  const index = (key: string): number | null => {
    const value = input.get(key);
    return value !== null && /^\d{1,9}$/.test(value) ? Number(value) : null;
  };
  const times = /^(-?\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(input.get('t') ?? '');
  const from = Number(times?.[1]);
  const to = Number(times?.[2]);
  return {
    window: times && from < to ? [from, to] : null,
    axis: one('axis', ['run', 'window'], INITIAL.axis),
    clock: one('clock', ['run', 'wall'], INITIAL.clock),
    event: /^[\w:@-]{1,140}$/.exec(input.get('event') ?? '')?.[0] ?? '',
    strip: one('strip', ['rate', 'offsets'], INITIAL.strip),
    zoom: index('zoom'),
    frame: index('frame'),
    focus: index('focus'),
    hide: /^\d{1,9}(?:\.\d{1,9}){0,99}$/.test(input.get('hide') ?? '')
      ? input.get('hide')!.split('.').map(Number)
      : INITIAL.hide,
    collapse: input.get('recursion') === 'collapsed',
    difference: input.get('difference') === 'rest',
    search: input.get('search') ?? '',
    shape: one('shape', ['icicle', 'flame', 'callers'], INITIAL.shape),
    order: one('order', ['heavy', 'name', 'time'], INITIAL.order),
    sort: one('sort', ['self', 'total', 'change', 'name'], INITIAL.sort),
    table: one('table', ['language', 'raw'], INITIAL.table),
    by: one('by', ['process', 'role', 'connection', 'vhost'], INITIAL.by),
    who: input.get('who') ?? '',
    class: /^[a-z_]{1,64}$/.exec(input.get('class') ?? '')?.[0] ?? '',
    metric: /^[a-z0-9_]{1,64}$/.exec(input.get('metric') ?? '')?.[0] ?? null,
    panels: input.has('panel')
      ? input
          .getAll('panel')
          .filter((it) => it.length <= 300)
          .slice(0, 200)
      : INITIAL.panels,
    theme: one('theme', ['auto', 'light', 'dark'], INITIAL.theme),
  };
}

/** The moment under the pointer, common to all panels; not part of the address. */
export class Pointer {
  private readonly listeners: ((time: number | null) => void)[] = [];
  private time: number | null = null;

  get(): number | null {
    return this.time;
  }

  listen(listener: (time: number | null) => void): void {
    this.listeners.push(listener);
  }

  set(time: number | null): void {
    if (time === this.time) return;
    this.time = time;
    for (const listener of this.listeners) listener(time);
  }
}

type Listener = (state: State, changed: ReadonlySet<keyof State>) => void;

/** Holds the state, tells whoever listens, and keeps the fragment in step. */
export class Store {
  private listeners: Listener[] = [];
  state: State;

  constructor(
    fragment: string,
    private readonly publish: (fragment: string, step: boolean) => void,
  ) {
    this.state = fromFragment(fragment);
  }

  listen(listener: Listener): void {
    this.listeners.push(listener);
  }

  /** Changes part of the state. A `step` can be gone back to with the browser's own button. */
  set(change: Partial<State>, step = false): void {
    if (this.apply({ ...this.state, ...change })) this.publish(toFragment(this.state), step);
  }

  /** Takes over a fragment that came from outside: the back button, an edited address. */
  load(fragment: string): void {
    this.apply(fromFragment(fragment));
  }

  private apply(next: State): boolean {
    const keys = Object.keys(next) as (keyof State)[];
    const changed = new Set(keys.filter((k) => String(next[k]) !== String(this.state[k])));
    if (changed.size === 0) return false;
    this.state = next;
    for (const listener of this.listeners) listener(next, changed);
    return true;
  }
}
