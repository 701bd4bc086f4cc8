// Runs the tests of the browser, one file after the other. A test that fails is run once more when the others have
// ended: one that measures time may fail where the machine has no core for it at that moment. What passes only then is
// named at the end, since it may also be a defect that shows now and then. What fails twice, more than three at once,
// and what fails outside a test: failed.

import { run } from 'node:test';
import { spec } from 'node:test/reporters';

const FILES = ['report', 'comparison', 'limit', 'examples'].map((name) => `browser/${name}.mjs`);
const MOST = 3;

/** Runs files, only tests of these names if given: the names of those that failed, by file, and the number that passed. */
async function suite(files, names) {
  const failed = new Map();
  let passed = 0;
  const patterns = names && {
    testNamePatterns: names.map((name) => new RegExp(`^${escaped(name)}$`)),
  };
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

const { failed, passed } = await suite(FILES);
const names = [...failed.values()].flat();
if (names.length === 0) {
  if (passed === 0) throw new Error('no test ran');
} else if (names.length > MOST || names.includes(null)) {
  process.exitCode = 1;
} else {
  console.error(`once more: ${names.join('; ')}`);
  const again = await suite([...failed.keys()], names);
  if (again.failed.size > 0 || again.passed < names.length) process.exitCode = 1;
  else console.error(`passed when run once more: ${names.join('; ')}`);
}
