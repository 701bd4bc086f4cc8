// Samples over time, above the graph: as a rate, or each second as a column of a heat map.

import { type Line, type Panel, panelOf } from '../charts/panel';
import type { Profile } from '../core/data';
import { h, widthOf } from '../core/dom';
import { bytes, significant } from '../core/format';
import type { Pointer, State, Store } from '../core/state';
import { palette } from '../core/theme';
import type { RunView } from '../core/view';
import type { Analysis } from '../flame/analysis';
import { overTime } from '../flame/tree';
import { chosenClass } from './classes';
import { offsetMap } from './offsets';
import { sharedOf } from './timeline';
import { chosen } from './work';

/** The samples that were chosen: whose they are, and of which class. */
export interface Only {
  /** Empty where all are. */
  label: string;
  flags: Uint8Array | null;
  index: number | null;
  /** The function that all stacks have. */
  focus: number | null;
}

export function onlyOf(profile: Profile, { by, who, class: key, focus }: State): Only {
  const whose = chosen(profile, by, who);
  const of = chosenClass(profile, key);
  const inside = focus !== null && focus < profile.names.length ? focus : null;
  const labels = [of?.label, whose?.label].filter((it) => it !== undefined);
  const below = inside === null ? '' : profile.names[inside]!;
  return {
    label: [labels.join(' of '), below].filter((it) => it !== '').join(' in '),
    focus: inside,
    flags: whose?.flags ?? null,
    index: of?.index ?? null,
  };
}

export function timeStrip(run: RunView, analysis: Analysis, store: Store, pointer: Pointer) {
  const { profile } = analysis;
  const element = h('div', { class: 'charts strip' });
  const [from, to] = run.span;
  const width = Math.max(0.25, Math.ceil((to - from) / 300));
  const bins = Math.max(1, Math.ceil((to - from) / width));
  const t = Array.from({ length: bins }, (_, i) => from + i * width);
  const times = { t, dt: new Array<number>(bins).fill(width) };
  const shared = { ...sharedOf(run, store, pointer, times, () => run.span), shaded: run.sampling_off };
  let panel: Panel | null = null;
  const map = offsetMap(run, profile, store);
  pointer.listen((t) => panel?.pointer(t));
  let drawn = '';
  const draw = (force = false): void => {
    const { frame } = store.state;
    const known = frame !== null && frame < profile.names.length ? frame : null;
    const only = onlyOf(profile, store.state);
    // Without a chosen function that which all stacks have.
    const wanted = { ...only, frame: known ?? only.focus };
    if (store.state.strip === 'offsets') {
      drawn = '';
      panel?.clear();
      panel = null;
      if (element.firstChild !== map.element) element.replaceChildren(map.element);
      const size = widthOf(element);
      if (size > 0) map.draw(analysis.whole, wanted, size, palette());
      return;
    }
    const key = `${known} ${only.index} ${only.flags} ${only.label}`;
    if (panel && !force && key === drawn) {
      panel.refresh();
      return;
    }
    drawn = key;
    const { all, part } = overTime(profile, analysis.whole, wanted, from, width, bins);
    const inCores = profile.period_ns > 0;
    // Waits of one second each second are one thread that waits.
    const isTime = profile.unit === 'nanoseconds';
    const scale = (inCores ? profile.period_ns / 1e9 : isTime ? 1e-9 : 1) / width;
    const rate = inCores ? 'cores' : isTime ? 'threads' : '';
    const inBytes = profile.unit === 'bytes';
    const format = (v: number): string =>
      inBytes ? `${bytes(v)}/s` : `${significant(v)} ${rate || `${profile.unit}/s`}`;
    const trim = (values: Float64Array): (number | null)[] => Array.from(values, (v) => v * scale);
    const parts = [known === null ? '' : profile.names[known]!, only.label];
    const name = parts.filter((part) => part !== '').join(' in ');
    const whole = name === '';
    const lines: Line[] = [
      {
        label: whole ? 'sampled' : 'all samples',
        values: trim(all),
        color: (p) => (whole ? p.ink : p.faint),
        format,
        width: 1.25,
        area: whole,
      },
    ];
    const label = known === null ? 'these samples' : 'this function';
    if (!whole) lines.push({ label, values: trim(part), color: (p) => p.accent, format, area: true });
    const title = whole ? 'samples over time' : name;
    const unit = `${rate || `${profile.unit} per second`}${whole ? '' : ', of all samples'}`;
    // A chart that is only taken out of the page still listens to the window.
    panel?.clear();
    panel = panelOf({ id: 'samples', title, unit, height: 62, lines }, shared, () => true);
    element.replaceChildren(panel.element);
    if (widthOf(element) > 0) panel.draw(widthOf(element), palette());
  };
  return { element, draw };
}
