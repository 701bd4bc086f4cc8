// One panel on the common time axis: uPlot draws axes and lines, this adds phases, the window, the
// labels at the lines and the value under the crosshair.

import uPlot from 'uplot';
import type { Clock } from '../core/clock';
import { type Child, h, styled } from '../core/dom';
import { siTick, timeTick } from '../core/format';
import type { Palette } from '../core/theme';
import { tip, tipRow } from '../core/tip';
import type { PhaseSpan } from '../core/view';
import { type Band, paintBands } from './bands';
import { intervalAt, type Times, trace } from './steps';

export interface Line {
  label: string;
  values: (number | null)[];
  color: (p: Palette) => string;
  /** The value under the crosshair, with its unit. */
  format: (value: number) => string;
  width?: number;
  dash?: number[];
  /** Drawn with an outline in the paper's colour, to stand out from a heat map. */
  halo?: boolean;
  /** Fills down to the axis, faintly. */
  area?: boolean;
  /** Fills down to the axis, hiding what was drawn before. */
  solid?: boolean;
  /** What the crosshair shows, where it is not the line's height. */
  shown?: (number | null)[];
  quiet?: boolean;
}

export interface PanelSpec {
  id: string;
  title: string;
  /** What stands behind the title, in soft ink: the unit, and how it is counted. */
  unit: string;
  height: number;
  lines: Line[];
  /** The axis reaches at least so far: what is drawn below the lines may be higher than they. */
  most?: number;
  log?: readonly [number, number];
  tick?: (value: number) => string;
  ticks?: (u: uPlot) => number[];
  under?: (u: uPlot, p: Palette) => void;
  /** What lies at a place, beside the values of the lines. */
  spot?: (time: number, value: number) => string | null;
  /** The intervals of its lines, where they are not those of the axis. */
  times?: Times;
  tools?: HTMLElement[];
}

export interface Shared extends Times {
  /** What the axis shows: the run, or a window of it. */
  visible(): readonly [number, number];
  phases: PhaseSpan[];
  /** Times that are shaded beside the phases that are not measured. */
  shaded?: readonly { start: number; end: number }[];
  events: { t: number; label: string }[];
  stalls: Band[];
  /** The chosen part, which stands out; null without one. */
  window(): readonly [number, number] | null;
  choose(from: number, to: number): void;
  hover(time: number | null): void;
  /** How times are told; seconds where that is not given. */
  clock?: Clock;
}

const GUTTER = 158;
const LEFT = 54;

/** Margins of the plotting area at a width; narrow screens have no room for labels beside it. */
export function margins(width: number): { left: number; right: number } {
  return width < 620 ? { left: 50, right: 18 } : { left: LEFT, right: GUTTER };
}

const LABEL_STEP = 14;

/** Labels below each other, pushed apart where they would touch, and up from where the last one may stand. */
export function apart(labels: { mark: HTMLElement; top: number }[], last: number): HTMLElement[] {
  labels.sort((a, b) => a.top - b.top);
  labels.forEach((it, i) => {
    it.top = Math.max(it.top, i > 0 ? labels[i - 1]!.top + LABEL_STEP : 0);
  });
  let floor = last;
  for (const it of labels.toReversed()) {
    it.top = Math.min(it.top, floor);
    floor = it.top - LABEL_STEP;
  }
  return labels.map(({ mark, top }) => styled(mark, { top: `${top}px` }));
}

/** Keeps what is drawn until the next `restore` inside the plotting area. */
export function clipped({ ctx, bbox }: uPlot): uPlot.BBox {
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  return bbox;
}

export type Panel = ReturnType<typeof panelOf>;

/** A panel of an axis that others share; `hasAxis` tells whether the times stand below it. */
export function panelOf(first: PanelSpec, shared: Shared, hasAxis: () => boolean) {
  const title = h('b', {});
  const unit = h('span', { class: 'unit' });
  const plot = h('div', { class: 'plot' });
  const labels = h('div', { class: 'ends', 'aria-hidden': 'true' });
  const legend = h('div', { class: 'legend', 'aria-hidden': 'true' });
  const caption = h('figcaption', {}, title, unit, ...(first.tools ?? []), legend);
  const element = h(
    'figure',
    { class: 'panel', id: `panel-${first.id}` },
    caption,
    h('div', { class: 'frame' }, plot, labels),
  );
  let at: number | null = null;
  /** As it was drawn last. */
  let drawn: { chart: uPlot; width: number; palette: Palette } | null = null;

  /** What is drawn may be of other intervals than before, and its title says so. */
  const tellTitle = (): void => {
    title.textContent = panel.spec.title;
    unit.textContent = panel.spec.unit;
  };
  const timesOf = (): Times => panel.spec.times ?? shared;
  const valueAt = (line: Line, i: number | null): number | null =>
    i === null ? null : ((line.shown ?? line.values)[i] ?? null);

  /** Where a line ends: its last value before the drain. */
  const ending = (values: (number | null)[]): number => {
    const { t, dt } = timesOf();
    const drain = shared.phases.find((it) => it.phase === 'drain')?.start ?? Number.MAX_VALUE;
    return values.findLast((value, i) => value != null && t[i]! + dt[i]! / 2 < drain) ?? 0;
  };

  /** Puts each label at the end of its line, pushed apart where they would touch. */
  const place = (u: uPlot, width: number, p: Palette): void => {
    const narrow = margins(width).right < GUTTER;
    const marks = panel.spec.lines
      .filter((line) => !line.quiet)
      .map((line) => {
        const value = valueAt(line, at);
        const text = h('span', { class: 'name', title: line.label }, line.label);
        const shown = value === null ? null : h('span', { class: 'value' }, line.format(value));
        const swatch = h('i', { class: line.dash ? 'dashed' : '' });
        const mark = h('span', { class: 'mark' }, swatch, text, shown);
        mark.style.setProperty('--c', line.color(p));
        return { mark, top: u.valToPos(ending(line.values), 'y') + 1 };
      });
    labels.replaceChildren(...(narrow ? [] : apart(marks, panel.spec.height)));
    legend.replaceChildren(...(narrow ? marks.map(({ mark }) => mark) : []));
    if (!narrow) labels.style.width = `${GUTTER - 8}px`;
  };

  /** What is under the pointer: the interval, its values, and marks close by. */
  const tell = (e: MouseEvent): Child[] | null => {
    if (!drawn || e.buttons !== 0) return null;
    const { chart: u, palette: p } = drawn;
    const box = u.over.getBoundingClientRect();
    const [left, top] = [e.clientX - box.left, e.clientY - box.top];
    if (left < 0 || left > box.width || top < 0 || top > box.height) return null;
    const time = u.posToVal(left, 'x');
    const { t, dt } = timesOf();
    const i = intervalAt({ t, dt }, time);
    const round = (v: number): number => Math.round(v * 1000) / 1000;
    const { clock } = shared;
    const ends = i === null ? [time] : [t[i]!, t[i]! + dt[i]!];
    const when = clock?.isWall() ? ends.map(clock.moment).join(' to ') : `${ends.map(round).join(' to ')} s`;
    const rows = panel.spec.lines.map((line) => {
      const value = valueAt(line, i);
      return tipRow(line.color(p), line.label, value === null ? '–' : line.format(value));
    });
    const near = (u.scales.x!.max! - u.scales.x!.min!) * (5 / box.width);
    const events = shared.events.filter((it) => Math.abs(it.t - time) <= near);
    const stalls = shared.stalls.filter((it) => time >= it.start - near && time <= it.end + near);
    const spot = panel.spec.spot?.(time, u.posToVal(top, 'y'));
    const more = [...events.map((it) => it.label), ...stalls.map((it) => it.text)];
    return [
      h('div', { class: 'when' }, when),
      ...rows,
      spot ? h('div', {}, spot) : null,
      ...more.map((text) => h('div', { class: 'mark-text' }, text)),
    ];
  };

  const panel = {
    element,
    spec: first,

    get chart(): uPlot | null {
      return drawn?.chart ?? null;
    },

    draw(width: number, palette: Palette): void {
      tellTitle();
      drawn?.chart.destroy();
      drawn = null;
      const { spec } = panel;
      const axis = hasAxis() ? 26 : 0;
      const { left, right } = margins(width);
      const all = strokes(spec.lines);
      // Only the number of columns matters: the lines are drawn from their intervals.
      const data: uPlot.AlignedData = [timesOf().t, ...all.map(({ line }) => line.values)];
      const chart = new uPlot(
        {
          width,
          height: spec.height + (axis || 6) + 8,
          padding: [8, right, axis ? 0 : 6, 0],
          legend: { show: false },
          cursor: cursorOf(shared),
          scales: { x: { time: false, range: () => [...shared.visible()] }, y: scaleOf(spec) },
          axes: axesOf(spec, shared, palette, left, axis),
          series: [{}, ...all.map((it) => seriesOf(spec, timesOf(), it, palette))],
          hooks: {
            drawClear: [(u) => backdrop(u, shared, palette)],
            drawAxes: [(u) => underlay(u, panel.spec, palette)],
            ready: [(u) => place(u, width, palette)],
            draw: [(u) => overlay(u, shared, palette)],
            setSelect: [(u) => selected(u, shared)],
            setCursor: [(u) => moved(u, shared)],
          },
        },
        data,
        plot,
      );
      drawn = { chart, width, palette };
    },

    clear(): void {
      drawn?.chart.destroy();
      drawn = null;
    },

    refresh(): void {
      drawn?.chart.redraw(false, false);
    },

    /** Draws again what was drawn, with lines that may be others. */
    redraw(): void {
      if (drawn) panel.draw(drawn.width, drawn.palette);
    },

    /** Moves the crosshair to a time and shows the values there; null shows the names alone. */
    pointer(time: number | null): void {
      const left = time === null ? -10 : (drawn?.chart.valToPos(time, 'x') ?? -10);
      drawn?.chart.setCursor({ left, top: time === null ? -10 : 10 }, false);
      at = time === null ? null : intervalAt(timesOf(), time);
      if (drawn) place(drawn.chart, drawn.width, drawn.palette);
    },
  };
  tellTitle();
  tip.on(plot, tell);
  return panel;
}

function cursorOf({ phases, choose }: Shared): uPlot.Cursor {
  const whole = () => {
    const measured = phases.find((it) => it.phase === 'measure');
    if (measured) choose(measured.start, measured.end);
    return null;
  };
  return {
    y: false,
    points: { show: false },
    drag: { x: true, y: false, setScale: false, dist: 4 },
    bind: { dblclick: () => whole },
  };
}

function scaleOf({ log, lines, most = 0 }: PanelSpec): uPlot.Scale {
  if (log) return { distr: 3, log: 10, range: () => [log[0], log[1]] };
  let [bottom, top] = [0, most];
  for (const v of lines.flatMap((line) => line.values)) {
    top = Math.max(top, v ?? 0);
    bottom = Math.min(bottom, v ?? 0);
  }
  const max = top > 0 ? top * 1.08 : bottom < 0 ? 0 : 1;
  return { range: () => [bottom * 1.08, max] };
}

function axesOf(spec: PanelSpec, shared: Shared, p: Palette, left: number, axis: number): uPlot.Axis[] {
  const grid = { stroke: p.line, width: 1 };
  const both = { font: `11px ${p.font}`, gap: 6, stroke: p.soft, grid, ticks: { show: false } };
  const [from, to] = shared.visible();
  const span = to - from;
  const y: uPlot.Axis = {
    ...both,
    size: left,
    filter: (_, splits) => splits,
    space: spec.log ? 22 : 26,
    values: (_, splits) => splits.map((v) => (v === null ? null : (spec.tick ?? siTick)(v))),
  };
  if (spec.ticks) y.splits = spec.ticks;
  return [
    {
      ...both,
      size: axis,
      space: 56,
      values: (_, splits) => {
        const step = (splits[1] ?? 1) - (splits[0] ?? 0);
        return splits.map((v) => (axis ? (shared.clock?.tick(v, span, step) ?? timeTick(v, span)) : ''));
      },
    },
    y,
  ];
}

type Stroke = { line: Line; halo: boolean };

function strokes(lines: readonly Line[]): Stroke[] {
  return lines.flatMap((line) => [...(line.halo ? [{ line, halo: true }] : []), { line, halo: false }]);
}

function seriesOf(spec: PanelSpec, times: Times, { line, halo }: Stroke, p: Palette): uPlot.Series {
  const width = line.width ?? 1.5;
  const base = { points: { show: false }, paths: (u: uPlot) => paths(u, spec, times, line) };
  if (halo) return { ...base, stroke: p.paper, width: width + 2.5 };
  const color = line.color(p);
  const own: uPlot.Series = { ...base, stroke: color, width };
  if (line.dash) own.dash = line.dash;
  if (line.area) own.fill = `color-mix(in oklab, ${color} 16%, transparent)`;
  if (line.solid) own.fill = `color-mix(in oklab, ${color} 70%, ${p.paper})`;
  return own;
}

function paths(u: uPlot, spec: PanelSpec, times: Times, line: Line): uPlot.Series.Paths {
  const least = spec.log?.[0] ?? Number.NEGATIVE_INFINITY;
  const x = (v: number): number => Math.round(u.valToPos(v, 'x', true));
  const y = (v: number): number => Math.round(u.valToPos(Math.max(v, least), 'y', true));
  const stroke = new Path2D();
  trace(stroke, times, line.values, x, y);
  if (!line.area && !line.solid) return { stroke };
  const fill = new Path2D();
  trace(fill, times, line.values, x, y, u.bbox.top + u.bbox.height);
  return { stroke, fill };
}

function backdrop(u: uPlot, { phases, shaded }: Shared, p: Palette): void {
  const bbox = clipped(u);
  u.ctx.fillStyle = p.shade;
  for (const { start, end } of [...phases.filter(({ phase }) => phase !== 'measure'), ...(shaded ?? [])]) {
    const a = u.valToPos(start, 'x', true);
    u.ctx.fillRect(a, bbox.top, u.valToPos(end, 'x', true) - a, bbox.height);
  }
  u.ctx.restore();
}

function underlay(u: uPlot, { under }: PanelSpec, p: Palette): void {
  if (!under) return;
  clipped(u);
  under(u, p);
  u.ctx.restore();
}

function overlay(u: uPlot, shared: Shared, p: Palette): void {
  const { ctx } = u;
  const px = uPlot.pxRatio;
  const bbox = clipped(u);
  paintBands(u, shared.stalls, p);
  for (const event of shared.events) {
    const x = Math.round(u.valToPos(event.t, 'x', true)) + 0.5;
    ctx.strokeStyle = p.ink;
    ctx.globalAlpha = 0.55;
    ctx.lineWidth = px;
    ctx.setLineDash([2 * px, 3 * px]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  const window = shared.window();
  if (window) {
    const [a, b] = [u.valToPos(window[0], 'x', true), u.valToPos(window[1], 'x', true)];
    ctx.globalAlpha = 0.62;
    ctx.fillStyle = p.paper;
    ctx.fillRect(bbox.left, bbox.top, Math.max(0, a - bbox.left), bbox.height);
    ctx.fillRect(b, bbox.top, Math.max(0, bbox.left + bbox.width - b), bbox.height);
    ctx.globalAlpha = 1;
    ctx.fillStyle = p.accent;
    for (const edge of [a, b]) ctx.fillRect(edge - px, bbox.top, 2 * px, bbox.height);
  }
  ctx.restore();
}

function selected(u: uPlot, shared: Shared): void {
  const { left, width } = u.select;
  if (width < 4) return;
  const from = u.posToVal(left, 'x');
  const to = u.posToVal(left + width, 'x');
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  shared.choose(from, to);
}

function moved(u: uPlot, shared: Shared): void {
  const left = u.cursor.left ?? -1;
  shared.hover(left >= 0 ? u.posToVal(left, 'x') : null);
}
