import { describe, expect, test } from 'vitest';
import { points } from '../src/core/format';
import { differenceColor } from '../src/core/theme';
import { Analysis } from '../src/flame/analysis';
import { besideTheRest } from '../src/flame/canvas';
import { type Amount, type Change, changeOf } from '../src/flame/difference';
import { sorted } from '../src/sections/functions';
import { profileOf } from './helpers';

const equal = (samples: number): Amount => ({ weight: samples, squares: samples });
const between = (x: number, n: number, y: number, m: number): Change =>
  changeOf(equal(x), equal(n), equal(y), equal(m));
/** So many samples of a stack within a second. */
const samples = (second: number, stack: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${(second + i / (count + 1)).toFixed(6)} ${stack}`);

// The same cases as those of crates/compare/src/shares.rs.
describe('the test', () => {
  test('one per cent of 24,000 samples shows a quarter of a point', () => {
    const told = (more: number) => between(240 + more * 240, 24_000, 240, 24_000).proven;
    expect(told(0.31)).toBe(true);
    expect(told(0.26)).toBe(false);
  });

  test('swapped sides negate, and nothing differs from itself', () => {
    const there = between(900, 10_000, 100, 3_000);
    const back = between(100, 3_000, 900, 10_000);
    expect([there.proven, back.proven]).toEqual([true, true]);
    expect(there.here - there.rest).toBeCloseTo(back.rest - back.here, 12);
    expect(between(900, 10_000, 900, 10_000)).toEqual({ here: 0.09, rest: 0.09, proven: false });
  });

  test('a few heavy samples prove nothing, and many do', () => {
    const small = { weight: 10_000e6, squares: 10_000e12 };
    const beside = (count: number): Change => {
      const each = 2_000e6 / count;
      const heavy = { weight: 2_000e6, squares: count * each * each };
      const all = { weight: 12_000e6, squares: small.squares + heavy.squares };
      return changeOf(heavy, all, equal(0), small);
    };
    expect(beside(5).proven).toBe(false);
    expect(beside(100).proven).toBe(true);
  });

  test('an empty side and no samples prove nothing', () => {
    for (const change of [between(0, 0, 0, 0), between(50, 100, 0, 0), between(0, 0, 5, 10)]) {
      expect(change.proven).toBe(false);
      expect(Number.isFinite(change.here) && Number.isFinite(change.rest)).toBe(true);
    }
    expect(between(4, 10, 0, 10_000).proven).toBe(false);
  });
});

describe('a window beside the rest of the measured phase', () => {
  const profile = profileOf(
    [
      // The warm-up counts for neither.
      ...samples(0, 'root;warm', 50),
      ...samples(1, 'root;f', 70),
      ...samples(1, 'root;old;deep', 30),
      ...samples(2, 'root;f', 20),
      ...samples(2, 'root;g', 80),
      ...samples(3, 'root;f', 70),
      ...samples(3, 'root;old;deep', 30),
    ].sort((a, b) => Number.parseFloat(a) - Number.parseFloat(b)),
  );
  const index = (name: string): number => profile.names.indexOf(name);
  const analysis = new Analysis(profile);
  analysis.window(2, 3, {}, [1, 4]);
  const row = (name: string) => analysis.rows.find((it) => it.frame === index(name));

  test('functions of either side have a row with both shares', () => {
    expect(row('f')?.change).toEqual({ here: 0.2, rest: 0.7, proven: true });
    expect(row('g')?.change).toEqual({ here: 0.8, rest: 0, proven: true });
    expect(row('deep')).toMatchObject({ self: 0, change: { here: 0, rest: 0.3, proven: true } });
    expect(row('warm')).toBeUndefined();
    const order = sorted(analysis.rows, 'change', profile.names);
    expect(order.map((it) => profile.names[it.frame])).toEqual(['g', 'f', 'deep', 'old', 'root']);
  });

  test('nodes have theirs, and what has no width is told', () => {
    const difference = analysis.difference!;
    const node = (name: string) => [...profile.frame].indexOf(index(name));
    expect(difference.of(node('root'))).toEqual({ here: 1, rest: 1, proven: false });
    expect(difference.of(node('g')).here).toBeCloseTo(0.8);
    expect(difference.full).toBeCloseTo(0.8);
    expect(difference.unseen).toBeCloseTo(0.3);
    expect(besideTheRest(difference.of(node('f')))).toBe('70.0 % in the rest, -50.00 points');
  });

  test('hidden functions and a filter hold on both sides', () => {
    const other = new Analysis(profile);
    other.shape({ hide: [index('deep')], collapse: false });
    other.window(2, 3, { focus: index('old') }, [1, 4]);
    const rows = other.rows.map((it) => profile.names[it.frame]);
    expect(rows.sort()).toEqual(['old', 'root']);
    expect(other.rows.find((it) => it.frame === index('old'))?.change?.rest).toBeCloseTo(0.3);
  });

  test('without a phase nothing is compared, and the whole phase leaves nothing', () => {
    analysis.window(2, 3, {});
    expect(analysis.difference).toBeNull();
    expect(row('f')?.change).toBeUndefined();
    analysis.window(1, 4, {}, [1, 4]);
    expect(analysis.difference?.empty).toBe(true);
    expect(analysis.rows.every((it) => !it.change?.proven)).toBe(true);
    const untimed = new Analysis({ ...profile, timed: false });
    untimed.window(2, 3, {}, [1, 4]);
    expect(untimed.difference).toBeNull();
  });

  test('times are weighed, and heavy ones prove nothing', () => {
    const weighed = (weight: (i: number) => number): Analysis => {
      const waits = { unit: 'nanoseconds', counts_samples: false, weight: profile.weight.map((_, i) => weight(i)) };
      const of = new Analysis({ ...profile, ...waits });
      of.window(2, 3, {}, [1, 4]);
      return of;
    };
    expect(weighed((i) => 1e6 + i).difference?.full).toBeGreaterThan(0.75);
    // The last sample of `g`.
    const long = (time: number): boolean => time > 2.97 && time < 3;
    const heavy = weighed((i) => (long(profile.time[i]!) ? 1e9 : 1e6));
    const g = heavy.rows.find((it) => it.frame === index('g'))!.change!;
    expect(g).toMatchObject({ proven: false });
    expect(g.here).toBeGreaterThan(0.8);
  });
});

test('weights of which nothing says what they are count as samples, as in the terminal', () => {
  const weighed = (lines: string[], weight: number, unit: string, counts_samples: boolean) => {
    const of = profileOf(lines, weight);
    const analysis = new Analysis({ ...of, unit, counts_samples });
    analysis.window(1, 2, {}, [0, 2]);
    const index = of.names.indexOf('g');
    return analysis.rows.find((it) => it.frame === index)?.change?.proven;
  };
  // Two lines of each second, a hundred samples each.
  const lines = ['0.2 root;f', '0.4 root;f', '1.2 root;g', '1.4 root;f'];
  for (const unit of ['weight', '', 'samples']) expect(weighed(lines, 100, unit, true), unit).toBe(true);
  expect(weighed(lines, 100, 'nanoseconds', false)).toBe(false);
});

describe('what is shown', () => {
  test('points have a sign, but for none', () => {
    expect([0.012, -0.0003, 0.00001, -0.00001].map(points)).toEqual(['+1.20', '-0.03', '0.00', '0.00']);
  });

  test('colours say the direction, the strength and what is not proven', () => {
    const of = (change: number, isProven: boolean): string => differenceColor(change, isProven, 0.1, false);
    // Three fifths of the sky blue on white.
    expect([of(0.1, true), of(-0.05, true)]).toEqual(['rgb(230, 159, 0)', 'rgb(154, 210, 242)']);
    expect(new Set([of(0, false), of(0.1, false), of(0.1, true)]).size).toBe(3);
  });
});
