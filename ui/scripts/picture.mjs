// Draws a report as pictures, light, 1280 pixels wide: its first screen, and where it burned.
//
//     node scripts/picture.mjs REPORT.html FIRST.png BURN.png

import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const [report, first, burn] = process.argv.slice(2);
if (!report || !first || !burn)
  throw new Error('usage: picture.mjs REPORT.html FIRST.png BURN.png');
const executablePath = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome'].find(
  (path) => path && existsSync(path),
);
if (!executablePath) throw new Error('no Chromium: apt-get install chromium, or set CHROMIUM');
// Chromium's sandbox needs what root in a container lacks.
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
try {
  const page = await browser.newPage({
    viewport: { width: 1280, height: 900 },
    colorScheme: 'light',
  });
  await page.goto(pathToFileURL(resolve(report)).href);
  await page.waitForSelector('html[data-ready]');
  await page.screenshot({ path: first });
  const { x, y, width, height } = await page.locator('#burn').boundingBox();
  const margin = 24;
  await page.screenshot({
    path: burn,
    fullPage: true,
    clip: { x: x - margin, y: y - margin, width: width + 2 * margin, height: height + 2 * margin },
  });
} finally {
  await browser.close();
}
