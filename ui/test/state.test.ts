import { describe, expect, test } from 'vitest';
import { fromFragment, INITIAL, type State, Store, toFragment } from '../src/core/state';

describe('fragment', () => {
  test('what is as at first leaves no trace', () => {
    expect(toFragment(INITIAL)).toBe('');
    expect(fromFragment('')).toEqual(INITIAL);
  });

  test('every choice survives the way through the address', () => {
    const state: State = {
      window: [12.5, 20],
      axis: 'window',
      clock: 'wall',
      event: 'sched:sched_process_fork',
      strip: 'offsets',
      zoom: 42,
      frame: 7,
      focus: 9,
      hide: [3, 14],
      collapse: true,
      difference: true,
      search: '^\\$rabbit & #<script>',
      shape: 'callers',
      order: 'name',
      sort: 'change',
      table: 'raw',
      by: 'connection',
      who: '<0.12.0> & #',
      class: 'kernel_network',
      metric: 'end_to_end',
      panels: ['machine/CPU & #', 'queues/a|b=c'],
      theme: 'dark',
    };
    // Also the profile of a node of a cluster.
    for (const all of [state, { ...INITIAL, event: 'cpu@1' }]) expect(fromFragment(`#${toFragment(all)}`)).toEqual(all);
  });

  test('nonsense is ignored piece by piece', () => {
    const state = fromFragment(
      '#t=9-3&event=%3Cb%3E&strip=x&hide=1.x&focus=a&recursion=no&difference=1&zoom=-1&frame=abc&shape=cube&theme=dark&sort=__proto__&table=x&class=A%20b',
    );
    expect(state).toEqual({ ...INITIAL, theme: 'dark' });
    expect(fromFragment('#t=1-2-3').window).toBeNull();
  });
});

describe('store', () => {
  test('tells what changed, and publishes only changes', () => {
    const published: [string, boolean][] = [];
    const store = new Store('', (fragment, step) => published.push([fragment, step]));
    const heard: string[][] = [];
    store.listen((_, changed) => heard.push([...changed]));
    store.set({ search: 'ets' });
    store.set({ search: 'ets' });
    store.set({ window: [1, 2], zoom: 3 }, true);
    expect(published).toEqual([
      ['search=ets', false],
      ['t=1-2&zoom=3&search=ets', true],
    ]);
    expect(heard).toEqual([['search'], ['window', 'zoom']]);
  });

  test('going back loads without publishing', () => {
    const published: string[] = [];
    const store = new Store('#zoom=3', (fragment) => published.push(fragment));
    store.load('');
    expect(store.state.zoom).toBeNull();
    expect(published).toEqual([]);
  });
});
