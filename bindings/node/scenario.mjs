// The scenario of bindings/scenario.json in JavaScript: scenario.mjs SCENARIO MODEL OUTPUT
// bindings/README.md says what it does and prints; every language prints the same text.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as trl from './index.js';

const [file, model, output] = process.argv.slice(2);
const scenario = JSON.parse(readFileSync(file, 'utf8'));

const line = (...parts) => console.log(...parts);

/** A number as C's %.9f writes it: toFixed rounds its exact value, but a half up instead of to even. */
function fixed(value) {
  const text = value.toFixed(9);
  if (value.toFixed(20).slice(-11) !== '50000000000') return text;
  return Number(text.at(-1)) % 2 ? (value - Math.sign(value) * 5e-10).toFixed(9) : text;
}

function onEvent({ kind, metrics }) {
  if (kind === trl.EventKind.STEP) {
    line('step', metrics.step, 'of', metrics.max_steps, 'loss', fixed(metrics.loss));
    return metrics.step === 3 ? trl.Answer.STOP : 0;
  }
  line('event', kind, 'at', metrics.step);
  return 0;
}

/** Pauses a trainer, and calls a method of it a little later, while the next call is held on a thread of its own. */
function meanwhile(trainer, action) {
  trainer.pause();
  setTimeout(() => trainer[action](), 100);
}

async function train(config, rows) {
  const trainer = await trl.Trainer.create(config, rows, rows);
  line('trained', Number(await trainer.train(onEvent)));
  line('eval_loss', fixed((await trainer.evaluate()).eval_loss));

  meanwhile(trainer, 'resume');
  const metrics = await trainer.step();
  line('step', metrics.step, 'after a pause, loss', fixed(metrics.loss));

  meanwhile(trainer, 'cancel');
  await trainer.step().catch((error) => {
    if (!(error instanceof trl.CancelledError)) throw error;
    line('cancelled, status', error.status);
  });
  trainer.resume();

  await trainer.save(null, { 'save.kind': 'checkpoint' });
  line('checkpoint', Number(existsSync(join(output, 'checkpoint-4', 'trainer_state.json'))));

  class Stop extends Error {}
  const fail = ({ kind, metrics: numbers }) => {
    throw new Stop(`event ${kind} at ${numbers.step}`);
  };
  await trainer.train(fail).catch((error) => {
    if (!(error instanceof Stop)) throw error;
    line('raised again:', error.message);
  });
  line('trained', Number(await trainer.train(onEvent)));
  line('trained', Number(await trainer.train(onEvent)));
  await trainer.save(join(output, 'model'));
  trainer.close();
}

async function generate(path) {
  const opened = await trl.Model.open(path);
  const generator = await opened.generator();
  for (const options of [scenario.generate, scenario.sample]) {
    let text = '';
    const onToken = (_, token, piece) => {
      line('token', token);
      text += piece;
    };
    const [completion] = await generator.generate(scenario.prompt, options, { onToken });
    line(completion.json);
    line('streamed', Number(text === completion.text));
  }
  generator.close();
  opened.close();
}

line('version', trl.version());

const config = new trl.Config(scenario.config);
config.set('model_name_or_path', model).set('output_dir', output);
line('learning_rate', config.text('learning_rate'), 'from', config.origin('learning_rate'));
line('weight_decay', config.text('weight_decay'), 'from', config.origin('weight_decay'));
try {
  config.set(scenario.unknown_key, '1');
} catch (error) {
  line('refused', error.key, 'status', error.status);
}

const rows = scenario.rows.map((text) => ({ text }));
const memory = trl.Dataset.fromRows(rows);
const asked = await trl.Dataset.fromIterable(rows);
line('rows in memory', await memory.rowCount(), 'rows of a callback', await asked.rowCount());
await train(config, memory);

config.set('resume_from_checkpoint', join(output, 'checkpoint-4'));
const resumed = await trl.Trainer.create(config, asked);
line('resumed at', resumed.describe().global_step);
await resumed.train(onEvent);
resumed.close();
await generate(join(output, 'model'));
