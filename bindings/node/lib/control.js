// The two integers in memory that all threads of a host share.
import { Status } from './api.js';

export const EXITING = 0; // 1: the process ends, and no call begins any more
export const RUNNING = 1; // how many calls are in the library

/** The result of a call that did not begin. */
export const CANCELLED = {
  status: Status.E_CANCELLED,
  error: { status: Status.E_CANCELLED, message: 'the call was cancelled before it began', key: null, callbackCode: 0 },
  outputs: [],
};
