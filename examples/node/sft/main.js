// Fine-tunes a model on a JSONL file and shows what it writes before and after: main.js MODEL ROWS OUTPUT [KEY=VALUE ...]
// MODEL is a Hugging Face directory or a GGUF file; every key of `trl options sft` may follow. Ctrl-C ends the run.
import * as trl from 'libtrl';

const PROMPT = 'The kernel';

function onLog(level, component, text) {
  if (level >= trl.LogLevel.WARNING) console.error(`${component}: ${text}`);
}

/** Called on this thread, between the steps. Answer.STOP, SAVE and EVALUATE as results would ask for more. */
function onEvent({ kind, metrics }) {
  if (kind === trl.EventKind.STEP) console.log(`step ${metrics.step} of ${metrics.max_steps}: loss ${metrics.loss.toFixed(4)}`);
}

async function printCompletion(trainer, config) {
  const generator = await trainer.model().generator();
  process.stdout.write(`${PROMPT} ->`);
  for await (const { text } of generator.stream(PROMPT, config)) process.stdout.write(text);
  process.stdout.write('\n');
  generator.close();
}

async function main(model, rows, output, ...pairs) {
  const config = new trl.Config({
    model_name_or_path: model, output_dir: output, learning_rate: 1e-3, per_device_train_batch_size: 4, max_steps: 10,
    save_strategy: 'no', 'generate.max_new_tokens': 16,
  });
  for (const pair of pairs) {
    const [, key, value] = /^([^=]*)=(.*)$/s.exec(pair) ?? [];
    if (key === undefined) throw new Error(`KEY=VALUE is needed, not ${pair}`);
    config.set(key, value);
  }
  const interrupt = new AbortController();
  process.once('SIGINT', () => interrupt.abort());
  const runtime = new trl.Runtime(config);
  await runtime.setLog(onLog);
  const dataset = await trl.Dataset.open(rows, config, { runtime });
  const trainer = await trl.Trainer.create(config, dataset, null, { runtime });
  await printCompletion(trainer, config);
  await trainer.train(onEvent, { signal: interrupt.signal });
  await trainer.save();
  await printCompletion(trainer, config);
  console.log(`saved in ${output}`);
}

if (process.argv.length < 5) {
  console.error('usage: main.js MODEL ROWS OUTPUT [KEY=VALUE ...]');
  process.exit(1);
}
try {
  await main(...process.argv.slice(2));
} catch (error) {
  console.error(error instanceof trl.TrlError ? `error ${error.status}: ${error.message}` : error.message);
  process.exit(1);
}
