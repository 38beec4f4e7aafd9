// What the tests of the binding for Node share.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as trl from '../../../bindings/node/index.js';

export { trl };
export const SOURCE = fileURLToPath(new URL('../../..', import.meta.url));
export const MODEL = join(SOURCE, 'tests/golden/models/qwen2');
export const INDEX = new URL('../../../bindings/node/index.js', import.meta.url).href;

export class Oops extends Error {}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A folder for the files of a test, removed at the end of the process. */
export function folder() {
  const made = mkdtempSync(join(tmpdir(), 'trl_node.'));
  process.once('exit', () => rmSync(made, { recursive: true, force: true }));
  return made;
}
