// The line that says what a profile consists of, by which clock it was taken, and how far it can be trusted.

import { type Profile, subject } from '../core/data';
import { grouped, percent, plural, seconds } from '../core/format';
import type { Stretch } from '../core/state';
import { amount, eventAndNode } from '../core/units';
import type { RunView } from '../core/view';
import { sampleAt } from '../flame/tree';

/** The parts of the line for a window of this name. What is known of all samples together alone says so. */
export function sampling(run: RunView, profile: Profile, [from, to]: Stretch, name: string): string[] {
  const { samples, time, timed } = profile;
  const first = timed ? sampleAt(time, from) : 0;
  const last = timed ? sampleAt(time, to) : samples;
  const all = last - first === samples ? '' : `, ${taken(profile, 0, samples)} in the whole run`;
  const covered = profile.covered === '' ? '' : `${profile.covered} · `;
  return [
    `${taken(profile, first, last)} ${what(run, profile, last - first)} in the ${name}${all}${isHeld(profile) ? ', and still held at the end' : ''}`,
    off(run, from, to),
    clock(profile),
    `${all === '' ? '' : 'of the whole run: '}${covered}unknown share ${percent(profile.unknown_share)}`,
    `complete stacks ${percent(profile.complete_share)}`,
    profile.stacks,
    profile.lost > 0 ? `${grouped(profile.lost)} lost` : '',
    // What already stands among the warnings need not be read twice.
    ...profile.notes.filter((note) => !run.warnings.some((it) => it.text.includes(note))),
  ].filter((part) => part !== '');
}

/** How long sampling was switched off in a window; empty where it was on all the time. */
function off(run: RunView, from: number, to: number): string {
  const inside = run.sampling_off.map((it) => Math.min(to, it.end) - Math.max(from, it.start));
  const sum = inside.reduce((all, it) => all + Math.max(0, it), 0);
  if (sum <= 0) return '';
  const part = to - from - sum < 1e-3 ? 'all' : `${seconds(sum)} of ${seconds(to - from)}`;
  return `sampling was switched off for ${part} of it, to see what it costs`;
}

/** How much was sampled: numbers of samples of a clock, else what they weigh together. */
function taken(profile: Profile, first: number, last: number): string {
  if (profile.event_kind === 'on_cpu') return grouped(last - first);
  let sum = 0;
  for (let i = first; i < last; i++) sum += profile.weight[i]!;
  return amount(profile, sum);
}

/** Behind what was taken: what is left of it at the end. */
const HELD = '-held';

function isHeld({ event }: Profile): boolean {
  return (event.split('@')[0] ?? '').endsWith(HELD);
}

function what(run: RunView, profile: Profile, inside: number): string {
  const { event_kind, unit } = profile;
  const [event, node] = eventAndNode(profile.event, run.profiles);
  const samples = plural(inside, 'sample');
  const whom = node === '' ? `the ${subject(run)}` : `node ${node}`;
  const of = node === '' ? '' : ` of ${whom}`;
  if (event === 'cpu') return `${samples} of CPU time of ${whom}`;
  if (event_kind === 'on_cpu') return (event === '' ? samples : `${samples} of ${event}`) + of;
  if (event === 'off-cpu') return `off CPU, all threads of ${whom} together,`;
  if (isHeld(profile)) return `taken by ${event.slice(0, -HELD.length)}${of}`;
  if (unit === 'bytes') return `in calls of ${event.replace(/-bytes$/, '')}${of}`;
  // Context switches are counted in switches: its unit says it all but for the kind.
  return (event.endsWith(unit) ? `(${event})` : `of ${event}`) + of;
}

/** What samples were taken by, and how often; empty where neither is known. */
function clock({ kernel_event, frequency }: Profile): string {
  const often = frequency > 0 ? `at ${frequency} Hz per core` : '';
  const by = kernel_event === '' ? '' : `by ${kernel_event}`;
  return [by, often].filter((part) => part !== '').join(' ');
}
