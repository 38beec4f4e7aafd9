// Tensors of models, as {dtype, shape, data}.
import { Status } from './api.js';
import { DTYPES, HOST, MANAGED } from './dlpack.js';
import { errorOf } from './errors.js';
import { koffi } from './library.js';
import { unlike } from './native.js';

const DELETER = koffi.proto('void', ['void *']);

/** Frees a tensor of the library. */
export function freeTensor(address) {
  const { deleter } = koffi.decode(address, MANAGED);
  if (deleter) koffi.call(deleter, DELETER, address);
}

const unused = new FinalizationRegistry(freeTensor); // by the memory, which several arrays may share

/** Takes over a tensor of the library. Its elements stay where they are. */
export function tensorOf(address) {
  const { code, bits, lanes, device, ndim, ...found } = koffi.decode(address, MANAGED);
  const dtype = Object.keys(DTYPES).find((name) => DTYPES[name][0] === code && DTYPES[name][1] === bits);
  const [shape, count] = dtype && lanes === 1 && HOST.includes(device) ? shapeOf(found.shape, ndim) : [null, 0];
  const Elements = dtype && DTYPES[dtype][2];
  if (count > 0) {
    const memory = koffi.view(found.data + BigInt(found.offset), count * Elements.BYTES_PER_ELEMENT);
    unused.register(memory, address);
    return { dtype, shape, data: new Elements(memory) };
  }
  freeTensor(address);
  if (shape) return { dtype, shape, data: new Elements() };
  throw errorOf(Status.E_UNSUPPORTED, {
    message: `this package reads ${Object.keys(DTYPES).join(', ')} in the memory of the host, and this tensor has DLPack's type ` +
      `${code} with ${bits} bits, on a device of its type ${device}`,
  });
}

const countOf = (shape) => shape.reduce((product, size) => product * size, 1);

function shapeOf(address, ndim) {
  const shape = ndim > 0 ? Array.from(koffi.decode(address, 'int64_t', ndim), Number) : [];
  return [shape, countOf(shape)];
}

/** What a call gets of a tensor of the host: a copy. */
export function givenTensor({ dtype, shape, data }) {
  const name = dtype ?? Object.keys(DTYPES).find((known) => data instanceof DTYPES[known][2]);
  if (!Object.hasOwn(DTYPES, name ?? ''))
    throw new TypeError(`${dtype ?? 'this data'} is not a type of tensors; known: ${Object.keys(DTYPES).join(', ')}`);
  const [code, bits, Elements] = DTYPES[name];
  if (!(data instanceof Elements)) throw new TypeError(`a tensor of ${name} has its elements in a ${Elements.name}`);
  if (!Array.isArray(shape) || !shape.every((size) => Number.isSafeInteger(size) && size >= 0))
    throw unlike('shape', 'a list of sizes', shape);
  if (countOf(shape) !== data.length)
    throw new RangeError(`a tensor of the shape [${shape}] has ${countOf(shape)} elements, and these are ${data.length}`);
  return { tensor: { data: data.slice(), shape: [...shape], code, bits } };
}
