// What pages of metrics cost that were requested beside the load: a figure for each page, and all of them in a table.

import { ofSubject } from '../core/data';
import { type Child, columnHead, h, tableOf } from '../core/dom';
import { bytes, counted, duration, exactDuration, grouped, supports, visible } from '../core/format';
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

/** What a page costs the broker's CPU: null where nobody asked the broker of the run for one. */
export function brokerCost(page: ScrapedPage): { text: string; title: string } | null {
  const cpu = page.broker_cpu;
  if (!cpu) {
    if (!page.is_of_broker || page.completed === 0) return null;
    return { text: '–', title: 'unknown: fewer than 12 pages, pages without a break, or other work at the same times' };
  }
  const time = (s: number): string => `${s < 0 ? '-' : ''}${duration(Math.abs(s) * 1e9)}`;
  const [low, high] = cpu.interval;
  const spread = `95 % interval ${time(low)} to ${time(high)}`;
  return low > 0
    ? { text: time(cpu.seconds), title: `beyond what the load takes; ${spread}` }
    : { text: '~ 0', title: `too small to measure: ${spread}` };
}

export function scrapeTiles(run: RunView): Tile[] {
  return run.figures.scrapes.map((page) => {
    const { response } = page;
    const time = response.count > 0 ? duration(response.p50_ns) : '–';
    const [value, unit] = time.split(' ') as [string, string?];
    const size =
      page.completed > 0 ? `${counted(page.completed, 'page')}, ${bytes(page.page_bytes)} each (median)` : 'no page';
    const under = [size, missed(page)].filter(Boolean).join(', ');
    const cost = page.broker_cpu ? brokerCost(page) : null;
    const cpu = cost ? `; CPU of the broker for each ${cost.text}, ${cost.title}` : '';
    const weak = supports(response.count, 99) ? '' : ' (fewer than 10 samples lie beyond)';
    const p99 = `p99 ${duration(response.p99_ns)}${weak}`;
    const exact = `${visible(page.url)}: from when each was due until it had been read, ${p99}, max ${duration(response.max_ns)}; ${bytes(page.received_bytes)} received${cpu}`;
    return tile(`scrape ${visible(page.name)}`, value, unit ?? '', under, exact);
  });
}

export function scrapeTable(run: RunView): HTMLElement | null {
  const { scrapes } = run.figures;
  if (scrapes.length === 0) return null;
  const number = (text: Child, title: string | null = null): HTMLElement => h('td', { class: 'num', title }, text);
  const time = (page: ScrapedPage, percentile: number, ns: number): HTMLElement =>
    number(percentileCell(page.response, percentile, ns));
  const costs = scrapes.map(brokerCost);
  const isOfBroker = costs.some((cost) => cost !== null);
  const names = ['pages', 'failed', 'p50', 'p99', 'max', 'page size', 'arrived', 'in all'];
  if (isOfBroker) names.push(ofSubject(run, 'broker CPU each'));
  const heads = [columnHead('scraped page'), ...names.map((name) => columnHead(name, 'num'))];
  const rows = scrapes.map((page, i) => {
    const { completed, failed, response, page_bytes, arrived_bytes, received_bytes } = page;
    const longest = response.count > 0 ? duration(response.max_ns) : '–';
    const arrived = arrived_bytes > 0 ? bytes(arrived_bytes) : '–';
    return h(
      'tr',
      {},
      h('th', { scope: 'row', title: visible(page.url) }, visible(page.name)),
      number(grouped(completed)),
      number(grouped(failed), missed(page) || 'none'),
      time(page, 50, response.p50_ns),
      time(page, 99, response.p99_ns),
      number(longest, exactDuration(response.max_ns)),
      number(bytes(page_bytes), `${grouped(page.series)} series; the median of all pages`),
      number(arrived, 'of a page, compressed where the server compresses; the median'),
      number(bytes(received_bytes), 'for all requests, compressed where the server compresses'),
      isOfBroker ? number(costs[i]?.text ?? '', costs[i]?.title ?? null) : null,
    );
  });
  return tableOf('latencies', 'Pages of metrics that were requested', heads, h('tbody', {}, rows));
}
