// fs.watch and fs.promises.watch: what happens to files, as events, and an orderly end.
const fs = require('fs');
const path = require('path');

const place = fs.mkdtempSync(path.join(process.argv[2] || '.', 'watch-'));
const inside = name => path.join(place, name);
const until = condition => new Promise(resolve => {
  const look = () => condition() ? resolve() : setTimeout(look, 5);
  look();
});

async function main() {
  const seen = [];
  const directory = fs.watch(place, (event, name) => seen.push(`${event} ${name}`));
  fs.writeFileSync(inside('new'), 'text');
  await until(() => seen.includes('change new'));
  fs.renameSync(inside('new'), inside('moved'));
  await until(() => seen.includes('rename moved'));
  const changes = [];
  const file = fs.watch(inside('moved'), event => changes.push(event));
  fs.appendFileSync(inside('moved'), 'more');
  await until(() => changes.includes('change'));
  fs.unlinkSync(inside('moved'));
  await until(() => changes.includes('rename'));
  file.close();
  directory.close();
  console.log([...new Set(seen)].join(', '), '|', [...new Set(changes)].join(', '));

  const stop = new AbortController();
  setTimeout(() => { fs.mkdirSync(inside('folder')); }, 20);
  try {
    for await (const { eventType, filename } of fs.promises.watch(place, { signal: stop.signal })) {
      console.log(eventType, filename);
      stop.abort();
    }
  } catch (e) { console.log(e.name); }
  try { fs.watch(inside('missing')); } catch (e) { console.log(e.code); }
  fs.rmSync(place, { recursive: true });
}
main();
