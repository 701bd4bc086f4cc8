import { expect, test } from 'vitest';
import type { NamedPanel } from '../src/core/view';
import { namedPanel, stylesOf } from '../src/sections/named';

const panel = (unit: NamedPanel['unit']): NamedPanel => {
  const lines = [{ label: '', values: [1] }];
  return { source: 'metrics', name: 'x', unit, shown: true, t: [0], dt: [1], lines, left_out: 0 };
};

test('a panel of a named series draws a series in the same way whatever its place', () => {
  const labels = ['VM total', 'resident', 'carriers', 'page cache', 'binaries'];
  const styles = stylesOf(labels);
  const turned = stylesOf(labels.toReversed());
  expect(turned.toReversed()).toEqual(styles);
  expect(new Set(styles).size).toBe(5);
  expect(Math.max(...stylesOf(labels.slice(0, 3)))).toBeLessThan(4);
  expect(stylesOf(['a'])).toEqual([0]);
  expect(stylesOf(Array.from({ length: 20 }, (_, i) => `s${i}`))).toHaveLength(20);
});

test('a panel of a named series has ticks and values in the unit that suits them', () => {
  for (const [unit, value, tick, text] of [
    ['bytes', 2_500_000, '2.5 MB', '2.50 MB'],
    ['bytes-per-second', 2_500, '2.5 kB', '2.50 kB/s'],
    ['seconds', 0.0712, '71.2 ms', '71.2 ms'],
    ['seconds', 12, '12 s', '12.0 s'],
    ['count', 12_000, '12\u202fk', '12.0\u202fk'],
  ] as const) {
    const spec = namedPanel(panel(unit), 0);
    expect(spec.tick!(value), unit).toBe(tick);
    expect(spec.lines[0]!.format(value), unit).toBe(text);
  }
});
