// One panel on the common time axis: uPlot draws axes and lines, this adds phases, the window, the
// labels at the lines and the value under the crosshair.

import uPlot from 'uplot';
import { h } from '../core/dom';
import { siTick, timeTick } from '../core/format';
import type { Palette } from '../core/theme';
import type { PhaseSpan } from '../core/view';

export interface Line {
  label: string;
  /** One value per interval. */
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
  /** Without a label at its end. */
  quiet?: boolean;
}

export interface PanelSpec {
  id: string;
  title: string;
  /** What stands behind the title, in soft ink: the unit, and how it is counted. */
  unit: string;
  height: number;
  lines: Line[];
  /** A logarithmic axis of these bounds. */
  log?: readonly [number, number];
  tick?: (value: number) => string;
  ticks?: (u: uPlot) => number[];
  /** Drawn below the lines. */
  under?: (u: uPlot, p: Palette) => void;
  /** More elements in the title's row. */
  tools?: HTMLElement[];
}

/** What all panels of an axis share. */
export interface Shared {
  t: number[];
  dt: number[];
  span: readonly [number, number];
  phases: PhaseSpan[];
  events: { t: number; label: string }[];
  stalls: { start: number; end: number }[];
  window(): readonly [number, number];
  chosen(): boolean;
  choose(from: number, to: number): void;
  hover(time: number | null): void;
}

const GUTTER = 138;
const LEFT = 54;

/** Margins of the plotting area at a width; narrow screens have no room for labels beside it. */
export function margins(width: number): { left: number; right: number } {
  return width < 620 ? { left: 50, right: 6 } : { left: LEFT, right: GUTTER };
}

export class Panel {
  readonly element: HTMLElement;
  private readonly plot = h('div', { class: 'plot' });
  private readonly labels = h('div', { class: 'ends', 'aria-hidden': 'true' });
  private readonly legend = h('div', { class: 'legend', 'aria-hidden': 'true' });
  private chart: uPlot | null = null;
  private width = 0;
  private at: number | null = null;
  private palette: Palette | null = null;

  constructor(
    public spec: PanelSpec,
    private readonly shared: Shared,
    private readonly last: () => boolean,
  ) {
    this.element = h(
      'figure',
      { class: 'panel', id: `panel-${spec.id}` },
      h(
        'figcaption',
        {},
        h('b', {}, spec.title),
        h('span', { class: 'unit' }, spec.unit),
        ...(spec.tools ?? []),
        this.legend,
      ),
      h('div', { class: 'frame' }, this.plot, this.labels),
    );
  }

  /** Draws anew, at a width and with colours. */
  draw(width: number, palette: Palette): void {
    this.width = width;
    this.palette = palette;
    this.chart?.destroy();
    const axis = this.last() ? 26 : 0;
    const { left, right } = margins(width);
    this.chart = new uPlot(
      {
        width,
        height: this.spec.height + (axis || 6) + 8,
        padding: [8, right, axis ? 0 : 6, 0],
        legend: { show: false },
        cursor: this.cursor(),
        scales: {
          x: { time: false, range: () => [this.shared.span[0], this.shared.span[1]] },
          y: this.scale(),
        },
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

  /** Redraws what depends on the window only. */
  refresh(): void {
    this.chart?.redraw(false, false);
  }

  /** New lines with the same axis. */
  update(spec: PanelSpec): void {
    this.spec = spec;
    if (this.palette) this.draw(this.width, this.palette);
  }

  /** The chart as it is drawn, for export. */
  get current(): uPlot | null {
    return this.chart;
  }

  /** Shows the values at a time, or the names alone. */
  pointer(time: number | null): void {
    this.at = time === null ? null : this.index(time);
    this.place();
  }

  /** Moves the crosshair from outside. */
  cross(time: number | null): void {
    const left = time === null ? -10 : (this.chart?.valToPos(time, 'x') ?? -10);
    this.chart?.setCursor({ left, top: time === null ? -10 : 10 }, false);
  }

  private index(time: number): number | null {
    const { t, dt } = this.shared;
    for (let i = t.length - 1; i >= 0; i--) {
      if (t[i]! <= time) return time <= t[i]! + dt[i]! + 1e-6 ? i : null;
    }
    return null;
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
    let top = 0;
    for (const line of this.spec.lines) for (const v of line.values) top = Math.max(top, v ?? 0);
    const max = top > 0 ? top * 1.08 : 1;
    return { range: () => [0, max] };
  }

  private axes(p: Palette, left: number, axis: number): uPlot.Axis[] {
    const font = `11px ${p.font}`;
    const grid = { stroke: p.line, width: 1 };
    const span = this.shared.span[1] - this.shared.span[0];
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
        values: (_, splits) => splits.map((v) => (axis ? timeTick(v, span) : '')),
      },
      y,
    ];
  }

  private data(): uPlot.AlignedData {
    const { t, dt } = this.shared;
    const xs: number[] = [];
    const columns: (number | null)[][] = this.series(null).map(() => []);
    const sources = this.spec.lines.flatMap((l) => (l.halo ? [l, l] : [l]));
    const floor = this.spec.log ? this.spec.log[0] : Number.NEGATIVE_INFINITY;
    for (let i = 0; i < t.length; i++) {
      xs.push(t[i]!);
      sources.forEach((l, s) => {
        const v = l.values[i] ?? null;
        columns[s]!.push(v === null ? null : Math.max(v, floor));
      });
      const end = t[i]! + dt[i]!;
      // A step needs its end, and a hole in the series stays a hole.
      if (i + 1 === t.length || t[i + 1]! - end > dt[i]! * 0.5) {
        xs.push(end);
        sources.forEach((_, s) => {
          columns[s]!.push(columns[s]!.at(-1) ?? null);
        });
        if (i + 1 < t.length) {
          xs.push(end + 1e-6);
          for (const column of columns) column.push(null);
        }
      }
    }
    return [xs, ...columns];
  }

  private series(p: Palette | null): uPlot.Series[] {
    const paths = uPlot.paths.stepped!({ align: 1 });
    return this.spec.lines.flatMap((line) => {
      const width = line.width ?? 1.5;
      const base = { points: { show: false }, paths };
      const color = p ? line.color(p) : '';
      const own: uPlot.Series = { ...base, stroke: color, width };
      if (line.dash) own.dash = line.dash;
      if (line.area) own.fill = `color-mix(in oklab, ${color} 16%, transparent)`;
      if (line.solid) own.fill = `color-mix(in oklab, ${color} 70%, ${p?.paper ?? 'transparent'})`;
      return line.halo ? [{ ...base, stroke: p?.paper ?? '', width: width + 2.5 }, own] : [own];
    });
  }

  private backdrop(u: uPlot, p: Palette): void {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.fillStyle = p.shade;
    for (const phase of this.shared.phases) {
      if (phase.phase === 'measure') continue;
      const a = u.valToPos(phase.start, 'x', true);
      const b = u.valToPos(phase.end, 'x', true);
      ctx.fillRect(a, bbox.top, b - a, bbox.height);
    }
    ctx.restore();
  }

  private underlay(u: uPlot, p: Palette): void {
    if (!this.spec.under) return;
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    this.spec.under(u, p);
    ctx.restore();
  }

  private overlay(u: uPlot, p: Palette): void {
    const { ctx, bbox } = u;
    const px = uPlot.pxRatio;
    ctx.save();
    ctx.fillStyle = p.delay;
    ctx.globalAlpha = 0.16;
    for (const { start, end } of this.shared.stalls) {
      const x = u.valToPos(start, 'x', true);
      ctx.fillRect(x, bbox.top, Math.max(px, u.valToPos(end, 'x', true) - x), bbox.height);
    }
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
    if (this.shared.chosen()) {
      const [from, to] = this.shared.window();
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

  /** Puts each label at the end of its line, pushed apart where they would touch. */
  private place(): void {
    const u = this.chart;
    const p = this.palette;
    if (!u || !p) return;
    const narrow = margins(this.width).right < GUTTER;
    const marks = this.spec.lines
      .filter((l) => !l.quiet)
      .map((line) => {
        const value = this.at === null ? null : ((line.shown ?? line.values)[this.at] ?? null);
        const y = u.valToPos(this.ending(line.values), 'y') + 1;
        const text = h('span', { class: 'name' }, line.label);
        const shown = value === null ? null : h('span', { class: 'value' }, line.format(value));
        const swatch = h('i', { class: line.dash ? 'dashed' : '' });
        const mark = h('span', { class: 'mark' }, swatch, text, shown);
        mark.style.setProperty('--c', line.color(p));
        return { mark, y };
      });
    this.labels.replaceChildren();
    this.legend.replaceChildren();
    if (narrow) {
      this.legend.append(...marks.map((m) => m.mark));
      return;
    }
    const step = 14;
    marks.sort((a, b) => a.y - b.y);
    marks.forEach((m, i) => {
      m.y = Math.max(m.y, i > 0 ? marks[i - 1]!.y + step : 0);
    });
    let floor = this.spec.height;
    for (const m of marks.toReversed()) {
      m.y = Math.min(m.y, floor);
      floor = m.y - step;
      m.mark.style.top = `${m.y}px`;
    }
    this.labels.style.width = `${GUTTER - 8}px`;
    this.labels.append(...marks.map((m) => m.mark));
  }

  /** Where a line ends: its last value before the drain. */
  private ending(values: (number | null)[]): number {
    const drain = this.shared.phases.find((p) => p.phase === 'drain')?.start ?? Number.MAX_VALUE;
    for (let i = values.length - 1; i >= 0; i--) {
      const value = values[i];
      const middle = this.shared.t[i]! + this.shared.dt[i]! / 2;
      if (value !== null && value !== undefined && middle < drain) return value;
    }
    return 0;
  }
}
