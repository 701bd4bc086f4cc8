import { describe, expect, test } from 'vitest';
import { count, infoOf, ofSubject, shortName, whose } from '../src/core/data';
import type { Palette } from '../src/core/theme';
import type { MetricInfo, RunView, ScenarioSummary } from '../src/core/view';
import { scenarioPanels, windowed } from '../src/sections/scenario';

const metric = (scenario: string, key: string, unit: string): MetricInfo => {
  return { key: `${scenario}_${key}`, name: key, unit, kind: 'counter', scenario, part: false, meaning: '' };
};

/** A run of probes, each with requests and bytes. */
function runOf(names: string[]): RunView {
  const requests = (name: string) => ['begun', 'completed'].map((key) => metric(name, key, 'requests'));
  const metrics = names.flatMap((name) => [...requests(name), metric(name, 'bytes', 'bytes')]);
  const scenario = { kind: 'http://h/', unit: 'requests', role: 'server' };
  const scenarios = Object.fromEntries(names.map((name) => [name, scenario]));
  const counts = Object.fromEntries(metrics.map((it) => [it.key, [5]]));
  return {
    metrics,
    requirements: [],
    phases: [],
    figures: { scenarios, sent: { total: 0 }, received: { total: 0 }, programs: [] },
    series: { t: [0], dt: [1], requested: [null], latency: {}, counts },
  } as unknown as RunView;
}

describe('a scenario', () => {
  test('has its counts behind its name, or alone', () => {
    const probe = { probe_queues_completed: 40 } as unknown as ScenarioSummary;
    expect(count('probe_queues', probe, 'completed')).toBe(40);
    expect(count('probe_queues', probe, 'failed')).toBe(0);
    expect(count('churn', { completed: 7 }, 'completed')).toBe(7);
  });

  test('of probes alone loads a server, and one beside messages a broker', () => {
    const run = runOf(['probe']);
    const told = (): string => ofSubject(run, 'Broker gone: CPU of the broker');
    expect(told()).toBe('Server gone: CPU of the server');
    run.figures.sent.total = 5;
    expect(told()).toBe('Broker gone: CPU of the broker');
  });

  test('draws bytes on an axis of their own', () => {
    const { before, after } = scenarioPanels(runOf(['probe']), 'probe');
    expect(before.map((it) => it.title)).toEqual(['requests']);
    expect(before[0]!.lines.map((it) => it.label)).toEqual(['begun', 'completed']);
    expect(after.map((it) => [it.title, it.unit])).toEqual([['bytes', 'per second']]);
    expect(after[0]!.tick!(2_500_000)).toBe('2.5 MB');
    expect(after[0]!.lines[0]!.format(1_200)).toBe('1.20 kB/s');
  });

  test('is named where another counts the same', () => {
    const run = runOf(['probe_queues', 'probe_nodes']);
    expect(whose(run, 'probe_queues')).toBe('probe queues: ');
    expect(whose(run, 'probe_queue_page')).toBe('probe queue-page: ');
    expect(whose(runOf(['probe']), 'probe')).toBe('');
    expect(infoOf(run, 'probe_nodes_bytes').name).toBe('probe nodes: bytes');
    const { before, after } = scenarioPanels(run, 'probe_queues');
    expect([...before, ...after].map((it) => it.title)).toEqual(['probe queues: requests', 'probe queues: bytes']);
  });
});

test('a metric below the name of its scenario does not repeat it', () => {
  const of = (name: string, scenario: string): string => shortName({ name, scenario } as unknown as MetricInfo);
  expect(of('queue-page first byte', 'probe_queue_page')).toBe('first byte');
  expect(of('queues response', 'probe_queues')).toBe('response');
  for (const scenario of ['probe', 'probe_response']) expect(of('response', scenario)).toBe('response');
  expect(of('ack response', 'messages')).toBe('ack response');
});

describe('the panels of probes', () => {
  const palette = new Proxy({}, { get: (_, name) => name }) as Palette;
  const keys = ['begun', 'completed', 'failed', 'timed_out'];
  const names = ['probe_fails', 'probe_slow'];

  /** Twelve seconds of a probe that fails each second, and of one that is answered every three. */
  function run(): RunView {
    const metrics = names.flatMap((name) => [
      ...keys.map((key) => metric(name, key, 'requests')),
      { ...metric(name, 'in_flight', 'requests'), kind: 'peak' } as MetricInfo,
    ]);
    const t = Array.from({ length: 12 }, (_, i) => i);
    const every = (seconds: number): number[] => t.map((at) => (at % seconds === 0 ? 1 : 0));
    const none = t.map(() => 0);
    const of = { unit: 'requests', role: 'server', rate: 0 };
    const scenario = (rate: number) => ({ ...of, requested: { rate } });
    const scenarios = { probe_fails: scenario(1), probe_slow: scenario(1 / 3) };
    const counts = {
      probe_fails_begun: every(1),
      probe_fails_completed: none,
      probe_fails_failed: every(1),
      probe_fails_timed_out: none,
      probe_slow_begun: every(3),
      probe_slow_completed: every(3),
      probe_slow_failed: [...none.slice(1), 1],
      probe_slow_timed_out: none,
      probe_slow_in_flight: t.map((at) => at % 4),
    };
    return {
      metrics,
      phases: [],
      requirements: [],
      figures: { scenarios, sent: { total: 5, rate: 1 }, received: { total: 0, rate: 0 } },
      series: { t, dt: t.map(() => 1), requested: t.map(() => null), latency: {}, counts },
    } as unknown as RunView;
  }

  /** That run with a further interval: what it counts is the same of all metrics. */
  function longer(ended: RunView, at: number, length: number, count: number): RunView {
    const { t, dt, counts, requested } = ended.series;
    t.push(at);
    dt.push(length);
    // Some columns are one list.
    for (const column of new Set(Object.values(counts))) column!.push(count);
    requested.push(null);
    return ended;
  }

  test('count each probe over the time from one of its requests to the next', () => {
    const slow = windowed(run(), 'probe_slow', null);
    expect(slow.over).toBeCloseTo(3);
    expect([slow.t, slow.dt].map(String)).toEqual(['0,3,6,9', '3,3,3,3']);
    for (const rate of slow.counts.probe_slow_completed!) expect(rate).toBeCloseTo(1 / 3);
    // A peak is that of its window, and no mean.
    expect(slow.counts.probe_slow_in_flight).toEqual([2, 3, 3, 3]);
    const fails = windowed(run(), 'probe_fails', null);
    expect([fails.over, fails.t.length]).toEqual([1, 12]);
    const panels = names.map((name) => scenarioPanels(run(), name).before[0]!);
    const unit = (seconds: string): string => `requests per second, counted over ${seconds} s`;
    expect(panels.map((it) => it.unit)).toEqual(['1.00', '3.00'].map(unit));
    // Each panel has the times of its own windows.
    expect(panels.map((it) => it.times!.t.length)).toEqual([12, 4]);
  });

  test('a moment at the end is a part of the second before it', () => {
    // One request in ten milliseconds.
    const { t, dt, counts } = windowed(longer(run(), 12, 0.01, 100), 'probe_fails', null);
    expect(t.length).toBe(12);
    expect(dt.at(-1)).toBeCloseTo(1.01);
    expect(counts.probe_fails_begun!.at(-1)!).toBeLessThan(3);
  });

  test('the moment of a drain is no part of the second before it', () => {
    const ended = longer(run(), 12, 0.03, 0);
    ended.phases.push({ phase: 'measure', start: 0, end: 12 }, { phase: 'drain', start: 12, end: 12.03 });
    for (const [name, windows] of [
      ['probe_fails', 12],
      ['probe_slow', 4],
    ] as const) {
      const { t, dt } = windowed(ended, name, null);
      expect([t.length, dt.at(-1)]).toEqual([windows, 12 / windows]);
    }
    expect(windowed(ended, 'probe_fails', null).counts.probe_fails_begun!.at(-1)).toBe(1);
  });

  test('a part of a window of rare requests is left out at the end', () => {
    const ended = longer(longer(run(), 12, 1, 0), 13, 0.7, 1 / 0.7);
    const { t, dt, counts } = windowed(ended, 'probe_slow', null);
    expect([t, dt].map(String)).toEqual(['0,3,6,9', '3,3,3,3']);
    expect(counts.probe_slow_completed!.at(-1)).toBeCloseTo(1 / 3);
  });

  test('keep a second where windows would be much of the run, and slices where requests are many', () => {
    const rare = run();
    rare.figures.scenarios.probe_slow!.requested!.rate = 0.1;
    expect(windowed(rare, 'probe_slow', null).over).toBe(1);
    const many = run();
    many.figures.scenarios.probe_slow!.requested!.rate = 200;
    const slices = { t: [0, 0.1], dt: [0.1, 0.1], counts: {}, requested: [], latency: {} };
    expect(windowed(many, 'probe_slow', slices as never).t).toEqual([0, 0.1]);
  });

  test('give what failed one colour, whether or not something was completed', () => {
    const looks = names.map((name) => {
      const { lines } = scenarioPanels(run(), name).before[0]!;
      return lines.map((it) => `${it.label} ${it.color(palette)} ${it.dash ?? 'solid'}${it.area ? ' area' : ''}`);
    });
    const [begun, failed] = ['begun receive 4,3', 'failed delay solid'];
    expect(looks[0]).toEqual([begun, failed]);
    expect(looks[1]).toEqual([begun, 'completed send solid area', failed]);
  });
});
