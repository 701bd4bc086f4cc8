// Draws a report as a picture, light, 1280 pixels wide: its first screen, or one of its parts.
//
//     node scripts/picture.mjs REPORT.html PICTURE.png [FRAGMENT [SELECTOR]]

import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const [report, picture, fragment = '', selector] = process.argv.slice(2);
if (!report || !picture) throw new Error('usage: picture.mjs REPORT.html PICTURE.png [FRAGMENT [SELECTOR]]');
const executablePath = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome'].find(
  (path) => path && existsSync(path),
);
if (!executablePath) throw new Error('no Chromium: apt-get install chromium, or set CHROMIUM');
// Chromium's sandbox needs what root in a container lacks.
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' });
  await page.goto(`${pathToFileURL(resolve(report)).href}#${fragment}`);
  await page.waitForSelector('html[data-ready]');
  const box = selector ? await page.locator(selector).boundingBox() : null;
  const margin = 24;
  await page.screenshot(
    box
      ? {
          path: picture,
          fullPage: true,
          clip: {
            x: box.x - margin,
            y: box.y - margin,
            width: box.width + 2 * margin,
            height: box.height + 2 * margin,
          },
        }
      : { path: picture },
  );
} finally {
  await browser.close();
}
