// What the samples of a window add up to. Windows are moved by a little mostly: then the samples alone that come in or
// go out are counted. Weights are whole numbers, so that nothing is lost of them on the way.

import type { Profile } from '../core/data';
import { sampleAt } from './tree';

export class Counts {
  /** Per node: the weight of the samples that end there, of the marked processes. */
  readonly self: Float64Array;
  sum = 0;
  /** Per process, behind that of none: the weight of its samples, of the class that is looked at. */
  work: Float64Array = new Float64Array(1);
  /** Per class: the weight of the samples of the marked processes. */
  classes: Float64Array = new Float64Array();
  /** The samples that are counted, from the first to the one before the last; null where they are others. */
  private counted: { first: number; last: number } | null = null;
  private marked: Uint8Array | null = null;
  private only: number | null = null;

  constructor(private readonly profile: Profile) {
    this.self = new Float64Array(profile.nodes);
  }

  move(from: number, to: number, marked: Uint8Array | null, only: number | null): void {
    const { profile, counted } = this;
    const first = sampleAt(profile.time, from);
    const last = Math.max(first, sampleAt(profile.time, to));
    const same = marked === this.marked && only === this.only;
    this.marked = marked;
    this.only = only;
    this.counted = { first, last };
    const isNear = (of: { first: number; last: number }): boolean =>
      Math.abs(first - of.first) + Math.abs(last - of.last) < (last - first) / 2;
    if (counted && same && isNear(counted)) {
      this.add(first, counted.first, 1);
      this.add(counted.first, first, -1);
      this.add(counted.last, last, 1);
      this.add(last, counted.last, -1);
      return;
    }
    // The column of the window before is written over: a fresh one costs as much as the sums.
    this.self.fill(0);
    this.sum = 0;
    this.work = new Float64Array(profile.processes.length + 1);
    this.classes = new Float64Array(profile.classes.length);
    this.add(first, last, 1);
  }

  /** The sums are no longer those of the samples. */
  forget(): void {
    this.counted = null;
  }

  /** Adds the samples of a stretch, or takes them away; none where it ends before it begins. */
  private add(first: number, last: number, sign: 1 | -1): void {
    const { self, work, classes, marked, only } = this;
    const { leaf, weight, process, class: classOf } = this.profile;
    let sum = 0;
    for (let i = first; i < last; i++) {
      const by = sign * weight[i]!;
      const node = leaf[i]!;
      const of = process ? process[i]! : 0;
      const kind = classOf[node]!;
      sum += by;
      if (process && (only === null || kind === only)) work[of]! += by;
      if (process && marked && !marked[of]) continue;
      self[node]! += by;
      classes[kind]! += by;
    }
    this.sum += sum;
  }
}
