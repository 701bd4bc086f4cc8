// What exactly ran: the command that does it again, topology, configuration, versions, machine.

import { ofSubject } from '../core/data';
import { button, h, later, pairs, scrolling, section } from '../core/dom';
import { counted, visible } from '../core/format';
import type { RunView } from '../core/view';
import type { View } from './timeline';
import { topology } from './topology';

/** An argument as a POSIX shell takes it. */
export function shellQuote(argument: string): string {
  if (/^[\w@%+=:,./-]+$/.test(argument)) return argument;
  return `'${argument.replaceAll("'", `'\\''`)}'`;
}

function command(run: RunView): HTMLElement | null {
  if (run.command.length === 0) return null;
  const text = run.command.map(shellQuote).join(' ');
  const copy = button('copy', () => {
    const done = (): void => {
      copy.textContent = 'copied';
      setTimeout(() => {
        copy.textContent = 'copy';
      }, 1500);
    };
    // From a file there may be no clipboard: then the text is selected, ready for Ctrl+C.
    const select = (): void => {
      getSelection()?.selectAllChildren(code);
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, select);
    else select();
  });
  const code = h('code', {}, text);
  return h('div', { class: 'command' }, h('pre', { tabindex: 0, 'aria-label': 'Command' }, code), copy);
}

/** Nested settings as `a.b.0 = value` lines. */
export function flatten(value: unknown, prefix = ''): [string, string][] {
  if (value !== null && typeof value === 'object') {
    const entries = Object.entries(value);
    if (entries.length === 0) return prefix ? [[prefix, Array.isArray(value) ? '[]' : '{}']] : [];
    return entries.flatMap(([k, v]) => flatten(v, prefix ? `${prefix}.${k}` : k));
  }
  return [[prefix, typeof value === 'string' ? value : String(value)]];
}

/** The resolved configuration: what differs from the defaults, and the rest folded. */
function configuration(run: RunView): HTMLElement {
  const changed = new Set(run.changed_keys);
  const all = flatten(run.experiment);
  const of = (title: string, rows: typeof all): HTMLElement => {
    const shown = rows.map(([key, value]) => [key, h('code', {}, visible(value))] as const);
    return scrolling(pairs(title, shown));
  };
  if (changed.size === 0) return of('Resolved configuration', all);
  const [own, defaults] = [true, false].map((is) => all.filter(([key]) => changed.has(key) === is));
  return h(
    'div',
    { class: 'configuration' },
    of('Configuration, as far as it differs from the defaults', own ?? []),
    later(counted(defaults?.length ?? 0, 'default'), () => of('Defaults', defaults ?? [])),
  );
}

export function details(run: RunView): View {
  const hw = run.hardware;
  const machine = pairs('Machine', [
    ['processor', hw.cpu],
    ['cores', hw.cores > 0 ? String(hw.cores) : ''],
    ['memory', hw.memory_bytes > 0 ? `${(hw.memory_bytes / 1e9).toPrecision(3)} GB` : ''],
    ['system', hw.os],
    ['kernel', hw.kernel],
    ['clock source', hw.clock_source],
    ['virtual machine', hw.cpu === '' ? '' : hw.virtualised ? 'yes' : 'no'],
    ...hw.settings.map(([k, v]) => [k, v] as const),
  ]);
  const versions = pairs('Versions', [
    ['bellows', run.versions.bellows],
    [ofSubject(run, 'broker'), run.versions.broker ?? [run.broker.kind, run.broker.version].filter((t) => t).join(' ')],
    ['runtime', run.versions.runtime],
    ['guarantee', run.guarantee],
    ['run', run.id],
    ['seed', run.seed],
  ]);
  const limits = pairs('Limits of AMQP 1.0', run.limits);
  const drawing = topology(run);
  const element = section(
    'ran',
    'What exactly ran',
    null,
    command(run),
    drawing?.element,
    h(
      'div',
      { class: 'columns' },
      configuration(run),
      h('div', {}, limits && scrolling(limits), scrolling(versions), scrolling(machine)),
    ),
  );
  return { element, draw: () => drawing?.draw() };
}
