// Colours. The page's are CSS variables, read once per theme; those of frames are computed here:
// one hue family per kind of code, a shade per module, the same in every run.

import type { Kind } from './data';
import type { Class, EventKind } from './view';

const COLORS = ['paper', 'ink', 'soft', 'faint', 'line', 'shade', 'send', 'receive', 'delay', 'accent'] as const;

export type Palette = Record<(typeof COLORS)[number], string> & { dark: boolean; font: string };

let known: { theme: string; palette: Palette } | null = null;

export function palette(): Palette {
  // What the style sheet's colours depend on. To read them, the browser settles all that was changed before.
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const theme = `${document.documentElement.dataset.theme},${dark}`;
  if (known?.theme !== theme) known = { theme, palette: read() };
  return known.palette;
}

function read(): Palette {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const colors = Object.fromEntries(COLORS.map((name) => [name, value(name)]));
  return { ...(colors as Record<(typeof COLORS)[number], string>), dark: value('dark') === '1', font: value('sans') };
}

/**
 * Hue, and chroma in OKLCH, of each kind, whose lightness carries the module; and its place within the one family of hues
 * that an event other than time on CPU has.
 */
const FAMILIES: Record<Kind, readonly [hue: number, chroma: number, shade: number]> = {
  erlang: [72, 0.115, 0],
  java: [48, 0.115, 1],
  runtime: [305, 0.075, 2],
  libc: [195, 0.06, 4],
  kernel: [250, 0.075, 5],
  native: [15, 0.085, 3],
  unknown: [0, 0, 0],
  thread: [80, 0.008, 0],
};

/** Memory is green and waiting blue, as those of `flamegraph.pl` are; the kinds of code are shades of it. */
function family(kind: Kind, event: EventKind): readonly [hue: number, chroma: number] {
  const [hue, chroma, shade] = FAMILIES[kind];
  if (chroma < 0.02) return [hue, chroma];
  if (event === 'memory') return [122 + shade * 12, 0.12 - shade * 0.01];
  if (event === 'off_cpu') return [218 + shade * 12, 0.05 + shade * 0.009];
  return [hue, chroma];
}

export const KIND_LABELS: Partial<Record<Kind, string>> = { erlang: 'Erlang', java: 'Java' };

/** FNV-1a over UTF-16 units: small, and the same everywhere. */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    value = Math.imul(value ^ text.charCodeAt(i), 0x01000193) >>> 0;
  }
  return value;
}

/** What a frame's shade depends on: Erlang code all lives in `[jit]`, so its module is its name's. */
export function shadeKey(kind: Kind, name: string, module: string): string {
  return kind === 'erlang' ? name.replace(/^\$/, '').split(':', 1)[0]! : module;
}

/** The fill of a frame; the ink on it is dark in both themes. */
export function frameColor(kind: Kind, key: string, dark: boolean, event: EventKind = 'on_cpu'): string {
  const [hue, chroma] = family(kind, event);
  const spread = hash(key) / 0xffffffff;
  const base = kind === 'thread' ? (dark ? 0.62 : 0.86) : dark ? 0.68 : 0.8;
  const lightness = base + (kind === 'thread' || kind === 'unknown' ? 0 : (spread - 0.5) * 0.11);
  const turn = chroma < 0.02 ? 0 : (((hash(key + '~') >>> 8) % 1000) / 1000 - 0.5) * 14;
  return `oklch(${lightness.toFixed(3)} ${chroma} ${(hue + turn).toFixed(1)})`;
}

/** The colour of a kind without a module, for legends. */
export function kindColor(kind: Kind, dark: boolean, event: EventKind = 'on_cpu'): string {
  const [hue, chroma] = family(kind, event);
  return `oklch(${kind === 'thread' ? (dark ? 0.62 : 0.86) : dark ? 0.68 : 0.8} ${chroma} ${hue})`;
}

/** More and less than elsewhere: Okabe and Ito's orange and sky blue, which people tell apart who see red and green alike. */
export const MORE = '#e69f00';
export const LESS = '#56b4e9';

/** Neither more nor less, and a difference that chance gives as well; the ink on both is dark in both themes. */
export function sameColor(dark: boolean): string {
  return dark ? '#f4f3f0' : '#ffffff';
}

export function unprovenColor(dark: boolean): string {
  return dark ? '#8d8c89' : '#cdccca';
}

/** The colour of a difference of shares, beside the largest, which has the full colour. */
export function differenceColor(difference: number, proven: boolean, full: number, dark: boolean): string {
  // It is written as 0.00 points.
  if (Math.abs(difference) < 0.00005) return sameColor(dark);
  return changeColor(difference, proven, full, dark);
}

/** The same of a change of anything: grey where it is not proven. */
export function changeColor(change: number, proven: boolean, full: number, dark: boolean): string {
  if (!proven || !(full > 0)) return unprovenColor(dark);
  // The faintest can be told from white.
  const strength = 20 + 80 * Math.min(1, Math.abs(change) / full);
  return mixed(change > 0 ? MORE : LESS, sameColor(dark), strength / 100);
}

/** Two `#rrggbb` colours in one, so much of the first: a canvas reads this ten times as fast as `color-mix`. */
function mixed(one: string, other: string, share: number): string {
  const [a, b] = [one, other].map((color) => Number.parseInt(color.slice(1), 16)) as [number, number];
  const part = (shift: number): number => Math.round(((a >> shift) & 255) * share + ((b >> shift) & 255) * (1 - share));
  return `rgb(${part(16)}, ${part(8)}, ${part(0)})`;
}

/** The family of each class, and how much its lightness, chroma and hue differ: what runs in the kernel is blue here too. */
const CLASSES: Record<Class, readonly [kind: Kind, light: number, strong?: number, turn?: number]> = {
  erlang_code: ['erlang', 0],
  java_code: ['java', 0],
  own_code: ['native', 0],
  libraries: ['native', 0.06, -0.03],
  built_in_functions: ['runtime', 0.03],
  ets: ['runtime', -0.05, 0.02],
  messages: ['runtime', 0.07, -0.01, 30],
  garbage_collection: ['libc', -0.07, 0.04, -45],
  allocators: ['libc', 0.03, 0.03, -45],
  ports: ['libc', -0.02],
  scheduling: ['erlang', 0.06, -0.07, 20],
  waiting: ['unknown', 0.05],
  kernel_network: ['kernel', -0.1, 0.02],
  kernel_disk: ['kernel', -0.04, 0.01],
  kernel_memory: ['kernel', 0.01],
  kernel_scheduling: ['kernel', 0.05, -0.02],
  kernel_other: ['kernel', 0.09, -0.04],
  virtual_machine: ['runtime', 0.08, -0.05],
  unnamed: ['unknown', -0.12],
};

/** The colour of a class; the ink on it is dark in both themes. */
export function classColor(of: Class, dark: boolean, event: EventKind = 'on_cpu'): string {
  const [kind, light, strong = 0, apart = 0] = CLASSES[of];
  const [hue, chroma] = family(kind, event);
  const turn = event === 'on_cpu' ? apart : apart / 4;
  const lightness = (dark ? 0.68 : 0.8) + light;
  return `oklch(${lightness.toFixed(3)} ${(chroma + strong).toFixed(3)} ${hue + turn})`;
}

/** The colour of a heat map's cell, 0 to 1: one hue; lightness falls on light paper and rises on dark, evenly in both. */
export function heatColor(level: number, dark: boolean): string {
  const l = dark ? 0.3 + 0.56 * level : 0.945 - 0.53 * level;
  const c = dark ? 0.045 + 0.075 * level : 0.018 + 0.115 * level;
  return `oklch(${l.toFixed(3)} ${c.toFixed(3)} ${(245 + 12 * level).toFixed(0)})`;
}
