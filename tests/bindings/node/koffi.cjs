// koffi.cjs PROJECT: prints where the binding for Node finds koffi; exits with 1 if it finds none.
const { createRequire } = require('node:module');
const { dirname, join, resolve } = require('node:path');
const folder = process.env.TRL_NODE_MODULES;
try {
  const find = createRequire(join(process.argv[2], 'bindings/node/lib/library.js')).resolve;
  console.log(dirname(find(folder ? resolve(folder, 'koffi') : 'koffi')));
} catch {
  process.exit(1);
}
