// Numbers as people read them: three significant digits, a unit that suits the value, and the
// exact value for the hover text. Durations print exactly as the console prints them.

const NARROW = '\u202f';

/** Digits grouped by thousands: `54,800`. */
export function grouped(value: number, decimals = 0): string {
  const [whole, fraction] = Math.abs(value).toFixed(decimals).split('.') as [string, string?];
  const sign = value < 0 && Number(value.toFixed(decimals)) !== 0 ? '-' : '';
  const digits = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return sign + digits + (fraction ? '.' + fraction : '');
}

/** Three significant digits without an exponent: `0.0123`, `1.20`, `54,800`. */
export function significant(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const rounded = Number(value.toPrecision(3));
  const magnitude = Math.floor(Math.log10(Math.abs(rounded)));
  return grouped(rounded, Math.min(12, Math.max(0, 2 - magnitude)));
}

const PREFIXES = ['', 'k', 'M', 'G'];
const TIMES = ['ns', 'µs', 'ms', 's'];
const BYTES = ['B', 'kB', 'MB', 'GB', 'TB'];
/** From this part of a unit on a value rounds up to it. */
const NEARLY = 0.9995;

/** The largest unit that a value reaches, or a part of it, and how large it is. */
function unitOf(units: readonly string[], value: number, part = 1): readonly [number, string] {
  let at = 0;
  while (at < units.length - 1 && value >= 1000 ** (at + 1) * part) at++;
  return [1000 ** at, units[at]!];
}

/** Three significant digits with a decimal prefix: `54.8 k`, `1.20 M`. */
export function si(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (Math.abs(value) < 999.5) return Number.isInteger(value) ? String(value) : significant(value);
  const [scale, prefix] = unitOf(PREFIXES, Math.abs(value), NEARLY);
  return significant(value / scale) + NARROW + prefix;
}

/** The same for the ticks of an axis: no more digits than the value needs. */
export function siTick(value: number): string {
  const [scale, prefix] = unitOf(PREFIXES, Math.abs(value));
  const text = String(Number((value / scale).toPrecision(6)));
  return prefix ? text + NARROW + prefix : text;
}

/** A duration in nanoseconds: `812 ns`, `4.21 ms`, `31.0 s`. */
export function duration(ns: number): string {
  if (!Number.isFinite(ns)) return '–';
  if (ns < 1000) return `${Math.round(ns)} ns`;
  const [scale, unit] = unitOf(TIMES, ns, NEARLY);
  const value = ns / scale;
  return `${value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${unit}`;
}

/** How far a duration may be off, in the unit that stands behind that: `0.08` of `1.24 ms`. */
export function offBy(ns: number, unit: string): string {
  const at = Math.max(0, TIMES.indexOf(unit));
  return String(Number((ns / 1000 ** at).toPrecision(2)));
}

/** A tick of a latency axis: `1 ms`, `100 µs`. */
export function durationTick(ns: number): string {
  if (ns === 0) return '0';
  const [scale, unit] = unitOf(TIMES, ns);
  return `${Number((ns / scale).toPrecision(3))} ${unit}`;
}

export function exactDuration(ns: number): string {
  return `${grouped(ns)} ns`;
}

/** A share (0 to 1) in per cent, three digits at most: `9.50 %`, `0.03 %`, `100 %`. */
export function percent(share: number): string {
  const value = share * 100;
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0 %';
  if (value < 0.01) return '< 0.01 %';
  return `${value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0)} %`;
}

/** A difference of two shares in percentage points: `+1.20`, `-0.03`, `0.00`. */
export function points(difference: number): string {
  const text = (difference * 100).toFixed(2);
  if (text === '-0.00' || text === '0.00') return '0.00';
  return difference > 0 ? `+${text}` : text;
}

/** Megabytes (10^6 bytes) as MB or GB. */
export function megabytes(mb: number): string {
  return mb >= 999.5 ? `${significant(mb / 1e3)} GB` : `${significant(mb)} MB`;
}

/** A number of bytes: `812 B`, `4.10 kB`, `1.20 GB`. */
export function bytes(count: number): string {
  if (!Number.isFinite(count)) return '–';
  const [scale, unit] = unitOf(BYTES, Math.abs(count), NEARLY);
  return `${significant(count / scale)} ${unit}`;
}

/** A tick of an axis of bytes: `1.5 MB`. */
export function bytesTick(count: number): string {
  const [scale, unit] = unitOf(BYTES, Math.abs(count));
  return `${Number((count / scale).toPrecision(6))} ${unit}`;
}

/** A text of at most so many characters: cut behind a word where one ends there, with an ellipsis. */
export function brief(text: string, most: number): string {
  const characters = [...text];
  if (characters.length <= most) return text;
  const kept = characters.slice(0, Math.max(1, most - 1)).join('');
  const words = characters[most - 1] === ' ' ? kept : kept.replace(/\s+\S*$/, '');
  const end = words.length >= kept.length * 0.6 ? words : kept;
  return `${end.replace(/[\s,;:(]+$/, '')}…`;
}

/** The end of a name, which tells it from others that begin alike: of so many characters at most, the first an ellipsis. */
export function ending(name: string, most: number): string {
  const characters = [...name];
  return characters.length <= most ? name : `…${characters.slice(1 - most).join('')}`;
}

/** A moment on the run's axis: `12.3 s`. */
export function seconds(t: number): string {
  return `${Number(t.toFixed(3))} s`;
}

/** A tick of the time axis; minutes once the run is long. */
export function timeTick(t: number, spanSeconds: number): string {
  if (spanSeconds <= 180) return String(Number(t.toFixed(3)));
  const whole = Math.round(t);
  const sign = whole < 0 ? '-' : '';
  const size = Math.abs(whole);
  const rest = String(size % 60).padStart(2, '0');
  const minutes = Math.floor(size / 60);
  if (minutes < 60) return `${sign}${minutes}:${rest}`;
  return `${sign}${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}:${rest}`;
}

/** A moment by the wall clock in UTC: `00:12:43`, with so many decimals of a second. */
export function wallClock(unixMs: number, decimals = 0): string {
  const scale = 10 ** Math.max(0, 3 - decimals);
  const rounded = new Date(Math.round(unixMs / scale) * scale);
  return rounded.toISOString().slice(11, decimals > 0 ? 20 + decimals : 19);
}

const STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
  14_400, 21_600, 43_200, 86_400,
] as const;

/** The smallest step of a time axis of so many seconds or more. */
export function timeStep(least: number): number {
  return STEPS.find((step) => step >= least) ?? Math.ceil(least / 86_400) * 86_400;
}

/** A suffix that a compiler or linker puts behind a function's name. */
const SUFFIX = /^(?:part|constprop|isra|cold|llvm|lto_priv|abi0)\b|^\d/;

/** Where the parts of a function's name begin: behind each `::` or `.` outside of brackets. */
function partsOf(name: string): number[] {
  const parts: number[] = [];
  let depth = 0;
  for (let i = 0; i < name.length; i++) {
    const c = name[i]!;
    if ('<([{'.includes(c)) depth++;
    else if ('>)]}'.includes(c)) depth = Math.max(0, depth - 1);
    else if (depth > 0) continue;
    else if (c === ' ') return [];
    else if (name.startsWith('::', i)) parts.push(++i + 1);
    else if (c === '.' && i > 0 && !SUFFIX.test(name.slice(i + 1))) parts.push(i + 1);
  }
  // What has no name of its own, such as a closure, keeps that of what it is in.
  return parts.filter((at) => /^[\w$(~]/.test(name.slice(at)));
}

/** The forms of a function's name: the whole, without its module, part by part, without its arity; the bare name last. */
export function nameForms(name: string): string[] {
  const erlang = /^(?:\$[^:]+|[\w@.]+(?=:[^:]+\/\d+$)):(.+?)(\/\d+)?$/.exec(name);
  if (erlang) {
    const [, own = '', arity] = erlang;
    return arity ? [name, own + arity, own] : [name, own];
  }
  return [name, ...partsOf(name).map((at) => name.slice(at))];
}

/** Fewer letters of a name that had to be cut say nothing. */
const LEAST_LETTERS = 8;
/** No box has room for more of a name that is cut. */
const MOST_LETTERS = 256;

/** The longest form of a function's name that fits, else the bare name cut in the middle; empty if too little is left. */
export function fittedName(name: string, fits: (text: string) => boolean): string {
  const forms = nameForms(name);
  const whole = forms.find(fits);
  if (whole !== undefined) return whole;
  const bare = forms.at(-1)!;
  let [low, high] = [0, Math.min(bare.length - 1, MOST_LETTERS)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (fits(shortened(bare, middle))) low = middle;
    else high = middle - 1;
  }
  return low < LEAST_LETTERS ? '' : shortened(bare, low);
}

/** The name of a percentile, from its nines: `p50`, `p99.9`. */
export const PERCENTILES = [
  ['p50', 50, 'p50_ns'],
  ['p90', 90, 'p90_ns'],
  ['p99', 99, 'p99_ns'],
  ['p99.9', 99.9, 'p99.9_ns'],
  ['p99.99', 99.99, 'p99.99_ns'],
] as const;
/** Those that short tables and charts have. */
export const MAIN_PERCENTILES = PERCENTILES.filter(([name]) => name !== 'p90' && name !== 'p99.99');

/** Whether at least ten samples lie beyond a percentile, so that its value says something. */
export function supports(count: number, percentile: number): boolean {
  return count * Math.round((100 - percentile) * 1000) >= 10 * 100_000;
}

/** Control and direction characters as symbols, so that a name can neither hide nor reorder. */
export function visible(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]/g, (c) => {
    const code = c.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return '\u2421';
    return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, '0')}\u27e9`;
  });
}

/** A text within XML. */
export function xml(text: string): string {
  return visible(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

/** A name in so many letters at most, cut in the middle: what tells names of one origin apart stands at the end. */
export function shortened(name: string, most: number): string {
  const letters = Array.from(name);
  if (letters.length <= most) return name;
  const tail = Math.floor((most - 1) / 2);
  const head = letters.slice(0, most - 1 - tail);
  return `${head.join('')}…${letters.slice(letters.length - tail).join('')}`;
}

/** A number of things: `1 message`, `2,000 messages`. */
export function counted(count: number, one: string): string {
  return `${grouped(count)} ${plural(count, one)}`;
}

/** The word for so many of a thing: `message`, `messages`. */
export function plural(count: number, one: string): string {
  if (count === 1) return one;
  if (one.endsWith('y')) return `${one.slice(0, -1)}ies`;
  return one.endsWith('s') ? `${one}es` : `${one}s`;
}

/** The text with each value kept beside its unit: narrow screens break sentences at any blank. */
export const unbroken = (text: string): string =>
  text.replace(/(\d) (?=(?:msg\/s|M|[nµm]?s|min|%|[kMG]?B|cores?)(?![\w/]))/gu, '$1\u00a0');

/** One that was due at the phase's end may end behind it: the count has it, the rate has not. */
export function inDrain(completed: number, rate: number, measured_s: number): string {
  const late = Math.round(completed - rate * measured_s);
  return late >= 2 && late > completed * 0.005 ? ` (${grouped(late)} in the drain)` : '';
}
