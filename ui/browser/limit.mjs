// Opens the page of a search for the highest rate that holds: the answer first, then the curve, every trial, what to run next.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DESK, PHONE, reason, samples, shows, widthOf } from './samples.mjs';

describe('the page of a limit in a browser', { skip: reason ?? false }, () => {
  const { open, plain } = samples(['limit']);

  test('the answer comes first, and every trial is a mark that says what it came to', async () => {
    const { page } = await open('limit');
    const answer = /^the highest rate that holds is between 47,600 and 51,900 msg\/s$/i;
    await shows(page.locator('.headline').first(), answer);
    assert.equal(await page.locator('.outcome').innerText(), 'confirmed');
    const curve = page.locator('#curve svg');
    for (const [outcome, count] of Object.entries({ held: 5, missed: 4, unclear: 1 }))
      assert.equal(await curve.locator(`.${outcome}-trial`).count(), count, outcome);
    const missed = /80.k msg\/s did not hold[\s\S]*p99 900 ms[\s\S]*missed end-to-end p99/;
    assert.match(await curve.locator('.missed-trial title').first().textContent(), missed);
    assert.match(await curve.locator('text.knee').textContent(), /^knee /);
    // The legend has no frame: that is of the list of keys.
    const legend = page.locator('#curve p').last();
    assert.equal(await legend.evaluate((it) => getComputedStyle(it).borderTopWidth), '0px');
    // An unclear one says why.
    const reason = /unclear[\s\S]*other programs had 1.2 cores; missed/;
    assert.match(await curve.locator('.unclear-trial title').textContent(), reason);
    // Only the trial whose report is there leads to one.
    assert.equal(await curve.locator('a').count(), 1);
    assert.equal(await page.locator('#trials tbody tr').count(), 10);
    // Of the first one's 1,000 messages one lies beyond the p99.9.
    assert.equal(await page.locator('#trials tbody sup').count(), 1);
    assert.match(await page.locator('#trials tbody tr').first().innerText(), /†/);
    assert.match(await page.locator('.remarks').innerText(), /^† fewer than 10 samples lie beyond/);
    assert.equal(await page.locator('.remarks code').innerText(), 'make build');
    assert.match(await curve.locator('.held-trial title').first().textContent(), /p99.9 \S+ µs†/);
  });

  test('marks lie inside of the chart, and right of the interval nothing holds', async () => {
    const { page } = await open('limit');
    const box = (of) => of.boundingBox();
    const chart = await box(page.locator('#curve svg'));
    const interval = await box(page.locator('#curve .interval'));
    for (const mark of await page.locator('#curve .trial').all()) {
      const { x, y, width, height } = await box(mark);
      const [middle, kind] = [x + width / 2, await mark.getAttribute('class')];
      assert.ok(y >= chart.y && y + height <= chart.y + chart.height, kind);
      if (kind.includes('held')) assert.ok(middle <= interval.x + 1, kind);
      else assert.ok(middle >= interval.x + interval.width - 1, kind);
    }
  });

  test('the name of a run shows its end, and all columns have room on a small screen', async () => {
    const { page } = await open('limit', '', { viewport: { width: 1100, height: 800 } });
    const names = page.locator('#trials tbody td:last-child');
    assert.deepEqual((await names.allInnerTexts()).slice(0, 2), ['run-1', '…ders-of-today-run-2']);
    const whole = await names.nth(1).locator('span').getAttribute('title');
    assert.equal(whole, '2026-11-21T00-02-33Z-limit-orders-of-today-run-2');
    const hidden = await page.locator('#trials .scroll').evaluate((of) => of.scrollWidth - of.clientWidth);
    assert.ok(hidden <= 0, `${hidden}`);
  });

  test('names stay text, and a phone shows all of it in the dark', async () => {
    const { page } = await open('limit', '', { viewport: PHONE, colorScheme: 'dark' });
    assert.match(await page.locator('h1').innerText(), /<script>/);
    assert.match(await page.locator('#next code').first().innerText(), /<script>/);
    assert.equal(await widthOf(page), PHONE.width);
    const curve = await page.locator('#curve svg').boundingBox();
    assert.ok(curve.x >= 0 && curve.x + curve.width <= 390, JSON.stringify(curve));
    // Latencies stand in sight, and a shade says that the table goes on.
    const p99 = await page.locator('#trials th', { hasText: /^p99$/ }).boundingBox();
    assert.ok(p99.x + p99.width <= 390, JSON.stringify(p99));
    const scroll = page.locator('#trials .scroll');
    const shade = await scroll.evaluate((e) => getComputedStyle(e).backgroundAttachment);
    assert.match(shade, /local/);
  });

  test('throughput against producers: runs, curve and bound, what is lost to what, on a phone, too', async () => {
    for (const viewport of [DESK, PHONE]) {
      const { page } = await open('scale', '', { viewport });
      assert.match(await page.locator('.headline').first().innerText(), /producers pass/);
      assert.match(await page.locator('.lead').innerText(), /to contention[\s\S]*peaks at 15.3/);
      const curve = page.locator('#curve svg');
      assert.equal(await curve.locator('.trial').count(), 18);
      assert.equal(await curve.locator('.unclear-trial').count(), 3);
      assert.equal(await curve.locator('polyline').count(), 1);
      assert.match(await curve.locator('text.knee').textContent(), /^peak 15.3$/);
      assert.equal(await page.locator('#trials tbody tr').count(), 18);
      assert.match(await page.locator('.remarks').innerText(), /in 3 of 18 runs the generator/);
      assert.equal(await widthOf(page), viewport.width);
    }
  });

  test('without scripts the answer and the trials are there', async () => {
    const { page } = await plain('limit');
    const text = /between 47,600 and 51,900[\s\S]*10,000\s+yes[\s\S]*80,000\s+missed end-to-end p99/;
    await shows(page.locator('#app'), text);
  });
});
