// Serves a model over HTTP from within a program: main.js MODEL [--stay] [KEY=VALUE ...]. MODEL is a Hugging Face directory or a GGUF
// file; keys are those of the groups `serve` and `generate`. The program asks its own server; with --stay it then serves until
// Ctrl-C.
import * as trl from 'libtrl';

/** Asks as any client does, such as the package openai with the base URL http://ADDRESS/v1. */
async function complete(address, prompt) {
  const response = await fetch(`http://${address}/v1/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', prompt, max_tokens: 16 }),
  });
  const answer = await response.json();
  return response.ok ? answer.choices[0].text : `${response.status} ${answer.error.message}`;
}

async function main(path, stay, options) {
  const runtime = new trl.Runtime();
  await runtime.setLog((level, component, text) => console.error(`${component}: ${text}`));
  const server = await trl.Server.create(options, { runtime });
  await server.addModel('tiny', await trl.Model.open(path, options, { runtime }));
  await server.start();
  const { address } = server.describe();
  console.log('The kernel ->', await complete(address, 'The kernel'));
  await server.sleep(); // the memory of keys and values goes back to the system
  console.log('asleep:', await complete(address, 'The kernel'));
  await server.wakeUp();
  if (stay) {
    process.on('SIGINT', () => server.cancel()); // requests that run may end; a second time: at once
    await server.wait();
  }
  await server.stop();
  console.log('stopped');
  server.close();
}

const [path, ...more] = process.argv.slice(2);
if (path === undefined) {
  console.error('usage: main.js MODEL [--stay] [KEY=VALUE ...]');
  process.exit(1);
}
const options = { 'serve.port': 0 }; // any that is free
try {
  for (const pair of more.filter((argument) => argument !== '--stay')) {
    const [, key, value] = /^([^=]*)=(.*)$/s.exec(pair) ?? [];
    if (key === undefined) throw new Error(`KEY=VALUE is needed, not ${pair}`);
    options[key] = value;
  }
  await main(path, more.includes('--stay'), options);
} catch (error) {
  console.error(error instanceof trl.TrlError ? `error ${error.status}: ${error.message}` : error.message);
  process.exit(1);
}
