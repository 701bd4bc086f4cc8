// The function table: functions of the language with the native code below them, or self and total share of all
// functions, sortable; a row selects the function.

import { KINDS, type Profile } from '../core/data';
import {
  barCell,
  breakable,
  button,
  type Child,
  columnHead,
  fill,
  h,
  LongTable,
  stateChoice,
  styled,
  swatch,
  tableOf,
} from '../core/dom';
import { counted, grouped, percent, points, shortened } from '../core/format';
import type { State, Store } from '../core/state';
import { classColor, frameColor, shadeKey } from '../core/theme';
import { amount } from '../core/units';
import type { Analysis, FunctionRow } from '../flame/analysis';
import type { Change } from '../flame/difference';
import type { LanguageRow } from '../flame/language';
import type { LineRow } from '../flame/lines';
import { remarkOn } from '../flame/remarks';
import { rowButton } from './work';

/** Asks what can be done with a function, at a place of the window. */
type Menu = (frame: number, x: number, y: number) => void;
type SortBy = State['sort'];

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

/** A table of the functions at and below a node, or of all; with `hits` of those alone that were found. */
interface Shown {
  element: HTMLElement;
  draw(analysis: Analysis, zoom: number | null, hits: Uint8Array | null, dark: boolean): void;
}

function longTable<T>(one: string): LongTable<T> {
  return new LongTable(STEP, FURTHER, (count, all) => `${grouped(count)} more of ${counted(all, one)}`);
}

const NONE = 'No function matches.';

function functionTable(profile: Profile, store: Store, menu: Menu): Shown {
  const head = (by: SortBy, label: string = by): HTMLElement => {
    const sort = button(label, () => store.set({ sort: by }), { title: `Sort by ${label}` });
    return columnHead(sort, by === 'name' ? null : 'num');
  };
  const heads = { self: head('self'), total: head('total'), change: head('change'), name: head('name', 'function') };
  const table = longTable<FunctionRow>('function');
  const element = h('div', {}, tableOf(null, 'Functions of the window', Object.values(heads), table.body), table.more);
  const draw: Shown['draw'] = (analysis, zoom, hits, dark) => {
    const { sort, frame } = store.state;
    const rows = analysis.rowsBelow(zoom);
    const compared = analysis.difference !== null;
    heads.change.hidden = !compared;
    for (const [by, cell] of Object.entries(heads)) {
      const order = by === 'name' ? 'ascending' : 'descending';
      cell.setAttribute('aria-sort', by === sort ? order : 'none');
    }
    const wanted = hits ? rows.filter((row) => hits[row.frame]) : rows;
    const [self, total] = (['self', 'total'] as const).map((of) =>
      rows.reduce((most, row) => Math.max(most, row[of]), 0),
    );
    const shares = (of: { self: number; total: number }): HTMLElement[] => [
      shareCell(profile, of.self, self!, analysis.weights.sum),
      shareCell(profile, of.total, total!, analysis.weights.sum),
    ];
    const rowsOf = (row: FunctionRow): HTMLElement[] => {
      const change = row.change ? changeCell(row.change) : null;
      const name = nameCell(profile, store, row.frame, dark);
      const own = functionRow(store, menu, row.frame, ...shares(row), change, name);
      return row.frame === frame ? [own, ...lineRows(analysis.lines(frame, zoom), shares, compared)] : [own];
    };
    table.draw(sorted(wanted, sort, profile.names), (shown) => shown.flatMap(rowsOf), NONE);
  };
  return { element, draw };
}

function lineRows(lines: readonly LineRow[], shares: (of: LineRow) => HTMLElement[], compared: boolean): HTMLElement[] {
  const row = (name: string, ...cells: Child[]): HTMLElement =>
    h('tr', { class: 'line' }, cells, h('td', { class: 'name' }, name));
  const shown = lines
    .slice(0, MOST_LINES)
    .map((line) => row(line.name || 'at no known line', ...shares(line), compared && h('td')));
  const left = lines.length - shown.length;
  const rest = h('td', { colspan: compared ? 3 : 2 });
  return left > 0 ? [...shown, row(`${counted(left, 'more line')} with less`, rest)] : shown;
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
function languageTable(profile: Profile, store: Store, menu: Menu): Shown {
  const heads = [columnHead('total', 'num'), columnHead('split', 'parts'), columnHead('function')];
  const table = longTable<LanguageRow>('row');
  const caption = 'Functions of the window with the code below them';
  const draw: Shown['draw'] = (analysis, zoom, hits, dark) => {
    const all = analysis.languageRows(zoom);
    const wanted = hits ? all.filter(({ frame }) => frame !== null && hits[frame]) : all;
    const most = all.reduce((top, row) => Math.max(top, row.total), 0);
    const { sum } = analysis.weights;
    const one = (row: LanguageRow): HTMLElement => {
      const share = shareCell(profile, row.total, most, sum);
      const parts = partsCell(profile, row, most, sum, dark);
      const { frame, name } = row;
      if (frame === null) return h('tr', {}, share, parts, h('td', { class: 'name' }, name));
      return functionRow(store, menu, frame, share, parts, nameCell(profile, store, frame, dark));
    };
    table.draw(wanted, (shown) => shown.map(one), NONE);
  };
  return { element: h('div', {}, tableOf(null, caption, heads, table.body), table.more), draw };
}

/** The classes of a row as a bar, in the colours of the bar of all classes, and as text. */
function partsCell(profile: Profile, row: LanguageRow, most: number, sum: number, dark: boolean): HTMLElement {
  const { classes, event_kind } = profile;
  const parts = classes.map((it, i) => ({ ...it, weight: row.classes[i]! })).filter(({ weight }) => weight > 0);
  const share = (weight: number): string => percent(sum > 0 ? weight / sum : 0);
  const texts = parts.toSorted((a, b) => b.weight - a.weight).map(({ name, weight }) => `${name} ${share(weight)}`);
  const segments = parts.map((it) =>
    styled(h('i'), { background: classColor(it.class, dark, event_kind), flexGrow: String(it.weight) }),
  );
  const width = `${most > 0 ? (row.total / most) * 100 : 0}%`;
  const bar = styled(h('div', { 'aria-hidden': 'true' }, segments), { width });
  const text = texts.join(', ');
  return h('td', { class: 'parts', title: text }, bar, h('span', { class: 'hidden' }, text));
}

/** The function table; of a program in Erlang, Java or Go a second one, of the functions of that language. */
export function functionTables(profile: Profile, store: Store, menu: Menu): Shown {
  const raw = functionTable(profile, store, menu);
  const language = profile.language.length > 0 ? languageTable(profile, store, menu) : null;
  const shown = stateChoice(store, 'table', 'rows', [
    ['language', 'with native code below', 'Functions in Erlang, Java or Go'],
    ['raw', 'all by name', 'All functions, native ones too; key r'],
  ]);
  const scope = h('p', { class: 'scope' });
  const place = h('div', {});
  const head = h('div', { class: 'work-head' }, h('h3', {}, 'Functions'), shown);
  const element = h('div', { class: 'functions' }, head, scope, place);
  document.addEventListener('keydown', (e) => {
    const { target } = e;
    const typing =
      (target instanceof HTMLInputElement && target.type !== 'radio') || target instanceof HTMLSelectElement;
    const other = typing || e.ctrlKey || e.metaKey || e.altKey || !element.isConnected;
    if (e.key !== 'r' || other || head.hidden) return;
    store.set({ table: store.state.table === 'raw' ? 'language' : 'raw' });
  });
  const draw: Shown['draw'] = (analysis, zoom, hits, dark) => {
    const { sum, total } = analysis.weights;
    const top = zoom === null ? '' : profile.names[analysis.tree.frame[zoom]!]!;
    const share = zoom === null || sum === 0 ? 0 : total[zoom]! / sum;
    scope.hidden = zoom === null;
    fill(scope, 'below ', h('b', {}, top), `, ${percent(share)} of all samples`);
    head.hidden = language === null || analysis.difference !== null;
    const table = head.hidden || store.state.table === 'raw' || !language ? raw : language;
    if (place.firstChild !== table.element) place.replaceChildren(table.element);
    table.draw(analysis, zoom, hits, dark);
  };
  return { element, draw };
}
