// The page of a comparison: its parts in the order of the reader's questions.

import { h } from '../core/dom';
import type { Store } from '../core/state';
import type { ComparisonView } from '../core/view';
import type { View } from '../sections/timeline';
import { belief, details, lead, masthead, sides } from './about';
import { changes, withinOneRun } from './figures';
import { costGraph } from './flame';
import { functionCosts } from './functions';
import { bothCurves, overTime } from './overlay';
import { everyRun } from './runs';

/** What stands on a page, and what of it is drawn. */
export interface Sheet {
  masthead: HTMLElement[];
  main: HTMLElement;
  views: View[];
  version: string;
  hint: string;
  /** Title of the tab, where the document has none of its own that names the run. */
  title?: string;
}

export function comparisonSheet(view: ComparisonView, store: Store): Sheet {
  const views: View[] = [];
  const use = (part: View | null): HTMLElement | null => {
    if (part) views.push(part);
    return part?.element ?? null;
  };
  const main = h(
    'main',
    { class: 'comparison' },
    lead(view),
    sides(view),
    changes(view),
    withinOneRun(view),
    belief(view),
    everyRun(view),
    functionCosts(view),
    use(costGraph(view, store)),
    use(overTime(view)),
    use(bothCurves(view)),
    details(view),
  );
  return {
    masthead: masthead(view),
    main,
    views,
    version: view.bellows,
    hint: 'a dot leads to the run’s own report, where that lies beside this page · / search · Escape back',
  };
}
