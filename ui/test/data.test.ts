import { describe, expect, test, vi } from 'vitest';
import { bounds, intensity, logTicks } from '../src/charts/heat';
import { nineName, nineTicks, spaced, supported, valueAt } from '../src/charts/nines';
import { held, intervalAt, type Pen, runs, type Times, trace } from '../src/charts/steps';
import { unpack, Varints } from '../src/core/data';
import { curveOf, gridOf, type Histograms, summaryOf, within } from '../src/core/histograms';
import { Inflater } from '../src/core/inflate';
import { frameColor, shadeKey } from '../src/core/theme';
import type { Evidence, RunView } from '../src/core/view';
import { flatten, shellQuote } from '../src/sections/details';
import { placeLengths } from '../src/sections/lane';
import { bars, ours, theirs, ticks, words } from '../src/sections/limit';
import { inFlight } from '../src/sections/panels';
import { groups } from '../src/sections/percentiles';
import { axisStart, clampWindow, isDense, wholeName } from '../src/sections/timeline';

describe('unpacking', () => {
  test('integers of any length, and a clear end', () => {
    const input = new Varints(Uint8Array.from([0, 127, 0x80, 1, 0xac, 2]));
    expect([...input.read(new Uint32Array(4))]).toEqual([0, 127, 128, 300]);
    expect(() => input.read(new Uint32Array(1))).toThrow(/end early/);
  });

  test('json, then the cells of the grids and the columns of the profile', async () => {
    const head = {
      bytes: 17,
      timed: true,
      threads: ['1_scheduler', '2_scheduler'],
      nodes: 3,
      samples: 2,
      tick_ns: 100_000,
      weighted: false,
      names: ['s', 'a', 'b'],
      processes: [{ label: 'queue orders' }],
    };
    const grid = { metric: 'send_ack', t: [0, 1], end: [1, 2], low: 600, per_decade: 200, cells: 3 };
    const json = new TextEncoder().encode(
      JSON.stringify({ name: 'x', grids: [grid], profiles: [head, { ...head, timed: false, bytes: 15 }] }),
    );
    // The columns of the Rust tests in crates/report/src/view: of a grid, then of a profile.
    const cells = [0, 0, 1, 0, 0xd3, 2, 0, 2, 1, 1];
    const columns = [...cells, 0, 1, 1, 2, 0, 1, 0, 0, 1, 2, 7, 1, 2, 1, 0];
    columns.push(1, 0, ...columns.slice(cells.length, cells.length + 15));
    const bytes = new Uint8Array(4 + json.length + columns.length);
    new DataView(bytes.buffer).setUint32(0, json.length, true);
    bytes.set(json, 4);
    bytes.set(columns, 4 + json.length);
    const asked: number[] = [];
    const packed = {
      bytes,
      until: async (end: number) => void asked.push(end),
      end: async () => void asked.push(bytes.length),
    };
    const { run, histograms, profiles, rest } = await unpack(packed);
    // The first screen waits for no byte of a profile.
    expect(asked.at(-1)).toBe(bytes.length - 17 - 15);
    await rest(async () => {});
    expect(asked.at(-1)).toBe(bytes.length);
    const profile = profiles[0]!.open();
    const { column, bucket, count } = histograms[0]!;
    expect([column, bucket, count].map(String)).toEqual(['0,0,1', '0,339,0', '2,1,1']);
    expect(run.name).toBe('x');
    const { parent, frame, leaf, process, time } = profile;
    expect([parent, frame, profile.class].map(String)).toEqual(['-1,0,1', '2,0,1', '0,0,1']);
    expect([...time].map((t) => Number(t.toFixed(6)))).toEqual([0.0002, 0.0009]);
    const threads = [profile.thread(), profile.thread()];
    expect([leaf, process, ...threads].map(String)).toEqual(['1,2', '1,0', '1,0', '1,0']);
    const second = profiles[1]!.open();
    expect([second.leaf, second.thread()].map(String)).toEqual(['1,2', 'null']);
  });

  test('gzip in base64', async () => {
    // printf hello | gzip -n | base64
    const packed = new Inflater(' H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA==\n');
    await packed.until(2);
    expect(new TextDecoder().decode(packed.bytes.subarray(0, 2))).toBe('he');
    await packed.end();
    expect(new TextDecoder().decode(packed.bytes)).toBe('hello');
  });

  test('data that is cut off or damaged is told apart from all that is whole', async () => {
    expect(() => new Inflater('H4sIAAAAAAAAAw==')).toThrow(/cut off/);
    // It ends early; the last byte of the checksum is another.
    for (const text of ['H4sIAAAAAAAAA8tIzcnJBwCGphA2', 'H4sIAAAAAAAAA8tIzcnJBwCGphA3BQAAAA=='])
      await expect(new Inflater(text).end(), text).rejects.toThrow();
  });

  test('a long work pauses', async () => {
    const text = new TextEncoder().encode('0123456789'.repeat(1_000_000));
    const stream = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'));
    const gzip = new Uint8Array(await new Response(stream).arrayBuffer());
    const packed = new Inflater(Buffer.from(gzip).toString('base64'));
    let [pauses, clock] = [0, 0];
    vi.spyOn(performance, 'now').mockImplementation(() => {
      clock += 20;
      return clock;
    });
    await packed.end(async () => void pauses++);
    vi.restoreAllMocks();
    expect(Buffer.compare(packed.bytes, text)).toBe(0);
    expect(pauses).toBeGreaterThan(1);
  });
});

describe('charts', () => {
  // 1 us to 10 us in the first second, 100 us in the third.
  const cells: Histograms = {
    metric: 'send_ack',
    t: [0, 1, 2],
    end: [1, 2, 3],
    low: 600,
    per_decade: 200,
    cells: 4,
    column: Uint32Array.from([0, 0, 0, 2]),
    bucket: Uint32Array.from([0, 9, 199, 400]),
    count: Float64Array.from([50, 40, 10, 1]),
  };

  test('the heat map adds up buckets to rows', () => {
    const grid = gridOf(cells);
    expect(grid).toMatchObject({ column: [0, 0, 2], row: [0, 19, 40], count: [90, 10, 1], rows: 41 });
    expect(grid.low_ns).toBeCloseTo(1000);
  });

  test('a window has the percentiles of the columns in it, to one per cent', () => {
    const first = within(cells, 0.2, 1.2)!;
    expect(first).toMatchObject({ count: 100, span: [0, 1] });
    const { p50_ns: p50, p99_ns: p99, max_ns: max, count } = summaryOf(first);
    expect(count).toBe(100);
    expect(Math.abs(p50 / 1006 - 1)).toBeLessThan(0.01);
    expect(Math.abs(p99 / 9943 - 1)).toBeLessThan(0.01);
    expect(max).toBe(p99);
    const curve = curveOf(first);
    expect(curve.nines.map((n) => Number(n.toFixed(3)))).toEqual([0, 0.301, 1, 2.301]);
    expect(within(cells, 0, 3)!.count).toBe(101);
    // A window inside of a column has all of it; one without samples has nothing.
    expect(within(cells, 2.1, 2.2)!.count).toBe(1);
    expect([within(cells, 1.1, 1.9), within(cells, 7, 8)]).toEqual([null, null]);
  });

  test('the latency axis holds all rows', () => {
    const [low, high] = bounds({ ...gridOf(cells), rows: 20 });
    expect(low).toBeLessThan(1000);
    expect(high).toBeGreaterThan(10_000);
  });

  test('ticks get sparser, never none', () => {
    expect(logTicks(900, 11_000, 9)).toEqual([1000, 2000, 5000, 10_000]);
    expect(logTicks(900, 11_000, 3)).toEqual([1000, 3000, 10_000]);
    expect(logTicks(1, 1e9, 4).length).toBeGreaterThan(0);
    // Between 1, 2 and 5 there are finer ones.
    expect(logTicks(9e7, 1.8e8, 9)).toEqual([9e7, 1e8, 1.2e8, 1.5e8]);
    expect(logTicks(9e7, 1.8e8, 3)).toEqual([1e8]);
  });

  test('more is stronger', () => {
    expect(intensity(10, 10)).toBe(1);
    expect(intensity(1, 1000)).toBeGreaterThan(0.05);
    expect(intensity(5, 10)).toBeLessThan(intensity(6, 10));
  });

  test('the axis of nines', () => {
    expect(nineTicks(3).map(nineName)).toEqual(['min', 'p50', 'p90', 'p99', 'p99.9']);
    expect(spaced(nineTicks(3), (v) => v * 40)).toEqual(['min', '', 'p90', 'p99', 'p99.9']);
    expect(supported(10_000)).toBeCloseTo(3);
    const curve = { metric: 'send_ack' as const, count: 10, nines: [0, 1, 1.3], ns: [5, 7, 9] };
    expect([1, 1.2, 2].map((nines) => valueAt(curve, nines))).toEqual([7, 9, null]);
  });

  test('steps: every interval is drawn to its end, also the one before a gap', () => {
    const times = { t: [0, 1, 2, 5, 6], dt: [1, 1, 1, 1, 1] };
    const values = [1, 2, null, 3, 4];
    expect(runs(times, values).join(' ')).toBe('0,1 3,4');
    const same = (v: number): number => v;
    const drawn = (at: Times, of = values, floor?: number): string => {
      const lines: string[] = [];
      const pen: Pen = { moveTo: (x, y) => lines.push(`M${x},${y}`), lineTo: (x, y) => lines.push(`L${x},${y}`) };
      trace(pen, at, of, same, same, floor);
      return lines.join(' ');
    };
    expect(drawn(times)).toBe('M0,1 L1,1 L1,2 L2,2 M5,3 L6,3 L6,4 L7,4');
    // What was read at the end of each stood a second right of the CPU that it took.
    expect(held(times, [])).toEqual(times);
    // A kill ends what is drawn of the process at its own moment, and what is less from then on begins there.
    expect(drawn(held(times, [2.25, 6.5]))).toBe('M0,1 L1,1 L1,2 L2.25,2 M5,3 L6.5,3 L6.5,4 L7,4');
    // So does what is held again since a return.
    expect(drawn(held(times, [2.25, 5.5]))).toBe('M0,1 L1,1 L1,2 L2.25,2 M5.5,3 L6,3 L6,4 L7,4');
    expect(drawn({ t: [0, 3], dt: [1, 1] }, [1, 2], 0)).toBe('M0,0 L0,1 L1,1 L1,0 M3,0 L3,2 L4,2 L4,0');
    expect([0, 1.5, 3.5, 5.5, 9].map((time) => intervalAt(times, time))).toEqual([0, 1, null, 3, null]);
  });

  test('a chart has six curves at most: scenarios apart, parts of an operation on their own', () => {
    const metrics = [
      ...['a', 'b', 'c', 'd', 'e'].map((key) => ({ key, scenario: 'messages', part: false })),
      { key: 'cycle', scenario: 'churn', part: false },
      { key: 'wait', scenario: 'churn', part: true },
    ];
    const run = { metrics } as unknown as RunView;
    const curves = metrics.map(({ key }) => ({ metric: key, count: 1, nines: [0], ns: [1] }));
    expect(groups(run, curves.slice(0, 6)).length).toBe(1);
    const found = groups(run, curves).map((it) => `${it.title} ${it.curves.length} ${it.alone ? 'alone' : ''}`);
    expect(found).toEqual(['messages 5 ', 'churn 1 ', 'parts: churn 1 alone']);
  });

  test('second 0 is told', () => {
    const phase = (phase: 'warmup' | 'measure') => ({ phase, start: 0, end: 1 });
    const of = (experiment: unknown, ...phases: ReturnType<typeof phase>[]) => axisStart({ experiment, phases });
    const load = { profile: { events: ['cpu'] } };
    expect(of(load, phase('warmup'), phase('measure'))).toBe('time since the load began with its warm-up');
    for (const began of [of(load, phase('measure')), of(null)]) expect(began).toBe('time since the load began');
    expect(of({ profile: { pid: 7 } }, phase('measure'))).toBe('time since the recording began');
  });

  test('a window stays inside the run', () => {
    expect(clampWindow([0, 60], 50, 90)).toEqual([50, 60]);
    expect(clampWindow([0, 60], 20, 10)).toEqual([10, 20]);
    expect(clampWindow([0, 60], 70, 80)).toBeNull();
  });

  test('slices with few samples each say nothing of percentiles', () => {
    const of = (each: number) => ({ t: [0, 0.1, 0.2], count: Float64Array.from([each, each, each]) });
    expect([of(10), of(50)].map(isDense)).toEqual([false, true]);
  });

  test('a run that was stopped in its warm-up has no measured phase', () => {
    const run = (...phases: string[]) =>
      ({ phases: phases.map((phase) => ({ phase, start: 0, end: 1 })) }) as unknown as RunView;
    const runs = [run('warmup', 'measure', 'drain'), run('warmup', 'drain'), run()];
    expect(runs.map(wholeName)).toEqual(['measured phase', 'warm-up', 'whole run']);
  });
});

test('in flight is what consumers have not seen, else what is not acknowledged, else nothing', () => {
  const run = (sent: number, completed: number, received: number): RunView => {
    const total = (n: number) => ({ total: n, rate: n });
    return {
      figures: { sent: total(sent), completed: total(completed), received: total(received) },
      series: { t: [0, 1], dt: [1, 0.5], sent: [sent, 0], completed: [completed, 0], received: [received, 0] },
    } as unknown as RunView;
  };
  const unit = (done: string): string => `messages sent and not yet ${done}, at the end of each interval`;
  expect(inFlight(run(10, 9, 8))).toEqual({ unit: unit('received'), values: [2, 2] });
  expect(inFlight(run(10, 9, 0))).toEqual({ unit: unit('acknowledged'), values: [1, 1] });
  // A topic delivers more than was sent.
  expect(inFlight(run(10, 9, 20))?.unit).toBe(unit('acknowledged'));
  expect([run(10, 0, 0), run(0, 0, 10)].map(inFlight)).toEqual([null, null]);
});

describe('who limited the run', () => {
  const run = (intervals: number): RunView => {
    const of = (value: number | null) => Array.from({ length: intervals }, () => value);
    const waits = { ready: of(0.25), budget: of(0.75), socket: of(0), working: of(0.3) };
    const rest = { credit: of(0), schedule: of(0), blocked: of(0), away: of(0) };
    const t = Array.from({ length: intervals }, (_, i) => i);
    return { series: { t, dt: of(1), waits: { ...waits, ...rest } } } as unknown as RunView;
  };

  test('a long run has no more bars than can be told apart, and every share is kept', () => {
    expect(bars(run(3)).length).toBe(3);
    const many = bars(run(3600));
    expect(many.length).toBeLessThanOrEqual(240);
    expect([many[0]!.from, many.at(-1)!.to]).toEqual([0, 3600]);
    for (const bar of many) {
      expect(bar.shares.reduce((sum, s) => sum + s, 0)).toBeCloseTo(1);
      expect(bar.shares[0]).toBeCloseTo(0.25);
      expect(bar.working).toBeCloseTo(0.3);
    }
  });

  test('a run of an older version, or without producers, has none', () => {
    expect(bars({ series: { t: [0], dt: [1] } } as unknown as RunView)).toEqual([]);
    const idle = run(2);
    for (const key of ['ready', 'budget'] as const) idle.series.waits![key] = [null, null];
    expect(bars(idle)).toEqual([]);
  });

  test('moments of the axis are round', () => {
    expect(ticks(0.1, 5.2, 6)).toEqual([1, 2, 3, 4, 5]);
    expect(ticks(0, 65, 10)).toEqual([0, 10, 20, 30, 40, 50, 60]);
  });

  test('the evidence says what is not known', () => {
    const unknown = { requested_rate: null, received_rate: 0, producers: null, broker: null, connections: null };
    const evidence = {
      ...unknown,
      sent_rate: 1000,
      loops: [{ cpu: 0.2, idle: 0.7, starved: null }],
      cores: 2,
      machine_cores: 4,
      in_flight_limit: 1000,
      capacity: { rate: 3e6, shape: '12 B', at_least: true },
    } as unknown as Evidence;
    const left = Object.fromEntries(ours(evidence, words(undefined)));
    expect(left.requested).toBe('unthrottled');
    expect(left['busiest loop, busy']).toBe('30.0 %');
    expect(left['waited for a core']).toBeNull();
    expect(left['could make, by calibration']).toBe('at least 3,000,000 msg/s');
    // Two figures of its CPU stood on one page, and no word said that one was with the profiler.
    const profiled = ours(evidence, words(undefined), true).map(([name]) => name);
    expect(profiled).toContain('CPU of bellows with its profiler');
    const time = { ...evidence, producers: { budget: 0.25 } } as unknown as Evidence;
    const cycles = Object.fromEntries(ours(time, words('cycles')));
    expect(cycles).toMatchObject({ begun: '1,000 cycles/s', 'cycles waited: places taken': '25.0 %' });
    const right = Object.fromEntries(theirs(evidence));
    expect(right).toMatchObject({ 'CPU of the broker': 'not known', 'allowed in flight': '1,000' });
    expect(right.machine).toBe('4 cores, 2 for bellows');
  });
});

describe('details', () => {
  test('a command can be pasted into a shell', () => {
    expect(['run', '--set', "a b'c", '', '$x'].map(shellQuote).join(' ')).toBe(`run --set 'a b'\\''c' '' '$x'`);
  });

  test('settings as the --set option takes them', () => {
    const settings = flatten({ load: [{ rate: 5, arguments: {} }], name: 'x', on: null });
    const texts = settings.map((it) => it.join('='));
    expect(texts).toEqual(['load.0.rate=5', 'load.0.arguments={}', 'name=x', 'on=null']);
  });
});

test('a function keeps its colour between runs, modules differ in shade only', () => {
  const color = (name: string) => frameColor('erlang', shadeKey('erlang', name, '[jit]'), false);
  expect(color('$rabbit_channel:a/1')).toBe(color('$rabbit_channel:b/2'));
  expect(color('$rabbit_channel:a/1')).toBe('oklch(0.827 0.115 66.9)');
  expect(color('$rabbit_reader:a/1')).not.toBe(color('$rabbit_channel:a/1'));
  expect(frameColor('unknown', '', false)).toMatch(/^oklch\(0\.800 0 /);
});

test('lengths of stalls stand beside their bars or below, and never upon each other', () => {
  // Right of it, left of the one at the edge, below where neighbours are close.
  expect(placeLengths([[10, 20]], ['1.00 s'], 100)).toEqual([{ at: 24, line: 0 }]);
  expect(placeLengths([[90, 98]], ['1.00 s'], 100)[0]).toMatchObject({ line: 0 });
  const bars = [10, 22, 34, 46, 58].map((from) => [from, from + 4] as const);
  const texts = bars.map(() => '300 ms');
  const placed = placeLengths(bars, texts, 120);
  expect(placed.filter((it) => it !== null).length).toBeGreaterThan(2);
  const boxes = placed.flatMap((it) => (it ? [{ ...it, end: it.at + 6 * 6.6 }] : []));
  boxes.forEach((a, i) => {
    expect(a.at).toBeGreaterThanOrEqual(0);
    expect(a.end).toBeLessThanOrEqual(120);
    for (const b of boxes.slice(i + 1)) expect(a.line !== b.line || a.end < b.at || b.end < a.at).toBe(true);
  });
});
