// What the weights of an event's samples are, in the words and units of its reader.

import { bytes, duration, grouped } from './format';
import type { ProfileHead } from './view';

type Sampled = Pick<ProfileHead, 'event' | 'event_kind' | 'unit' | 'period_ns'>;

/** The event of a profile, and its node: the first one's has no number in its name, and gets one where others have. */
export function eventAndNode(name: string, all: readonly { event: string }[]): [string, string] {
  const [event = '', node] = name.split('@');
  const several = all.some((it) => it.event.includes('@'));
  return [event, node ?? (several ? '0' : '')];
}

/** What an event is called where it is chosen among those of the run. */
export function eventLabel(
  { event: name, unit }: Pick<ProfileHead, 'event' | 'unit'>,
  all: readonly { event: string }[] = [],
): string {
  const [event, node] = eventAndNode(name, all);
  if (node) return `${eventLabel({ event, unit })}, node ${node}`;
  if (event === 'cpu') return 'CPU time';
  if (event === 'off-cpu') return 'time off CPU';
  if (unit === 'bytes') return `bytes of ${event.replace(/-bytes$/, '')}`;
  if (unit === 'calls') return `calls of ${event}`;
  return event.replace(/^([a-z]+)-([a-z]+)$/, '$1 $2') || 'profile';
}

/** A weight: `1,234 samples`, `1.24 s`, `12.3 MB`, `1 call`. */
export function amount({ unit }: Pick<ProfileHead, 'unit'>, weight: number): string {
  if (unit === 'nanoseconds') return duration(weight);
  if (unit === 'bytes') return bytes(weight);
  const one = unit.endsWith('ches') ? unit.slice(0, -2) : unit.replace(/s$/, '');
  return `${grouped(weight)} ${weight === 1 ? one : unit}`;
}

/** The same, and for samples of a clock the CPU time that they stand for. */
export function exactAmount(profile: Sampled, weight: number): string {
  const { period_ns, unit } = profile;
  const told = amount(profile, weight);
  if (period_ns > 0) return `${told}, ${duration(weight * period_ns)} of CPU time`;
  if (unit === 'nanoseconds' && profile.event_kind === 'off_cpu') return `${told} off CPU`;
  return told;
}
