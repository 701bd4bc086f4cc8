import { expect, test } from 'vitest';
import type { PhaseSpan } from '../src/core/view';
import { calledAt, commonBeginning, telling } from '../src/sections/traces';

test('a call outside of the measured phase is told as such', () => {
  const phases: PhaseSpan[] = [
    { phase: 'warmup', start: 0, end: 7 },
    { phase: 'measure', start: 7, end: 20 },
    { phase: 'drain', start: 20, end: 21 },
  ];
  const told = [6.138e9, 7e9, 20.5e9, 30e9].map((t_ns) => calledAt({ phases }, { t_ns }));
  expect(told).toEqual(['6.138 s (warm-up)', '7.000 s', '20.500 s (drain)', '30.000 s']);
});

test('long arguments are shown from where those of several calls begin to differ', () => {
  const head = `#{bindings => #{},body => ${'x'.repeat(300)}`;
  const texts = [`${head},path => <<"/api/queues">>}`, `${head},path => <<"/api/nodes">>}`];
  const common = commonBeginning(texts);
  expect(telling(texts[0]!, common)).toMatch(/^… x+,path => <<"\/api\/queues">>}$/);
  expect(telling(texts[1]!, common)).toMatch(/^… x+,path => <<"\/api\/nodes">>}$/);
  // Those of one call, of equal ones and short ones begin at their beginning.
  for (const alike of [[texts[0]!], [texts[0]!, texts[0]!], ['a, b', 'a, c']])
    expect(telling(alike[0]!, commonBeginning(alike))).toMatch(/^(#{bindings|a, b$)/);
});
