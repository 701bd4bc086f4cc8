// Whose work it is: the node's Erlang processes by their part of the window. A row shows its part of the graph.

import type { Profile } from '../core/data';
import { barCell, type Child, columnHead, h, LongTable, stateChoice, tableOf } from '../core/dom';
import { grouped, percent, shortened } from '../core/format';
import type { State, Store } from '../core/state';
import { amount } from '../core/units';
import type { ProcessView } from '../core/view';
import type { Analysis } from '../flame/analysis';

type SplitBy = State['by'];

const STEP = 8;
const FURTHER = 50;
/** Letters of a name: two lines, or three on a phone. */
const LONGEST = 64;
/** A button in a row that chooses it; with a label where what it shows is shortened. */
export function rowButton(selected: boolean, label: string | null, choose: () => void, shown: Child | Child[]): Child {
  const state = { 'aria-pressed': selected ? 'true' : 'false', 'aria-label': label, onclick: choose };
  return h('button', { type: 'button', ...state }, shown);
}

/** Whose work something is. The key tells it from all others, whatever the broker calls them; the label is for people. */
interface Whose {
  key: string;
  label: string;
}

/** What the samples count for that were taken in no process. */
export const NOBODY: Whose = { key: 'none', label: 'no Erlang process' };

export function whose(process: ProcessView, by: SplitBy): Whose {
  const { label, id, role, connection, vhost } = process;
  const of = (parts: unknown[], text: string): Whose => ({ key: JSON.stringify(parts), label: text });
  if (by === 'process') return of(id === '' ? [label] : [label, role, vhost], label);
  if (by === 'role') return of([role], role || 'other processes');
  if (by === 'connection') return of([connection], (connection ?? 'other connections') || 'no connection');
  return of([vhost], (vhost ?? 'other virtual hosts') || 'no virtual host');
}

export interface WorkRow extends Whose {
  /** Processes that it is made of, and the identifier of the one that it is. */
  processes: number;
  id: string;
  weight: number;
}

export function split(profile: Profile, weights: Float64Array, by: SplitBy): WorkRow[] {
  const rows = new Map<string, WorkRow>();
  const nobody = weights[0]!;
  if (nobody > 0) rows.set(NOBODY.key, { ...NOBODY, processes: 0, id: '', weight: nobody });
  profile.processes.forEach((process, i) => {
    const weight = weights[i + 1]!;
    if (weight === 0) return;
    const { key, label } = whose(process, by);
    const { processes, id } = process;
    const row = rows.get(key);
    if (row) {
      row.weight += weight;
      row.processes += processes;
      row.id = '';
    } else rows.set(key, { key, label, processes, id, weight });
  });
  return [...rows.values()].sort((a, b) => b.weight - a.weight || (a.label < b.label ? -1 : 1));
}

/** Who was chosen, and per process, 0 being none, 1 where it belongs to them; null where nothing that exists was. */
export function chosen(profile: Profile, by: SplitBy, who: string): { label: string; flags: Uint8Array } | null {
  if (who === '') return null;
  const flags = new Uint8Array(profile.processes.length + 1);
  let label: string | null = null;
  if (who === NOBODY.key) {
    flags[0] = 1;
    ({ label } = NOBODY);
  }
  profile.processes.forEach((process, i) => {
    const it = whose(process, by);
    if (it.key !== who) return;
    flags[i + 1] = 1;
    ({ label } = it);
  });
  return label === null ? null : { label, flags };
}

export function workTable(profile: Profile, store: Store): { element: HTMLElement; draw(analysis: Analysis): void } {
  const by = stateChoice(
    store,
    'by',
    'split by',
    [
      ['process', 'process', 'Each queue, channel, connection'],
      ['role', 'role', 'All queues, all channels'],
      ['connection', 'connection', 'With all that works for it'],
      ['vhost', 'vhost', 'Virtual hosts'],
    ],
    () => ({ who: '' }),
  );
  const heads = [columnHead('share', 'num'), columnHead('whose')];
  const table = new LongTable<WorkRow>(STEP, FURTHER, (count, all) => `${grouped(count)} more of ${grouped(all)}`);
  const element = h(
    'div',
    { class: 'functions work' },
    h('div', { class: 'work-head' }, h('h3', {}, 'Whose work'), by),
    tableOf(null, 'Share of the samples by Erlang process', heads, table.body),
    table.more,
  );
  const one = (row: WorkRow, sum: number, most: number): HTMLElement => {
    const selected = store.state.who === row.key;
    const title = `${amount(profile, row.weight)} of ${amount(profile, sum)}`;
    const detail = row.processes > 1 ? `${grouped(row.processes)} processes` : row.id;
    const bar = barCell(title, percent(sum > 0 ? row.weight / sum : 0), row.weight, most);
    const choose = (): void => store.set({ who: selected ? '' : row.key, zoom: null }, true);
    const label = row.label.length > LONGEST ? row.label : null;
    const own = rowButton(selected, label, choose, shortened(row.label, LONGEST));
    const behind = h('span', { class: 'module' }, row.label.includes(detail) ? '' : detail);
    const name = h('td', { class: 'name', title: `${row.label} ${detail}` }, h('div', { class: 'cell' }, own, behind));
    return h('tr', { class: selected ? 'selected' : null }, bar, name);
  };
  const draw = (analysis: Analysis): void => {
    const rows = split(profile, analysis.work, store.state.by);
    const most = rows.reduce((top, row) => Math.max(top, row.weight), 0);
    table.draw(rows, (shown) => shown.map((row) => one(row, analysis.weights.sum, most)));
  };
  return { element, draw };
}
