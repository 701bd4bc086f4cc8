// What each node of a cluster used, beside the others.

import { h } from '../core/dom';
import { megabytes, significant } from '../core/format';
import type { NodeSummary, RunView } from '../core/view';

/** The nodes in their order; null where there is no cluster. */
export function nodeTable(run: RunView): HTMLElement | null {
  const { nodes } = run.figures;
  if (nodes.length === 0) return null;
  const most = Math.max(...nodes.map((it) => it.cpu_cores));
  return h(
    'div',
    { class: 'scroll' },
    h(
      'table',
      { class: 'latencies nodes' },
      h('caption', { class: 'hidden' }, 'What each node used in the measured phase'),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, 'node'),
          h('th', { scope: 'col', class: 'num' }, 'CPU'),
          h('th', { scope: 'col', class: 'num' }, 'memory, peak'),
        ),
      ),
      h(
        'tbody',
        {},
        nodes.map((it) =>
          h(
            'tr',
            {},
            h('th', { scope: 'row' }, `node ${it.node}`),
            cores(it, most),
            h('td', { class: 'num', title: `${it.rss_mb} MB, resident` }, megabytes(it.rss_mb)),
          ),
        ),
      ),
    ),
  );
}

/** CPU with a bar as long as its share of the node that used most. */
function cores({ cpu_cores: used, ran_s: ran }: NodeSummary, most: number): HTMLElement {
  const text = ran === null || ran === undefined ? '' : ` in the ${significant(ran)} s that it ran`;
  const title = `${used} cores on average${text}`;
  const cell = h('td', { class: 'num bar', title }, `${significant(used)} cores${text}`);
  cell.style.setProperty('--w', `${most > 0 ? (used / most) * 100 : 0}%`);
  return cell;
}
