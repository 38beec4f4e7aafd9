// The threads, memory limit, log and progress of what is created with it.
import { configOf } from './config.js';
import { Handle, call, callLater } from './handle.js';
import { lib } from './library.js';
import { keep } from './threads.js';

export class Runtime extends Handle {
  constructor(config) {
    super();
    const [pointer] = call('trl_runtime_create', configOf(config), { out: 'pointer' });
    this._own(pointer, 'trl_runtime_destroy');
  }

  get _runtime() {
    return this;
  }

  /** Sends log lines to log(level, component, text); null: nowhere. */
  async setLog(log) {
    const to = log && (await keep(this, 'log', { log: (...line) => void log(...line) }, { awaited: false }));
    call('trl_runtime_set_log', this, to ? to.log : null, to ? to.number : null, null);
    if (!log) this._hosts.delete('log');
  }

  /** Tells progress(phase, done, total) of calls that open, make or save something. A result that is true ends the call
   * with CancelledError. */
  async setProgress(progress) {
    const to = progress && (await keep(this, 'progress', { progress }, { awaited: true }));
    call('trl_runtime_set_progress', this, to ? to.progress : null, to ? to.number : null, null);
    if (!progress) this._hosts.delete('progress');
  }

  /** Sets the limit of the process for large buffers, in bytes; 0: none. */
  setMemoryLimit(bytes) {
    call('trl_runtime_set_memory_limit', this, bytes);
  }

  /** The bytes that large buffers of a kind, or all, hold now and held at most. */
  memory(kind = null) {
    const [now, peak] = call('trl_runtime_memory', this, kind, { out: 'integer' }, { out: 'integer' });
    return { now, peak };
  }

  /** Describes the runtime and the engine, which it opens. */
  async describe({ signal } = {}) {
    return JSON.parse((await callLater('trl_runtime_describe', [this, { out: 'text' }], { signal })).outputs[0]);
  }

  /** Ends the calls that are in progress on this runtime. */
  cancel() {
    lib.trl_runtime_cancel(this._handle);
  }
}

/** A runtime of the objects that were made without one, by which their calls can be ended; closed with the last of them. */
class OwnRuntime extends Runtime {
  _users = 0;
}

/** Makes something with the given runtime, or with one of its own. */
export function withRuntime(runtime, make) {
  const own = runtime ?? new OwnRuntime();
  const close = () => {
    if (own._users === 0) own.close();
  };
  let made;
  try {
    made = make(own);
  } finally {
    if (!(made instanceof Promise)) close();
  }
  return made instanceof Promise ? made.finally(close) : made;
}
