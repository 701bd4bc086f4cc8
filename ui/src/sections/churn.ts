// What a run of churn has in place of messages: cycles, and the steps that each consists of.

import type { Line, PanelSpec } from '../charts/panel';
import { PARTS } from '../core/data';
import { h } from '../core/dom';
import { duration, durationTick, grouped, si, significant } from '../core/format';
import { heatColor } from '../core/theme';
import type { ChurnSummary, RunView, Step } from '../core/view';
import { type Tile, tile } from './tile';

export const STEP_NAMES: Record<Step, string> = {
  cycle: 'whole cycle',
  open: 'until open',
  wait: 'wait',
  connect: 'connect',
  secure: 'secure',
  log_in: 'log in',
  open_channel: 'open channel',
  declare: 'declare',
  delete: 'delete',
  close_channel: 'close channel',
  close: 'close',
};

/** One hue, stronger with each step of the cycle. */
export function partColor(part: Step, dark: boolean): string {
  const at = (PARTS as readonly Step[]).indexOf(part);
  return heatColor(0.3 + (0.7 * Math.max(0, at)) / (PARTS.length - 1), dark);
}

/** How many cycles, what became of them, and what each cost the broker. */
export function churnTiles(run: RunView, churn: ChurnSummary): Tile[] {
  const asked = run.figures.requested_rate;
  const tiles = [
    tile(
      `${churn.kind} opened and closed`,
      significant(churn.rate),
      'cycles/s',
      `${grouped(churn.completed)} in order${asked === null ? '' : `, ${significant(asked)} cycles/s asked`}`,
      `${grouped(churn.rate, 2)} cycles/s in the measured phase; ${grouped(churn.begun)} were due in it and began, at most ${grouped(churn.under_way)} at a time`,
    ),
    tile(
      'failed',
      grouped(churn.failed),
      'cycles',
      `of ${grouped(churn.begun)}`,
      churn.failures.map((f) => `${grouped(f.count)}: ${f.reason}`).join('\n') || 'none',
    ),
  ];
  if (churn.not_begun > 0)
    tiles.push(
      tile('not begun', grouped(churn.not_begun), 'cycles', 'no room in time', 'due, and no room'),
    );
  const cpu = churn.cpu_ms_per_cycle;
  const cost = (who: string, ms: number | null, cores: number | null): void => {
    if (ms === null) return;
    const under = cores === null ? '' : `${significant(cores)} of ${run.hardware.cores} cores`;
    const exact = `${ms} CPU-milliseconds per cycle`;
    tiles.push(tile(`${who} CPU`, significant(ms), 'ms/cycle', under, exact));
  };
  cost('broker', cpu.broker, run.figures.cpu_cores.broker);
  cost('bellows', cpu.client, run.figures.cpu_cores.client);
  return tiles;
}

/** Why cycles failed; null where none did. */
export function failures(churn: ChurnSummary): HTMLElement | null {
  if (churn.failures.length === 0) return null;
  return h(
    'ul',
    { class: 'hint' },
    churn.failures.map((f) => h('li', {}, `${grouped(f.count)} failed: ${f.reason}`)),
  );
}

const perSecond = (v: number): string => `${si(v)}/s`;

/** Cycles per second, how many were under way, and where the time of a cycle goes. */
export function churnPanels(run: RunView): { before: PanelSpec[]; after: PanelSpec[] } {
  const { cycles, requested } = run.series;
  if (!cycles) return { before: [], after: [] };
  const rates: Line[] = [];
  if (requested.some((v) => v !== null && v > 0))
    rates.push({
      label: 'requested',
      values: requested,
      color: (p) => p.faint,
      format: perSecond,
      width: 1,
    });
  rates.push(
    {
      label: 'begun',
      values: cycles.begun,
      color: (p) => p.send,
      format: perSecond,
      width: 1,
      dash: [4, 3],
    },
    {
      label: 'completed',
      values: cycles.completed,
      color: (p) => p.send,
      format: perSecond,
      area: true,
    },
  );
  if (cycles.failed.some((v) => v > 0))
    rates.push({
      label: 'failed',
      values: cycles.failed,
      color: (p) => p.delay,
      format: perSecond,
    });
  const before: PanelSpec[] = [
    { id: 'rates', title: 'cycles', unit: 'cycles per second', height: 116, lines: rates },
  ];
  const stack = stacked(run);
  const after: PanelSpec[] = [
    ...(stack ? [stack] : []),
    {
      id: 'under-way',
      title: 'under way',
      unit: 'most cycles at the same time',
      height: 64,
      lines: [
        {
          label: 'under way',
          values: cycles.under_way,
          color: (p) => p.receive,
          format: (v) => grouped(v),
          area: true,
        },
      ],
    },
  ];
  return { before, after };
}

/** The means of the parts upon each other: means add up to the cycle's, percentiles do not. */
function stacked(run: RunView): PanelSpec | null {
  const means = run.series.cycles?.mean_ns;
  if (!means) return null;
  const taken = PARTS.filter((part) => means[part]?.some((v) => v !== null));
  if (taken.length === 0) return null;
  let below: (number | null)[] = run.series.t.map(() => null);
  const lines: Line[] = taken.map((part) => {
    const own = means[part]!;
    below = own.map((v, i) => (v === null ? below[i]! : (below[i] ?? 0) + v));
    return {
      label: STEP_NAMES[part],
      values: below,
      shown: own,
      color: (p) => partColor(part, p.dark),
      format: duration,
      width: 1,
      solid: true,
    };
  });
  return {
    id: 'steps',
    title: 'where the time goes',
    unit: 'mean of each step, upon each other',
    height: 150,
    lines: lines.toReversed(),
    tick: durationTick,
  };
}
