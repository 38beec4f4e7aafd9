// The host's side of worker.js: calls that block run on threads of their own, and what they ask of the host is answered here,
// on the thread that made the call.
import { AsyncLocalStorage } from 'node:async_hooks';
import { MessageChannel, Worker, isMainThread, receiveMessageOnPort } from 'node:worker_threads';
import { Status } from './api.js';
import { EXITING, RUNNING } from './control.js';
import { errorOf } from './errors.js';
import { lib, libraryPath } from './library.js';
import { unlike, whole } from './native.js';

const control = new Int32Array(new SharedArrayBuffer(8));
const running = new Set(); // calls
const threads = new Set(); // all that are there
let listening = false; // to the end of the process
const idle = []; // those for calls that have none, the last one used at the end

/** Ends all calls before Node waits for the threads that they are on. Calls that have not begun do not begin any more, and
 * functions of the host are not run. */
function end() {
  Atomics.store(control, EXITING, 1);
  for (let count; (count = Atomics.load(control, RUNNING)) > 0; Atomics.wait(control, RUNNING, count, 5))
    lib.trl_runtime_cancel(null);
}

const IN_A_WORKER = 'in a Worker libtrl makes no calls that block: nothing tells it when the Worker is terminated or the process ' +
  'ends, and Node would wait for them; make them in the main thread, whose event loop they leave free, or in another process';

class Thread {
  constructor(role) {
    if (!isMainThread) throw errorOf(Status.E_UNSUPPORTED, { message: IN_A_WORKER });
    if (!listening) process.once('exit', end);
    listening = true;
    const [port, answers] = [new MessageChannel(), new MessageChannel()];
    this.cell = new Int32Array(new SharedArrayBuffer(4));
    this.port = port.port1;
    this.answers = answers.port1;
    this.call = null;
    const workerData = { role, path: libraryPath(), port: port.port2, answers: answers.port2, control, cell: this.cell };
    this.worker = new Worker(new URL('./worker.js', import.meta.url), {
      workerData,
      transferList: [port.port2, answers.port2],
      execArgv: [], // --input-type, for example, is the host's alone
    });
    threads.add(this);
    // The C functions of the thread, by name.
    this.functions = new Promise((resolve, reject) => {
      this.ready = resolve;
      this.worker.once('error', reject);
    });
    this.functions.catch(() => {});
    this.worker.on('error', (error) => this.lost(error));
    this.worker.once('exit', () => this.lost(new Error('the thread of a call has ended')));
    this.port.on('message', (message) => {
      drain(); // what was told before
      this.receive(message);
    });
    this.port.unref();
    this.answers.unref();
    this.worker.unref();
  }

  lost(error) {
    threads.delete(this);
    const place = idle.indexOf(this);
    if (place >= 0) idle.splice(place, 1);
    this.call?.settle({ thrown: error });
    this.call = null;
  }

  receive({ ready, done, ask, tell, number, parameters }) {
    if (ready) {
      this.ready(ready);
    } else if (done) {
      const call = this.call;
      this.call = null;
      this.worker.unref();
      idle.push(this);
      call.settle(done);
    } else if (ask) {
      this.reply(number === undefined ? this.call.answer(ask, parameters) : answerOfHost(number, ask, parameters));
    } else {
      answerOfHost(number, tell, parameters);
    }
  }

  async reply(answer) {
    const found = await answer;
    this.answers.postMessage(found, found instanceof Uint8Array ? [found.buffer] : []);
    Atomics.store(this.cell, 0, 1);
    Atomics.notify(this.cell, 0);
  }

  end() {
    return this.worker.terminate();
  }
}

/** Takes the messages that other threads have sent already: a log line comes before the end of its call. */
function drain() {
  for (const thread of threads)
    if (!thread.call) for (let found; (found = receiveMessageOnPort(thread.port)); ) thread.receive(found.message);
}

/** What a function of the host has answered: nothing, a truth value or an integer. */
export function numberOf(answer, type) {
  if (answer === undefined || answer === null) return 0;
  if (typeof answer === 'boolean') return Number(answer);
  if (Number.isInteger(answer)) return whole(answer, type);
  throw new TypeError(`a function that libtrl calls gives nothing, a boolean or an integer, and not ${String(answer)}`);
}

const within = new AsyncLocalStorage(); // the function of the host that runs, and the calls that wait for it

/** Whether one of the calls that wait for a function of the host, perhaps through others, has the turn on a trainer or model. */
function awaited(context, turn) {
  return !!context?.calls.some((call) => call.turns.has(turn) || awaited(call.context, turn));
}

/** Runs a function of the host, for which these calls wait. keepFor notes what it throws. */
async function answerOf(calls, host, type, keepFor) {
  const context = { calls };
  try {
    const answer = await within.run(context, host);
    return Array.isArray(answer) || answer instanceof Uint8Array ? answer : numberOf(answer, type);
  } catch (error) {
    keepFor({ thrown: error });
    return Status.E_CALLBACK;
  } finally {
    context.calls = [];
  }
}

/** The same. What it throws belongs to these calls, and once all of them have failed it does not run. */
async function answerFor(calls, host, type = 'int32') {
  if (calls.length > 0 && calls.every((call) => call.error)) return Status.E_CALLBACK;
  return answerOf(calls, host, type, (error) => {
    for (const call of calls) call.error ??= error;
    if (calls.length === 0) queueMicrotask(() => { throw error.thrown; });
  });
}

class Call {
  constructor(name, { handles, functions, signal, destroy }) {
    this.name = name;
    this.destroy = destroy;
    this.handles = handles; // kept alive, too
    this.functions = functions;
    this.signal = signal;
    this.turns = new Set(handles.map((handle) => handle._turn).filter(Boolean));
    this.context = within.getStore(); // the function of the host that makes this call
    this.error = null; // what the first function of the host that failed has thrown
    this.hint = null; // the same of a mount or a reward, if that ends this call
    this.result = new Promise((resolve, reject) => Object.assign(this, { resolve, reject }));
    this.abort = this.abort.bind(this);
  }

  begin(parameters, collect) {
    if (this.signal && !(this.signal instanceof AbortSignal)) throw unlike('signal', 'an AbortSignal', this.signal);
    if (this.signal?.aborted) throw this.aborted({ message: 'the signal was aborted before the call' });
    for (const turn of this.turns) {
      if (awaited(this.context, turn))
        throw errorOf(Status.E_BUSY, { message: `${this.name} would wait for the call that waits for this function` });
    }
    const thread = idle.pop() ?? new Thread('call');
    try {
      thread.port.postMessage({ name: this.name, parameters, collect });
    } catch (error) {
      idle.push(thread); // an argument cannot be sent
      throw error;
    }
    thread.call = this;
    for (const handle of this.handles) handle._begin();
    thread.worker.ref();
    running.add(this);
    this.signal?.addEventListener('abort', this.abort, { once: true });
    return this.result;
  }

  involves(owner) {
    return this.handles.some((handle) => handle._involves(owner));
  }

  answer(ask, parameters) {
    return answerFor([this], () => this.functions[ask](...parameters));
  }

  aborted(error) {
    return errorOf(Status.E_CANCELLED, error, { cause: this.signal.reason });
  }

  abort() {
    for (const handle of this.handles) if (handle._cancelOnce()) return;
    // The call may not have begun yet.
    this.interrupt();
    this.timer = setInterval(() => this.interrupt(), 10);
  }

  interrupt() {
    for (const runtime of new Set(this.handles.map((handle) => handle._runtime)))
      if (runtime && !runtime.closed) runtime.cancel();
  }

  settle(result) {
    running.delete(this);
    for (const handle of this.handles) handle._end();
    clearInterval(this.timer);
    this.signal?.removeEventListener('abort', this.abort);
    const error = this.error ?? (result.status === Status.E_CALLBACK ? this.hint : null);
    if (error) {
      this.reject(error.thrown);
    } else if (result.thrown) {
      this.reject(result.thrown);
    } else if (result.status === Status.E_CANCELLED && this.signal?.aborted) {
      this.reject(this.aborted(result.error));
    } else if (result.status < 0) {
      this.reject(errorOf(result.status, result.error));
    } else {
      this.resolve(result);
      return;
    }
    const destroy = typeof this.destroy === 'string' ? lib[this.destroy] : this.destroy;
    if (destroy) for (const pointer of result.outputs ?? []) if (pointer) destroy(pointer);
  }
}

/** Calls a function on a thread of its own: a promise of its status, its outputs and, with collect, the tokens that it
 * gave. destroy, a function or the name of one of the library, frees what a call has made in which a function of the host
 * threw. */
export async function callAside(name, parameters, { handles, functions = {}, signal, collect = false, destroy }) {
  return new Call(name, { handles, functions, signal, destroy }).begin(parameters, collect);
}

// ---- functions that the library keeps --------------------------------------------------------------------------------

const hosts = new Map(); // number, as user_data: a function of the host, as long as its owner lives
const gone = new FinalizationRegistry(({ number, thread }) => {
  hosts.delete(number);
  thread?.end();
});
let numbers = 0;
let log = null; // the one thread for all logs and rollouts

/** A function of the host, or an object with several, that belongs to a handle. */
class Host {
  constructor(owner, functions, kind) {
    Object.assign(this, { owner, functions, kind });
  }
}

/** Keeps functions of the host as long as their owner lives, after give has given the library the number under which it knows
 * them and the C functions that call them. Of what kind they are: awaited, their answer is waited for; generates, they may
 * use generators of the trainer that asks; anywhere, any call may ask them; told, the library knows how one failed, and
 * decides whether that ends the call. */
export async function keep(owner, name, functions, kind, give) {
  const thread = kind.awaited ? new Thread('host') : log && threads.has(log) ? log : (log = new Thread('log'));
  const host = new Host(owner, functions, kind);
  const number = ++numbers;
  hosts.set(number, new WeakRef(host));
  gone.register(host, { number, thread: kind.awaited ? thread : null });
  thread.worker.ref();
  try {
    const made = await give({ number, ...(await thread.functions) });
    owner._hosts.set(name, host);
    return made;
  } finally {
    thread.worker.unref();
  }
}

function answerOfHost(number, ask, parameters) {
  const host = hosts.get(number)?.deref();
  if (!host) return Status.E_CALLBACK;
  const run = () => host.functions[ask](...parameters);
  const calls = [...running].filter((call) => call.involves(host.owner));
  const type = ask === 'size' ? 'int64' : 'int32';
  if (host.kind.told) {
    return answerOf(calls, run, type, (error) => {
      for (const call of calls) call.hint ??= error;
    });
  }
  if (host.kind.generates) return answerFor(calls, () => within.exit(run), type);
  if (!host.kind.anywhere) return answerFor(calls, run, type);
  return answerOf(calls, run, type, (error) => { // which call it is shows at its end
    for (const call of running) call.hint ??= error;
  });
}

/** Ends the threads that have no call. */
export async function endIdle() {
  await Promise.all(idle.splice(0).map((thread) => thread.end()));
}
