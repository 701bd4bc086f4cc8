import { expect, test } from 'vitest';
import type { LatencySummary, TrialView } from '../src/core/view';
import { along, besideLevel, bounds, logPlace, logTicksOf, medians, type Point } from '../src/limit/scale';
import { who, words } from '../src/sections/limit';

function trial(rate: number, p99: number | null): TrialView {
  const latency = p99 === null ? null : ({ count: 100, p50_ns: 1, p99_ns: p99, 'p99.9_ns': 9 } as LatencySummary);
  const flow = { rate, sent: rate, received: rate, latency, broker_cores: null };
  return { id: '', outcome: 'held', why: [], report: [], ...flow };
}

test('what waited is called as the data call it', () => {
  expect(words(undefined).who).toBe('producers');
  for (const unit of ['cycles', 'requests']) {
    const spoken = words(unit);
    expect([spoken.who, spoken.unit, spoken.sent]).toEqual([unit, `${unit}/s`, 'begun']);
    expect(JSON.stringify(spoken.waits)).not.toMatch(unit === 'cycles' ? /request/i : /cycle/i);
  }
});

test('the badge says what the end of the run says, also where somebody stood still', () => {
  const of = (late: 'broker_stalled' | 'own_fault' | null): string =>
    who({ limited_by: 'schedule', cause: { code: 'rate_met', late }, sentence: 'the requested rate was met: 1 msg/s' });
  const told = [of(null), of('broker_stalled'), of('own_fault')];
  expect(told).toEqual(['the requested rate', 'the requested rate', 'the requested rate']);
  const rest = 'what was requested of the workers that remained';
  const lost = { code: 'rate_met', late: null } as const;
  expect(who({ limited_by: 'schedule', cause: lost, sentence: `${rest} was met: 1 msg/s` })).toBe(rest);
  expect(who({ limited_by: 'undecided', cause: { code: 'some_failed' }, sentence: '' })).toBe('failures');
  const sentence = 'the broker stood still; limited by the requested think time: producers waited';
  expect(who({ limited_by: 'schedule', cause: { code: 'think_time' }, sentence })).toBe('the requested think time');
});

test('logarithmic axes hold all values with room, and place them by their logarithms', () => {
  const [low, high] = bounds([0, 10, 1000], 2);
  expect([low, high]).toEqual([5, 2000]);
  expect(logPlace(100, 10, 1000)).toBeCloseTo(0.5);
  expect(logPlace(0, 10, 1000)).toBe(0);
  expect(logPlace(1e9, 10, 1000)).toBe(1);
  expect(bounds([], 2)).toEqual([1, 10]);
});

test('logarithmic axes name at least one value, and no more than fit, wherever the ends lie', () => {
  for (let decades = 0.3; decades < 9; decades += 0.13) {
    for (const most of [2, 4, 7, 12]) {
      const ticks = logTicksOf(7, 7 * 10 ** decades, most);
      expect(ticks.length, `${decades} ${most}`).toBeLessThanOrEqual(most + 1);
      expect(ticks.length, `${decades} ${most}`).toBeGreaterThanOrEqual(1);
    }
  }
});

test('the line goes through the medians of each rate, the lowest first', () => {
  const trials = [trial(20, 7), trial(10, 3), trial(20, 5), trial(20, 6), trial(10, null)];
  const points = (of: TrialView[]): string => medians(of, 'p99_ns').join(' ');
  expect(points(trials)).toBe('10,3 20,6');
  // An unclear one is a mark apart, also where a rate has nothing else.
  const apart = [trial(20, 900), trial(30, 900)].map((it) => ({ ...it, outcome: 'unclear' as const }));
  expect(points([...trials, ...apart])).toBe('10,3 20,6');
  // Of two it lies between them.
  expect(points([trial(20, 7), trial(20, 4)])).toBe('20,5.5');
});

test('the name of a bound covers neither lines nor their names where there is room', () => {
  const line: Point[] = [
    [60, 100],
    [300, 110],
    [600, 20],
  ];
  const points = along(line);
  expect(points.length).toBeGreaterThan(60);
  for (const level of [95, 100, 105, 110, 118]) {
    const [x, y] = besideLevel(level, [60, 600], 150, points);
    const covers = ([px, py]: Point): boolean => px >= x && px <= x + 150 && py >= y - 11 && py <= y + 4;
    expect(points.filter(covers), `${level}`).toEqual([]);
    expect(x + 150).toBeLessThanOrEqual(600);
  }
  // Without room it stands at the left.
  expect(besideLevel(50, [60, 100], 150, [])).toEqual([60, 45]);
});
