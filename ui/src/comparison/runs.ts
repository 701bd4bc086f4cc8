// Every run of both sides as a dot, a small chart for each figure; runs of a pair are joined.

import { type Child, h, later, section, styled, svg, table, wayTo } from '../core/dom';
import { counted, ending } from '../core/format';
import type { ComparisonView, FigureRow, SideRun } from '../core/view';
import { valued } from '../sections/repeats';
import { tone } from './figures';

/** Where the columns of both sides stand, per cent of a chart's width, and how far their dots spread. */
const COLUMNS = { a: 25, b: 75 } as const;
const SPREAD = { paired: 7, alone: 16 } as const;

/** Where each dot of a column stands: in the order of its runs, so that drift shows. */
export function across(middle: number, index: number, count: number, spread: number): number {
  if (count <= 1) return middle;
  return middle - spread + (2 * spread * index) / (count - 1);
}

/** Values that lie further apart, as a ratio, stand on a logarithmic axis: one run must not flatten all others. */
const FAR = 8;

/** A scale for the values of both sides: per cent from the top, with room at both ends. */
export function down(values: readonly number[]): { log: boolean; y: (value: number) => number } {
  const [lowest, highest] = [Math.min(...values), Math.max(...values)];
  const log = lowest > 0 && highest / lowest > FAR;
  const bend = (value: number): number => (log ? Math.log(value) : value);
  const [low, high] = [bend(lowest), bend(highest)];
  if (!(high > low)) return { log, y: () => 50 };
  return { log, y: (value) => 6 + (88 * (high - bend(value))) / (high - low) };
}

/** What is said of a run whose numbers are in doubt; empty of others. */
export function doubt(run: SideRun): string {
  return run.invalid ? ', invalid by itself' : run.cautious ? ', with cautions' : '';
}

function dot(run: SideRun, side: 'a' | 'b', title: string, x: number, y: number): HTMLElement {
  const kind = `dot ${side}${doubt(run) ? ' cautious' : ''}`;
  const href = wayTo(run.report);
  const element = href ? h('a', { class: kind, href, title, 'aria-label': title }) : h('span', { class: kind, title });
  return styled(element, { left: `${x}%`, top: `${y}%` });
}

function joined(pairs: readonly (readonly [number, number, number, number])[]): SVGElement {
  const lines = pairs.map(([x1, y1, x2, y2]) => svg('line', { x1, y1, x2, y2 }));
  const frame = { viewBox: '0 0 100 100', preserveAspectRatio: 'none', 'aria-hidden': 'true' };
  return svg('svg', frame, ...lines);
}

function chart(view: ComparisonView, row: FigureRow): HTMLElement {
  const { paired } = view;
  const values = [...row.a, ...row.b];
  const { log, y } = down(values);
  const all = [...view.a.runs, ...view.b.runs];
  // Where every run is in doubt, none stands out.
  const stands = all.some((run) => !doubt(run));
  const spread = paired ? SPREAD.paired : SPREAD.alone;
  const plot = h('div', { class: 'slopes' });
  if (paired) {
    const pairs = row.a.flatMap((a, i) => {
      const b = row.b[i];
      if (b === undefined) return [];
      const x = (side: 'a' | 'b') => across(COLUMNS[side], i, row.a.length, spread);
      return [[x('a'), y(a), x('b'), y(b)] as const];
    });
    plot.append(joined(pairs));
  }
  for (const side of ['a', 'b'] as const) {
    const runs = view[side].runs;
    row[side].forEach((value, i) => {
      const run = runs[i];
      if (!run) return;
      const which = paired ? `pair ${i + 1}, ${side.toUpperCase()}` : `${side.toUpperCase()} ${i + 1}`;
      const title = `${which}: ${valued(value, row.unit)} (${run.id})${doubt(run)}`;
      const shown = stands ? run : { ...run, invalid: false, cautious: false };
      plot.append(dot(shown, side, title, across(COLUMNS[side], i, row[side].length, spread), y(value)));
    });
    const mean = row.means[side === 'a' ? 0 : 1];
    if (mean > 0) {
      const bar = h('i', { class: `mean ${side}`, title: `mean ${valued(mean, row.unit)}` });
      const left = `${COLUMNS[side] - spread - 4}%`;
      plot.append(styled(bar, { left, width: `${2 * spread + 8}%`, top: `${y(mean)}%` }));
    }
  }
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const end = (value: number): HTMLElement => h('span', {}, valued(value, row.unit));
  const unit = h('span', { class: 'unit' }, log ? `${row.decided}; log axis` : row.decided);
  const ends = h('div', { class: 'ends-of-axis', 'aria-hidden': 'true' }, end(high), high > low ? end(low) : null);
  return h(
    'figure',
    { class: `card ${tone(row)}` },
    h('figcaption', {}, h('b', {}, row.name), unit),
    h('div', { class: 'with-axis' }, ends, plot),
    h('div', { class: 'columns-of', 'aria-hidden': 'true' }, h('span', {}, 'A'), h('span', {}, 'B')),
  );
}

/** A run's name, or the end of a longer one, which leads to its report where that lies beside the page. */
export function nameOf(run: Pick<SideRun, 'id' | 'report'> | undefined, most = Number.POSITIVE_INFINITY): Child {
  if (!run) return '–';
  const [href, text] = [wayTo(run.report), ending(run.id, most)];
  if (href) return h('a', { href, title: run.id }, text);
  return text === run.id ? text : h('span', { title: run.id }, text);
}

function valueTable(view: ComparisonView): HTMLElement {
  const sides = ['a', 'b'] as const;
  const rows = sides.flatMap((side) =>
    view[side].runs.map((run, i) => [
      view.paired ? `${i + 1}` : '',
      side.toUpperCase(),
      ...view.figures.map((row) => valued(row[side][i] ?? 0, row.unit)),
      nameOf(run),
    ]),
  );
  const columns = [view.paired ? 'pair' : '', 'side', ...view.figures.map((row) => ({ number: row.name })), 'run'];
  return h('div', { class: 'scroll' }, table('Figures of every run', columns, rows));
}

/** The section; null where no figure was decided. */
export function everyRun(view: ComparisonView): HTMLElement | null {
  if (view.figures.length === 0) return null;
  const runs = view.a.runs.length + view.b.runs.length;
  const cards = view.figures.map((row) => chart(view, row));
  return section(
    'runs',
    'Every run',
    `${counted(runs, 'run')}, a dot each, in the order in which they were made${view.paired ? '; a line joins a pair' : ''}; bar: geometric mean; each chart has its own axis, which does not begin at 0`,
    h('div', { class: 'cards' }, cards),
    later('Values of every run', () => valueTable(view)),
  );
}
