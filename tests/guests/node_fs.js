// fs: synchronous, by promises, and by streams.
const fs = require('fs'), path = require('path'), os = require('os'), crypto = require('crypto'), zlib = require('zlib');
fs.mkdirSync('a/b/c', {recursive: true}); fs.writeFileSync('a/b/c/f', 'text'); fs.symlinkSync('b', 'a/l'); fs.appendFileSync('a/b/c/f', '+');
console.log(fs.readdirSync('a', {recursive: true}).sort(), fs.readFileSync('a/l/c/f', 'utf8'), fs.lstatSync('a/l').isSymbolicLink());
fs.cpSync('a', 'copy', {recursive: true}); fs.renameSync('copy', 'moved'); fs.rmSync('moved', {recursive: true}); console.log(fs.existsSync('moved'));
for (const f of [() => fs.readFileSync('none'), () => fs.mkdirSync('a'), () => fs.rmdirSync('a'), () => fs.openSync('a', 'w')]) try { f() } catch (e) { console.log(e.code) }
fs.chmodSync('a/b/c/f', 0o640); console.log((fs.statSync('a/b/c/f').mode & 0o777).toString(8)); fs.utimesSync('a/b/c/f', 5, 6); console.log(fs.statSync('a/b/c/f').mtimeMs);
console.log(fs.realpathSync('a/l/c/f') === path.resolve('a/b/c/f'), fs.mkdtempSync(path.join(os.tmpdir(), 'x')).length > 5, zlib.gunzipSync(zlib.gzipSync('z')).toString());
(async () => { const h = await fs.promises.open('p', 'w+'); await h.write('promised'); await h.close(); console.log(await fs.promises.readFile('p', 'utf8'));
  await Promise.all([...Array(100).keys()].map(i => fs.promises.writeFile('m' + i, '' + i))); console.log((await fs.promises.readdir('.')).length);
  fs.createReadStream('p').pipe(fs.createWriteStream('q')).on('finish', () => { console.log(fs.readFileSync('q', 'utf8')); }); })();
