// Answers requests while it learns from corrections: main.js MODEL OUTPUT
// MODEL is a Hugging Face directory or a GGUF file; OUTPUT gets the adapter.
import * as trl from 'libtrl';

const QUESTION = 'The kernel answers the';
const ANSWER = ' driver at noon';
const SETTINGS = {
  dtype: 'float32', bf16: false, use_peft: true, lora_r: 8, lora_target_modules: 'all-linear', serve_share: 0.5,
  serve_swap: 'token', dataset_streaming: true, train_sampling_strategy: 'sequential', learning_rate: 1e-2,
  lr_scheduler_type: 'constant', max_steps: 2000, per_device_train_batch_size: 16, save_strategy: 'no', report_to: 'none',
  logging_strategy: 'no', 'generate.max_new_tokens': 8,
};
const told = [{ prompt: 'The scheduler', completion: ' picks a task.' }]; // the rows of the run

/** The run reads its rows from here, about a thousand ahead: all that was told so far, again and again. */
function* rows() {
  for (;;) yield* [...told];
}

/** One request, token by token; the steps of the trainer go on meanwhile. */
async function ask(generator, options) {
  const number = await generator.add(QUESTION, options);
  while (await generator.step()) continue;
  const [done] = await generator.take(number);
  return done;
}

/** Asks until the answer is right or the run is over; returns how often. */
async function serve(generator, options, run) {
  let last = '';
  let asked = 0;
  for (; !last.startsWith(ANSWER); asked += 1) {
    if (run.over) throw new Error('the run ended before it was learned');
    if (asked === 20) {
      console.log(`corrected: ${QUESTION}${ANSWER}`);
      told.push({ prompt: QUESTION, completion: ANSWER });
    }
    const { text, json } = await ask(generator, options);
    const step = JSON.parse(json).weights.last_version; // whose adapter wrote the last token
    if (text !== last) console.log(`step ${step}: ${QUESTION}${text}`);
    last = text;
  }
  return asked;
}

async function main(model, output) {
  const config = new trl.Config({ ...SETTINGS, model_name_or_path: model, output_dir: output });
  const trainer = await trl.Trainer.create(config, await trl.Dataset.fromIterable(rows, config));
  const generator = await trainer.model().generator();
  const run = { over: false };
  const training = trainer.train().catch((error) => {
    if (!(error instanceof trl.CancelledError)) throw error; // the answer is right, and nothing is left to learn
  }).finally(() => {
    run.over = true;
  });
  let asked = 0;
  try {
    asked = await serve(generator, config, run);
  } finally {
    trainer.cancel();
    await training;
  }
  await trainer.save();
  console.log(`${asked} requests, none lost; the adapter is in ${output}`);
}

if (process.argv.length !== 4) {
  console.error('usage: main.js MODEL OUTPUT');
  process.exit(1);
}
try {
  await main(...process.argv.slice(2));
} catch (error) {
  console.error(error instanceof trl.TrlError ? `error ${error.status}: ${error.message}` : error.message);
  process.exit(1);
}
