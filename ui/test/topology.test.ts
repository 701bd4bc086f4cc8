import { describe, expect, test } from 'vitest';
import type { RunView, Topology } from '../src/core/view';
import { drawingOf, knowsConsumers, loadsOf, nodeNames, nodesOf } from '../src/sections/topology';

const queue = (vhost: string, name: string): Topology['queues'][number] => {
  return { name, vhost, type: 'classic', durable: true, messages: 0, consumers: 0, arguments: [] };
};

const binding = (vhost: string, source: string, type: string, destination: string): Topology['bindings'][number] => {
  return { source, vhost, destination, destination_type: type, routing_key: 'k', arguments: [] };
};

const EMPTY = { queues: [], exchanges: [], bindings: [], omitted: 0, lagging: false, consumers_left: false };

function draw(topology: Partial<Topology>, exchange: string) {
  const whole = { ...EMPTY, ...topology };
  const experiment = { load: [{ producers: 1, consumers: 1, exchange: { name: exchange } }] };
  const drawing = drawingOf({ topology: whole, experiment } as unknown as RunView);
  const named = (kind: string, id: string | null): string => (id ? ` to ${kind} ${id}` : '');
  return {
    boxes: drawing.exchanges.map((it) => `${it.vhost}:${it.name} ${it.type}`),
    lines: drawing.lines.map((it) =>
      `${it.source}${named('queue', it.queue)}${named('exchange', it.exchange)}`.replaceAll('\0', ':'),
    ),
    queues: drawing.queues.map((it) => `${it.vhost}:${it.name}`),
  };
}

describe('the clients of a load', () => {
  const of = (load: object) => loadsOf({ load: [load] }).map((it) => [it.producers, it.consumers]);

  test('are those of all its destinations', () => {
    expect(of({ producers: 1, consumers: 2, 'num-destinations': 200 })).toEqual([[200, 400]]);
    expect(of({ producers: 3, destinations: ['queue://a', 'queue://b'] })).toEqual([[6, 0]]);
    expect(of({ producers: 1, 'total-producers': 7, 'num-destinations': 200 })).toEqual([[7, 0]]);
    expect(of({ producers: 1, consumers: 1, 'total-consumers': null })).toEqual([[1, 1]]);
    expect(loadsOf({ load: [null, 7] }).length).toBe(2);
  });

  test('are at the nodes of a cluster that they begin on', () => {
    const at = (nodes: unknown, broker: unknown) => loadsOf({ broker, load: [{ producers: 1, nodes }] })[0]!.nodes;
    const three = { kind: 'rabbitmq', nodes: 3 };
    for (const nodes of ['all', undefined]) expect(at(nodes, three)).toBe('at all nodes');
    expect([at(1, three), at([0, 2], three)]).toEqual(['at node 1', 'at nodes 0, 2']);
    for (const broker of [{ kind: 'rabbitmq' }, null]) expect(at('all', broker)).toBe('');
    const first = { producers: 1, nodes: 0 };
    const loads = loadsOf({ broker: three, load: [first, { consumers: 2, nodes: [1, 2] }] });
    expect(nodesOf(loads, 'producers')).toEqual(['at node 0']);
    expect(nodesOf(loads, 'consumers')).toEqual(['at nodes 1, 2']);
  });
});

describe('the drawing of a topology', () => {
  test('has many queues in one box, bound and consumed as they are', () => {
    const names = Array.from({ length: 200 }, (_, i) => `q${i}`);
    const queues = names.map((name, i) => ({ ...queue('/', name), messages: i, consumers: 1 }));
    const bindings = names.map((name) => binding('/', '', 'queue', name));
    const topology = { ...EMPTY, queues, bindings, omitted: 5 };
    const experiment = { load: [{ producers: 1, consumers: 1, 'num-destinations': 200 }] };
    const drawing = drawingOf({ topology, experiment } as unknown as RunView);
    expect(drawing.queues.map((q) => q.name)).toEqual(['q197', 'q198', 'q199']);
    expect(drawing.rest).toEqual({ queues: 197, kind: 'classic', messages: 19306, consumers: 197 });
    expect(drawing.restFrom).toEqual(['/\0']);
    expect(drawing.hidden).toBe(5);
  });

  test('has names of nodes without their host where these tell them apart', () => {
    const named = (leader: string, members: string[]) =>
      nodeNames({ queues: [{ ...queue('/', 'a'), leader, members }] } as unknown as Topology);
    expect(named('n1@h', ['n0@h', 'n1@h'])('n1@h')).toBe('n1');
    expect(named('rabbit@one', ['rabbit@one', 'rabbit@two'])('rabbit@one')).toBe('rabbit@one');
  });

  test('does not say that a queue has no consumers where they were counted too late', () => {
    const queues = [{ ...queue('/', 'a'), consumers: 1 }, queue('/', 'b')];
    const idle = [queue('/', 'a')];
    const of = (parts: Partial<Topology>): boolean => knowsConsumers({ ...EMPTY, ...parts });
    expect([of({ queues }), of({ queues, consumers_left: true }), of({ queues: idle })]).toEqual([true, false, false]);
  });

  test('keeps objects of one name apart, by virtual host and by kind', () => {
    const drawing = draw(
      {
        queues: [queue('/', 'a'), queue('two', 'a')],
        exchanges: [
          { name: 'in', vhost: '/', type: 'topic' },
          { name: 'a', vhost: '/', type: 'fanout' },
        ],
        bindings: [
          binding('/', 'in', 'exchange', 'a'),
          binding('/', 'in', 'queue', 'a'),
          binding('two', '', 'queue', 'a'),
        ],
      },
      'in',
    );
    expect(drawing.boxes).toEqual(['/:in topic', '/:a fanout']);
    expect(drawing.lines).toEqual(['/:in to exchange /:a', '/:in to queue /:a']);
    expect(drawing.queues).toEqual(['/:a', 'two:a']);
  });
});
