import { describe, expect, test } from 'vitest';
import { count, infoOf, whose } from '../src/core/data';
import type { MetricInfo, RunView, ScenarioSummary } from '../src/core/view';
import { scenarioPanels } from '../src/sections/scenario';

const metric = (scenario: string, key: string, unit: string): MetricInfo => ({
  key: `${scenario}_${key}`,
  name: key,
  unit,
  kind: 'counter',
  scenario,
  part: false,
  meaning: '',
});

/** A run of probes, each with requests and bytes. */
function runOf(names: string[]): RunView {
  const metrics = names.flatMap((name) => [
    metric(name, 'begun', 'requests'),
    metric(name, 'completed', 'requests'),
    metric(name, 'bytes', 'bytes'),
  ]);
  const scenarios = names.map((name) => [name, { kind: 'http://h/', unit: 'requests' }]);
  const none = { total: 0, rate: 0 };
  return {
    metrics,
    requirements: [],
    figures: { scenarios: Object.fromEntries(scenarios), sent: none, received: none },
    series: {
      t: [0],
      dt: [1],
      requested: [null],
      latency: {},
      counts: Object.fromEntries(metrics.map((it) => [it.key, [5]])),
    },
  } as unknown as RunView;
}

describe('a scenario', () => {
  test('has its counts behind its name, or alone', () => {
    const probe = { probe_queues_completed: 40 } as unknown as ScenarioSummary;
    expect(count('probe_queues', probe, 'completed')).toBe(40);
    expect(count('probe_queues', probe, 'failed')).toBe(0);
    expect(count('churn', { completed: 7 }, 'completed')).toBe(7);
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
    expect(whose(runOf(['probe']), 'probe')).toBe('');
    expect(infoOf(run, 'probe_nodes_bytes').name).toBe('probe nodes: bytes');
    const { before, after } = scenarioPanels(run, 'probe_queues');
    expect([...before, ...after].map((it) => it.title)).toEqual([
      'probe queues: requests',
      'probe queues: bytes',
    ]);
  });
});
