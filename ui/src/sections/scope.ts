// What the figures of a part of the page are of, while a window is chosen: of the window, or still of the whole phase.

import { clockOf } from '../core/clock';
import { h } from '../core/dom';
import type { Store } from '../core/state';
import type { RunView } from '../core/view';

const OF_WINDOW = ['glance', 'figures', 'burn', 'latency'];
const LIMIT = 'limit';
/** Parts without figures, or whose heading names the window itself. */
const WITHOUT = ['ran', 'when'];

export function markScopes(run: RunView, store: Store, main: HTMLElement): void {
  const clock = clockOf(run, store);
  const parts = [...main.children].filter(
    ({ id, className }) => (id !== '' || className === 'lead') && !WITHOUT.includes(id),
  );
  const marks = parts.map((part) => {
    const mark = h('span', { class: 'scope' });
    (part.querySelector(':scope > header h2') ?? part.lastElementChild ?? part).after(mark);
    return { id: part.id, mark };
  });
  const draw = (): void => {
    const { window } = store.state;
    const of = window ? `window ${window.map(clock.moment).join(' to ')}` : '';
    for (const { id, mark } of marks) {
      mark.hidden = window === null;
      const whole = id === LIMIT ? `whole phase; waits: ${of}` : 'whole phase';
      mark.textContent = OF_WINDOW.includes(id) ? of : whole;
    }
  };
  store.on(['window', 'clock'], draw);
  draw();
}
