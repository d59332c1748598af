// A signal handler, then a Unix socket; ends with exit code 3.
const net = require('net'), os = require('os');
console.log(process.cwd().length > 1, process.execPath, process.title);
console.log(os.platform(), os.cpus().length > 0, os.totalmem() > 0, os.userInfo().uid === process.getuid());
const talk = () => { const s = net.createServer(c => c.end('bye')).listen('sock', () =>
  net.connect('sock').on('data', d => { console.log(d.toString()); s.close(); console.error('to stderr'); process.exitCode = 3; })); };
process.on('SIGUSR2', () => { console.log('signal'); talk(); }); process.kill(process.pid, 'SIGUSR2');
const t = setInterval(() => { if (process.exitCode === 3) clearInterval(t); }, 20);
