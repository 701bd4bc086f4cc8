// Every figure in a row: both sides, the change with its interval beside the margin, and what is decided.

import { type Child, h, scrolling, section, styled, table, withCode } from '../core/dom';
import { counted, significant } from '../core/format';
import type { ComparisonView, FigureRow } from '../core/view';
import { valued } from '../sections/repeats';
import { beyond, type ChangeScale, changeScale, isKnown, isTested, signed } from './scale';

/** How a row is coloured: what is proven, and which way it goes. */
export function tone(row: FigureRow): 'worse' | 'better' | 'same' | 'open' {
  if (row.decision === 'changed') return row.worse ? 'worse' : 'better';
  return row.decision === 'undecided' ? 'open' : 'same';
}

/** A part of a drawn row, by per cent of its width. */
export function mark(kind: string, left: number, width?: number): HTMLElement {
  return styled(h('i', { class: kind }), { left: `${left}%`, ...(width === undefined ? {} : { width: `${width}%` }) });
}

/** The change as a dot on its interval, over the margin within which nothing matters. */
export function forest(row: FigureRow, scale: ChangeScale): HTMLElement {
  const element = h('div', { class: `forest ${tone(row)}`, 'aria-hidden': 'true' });
  for (const tick of scale.ticks) element.append(mark('tick', tick.at));
  const band = (from: number, to: number): [number, number] => {
    const [a, b] = [scale.place(from), scale.place(to)];
    return [a, b - a];
  };
  element.append(mark('zero', scale.place(0)));
  if (!isKnown(row)) return element;
  const margin = `margin ${signed(row.margin).slice(1)}`;
  element.append(mark('margin', ...band(-row.margin, row.margin)));
  if (row.interval_says) {
    element.append(mark('interval', ...band(row.interval[0], row.interval[1])));
    if (endsAtZero(row)) element.append(mark('bound', scale.place(0)));
  }
  element.append(mark('effect', scale.place(row.change)));
  const known = isTested(row) ? `interval ${interval(row)}` : 'no interval: one run of a side';
  element.title = `${signed(row.change)}, ${known}; ${margin}`;
  return element;
}

/** Whether an interval ends at 0, as that of what is not proven does at least: without a stroke it looks cut by the axis. */
export function endsAtZero({ interval }: { interval: readonly number[] }): boolean {
  return interval.includes(0);
}

/** The ends of a change's interval, which is as strict as the decision; of too few runs it says nothing. */
export function interval({ interval: [low, high], interval_says }: FigureRow): string {
  return interval_says ? `${signed(low)} to ${signed(high)}` : 'too few runs';
}

export function axis(scale: ChangeScale, ticks: ChangeScale['ticks'] = scale.ticks): HTMLElement {
  const names = ticks.map((tick) => styled(h('span', {}, tick.label), { left: `${tick.at}%` }));
  return h('div', { class: 'axis', 'aria-hidden': 'true' }, names);
}

/** A cell of a table that becomes a list on narrow screens. */
export function cell(kind: string, label: string, ...children: Child[]): HTMLElement {
  return h('td', { class: kind, role: 'cell', 'data-label': label }, ...children);
}

export function head(label: Child, kind = ''): HTMLElement {
  return h('th', { scope: 'col', role: 'columnheader', class: kind }, label);
}

export function drawnHead(scale: ChangeScale): HTMLElement {
  const element = head(h('span', { class: 'hidden' }, 'change with its interval, drawn'), 'drawn');
  element.append(axis(scale));
  return element;
}

export function namedRow(kind: string | null, name: Child[], cells: Child[]): HTMLElement {
  return h('tr', { role: 'row', class: kind }, h('th', { scope: 'row', role: 'rowheader' }, name), cells);
}

/** The table: a list on narrow screens, which its roles say is a table all the same. */
export function listedTable(kind: string, caption: string, heads: Child[], rows: Child[]): HTMLElement {
  return h(
    'table',
    { class: kind, role: 'table' },
    h('caption', { class: 'hidden' }, caption),
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, heads)),
    h('tbody', { role: 'rowgroup' }, rows),
  );
}

export function changeParts(row: FigureRow, isShown: boolean, link: (text: string) => Child): Child[] {
  const text = h('span', { class: 'interval' }, interval(row));
  return [link(isShown ? signed(row.change) : '–'), isTested(row) && text];
}

function line(row: FigureRow, scale: ChangeScale): HTMLElement {
  const value = (of: number): string => (of > 0 ? valued(of, row.unit) : 'none');
  const change = changeParts(row, isKnown(row), (text) => h('b', {}, text));
  return namedRow(
    tone(row),
    [row.name],
    [
      cell('num side', 'A', value(row.means[0])),
      cell('num side', 'B', value(row.means[1])),
      cell('num change', 'change', ...change),
      cell('drawn', '', forest(row, scale)),
      cell('decided', 'decision', row.decided),
    ],
  );
}

/** What a stroke at the end of a bar means; nothing where there is none. */
function stroke(rows: readonly FigureRow[]): string {
  return rows.some((row) => row.interval_says && endsAtZero(row)) ? ' (a stroke: it ends at 0)' : '';
}

/** How well the only run of a side knows its own quantiles; null where both have several runs. */
export function withinOneRun(view: ComparisonView): HTMLElement | null {
  const sides = (['a', 'b'] as const).filter((side) => view[side].within_one_run);
  if (sides.length === 0) return null;
  const rows = view.figures
    .filter((row) => sides.some((side) => row.within_one_run?.[side]))
    .map((row) => [
      row.name,
      ...sides.map((side) => {
        const ends = row.within_one_run?.[side]?.map((value) => valued(value, row.unit));
        return ends?.join(' to ') ?? '–';
      }),
    ]);
  const told = sides.map((side) => {
    const { why_not, seconds, block_s } = view[side].within_one_run!;
    const text = why_not
      ? `is one run, without an interval within it: ${why_not}.`
      : `is one run of ${significant(seconds)} s: blocks of ${significant(block_s)} s.`;
    return h('p', { class: 'hint' }, withCode(`${side.toUpperCase()} ${text}`));
  });
  const heads = ['figure', ...sides.map((side) => ({ number: `${side.toUpperCase()}, within one run` }))];
  return section(
    'within',
    'Within one run',
    '95 % intervals by the stationary bootstrap over blocks of the run: how well it knows its own quantile, not how far runs differ; nothing is decided by them',
    rows.length > 0 ? scrolling(table('Intervals within one run', heads, rows)) : null,
    told,
  );
}

export function changes(view: ComparisonView): HTMLElement {
  const scale = changeScale(view.figures);
  const heads = [head('figure'), head('A', 'num'), head('B', 'num'), head('change', 'num'), drawnHead(scale)];
  return section(
    'changes',
    'What changed',
    `${counted(view.figures.length, 'figure')}, decided together; bar: interval, as strict as the decision${stroke(view.figures)}; band: the margin within which nothing matters` +
      (scale.log ? `; the axis is logarithmic beyond ${beyond(scale)}` : ''),
    view.figures.length === 0
      ? h('p', { class: 'fine' }, 'The runs have no figure in common.')
      : listedTable(
          'changes',
          'Figures of both sides and what is decided',
          [...heads, head('decision')],
          view.figures.map((row) => line(row, scale)),
        ),
  );
}
