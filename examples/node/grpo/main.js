// Teaches a model sums by GRPO, with a reward in JavaScript: main.js MODEL OUTPUT [KEY=VALUE ...]. MODEL is a Hugging Face directory or
// a GGUF file. A short SFT shows it the sums of two digits with their answers; OUTPUT/sft then answers some. From there GRPO shows
// it no answer, and rewards completions that are the right number. Every key of `trl options grpo` may follow; with method=rloo or
// method=ppo that trainer takes GRPO's place.
import * as trl from 'libtrl';

const SHARED = { learning_rate: 2e-3, save_strategy: 'no', bf16: false };
const SFT = { method: 'sft', max_steps: 70, per_device_train_batch_size: 50 };
const GROUPS = {
  max_steps: 100, per_device_train_batch_size: 400, num_generations: 8, // 8 for each of 50 prompts
  max_completion_length: 4,
};
const PPO = {
  max_steps: 100, per_device_train_batch_size: 100, num_ppo_epochs: 2, // one for each prompt
  temperature: 1, response_length: 4, stop_token: 'eos',
};
const answers = new Map(); // by prompt
for (let a = 0; a < 10; a += 1) for (let b = 0; b < 10; b += 1) answers.set(`${a}+${b}=`, String(a + b));

/** Called once for each generation, with all of its completions: 1 for one that is the sum and nothing else. */
function checkSums(rollout) {
  return Array.from(rollout, ({ prompt, completion }) => Number(completion === answers.get(prompt)));
}

function onEvent({ kind, metrics }) {
  const reward = metrics.reward ?? metrics['objective/scores']; // the name that PPO has for it
  if (kind !== trl.EventKind.STEP || reward === undefined) return;
  console.log(`step ${String(metrics.step).padStart(3)}: mean reward ${reward.toFixed(3)}`);
}

async function showSums(model, output) {
  const config = new trl.Config({ ...SHARED, ...SFT, model_name_or_path: model, output_dir: output });
  const rows = trl.Dataset.fromRows(Array.from(answers, ([prompt, completion]) => ({ prompt, completion })), config);
  const trainer = await trl.Trainer.create(config, rows);
  await trainer.train();
  await trainer.save();
  trainer.close();
}

async function rewardSums(model, output, options) {
  const settings = options.method === 'ppo' ? PPO : GROUPS;
  const config = new trl.Config({
    method: 'grpo', ...SHARED, ...settings, model_name_or_path: model, output_dir: output, ...options,
  });
  const rows = trl.Dataset.fromRows(Array.from(answers.keys(), (prompt) => ({ prompt })), config);
  const trainer = await trl.Trainer.create(config, rows);
  await trainer.addReward('check_sums', checkSums);
  await trainer.train(onEvent);
  await trainer.save();
}

const [model, output, ...pairs] = process.argv.slice(2);
if (output === undefined) {
  console.error('usage: main.js MODEL OUTPUT [KEY=VALUE ...]');
  process.exit(1);
}
const options = {};
try {
  for (const pair of pairs) {
    const [, key, value] = /^([^=]*)=(.*)$/s.exec(pair) ?? [];
    if (key === undefined) throw new Error(`KEY=VALUE is needed, not ${pair}`);
    options[key] = value;
  }
  await showSums(model, `${output}/sft`);
  await rewardSums(`${output}/sft`, output, options);
  console.log(`saved in ${output}`);
} catch (error) {
  console.error(error instanceof trl.TrlError ? `error ${error.status}: ${error.message}` : error.message);
  process.exit(1);
}
