// The errors of the library: one class for each status.
import { Status } from './api.js';
import { lib } from './library.js';
import { textAt } from './native.js';

/** What a function of the library returns as an error. The wording of the message may change; act on the class, the
 * status and the key. */
export class TrlError extends Error {
  constructor(message, status, { key = null, callbackCode = 0, place = null, ...options } = {}) {
    super(message, options);
    this.status = status;
    this.key = key;
    this.callbackCode = callbackCode;
    this.place = place;
  }

  get name() {
    return this.constructor.name;
  }

  /** The name of the status, such as TRL_E_BUSY. */
  get statusName() {
    return textAt(lib.trl_status_name(this.status));
  }
}

export class InvalidArgumentError extends TrlError {}
export class ConfigError extends TrlError {}
export class NotFoundError extends TrlError {}
export class InputOutputError extends TrlError {}
export class FormatError extends TrlError {}
export class UnsupportedError extends TrlError {}
export class OutOfMemoryError extends TrlError {}
export class OutOfDeviceMemoryError extends TrlError {}
export class DeviceError extends TrlError {}
export class DistributedError extends TrlError {}
export class CancelledError extends TrlError {}
export class BusyError extends TrlError {}
export class CallbackError extends TrlError {}
export class InternalError extends TrlError {}

export const CLASSES = new Map([
  [Status.E_INVALID_ARGUMENT, InvalidArgumentError],
  [Status.E_INVALID_CONFIG, ConfigError],
  [Status.E_NOT_FOUND, NotFoundError],
  [Status.E_IO, InputOutputError],
  [Status.E_FORMAT, FormatError],
  [Status.E_UNSUPPORTED, UnsupportedError],
  [Status.E_OUT_OF_MEMORY, OutOfMemoryError],
  [Status.E_OUT_OF_DEVICE_MEMORY, OutOfDeviceMemoryError],
  [Status.E_DEVICE, DeviceError],
  [Status.E_DISTRIBUTED, DistributedError],
  [Status.E_CANCELLED, CancelledError],
  [Status.E_BUSY, BusyError],
  [Status.E_CALLBACK, CallbackError],
  [Status.E_INTERNAL, InternalError],
]);

/** The exception of a status and of what native.js copied of the error, null for functions without one. */
export function errorOf(status, error, options) {
  const { message = `status ${status}`, key, callbackCode, place } = error ?? {};
  return new (CLASSES.get(status) ?? InternalError)(message, status, { key, callbackCode, place, ...options });
}
