// The line that says what a profile consists of, by which clock it was taken, and how far it can be trusted.

import type { Profile } from '../core/data';
import { counted, grouped, percent } from '../core/format';
import type { RunView } from '../core/view';
import { sampleAt } from '../flame/tree';
import { subject } from './panels';

/** The parts of the line for a window of this name. What is known of all samples together alone says so. */
export function sampling(
  run: RunView,
  profile: Profile,
  [from, to]: readonly [number, number],
  name: string,
): string[] {
  const { event, samples, time, timed } = profile;
  const inside = timed ? sampleAt(time, to) - sampleAt(time, from) : samples;
  const what = event === 'cpu' ? `CPU time of the ${subject(run)}` : event;
  const all = inside === samples ? '' : `, ${grouped(samples)} in the whole run`;
  const covered = profile.covered === '' ? '' : `${profile.covered} · `;
  return [
    `${counted(inside, 'sample')} of ${what} in the ${name}${all}`,
    clock(profile),
    `${all === '' ? '' : 'of the whole run: '}${covered}unknown share ${percent(profile.unknown_share)}`,
    `complete stacks ${percent(profile.complete_share)}`,
    profile.stacks,
    profile.others.length > 0
      ? `also sampled: ${profile.others.join(', ')} (bellows top ${run.id} --event ${profile.others[0]})`
      : '',
    profile.lost > 0 ? `${grouped(profile.lost)} lost` : '',
    // What already stands among the warnings need not be read twice.
    ...profile.notes.filter((note) => !run.warnings.some((it) => it.text.includes(note))),
  ].filter((part) => part !== '');
}

/** What samples were taken by, and how often; empty where neither is known. */
function clock({ kernel_event, frequency }: Profile): string {
  const often = frequency > 0 ? `at ${frequency} Hz per core` : '';
  const by = kernel_event === '' ? '' : `by ${kernel_event}`;
  return [by, often].filter((part) => part !== '').join(' ');
}
