// The figures of the measured phase, or of the window.

import { infoOf, latencyKeys, latencyOf, leadMetric, type Page, shortName, subject } from '../core/data';
import { add, columnHead, fill, h, pairs, section, tableOf } from '../core/dom';
import {
  counted,
  duration,
  exactDuration,
  grouped,
  MAIN_PERCENTILES,
  megabytes,
  offBy,
  percent,
  plural,
  seconds,
  significant,
  supports,
} from '../core/format';
import type { Store } from '../core/state';
import type { LatencySummary, LedgerSummary, Metric, ProgramSummary, RunView } from '../core/view';
import { figuresOf } from '../core/window';
import { nodeTable } from './nodes';
import { explainMarks, latencyName, percentileCell, percentileText, refusals, WEAK } from './percentile-cell';
import { failures, scenarioTiles } from './scenario';
import { scrapeTable, scrapeTiles } from './scrapes';
import { type Tile, tile } from './tile';
import type { View } from './timeline';

type Span = 'the whole run' | 'the window';

function flow(
  label: string,
  t: { total: number; rate: number },
  all: string,
  of: Span,
  requested: number | null = null,
): Tile | null {
  if (t.total === 0) return null;
  const extra = requested === null ? '' : `, ${significant(requested)} msg/s requested`;
  const exact = `${grouped(t.rate, 2)} msg/s; ${counted(t.total, 'message')} in ${of}`;
  return tile(label, significant(t.rate), 'msg/s', `${all} in ${of}${extra}`, exact);
}

/** All that was received: with copies, the messages too, which with those that are missing are all that were sent. */
export function arrived({ received: { total }, ledger }: Pick<RunView['figures'], 'received' | 'ledger'>): string {
  if (!ledger) return grouped(total);
  const copies = ledger.duplicated + ledger.duplicated_redelivered + ledger.duplicated_resent;
  return copies > 0 ? `${counted(total, 'delivery')} of ${counted(ledger.delivered, 'message')}` : grouped(total);
}

function messages(run: RunView, of: Span): Tile[] {
  const { sent, received, requested_rate } = run.figures;
  const tiles = [
    flow('sent', sent, grouped(sent.total), of, requested_rate),
    flow('received', received, arrived(run.figures), of),
  ];
  return tiles.filter((it) => it !== null);
}

function scenarios(run: RunView, except: string | null = null): Tile[][] {
  const all = Object.entries(run.figures.scenarios);
  return all.map(([name, of]) => (of && name !== except ? scenarioTiles(run, name, of) : []));
}

function flows(run: RunView, of: Span, except: string | null): Tile[] {
  return [...messages(run, of), ...scenarios(run, except).flat(), ...scraped(run, of)];
}

/** The pages that were scraped, whose figures are of the whole run. */
function scraped(run: RunView, of: Span): Tile[] {
  return of === 'the whole run' ? scrapeTiles(run) : [];
}

/** All figures: where several scenarios count the same, each has a row of its own, which its first figure names. */
function rowsOfTiles(run: RunView, of: Span): (Tile | null)[][] {
  const own = scenarios(run).filter((row) => row.length > 0);
  const rest = [...scraped(run, of), ...fates(run), ...costs(run)];
  const sent = messages(run, of);
  if (sent.length + own.length < 2) return [[...sent, ...own.flat(), ...rest]];
  return sent.length > 0 ? [[...sent, ...rest], ...own] : [...own, rest];
}

function costs(run: RunView): (Tile | null)[] {
  const f = run.figures;
  // The tiles of a scenario say what one of its operations costs.
  const told = Object.values(f.scenarios).some((of) => of && of.cpu_us_each.broker !== null);
  // Of bellows without a load only the profiler is left, which is no part of it.
  const isIdle = f.cpu_cores.client === 0;
  const cpu = (label: string, who: 'broker' | 'client'): Tile | null =>
    told || (who === 'client' && isIdle) ? null : cost(label, f.cpu_us_per_message[who], f.cpu_cores[who], run);
  return [cpu(`${subject(run)} CPU`, 'broker'), memory(run), cpu('bellows CPU', 'client')];
}

function memory(run: RunView): Tile | null {
  const mb = run.figures.rss_mb.broker;
  if (mb === null) return null;
  const [value, unit] = megabytes(mb).split(' ') as [string, string];
  return tile(`${subject(run)} memory`, value, unit, 'peak, resident', `${mb} MB`);
}

/** What became of the messages, without a ledger as far as the broker told. */
function fates(run: RunView): Tile[] {
  const f = run.figures;
  const told = (label: string, count: number, unit: string, title: string): Tile[] =>
    count > 0 ? [tile(label, grouped(count), plural(count, unit), '', title)] : [];
  const refused = told('refused', f.refused, 'message', 'negative acknowledgements, of the whole run');
  if (f.ledger) return [...refused, ...account(f.ledger)];
  return [
    ...refused,
    ...told('returned', f.returned, 'message', 'unroutable, of the whole run'),
    ...told('redelivered', f.redelivered, 'delivery', 'redelivered flag set, of the whole run'),
  ];
}

const TWO_CLOCKS = '; taken by the clocks of two machines, which agree to what stands behind ±';

function p99(run: RunView, key: Metric): Tile {
  const l = latencyOf(run.figures, key) as LatencySummary;
  const [value, unit] = duration(l.p99_ns).split(' ') as [string, string];
  const isWeak = !supports(l.count, 99);
  const weak = isWeak ? '; fewer than 10 samples lie beyond' : '';
  const bound = run.figures.clock_bounds[key];
  return tile(
    `${infoOf(run, key).name} p99`,
    isWeak ? h('span', { class: 'weak' }, value, h('sup', {}, WEAK)) : value,
    bound ? `${unit} ± ${offBy(bound.bound_ns, unit)}` : unit,
    // A value is never parted from its unit.
    [`p50 ${percentileText(l, 50, l.p50_ns)}`, `max ${duration(l.max_ns)}`]
      .map((part) => part.replaceAll(' ', '\u00a0'))
      .join(' · '),
    `${exactDuration(l.p99_ns)} of ${counted(l.count, 'sample')}${weak}${bound ? TWO_CLOCKS : ''}`,
  );
}

/** Latencies that users feel, and that two clocks do not show. */
function notKnown(run: RunView): Tile[] {
  const { end_to_end: of } = run.figures.clock_bounds;
  if (!of?.refused) return [];
  return [tile(`${of.name} p99`, '–', '', `clocks ± ${duration(of.bound_ns)}: not known`, of.refused)];
}

/** A figure that is of the whole phase also while a window is chosen, which it says then. */
function wholePhase(made: Tile, isWindow: boolean): Tile {
  if (isWindow) made.append(h('dd', { class: 'under scope' }, 'whole phase'));
  return made;
}

function timed(label: string, ns: number, under: string, title: string): Tile {
  const [value = '', unit = ''] = duration(ns).split(' ');
  return tile(label, value, unit, under, title);
}

/** What a fault did to those who send and receive: messages lost, the longest wait, and when its target was back. */
function outcomeOfFaults(run: RunView, whole: RunView): Tile[] {
  const isWindow = run !== whole;
  const { ledger } = whole.figures;
  const lost = ledger ? account(ledger).slice(0, 1) : [];
  const waits = (['ack_response', 'end_to_end'] as const).flatMap((key) => {
    const latency = latencyOf(run.figures, key);
    return latency && latency.count > 0 ? [{ name: infoOf(run, key).name, ns: latency.max_ns }] : [];
  });
  const longest = waits.toSorted((a, b) => b.ns - a.ns).slice(0, 1);
  const last = whole.faults.toSorted((a, b) => (b.back_s ?? -1) - (a.back_s ?? -1)).slice(0, 1);
  const back = last.map(({ target, t, back_s }) => {
    const since = t - (whole.phases.find(({ phase }) => phase === 'measure')?.start ?? 0);
    const title = `from the fault, ${seconds(since)} after measuring began, until it was ready again`;
    const label = `${target} back after`;
    if (back_s === null) return tile(label, '–', '', 'not within the run', title);
    return timed(label, back_s * 1e9, `fault at ${seconds(t)}`, title);
  });
  return [
    ...lost.map((it) => wholePhase(it, isWindow)),
    ...longest.map(({ name, ns }) => timed('longest wait', ns, name, exactDuration(ns))),
    ...back.map((it) => wholePhase(it, isWindow)),
  ];
}

/** What the operations of the scenario that leads took, and which step of them most. */
function operations(run: RunView): Tile[] {
  const { lead } = run;
  const of = lead === null ? undefined : run.figures.scenarios[lead];
  if (lead === null || !of) return [];
  const [rate, ...rest] = scenarioTiles(run, lead, of);
  const key = leadMetric(run);
  const took = key && latencyOf(run.figures, key)?.count ? [p99(run, key)] : [];
  const steps = run.metrics.flatMap((it) => {
    const latency = it.part && it.scenario === lead ? latencyOf(run.figures, it.key) : undefined;
    return latency && latency.count > 0 ? [{ it, latency }] : [];
  });
  const longest = steps.toSorted((a, b) => b.latency.mean_ns - a.latency.mean_ns).slice(0, 1);
  const step = longest.map(({ it, latency }) => {
    const under = `mean; p99 ${percentileText(latency, 99, latency.p99_ns)}`;
    return timed(`longest step: ${shortName(it)}`, latency.mean_ns, under, it.meaning);
  });
  return [...(rate ? [rate] : []), ...took, ...step, ...rest];
}

/** The figures of the first screen, those that answer what the run asks first. */
export function firstTiles(run: RunView, whole: RunView = run): Tile[] {
  const of = run === whole ? 'the whole run' : 'the window';
  const { ledger } = whole.figures;
  const hasFaults = whole.faults.length > 0;
  const trouble = ledger !== null && ledger.lost + ledger.duplicated + ledger.corrupt > 0;
  const fate = hasFaults ? [] : fates(whole).map((it) => wholePhase(it, run !== whole));
  const asked = hasFaults ? outcomeOfFaults(run, whole) : operations(run);
  const lead = hasFaults ? null : run.lead;
  const [first, ...further] = flows(run, of, lead);
  const all = [
    ...asked,
    first ?? null,
    ...felt(run)
      .filter((key) => infoOf(run, key).scenario !== lead)
      .slice(0, 2)
      .map((key) => p99(run, key)),
    ...notKnown(run),
    ...(trouble ? fate.slice(0, 1) : []),
    ...costs(run),
    ...(trouble ? [] : fate),
    ...further,
  ];
  return all.filter((t) => t !== null);
}

/** All figures of the window, else of the measured phase; in a window beside those that are of the whole phase. */
export function figures(page: Page, store: Store): View {
  const hint = h('span', { class: 'hint' });
  const body = h('div', { class: 'figures' });
  const element = section('figures', 'Figures', hint, body, byName(page.run));
  const draw = (): void => {
    const { window } = store.state;
    const whole = page.run;
    const run = window ? { ...whole, figures: figuresOf(page, window) } : whole;
    const of = window ? 'the window' : 'the whole run';
    const rest = [scrapeTable(whole), nodeTable(whole), ...whole.figures.programs.map(program)].filter(
      (it) => it !== null,
    );
    const tiles = window ? [...fates(whole), ...scrapeTiles(whole)] : [];
    const ofWhole = [h('p', { class: 'scope' }, 'whole phase'), h('dl', { class: 'tiles' }, tiles)];
    fill(hint, windowHint(whole, window));
    fill(
      body,
      rowsOfTiles(run, of).map((row) => h('dl', { class: 'tiles' }, row)),
      latencies(run, window !== null),
      window && tiles.length + rest.length > 0 ? h('div', { class: 'figures whole-phase' }, ofWhole, rest) : rest,
    );
    explainMarks(body);
  };
  store.on(['window'], draw);
  return { element, draw };
}

/** Every figure of the run by the name by which it is required and compared. */
function byName(run: RunView): HTMLElement | null {
  const { rows } = run.figures;
  if (rows.length === 0) return null;
  const caption = 'of the measured phase; what became of messages: of the whole run';
  const all = rows.map(({ name, value }) => [name, value] as const);
  const summary = h('summary', {}, 'all figures, by the names that --require takes');
  return h('details', { class: 'facts' }, summary, pairs(caption, all));
}

/** What a program that was the load printed, where its own figures are, and how it ended. */
export function program({ command, status, log }: ProgramSummary): HTMLElement {
  const file = h('a', { href: encodeURIComponent(log) }, log);
  const words = h('code', {}, command);
  const ended = ` printed, its own figures among it (${status})`;
  return h('p', { class: 'hint' }, file, ': what ', words, ended);
}

export function windowHint(run: RunView, window: readonly [number, number] | null): string {
  if (window !== null) return 'what happened in it, in whole intervals';
  const { measured_s: length, lasted, sent, received } = run.figures;
  if (length === 0) return '';
  if (lasted) {
    const ends = [
      ['sent', lasted.sent_s],
      ['confirmed', lasted.completed_s],
      ['received', lasted.received_s],
    ] as const;
    const all = ends.filter(([, s]) => s > 0).map(([what, s]) => `${what} in ${seconds(s)}`);
    return `the load ended by itself: ${all.join(', ')}, and rates are over these times; CPU is of the measured phase, ${seconds(length)}`;
  }
  const totals =
    sent.total + received.total > 0
      ? '; numbers of messages and what became of them are of the whole run, with warm-up and drain'
      : '';
  return `measured phase, ${seconds(Math.round(length * 10) / 10)}${totals}`;
}

/** What became of the messages. */
export function account(ledger: LedgerSummary): HTMLElement[] {
  const of = `of ${grouped(ledger.sent)}${ledger.exact ? '' : ', about'}`;
  const { unconfirmed_missing, duplicated_redelivered } = ledger;
  const missing = unconfirmed_missing > 0 ? `${grouped(unconfirmed_missing)} unconfirmed and missing` : of;
  const again = grouped(duplicated_redelivered);
  const redelivered = duplicated_redelivered > 0 ? `${again} redelivered` : of;
  const resent = ledger.duplicated_resent > 0 ? `, ${grouped(ledger.duplicated_resent)} of messages sent again` : '';
  const held = 'confirmed and not delivered by the end of the drain; the broker may still hold them';
  const all = [
    ['lost', 'message', missing, `confirmed and never delivered, ${of} messages with warm-up and drain`],
    ['duplicated', 'delivery', redelivered, `delivered again without the redelivered flag; ${again} with it${resent}`],
    ['outstanding', 'message', of, held],
    ['returned', 'message', of, 'unroutable: no queue was bound'],
    ['reordered', 'delivery', of, 'older than one before it'],
    ['corrupt', 'delivery', of, 'not the content that was sent'],
  ] as const;
  // None lost and none duplicated is an answer, too.
  const shown = all.filter(([what], i) => i < 2 || ledger[what] > 0);
  return shown.map(([what, unit, under, title]) => {
    return tile(what, grouped(ledger[what]), plural(ledger[what], unit), under, title);
  });
}

/** CPU per message where messages were counted, cores otherwise. */
function cost(label: string, perMessage: number | null, cores: number | null, run: RunView): HTMLElement | null {
  const of = run.hardware.cores > 0 ? ` of ${counted(run.hardware.cores, 'core')}` : ' cores';
  if (perMessage !== null && perMessage > 0) {
    const under = cores === null ? '' : `${significant(cores)}${of}`;
    return tile(label, significant(perMessage), 'µs/msg', under, `${perMessage} CPU-microseconds per message`);
  }
  if (cores === null) return null;
  return tile(label, significant(cores), 'cores', of.trim(), `${cores} cores on average`);
}

function felt(run: RunView): Metric[] {
  const explains = ['send_ack', 'transfer', 'send_delay'];
  const isFelt = (key: Metric): boolean =>
    !infoOf(run, key).part && !explains.includes(key) && (latencyOf(run.figures, key)?.count ?? 0) > 0;
  return latencyKeys(run).filter(isFelt);
}

function latencies(run: RunView, ofWindow: boolean): HTMLElement | null {
  const keys = felt(run);
  if (keys.length === 0) return null;
  const rows = keys.map((key) => {
    const l = latencyOf(run.figures, key) as LatencySummary;
    return h(
      'tr',
      { class: key },
      h('th', { scope: 'row' }, latencyName(run, key)),
      MAIN_PERCENTILES.map(([, p, field]) => h('td', { class: 'num' }, percentileCell(l, p, l[field]))),
      h('td', { class: 'num', title: exactDuration(l.max_ns) }, duration(l.max_ns)),
    );
  });
  const caption = `Latencies of the ${ofWindow ? 'window' : 'measured phase'}`;
  const numbers = [...MAIN_PERCENTILES.map(([name]) => name), 'max'].map((name) => columnHead(name, 'num'));
  const element = tableOf('latencies', caption, [h('td'), ...numbers], h('tbody', {}, rows));
  const late = run.figures.late_share ?? 0;
  const why = Object.entries(run.figures.scenarios).map(([name, of]) => of && failures(run, name, of));
  const told = `${percent(late)} of messages were sent more than 1 ms after their intended time.`;
  add(element, [...why, ...refusals(run), late > 0 && h('p', { class: 'hint' }, told)]);
  return element;
}
