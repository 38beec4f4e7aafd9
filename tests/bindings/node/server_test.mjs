// Servers of the binding for Node: node --expose-gc --test server_test.mjs
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { MODEL, SOURCE, pause, trl } from './common.mjs';

const ADAPTER = join(SOURCE, 'tests/golden/trajectories/sft_lora/adapter_final');
const KEYS = { 'serve.port': 0 };

const loaded = () => readFileSync('/proc/self/maps', 'utf8').includes('libtrl_serve.so');
const health = async (server) => (await fetch(`http://${server.describe().address}/health`)).status;

async function serve(runtime) {
  const server = await trl.Server.create(KEYS, { runtime });
  await server.addModel('tiny', await trl.Model.open(MODEL));
  return server;
}

test('its library is loaded by the first one', async () => {
  assert.ok(trl.hasFeature('serve'));
  assert.ok(!loaded());
  (await trl.Server.create(KEYS)).close();
  assert.ok(loaded());
  assert.throws(() => new trl.Server(), TypeError);
});

test('a signal ends a wait and not the server', async () => {
  const server = await serve();
  await server.start();
  await assert.rejects(server.wait(null, { signal: AbortSignal.timeout(100) }), trl.CancelledError);
  assert.equal(server.describe().state, 'running');
  assert.equal(await health(server), 200);
  assert.equal(await server.wait(0.05), false);
  await server.stop(0);
  assert.equal(await server.wait(0), true);
  server.close();
});

test('closing one that is waited for stops it', async () => {
  const server = await serve();
  await server.start();
  const waiting = server.wait();
  await pause(50);
  server.close();
  assert.equal(await waiting, true);
  assert.throws(() => server.describe(), TypeError);
});

test('the event loop is free, and log lines come within calls', async () => {
  const runtime = new trl.Runtime();
  const lines = [];
  await runtime.setLog((level, component, text) => lines.push(`${component}: ${text}`));
  const server = await serve(runtime);
  await server.start();
  assert.match(lines.at(-1), /^serve: serving tiny at http:/);
  const waiting = server.wait();
  assert.equal(await health(server), 200);
  await server.setAdapter('style', ADAPTER);
  assert.deepEqual(server.describe().models[0].adapters, [{ name: 'style', version: 1 }]);
  server.cancel();
  assert.equal(await waiting, true);
  assert.ok(lines.some((text) => text.startsWith('serve: adapter style of tiny')));
  server.close();
});

test('what it serves may be closed before', async () => {
  const [model, tokenizer] = [await trl.Model.open(MODEL), await trl.Tokenizer.open(MODEL)];
  const server = await trl.Server.create(KEYS);
  await server.addModel('tiny', model, { 'serve.max_num_seqs': 1 }, { tokenizer });
  server.addGenerator('other', await model.generator(tokenizer), tokenizer);
  model.close();
  await server.start();
  await server.sleep({ model: 'other', level: 2, mode: 'wait' });
  assert.deepEqual(server.describe().models.map(({ state }) => state), ['awake', 'asleep']);
  await server.wakeUp({ model: 'other', tags: 'weights,kv_cache' });
  await assert.rejects(server.sleep({ model: 'none' }), trl.NotFoundError);
  await assert.rejects(server.setAdapter('tiny', ADAPTER), trl.InvalidArgumentError);
  server.close();
});
