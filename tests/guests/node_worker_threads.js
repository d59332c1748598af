// worker_threads: four workers write files, shared memory.
const {Worker, isMainThread, parentPort, workerData} = require('worker_threads'); const fs = require('fs');
if (!isMainThread) { fs.writeFileSync('w' + workerData, 'x'.repeat(workerData)); parentPort.postMessage(workerData * 2); }
else { const all = [1, 2, 3, 4].map(n => new Promise(ok => new Worker(__filename, {workerData: n}).on('message', ok)));
  Promise.all(all).then(v => { const s = new Int32Array(new SharedArrayBuffer(4)); Atomics.add(s, 0, 5); console.log(v, s[0]); }); }
