#!/usr/bin/env node
const fs = require('fs');
const path = require('path');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { anchor, headings } = require('./headings');

if (isMainThread) {
  const [file, out] = process.argv.slice(2);
  if (!out) {
    console.error('usage: toc.js FILE OUT');
    process.exit(2);
  }
  const worker = new Worker(__filename, { workerData: file });
  worker.on('message', ({ text, broken }) => {
    fs.mkdirSync(out, { recursive: true });
    fs.writeFileSync(path.join(out, path.basename(file)), text);
    for (const link of broken) console.log(`no heading for #${link}`);
  });
  worker.on('error', (error) => {
    console.error(error.message);
    process.exit(1);
  });
} else {
  const lines = fs.readFileSync(workerData, 'utf8').split('\n');
  const found = headings(lines);
  const names = new Set(found.map((heading) => anchor(heading.title)));
  const broken = [...lines.join('\n').matchAll(/\]\(#([^)]+)\)/g)].map((match) => match[1]).filter((name) => !names.has(name));
  const toc = found.slice(1).map(({ level, title }) => `${'  '.repeat(level - 2)}- [${title}](#${anchor(title)})`);
  lines.splice(found[0].line + 1, 0, '', ...toc);
  parentPort.postMessage({ text: lines.join('\n'), broken });
}
