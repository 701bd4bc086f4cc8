// Made-up reports in a real browser, for the tests of this folder.
//
// Needs Chromium and cargo (reports come from the example `sample_report` of crate `report`, built as for the Rust tests).
// Without them tests are skipped loudly; where CI is set that is a failure.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, afterEach, before } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { chromium } from 'playwright-core';

export const repository = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const executablePath = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome'].find(
  (path) => path && existsSync(path),
);

function missing() {
  if (!executablePath) return 'no Chromium: apt-get install chromium, or set CHROMIUM';
  if (spawnSync('cargo', ['--version']).status !== 0) return 'no cargo: install Rust';
  return null;
}

/** Why the tests cannot run; null where they can. */
export const reason = missing();
if (reason) {
  if (process.env.CI) throw new Error(`CI allows no skipped test, but the browser's cannot run: ${reason}`);
  console.error(`SKIPPED browser tests: ${reason}`);
}

/** Opens details and waits until they are filled: the browser tells of the opening in a later task. */
export async function unfold(summary) {
  await summary.click();
  await summary.locator('xpath=following-sibling::*').first().waitFor();
}

/** Asserts that the text of a part of the page matches each of these. */
export async function shows(part, ...patterns) {
  const text = await part.innerText();
  for (const pattern of patterns) assert.match(text, pattern);
}

export const DESK = { width: 1280, height: 900 };
export const PHONE = { width: 390, height: 800 };

export const widthOf = (page) => page.evaluate(() => document.documentElement.scrollWidth);

/** Parts that stick out of the page, and those that cut what they hold; what is `elsewhere` is not looked at. */
export const misplaced = (page, elsewhere) =>
  page.evaluate((others) => {
    const all = [...document.querySelectorAll('#app *')].filter((e) => e.checkVisibility() && !e.closest(others));
    const right = document.documentElement.clientWidth + 1;
    const hides = (e) => ['hidden', 'clip'].includes(getComputedStyle(e).overflowX);
    const told = (e) => `${e.tagName}.${e.className}: ${e.textContent}`;
    return {
      outside: all.filter((e) => e.getBoundingClientRect().right > right).map(told),
      cut: all.filter((e) => hides(e) && e.scrollWidth > e.clientWidth + 1).map(told),
    };
  }, elsewhere);

/** Makes reports of these states, or of all there are, in a folder. */
export function make(dir, states = []) {
  // Of the whole workspace: of one crate alone, all that it needs would be compiled once more with other features.
  const build = ['build', '--quiet', '--workspace', '--example', 'sample_report'];
  const target = process.env.CARGO_TARGET_DIR ?? join(repository, 'target');
  for (const [program, args] of [
    ['cargo', build],
    [join(target, 'debug/examples/sample_report'), [dir, ...states]],
  ]) {
    const made = spawnSync(program, args, { cwd: repository, encoding: 'utf8' });
    assert.equal(made.status, 0, made.stderr);
  }
}

/** A report like that of a state, with other parts of its view: for runs that no state is of. */
function altered(path, to, parts) {
  const html = readFileSync(path, 'utf8');
  const [, packed] = /<div id="data"[^>]*><!--(.*?)-->/s.exec(html);
  const bytes = gunzipSync(Buffer.from(packed, 'base64'));
  const length = bytes.readUInt32LE(0);
  const view = JSON.parse(bytes.subarray(4, 4 + length).toString());
  const json = Buffer.from(JSON.stringify({ ...view, ...parts }));
  const head = Buffer.alloc(4);
  head.writeUInt32LE(json.length);
  const all = gzipSync(Buffer.concat([head, json, bytes.subarray(4 + length)]));
  writeFileSync(
    to,
    html.replace(packed, () => all.toString('base64')),
  );
}

/** Makes the reports of these states before the tests of a suite, unless BELLOWS_SAMPLES names a folder of them. */
export function samples(states) {
  const made = process.env.BELLOWS_SAMPLES;
  const dir = made ?? mkdtempSync(join(tmpdir(), 'bellows-report-'));
  const file = (state) => join(dir, state, 'report.html');
  let browser;

  before(async () => {
    if (!made) make(dir, states);
    // Chromium's sandbox needs what root in a container lacks.
    const args = ['--no-sandbox', '--disable-gpu', '--disable-quic'];
    browser = await chromium.launch({ executablePath, args });
  });

  after(async () => {
    await browser?.close();
    if (!made) rmSync(dir, { recursive: true, force: true });
  });

  /** What closes each page that a test has opened, and fails if something went wrong on it or it asked for anything. */
  const opened = new Set();

  afterEach(async () => {
    await Promise.all([...opened].map((done) => done()));
  });

  /** Opens a report: `done` closes it before the test has ended, `forget` whatever went wrong on it. */
  const open = (state, fragment = '', options = {}) => openFile(file(state), fragment, options);

  async function openAltered(state, parts) {
    const path = join(mkdtempSync(join(tmpdir(), 'bellows-altered-')), 'report.html');
    altered(file(state), path, parts);
    const report = await openFile(path);
    rmSync(dirname(path), { recursive: true });
    return report;
  }

  async function openFile(path, fragment = '', options = {}) {
    const context = await browser.newContext({ viewport: DESK, acceptDownloads: true, ...options });
    const trouble = [];
    const forget = () => {
      opened.delete(done);
      return context.close();
    };
    const done = async () => {
      await forget();
      assert.deepEqual(trouble, []);
    };
    opened.add(done);
    const page = await context.newPage();
    page.on('console', (m) => {
      if (m.type() === 'error' || m.type() === 'warning') trouble.push(`console: ${m.text()}`);
    });
    page.on('pageerror', (e) => trouble.push(`error: ${e.message}`));
    page.on('dialog', (d) => {
      trouble.push(`dialog: ${d.message()}`);
      void d.dismiss();
    });
    page.on('request', (r) => {
      if (!/^(file|blob|data):/.test(r.url())) trouble.push(`request: ${r.url()}`);
    });
    await page.goto(pathToFileURL(path).href + fragment);
    await page.waitForSelector('html[data-complete]');
    return { page, done, forget };
  }

  async function plain(state) {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const done = () => {
      opened.delete(done);
      return context.close();
    };
    opened.add(done);
    const page = await context.newPage();
    await page.goto(pathToFileURL(file(state)).href);
    return { page };
  }

  return { file, open, openAltered, openFile, plain };
}
