// Everything that is computed of a profile for one window, remembered until the window changes.

import type { Profile } from '../core/data';
import { KINDS } from '../core/data';
import {
  callees,
  callers,
  classesOf,
  functions,
  leaves,
  link,
  markedWeight,
  outermost,
  search,
  type Tree,
  totals,
  type Weights,
  workOf,
} from './tree';

export interface FunctionRow {
  frame: number;
  self: number;
  total: number;
}

export class Analysis {
  readonly tree: Tree;
  private readonly flags: Uint8Array;
  private key = '';
  weights: Weights = { self: new Float64Array(), total: new Float64Array(), sum: 0 };
  /** The weight of each process in the window, behind that of the samples that are of none; of the chosen class. */
  work: Float64Array = new Float64Array(1);
  /** The weight of each class in the window, of the chosen processes. */
  classes: Float64Array = new Float64Array();
  /** The functions of the window. */
  rows: FunctionRow[] = [];
  private belowZoom: { zoom: number; rows: FunctionRow[] } | null = null;

  constructor(readonly profile: Profile) {
    this.tree = link(profile.frame, profile.parent);
    this.flags = outermost(this.tree, profile.names.length);
  }

  /** Adds up the samples of a window, of the marked processes alone and of one class alone where they are given. */
  window(
    from: number,
    to: number,
    marked: Uint8Array | null = null,
    only: number | null = null,
  ): void {
    const { timed } = this.profile;
    const first = timed ? from : Number.NEGATIVE_INFINITY;
    const last = timed ? to : Number.POSITIVE_INFINITY;
    const key = `${first},${last},${only},${marked}`;
    if (key === this.key) return;
    this.key = key;
    this.work = workOf(this.profile, first, last, only);
    const { self, sum } = leaves(this.profile, first, last, marked);
    this.classes = classesOf(this.profile, self);
    if (only !== null) {
      const of = this.profile.class;
      for (let i = 0; i < self.length; i++) if (of[i] !== only) self[i] = 0;
    }
    this.weights = { self, total: totals(self, this.profile.parent), sum };
    this.rows = this.functions(this.flags, -1);
    this.belowZoom = null;
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

  /** The function with the largest self share of the window; what has no name only where nothing has one. */
  hottest(): number | null {
    const { kind } = this.profile;
    const known = this.rows.filter((row) => KINDS[kind[row.frame]!] !== 'unknown');
    const list = known.length > 0 ? known : this.rows;
    return (
      list.reduce<FunctionRow | null>((a, b) => (a && a.self >= b.self ? a : b), null)?.frame ??
      null
    );
  }

  private functions(flags: Uint8Array, root: number): FunctionRow[] {
    const { names, kind } = this.profile;
    const { self, total } = functions(this.tree, this.weights, flags, names.length, root);
    const rows: FunctionRow[] = [];
    for (let frame = 0; frame < self.length; frame++) {
      // Threads are the graph's first row and no functions.
      if (total[frame]! > 0 && KINDS[kind[frame]!] !== 'thread') {
        rows.push({ frame, self: self[frame]!, total: total[frame]! });
      }
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

  callers(frame: number): { tree: Tree; weights: Weights } {
    return callers(this.tree, this.weights, this.flags, this.profile.names.length, frame);
  }

  callees(frame: number): { tree: Tree; weights: Weights } {
    return callees(this.tree, this.weights, this.flags, this.profile.names.length, frame);
  }
}
