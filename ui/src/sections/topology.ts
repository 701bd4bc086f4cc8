// The broker's objects as a drawing: who publishes to which exchange, what that is bound to, and what waits in
// each queue; the tables below it hold all of them.

import { type Child, fill, h, later, table } from '../core/dom';
import { counted, grouped, significant } from '../core/format';
import type { RunView, Topology } from '../core/view';
import type { View } from './timeline';

/** Queues that are drawn; the table has all. */
const MOST_QUEUES = 12;
const SVG = 'http://www.w3.org/2000/svg';

const named = (text: string, empty: string): Child =>
  text === '' ? h('i', {}, empty) : h('code', {}, text);

interface Load {
  producers: number;
  consumers: number;
  exchange: string;
}

/** What the configuration says of each load: its producers, and where they publish. */
export function loadsOf(experiment: unknown): Load[] {
  const list = (experiment as { load?: unknown } | null)?.load;
  if (!Array.isArray(list)) return [];
  return list.map((load: Record<string, unknown>) => {
    const { exchange, destination, producers, consumers } = load ?? {};
    const number = (value: unknown): number => (typeof value === 'number' ? value : 0);
    const own = (exchange as { name?: unknown } | null | undefined)?.name;
    const topic = String(destination ?? '').startsWith('topic://');
    const name = typeof own === 'string' ? own : topic ? 'amq.topic' : '';
    return { producers: number(producers), consumers: number(consumers), exchange: name };
  });
}

/** What is drawn: boxes in columns, and lines between them with their labels. */
export interface Drawing {
  exchanges: { name: string; type: string }[];
  queues: Topology['queues'];
  /** Queues and exchanges that are left out. */
  hidden: number;
  /** From an exchange to what it is bound to, with the routing keys. */
  lines: { source: string; destination: string; keys: string[] }[];
}

/** Chooses what is drawn: the exchanges in use, and the queues that hold the most. */
export function drawingOf({ topology: t, experiment }: RunView): Drawing {
  const used = new Set(loadsOf(experiment).map((load) => load.exchange));
  const order = t.queues.toSorted((a, b) => b.messages - a.messages);
  const kept = new Set(order.slice(0, MOST_QUEUES).map((q) => q.name));
  const queues = t.queues.filter((q) => kept.has(q.name)).slice(0, MOST_QUEUES);
  // Every queue is bound to the default exchange: that says something only where somebody publishes there.
  const shown = t.bindings.filter((b) => b.source !== '' || used.has('') || used.size === 0);
  const sources = [...new Set([...used, ...shown.map((b) => b.source)])];
  const exchanges = sources.map((name) => ({
    name,
    type: t.exchanges.find((e) => e.name === name)?.type ?? (name === '' ? 'direct' : ''),
  }));
  const lines = new Map<string, Drawing['lines'][number]>();
  for (const { source, destination, routing_key: key } of shown) {
    if (!kept.has(destination) && !sources.includes(destination)) continue;
    const id = `${source}\0${destination}`;
    const line = lines.get(id) ?? { source, destination, keys: [] };
    line.keys.push(key);
    lines.set(id, line);
  }
  return {
    exchanges: exchanges.slice(0, MOST_QUEUES),
    queues,
    hidden: t.queues.length - queues.length + t.omitted,
    lines: [...lines.values()],
  };
}

/** The drawing; null where nothing is known of the broker's objects. */
export function topology(run: RunView): View | null {
  if (run.topology.queues.length + run.topology.bindings.length === 0) return null;
  const drawing = drawingOf(run);
  const { sent, received } = run.figures;
  const rate = (value: number): string => `${significant(value)} msg/s`;
  const loads = loadsOf(run.experiment);
  const producers = loads.reduce((sum, load) => sum + load.producers, 0);
  const consumers = loads.reduce((sum, load) => sum + load.consumers, 0);
  const box = (kind: string, ...content: Child[]): HTMLElement =>
    h('div', { class: `box ${kind}` }, content);
  const line = (text: string): HTMLElement => h('span', {}, text);
  const small = (text: string): HTMLElement => h('span', { class: 'soft' }, text);
  const from = box('ends', h('b', {}, 'producers'), small(count(producers)), rate(sent.rate));
  const to = box('ends', h('b', {}, 'consumers'), small(count(consumers)), rate(received.rate));
  const exchanges = drawing.exchanges.map(({ name, type }) =>
    box('exchange', named(name, 'default exchange'), small(type ? `${type} exchange` : 'exchange')),
  );
  const only = run.topology.queues.length === 1;
  const queues = drawing.queues.map((q) =>
    box(
      'queue',
      named(q.name, 'without a name'),
      small(q.type ? `${q.type} queue` : 'queue'),
      line(counted(q.messages, 'message')),
      only ? line(`${rate(sent.rate)} in, ${rate(received.rate)} out`) : null,
    ),
  );
  const lines = document.createElementNS(SVG, 'svg');
  lines.setAttribute('aria-hidden', 'true');
  const column = (...boxes: Child[]): HTMLElement => h('div', { class: 'column' }, boxes);
  const element = h(
    'figure',
    { class: 'topology' },
    h(
      'figcaption',
      {},
      h('b', {}, 'Topology'),
      h(
        'span',
        { class: 'unit' },
        'rates of the measured phase; messages as the broker counted them at the end, where a stream’s count lags behind',
      ),
    ),
    h(
      'div',
      { class: 'drawing' },
      lines,
      sent.total > 0 ? column(from) : null,
      column(...exchanges),
      column(...queues, drawing.hidden > 0 ? small(`and ${grouped(drawing.hidden)} more`) : null),
      received.total > 0 ? column(to) : null,
    ),
    later('The same as tables', () => h('div', {}, tables(run.topology))),
  );
  const at = new Map<string, HTMLElement>();
  drawing.exchanges.forEach(({ name }, i) => {
    at.set(name, exchanges[i]!);
  });
  // A queue may be called as an exchange is: bindings of RabbitMQ's default exchange go to queues.
  const queueAt = new Map(drawing.queues.map((q, i) => [q.name, queues[i]!]));
  const draw = (): void => {
    fill(lines);
    const origin = lines.getBoundingClientRect();
    const beside = getComputedStyle(lines.parentElement!).flexDirection === 'row';
    const link = (a: HTMLElement | undefined, b: HTMLElement | undefined, title: string): void => {
      if (a && b && a !== b) lines.append(curve(a, b, origin, beside, title));
    };
    if (sent.total > 0)
      for (const load of loads) if (load.producers > 0) link(from, at.get(load.exchange), '');
    for (const { source, destination, keys } of drawing.lines) {
      const end = queueAt.get(destination) ?? at.get(destination);
      link(at.get(source), end, `routing key ${keys.slice(0, 8).join(', ') || 'empty'}`);
    }
    // At the end of the measured phase some consumers may be gone.
    const known = drawing.queues.some((q) => q.consumers > 0);
    if (received.total > 0)
      drawing.queues.forEach((q, i) => {
        if (q.consumers > 0 || !known) link(queues[i], to, '');
      });
  };
  return { element, draw };
}

function count(of: number): string {
  return of > 0 ? grouped(of) : '';
}

/** A line between two boxes: beside each other, or below each other on a narrow page. */
function curve(
  a: HTMLElement,
  b: HTMLElement,
  origin: DOMRect,
  beside: boolean,
  title: string,
): SVGElement {
  const [one, two] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
  const path = document.createElementNS(SVG, 'path');
  const x1 = (beside ? one.right : one.left + one.width / 2) - origin.left;
  const y1 = (beside ? one.top + one.height / 2 : one.bottom) - origin.top;
  const x2 = (beside ? two.left : two.left + two.width / 2) - origin.left;
  const y2 = (beside ? two.top + two.height / 2 : two.top) - origin.top;
  const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
  const bend = beside ? `${mx} ${y1} ${mx} ${y2}` : `${x1} ${my} ${x2} ${my}`;
  path.setAttribute('d', `M${x1} ${y1}C${bend} ${x2} ${y2}`);
  if (title) {
    const text = document.createElementNS(SVG, 'title');
    text.textContent = title;
    path.append(text);
  }
  return path;
}

function tables(t: Topology): HTMLElement[] {
  const out: HTMLElement[] = [];
  if (t.queues.length > 0) {
    out.push(
      h(
        'div',
        { class: 'scroll' },
        table(
          'Queues when the measured phase ended',
          [
            { label: 'queue' },
            { label: 'type' },
            { label: 'durable' },
            { label: 'messages', number: true },
            { label: 'consumers', number: true },
            { label: 'arguments' },
          ],
          t.queues.map((q) => [
            named(q.name, 'without a name'),
            q.type,
            q.durable ? 'yes' : 'no',
            grouped(q.messages),
            grouped(q.consumers),
            q.arguments.join(', '),
          ]),
        ),
      ),
    );
  }
  if (t.bindings.length > 0) {
    out.push(
      h(
        'div',
        { class: 'scroll' },
        table(
          'Bindings',
          [
            { label: 'exchange' },
            { label: 'type' },
            { label: 'routing key' },
            { label: 'destination' },
          ],
          t.bindings.map((b) => [
            named(b.source, 'default exchange'),
            t.exchanges.find((e) => e.name === b.source)?.type ?? (b.source === '' ? 'direct' : ''),
            named(b.routing_key, 'empty'),
            named(b.destination, 'without a name'),
          ]),
        ),
      ),
    );
  }
  if (t.omitted > 0)
    out.push(h('p', { class: 'hint' }, `${grouped(t.omitted)} more objects are not listed.`));
  return out;
}
