// What each node of the broker used, beside the others.

import { barCell, columnHead, h, tableOf } from '../core/dom';
import { duration, megabytes, significant } from '../core/format';
import type { NodeSummary, RunView } from '../core/view';

/** The nodes in their order; null where there is no cluster. */
export function nodeTable(run: RunView): HTMLElement | null {
  const { nodes } = run.figures;
  if (nodes.length === 0) return null;
  const most = Math.max(...nodes.map((it) => it.cpu_cores));
  const rows = nodes.map((it) => {
    const memory = h('td', { class: 'num', title: `${it.rss_mb} MB, resident` }, megabytes(it.rss_mb));
    return h('tr', {}, h('th', { scope: 'row' }, title(it)), cores(it, most), memory);
  });
  const heads = [columnHead('node'), columnHead('CPU', 'num'), columnHead('memory, peak', 'num')];
  return tableOf('latencies nodes', 'What each node used in the measured phase', heads, h('tbody', {}, rows));
}

/** Its number; its name and the bound of its clock, where a worker of a fleet recorded it. */
function title({ node, name, clock_bound_s: bound }: NodeSummary): string {
  const clock = bound === null || bound === undefined ? '' : `clock ± ${duration(bound * 1e9)}`;
  const known = [name, clock].filter(Boolean).join(', ');
  return known === '' ? `node ${node}` : `node ${node} (${known})`;
}

function cores({ cpu_cores: used, ran_s: ran }: NodeSummary, most: number): HTMLElement {
  const text = ran === null || ran === undefined ? '' : ` in the ${significant(ran)} s that it ran`;
  return barCell(`${used} cores on average${text}`, `${significant(used)} cores${text}`, used, most);
}
