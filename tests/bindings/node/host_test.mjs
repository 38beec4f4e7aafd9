// The binding for Node, as far as it opens no engine: node --expose-gc --test host_test.mjs
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { CLASSES } from '../../../bindings/node/lib/errors.js';
import { INDEX, MODEL, Oops, SOURCE, pause, trl } from './common.mjs';

const ROWS = Array.from({ length: 8 }, (_, i) => ({ text: `one two three four five ${i}` }));
const FILE = join(SOURCE, 'tests/golden/data/datasets/train_lm.jsonl');

function runNode(code, environment = {}) {
  return spawnSync(process.execPath, ['--input-type=module', '-e', `import * as trl from ${JSON.stringify(INDEX)};\n${code}`],
    { env: { ...process.env, ...environment }, encoding: 'utf8', timeout: 60000 });
}

test('a missing library is named', () => {
  const done = runNode('trl.version()', { TRL_LIBRARY: '/nowhere/libtrl.so' });
  assert.match(done.stderr, /the library \/nowhere\/libtrl.so cannot be loaded/);
});

test('another version is refused', () => {
  const api = INDEX.replace('index.js', 'lib/api.js');
  for (const version of [[9, 1, 0], [0, 9, 0]]) {
    const done = runNode(`(await import('${api}')).VERSION.splice(0, 3, ${version}); trl.version()`);
    assert.ok(done.stderr.includes(`and this package is for ${version.join('.')}`), done.stderr);
  }
});

test('a function that the library lacks is named', () => {
  const file = (name) => INDEX.replace('index.js', `lib/${name}.js`);
  const done = runNode(`(await import('${file('api')}')).FUNCTIONS.trl_new = ['None'];
    (await import('${file('library')}')).lib.trl_new()`);
  assert.match(done.stderr, /this libtrl has no trl_new/);
});

test('a path goes before the environment', () => {
  const done = runNode(`trl.load(${JSON.stringify(process.env.TRL_LIBRARY)}); console.log(trl.version())`, { TRL_LIBRARY: '/nowhere' });
  assert.equal(done.stdout.trim(), trl.version());
  assert.throws(() => trl.load('/nowhere/libtrl.so'), /loaded already/);
  trl.load();
});

test('version and features', () => {
  const number = trl.versionNumber();
  assert.equal(trl.version(), `${number >> 16}.${(number >> 8) & 255}.${number & 255}`);
  assert.equal(trl.buildInfo().version, trl.version());
  assert.ok(trl.buildInfo().features.every(trl.hasFeature));
  assert.equal(trl.hasFeature('no such feature'), false);
});

test('each option has a name, a doc and a default that a configuration takes', () => {
  const names = new Set();
  const config = new trl.Config();
  for (const option of trl.options()) {
    names.add(option.name);
    assert.ok(option.doc() && option.section && option.group && option.since, option.name);
    assert.ok(['trl', 'ours'].includes(option.origin));
    assert.ok(Object.values(trl.OptionType).includes(option.type));
    assert.deepEqual(option.value(option.default()), config.get(option.name), option.name);
    for (const text of [option.unsupportedReason, option.ignoredReason, option.taken, ...option.otherNames])
      assert.equal(typeof text, 'string');
  }
  assert.ok(names.size > 500);
});

test('a trainer has its own defaults and texts', () => {
  const rate = trl.option('learning_rate');
  assert.ok(rate.trainers.includes('dpo'));
  assert.notEqual(rate.default('dpo'), rate.default());
  const loss = trl.option('loss_type');
  assert.notEqual(loss.accepted('dpo'), loss.accepted('sft'));
  assert.notEqual(loss.doc('dpo'), loss.doc('sft'));
  assert.equal(trl.option('num_generations').default('sft'), null);
  assert.equal(trl.option('no such option'), undefined);
  const older = [...trl.options()].find((option) => option.aliases.length > 0);
  assert.equal(trl.option(older.aliases[0]).name, older.name);
});

test('a JSON schema', () => {
  for (const trainer of [undefined, 'sft', 'dpo', 'grpo']) {
    const { properties } = JSON.parse(JSON.stringify(trl.schema(trainer)));
    for (const [name, item] of Object.entries(properties)) {
      if (item.$ref) {
        assert.ok(item.$ref.replace('#/properties/', '') in properties);
        continue;
      }
      const value = item.default;
      const kind = Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value;
      const taken = value === null || item.type.some((type) => type === kind || (type === 'integer' && Number.isInteger(value)));
      assert.ok(taken, `${name} ${JSON.stringify(item)}`);
      if (item.enum && value !== null) assert.ok(item.enum.includes(value), name);
      if (item.anyOf) assert.ok(item.anyOf[1].items.enum.includes(value[0]), name);
      if (typeof value === 'number' && 'minimum' in item) assert.ok(value >= item.minimum, name);
    }
  }
  assert.equal(trl.schema('sft').properties.method.enum[0], 'sft');
  assert.ok(!('num_generations' in trl.schema('sft').properties));
  assert.ok('num_generations' in trl.schema('grpo').properties);
});

test('a configuration has what was set', () => {
  const keys = { 'generate.stop': ['a', 'b'], learning_rate: 1e-4, bf16: false, max_steps: 3, resume_from_checkpoint: null };
  const config = new trl.Config({ ...keys, seed: undefined });
  assert.deepEqual(config.describe(), keys);
  assert.deepEqual(Object.fromEntries(config), keys);
  assert.equal(config.text('learning_rate'), '1e-04');
  assert.equal(config.get('seed'), 42);
  assert.deepEqual([config.origin('seed'), config.origin('max_steps')], ['default', 'set']);
  assert.deepEqual([config.has('seed'), config.has('bf16')], [false, true]);
  config.delete('max_steps');
  assert.equal(config.get('max_steps'), -1);
  assert.deepEqual(new trl.Config(config).describe(), config.describe());
  assert.throws(() => config.set('seed', undefined), TypeError);
  assert.throws(() => config.set('learning_rate', Infinity), trl.ConfigError);
});

test('a configuration reads texts and files', async () => {
  const config = new trl.Config().loadText('learning_rate: 1e-3\nseed: 7\n');
  assert.deepEqual([config.get('learning_rate'), config.get('seed'), config.origin('seed')], [1e-3, 7, 'text:2']);
  await assert.rejects(config.load('/nowhere/recipe.yaml'), trl.NotFoundError);
  assert.ok(Array.isArray(config.warnings()));
});

test('an error has class, status and key', () => {
  const config = new trl.Config();
  assert.throws(() => config.set('learning_rat', 1), (error) => error instanceof trl.ConfigError && error instanceof trl.TrlError &&
    error.name === 'ConfigError' && error.key === 'learning_rat' && error.status === trl.Status.E_INVALID_CONFIG &&
    error.message.includes('learning_rate'));
  assert.throws(() => config.set('learning_rate', 'fast'), trl.ConfigError);
  assert.deepEqual(config.describe(), {});
  const errors = Object.values(trl.Status).filter((status) => status < 0);
  assert.deepEqual([...CLASSES.keys()].sort(), errors.sort());
  assert.equal(new Set(CLASSES.values()).size, errors.length);
});

test('a closed object is refused, and classes that functions make', async () => {
  const config = new trl.Config();
  config.close();
  config.close();
  assert.ok(config.closed);
  assert.throws(() => config.set('seed', 1), /this Config is closed/);
  assert.throws(() => new trl.Dataset(), /use Dataset.open/);
  const rows = trl.Dataset.fromRows(ROWS);
  rows.close();
  await assert.rejects(rows.rowCount(), /this Dataset is closed/);
});

test('rows in memory and asked for', async () => {
  assert.equal(await trl.Dataset.fromRows(ROWS).rowCount(), 8);
  assert.equal(await trl.Dataset.fromBuffer('csv', 'text\na\nb\n').rowCount(), 2);
  const many = Array.from({ length: 1000 }, () => ROWS[0]);
  async function* later() {
    for (const row of ROWS) {
      await pause(1);
      yield row;
    }
  }
  for (const [rows, count] of [[ROWS, 8], [() => ROWS.values(), 8], [new Set(ROWS), 8], [later, 8], [many, 1000], [[], 0]]) {
    const dataset = await trl.Dataset.fromIterable(rows);
    assert.deepEqual([await dataset.rowCount(), await dataset.rowCount()], [count, count]);
  }
});

test('an iterator is read once', async () => {
  const dataset = await trl.Dataset.fromIterable(ROWS.values());
  assert.equal(await dataset.rowCount(), 8);
  await assert.rejects(dataset.rowCount(), /an iterator gives them once/);
});

test('columns keep their types', async () => {
  const row = { messages: [{ role: 'user', content: 'é 字 🙂' }, { role: 'assistant', content: 'a\0b' }], score: 1.5 };
  const tokenizer = await trl.Tokenizer.open(MODEL);
  const asked = await (await trl.Dataset.fromIterable([row])).example(tokenizer, 0);
  assert.deepEqual(asked, await trl.Dataset.fromRows([row]).example(tokenizer, 0));
  const bad = await trl.Dataset.fromIterable([{ text: undefined }]);
  await assert.rejects(bad.rowCount(), TypeError);
});

test('what rows throw comes through, and the next call starts over', async () => {
  const oops = new Oops('at row 3');
  let failing = true;
  const dataset = await trl.Dataset.fromIterable(function* rows() {
    yield* ROWS.slice(0, 3);
    if (failing) throw oops;
    yield* ROWS.slice(3);
  });
  await assert.rejects(dataset.rowCount(), (error) => error === oops);
  const tokenizer = await trl.Tokenizer.open(MODEL);
  assert.ok((await dataset.example(tokenizer, 2)).input_ids.length > 0); // the row that fails is not reached
  failing = false;
  assert.equal(await dataset.rowCount(), 8);
  const rewind = await trl.Dataset.fromIterable(() => { throw oops; });
  await assert.rejects(rewind.rowCount(), (error) => error === oops);
});

test('rows may use the library', async () => {
  const inner = await trl.Dataset.fromIterable(ROWS);
  const outer = await trl.Dataset.fromIterable(async function* rows() {
    yield { text: `there are ${await inner.rowCount()} rows` };
  });
  assert.equal(await outer.rowCount(), 1);
});

test('a configuration names rows', async () => {
  const one = await trl.Dataset.fromConfig({ dataset_name: FILE });
  assert.equal(one.evaluation, null);
  const both = await trl.Dataset.fromConfig({ dataset_name: FILE, eval_dataset_name: FILE });
  assert.equal(await both.train.rowCount(), await both.evaluation.rowCount());
  assert.equal(await one.train.rowCount(), await (await trl.Dataset.open(new URL(`file://${FILE}`))).rowCount());
  await assert.rejects(trl.Dataset.fromConfig({ dataset_name: '/nowhere.jsonl' }), trl.NotFoundError);
});

test('an Arrow stream is taken over by its address', () => {
  assert.throws(() => trl.Dataset.fromArrow(0n), trl.TrlError);
});

test('lengths, examples and batches', async () => {
  const tokenizer = await trl.Tokenizer.open(MODEL);
  const rows = trl.Dataset.fromRows(ROWS);
  const { numbers, plot } = await rows.profile(tokenizer, { 'profile.max_lengths': [4, 16] });
  assert.equal(numbers.rows, 8);
  assert.match(plot, /\n/);
  const options = { per_device_train_batch_size: 2 };
  const batches = [];
  await rows.visitBatches(tokenizer, (batch) => void batches.push(batch), options);
  assert.equal(batches.length, 4);
  assert.deepEqual(batches[1], await rows.batch(tokenizer, 1, options));
  let seen = 0;
  await rows.visitBatches(tokenizer, async () => ++seen === 2, options, { first: 1 });
  assert.equal(seen, 2);
  await assert.rejects(rows.batch(tokenizer, 99), trl.InvalidArgumentError);
  await assert.rejects(rows.visitBatches(tokenizer, () => { throw new Oops('in a batch'); }), Oops);
  await assert.rejects(rows.visitBatches(tokenizer, () => 'yes'), /a boolean or an integer, and not yes/);
  await assert.rejects(rows.visitBatches(tokenizer, () => -7),
    (error) => error instanceof trl.CallbackError && error.callbackCode === -7);
});

test('encodes and decodes', async () => {
  const tokenizer = await trl.Tokenizer.open(MODEL);
  const text = `the kernel é 字 🙂 \0 ${'long '.repeat(400)}`;
  assert.equal(tokenizer.decode(tokenizer.encode(text)), text);
  assert.deepEqual(tokenizer.encode(''), []);
  assert.equal(tokenizer.decode([]), '');
  assert.equal(tokenizer.piece(tokenizer.encode('e')[0]), 'e');
  assert.ok('vocab_size' in tokenizer.describe());
  assert.throws(() => tokenizer.decode([1e9]), trl.InvalidArgumentError);
  await assert.rejects(trl.Tokenizer.open('/nowhere'), trl.NotFoundError);
  const messages = [{ role: 'user', content: 'hi' }];
  const longer = tokenizer.applyChatTemplate({ messages, add_generation_prompt: true });
  assert.ok(longer.startsWith(tokenizer.applyChatTemplate(messages)) && longer.endsWith('assistant\n'));
});

test('progress is told, and stops a call', async () => {
  const runtime = new trl.Runtime();
  const phases = [];
  await runtime.setProgress((phase) => void phases.push(phase));
  const rows = await trl.Dataset.open(FILE, null, { runtime });
  await rows.rowCount();
  assert.ok(phases.includes('rows'));
  await runtime.setProgress(() => { throw new Oops('in progress'); });
  await assert.rejects(rows.rowCount(), Oops);
  await runtime.setProgress(() => trl.Progress.STOP);
  await assert.rejects(rows.rowCount(), trl.CancelledError);
  await runtime.setProgress(null);
  await rows.rowCount();
});

test('memory and its limit', () => {
  const runtime = new trl.Runtime();
  const { now, peak } = runtime.memory();
  assert.ok(now <= peak);
  assert.equal(runtime.memory('weights').now, 0);
  assert.throws(() => runtime.memory('no such kind'), trl.NotFoundError);
  runtime.setMemoryLimit(2 ** 40);
  runtime.setMemoryLimit(0);
  assert.throws(() => runtime.setMemoryLimit(-1), trl.InvalidArgumentError);
});

function* endless() {
  for (;;) yield ROWS[0];
}

test('a call is cancelled', async () => {
  const runtime = new trl.Runtime();
  const rows = await trl.Dataset.fromIterable(endless, null, { runtime });
  for (const cancel of [() => runtime.cancel(), trl.cancelAll]) {
    const counting = rows.rowCount();
    setTimeout(cancel, 200);
    await assert.rejects(counting, trl.CancelledError);
  }
});

test('a signal ends a call, and only that', async () => {
  const [rows, others] = [await trl.Dataset.fromIterable(endless), await trl.Dataset.fromIterable(ROWS)];
  for (const ms of [0, 1, 50]) {
    const controller = new AbortController();
    const counting = rows.rowCount({ signal: controller.signal });
    const counted = others.rowCount();
    setTimeout(() => controller.abort(), ms);
    await assert.rejects(counting, (error) => error instanceof trl.CancelledError && error.cause === controller.signal.reason);
    assert.equal(await counted, 8);
    await assert.rejects(others.rowCount({ signal: controller.signal }), trl.CancelledError);
  }
});

test('objects and functions are freed by the collector', async () => {
  const refs = [];
  for (let i = 0; i < 3; ++i) {
    const rows = await trl.Dataset.fromIterable(() => (rows ? ROWS : [])); // a circle
    await rows.rowCount();
    refs.push(new WeakRef(rows));
  }
  for (let i = 0; i < 50 && refs.some((ref) => ref.deref()); ++i) {
    await pause(10);
    globalThis.gc();
  }
  assert.ok(refs.every((ref) => !ref.deref()));
});

test('shutdown ends threads, and the next call has new ones', async () => {
  await trl.shutdown();
  assert.equal(await trl.Dataset.fromRows(ROWS).rowCount(), 8);
});

test('a process ends when nothing is left to do, and a pending call is awaited', () => {
  const code = `const rows = await trl.Dataset.fromIterable([{ text: 'a' }, { text: 'b' }]);
    const runtime = new trl.Runtime();
    await runtime.setLog(() => {});
    rows.rowCount().then(console.log);`;
  const done = runNode(code);
  assert.deepEqual([done.status, done.stdout, done.stderr], [0, '2\n', '']);
});

test('process.exit ends rows that never come', () => {
  const code = `const rows = await trl.Dataset.fromIterable(async function* rows() { yield { text: 'a' }; await new Promise(() => {}); });
    rows.rowCount();
    setTimeout(() => process.exit(7), 300);
    setInterval(() => {}, 1000);`;
  const done = runNode(code);
  assert.deepEqual([done.status, done.stderr], [7, '']);
});
