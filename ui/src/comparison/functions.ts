// Functions by CPU per message on both sides: what changed, what is proven, and what could have been seen.

import { type Child, columnHead, h, LongTable, section, tableOf } from '../core/dom';
import { counted, duration, shortened } from '../core/format';
import type { ComparisonView, CostChange, ExplainedChange, FunctionChange } from '../core/view';
import { endsAtZero, mark } from './figures';

const STEP = 20;
const LONGEST = 44;

/** B less A. */
export function change(of: CostChange): number {
  return of.b - of.a;
}

/** A time with its sign: `+1.34 µs`; none at all is `0`. */
export function signedTime(ns: number): string {
  if (ns === 0) return '0';
  return `${ns < 0 ? '-' : '+'}${duration(Math.abs(ns))}`;
}

/** What explains the change comes first, its own cost may be small; then what changed beyond chance; else the order stays. */
export function provenFirst(
  rows: readonly FunctionChange[],
  explained: readonly ExplainedChange[] = [],
): FunctionChange[] {
  const isProven = (row: FunctionChange): boolean => row.own.proven || row.total.proven;
  const named = explained.flatMap((it) =>
    rows.filter((row) => row.function === it.function && row.module === it.module),
  );
  const others = rows.filter((row) => !named.includes(row));
  return [...named, ...others.filter(isProven), ...others.filter((row) => !isProven(row))];
}

/** The largest change that is drawn: of the functions, not of the broker. */
export function full(rows: readonly FunctionChange[]): number {
  return rows.reduce((most, row) => Math.max(most, Math.abs(change(row.own))), 0);
}

/** A bar from the middle: to the right what costs more, to the left what costs less. */
function bar(of: CostChange, most: number): HTMLElement {
  const at = (ns: number): number => 50 + 48 * Math.min(1, Math.max(-1, most > 0 ? ns / most : 0));
  const span = (kind: string, from: number, to: number): HTMLElement =>
    mark(kind, Math.min(from, to), Math.abs(to - from));
  const kind = of.proven ? (change(of) > 0 ? 'worse' : 'better') : 'open';
  return h(
    'div',
    { class: `difference ${kind}`, 'aria-hidden': 'true' },
    h('i', { class: 'zero' }),
    span('size', 50, at(change(of))),
    // That of too few runs reaches from nothing to many times as much.
    of.visible === null ? null : span('interval', at(of.interval[0]), at(of.interval[1])),
    of.visible !== null && endsAtZero(of) ? span('bound', 50, 50) : null,
  );
}

function changeText(of: CostChange): Child[] {
  const text = signedTime(change(of));
  return of.proven ? [h('b', {}, text)] : [h('span', { class: 'unproven' }, `~ ${text}`)];
}

/** The interval of a change and its probability, in words; of too few runs there is none. */
export function doubtOf({ interval: [low, high], p, visible }: CostChange): string {
  if (visible === null) return 'too few runs for an interval';
  return `interval ${signedTime(low)} to ${signedTime(high)}; p ${p < 0.001 ? '< 0.001' : p.toFixed(3)}`;
}

/** The cells of a cost; the broker's own change is larger than any function's, and none is drawn beside them. */
function cells(own: CostChange, total: CostChange | null, most: number | null): HTMLElement[] {
  const title = doubtOf(own);
  return [
    h('td', { class: 'num side' }, duration(own.a)),
    h('td', { class: 'num side' }, duration(own.b)),
    h('td', { class: 'num', title }, changeText(own)),
    h('td', { class: 'drawn', title }, most === null ? null : bar(own, most)),
    h('td', { class: 'num below' }, total ? changeText(total) : null),
    h('td', { class: 'num seen' }, own.visible === null ? 'too few runs' : duration(own.visible)),
  ];
}

function row(of: FunctionChange, most: number): HTMLElement {
  return h(
    'tr',
    {},
    h('th', { scope: 'row', title: `${of.function} in ${of.module}` }, h('code', {}, shortened(of.function, LONGEST))),
    cells(of.own, of.total, most),
  );
}

/** The section; null where functions were neither compared nor could have been. */
export function functionCosts(view: ComparisonView): HTMLElement | null {
  const of = view.functions;
  if (!of) return null;
  const all = provenFirst(of.functions, of.explained);
  const most = full(all);
  const proven = of.functions.filter((it) => it.own.proven || it.total.proven).length;
  const label = (count: number, _: number, rest: number): string =>
    `show ${count} of ${counted(rest, 'more function')}`;
  const long = new LongTable<FunctionChange>(STEP, 100, label);
  long.draw(all, (rows) => {
    const told = rows.reduce((sum, it) => sum + change(it.own), 0);
    const rest = change(of.broker) - told;
    return [
      h('tr', { class: 'whole' }, h('th', { scope: 'row' }, 'the whole broker'), cells(of.broker, null, null)),
      ...rows.map((it) => row(it, most)),
      h(
        'tr',
        {},
        h('th', { scope: 'row' }, 'all others'),
        h('td', { class: 'side' }),
        h('td', { class: 'side' }),
        h('td', { class: 'num' }, signedTime(rest)),
        h('td', { colspan: 3 }),
      ),
    ];
  });
  const heads = [
    columnHead('function'),
    columnHead('A', 'num side'),
    columnHead('B', 'num side'),
    columnHead('change', 'num'),
    columnHead('less · more', 'drawn'),
    columnHead('with callees', 'num below'),
    columnHead('shows from', 'num seen'),
  ];
  return section(
    'functions',
    'Which functions cost more or less',
    `CPU per message, of ${counted(of.functions.length, 'function')}; ${proven === 0 ? 'no change is proven' : `${proven} changed beyond chance`}`,
    tableOf('costs', 'CPU per message of functions on both sides', heads, long.body),
    long.more,
    h(
      'p',
      { class: 'hint' },
      'Own cost, at the leaf of the stack; "with callees" is the change with all that a function calls. Grey and ~: chance gives as much. Line: interval, as strict as the decision. "Shows from": the smallest change that so many runs show in four of five experiments; fewer than five of each side show none. The column "change" adds up to the broker\'s.',
    ),
  );
}
