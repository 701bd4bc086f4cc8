// Functions that were traced on the broker's node: the slowest calls of each, with who made them.

import { type Child, h, section, tableOfColumns } from '../core/dom';
import { brief, counted, duration, exactDuration, visible } from '../core/format';
import type { Phase, RunView, TracedCall, TraceView } from '../core/view';
import { PHASE_LABELS } from './lane';

/** Characters of arguments in a cell at most; all of them show on hover. */
const LONGEST = 160;

function who({ pid, role, name }: TracedCall): string {
  return [pid, role, name]
    .filter((it) => it !== '')
    .map(visible)
    .join(' ');
}

function ending({ returned }: TracedCall): string {
  if (returned === '') return 'not seen';
  return returned === 'ok' ? 'returned' : `raised ${visible(returned)}`;
}

/** When a call began, in seconds since the start; with the phase where that is not the measured one. */
export function calledAt({ phases }: Pick<RunView, 'phases'>, { t_ns }: Pick<TracedCall, 't_ns'>): string {
  const t = t_ns / 1e9;
  const phase: Phase = phases.find((it) => t >= it.start && t < it.end)?.phase ?? 'measure';
  return `${t.toFixed(3)} s${phase === 'measure' ? '' : ` (${PHASE_LABELS[phase]})`}`;
}

/** How much of the beginning all of these have in common; nothing where that is short. */
export function commonBeginning(texts: string[]): number {
  const [first = '', ...others] = texts;
  let length = first.length;
  for (const text of others) while (!text.startsWith(first.slice(0, length))) length = Math.floor(length * 0.9);
  return others.length === 0 || length < LONGEST / 2 ? 0 : length;
}

/** Arguments from where those of several calls begin to differ. */
export function telling(all: string, common: number): string {
  const own = all.slice(common);
  if (all.length <= LONGEST || common === 0 || own === '') return brief(all, LONGEST);
  return `… ${brief(own, LONGEST - 2)}`;
}

function calls(run: RunView, { slowest }: TraceView): HTMLElement {
  const texts = slowest.map((call) => visible(call.arguments.join(', ')));
  const common = commonBeginning(texts);
  // What all of them have says nothing of one.
  const alike = slowest.length > 1 && new Set(texts).size === 1 ? (texts[0] ?? '') : '';
  const hasArguments = alike === '' && texts.some((it) => it !== '');
  const took = ({ duration_ns: ns }: TracedCall): Child =>
    ns == null ? '–' : h('span', { title: exactDuration(ns) }, duration(ns));
  const shown = tableOfColumns('The slowest calls', slowest, [
    [{ number: 'called at' }, (call) => calledAt(run, call)],
    [{ number: 'took' }, took],
    ['ended', ending],
    ['process', who],
    hasArguments && [
      'arguments',
      (_, at) => h('code', { class: 'term', title: texts[at] }, telling(texts[at] ?? '', common)),
    ],
  ]);
  const same = h('code', { class: 'term', title: alike }, brief(alike, LONGEST));
  return h(
    'div',
    {},
    alike !== '' && h('p', { class: 'hint' }, 'The arguments of all of these, as far as they are kept: ', same),
    h('div', { class: 'scroll', tabindex: 0 }, shown),
  );
}

function one(run: RunView, trace: TraceView): HTMLElement {
  const { function: name, node, kept, ended, slowest } = trace;
  const told = [
    kept > 0 ? `${counted(kept, 'call')} in traces.jsonl` : '',
    node === '' ? '' : `node ${visible(node)}`,
    ended ? `ended at ${ended[0].toFixed(1)} s: ${visible(ended[1])}` : '',
  ];
  return h(
    'div',
    { class: 'trace' },
    h('h3', {}, h('code', {}, visible(name))),
    h('p', { class: 'hint' }, told.filter((it) => it !== '').join('; ')),
    slowest.length > 0 ? calls(run, trace) : h('p', {}, 'It saw no call.'),
  );
}

/** The section; null where nothing was traced. */
export function traces(run: RunView): HTMLElement | null {
  if (run.traces.length === 0) return null;
  return section(
    'traces',
    'Traced calls',
    h('span', { class: 'readout' }, 'the slowest first, waits included'),
    run.traces.map((trace) => one(run, trace)),
  );
}
