// What the reader has chosen. It lives in the URL's fragment, so that a link shows what one saw.

import type { Metric } from './view';

/** From one second of the run to another, or between other numbers. */
export type Stretch = readonly [number, number];
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
  window: Stretch | null;
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
  const changed = (...keys: (keyof State)[]): void => {
    for (const key of keys) if (state[key] !== INITIAL[key]) out.set(key, String(state[key]));
  };
  if (state.window) out.set('t', state.window.map((t) => Number(t.toFixed(3))).join('-'));
  changed('axis', 'clock', 'event', 'strip', 'zoom', 'frame', 'focus');
  if (state.hide.length > 0) out.set('hide', state.hide.join('.'));
  if (state.collapse) out.set('recursion', 'collapsed');
  if (state.difference) out.set('difference', 'rest');
  changed('search', 'shape', 'order', 'sort', 'table', 'by', 'who', 'class', 'metric');
  for (const panel of state.panels) out.append('panel', panel);
  changed('theme');
  return out.toString();
}

/** The state of a fragment; whatever makes no sense is left at its initial value. */
export function fromFragment(fragment: string): State {
  const input = new URLSearchParams(fragment.replace(/^#/, ''));
  const one = <K extends keyof State>(key: K, ...others: State[K][]): State[K] =>
    others.find((it) => it === input.get(key)) ?? INITIAL[key];
  const text = (key: string, pattern: RegExp): string | undefined => pattern.exec(input.get(key) ?? '')?.[0];
  const index = (key: string): number | null => {
    const value = text(key, /^\d{1,9}$/);
    return value === undefined ? null : Number(value);
  };
  const times = /^(-?\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(input.get('t') ?? '');
  const from = Number(times?.[1]);
  const to = Number(times?.[2]);
  const panels = input.getAll('panel').filter((it) => it.length <= 300);
  return {
    window: times && from < to ? [from, to] : null,
    axis: one('axis', 'window'),
    clock: one('clock', 'wall'),
    event: text('event', /^[\w:@-]{1,140}$/) ?? '',
    strip: one('strip', 'offsets'),
    zoom: index('zoom'),
    frame: index('frame'),
    focus: index('focus'),
    hide:
      text('hide', /^\d{1,9}(?:\.\d{1,9}){0,99}$/)
        ?.split('.')
        .map(Number) ?? INITIAL.hide,
    collapse: input.get('recursion') === 'collapsed',
    difference: input.get('difference') === 'rest',
    search: input.get('search') ?? '',
    shape: one('shape', 'flame', 'callers'),
    order: one('order', 'name', 'time'),
    sort: one('sort', 'total', 'change', 'name'),
    table: one('table', 'raw'),
    by: one('by', 'role', 'connection', 'vhost'),
    who: input.get('who') ?? '',
    class: text('class', /^[a-z_]{1,64}$/) ?? '',
    metric: text('metric', /^[a-z0-9_]{1,64}$/) ?? null,
    panels: panels.slice(0, 200),
    theme: one('theme', 'light', 'dark'),
  };
}

/** The moment under the pointer, common to all panels; not part of the address. */
export class Pointer {
  private readonly listeners: ((time: number | null) => void)[] = [];
  time: number | null = null;

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

  /** Calls `action` whenever one of these has changed. */
  on(keys: readonly (keyof State)[], action: () => void): void {
    this.listen((_, changed) => {
      if (keys.some((key) => changed.has(key))) action();
    });
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
