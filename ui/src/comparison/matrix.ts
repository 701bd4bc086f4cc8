// The page of a matrix: where a change helps and where it hurts, a cell for each combination of some keys' values.

import { h, later, section, wayTo, withCode } from '../core/dom';
import { counted } from '../core/format';
import type { CellView, FigureRow, MatrixView } from '../core/view';
import { valued } from '../sections/repeats';
import { belief, lead, masthead, remarks, sides } from './about';
import { axis, cell, changeParts, drawnHead, forest, head, listedTable, namedRow, tone } from './figures';
import { partsOf, type Sheet } from './page';
import { beyond, type ChangeScale, changeScale, isTested } from './scale';

/** A figure of a cell; undefined where the cell has none of that name. */
export function figureOf(of: CellView, name: string): FigureRow | undefined {
  return of.figures.find((row) => row.name === name);
}

/** The cells of two keys, a list for each value of the first one; null where there are more or fewer keys. */
function inRows(view: Pick<MatrixView, 'keys' | 'cells'>): CellView[][] | null {
  const [rows, columns] = view.keys;
  if (!rows || !columns || view.keys.length > 2) return null;
  const width = columns.values.length;
  return rows.values.map((_, row) => view.cells.slice(row * width, (row + 1) * width));
}

/** Per cent of the axis between two names in a narrow cell. */
const FAR = 34;

/** Nothing and the outermost ticks, as far as their names do not run into each other. */
export function endTicks({ ticks }: ChangeScale): ChangeScale['ticks'] {
  const zero = ticks.find((tick) => tick.label === '0');
  const kept: ChangeScale['ticks'] = [];
  for (const tick of [zero, ticks.at(-1), ticks.at(0)]) {
    if (tick && kept.every((other) => Math.abs(other.at - tick.at) >= FAR)) kept.push(tick);
  }
  return kept;
}

/** How strongly a cell is tinted, in per cent: by its change, where that is proven. */
export function tint(row: FigureRow, scale: ChangeScale): number {
  if (row.decision !== 'changed') return 0;
  if (!isTested(row)) return 34;
  const far = Math.abs(scale.place(row.change) - scale.place(0));
  return 8 + Math.round((26 * Math.min(far, 100)) / 100);
}

function linked(of: CellView, text: string): HTMLElement {
  const href = wayTo(of.page);
  return href ? h('a', { href, title: `${of.label}: its own page` }, h('b', {}, text)) : h('b', {}, text);
}

function values(row: FigureRow): string {
  const value = (of: number): string => (of > 0 ? valued(of, row.unit) : 'none');
  return `A ${value(row.means[0])}, B ${value(row.means[1])}`;
}

function square(of: CellView, name: string, column: string, scale: ChangeScale): HTMLElement {
  const row = figureOf(of, name);
  if (!row) return cell('square open', column, h('span', { class: 'decided' }, of.decided));
  const parts = changeParts(row, isTested(row), (text) => linked(of, text));
  const element = cell(
    `square ${tone(row)}`,
    column,
    h('div', { class: 'change', title: values(row) }, parts),
    forest(row, scale),
    h('span', { class: 'decided' }, row.decided),
  );
  element.style.setProperty('--tint', `${tint(row, scale)}%`);
  return element;
}

function squares(view: MatrixView, rows: CellView[][], name: string, scale: ChangeScale): HTMLElement {
  const [down, across] = view.key_names;
  const columns = view.keys[1]?.values ?? [];
  const key = (text: string | undefined): HTMLElement => h('span', { class: 'key' }, `${text} `);
  const top = columns.map((value) => {
    const element = head(h('span', {}, key(across), value), 'drawn');
    element.append(axis(scale, endTicks(scale)));
    return element;
  });
  const line = (cells: CellView[]): HTMLElement =>
    namedRow(
      null,
      [key(down), cells[0]?.values[0] ?? ''],
      cells.map((of, i) => square(of, name, `${across} ${columns[i] ?? ''}`, scale)),
    );
  return listedTable('squares', `Change of ${name} in every cell`, [head(''), ...top], rows.map(line));
}

/** A row for each cell, for one key and for more than two. */
function list(view: MatrixView, name: string, scale: ChangeScale): HTMLElement {
  const line = (of: CellView): HTMLElement => {
    const row = figureOf(of, name);
    const change = row ? changeParts(row, isTested(row), (text) => linked(of, text)) : ['–'];
    const cells = [
      cell('num change', 'change', ...change),
      cell('drawn', '', row && forest(row, scale)),
      cell('decided', 'decision', row?.decided ?? of.decided),
    ];
    return namedRow(row ? tone(row) : 'open', [of.values.join(' / ')], cells);
  };
  const heads = [head(view.key_names.join(' / ')), head('change', 'num'), drawnHead(scale), head('decision')];
  return listedTable('changes', `Change of ${name} in every cell`, heads, view.cells.map(line));
}

function panel(view: MatrixView, name: string): HTMLElement {
  const found = view.cells.flatMap((of) => figureOf(of, name) ?? []);
  const scale = changeScale(found);
  const rows = inRows(view);
  const better = found[0]?.more_is_better ? 'more is better' : 'less is better';
  const unit = ` ${better}${scale.log ? `; log axis beyond ${beyond(scale)}` : ''}`;
  return h(
    'figure',
    { class: 'effects', 'data-figure': name },
    h('figcaption', {}, h('b', {}, name), h('span', { class: 'unit' }, unit)),
    rows ? squares(view, rows, name, scale) : list(view, name, scale),
  );
}

function effects(view: MatrixView): HTMLElement {
  const panels = (names: readonly string[]): HTMLElement[] => names.map((name) => panel(view, name));
  const further = view.figures.slice(view.main_figures);
  return section(
    'effects',
    'Where it helps, where it hurts',
    `${counted(view.cells.length, 'cell')}, decided together; orange: proven and worse, blue: proven and better, grey: neither; bar: interval, as strict as the decision; band: the margin within which nothing matters`,
    panels(view.figures.slice(0, view.main_figures)),
    further.length > 0 &&
      later(`${counted(further.length, 'other figure')}: ${further.join(', ')}`, () => h('div', {}, panels(further))),
  );
}

function everyCell(view: MatrixView): HTMLElement {
  const one = (of: CellView): HTMLElement => {
    const href = wayTo(of.page);
    return h(
      'li',
      { class: of.outcome ?? 'undecided' },
      h('b', {}, href ? h('a', { href }, of.label) : of.label),
      h('span', { class: 'came' }, of.decided),
      h('p', {}, withCode(of.headline)),
      of.explanation ? h('p', { class: 'explained' }, withCode(`${of.explanation}.`)) : null,
    );
  };
  return section(
    'cells',
    'Every cell',
    'a name leads to the cell’s own page, with its runs and functions',
    h('ul', { class: 'every-cell' }, view.cells.map(one)),
  );
}

export function matrixSheet(view: MatrixView): Sheet {
  const parts = partsOf(
    'comparison',
    lead(view.headline),
    sides(view),
    effects(view),
    belief(view),
    everyCell(view),
    section('decided', 'How it was decided', null, remarks(view)),
  );
  return {
    ...parts,
    masthead: masthead(view, `comparison in ${counted(view.cells.length, 'cell')}`),
    version: view.bellows,
    hint: 'a change leads to the cell’s own page, where that lies beside this one',
  };
}
