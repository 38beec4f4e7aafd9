// The code of the worker threads: calls that block, and C functions through which the library calls those of
// the host (README.md, "Threads").
import { receiveMessageOnPort, workerData } from 'node:worker_threads';
import { Status } from './api.js';
import { koffi, load, register } from './library.js';
import { metricsText, perform, readMetrics, textAt } from './native.js';
import { CANCELLED, EXITING, RUNNING } from './control.js';

const { role, path, port, answers, control, cell } = workerData;
load(path);

/** Asks the host's thread and waits for its answer; there is none when the process ends. */
function ask(message, moved = []) {
  Atomics.store(cell, 0, 0);
  port.postMessage(message, moved);
  while (Atomics.load(cell, 0) === 0) {
    if (Atomics.load(control, EXITING)) return Status.E_CALLBACK;
    Atomics.wait(cell, 0, 0, 50);
  }
  return receiveMessageOnPort(answers).message;
}

// ---- call: one call at a time, with functions that belong to it alone -------------------------------------------------

let call = null; // the functions that the host has for it, and what is collected in their place

/** After a function has failed, no other one runs in that call. */
function answer(message) {
  if (call.failed) return Status.E_CALLBACK;
  const code = ask(message);
  call.failed = code < 0;
  return code;
}

const calls = {
  event: () => register('trl_event_fn', (_, kind, metrics) => {
    const texts = {};
    for (const name of ['path', 'completions']) {
      const text = metricsText(metrics, name);
      if (text !== null) texts[name] = text;
    }
    return answer({ ask: 'event', parameters: [{ kind, metrics: readMetrics(metrics), texts }] });
  }),
  token: () => register('trl_token_fn', (_, completion, token, text, size, logProbability) => {
    const seen = [Number(completion), token, textAt(text, Number(size)) ?? '', Number.isNaN(logProbability) ? null : logProbability];
    if (!call.collected) return answer({ ask: 'token', parameters: seen });
    call.collected.push(seen);
    return 0;
  }),
  batch: () => register('trl_batch_fn', (_, json, size) =>
    answer({ ask: 'batch', parameters: [JSON.parse(textAt(json, Number(size)))] })),
};

function serveCalls() {
  const registered = {};
  const callbacks = new Proxy(registered, { get: (made, name) => (made[name] ??= calls[name]()) });
  port.on('message', ({ name, parameters, collect }) => {
    call = { failed: false, collected: collect ? [] : null };
    Atomics.add(control, RUNNING, 1);
    let result = CANCELLED;
    try {
      if (!Atomics.load(control, EXITING)) result = perform(name, parameters, callbacks);
    } catch (thrown) {
      result = { thrown };
    } finally {
      Atomics.sub(control, RUNNING, 1);
    }
    port.postMessage({ done: { ...result, collected: call.collected } });
  });
  return {};
}

// ---- log: functions that the host hears of, and whose answer is not awaited -------------------------------------------

function serveLog() {
  port.on('message', () => {});
  return {
    log: register('trl_log_fn', (number, level, component, text, size) => {
      port.postMessage({ tell: 'log', number: Number(number), parameters: [level, textAt(component), textAt(text, Number(size))] });
    }),
    rollout: register('trl_rollout_fn', (number, rollout) => {
      port.postMessage({ tell: 'rollout', number: Number(number), parameters: [rollout] });
      return Status.LATER;
    }),
  };
}

// ---- host: functions of one object of the host, whose answer is awaited ----------------------------------------------

function serveHost() {
  port.on('message', () => {});
  let rows = [];
  return {
    progress: register('trl_progress_fn', (number, phase, done, total) =>
      ask({ ask: 'progress', number: Number(number), parameters: [textAt(phase), Number(done), Number(total)] })),
    rewind: register('trl_rewind_fn', (number) => {
      rows = [];
      return ask({ ask: 'rewind', number: Number(number), parameters: [] });
    }),
    next: register('trl_next_record_fn', (number, record) => {
      if (rows.length === 0) {
        const more = ask({ ask: 'rows', number: Number(number), parameters: [] });
        if (typeof more === 'number') return more;
        rows = more;
      }
      for (const [name, set, value] of rows.shift()) {
        const { status, error } = perform(set, [record, name, value, value.length]);
        if (status < 0) {
          ask({ ask: 'refused', number: Number(number), parameters: [{ status, error }] });
          return status;
        }
      }
      return Status.OK;
    }),
    read: register('trl_read_fn', (number, file, offset, buffer, size) => {
      const room = Number(size);
      const [what, ...part] = buffer === null ? ['size'] : ['read', Number(offset), room];
      const answer = ask({ ask: what, number: Number(number), parameters: [textAt(file), ...part] });
      if (typeof answer === 'number') return answer;
      if (answer.length > 0 && answer.length <= room) new Uint8Array(koffi.view(buffer, room)).set(answer);
      return answer.length;
    }),
    write: register('trl_write_fn', (number, kind, file, offset, data, size) => {
      const bytes = data === null ? null : Number(size) > 0 ? new Uint8Array(koffi.view(data, Number(size))).slice() : new Uint8Array();
      const parameters = [kind, textAt(file), Number(offset), bytes];
      return ask({ ask: 'write', number: Number(number), parameters }, bytes ? [bytes.buffer] : []);
    }),
  };
}

const serve = { call: serveCalls, log: serveLog, host: serveHost };
port.postMessage({ ready: serve[role]() });
