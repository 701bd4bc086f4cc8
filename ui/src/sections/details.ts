// What exactly ran: the command that does it again, topology, configuration, versions, machine.

import { button, type Child, h, table } from '../core/dom';
import { grouped, visible } from '../core/format';
import type { RunView } from '../core/view';

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
  return h(
    'div',
    { class: 'command' },
    h('pre', { tabindex: 0, 'aria-label': 'Command' }, code),
    copy,
  );
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

function definitions(
  caption: string,
  rows: readonly (readonly [string, Child])[],
): HTMLElement | null {
  const known = rows.filter(([, v]) => v !== null && v !== '' && v !== undefined);
  if (known.length === 0) return null;
  return h(
    'table',
    { class: 'pairs' },
    h('caption', {}, caption),
    h(
      'tbody',
      {},
      known.map(([k, v]) => h('tr', {}, h('th', { scope: 'row' }, k), h('td', {}, v))),
    ),
  );
}

function topology(run: RunView): HTMLElement[] {
  const t = run.topology;
  const out: HTMLElement[] = [];
  const name = (text: string, empty: string): Child =>
    text === '' ? h('i', {}, empty) : h('code', {}, text);
  if (t.queues.length > 0) {
    out.push(
      h(
        'div',
        { class: 'scroll' },
        table(
          'Queues when the measured phase ended',
          [
            { label: 'queue' },
            { label: 'type' },
            { label: 'durable' },
            { label: 'messages', number: true },
            { label: 'consumers', number: true },
            { label: 'arguments' },
          ],
          t.queues.map((q) => [
            name(q.name, 'without a name'),
            q.type,
            q.durable ? 'yes' : 'no',
            grouped(q.messages),
            grouped(q.consumers),
            q.arguments.join(', '),
          ]),
        ),
      ),
    );
  }
  if (t.bindings.length > 0) {
    out.push(
      h(
        'div',
        { class: 'scroll' },
        table(
          'Bindings',
          [
            { label: 'exchange' },
            { label: 'type' },
            { label: 'routing key' },
            { label: 'destination' },
          ],
          t.bindings.map((b) => [
            name(b.source, 'default exchange'),
            t.exchanges.find((e) => e.name === b.source)?.type ?? (b.source === '' ? 'direct' : ''),
            name(b.routing_key, 'empty'),
            name(b.destination, 'without a name'),
          ]),
        ),
      ),
    );
  }
  if (t.omitted > 0)
    out.push(h('p', { class: 'hint' }, `${grouped(t.omitted)} more objects are not listed.`));
  return out;
}

export function details(run: RunView): HTMLElement {
  const hw = run.hardware;
  const settings = flatten(run.experiment);
  const machine = definitions('Machine', [
    ['processor', hw.cpu],
    ['cores', hw.cores > 0 ? String(hw.cores) : ''],
    ['memory', hw.memory_bytes > 0 ? `${(hw.memory_bytes / 1e9).toPrecision(3)} GB` : ''],
    ['system', hw.os],
    ['kernel', hw.kernel],
    ['clock source', hw.clock_source],
    ['virtual machine', hw.cpu === '' ? '' : hw.virtualised ? 'yes' : 'no'],
    ...hw.settings.map(([k, v]) => [k, v] as const),
  ]);
  const versions = definitions('Versions', [
    ['bellows', run.versions.bellows],
    [
      'broker',
      run.versions.broker ?? [run.broker.kind, run.broker.version].filter((t) => t).join(' '),
    ],
    ['runtime', run.versions.runtime],
    ['run', run.id],
    ['seed', run.seed],
  ]);
  return h(
    'section',
    { id: 'ran', 'aria-labelledby': 'ran-title' },
    h('header', {}, h('h2', { id: 'ran-title' }, 'What exactly ran')),
    command(run),
    topology(run),
    h(
      'div',
      { class: 'columns' },
      definitions(
        'Resolved configuration',
        settings.map(([k, v]) => [k, h('code', {}, visible(v))] as const),
      ),
      h('div', {}, versions, machine),
    ),
  );
}
