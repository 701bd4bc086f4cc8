import { describe, expect, test } from 'vitest';
import type { TrialView } from '../src/core/view';
import { bounds, logPlace, logTicksOf, medians } from '../src/limit/scale';

function trial(rate: number, p99: number | null): TrialView {
  return {
    id: '',
    rate,
    outcome: 'held',
    why: [],
    sent: rate,
    received: rate,
    latency: p99 === null ? null : [1, p99, 9],
    broker_cores: null,
    report: [],
  };
}

describe('logarithmic axes', () => {
  test('hold all values with room, and place them by their logarithms', () => {
    const [low, high] = bounds([0, 10, 1000], 2);
    expect([low, high]).toEqual([5, 2000]);
    expect(logPlace(100, 10, 1000)).toBeCloseTo(0.5);
    expect(logPlace(0, 10, 1000)).toBe(0);
    expect(logPlace(1e9, 10, 1000)).toBe(1);
    expect(bounds([], 2)).toEqual([1, 10]);
  });

  test('name at least one value, and no more than fit, wherever the ends lie', () => {
    for (let decades = 0.3; decades < 9; decades += 0.13) {
      for (const most of [2, 4, 7, 12]) {
        const ticks = logTicksOf(7, 7 * 10 ** decades, most);
        expect(ticks.length, `${decades} ${most}`).toBeLessThanOrEqual(most + 1);
        expect(ticks.length, `${decades} ${most}`).toBeGreaterThanOrEqual(1);
      }
    }
  });
});

test('the line goes through the medians of each rate, the lowest first', () => {
  const trials = [trial(20, 7), trial(10, 3), trial(20, 5), trial(20, 6), trial(10, null)];
  expect(medians(trials, 1)).toEqual([
    [10, 3],
    [20, 6],
  ]);
});
