// Opens the pages of docs/examples from disk in a real browser: all of each is drawn, and nobody is asked for anything.

import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { reason, samples, widthOf } from './samples.mjs';

const folder = join(dirname(fileURLToPath(import.meta.url)), '../../docs/examples');
const pages = existsSync(folder) ? readdirSync(folder).filter((it) => it.endsWith('.html')) : [];

describe('the examples of the docs in a browser', { skip: reason ?? false }, () => {
  const { openFile, file } = samples(['comparison']);

  /** Opens a page and looks whether it is drawn; nothing may be asked for, and nothing may fail. */
  async function look(path, width) {
    const { page, done } = await openFile(path, '', { viewport: { width, height: 900 } });
    assert.ok((await page.locator('.headline').first().innerText()).length > 10, path);
    assert.ok((await page.locator('#changes tbody tr').count()) > 0, path);
    const wide = await widthOf(page);
    assert.ok(wide <= width, `${path}: ${wide} at ${width}`);
    await done();
  }

  test('each opens, wide and narrow', async () => {
    // What the examples have to stand, a page that was just made stands, too.
    for (const path of [file('comparison'), ...pages.map((it) => join(folder, it))])
      for (const width of [1280, 390]) await look(path, width);
  });
});
