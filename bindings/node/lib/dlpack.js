// DLPack, version 1: the layout in which tensors cross the border of the library.
import { koffi } from './library.js';

/** A DLManagedTensorVersioned, with its DLTensor from data on. */
export const MANAGED = koffi.struct({
  major: 'uint32_t', minor: 'uint32_t', context: 'void *', deleter: 'void *', flags: 'uint64_t',
  data: 'void *', device: 'int32_t', deviceId: 'int32_t', ndim: 'int32_t', code: 'uint8_t', bits: 'uint8_t', lanes: 'uint16_t',
  shape: 'void *', strides: 'void *', offset: 'uint64_t',
});
export const HOST = [1, 3]; // devices whose memory this process can read: kDLCPU and kDLCUDAHost

/** By name: the code and the bits of a type, and the array that holds the elements. */
export const DTYPES = {
  int8: [0, 8, Int8Array], int16: [0, 16, Int16Array], int32: [0, 32, Int32Array], int64: [0, 64, BigInt64Array],
  uint8: [1, 8, Uint8Array], uint16: [1, 16, Uint16Array], uint32: [1, 32, Uint32Array], uint64: [1, 64, BigUint64Array],
  float16: [2, 16, Uint16Array], float32: [2, 32, Float32Array], float64: [2, 64, Float64Array], bfloat16: [4, 16, Uint16Array],
  bool: [6, 8, Uint8Array],
};

/** An argument for one call: a tensor of the host, which the library copies. */
export function dlpackOf({ data, shape, code, bits }) {
  return koffi.as({
    major: 1, minor: 0, context: null, deleter: null, flags: 0,
    data, device: HOST[0], deviceId: 0, ndim: shape.length, code, bits, lanes: 1,
    shape: BigInt64Array.from(shape, BigInt), strides: null, offset: 0,
  }, koffi.pointer(MANAGED));
}
