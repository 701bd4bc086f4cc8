import type { Profile } from '../src/core/data';
import { Builder, leaves, totals, type Weights } from '../src/flame/tree';

/** A sequence of numbers below a bound that looks random and is the same each time. */
export function numbers(seed: number): (bound: number) => number {
  let state = seed;
  return (bound) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % bound;
  };
}

/** A profile from folded text, one line per sample: `seconds a;b;c`. */
export function profileOf(lines: string[], weight = 1): Profile {
  const names: string[] = [];
  const builder = new Builder(1000);
  const time: number[] = [];
  const leaf: number[] = [];
  for (const line of lines) {
    const [t, stack] = line.split(' ') as [string, string];
    let at = -1;
    for (const name of stack.split(';')) {
      if (!names.includes(name)) names.push(name);
      at = builder.child(at, names.indexOf(name));
    }
    time.push(Number(t));
    leaf.push(at);
  }
  const { parent, frame } = builder;
  const clock = { kernel_event: 'cpu-clock', period_ns: 1_001_001, frequency: 999, timed: true, tick_ns: 100_000 };
  const quality = { lost: 0, unknown_share: 0, complete_share: 1, covered: '', stacks: '' };
  return {
    ...clock,
    ...quality,
    event: 'cpu',
    event_kind: 'on_cpu',
    unit: 'samples',
    counts_samples: true,
    known: [],
    notes: [],
    weighted: weight !== 1,
    threads: [''],
    bytes: 0,
    modules: [''],
    classes: [{ class: 'erlang_code', name: 'Erlang code', meaning: '', outside: 'Erlang code', estimated: false }],
    processes: [],
    names,
    module: names.map(() => 0),
    kind: names.map(() => 0),
    language: [],
    nodes: parent.length,
    samples: time.length,
    parent: Int32Array.from(parent),
    frame: Uint32Array.from(frame),
    class: new Uint32Array(frame.length),
    time: Float64Array.from(time),
    leaf: Uint32Array.from(leaf),
    weight: new Float64Array(time.length).fill(weight),
    process: null,
    thread: () => new Uint32Array(time.length),
    lines: null,
    lineTree: null,
  };
}

/** The samples of `from <= t < to`. */
export function weigh(profile: Profile, from: number, to: number): Weights {
  const { self, sum } = leaves(profile, from, to);
  return { self, total: totals(self, profile.parent), sum };
}
