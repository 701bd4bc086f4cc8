// Named series as panels of the time axis: what the machine and the broker's processes did beside computing, and what
// scraped pages say. Those of every run are shown where somebody asks for them.

import type { Line, PanelSpec } from '../charts/panel';
import { button, fill, h } from '../core/dom';
import {
  bytes,
  bytesTick,
  duration,
  durationTick,
  grouped,
  percent,
  si,
  significant,
  siTick,
  visible,
} from '../core/format';
import type { Store } from '../core/state';
import type { Palette } from '../core/theme';
import type { NamedPanel, RunView } from '../core/view';

const COLORS: readonly ((p: Palette) => string)[] = [(p) => p.ink, (p) => p.receive, (p) => p.send, (p) => p.delay];
const DASHES: readonly (number[] | undefined)[] = [undefined, [4, 3]];

interface Scale {
  unit: string;
  format: (value: number) => string;
  tick?: (value: number) => string;
}

const SCALES: Record<NamedPanel['unit'], Scale> = {
  count: { unit: '', format: si },
  'per-second': { unit: 'per second', format: (v) => `${si(v)}/s` },
  bytes: { unit: '', format: bytes, tick: bytesTick },
  'bytes-per-second': { unit: 'per second', format: (v) => `${bytes(v)}/s`, tick: bytesTick },
  cores: { unit: 'cores', format: (v) => `${significant(v)} cores` },
  share: { unit: 'share of the time', format: percent, tick: (v) => `${Number((v * 100).toPrecision(3))} %` },
  seconds: { unit: '', format: (v) => duration(v * 1e9), tick: (v) => durationTick(v * 1e9) },
};

export function idOf(panel: NamedPanel): string {
  return `${panel.source}/${panel.name}`;
}

/** Whether a panel is shown: as it is at first, unless somebody turned it round. */
export function isShown(panel: NamedPanel, turned: readonly string[]): boolean {
  return panel.shown !== turned.includes(idOf(panel));
}

/** The number of each line's colour and dash: by its label, so that a series looks the same in every report. */
export function stylesOf(labels: readonly string[]): number[] {
  if (labels.length <= 1) return labels.map(() => 0);
  // Few lines need no dashes.
  const many = labels.length > COLORS.length ? COLORS.length * DASHES.length : COLORS.length;
  const own = (label: string): number =>
    [...label].reduce((sum, c) => (sum * 31 + c.codePointAt(0)!) % 65_521, 7) % many;
  const styles: number[] = labels.map(() => 0);
  let free = new Set<number>();
  const order = labels.map((_, i) => i).sort((a, b) => (labels[a]! < labels[b]! ? -1 : 1));
  for (const i of order) {
    if (free.size === 0) free = new Set(Array.from({ length: many }, (_, style) => style));
    let style = own(labels[i]!);
    while (!free.has(style)) style = (style + 1) % many;
    free.delete(style);
    styles[i] = style;
  }
  return styles;
}

export function namedPanel(panel: NamedPanel, at: number): PanelSpec {
  const { unit, format, tick = siTick } = SCALES[panel.unit];
  const styles = stylesOf(panel.lines.map((line) => line.label));
  const lines = panel.lines.map((line, i): Line => {
    const dash = DASHES[Math.floor(styles[i]! / COLORS.length)];
    return {
      label: visible(line.label || panel.name),
      values: line.values,
      color: COLORS[styles[i]! % COLORS.length]!,
      format,
      width: i === 0 ? 1.75 : 1.25,
      area: i === 0 && panel.lines.length === 1,
      ...(dash ? { dash } : {}),
    };
  });
  const rest = panel.left_out > 0 ? `the largest; ${grouped(panel.left_out)} more are left out` : '';
  return {
    id: `named-${at}`,
    title: visible(`${panel.source}: ${panel.name}`),
    unit: [unit, rest].filter(Boolean).join(', '),
    height: lines.length > 4 ? 116 : 84,
    lines,
    tick,
    times: { t: panel.t, dt: panel.dt },
  };
}

/** Buttons that show or hide each panel, by source; null where there are none. */
export function namedMenu(run: RunView, store: Store): HTMLElement | null {
  if (run.named.length === 0) return null;
  const sources = [...new Set(run.named.map((it) => it.source))];
  const element = h('div', { class: 'more-panels', role: 'group', 'aria-label': 'more panels' });
  const turn = (id: string): void => {
    const { panels } = store.state;
    const rest = panels.filter((it) => it !== id);
    store.set({ panels: rest.length < panels.length ? rest : [...panels, id] }, true);
  };
  const one = (it: NamedPanel): HTMLElement => {
    const state = { class: 'quiet', 'aria-pressed': String(isShown(it, store.state.panels)) };
    return button(visible(it.name), () => turn(idOf(it)), state);
  };
  const row = (source: string): HTMLElement => {
    const own = run.named.filter((it) => it.source === source).map(one);
    return h('p', {}, h('span', { class: 'hint' }, `${visible(source)}:`), own);
  };
  const draw = (): void => fill(element, sources.map(row));
  store.on(['panels'], () => {
    const focused = [...element.querySelectorAll('button')].indexOf(document.activeElement as HTMLButtonElement);
    draw();
    element.querySelectorAll('button')[focused]?.focus();
  });
  draw();
  return element;
}
