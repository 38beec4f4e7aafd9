// Trainers, what they tell, and what they ask the host for.
import { Status } from './api.js';
import { configOf } from './config.js';
import { Handle, call, callLater, createLater, fill, onlyInside, pathOf, wrap } from './handle.js';
import { lib } from './library.js';
import { Model } from './model.js';
import { hostFunction, idsOf, jsonOf, list, number, unlike } from './native.js';
import { withRuntime } from './runtime.js';
import { keep } from './threads.js';

/** Rows that a trainer asks the host about; valid until the function that got it is over. */
export class Rollout {
  #pointer;

  constructor(pointer) {
    this.#pointer = pointer;
  }

  get #handle() {
    if (this.#pointer === null) throw new TypeError('this rollout is over');
    return this.#pointer;
  }

  /** How many rows there are. */
  get length() {
    return Number(lib.trl_rollout_count(this.#handle));
  }

  /** What is known of a row. */
  row(index) {
    return JSON.parse(call('trl_rollout_get', this.#handle, index, { out: 'text' })[0]);
  }

  *[Symbol.iterator]() {
    for (let index = 0; index < this.length; ++index) yield this.row(index);
  }

  /** null: the function does not score this completion. */
  setReward(index, reward) {
    call('trl_rollout_set_reward', this.#handle, index, reward ?? NaN);
  }

  setCompletion(index, tokenIds, { logProbs, written, columns } = {}) {
    const ids = idsOf(tokenIds, 'tokenIds');
    const floats = logProbs && Float32Array.from(list(logProbs, 'numbers', 'logProbs'), (value) => number(value, 'float', 'logProbs'));
    const bytes = written && Uint8Array.from(list(written, 'booleans', 'written'), Boolean);
    for (const values of [floats, bytes])
      if (values && values.length !== ids.length)
        throw new RangeError(`logProbs and written have one value for each of the ${ids.length} token ids`);
    call('trl_rollout_set_completion', this.#handle, index, ids, ids.length, floats, bytes, columns && jsonOf(columns, 'columns'));
  }

  setValue(index, name, value) {
    call('trl_rollout_set_value', this.#handle, index, name, jsonOf(value, 'value'));
  }

  /** Adds a value to the metrics of the step. */
  log(name, value) {
    call('trl_rollout_log', this.#handle, name, value);
  }

  _finish(failure) {
    const pointer = this.#pointer;
    this.#pointer = null;
    call('trl_rollout_finish', pointer, failure && Buffer.from(failure.replaceAll('\0', ' ')).toString());
  }
}

/** Has a function of the host answer a rollout, in its own time: the library was told that it does so later. */
function answering(answer, name) {
  if (typeof answer !== 'function') throw unlike(name, 'a function', answer);
  return async (pointer) => {
    const rollout = new Rollout(pointer);
    try {
      const rewards = await answer(rollout);
      if (rewards !== undefined && rewards !== null) {
        let index = 0;
        for (const reward of rewards) rollout.setReward(index++, reward);
      }
    } catch (error) {
      rollout._finish(`the function failed: ${error?.message ?? error}`);
      throw error;
    }
    rollout._finish(null);
  };
}

/** A run of the method that its configuration names. */
export class Trainer extends Handle {
  constructor(token) {
    super();
    onlyInside(token, 'Trainer.create');
  }

  static async create(config, train, evaluation, { runtime, signal } = {}) {
    return withRuntime(runtime, async (own) => {
      const parameters = [own, configOf(config), train, evaluation];
      return wrap(this, await createLater('trl_trainer_create', 'trl_trainer_destroy', parameters, { signal }),
        'trl_trainer_destroy', own, train, evaluation);
    });
  }

  get _turn() {
    return this;
  }

  /** Trains to the end, or until onEvent answers Answer.STOP; false if the run was complete before. */
  async train(onEvent, { signal } = {}) {
    const { status } = await callLater('trl_trainer_train', [this, hostFunction(onEvent, 'onEvent') && { callback: 'event' }, null],
      { signal, functions: { event: onEvent } });
    return status !== Status.END;
  }

  /** One optimizer step and its numbers; null when nothing is left. */
  async step({ signal } = {}) {
    const { status, outputs } = await callLater('trl_trainer_step', [this, { out: 'metrics' }], { signal });
    return status === Status.END ? null : outputs[0];
  }

  /** The first half of a step, forward and backward: its numbers so far; null when nothing is left. */
  async backward({ signal } = {}) {
    const { status, outputs } = await callLater('trl_trainer_backward', [this, { out: 'metrics' }], { signal });
    return status === Status.END ? null : outputs[0];
  }

  /** The second half of a step, with the update of the weights or without it. */
  async update(apply = true, { signal } = {}) {
    return (await callLater('trl_trainer_update', [this, Number(apply), { out: 'metrics' }], { signal })).outputs[0];
  }

  /** Sets the learning rate of the next steps; null: that of the schedule again. */
  setLearningRate(learningRate) {
    call('trl_trainer_set_learning_rate', this, learningRate ?? NaN);
  }

  /** Evaluates on the evaluation rows, or on others. */
  async evaluate(rows, { signal } = {}) {
    return (await callLater('trl_trainer_evaluate', [this, rows, { out: 'metrics' }], { signal })).outputs[0];
  }

  /** Saves the model, or what save.kind says; no path: into output_dir. */
  async save(path, options, { signal } = {}) {
    await callLater('trl_trainer_save', [this, pathOf(path), configOf(options)], { signal });
  }

  /** Adds a function that rewards the rows of a rollout: it gives a reward for each (null: none), or a promise of that, or
   * sets them itself. */
  async addReward(name, reward) {
    await keep(this, `reward ${String(name)}`, { rollout: answering(reward, 'reward') }, { told: true }, (to) =>
      callLater('trl_trainer_add_reward', [this, name, to.rollout, to.number, null]));
  }

  /** Has a function write the completions of a rollout (setCompletion). */
  async setRollout(write) {
    await keep(this, 'rollout', { rollout: answering(write, 'write') }, { generates: true }, (to) =>
      callLater('trl_trainer_set_rollout', [this, to.rollout, to.number, null]));
  }

  /** Has a function answer the tools that completions call (setValue). */
  async setTools(answer) {
    await keep(this, 'tools', { rollout: answering(answer, 'answer') }, {}, (to) =>
      callLater('trl_trainer_set_tools', [this, to.rollout, to.number, null]));
  }

  /** Ends the call that runs on this trainer, or else the next one, with CancelledError. */
  cancel() {
    lib.trl_trainer_cancel(this._handle);
  }

  /** Holds the call that runs on this trainer, or else the next one, until resume. */
  pause() {
    lib.trl_trainer_pause(this._handle);
  }

  resume() {
    lib.trl_trainer_resume(this._handle);
  }

  _cancelOnce() {
    if (!this.closed) this.cancel();
    return true;
  }

  /** The state of the training, as in trainer_state.json, also while it trains: after the last step that is done. */
  describe() {
    return JSON.parse(call('trl_trainer_describe', this, { out: 'text' })[0]);
  }

  /** Integers by a name, such as eos_token_ids or global_step, also while it trains. */
  integers(name) {
    return Array.from(fill(this, 'int64', 8, 'trl_trainer_get_integers', name), Number);
  }

  /** The model that is trained, whose weights are those of the run. */
  model() {
    return wrap(Model, call('trl_model_from_trainer', this, { out: 'pointer' })[0], 'trl_model_destroy', this);
  }
}

/** The memory, time and disk that a trainer of this configuration needs: as numbers, and as text. */
export async function plan(config, train, { runtime, signal } = {}) {
  const { outputs } = await withRuntime(runtime, (own) =>
    callLater('trl_trainer_plan', [own, configOf(config), train, { out: 'text' }, { out: 'text' }], { signal }));
  return { numbers: JSON.parse(outputs[0]), text: outputs[1] };
}

/** Checks a run as a trainer does before it reads rows and weights, and creates nothing. */
export async function check(config, { runtime, signal } = {}) {
  await withRuntime(runtime, (own) => callLater('trl_trainer_check', [own, configOf(config)], { signal }));
}

/** A model that is measured on rows, without a run. */
export class Evaluator extends Handle {
  constructor(token) {
    super();
    onlyInside(token, 'Evaluator.create');
  }

  static async create(config, { runtime, signal } = {}) {
    return withRuntime(runtime, async (own) => {
      const pointer = await createLater('trl_evaluator_create', 'trl_evaluator_destroy', [own, configOf(config)], { signal });
      return wrap(this, pointer, 'trl_evaluator_destroy', own);
    });
  }

  /** The numbers of an evaluation within a run, under the same names. */
  async evaluate(rows, { signal } = {}) {
    return (await callLater('trl_evaluator_evaluate', [this, rows, { out: 'metrics' }], { signal })).outputs[0];
  }

  /** Completes sample_prompts. */
  async complete({ signal } = {}) {
    return JSON.parse((await callLater('trl_evaluator_complete', [this, { out: 'text' }], { signal })).outputs[0]);
  }
}
