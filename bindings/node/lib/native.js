// Calls of the library whose arguments and results are plain values, so that they can be sent to another thread.
//
// An argument is a number, an address, bytes or another array, a text (which gets a NUL), null, or an object:
//   {out: KIND}                        what the function writes by a pointer: pointer, text, integer, metrics, completions
//   {room: 'int32' | 'int64' | 'float' | 'bytes', size}   an array that it fills
//   {texts: [BYTES]}, {sizes: [NUMBER]}   arrays that it reads
//   {tensor: {data, shape, code, bits}}   a tensor that it reads; data are bytes
//   {callback: NAME}                   a function of the thread that calls, which worker.js gives
import { inspect } from 'node:util';
import { FUNCTIONS, SERVE_FUNCTIONS } from './api.js';
import { koffi, lib } from './library.js';
import { dlpackOf } from './dlpack.js';

const ROOMS = { int32: Int32Array, int64: BigInt64Array, float: Float32Array, bytes: Uint8Array };

const [INT32, INT64] = [2 ** 31, 2 ** 53]; // of 64 bits, those that a number holds
const RANGES = { int32: [-INT32, INT32 - 1], int64: [1 - INT64, INT64 - 1], uint64: [0, INT64 - 1], size_t: [0, INT64 - 1] };

/** The error for a value of another kind than something of a name takes. */
export function unlike(name, kind, value) {
  const shown = inspect(value, { depth: 0, breakLength: Infinity, maxStringLength: 80, maxArrayLength: 8 });
  return new TypeError(`${name} takes ${kind}, and not ${shown}`);
}

/** A number that is an integer of a type; koffi would cut others. */
export function whole(value, type, name) {
  const [low, high] = RANGES[type];
  if (Number.isInteger(value) && value >= low && value <= high) return value;
  throw new RangeError(`${name ? `${name}: ` : ''}${String(value)} is not an integer from ${low} to ${high}`);
}

/** A number of a type in C. */
export function number(value, type, name) {
  if (typeof value !== 'number') throw unlike(name, type in RANGES ? 'an integer' : 'a number', value);
  return type in RANGES ? whole(value, type, name) : value;
}

/** A list of the host. */
export function list(values, kind, name) {
  if (!Array.isArray(values) && (!ArrayBuffer.isView(values) || values instanceof DataView)) throw unlike(name, `a list of ${kind}`, values);
  return values;
}

/** Token ids of the host. */
export const idsOf = (values, name) => Int32Array.from(list(values, 'token ids', name), (id) => whole(id, 'int32', name));

/** A function of the host, or null. */
export function hostFunction(value, name) {
  if (value !== undefined && value !== null && typeof value !== 'function') throw unlike(name, 'a function', value);
  return value ?? null;
}

/** A text in UTF-8. */
export function encode(text, name = 'text') {
  if (typeof text !== 'string') throw unlike(name, 'a text', text);
  if (/\p{Surrogate}/u.test(text)) throw new TypeError(`${name} has half of a surrogate pair: ${JSON.stringify(text)}`);
  return Buffer.from(text);
}

/** The same for several texts, or for one. */
export const encodeAll = (texts, name) =>
  (typeof texts === 'string' ? [texts] : Array.from(list(texts, 'texts', name))).map((text) => encode(text, name));

/** JSON in which arrays of numbers of a type are lists. */
export function jsonOf(value, name = 'this') {
  let text;
  try {
    text = JSON.stringify(value, (_, part) => (ArrayBuffer.isView(part) ? Array.from(part) : part));
  } catch (error) {
    throw new TypeError(`${name} has no JSON: ${error.message}`, { cause: error });
  }
  if (text === undefined) throw new TypeError(`${name} has no value that can be written: ${String(value)}`);
  return text;
}
export const encodeJson = (value, name) => encode(jsonOf(value, name), name);

/** A copy of a text of the library; null for NULL. */
export function textAt(address, size) {
  if (!address) return null;
  return size === undefined ? koffi.decode.string(address) : koffi.decode.string(address, size);
}

/** A text for a parameter that ends in NUL, where the library would not see what comes after one. */
export function terminated(text, name) {
  const data = encode(text, name);
  if (data.includes(0)) throw new TypeError(`${name} has a NUL character: ${JSON.stringify(text)}`);
  return Buffer.concat([data, Buffer.of(0)]);
}

/** A copy of what a trl_metrics has. */
export function readMetrics(address) {
  const numbers = {};
  const value = new Float64Array(1);
  for (let name = null; (name = lib.trl_metrics_next(address, name)); ) {
    lib.trl_metrics_get(address, name, value);
    numbers[textAt(name)] = value[0];
  }
  return numbers;
}

/** A text of a trl_metrics, or null. */
export const metricsText = (address, name) => textAt(lib.trl_metrics_text(address, terminated(name, 'name')));

/** Copies completions and frees them. */
function takeCompletions(address) {
  const found = [];
  const size = new BigUint64Array(1);
  try {
    for (let text; (text = lib.trl_completions_text(address, found.length, size)); ) {
      const index = found.length;
      const completion = { text: textAt(text, Number(size[0])) };
      const ids = lib.trl_completions_tokens(address, index, size);
      completion.tokenIds = size[0] ? [...koffi.decode(ids, 'int32_t', Number(size[0]))] : [];
      completion.finishReason = textAt(lib.trl_completions_finish_reason(address, index));
      const json = lib.trl_completions_json(address, index, size);
      completion.json = textAt(json, Number(size[0]));
      found.push(completion);
    }
  } finally {
    lib.trl_completions_destroy(address);
  }
  return found;
}

const READERS = {
  pointer: (address) => address,
  text: (address) => textAt(address),
  metrics: (address) => (address ? readMetrics(address) : null),
  completions: (address) => (address ? takeCompletions(address) : null),
};

/** What koffi takes for an argument; notes in outputs what is read of it afterwards. */
function convert(value, name, outputs, callbacks) {
  if (typeof value === 'string') return terminated(value, name);
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value)) return value;
  if (value.out) {
    const cell = new BigInt64Array(1);
    const read = READERS[value.out];
    outputs.push(() => (read ? read(cell[0] || null) : Number(cell[0])));
    return cell;
  }
  if (value.room) {
    const cells = new ROOMS[value.room](value.size);
    outputs.push(() => cells);
    return cells;
  }
  if (value.texts) return koffi.as(value.texts.map((text) => (text.length ? text : Buffer.of(0))), 'char **');
  if (value.sizes) return BigUint64Array.from(value.sizes, BigInt);
  if (value.tensor) return dlpackOf(value.tensor);
  return callbacks[value.callback];
}

const OBJECT = /^trl_\w+(?<!_fn)$/; // a type of api.js
const NUMBERS = ['int32', 'int64', 'uint64', 'size_t', 'double'];

/** The parameters of a function by type and name, without the last one, which is its error. */
export function parametersOf(name) {
  const [, ...types] = FUNCTIONS[name] ?? SERVE_FUNCTIONS[name];
  return types.slice(0, -1).map((declared) => {
    const [type, parameter] = declared.split(' ');
    return [type, parameter.replace(/_(.)/g, (_, letter) => letter.toUpperCase())];
  });
}

/** An argument of the host, as it is sent to another thread. C would take what is of another type for an address. */
export function checked(value, [type, name]) {
  if (NUMBERS.includes(type)) return number(value, type, name);
  if (value === undefined || value === null) return null;
  if (type === 'text') terminated(value, name);
  if (type === 'bytes' && !(value instanceof Uint8Array)) throw unlike(name, 'a text or a Uint8Array', value);
  if (!OBJECT.test(type)) return value;
  if (value._destroy !== `${type}_destroy`) throw unlike(name, `an object of the class ${type[4].toUpperCase()}${type.slice(5)}`, value);
  return value._handle;
}

/** Where the error is in what was read; a number that is not known is null. */
function placeOf(address) {
  const [file, line, column, row] = Array.from({ length: 4 }, () => new BigInt64Array(1));
  if (!lib.trl_error_place(address, file, line, column, row)) return null;
  const known = ([number], none) => (number === none ? null : Number(number));
  return { file: textAt(file[0]), line: known(line, 0n), column: known(column, 0n), row: known(row, -1n) };
}

function takeError(address) {
  if (!address) return null;
  const key = lib.trl_error_key(address);
  const error = {
    status: lib.trl_error_code(address),
    message: textAt(lib.trl_error_message(address)),
    key: textAt(key),
    place: placeOf(address),
    callbackCode: lib.trl_error_callback_code(address),
  };
  lib.trl_error_destroy(address);
  return error;
}

/** Calls a function whose last parameter is `trl_error **`: its status, its error and what it gave, all copied before
 * anything else is called. */
export function perform(name, parameters, callbacks) {
  const outputs = [];
  const declared = parametersOf(name);
  const values = parameters.map((value, index) => convert(value, declared[index][1], outputs, callbacks));
  const error = new BigInt64Array(1);
  const status = lib[name](...values, error);
  return { status, error: takeError(error[0]), outputs: outputs.map((read) => read()) };
}
