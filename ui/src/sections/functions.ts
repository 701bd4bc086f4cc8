// The function table: self and total share of the window, sortable, a row selects the function.

import type { Profile } from '../core/data';
import { KINDS } from '../core/data';
import { button, fill, h } from '../core/dom';
import { counted, grouped, percent, points, shortened } from '../core/format';
import type { SortBy, Store } from '../core/state';
import { frameColor, shadeKey } from '../core/theme';
import { amount } from '../core/units';
import type { Analysis, FunctionRow } from '../flame/analysis';
import type { Change } from '../flame/difference';
import type { LineRow } from '../flame/lines';
import { remarkOn } from '../flame/remarks';

const STEP = 40;
/** Letters of a name: about a line. */
const LONGEST = 33;
/** Lines of the chosen function. */
const MOST_LINES = 12;

/** Rows in the order of a column; equal ones by name. */
export function sorted(
  rows: readonly FunctionRow[],
  by: SortBy,
  names: readonly string[],
): FunctionRow[] {
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

export class FunctionTable {
  readonly element: HTMLElement;
  private readonly body = h('tbody');
  private readonly more = h('div', { class: 'more' });
  private readonly scope = h('p', { class: 'scope' });
  private readonly heads = new Map<SortBy, HTMLElement>();
  private limit = STEP;

  constructor(
    private readonly profile: Profile,
    private readonly store: Store,
    /** What can be done with a function is asked for, at a place of the window. */
    private readonly menu: (frame: number, x: number, y: number) => void,
  ) {
    const head = (by: SortBy, label: string, number: boolean): HTMLElement => {
      const cell = h(
        'th',
        { scope: 'col', class: number ? 'num' : null },
        button(label, () => store.set({ sort: by }), { title: `Sort by ${label}` }),
      );
      this.heads.set(by, cell);
      return cell;
    };
    this.element = h(
      'div',
      { class: 'functions' },
      this.scope,
      h(
        'div',
        { class: 'scroll' },
        h(
          'table',
          {},
          h('caption', { class: 'hidden' }, 'Functions of the window'),
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              head('self', 'self', true),
              head('total', 'total', true),
              head('change', 'change', true),
              head('name', 'function', false),
            ),
          ),
          this.body,
        ),
      ),
      this.more,
    );
  }

  /** Shows the functions at and below a node, or all; with `hits` those alone that were found. */
  draw(analysis: Analysis, zoom: number | null, hits: Uint8Array | null, dark: boolean): void {
    const { state } = this.store;
    const rows = analysis.rowsBelow(zoom);
    const { sum, total } = analysis.weights;
    const top = zoom === null ? '' : this.profile.names[analysis.tree.frame[zoom]!]!;
    const share = zoom === null || sum === 0 ? 0 : total[zoom]! / sum;
    this.scope.hidden = zoom === null;
    fill(this.scope, 'below ', h('b', {}, top), `, ${percent(share)} of all samples`);
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
        const lines = analysis.lines(row.frame, zoom);
        return [shown, ...this.lines(lines, sum, most, compared)];
      }),
    );
    const rest = list.length - this.limit;
    fill(
      this.more,
      list.length === 0 && 'No function matches.',
      rest > 0 &&
        button(
          `${grouped(Math.min(rest, 200))} more of ${counted(list.length, 'function')}`,
          () => {
            this.limit += 200;
            this.draw(analysis, zoom, hits, dark);
          },
        ),
    );
  }

  /** The lines of the chosen function, below it. */
  private lines(
    lines: readonly LineRow[],
    sum: number,
    most: { self: number; total: number },
    compared: boolean,
  ): HTMLElement[] {
    const shown = lines
      .slice(0, MOST_LINES)
      .map((line) =>
        h(
          'tr',
          { class: 'line' },
          this.share(line.self, most.self, sum),
          this.share(line.total, most.total, sum),
          compared ? h('td') : null,
          h('td', { class: 'name' }, line.name || 'at no known line'),
        ),
      );
    const left = lines.length - shown.length;
    if (left > 0) {
      const columns = compared ? '3' : '2';
      const text = `${counted(left, 'more line')} with less`;
      shown.push(
        h('tr', { class: 'line' }, h('td', { colspan: columns }), h('td', { class: 'name' }, text)),
      );
    }
    return shown;
  }

  /** A cell with a share of the window's samples, and a bar. */
  private share(value: number, top: number, sum: number): HTMLElement {
    const title = `${amount(this.profile, value)} of ${amount(this.profile, sum)}`;
    const cell = h('td', { class: 'num bar', title }, percent(sum > 0 ? value / sum : 0));
    cell.style.setProperty('--w', `${top > 0 ? (value / top) * 100 : 0}%`);
    return cell;
  }

  private row(
    row: FunctionRow,
    sum: number,
    most: { self: number; total: number },
    dark: boolean,
  ): HTMLElement {
    const { names, kind, module, modules } = this.profile;
    const name = names[row.frame]!;
    const k = KINDS[kind[row.frame]!] ?? 'unknown';
    const where = modules[module[row.frame]!] ?? '';
    const remark = remarkOn(this.profile, row.frame);
    const selected = this.store.state.frame === row.frame;
    const swatch = h('i', { class: 'swatch' });
    swatch.style.background = frameColor(
      k,
      shadeKey(k, name, where),
      dark,
      this.profile.event_kind,
    );
    return h(
      'tr',
      {
        class: selected ? 'selected' : null,
        oncontextmenu: (e: MouseEvent) => {
          e.preventDefault();
          const { left, bottom } = (e.target as HTMLElement).getBoundingClientRect();
          const byKey = e.button !== 2;
          this.menu(row.frame, byKey ? left : e.clientX, byKey ? bottom : e.clientY);
        },
      },
      this.share(row.self, most.self, sum),
      this.share(row.total, most.total, sum),
      row.change ? changeCell(row.change) : null,
      h(
        'td',
        {
          class: 'name',
          title: [where ? `${name} in ${where}` : name, remark]
            .filter((it) => it !== '')
            .join('. '),
        },
        h(
          'div',
          { class: 'cell' },
          swatch,
          h(
            'button',
            {
              type: 'button',
              'aria-pressed': selected ? 'true' : 'false',
              'aria-label': name.length > LONGEST ? name : null,
              onclick: () => this.store.set({ frame: selected ? null : row.frame }, true),
            },
            shortened(name, LONGEST),
          ),
          h('span', { class: 'module' }, where),
        ),
      ),
    );
  }
}

/** The change of a function's self share, beside the rest. */
function changeCell(change: Change): HTMLElement {
  const { here, rest, proven } = change;
  const difference = points(here - rest);
  const soft = !proven && here !== rest;
  const title = `self ${percent(here)}, in the rest ${percent(rest)}, ${difference} points${soft ? ': chance gives as much' : ''}`;
  return h(
    'td',
    { class: soft ? 'num unproven' : 'num', title },
    soft ? `~ ${difference}` : difference,
  );
}
