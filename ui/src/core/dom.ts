// Elements without HTML strings: every text is a text node, and its control characters are shown
// as symbols. Names come from brokers and networks.

import { visible } from './format';
import type { State, Store } from './state';

type Attribute = string | number | boolean | null | undefined | ((event: never) => void);
export type Child = Node | string | null | undefined | false;

/** Makes an element. `on…` takes a function, `false` and `null` leave an attribute out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Attribute> = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') {
      element.addEventListener(name.slice(2), value as EventListener);
    } else {
      const text = value === true ? '' : String(value);
      element.setAttribute(name, name === 'title' || name === 'aria-label' ? visible(text) : text);
    }
  }
  add(element, children.flat());
  return element;
}

/** Makes an element of a drawing. */
export function svg<K extends keyof SVGElementTagNameMap>(
  name: K,
  attributes: Record<string, string | number>,
  ...children: (Node | string)[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, typeof value === 'number' ? String(+value.toFixed(2)) : value);
  }
  element.append(...children);
  return element;
}

/** A name that breaks between its parts, such as words behind `_`, before it breaks within one. */
export function breakable(name: string): Child[] {
  const parts = name.split(/(?<=[^_:/.][_:/.]+)(?=[^_:/.\d])/);
  return parts.flatMap((part, i) => (i === 0 ? [part] : [h('wbr'), part]));
}

export function add(parent: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(typeof child === 'string' ? document.createTextNode(visible(child)) : child);
  }
}

export function fill(parent: Element, ...children: (Child | Child[])[]): void {
  parent.replaceChildren();
  add(parent, children.flat());
}

/** A sentence whose parts between backticks are code. */
export function withCode(text: string): Child[] {
  const parts = text.split('`');
  // One without its other is a letter like any.
  if (parts.length % 2 === 0) return [text];
  return parts.map((part, at) => (at % 2 === 1 ? h('code', {}, part) : part));
}

/** A sentence where nothing can be code, such as a tooltip. */
export function withoutCode(text: string): string {
  const parts = text.split('`');
  return parts.length % 2 === 0 ? text : parts.join('');
}

/** A part of the page: its name, what stands beside that (a text is a hint), and what it shows. */
export function section(
  id: string,
  title: string,
  beside: Child | Child[],
  ...children: (Child | Child[])[]
): HTMLElement {
  const hint = (text: Child): Child => (typeof text === 'string' ? h('span', { class: 'hint' }, text) : text);
  return h(
    'section',
    { id, 'aria-labelledby': `${id}-title` },
    h('header', {}, h('h2', { id: `${id}-title` }, title), [beside].flat().map(hint)),
    ...children,
  );
}

/** Widths that were read since the page's own changed. */
let widths = new WeakMap<Element, number>();

/** The width of a box that depends on that of the page alone, remembered: to read it the browser lays the page out. */
export function widthOf(element: Element): number {
  const known = widths.get(element) ?? element.clientWidth;
  // What is hidden has none.
  if (known > 0) widths.set(element, known);
  return known;
}

export function forgetWidths(): void {
  widths = new WeakMap();
}

/** The rows of a table, the first ones, and below them a button for further ones. */
export class LongTable<T> {
  readonly body = h('tbody');
  readonly more = h('div', { class: 'more' });

  constructor(
    private limit: number,
    private readonly further: number,
    /** What the button says of so many rows of all, and of the rest. */
    private readonly label: (count: number, all: number, rest: number) => string,
  ) {}

  draw(all: readonly T[], rows: (shown: readonly T[]) => Child[], none = ''): void {
    const rest = all.length - this.limit;
    const show = (): void => {
      this.limit += this.further;
      this.draw(all, rows);
    };
    fill(this.body, rows(all.slice(0, this.limit)));
    const label = this.label(Math.min(rest, this.further), all.length, rest);
    fill(this.more, all.length === 0 && none, rest > 0 && button(label, show));
  }
}

export function button(
  label: string,
  action: () => void,
  attributes: Record<string, Attribute> = {},
): HTMLButtonElement {
  return h('button', { type: 'button', onclick: action, ...attributes }, label);
}

type Options<T extends string> = readonly (readonly [value: T, label: string, title?: string])[];

const MOST_BUTTONS = 5;

/** Radio buttons drawn as one segmented control; many options are a list that unfolds. */
export function choice<T extends string>(label: string, options: Options<T>, value: T, change: (value: T) => void) {
  if (options.length > MOST_BUTTONS) {
    const onchange = (): void => change(element.value as T);
    const all = options.map(([key, text]) => h('option', { value: key }, text));
    const element = h('select', { 'aria-label': label, onchange }, all);
    const set = (next: T): void => {
      element.value = next;
    };
    set(value);
    return { element, set };
  }
  const group = `g${Math.random().toString(36).slice(2)}`;
  const inputs = options.map(([key]) =>
    h('input', { type: 'radio', name: group, value: key, onchange: () => change(key) }),
  );
  const labels = options.map(([, text, title], i) => h('label', { title }, inputs[i], h('span', {}, text)));
  // A value that is none of the options is that of another page.
  const set = (next: T): void => {
    const input = inputs.find((it) => it.value === next) ?? inputs[0];
    if (input) input.checked = true;
  };
  set(value);
  return { element: h('fieldset', { class: 'choice' }, h('legend', { class: 'hidden' }, label), labels), set };
}

/** A choice of a part of the state, in step with it; `also` changes with it. */
export function stateChoice<K extends keyof State>(
  store: Store,
  key: K,
  label: string,
  options: Options<State[K] & string>,
  also: (value: State[K]) => Partial<State> = () => ({}),
): HTMLElement {
  const change = (value: State[K]): void => store.set({ [key]: value, ...also(value) });
  const { element, set } = choice(label, options, store.state[key] as State[K] & string, change);
  store.on([key], () => set(store.state[key] as State[K] & string));
  return element;
}

/** The name of a column; of numbers, which stand on its right. */
export type Head = string | { number: string };

export function table(caption: string, heads: readonly Head[], rows: readonly (readonly Child[])[]): HTMLTableElement {
  const names = heads.map((it) => (typeof it === 'string' ? it : it.number));
  const kinds = heads.map((it) => (typeof it === 'string' ? null : 'num'));
  const head = names.map((name, i) => columnHead(name, kinds[i]));
  const row = (of: readonly Child[]): HTMLElement => {
    const cells = of.map((cell, i) => h('td', { class: kinds[i] }, cell));
    return h('tr', {}, cells);
  };
  const body = h('tbody', {}, rows.map(row));
  return h('table', {}, h('caption', {}, caption), h('thead', {}, h('tr', {}, head)), body);
}

/** A column of a table: its name, and what a row shows in it; false where the table has none such. */
export type Column<T> = false | readonly [Head, (row: T, at: number) => Child];

export function tableOfColumns<T>(caption: string, rows: readonly T[], all: readonly Column<T>[]): HTMLTableElement {
  const columns = all.filter((it) => it !== false);
  const heads = columns.map(([head]) => head);
  return table(
    caption,
    heads,
    rows.map((row, at) => columns.map(([, cell]) => cell(row, at))),
  );
}

export function columnHead(label: Child, kind?: string | null): HTMLElement {
  return h('th', { scope: 'col', class: kind }, label);
}

/** A table around rows that are made elsewhere; its caption is not seen. It scrolls in itself. */
export function tableOf(kind: string | null, caption: string, heads: Child[], body: HTMLElement): HTMLElement {
  const hidden = h('caption', { class: 'hidden' }, caption);
  return scrolling(h('table', { class: kind }, hidden, h('thead', {}, h('tr', {}, heads)), body));
}

/** A cell of a number with a bar behind it, as long as its part of the largest. */
export function barCell(title: string, text: string, value: number, most: number): HTMLElement {
  const cell = h('td', { class: 'num bar', title }, text);
  cell.style.setProperty('--w', `${most > 0 ? (value / most) * 100 : 0}%`);
  return cell;
}

/** Names and their values as a table, without those that are not known. */
export function pairs(caption: string, rows: readonly (readonly [string, Child])[]): HTMLElement | null {
  const known = rows.filter(([, v]) => v !== null && v !== '' && v !== undefined);
  if (known.length === 0) return null;
  const body = known.map(([k, v]) => h('tr', {}, h('th', { scope: 'row' }, k), h('td', {}, v)));
  return h('table', { class: 'pairs' }, h('caption', {}, caption), h('tbody', {}, body));
}

/** A part that scrolls in itself where it is too wide for the page. */
export function scrolling(part: Child, attributes: Record<string, Attribute> = {}): HTMLElement {
  return h('div', { class: 'scroll', ...attributes }, part);
}

/** Sentences below a part of the page, an item each. */
export function remarkList(...texts: Child[]): HTMLElement {
  const items = texts.map((text) => text && h('li', {}, typeof text === 'string' ? withCode(text) : text));
  return h('ul', { class: 'hint remarks' }, items);
}

export function styled<E extends HTMLElement>(element: E, style: Partial<CSSStyleDeclaration>): E {
  Object.assign(element.style, style);
  return element;
}

export function swatch(color: string, kind = 'swatch'): HTMLElement {
  return styled(h('i', { class: kind }), { background: color });
}

export function swatches(colors: readonly (readonly [string, string])[]): HTMLElement[] {
  return colors.map(([color, text]) => h('span', {}, swatch(color, 'swatch edged'), text));
}

/** Calls `make` when the details are opened for the first time: tables behind charts cost nothing. */
export function later(summary: string, make: () => Node): HTMLDetailsElement {
  const element = h('details', { class: 'behind' }, h('summary', {}, summary));
  const open = (): void => {
    if (element.childElementCount === 1) element.append(make());
  };
  element.addEventListener('toggle', open, { once: true });
  return element;
}

/** The way to a page that lies below this one; null where there is none. */
export function wayTo(path: readonly string[]): string | null {
  return path.length === 0 ? null : path.map(encodeURIComponent).join('/');
}

export function save(name: string, content: string | Blob, type = 'text/plain'): void {
  const blob = typeof content === 'string' ? new Blob([content], { type }) : content;
  const url = URL.createObjectURL(blob);
  const link = h('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Text as CSV: quoted where needed, and never a formula for a spreadsheet. */
export function csv(rows: readonly (readonly (string | number | null)[])[]): string {
  const cell = (value: string | number | null): string => {
    if (value === null) return '';
    if (typeof value === 'number') return String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(',')).join('\n') + '\n';
}
