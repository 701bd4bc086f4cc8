// What stands above the panels: phases by name, who stood still, and events as labelled marks.

import { BANDS, type Band, type BandKind, bandKind, bandsOf, covered } from '../charts/bands';
import { margins } from '../charts/panel';
import { ofSubject } from '../core/data';
import { fill, h, later, scrolling, styled, table } from '../core/dom';
import { brief, counted, duration, grouped, seconds, visible } from '../core/format';
import type { Stretch } from '../core/state';
import type { Event, RunView } from '../core/view';

export const PHASE_LABELS = { warmup: 'warm-up', measure: 'measured', drain: 'drain' } as const;

const LINE = 16;
/** Pixels from which on the shade of a phase is seen, and named. */
const LEAST_SHADED = 4;
/** Lines of labels at most: the picture below them belongs on the first screen. */
const MOST_LINES = { wide: 4, narrow: 8 };
/** Characters of an event's label at most; the whole text shows on hover, and stands in the table of events. */
const LONGEST = 72;
/** The part of a narrow lane that a label may be wide; what is longer has several lines. */
const WIDEST = 0.75;

type Place = (time: number) => number;

export function drawLane(lane: HTMLElement, legend: HTMLElement, run: RunView, [start, end]: Stretch, width: number) {
  const { left, right } = margins(width);
  const inner = width - left - right;
  const x: Place = (time) => left + ((time - start) / (end - start)) * inner;
  lane.replaceChildren();
  const clamp: Place = (time) => x(Math.min(end, Math.max(start, time)));
  const unnamed = drawPhases(lane, run, clamp);
  let top = LINE + 2;
  const isSeen = (band: Band): boolean => band.end >= start && band.start <= end;
  const [stalls, looks] = [run.stalls.filter(isSeen), run.looks.filter(isSeen)];
  const returns = end >= run.span[1] ? run.returns : [];
  const who = stallTexts([...stalls, ...looks]).map(([kind, text]): [BandKind, string] => [kind, ofSubject(run, text)]);
  fillLegend(legend, who, width < 620 ? unnamed : [], laterTexts(returns));
  if (stalls.length > 0) {
    const lengths = stalls.map((it) => duration((it.end - it.start) * 1e9));
    top += drawBars(lane, stalls, lengths, clamp, width, top);
  }
  for (const those of rowsOf(looks)) {
    const commands = those.map((it) => visible(it.label));
    top += drawBars(lane, those, commands, clamp, width, top);
  }
  const seen = run.events.filter((event) => event.t >= start && event.t <= end);
  top += drawEvents(lane, seen, x, width, top);
  lane.style.height = `${top + 2}px`;
}

/** Commands that looked have a row each, where they are few: a label below the bar of another would be taken for its own. */
const MOST_ROWS = 4;

/** Looks by the row that they stand in. */
export function rowsOf<T extends { label: string }>(looks: readonly T[]): T[][] {
  const rows = new Map<string, T[]>();
  for (const look of looks) {
    const row = rows.get(look.label);
    if (row) row.push(look);
    else rows.set(look.label, [look]);
  }
  const all = [...rows.values()];
  return all.length > MOST_ROWS ? [[...looks]] : all;
}

/** Draws the phases; returns the names of the shaded ones that have no room for theirs. */
function drawPhases(lane: HTMLElement, run: RunView, x: Place): string[] {
  const unnamed: string[] = [];
  for (const phase of run.phases) {
    const size = x(phase.end) - x(phase.start);
    const name = PHASE_LABELS[phase.phase];
    const mark = h('span', { class: `phase ${phase.phase}`, title: name }, size >= 48 && name);
    styled(mark, { left: `${x(phase.start)}px`, width: `${size}px` });
    if (size >= 24) lane.append(mark);
    // A name that is cut off is none.
    if (mark.scrollWidth > mark.clientWidth) mark.textContent = '';
    if (mark.textContent === '' && phase.phase !== 'measure' && size >= LEAST_SHADED) unnamed.push(name);
  }
  return unnamed;
}

/** Who stood still or looked, how often and how long in all, in the order of the legend. */
export function stallTexts(stalls: readonly Band[]): [BandKind, string][] {
  return BANDS.flatMap(([kind, name]): [BandKind, string][] => {
    const bands = stalls.filter((stall) => bandKind(stall) === kind);
    if (bands.length === 0) return [];
    const often = bands.length === 1 ? '' : ` ${grouped(bands.length)} times,`;
    return [[kind, `${name}${often} ${duration(covered(bands) * 1e9)}`]];
  });
}

/** Returns beyond the end of the axis that are told above it; all stand in the table of events. */
const MOST_LATER = 3;

export function laterTexts(events: readonly Event[]): string[] {
  const told = events
    .slice(0, MOST_LATER)
    .map((it) => `after the load, at ${seconds(it.t)}: ${visible(brief(it.label, LONGEST))}`);
  const more = events.length - told.length;
  return more > 0 ? [...told, `and ${grouped(more)} more after it`] : told;
}

function fillLegend(legend: HTMLElement, stalls: [BandKind, string][], shaded: string[], after: string[]): void {
  const who = stalls.map(([kind, text]) => h('span', {}, h('i', { class: `band ${kind}` }), text));
  legend.hidden = who.length + shaded.length + after.length === 0;
  fill(
    legend,
    who,
    shaded.length > 0 && h('span', {}, h('i', { class: 'shaded' }), shaded.join(' and ')),
    after.map((text) => h('span', {}, text)),
  );
}

/** More bars than this have no labels beside them: nobody reads so many. */
const MOST_LABELS = 100;

const APART = 7;

/** Bars with their labels beside them, or below where others stand there; returns the height that they take. */
function drawBars(
  lane: HTMLElement,
  stalls: readonly Band[],
  labels: readonly string[],
  x: Place,
  edge: number,
  top: number,
): number {
  const bars = stalls.map((stall): Stretch => {
    const from = x(stall.start);
    return [from, from + Math.max(2, x(stall.end) - from)];
  });
  stalls.forEach((stall, i) => {
    const [from, to] = bars[i]!;
    const bar = h('span', { class: `band stall ${bandKind(stall)}`, title: stall.text });
    lane.append(styled(bar, { left: `${from}px`, width: `${to - from}px`, top: `${top + 3}px` }));
  });
  const texts = stalls.length > MOST_LABELS ? [] : labels;
  const places = placeLengths(bars, texts, edge);
  places.forEach((place, i) => {
    if (!place) return;
    const label = h('span', { class: 'stall-label', title: stalls[i]!.text }, texts[i]!);
    lane.append(styled(label, { left: `${place.at}px`, top: `${top + place.line * LINE}px` }));
  });
  return (1 + places.reduce((most, place) => Math.max(most, place?.line ?? 0), 0)) * LINE;
}

/** Where the lengths of bars stand: beside their bar, or on one of two lines below; null for those without room. */
export function placeLengths(
  bars: readonly Stretch[],
  texts: readonly string[],
  edge: number,
): ({ at: number; line: number } | null)[] {
  const taken: Stretch[][] = [[...bars], [], []];
  return texts.map((text, i) => {
    const [from, to] = bars[i]!;
    const size = text.length * 6.6;
    for (const [line, others] of taken.entries()) {
      const wanted = line === 0 ? [to + 4, from - 4 - size] : [from, to - size];
      const at = wanted.find(
        (left) => left >= 0 && left + size <= edge && others.every(([a, b]) => left >= b + 3 || left + size <= a - 3),
      );
      if (at === undefined) continue;
      // Two labels side by side read as two.
      others.push([at - APART, at + size + APART]);
      return { at, line };
    }
    return null;
  });
}

/** A label: where it begins, how wide it is, and its lines. */
interface Box {
  from: number;
  size: number;
  lines: number;
}

/** The line of each label, the first ones first served; null for those that none of `most` lines has room for. */
export function placeEvents(boxes: readonly Box[], most: number): (number | null)[] {
  const taken: Stretch[][] = Array.from({ length: most }, () => []);
  return boxes.map(({ from, size, lines }) => {
    const to = from + size;
    const fits = (row: number): boolean =>
      taken.slice(row, row + lines).every((line) => line.every(([a, b]) => to <= a || b <= from));
    let row = 0;
    while (row + lines <= most && !fits(row)) row++;
    if (row + lines > most) return null;
    for (const line of taken.slice(row, row + lines)) line.push([from - 6, to + 6]);
    return row;
  });
}

/** Where a label begins: right of its mark, else left of it, else over it. */
export function besideMark(at: number, size: number, width: number): number {
  if (at + size <= width) return at;
  return size <= at ? at - size : Math.max(0, Math.min(at - size / 2, width - size));
}

/** Where a text begins that belongs to all these ticks: behind the last, else before the first. */
export function besideTicks(ticks: readonly number[], size: number, width: number): number {
  const behind = Math.max(...ticks) + APART;
  return behind + size <= width ? behind : Math.max(0, Math.min(...ticks) - APART - size);
}

/** Events whose labels have no room, as ticks in a line of their own; returns its height. */
function drawUntold(
  lane: HTMLElement,
  untold: readonly { at: number; title: string }[],
  width: number,
  top: number,
): number {
  if (untold.length === 0) return 0;
  const title = untold.map((it) => it.title).join('; ');
  const count = h('span', { class: 'untold-count', title }, `+${grouped(untold.length)} more`);
  count.style.top = `${top}px`;
  const ticks = untold.map((one) =>
    styled(h('span', { class: 'untold', title: one.title }), { left: `${one.at}px`, top: `${top + 2}px` }),
  );
  lane.append(...ticks, count);
  const places = untold.map((it) => it.at);
  count.style.left = `${besideTicks(places, count.offsetWidth, width)}px`;
  return LINE;
}

/** Events as labelled marks, first come, first served; those that find no line are ticks. Returns their height. */
function drawEvents(lane: HTMLElement, events: readonly Event[], x: Place, width: number, top: number): number {
  const isNarrow = width < 620;
  const most = MOST_LINES[isNarrow ? 'narrow' : 'wide'];
  const labels = events.map((event) => {
    const title = `${seconds(event.t)}: ${event.label}`;
    const label = h('span', { class: 'event', title }, brief(event.label, LONGEST));
    label.style.maxWidth = `${isNarrow ? width * WIDEST : width}px`;
    lane.append(label);
    return { at: x(event.t), label, title, timed: `${event.t.toFixed(1)} s: ${event.label}` };
  });
  // A label that is too long for either side of its mark says its time.
  const wide = labels.map(({ label }) => label.offsetWidth);
  labels.forEach(({ at, label, timed }, i) => {
    if (at + wide[i]! <= width || wide[i]! <= at) return;
    label.textContent = visible(brief(timed, LONGEST));
    label.className = 'event loose';
  });
  // All are measured before any is moved: the browser lays the page out twice.
  const boxes = labels.map(({ at, label }): Box => {
    const size = label.offsetWidth;
    const from = besideMark(at, size, width);
    return { from, size, lines: Math.max(1, Math.round(label.offsetHeight / LINE)) };
  });
  const rows = placeEvents(boxes, most);
  labels.forEach(({ at, label }, i) => {
    const { from } = boxes[i]!;
    const row = rows[i] ?? null;
    if (row === null) {
      label.remove();
      return;
    }
    if (at + boxes[i]!.size > width && !label.classList.contains('loose')) label.classList.add('flip');
    styled(label, { left: `${from}px`, top: `${top + row * LINE}px` });
  });
  const ends = boxes.map((box, i) => (rows[i] ?? -box.lines) + box.lines);
  const lines = Math.max(0, ...ends);
  const untold = labels.filter((_, i) => rows[i] === null);
  return lines * LINE + drawUntold(lane, untold, width, top + lines * LINE);
}

/** All events of the run, and all times in which somebody stood still or looked; null where there are none. */
export function eventTable(run: RunView): HTMLElement | null {
  const stalls = bandsOf(run).map((band) => ({ t: band.start, label: band.text }));
  const all = [...run.events, ...stalls].sort((a, b) => a.t - b.t);
  if (all.length === 0) return null;
  const rows = all.map(({ t, label }) => [`${t.toFixed(3)} s`, label]);
  const columns = [{ number: 'time' }, 'event'];
  return later(counted(all.length, 'event'), () => scrolling(table('Events of the run', columns, rows)));
}
