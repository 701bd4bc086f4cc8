// Opens the page of a comparison from disk in a real browser: nothing fails, nothing is fetched, names stay text,
// wide and narrow, light, dark and without scripts.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { misplaced, PHONE, reason, samples, shows, unfold, widthOf } from './samples.mjs';

describe('the page of a comparison in a browser', { skip: reason ?? false }, () => {
  const { file, open: openState, plain } = samples(['comparison', 'matrix']);
  const open = (options = {}, state = 'comparison') => openState(state, '', options);

  test('the verdict comes first, then every figure with its interval', async () => {
    const { page } = await open();
    await shows(
      page.locator('.headline').first(),
      /^changed: B has 12\.0 times the ack response p99 \[[^\]]+\] \(worse\), a 24\.0 % higher received rate \[\+21\.0 %, \+27\.0 %\] \(better\)/i,
    );
    assert.equal(await page.locator('.outcome').innerText(), 'worse');
    const rows = page.locator('#changes tbody tr');
    assert.equal(await rows.count(), 5);
    assert.match(await rows.first().innerText(), /\+24\.0 %[\s\S]*changed, better/);
    assert.match(await rows.last().innerText(), /inconclusive \(about 41 (pairs|runs per side) to detect 1 %\)/);
    // The table stands on the first screen.
    const { y, height } = await page.locator('#changes table').boundingBox();
    assert.ok(y + height <= 900, `${y + height}`);
    // A change that was decided lies on its side of nothing, and its dot within its interval.
    for (const [row, side] of [
      [0, 1],
      [2, 1],
      [3, -1],
    ]) {
      const drawn = rows.nth(row).locator('.forest');
      const left = async (part) => (await drawn.locator(part).boundingBox()).x;
      const [zero, bar] = [await left('.zero'), await drawn.locator('.interval').boundingBox()];
      const dot = await drawn.locator('.effect').boundingBox();
      const middle = dot.x + dot.width / 2;
      assert.ok((middle - zero) * side > 0, `row ${row}`);
      assert.ok(middle >= bar.x - 1 && middle <= bar.x + bar.width + 1, `row ${row}`);
    }
  });

  test('each run is a dot that leads to its report, and pairs are joined', async () => {
    const { page } = await open();
    const card = page.locator('#runs .card').first();
    assert.equal(await card.locator('a.dot').count(), 12);
    assert.equal(await card.locator('line').count(), 6);
    const href = await card.locator('a.dot').first().getAttribute('href');
    assert.equal(href, 'run-a-0/report.html');
    assert.ok(existsSync(join(dirname(file('comparison')), href)));
    assert.match(await card.locator('a.dot').first().getAttribute('aria-label'), /^pair 1, A: 5\d,\d00\/s \(run-a-0\)/);
    assert.equal(await card.locator('.cautious').count(), 2);
    await unfold(page.getByText('Values of every run'));
    assert.equal(await page.locator('#runs .behind tbody tr').count(), 12);
  });

  test('functions: the proven ones have colours, the others are grey, all can be had', async () => {
    const { page } = await open();
    const section = page.locator('#functions');
    assert.match(await section.locator('header').innerText(), /2 changed beyond chance/);
    assert.equal(await section.locator('.difference.better').count(), 1);
    assert.equal(await section.locator('.difference.worse').count(), 1);
    assert.equal(await section.locator('tbody tr').count(), 22);
    await section.getByRole('button', { name: 'show 22 of 22 more functions' }).click();
    assert.equal(await section.locator('tbody tr').count(), 44);
    // The column adds up to the broker's change.
    const numbers = await section.locator('tbody tr').evaluateAll((rows) =>
      rows.map((row) => {
        const cell = row.children[3].textContent.replace('~ ', '');
        const [, number, unit] = /^([+-][\d.]+) (ns|µs)$/.exec(cell) ?? [];
        return Number(number) * (unit === 'µs' ? 1000 : 1);
      }),
    );
    const [whole, ...parts] = numbers;
    const sum = parts.reduce((all, it) => all + it, 0);
    assert.ok(Math.abs(sum - whole) < 5, `${sum} of ${whole}`);
  });

  test('call paths: a click zooms, a search finds, Escape goes back, and names stay text', async () => {
    const { page } = await open();
    const section = page.locator('#cost-graph');
    await section.scrollIntoViewIfNeeded();
    const graph = section.locator('.flame-view');
    const hint = section.locator('p.hint');
    assert.match(await hint.innerText(), /Frames below 0\.1 %/);
    assert.match(await section.locator('.kinds').innerText(), /dearer in B[\s\S]*full colour: 600 ns/);
    // The colours are on the canvas: blue for what is cheaper, orange for what is dearer, and grey.
    const colors = await graph.locator('canvas').evaluate((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const found = { orange: 0, blue: 0, grey: 0 };
      for (let i = 0; i < data.length; i += 4) {
        const [r, g, b] = [data[i], data[i + 1], data[i + 2]];
        if (r > b + 25 && r > g) found.orange++;
        else if (b > r + 25) found.blue++;
        else if (r === 205 && g === 204 && b === 202) found.grey++;
      }
      return found;
    });
    for (const [name, count] of Object.entries(colors)) assert.ok(count > 200, `${name}: ${count}`);
    await graph.hover({ position: { x: 30, y: 45 } });
    assert.match(await page.locator('.tip').innerText(), /A [\d.]+ µs, B [\d.]+ µs/);
    await graph.click({ position: { x: 30, y: 45 } });
    assert.match(page.url(), /zoom=/);
    assert.match(await hint.innerText(), /A [\d.]+ µs, B [\d.]+ µs, .*shows from/);
    await page.keyboard.press('Escape');
    assert.doesNotMatch(page.url(), /zoom=/);
    await page.keyboard.press('/');
    await page.keyboard.type('route/2');
    assert.match(await section.locator('output').innerText(), /% of the cost, 1 function/);
    assert.equal(await page.locator('#app script').count(), 0);
  });

  test('both sides stand on one axis, over time and by percentile', async () => {
    const { page } = await open();
    assert.ok((await page.locator('#time .panel').count()) >= 3);
    const names = await page.locator('#time .panel').first().locator('.name').allInnerTexts();
    assert.deepEqual(names.toSorted(), ['A', 'B']);
    assert.ok((await page.locator('#latency canvas').count()) >= 1);
    await unfold(page.locator('#latency summary'));
    assert.match(await page.locator('#latency table').innerText(), /ack response\s+A\s+[\d.]+ [µm]s/);
  });

  test('what was made anew and left out is said, and names stay text', async () => {
    const { page } = await open();
    await unfold(page.locator('#warnings summary'));
    assert.match(await page.locator('#warnings').innerText(), /pair 3: a run does not count: invalid; repeated/);
    assert.match(await page.locator('#decided').innerText(), /run-b-2\s+invalid/);
    assert.match(await page.locator('.differ').innerText(), /broker\.schedulers 2 → 1/);
    assert.equal(await page.locator('h1').innerText(), '<script>alert(1)</script>␛[31m');
    assert.match(await page.locator('#functions').innerText(), /<script>alert\(1\)/);
    assert.equal(await page.locator('#app script, #app img').count(), 0);
  });

  test('a phone shows all of it without scrolling sideways, in the dark', async () => {
    const { page } = await open({ viewport: { width: 400, height: 800 }, isMobile: true, colorScheme: 'dark' });
    assert.equal(await widthOf(page), 400);
    const { outside } = await misplaced(page, '.scroll, .hidden, .u-wrap, svg');
    assert.deepEqual(outside, []);
    const background = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    assert.equal(background, 'rgb(22, 24, 28)');
  });

  test('without scripts the verdict and the figures are there', async () => {
    const { page } = await plain('comparison');
    const verdict = /changed: B has 12\.0 times[\s\S]*received rate[\s\S]*\+21\.0 % to \+27\.0 %[\s\S]*changed, better/;
    await shows(page.locator('#app'), verdict);
  });

  test('a matrix says where it helps and where it hurts, and each cell leads to its own page', async () => {
    const folder = dirname(file('matrix'));
    const { page } = await open({}, 'matrix');
    await shows(
      page.locator('.headline').first(),
      /^B is worse in 1 of 6 cells \(queue-type \/ num-destinations\): quorum \/ 1 \(.*\); better in 2 of 6 cells: classic \/ 1 .*; inconclusive in 3$/i,
    );
    const panels = page.locator('#effects > figure');
    assert.equal(await panels.count(), 3);
    const rate = panels.first().locator('tbody');
    assert.equal(await rate.locator('tr').count(), 3);
    const cells = rate.locator('td');
    assert.equal(await cells.count(), 6);
    assert.match(await cells.nth(0).innerText(), /\+12\.4 %[\s\S]*changed, better/);
    assert.match(await cells.nth(2).getAttribute('class'), /worse/);
    assert.match(await cells.nth(3).innerText(), /no decision/);
    const href = await cells.nth(0).locator('a').getAttribute('href');
    assert.equal(href, 'cell-1-classic-1/report.html');
    assert.ok(existsSync(join(folder, href)));
    // A change lies on its side of nothing, and only what is proven is tinted.
    const left = async (cell, part) => (await cell.locator(part).boundingBox()).x;
    assert.ok((await left(cells.nth(0), '.effect')) > (await left(cells.nth(0), '.zero')));
    assert.ok((await left(cells.nth(2), '.effect')) < (await left(cells.nth(2), '.zero')));
    const colour = (cell) => cell.evaluate((e) => getComputedStyle(e).backgroundColor);
    assert.notEqual(await colour(cells.nth(0)), await colour(cells.nth(4)));
    assert.equal(await colour(cells.nth(4)), await colour(cells.nth(5)));
    assert.equal(await page.locator('#cells li').count(), 6);
    assert.equal(await page.locator('#app script, #app img').count(), 0);
    await unfold(page.getByText('1 other figure: broker memory'));
    assert.equal(await page.locator('#effects figure').count(), 4);
  });

  test('one key is a row of intervals, three are a list, and a phone shows all of them', async () => {
    for (const [name, rows] of [
      ['matrix', 3],
      ['matrix-one', 3],
      ['matrix-three', 12],
    ]) {
      const { page } = await open({ viewport: PHONE, isMobile: true, colorScheme: 'dark' }, name);
      assert.equal(await page.locator('#effects figure').first().locator('tbody tr').count(), rows);
      assert.equal(await widthOf(page), PHONE.width, name);
    }
  });
});
