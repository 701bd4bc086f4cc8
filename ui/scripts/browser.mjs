// Runs the tests of the browser, one file after the other. A test that fails is run once more when the others have
// ended: one that measures time may fail where the machine has no core for it at that moment. What passes only then is
// named at the end, since it may also be a defect that shows now and then. What fails twice, more than three at once,
// and what fails outside a test: failed.
//
// Pages, tests and browser that passed at the first go are not tried again: target/pages.sum says which they were. What
// measures time may pass at the second: it lacked a core at the first.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { executablePath, make, reason, repository } from '../browser/samples.mjs';

const FILES = ['report', 'comparison', 'limit', 'examples'].map((name) => `browser/${name}.mjs`);
const MOST = 3;

/** Runs files, only tests of these names if given: the names of those that failed, by file, and the number that passed. */
async function suite(files, names) {
  const failed = new Map();
  let passed = 0;
  const patterns = names && { testNamePatterns: names.map((name) => new RegExp(`^${escaped(name)}$`)) };
  const events = run({ files, concurrency: 1, ...patterns });
  const isSuite = ({ details, name, file }) => details.type === 'suite' || name === file;
  events.on('test:pass', (event) => {
    if (!isSuite(event) && event.skip === undefined) passed++;
  });
  events.on('test:fail', (event) => {
    const { failureType } = event.details.error;
    if (failureType === 'subtestsFailed') return;
    const name = isSuite(event) ? null : event.name;
    failed.set(event.file, [...(failed.get(event.file) ?? []), name]);
  });
  for await (const part of events.compose(spec)) process.stdout.write(part);
  return { failed, passed };
}

const escaped = (name) => name.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');

/** What decides how the tests end: every page that they open, they themselves, and the browser. */
function sumOf(samples) {
  const all = createHash('sha256');
  for (const dir of [samples, ...['ui/browser', 'docs/examples'].map((it) => join(repository, it))])
    for (const name of readdirSync(dir, { recursive: true }).sort())
      if (/\.(html|mjs)$/.test(name)) all.update(`${name}\0`).update(readFileSync(join(dir, name)));
  return all.update(spawnSync(executablePath, ['--version']).stdout).digest('hex');
}

/** Runs all tests, and once more what failed; whether all passed at the first go, but for those that measure time. */
async function runAll() {
  const { failed, passed } = await suite(FILES);
  const names = [...failed.values()].flat();
  if (names.length === 0) {
    if (passed === 0) throw new Error('no test ran');
    return true;
  }
  if (names.length > MOST || names.includes(null)) {
    process.exitCode = 1;
    return false;
  }
  console.error(`once more: ${names.join('; ')}`);
  const again = await suite([...failed.keys()], names);
  if (again.failed.size > 0 || again.passed < names.length) {
    process.exitCode = 1;
    return false;
  }
  console.error(`passed when run once more: ${names.join('; ')}`);
  return names.every((name) => name.includes('within the budget'));
}

/** Runs all tests unless they passed on the same pages. */
async function runNew() {
  const dir = mkdtempSync(join(tmpdir(), 'bellows-report-'));
  const recorded = join(process.env.CARGO_TARGET_DIR ?? join(repository, 'target'), 'pages.sum');
  const last = () => {
    try {
      return readFileSync(recorded, 'utf8');
    } catch {
      return '';
    }
  };
  try {
    make(dir);
    const sum = sumOf(dir);
    if (last() === sum) {
      console.error('browser: the pages, their tests and the browser are those that passed last');
      return;
    }
    process.env.BELLOWS_SAMPLES = dir;
    if (await runAll()) writeFileSync(recorded, sum);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

if (reason) await runAll();
else await runNew();
