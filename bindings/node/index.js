// Fine-tunes language models as Hugging Face TRL does, by libtrl.so. README.md says how.
export { Answer, EventKind, LogLevel, OptionType, Progress, Status, TensorForm, TextForm, WriteKind } from './lib/api.js';
export { Config } from './lib/config.js';
export { Dataset, Tokenizer } from './lib/data.js';
export {
  BusyError, CallbackError, CancelledError, ConfigError, DeviceError, DistributedError, FormatError, InputOutputError,
  InternalError, InvalidArgumentError, NotFoundError, OutOfDeviceMemoryError, OutOfMemoryError, TrlError, UnsupportedError,
} from './lib/errors.js';
export { Completion, Generator } from './lib/generate.js';
export { load } from './lib/library.js';
export { Model, convert } from './lib/model.js';
export { Option, buildInfo, cancelAll, hasFeature, option, options, shutdown, version, versionNumber } from './lib/options.js';
export { Runtime } from './lib/runtime.js';
export { Server } from './lib/serve.js';
export { Evaluator, Rollout, Trainer, check, plan } from './lib/train.js';
