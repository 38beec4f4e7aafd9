// The table of options, and what this build is.
import { OptionType } from './api.js';
import { callLater } from './handle.js';
import { lib } from './library.js';
import { textAt } from './native.js';
import { endIdle } from './threads.js';

/** The version of the library. */
export const version = () => textAt(lib.trl_version_string());

/** The version of the library: (major << 16) | (minor << 8) | patch. */
export const versionNumber = () => lib.trl_version();

/** How the library was built. */
export const buildInfo = () => JSON.parse(textAt(lib.trl_build_info()));

/** Whether this build has a feature of the list `features` of buildInfo. */
export const hasFeature = (name) => lib.trl_has_feature(Buffer.from(`${name}\0`)) === 1;

/** Ends the threads that this package and the library keep between calls; they are started again when they are needed. */
export async function shutdown() {
  await endIdle();
  await callLater('trl_runtime_shutdown', []);
  await endIdle();
}

/** Ends the calls that are in progress in the whole process. */
export const cancelAll = () => lib.trl_runtime_cancel(null);

const listed = (text) => (text ? text.split(',').map((part) => part.trim()) : []);

/** A key of a configuration, as the library describes it. */
export class Option {
  #pointer;

  constructor(pointer) {
    this.#pointer = pointer;
  }

  #text(name) {
    return textAt(lib[name](this.#pointer)) ?? '';
  }

  #textFor(name, trainer) {
    return textAt(lib[name](this.#pointer, Buffer.from(`${trainer}\0`)));
  }

  get name() { return this.#text('trl_option_name'); }
  get section() { return this.#text('trl_option_section'); }
  get group() { return this.#text('trl_option_group'); }
  get origin() { return this.#text('trl_option_origin'); }
  get type() { return lib.trl_option_type(this.#pointer); }
  get nullable() { return lib.trl_option_nullable(this.#pointer) === 1; }
  get trainers() { return listed(this.#text('trl_option_trainers')); }
  get aliases() { return listed(this.#text('trl_option_aliases')); }
  get otherNames() { return listed(this.#text('trl_option_other_names')); }
  get since() { return this.#text('trl_option_since'); }
  get unsupportedReason() { return this.#text('trl_option_unsupported_reason'); }
  get ignoredReason() { return this.#text('trl_option_ignored_reason'); }
  get taken() { return this.#text('trl_option_taken'); }

  default(trainer) {
    return trainer === undefined ? this.#text('trl_option_default') : this.#textFor('trl_option_default_for', trainer);
  }

  accepted(trainer) {
    return trainer === undefined ? this.#text('trl_option_accepted') : this.#textFor('trl_option_accepted_for', trainer);
  }

  doc(trainer) {
    return trainer === undefined ? this.#text('trl_option_doc') : this.#textFor('trl_option_doc_for', trainer);
  }

  /** The value of a canonical text. */
  value(text) {
    if (text === 'null') return null;
    if (this.type === OptionType.TEXT || (this.type === OptionType.CHOICE && !text.startsWith('['))) return text;
    try {
      return JSON.parse(text);
    } catch {
      return text; // auto, for example
    }
  }
}

/** Walks the table of options. */
export function* options() {
  for (let pointer = null; (pointer = lib.trl_option_next(pointer)); ) yield new Option(pointer);
}

let byName = null;

/** The option of a name, or of an older one; undefined if there is none. */
export function option(name) {
  if (!byName) {
    byName = new Map();
    for (const found of options()) for (const alias of found.aliases) byName.set(alias, found);
    for (const found of options()) byName.set(found.name, found);
  }
  return byName.get(name);
}

const SCHEMA_TYPES = {
  [OptionType.BOOLEAN]: ['boolean'],
  [OptionType.INTEGER]: ['integer'],
  [OptionType.NUMBER]: ['number'],
  [OptionType.TEXT]: ['string'],
  [OptionType.CHOICE]: ['string'],
  [OptionType.LIST]: ['array', 'string'],
  [OptionType.MAP]: ['object', 'string'],
};

/** The range of a number or the values of a choice; nothing for other descriptions. */
function accepts(type, accepted) {
  if (type === OptionType.CHOICE) return { enum: accepted.split('|') };
  const above = /^(>=?) (-?[\d.]+)$/.exec(accepted);
  if (above) return { [above[1] === '>=' ? 'minimum' : 'exclusiveMinimum']: Number(above[2]) };
  const range = /^([[(])(-?[\d.]+), (-?[\d.]+)([\])])$/.exec(accepted);
  if (!range) return {};
  const low = range[1] === '[' ? 'minimum' : 'exclusiveMinimum';
  const high = range[4] === ']' ? 'maximum' : 'exclusiveMaximum';
  return { [low]: Number(range[2]), [high]: Number(range[3]) };
}

/** A JSON schema of a whole configuration, or of that of one trainer, made from the table of options. */
export function schema(trainer) {
  const properties = {};
  for (const found of options()) {
    const trainers = found.trainers;
    if (trainer !== undefined && trainers.length > 0 && !trainers.includes(trainer)) continue;
    const of = trainers.length > 0 ? trainer : undefined;
    const accepted = found.accepted(of) ?? '';
    const type = [...(SCHEMA_TYPES[found.type] ?? ['string'])];
    if (/^(bytes|auto\|)/.test(accepted)) type.push('string');
    const item = { description: found.doc(of), type, ...accepts(found.type, accepted) };
    item.default = found.value(found.default(of) ?? 'null');
    if (Array.isArray(item.default) && item.enum) { // one or several, in this trainer
      type.push('array');
      const one = { enum: item.enum };
      delete item.enum;
      item.anyOf = [one, { type: 'array', items: one }];
    }
    if (found.nullable) {
      type.push('null');
      item.enum?.push(null);
    }
    properties[found.name] = item;
    for (const alias of found.aliases) properties[alias] = { $ref: `#/properties/${found.name}`, deprecated: true };
  }
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', properties, additionalProperties: false };
}
