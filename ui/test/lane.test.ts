import { expect, test } from 'vitest';
import { bandsSvg, hatchesSvg } from '../src/charts/bands';
import type { Palette } from '../src/core/theme';
import type { StallBand } from '../src/core/view';
import { besideMark, besideTicks, laterTexts, placeEvents, rowsOf, stallTexts } from '../src/sections/lane';

const stall = (start: number, end: number, who: StallBand['who'], away = false): StallBand =>
  ({ start, end, who, away, text: `${who} ${start}` }) as StallBand;

test('the legend says who stood still, how often, and how long in all', () => {
  // What overlaps counts once.
  const broker = [stall(1, 3, 'broker'), stall(2, 4, 'broker'), stall(10, 12.5, 'broker', true)];
  const look = { start: 4, end: 6.5, label: 'bellows erlang top', text: 'bellows erlang top looked' };
  expect(stallTexts([...broker, stall(20, 20.25, 'generator'), stall(30, 31, 'machine'), look])).toEqual([
    ['broker', 'broker silent 2 times, 3.00 s'],
    ['away', 'no connection 2.50 s'],
    ['generator', 'generator stopped 250 ms'],
    ['machine', 'machine stopped 1.00 s'],
    ['look', 'inspected (bellows erlang) 2.50 s'],
  ]);
  expect(stallTexts([])).toEqual([]);
});

test('the lane has a row for each of a few commands that looked', () => {
  const of = (...labels: string[]) => rowsOf(labels.map((label) => ({ label }))).map((row) => row.length);
  expect(of('top', 'queues', 'top')).toEqual([2, 1]);
  expect(of('a', 'b', 'c', 'd', 'e')).toEqual([5]);
  expect(of()).toEqual([]);
});

test('the legend tells what happened after the end of the axis, a few of many', () => {
  const events = [31, 40.34, 41, 42, 43].map((t) => ({ t, label: `node ${t} is back` }));
  expect(laterTexts(events.slice(1, 2))).toEqual(['after the load, at 40.34 s: node 40.34 is back']);
  expect(laterTexts(events)).toHaveLength(4);
  expect(laterTexts(events).at(-1)).toBe('and 2 more after it');
});

test('the lane gives lines to the first labels first, wherever they stand', () => {
  const box = (from: number, size: number, lines = 1) => ({ from, size, lines });
  // A fault in the middle, and long labels of what stands around it.
  const around = [box(0, 400), box(20, 400), box(40, 400), box(300, 400)];
  const fault = box(200, 100);
  expect(placeEvents([...around, fault], 4)).toEqual([0, 1, 2, 3, null]);
  expect(placeEvents([fault, ...around], 4)).toEqual([0, 1, 2, 3, null]);
  // What stands before and behind it has room beside it, but does not touch it.
  expect(placeEvents([fault, box(0, 190), box(310, 90), box(0, 196)], 4)).toEqual([0, 0, 0, 1]);
  expect(placeEvents([fault, box(150, 90, 2), box(150, 90, 2)], 4)).toEqual([0, 1, null]);
});

test('a label stands beside its mark, and over it where neither side has room', () => {
  expect([20, 300, 190, 100].map((x) => besideMark(x, 280, 370))).toEqual([20, 20, 50, 0]);
});

test('the lane counts labels without room behind their ticks, else before them', () => {
  const of = (...ticks: number[]): number => besideTicks(ticks, 40, 370);
  expect([of(200, 120), of(120, 350), of(20, 350)]).toEqual([207, 73, 0]);
});

test('a stall has a look for each that no other has, also in an exported picture', () => {
  const palette = new Proxy({}, { get: (_, name) => String(name) }) as Palette;
  const stalls = (['broker', 'generator', 'machine'] as const).map((who) => stall(0, 1, who));
  const kinds = [...stalls, stall(0, 1, 'broker', true), { start: 0, end: 1, text: 'look' }];
  const drawn = bandsSvg(kinds, (x) => x * 10, 0, 5, palette);
  const fills = drawn.map((it) => /fill="([^"]+)"/.exec(it)![1]!);
  expect(new Set(fills).size).toBe(kinds.length);
  const patterns = hatchesSvg(palette);
  for (const fill of fills.filter((it) => it.startsWith('url'))) {
    expect(patterns).toContain(`id="${/#([\w-]+)/.exec(fill)![1]}"`);
  }
});
