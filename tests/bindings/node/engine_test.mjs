// The binding for Node with the engine: node --expose-gc --test engine_test.mjs
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { readFile } from 'node:fs';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { INDEX, MODEL, Oops, SOURCE, folder, pause, trl } from './common.mjs';

const ROWS = ['the kernel waits', 'the driver wakes', 'a page is read', 'a lock is taken'].map((text) => ({ text }));
const SUMS = [0, 1, 2, 3].map((a) => ({ prompt: `${a} + 1 =`, target: a + 1 }));
const PAIRS = [{ prompt: 'one', chosen: ' two', rejected: ' four' }, { prompt: 'two', chosen: ' three', rejected: ' six' }];
const FOLDER = folder();
const { STEP, SAVE, EVALUATE } = trl.EventKind;

const keys = (more = {}) => ({
  model_name_or_path: MODEL, output_dir: mkdtempSync(join(FOLDER, 'run.')), max_steps: 4, per_device_train_batch_size: 2,
  save_strategy: 'no', logging_strategy: 'no', report_to: 'none', bf16: false, ...more,
});

const trainerOf = (more, { rows = ROWS, evaluation, runtime } = {}) =>
  trl.Trainer.create(keys(more), trl.Dataset.fromRows(rows), evaluation, { runtime });

async function online(rewards, more) {
  const trainer = await trainerOf({ method: 'grpo', num_generations: 2, max_completion_length: 5, max_steps: 2, ...more }, { rows: SUMS });
  for (const [index, reward] of rewards.entries()) await trainer.addReward(`reward${index}`, reward);
  return trainer;
}

test('events tell and are answered, at once or later', async () => {
  const trainer = await trainerOf({}, { evaluation: trl.Dataset.fromRows(ROWS) });
  const events = [];
  const train = trainer.train(async (event) => {
    events.push(event);
    await pause(1);
    if (event.kind === SAVE) assert.ok(existsSync(event.texts.path));
    if (event.kind !== STEP) return undefined;
    if (event.metrics.step === 2) return trl.Answer.SAVE | trl.Answer.EVALUATE;
    return event.metrics.step === 3 ? trl.Answer.STOP : undefined;
  });
  assert.equal(await train, true);
  assert.equal(events.filter(({ kind }) => kind === STEP).length, 3);
  assert.ok(events.some(({ kind }) => kind === SAVE) && events.some(({ kind }) => kind === EVALUATE));
  assert.equal(events[0].metrics.max_steps, 4);
  assert.equal(await trainer.train(), true);
  assert.equal(await trainer.train(), false);
  assert.equal(trainer.describe().global_step, 4);
});

test('what a function throws ends the call, and the next one resumes', async () => {
  const trainer = await trainerOf();
  const oops = new Oops('in an event');
  let calls = 0;
  const fail = ({ kind }) => {
    if (kind !== STEP) return;
    ++calls;
    throw oops;
  };
  await assert.rejects(trainer.train(fail), (error) => error === oops);
  assert.deepEqual([calls, trainer.describe().global_step], [1, 1]);
  await assert.rejects(trainer.train(({ kind }) => (kind === STEP ? -7 : 0)),
    (error) => error instanceof trl.CallbackError && error.callbackCode === -7 && error.status === trl.Status.E_CALLBACK);
  await assert.rejects(trainer.train(() => 1.5), TypeError);
  await assert.rejects(trainer.train(() => Promise.reject(oops)), (error) => error === oops);
  assert.equal(await trainer.train(), true);
});

test('a log has lines before its call is over, and what it throws ends a run', async () => {
  const runtime = new trl.Runtime();
  const lines = [];
  await runtime.setLog((...line) => lines.push(line));
  const trainer = await trainerOf({ max_steps: 3000 }, { runtime });
  assert.ok(lines.some(([level, component, text]) => level === trl.LogLevel.INFO && component && text));
  assert.ok('engine' in (await runtime.describe()));
  await runtime.setLog(() => { throw new Oops('in the log'); });
  await assert.rejects(trainer.train(() => {}), Oops);
  assert.ok(trainer.describe().global_step < 3000);
  await runtime.setLog(null);
  assert.ok(await trainer.step());
});

test('the event loop and the pool of libuv stay free', async () => {
  const trainers = await Promise.all(Array.from({ length: 5 }, () => trainerOf({ max_steps: 1000000 })));
  const runs = trainers.map((trainer) => trainer.train()); // more than the pool has threads
  await pause(300);
  const begin = performance.now();
  assert.ok((await promisify(readFile)(join(SOURCE, 'README.md'))).length > 0); // on the pool
  assert.ok(performance.now() - begin < 2000);
  for (const trainer of trainers) trainer.cancel();
  for (const run of await Promise.allSettled(runs)) assert.ok(run.reason instanceof trl.CancelledError);
});

test('a trainer that is closed while it trains is cancelled, and freed when that call is over', async () => {
  const trainer = await trainerOf({ max_steps: 100000 });
  const run = trainer.train(({ kind, metrics }) => {
    if (kind === STEP && metrics.step === 2) trainer.close();
  });
  await assert.rejects(run, trl.CancelledError);
  assert.ok(trainer.closed);
});

test('a signal cancels a run, which can be trained on', async () => {
  const trainer = await trainerOf({ max_steps: 100000 });
  const controller = new AbortController();
  const train = trainer.train(() => controller.abort(new Oops('enough')), { signal: controller.signal });
  await assert.rejects(train, (error) => error instanceof trl.CancelledError && error.cause instanceof Oops);
  const before = trainer.describe().global_step;
  assert.equal((await trainer.step()).step, before + 1);
});

test('a second call is busy', async () => {
  const trainer = await trainerOf({ max_steps: 3 });
  await trainer.train(async () => {
    await assert.rejects(trainer.evaluate(), trl.BusyError);
  });
});

test('the state is read while a run trains', async () => {
  const trainer = await trainerOf({ max_steps: 3 });
  const seen = [];
  await trainer.train(({ kind }) => {
    if (kind === STEP) seen.push([trainer.describe().global_step, trainer.integers('global_step')]);
  });
  assert.deepEqual(seen, [[1, [1]], [2, [2]], [3, [3]]]);
  assert.ok(trainer.describe().metrics.loss > 0);
  assert.deepEqual(trainer.integers('max_steps'), [3]);
  assert.equal(trainer.integers('parameter_count')[0], trainer.model().describe().parameters);
  assert.ok(trainer.integers('eos_token_ids').every(Number.isInteger));
  assert.throws(() => trainer.integers('no such name'), trl.NotFoundError);

  const long = await trainerOf({ max_steps: 1000000 });
  const train = long.train();
  let last = 0;
  for (let i = 0; i < 300 && last < 3; ++i) { // no function of the host is asked meanwhile
    await pause(10);
    const step = long.describe().global_step;
    assert.ok(step >= last);
    last = step;
  }
  assert.ok(last >= 3);
  long.cancel();
  await assert.rejects(train, trl.CancelledError);
});

test('what would wait for the call around a function is busy, and beside it has its turn', async () => {
  const trainer = await trainerOf({ max_steps: 3 });
  const model = trainer.model();
  const writer = await model.generator();
  const options = { 'generate.max_new_tokens': 2 };
  const busy = [() => writer.generate('the', options), () => writer.add('the'), () => model.score(['the']), () => model.tensors(),
    () => writer.take(0)];
  let beside = null;
  let begin = null;
  const asked = new Promise((resolve) => { begin = resolve; });
  const outside = asked.then(() => { beside = writer.generate('the', options); }); // not of the function's making
  await trainer.train(async ({ kind }) => {
    if (kind !== STEP) return;
    for (const call of busy) await assert.rejects(call(), trl.BusyError);
    assert.ok(trainer.model().describe().parameters > 0);
    begin();
    await pause(20);
  });
  await outside;
  assert.equal((await beside)[0].tokenIds.length, 2);
  await writer.generate('the', options, { onToken: () => assert.rejects(writer.generate('the'), trl.BusyError) });
});

test('a pause holds a run', async () => {
  const trainer = await trainerOf({ max_steps: 3 });
  trainer.pause();
  let over = false;
  const train = trainer.train().then(() => { over = true; });
  await pause(200);
  assert.equal(over, false);
  trainer.resume();
  await train;
});

test('steps, evaluations and saves', async () => {
  const evaluation = trl.Dataset.fromRows(ROWS);
  const trainer = await trainerOf({ max_steps: 2 }, { evaluation });
  assert.ok('loss' in (await trainer.step()));
  assert.ok('eval_loss' in (await trainer.evaluate()));
  const [checkpoint, model] = [join(FOLDER, 'checkpoint'), join(FOLDER, 'model')];
  await trainer.save(checkpoint, { 'save.kind': 'checkpoint' });
  await trainer.save(model);
  const last = await trainer.step();
  assert.equal(await trainer.step(), null);
  const resumed = await trainerOf({ max_steps: 2, resume_from_checkpoint: checkpoint });
  assert.deepEqual(await resumed.step(), last);
  const evaluator = await trl.Evaluator.create(keys({ model_name_or_path: model, sample_prompts: ['the'], sample_max_new_tokens: 2 }));
  assert.ok('eval_loss' in (await evaluator.evaluate(evaluation)));
  assert.equal((await evaluator.complete()).length, 1);
});

test('halves of a step are a step', async () => {
  const [one, two] = [await trainerOf(), await trainerOf()];
  const before = await one.backward();
  assert.ok(before.loss > 0);
  await assert.rejects(one.step(), trl.InvalidArgumentError);
  assert.deepEqual(await one.update(), await two.step());
  await assert.rejects(one.update(), trl.InvalidArgumentError);
  const { data } = await one.model().readTensor('model.norm.weight');
  await one.backward();
  await one.update(false);
  assert.deepEqual((await one.model().readTensor('model.norm.weight')).data, data);
  assert.equal(one.describe().global_step, 2);
  await one.step();
  await one.step();
  assert.equal(await one.backward(), null);
});

test('the learning rate is set, also while a run trains', async () => {
  const trainer = await trainerOf({ learning_rate: 1e-3, lr_scheduler_type: 'constant' });
  trainer.setLearningRate(0.25);
  assert.equal((await trainer.step()).learning_rate, 0.25);
  trainer.setLearningRate(null);
  const rates = [];
  await trainer.train(({ kind, metrics }) => {
    if (kind !== STEP) return;
    rates.push(metrics.learning_rate);
    trainer.setLearningRate(0.5);
  });
  assert.deepEqual(rates, [1e-3, 0.5, 0.5]);
  assert.throws(() => trainer.setLearningRate(-1), trl.InvalidArgumentError);
  for (const value of ['0.5', 1n, true]) assert.throws(() => trainer.setLearningRate(value), /^TypeError: learningRate takes a number/);
  await assert.rejects(trainer.addReward(3, () => []), /^TypeError: name takes a text/);
  await assert.rejects(trainer.setRollout(3), /^TypeError: write takes a function, and not 3/);
});

test('other rows are evaluated', async () => {
  const trainer = await trainerOf({}, { evaluation: trl.Dataset.fromRows(ROWS) });
  const [own, same] = [await trainer.evaluate(), await trainer.evaluate(trl.Dataset.fromRows(ROWS))];
  assert.equal(own.eval_loss, same.eval_loss);
  assert.notEqual((await trainer.evaluate(await trl.Dataset.fromIterable(ROWS.slice(2)))).eval_loss, own.eval_loss);
  const failing = await trl.Dataset.fromIterable(() => { throw new Oops('in rows'); });
  await assert.rejects(trainer.evaluate(failing), Oops);
});

test('tensors are read and written', async () => {
  const trainer = await trainerOf();
  const trained = trainer.model();
  const name = 'model.norm.weight';
  const [info] = (await trained.tensors()).filter((one) => one.name === name);
  assert.deepEqual([info.dtype, info.stored, info.trained], ['float32', 'float32', true]);
  const copy = await trained.readTensor(name);
  assert.deepEqual([copy.dtype, copy.shape], ['float32', info.shape]);
  assert.ok(copy.data instanceof Float32Array && copy.data.length === info.shape[0]);
  const kept = copy.data.slice();
  const view = await trained.readTensor(name, { form: trl.TensorForm.VIEW });
  assert.deepEqual(view.data, kept);
  await assert.rejects(trained.readTensor(name, { form: trl.TensorForm.GRADIENT }), trl.NotFoundError);
  await trainer.backward();
  assert.ok((await trained.tensors()).find((one) => one.name === name).gradient);
  const gradient = await trained.readTensor(name, { form: trl.TensorForm.GRADIENT });
  assert.ok(gradient.data.some((value) => value !== 0));
  await trainer.update();
  assert.deepEqual(copy.data, kept);
  const after = await trained.readTensor(name);
  assert.notDeepEqual(after.data, kept);
  assert.equal(view.data.length, kept.length); // readable, whatever it has now
  view.data.reduce((sum, value) => sum + value, 0);

  await trained.writeTensor(name, copy);
  assert.deepEqual((await trained.readTensor(name)).data, kept);
  const doubles = { shape: copy.shape, data: Float64Array.from(kept, (value) => value * 2) };
  await trained.writeTensor(name, doubles);
  assert.deepEqual((await trained.readTensor(name)).data, kept.map((value) => value * 2));
  await trained.writeTensor(name, { dtype: 'bfloat16', shape: copy.shape, data: new Uint16Array(kept.length).fill(0x4040) });
  assert.ok((await trained.readTensor(name)).data.every((value) => value === 3));
  await assert.rejects(trained.writeTensor(name, { shape: [1], data: new Float32Array(1) }), trl.InvalidArgumentError);
  await assert.rejects(trained.writeTensor(name, { shape: copy.shape, data: new Int32Array(kept.length) }), trl.InvalidArgumentError);
  await assert.rejects(trained.writeTensor(name, { shape: [3], data: kept }), RangeError);
  await assert.rejects(trained.writeTensor(name, { dtype: 'float64', shape: copy.shape, data: kept }), TypeError);
  await assert.rejects(trained.writeTensor(name, { shape: [1], data: [1] }), TypeError);
  await assert.rejects(trained.readTensor('no such tensor'), trl.NotFoundError);
});

test('a model and its tensors outlive the trainer', async () => {
  const trainer = await trainerOf();
  const trained = trainer.model();
  const name = (await trained.tensors())[0].name;
  const { data } = await trained.readTensor(name);
  const view = await trained.readTensor(name, { form: trl.TensorForm.VIEW });
  trainer.close();
  assert.deepEqual((await trained.readTensor(name)).data, data);
  const writer = await trained.generator();
  trained.close();
  assert.equal((await writer.generate('the', { 'generate.max_new_tokens': 1 })).length, 1);
  writer.close();
  for (let i = 0; i < 20; ++i) {
    await pause(5);
    globalThis.gc();
  }
  assert.equal(view.data.length, data.length);
  view.data.reduce((sum, value) => sum + value, 0);
  for (let i = 0; i < 50; ++i) await model.readTensor(name); // freed by the collector
  globalThis.gc();
});

test('a model is opened from files of the host, and saved to them', async () => {
  const runtime = new trl.Runtime();
  const files = new Map();
  const said = [];
  let failing = false;
  await runtime.mount('memory', {
    size: (file) => files.get(file)?.length,
    read: (file, offset, size) => files.get(file)?.subarray(offset, offset + size),
    write: async (kind, file, offset, data) => {
      if (kind !== trl.WriteKind.DATA) {
        assert.equal(data, null);
        return void said.push([kind, file]);
      }
      if (failing) throw new Oops('in write');
      assert.equal(offset, files.get(file)?.length ?? 0);
      files.set(file, Buffer.concat([files.get(file) ?? Buffer.alloc(0), data]));
    },
  });
  const trainer = await trainerOf({ max_steps: 1 }, { runtime });
  await trainer.step();
  await trainer.save('host://memory/saved');
  assert.ok(files.has('saved/config.json') && files.get('saved/model.safetensors').length > 1000);
  assert.deepEqual(said.splice(0), [[trl.WriteKind.DONE, 'saved']]);
  const again = await trl.Model.open('host://memory/saved', null, { runtime });
  const name = 'model.norm.weight';
  assert.deepEqual((await again.readTensor(name)).data, (await trainer.model().readTensor(name)).data);
  failing = true;
  await assert.rejects(trainer.save('host://memory/failed'), Oops);
  assert.deepEqual(said, [[trl.WriteKind.DROPPED, 'failed']]);
});

test('plans and checks', async () => {
  const { numbers, text } = await trl.plan(keys(), trl.Dataset.fromRows(ROWS));
  assert.ok(numbers.peak_bytes > 0);
  assert.match(text, /memory/);
  await trl.check(keys());
  await assert.rejects(trl.check(keys({ resume_from_checkpoint: '/nowhere' })),
    (error) => error instanceof trl.NotFoundError && error.key === 'resume_from_checkpoint');
});

const orders = (names) =>
  names.length < 2 ? [names] : names.flatMap((name) => orders(names.filter((n) => n !== name)).map((rest) => [name, ...rest]));

test('any order of destruction', async () => {
  const made = async () => {
    const runtime = new trl.Runtime();
    const rows = await trl.Dataset.fromIterable(ROWS, null, { runtime });
    const trainer = await trl.Trainer.create(keys({ max_steps: 1 }), rows, null, { runtime });
    return { runtime, rows, trainer, generator: await trainer.model().generator() };
  };
  for (const order of orders(['runtime', 'rows', 'trainer', 'generator']).filter((_, index) => index % 4 === 0)) {
    const things = await made();
    for (const name of order) {
      things[name].close();
      if (!things.trainer.closed) await things.trainer.step();
      if (!things.generator.closed) await things.generator.generate('the', { 'generate.max_new_tokens': 1 });
    }
  }
  let { trainer } = await made(); // and in the collector's, while a step reads rows
  const step = trainer.step();
  trainer = null;
  globalThis.gc();
  assert.ok(await step);
  globalThis.gc();
});

const model = await trl.Model.open(MODEL);
const generator = await model.generator(await trl.Tokenizer.open(MODEL));

test('prompts are completed together', async () => {
  const seen = [];
  const options = { 'generate.max_new_tokens': 4, 'generate.num_return_sequences': 2, 'generate.logprobs': 0, 'generate.temperature': 1 };
  const completions = await generator.generate(['the kernel', 'a\0page'], options, { onToken: (...token) => void seen.push(token) });
  assert.equal(completions.length, 4);
  for (const [index, completion] of completions.entries()) {
    assert.equal(completion.finishReason, 'length');
    const own = seen.filter(([number]) => number === index);
    assert.deepEqual(own.map(([, token]) => token), completion.tokenIds);
    assert.deepEqual(own.map(([, , , logProbability]) => logProbability), completion.details.logprobs);
    assert.deepEqual(completion.details.token_ids, completion.tokenIds);
    assert.equal(completion.details.logprobs.length, 4);
  }
  assert.deepEqual(await generator.generate([]), []);
  await generator.generate('the', { 'generate.max_new_tokens': 1 }, { onToken: (...token) => assert.equal(token[3], null) });
});

test('a result ends a completion, and an exception the call', async () => {
  const [done] = await generator.generate('the', { 'generate.max_new_tokens': 9 }, { onToken: () => true });
  assert.equal(done.tokenIds.length, 1);
  await assert.rejects(generator.generate('the', null, { onToken: () => { throw new Oops('at a token'); } }), Oops);
  const signal = AbortSignal.timeout(50);
  await assert.rejects((async () => {
    for (;;) await generator.generate(Array(8).fill('the kernel'), { 'generate.max_new_tokens': 100 }, { signal });
  })(), trl.CancelledError);
});

test('requests', async () => {
  const first = await generator.add('the kernel', { 'generate.max_new_tokens': 3, 'generate.keep': true });
  const second = await generator.add([1, 2, 3], { 'generate.max_new_tokens': 50 });
  const tokens = [];
  while (tokens.length < 6) assert.ok(await generator.step((_, token) => void tokens.push(token)));
  assert.equal((await generator.take(first))[0].finishReason, 'length');
  await generator.extend(first, ' waits', { 'generate.max_new_tokens': 2 });
  await generator.cancel(second);
  while (await generator.step());
  assert.equal((await generator.take(first))[0].tokenIds.length, 2);
  assert.equal((await generator.take(second))[0].finishReason, 'cancelled');
  await generator.cancel(first);
  await generator.releaseMemory();
  await assert.rejects(generator.take(second), trl.NotFoundError);
});

test('what a function throws in a step ends its completion alone', async () => {
  const options = { 'generate.max_new_tokens': 3, 'generate.ignore_eos': true };
  const numbers = [];
  for (const prompt of ['the kernel', 'a page', 'the lock', 'a row']) numbers.push(await generator.add(prompt, options));
  const told = [];
  const fail = (number) => {
    told.push(number);
    if (number === numbers[1]) throw new Oops('at a token');
    return number === numbers[3] ? 'text' : undefined; // no answer either
  };
  await assert.rejects(generator.step(fail), Oops);
  while (await generator.step(fail));
  const sorted = (values) => [...values].sort((a, b) => a - b);
  assert.deepEqual(sorted(told), sorted([...numbers, ...Array(2).fill([numbers[0], numbers[2]]).flat()]));
  const taken = [];
  for (const number of numbers) taken.push(...await generator.take(number));
  assert.deepEqual(taken.map((one) => one.finishReason), ['length', 'cancelled', 'length', 'cancelled']);
  assert.deepEqual(taken.map((one) => one.tokenIds.length), [3, 1, 3, 1]);
});

test('streams', async () => {
  const options = { 'generate.max_new_tokens': 6 };
  const [whole] = await generator.generate('the kernel', options);
  const pieces = [];
  for await (const piece of generator.stream('the kernel', options)) pieces.push(piece);
  assert.deepEqual(pieces.map(({ token }) => token), whole.tokenIds);
  assert.equal(pieces.map(({ text }) => text).join(''), whole.text);
  for await (const piece of generator.stream('the kernel', options)) {
    assert.equal(piece.token, whole.tokenIds[0]);
    break;
  }
  assert.equal(await generator.step(), false);
});

test('describes, converts and saves', async () => {
  const target = join(FOLDER, 'model.gguf');
  await trl.convert(MODEL, target, { 'convert.type': 'f32' });
  const again = await trl.Model.open(target);
  assert.equal(again.describe().parameters, model.describe().parameters);
  await again.save(join(FOLDER, 'again'));
  assert.ok(existsSync(join(FOLDER, 'again', 'config.json')));
  await assert.rejects(model.score(['text']), trl.UnsupportedError);
  await assert.rejects(trl.Model.open('/nowhere'), trl.NotFoundError);
});

test('what is of another type than a parameter is refused', async () => {
  for (const value of [2, 1n, Buffer.from('name'), { out: 'text' }]) {
    await assert.rejects(model.useAdapter(value), /^TypeError: name takes a text, and not /);
    await assert.rejects(model.readTensor(value), /^TypeError: name takes a text, and not /);
    await assert.rejects(model.score([value]), /^TypeError: texts takes a text, and not /);
    await assert.rejects(model.save(value), /^TypeError: path takes a text, and not /);
    await assert.rejects(model.generator(value), /^TypeError: tokenizer takes an object of the class Tokenizer, and not /);
  }
  const data = new Float32Array(2);
  await assert.rejects(model.writeTensor('model.norm.weight', { shape: [-1, -2], data }), /^TypeError: shape takes a list of sizes/);
  const generator = await model.generator();
  for (const value of [5, [1.5]]) await assert.rejects(generator.add(value), /prompt/);
  await assert.rejects(generator.take('0'), /^TypeError: first takes an integer, and not '0'/);
  await assert.rejects(trl.Trainer.create({}, model), /^TypeError: train takes an object of the class Dataset, and not \[Model\]/);
});

test('adapters', async () => {
  const trainer = await trainerOf({ use_peft: true, lora_r: 2, max_steps: 2, learning_rate: 0.05, lora_target_modules: 'all-linear' });
  await trainer.train();
  const adapter = join(FOLDER, 'adapter');
  await trainer.save(adapter);
  const trained = trainer.model();
  await trained.addAdapter('other', adapter);
  await (await trained.generator()).generate('the', { 'generate.adapter': 'other', 'generate.max_new_tokens': 1 });
  await trained.removeAdapter('other');
  await assert.rejects(trained.useAdapter(null), trl.UnsupportedError);
  const opened = await trl.Model.open(MODEL);
  await opened.addAdapter('mine', adapter);
  await opened.useAdapter('mine');
  await opened.mergeAdapter('mine');
  await opened.mergeAdapter(null);
  await opened.useAdapter(null);
  await opened.removeAdapter('mine');
  await assert.rejects(opened.useAdapter('mine'), trl.NotFoundError);
});

test('scores', async () => {
  const trainer = await trainerOf({ method: 'reward', max_steps: 1 }, { rows: PAIRS });
  await trainer.train();
  await trainer.save(join(FOLDER, 'scorer'));
  const scorer = await trl.Model.open(join(FOLDER, 'scorer'));
  const [one, two] = await scorer.score(['one two', 'one\0three']);
  assert.ok(Math.abs(one - (await scorer.score(['one two'], null, { form: trl.TextForm.ANSWER }))[0]) < 1e-5);
  assert.ok(Math.abs(one - two) > 1e-5);
});

test('rewards are given, set, or come later', async () => {
  let kept = null;
  const given = async (rollout) => {
    kept = rollout;
    await assert.rejects((await writer).generate('1'), trl.BusyError); // it would wait for this function
    assert.deepEqual(rollout.row(0).columns.target, rollout.row(1).columns.target);
    assert.throws(() => rollout.row(rollout.length), trl.InvalidArgumentError);
    rollout.log('mine', 2);
    return Array.from(rollout, (row) => row.completion_ids.length);
  };
  const set = (rollout) => {
    for (let index = 0; index < rollout.length; ++index) {
      rollout.setReward(index, index ? null : 1);
      rollout.setValue(index, 'note', { index });
    }
  };
  const later = async (rollout) => {
    await pause(20);
    return Array(rollout.length).fill(0.5);
  };
  const trainer = await online([given, set, later], { logging_strategy: 'steps', logging_steps: 1 });
  const writer = trainer.model().generator();
  await trainer.train();
  const [record] = trainer.describe().log_history;
  assert.deepEqual([record['rewards/reward2/mean'], record.mine], [0.5, 2]);
  assert.throws(() => kept.length, /this rollout is over/);
});

test('what a reward throws may count as none', async () => {
  let asked = 0;
  const fails = () => {
    ++asked;
    throw new Oops('in a reward');
  };
  const keys = { on_reward_error: 'none', logging_strategy: 'steps', logging_steps: 1 };
  const trainer = await online([fails, (rollout) => Array(rollout.length).fill(1)], keys);
  await trainer.train();
  assert.equal(asked, 2);
  assert.equal(trainer.describe().log_history[1]['rewards/reward1/mean'], 1);
});

test('what a reward throws can be tried again', async () => {
  let failing = true;
  const trainer = await online([(rollout) => {
    if (failing) throw new Oops('in a reward');
    return Array(rollout.length).fill(1);
  }]);
  await assert.rejects(trainer.step(), Oops);
  failing = false;
  assert.equal((await trainer.step()).step, 1);
  await assert.rejects(trainer.addReward('reward0', () => {}), trl.TrlError);
  await assert.rejects((await trainerOf()).addReward('reward', () => {}), trl.InvalidArgumentError);
});

test('the host writes completions with a generator of the trainer', async () => {
  const trainer = await online([(rollout) => Array(rollout.length).fill(1)]);
  const writer = await trainer.model().generator();
  let generations = 0;
  await trainer.setRollout(async (rollout) => {
    ++generations;
    for (let index = 0; index < rollout.length; ++index) {
      const [completion] = await writer.generate(rollout.row(index).prompt, { 'generate.max_new_tokens': 3 });
      assert.throws(() => rollout.setCompletion(index, [1, 2], { logProbs: [0] }), RangeError);
      rollout.setCompletion(index, completion.tokenIds, { written: completion.tokenIds.map(() => true), columns: { index } });
    }
  });
  await trainer.train();
  assert.ok(generations > 0);
});

test('tools are answered', async () => {
  await assert.rejects((await online([() => {}])).setTools(() => {}), trl.ConfigError);
});

/** Runs a program that ends itself: its exit code, and how many milliseconds after it said "end". */
function ending(code) {
  return new Promise((resolve) => {
    const program = `import * as trl from ${JSON.stringify(INDEX)};
      const keys = ${JSON.stringify(keys({ max_steps: 1e6 }))}, rows = ${JSON.stringify(ROWS)};
      const end = (last) => { process.stdout.write('end\\n'); last(); };\n${code}`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['ignore', 'pipe', 'pipe'] });
    let [begin, errors] = [NaN, ''];
    child.stdout.on('data', (said) => { if (`${said}`.includes('end')) begin = performance.now(); });
    child.stderr.on('data', (said) => { errors += said; });
    child.on('exit', (status, signal) => resolve({ status, signal, ms: performance.now() - begin, errors }));
  });
}

const EXIT = '() => process.exit(7)';
const TRAIN = 'const trainer = await trl.Trainer.create(keys, trl.Dataset.fromRows(rows));';
for (const [what, status, code] of [
  ['while runs train', 7, `${TRAIN} trainer.train(); trainer.train().catch(() => {}); setTimeout(() => end(${EXIT}), 200);`],
  ['while many runs train', 7, `const all = await Promise.all(Array(6).fill().map(() => trl.Trainer.create(keys, trl.Dataset.fromRows(rows))));
    for (const one of all) one.train(); setTimeout(() => end(${EXIT}), 200);`],
  ['while the engine is opened', 7, `trl.Trainer.create(keys, trl.Dataset.fromRows(rows)); setTimeout(() => end(${EXIT}), 30);`],
  ['in an event', 7, `${TRAIN} trainer.train(({ kind }) => { if (kind === ${STEP}) end(${EXIT}); });`],
  ['while an event is never answered', 7, `${TRAIN} trainer.train(() => new Promise(() => {})); setTimeout(() => end(${EXIT}), 200);`],
  ['while a run is paused', 7, `${TRAIN} trainer.pause(); trainer.train(); setTimeout(() => end(${EXIT}), 200);`],
  ['by an exception', 1, `${TRAIN} trainer.train(() => {}); setTimeout(() => end(() => { throw new Error('the host fails'); }), 200);`],
]) {
  test(`the process ends ${what}`, async () => {
    const done = await ending(code);
    assert.deepEqual([done.status, done.signal], [status, null], done.errors);
    assert.ok(done.ms < 10000, `${done.ms} ms`); // 0.3 s, more where other tests have the processors
  });
}

test('the program of the README', async () => {
  const page = readFileSync(join(SOURCE, 'bindings/node/README.md'), 'utf8');
  const program = page.split('```js\n')[1].split('```')[0];
  const place = mkdtempSync(join(FOLDER, 'readme.'));
  writeFileSync(join(place, 'program.mjs'), program.replace("'libtrl'", JSON.stringify(INDEX)).replace("'smollm2'", JSON.stringify(MODEL)));
  const { stdout } = await promisify(execFile)(process.execPath, ['program.mjs'], { cwd: place });
  assert.match(stdout, /^20 \d/m);
  assert.ok(existsSync(join(place, 'out', 'model.safetensors')));
});
