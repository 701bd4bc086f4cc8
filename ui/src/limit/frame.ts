// What both charts of this page have in common: the frame with its grid, a line from top to bottom with its name, and marks that lead to runs.

import { h, section, svg, wayTo, widthOf } from '../core/dom';
import type { View } from '../sections/timeline';

const HEIGHT = 380;
const MARGIN = { left: 58, right: 14, top: 14, bottom: 42 } as const;

export type Frame = ReturnType<typeof frame>;

/** An empty chart, as wide as its place, and its ends without the margins. */
export function frame(width: number, label: string) {
  const chart = svg('svg', {
    class: 'curve',
    width,
    height: HEIGHT,
    viewBox: `0 0 ${width} ${HEIGHT}`,
    role: 'img',
    'aria-label': label,
  });
  const { left, top } = MARGIN;
  return { chart, left, right: width - MARGIN.right, top, floor: HEIGHT - MARGIN.bottom };
}

/** A section with a chart that is as wide as it, and what its marks mean. */
export function chartSection(title: string, hint: string, keys: HTMLElement[], draw: (width: number) => Node): View {
  const place = h('div', { class: 'curve-of-rates' });
  const element = section('curve', title, hint, place, h('p', { class: 'kinds' }, keys));
  return { element, draw: () => place.replaceChildren(draw(Math.max(280, widthOf(place)))) };
}

/** Draws the lines of both axes with their names; `most` values of each, as the chart has room for them. */
export function grid(
  { chart, left, right, top, floor }: Frame,
  y: { values: readonly number[]; at(value: number): number; name(value: number): string },
  x: { values: readonly number[]; at(value: number): number; name(value: number): string },
  axis: string,
): void {
  for (const value of y.values) {
    const at = y.at(value);
    chart.append(
      svg('line', { class: 'grid', x1: left, x2: right, y1: at, y2: at }),
      svg('text', { class: 'tick y', x: left - 8, y: at + 4 }, y.name(value)),
    );
  }
  for (const value of x.values) {
    const at = x.at(value);
    chart.append(
      svg('line', { class: 'grid', x1: at, x2: at, y1: top, y2: floor }),
      svg('text', { class: 'tick x', x: at, y: floor + 17 }, x.name(value)),
    );
  }
  chart.append(svg('text', { class: 'axis', x: (left + right) / 2, y: HEIGHT - 6 }, axis));
}

/** A dotted line from top to bottom; its name stands on the side where there is room. */
export function upright({ chart, right, top, floor }: Frame, at: number, name: string): void {
  const isRight = at > (right + MARGIN.right) * 0.7;
  const place = { x: at + (isRight ? -6 : 6), 'text-anchor': isRight ? 'end' : 'start' };
  chart.append(
    svg('line', { class: 'knee', x1: at, x2: at, y1: top, y2: floor }),
    svg('text', { class: 'knee', ...place, y: floor - 8 }, name),
  );
}

/** A mark that says what it stands for, and leads to its run where that has a report. */
export function mark(
  run: { id: string; report: string[] },
  kind: string,
  title: string,
  [x, y]: readonly [number, number],
  shape: SVGElement = svg('circle', { cx: x, cy: y, r: 4.5 }),
): SVGElement {
  // A cross alone is hard to hit.
  const area = svg('circle', { cx: x, cy: y, r: 9, class: 'area' });
  const group = svg('g', { class: `trial ${kind}-trial` }, svg('title', {}, title), area, shape);
  const href = wayTo(run.report);
  return href ? svg('a', { href, 'aria-label': title }, group) : group;
}
