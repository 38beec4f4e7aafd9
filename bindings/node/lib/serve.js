// A server of models over HTTP.
import { Status } from './api.js';
import { configOf } from './config.js';
import { Handle, call, callLater, createLater, onlyInside, pathOf, wrap } from './handle.js';
import { lib } from './library.js';
import { withRuntime } from './runtime.js';

/** Serves models on threads of its own; close() stops it without time for the requests that run. */
export class Server extends Handle {
  constructor(token) {
    super();
    onlyInside(token, 'Server.create');
  }

  static async create(options, { runtime, signal } = {}) {
    return withRuntime(runtime, async (own) => {
      const pointer = await createLater('trl_server_create', 'trl_server_destroy', [own, configOf(options)], { signal });
      return wrap(this, pointer, 'trl_server_destroy', own);
    });
  }

  /** Calls that run end first. */
  close() {
    if (!this.closed && this._calls > 0) this.cancel();
    super.close();
  }

  async addModel(name, model, options, { tokenizer, signal } = {}) {
    await callLater('trl_server_add_model', [this, name, model, tokenizer, configOf(options)], { signal });
    this._parents.push(...[model, tokenizer].filter(Boolean));
  }

  addGenerator(name, generator, tokenizer, options) {
    call('trl_server_add_generator', this, name, generator, tokenizer, configOf(options));
    this._parents.push(generator, tokenizer);
  }

  async addTrainer(name, trainer, options) {
    await callLater('trl_server_add_trainer', [this, name, trainer, configOf(options)]);
    this._parents.push(trainer);
  }

  async start({ signal } = {}) {
    await callLater('trl_server_start', [this], { signal });
  }

  async stop(seconds = null, { signal } = {}) {
    await callLater('trl_server_stop', [this, seconds ?? -1], { signal });
  }

  async wait(seconds = null, { signal } = {}) {
    return (await callLater('trl_server_wait', [this, seconds ?? -1], { signal })).status !== Status.LATER;
  }

  cancel() {
    lib.trl_server_cancel(this._handle);
  }

  describe() {
    return JSON.parse(call('trl_server_describe', this, { out: 'text' })[0]);
  }

  async setAdapter(name, path, { model = null, signal } = {}) {
    await callLater('trl_server_set_adapter', [this, model, name, pathOf(path)], { signal });
  }

  async sleep({ model = null, level = 1, mode = null, signal } = {}) {
    await callLater('trl_server_sleep', [this, model, level, mode], { signal });
  }

  async wakeUp({ model = null, tags = null, signal } = {}) {
    await callLater('trl_server_wake_up', [this, model, tags], { signal });
  }
}
