// What a reader should know of frames that are not what they seem.

import { KINDS } from '../core/data';
import type { ProfileHead } from '../core/view';

type Sampled = Pick<ProfileHead, 'kernel_event' | 'names' | 'kind'>;

/** Functions of the kernel at whose end it allows interrupts again. */
const ALLOWS_INTERRUPTS = /^_*(finish_task_switch|raw_spin_unlock_irq)/;

/** What is to be known of a frame; empty for most. */
export function remarkOn({ kernel_event, names, kind }: Sampled, frame: number): string {
  const kernel = KINDS[kind[frame]!] === 'kernel';
  if (kernel_event !== 'cpu-clock' || !kernel || !ALLOWS_INTERRUPTS.test(names[frame]!)) return '';
  return (
    'At the end of this function the kernel allows interrupts again. On machines without hardware counters the ' +
    'interrupt of the sampling clock waits until then, so that samples stand here whose time went into what ran ' +
    'before with interrupts off, such as the switch between two threads (bellows help stacks).'
  );
}
