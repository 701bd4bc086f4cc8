// The broker's objects as a drawing: who publishes to which exchange, what that is bound to, and what waits in
// each queue; the tables below it hold all of them.

import { type Child, fill, h, later, scrolling, svg, tableOfColumns } from '../core/dom';
import { counted, grouped, significant } from '../core/format';
import type { RunView, Topology } from '../core/view';
import type { View } from './timeline';

/** Queues that are drawn one by one, where there are no more; the table has all. */
const MOST_QUEUES = 12;
/** Queues that are drawn one by one where there are more: the others are one box. */
const FIRST_QUEUES = 3;

const named = (text: string, empty: string): Child => (text === '' ? h('i', {}, empty) : h('code', {}, text));

interface Load {
  /** The nodes of a cluster that its connections begin on; empty where there is one. */
  nodes: string;
  producers: number;
  consumers: number;
  exchange: string;
}

/** What the configuration says of each load: its producers and consumers in all, and where they publish. */
export function loadsOf(experiment: unknown): Load[] {
  const { load: list, broker } = (experiment ?? {}) as { load?: unknown; broker?: unknown };
  if (!Array.isArray(list)) return [];
  const nodes = (broker as { nodes?: unknown } | null | undefined)?.nodes;
  const isCluster = typeof nodes === 'number' && nodes > 1;
  return list.map((load: Record<string, unknown>) => {
    const { exchange, destination, destinations } = load ?? {};
    const number = (key: string): number | null => {
      const value = load?.[key];
      return typeof value === 'number' ? value : null;
    };
    const named = Array.isArray(destinations) ? destinations.length : 0;
    // What a load gives for each of its destinations, unless it gives the number of all.
    const each = Math.max(1, named) * Math.max(1, number('num-destinations') ?? 1);
    const all = (key: string): number => number(`total-${key}`) ?? (number(key) ?? 0) * each;
    const own = (exchange as { name?: unknown } | null | undefined)?.name;
    const topic = String((named > 0 ? destinations : [destination]) ?? '').startsWith('topic://');
    const name = typeof own === 'string' ? own : topic ? 'amq.topic' : '';
    return {
      nodes: isCluster ? nodesText(load?.nodes) : '',
      producers: all('producers'),
      consumers: all('consumers'),
      exchange: name,
    };
  });
}

/** `at all nodes`, `at node 0`, `at nodes 0, 2`. */
function nodesText(nodes: unknown): string {
  if (typeof nodes === 'number') return `at node ${nodes}`;
  if (!Array.isArray(nodes)) return 'at all nodes';
  return `at ${nodes.length === 1 ? 'node' : 'nodes'} ${nodes.join(', ')}`;
}

/** The nodes that clients of a kind begin on, of all loads that have such. */
export function nodesOf(loads: readonly Load[], who: 'producers' | 'consumers'): string[] {
  const nodes = loads.filter((load) => load[who] > 0).map((load) => load.nodes);
  return [...new Set(nodes)].filter((it) => it !== '');
}

/** Names of nodes without their host, where that tells them apart. */
export function nodeNames(t: Topology): (node: string) => string {
  const all = new Set(t.queues.flatMap((q) => [q.leader ?? '', ...(q.members ?? [])]));
  const short = (node: string): string => node.split('@')[0]!;
  const differ = new Set([...all].map(short)).size === all.size;
  return differ ? short : (node) => node;
}

/** From an exchange to the queue or exchange that it is bound to, with the routing keys. */
type BindingLine = { source: string; queue: string | null; exchange: string | null; keys: string[] };

/** What tells a queue or an exchange from others of its kind: each virtual host has names of its own. */
const idOf = (vhost: string, name: string): string => `${vhost}\0${name}`;

/** Chooses what is drawn: the exchanges in use, and the queues that hold the most. */
export function drawingOf({ topology: t, experiment }: RunView) {
  const used = new Set(loadsOf(experiment).map((load) => load.exchange));
  const order = t.queues.toSorted((a, b) => b.messages - a.messages);
  const queues = order.slice(0, order.length > MOST_QUEUES ? FIRST_QUEUES : MOST_QUEUES);
  const others = order.slice(queues.length);
  const kept = new Set(queues.map((q) => idOf(q.vhost, q.name)));
  // Every queue is bound to the default exchange: that says something only where somebody publishes there.
  const shown = t.bindings.filter((b) => b.source !== '' || used.has('') || used.size === 0);
  const boxes = new Map<string, { id: string; name: string; type: string; vhost: string }>();
  const add = (vhost: string, name: string): void => {
    const id = idOf(vhost, name);
    const own = t.exchanges.find((e) => e.name === name && e.vhost === vhost);
    const type = own?.type ?? (name === '' ? 'direct' : '');
    if (!boxes.has(id)) boxes.set(id, { id, name, type, vhost });
  };
  // A load does not say its virtual host: the exchange is in one where something is bound to it, if in any.
  for (const name of used) add(shown.find((b) => b.source === name)?.vhost ?? t.queues[0]?.vhost ?? '', name);
  for (const b of shown) add(b.vhost, b.source);
  for (const b of shown) if (b.destination_type === 'exchange') add(b.vhost, b.destination);
  const lines = new Map<string, BindingLine>();
  const further = new Set(others.map((q) => idOf(q.vhost, q.name)));
  const restFrom = new Set<string>();
  for (const b of shown) {
    const [source, end] = [idOf(b.vhost, b.source), idOf(b.vhost, b.destination)];
    const isQueue = b.destination_type !== 'exchange';
    if (isQueue && further.has(end)) restFrom.add(source);
    if (isQueue ? !kept.has(end) : !boxes.has(end)) continue;
    const id = `${source}\0${isQueue}\0${end}`;
    const [queue, exchange] = isQueue ? [end, null] : [null, end];
    const line = lines.get(id) ?? { source, queue, exchange, keys: [] };
    line.keys.push(b.routing_key);
    lines.set(id, line);
  }
  return {
    exchanges: [...boxes.values()].slice(0, MOST_QUEUES),
    queues: t.queues.filter((q) => kept.has(idOf(q.vhost, q.name))),
    rest: others.length > 0 ? together(others) : null,
    // Exchanges that are bound to one of them, and how many objects the record does not hold.
    restFrom: [...restFrom],
    hidden: t.omitted,
    lines: [...lines.values()],
  };
}

function together(queues: Topology['queues']) {
  const kinds = new Set(queues.map((q) => q.type));
  const sum = (of: 'messages' | 'consumers'): number => queues.reduce((all, q) => all + q[of], 0);
  return {
    queues: queues.length,
    kind: kinds.size === 1 ? [...kinds][0]! : '',
    messages: sum('messages'),
    consumers: sum('consumers'),
  };
}

function hasHosts(t: Topology): boolean {
  return new Set([...t.queues, ...t.exchanges].map((it) => it.vhost)).size > 1;
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
  const box = (kind: string, ...content: Child[]): HTMLElement => h('div', { class: `box ${kind}` }, content);
  const line = (text: string): HTMLElement => h('span', {}, text);
  const small = (text: string): HTMLElement => h('span', { class: 'soft' }, text);
  const ends = (who: 'producers' | 'consumers', number: number, msgs: number): HTMLElement =>
    box('ends', h('b', {}, who), small(count(number)), ...nodesOf(loads, who).map(small), rate(msgs));
  const from = ends('producers', producers, sent.rate);
  const to = ends('consumers', consumers, received.rate);
  const nodeName = nodeNames(run.topology);
  const hosts = hasHosts(run.topology);
  const within = (vhost: string): string => (hosts && vhost ? ` in ${vhost}` : '');
  const exchanges = drawing.exchanges.map(({ name, type, vhost }) =>
    box('exchange', named(name, 'default exchange'), small(`${type} exchange`.trim() + within(vhost))),
  );
  const only = run.topology.queues.length === 1;
  // Of those who are not there nobody knows a rate.
  const out = received.total > 0 || consumers > 0 ? `, ${rate(received.rate)} out` : '';
  const rates = `${rate(sent.rate)} in${out}`;
  const queues = drawing.queues.map((q) =>
    box(
      'queue',
      named(q.name, 'without a name'),
      small(`${q.type} queue`.trim() + within(q.vhost)),
      q.leader ? small(ledBy(q, nodeName)) : null,
      line(counted(q.messages, 'message')),
      only ? line(rates) : null,
    ),
  );
  const { rest } = drawing;
  const restBox =
    rest &&
    box(
      'queue several',
      h('b', {}, `${grouped(rest.queues)} more ${rest.kind} queues`.replace('  ', ' ')),
      line(`${counted(rest.messages, 'message')} in all`),
    );
  const hidden = `and ${grouped(drawing.hidden)} more objects that the record does not hold`;
  const lines = svg('svg', { 'aria-hidden': 'true' });
  const column = (...boxes: Child[]): HTMLElement => h('div', { class: 'column' }, boxes);
  const element = h(
    'figure',
    { class: 'topology' },
    h('figcaption', {}, h('b', {}, 'Topology'), h('span', { class: 'unit' }, caption(run.topology))),
    h(
      'div',
      { class: 'drawing' },
      lines,
      sent.total > 0 ? column(from) : null,
      column(...exchanges),
      column(...queues, restBox, drawing.hidden > 0 ? small(hidden) : null),
      received.total > 0 ? column(to) : null,
    ),
    later('The same as tables', () => h('div', {}, tables(run.topology))),
  );
  const exchangeAt = new Map(drawing.exchanges.map(({ id }, i) => [id, exchanges[i]!]));
  const queueAt = new Map(drawing.queues.map((q, i) => [idOf(q.vhost, q.name), queues[i]!]));
  const exchangeOf = (load: Load): HTMLElement | undefined =>
    exchanges[drawing.exchanges.findIndex(({ name }) => name === load.exchange)];
  const draw = (): void => {
    fill(lines);
    const origin = lines.getBoundingClientRect();
    const beside = getComputedStyle(lines.parentElement!).flexDirection === 'row';
    const link = (a: HTMLElement | undefined, b: HTMLElement | undefined, title: string): void => {
      if (a && b && a !== b) lines.append(curve(a, b, origin, beside, title));
    };
    if (sent.total > 0) for (const load of loads) if (load.producers > 0) link(from, exchangeOf(load), '');
    for (const { source, queue, exchange, keys } of drawing.lines) {
      const end = queue === null ? exchangeAt.get(exchange ?? '') : queueAt.get(queue);
      link(exchangeAt.get(source), end, `routing key ${keys.slice(0, 8).join(', ') || 'empty'}`);
    }
    // At the end of the measured phase some consumers may be gone.
    for (const source of drawing.restFrom) link(exchangeAt.get(source), restBox ?? undefined, '');
    const known = knowsConsumers(run.topology);
    if (received.total > 0 && restBox && (!known || rest!.consumers > 0)) link(restBox, to, '');
    if (received.total > 0)
      drawing.queues.forEach((q, i) => {
        if (q.consumers > 0 || !known) link(queues[i], to, '');
      });
  };
  return { element, draw };
}

/** Where a queue is: `leader bellows0, members bellows0, bellows1`, or only `on bellows0`. */
function ledBy(q: Topology['queues'][number], name: (node: string) => string): string {
  const members = q.members ?? [];
  if (members.length === 0) return `on ${name(q.leader!)}`;
  return `leader ${name(q.leader!)}, members ${members.map(name).join(', ')}`;
}

function caption(t: Topology): string {
  const rates = 'rates of the measured phase';
  const messages = t.lagging
    ? 'messages and consumers by the management API, whose statistics are some seconds old'
    : 'messages as the broker counted them at the end, unacknowledged ones among them; a stream’s count lags behind';
  return [rates, messages, ...(t.consumers_left ? [CONSUMERS_LEFT] : [])].join('; ');
}

const CONSUMERS_LEFT = 'consumers were counted when those of this run had left';

/** Whether the record says which queues this run's consumers were subscribed to. */
export function knowsConsumers(t: Topology): boolean {
  return !t.consumers_left && t.queues.some((q) => q.consumers > 0);
}

function count(of: number): string {
  return of > 0 ? grouped(of) : '';
}

/** Room beside the boxes of a narrow page that lines may take. */
const BESIDE = 38;
/** Boxes that are no further apart have nothing between them. */
const NEXT = 40;

function across(one: DOMRect, two: DOMRect): string {
  const [x1, y1] = [one.right, one.top + one.height / 2];
  const [x2, y2] = [two.left, two.top + two.height / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

/** The same on a narrow page, where all boxes stand below each other: past those between the two, on one side of them. */
export function past(one: DOMRect, two: DOMRect, side: 'left' | 'right'): string {
  const distance = two.top - one.bottom;
  const middle = one.left + one.width / 2;
  if (distance >= 0 && distance <= NEXT) return `M${middle} ${one.bottom}L${middle} ${two.top}`;
  const [y1, y2] = [one.top + one.height / 2, two.top + two.height / 2];
  // Further boxes have wider bends, so that lines of one box can be told apart. A curve goes three quarters as far as its pens.
  const bend = Math.min(BESIDE, 12 + Math.abs(y2 - y1) / 16) / 0.75;
  const [x1, x2] = [one[side], two[side]];
  const pen = side === 'left' ? Math.min(x1, x2) - bend : Math.max(x1, x2) + bend;
  return `M${x1} ${y1}C${pen} ${y1} ${pen} ${y2} ${x2} ${y2}`;
}

/** A line between two boxes, on the right side of a narrow page where it begins or ends at clients. */
function curve(a: HTMLElement, b: HTMLElement, origin: DOMRect, beside: boolean, title: string): SVGElement {
  const place = (box: HTMLElement): DOMRect => {
    const { x, y, width, height } = box.getBoundingClientRect();
    return new DOMRect(x - origin.left, y - origin.top, width, height);
  };
  const [one, two] = [place(a), place(b)];
  const isClients = [a, b].some((box) => box.classList.contains('ends'));
  const d = beside ? across(one, two) : past(one, two, isClients ? 'right' : 'left');
  return svg('path', { d }, ...(title ? [svg('title', {}, title)] : []));
}

function tables(t: Topology): HTMLElement[] {
  const hosts = hasHosts(t);
  const left = t.consumers_left
    ? h(
        'p',
        { class: 'hint' },
        'The broker could not tell its consumers in time: a fault, its many queues, or a stop of the run came before. ',
        'Those that it counted later are not of this run.',
      )
    : null;
  const out = [queueTable(t, hosts), left, bindingTable(t, hosts)].filter((it) => it !== null);
  if (t.omitted > 0) out.push(h('p', { class: 'hint' }, `${grouped(t.omitted)} more objects are not listed.`));
  return out;
}

function queueTable(t: Topology, hosts: boolean): HTMLElement | null {
  if (t.queues.length === 0) return null;
  const led = t.queues.some((q) => q.leader);
  const title = t.consumers_left ? 'Queues when the run had ended' : 'Queues when the measured phase ended';
  const shown = tableOfColumns(title, t.queues, [
    ['queue', (q) => named(q.name, 'without a name')],
    hosts && ['virtual host', (q) => q.vhost],
    ['type', (q) => q.type],
    ['durable', (q) => (q.durable ? 'yes' : 'no')],
    [{ number: 'messages' }, (q) => grouped(q.messages)],
    [{ number: t.consumers_left ? 'consumers of others' : 'consumers' }, (q) => grouped(q.consumers)],
    led && ['leader', (q) => q.leader],
    led && ['members', (q) => q.members?.join(', ')],
    ['arguments', (q) => q.arguments.join(', ')],
  ]);
  return scrolling(shown);
}

function bindingTable(t: Topology, hosts: boolean): HTMLElement | null {
  if (t.bindings.length === 0) return null;
  const exchanges = t.bindings.some((b) => b.destination_type === 'exchange');
  const compared = t.bindings.some((b) => b.arguments.length > 0);
  const type = (b: Topology['bindings'][number]): string => {
    const own = t.exchanges.find((e) => e.name === b.source && e.vhost === b.vhost);
    return own?.type ?? (b.source === '' ? 'direct' : '');
  };
  const shown = tableOfColumns('Bindings', t.bindings, [
    ['exchange', (b) => named(b.source, 'default exchange')],
    hosts && ['virtual host', (b) => b.vhost],
    ['type', type],
    ['routing key', (b) => named(b.routing_key, 'empty')],
    ['destination', (b) => named(b.destination, 'without a name')],
    exchanges && ['which is', (b) => (b.destination_type === 'exchange' ? 'an exchange' : 'a queue')],
    compared && ['arguments', (b) => b.arguments.join(', ')],
  ]);
  return scrolling(shown);
}
