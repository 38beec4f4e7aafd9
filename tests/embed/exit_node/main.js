// main.js ADDON MODEL OUTPUT MS WAY: ends while jobs train, MS after the start, or where WAY is "training" after some
// steps. WAY: exit (code 7), throw (code 1, as of every uncaught exception) or training (code 7).
const [addon, model, output, ms, way] = process.argv.slice(2);
const trl = require(addon);
for (let i = 0; i < 6; ++i) trl.train(model, `${output}/${i}`);  // the pool has 4 threads: two jobs wait
function end() {
  if (way === "training" && trl.steps() < 4) return setTimeout(end, 5);
  console.log(Date.now());
  if (way === "throw") throw new Error("the host fails");
  process.exit(7);
}
setTimeout(end, Number(ms));
