import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PhaseSpan } from '../src/core/view';
import { calledAt } from '../src/sections/traces';

test('a call outside of the measured phase is told as such', () => {
  const phases: PhaseSpan[] = [
    { phase: 'warmup', start: 0, end: 7 },
    { phase: 'measure', start: 7, end: 20 },
    { phase: 'drain', start: 20, end: 21 },
  ];
  const at = (t_ns: number): string => calledAt({ phases }, { t_ns });
  assert.equal(at(6_138_000_000), '6.138 s (warm-up)');
  assert.equal(at(7_000_000_000), '7.000 s');
  assert.equal(at(20_500_000_000), '20.500 s (drain)');
  assert.equal(at(30_000_000_000), '30.000 s');
});
