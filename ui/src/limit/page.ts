// The page of a search for the highest rate that holds.

import { partsOf, type Sheet } from '../comparison/page';
import { nameOf } from '../comparison/runs';
import { button, type Child, h, remarkList, scrolling, section, table } from '../core/dom';
import { percent, significant, supports } from '../core/format';
import type { LimitView, TrialView } from '../core/view';
import { percentileCell, WEAK_MEANS } from '../sections/percentile-cell';
import { titled } from '../sections/warnings';
import { clientsCurve, clientsTable } from './clients';
import { curve, OUTCOMES } from './curve';
import { PERCENTILES } from './scale';

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

function trialRow(trial: TrialView, number: number): Child[] {
  const { latency } = trial;
  const percentiles = PERCENTILES.map(([, percentile, key]) =>
    latency ? percentileCell(latency, percentile, latency[key]) : '–',
  );
  return [
    String(number),
    significant(trial.rate),
    h('span', { class: `key ${trial.outcome}-trial` }, OUTCOMES[trial.outcome]),
    ...percentiles,
    percent(trial.rate > 0 ? trial.sent / trial.rate : 0),
    significant(trial.received),
    trial.broker_cores === null ? '–' : significant(trial.broker_cores),
    h('span', { title: trial.why.join('; ') || null }, trial.why.join('; ')),
    nameOf(trial, LONGEST_NAME),
  ];
}

function trials(view: LimitView): HTMLElement {
  const name = view.latency_name || 'latency';
  const columns = [
    { number: '' },
    { number: 'msg/s' },
    'outcome',
    { number: `${name} p50` },
    { number: 'p99' },
    { number: 'p99.9' },
    { number: 'sent' },
    { number: 'received, msg/s' },
    { number: 'broker, cores' },
    'why not',
    'run',
  ];
  const rows = view.trials.map((it, i) => trialRow(it, i + 1));
  const isWeak = view.trials.some(({ latency }) =>
    PERCENTILES.some(([, percentile]) => latency && !supports(latency.count, percentile)),
  );
  const notes = [...(isWeak ? [WEAK_MEANS] : []), ...view.notes];
  const shown = scrolling(table('Trials', columns, rows));
  return section('trials', 'Every trial', 'in the order of time', shown, remarkList(...notes));
}

export function limitSheet(view: LimitView): Sheet {
  const { scale } = view;
  const chart = scale ? clientsCurve(scale, view.headline) : curve(view);
  const explained = scale ? scale.explained : [view.asked, view.knee_text].filter(Boolean);
  const further = explained.map((text) => h('p', { class: 'headline explained' }, text));
  const parts = partsOf(
    'comparison rates',
    h('div', { class: 'lead' }, h('p', { class: 'headline' }, view.headline), further),
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
