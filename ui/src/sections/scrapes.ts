// What pages of metrics cost that were requested beside the load: a figure for each page, and all of them in a table.

import { type Child, h } from '../core/dom';
import { bytes, counted, duration, exactDuration, grouped, visible } from '../core/format';
import type { RunView, ScrapedPage } from '../core/view';
import { percentileCell } from './percentile-cell';
import { type Tile, tile } from './tile';

/** Requests that brought no page, in words: `2 failed, 1 not sent`. */
function missed(page: ScrapedPage): string {
  const parts: [number, string][] = [
    [page.failed, 'failed'],
    [page.unanswered, 'unanswered'],
    [page.not_sent, 'not sent'],
  ];
  return parts
    .filter(([number]) => number > 0)
    .map(([number, what]) => `${grouped(number)} ${what}`)
    .join(', ');
}

/** How long each page took. */
export function scrapeTiles(run: RunView): Tile[] {
  return run.figures.scrapes.map((page) => {
    const { response } = page;
    const time = response.count > 0 ? duration(response.p50_ns) : '–';
    const [value, unit] = time.split(' ') as [string, string?];
    const size =
      page.completed > 0
        ? `${counted(page.completed, 'page')}, ${bytes(page.page_bytes)} each (median)`
        : 'no page';
    const under = [size, missed(page)].filter(Boolean).join(', ');
    const exact = `${visible(page.url)}: from when each was due until it had been read, p99 ${duration(response.p99_ns)}, max ${duration(response.max_ns)}; ${bytes(page.received_bytes)} received`;
    return tile(`scrape ${visible(page.name)}`, value, unit ?? '', under, exact);
  });
}

/** All pages; null where none was requested. */
export function scrapeTable(run: RunView): HTMLElement | null {
  const { scrapes } = run.figures;
  if (scrapes.length === 0) return null;
  const number = (text: Child, title: string | null = null): HTMLElement =>
    h('td', { class: 'num', title }, text);
  const time = (page: ScrapedPage, percentile: number, ns: number): HTMLElement =>
    number(percentileCell(page.response, percentile, ns));
  return h(
    'div',
    { class: 'scroll' },
    h(
      'table',
      { class: 'latencies' },
      h('caption', { class: 'hidden' }, 'Pages of metrics that were requested'),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, 'scraped page'),
          ['pages', 'failed', 'p50', 'p99', 'max', 'page size', 'arrived in all'].map((label) =>
            h('th', { scope: 'col', class: 'num' }, label),
          ),
        ),
      ),
      h(
        'tbody',
        {},
        scrapes.map((page) =>
          h(
            'tr',
            {},
            h('th', { scope: 'row', title: visible(page.url) }, visible(page.name)),
            number(grouped(page.completed)),
            number(grouped(page.failed), missed(page) || 'none'),
            time(page, 50, page.response.p50_ns),
            time(page, 99, page.response.p99_ns),
            number(
              page.response.count > 0 ? duration(page.response.max_ns) : '–',
              exactDuration(page.response.max_ns),
            ),
            number(
              bytes(page.page_bytes),
              `${grouped(page.series)} series; the median of all pages`,
            ),
            number(
              bytes(page.received_bytes),
              'for all requests, compressed where the server compresses',
            ),
          ),
        ),
      ),
    ),
  );
}
