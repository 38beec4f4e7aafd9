// The table of options, and what this build is.
import { OptionType } from './api.js';
import { callLater } from './handle.js';
import { lib } from './library.js';
import { terminated, textAt } from './native.js';
import { endIdle } from './threads.js';

/** The version of the library. */
export const version = () => textAt(lib.trl_version_string());

/** The version of the library: (major << 16) | (minor << 8) | patch. */
export const versionNumber = () => lib.trl_version();

/** How the library was built. */
export const buildInfo = () => JSON.parse(textAt(lib.trl_build_info()));

/** Whether this build has a feature of the list `features` of buildInfo. */
export const hasFeature = (name) => lib.trl_has_feature(terminated(name, 'name')) === 1;

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

  #of(trainer, name) {
    return lib[name](this.#pointer, (trainer ?? null) === null ? null : terminated(trainer, 'trainer'));
  }

  get name() { return this.#text('trl_option_name'); }
  get section() { return this.#text('trl_option_section'); }
  get group() { return this.#text('trl_option_group'); }
  get origin() { return this.#text('trl_option_origin'); }
  get nullable() { return lib.trl_option_nullable(this.#pointer) === 1; }
  get trainers() { return listed(this.#text('trl_option_trainers')); }
  get aliases() { return listed(this.#text('trl_option_aliases')); }
  get otherNames() { return listed(this.#text('trl_option_other_names')); }
  get since() { return this.#text('trl_option_since'); }
  get unsupportedReason() { return this.#text('trl_option_unsupported_reason'); }
  get ignoredReason() { return this.#text('trl_option_ignored_reason'); }
  get taken() { return this.#text('trl_option_taken'); }

  type(trainer) {
    const type = this.#of(trainer, 'trl_option_type');
    return type < 0 ? null : type;
  }

  default(trainer) {
    return textAt(this.#of(trainer, 'trl_option_default'));
  }

  accepted(trainer) {
    return textAt(this.#of(trainer, 'trl_option_accepted'));
  }

  doc(trainer) {
    return textAt(this.#of(trainer, 'trl_option_doc'));
  }

  /** The value of a canonical text. */
  value(text, trainer) {
    if (text === 'null') return null;
    const type = this.type(trainer);
    if (type === OptionType.TEXT || (type === OptionType.CHOICE && !text.startsWith('['))) return text;
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
