// The page of a search for the highest rate that holds.

import { lead } from '../comparison/about';
import { partsOf, type Sheet } from '../comparison/page';
import { nameOf } from '../comparison/runs';
import {
  button,
  type Child,
  type Column,
  h,
  remarkList,
  scrolling,
  section,
  tableOfColumns,
  withCode,
  withoutCode,
} from '../core/dom';
import { MAIN_PERCENTILES as PERCENTILES, significant, supports } from '../core/format';
import type { LimitView, TrialView } from '../core/view';
import { percentileCell, WEAK_MEANS } from '../sections/percentile-cell';
import { titled } from '../sections/warnings';
import { clientsCurve, clientsTable } from './clients';
import { curve, OUTCOMES } from './curve';

/** Characters of a run's name: its time and most of its words are the same in every row. */
const LONGEST_NAME = 20;

function masthead(view: LimitView): HTMLElement[] {
  const what = view.scale ? `throughput against ${view.scale.noun}` : 'highest rate that holds';
  const state = h('span', { class: `state outcome ${view.found.confirmed ? 'same' : 'undecided'}` }, view.certainty);
  return [...titled(view.name, [what], view.created), ...(view.scale ? [] : [state])];
}

function next(view: LimitView): HTMLElement | null {
  if (view.suggested.length === 0) return null;
  const PARTS: Record<string, string> = { calm: 'a third of the limit', busy: 'four fifths of it' };
  const rows = view.suggested.map((it) => {
    const copy = button('copy', () => void navigator.clipboard?.writeText(it.command), {
      class: 'quiet',
      title: 'Copy the command line',
    });
    return h(
      'div',
      { class: 'next-rate' },
      h('dt', {}, h('b', {}, it.name), ` ${significant(it.rate)} msg/s, ${PARTS[it.name] ?? ''}`),
      h('dd', {}, h('code', {}, it.command), ' ', copy),
    );
  });
  return section('next', 'Rates to run next', null, h('dl', { class: 'next-rates' }, rows));
}

function trials(view: LimitView): HTMLElement {
  const name = view.latency_name || 'latency';
  const shown = tableOfColumns('Trials', view.trials, [
    [{ number: '' }, (_, at) => String(at + 1)],
    [{ number: 'msg/s' }, (it) => significant(it.rate)],
    ['outcome', ({ outcome }) => h('span', { class: `key ${outcome}-trial` }, OUTCOMES[outcome])],
    ...PERCENTILES.map(([label, percentile, key], at): Column<TrialView> => {
      const cell = ({ latency }: TrialView): Child =>
        latency ? percentileCell(latency, percentile, latency[key]) : '–';
      return [{ number: at === 0 ? `${name} ${label}` : label }, cell];
    }),
    [{ number: 'sent, msg/s' }, (it) => significant(it.sent)],
    [{ number: 'received, msg/s' }, (it) => significant(it.received)],
    [{ number: 'broker, cores' }, ({ broker_cores: cores }) => (cores === null ? '–' : significant(cores))],
    ['why not', ({ why }) => h('span', { title: withoutCode(why.join('; ')) || null }, withCode(why.join('; ')))],
    ['run', (it) => nameOf(it, LONGEST_NAME)],
  ]);
  const isWeak = view.trials.some(({ latency }) =>
    PERCENTILES.some(([, percentile]) => latency && !supports(latency.count, percentile)),
  );
  const notes = [...(isWeak ? [WEAK_MEANS] : []), ...view.notes];
  return section('trials', 'Every trial', 'in the order of time', scrolling(shown), remarkList(...notes));
}

export function limitSheet(view: LimitView): Sheet {
  const { scale } = view;
  const chart = scale ? clientsCurve(scale, view.headline) : curve(view);
  const explained = scale ? scale.explained : [view.asked, view.knee_text].filter(Boolean);
  const parts = partsOf(
    'comparison rates',
    lead(view.headline, explained),
    chart,
    next(view),
    scale ? clientsTable(scale, view.notes) : trials(view),
  );
  return {
    ...parts,
    masthead: masthead(view),
    version: view.bellows,
    hint: 'a mark leads to the trial’s own report, where that lies beside this page',
  };
}
