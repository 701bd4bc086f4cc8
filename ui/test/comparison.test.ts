import { describe, expect, test } from 'vitest';
import { endsAtZero, interval as intervalOf, tone } from '../src/comparison/figures';
import { costTree, told } from '../src/comparison/flame';
import { change, doubtOf, full, provenFirst, signedTime } from '../src/comparison/functions';
import { endTicks, tint } from '../src/comparison/matrix';
import { bounds, interval, mean, meanCurve } from '../src/comparison/overlay';
import { across, doubt, down } from '../src/comparison/runs';
import { changeScale, isTested, signed, tickName } from '../src/comparison/scale';
import { wayTo } from '../src/core/dom';
import type {
  ComparedFrame,
  ComparedPanel,
  ComparedStacks,
  CostChange,
  Curve,
  FigureRow,
  FunctionChange,
} from '../src/core/view';

function figure(of: Partial<FigureRow>): FigureRow {
  const values = { a: [1], b: [1], change: 0, p: 1, corrected_p: 1, margin: 0.01, visible: 0 };
  const verdict = { more_is_better: false, needed: null, decided: '', worse: false, interval_says: true };
  const pairs: Pick<FigureRow, 'without' | 'means' | 'interval'> = { without: [0, 0], means: [1, 1], interval: [0, 0] };
  return { ...values, ...verdict, ...pairs, name: 'x', unit: 'ns', decision: 'same', ...of };
}

/** The smallest distance of two ticks. */
function narrowest(ticks: readonly { at: number }[]): number {
  const places = ticks.map((tick) => tick.at).toSorted((a, b) => a - b);
  return Math.min(...places.slice(1).map((at, i) => at - places[i]!));
}

test('a side of one run is not tested, and its change is on the axis without an interval', () => {
  const within_one_run = { a: [1, 2] as [number, number], b: null };
  const alone = figure({ change: -0.4, interval: [-9, 9], interval_says: false, within_one_run });
  // Runs that came to nothing have no change.
  const figures = [alone, figure({}), figure({ a: [], b: [] }), figure({ b: [] })];
  expect(figures.map(isTested)).toEqual([false, true, false, false]);
  const scale = changeScale([alone]);
  expect(scale.log).toBe(true);
  expect(scale.place(-0.4)).toBeGreaterThan(0);
  expect(scale.place(-0.4)).toBeLessThan(scale.place(0));
  expect(scale.ticks.map((tick) => tick.label)).not.toContain('x10');
});

test('too few runs give a change no interval, in words and on the axis', () => {
  const few = figure({ change: 0.02, interval: [-0.9999, 5000], interval_says: false });
  expect(intervalOf(few)).toBe('too few runs');
  expect(intervalOf({ ...few, interval_says: true })).toBe('< -99.9 % to > +100,000 %');
  expect(changeScale([few]).log).toBe(false);
  const cost = { a: 10, b: 20, interval: [-5, 25], p: 0.5, proven: false } as const;
  const told = (visible: number | null): string => doubtOf({ ...cost, interval: [-5, 25], visible });
  expect(told(4)).toBe('interval -5 ns to +25 ns; p 0.500');
  expect(told(null)).toBe('too few runs for an interval');
});

describe('call paths of both sides', () => {
  const frame = (of: Partial<ComparedFrame>): ComparedFrame => {
    const none = { name: 0, a: 0, b: 0, asked: true, proven: false, visible: 0 };
    return { ...none, interval: [0, 0], ...of };
  };
  const stacks: ComparedStacks = {
    schema: '',
    broker: { a: 1000, b: 1100, interval: [0, 0], p: 1, proven: false, visible: 0 },
    names: ['scheduler', 'route'].map((name) => ({ function: name, module: '' })),
    frames: [
      frame({ a: 900, b: 1000 }),
      frame({ parent: 0, name: 1, a: 100, b: 200, proven: true }),
      frame({ parent: 0, name: 1, a: 50, b: 0 }),
    ],
    level: 0.05,
    least_share: 0.001,
  };

  test('widths are the mean of both sides, and what is not proven gives no full colour', () => {
    const { tree, weights, named, full } = costTree(stacks);
    expect([weights.total, weights.self, tree.parent].map(String)).toEqual(['950,150,25', '775,150,25', '-1,0,0']);
    expect(weights.sum).toBe(950);
    expect(named.names).toEqual(['scheduler', 'route']);
    expect(full).toBe(100);
  });

  test('a frame says its cost, what is proven, and what could have been seen', () => {
    const of = frame({ a: 1200, b: 1800, interval: [590, 610], proven: true, visible: 50 });
    expect(told(of)).toBe('A 1.20 µs, B 1.80 µs, +600 ns [+590 ns, +610 ns], proven, shows from 50 ns');
    expect(told({ ...of, proven: false, asked: false })).toContain('nor anything below');
    const few = told({ ...of, proven: false, visible: null });
    expect(few).toContain('not proven, too few runs');
    expect(few).not.toContain('[');
  });
});

describe('the axis of changes', () => {
  test('small changes are linear, and everything lies inside in its order', () => {
    const of = [figure({ change: 0.02, interval: [-0.03, 0.07] })];
    const scale = changeScale(of);
    expect(scale.log).toBe(false);
    const places = [-0.03, -0.01, 0, 0.01, 0.02, 0.07].map(scale.place);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places[0]).toBeGreaterThan(0);
    expect(places.at(-1)).toBeLessThan(100);
    expect(scale.place(0.05) - scale.place(0.03)).toBeCloseTo(scale.place(0.02) - scale.place(0));
  });

  test('a hundredfold change leaves the margin of one per cent visible', () => {
    const scale = changeScale([
      figure({ change: 170, interval: [152, 190] }),
      figure({ change: 0.002, interval: [-0.004, 0.008] }),
    ]);
    expect(scale.log).toBe(true);
    expect(scale.place(0.01) - scale.place(-0.01)).toBeGreaterThan(4);
    expect(scale.place(190)).toBeLessThan(100);
    // A name does not run into another.
    expect(narrowest(scale.ticks)).toBeGreaterThanOrEqual(13);
    expect(scale.ticks.map((tick) => tick.label)).toContain('0');
  });

  test('what no test applies to, and what is beyond all bounds, breaks nothing', () => {
    const scale = changeScale([figure({ change: -1, interval: [-1, -1], without: [0, 3] })]);
    expect(scale.log).toBe(false);
    const vast = changeScale([figure({ change: 1, interval: [-1, 1e9] })]);
    for (const change of [-1, -0.5, 0, 1e9]) {
      expect(vast.place(change)).toBeGreaterThanOrEqual(0);
      expect(vast.place(change)).toBeLessThanOrEqual(100);
    }
    expect(changeScale([]).ticks.length).toBeGreaterThan(0);
  });

  test('changes are named', () => {
    expect([0.0123, -0.3, 170].map(signed)).toEqual(['+1.23 %', '-30.0 %', '+17,000 %']);
    // Two runs tell an interval that reaches nearly everything: that is said, and not by how much.
    expect([-0.99999, 18_600_000].map(signed)).toEqual(['< -99.9 %', '> +100,000 %']);
    // An interval ends there; a change that is rounded is none of it.
    expect([0, 0.000_01, -0.000_01].map(signed)).toEqual(['0 %', '+0.00 %', '-0.00 %']);
    expect([0, 1340, -1340].map(signedTime)).toEqual(['0', '+1.34 µs', '-1.34 µs']);
    expect([0, 0.1].map((low) => endsAtZero({ interval: [low, 0.2] }))).toEqual([true, false]);
    expect([0, 0.3, -0.9, 9].map(tickName)).toEqual(['0', '+30 %', '-90 %', 'x10']);
  });
});

test('colours say what is proven and which way it goes', () => {
  expect(tone(figure({ decision: 'changed', worse: true }))).toBe('worse');
  expect(tone(figure({ decision: 'changed' }))).toBe('better');
  expect(tone(figure({ decision: 'negligible', worse: false }))).toBe('same');
  expect(tone(figure({ decision: 'undecided' }))).toBe('open');
});

describe('every run', () => {
  test('dots stand in the order of the runs, the largest value on top', () => {
    expect([0, 1, 2].map((i) => across(50, i, 3, 10))).toEqual([40, 50, 60]);
    expect(across(50, 0, 1, 10)).toBe(50);
    expect([20, 15, 10].map(down([10, 20, 15]).y)).toEqual([6, 50, 94]);
    expect(down([7, 7]).y(7)).toBe(50);
    // One run far away does not flatten the others, and a run without the figure has no logarithm.
    const { y } = down([1, 2, 1000]);
    expect(y(1) - y(2)).toBeGreaterThan(5);
    const isLog = (...values: number[]): boolean => down(values).log;
    expect([isLog(10, 20, 15), isLog(1, 2, 1000), isLog(0, 1000)]).toEqual([false, true, false]);
  });

  test('names of folders are escaped in the way to a report', () => {
    expect(wayTo(['a b', '#1', 'report.html'])).toBe('a%20b/%231/report.html');
    expect(wayTo([])).toBeNull();
  });

  test('a run that is invalid by itself is not told as one with cautions', () => {
    const of = (invalid: boolean, cautious: boolean) => doubt({ id: 'x', report: [], invalid, cautious });
    expect([of(false, false), of(false, true)]).toEqual(['', ', with cautions']);
    expect(of(true, true)).toBe(', invalid by itself');
  });
});

test('functions of which a change is proven come first, and the order stays', () => {
  const cost = (a: number, b: number, proven: boolean): CostChange => {
    return { a, b, interval: [0, 0], p: 0, proven, visible: 0 };
  };
  const named = (name: string, own: CostChange, total = own): FunctionChange => {
    return { function: name, module: '', own, total, cut: 0 };
  };
  const rows = [
    named('large', cost(0, 900, false)),
    named('below', cost(0, 10, false), cost(0, 50, true)),
    named('own', cost(40, 10, true)),
  ];
  expect(provenFirst(rows).map((it) => it.function)).toEqual(['below', 'own', 'large']);
  expect(full(rows)).toBe(900);
  expect(change(rows[2]!.own)).toBe(-30);
});

describe('both sides on one axis', () => {
  test('a run that ends early takes no part in the mean behind its end', () => {
    expect(mean([[1, 2, 3], [3, null], []])).toEqual([2, 2, 3]);
    expect(mean([])).toEqual([]);
  });

  test('each run counts alike in a curve, as far as all of them reach', () => {
    const curve = (ns: number[], count: number): Curve => {
      return { metric: 'ack_response', count, nines: ns.map((_, i) => i * 0.05), ns };
    };
    const of = meanCurve([curve([10, 100, 1000], 1_000_000), curve([1000, 10_000], 20)]);
    expect(of?.ns.map(Math.round)).toEqual([100, 1000]);
    expect(of?.count).toBe(20);
    expect(meanCurve([])).toBeNull();
  });

  test('the interval of a mean curve is that of Student at each percentile, and three runs are the least', () => {
    const curve = (...ns: number[]): Curve => ({ metric: 'm', count: 1000, nines: ns.map((_, i) => i), ns });
    // Logarithms 1, 2 and 3: the mean is 2, the deviation 1, t 4.303 with two degrees of freedom.
    const runs = [1, 2, 3].map((it) => curve(Math.exp(it), 50));
    const [low, high] = interval(runs)!;
    const half = 4.303 / Math.sqrt(3);
    expect(Math.log(low.ns[0]!)).toBeCloseTo(2 - half, 6);
    expect(Math.log(high.ns[0]!)).toBeCloseTo(2 + half, 6);
    expect([low.ns[1], high.ns[1]].map((it) => it!.toFixed(6))).toEqual(['50.000000', '50.000000']);
    expect(interval(runs.slice(1))).toBeNull();
    expect(interval([])).toBeNull();
  });

  test('bounds hold every run', () => {
    const of: ComparedPanel = { title: 'x', unit: 'ns', t: [0, 1], dt: [1, 1], a: [[5, null]], b: [[0, 70]] };
    expect(bounds(of)).toEqual([5, 70]);
    expect(bounds({ ...of, a: [], b: [[null]] })).toBeNull();
  });
});

test('what is proven is tinted by its size, and names of a narrow axis stand apart', () => {
  const scale = changeScale([figure({ change: 0.2, interval: [-0.2, 0.24] })]);
  expect(tint(figure({ change: 0.2, decision: 'undecided' }), scale)).toBe(0);
  const of = (by: number): number => tint(figure({ change: by, decision: 'changed' }), scale);
  expect(of(0.01)).toBeGreaterThan(0);
  expect(of(0.2)).toBeGreaterThan(of(0.05));
  const ticks = endTicks(scale);
  expect(ticks.length).toBeGreaterThan(1);
  expect(narrowest(ticks)).toBeGreaterThanOrEqual(34);
});
