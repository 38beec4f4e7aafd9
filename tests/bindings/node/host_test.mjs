// The binding for Node, as far as it opens no engine: node --expose-gc --test host_test.mjs
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
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
    assert.ok(Object.values(trl.OptionType).includes(option.type()));
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
  const generations = trl.option('num_generations');
  for (const what of ['type', 'default', 'accepted', 'doc']) assert.equal(generations[what]('sft'), null);
  assert.equal(generations.type('grpo'), trl.OptionType.INTEGER);
  assert.equal(trl.option('no such option'), undefined);
  const older = [...trl.options()].find((option) => option.aliases.length > 0);
  assert.equal(trl.option(older.aliases[0]).name, older.name);
});

test('a JSON schema', () => {
  const { properties } = trl.Config.schema();
  for (const option of trl.options()) assert.ok(option.name in properties, option.name);
  assert.deepEqual(trl.Config.schema('sft').properties.learning_rate.default, Number(trl.option('learning_rate').default('sft')));
  assert.ok(!('num_generations' in trl.Config.schema('sft').properties));
  assert.ok('num_generations' in trl.Config.schema('grpo').properties);
  assert.throws(() => trl.Config.schema('no such trainer'), trl.NotFoundError);
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
    error.statusName === 'TRL_E_INVALID_CONFIG' && error.place === null &&
    error.message.includes('learning_rate'));
  assert.throws(() => config.set('learning_rate', 'fast'), trl.ConfigError);
  assert.deepEqual(config.describe(), {});
  const errors = Object.values(trl.Status).filter((status) => status < 0);
  assert.deepEqual([...CLASSES.keys()].sort(), errors.sort());
  assert.equal(new Set(CLASSES.values()).size, errors.length);
});

test('an error has the place in what was read', async () => {
  const place = (file, line, column, row) => (error) => {
    assert.deepEqual(error.place, { file, line, column, row });
    return true;
  };
  assert.throws(() => new trl.Config().loadText('seed: 7\n  learning_rat: 1\n'), (error) => error.place.line === 2);
  assert.throws(() => new trl.Config().loadText('seed: 7\nlearning_rat: 1\n'), place('text', 2, 1, null));
  const rows = trl.Dataset.fromBuffer('jsonl', '{"text": "a"}\n{"text": }\n');
  await assert.rejects(rows.rowCount(), (error) => error instanceof trl.FormatError && error.place.line === 2);
  const error = new trl.TrlError('mine', trl.Status.E_BUSY, { cause: 7 });
  assert.deepEqual([error.statusName, error.key, error.callbackCode, error.place, error.cause], ['TRL_E_BUSY', null, 0, null, 7]);
});

test('a closed object is refused, and classes that functions make', async () => {
  const config = new trl.Config();
  config.close();
  config.close();
  assert.ok(config.closed);
  assert.throws(() => config.set('seed', 1), /this Config is closed/);
  assert.throws(() => new trl.Dataset(), /use Dataset.open/);
  const rows = trl.Dataset.fromRows(ROWS);
  await assert.rejects(rows.example({ signal: 1 }, 0), /tokenizer takes an object of the class Tokenizer, and not { signal: 1 }/);
  await assert.rejects(rows.example({ encode() {} }, 0), /tokenizer takes an object of the class Tokenizer/);
  const counted = rows.rowCount();
  rows.close(); // it is freed when that call is over
  assert.ok(rows.closed);
  assert.equal(await counted, 8);
  await assert.rejects(rows.rowCount(), /this Dataset is closed/);
});

test('a text that would be cut at a NUL is refused', async () => {
  assert.throws(() => new trl.Config().set('output_dir', 'a\0b'), /output_dir has a NUL character: "a\\u0000b"/);
  assert.throws(() => new trl.Config().get('seed\0'), TypeError);
  await assert.rejects(trl.Dataset.open('/tmp/a\0b'), TypeError);
  assert.throws(() => trl.hasFeature('engine\0'), /name has a NUL character/);
});

test('what is no text is refused before C takes it for an address', async () => {
  const config = new trl.Config();
  const tokenizer = await trl.Tokenizer.open(MODEL);
  const rows = trl.Dataset.fromRows(ROWS);
  for (const value of [3, 1n, true, {}, { out: 'text' }, Buffer.from('seed'), () => 'seed', Symbol('seed')]) {
    for (const call of [() => config.get(value), () => config.origin(value), () => config.delete(value), () => config.set(value, 1)])
      assert.throws(call, (error) => error instanceof TypeError && /^key takes a text, and not /.test(error.message));
    assert.throws(() => new trl.Runtime().memory(value), /^TypeError: kind takes a text/);
    assert.throws(() => trl.Config.schema(value), /^TypeError: trainer takes a text/);
    assert.throws(() => trl.hasFeature(value), /^TypeError: name takes a text/);
    assert.throws(() => trl.option('seed').default(value), /^TypeError: trainer takes a text/);
    assert.throws(() => trl.Dataset.fromBuffer(value, 'x'), /^TypeError: format takes a text/);
    assert.throws(() => tokenizer.encode(value), /^TypeError: text takes a text/);
    assert.throws(() => config.loadText(value), /^TypeError: text takes a text/);
    await assert.rejects(config.load(value), /^TypeError: path takes a text/);
    await assert.rejects(trl.Dataset.open(value), /^TypeError: path takes a text/);
    await assert.rejects(new trl.Runtime().mount(value, {}), /^TypeError: name takes a text/);
  }
  for (const value of [3, new Float32Array(2)])
    assert.throws(() => trl.Dataset.fromBuffer('jsonl', value), /^TypeError: data takes a text or a Uint8Array/);
  for (const value of ['1', 1n, null, true]) assert.throws(() => tokenizer.piece(value), /^TypeError: id takes an integer/);
  for (const value of [5, {}, new Set([1])]) assert.throws(() => tokenizer.decode(value), /^TypeError: ids takes a list of token ids/);
  for (const value of [5n, rows, 'text'])
    await assert.rejects(rows.example(value, 0), /^TypeError: tokenizer takes an object of the class Tokenizer, and not /);
  await assert.rejects(rows.visitBatches(tokenizer, 5), /^TypeError: onBatch takes a function, and not 5/);
  await assert.rejects(rows.rowCount({ signal: 5 }), /^TypeError: signal takes an AbortSignal, and not 5/);
  await assert.rejects(new trl.Runtime().setLog(5), /^TypeError: log takes a function/);
  assert.throws(() => trl.Dataset.fromArrow(5), /^TypeError: address takes a BigInt/);
});

test('options are a configuration or an object of keys and values', async () => {
  const accepted = /^TypeError: options takes a Config or an object of keys and values, and not /;
  for (const value of [5, true, 'seed', [1], new Map([['seed', 1]]), trl.Dataset.fromRows(ROWS)]) {
    assert.throws(() => new trl.Config(value), accepted);
    assert.throws(() => new trl.Runtime(value), accepted);
    await assert.rejects(trl.Tokenizer.open(MODEL, value), accepted);
  }
  assert.throws(() => new trl.Config({ max_steps: [1n] }), /^TypeError: max_steps has no JSON/);
});

test('half of a surrogate pair is refused', async () => {
  const half = 'a\ud800';
  const refused = /has half of a surrogate pair: "a\\ud800"/;
  assert.throws(() => new trl.Config().set('output_dir', half), refused);
  assert.throws(() => new trl.Config().get(half), refused);
  assert.throws(() => new trl.Config().loadText(half), refused);
  assert.throws(() => trl.Dataset.fromBuffer('text', half), refused);
  const tokenizer = await trl.Tokenizer.open(MODEL);
  assert.throws(() => tokenizer.encode(half), refused);
  for (const row of [{ text: half }, { [half]: 1 }])
    await assert.rejects((await trl.Dataset.fromIterable([row])).rowCount(), refused);
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
  const ids = { input_ids: Int32Array.of(9, 5, 6, 7).subarray(1), labels: Int32Array.of(-100, 6, 7) };
  for (const rows of [await trl.Dataset.fromIterable([ids]), trl.Dataset.fromRows([ids])]) {
    const { input_ids, labels } = await rows.example(tokenizer, 0);
    assert.deepEqual([input_ids, labels], [[5, 6, 7], [-100, 6, 7]]);
  }
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
  assert.deepEqual(batches.map(({ batch }) => batch), [0, 1, 2, 3]);
  let seen = 0;
  await rows.visitBatches(tokenizer, async () => ++seen === 2, options, { first: 1 });
  assert.equal(seen, 2);
  await assert.rejects(rows.visitBatches(tokenizer, () => {}, options, { first: 99 }), trl.InvalidArgumentError);
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
  const [special] = tokenizer.encode('<|im_end|>');
  assert.equal(tokenizer.piece(special), '<|im_end|>');
  assert.deepEqual(tokenizer.encode('<|im_end|>', { splitSpecialTokens: false }), [special]);
  assert.ok(!tokenizer.encode('<|im_end|>', { splitSpecialTokens: true }).includes(special));
  const splitting = await trl.Tokenizer.open(MODEL, { split_special_tokens: true });
  assert.ok(!splitting.encode('<|im_end|>').includes(special));
  assert.deepEqual(splitting.encode('<|im_end|>', { splitSpecialTokens: false }), [special]);
  assert.equal(tokenizer.decode([]), '');
  assert.equal(tokenizer.piece(tokenizer.encode('e')[0]), 'e');
  assert.ok('vocab_size' in tokenizer.describe());
  assert.throws(() => tokenizer.decode([1e9]), trl.InvalidArgumentError);
  await assert.rejects(trl.Tokenizer.open('/nowhere'), trl.NotFoundError);
  const messages = [{ role: 'user', content: 'hi' }];
  const longer = tokenizer.applyChatTemplate({ messages, add_generation_prompt: true });
  assert.ok(longer.startsWith(tokenizer.applyChatTemplate(messages)) && longer.endsWith('assistant\n'));
});

test('what is no integer of its type is refused', async () => {
  const tokenizer = await trl.Tokenizer.open(MODEL);
  const rows = trl.Dataset.fromRows(ROWS);
  for (const number of [2 ** 32 + 5, 1.5, NaN, '5']) assert.throws(() => tokenizer.decode([number]), RangeError);
  for (const number of [2 ** 32 + 5, 1.5, NaN]) assert.throws(() => tokenizer.piece(number), RangeError);
  assert.throws(() => new trl.Runtime().setMemoryLimit(2 ** 64), RangeError);
  await assert.rejects(rows.example(tokenizer, 0.5), RangeError);
  await assert.rejects(rows.visitBatches(tokenizer, () => 2 ** 32), RangeError);
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

/** Files of a folder, as a mount gives them; what is read of them is a part of a larger buffer. */
function filesOf(folder) {
  const whole = (file) => (existsSync(join(folder, file)) ? readFileSync(join(folder, file)) : null);
  return {
    size: (file) => whole(file)?.length,
    read: async (file, offset, size) => whole(file)?.subarray(offset, offset + size),
  };
}

test('files of the host', async () => {
  const runtime = new trl.Runtime();
  await runtime.mount('node_files', filesOf(MODEL));
  const text = 'the kernel é';
  const ids = (await trl.Tokenizer.open(MODEL)).encode(text);
  const tokenizer = await trl.Tokenizer.open('host://node_files', null, { runtime });
  assert.deepEqual(tokenizer.encode(text), ids);
  await assert.rejects(runtime.mount('node_files', {}), trl.InvalidArgumentError);
  assert.deepEqual((await trl.Tokenizer.open('host://node_files')).encode(text), ids); // by any call, and the mount is still there
  await assert.rejects(trl.Tokenizer.open('host://node_files/none'), trl.NotFoundError);
  await assert.rejects(trl.Tokenizer.open('host://nothing'), trl.NotFoundError);
  await assert.rejects(runtime.mount('a name', {}), trl.InvalidArgumentError);
  await assert.rejects(runtime.mount('half', { read: () => null }), TypeError);
  runtime.close();
  assert.deepEqual(tokenizer.encode(text), ids);
});

test('what a mount throws comes through', async () => {
  const runtime = new trl.Runtime();
  const size = () => 4;
  const mounts = { size: { size: () => { throw new Oops('in size'); }, read: () => null },
    read: { size, read: () => Promise.reject(new Oops('in read')) } };
  for (const [name, functions] of Object.entries(mounts)) {
    await runtime.mount(`throws-${name}`, functions);
    const [other, more] = [await trl.Dataset.fromIterable(ROWS, null, { runtime }), { runtime }];
    for (const creating of [more, {}]) {
      const counted = other.rowCount(); // another call is not to blame
      await assert.rejects(trl.Tokenizer.open(`host://throws-${name}`, null, creating), Oops);
      assert.equal(await counted, 8);
    }
  }
  for (const [name, read, type] of [['text', () => 'text', TypeError], ['long', () => new Uint8Array(9), trl.CallbackError]]) {
    await runtime.mount(`gives-${name}`, { size, read });
    await assert.rejects(trl.Tokenizer.open(`host://gives-${name}`), type);
  }
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

test('in a Worker what blocks is refused', async () => {
  const code = `const { parentPort } = require('node:worker_threads');
    import(${JSON.stringify(INDEX)}).then(async (trl) => {
      const rows = trl.Dataset.fromRows([{ text: 'a' }]);
      const seed = new trl.Config({ seed: 7 }).get('seed');
      const refused = [() => rows.rowCount(), () => trl.Dataset.fromIterable([]), () => new trl.Runtime().setLog(() => {})];
      const errors = await Promise.all(refused.map((call) => call().catch((error) => [error.name, error.message])));
      parentPort.postMessage({ seed, errors });
    });`;
  const worker = new Worker(code, { eval: true });
  const [[{ seed, errors }]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')]);
  assert.equal(seed, 7);
  for (const [name, message] of errors) assert.ok(name === 'UnsupportedError' && /in a Worker/.test(message), message);
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
