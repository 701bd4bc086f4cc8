import { describe, expect, test } from 'vitest';
import type { Profile } from '../src/core/data';
import { Analysis } from '../src/flame/analysis';
import { numbers, profileOf } from './helpers';

/** A profile from folded text whose frames are `function@line`, or `function` where no line is known. */
function withLines(samples: string[]): Profile {
  const plain = (text: string): string => text.replace(/@\d+/g, '');
  const profile = profileOf(samples.map(plain));
  const byLine = profileOf(samples);
  const at = byLine.names.map((name) => Number(name.split('@')[1] ?? 0));
  const number = [...new Set([0, ...at])];
  // Which stack of functions each stack of lines is of.
  const child = new Map<string, number>();
  profile.parent.forEach((p, i) => {
    child.set(`${p} ${profile.frame[i]}`, i);
  });
  const of = new Uint32Array(byLine.nodes);
  for (let i = 0; i < of.length; i++) {
    const name = plain(byLine.names[byLine.frame[i]!]!);
    const above = byLine.parent[i]! < 0 ? -1 : of[byLine.parent[i]!]!;
    of[i] = child.get(`${above} ${profile.names.indexOf(name)}`)!;
  }
  const { nodes, parent, leaf } = byLine;
  const head = { nodes, bytes: 0, files: ['', 'a.erl'], file: number.map((it) => (it > 0 ? 1 : 0)), number };
  const line = Uint32Array.from(byLine.frame, (frame) => number.indexOf(at[frame]!));
  return { ...profile, lines: head, lineTree: { ...head, of, leaf, tree: () => ({ parent, line }) } };
}

describe('lines of a function', () => {
  const profile = withLines(['0 t;f@3;g@9', '1 t;f@3;g', '2 t;f@7', '3 t;f@7;f@3;g@9', '4 t;h;f@3', '5 t;h']);
  const lines = (name: string, analysis: Analysis, zoom: number | null = null) =>
    analysis.lines(profile.names.indexOf(name), zoom).map((it) => `${it.name} self ${it.self} of ${it.total}`);

  test('have what stands at and below them, recursion once', () => {
    const analysis = new Analysis(profile);
    analysis.window(0, 10);
    expect(lines('f', analysis)).toEqual(['a.erl:3 self 1 of 4', 'a.erl:7 self 1 of 2']);
    expect(lines('g', analysis)).toEqual(['a.erl:9 self 2 of 2', ' self 1 of 1']);
    expect(lines('h', analysis)).toEqual([]);
  });

  test('follow the window, the focus and the part that is looked at', () => {
    const analysis = new Analysis(profile);
    analysis.window(2, 10);
    expect(lines('f', analysis)).toEqual(['a.erl:3 self 1 of 2', 'a.erl:7 self 1 of 2']);
    analysis.window(0, 10, { focus: profile.names.indexOf('g') });
    expect(lines('f', analysis)).toEqual(['a.erl:3 self 0 of 3', 'a.erl:7 self 0 of 1']);
    analysis.window(0, 10);
    const below = (...path: string[]): number =>
      path.reduce((node, name) => {
        const frame = profile.names.indexOf(name);
        const { tree } = analysis;
        return tree.frame.findIndex((it, i) => it === frame && tree.parent[i] === node);
      }, -1);
    expect(lines('f', analysis, below('t', 'h'))).toEqual(['a.erl:3 self 1 of 1']);
    expect(lines('f', analysis, below('t', 'f', 'f'))).toEqual(['a.erl:3 self 0 of 1']);
    analysis.shape({ hide: [profile.names.indexOf('h')], collapse: true });
    analysis.window(0, 10);
    expect(lines('f', analysis, below('t', 'f'))[0]).toBe('a.erl:3 self 1 of 4');
  });

  test('add up as a plain model does', () => {
    const random = numbers(7);
    for (let round = 0; round < 20; round++) {
      const stacks = Array.from({ length: 200 }, () => {
        const frames = Array.from({ length: 1 + random(5) }, () => {
          const line = random(4);
          return `${'fgh'[random(3)]}${line > 0 ? `@${line}` : ''}`;
        });
        return ['t', ...frames];
      });
      const profile = withLines(stacks.map((stack, i) => `${i} ${stack.join(';')}`));
      const analysis = new Analysis(profile);
      analysis.window(50, 150);
      for (const name of ['f', 'g', 'h']) {
        const self = new Map<string, number>();
        const total = new Map<string, number>();
        const add = (to: Map<string, number>, key: string): unknown => to.set(key, (to.get(key) ?? 0) + 1);
        for (const stack of stacks.slice(50, 150)) {
          const of = stack.filter((frame) => frame.split('@')[0] === name);
          for (const frame of new Set(of)) add(total, frame);
          const leaf = stack.at(-1)!;
          if (leaf.split('@')[0] === name) add(self, leaf);
        }
        const key = (line: string): string => (line ? `${name}@${line.split(':')[1]}` : name);
        for (const row of analysis.lines(profile.names.indexOf(name), null)) {
          expect([row.self, row.total]).toEqual([self.get(key(row.name)) ?? 0, total.get(key(row.name))]);
          total.delete(key(row.name));
        }
        expect(total.size).toBe(0);
      }
    }
  });
});
