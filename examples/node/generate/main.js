// Answers several users at once and prints tokens as they come, cancels one answer in the middle, and goes on with another
// conversation: main.js MODEL [KEY=VALUE ...]. MODEL is a Hugging Face directory or a GGUF file with a chat template; keys are those
// of the group `generate`, such as generate.temperature.
import * as trl from 'libtrl';

const PROMPTS = ['What does the kernel do?', 'Who wrote it?', 'Name a row.'];
const NEXT = 'And since when?';
const MARK = 'THE-ANSWER-4f1c'; // stands for an answer in the template

/** Tokens of different completions alternate. A result that is true would end this completion. */
function onToken(number, token, text) {
  console.log(`[${number}] ${token} "${text}"`);
}

/** Steps until all completions are over. One of them is cancelled after three steps. */
async function run(generator, cancelled = null) {
  for (let steps = 1; await generator.step(onToken); steps += 1) {
    if (steps === 3 && cancelled !== null) await generator.cancel(cancelled);
  }
}

async function take(generator, prompt, number) {
  const [done] = await generator.take(number);
  console.log(`${prompt} -> ${done.text} (${done.finishReason})`);
  return done;
}

/** The tokens of the template from the end of an answer to the beginning of the next one. The answer's own stay as they were
 * generated; the first token here is its end, which it has already unless it ended for another reason. */
function nextMessage(tokenizer, answer) {
  const messages = [
    { role: 'user', content: PROMPTS[0] }, { role: 'assistant', content: MARK }, { role: 'user', content: NEXT },
  ];
  const text = tokenizer.applyChatTemplate({ messages, add_generation_prompt: true });
  if (!text.includes(MARK)) throw new Error('the chat template does not write answers as they are');
  const rest = text.slice(text.indexOf(MARK) + MARK.length);
  const ids = tokenizer.encode(rest, { addSpecialTokens: false, splitSpecialTokens: false });
  return ids[0] === answer.tokenIds.at(-1) ? ids.slice(1) : ids;
}

async function main(path, pairs) {
  const options = new trl.Config({ 'generate.max_new_tokens': 8, 'generate.chat': true, 'generate.keep': true });
  for (const pair of pairs) {
    const [, key, value] = /^([^=]*)=(.*)$/s.exec(pair) ?? [];
    if (key === undefined) throw new Error(`KEY=VALUE is needed, not ${pair}`);
    options.set(key, value);
  }
  const tokenizer = await trl.Tokenizer.open(path);
  const model = await trl.Model.open(path, options);
  const generator = await model.generator(tokenizer);
  const numbers = [];
  for (const prompt of PROMPTS) numbers.push(await generator.add(prompt, options));
  await run(generator, numbers[1]);
  const answers = [];
  for (const [place, prompt] of PROMPTS.entries()) answers.push(await take(generator, prompt, numbers[place]));
  // generate.keep has kept its keys and values: only the new message is computed now.
  await generator.extend(numbers[0], nextMessage(tokenizer, answers[0]), options);
  await run(generator);
  await take(generator, NEXT, numbers[0]);
  await generator.releaseMemory();
}

const [path, ...pairs] = process.argv.slice(2);
if (path === undefined) {
  console.error('usage: main.js MODEL [KEY=VALUE ...]');
  process.exit(1);
}
try {
  await main(path, pairs);
} catch (error) {
  console.error(error instanceof trl.TrlError ? `error ${error.status}: ${error.message}` : error.message);
  process.exit(1);
}
