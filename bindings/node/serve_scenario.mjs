// The scenario of bindings/serve_scenario.json in JavaScript: serve_scenario.mjs SCENARIO MODEL ADAPTER
// bindings/README.md says what it does and prints; every language prints the same text.
import { readFileSync } from 'node:fs';
import * as trl from './index.js';

const [file, model, adapter] = process.argv.slice(2);
const scenario = JSON.parse(readFileSync(file, 'utf8'));

const line = (...parts) => console.log(...parts);

await trl.Server.create({ [scenario.refused_key]: scenario.refused_value }).catch((error) => {
  line('refused', error.key, 'status', error.status);
});

let log = [];
const runtime = new trl.Runtime();
await runtime.setLog((level, component, text) => log.push(text));
const server = await trl.Server.create(scenario.options, { runtime });
await server.addModel(scenario.model, await trl.Model.open(model, null, { runtime }));

const served = () => server.describe().models[0];
const state = () => line('server', server.describe().state);

async function request(path, body) {
  const options = body ? { method: 'POST', headers: { 'Content-Type': 'application/json' }, body } : {};
  const response = await fetch(`http://${server.describe().address}${path}`, options);
  return [response.status, await response.json()];
}

async function complete(name) {
  const [status, answer] = await request('/v1/completions', scenario[name]);
  line('completion', status, status === 200 ? answer.choices[0].text : answer.error.type);
}

async function start() {
  log = [];
  await server.start();
  const { address } = server.describe();
  line('log', Number(log.some((text) => text.includes(address))));
  state();
}

async function adapters() {
  await server.setAdapter(scenario.adapter, adapter);
  for (const { name, version } of served().adapters) line('adapter', name, 'version', version);
  await complete('adapted_request');
  await server.setAdapter(scenario.adapter, null);
  line('adapters', served().adapters.length);
  await complete('adapted_request');
}

async function sleep() {
  await server.sleep();
  line('model', served().state);
  await complete('request');
  await server.wakeUp();
  line('model', served().state);
  await complete('request');
}

await server.addModel(scenario.model, await trl.Model.open(model)).catch((error) => {
  line('added twice, status', error.status);
});
state();
await start();
line('stopped', Number(await server.wait(0)));

const [status, models] = await request('/v1/models');
line('models', status, models.data[0].id);
await complete('request');
await adapters();
await server.setAdapter(scenario.adapter, model).catch((error) => line('no adapter, status', error.status));
await sleep();
line('requests', served().requests);

server.cancel();
line('stopped', Number(await server.wait()));
state();
await start();
await server.stop(0);
state();
server.close();
