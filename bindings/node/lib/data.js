// Rows and tokenizers.
import { Status } from './api.js';
import { configOf } from './config.js';
import { errorOf } from './errors.js';
import { Handle, call, callLater, createLater, empty, fill, onlyInside, pathOf, wrap } from './handle.js';
import { encode, encodeJson, hostFunction, idsOf, jsonOf, terminated, unlike } from './native.js';
import { withRuntime } from './runtime.js';
import { keep } from './threads.js';

const AT_ONCE = 64; // rows of an iterator that is not asynchronous

/** The name of a column, the function that sets it, and what that is given. */
function columnOf([name, value]) {
  terminated(name, 'the name of a column');
  if (typeof value === 'string') return [name, 'trl_record_set_text', encode(value, name)];
  if (value instanceof Int32Array) return [name, 'trl_record_set_ids', value.slice()];
  return [name, 'trl_record_set_json', encodeJson(value, name)];
}

/** Reads rows of the host from their start, as often as it is asked to. */
class Reader {
  #rows;
  #reading = null;
  #failure = null; // of a row after those that were given

  constructor(rows) {
    this.#rows = rows;
  }

  async rewind() {
    const again = this.#reading !== null;
    if (again) await this.#reading.return?.();
    const made = typeof this.#rows === 'function';
    const rows = made ? await this.#rows() : this.#rows;
    this.#failure = null;
    this.#reading = rows[Symbol.asyncIterator]?.() ?? rows[Symbol.iterator]();
    if (again && !made && this.#reading === rows)
      throw new TypeError('these rows are read again, and an iterator gives them once; give an array or a function');
  }

  /** The next rows as columns, or Status.END. */
  async rows() {
    if (this.#failure) throw this.#failure.thrown;
    const found = [];
    try {
      while (found.length < AT_ONCE) {
        let item = this.#reading.next();
        const later = typeof item?.then === 'function';
        if (later) item = await item;
        if (item.done) break;
        found.push(Object.entries(item.value).map(columnOf));
        if (later) break;
      }
    } catch (error) {
      if (found.length === 0) throw error;
      this.#failure = { thrown: error };
    }
    return found.length > 0 ? found : Status.END;
  }

  refused({ status, error }) {
    throw errorOf(status, error);
  }
}

/** The tokenizer of a model directory or of a GGUF file. */
export class Tokenizer extends Handle {
  constructor(token) {
    super();
    onlyInside(token, 'Tokenizer.open');
  }

  static async open(path, options, { runtime, signal } = {}) {
    return withRuntime(runtime, async (own) => {
      const parameters = [own, pathOf(path), configOf(options)];
      return wrap(this, await createLater('trl_tokenizer_open', 'trl_tokenizer_destroy', parameters, { signal }),
        'trl_tokenizer_destroy', own);
    });
  }

  #text(name, ...parameters) {
    return Buffer.from(fill(this, 'bytes', 1024, name, ...parameters)).toString();
  }

  /** The token ids of a text. splitSpecialTokens: whether special tokens that are written out in it are text like any other;
   * null: as the key split_special_tokens says. */
  encode(text, { addSpecialTokens = true, splitSpecialTokens = null } = {}) {
    const data = encode(text);
    const split = splitSpecialTokens === null ? -1 : Number(splitSpecialTokens);
    return [...fill(this, 'int32', data.length + 8, 'trl_tokenizer_encode', data, data.length, Number(addSpecialTokens), split)];
  }

  /** The text of token ids. */
  decode(ids, { skipSpecialTokens = false } = {}) {
    const tokens = idsOf(ids, 'ids');
    return this.#text('trl_tokenizer_decode', tokens, tokens.length, Number(skipSpecialTokens));
  }

  /** A token as in the vocabulary. */
  piece(token) {
    return this.#text('trl_tokenizer_get_piece', token);
  }

  /** Renders a list of messages, or an object with `messages` and, if wanted, `tools`, `add_generation_prompt`,
   * `continue_final_message` and `chat_template_kwargs`. */
  applyChatTemplate(messages) {
    const data = encodeJson(messages, 'messages');
    return this.#text('trl_tokenizer_apply_chat_template', data, data.length);
  }

  describe() {
    return JSON.parse(call('trl_tokenizer_describe', this, { out: 'text' })[0]);
  }
}

/** Rows. */
export class Dataset extends Handle {
  constructor(token) {
    super();
    onlyInside(token, 'Dataset.open or one of the functions Dataset.from…');
  }

  /** The rows of a file, a folder or a glob. */
  static async open(path, options, { runtime, signal } = {}) {
    return withRuntime(runtime, async (own) => {
      const parameters = [own, pathOf(path), configOf(options)];
      return wrap(this, await createLater('trl_dataset_open', 'trl_dataset_destroy', parameters, { signal }),
        'trl_dataset_destroy', own);
    });
  }

  /** The rows that a configuration names, to train on and to evaluate. */
  static async fromConfig(config, { runtime, signal } = {}) {
    return withRuntime(runtime, async (own) => {
      const parameters = [own, configOf(config), { out: 'pointer' }, { out: 'pointer' }];
      const { outputs } = await callLater('trl_dataset_open_config', parameters, { signal, destroy: 'trl_dataset_destroy' });
      const [train, evaluation] = outputs.map((pointer) => (pointer ? wrap(this, pointer, 'trl_dataset_destroy', own) : null));
      return { train, evaluation };
    });
  }

  /** Rows of a file in memory; format is jsonl, json, csv or text. */
  static fromBuffer(format, data, options, { runtime } = {}) {
    const bytes = typeof data === 'string' ? encode(data, 'data') : data;
    return withRuntime(runtime, (own) => {
      const [pointer] = call('trl_dataset_from_buffer', own, format, bytes, bytes?.length ?? 0, configOf(options), { out: 'pointer' });
      return wrap(this, pointer, 'trl_dataset_destroy', own);
    });
  }

  /** Rows in memory, copied now. */
  static fromRows(rows, options, more) {
    return this.fromBuffer('jsonl', Array.from(rows, (row) => jsonOf(row, 'a row')).join('\n'), options, more);
  }

  /** Rows that are asked for when they are read, more than once: an iterable, also an asynchronous one, or a function that
   * gives one. */
  static async fromIterable(rows, options, { runtime } = {}) {
    const dataset = empty(this);
    const reader = new Reader(rows);
    const functions = {
      rows: () => reader.rows(),
      rewind: () => reader.rewind(),
      refused: (error) => reader.refused(error),
    };
    return keep(dataset, 'rows', functions, { awaited: true }, (to) => withRuntime(runtime, (own) => {
      const parameters = [own, to.next, to.rewind, to.number, null, configOf(options), { out: 'pointer' }];
      const [pointer] = call('trl_dataset_from_callback', ...parameters);
      return dataset._own(pointer, 'trl_dataset_destroy', own);
    }));
  }

  /** Rows of an Arrow stream, by the address of its ArrowArrayStream, which is taken over. */
  static fromArrow(address, options, { runtime } = {}) {
    if (typeof address !== 'bigint') throw unlike('address', 'a BigInt', address);
    return withRuntime(runtime, (own) => {
      const [pointer] = call('trl_dataset_from_arrow', own, address, configOf(options), { out: 'pointer' });
      return wrap(this, pointer, 'trl_dataset_destroy', own);
    });
  }

  /** Reads all rows and counts them. */
  async rowCount({ signal } = {}) {
    return (await callLater('trl_dataset_get_row_count', [this, { out: 'integer' }], { signal })).outputs[0];
  }

  /** How long rows are: the numbers, and a plot as text. */
  async profile(tokenizer, options, { signal } = {}) {
    const { outputs } = await callLater('trl_dataset_get_profile',
      [this, tokenizer, configOf(options), { out: 'text' }, { out: 'text' }], { signal });
    return { numbers: JSON.parse(outputs[0]), plot: outputs[1] };
  }

  /** One row as SFT tokenises it. */
  async example(tokenizer, row, options, { signal } = {}) {
    const parameters = [this, tokenizer, configOf(options), row, { out: 'text' }];
    return JSON.parse((await callLater('trl_dataset_get_example', parameters, { signal })).outputs[0]);
  }

  /** Gives micro-batches of the first epoch to a function, until it returns something that is true. */
  async visitBatches(tokenizer, onBatch, options, { first = 0, count = Number.MAX_SAFE_INTEGER, signal } = {}) {
    const batch = hostFunction(onBatch, 'onBatch');
    await callLater('trl_dataset_visit_batches',
      [this, tokenizer, configOf(options), first, count, batch && { callback: 'batch' }, null], { signal, functions: { batch } });
  }
}
