// Models: to describe, score, convert, save and generate with, and their tensors.
import { TensorForm, TextForm } from './api.js';
import { configOf } from './config.js';
import { Generator } from './generate.js';
import { Handle, call, callLater, createLater, onlyInside, pathOf, wrap } from './handle.js';
import { encodeAll } from './native.js';
import { withRuntime } from './runtime.js';
import { freeTensor, givenTensor, tensorOf } from './tensor.js';

/** Converts a model, or an adapter: into one GGUF file if target ends in .gguf, else into a directory. */
export async function convert(path, target, options, { runtime, signal } = {}) {
  await withRuntime(runtime, (own) =>
    callLater('trl_model_convert', [own, pathOf(path), pathOf(target), configOf(options)], { signal }));
}

/** A Hugging Face directory or a GGUF file, or what a trainer trains. */
export class Model extends Handle {
  constructor(token) {
    super();
    onlyInside(token, 'Model.open or Trainer.model');
  }

  static async open(path, options, { runtime, signal } = {}) {
    return withRuntime(runtime, async (own) => {
      const parameters = [own, pathOf(path), configOf(options)];
      return wrap(this, await createLater('trl_model_open', 'trl_model_destroy', parameters, { signal }), 'trl_model_destroy', own);
    });
  }

  get _turn() {
    return super._turn ?? this;
  }

  /** The number of parameters, and the model's config.json. */
  describe() {
    return JSON.parse(call('trl_model_describe', this, { out: 'text' })[0]);
  }

  /** Adds a saved LoRA adapter, which is not used yet. */
  async addAdapter(name, path, { signal } = {}) {
    await callLater('trl_model_add_adapter', [this, name, pathOf(path)], { signal });
  }

  async removeAdapter(name, { signal } = {}) {
    await callLater('trl_model_remove_adapter', [this, name], { signal });
  }

  /** Chooses the adapter to compute with; null: only the model. */
  async useAdapter(name, { signal } = {}) {
    await callLater('trl_model_use_adapter', [this, name], { signal });
  }

  /** Merges an adapter into the weights; null undoes it. */
  async mergeAdapter(name, { signal } = {}) {
    await callLater('trl_model_merge_adapter', [this, name], { signal });
  }

  /** Its tensors, with those of its adapters. */
  async tensors({ signal } = {}) {
    return JSON.parse((await callLater('trl_model_get_tensors', [this, { out: 'text' }], { signal })).outputs[0]);
  }

  /** One of them: {dtype, shape, data}. form is one of TensorForm; a view shows the weight's own memory and must not be written
   * to. */
  async readTensor(name, { form = TensorForm.COPY, signal } = {}) {
    return tensorOf(await createLater('trl_model_read_tensor', freeTensor, [this, name, form], { signal }));
  }

  /** Writes the values of a tensor {dtype, shape, data}, whose elements are converted. */
  async writeTensor(name, tensor, { signal } = {}) {
    await callLater('trl_model_write_tensor', [this, name, givenTensor(tensor)], { signal });
  }

  /** Saves the model, or its adapter (save.kind). */
  async save(path, options, { signal } = {}) {
    await callLater('trl_model_save', [this, pathOf(path), configOf(options)], { signal });
  }

  /** The scores that a reward model gives to texts. */
  async score(texts, options, { form = TextForm.ANSWER, signal } = {}) {
    const data = encodeAll(texts, 'texts');
    const { outputs } = await callLater('trl_model_score',
      [this, { texts: data }, { sizes: data.map((text) => text.length) }, data.length, form, configOf(options),
        { room: 'float', size: data.length }], { signal });
    return [...outputs[0]];
  }

  /** A generator with this model, and with its own tokenizer or another one. */
  async generator(tokenizer, { signal } = {}) {
    const pointer = await createLater('trl_generator_create', 'trl_generator_destroy', [this, tokenizer], { signal });
    return wrap(Generator, pointer, 'trl_generator_destroy', this, tokenizer);
  }
}
