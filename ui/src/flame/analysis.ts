// Everything that is computed of a profile for one window, remembered until the window changes.

import { KINDS, type Profile } from '../core/data';
import { type Chronology, chronology, countOf, MOST_IN_ORDER, type Wanted } from './chronology';
import { Counts } from './counts';
import { type Change, Difference, type Measured } from './difference';
import { innermost, type LanguageRow, languageRows } from './language';
import { type LineRow, linesOf } from './lines';
import { reshape, reshapedWeights, type Shown } from './reshape';
import {
  below,
  callees,
  callers,
  functions,
  insideOf,
  leaves,
  link,
  markedWeight,
  outermost,
  type Sums,
  search,
  type Tree,
  totals,
  type WeighedTree,
  type Weights,
} from './tree';

export interface FunctionRow {
  frame: number;
  self: number;
  total: number;
  /** How its self share differs from that of the rest, where that is asked for. */
  change?: Change;
}

/** Which samples are looked at, beside the window. */
export interface Filter {
  /** Per process, and 0 for none: whether it is looked at; null for all. */
  marked?: Uint8Array | null | undefined;
  /** The index of the class; null for all. */
  only?: number | null;
  /** The function that all stacks have; null for all stacks. */
  focus?: number | null;
}

/** What is changed of the stacks before they are added up. */
export interface Shape {
  hide: readonly number[];
  collapse: boolean;
}

export class Analysis {
  /** All stacks, and those that are shown: without what is hidden, recursion collapsed where the reader wants that. */
  readonly whole: Tree;
  tree: Tree;
  private shown: Shown | null = null;
  /** Functions that are left out of all stacks. */
  private hide: readonly number[] = [];
  /** Per node of all stacks: the innermost function of the language, once it was asked for. */
  private innermost: Int32Array | null = null;
  private readonly counts: Counts;
  /** All stacks, marked as those that are looked at. */
  private readonly everything: Uint8Array;
  /** The squares of the samples' weights, once they were asked for. */
  private squared: Float64Array | null = null;
  /** All of the phase that the window is compared with. */
  private phase: { key: string; all: Measured } | null = null;
  private readonly sums = new WeakMap<Weights, Sums>();
  private shapeKey = '';
  private flags: Uint8Array;
  private key = '';
  private wanted: Wanted | null = null;
  private ordered: Chronology | null = null;
  weights: Weights = { self: new Float64Array(), total: new Float64Array(), sum: 0 };
  /** The weight of each process in the window, behind that of the samples that are of none; of the chosen class. */
  work: Float64Array = new Float64Array(1);
  /** The weight of each class in the window, of the chosen processes. */
  classes: Float64Array = new Float64Array();
  rows: FunctionRow[] = [];
  /** How the window differs from the rest; null where that is not asked for. */
  difference: Difference | null = null;
  private belowZoom: { zoom: number; rows: FunctionRow[] } | null = null;

  constructor(readonly profile: Profile) {
    this.whole = link(profile.frame, profile.parent);
    this.counts = new Counts(profile);
    this.everything = new Uint8Array(profile.frame.length).fill(1);
    this.tree = this.whole;
    this.flags = outermost(this.tree, profile.names.length);
  }

  shape({ hide, collapse }: Shape): void {
    const key = `${hide.join()},${collapse}`;
    if (key === this.shapeKey || (this.shapeKey === '' && hide.length === 0 && !collapse)) return;
    this.shapeKey = key;
    this.key = '';
    this.hide = hide;
    this.innermost = null;
    const hidden = new Uint8Array(this.profile.names.length);
    for (const frame of hide) if (frame < hidden.length) hidden[frame] = 1;
    const same = hide.length === 0 && !collapse;
    this.shown = same ? null : reshape(this.whole, hidden, collapse);
    this.tree = this.shown?.tree ?? this.whole;
    this.flags = outermost(this.tree, this.profile.names.length);
  }

  /** The node that is shown for one of all stacks; null where there is none. */
  nodeOf(whole: number | null): number | null {
    if (whole === null || whole >= this.whole.frame.length) return null;
    return this.shown ? this.shown.map[whole]! : whole;
  }

  /** The first node of all stacks that a shown one stands for. */
  wholeOf(node: number): number {
    return this.shown ? this.shown.first[node]! : node;
  }

  /** Adds up the samples of a window, of those that the filter leaves, and those of a phase beside it to compare with. */
  window(
    from: number,
    to: number,
    { marked = null, only = null, focus = null }: Filter = {},
    phase: readonly [number, number] | null = null,
  ): void {
    const { timed } = this.profile;
    const first = timed ? from : Number.NEGATIVE_INFINITY;
    const last = timed ? to : Number.POSITIVE_INFINITY;
    const key = `${first},${last},${only},${focus},${marked},${phase}`;
    if (key === this.key) return;
    this.key = key;
    this.counts.move(first, last, marked, only);
    const { self, sum, work, classes } = this.counts;
    this.work = work;
    this.classes = classes;
    const wanted = this.leavesOf(only, focus);
    this.weights = this.weightsOf(self, sum, wanted, this.weights.total);
    // What is not wanted was taken out of the sums.
    if (wanted) this.counts.forget();
    this.difference = null;
    if (phase && timed) {
      const of = (a: number, b: number): Measured => this.measured(a, b, marked, wanted);
      const filter = `${this.shapeKey};${only},${focus},${marked},${phase}`;
      // Windows are moved while the phase stays.
      if (this.phase?.key !== filter) this.phase = { key: filter, all: of(...phase) };
      const here = this.measured(first, last, marked, wanted, this.weights);
      const within = first >= phase[0] && last <= phase[1];
      const common = within ? here : of(Math.max(first, phase[0]), Math.min(last, phase[1]));
      this.difference = new Difference(here, common, this.phase.all);
    }
    this.rows = this.functions(this.flags, -1);
    this.belowZoom = null;
    this.ordered = null;
    this.wanted = { from: first, to: last, leaves: wanted ?? this.everything, marked };
  }

  private weightsOf(self: Float64Array, sum: number, wanted: Uint8Array | null, total?: Float64Array): Weights {
    if (wanted) for (let i = 0; i < self.length; i++) if (!wanted[i]) self[i] = 0;
    const own = this.shown ? reshapedWeights(this.shown, self) : self;
    return { self: own, total: totals(own, this.tree.parent, total), sum };
  }

  /** A stretch of time, with the squares of the samples' weights. */
  private measured(
    from: number,
    to: number,
    marked: Uint8Array | null,
    wanted: Uint8Array | null,
    known: Weights | null = null,
  ): Measured {
    const { profile } = this;
    const added = (of: Float64Array): Weights => {
      const { self, sum } = leaves(profile, from, Math.max(from, to), marked, of);
      return this.weightsOf(self, sum, wanted);
    };
    const weights = known ?? added(profile.weight);
    // Where weights count samples, or may, each of them weighs 1.
    if (profile.counts_samples) return { weights, squares: weights };
    this.squared ??= profile.weight.map((weight) => weight * weight);
    return { weights, squares: added(this.squared) };
  }

  /** Per node of all stacks: whether its samples are of the class and the function; null where all are. */
  private leavesOf(only: number | null, focus: number | null): Uint8Array | null {
    if (only === null && focus === null) return null;
    const marked = new Uint8Array(this.profile.names.length).fill(focus === null ? 1 : 0);
    if (focus !== null && focus < marked.length) marked[focus] = 1;
    const out = below(this.whole, marked);
    const of = this.profile.class;
    if (only !== null) for (let i = 0; i < out.length; i++) if (of[i] !== only) out[i] = 0;
    return out;
  }

  /** The window's stacks in the order of time; where there are too many for that, their number. */
  inOrder(): Chronology | number {
    if (!this.wanted) return 0;
    if (!this.ordered) {
      const count = countOf(this.profile, this.wanted);
      if (count > MOST_IN_ORDER) return count;
      const map = this.shown?.map ?? null;
      this.ordered = chronology(this.profile, this.tree, map, this.wanted, this.weights.sum);
    }
    return this.ordered;
  }

  /** The functions at and below a node; all of the window for null. */
  rowsBelow(zoom: number | null): FunctionRow[] {
    if (zoom === null) return this.rows;
    if (this.belowZoom?.zoom !== zoom) {
      const flags = outermost(this.tree, this.profile.names.length, zoom);
      this.belowZoom = { zoom, rows: this.functions(flags, zoom) };
    }
    return this.belowZoom.rows;
  }

  /** The lines of a function in the stacks at and below a node, or in all; empty where none is known. */
  lines(frame: number, zoom: number | null): LineRow[] {
    const { profile, wanted } = this;
    if (!profile.lineTree || !wanted) return [];
    const rows = linesOf(profile, profile.lineTree, frame, wanted, this.inside(zoom));
    return rows.some((row) => row.name !== '') ? rows : [];
  }

  /** The functions of the language in the samples at and below a node, or in all; empty where there are none. */
  languageRows(zoom: number | null): LanguageRow[] {
    const { profile } = this;
    if (profile.language.length === 0) return [];
    this.innermost ??= innermost(profile, this.hide);
    return languageRows(profile, this.innermost, this.counts.self, this.inside(zoom));
  }

  /** Per node of all stacks: whether it stands at or below a shown one; null for all of them. */
  private inside(zoom: number | null): Uint8Array | null {
    if (zoom === null) return null;
    const inside = insideOf(this.tree, zoom);
    return this.shown ? Uint8Array.from(this.shown.map, (node) => inside[node]!) : inside;
  }

  /** The function with the largest self share of the window; what has no name only where nothing has one. */
  hottest(): number | null {
    const { kind } = this.profile;
    const known = this.rows.filter((row) => KINDS[kind[row.frame]!] !== 'unknown');
    const list = known.length > 0 ? known : this.rows;
    return list.reduce<FunctionRow | null>((a, b) => (a && a.self >= b.self ? a : b), null)?.frame ?? null;
  }

  private functions(flags: Uint8Array, root: number): FunctionRow[] {
    const { names, kind } = this.profile;
    const known = root < 0 ? this.sums : new WeakMap<Weights, Sums>();
    const sums = (weights: Weights): Sums => {
      const told = known.get(weights) ?? functions(this.tree, weights, flags, names.length, root);
      known.set(weights, told);
      return told;
    };
    const { self, total } = sums(this.weights);
    const changes = this.difference?.functions(sums) ?? null;
    const rows: FunctionRow[] = [];
    for (let frame = 0; frame < self.length; frame++) {
      // Threads are the graph's first row and no functions.
      if (KINDS[kind[frame]!] === 'thread') continue;
      const row: FunctionRow = { frame, self: self[frame]!, total: total[frame]! };
      const change = changes?.(frame);
      if (change) rows.push({ ...row, change });
      else if (row.total > 0) rows.push(row);
    }
    return rows;
  }

  /** The frames that a pattern finds and the share of samples below them; null for a bad pattern. */
  find(pattern: string): { hits: Uint8Array; share: number; frames: number } | null {
    const hits = search(this.profile.names, pattern);
    if (!hits) return null;
    const { sum } = this.weights;
    const share = sum > 0 ? markedWeight(this.tree, this.weights, hits) / sum : 0;
    const frames = this.rows.reduce((n, row) => n + hits[row.frame]!, 0);
    return { hits, share, frames };
  }

  callers(frame: number): WeighedTree {
    return callers(this.tree, this.weights, this.flags, this.profile.names.length, frame);
  }

  callees(frame: number): WeighedTree {
    return callees(this.tree, this.weights, this.flags, this.profile.names.length, frame);
  }
}
