// What the run had to reach: a table, and lines in the charts of what it is about.

import type { Line } from '../charts/panel';
import { h, scrolling, section, tableOfColumns } from '../core/dom';
import { counted } from '../core/format';
import type { RequirementChart, RequirementRow, RunView } from '../core/view';

/** How many were met: `2 of 3 requirements met`. */
export function tally(rows: readonly RequirementRow[]): string {
  const met = rows.filter((it) => it.met).length;
  return `${met} of ${counted(rows.length, 'requirement')} met`;
}

/** How many were missed, in the same words; null where none was. */
export function missed(rows: readonly RequirementRow[]): string | null {
  const missed = rows.filter((it) => it.met === false).length;
  if (missed === 0) return null;
  return `${missed} of ${counted(rows.length, 'requirement')} missed`;
}

/** The section; null where nothing was required. */
export function requirements(run: RunView): HTMLElement | null {
  const rows = run.requirements;
  if (rows.length === 0) return null;
  const shown = tableOfColumns('What the run had to reach', rows, [
    ['required', ({ that }) => h('code', {}, that)],
    ['outcome', ({ met, outcome }) => h(met ? 'span' : 'b', { class: met === false ? 'missed' : null }, outcome)],
    [{ number: 'observed' }, ({ observed }) => observed],
    [{ number: 'limit' }, ({ limit }) => limit],
  ]);
  return section('requirements', 'Requirements', h('span', { class: 'readout' }, tally(rows)), scrolling(shown));
}

export function requirementLines(
  run: RunView,
  chart: RequirementChart,
  intervals: number,
  format: Line['format'],
): Line[] {
  const same = JSON.stringify(chart);
  return run.requirements.flatMap(({ line }): Line[] => {
    if (!line || JSON.stringify(line.chart) !== same) return [];
    const values = new Array<number>(intervals).fill(line.value);
    return [{ label: line.label, values, color: (p) => p.accent, format, width: 1.25, dash: [6, 3] }];
  });
}
