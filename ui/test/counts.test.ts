import { expect, test } from 'vitest';
import type { Profile } from '../src/core/data';
import { Analysis, type Filter } from '../src/flame/analysis';
import { numbers, profileOf } from './helpers';

function example(next: (bound: number) => number): Profile {
  const stacks = ['s', 's;a', 's;a;b', 's;a;b;a', 's;c', 's;c;b'];
  const lines = Array.from({ length: 400 }, (_, i) => `${i / 10} ${stacks[next(stacks.length)]}`);
  const profile = profileOf(lines);
  return {
    ...profile,
    unit: 'bytes',
    weight: profile.weight.map(() => 1 + next(1000)),
    classes: ['erlang_code', 'ets'].map((it) => ({ class: it, name: it, meaning: '', outside: it, estimated: false })),
    class: profile.class.map((_, i) => i % 2),
    processes: [{}, {}],
    process: profile.leaf.map(() => next(3)),
  } as Profile;
}

const sums = (analysis: Analysis): unknown => {
  const { weights, work, classes, rows } = analysis;
  const { self, total, sum } = weights;
  return { self: [...self], total: [...total], sum, work: [...work], classes: [...classes], rows };
};

test('windows that are moved have the sums of those that are counted anew, whatever was chosen in between', () => {
  const next = numbers(7);
  const profile = example(next);
  const moved = new Analysis(profile);
  const marked = Uint8Array.from([1, 0, 1]);
  const filters: Filter[] = [{}, {}, {}, { marked }, { marked }, { only: 1 }, { focus: 2 }];
  let [from, to] = [5, 30];
  let filter: Filter = {};
  for (let i = 0; i < 300; i++) {
    if (i % 7 === 0) filter = filters[next(filters.length)]!;
    // A step mostly, now and then a jump; it may leave the run, and be empty.
    const far = i % 11 === 0 ? 40 : 3;
    from = Math.max(-2, from + next(2 * far + 1) - far) % 41;
    to = from + Math.max(0, Math.min(30, to - from + next(5) - 2));
    moved.window(from, to, filter);
    const fresh = new Analysis(profile);
    fresh.window(from, to, filter);
    expect(sums(moved), `${i}: ${from} to ${to}`).toEqual(sums(fresh));
  }
});
