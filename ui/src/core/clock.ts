// Times of the run as the reader wants them: seconds since the load began, or the wall clock.

import { seconds, timeTick, wallClock } from './format';
import type { Store } from './state';
import type { RunView } from './view';

export function hasClock({ origin_unix_ms: origin }: RunView): boolean {
  return origin > 0;
}

export type Clock = ReturnType<typeof clockOf>;

/** The clock that the reader has chosen, for sentences and for axes of `span` seconds with ticks `step` apart. */
export function clockOf(run: RunView, store: Store) {
  const isWall = (): boolean => hasClock(run) && store.state.clock === 'wall';
  const at = (t: number, decimals: number): string => wallClock(run.origin_unix_ms + t * 1000, decimals);
  return {
    isWall,
    /** A moment in a sentence: `12.3 s`, `00:12:45.3`. */
    moment: (t: number) => (isWall() ? at(t, 1) : seconds(Math.round(t * 100) / 100)),
    tick: (t: number, span: number, step: number) => (isWall() ? at(t, step < 1 ? 3 : 0) : timeTick(t, span)),
    unit: (span: number) => (isWall() ? 'UTC' : span <= 180 ? 's' : span < 3600 ? 'm:s' : 'h:m:s'),
    /** Seconds by which round times of this clock come before those of the run. */
    lag: (step: number) => (isWall() ? (run.origin_unix_ms / 1000) % step : 0),
  };
}
