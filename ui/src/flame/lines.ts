// The lines of one function, and what of its time each has.

import type { LineTree, Profile } from '../core/data';
import type { Wanted } from './chronology';
import { leaves, totals } from './tree';

export interface LineRow {
  /** `rabbit_channel.erl:512`; where the line is not known, empty. */
  name: string;
  self: number;
  total: number;
}

/** The lines of a function, largest total first; with `inside` only where its stack is one of those. */
export function linesOf(
  profile: Profile,
  lines: LineTree,
  frame: number,
  { from, to, leaves: wanted, marked }: Wanted,
  inside: Uint8Array | null,
): LineRow[] {
  const { of } = lines;
  const { parent, line } = lines.tree();
  const counted = { ...profile, leaf: lines.leaf, nodes: lines.nodes };
  const { self } = leaves(counted, from, to, marked);
  for (let i = 0; i < self.length; i++) if (!wanted[of[i]!]) self[i] = 0;
  const total = totals(self, parent);
  const rows = new Map<number, LineRow>();
  for (let i = 0; i < parent.length; i++) {
    const is = (node: number): boolean => profile.frame[of[node]!] === frame && (!inside || inside[of[node]!] === 1);
    if (total[i] === 0 || !is(i)) continue;
    const at = line[i]!;
    const row = rows.get(at) ?? { name: nameOf(lines, at), self: 0, total: 0 };
    rows.set(at, row);
    row.self += self[i]!;
    let above = parent[i]!;
    while (above >= 0 && !(line[above] === at && is(above))) above = parent[above]!;
    // A function that calls itself counts once.
    if (above < 0) row.total += total[i]!;
  }
  const named = [...rows.values()];
  return named.sort((a, b) => b.total - a.total || b.self - a.self || (a.name < b.name ? -1 : 1));
}

function nameOf({ files, file, number }: LineTree, line: number): string {
  const name = files[file[line]!]!;
  if (number[line] === 0) return '';
  return name === '' ? `line ${number[line]}` : `${name}:${number[line]}`;
}
