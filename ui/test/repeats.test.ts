import { describe, expect, test } from 'vitest';
import type { RepeatedFigure } from '../src/core/view';
import { place, valued } from '../src/sections/repeats';

function figure(values: number[], interval: [number, number] | null): RepeatedFigure {
  return {
    name: 'sent rate',
    unit: 'per_second',
    values,
    mean: 0,
    sd: null,
    min: Math.min(...values),
    max: Math.max(...values),
    interval,
  };
}

describe('repeated runs', () => {
  test('dots lie in the order of their values, inside the strip', () => {
    const of = figure([10, 20, 15], [0, 100]);
    const places = [10, 15, 20].map((value) => place(of, value));
    expect(places).toEqual([8, 50, 92]);
    expect(place(of, 0)).toBe(0);
    expect(place(of, 100)).toBe(100);
  });

  test('equal values lie in the middle', () => {
    expect(place(figure([7, 7], null), 7)).toBe(50);
  });

  test('values have the unit that suits them', () => {
    expect(valued(49_812, 'per_second')).toBe('49,800/s');
    expect(valued(171e6, 'ns')).toBe('171 ms');
    expect(valued(4 / 3, 'count')).toBe('1.33');
    expect(valued(0.995, 'share')).toBe('99.5 %');
    expect(valued(10.5e6, 'bytes')).toBe('10.5 MB');
  });
});
