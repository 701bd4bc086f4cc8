// What is compared with what, whether it may be believed, and how it was decided.

import { h, remarkList, scrolling, section, table, withCode } from '../core/dom';
import { counted, grouped } from '../core/format';
import type { ComparisonOutcome, ComparisonView, SideView, SideWarning } from '../core/view';
import { nameOfCode, ranked, titled, toWarnings, warningLists } from '../sections/warnings';
import { nameOf } from './runs';

export const OUTCOMES: Record<ComparisonOutcome, string> = {
  worse: 'worse',
  better: 'better',
  same: 'the same',
  undecided: 'inconclusive',
  noise: 'A against itself',
};

/** What a comparison and a matrix of them have in common. */
type About = Pick<
  ComparisonView,
  'name' | 'created' | 'outcome' | 'warnings' | 'forced' | 'remarks' | 'a' | 'b' | 'differences' | 'notes' | 'hardware'
>;

export function masthead(view: About, what = 'comparison of two sides'): HTMLElement[] {
  const state = h('span', { class: `state outcome ${view.outcome}` }, OUTCOMES[view.outcome]);
  const cautions = [...view.warnings, ...view.forced.map(() => ({ tier: 'caution' as const }))];
  return [...titled(view.name, [what], view.created), state, toWarnings(cautions)];
}

export function lead(headline: string, explained: readonly string[] = []): HTMLElement {
  const further = explained.map((text) => h('p', { class: 'headline explained' }, withCode(text)));
  return h('div', { class: 'lead' }, h('p', { class: 'headline' }, withCode(headline)), further);
}

/** Both sides in a line each, and in which keys their experiments differ. */
export function sides(view: About): HTMLElement {
  const side = (name: 'A' | 'B', of: SideView): HTMLElement => {
    const left = of.left_out.length > 0 ? `; ${counted(of.left_out.length, 'run')} left out` : null;
    return h('p', {}, h('b', { class: `side-name ${name.toLowerCase()}` }, name), ` ${of.told}`, left);
  };
  const differ = view.differences.map(({ key, a, b }) => {
    const [from, to] = [h('span', { class: 'a' }, a ?? 'none'), h('span', { class: 'b' }, b ?? 'none')];
    return h('li', {}, h('code', {}, key), ' ', from, ' → ', to);
  });
  const list = h('ul', { class: 'differ', 'aria-label': 'What differs in the experiments' }, differ);
  return h('div', { class: 'sides' }, side('A', view.a), side('B', view.b), differ.length > 0 && list);
}

function share(of: SideWarning, view: About): string {
  const part = (count: number, side: SideView, name: string): string =>
    `${grouped(count)} of ${counted(side.runs.length, 'run')} of ${name}`;
  return `in ${part(of.a, view.a, 'A')}, ${part(of.b, view.b, 'B')}`;
}

const OPEN = 3;

/** What no warnings mean: a log has no place for one. */
function warnedOf({ a }: About): string {
  return a.logs
    ? ' Histogram logs hold none: whether the load generator kept up, they do not say.'
    : ' No run that counts has one.';
}

/** Why it might not be believed: what was forced, what the runs' warnings say, what was made anew. */
export function belief(view: About): HTMLElement {
  const forced = view.forced.map((text) =>
    h('li', { class: 'caution' }, h('b', {}, 'Compared all the same:'), withCode(` ${text}`)),
  );
  const warned = ranked(view.warnings).map((it) =>
    h('li', { class: it.tier }, h('b', {}, nameOfCode(it.code)), withCode(` ${share(it, view)}: ${it.text}`)),
  );
  const notes = view.remarks.map((text) => h('li', { class: 'note' }, withCode(text)));
  const none = forced.length + warned.length === 0;
  return section(
    'warnings',
    'Warnings',
    null,
    none && h('p', { class: 'fine' }, h('b', {}, 'No warnings.'), warnedOf(view)),
    warningLists([...forced, ...warned, ...notes], OPEN),
  );
}

export function remarks({ notes, hardware }: About): HTMLElement {
  const machine = `Machine: ${hardware.cpu} with ${grouped(hardware.cores)} cores.`;
  return remarkList(...notes, hardware.cpu && machine);
}

export function details(view: ComparisonView): HTMLElement {
  const left = [
    ...view.a.left_out.map((it) => ['A', it.id, h('span', {}, withCode(it.why))]),
    ...view.b.left_out.map((it) => ['B', it.id, h('span', {}, withCode(it.why))]),
  ];
  const most = Math.max(view.a.runs.length, view.b.runs.length);
  const runs = Array.from({ length: most }, (_, i) => [String(i + 1), nameOf(view.a.runs[i]), nameOf(view.b.runs[i])]);
  const [caption, number] = view.paired ? ['Pairs that count', 'pair'] : ['Runs that count', ''];
  return section(
    'decided',
    'How it was decided',
    null,
    remarks(view),
    scrolling(table(caption, [{ number }, 'A', 'B'], runs)),
    left.length > 0 && scrolling(table('Runs that do not count', ['side', 'run', 'why'], left)),
  );
}
