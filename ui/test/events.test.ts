import { describe, expect, test } from 'vitest';
import type { Profile } from '../src/core/data';
import { bytes } from '../src/core/format';
import { INITIAL } from '../src/core/state';
import { classColor, frameColor, kindColor } from '../src/core/theme';
import { amount, eventLabel, exactAmount } from '../src/core/units';
import type { RunView } from '../src/core/view';
import { Analysis } from '../src/flame/analysis';
import { type Chronology, MOST_IN_ORDER, ticksOf } from '../src/flame/chronology';
import { folded, layout } from '../src/flame/tree';
import { actions } from '../src/sections/menu';
import { cellsOf, offsetsOf, rowsOf, windowOf } from '../src/sections/offsets';
import { sampling } from '../src/sections/sampling';
import { profileOf } from './helpers';

const hue = (color: string): number => Number(/ ([\d.]+)\)$/.exec(color)![1]);

describe('events', () => {
  const off = { event: 'off-cpu', event_kind: 'off_cpu', unit: 'nanoseconds', period_ns: 0 } as const;
  const sizes = { event: 'mmap-bytes', event_kind: 'memory', unit: 'bytes', period_ns: 0 } as const;
  const calls = { event: 'mmap', event_kind: 'memory', unit: 'calls', period_ns: 0 } as const;

  test('weights have the units of their event', () => {
    const cpu = profileOf(['0 a']);
    expect(exactAmount(cpu, 2_000)).toBe('2,000 samples, 2.00 s of CPU time');
    expect([exactAmount(off, 1_500_000), exactAmount(sizes, 4_096)]).toEqual(['1.50 ms off CPU', '4.10 kB']);
    const singular = [amount(calls, 1), amount({ unit: 'switches' }, 1)];
    expect([...singular, amount(calls, 2)]).toEqual(['1 call', '1 switch', '2 calls']);
    expect([999, 1e3, 2.5e6, 7e9, 1e15].map(bytes)).toEqual(['999 B', '1.00 kB', '2.50 MB', '7.00 GB', '1,000 TB']);
  });

  test('are called what people say', () => {
    expect([off, sizes, calls, { event: 'page-faults', unit: 'faults' }].map((it) => eventLabel(it))).toEqual([
      'time off CPU',
      'bytes of mmap',
      'calls of mmap',
      'page faults',
    ]);
    expect(eventLabel({ event: 'sched:fork', unit: 'events' })).toBe('sched:fork');
    expect(eventLabel({ event: 'cpu@2', unit: 'samples' })).toBe('CPU time, node 2');
    expect(eventLabel({ event: 'mmap@1', unit: 'bytes' })).toBe('bytes of mmap, node 1');
    const cpu = { event: 'cpu', unit: 'samples' };
    expect(eventLabel(cpu, [cpu])).toBe('CPU time');
    expect(eventLabel(cpu, [cpu, { event: 'cpu@1' }])).toBe('CPU time, node 0');
  });

  test('memory is green and waiting blue, whatever the code; what has no name stays grey', () => {
    for (const kind of ['erlang', 'java', 'runtime', 'libc', 'kernel', 'native'] as const) {
      const of = (event: 'memory' | 'off_cpu'): number[] => [
        hue(kindColor(kind, false, event)),
        hue(frameColor(kind, 'a module', true, event)),
      ];
      for (const h of of('memory')) expect(h > 105 && h < 195, `${kind} ${h}`).toBe(true);
      for (const h of of('off_cpu')) expect(h > 205 && h < 290, `${kind} ${h}`).toBe(true);
    }
    expect(kindColor('unknown', false, 'memory')).toBe(kindColor('unknown', false));
    expect(hue(classColor('allocators', false, 'memory'))).toBeGreaterThan(105);
    expect(classColor('ets', false)).toBe(classColor('ets', false, 'on_cpu'));
  });

  test('the line about the profile says how much there was of it in the window', () => {
    const figures = { sent: { total: 1 }, received: { total: 0 }, scenarios: {}, programs: [] };
    const run = { figures, warnings: [], profiles: [], sampling_off: [] } as unknown as RunView;
    const of = (event: object): string =>
      sampling(run, { ...profileOf(['1 a', '2 a', '3 b'], 2_000_000), ...event } as Profile, [0, 2.5], 'window')[0]!;
    expect(of(off)).toBe(
      '4.00 ms off CPU, all threads of the broker together, in the window, 6.00 ms in the whole run',
    );
    expect(of(sizes)).toBe('4.00 MB in calls of mmap in the window, 6.00 MB in the whole run');
    expect(of(calls)).toMatch(/^4,000,000 calls of mmap in the window/);
    const held = { event: 'malloc-held', event_kind: 'memory', unit: 'bytes' };
    expect(of(held)).toBe('4.00 MB taken by malloc in the window, 6.00 MB in the whole run, and still held at the end');
    const faults = { event: 'page-faults', event_kind: 'memory', unit: 'faults' };
    expect(of(faults)).toMatch(/^4,000,000 faults \(page-faults\) in the window/);
    run.profiles = [{ event: 'cpu' }, { event: 'cpu@1' }] as RunView['profiles'];
    expect(of({ event: 'cpu' })).toMatch(/^2 samples of CPU time of node 0 in the window/);
    expect(of({ event: 'cpu@1' })).toMatch(/^2 samples of CPU time of node 1 in the window/);
    expect(of({ ...off, event: 'off-cpu@1' })).toMatch(/^4\.00 ms off CPU, all threads of node 1 together/);
  });
});

describe('offsets within seconds', () => {
  const profile = profileOf(['0.01 a', '0.03 a;b', '0.99 a', '2.0 a', '2.5 a;b']);
  const tree = new Analysis(profile).whole;
  const none = { frame: null, flags: null, index: null };
  const offsets = offsetsOf(profile, tree, none, 0, 3);
  const at = (column: number, row: number): number => offsets.weight[column * 50 + row]!;

  test('samples stand in their second and twentieth of a millisecond', () => {
    expect([at(0, 0), at(0, 1), at(0, 49), at(2, 0), at(2, 25)]).toEqual([1, 1, 1, 1, 1]);
    expect(offsets.weight.reduce((a, b) => a + b)).toBe(5);
    // Of one function, only stacks with it count.
    const part = offsetsOf(profile, tree, { ...none, frame: profile.names.indexOf('b') }, 0, 3);
    expect([part.weight[1], part.weight.reduce((a, b) => a + b)]).toEqual([1, 2]);
  });

  test('two cells are a window, in any order, finer than a second', () => {
    const [from, to] = windowOf(offsets, { column: 2, row: 25 }, { column: 2, row: 20 });
    expect(from).toBeCloseTo(2.4);
    expect(to).toBeCloseTo(2.52);
    expect(cellsOf(offsets, [2.4, 2.52])).toEqual([{ column: 2, low: expect.closeTo(20), high: expect.closeTo(26) }]);
    const over = cellsOf(offsets, [0.9, 2.1]);
    expect(over.map((it) => it.column)).toEqual([0, 1, 2]);
    expect(over[1]).toMatchObject({ low: 0, high: 50 });
    expect(cellsOf(offsets, [0, 1])).toHaveLength(1);
  });

  test('rows are no finer than the times', () => {
    expect([100_000, 204_800_000, 4e9].map((tick_ns) => rowsOf({ tick_ns }))).toEqual([50, 4, 1]);
  });
});

describe('what is left out of stacks', () => {
  const profile = profileOf(['1 root;a;a;b', '2 root;a;b;a', '3 root;c']);
  const index = (name: string): number => profile.names.indexOf(name);
  const text = (hide: string[], collapse: boolean): string[] => {
    const analysis = new Analysis(profile);
    analysis.shape({ hide: hide.map(index), collapse });
    analysis.window(0, 10);
    expect(analysis.weights.sum).toBe(3);
    return folded(profile, analysis.tree, analysis.weights).trim().split('\n');
  };

  test('what is hidden counts for its callers, and a function that calls itself is one frame', () => {
    // One that is called again below others is not.
    expect(text([], true)).toEqual(['root;a;b 1', 'root;a;b;a 1', 'root;c 1']);
    expect(text(['b'], false)).toEqual(['root;a;a 2', 'root;c 1']);
    expect(text(['a', 'c'], false)).toEqual(['root 1', 'root;b 2']);
    expect(text(['b'], true)).toEqual(['root;a 2', 'root;c 1']);
  });

  test('a zoom stays on its frame, and goes to the caller where that is hidden', () => {
    const analysis = new Analysis(profile);
    const b = [...profile.frame].indexOf(index('b'));
    const zoomed = (): string => profile.names[analysis.tree.frame[analysis.nodeOf(b)!]!]!;
    expect(zoomed()).toBe('b');
    analysis.shape({ hide: [], collapse: true });
    expect([zoomed(), analysis.wholeOf(analysis.nodeOf(b)!)]).toEqual(['b', b]);
    analysis.shape({ hide: [index('b')], collapse: false });
    expect(zoomed()).toBe('a');
    expect(analysis.nodeOf(999)).toBeNull();
    analysis.shape({ hide: [], collapse: false });
    expect(analysis.tree).toBe(analysis.whole);
  });

  test('the focus leaves stacks with the function alone, and shares stay those of the whole', () => {
    const analysis = new Analysis(profile);
    analysis.window(0, 10, { focus: index('c') });
    expect(analysis.weights.sum).toBe(3);
    expect(analysis.rows.map((row) => profile.names[row.frame]).sort()).toEqual(['c', 'root']);
  });

  test('the menu offers what changes something', () => {
    const labels = (state: object, node: number | null, thread = false): string[] =>
      actions({ ...INITIAL, ...state }, 4, node, thread).map(([label]) => label);
    expect(labels({}, 7)).toHaveLength(5);
    expect(labels({ zoom: 7, frame: 4, focus: 4 }, 7)).toEqual(['callers & callees', 'hide this function']);
    expect(labels({}, 0, true)).toEqual(['zoom to this frame']);
    const hide = actions({ ...INITIAL, hide: [1] }, 4, null, false).at(-1)![1];
    expect(hide).toEqual({ hide: [1, 4] });
  });
});

describe('the order of time', () => {
  // Two threads in turn: the first runs a, then b, then a again; the second c.
  const lines = ['1.0 s;a;x', '1.1 s;c', '1.2 s;a;y', '1.3 s;c', '1.4 s;b', '1.5 s;a', '9 s;b'];
  const profile: Profile = {
    ...profileOf(lines),
    threads: ['1_scheduler', '2_scheduler'],
    thread: () => Uint32Array.from([0, 1, 0, 1, 0, 0, 0]),
  };
  const analysis = new Analysis(profile);

  test('each thread has its stacks in order, and neighbours with the same frame are one', () => {
    analysis.window(0, 5);
    const chart = analysis.inOrder() as Chronology;
    const { boxes } = layout(chart.tree, chart.weights, null, (a, b) => a - b, 0, true);
    const ordered = boxes.toSorted((a, b) => a.depth - b.depth || a.x - b.x);
    const name = (node: number): string => profile.names[chart.tree.frame[node]!]!;
    const rows = ordered.map((box) => `${box.depth} ${name(box.node)} ${Math.round(box.width * 6)}`);
    expect(rows).toEqual(['0 s 4', '0 s 2', '1 a 2', '1 b 1', '1 a 1', '1 c 2', '2 x 1', '2 y 1']);
    const first = boxes.find((box) => box.depth === 1 && box.x === 0)!.node;
    expect([chart.from[first], chart.to[first], chart.thread[first]]).toEqual([1, 1.2, 0]);
    expect(chart.weights.sum).toBe(6);
  });

  test('what is too narrow leaves its place', () => {
    analysis.window(0, 5);
    const { tree, weights } = analysis.inOrder() as Chronology;
    const { boxes } = layout(tree, weights, null, (a, b) => a - b, 0.3, true);
    const c = boxes.find((box) => profile.names[tree.frame[box.node]!] === 'c')!;
    expect(c.x).toBeCloseTo(4 / 6);
  });

  test('holds the chosen samples, without what is hidden', () => {
    analysis.window(0, 5, { focus: profile.names.indexOf('a') });
    analysis.shape({ hide: [profile.names.indexOf('a')], collapse: false });
    analysis.window(0, 5, { focus: profile.names.indexOf('a') });
    const { tree } = analysis.inOrder() as Chronology;
    expect([...tree.frame].map((frame) => profile.names[frame])).toEqual(['s', 'x', 'y']);
  });

  test('its axis begins with each thread and goes on at round times', () => {
    const lines = Array.from({ length: 40 }, (_, i) => `${10 + i / 10} ${i % 2 ? 's' : 't'};a`);
    const timed = profileOf(lines);
    timed.thread = () => Uint32Array.from(lines, (_, i) => i % 2);
    const all = new Analysis(timed);
    all.window(0, 100);
    const ticks = ticksOf(all.inOrder() as Chronology, 800);
    expect(ticks.map(({ t }) => t)).toEqual([10, 11, 12, 13, 10.1, 11, 12, 13]);
    expect(ticks[4]!.x).toBe(0.5);
    expect(ticksOf(all.inOrder() as Chronology, 100).map(({ t }) => t)).toEqual([10]);
  });

  test('too many samples are told', () => {
    const many = Array.from({ length: MOST_IN_ORDER + 1 }, (_, i) => `${i / 1000} a`);
    const full = new Analysis(profileOf(many));
    full.window(0, 100);
    expect(full.inOrder()).toBe(MOST_IN_ORDER + 1);
    full.window(0, 1);
    expect(typeof full.inOrder()).toBe('object');
  });
});
