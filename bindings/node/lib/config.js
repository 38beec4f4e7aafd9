// A configuration: TRL's keys and their values.
import { Handle, call, callLater, pathOf } from './handle.js';
import { option } from './options.js';
import { encode, jsonOf, terminated, unlike } from './native.js';

/** How a value is written: a text as it is, everything else as JSON. */
function textOf(key, value) {
  if (typeof value === 'number' || typeof value === 'bigint') return String(value); // JSON has no Infinity
  const text = value instanceof URL ? pathOf(value) : value;
  if (typeof text !== 'string') return jsonOf(value, key);
  terminated(text, key);
  return text;
}

/** The keys that were set and their values. */
export class Config extends Handle {
  constructor(keys = {}) {
    super();
    if (!(keys instanceof Config) && (keys instanceof Handle || Object.prototype.toString.call(keys) !== '[object Object]'))
      throw unlike('options', 'a Config or an object of keys and values', keys);
    this._own(call('trl_config_create', { out: 'pointer' })[0], 'trl_config_destroy');
    for (const [key, value] of Object.entries(keys instanceof Config ? keys.describe() : keys))
      if (value !== undefined) this.set(key, value);
  }

  /** The JSON schema of a configuration file: of all keys, or of those of one trainer. */
  static schema(trainer) {
    return JSON.parse(call('trl_config_get_schema', trainer, { out: 'text' })[0]);
  }

  /** Sets a key. */
  set(key, value) {
    call('trl_config_set', this, key, textOf(String(key), value));
    return this;
  }

  /** The value of a key, or its default. */
  get(key) {
    const text = this.text(key);
    return option(key).value(text);
  }

  /** Sets a key back to its default. */
  delete(key) {
    call('trl_config_unset', this, key);
  }

  /** Whether a key was set. */
  has(key) {
    return Object.hasOwn(this.describe(), key);
  }

  /** The canonical text of a value, "null" when there is none. */
  text(key) {
    return call('trl_config_get', this, key, { out: 'text' })[0];
  }

  /** Where a value comes from: "default", "set", or the place in a file. */
  origin(key) {
    return call('trl_config_get_origin', this, key, { out: 'text' })[0];
  }

  /** Sets every key of a YAML or JSON file. */
  async load(path, { signal } = {}) {
    await callLater('trl_config_load', [this, pathOf(path)], { signal });
    return this;
  }

  /** Sets every key of a YAML or JSON text. */
  loadText(text) {
    const data = encode(text);
    call('trl_config_load_text', this, data, data.length);
    return this;
  }

  /** The keys that were set, under their canonical names. */
  describe() {
    return JSON.parse(call('trl_config_describe', this, { out: 'text' })[0]);
  }

  /** Warnings about the keys that were set. */
  warnings() {
    return JSON.parse(call('trl_config_get_warnings', this, { out: 'text' })[0]);
  }

  [Symbol.iterator]() {
    return Object.entries(this.describe())[Symbol.iterator]();
  }
}

/** A Config of what functions take as options, or null. */
export const configOf = (options) =>
  options === undefined || options === null || options instanceof Config ? (options ?? null) : new Config(options);
