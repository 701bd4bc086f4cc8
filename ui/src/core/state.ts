// What the reader has chosen. It lives in the URL's fragment, so that a link shows what one saw.

import type { Metric } from './view';

/** From one second of the run to another, or between other numbers. */
export type Stretch = readonly [number, number];
/** A part of the state: its value at first, how the fragment's text is read and written, and its name there. */
interface Field<T> {
  initial: T;
  /** The value of the first text of its name, or of all of them; undefined for nonsense. */
  read(text: string, all: string[]): T | undefined;
  write?(value: T): string | string[];
  name?: string;
}

function oneOf<T extends string>(...all: [T, ...T[]]): Field<T> {
  return { initial: all[0], read: (text) => all.find((it) => it === text) };
}

function flag(name: string, on: string): Field<boolean> {
  return { initial: false, read: (text) => text === on, write: () => on, name };
}

function matching<T extends string | null>(initial: T, pattern: RegExp): Field<T | string> {
  return { initial, read: (text) => pattern.exec(text)?.[0] };
}

const index: Field<number | null> = { initial: null, read: (text) => (/^\d{1,9}$/.test(text) ? +text : undefined) };

function readWindow(text: string): Stretch | undefined {
  const [, from, to] = (/^(-?\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text) ?? []).map(Number);
  return from! < to! ? [from!, to!] : undefined;
}

const fields = <T extends Record<string, unknown>>(all: { [K in keyof T]: Field<T[K]> }) => all;

const FIELDS = fields({
  /** Chosen seconds of the run; null for the measured phase. */
  window: {
    initial: null as Stretch | null,
    read: readWindow,
    write: (value) => value!.map((t) => Number(t.toFixed(3))).join('-'),
    name: 't',
  },
  /** What the time axis shows: the whole run, or the window alone. */
  axis: oneOf('run', 'window'),
  /** How times are told: from the beginning of the load, or by the wall clock. */
  clock: oneOf('run', 'wall'),
  /** The event whose profile is shown; empty for the first. */
  event: matching('', /^[\w:@-]{1,140}$/),
  /** What stands above the graph: samples over time, or each second's as a column of a heat map. */
  strip: oneOf('rate', 'offsets'),
  /** Node of the profile's tree that fills the graph. */
  zoom: index,
  /** Frame whose share over time is shown. */
  frame: index,
  /** Function whose samples alone the graph shows. */
  focus: index,
  /** Functions that are left out of all stacks: what they did counts for their callers. */
  hide: {
    initial: [] as readonly number[],
    read: (text) => (/^\d{1,9}(?:\.\d{1,9}){0,99}$/.test(text) ? text.split('.').map(Number) : undefined),
    write: (value) => value.join('.'),
  },
  /** Whether a function that calls itself is one frame. */
  collapse: flag('recursion', 'collapsed'),
  /** Whether the graph is coloured by the difference between the window and the rest of the measured phase. */
  difference: flag('difference', 'rest'),
  search: matching('', /^.*$/s),
  shape: oneOf('icicle', 'flame', 'callers'),
  order: oneOf('heavy', 'name', 'time'),
  sort: oneOf('self', 'total', 'change', 'name'),
  /** Rows of the function table: functions of the language with the native code below them, or all functions by name. */
  table: oneOf('language', 'raw'),
  /** What the work of Erlang processes is split by. */
  by: oneOf('process', 'role', 'connection', 'vhost'),
  /** The key of whose samples alone the graph shows; empty for all. */
  who: matching('', /^.*$/s),
  /** The class whose samples alone the graph shows; empty for all. */
  class: matching('', /^[a-z_]{1,64}$/),
  metric: matching<Metric | null>(null, /^[a-z0-9_]{1,64}$/),
  /** Panels that are shown although they are not at first, or the other way round. */
  panels: {
    initial: [] as readonly string[],
    read: (_, all) => all.filter((it) => it.length <= 300).slice(0, 200),
    write: (value) => [...value],
    name: 'panel',
  },
  theme: oneOf('auto', 'light', 'dark'),
});

export type State = { [K in keyof typeof FIELDS]: (typeof FIELDS)[K]['initial'] };

const KEYS = Object.keys(FIELDS) as (keyof State)[];

export const INITIAL: State = fromFragment('');

/** The fragment of a state, without `#`; only what differs from the initial state. */
export function toFragment(state: State): string {
  const pairs = KEYS.flatMap((key) => {
    const { initial, write = String, name = key } = FIELDS[key] as Field<unknown>;
    const texts = String(state[key]) === String(initial) ? [] : [write(state[key])].flat();
    return texts.map((text) => [name, text]);
  });
  return new URLSearchParams(pairs).toString();
}

/** The state of a fragment; whatever makes no sense is left at its initial value. */
export function fromFragment(fragment: string): State {
  const input = new URLSearchParams(fragment.replace(/^#/, ''));
  const values = KEYS.map((key) => {
    const { initial, read, name = key } = FIELDS[key] as Field<unknown>;
    const all = input.getAll(name);
    return [key, all[0] === undefined ? initial : (read(all[0], all) ?? initial)];
  });
  return Object.fromEntries(values) as State;
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
    const changed = new Set(KEYS.filter((k) => String(next[k]) !== String(this.state[k])));
    if (changed.size === 0) return false;
    this.state = next;
    for (const listener of this.listeners) listener(next, changed);
    return true;
  }
}
