// What stands above the panels: phases by name, who stood still, and events as labelled marks.

import { BANDS, bandKind, covered } from '../charts/bands';
import { margins } from '../charts/panel';
import { h, later, table } from '../core/dom';
import { duration, grouped, seconds, visible } from '../core/format';
import type { Event, RunView, StallBand } from '../core/view';

export const PHASE_LABELS = { warmup: 'warm-up', measure: 'measured', drain: 'drain' } as const;

/** Height of a line of text. */
const LINE = 16;
/** Lines of labels at most: the picture below them belongs on the first screen. */
const MOST_LINES = { wide: 4, narrow: 8 };

type Place = (time: number) => number;

/** Draws all of it at a width. */
export function drawLane(
  lane: HTMLElement,
  run: RunView,
  [start, end]: readonly [number, number],
  width: number,
): void {
  const { left, right } = margins(width);
  const inner = width - left - right;
  const x: Place = (time) => left + ((time - start) / (end - start)) * inner;
  lane.replaceChildren();
  const clamp: Place = (time) => x(Math.min(end, Math.max(start, time)));
  drawPhases(lane, run, clamp);
  let top = LINE + 2;
  const stalls = run.stalls.filter((stall) => stall.end >= start && stall.start <= end);
  if (stalls.length > 0) {
    const legend = stallLegend(stalls);
    legend.style.top = `${top}px`;
    legend.style.left = `${left}px`;
    legend.style.maxWidth = `${width - left}px`;
    lane.append(legend);
    top += legend.offsetHeight;
    drawStalls(lane, stalls, clamp, width, top);
    top += LINE;
  }
  const seen = run.events.filter((event) => event.t >= start && event.t <= end);
  top += drawEvents(lane, seen, x, width, top);
  lane.style.height = `${top + 2}px`;
}

function drawPhases(lane: HTMLElement, run: RunView, x: Place): void {
  for (const phase of run.phases) {
    const size = x(phase.end) - x(phase.start);
    if (size < 24) continue;
    const name = PHASE_LABELS[phase.phase];
    const mark = h('span', { class: `phase ${phase.phase}`, title: name }, size < 48 ? '' : name);
    mark.style.left = `${x(phase.start)}px`;
    mark.style.width = `${size}px`;
    lane.append(mark);
  }
}

/** Who stood still, how often and how long in all. */
function stallLegend(stalls: StallBand[]): HTMLElement {
  const items = BANDS.flatMap(([kind, name]) => {
    const bands = stalls.filter((stall) => bandKind(stall) === kind);
    if (bands.length === 0) return [];
    const often = bands.length === 1 ? '' : ` ${grouped(bands.length)} times,`;
    const text = `${name}${often} ${duration(covered(bands) * 1e9)}`;
    return h('span', {}, h('i', { class: `band ${kind}` }), text);
  });
  return h('p', { class: 'stall-legend' }, items);
}

/** Each time that somebody stood still as a bar; those with room for it with their length. */
function drawStalls(
  lane: HTMLElement,
  stalls: StallBand[],
  x: Place,
  edge: number,
  top: number,
): void {
  stalls.forEach((stall, i) => {
    const at = x(stall.start);
    const width = Math.max(2, x(stall.end) - at);
    const next = stalls[i + 1];
    const text = duration((stall.end - stall.start) * 1e9);
    const room = (next ? x(next.start) : edge) - at - width;
    const bar = h('span', { class: `band stall ${bandKind(stall)}`, title: stall.text });
    bar.style.left = `${at}px`;
    bar.style.width = `${width}px`;
    bar.style.top = `${top + 3}px`;
    lane.append(bar);
    if (text.length * 6.6 + 8 > room) return;
    const label = h('span', { class: 'stall-label', title: stall.text }, text);
    label.style.left = `${at + width + 4}px`;
    label.style.top = `${top}px`;
    lane.append(label);
  });
}

/**
 * Events as labelled marks; returns the height that they take. A label stands beside its mark, in whole: where
 * there is no room to the right it moves to the left, and is broken into lines where it is longer than
 * the page is wide. Those that find no line stand in the table of events, which has them all.
 */
function drawEvents(
  lane: HTMLElement,
  events: readonly Event[],
  x: Place,
  width: number,
  top: number,
): number {
  const most = width < 620 ? MOST_LINES.narrow : MOST_LINES.wide;
  /** Per line, where the last label ends. */
  const free: number[] = [];
  const labels = events.map((event) => {
    const title = `${seconds(event.t)}: ${event.label}`;
    const label = h('span', { class: 'event', title }, event.label);
    label.style.maxWidth = `${width}px`;
    lane.append(label);
    return { at: x(event.t), label, title };
  });
  // A label that is too long for either side of its mark says its time.
  const wide = labels.map(({ label }) => label.offsetWidth);
  labels.forEach(({ at, label, title }, i) => {
    if (at + wide[i]! <= width || wide[i]! <= at) return;
    label.textContent = visible(title);
    label.className = 'event loose';
  });
  // All are measured before any is moved: the browser lays the page out twice.
  const sizes = labels.map(({ label }) => [label.offsetWidth, label.offsetHeight] as const);
  labels.forEach(({ at, label }, i) => {
    const [size, height] = sizes[i]!;
    const flip = at + size > width;
    const from = flip ? Math.max(0, Math.min(at - size, width - size)) : at;
    const lines = Math.max(1, Math.round(height / LINE));
    const fits = (row: number): boolean =>
      Array.from({ length: lines }, (_, k) => free[row + k] ?? 0).every((end) => end <= from);
    let row = 0;
    while (row + lines <= most && !fits(row)) row++;
    if (row + lines > most) {
      label.remove();
      return;
    }
    for (let k = 0; k < lines; k++) free[row + k] = from + size + 6;
    if (flip && !label.classList.contains('loose')) label.classList.add('flip');
    label.style.left = `${from}px`;
    label.style.top = `${top + row * LINE}px`;
  });
  return free.length * LINE;
}

/** All events of the run, and all times in which somebody stood still; null where there are none. */
export function eventTable(run: RunView): HTMLElement | null {
  const stalls = run.stalls.map((stall) => ({ t: stall.start, label: stall.text }));
  const all = [...run.events, ...stalls].sort((a, b) => a.t - b.t);
  if (all.length === 0) return null;
  return later(`${grouped(all.length)} event${all.length === 1 ? '' : 's'}`, () =>
    table(
      'Events of the run',
      [{ label: 'time', number: true }, { label: 'event' }],
      all.map(({ t, label }) => [seconds(Math.round(t * 1000) / 1000), label]),
    ),
  );
}
