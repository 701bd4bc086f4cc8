// The first screen: what happened, whether to believe it, how much and how slow.

import { infoOf, latencyKeys, latencyOf } from '../core/data';
import { type Child, h } from '../core/dom';
import {
  duration,
  exactDuration,
  grouped,
  megabytes,
  PERCENTILES,
  percent,
  seconds,
  significant,
  supports,
} from '../core/format';
import type { LatencySummary, LedgerSummary, RunView, WarningCode } from '../core/view';
import { subject } from './panels';
import { failures, scenarioTiles } from './scenario';
import { tile } from './tile';

const STATES: Record<RunView['state'], string> = {
  complete: 'complete',
  interrupted: 'stopped by the user',
  failed: 'failed',
  cut_off: 'cut off',
};

/** The sentence. */
export function headline(run: RunView): HTMLElement {
  return h(
    'p',
    { class: 'headline' },
    run.headline.map((part) => (part.code ? h('code', {}, part.text) : part.text)),
  );
}

/** Name, time, state. */
export function masthead(run: RunView): HTMLElement[] {
  const when = run.created.replace('T', ' ').replace(/(\.\d+)?Z$/, ' UTC');
  const facts = [run.versions.broker, run.versions.runtime, when].filter((t) => t);
  return [
    h('h1', {}, run.name),
    h('p', { class: 'when' }, facts.join(' · ')),
    h('span', { class: `state ${run.state}` }, STATES[run.state]),
  ];
}

const CODES: Record<WarningCode, string> = {
  generator_saturated: 'Generator saturated',
  rate_not_achieved: 'Rate not achieved',
  too_few_cores: 'Too few cores',
  debug_build: 'Debug build',
  too_few_samples: 'Too few samples',
  lost_samples: 'Profiler lost samples',
  profiler_throttled: 'Profiler throttled',
  profile_incomplete: 'Profile incomplete',
  clock_not_steady: 'Clock not steady',
  cpu_steal: 'CPU taken by the hypervisor',
  not_steady_state: 'Not steady',
  connection_blocked: 'Publishers blocked',
  certificate_not_checked: 'Certificate not checked',
  connections_lost: 'Connections lost',
  messages_lost: 'Messages lost or damaged',
  messages_outstanding: 'Messages still in the broker',
  messages_not_accepted: 'Messages not accepted',
  cycles_failed: 'Cycles failed',
  interrupted: 'Ended early',
  archive_incomplete: 'Archive incomplete',
  generator_late: 'Generator late',
  broker_gone: 'Broker gone',
  stalled: 'Stalled',
  messages_unanswered: 'Messages without an answer',
};

/** What the absence of warnings means: the checks are made when a run ends. */
function fine(state: RunView['state']): string {
  return state === 'cut_off'
    ? ' None were recorded until the run was cut off; the checks at its end were not made.'
    : ' All validity checks of this run passed.';
}

/** Warnings, or that there are none; notes of the reader of the archive after them. */
export function warnings(run: RunView): HTMLElement {
  const list = run.warnings.map((w) =>
    h('li', { class: w.tier }, h('b', {}, `${CODES[w.code] ?? w.code}:`), ' ', w.text),
  );
  if (run.error) {
    const { cause, value, help } = run.error;
    const text = [[cause, value].filter(Boolean).join(': '), help].filter(Boolean).join('; ');
    list.unshift(h('li', {}, h('b', {}, 'The run failed:'), ' ', text));
  }
  const notes = run.notes.map((n) => h('li', { class: 'note' }, n));
  return h(
    'section',
    { id: 'warnings', 'aria-labelledby': 'warnings-title' },
    h('h2', { id: 'warnings-title', class: 'hidden' }, 'Warnings'),
    list.length === 0
      ? h('p', { class: 'fine' }, h('b', {}, 'No warnings.'), fine(run.state))
      : null,
    list.length + notes.length > 0 ? h('ul', { class: 'warnings' }, list, notes) : null,
  );
}

/** A percentile as text, marked where too few samples lie beyond it. */
export function percentileCell(latency: LatencySummary, percentile: number, ns: number): Child {
  if (latency.count === 0) return h('span', { class: 'none' }, '–');
  if (supports(latency.count, percentile))
    return h('span', { title: exactDuration(ns) }, duration(ns));
  const why = `${exactDuration(ns)}; fewer than 10 of ${grouped(latency.count)} samples lie beyond ${percentile} %`;
  return h('span', { class: 'weak', title: why }, duration(ns), h('sup', {}, '†'));
}

/** Figures of the measured phase. */
export function tiles(run: RunView): HTMLElement {
  const f = run.figures;
  const items: (HTMLElement | null)[] = [];
  const flow = (
    label: string,
    t: { total: number; rate: number },
    extra = '',
  ): HTMLElement | null =>
    t.total === 0
      ? null
      : tile(
          label,
          significant(t.rate),
          'msg/s',
          `${grouped(t.total)} in all${extra}`,
          `${grouped(t.rate, 2)} msg/s in the measured phase; ${grouped(t.total)} messages with warm-up and drain`,
        );
  const asked = f.requested_rate === null ? '' : `, ${significant(f.requested_rate)} msg/s asked`;
  items.push(flow('sent', f.sent, asked), flow('received', f.received));
  const scenarios = Object.entries(f.scenarios);
  for (const [name, of] of scenarios) if (of) items.push(...scenarioTiles(run, name, of));
  const told = scenarios.some(([, of]) => of && of.cpu_ms_each.broker !== null);
  if (f.refused > 0)
    items.push(tile('refused', grouped(f.refused), 'messages', '', 'negative acknowledgements'));
  if (f.returned > 0 && !f.ledger)
    items.push(tile('returned', grouped(f.returned), 'messages', '', 'unroutable'));
  items.push(...(f.ledger ? account(f.ledger) : []));
  if (f.redelivered > 0 && !f.ledger) {
    items.push(
      tile('redelivered', grouped(f.redelivered), 'deliveries', '', 'redelivered flag set'),
    );
  }
  if (!told)
    items.push(cost(`${subject(run)} CPU`, f.cpu_us_per_message.broker, f.cpu_cores.broker, run));
  if (f.rss_mb.broker !== null) {
    const [value, unit] = megabytes(f.rss_mb.broker).split(' ') as [string, string];
    items.push(
      tile(`${subject(run)} memory`, value, unit, 'peak, resident', `${f.rss_mb.broker} MB`),
    );
  }
  if (!told) items.push(cost('bellows CPU', f.cpu_us_per_message.client, f.cpu_cores.client, run));
  return h(
    'section',
    { id: 'figures', 'aria-labelledby': 'figures-title' },
    h(
      'header',
      {},
      h('h2', { id: 'figures-title' }, 'How much, how slow'),
      h(
        'span',
        { class: 'hint' },
        f.measured_s > 0 ? `measured phase, ${seconds(Math.round(f.measured_s * 10) / 10)}` : '',
      ),
    ),
    h('div', { class: 'figures' }, h('dl', { class: 'tiles' }, items), latencies(run)),
  );
}

/** What became of the messages. */
function account(ledger: LedgerSummary): HTMLElement[] {
  const of = `of ${grouped(ledger.sent)}${ledger.exact ? '' : ', about'}`;
  const missing = ledger.unconfirmed_missing;
  const items = [
    tile(
      'lost',
      grouped(ledger.lost),
      'messages',
      missing > 0 ? `and ${grouped(missing)} unconfirmed` : of,
      `confirmed and never delivered, ${of} messages with warm-up and drain`,
    ),
    tile(
      'duplicated',
      grouped(ledger.duplicated),
      'deliveries',
      ledger.duplicated_redelivered > 0
        ? `and ${grouped(ledger.duplicated_redelivered)} flagged`
        : of,
      `delivered again without the redelivered flag; ${grouped(ledger.duplicated_redelivered)} with it`,
    ),
  ];
  if (ledger.outstanding > 0)
    items.push(
      tile(
        'outstanding',
        grouped(ledger.outstanding),
        'messages',
        of,
        'confirmed and not delivered by the end of the drain; the broker may still hold them',
      ),
    );
  if (ledger.returned > 0)
    items.push(
      tile('returned', grouped(ledger.returned), 'messages', of, 'unroutable: no queue was bound'),
    );
  if (ledger.reordered > 0)
    items.push(
      tile('reordered', grouped(ledger.reordered), 'deliveries', of, 'older than one before it'),
    );
  if (ledger.corrupt > 0)
    items.push(
      tile('corrupt', grouped(ledger.corrupt), 'deliveries', of, 'not the content that was sent'),
    );
  return items;
}

/** CPU per message where messages were counted, cores otherwise. */
function cost(
  label: string,
  perMessage: number | null,
  cores: number | null,
  run: RunView,
): HTMLElement | null {
  const of = run.hardware.cores > 0 ? ` of ${run.hardware.cores} cores` : ' cores';
  if (perMessage !== null && perMessage > 0) {
    const under = cores === null ? '' : `${significant(cores)}${of}`;
    return tile(
      label,
      significant(perMessage),
      'us/msg',
      under,
      `${perMessage} CPU-microseconds per message`,
    );
  }
  if (cores === null) return null;
  return tile(label, significant(cores), 'cores', of.trim(), `${cores} cores on average`);
}

/** The two latencies that users feel, in one small table. */
function latencies(run: RunView): HTMLElement | null {
  const explains = ['send_ack', 'transfer', 'send_delay'];
  const rows = latencyKeys(run).filter(
    (k) =>
      !infoOf(run, k).part && !explains.includes(k) && (latencyOf(run.figures, k)?.count ?? 0) > 0,
  );
  if (rows.length === 0) return null;
  const shown = PERCENTILES.filter(([name]) => name !== 'p90' && name !== 'p99.99');
  const late = run.figures.late_share;
  return h(
    'div',
    { class: 'scroll' },
    h(
      'table',
      { class: 'latencies' },
      h('caption', { class: 'hidden' }, 'Latencies of the measured phase'),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('td'),
          shown.map(([name]) => h('th', { scope: 'col', class: 'num' }, name)),
          h('th', { scope: 'col', class: 'num' }, 'max'),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map((key) => {
          const l = latencyOf(run.figures, key) as LatencySummary;
          return h(
            'tr',
            { class: key },
            h('th', { scope: 'row' }, infoOf(run, key).name),
            shown.map(([, p, field]) => h('td', { class: 'num' }, percentileCell(l, p, l[field]))),
            h('td', { class: 'num', title: exactDuration(l.max_ns) }, duration(l.max_ns)),
          );
        }),
      ),
    ),
    Object.values(run.figures.scenarios).map((of) => (of ? failures(of) : null)),
    late !== null && late > 0
      ? h(
          'p',
          { class: 'hint' },
          `${percent(late)} of messages were sent more than 1 ms after their intended time.`,
        )
      : null,
  );
}
