// One time axis for everything: panels under each other, a common crosshair, a window by dragging.

import { bandsOf } from '../charts/bands';
import { type Drawn, panelsSvg, pictures } from '../charts/export';
import { margins, type Panel, type PanelSpec, panelOf, type Shared } from '../charts/panel';
import { type Times, trace } from '../charts/steps';
import { drawTimeAxis } from '../charts/time-axis';
import { clockOf, hasClock } from '../core/clock';
import { infoOf, latencyKeys, leadMetric, type Page, type Slices, subject } from '../core/data';
import {
  button,
  type Child,
  type Column,
  choice,
  csv,
  fill,
  h,
  later,
  save,
  scrolling,
  section,
  tableOfColumns,
  widthOf,
} from '../core/dom';
import { brief, duration, exactDuration, seconds, significant, xml } from '../core/format';
import { type Grid, gridOf, type Histograms } from '../core/histograms';
import type { Pause } from '../core/inflate';
import type { Pointer, Store, Stretch } from '../core/state';
import { palette } from '../core/theme';
import type { Metric, Phase, RunView } from '../core/view';
import { drawLane, eventTable, PHASE_LABELS } from './lane';
import { isShown, namedMenu, namedPanel } from './named';
import { latency, panels } from './panels';
import { refusals } from './percentile-cell';

export interface View {
  element: HTMLElement;
  /** Draws again, at another width or in other colours; what was not yet prepared stays empty. */
  draw(): void;
  /** What has to be done before it can be drawn, with a pause after each step of it. */
  prepare?(pause: Pause): Promise<void>;
}

/** The window that holds: the chosen one, else the measured phase, else everything. */
export function effectiveWindow(run: RunView, store: Store): readonly [number, number] {
  return store.state.window ?? wholeSpan(run);
}

export function wholeSpan(run: RunView): readonly [number, number] {
  const measured = run.phases.find((p) => p.phase === 'measure');
  return measured ? [measured.start, measured.end] : run.span;
}

/** Slices narrower than this many of the screen's own pixels would be drawn over each other. */
const LEAST_PIXELS = 0.9;

function hasRoom({ t }: Times, [from, to]: readonly [number, number], pixels: number): boolean {
  const seen = t.filter((at) => at >= from && at <= to).length;
  return pixels >= seen * LEAST_PIXELS;
}

/** Samples of a slice from which on its percentiles are more than its largest value and chance. */
const LEAST_SAMPLES = 50;

export function isDense({ t, count }: Pick<Histograms, 't' | 'count'>): boolean {
  return count.reduce((sum, it) => sum + it, 0) >= LEAST_SAMPLES * t.length;
}

/** What [`effectiveWindow`] is where none is chosen: a run that was stopped in its warm-up measured nothing. */
export function wholeName(run: RunView): string {
  const has = (phase: Phase): boolean => run.phases.some((p) => p.phase === phase);
  if (has('measure')) return 'measured phase';
  return has('warmup') ? 'warm-up' : 'whole run';
}

export function timeline({ run, histograms, slices }: Page, store: Store, pointer: Pointer): View | null {
  // A grid is made when it is looked at for the first time.
  const grids = new Map<Histograms, Grid>();
  const gridIn = (all: Histograms[], metric: Metric | undefined): Grid | undefined => {
    const cells = all.find((it) => it.metric === metric);
    if (cells && !grids.has(cells)) grids.set(cells, gridOf(cells));
    return cells && grids.get(cells);
  };
  const metrics = histograms.map((it) => it.metric);
  const lead = leadMetric(run);
  const metric = (): Metric | undefined =>
    metrics.find((m) => m === store.state.metric) ?? metrics.find((m) => m === lead) ?? metrics[0];
  const picker = choice(
    'latency metric',
    metrics.map((m) => [m, infoOf(run, m).name] as const),
    metric() ?? 'ack_response',
    (m) => store.set({ metric: m }),
  );
  const tools = metrics.length > 1 ? [picker.element] : [];
  const named = run.named.map(namedPanel);
  /** All panels with what is known of each second, or of each slice where that is known. */
  const specsOf = (fine: Slices | null): PanelSpec[] => {
    const m = metric();
    const dense = fine?.histograms.find((it) => it.metric === m);
    const finer = fine && dense && isDense(dense) ? gridIn(fine.histograms, m) : undefined;
    const map = finer ?? gridIn(histograms, m);
    const middle = map && latency(run, map, tools, finer ? fine : null);
    const { before, after } = panels(run, fine);
    return [...before, ...(middle ? [middle] : []), ...after, ...named];
  };
  const specs = specsOf(null);
  if (specs.length === 0 || run.series.t.length === 0) return null;
  const visible = (): readonly [number, number] => (store.state.axis === 'window' && store.state.window) || run.span;
  const fineAt = (width: number): Slices | null => {
    const { left, right } = margins(width);
    const pixels = (width - left - right) * devicePixelRatio;
    return slices && hasRoom(slices, visible(), pixels) ? slices : null;
  };
  let fine: Slices | null = null;

  const clock = clockOf(run, store);
  const readout = h('output', { class: 'readout', 'aria-live': 'polite' });
  const events = run.events.filter((e) => e.t >= run.span[0] && e.t <= run.span[1]);
  const shared = { ...sharedOf(run, store, pointer, run.series, visible), events };
  const list = specs.map((spec) => panelOf(spec, shared, () => hasAxis(spec)));
  const hidden = (panel: Panel): boolean => {
    const at = named.indexOf(panel.spec);
    const of = run.named[at];
    return of !== undefined && !isShown(of, store.state.panels);
  };
  const seen = (): Panel[] => list.filter((panel) => !hidden(panel));
  /** The last panel that is seen has the time below it, too. */
  const hasAxis = (spec: PanelSpec): boolean => seen().at(-1)?.spec.id === spec.id;
  pointer.listen((t) => {
    for (const panel of list) panel.pointer(t);
    describe();
  });
  const describe = (): void => {
    const [from, to] = effectiveWindow(run, store);
    const name = store.state.window ? 'window' : wholeName(run);
    const at = pointer.time;
    fill(
      readout,
      at === null
        ? `${name} ${clock.moment(from)} to ${clock.moment(to)}`
        : `at ${clock.moment(Math.round(at * 10) / 10)}`,
    );
  };

  const heat = (): Grid | undefined => gridIn((fine ?? { histograms }).histograms, metric());
  const legend = h('p', { class: 'stall-legend' });
  const lane = h('div', { class: 'lane' });
  const axis = h('div', { class: 'time-axis', 'aria-hidden': 'true' });
  const axisName = h('p', { class: 'axis-name' });
  const closer = button('', () => store.set({ axis: other() }, true), { class: 'quiet' });
  const other = () => (store.state.axis === 'window' ? 'run' : 'window');
  const wall = button('wall clock', () => store.set({ clock: store.state.clock === 'wall' ? 'run' : 'wall' }), {
    title: 'Times by the wall clock, in UTC',
  });
  const whole = (): void => store.set({ window: null, axis: 'run' }, true);
  const reset = button(`whole ${wholeName(run).replace(/^whole /, '')}`, whole, {
    class: 'quiet',
    title: `Back to the ${wholeName(run)} (Escape)`,
  });
  const enable = (): void => {
    const { window, axis } = store.state;
    wall.setAttribute('aria-pressed', String(clock.isWall()));
    reset.disabled = window === null;
    closer.disabled = window === null;
    closer.textContent = axis === 'window' ? 'whole run' : 'zoom in';
    closer.title = axis === 'window' ? 'Show the whole run' : 'Show nothing but the window';
  };
  const charts = h(
    'div',
    {
      class: 'charts',
      tabindex: 0,
      role: 'group',
      'aria-label': 'Time axis. Left and right move the crosshair, with Shift they choose a window, Escape goes back.',
      onkeydown: (e: KeyboardEvent) => {
        if (keyboard(e, run, store, pointer)) e.preventDefault();
      },
    },
    axis,
    lane,
    list.map((p) => p.element),
    axisName,
  );
  const element = section(
    'when',
    'When',
    [
      readout,
      h('span', { class: 'hint for-pointer' }, 'drag to choose a window'),
      h(
        'div',
        { class: 'tools' },
        closer,
        reset,
        hasClock(run) ? wall : null,
        pictures(`${run.id}-time`, (top) => pictureOf(run, list, heat(), top), 'Save'),
        button('CSV', () => save(`${run.id}-series.csv`, seriesCsv(run), 'text/csv'), {
          title: 'Save the series as CSV',
        }),
      ),
    ],
    legend,
    charts,
    refusals(run),
    namedMenu(run, store),
    eventTable(run),
    later('The same as a table', () => seriesTable(run)),
  );

  const take = (): void => {
    const finer = specsOf(fine);
    for (const panel of list) {
      panel.spec = finer.find((spec) => spec.id === panel.spec.id) ?? panel.spec;
    }
  };
  const draw = (): void => {
    const p = palette();
    const width = widthOf(charts);
    if (width === 0) return;
    const before = fine;
    fine = fineAt(width);
    if (fine !== before) take();
    drawTimeAxis(axis, visible(), width, clock);
    const sinceBegin = `${axisStart(run)}, ${axisUnit(run.span)}`;
    fill(axisName, clock.isWall() ? 'wall clock, UTC' : sinceBegin);
    drawLane(lane, legend, run, visible(), width);
    for (const panel of list) {
      panel.element.hidden = hidden(panel);
      if (panel.element.hidden) panel.clear();
      else panel.draw(width, p);
    }
    describe();
  };
  store.listen((_, changed) => {
    if (changed.has('metric')) {
      take();
      list.find((it) => it.spec.id === 'latency')?.redraw();
      const m = metric();
      if (m) picker.set(m);
    }
    const zooms = store.state.axis === 'window' && changed.has('window');
    const redraws = (['axis', 'panels', 'clock'] as const).some((key) => changed.has(key));
    if (redraws || zooms) draw();
    else if (changed.has('window')) {
      for (const panel of list) panel.refresh();
      describe();
    }
    enable();
  });
  enable();
  return { element, draw };
}

/** What panels of the run share, over intervals of these times. */
export function sharedOf(run: RunView, store: Store, pointer: Pointer, times: Times, visible: () => Stretch): Shared {
  return {
    t: times.t,
    dt: times.dt,
    visible,
    phases: run.phases,
    events: run.events,
    stalls: bandsOf(run),
    window: () => store.state.window,
    choose: (from, to) => store.set({ window: clampWindow(run.span, from, to) }, true),
    hover: (time) => pointer.set(time),
    clock: clockOf(run, store),
  };
}

function round(t: number): number {
  return Math.round(t * 100) / 100;
}

export function axisStart(run: Pick<RunView, 'experiment' | 'phases'>): string {
  const { profile } = (run.experiment ?? {}) as { profile?: { pid?: number } };
  if (profile?.pid !== undefined) return 'time since the recording began';
  const warm = run.phases.some((it) => it.phase === 'warmup');
  return `time since the load began${warm ? ' with its warm-up' : ''}`;
}

function axisUnit(span: readonly [number, number]): string {
  const length = span[1] - span[0];
  return length <= 180 ? 'seconds' : length < 3600 ? 'minutes:seconds' : 'hours:minutes:seconds';
}

/** A window inside the run, in whole milliseconds; null where nothing would be left. */
export function clampWindow(span: Stretch, from: number, to: number): Stretch | null {
  const low = Math.max(span[0], Math.min(from, to));
  const high = Math.min(span[1], Math.max(from, to));
  const milli = (t: number): number => Math.round(t * 1000) / 1000;
  return high - low < 0.001 ? null : [milli(low), milli(high)];
}

function keyboard(e: KeyboardEvent, run: RunView, store: Store, pointer: Pointer): boolean {
  const direction = e.key === 'ArrowLeft' ? -1 : e.key === 'ArrowRight' ? 1 : 0;
  if (direction === 0) return false;
  const [from, to] = effectiveWindow(run, store);
  const step = run.series.dt[0] ?? 1;
  const at = pointer.time ?? (direction > 0 ? from : to);
  const next = Math.min(run.span[1], Math.max(run.span[0], at + direction * step));
  if (e.shiftKey) {
    // The edge nearer to the crosshair moves.
    const edges: [number, number] = Math.abs(at - from) <= Math.abs(at - to) ? [next, to] : [from, next];
    store.set({ window: clampWindow(run.span, ...edges) });
  }
  pointer.set(next);
  return true;
}

function columns(run: RunView): { label: string; values: (number | null)[]; exact?: boolean }[] {
  const s = run.series;
  const messages = run.figures.sent.total + run.figures.received.total > 0;
  const all = [
    { label: messages ? 'requested, msg/s' : 'requested, 1/s', values: s.requested },
    ...run.metrics
      .filter((metric) => metric.kind !== 'histogram')
      .map((metric) => ({
        label: `${infoOf(run, metric.key).name}, ${metric.unit}${metric.kind === 'counter' ? '/s' : ''}`,
        values: s.counts[metric.key] ?? [],
      })),
    { label: 'sent, msg/s', values: s.sent },
    { label: 'completed, msg/s', values: s.completed },
    { label: 'received, msg/s', values: s.received },
    { label: 'blocked, msg/s', values: s.blocked },
    ...latencyKeys(run).flatMap((m) =>
      (['p50', 'p99', 'max'] as const).map((q) => ({
        label: `${infoOf(run, m).name} ${q}, ns`,
        values: s.latency[m]?.[q] ?? [],
        exact: true,
      })),
    ),
    { label: `${subject(run)} CPU, cores`, values: s.broker_cores },
    { label: 'bellows CPU, cores', values: s.client_cores },
    { label: `${subject(run)} memory, MB`, values: s.broker_mb },
    { label: 'bellows memory, MB', values: s.client_mb },
    { label: 'generator loop lag, ms', values: s.lag_ms },
    { label: 'stolen CPU, share', values: s.steal },
  ];
  return all.filter((c) => c.values.some((v) => v !== null && v !== 0));
}

function phaseAt(run: RunView, t: number, dt: number): string {
  const middle = t + dt / 2;
  const phase = run.phases.find((p) => middle >= p.start && middle < p.end);
  return phase ? PHASE_LABELS[phase.phase] : '';
}

function seriesTable(run: RunView): HTMLElement {
  const shown = tableOfColumns('Every interval of the run', run.series.t, [
    [{ number: 'from, s' }, (t) => significant(round(t))],
    ['phase', (t, i) => phaseAt(run, t, run.series.dt[i]!)],
    ...columns(run).map(({ label, values, exact }): Column<number> => {
      const cell = (v: number): Child =>
        exact ? h('span', { title: exactDuration(v) }, duration(v)) : h('span', { title: String(v) }, significant(v));
      return [
        { number: exact ? label.replace(/, ns$/, '') : label },
        (_, i) => (values[i] == null ? '–' : cell(values[i])),
      ];
    }),
  ]);
  return scrolling(shown, { tabindex: 0 });
}

function seriesCsv(run: RunView): string {
  const cols = columns(run);
  const [from, to] = run.span;
  const rows = run.series.t.flatMap((t, i) => {
    if (t < from || t > to) return [];
    const dt = run.series.dt[i]!;
    return [[t, dt, phaseAt(run, t, dt), ...cols.map((c) => c.values[i] ?? null)]];
  });
  return csv([['from_s', 'length_s', 'phase', ...cols.map((c) => c.label)], ...rows]);
}

function pictureOf(run: RunView, list: Panel[], grid: Grid | undefined, top: number) {
  const p = palette();
  const drawn: Drawn[] = list.flatMap((panel) => {
    const chart = panel.chart;
    if (!chart) return [];
    const times = panel.spec.times ?? run.series;
    const least = panel.spec.log?.[0] ?? Number.NEGATIVE_INFINITY;
    const lines: Drawn['lines'] = panel.spec.lines.map((line) => ({
      label: line.quiet ? '' : line.label,
      color: line.color(p),
      dash: line.dash,
      width: line.width ?? 1.5,
      trace: (pen, x, y) => trace(pen, times, line.values, x, (v) => y(Math.max(v, least))),
      end: line.values.findLast((v) => v !== null) ?? null,
    }));
    const heat = panel.spec.id === 'latency' ? grid : undefined;
    const { title, unit } = panel.spec;
    const shaded = run.phases.filter((phase) => phase.phase !== 'measure');
    return [{ title, unit, chart, lines, heat, shaded, events: run.events, stalls: bandsOf(run) }];
  });
  const stalls = bandsOf(run).map((s) => ({ t: s.start, label: s.text }));
  const told = [...run.events, ...stalls].sort((a, b) => a.t - b.t);
  const width = drawn[0]?.chart.width ?? 800;
  // A character is some 6.5 pixels wide.
  const longest = Math.floor((width - 16) / 6.5);
  const texts = told.map((event, i) => {
    const text = `${seconds(event.t)}: ${event.label}`;
    return `<text x="8" y="${top + i * 16 + 12}" fill="${xml(p.ink)}"><title>${xml(text)}</title>${xml(brief(text, longest))}</text>`;
  });
  const room = texts.length * 16;
  const { body, height } = panelsSvg(drawn, p, top + room);
  return { body: [...texts, ...body], height: height + room, width };
}
