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

export class Panel {
  readonly element: HTMLElement;
  private readonly title = h('b', {});
  private readonly unit = h('span', { class: 'unit' });
  private readonly plot = h('div', { class: 'plot' });
  private readonly labels = h('div', { class: 'ends', 'aria-hidden': 'true' });
  private readonly legend = h('div', { class: 'legend', 'aria-hidden': 'true' });
  chart: uPlot | null = null;
  private width = 0;
  private at: number | null = null;
  private palette: Palette | null = null;

  constructor(
    public spec: PanelSpec,
    private readonly shared: Shared,
    private readonly hasAxis: () => boolean,
  ) {
    const caption = h('figcaption', {}, this.title, this.unit, ...(spec.tools ?? []), this.legend);
    const frame = h('div', { class: 'frame' }, this.plot, this.labels);
    this.element = h('figure', { class: 'panel', id: `panel-${spec.id}` }, caption, frame);
    this.tellTitle();
    tip.on(this.plot, (e) => this.tell(e));
  }

  draw(width: number, palette: Palette): void {
    this.width = width;
    this.palette = palette;
    this.tellTitle();
    this.chart?.destroy();
    const axis = this.hasAxis() ? 26 : 0;
    const { left, right } = margins(width);
    this.chart = new uPlot(
      {
        width,
        height: this.spec.height + (axis || 6) + 8,
        padding: [8, right, axis ? 0 : 6, 0],
        legend: { show: false },
        cursor: this.cursor(),
        scales: { x: { time: false, range: () => [...this.shared.visible()] }, y: this.scale() },
        axes: this.axes(palette, left, axis),
        series: [{}, ...this.series(palette)],
        hooks: {
          drawClear: [(u) => this.backdrop(u, palette)],
          drawAxes: [(u) => this.underlay(u, palette)],
          ready: [() => this.place()],
          draw: [(u) => this.overlay(u, palette)],
          setSelect: [(u) => this.selected(u)],
          setCursor: [(u) => this.moved(u)],
        },
      },
      this.data(),
      this.plot,
    );
  }

  /** What is drawn may be of other intervals than before, and its title says so. */
  private tellTitle(): void {
    this.title.textContent = this.spec.title;
    this.unit.textContent = this.spec.unit;
  }

  clear(): void {
    this.chart?.destroy();
    this.chart = null;
    this.palette = null;
  }

  refresh(): void {
    this.chart?.redraw(false, false);
  }

  /** Draws again what was drawn, with lines that may be others. */
  redraw(): void {
    if (this.palette) this.draw(this.width, this.palette);
  }

  /** Moves the crosshair to a time and shows the values there; null shows the names alone. */
  pointer(time: number | null): void {
    const left = time === null ? -10 : (this.chart?.valToPos(time, 'x') ?? -10);
    this.chart?.setCursor({ left, top: time === null ? -10 : 10 }, false);
    this.at = time === null ? null : intervalAt(this.times, time);
    this.place();
  }

  private get times(): Times {
    return this.spec.times ?? this.shared;
  }

  private cursor(): uPlot.Cursor {
    return {
      y: false,
      points: { show: false },
      drag: { x: true, y: false, setScale: false, dist: 4 },
      bind: {
        dblclick: () => () => {
          const measured = this.shared.phases.find((p) => p.phase === 'measure');
          if (measured) this.shared.choose(measured.start, measured.end);
          return null;
        },
      },
    };
  }

  private scale(): uPlot.Scale {
    const { log } = this.spec;
    if (log) return { distr: 3, log: 10, range: () => [log[0], log[1]] };
    let top = this.spec.most ?? 0;
    let bottom = 0;
    for (const line of this.spec.lines) {
      for (const v of line.values) {
        top = Math.max(top, v ?? 0);
        bottom = Math.min(bottom, v ?? 0);
      }
    }
    const max = top > 0 ? top * 1.08 : bottom < 0 ? 0 : 1;
    return { range: () => [bottom * 1.08, max] };
  }

  private axes(p: Palette, left: number, axis: number): uPlot.Axis[] {
    const font = `11px ${p.font}`;
    const grid = { stroke: p.line, width: 1 };
    const [from, to] = this.shared.visible();
    const span = to - from;
    const y: uPlot.Axis = {
      size: left,
      gap: 6,
      font,
      stroke: p.soft,
      grid,
      ticks: { show: false },
      filter: (_, splits) => splits,
      space: this.spec.log ? 22 : 26,
      values: (_, splits) => splits.map((v) => (v === null ? null : (this.spec.tick ?? siTick)(v))),
    };
    if (this.spec.ticks) y.splits = (u) => this.spec.ticks!(u);
    return [
      {
        size: axis,
        show: true,
        gap: 6,
        font,
        stroke: p.soft,
        grid,
        ticks: { show: false },
        space: 56,
        values: (_, splits) => {
          const step = (splits[1] ?? 1) - (splits[0] ?? 0);
          const { clock } = this.shared;
          return splits.map((v) => (axis ? (clock?.tick(v, span, step) ?? timeTick(v, span)) : ''));
        },
      },
      y,
    ];
  }

  /** Only the number of columns matters: the lines are drawn from their intervals. */
  private data(): uPlot.AlignedData {
    const { t } = this.times;
    return [t, ...this.strokes().map(({ line }) => line.values)];
  }

  private strokes(): { line: Line; halo: boolean }[] {
    return this.spec.lines.flatMap((line) => [...(line.halo ? [{ line, halo: true }] : []), { line, halo: false }]);
  }

  private series(p: Palette): uPlot.Series[] {
    return this.strokes().map(({ line, halo }) => {
      const width = line.width ?? 1.5;
      const base = { points: { show: false }, paths: (u: uPlot) => this.paths(u, line) };
      if (halo) return { ...base, stroke: p.paper, width: width + 2.5 };
      const color = line.color(p);
      const own: uPlot.Series = { ...base, stroke: color, width };
      if (line.dash) own.dash = line.dash;
      if (line.area) own.fill = `color-mix(in oklab, ${color} 16%, transparent)`;
      if (line.solid) own.fill = `color-mix(in oklab, ${color} 70%, ${p.paper})`;
      return own;
    });
  }

  private paths(u: uPlot, line: Line): uPlot.Series.Paths {
    const least = this.spec.log?.[0] ?? Number.NEGATIVE_INFINITY;
    const x = (v: number): number => Math.round(u.valToPos(v, 'x', true));
    const y = (v: number): number => Math.round(u.valToPos(Math.max(v, least), 'y', true));
    const stroke = new Path2D();
    trace(stroke, this.times, line.values, x, y);
    if (!line.area && !line.solid) return { stroke };
    const fill = new Path2D();
    trace(fill, this.times, line.values, x, y, u.bbox.top + u.bbox.height);
    return { stroke, fill };
  }

  private backdrop(u: uPlot, p: Palette): void {
    const { ctx } = u;
    const bbox = clipped(u);
    ctx.fillStyle = p.shade;
    const phases = this.shared.phases.filter(({ phase }) => phase !== 'measure');
    for (const { start, end } of [...phases, ...(this.shared.shaded ?? [])]) {
      const a = u.valToPos(start, 'x', true);
      const b = u.valToPos(end, 'x', true);
      ctx.fillRect(a, bbox.top, b - a, bbox.height);
    }
    ctx.restore();
  }

  private underlay(u: uPlot, p: Palette): void {
    if (!this.spec.under) return;
    clipped(u);
    this.spec.under(u, p);
    u.ctx.restore();
  }

  private overlay(u: uPlot, p: Palette): void {
    const { ctx } = u;
    const px = uPlot.pxRatio;
    const bbox = clipped(u);
    paintBands(u, this.shared.stalls, p);
    for (const event of this.shared.events) {
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
    const window = this.shared.window();
    if (window) {
      const [from, to] = window;
      const a = u.valToPos(from, 'x', true);
      const b = u.valToPos(to, 'x', true);
      ctx.globalAlpha = 0.62;
      ctx.fillStyle = p.paper;
      ctx.fillRect(bbox.left, bbox.top, Math.max(0, a - bbox.left), bbox.height);
      ctx.fillRect(b, bbox.top, Math.max(0, bbox.left + bbox.width - b), bbox.height);
      ctx.globalAlpha = 1;
      ctx.fillStyle = p.accent;
      ctx.fillRect(a - px, bbox.top, 2 * px, bbox.height);
      ctx.fillRect(b - px, bbox.top, 2 * px, bbox.height);
    }
    ctx.restore();
  }

  private selected(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 4) return;
    const from = u.posToVal(left, 'x');
    const to = u.posToVal(left + width, 'x');
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.shared.choose(from, to);
  }

  private moved(u: uPlot): void {
    const left = u.cursor.left ?? -1;
    this.shared.hover(left >= 0 ? u.posToVal(left, 'x') : null);
  }

  /** What is under the pointer: the interval, its values, and marks close by. */
  private tell(e: MouseEvent): Child[] | null {
    const { chart: u, palette: p } = this;
    if (!u || !p || e.buttons !== 0) return null;
    const box = u.over.getBoundingClientRect();
    const [left, top] = [e.clientX - box.left, e.clientY - box.top];
    if (left < 0 || left > box.width || top < 0 || top > box.height) return null;
    const time = u.posToVal(left, 'x');
    const i = intervalAt(this.times, time);
    const { t, dt } = this.times;
    const round = (v: number): number => Math.round(v * 1000) / 1000;
    const { clock } = this.shared;
    const [begin, end] = i === null ? [time, null] : [t[i]!, t[i]! + dt[i]!];
    const ends = [begin, ...(end === null ? [] : [end])];
    const when = clock?.isWall() ? ends.map(clock.moment).join(' to ') : `${ends.map(round).join(' to ')} s`;
    const rows = this.spec.lines.map((line) => {
      const value = i === null ? null : ((line.shown ?? line.values)[i] ?? null);
      return tipRow(line.color(p), line.label, value === null ? '–' : line.format(value));
    });
    const near = (u.scales.x!.max! - u.scales.x!.min!) * (5 / box.width);
    const events = this.shared.events.filter((it) => Math.abs(it.t - time) <= near);
    const stalls = this.shared.stalls.filter((it) => time >= it.start - near && time <= it.end + near);
    const spot = this.spec.spot?.(time, u.posToVal(top, 'y'));
    const more = [...events.map((it) => it.label), ...stalls.map((it) => it.text)];
    return [
      h('div', { class: 'when' }, when),
      ...rows,
      spot ? h('div', {}, spot) : null,
      ...more.map((text) => h('div', { class: 'mark-text' }, text)),
    ];
  }

  /** Puts each label at the end of its line, pushed apart where they would touch. */
  private place(): void {
    const { chart: u, palette: p } = this;
    if (!u || !p) return;
    const narrow = margins(this.width).right < GUTTER;
    const marks = this.spec.lines
      .filter((l) => !l.quiet)
      .map((line) => {
        const value = this.at === null ? null : ((line.shown ?? line.values)[this.at] ?? null);
        const top = u.valToPos(this.ending(line.values), 'y') + 1;
        const text = h('span', { class: 'name', title: line.label }, line.label);
        const shown = value === null ? null : h('span', { class: 'value' }, line.format(value));
        const swatch = h('i', { class: line.dash ? 'dashed' : '' });
        const mark = h('span', { class: 'mark' }, swatch, text, shown);
        mark.style.setProperty('--c', line.color(p));
        return { mark, top };
      });
    this.labels.replaceChildren(...(narrow ? [] : apart(marks, this.spec.height)));
    this.legend.replaceChildren(...(narrow ? marks.map(({ mark }) => mark) : []));
    if (!narrow) this.labels.style.width = `${GUTTER - 8}px`;
  }

  /** Where a line ends: its last value before the drain. */
  private ending(values: (number | null)[]): number {
    const drain = this.shared.phases.find((p) => p.phase === 'drain')?.start ?? Number.MAX_VALUE;
    for (let i = values.length - 1; i >= 0; i--) {
      const value = values[i];
      const middle = this.times.t[i]! + this.times.dt[i]! / 2;
      if (value !== null && value !== undefined && middle < drain) return value;
    }
    return 0;
  }
}
