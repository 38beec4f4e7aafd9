// Calls of the library whose arguments and results are plain values, so that they can be sent to another thread.
//
// An argument is a number, an address, bytes, a text (which gets a NUL), null, or an object:
//   {out: KIND}                        what the function writes by a pointer: pointer, text, integer, metrics, completions
//   {room: 'int32' | 'int64' | 'float' | 'bytes', size}   an array that it fills
//   {texts: [BYTES]}, {sizes: [NUMBER]}, {ids: [NUMBER]}, {floats: [NUMBER]}, {bytes: [NUMBER]}   arrays that it reads
//   {tensor: {data, shape, code, bits}}   a tensor that it reads; data are bytes
//   {callback: NAME}                   a function of the thread that calls, which worker.js gives
import { FUNCTIONS, SERVE_FUNCTIONS } from './api.js';
import { koffi, lib } from './library.js';
import { dlpackOf } from './dlpack.js';

const ROOMS = { int32: Int32Array, int64: BigInt64Array, float: Float32Array, bytes: Uint8Array };

const [INT32, INT64] = [2 ** 31, 2 ** 53]; // of 64 bits, those that a number holds
const RANGES = { int32: [-INT32, INT32 - 1], int64: [1 - INT64, INT64 - 1], uint64: [0, INT64 - 1], size_t: [0, INT64 - 1] };

/** A number that is an integer of a type, whose other numbers koffi would cut; numbers of other types as they are. */
export function whole(value, type) {
  const [low, high] = RANGES[type] ?? [-Infinity, Infinity];
  if (low === -Infinity || (Number.isInteger(value) && value >= low && value <= high)) return value;
  throw new RangeError(`${String(value)} is not an integer from ${low} to ${high}`);
}

export const encode = (text) => Buffer.from(text);

/** JSON in which arrays of numbers of a type are lists. */
export const jsonOf = (value) => JSON.stringify(value, (_, part) => (ArrayBuffer.isView(part) ? Array.from(part) : part));
export const encodeJson = (value) => encode(jsonOf(value));

/** A copy of a text of the library; null for NULL. */
export function textAt(address, size) {
  if (!address) return null;
  return size === undefined ? koffi.decode.string(address) : koffi.decode.string(address, size);
}

/** A text for a parameter that ends in NUL, where the library would not see what comes after one. */
function terminated(text) {
  if (text.includes('\0')) throw new TypeError(`a text has a NUL character: ${JSON.stringify(text)}`);
  return Buffer.from(`${text}\0`);
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
export const metricsText = (address, name) => textAt(lib.trl_metrics_text(address, terminated(name)));

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
function convert(value, type, outputs, callbacks) {
  if (typeof value === 'number') return whole(value, type);
  if (typeof value === 'string') return terminated(value);
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
  if (value.texts) return koffi.as(value.texts.map((text) => (text.length ? text : terminated(''))), 'char **');
  if (value.sizes) return BigUint64Array.from(value.sizes, BigInt);
  if (value.ids) return Int32Array.from(value.ids, (id) => whole(id, 'int32'));
  if (value.floats) return Float32Array.from(value.floats);
  if (value.bytes) return Uint8Array.from(value.bytes);
  if (value.tensor) return dlpackOf(value.tensor);
  if (value.callback) return callbacks[value.callback];
  throw new TypeError(`an object of this package is needed, and not one with the keys ${Object.keys(value)}`);
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
  const [, ...types] = FUNCTIONS[name] ?? SERVE_FUNCTIONS[name];
  const values = parameters.map((value, index) => convert(value, types[index], outputs, callbacks));
  const error = new BigInt64Array(1);
  const status = lib[name](...values, error);
  return { status, error: takeError(error[0]), outputs: outputs.map((read) => read()) };
}
