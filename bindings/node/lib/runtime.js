// The threads, memory limit, log and progress of what is created with it.
import { Status } from './api.js';
import { configOf } from './config.js';
import { Handle, call, callLater } from './handle.js';
import { lib } from './library.js';
import { hostFunction } from './native.js';
import { keep } from './threads.js';

/** What a function has read, as it is sent to another thread. */
function bytesOf(read) {
  if (read === null || read === undefined) return Status.E_NOT_FOUND;
  if (read instanceof Uint8Array) return new Uint8Array(read);
  throw new TypeError(`the function read of a mount gives a Uint8Array or null, and not ${String(read)}`);
}

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
    const set = (to) => call('trl_runtime_set_log', this, to?.log, to?.number, null);
    if (hostFunction(log, 'log')) return keep(this, 'log', { log: (...line) => void log(...line) }, {}, (to) => void set(to));
    set(null);
    this._hosts.delete('log');
  }

  /** Tells progress(phase, done, total) of calls that open, make or save something. A result that is true ends the call
   * with CancelledError. */
  async setProgress(progress) {
    const set = (to) => call('trl_runtime_set_progress', this, to?.progress, to?.number, null);
    if (hostFunction(progress, 'progress')) return keep(this, 'progress', { progress }, { awaited: true }, (to) => void set(to));
    set(null);
    this._hosts.delete('progress');
  }

  /** Mounts files of the host: "host://NAME" and folders below it are paths from now on. size(file) gives the bytes of a
   * file, and read(file, offset, size) some of them; null: there is no such file. write(kind, file, offset, data) takes what
   * is saved; kind is one of WriteKind. */
  async mount(name, { size, read, write } = {}) {
    for (const [part, given] of Object.entries({ size, read, write })) hostFunction(given, part);
    if (!size !== !read) throw new TypeError('a mount that is read has both functions, size and read');
    const functions = {
      size: async (file) => (await size(file)) ?? Status.E_NOT_FOUND,
      read: async (...part) => bytesOf(await read(...part)),
      write: (kind, file, offset, data) => write(kind, file, offset, data && Buffer.from(data.buffer)),
    };
    await keep(this, `mount ${String(name)}`, functions, { awaited: true, anywhere: true }, (to) =>
      call('trl_runtime_mount', this, name, read && to.read, write && to.write, to.number, null));
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
