import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { withCode } from '../src/core/dom';
import type { RunView } from '../src/core/view';
import { explainMarks, latencyName, percentileText, refusals, WEAK, WEAK_MEANS } from '../src/sections/percentile-cell';
import { tile } from '../src/sections/tile';
import { workers } from '../src/sections/workers';

/** An element as far as these parts of the page need one. */
class Made {
  text = '';
  children: Made[] = [];
  attributes: Record<string, string> = {};
  constructor(readonly tag: string) {}
  setAttribute(name: string, value: string): void {
    this.attributes[name] = value;
  }
  append(child: Made | string): void {
    if (typeof child === 'string') this.text += child;
    else this.children.push(child);
  }
}

beforeEach(() => {
  const createElement = (tag: string): Made => new Made(tag);
  vi.stubGlobal('document', { createElement, createTextNode: (text: string) => text });
});
afterEach(() => vi.unstubAllGlobals());

test('a long label is shortened in its middle, and whole on hover', () => {
  const label = (text: string): Made => {
    const made = tile(text, '1', 'ms', '', '') as unknown as Made;
    return made.children[0]!;
  };
  const path = 'GET /api/queues?columns=name,messages_ready&page=1&page_size=100 response p99';
  expect(label(path).attributes.title).toBe(path);
  expect(label(path).text).toBe('GET /api/queues?column…size=100 response p99');
  expect(label('sent')).toMatchObject({ text: 'sent', attributes: {} });
});

test('a mark that is shown is explained below it', () => {
  const added = (textContent: string): unknown[] => {
    const append = vi.fn();
    explainMarks({ textContent, append } as unknown as HTMLElement);
    return append.mock.calls.flat();
  };
  expect(added('p99 31.0 ms')).toEqual([]);
  // The figure beside it had the mark.
  const p99 = [8, 1000].map((count) => percentileText({ count }, 99, 307e6));
  expect(p99).toEqual([`307 ms${WEAK}`, '307 ms']);
  expect(added(`p99 31.0${WEAK} ms`)).toMatchObject([{ tag: 'p', text: WEAK_MEANS }]);
});

test('what stands between backticks is code', () => {
  const code = expect.objectContaining({ tag: 'code', text: 'max-open' });
  expect(withCode('raise `max-open`, or wait')).toEqual(['raise ', code, ', or wait']);
  expect(withCode('one ` is a letter')).toEqual(['one ` is a letter']);
});

/** The texts of an element, in their order. */
function texts({ text, children }: Made): string[] {
  return [text, ...children.flatMap(texts)].filter(Boolean);
}

test('each worker of a fleet is a row of cells that the program made', () => {
  const columns = [
    { head: 'worker', number: false, cells: ['a', 'b'] },
    { head: 'sent msg/s', number: true, cells: ['5,000', '–'] },
  ];
  const made = workers({ workers: columns } as unknown as RunView) as unknown as Made;
  expect(made.attributes.id).toBe('workers');
  expect(texts(made).slice(3)).toEqual(['worker', 'sent msg/s', 'a', '5,000', 'b', '–']);
  expect(workers({ workers: [] } as unknown as RunView)).toBeNull();
});

test('a latency of two clocks has its bound, or says why it is not shown', () => {
  const known = { name: 'end-to-end', bound_ns: 80_000, refused: null };
  const clock_bounds = { end_to_end: known, transfer: { ...known, refused: 'transfer was taken by two clocks' } };
  const run = { metrics: [], figures: { clock_bounds } } as unknown as RunView;
  expect(latencyName(run, 'end_to_end')).toBe('end to end ± 80.0 µs');
  expect(latencyName(run, 'ack_response')).toBe('ack response');
  expect(refusals(run)).toMatchObject([{ tag: 'p', text: 'transfer was taken by two clocks.' }]);
});
