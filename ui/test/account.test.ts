import { expect, test, vi } from 'vitest';
import type { LedgerSummary, RunView } from '../src/core/view';
import { account, arrived, program, windowHint } from '../src/sections/figures';

vi.mock('../src/sections/tile', () => ({ tile: (...cells: string[]) => cells.join(' | ') }));
vi.mock('../src/core/dom', async (original) => ({
  ...(await original<object>()),
  h: (tag: string, { href }: { href?: string }, ...content: string[]) =>
    `<${tag}${href ? ` ${href}` : ''}>${content.join('')}`,
}));

/** The tiles of an account of 1,200 messages, in which all else is none. */
function told(ledger: Partial<LedgerSummary>): string[] {
  const counts = ['lost', 'duplicated', 'outstanding', 'returned', 'reordered', 'corrupt'];
  const more = ['unconfirmed_missing', 'duplicated_redelivered', 'duplicated_resent'];
  const none = Object.fromEntries([...counts, ...more].map((name) => [name, 0]));
  const whole = { ...none, sent: 1200, exact: true, ...ledger } as unknown as LedgerSummary;
  return account(whole) as unknown as string[];
}

test('an account tells what was lost and duplicated, and of the rest what there was', () => {
  expect(told({})).toEqual([
    'lost | 0 | messages | of 1,200 | confirmed and never delivered, of 1,200 messages with warm-up and drain',
    'duplicated | 0 | deliveries | of 1,200 | delivered again without the redelivered flag; 0 with it',
  ]);
  const harm = { lost: 1, duplicated: 1, duplicated_redelivered: 3, duplicated_resent: 2, unconfirmed_missing: 4 };
  const rest = { outstanding: 1, returned: 2, reordered: 3, corrupt: 5, exact: false };
  expect(told({ ...harm, ...rest })).toEqual([
    'lost | 1 | message | 4 unconfirmed and missing | confirmed and never delivered, of 1,200, about messages with warm-up and drain',
    'duplicated | 1 | delivery | 3 redelivered | delivered again without the redelivered flag; 3 with it, 2 of messages sent again',
    'outstanding | 1 | message | of 1,200, about | confirmed and not delivered by the end of the drain; the broker may still hold them',
    'returned | 2 | messages | of 1,200, about | unroutable: no queue was bound',
    'reordered | 3 | deliveries | of 1,200, about | older than one before it',
    'corrupt | 5 | deliveries | of 1,200, about | not the content that was sent',
  ]);
});

/** Copies were among what was received, beside messages that were missing. */
test('what was received is told in messages beside its copies', () => {
  const of = (ledger: Partial<LedgerSummary>): string => {
    const none = { duplicated: 0, duplicated_redelivered: 0, duplicated_resent: 0, delivered: 4986 };
    return arrived({ received: { total: 5002, rate: 1 }, ledger: { ...none, ...ledger } as LedgerSummary });
  };
  expect(of({})).toBe('5,002');
  expect(of({ duplicated_redelivered: 10, duplicated_resent: 6 })).toBe('5,002 deliveries of 4,986 messages');
  expect(arrived({ received: { total: 5002, rate: 1 }, ledger: null })).toBe('5,002');
});

/** Rates over 7 s stood under a measured phase of 14 ms. */
test('rates of a load that ended by itself are over the times that the hint names', () => {
  const figures = { measured_s: 0.014, sent: { total: 500 }, received: { total: 500 } };
  const hint = (lasted: object | null): string =>
    windowHint({ figures: { ...figures, lasted } } as unknown as RunView, null);
  expect(hint({ sent_s: 0.014, completed_s: 0, received_s: 7.2 })).toBe(
    'the load ended by itself: sent in 0.014 s, received in 7.2 s, and rates are over these times; CPU is of the measured phase, 0.014 s',
  );
  expect(hint(null)).toContain('measured phase, 0 s');
});

/** Nothing named the file with the figures of a load that another program was. */
test('what a program printed is a link beside how it ended', () => {
  const ended = { command: 'load -x 5', status: 'exit status 7: no route', log: 'load-0.log' };
  const text = program(ended) as unknown as string;
  expect(text).toContain('<a load-0.log>load-0.log: what <code>load -x 5 printed');
  expect(text).toContain('its own figures among it (exit status 7: no route)');
});
