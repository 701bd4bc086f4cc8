// The time axis that all panels share: it stays at the top of the screen while they scroll below it.

import type { Clock } from '../core/clock';
import { fill, h, styled } from '../core/dom';
import { timeStep } from '../core/format';
import type { Stretch } from '../core/state';
import { margins } from './panel';

/** Pixels from a tick to the next at least: a time of the wall clock has room. */
const LEAST_PX = 76;

/** Round times in a stretch, so far apart that `most` of them have room; and how far apart they are. */
export function roundTimes([from, to]: Stretch, most: number, lag: Clock['lag'] = () => 0) {
  const step = timeStep((to - from) / Math.max(1, most));
  const first = Math.ceil((from + lag(step)) / step - 1e-9);
  const last = Math.floor((to + lag(step)) / step + 1e-9);
  const times = Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => {
    return Number(((first + i) * step - lag(step)).toFixed(6));
  });
  return { step, times };
}

export function drawTimeAxis(element: HTMLElement, visible: Stretch, width: number, clock: Clock): void {
  const { left, right } = margins(width);
  const inner = width - left - right;
  const [from, to] = visible;
  const { step, times } = roundTimes(visible, inner / LEAST_PX, clock.lag);
  const ticks = times.map((t) => {
    const tick = h('span', { class: 'tick' }, clock.tick(t, to - from, step));
    return styled(tick, { left: `${left + ((t - from) / (to - from)) * inner}px` });
  });
  fill(element, h('span', { class: 'unit' }, clock.unit(to - from)), ticks);
}
