import { expect, test } from 'vitest';
import { covered } from '../src/charts/bands';
import type { RepeatedFigure, RequirementRow } from '../src/core/view';
import { place, remarks, valued } from '../src/sections/repeats';
import { missed } from '../src/sections/requirements';

function figure(values: number[], interval: [number, number] | null): RepeatedFigure {
  const [min, max] = [Math.min(...values), Math.max(...values)];
  return { name: 'sent rate', unit: 'per_second', values, mean: 0, sd: null, min, max, interval };
}

test('dots of repeated runs lie in the order of their values, inside the strip', () => {
  const of = figure([10, 20, 15], [0, 100]);
  const places = [0, 10, 15, 20, 100].map((value) => place(of, value));
  expect(places).toEqual([0, 8, 50, 92, 100]);
  // Equal values lie in the middle.
  expect(place(figure([7, 7], null), 7)).toBe(50);
});

test('remarks on repeated runs say what they count', () => {
  const run = { id: '', state: 'complete', invalid: false, cautious: true, apart: [] } as const;
  const runs = [run, run].map((it) => ({ ...it, apart: [] }));
  const all = { schema: '', name: '', requested: 2, runs, figures: [] };
  expect(remarks(all)[0]).toMatch(/^in 2 of 2 runs cautions say/);
});

test('values of repeated runs have the unit that suits them', () => {
  expect(valued(49_812, 'per_second')).toBe('49,800/s');
  expect(valued(171e6, 'ns')).toBe('171 ms');
  expect(valued(4 / 3, 'count')).toBe('1.33');
  expect(valued(0.995, 'share')).toBe('99.5 %');
  expect(valued(10.5e6, 'bytes')).toBe('10.5 MB');
});

test('times in which somebody stood still count once where they overlap', () => {
  const band = (start: number, end: number) => ({ start, end });
  expect(covered([band(4, 5), band(1, 2), band(1.5, 3), band(1.6, 1.7)])).toBeCloseTo(3);
  expect(covered([])).toBe(0);
});

test('missed requirements are counted', () => {
  const rows = [true, null, false].map((met) => ({ met }) as RequirementRow);
  expect(missed(rows)).toBe('1 of 3 requirements missed');
  expect(missed(rows.slice(0, 2))).toBeNull();
  expect(missed(rows.slice(2))).toBe('1 of 1 requirement missed');
});
