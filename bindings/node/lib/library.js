// Finds libtrl.so and libtrl_serve.so, loads each at its first use, and gives their functions their types.
import { execFileSync } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CALLBACKS, FUNCTIONS, SERVE_FUNCTIONS, VERSION } from './api.js';

const NAMES = [`libtrl.so.${VERSION[0]}`, 'libtrl.so'];
const SERVE_NAMES = [`libtrl_serve.so.${VERSION[0]}`, 'libtrl_serve.so'];
const TYPES = {
  None: 'void', int32: 'int32_t', uint32: 'uint32_t', int64: 'int64_t', uint64: 'uint64_t', size_t: 'size_t', double: 'double',
};
const STACK = 8 << 20; // bytes: koffi calls on a stack of its own

// From the folder TRL_NODE_MODULES, or as require finds it: node_modules, then NODE_PATH, which import does not read.
const folder = process.env.TRL_NODE_MODULES;
export const koffi = createRequire(import.meta.url)(folder ? resolve(folder, 'koffi') : 'koffi');

// Pointers of all kinds are addresses; native.js reads and writes what they point to.
const type = (declared) => TYPES[declared.split(' ')[0]] ?? 'void *';

function* candidates() {
  const here = fileURLToPath(new URL('..', import.meta.url));
  for (const place of [here, join(here, 'lib')]) yield* NAMES.map((name) => join(place, name));
  try {
    const found = execFileSync('pkg-config', ['--variable=libdir', 'trl'], { stdio: 'pipe', timeout: 10000 }).toString().trim();
    if (found) yield* NAMES.map((name) => join(found, name));
  } catch {
    // There is no pkg-config, or it does not know the library.
  }
}

function find() {
  for (const path of candidates()) if (existsSync(path)) return path;
  return NAMES[0];
}

let library = null;
let opened = null; // its path

/** Loads the library: of this path, or of TRL_LIBRARY, or the one next to this package, or the one that pkg-config or
 * the dynamic linker finds. Without this call the first use of anything does it. */
export function load(path) {
  if (library) {
    if (path !== undefined && path !== opened) throw new Error(`${opened} is loaded already`);
    return;
  }
  const given = path ?? process.env.TRL_LIBRARY;
  const found = given || find();
  koffi.config({ sync_stack_size: STACK });
  let loaded;
  try {
    loaded = koffi.load(found);
  } catch (error) {
    const hint = given ? '' : '; TRL_LIBRARY may have its path';
    throw new Error(`the library ${found} cannot be loaded: ${error.message}${hint}`);
  }
  const packed = loaded.func('trl_version', 'uint32_t', [])();
  const version = [packed >> 16, (packed >> 8) & 255, packed & 255];
  const same = VERSION[0] === 0 ? 2 : 1; // until 1.0 a minor version may break things
  if (version.slice(0, same).join() !== VERSION.slice(0, same).join())
    throw new Error(`${found} is version ${version.join('.')}, and this package is for ${VERSION.join('.')}`);
  library = loaded;
  opened = found;
}

/** The path of the library, which is loaded. */
export function libraryPath() {
  load();
  return opened;
}

let server = null; // the library of SERVE_FUNCTIONS

/** The server's library: the one beside libtrl.so, or else the dynamic linker's. A program that does not serve never loads it. */
function serveLibrary() {
  if (server) return server;
  const beside = libraryPath();
  const folders = beside.includes('/') ? [dirname(beside), dirname(existsSync(beside) ? realpathSync(beside) : beside)] : [];
  const paths = folders.flatMap((place) => SERVE_NAMES.map((name) => join(place, name)));
  const found = paths.find((path) => existsSync(path)) ?? SERVE_NAMES[0];
  try {
    return (server = koffi.load(found));
  } catch (error) {
    throw new Error(`the server's library ${found} cannot be loaded beside ${beside}: ${error.message}`);
  }
}

function declare(name) {
  load();
  const [from, types] = name in SERVE_FUNCTIONS ? [serveLibrary(), SERVE_FUNCTIONS] : [library, FUNCTIONS];
  const [result, ...parameters] = types[name];
  try {
    return from.func(name, type(result), parameters.map(type));
  } catch {
    throw new Error(`this libtrl has no ${name}; it is older than this package`);
  }
}

/** The functions of both libraries by name, each made when it is first asked for. */
export const lib = new Proxy({}, {
  get: (functions, name) => (functions[name] ??= declare(name)),
});

/** A C function that calls one of JavaScript, for as long as this thread lives. */
export function register(name, host) {
  const [result, ...parameters] = CALLBACKS[name];
  return koffi.register(host, koffi.pointer(koffi.proto(name, type(result), parameters.map(type))));
}
