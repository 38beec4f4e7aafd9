/** Fine-tunes language models as Hugging Face TRL does, by libtrl.so. README.md says how. */
export { Answer, EventKind, LogLevel, OptionType, Progress, Status, TensorForm, TextForm, WriteKind } from './lib/api.js';

/** A file's path. */
export type Path = string | URL;

/** A Config, or keys and values: a text as it is written in a file, or a value that JSON can have. */
export type Options = Config | Record<string, unknown> | null | undefined;

/** A row: its columns. An Int32Array is a list of ids. */
export type Row = Record<string, unknown>;

/** Several rows, which are read more than once. */
export type Rows = Iterable<Row> | AsyncIterable<Row>;

/** A text, or token ids. */
export type Prompt = string | readonly number[];

/** Ends the call: its promise is rejected with a CancelledError whose cause is the signal's reason. */
export interface Cancellable {
  signal?: AbortSignal | undefined;
}

export interface Creating {
  /** With its log, progress and threads; without one the object has a quiet one of its own. */
  runtime?: Runtime | null | undefined;
}

/** What a function that the library calls gives: a number, or a truth value for 1 and 0, or nothing for 0; or a promise. */
export type Reply = number | boolean | null | void | Promise<number | boolean | null | void>;

export type Metrics = Record<string, number>;

/** Loads the library: of this path, or of TRL_LIBRARY, or the one next to this package, or the one that pkg-config or the
 * dynamic linker finds. Without this call the first use of anything does it. */
export function load(path?: string): void;

/** The version of the library. */
export function version(): string;
/** The version of the library: (major << 16) | (minor << 8) | patch. */
export function versionNumber(): number;
/** How the library was built. */
export function buildInfo(): Record<string, unknown> & { version: string; features: string[] };
/** Whether this build has a feature of the list `features` of buildInfo. */
export function hasFeature(name: string): boolean;
/** Ends the threads that this package and the library keep between calls; they are started again when they are needed. */
export function shutdown(): Promise<void>;
/** Ends the calls that are in progress in the whole process. */
export function cancelAll(): void;

// ---- errors ----

/** A place in a file, or in what messages name "text" or "memory". A number that is not known is null. */
export interface Place {
  readonly file: string;
  /** From 1. */
  readonly line: number | null;
  /** In bytes, from 1. */
  readonly column: number | null;
  /** Of the dataset, from 0. */
  readonly row: number | null;
}

/** What a function of the library returns as an error. The wording of the message may change; act on the class, the status
 * and the key. */
export class TrlError extends Error {
  constructor(message: string, status: number,
    more?: { key?: string | null; callbackCode?: number; place?: Place | null; cause?: unknown });
  /** One of Status, or a number that a later version adds. */
  readonly status: number;
  /** The name of the status, such as TRL_E_BUSY. */
  readonly statusName: string;
  /** Where it is in what was read. */
  readonly place: Place | null;
  /** Of the configuration, if one is at fault. */
  readonly key: string | null;
  /** What the host's function gave. */
  readonly callbackCode: number;
}
/** A value out of range, or an object in another state than the call needs. */
export class InvalidArgumentError extends TrlError {}
/** A key of the configuration or its value; `key` names it. */
export class ConfigError extends TrlError {}
/** A file or a name that is not there. */
export class NotFoundError extends TrlError {}
/** Reading or writing failed. */
export class InputOutputError extends TrlError {}
/** A malformed file, row or model. */
export class FormatError extends TrlError {}
/** This build or this process cannot do it. */
export class UnsupportedError extends TrlError {}
/** The memory of the host, or runtime.host_memory_limit, is not enough. */
export class OutOfMemoryError extends TrlError {}
/** The memory of a device is not enough. */
export class OutOfDeviceMemoryError extends TrlError {}
/** A device failed. */
export class DeviceError extends TrlError {}
/** Training on several processes failed. */
export class DistributedError extends TrlError {}
/** The call was cancelled, or the process is ending. */
export class CancelledError extends TrlError {}
/** The object is in use by another call. */
export class BusyError extends TrlError {}
/** A function of the host gave a number below 0. What one throws is seen itself instead. */
export class CallbackError extends TrlError {}
/** A fault of the library. */
export class InternalError extends TrlError {}

// ---- objects ----

/** An object of the library, which is freed by close, or by the garbage collector. */
declare abstract class Handle {
  readonly closed: boolean;
  /** Frees the object. Objects that were made with it continue to work. */
  close(): void;
}

/** A key of a configuration, as the library describes it. */
export class Option {
  private constructor();
  readonly name: string;
  readonly section: string;
  readonly group: string;
  readonly origin: string;
  readonly nullable: boolean;
  readonly trainers: string[];
  /** Older names, which are understood. */
  readonly aliases: string[];
  /** Names that other tools have for it, which are not accepted. */
  readonly otherNames: string[];
  readonly since: string;
  readonly unsupportedReason: string;
  readonly ignoredReason: string;
  readonly taken: string;
  /** One of OptionType, or a number that a later version adds. This and what follows are of the table or of one trainer; null for a
   * trainer that lacks the option. */
  type(trainer?: string): number | null;
  /** The default as canonical text. */
  default(trainer?: string): string | null;
  /** The values that it takes within its type; "" for any. */
  accepted(trainer?: string): string | null;
  doc(trainer?: string): string | null;
  /** The value of a canonical text. */
  value(text: string, trainer?: string): unknown;
}

/** Walks the table of options. */
export function options(): IterableIterator<Option>;
/** The option of a name, or of an older one. */
export function option(name: string): Option | undefined;

/** A configuration: the keys that were set and their values. An unknown key is a ConfigError that names the one that was
 * meant. */
export class Config extends Handle implements Iterable<[string, unknown]> {
  /** Keys whose value is undefined are left out. */
  constructor(keys?: Config | Record<string, unknown>);
  /** The JSON schema of a configuration file: of all keys, or of those of one trainer. */
  static schema(trainer?: string): Record<string, unknown>;
  set(key: string, value: unknown): this;
  /** The value of a key, or its default. */
  get(key: string): unknown;
  /** Sets a key back to its default. */
  delete(key: string): void;
  /** Whether a key was set. */
  has(key: string): boolean;
  /** The canonical text of a value, "null" when there is none. */
  text(key: string): string;
  /** Where a value comes from: "default", "set", or the place in a file. */
  origin(key: string): string;
  /** Sets every key of a YAML or JSON file. */
  load(path: Path, more?: Cancellable): Promise<this>;
  /** Sets every key of a YAML or JSON text. */
  loadText(text: string): this;
  /** The keys that were set, under their canonical names. */
  describe(): Record<string, unknown>;
  /** Warnings about the keys that were set. */
  warnings(): string[];
  [Symbol.iterator](): IterableIterator<[string, unknown]>;
}

/** Files of the host. A function may be asynchronous; what it throws ends the call that asked. */
export interface Mount {
  /** The bytes of a file; null: there is no such file. */
  size?: (file: string) => number | null | undefined | Promise<number | null | undefined>;
  /** The bytes from offset on, at most size, and fewer only at the end of the file; null: there is no such file. */
  read?: (file: string, offset: number, size: number) => Uint8Array | null | undefined | Promise<Uint8Array | null | undefined>;
  /** Takes what is saved. kind is one of WriteKind, or a number that a later version adds; data is null except for
   * WriteKind.DATA. WriteKind.DROPPED is told after an exception, too. */
  write?: (kind: number, file: string, offset: number, data: Buffer | null) => Reply;
}

/** The threads, memory limit, log and progress of what is created with it. */
export class Runtime extends Handle {
  constructor(config?: Options);
  /** Sends log lines to log(level, component, text); null: nowhere. level is one of LogLevel. */
  setLog(log: ((level: number, component: string, text: string) => void) | null): Promise<void>;
  /** Tells progress(phase, done, total) of calls that open, make or save something. A result that is true (Progress.STOP)
   * ends the call with CancelledError. */
  setProgress(progress: ((phase: string, done: number, total: number) => Reply) | null): Promise<void>;
  /** Mounts files of the host: "host://NAME" and folders below it are from now on paths of models, adapters, tokenizers and
   * checkpoints, and of what is saved. */
  mount(name: string, files: Mount): Promise<void>;
  /** Sets the limit of the process for large buffers, in bytes; 0: none. */
  setMemoryLimit(bytes: number): void;
  /** The bytes that large buffers of a kind, or all, hold now and held at most. */
  memory(kind?: string | null): { now: number; peak: number };
  /** Describes the runtime and the engine, which it opens. */
  describe(more?: Cancellable): Promise<Record<string, unknown>>;
  /** Ends the calls that are in progress on this runtime. */
  cancel(): void;
}

/** The tokenizer of a model directory or of a GGUF file. */
export class Tokenizer extends Handle {
  private constructor();
  static open(path: Path, options?: Options, more?: Creating & Cancellable): Promise<Tokenizer>;
  /** The token ids of a text. splitSpecialTokens: whether special tokens that are written out in it are text like any other; null:
   * as the key split_special_tokens says. */
  encode(text: string, more?: { addSpecialTokens?: boolean; splitSpecialTokens?: boolean | null }): number[];
  /** The text of token ids. */
  decode(ids: readonly number[], more?: { skipSpecialTokens?: boolean }): string;
  /** A token as in the vocabulary. */
  piece(token: number): string;
  /** Renders a list of messages, or an object with `messages` and, if wanted, `tools`, `add_generation_prompt`,
   * `continue_final_message` and `chat_template_kwargs`. */
  applyChatTemplate(messages: readonly Row[] | Row): string;
  /** The size of the vocabulary, special tokens and the chat template. */
  describe(): Record<string, unknown>;
}

/** Rows. */
export class Dataset extends Handle {
  private constructor();
  /** The rows of a file, a folder or a glob. */
  static open(path: Path, options?: Options, more?: Creating & Cancellable): Promise<Dataset>;
  /** The rows that a configuration names, to train on and to evaluate. */
  static fromConfig(config: Options, more?: Creating & Cancellable): Promise<{ train: Dataset; evaluation: Dataset | null }>;
  /** Rows of a file in memory; format is jsonl, json, csv or text. */
  static fromBuffer(format: string, data: string | Uint8Array, options?: Options, more?: Creating): Dataset;
  /** Rows in memory, copied now. */
  static fromRows(rows: Iterable<Row>, options?: Options, more?: Creating): Dataset;
  /** Rows that are asked for when they are read, more than once: an iterable, or a function that gives one. */
  static fromIterable(rows: Rows | (() => Rows | Promise<Rows>), options?: Options, more?: Creating): Promise<Dataset>;
  /** Rows of an Arrow stream, by the address of its ArrowArrayStream, which is taken over. */
  static fromArrow(address: bigint, options?: Options, more?: Creating): Dataset;
  /** Reads all rows and counts them. */
  rowCount(more?: Cancellable): Promise<number>;
  /** How long rows are: the numbers, and a plot as text. */
  profile(tokenizer: Tokenizer, options?: Options, more?: Cancellable): Promise<{ numbers: Record<string, unknown>; plot: string }>;
  /** One row as SFT tokenises it. */
  example(tokenizer: Tokenizer, row: number, options?: Options, more?: Cancellable): Promise<Record<string, unknown>>;
  /** Gives micro-batches of the first epoch to a function, until its result is true. */
  visitBatches(tokenizer: Tokenizer, onBatch: (batch: Record<string, unknown>) => Reply, options?: Options,
    more?: Cancellable & { first?: number; count?: number }): Promise<void>;
}

/** Converts a model, or an adapter: into one GGUF file if target ends in .gguf, else into a directory. */
export function convert(path: Path, target: Path, options?: Options, more?: Creating & Cancellable): Promise<void>;

/** A tensor of a model. float16 and bfloat16 have their bits in a Uint16Array. */
export interface Tensor {
  /** "float32", "bfloat16" ... */
  dtype: string;
  shape: number[];
  data: Float32Array | Float64Array | Uint16Array | Int8Array | Uint8Array | Int16Array | Int32Array | Uint32Array |
    BigInt64Array | BigUint64Array;
}

/** What is known of a tensor. */
export interface TensorInfo {
  name: string;
  shape: number[];
  dtype: string;
  /** The same as dtype, but for weights in blocks: "nf4", "int8", "q4_0" ... */
  stored: string;
  trained: boolean;
  /** Whether it has one, between the halves of a step. */
  gradient?: boolean;
}

/** A Hugging Face directory or a GGUF file, or what a trainer trains. */
export class Model extends Handle {
  private constructor();
  static open(path: Path, options?: Options, more?: Creating & Cancellable): Promise<Model>;
  /** The number of parameters, and the model's config.json. */
  describe(): Record<string, unknown>;
  /** Adds a saved LoRA adapter, which is not used yet. */
  addAdapter(name: string, path: Path, more?: Cancellable): Promise<void>;
  removeAdapter(name: string, more?: Cancellable): Promise<void>;
  /** Chooses the adapter to compute with; null: only the model. */
  useAdapter(name: string | null, more?: Cancellable): Promise<void>;
  /** Merges an adapter into the weights; null undoes it. */
  mergeAdapter(name: string | null, more?: Cancellable): Promise<void>;
  /** Its tensors, with those of its adapters. */
  tensors(more?: Cancellable): Promise<TensorInfo[]>;
  /** One of them. form is one of TensorForm: a copy; a view, whose data are the weight's own memory until the next step or write,
   * and must not be written to; or a copy of the gradient, between the halves of a step. */
  readTensor(name: string, more?: Cancellable & { form?: number }): Promise<Tensor>;
  /** Writes the values of a tensor of the same shape, which are copied and converted. dtype may be left out where the array says
   * it. */
  writeTensor(name: string, tensor: Omit<Tensor, 'dtype'> & { dtype?: string }, more?: Cancellable): Promise<void>;
  /** Saves the model, or its adapter (save.kind). */
  save(path: Path, options?: Options, more?: Cancellable): Promise<void>;
  /** The scores that a reward model gives to texts. form is one of TextForm. */
  score(texts: readonly string[], options?: Options, more?: Cancellable & { form?: number }): Promise<number[]>;
  /** A generator with this model, and with its own tokenizer or another one. */
  generator(tokenizer?: Tokenizer | null, more?: Cancellable): Promise<Generator>;
}

/** A completion as it was when it was taken. */
export class Completion {
  private constructor();
  readonly text: string;
  readonly tokenIds: number[];
  /** null: it goes on. */
  readonly finishReason: string | null;
  readonly json: string;
  /** What its JSON has: also the error of an aborted one, and log-probabilities (generate.logprobs). */
  readonly details: Record<string, unknown>;
}

/** Gets the number of the completion, the token, its text and its log-probability (null without generate.logprobs), and ends that
 * completion by a result that is true. */
export type TokenFunction = (completion: number, token: number, text: string, logProbability: number | null) => Reply;

/** Made by Model.generator. */
export class Generator extends Handle {
  private constructor();
  /** Completes prompts, all together; completion j of prompt i has the number i * num_return_sequences + j. */
  generate(prompts: string | readonly string[], options?: Options,
    more?: Cancellable & { onToken?: TokenFunction | undefined }): Promise<Completion[]>;
  /** Adds a request. Gives the number of its first completion. */
  add(prompt: Prompt, options?: Options, more?: Cancellable): Promise<number>;
  /** Computes a token of each completion that runs; false if there was nothing to do. What the function throws ends its
   * completion alone, and rejects the promise when the step is done. */
  step(onToken?: TokenFunction | null, more?: Cancellable): Promise<boolean>;
  /** Continues a completion that was added with generate.keep, after more tokens. */
  extend(completion: number, prompt: Prompt, options?: Options, more?: Cancellable): Promise<void>;
  /** Ends completions; their tokens so far can still be taken. */
  cancel(first: number, count?: number, more?: Cancellable): Promise<void>;
  /** Takes completions as they are. */
  take(first: number, count?: number, more?: Cancellable): Promise<Completion[]>;
  /** The tokens of one completion as they are computed. Other requests go on meanwhile; leaving the iteration ends this
   * one. */
  stream(prompt: Prompt, options?: Options,
    more?: Cancellable): AsyncGenerator<{ token: number; text: string; logProbability: number | null }, void, undefined>;
  /** Gives the memory of keys and values back until completions go on. */
  releaseMemory(more?: Cancellable): Promise<void>;
}

/** What happens in a run. */
export interface Event {
  /** One of EventKind, or a number that a later version adds. */
  readonly kind: number;
  readonly metrics: Metrics;
  /** `path` of a save; `completions` of a log record, as JSON. */
  readonly texts: { path?: string; completions?: string };
}

/** Rows that a trainer asks the host about; valid until the function that got it is over. */
export class Rollout implements Iterable<Record<string, unknown>> {
  private constructor();
  /** How many rows there are. */
  readonly length: number;
  /** What is known of a row. */
  row(index: number): Record<string, unknown>;
  [Symbol.iterator](): IterableIterator<Record<string, unknown>>;
  /** null: the function does not score this completion. */
  setReward(index: number, reward: number | null): void;
  setCompletion(index: number, tokenIds: readonly number[],
    more?: { logProbs?: readonly number[]; written?: readonly boolean[]; columns?: Row }): void;
  setValue(index: number, name: string, value: unknown): void;
  /** Adds a value to the metrics of the step. */
  log(name: string, value: number): void;
}

type Rewards = Iterable<number | null> | null | void;

/** A run of the method that its configuration names. */
export class Trainer extends Handle {
  private constructor();
  static create(config: Options, train: Dataset, evaluation?: Dataset | null, more?: Creating & Cancellable): Promise<Trainer>;
  /** Trains to the end, or until onEvent answers Answer.STOP; false if the run was complete before. */
  train(onEvent?: ((event: Event) => Reply) | null, more?: Cancellable): Promise<boolean>;
  /** One optimizer step and its numbers; null when nothing is left. */
  step(more?: Cancellable): Promise<Metrics | null>;
  /** The first half of a step, forward and backward: its numbers so far; null when nothing is left. Gradients can be read
   * until update. */
  backward(more?: Cancellable): Promise<Metrics | null>;
  /** The second half of a step, with the update of the weights or without it. */
  update(apply?: boolean, more?: Cancellable): Promise<Metrics>;
  /** Sets the learning rate of the next steps; null: that of the schedule again. */
  setLearningRate(learningRate: number | null): void;
  /** Evaluates on the evaluation rows, or on others. */
  evaluate(rows?: Dataset | null, more?: Cancellable): Promise<Metrics>;
  /** Saves the model, or what save.kind says; no path: into output_dir. */
  save(path?: Path | null, options?: Options, more?: Cancellable): Promise<void>;
  /** Adds a function that rewards the rows of a rollout: it gives a reward for each (null: none), or a promise of that, or
   * sets them itself. */
  addReward(name: string, reward: (rollout: Rollout) => Rewards | Promise<Rewards>): Promise<void>;
  /** Has a function write the completions of a rollout (setCompletion). */
  setRollout(write: (rollout: Rollout) => void | Promise<void>): Promise<void>;
  /** Has a function answer the tools that completions call (setValue). */
  setTools(answer: (rollout: Rollout) => void | Promise<void>): Promise<void>;
  /** Ends the call that runs on this trainer, or else the next one, with CancelledError. */
  cancel(): void;
  /** Holds the call that runs on this trainer, or else the next one, until resume. */
  pause(): void;
  resume(): void;
  /** The state of the training, as in trainer_state.json, also while it trains: after the last step that is done. */
  describe(): Record<string, unknown>;
  /** Integers by a name, also while it trains: global_step, max_steps, vocab_size, parameter_count, trained_parameter_count,
   * eos_token_ids. */
  integers(name: string): number[];
  /** The model that is trained, whose weights are those of the run. It keeps the run alive. */
  model(): Model;
}

/** The memory, time and disk that a trainer of this configuration needs: as numbers, and as text. */
export function plan(config: Options, train?: Dataset | null,
  more?: Creating & Cancellable): Promise<{ numbers: Record<string, unknown>; text: string }>;

/** Checks a run as a trainer does before it reads rows and weights, and creates nothing. */
export function check(config: Options, more?: Creating & Cancellable): Promise<void>;

/** A model that is measured on rows, without a run. */
export class Evaluator extends Handle {
  private constructor();
  static create(config: Options, more?: Creating & Cancellable): Promise<Evaluator>;
  /** The numbers of an evaluation within a run, under the same names. */
  evaluate(rows: Dataset, more?: Cancellable): Promise<Metrics>;
  /** Completes sample_prompts. */
  complete(more?: Cancellable): Promise<Record<string, unknown>[]>;
}

/** What a server says of itself. */
export interface ServerState {
  /** "stopped", "running" or "draining". */
  readonly state: string;
  /** Host and port, and the port alone; null if it does not run. */
  readonly address: string | null;
  readonly port: number | null;
  readonly connections: number;
  readonly models: readonly ServedModel[];
}

export interface ServedModel {
  readonly name: string;
  /** "awake" or "asleep". */
  readonly state: string;
  readonly weights_version: number;
  /** The newest step whose adapter a trainer's model has answered with. */
  readonly trained_version: number | null;
  readonly adapters: readonly { readonly name: string; readonly version: number }[];
  readonly waiting: number;
  readonly running: number;
  readonly requests: number;
  readonly tokens: number;
}

/** Serves models over HTTP, by the protocols of OpenAI, vLLM and TRL, on threads of its own. close() stops it without time for
 * the requests that run; stop() gives them some. */
export class Server extends Handle {
  private constructor();
  static create(options?: Options, more?: Creating & Cancellable): Promise<Server>;
  /** Adds a model, which requests name, with its own tokenizer or another one. */
  addModel(name: string, model: Model, options?: Options, more?: Cancellable & { tokenizer?: Tokenizer | null | undefined }): Promise<void>;
  /** Adds a generator, which is the server's from start to the end of stop. */
  addGenerator(name: string, generator: Generator, tokenizer: Tokenizer, options?: Options): void;
  /** Adds the model of a trainer: requests are answered with what it trains, with serve_share while it trains. */
  addTrainer(name: string, trainer: Trainer, options?: Options): Promise<void>;
  /** Listens, and starts the threads of the server. */
  start(more?: Cancellable): Promise<void>;
  /** Stops it when the requests that run have ended, or after this many seconds; null: serve.drain_timeout. */
  stop(seconds?: number | null, more?: Cancellable): Promise<void>;
  /** Waits until it has stopped, or for this many seconds (null: any time); false: it still runs. Is rejected with what made a thread of
   * it fail. Log lines come meanwhile. */
  wait(seconds?: number | null, more?: Cancellable): Promise<boolean>;
  /** Asks it to stop; a second time: without time for requests. */
  cancel(): void;
  describe(): ServerState;
  /** Gives a model an adapter that requests name, or a new version of one; a path of null removes it. Requests that run keep the
   * version that they began with. */
  setAdapter(name: string, path: Path | null, more?: ServedName & Cancellable): Promise<void>;
  /** Puts a model to sleep, as deep as level 1 or 2: requests are refused until wakeUp. mode says what becomes of those that run. */
  sleep(more?: ServedName & Cancellable & { level?: number; mode?: 'abort' | 'wait' | 'keep' | null }): Promise<void>;
  /** Wakes a model. tags is what is asked for again, "weights" or "kv_cache"; null: all. */
  wakeUp(more?: ServedName & Cancellable & { tags?: string | null }): Promise<void>;
}

export interface ServedName {
  /** A served model; null: the first one. */
  model?: string | null;
}
