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

/** The parts of a page in their order, and those of them that are drawn. */
export function partsOf(kind: string | null, ...parts: (View | HTMLElement | null)[]): Pick<Sheet, 'main' | 'views'> {
  const isView = (it: View | HTMLElement | null): it is View => it !== null && 'draw' in it;
  const elements = parts.map((it) => (isView(it) ? it.element : it));
  return { main: h('main', { class: kind }, elements), views: parts.filter(isView) };
}

export function comparisonSheet(view: ComparisonView, store: Store): Sheet {
  const parts = partsOf(
    'comparison',
    lead(view.headline, view.explanation ? [`${view.explanation}.`] : []),
    sides(view),
    changes(view),
    withinOneRun(view),
    belief(view),
    everyRun(view),
    functionCosts(view),
    costGraph(view, store),
    overTime(view),
    bothCurves(view),
    details(view),
  );
  return {
    ...parts,
    masthead: masthead(view),
    version: view.bellows,
    hint: 'a dot leads to the run’s own report, where that lies beside this page · / search · Escape back',
  };
}
