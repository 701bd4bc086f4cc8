import { describe, expect, test } from 'vitest';
import type { Profile } from '../src/core/data';
import type { RunView } from '../src/core/view';
import { Analysis } from '../src/flame/analysis';
import { remarkOn } from '../src/flame/remarks';
import {
  boxAt,
  byName,
  byWeight,
  children,
  DEEPER,
  folded,
  foldedName,
  layout,
  link,
  MOST_ROWS,
  neighbour,
  OUTER,
  overTime,
  rowsOf,
  sampleAt,
  search,
} from '../src/flame/tree';
import { chosenClass, shareText } from '../src/sections/classes';
import { sorted } from '../src/sections/functions';
import { sampling } from '../src/sections/sampling';
import { chosen, NOBODY, split, whose } from '../src/sections/work';
import { profileOf, weigh } from './helpers';

const profile = profileOf([
  '0.5 root;a;b',
  '1.0 root;a;b',
  '1.5 root;a',
  '2.0 root;c;a',
  // Recursion: `a` counts once in this sample.
  '2.5 root;a;b;a',
]);
const index = (name: string): number => profile.names.indexOf(name);
const ALL = { frame: null, flags: null, index: null };

describe('window', () => {
  test('the bounds are from, inclusive, and to, exclusive', () => {
    const sum = (from: number, to: number): number => weigh(profile, from, to).sum;
    expect([sum(1, 2), sum(0, 10), sum(5, 10)]).toEqual([2, 5, 0]);
    expect(sampleAt(profile.time, 1.5)).toBe(2);
  });

  test('self and total shares; recursion counts once', () => {
    const analysis = new Analysis(profile);
    analysis.window(0, 10);
    const row = (name: string) => analysis.rows.find((r) => r.frame === index(name));
    expect(row('root')).toMatchObject({ self: 0, total: 5 });
    expect(row('a')).toMatchObject({ self: 3, total: 5 });
    expect(row('b')).toMatchObject({ self: 2, total: 3 });
    analysis.window(2.0, 2.4);
    expect(row('b')).toBeUndefined();
  });

  test('a profile without times is in every window', () => {
    const analysis = new Analysis({ ...profile, timed: false });
    analysis.window(100, 200);
    expect(analysis.weights.sum).toBe(5);
  });

  test('samples and one function over time', () => {
    const tree = link(profile.frame, profile.parent);
    const { all, part } = overTime(profile, tree, { ...ALL, frame: index('b') }, 0, 1, 3);
    expect([all, part].map(String)).toEqual(['1,2,2', '1,1,1']);
  });
});

describe('search', () => {
  const analysis = new Analysis(profile);
  analysis.window(0, 10);

  test('says the share of samples below any hit, each once', () => {
    expect(analysis.find('^b$')).toMatchObject({ share: 0.6, frames: 1 });
    expect(analysis.find('a|b')).toMatchObject({ share: 1, frames: 2 });
    expect(analysis.find('nothing')).toMatchObject({ share: 0, frames: 0 });
    // What is no expression is told apart from no hit.
    expect(analysis.find('(')).toBeNull();
  });

  test('case matters only where the pattern has capitals', () => {
    const hits = ['ets', 'ETS', '^e\\S'].map((pattern) => String(search(['ETS', 'ets'], pattern)));
    // \S and \W are no capitals of the reader's.
    expect(hits).toEqual(['1,1', '1,0', '1,1']);
  });
});

describe('layout', () => {
  const tree = link(profile.frame, profile.parent);
  const weights = weigh(profile, 0, 10);

  test('children lie inside their parents, heaviest first', () => {
    const found = layout(tree, weights, null, byWeight(tree, weights, profile.names), 0);
    expect(found.rows).toBe(4);
    for (const box of found.boxes) {
      const parent = found.boxes.find((b) => b.node === tree.parent[box.node]);
      if (!parent) continue;
      expect(box.x).toBeGreaterThanOrEqual(parent.x - 1e-12);
      expect(box.x + box.width).toBeLessThanOrEqual(parent.x + parent.width + 1e-12);
    }
    expect(found.boxes[1]).toMatchObject({ x: 0, width: 0.8, depth: 1 });
  });

  test('a stack too narrow to read gives the graph no height', () => {
    const found = layout(tree, weights, null, byName(tree, profile.names), 0);
    const deep = found.boxes.filter((box) => box.depth === 3);
    expect(deep.map((box) => box.width)).toEqual([0.2]);
    expect([rowsOf(found, 0.2), rowsOf(found, 0.21), rowsOf(found, 0.9)]).toEqual([4, 3, 1]);
    expect(rowsOf({ boxes: [], rows: 0 }, 0)).toBe(0);
  });

  test('narrow frames are left out with all below them', () => {
    const found = layout(tree, weights, null, byName(tree, profile.names), 0.5);
    expect(found.boxes.map((b) => profile.names[tree.frame[b.node]!])).toEqual(['root', 'a', 'b']);
  });

  test('zoom fills the width and keeps the way back', () => {
    const node = children(tree, 0).find((n) => tree.frame[n] === index('a'))!;
    const found = layout(tree, weights, node, byName(tree, profile.names), 0);
    expect(found.boxes[0]).toMatchObject({ node: 0, width: 1, context: true });
    expect(found.boxes[1]).toMatchObject({ node, width: 1, context: false });
    // Into what the window does not hold it shows the whole.
    const b = [...tree.frame].indexOf(index('b'));
    const whole = layout(tree, weigh(profile, 2.0, 2.4), b, byName(tree, profile.names), 0);
    expect(whole.boxes[0]).toMatchObject({ node: 0, context: false });
  });

  test('pointer and arrow keys find their frames', () => {
    const found = layout(tree, weights, null, byWeight(tree, weights, profile.names), 0);
    const a = boxAt(found, 0.1, 1)!;
    expect(profile.names[tree.frame[a.node]!]).toBe('a');
    expect(neighbour(found, tree, a, 'up')?.node).toBe(0);
    expect(neighbour(found, tree, a, 'right')).toBe(boxAt(found, 0.9, 1));
    expect(neighbour(found, tree, a, 'left')).toBeNull();
    expect(profile.names[tree.frame[neighbour(found, tree, a, 'down')!.node]!]).toBe('b');
    expect(boxAt(found, 0.5, 9)).toBeNull();
  });
});

describe('a stack of sixty thousand frames', () => {
  const n = 60_000;
  const parent = Int32Array.from({ length: n }, (_, i) => i - 1);
  const tree = link(new Uint32Array(n), parent);
  const self = new Float64Array(n);
  self[n - 1] = 5;
  const weights = { self, total: new Float64Array(n).fill(5), sum: 5 };
  const compare = byName(tree, ['f']);

  test('is drawn as far as a browser can, and says where it goes on', () => {
    const found = layout(tree, weights, null, compare, 0);
    expect([found.rows, found.boxes.length]).toEqual([MOST_ROWS, MOST_ROWS]);
    const labelled = found.boxes.filter((b) => b.label !== null);
    expect(labelled).toMatchObject([{ depth: MOST_ROWS - 1, width: 1, label: DEEPER }]);
  });

  test('can be followed down by zooms', () => {
    const found = layout(tree, weights, 30_000, compare, 0);
    expect(found.rows).toBe(MOST_ROWS);
    expect(found.boxes[0]).toMatchObject({ depth: 0, context: true, label: OUTER });
    expect(found.boxes.find((b) => !b.context)).toMatchObject({ node: 30_000, depth: 100 });
    const end = layout(tree, weights, n - 10, compare, 0);
    expect(end.boxes.at(-1)).toMatchObject({ node: n - 1, label: null });
  });
});

test('names in folded text are no counts, fields and comments', () => {
  const names = ['a 12', 'a\u00a01.5', 'a b', 'a;b\n', '# x', ' \u00a0'].map((name) => foldedName(name, '[thread]'));
  expect(names).toEqual(['a_12', 'a_1.5', 'a b', 'a:b?', '_# x', '[thread]']);
});

test('callers and callees', () => {
  const analysis = new Analysis(profile);
  analysis.window(0, 10);
  const text = (part: { tree: Parameters<typeof folded>[1]; weights: Parameters<typeof folded>[2] }) =>
    folded(profile, part.tree, part.weights).trim().split('\n');
  // Subtrees of all occurrences are laid on each other, and paths to the function start at it.
  expect(text(analysis.callees(index('a')))).toEqual(['a 2', 'a;b 2', 'a;b;a 1']);
  expect(text(analysis.callers(index('a')))).toEqual(['a;c;root 1', 'a;root 4']);
});

test('folded text holds the window and nothing else', () => {
  const tree = link(profile.frame, profile.parent);
  expect(folded(profile, tree, weigh(profile, 0, 1.6))).toBe('root;a 1\nroot;a;b 2\n');
});

test('the table sorts by any column, ties by name', () => {
  const rows = [
    { frame: 0, self: 1, total: 5 },
    { frame: 1, self: 3, total: 5 },
    { frame: 2, self: 3, total: 9 },
  ];
  const order = (by: 'self' | 'total' | 'name') => sorted(rows, by, ['zz', 'b', 'a']).map((r) => r.frame);
  for (const by of ['self', 'total', 'name'] as const) expect(order(by), by).toEqual([2, 1, 0]);
});

describe('the line about the profile', () => {
  const figures = { sent: { total: 1 }, received: { total: 0 }, scenarios: {}, programs: [] };
  const sampling_off = [
    { start: 20, end: 21 },
    { start: 22, end: 24 },
  ];
  const run = { figures, profiles: [], sampling_off, warnings: [{ text: 'a note, and more' }] } as unknown as RunView;
  const told = (window: readonly [number, number], of: object = {}) => {
    const notes = ['a note', 'another note'];
    return sampling(run, { ...profile, notes, lost: 3, ...of }, window, 'window').join(' · ');
  };

  test('counts the samples of the window, and says what is of the whole run', () => {
    expect(told([1, 2.2])).toBe(
      '3 samples of CPU time of the broker in the window, 5 in the whole run · by cpu-clock at 999 Hz per core · ' +
        'of the whole run: unknown share 0 % · complete stacks 100 % · 3 lost · another note',
    );
    expect(told([0, 9])).toMatch(/^5 samples of CPU time of the broker in the window · by cpu-clock/);
    expect(told([0, 9])).toContain(' · unknown share 0 %');
  });

  test('says for how much of the window sampling was switched off', () => {
    expect(told([0, 20])).not.toContain('switched off');
    const off = (part: string) => ` · sampling was switched off for ${part} of it, to see what it costs · `;
    expect(told([20.5, 23])).toContain(off('1.5 s of 2.5 s'));
    expect(told([22.25, 23.75])).toContain(`0 samples of CPU time of the broker in the window`);
    expect(told([22.25, 23.75])).toContain(off('all'));
  });

  test('names no clock that is not known', () => {
    const of = { kernel_event: '', frequency: 0, timed: false };
    expect(told([1, 2], of)).toMatch(/^5 samples of CPU time of the broker in the window · unknown/);
  });
});

test('functions at whose end the kernel allows interrupts are explained', () => {
  const names = ['finish_task_switch.isra.0', '_raw_spin_unlock_irqrestore', 'do_idle'];
  const kernel = { ...profile, names, kind: [4, 4, 4] };
  const explained = (of: object = {}) => names.map((_, frame) => remarkOn({ ...kernel, ...of }, frame) !== '');
  expect(explained()).toEqual([true, true, false]);
  expect(remarkOn(kernel, 0)).toMatch(/bellows help stacks/);
  // The same name in another program, and another clock.
  expect(explained({ kind: [5, 5, 5] })).toEqual([false, false, false]);
  expect(explained({ kernel_event: 'cycles' })).toEqual([false, false, false]);
});

describe('whose work', () => {
  const view = (label: string, role: string) => {
    return { label, role, id: '<0.1.0>', connection: '', vhost: '/', processes: 1 };
  };
  const key = (process: ReturnType<typeof view>, by: 'process' | 'role') => whose(process, by).key;
  const queue = view('queue a', 'queue');
  const split_profile = {
    ...profile,
    processes: [queue, view('queue b', 'queue'), view('channel c', 'channel')],
    process: Uint32Array.from([1, 1, 2, 3, 0]),
  };

  test('is split by process and role, and what is of no process has its place', () => {
    const analysis = new Analysis(split_profile);
    analysis.window(0, 10);
    const rows = (by: 'process' | 'role') =>
      split(split_profile, analysis.work, by).map((row) => `${row.label} ${row.weight} of ${row.processes}`);
    const none = `${NOBODY.label} 1 of 0`;
    expect(rows('process')).toEqual(['queue a 2 of 1', 'channel c 1 of 1', none, 'queue b 1 of 1']);
    expect(rows('role')).toEqual(['queue 3 of 2', 'channel 1 of 1', none]);
    analysis.window(1.5, 10);
    expect(rows('role')[0]).toBe('channel 1 of 1');
    expect(split(split_profile, Float64Array.from([9, 1, 1, 1]), 'role')[0]?.key).toBe(NOBODY.key);
  });

  test('a view of several counts for as many, and no name is taken for what is said of none', () => {
    const one = view('queue a in b', 'queue');
    const several = { ...view('other: queue', 'queue'), id: '', connection: null, processes: 40 };
    const processes = [
      one,
      { ...one, vhost: 'b' },
      several,
      { ...several, connection: '', processes: 3 },
      { ...view('channel', 'channel'), connection: 'no connection' },
      { ...view('no Erlang process', ''), connection: 'other connections' },
      { ...view('channel', ''), connection: 'none' },
    ];
    const named = { ...profile, processes, process: null };
    const weights = Float64Array.from([1, 9, 8, 7, 6, 5, 4, 3]);
    const rows = (by: 'process' | 'connection') =>
      split(named, weights, by).map((row) => `${row.label} ${row.weight} of ${row.processes}`);
    expect(rows('connection')).toEqual([
      'no connection 23 of 5',
      'other connections 7 of 40',
      'no connection 5 of 1',
      'other connections 4 of 1',
      'none 3 of 1',
      `${NOBODY.label} 1 of 0`,
    ]);
    const first = ['other: queue 13 of 43', 'queue a in b 9 of 1', 'queue a in b 8 of 1'];
    expect(rows('process').slice(0, 3)).toEqual(first);
    expect([...chosen(named, 'connection', NOBODY.key)!.flags]).toEqual([1, 0, 0, 0, 0, 0, 0, 0]);
  });

  test('filters the graph, and shares stay shares of all samples', () => {
    const analysis = new Analysis(split_profile);
    analysis.window(0, 10, { marked: chosen(split_profile, 'role', key(queue, 'role'))?.flags });
    expect(analysis.weights.sum).toBe(5);
    const root = analysis.rows.find((row) => row.frame === index('root'));
    expect(root?.total).toBe(3);
    expect(analysis.find('^b$')?.share).toBeCloseTo(0.4);
    const compare = byWeight(analysis.tree, analysis.weights, profile.names);
    const { boxes } = layout(analysis.tree, analysis.weights, null, compare, 0.001);
    expect(boxes[0]!.width).toBeCloseTo(1);
    analysis.window(0, 10, { marked: chosen(split_profile, 'process', NOBODY.key)?.flags });
    expect(analysis.rows.find((row) => row.frame === index('root'))?.total).toBe(1);
    expect(chosen(split_profile, 'process', 'queue z')).toBeNull();
    expect(chosen(split_profile, 'process', '')).toBeNull();
    const only = chosen(split_profile, 'process', key(queue, 'process'));
    expect(only?.label).toBe('queue a');
    const { part } = overTime(split_profile, analysis.tree, { ...ALL, flags: only!.flags }, 0, 1, 3);
    expect([...part]).toEqual([1, 1, 0]);
  });
});

const CLASSES: Profile['classes'] = [
  { class: 'erlang_code', name: 'Erlang code', meaning: '', outside: 'Erlang code', estimated: false },
  { class: 'ets', name: 'ETS', meaning: '', outside: 'ETS in beam.smp', estimated: true },
];

describe('what the time goes into', () => {
  const profile = {
    ...profileOf(['0.5 s;a;b', '1.5 s;a;b', '1.6 s;a', '2.5 s;c']),
    classes: CLASSES,
    processes: [{}] as Profile['processes'],
    process: Uint32Array.from([1, 0, 0, 1]),
  };
  // s, a, b, c: what ends in b is ETS.
  profile.class = Uint32Array.from([0, 0, 1, 0]);
  const analysis = new Analysis(profile);

  test('the classes of a window are all of its samples', () => {
    analysis.window(0, 10);
    expect([...analysis.classes]).toEqual([2, 2]);
    analysis.window(1, 10);
    expect([...analysis.classes]).toEqual([2, 1]);
    expect(analysis.classes.reduce((a, b) => a + b)).toBe(analysis.weights.sum);
  });

  test('a share that is an estimate has its mark', () => {
    expect(CLASSES.map((it) => shareText(it, 0.42))).toEqual(['42.0 %', '~42.0 %']);
  });

  test('one class leaves its samples alone in the graph, and shares stay those of the whole', () => {
    const { index } = chosenClass(profile, 'ets')!;
    analysis.window(0, 10, { only: index });
    const { weights, classes, work, tree } = analysis;
    expect(weights.sum).toBe(4);
    // The bar stays whole, and whose work it is holds that of the class.
    expect([weights.total, classes, work].map(String)).toEqual(['2,2,2,0', '2,2', '1,1']);
    const { all, part } = overTime(profile, tree, { ...ALL, index }, 0, 1, 3);
    expect([all, part].map(String)).toEqual(['1,2,1', '1,1,0']);
  });

  test('of chosen processes the bar holds their samples', () => {
    analysis.window(0, 10, { marked: Uint8Array.from([0, 1]) });
    expect([...analysis.classes]).toEqual([1, 1]);
    expect(chosenClass(profile, 'no such class')).toBeNull();
    expect(chosenClass(profile, '')).toBeNull();
  });
});

describe('functions of the language', () => {
  const profile = {
    ...profileOf(['0.5 s;m;f;c', '1.0 s;m;f', '1.5 s;m;g;loop;c', '2.0 s;c']),
    classes: CLASSES,
    // s, m, f, c, g, loop: the loop of a scheduler was not called by g.
    language: [0, 1, 1, 0, 1, 2],
  };
  const { names, frame } = profile;
  profile.class = Uint32Array.from(frame, (of) => (names[of] === 'c' ? 1 : 0));
  const analysis = new Analysis(profile);
  const rows = (zoom: number | null = null): string[] =>
    analysis.languageRows(zoom).map(({ name, total, classes }) => `${name} ${total}: ${[...classes]}`);

  test('each sample counts for the innermost one, or for its class', () => {
    analysis.window(0, 10);
    expect(rows()).toEqual(['ETS in beam.smp 2: 0,2', 'f 2: 1,1']);
    const below = [...frame].indexOf(names.indexOf('g'));
    expect(rows(below)).toEqual(['ETS in beam.smp 1: 0,1']);
    analysis.window(0, 0.9);
    expect(rows()).toEqual(['f 1: 0,1']);
  });

  test('a hidden one counts for its caller', () => {
    analysis.shape({ hide: [names.indexOf('f')], collapse: false });
    analysis.window(0, 0.9);
    expect(rows()).toEqual(['m 1: 0,1']);
  });

  test('a program in another language has none', () => {
    const other = new Analysis(profileOf(['0.5 s;a']));
    other.window(0, 10);
    expect(other.languageRows(null)).toEqual([]);
  });
});
