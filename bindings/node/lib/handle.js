// Objects that own a handle of the library, and calls with them.
import { inspect } from 'node:util';
import { callAside } from './threads.js';
import { errorOf } from './errors.js';
import { lib } from './library.js';
import { checked, parametersOf, perform } from './native.js';

const finalizers = new FinalizationRegistry(({ destroy, pointer }) => lib[destroy](pointer));
const INSIDE = Symbol('a constructor of this package');

/** Owns an object of the library: until close, or until the garbage collector takes it. What the library keeps alive for it
 * is kept alive here, too (`_parents`): it may have functions of the host. */
export class Handle {
  _hosts = new Map();
  _calls = 0; // that use it

  [inspect.custom]() {
    return `[${this.constructor.name}]`;
  }

  _own(pointer, destroy, ...parents) {
    this._pointer = pointer;
    this._destroy = destroy;
    this._parents = parents.filter(Boolean);
    this._closed = false;
    finalizers.register(this, { destroy, pointer }, this);
    if (this._runtime?._users >= 0) ++this._runtime._users;
    return this;
  }

  get _handle() {
    if (this._closed) throw new TypeError(`this ${this.constructor.name} is closed`);
    return this._pointer;
  }

  get closed() {
    return this._closed;
  }

  /** Frees the object, at once or when the calls that use it are over. Objects that were made with it continue to work. */
  close() {
    if (this._closed) return;
    if (this._calls > 0) this._cancelOnce();
    this._closed = true;
    finalizers.unregister(this);
    if (this._calls === 0) this._free();
  }

  _begin() {
    ++this._calls;
  }

  _end() {
    if (--this._calls === 0 && this._closed) this._free();
  }

  _free() {
    lib[this._destroy](this._pointer);
    const runtime = this._runtime;
    if (runtime?._users >= 0 && --runtime._users === 0) runtime.close();
  }

  /** Whether a call with this object may call functions of another one. */
  _involves(owner) {
    return this === owner || this._parents.some((parent) => parent._involves(owner));
  }

  /** The runtime that ends the calls with this object. */
  get _runtime() {
    return this._parents.map((parent) => parent._runtime).find(Boolean);
  }

  /** The trainer or model that calls with this object take turns on. */
  get _turn() {
    return this._parents.map((parent) => parent._turn).find(Boolean);
  }

  /** Ends the call that runs, if this object has a way that ends only that. */
  _cancelOnce() {
    return false;
  }
}
if (Symbol.dispose) Handle.prototype[Symbol.dispose] = Handle.prototype.close;

/** The arguments of a call, each checked. */
function plain(name, parameters) {
  const declared = parametersOf(name);
  return parameters.map((value, index) => checked(value, declared[index]));
}

/** Calls a function that does not block, on this thread: its outputs. */
export function call(name, ...parameters) {
  const { status, error, outputs } = perform(name, plain(name, parameters), {});
  if (status < 0) throw errorOf(status, error);
  return outputs;
}

/** Calls a function that blocks, or that calls the host, on another thread. */
export async function callLater(name, parameters, more = {}) {
  const handles = parameters.filter((value) => value instanceof Handle);
  return callAside(name, plain(name, parameters), { ...more, handles });
}

/** Calls a function that fills an array, again with more room if it was too little: the array. */
export function fill(handle, room, size, name, ...parameters) {
  for (;;) {
    const [cells, count] = call(name, handle, ...parameters, { room, size }, size, { out: 'integer' });
    if (count <= size) return cells.subarray(0, count);
    size = count;
  }
}

/** The address that a function that blocks has made. */
export async function createLater(name, destroy, parameters, more) {
  const { outputs } = await callLater(name, [...parameters, { out: 'pointer' }], { ...more, destroy });
  return outputs[0];
}

/** An object that owns nothing yet. */
export const empty = (type) => new type(INSIDE);

/** An object around an address. */
export const wrap = (type, pointer, destroy, ...parents) => empty(type)._own(pointer, destroy, ...parents);

/** Refuses `new` for classes whose objects are made by functions. */
export function onlyInside(token, how) {
  if (token !== INSIDE) throw new TypeError(`use ${how}`);
}

/** A file's path: a text or a URL. */
export const pathOf = (path) => (path instanceof URL ? decodeURIComponent(path.pathname) : path);
