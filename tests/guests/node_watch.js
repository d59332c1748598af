// fs.watch: either it tells of a new file, or it says why it cannot.
const fs = require('fs');
try {
  const w = fs.watch('.', (event, name) => { console.log('watch', name); w.close(); });
  w.on('error', e => console.log('error', e.code));
  setTimeout(() => fs.writeFileSync('seen', ''), 100);
} catch (e) { console.log('refused', e.code); }
