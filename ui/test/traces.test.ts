import { expect, test } from 'vitest';
import type { PhaseSpan } from '../src/core/view';
import { calledAt } from '../src/sections/traces';

test('a call outside of the measured phase is told as such', () => {
  const phases: PhaseSpan[] = [
    { phase: 'warmup', start: 0, end: 7 },
    { phase: 'measure', start: 7, end: 20 },
    { phase: 'drain', start: 20, end: 21 },
  ];
  const at = (t_ns: number): string => calledAt({ phases }, { t_ns });
  expect(at(6_138_000_000)).toBe('6.138 s (warm-up)');
  expect(at(7_000_000_000)).toBe('7.000 s');
  expect(at(20_500_000_000)).toBe('20.500 s (drain)');
  expect(at(30_000_000_000)).toBe('30.000 s');
});
