// The function table: functions of the language with the native code below them, or self and total share of all
// functions, sortable; a row selects the function.

import { KINDS, type Profile } from '../core/data';
import { barCell, breakable, button, type Child, choice, columnHead, fill, h, swatch, tableOf } from '../core/dom';
import { counted, grouped, percent, points, shortened } from '../core/format';
import type { FunctionsShown, SortBy, Store } from '../core/state';
import { classColor, frameColor, shadeKey } from '../core/theme';
import { amount } from '../core/units';
import type { Analysis, FunctionRow } from '../flame/analysis';
import type { Change } from '../flame/difference';
import type { LanguageRow } from '../flame/language';
import type { LineRow } from '../flame/lines';
import { remarkOn } from '../flame/remarks';
import { rowButton } from './work';

type Menu = (frame: number, x: number, y: number) => void;

const STEP = 40;
const FURTHER = 200;
/** Letters of a name: about a line. */
const LONGEST = 33;
/** Letters of a module's name that is shown whole, such as `[jit]`. */
const SHORT = 8;
const MOST_LINES = 12;

/** Rows in the order of a column; equal ones by name. */
export function sorted(rows: readonly FunctionRow[], by: SortBy, names: readonly string[]): FunctionRow[] {
  const name = (a: FunctionRow, b: FunctionRow): number => {
    const x = names[a.frame]!;
    const y = names[b.frame]!;
    return x < y ? -1 : x > y ? 1 : a.frame - b.frame;
  };
  if (by === 'name') return rows.toSorted(name);
  if (by === 'change') {
    const sized = rows.map((row) => ({ row, size: told(row) }));
    sized.sort((a, b) => b.size - a.size || b.row.self - a.row.self || name(a.row, b.row));
    return sized.map(({ row }) => row);
  }
  return rows.toSorted((a, b) => b[by] - a[by] || b.total - a.total || name(a, b));
}

/** How large a change is, whichever way it goes; what chance gives comes last. */
function told({ change }: FunctionRow): number {
  if (!change) return -2;
  return Math.abs(change.here - change.rest) - (change.proven ? 0 : 1);
}

class FunctionTable {
  private readonly body = h('tbody');
  private readonly more = h('div', { class: 'more' });
  private readonly heads = new Map<SortBy, HTMLElement>();
  readonly element: HTMLElement;
  private limit = STEP;

  constructor(
    private readonly profile: Profile,
    private readonly store: Store,
    private readonly menu: Menu,
  ) {
    const head = (by: SortBy, label: string = by): HTMLElement => {
      const sort = button(label, () => store.set({ sort: by }), { title: `Sort by ${label}` });
      const cell = columnHead(sort, by === 'name' ? null : 'num');
      this.heads.set(by, cell);
      return cell;
    };
    const heads = [head('self'), head('total'), head('change'), head('name', 'function')];
    this.element = h('div', {}, tableOf(null, 'Functions of the window', heads, this.body), this.more);
  }

  draw(analysis: Analysis, zoom: number | null, hits: Uint8Array | null, dark: boolean): void {
    const { state } = this.store;
    const rows = analysis.rowsBelow(zoom);
    const { sum } = analysis.weights;
    const compared = analysis.difference !== null;
    this.heads.get('change')!.hidden = !compared;
    for (const [by, cell] of this.heads) {
      const order = by === 'name' ? 'ascending' : 'descending';
      cell.setAttribute('aria-sort', by === state.sort ? order : 'none');
    }
    const wanted = hits ? rows.filter((row) => hits[row.frame]) : rows;
    const list = sorted(wanted, state.sort, this.profile.names);
    const most = { self: 0, total: 0 };
    for (const row of rows) {
      most.self = Math.max(most.self, row.self);
      most.total = Math.max(most.total, row.total);
    }
    fill(
      this.body,
      list.slice(0, this.limit).flatMap((row) => {
        const shown = this.row(row, sum, most, dark);
        if (row.frame !== state.frame) return [shown];
        return [shown, ...this.lines(analysis.lines(row.frame, zoom), sum, most, compared)];
      }),
    );
    fillMore(this.more, list.length, this.limit, 'function', () => {
      this.limit += FURTHER;
      this.draw(analysis, zoom, hits, dark);
    });
  }

  private lines(
    lines: readonly LineRow[],
    sum: number,
    most: { self: number; total: number },
    compared: boolean,
  ): HTMLElement[] {
    const row = (name: string, ...cells: Child[]): HTMLElement =>
      h('tr', { class: 'line' }, cells, h('td', { class: 'name' }, name));
    const shown = lines
      .slice(0, MOST_LINES)
      .map((line) =>
        row(
          line.name || 'at no known line',
          shareCell(this.profile, line.self, most.self, sum),
          shareCell(this.profile, line.total, most.total, sum),
          compared && h('td'),
        ),
      );
    const left = lines.length - shown.length;
    const columns = compared ? '3' : '2';
    return left > 0 ? [...shown, row(`${counted(left, 'more line')} with less`, h('td', { colspan: columns }))] : shown;
  }

  private row(row: FunctionRow, sum: number, most: { self: number; total: number }, dark: boolean): HTMLElement {
    const { profile, store, menu } = this;
    return functionRow(
      store,
      menu,
      row.frame,
      shareCell(profile, row.self, most.self, sum),
      shareCell(profile, row.total, most.total, sum),
      row.change ? changeCell(row.change) : null,
      nameCell(profile, store, row.frame, dark),
    );
  }
}

/** What stands below a table: a button for further rows, or that there are none. */
function fillMore(more: HTMLElement, all: number, limit: number, one: string, show: () => void): void {
  const rest = all - limit;
  const label = `${grouped(Math.min(rest, FURTHER))} more of ${counted(all, one)}`;
  fill(more, all === 0 && 'No function matches.', rest > 0 && button(label, show));
}

function changeCell(change: Change): HTMLElement {
  const { here, rest, proven } = change;
  const difference = points(here - rest);
  const soft = !proven && here !== rest;
  const title = `self ${percent(here)}, in the rest ${percent(rest)}, ${difference} points${soft ? ': chance gives as much' : ''}`;
  return h('td', { class: soft ? 'num unproven' : 'num', title }, soft ? `~ ${difference}` : difference);
}

/** A cell with a share of the window's samples, and a bar. */
function shareCell(profile: Profile, value: number, top: number, sum: number): HTMLElement {
  const title = `${amount(profile, value)} of ${amount(profile, sum)}`;
  return barCell(title, percent(sum > 0 ? value / sum : 0), value, top);
}

/** A row of a function, which the second button and the menu key open the menu of. */
function functionRow(store: Store, menu: Menu, frame: number, ...cells: (HTMLElement | null)[]): HTMLElement {
  return h(
    'tr',
    {
      class: store.state.frame === frame ? 'selected' : null,
      oncontextmenu: (e: MouseEvent) => {
        e.preventDefault();
        const { left, bottom } = (e.target as HTMLElement).getBoundingClientRect();
        const byKey = e.button !== 2;
        menu(frame, byKey ? left : e.clientX, byKey ? bottom : e.clientY);
      },
    },
    cells,
  );
}

function nameCell(profile: Profile, store: Store, frame: number, dark: boolean): HTMLElement {
  const { names, kind, module, modules } = profile;
  const name = names[frame]!;
  const k = KINDS[kind[frame]!] ?? 'unknown';
  const where = modules[module[frame]!] ?? '';
  const remark = remarkOn(profile, frame);
  const selected = store.state.frame === frame;
  const color = frameColor(k, shadeKey(k, name, where), dark, profile.event_kind);
  const choose = (): void => store.set({ frame: selected ? null : frame }, true);
  const label = name.length > LONGEST ? name : null;
  const own = rowButton(selected, label, choose, breakable(shortened(name, LONGEST)));
  const behind = h('span', { class: where.length > SHORT ? 'module' : 'module short' }, where);
  const title = [where ? `${name} in ${where}` : name, remark].filter((it) => it !== '').join('. ');
  return h('td', { class: 'name', title }, h('div', { class: 'cell' }, swatch(color), own, behind));
}

/** The functions of the language with the native code below them, and the classes of all other samples. */
class LanguageTable {
  private readonly body = h('tbody');
  private readonly more = h('div', { class: 'more' });
  readonly element: HTMLElement;
  private limit = STEP;

  constructor(
    private readonly profile: Profile,
    private readonly store: Store,
    private readonly menu: Menu,
  ) {
    const heads = [columnHead('total', 'num'), columnHead('split', 'parts'), columnHead('function')];
    const table = tableOf(null, 'Functions of the window with the code below them', heads, this.body);
    this.element = h('div', {}, table, this.more);
  }

  draw(analysis: Analysis, zoom: number | null, hits: Uint8Array | null, dark: boolean): void {
    const all = analysis.languageRows(zoom);
    const wanted = hits ? all.filter(({ frame }) => frame !== null && hits[frame]) : all;
    const most = all.reduce((top, row) => Math.max(top, row.total), 0);
    const { sum } = analysis.weights;
    const shown = wanted.slice(0, this.limit).map((row) => this.row(row, most, sum, dark));
    fill(this.body, shown);
    fillMore(this.more, wanted.length, this.limit, 'row', () => {
      this.limit += FURTHER;
      this.draw(analysis, zoom, hits, dark);
    });
  }

  private row(row: LanguageRow, most: number, sum: number, dark: boolean): HTMLElement {
    const { profile, store, menu } = this;
    const share = shareCell(profile, row.total, most, sum);
    const parts = this.parts(row, most, sum, dark);
    const { frame, name } = row;
    if (frame === null) return h('tr', {}, share, parts, h('td', { class: 'name' }, name));
    return functionRow(store, menu, frame, share, parts, nameCell(profile, store, frame, dark));
  }

  /** The classes of a row as a bar, in the colours of the bar of all classes, and as text. */
  private parts(row: LanguageRow, most: number, sum: number, dark: boolean): HTMLElement {
    const { classes, event_kind } = this.profile;
    const parts = classes.map((it, i) => ({ ...it, weight: row.classes[i]! })).filter(({ weight }) => weight > 0);
    const share = (weight: number): string => percent(sum > 0 ? weight / sum : 0);
    const texts = parts.toSorted((a, b) => b.weight - a.weight).map(({ name, weight }) => `${name} ${share(weight)}`);
    const segments = parts.map((it) => {
      const segment = h('i');
      segment.style.background = classColor(it.class, dark, event_kind);
      segment.style.flexGrow = String(it.weight);
      return segment;
    });
    const bar = h('div', { 'aria-hidden': 'true' }, segments);
    bar.style.width = `${most > 0 ? (row.total / most) * 100 : 0}%`;
    const text = texts.join(', ');
    return h('td', { class: 'parts', title: text }, bar, h('span', { class: 'hidden' }, text));
  }
}

/** The function table; of a program in Erlang, Java or Go a second one, of the functions of that language. */
export class FunctionTables {
  readonly element: HTMLElement;
  private readonly scope = h('p', { class: 'scope' });
  private readonly place = h('div', {});
  private readonly head: HTMLElement;
  private readonly raw: FunctionTable;
  private readonly language: LanguageTable | null;

  constructor(
    private readonly profile: Profile,
    private readonly store: Store,
    /** What can be done with a function is asked for, at a place of the window. */
    menu: Menu,
  ) {
    this.raw = new FunctionTable(profile, store, menu);
    this.language = profile.language.length > 0 ? new LanguageTable(profile, store, menu) : null;
    const shown = choice<FunctionsShown>(
      'rows',
      [
        ['language', 'with native code below', 'Functions in Erlang, Java or Go'],
        ['raw', 'all by name', 'All functions, native ones too; key r'],
      ],
      store.state.table,
      (table) => store.set({ table }),
    );
    store.listen((state) => shown.set(state.table));
    this.head = h('div', { class: 'work-head' }, h('h3', {}, 'Functions'), shown.element);
    this.element = h('div', { class: 'functions' }, this.head, this.scope, this.place);
    document.addEventListener('keydown', (e) => {
      const { target } = e;
      const typing =
        (target instanceof HTMLInputElement && target.type !== 'radio') || target instanceof HTMLSelectElement;
      const other = typing || e.ctrlKey || e.metaKey || e.altKey || !this.element.isConnected;
      if (e.key !== 'r' || other || this.head.hidden) return;
      store.set({ table: store.state.table === 'raw' ? 'language' : 'raw' });
    });
  }

  /** Shows the functions at and below a node, or all; with `hits` those alone that were found. */
  draw(analysis: Analysis, zoom: number | null, hits: Uint8Array | null, dark: boolean): void {
    const { sum, total } = analysis.weights;
    const top = zoom === null ? '' : this.profile.names[analysis.tree.frame[zoom]!]!;
    const share = zoom === null || sum === 0 ? 0 : total[zoom]! / sum;
    this.scope.hidden = zoom === null;
    fill(this.scope, 'below ', h('b', {}, top), `, ${percent(share)} of all samples`);
    this.head.hidden = this.language === null || analysis.difference !== null;
    const isRaw = this.head.hidden || this.store.state.table === 'raw';
    const table = isRaw || !this.language ? this.raw : this.language;
    if (this.place.firstChild !== table.element) this.place.replaceChildren(table.element);
    table.draw(analysis, zoom, hits, dark);
  }
}
