// How the shares of a window differ from those of the rest of the measured phase, and whether chance gives as much.
// The test is that of `bellows diff` (crates/compare/src/shares.rs).

import type { Sums, Weights } from './tree';

/** Standard errors that a difference has to exceed. */
const PROVEN = 3;
/** Fewer samples on both sides together tell nothing. */
const FEWEST = 10;

/** Samples added up: their weights, and the squares of these (each sample's own 1 where weights count samples). */
export interface Amount {
  weight: number;
  squares: number;
}

/** What the window and the rest have of something. */
export interface Change {
  /** Share of the window, and of the rest. */
  here: number;
  rest: number;
  proven: boolean;
}

const share = (part: number, whole: number): number => (whole > 0 ? part / whole : 0);

/** Both sides in units in which a sample of the whole weighs 1. */
function inSamples(part: Amount, whole: Amount): { part: Amount; whole: Amount } {
  const unit = whole.squares / whole.weight;
  if (!(unit > 0)) return { part: { weight: 0, squares: 0 }, whole: { weight: 0, squares: 0 } };
  const scaled = ({ weight, squares }: Amount): Amount => ({ weight: weight / unit, squares: squares / unit / unit });
  return { part: scaled(part), whole: scaled(whole) };
}

/** A two-proportion test with a pooled share; samples count by what their weights let vary. */
export function changeOf(here: Amount, all: Amount, rest: Amount, allRest: Amount): Change {
  const change: Change = {
    here: share(here.weight, all.weight),
    rest: share(rest.weight, allRest.weight),
    proven: false,
  };
  const a = inSamples(here, all);
  const b = inSamples(rest, allRest);
  const weight = a.part.weight + b.part.weight;
  const squares = a.part.squares + b.part.squares;
  const whole = a.whole.weight + b.whole.weight;
  const oneIsEmpty = a.whole.weight <= 0 || b.whole.weight <= 0;
  if (oneIsEmpty || !(weight * (weight / squares) >= FEWEST)) return change;
  const pooled = Math.min(weight / whole, 1);
  const inside = squares / weight;
  const outside = whole > weight ? (a.whole.squares + b.whole.squares - squares) / (whole - weight) : 0;
  const weighs = inside * (1 - pooled) + Math.max(outside, 0) * pooled;
  const each = 1 / a.whole.weight + 1 / b.whole.weight;
  const error = Math.sqrt(pooled * (1 - pooled) * weighs * each);
  change.proven = Math.abs(change.here - change.rest) > PROVEN * error;
  return change;
}

/** Weights of the nodes of a tree, and the squares of what they are made of. */
export interface Measured {
  weights: Weights;
  /** The same where each sample counts 1. */
  squares: Weights;
}

/** What is left of a sum without a part; what rounding leaves of nothing is nothing. */
function left(all: number, part: number): number {
  return all - part > all * 1e-9 ? all - part : 0;
}

/** The window beside the rest, which is the phase without what it has in common with the window. */
export class Difference {
  /** The largest change of a node that is proven: it has the full colour. */
  readonly full: number;
  /** Share of the rest whose stacks have no width in the window. */
  readonly unseen: number;

  constructor(
    private readonly here: Measured,
    private readonly common: Measured,
    private readonly phase: Measured,
  ) {
    let full = 0;
    let unseen = 0;
    const [x, y, z] = [here.weights, common.weights, phase.weights];
    const [inWindow, allInWindow, restSum] = [x.total, x.sum, this.restSum()];
    const [commonTotal, commonSelf] = [y.total, y.self];
    const [phaseTotal, phaseSelf] = [z.total, z.self];
    // Where weights are no samples, few may have many.
    const few = here.squares === x ? FEWEST : 0;
    for (let node = 0; node < inWindow.length; node++) {
      if (!(inWindow[node]! > 0)) {
        // Where no sample of the phase ends, none is left.
        if (phaseSelf[node]! > 0) unseen += left(phaseSelf[node]!, commonSelf[node]!);
        continue;
      }
      const inRest = left(phaseTotal[node]!, commonTotal[node]!);
      const by = Math.abs(inWindow[node]! / allInWindow - share(inRest, restSum));
      // Most nodes are of a few samples, and few differ by more than those before them.
      if (by > full && inWindow[node]! + inRest >= few && this.of(node).proven) full = by;
    }
    this.full = full;
    this.unseen = share(unseen, restSum);
  }

  get empty(): boolean {
    return !(this.restSum() > 0) || !(this.here.weights.sum > 0);
  }

  of(node: number): Change {
    return this.between((it) => it.total[node]!);
  }

  /** What functions have of both at the leaf, by their frames; null for a function that is in neither. */
  functions(sums: (weights: Weights) => Sums): (frame: number) => Change | null {
    return (frame) =>
      sums(this.here.weights).total[frame]! > 0 || this.restOf((of) => sums(of.weights).total[frame]!) > 0
        ? this.between((it) => sums(it).self[frame]!)
        : null;
  }

  private restSum(): number {
    return this.restOf((of) => of.weights.sum);
  }

  private restOf(sum: (of: Measured) => number): number {
    return left(sum(this.phase), sum(this.common));
  }

  /** What something has of both, by its sum in the weights of each. */
  private between(sum: (weights: Weights) => number): Change {
    const amount = (of: (pick: (it: Measured) => number) => number): Amount => ({
      weight: of((it) => sum(it.weights)),
      squares: of((it) => sum(it.squares)),
    });
    const whole = (of: (pick: (it: Measured) => number) => number): Amount => ({
      weight: of((it) => it.weights.sum),
      squares: of((it) => it.squares.sum),
    });
    const here = (pick: (it: Measured) => number): number => pick(this.here);
    const rest = (pick: (it: Measured) => number): number => this.restOf(pick);
    return changeOf(amount(here), whole(here), amount(rest), whole(rest));
  }
}
