// Runs of the same experiment: each figure as a line of dots, a dot for each run.

import { h, remarkList, scrolling, section, styled, tableOfColumns } from '../core/dom';
import { counted, duration, grouped, percent, seconds, significant } from '../core/format';
import type { QuantityUnit, RepeatedFigure, RepeatedRun, Repeats, RunView } from '../core/view';

export function valued(value: number, unit: QuantityUnit): string {
  switch (unit) {
    case 'ns':
      return value >= 1e12 ? seconds(value / 1e9) : duration(value);
    case 'per_second':
      return `${significant(value)}/s`;
    case 'share':
      return percent(value);
    case 'cores':
      return `${significant(value)} cores`;
    case 'bytes':
      return `${significant(value / 1e6)} MB`;
    case 'count':
      return Number.isInteger(value) ? grouped(value) : significant(value);
  }
}

/** Room beside the smallest and the largest value, in per cent of the scale. */
const MARGIN = 8;

/** Where a value lies on a figure's own scale, in per cent; in the middle where all are equal, never beyond its ends. */
export function place({ min, max }: RepeatedFigure, value: number): number {
  if (max <= min) return 50;
  const share = MARGIN + ((value - min) / (max - min)) * (100 - 2 * MARGIN);
  return Math.min(100, Math.max(0, share));
}

function strip(run: RunView, repeats: Repeats, figure: RepeatedFigure): HTMLElement {
  const element = h('div', { class: 'dots' });
  if (figure.interval) {
    const [low, high] = figure.interval.map((v) => place(figure, v)) as [number, number];
    element.append(styled(h('span', { class: 'band' }), { left: `${low}%`, width: `${high - low}%` }));
  }
  figure.values.forEach((value, i) => {
    const of = repeats.runs[i];
    if (value === null || !of) return;
    const dot = dotOf(of, of.id === run.id, `run ${i + 1}: ${valued(value, figure.unit)}`);
    element.append(styled(dot, { left: `${place(figure, value)}%` }));
  });
  return element;
}

/** A dot leads to the run's own report, which lies beside this one's folder. */
function dotOf(of: RepeatedRun, own: boolean, title: string): HTMLElement {
  const marks = ['dot', own ? 'own' : '', of.invalid ? 'weak' : ''].filter(Boolean).join(' ');
  if (own || of.id === '') return h('span', { class: marks, title: own ? `${title} (this one)` : title });
  const href = `../${encodeURIComponent(of.id)}/report.html`;
  return h('a', { class: marks, href, title, 'aria-label': title });
}

export function remarks(repeats: Repeats): string[] {
  const invalid = repeats.runs.filter((run) => run.invalid).length;
  const count = counted(repeats.runs.length, 'run');
  const used = `in ${invalid} of ${count} a warning says that a number must not be used`;
  const all = repeats.runs.flatMap((run, i) => {
    const out: string[] = [];
    if (run.state !== 'complete') out.push(`run ${i + 1} is ${run.state} and not counted`);
    if (run.apart.length > 0) out.push(`run ${i + 1} is an outlier in ${run.apart.join(', ')}`);
    return out;
  });
  const cautious = repeats.runs.filter((run) => run.cautious).length;
  const off = `in ${cautious} of ${count} cautions say which numbers are off, and which way`;
  return [...(invalid > 0 ? [used] : []), ...(cautious > 0 ? [off] : []), ...all];
}

/** The section; null where the run was made once. */
export function repeats(run: RunView): HTMLElement | null {
  const all = run.repeats;
  if (!all || all.figures.length === 0) return null;
  const shown = tableOfColumns('Figures of all runs', all.figures, [
    ['figure', ({ name }) => name],
    ['each run', (figure) => strip(run, all, figure)],
    [{ number: 'mean' }, ({ mean, unit }) => valued(mean, unit)],
    [{ number: 'sd' }, ({ mean, sd }) => (sd !== null && mean > 0 ? percent(sd / mean) : '–')],
    [
      { number: '95 % of the mean' },
      ({ interval: of, unit }) => (of ? `${valued(Math.max(0, of[0]), unit)} to ${valued(of[1], unit)}` : '–'),
    ],
    [{ number: 'min' }, ({ min, unit }) => valued(min, unit)],
    [{ number: 'max' }, ({ max, unit }) => valued(max, unit)],
  ]);
  return section(
    'repeats',
    counted(all.runs.length, 'run'),
    'a dot is a run and leads to its report, the filled one is this; each line has its own scale; the band is the 95 % interval of the mean',
    scrolling(shown),
    remarkList(...remarks(all)),
  );
}
