import { describe, expect, test } from 'vitest';
import { roundTimes } from '../src/charts/time-axis';
import { csv } from '../src/core/dom';
import {
  brief,
  bytes,
  bytesTick,
  duration,
  durationTick,
  fittedName,
  grouped,
  inDrain,
  megabytes,
  nameForms,
  offBy,
  percent,
  shortened,
  si,
  significant,
  siTick,
  supports,
  timeStep,
  timeTick,
  unbroken,
  visible,
  wallClock,
} from '../src/core/format';

describe('numbers', () => {
  test('durations print as the console prints them', () => {
    // The same pairs as in crates/measure/src/units.rs.
    expect([0, 812, 1_000, 9_994, 9_995].map(duration)).toEqual(['0 ns', '812 ns', '1.00 µs', '9.99 µs', '10.0 µs']);
    expect([99_949, 99_950, 999_499].map(duration)).toEqual(['99.9 µs', '100 µs', '999 µs']);
    expect([999_500, 4_210_000, 999_499_999].map(duration)).toEqual(['1.00 ms', '4.21 ms', '999 ms']);
    expect([999_500_000, 31e9, 3_600e9].map(duration)).toEqual(['1.00 s', '31.0 s', '3600 s']);
    expect([80_000, 1_240_000].map((ns) => offBy(ns, 'ms'))).toEqual(['0.08', '1.2']);
  });

  test('three significant digits, grouped, carried over where rounding does', () => {
    expect([54_812.3, 9.996, 0.01234].map(significant)).toEqual(['54,800', '10.0', '0.0123']);
    expect([999_600, -1.234, 0, Number.NaN].map(significant)).toEqual(['1,000,000', '-1.23', '0', '–']);
  });

  test('prefixes are chosen by the rounded value', () => {
    expect([999, 54_812, 999_600].map(si)).toEqual(['999', '54.8\u202fk', '1.00\u202fM']);
    expect([20_000, 0.5].map(siTick)).toEqual(['20\u202fk', '0.5']);
    expect(durationTick(200_000_000)).toBe('200 ms');
  });

  test('exact values keep all digits', () => {
    expect([1_234_567, -0.2].map((it) => grouped(it))).toEqual(['1,234,567', '0']);
    expect([224.6, 1_234].map(megabytes)).toEqual(['225 MB', '1.23 GB']);
    expect([bytes(-150e6), bytes(-12), bytes(1_234)]).toEqual(['-150 MB', '-12.0 B', '1.23 kB']);
  });

  test('shares never print as zero when they are not', () => {
    expect([0.095, 0.00001, 0, 1].map(percent)).toEqual(['9.50 %', '< 0.01 %', '0 %', '100 %']);
  });

  test('long runs count minutes and hours', () => {
    expect([timeTick(65, 70), timeTick(125, 600), timeTick(3_725, 7_200)]).toEqual(['65', '2:05', '1:02:05']);
  });

  test('a percentile needs ten samples beyond it', () => {
    expect([99_999, 100_000].map((count) => supports(count, 99.99))).toEqual([false, true]);
    expect([19, 20].map((count) => supports(count, 50))).toEqual([false, true]);
  });
});

test('control and direction characters are shown, everything else stays', () => {
  expect(visible('a\u001b[31m\u202eb\u007f')).toBe('a␛[31m⟨U+202E⟩b␡');
  expect(visible('$rabbit_exchange:route/2 – <b>')).toBe('$rabbit_exchange:route/2 – <b>');
});

test('long names are shortened in the middle, and what tells them apart stays', () => {
  expect(shortened('orders-eu-1', 12)).toBe('orders-eu-1');
  const shorten = (end: string) => shortened(`orders-of-the-web-shop-${end}`, 16);
  expect([shorten('eu-1'), shorten('eu-2')]).toEqual(['orders-o…op-eu-1', 'orders-o…op-eu-2']);
  expect(shortened('😀😀😀😀😀', 3)).toBe('😀…😀');
});

test('a cell of a spreadsheet is never a formula', () => {
  expect(csv([['=1+1', 'a"b', 2, null]])).toBe(`'=1+1,"a""b",2,\n`);
});

describe('ticks and labels', () => {
  test('ticks of bytes have the unit that suits them', () => {
    expect([0, 500, 1_500].map(bytesTick)).toEqual(['0 B', '500 B', '1.5 kB']);
    expect([20e6, 2.5e9, 1e12].map(bytesTick)).toEqual(['20 MB', '2.5 GB', '1 TB']);
  });

  test('long texts are cut behind a word', () => {
    expect(brief('a short one', 20)).toBe('a short one');
    const long = 'metrics: 7 pages scraped, p50 71.2 ms, p99 93.4 ms';
    expect(brief(long, 30)).toBe('metrics: 7 pages scraped, p50…');
    expect(brief(long, 27)).toBe('metrics: 7 pages scraped…');
    // One long word is cut anywhere, and no character in half.
    expect(brief('x'.repeat(50), 10)).toBe(`${'x'.repeat(9)}…`);
    expect([...brief('🙂'.repeat(50), 10)]).toHaveLength(10);
  });
});

describe('names of functions', () => {
  test('lose their module first, part by part, and then their arity', () => {
    for (const [name, ...shorter] of [
      ['$rabbit_channel:handle_method/3', 'handle_method/3', 'handle_method'],
      ['rabbit_fifo:apply/3', 'apply/3', 'apply'],
      ['$mod:-fun/1-fun-0-/2', '-fun/1-fun-0-/2', '-fun/1-fun-0-'],
      ['broker::reactor::Reactor::run', 'reactor::Reactor::run', 'Reactor::run', 'run'],
      ['bellows::main::{{closure}}', 'main::{{closure}}'],
      ['<std::vec::Vec<T> as a::B>::from', 'from'],
      ['java.util.HashMap.get', 'util.HashMap.get', 'HashMap.get', 'get'],
      ['tcp_sendmsg_locked.constprop.0'],
      ['[deeper frames]'],
    ] as const)
      expect(nameForms(name)).toEqual([name, ...shorter]);
  });

  test('are whole as long as they fit, and never a stump', () => {
    const fitted = (name: string, most: number): string => fittedName(name, (text) => text.length <= most);
    const name = '$rabbit_channel:handle_method/3';
    expect([31, 30, 14].map((most) => fitted(name, most))).toEqual([name, 'handle_method/3', 'handle_method']);
    expect([10, 7].map((most) => fitted(name, most))).toEqual(['handl…thod', '']);
    expect(fitted('main', 4)).toBe('main');
  });
});

describe('times', () => {
  test('of the wall clock are in UTC', () => {
    const at = Date.UTC(2026, 10, 21, 0, 12, 33, 40);
    expect([0, 1, 3].map((digits) => wallClock(at, digits))).toEqual(['00:12:33', '00:12:33.0', '00:12:33.040']);
    // Sums of seconds are not exact.
    expect(wallClock(Date.UTC(2026, 10, 21, 0, 12, 34) - 0.4)).toBe('00:12:34');
  });

  test('stand at round steps, by either clock', () => {
    expect([0.0011, 4, 17, 100, 90_000].map(timeStep)).toEqual([0.002, 5, 30, 120, 172_800]);
    expect(roundTimes([0, 65], 12)).toEqual({ step: 10, times: [0, 10, 20, 30, 40, 50, 60] });
    // The load began at second 33 of a minute.
    expect(roundTimes([0, 65], 12, () => 3).times).toEqual([7, 17, 27, 37, 47, 57]);
  });
});

test('a value stays with its unit', () => {
  const text = 'sent 2,550,000 msg/s for 8 s; p99 1.28 ms, 12 % of 2 cores, 31 M in 3 steps';
  const kept = '2,550,000~msg/s for 8~s; p99 1.28~ms, 12~% of 2~cores, 31~M in 3 steps';
  expect(unbroken(text)).toBe(`sent ${kept.replaceAll('~', '\u00a0')}`);
});

/** `25.0 requests/s` of 4 s stood above `200 answered`. */
test('the tile of a probe says how many were answered in the drain', () => {
  expect(inDrain(200, 25, 4)).toBe(' (100 in the drain)');
  expect(inDrain(200, 50, 4)).toBe('');
});
