// Completions of prompts.
import { Status } from './api.js';
import { configOf } from './config.js';
import { Handle, callLater, onlyInside } from './handle.js';
import { encode, encodeAll, hostFunction, idsOf } from './native.js';
import { numberOf } from './threads.js';

/** A completion as it was when it was taken. */
export class Completion {
  constructor(copied) {
    Object.assign(this, copied);
  }

  /** What its JSON has: also the error of an aborted one, and log-probabilities (generate.logprobs). */
  get details() {
    return JSON.parse(this.json);
  }
}

const completions = (copied) => (copied ?? []).map((one) => new Completion(one));

/** A prompt as text, size, ids and count. */
function promptOf(prompt) {
  if (typeof prompt === 'string') {
    const data = encode(prompt, 'prompt');
    return [data, data.length, null, 0];
  }
  const ids = idsOf(prompt, 'prompt');
  return [null, 0, ids, ids.length];
}

/** Made by Model.generator. A token function gets the number of the completion, the token, its text and its log-probability (null
 * without generate.logprobs), and ends that completion by a result that is true. */
export class Generator extends Handle {
  constructor(token) {
    super();
    onlyInside(token, 'Model.generator');
  }

  /** Completes prompts, all together; completion j of prompt i has the number i * num_return_sequences + j. */
  async generate(prompts, options, { onToken, signal } = {}) {
    const texts = encodeAll(prompts, 'prompts');
    const { outputs } = await callLater('trl_generator_generate',
      [this, { texts }, { sizes: texts.map((text) => text.length) }, texts.length, configOf(options),
        hostFunction(onToken, 'onToken') && { callback: 'token' }, null, { out: 'completions' }],
      { signal, functions: { token: onToken } });
    return completions(outputs[0]);
  }

  /** Adds a request: a text or token ids. Gives the number of its first completion. */
  async add(prompt, options, { signal } = {}) {
    const parameters = [this, ...promptOf(prompt), configOf(options), { out: 'integer' }];
    return (await callLater('trl_generator_add', parameters, { signal })).outputs[0];
  }

  async #step(onToken, collect, signal) {
    const parameters = [this, onToken || collect ? { callback: 'token' } : null, null];
    return callLater('trl_generator_step', parameters, { signal, collect, functions: { token: onToken } });
  }

  /** Computes a token of each completion that runs; false if there was nothing to do. What the function throws ends its
   * completion alone, and rejects the promise when the step is done. */
  async step(onToken, { signal } = {}) {
    const thrown = [];
    const told = hostFunction(onToken, 'onToken') && (async (...token) => {
      try {
        return numberOf(await onToken(...token), 'int32');
      } catch (error) {
        thrown.push(error);
        return 1;
      }
    });
    try {
      return (await this.#step(told, false, signal)).status !== Status.END;
    } finally {
      if (thrown.length > 0) throw thrown[0];
    }
  }

  /** Continues a completion that was added with generate.keep, after more tokens. */
  async extend(completion, prompt, options, { signal } = {}) {
    await callLater('trl_generator_extend', [this, completion, ...promptOf(prompt), configOf(options)], { signal });
  }

  /** Ends completions; their tokens so far can still be taken. */
  async cancel(first, count = 1, { signal } = {}) {
    await callLater('trl_generator_cancel', [this, first, count], { signal });
  }

  /** Takes completions as they are. */
  async take(first, count = 1, { signal } = {}) {
    const { outputs } = await callLater('trl_generator_take', [this, first, count, { out: 'completions' }], { signal });
    return completions(outputs[0]);
  }

  /** The tokens of one completion as they are computed: {token, text, logProbability}. Other requests go on meanwhile; leaving
   * the iteration ends this one. */
  async *stream(prompt, options, { signal } = {}) {
    const first = await this.add(prompt, options, { signal });
    try {
      for (;;) {
        const { status, collected } = await this.#step(null, true, signal);
        for (const [completion, token, text, logProbability] of collected)
          if (completion === first) yield { token, text, logProbability };
        if (status === Status.END) return;
      }
    } finally {
      await this.cancel(first);
      await this.take(first);
    }
  }

  /** Gives the memory of keys and values back until completions go on. */
  async releaseMemory({ signal } = {}) {
    await callLater('trl_generator_release_memory', [this], { signal });
  }
}
