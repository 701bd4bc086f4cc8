// Builds the page's program and style sheet and puts them where `report` embeds them.
//
// Each file begins with a stamp: a hash over all that it was made of. A Rust test recomputes it, so
// that sources and embedded files cannot drift apart unnoticed, without Node. With --verify nothing
// is written: the build must give the embedded files byte for byte.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const ui = dirname(dirname(fileURLToPath(import.meta.url)));
const assets = join(ui, '..', 'crates', 'report', 'assets');

/** All files that the bundle is made of, as paths with `/`, sorted by code unit. */
function sources() {
  const inside = (folder) =>
    readdirSync(join(ui, folder), { withFileTypes: true }).flatMap((entry) =>
      entry.isDirectory() ? inside(join(folder, entry.name)) : [join(folder, entry.name)],
    );
  const fixed = ['package.json', 'package-lock.json', 'tsconfig.json', 'scripts/build.mjs'];
  const list = [...fixed, ...inside('src')].map((path) => relative(ui, join(ui, path)).replaceAll('\\', '/'));
  return list.sort((a, b) => (a < b ? -1 : 1));
}

/** SHA-256 over `path NUL length NUL content` of every source. */
function stamp() {
  const hash = createHash('sha256');
  for (const path of sources()) {
    const content = readFileSync(join(ui, path));
    hash.update(`${path}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}

async function bundle() {
  const result = await build({
    root: ui,
    configFile: false,
    logLevel: 'warn',
    define: { 'process.env.NODE_ENV': '"production"' },
    build: {
      write: false,
      target: 'es2022',
      cssTarget: 'chrome111',
      modulePreload: false,
      lib: { entry: join(ui, 'src', 'main.ts'), formats: ['iife'], name: 'bellows', fileName: 'report' },
      rollupOptions: { output: { assetFileNames: 'report.[ext]' } },
    },
  });
  const output = [result].flat().flatMap((part) => part.output);
  const code = output.find((part) => part.type === 'chunk')?.code;
  const css = output.find((part) => part.fileName.endsWith('.css'))?.source;
  if (!code || !css) throw new Error('the build gave no program or no style sheet');
  const banner = `/* bellows ui ${stamp()}, made by \`npm run build\` in ui/: do not edit */\n`;
  // The program stands between script tags; the strings that would end it never occur in code.
  if (/<\/script|<!--/i.test(code)) throw new Error('the program contains "</script" or "<!--"');
  if (/<\/style/i.test(String(css))) throw new Error('the style sheet contains "</style"');
  return { 'report.js': `${banner}${code.trim()}\n`, 'report.css': `${banner}${String(css).trim()}\n` };
}

const files = await bundle();
const verify = process.argv.includes('--verify');
for (const [name, content] of Object.entries(files)) {
  const path = join(assets, name);
  if (!verify) {
    writeFileSync(path, content);
    console.log(`${name}: ${content.length} bytes`);
  } else if (readFileSync(path, 'utf8') !== content) {
    console.error(`${name} is not what its sources give: run \`npm run build\` in ui/ and commit it`);
    process.exitCode = 1;
  }
}
