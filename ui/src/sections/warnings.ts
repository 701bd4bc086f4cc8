// What may be wrong with the numbers: the two warnings that matter most, the others behind their count.

import { ofSubject } from '../core/data';
import { button, type Child, h, section, withCode } from '../core/dom';
import type { RunView, Tier, WarningCode } from '../core/view';

const CODES: Record<WarningCode, string> = {
  generator_saturated: 'Generator saturated',
  rate_not_achieved: 'Rate not achieved',
  too_few_cores: 'Cores shared',
  debug_build: 'Debug build',
  too_few_samples: 'Too few samples',
  lost_samples: 'Profiler lost samples',
  profiler_throttled: 'Profiler throttled',
  profile_incomplete: 'Profile incomplete',
  clock_not_steady: 'Clock not steady',
  cpu_steal: 'CPU taken by the hypervisor',
  not_steady_state: 'Not steady',
  connection_blocked: 'Publishers blocked',
  certificate_not_checked: 'Certificate not checked',
  connections_lost: 'Connections lost',
  messages_lost: 'Messages lost or damaged',
  messages_outstanding: 'Messages still in the broker',
  messages_not_received: 'Messages not received',
  messages_not_accepted: 'Messages not accepted',
  cycles_failed: 'Operations failed',
  interrupted: 'Ended early',
  load_ended: 'Load ended early',
  archive_incomplete: 'Archive incomplete',
  generator_late: 'Generator late',
  broker_gone: 'Broker gone',
  stalled: 'Stalled',
  messages_unanswered: 'Messages without an answer',
  scrapes_failed: 'Scrapes failed',
  nothing_selected: 'Nothing selected',
  faults_missed: 'Faults missed',
  node_gone: 'Node gone',
  trace_ended: 'Trace ended early',
  traced: 'Functions traced',
  looked_into: 'Inspected during the run',
  not_permitted: 'No longer permitted',
  worker_lost: 'Worker lost',
  worker_late: 'Worker started late',
  worker_clock: 'Clock of a worker moved',
  clock_bound: 'Timed by two clocks',
  clock_bound_broken: 'Clocks further apart than known',
  workers_idle: 'Workers without a part',
  collected: 'Made without the coordinator',
};

export function nameOfCode(code: WarningCode): string {
  return CODES[code] ?? code;
}

/** What the absence of warnings means: the checks are made when a run ends. */
function fine(state: RunView['state']): string {
  return state === 'running'
    ? ' None were recorded until the run was cut off; the checks at its end were not made.'
    : ' All validity checks of this run passed.';
}

const TIERS: readonly (readonly [Tier, string, string])[] = [
  ['invalid', 'invalid', 'invalid'],
  ['caution', 'caution', 'cautions'],
  ['note', 'note', 'notes'],
];

function byTier(list: readonly { tier: Tier }[]): string {
  const parts = TIERS.flatMap(([tier, one, many]) => {
    const count = list.filter((w) => w.tier === tier).length;
    return count === 0 ? [] : [`${count} ${count === 1 ? one : many}`];
  });
  return parts.join(', ') || 'no warnings';
}

/** The name of a page's subject, and below it what it is and when it began. */
export function titled(name: string, what: readonly (string | null | undefined)[], created: string): HTMLElement[] {
  const when = created.replace('T', ' ').replace(/(\.\d+)?Z$/, ' UTC');
  return [h('h1', {}, name), h('p', { class: 'when' }, [...what, when].filter(Boolean).join(' · '))];
}

/** A button that leads to a section of the page. */
export function wayDown(label: string, id: string, isSerious: boolean): HTMLElement {
  const go = (): void => document.getElementById(id)?.scrollIntoView();
  return button(label, go, { class: isSerious ? 'quiet serious' : 'quiet', title: `Go to the ${id}` });
}

export function toWarnings(list: readonly { tier: Tier }[]): HTMLElement {
  const isSerious = list.some((it) => it.tier !== 'note');
  return wayDown(byTier(list), 'warnings', isSerious);
}

/** `1 more note`, or `3 more: 1 caution, 2 notes`. */
function more(list: readonly { tier: Tier }[]): string {
  const text = byTier(list);
  return text.includes(',') ? `${list.length} more: ${text}` : text.replace(' ', ' more ');
}

/** The graver first; equal ones stay in their order. */
export function ranked<T extends { tier: Tier }>(list: readonly T[]): T[] {
  return TIERS.flatMap(([tier]) => list.filter((w) => w.tier === tier));
}

const OPEN = 2;

/** The first warnings, and all others behind their number, or another summary. */
export function warningLists(all: HTMLElement[], open: number, summary?: string): Child[] {
  const list = (items: HTMLElement[]): HTMLElement => h('ul', { class: 'warnings' }, items);
  const rest = all.slice(open);
  const behind = h('summary', {}, summary ?? `${rest.length} more`);
  return [
    all.length > 0 && list(all.slice(0, open)),
    rest.length > 0 && h('details', { class: 'behind' }, behind, list(rest)),
  ];
}

/** Warnings, or that there are none; notes of the reader of the archive after them. */
export function warnings(run: RunView): HTMLElement {
  const all = ranked(run.warnings);
  const rest = [...all, ...run.notes.map(() => ({ tier: 'note' as const }))].slice(OPEN);
  const items = [
    ...all.map(({ tier, code, text }) =>
      h('li', { class: tier }, h('b', {}, `${ofSubject(run, nameOfCode(code))}:`), ' ', withCode(text)),
    ),
    ...run.notes.map((text) => h('li', { class: 'note' }, withCode(text))),
  ];
  return section(
    'warnings',
    'Warnings',
    null,
    all.length === 0 && h('p', { class: 'fine' }, h('b', {}, 'No warnings.'), fine(run.state)),
    warningLists(items, OPEN, more(rest)),
  );
}
