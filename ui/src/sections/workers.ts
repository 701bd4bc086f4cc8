// The workers of a fleet that carried the load, a row for each.

import { type Column, scrolling, section, tableOfColumns } from '../core/dom';
import type { RunView } from '../core/view';

/** The section; null where one process carried the load. */
export function workers({ workers: columns }: RunView): HTMLElement | null {
  const [names] = columns;
  if (!names) return null;
  const shown = tableOfColumns(
    'What each worker had of the load, and what became of it',
    names.cells,
    columns.map(
      ({ head, number, cells }): Column<string> => [number ? { number: head } : head, (_, at) => cells[at] ?? '–'],
    ),
  );
  const hint =
    'rates and CPU are of the measured phase, busy and core wait of the event loop that had most; clock offset: to the coordinator';
  return section('workers', 'Workers', hint, scrolling(shown));
}
