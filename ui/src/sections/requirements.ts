// What the run had to reach: a table, and lines in the charts of what it is about.

import type { Line } from '../charts/panel';
import { h, scrolling, section, tableOfColumns } from '../core/dom';
import { counted } from '../core/format';
import type { RequirementChart, RequirementRow, RunView } from '../core/view';

/** How many were met, or missed: `2 of 3 requirements met`. */
function tally(rows: readonly RequirementRow[], met: boolean): string {
  const those = rows.filter((it) => it.met === met).length;
  return `${those} of ${counted(rows.length, 'requirement')} ${met ? 'met' : 'missed'}`;
}

/** How many were missed; null where none was. */
export function missed(rows: readonly RequirementRow[]): string | null {
  return rows.some((it) => it.met === false) ? tally(rows, false) : null;
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
  return section('requirements', 'Requirements', h('span', { class: 'readout' }, tally(rows, true)), scrolling(shown));
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
