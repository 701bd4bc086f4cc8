// Samples by the innermost function of Erlang, Java or Go in their stacks: native code below it is work for it.

import type { Profile } from '../core/data';

/** The samples of one function of the language, or of one class that no such function calls. */
export interface LanguageRow {
  /** The function; null for a class. */
  frame: number | null;
  name: string;
  total: number;
  /** Weight of each class: the function's own code, and the native code below it. */
  classes: Float64Array;
}

/** Effects of a frame, as `language` of a profile has them. */
const FUNCTION = 1;
const FIRST = 2;

/** Per node: the innermost function of the language at or above it that is not hidden, -1 for none. */
export function innermost(profile: Profile, hide: readonly number[]): Int32Array {
  const { frame, parent, language } = profile;
  const hidden = new Set(hide);
  const out = new Int32Array(frame.length);
  for (let i = 0; i < out.length; i++) {
    const of = frame[i]!;
    const effect = hidden.has(of) ? 0 : language[of];
    const above = parent[i]!;
    if (effect === FUNCTION) out[i] = of;
    else out[i] = effect === FIRST || above < 0 ? -1 : out[above]!;
  }
  return out;
}

/** The rows of a window, largest first, from the weight of each stack; with `inside` of those stacks alone. */
export function languageRows(
  profile: Profile,
  functions: Int32Array,
  self: Float64Array,
  inside: Uint8Array | null,
): LanguageRow[] {
  const { classes, names } = profile;
  const rows = new Map<number, LanguageRow>();
  for (let i = 0; i < self.length; i++) {
    const weight = self[i]!;
    if (!(weight > 0) || (inside && !inside[i])) continue;
    const of = profile.class[i]!;
    const frame = functions[i]!;
    const isClass = frame < 0;
    // The keys of classes lie below those of functions.
    const key = isClass ? -1 - of : frame;
    const row = rows.get(key) ?? {
      frame: isClass ? null : frame,
      name: isClass ? classes[of]!.outside : names[frame]!,
      total: 0,
      classes: new Float64Array(classes.length),
    };
    rows.set(key, row);
    row.total += weight;
    row.classes[of]! += weight;
  }
  return [...rows.values()].sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1));
}
