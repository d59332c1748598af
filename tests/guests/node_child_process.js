// child_process in all its forms, with a channel to a forked child.
const {execFileSync, spawn, spawnSync, exec, fork} = require('child_process');
if (process.argv[2] === 'child') { process.on('message', m => { process.send({twice: m * 2}); process.disconnect(); }); }
else {
console.log(execFileSync('echo', ['a', 'b']).toString());
console.log(spawnSync('sh', ['-c', 'exit 7']).status, spawnSync('sh', ['-c', 'kill -9 $$']).signal);
console.log(spawnSync('no-such-program').error.code);
const p = spawn('cat'); let out = ''; p.stdout.on('data', d => out += d);
p.on('close', code => { console.log('cat', code, out.length);
  exec('seq 3 | tac', (e, s) => { console.log(s);
    const c = fork(__filename, ['child']); c.on('message', m => console.log(m)); c.send(21); c.on('exit', x => console.log('child', x)); }); });
p.stdin.end('x'.repeat(300000)); }
