//! The C ABI, made from include/trl/trl.h by bindings/generate.py.

use std::marker::{PhantomData, PhantomPinned};
use std::os::raw::{c_char, c_void};

pub const TRL_OK: i32 = 0;
/// nothing more comes: the walk, the rows or the training is over
pub const TRL_END: i32 = 1;
/// from a callback: its answer comes later
pub const TRL_LATER: i32 = 2;
/// NULL, a handle of another type or one destroyed, out of range
pub const TRL_E_INVALID_ARGUMENT: i32 = -1;
/// a key or its value; trl_error_key names it
pub const TRL_E_INVALID_CONFIG: i32 = -2;
/// a file, or a name
pub const TRL_E_NOT_FOUND: i32 = -3;
/// reading or writing failed
pub const TRL_E_IO: i32 = -4;
/// a malformed file, row or model
pub const TRL_E_FORMAT: i32 = -5;
/// this build or this process cannot do it
pub const TRL_E_UNSUPPORTED: i32 = -6;
/// the host's memory, or runtime.host_memory_limit
pub const TRL_E_OUT_OF_MEMORY: i32 = -7;
pub const TRL_E_OUT_OF_DEVICE_MEMORY: i32 = -8;
pub const TRL_E_DEVICE: i32 = -9;
pub const TRL_E_DISTRIBUTED: i32 = -10;
/// trl_runtime_cancel or trl_trainer_cancel was called, or the process is ending
pub const TRL_E_CANCELLED: i32 = -11;
/// in use elsewhere, called from a callback, or after a fork
pub const TRL_E_BUSY: i32 = -12;
/// a callback of the host failed; trl_error_callback_code has its value
pub const TRL_E_CALLBACK: i32 = -13;
pub const TRL_E_INTERNAL: i32 = -14;
pub const TRL_VERSION_MAJOR: i32 = 0;
pub const TRL_VERSION_MINOR: i32 = 1;
pub const TRL_VERSION_PATCH: i32 = 0;
pub const TRL_TYPE_BOOLEAN: i32 = 0;
pub const TRL_TYPE_INTEGER: i32 = 1;
pub const TRL_TYPE_NUMBER: i32 = 2;
pub const TRL_TYPE_TEXT: i32 = 3;
/// one of trl_option_accepted
pub const TRL_TYPE_CHOICE: i32 = 4;
pub const TRL_TYPE_LIST: i32 = 5;
pub const TRL_TYPE_MAP: i32 = 6;
pub const TRL_LOG_DEBUG: i32 = 0;
pub const TRL_LOG_INFO: i32 = 1;
pub const TRL_LOG_WARNING: i32 = 2;
pub const TRL_LOG_ERROR: i32 = 3;
pub const TRL_PROGRESS_STOP: i32 = 1;
/// the next bytes of this file, in order; a file's first call has offset 0
pub const TRL_WRITE_DATA: i32 = 0;
/// file is the folder that was saved ("" for the mount): it is complete, and takes the place of what was there
pub const TRL_WRITE_DONE: i32 = 1;
/// file is the folder: the save failed, and what was written of it is to be dropped
pub const TRL_WRITE_DROPPED: i32 = 2;
/// a copy of the weight, which the caller may keep
pub const TRL_TENSOR_COPY: i32 = 0;
/// the weight's own memory, to be read until it next changes
pub const TRL_TENSOR_VIEW: i32 = 1;
/// a copy of the weight's gradient, in its type
pub const TRL_TENSOR_GRADIENT: i32 = 2;
/// plain text, as the rows of a reward run: it gets the EOS that it lacks
pub const TRL_TEXT_ANSWER: i32 = 0;
/// JSON, as trl_tokenizer_apply_chat_template takes it
pub const TRL_TEXT_CONVERSATION: i32 = 1;
/// plain text with the tokens that the tokenizer adds
pub const TRL_TEXT_AS_IS: i32 = 2;
/// num_examples, num_train_epochs, train_batch_size, gradient_accumulation_steps
pub const TRL_ON_TRAIN_BEGIN: i32 = 0;
/// an optimizer step is done: loss, grad_norm, learning_rate, num_tokens ...
pub const TRL_ON_STEP: i32 = 1;
/// a record of trainer_state.json's log_history: numbers, the text completions
pub const TRL_ON_LOG: i32 = 2;
/// an evaluation is done: eval_loss, eval_runtime ...
pub const TRL_ON_EVALUATE: i32 = 3;
/// a directory was written: the text path (trl_metrics_text)
pub const TRL_ON_SAVE: i32 = 4;
/// an epoch is done, or was cut short: epoch says how much of it
pub const TRL_ON_EPOCH: i32 = 5;
/// the summary: train_loss, train_runtime ...
pub const TRL_ON_TRAIN_END: i32 = 6;
pub const TRL_EVENT_STOP: i32 = 1;
pub const TRL_EVENT_SAVE: i32 = 2;
pub const TRL_EVENT_EVALUATE: i32 = 4;

pub type trl_status = i32;

#[repr(C)]
pub struct trl_error {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_config {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_option {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_runtime {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_dataset {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_record {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_tokenizer {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_model {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_trainer {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_evaluator {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_metrics {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_generator {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_completions {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct trl_rollout {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct ArrowArrayStream {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct DLManagedTensorVersioned {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Frees what user_data points to; runs exactly once, even if the registration failed. May be NULL.
pub type trl_destroy_fn = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// One log line without its newline; component and text are valid during the call, text\[size] is NUL.
pub type trl_log_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, level: i32, component: *const c_char, text: *const c_char, size: usize)>;

/// Tells the host the progress of a call that opens, makes or saves something. phase, valid during the callback, is "engine" libtorch and the engine are being loaded: done is 0, then 1; total is 1 "rows" rows are being read and counted: done is the rows so far, total is not known "tokenize" rows are being tokenised: done rows of total "plan" a step is being rehearsed, which predicts its memory: done tensors of the total stored "weights" weights are being read: done tensors of the total stored "evaluate" trl_evaluator_evaluate: done rows of total "score" trl_model_score: done texts of total "save" a file of weights or of an optimizer's state is being written, by trl_trainer_train, _step, _update or _save too: done bytes of the file's total or one that a later version adds. A phase may occur more than once, for evaluation rows for example. total is -1 if it is not known. The callback runs when a phase begins and ends, and about every 50 ms in between, even if done has not changed, so the host can stop the call from it. Return 0 to continue. With TRL_PROGRESS_STOP, or any other number above 0, the call returns TRL_E_CANCELLED; with a number below 0 it returns TRL_E_CALLBACK. In both cases nothing half-made is left. A trainer's call that is stopped while it saves ends as trl_trainer_cancel ends it.
pub type trl_progress_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, phase: *const c_char, done: i64, total: i64) -> i32>;

/// Reads a part of a file that the host gives. file: its path below the name that was mounted, such as "config.json". Puts the bytes from offset on into buffer, at most size, and returns how many: fewer than size only at the end of the file. With buffer NULL and size 0 it returns the bytes of the whole file. If there is no such file, or it is a folder, it returns TRL_E_NOT_FOUND; another number below 0 is a failure.
pub type trl_read_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, file: *const c_char, offset: u64, buffer: *mut c_void, size: usize) -> i64>;

/// Takes what is saved. data is valid during the call; NULL and 0 except for TRL_WRITE_DATA. Returns 0, or below 0 to fail, which ends the save with TRL_E_CALLBACK.
pub type trl_write_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, what: i32, file: *const c_char, offset: u64, data: *const c_void, size: usize) -> i32>;

/// Puts one row into record and returns TRL_OK; TRL_END when there is none, below 0 to fail.
pub type trl_next_record_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, record: *mut trl_record) -> i32>;

/// Starts the rows over; 0, or below 0 to fail.
pub type trl_rewind_fn = Option<unsafe extern "C" fn(user_data: *mut c_void) -> i32>;

/// One micro-batch, as JSON that is valid during the call; json\[size] is NUL. Returns 0 to continue, a number above 0 to see no more, or one below 0 to fail.
pub type trl_batch_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, json: *const c_char, size: usize) -> i32>;

/// metrics, valid during the call, always has step, max_steps and epoch. Returns 0 to continue, TRL_EVENT_* bits, or a number below 0, which ends the run as TRL_EVENT_STOP does and makes the call TRL_E_CALLBACK.
pub type trl_event_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, event: i32, metrics: *const trl_metrics) -> i32>;

/// Called with the rows of a generation: TRL_OK when all of them are set, TRL_LATER when trl_rollout_finish follows, below 0 to fail.
pub type trl_rollout_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, rollout: *mut trl_rollout) -> i32>;

/// One new token of completion number `prompt`, which is the prompt's unless there are several of each. text holds whole characters; it is empty while one is unfinished, and valid during the call. log_probability is the token's, in nats, as in `logprobs` of trl_completions_json; NaN without generate.logprobs. Returns 0 to continue; anything else ends this prompt's completion.
pub type trl_token_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, prompt: usize, token: i32, text: *const c_char, size: usize, log_probability: f64) -> i32>;

extern "C" {
    /// The version of the library.
    ///
    /// Contract: any thread; does not block; no callbacks; cannot fail.
    pub fn trl_version() -> u32;

    /// The version of the library as text, such as "0.1.0".
    ///
    /// Contract: any thread; does not block; no callbacks; cannot fail.
    pub fn trl_version_string() -> *const c_char;

    /// How the library was built.
    ///
    /// Contract: any thread; does not block; no callbacks; cannot fail.
    pub fn trl_build_info() -> *const c_char;

    /// Whether this build has a feature.
    ///
    /// Contract: any thread; does not block; no callbacks; cannot fail.
    pub fn trl_has_feature(name: *const c_char) -> i32;

    /// The name of a status, such as "TRL_E_BUSY".
    ///
    /// Contract: any thread; does not block; no callbacks; cannot fail.
    pub fn trl_status_name(status: trl_status) -> *const c_char;

    /// The code of an error, the same that the failed call returned.
    ///
    /// Contract: any thread; does not block; no callbacks; cannot fail.
    pub fn trl_error_code(error: *const trl_error) -> trl_status;

    /// The message of an error: one line that names the fault and the accepted values.
    ///
    /// Contract: any thread; does not block; no callbacks; cannot fail.
    pub fn trl_error_message(error: *const trl_error) -> *const c_char;

    /// The configuration key at fault.
    ///
    /// Contract: any thread; does not block; no callbacks; cannot fail.
    pub fn trl_error_key(error: *const trl_error) -> *const c_char;

    /// The place of an error in what was read: a file of rows, of options or of a model, or a text or buffer that was given.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_error_place(error: *const trl_error, out_file: *mut *const c_char, out_line: *mut i64, out_column: *mut i64, out_row: *mut i64) -> i32;

    /// Returns the value of the host's callback that made an error TRL_E_CALLBACK.
    ///
    /// Contract: any thread; does not block; no callbacks; cannot fail.
    pub fn trl_error_callback_code(error: *const trl_error) -> i32;

    /// Frees an error.
    ///
    /// Contract: exclusive, last use; does not block; no callbacks; cannot fail.
    pub fn trl_error_destroy(error: *mut trl_error);

    /// Creates an empty configuration: every key has its default.
    ///
    /// Contract: caller owns; any thread, also in callbacks; does not block; no callbacks; after an error out_config is NULL.
    pub fn trl_config_create(out_config: *mut *mut trl_config, error: *mut *mut trl_error) -> trl_status;

    /// Sets one key.
    ///
    /// Contract: values are copied; exclusive, also in callbacks; does not block; no callbacks; after an error config is unchanged.
    pub fn trl_config_set(config: *mut trl_config, key: *const c_char, value: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Sets one key back: it has its default again, and its origin is "default". Nothing happens if it was not set.
    ///
    /// Contract: exclusive, also in callbacks; does not block; no callbacks; after an error config is unchanged.
    pub fn trl_config_unset(config: *mut trl_config, key: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Reads one key: the value that was set, or its default.
    ///
    /// Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error out_value is NULL.
    pub fn trl_config_get(config: *const trl_config, key: *const c_char, out_value: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Tells the origin of the value of a key.
    ///
    /// Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error out_origin is NULL.
    pub fn trl_config_get_origin(config: *const trl_config, key: *const c_char, out_origin: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Sets every key of a YAML or JSON file, as `trl --config` reads it.
    ///
    /// Contract: values are copied; exclusive, also in callbacks; blocks on the file; no callbacks; after an error config is unchanged.
    pub fn trl_config_load(config: *mut trl_config, path: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Sets every key of a YAML or JSON text.
    ///
    /// Contract: values are copied; exclusive, also in callbacks; does not block; no callbacks; after an error config is unchanged.
    pub fn trl_config_load_text(config: *mut trl_config, text: *const c_char, size: usize, error: *mut *mut trl_error) -> trl_status;

    /// The keys that were set, as a JSON object under their canonical names, each value in its own type.
    ///
    /// Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error out_json is NULL.
    pub fn trl_config_describe(config: *const trl_config, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// The warnings about the keys that were set, which a trainer writes to its log: keys that have no effect in this build, keys that a file gives twice.
    ///
    /// Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error out_json is NULL.
    pub fn trl_config_get_warnings(config: *const trl_config, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// The JSON schema (draft 2020-12) of a configuration file: an object with a property for each key, with its type, range or choices, default and meaning, from the table that trl_option_next walks. Other names of a key have properties, too, and older ones are deprecated. A file that trl_config_load takes is valid by it, except that it also allows older names of values, dashes in keys, capitals in choices, 0 and 1 as booleans, texts in place of other values, and the reverse.
    ///
    /// Contract: borrowed; any thread, also in callbacks; does not block; no callbacks; after an error out_json is NULL.
    pub fn trl_config_get_schema(trainer: *const c_char, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Frees a configuration. Objects that were created from it keep their own copy.
    ///
    /// Contract: exclusive, last use; does not block; no callbacks; cannot fail.
    pub fn trl_config_destroy(config: *mut trl_config);

    /// Walks the table of options.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_next(previous: *const trl_option) -> *const trl_option;

    /// The key under which trl_config_set takes an option.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_name(option: *const trl_option) -> *const c_char;

    /// The group of an option: TRL's class (SFTConfig, ModelConfig, ScriptArguments) or a group of libtrl (runtime, generate ...).
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_section(option: *const trl_option) -> *const c_char;

    /// The topic of an option within its section ("Batches and length", "Saving").
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_group(option: *const trl_option) -> *const c_char;

    /// The origin of an option: TRL, or this library.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_origin(option: *const trl_option) -> *const c_char;

    /// The type of an option's value.
    ///
    /// Contract: any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_type(option: *const trl_option, trainer: *const c_char) -> i32;

    /// Whether "null" is a value of an option.
    ///
    /// Contract: any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_nullable(option: *const trl_option) -> i32;

    /// The default of an option as canonical text.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_default(option: *const trl_option, trainer: *const c_char) -> *const c_char;

    /// The values that an option accepts within its type: a range such as "> 0", or "a|b|c" for a choice. "bytes >= 0" is a range of bytes, and such an option takes units, too: "6GiB" is kept as 6442450944.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_accepted(option: *const trl_option, trainer: *const c_char) -> *const c_char;

    /// The trainers that have an option, comma separated ("sft,dpo").
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_trainers(option: *const trl_option) -> *const c_char;

    /// The older names of an option, comma separated.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_aliases(option: *const trl_option) -> *const c_char;

    /// Names that other tools have for an option, such as "lr". They are not accepted: an error about one names the option.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_other_names(option: *const trl_option) -> *const c_char;

    /// The meaning of an option, in a sentence or two.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_doc(option: *const trl_option, trainer: *const c_char) -> *const c_char;

    /// The first version of libtrl that has an option.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_since(option: *const trl_option) -> *const c_char;

    /// Why this build refuses other values of an option than its default and the ones that change nothing.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_unsupported_reason(option: *const trl_option) -> *const c_char;

    /// The effect that an option lacks in this build: it is accepted, and one warning says this.
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_ignored_reason(option: *const trl_option) -> *const c_char;

    /// The values besides the default that are neither refused nor ignored, if an option has such a reason (trl_option_unsupported_reason, trl_option_ignored_reason).
    ///
    /// Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
    pub fn trl_option_taken(option: *const trl_option) -> *const c_char;

    /// Creates a runtime: the threads, memory limit and log of the objects that are created with it.
    ///
    /// Contract: caller owns, users of it keep it alive; any thread; does not block; no callbacks; after an error out_runtime is NULL.
    pub fn trl_runtime_create(config: *const trl_config, out_runtime: *mut *mut trl_runtime, error: *mut *mut trl_error) -> trl_status;

    /// Sends the log lines of a runtime, and of all that is created with it, to a callback.
    ///
    /// Contract: user_data owned by the library until destroy; exclusive; does not block; destroy of the callback before; after an error destroy was called.
    pub fn trl_runtime_set_log(runtime: *mut trl_runtime, log: trl_log_fn, user_data: *mut c_void, destroy: trl_destroy_fn, error: *mut *mut trl_error) -> trl_status;

    /// Sets the progress callback of a runtime. It reports on the calls that open, make or save something for the runtime or for an object that was created with it: trl_dataset_open, trl_dataset_open_config, the trl_dataset_get_* functions and trl_dataset_visit_batches, trl_tokenizer_open, trl_model_open, trl_model_score, trl_model_convert, trl_model_save, trl_trainer_create, trl_trainer_plan, trl_evaluator_create, trl_evaluator_evaluate and trl_runtime_describe; of the calls of a trainer only on what they save. While libtorch itself is being loaded the callback does not run and the call cannot be stopped.
    ///
    /// Contract: user_data owned by the library until destroy; any thread; does not block; destroy of the callback before, now or with the last call that it reports on; after an error destroy was called.
    pub fn trl_runtime_set_progress(runtime: *mut trl_runtime, progress: trl_progress_fn, user_data: *mut c_void, destroy: trl_destroy_fn, error: *mut *mut trl_error) -> trl_status;

    /// Mounts files of the host under a name: from now on "host://NAME" and "host://NAME/FOLDER" are paths of folders whose files the host reads and writes, for products that encrypt or pack their files or have them in memory. Such a path is taken wherever the directory of a model, an adapter, a tokenizer or a checkpoint is read (trl_model_open, trl_model_add_adapter, trl_tokenizer_open, and the keys of a configuration that name one: model_name_or_path, adapter_name_or_path, ref_model_name_or_path, resume_from_checkpoint ...), as a GGUF file ("host://NAME/model.gguf"), and by trl_trainer_save and trl_model_save for what they write. Weights are read once, into memory of their own. Other paths, such as output_dir, datasets, files of options and those of trl_model_convert, are refused with a message.
    ///
    /// Contract: user_data owned by the library until destroy; any thread; does not block; read and write run later, inside calls that were given such a path; after an error destroy was called.
    pub fn trl_runtime_mount(runtime: *mut trl_runtime, name: *const c_char, read: trl_read_fn, write: trl_write_fn, user_data: *mut c_void, destroy: trl_destroy_fn, error: *mut *mut trl_error) -> trl_status;

    /// Sets the process's limit for large buffers; trainers may exist.
    ///
    /// Contract: any thread; does not block; no callbacks; after an error the limit is unchanged.
    pub fn trl_runtime_set_memory_limit(runtime: *mut trl_runtime, bytes: i64, error: *mut *mut trl_error) -> trl_status;

    /// The bytes that large buffers of this process hold now, and the most they held.
    ///
    /// Contract: any thread, also in callbacks; does not block; no callbacks; after an error the outputs are 0.
    pub fn trl_runtime_memory(runtime: *const trl_runtime, kind: *const c_char, out_now_bytes: *mut i64, out_peak_bytes: *mut i64, error: *mut *mut trl_error) -> trl_status;

    /// Describes the runtime and the engine as a JSON object: threads, memory limit, and the engine's libraries and kernels.
    ///
    /// Contract: borrowed; any thread; blocks while libraries load; log; after an error out_json is NULL.
    pub fn trl_runtime_describe(runtime: *mut trl_runtime, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Ends the calls that are in progress on a runtime: each returns TRL_E_CANCELLED, within 100 ms of work.
    ///
    /// Contract: signal-safe; never blocks; no callbacks; cannot fail. The runtime must not be destroyed meanwhile.
    pub fn trl_runtime_cancel(runtime: *mut trl_runtime);

    /// Frees a runtime; objects that were created with it continue to work.
    ///
    /// Contract: exclusive, last use; does not block; destroy of the log callback, now or with the last user; cannot fail.
    pub fn trl_runtime_destroy(runtime: *mut trl_runtime);

    /// Ends the threads that the library keeps between calls, and returns when they are gone.
    ///
    /// Contract: any thread; blocks until the threads are gone; no callbacks; after an error no thread was ended.
    pub fn trl_runtime_shutdown(error: *mut *mut trl_error) -> trl_status;

    /// Opens the rows of a file, a directory or a glob (*, ?, \[], **).
    ///
    /// Contract: caller owns, a trainer keeps it alive; any thread; blocks on the files; log; after an error out_dataset is NULL.
    pub fn trl_dataset_open(runtime: *mut trl_runtime, path: *const c_char, options: *const trl_config, out_dataset: *mut *mut trl_dataset, error: *mut *mut trl_error) -> trl_status;

    /// Opens the rows that a configuration names, as `trl sft` does.
    ///
    /// Contract: caller owns, a trainer keeps them alive; any thread; blocks on the files; log; after an error out_train and out_eval are NULL.
    pub fn trl_dataset_open_config(runtime: *mut trl_runtime, config: *const trl_config, out_train: *mut *mut trl_dataset, out_eval: *mut *mut trl_dataset, error: *mut *mut trl_error) -> trl_status;

    /// Creates a dataset from bytes in memory.
    ///
    /// Contract: caller owns, a trainer keeps it alive; any thread; does not block; no callbacks; after an error out_dataset is NULL.
    pub fn trl_dataset_from_buffer(runtime: *mut trl_runtime, format: *const c_char, data: *const c_char, size: usize, options: *const trl_config, out_dataset: *mut *mut trl_dataset, error: *mut *mut trl_error) -> trl_status;

    /// Creates a dataset from an Arrow stream of record batches.
    ///
    /// Contract: caller owns, a trainer keeps it alive; any thread; does not block; get_schema of the stream now, get_next and release inside later calls; after an error out_dataset is NULL.
    pub fn trl_dataset_from_arrow(runtime: *mut trl_runtime, stream: *mut ArrowArrayStream, options: *const trl_config, out_dataset: *mut *mut trl_dataset, error: *mut *mut trl_error) -> trl_status;

    /// Creates a dataset from rows that the host gives, one call for each.
    ///
    /// Contract: caller owns, a trainer keeps it alive; any thread; does not block; callbacks run later, inside calls that read rows; after an error out_dataset is NULL and destroy was called.
    pub fn trl_dataset_from_callback(runtime: *mut trl_runtime, next: trl_next_record_fn, rewind: trl_rewind_fn, user_data: *mut c_void, destroy: trl_destroy_fn, options: *const trl_config, out_dataset: *mut *mut trl_dataset, error: *mut *mut trl_error) -> trl_status;

    /// Sets one column of a row to a text.
    ///
    /// Contract: copied; exclusive, also in callbacks: inside that one; does not block; no callbacks; after an error the row is unchanged.
    pub fn trl_record_set_text(record: *mut trl_record, name: *const c_char, text: *const c_char, size: usize, error: *mut *mut trl_error) -> trl_status;

    /// Sets one column of a row to a list of integers, such as input_ids, labels (-100: not learned) or completion_mask.
    ///
    /// Contract: copied; exclusive, also in callbacks: inside that one; does not block; no callbacks; after an error the row is unchanged.
    pub fn trl_record_set_ids(record: *mut trl_record, name: *const c_char, ids: *const i32, count: usize, error: *mut *mut trl_error) -> trl_status;

    /// Sets one column of a row to a JSON value, such as the list of a conversation's messages.
    ///
    /// Contract: copied; exclusive, also in callbacks: inside that one; does not block; no callbacks; after an error the row is unchanged.
    pub fn trl_record_set_json(record: *mut trl_record, name: *const c_char, json: *const c_char, size: usize, error: *mut *mut trl_error) -> trl_status;

    /// Reads all rows and counts them; a malformed one is an error that names its place.
    ///
    /// Contract: concurrent on const (rows of a callback: exclusive); blocks on the file; next and rewind; after an error out_count is 0.
    pub fn trl_dataset_get_row_count(dataset: *const trl_dataset, out_count: *mut i64, error: *mut *mut trl_error) -> trl_status;

    /// Reads and tokenises all rows, as training would, and reports how long they are and what each max_length costs.
    ///
    /// Contract: borrowed; concurrent on const (rows of a callback: exclusive); blocks on the rows; log, next and rewind; after an error the outputs are NULL and the files untouched.
    pub fn trl_dataset_get_profile(dataset: *const trl_dataset, tokenizer: *const trl_tokenizer, options: *const trl_config, out_json: *mut *const c_char, out_text: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Tokenises one row as SFT does, to see what it trains on.
    ///
    /// Contract: borrowed; concurrent on const (rows of a callback: exclusive); blocks on the rows; log, next and rewind; after an error out_json is NULL.
    pub fn trl_dataset_get_example(dataset: *const trl_dataset, tokenizer: *const trl_tokenizer, options: *const trl_config, row: i64, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Micro-batches of the first epoch, one after the other, as the trainer of `method` will see them: rows in their order of training, prepared, cut and packed as options say.
    ///
    /// Contract: nothing is handed out; concurrent on const (rows of a callback: exclusive); blocks on the rows; on_batch, log, next and rewind; after an error some batches may have been seen.
    pub fn trl_dataset_visit_batches(dataset: *const trl_dataset, tokenizer: *const trl_tokenizer, options: *const trl_config, first: i64, count: i64, on_batch: trl_batch_fn, user_data: *mut c_void, error: *mut *mut trl_error) -> trl_status;

    /// Frees a dataset; a trainer created with it continues to work.
    ///
    /// Contract: exclusive, last use; does not block; destroy of its callback, now or with the last user; cannot fail.
    pub fn trl_dataset_destroy(dataset: *mut trl_dataset);

    /// Opens the tokenizer of a model directory or of a GGUF file. Opens no engine.
    ///
    /// Contract: caller owns; any thread; blocks on the files; log; after an error out_tokenizer is NULL.
    pub fn trl_tokenizer_open(runtime: *mut trl_runtime, path: *const c_char, options: *const trl_config, out_tokenizer: *mut *mut trl_tokenizer, error: *mut *mut trl_error) -> trl_status;

    /// Turns text into token ids.
    ///
    /// Contract: ids belongs to the caller; concurrent on const, also in callbacks; does not block; no callbacks; after an error out_count is 0.
    pub fn trl_tokenizer_encode(tokenizer: *const trl_tokenizer, text: *const c_char, size: usize, add_special_tokens: i32, split_special_tokens: i32, ids: *mut i32, capacity: usize, out_count: *mut usize, error: *mut *mut trl_error) -> trl_status;

    /// Turns token ids into text. Bytes that form no character become U+FFFD.
    ///
    /// Contract: text belongs to the caller; concurrent on const, also in callbacks; does not block; no callbacks; after an error out_size is 0.
    pub fn trl_tokenizer_decode(tokenizer: *const trl_tokenizer, ids: *const i32, count: usize, skip_special_tokens: i32, text: *mut c_char, capacity: usize, out_size: *mut usize, error: *mut *mut trl_error) -> trl_status;

    /// A token as in the vocabulary: of a byte-level tokenizer in its alphabet for bytes, of a SentencePiece one with the mark of a space.
    ///
    /// Contract: piece belongs to the caller; concurrent on const, also in callbacks; does not block; no callbacks; after an error out_size is 0.
    pub fn trl_tokenizer_get_piece(tokenizer: *const trl_tokenizer, id: i32, piece: *mut c_char, capacity: usize, out_size: *mut usize, error: *mut *mut trl_error) -> trl_status;

    /// Renders a conversation with the tokenizer's chat template. If it has several, "tool_use" is taken when tools are given, and otherwise "default".
    ///
    /// Contract: text belongs to the caller; concurrent on const, also in callbacks; does not block; no callbacks; after an error out_size is 0.
    pub fn trl_tokenizer_apply_chat_template(tokenizer: *const trl_tokenizer, json: *const c_char, size: usize, text: *mut c_char, capacity: usize, out_size: *mut usize, error: *mut *mut trl_error) -> trl_status;

    /// Describes the tokenizer as a JSON object: vocab_size, bos_token, eos_token, pad_token, unk_token with their ids, and chat_template (an object, name to template, if the tokenizer has named ones).
    ///
    /// Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error out_json is NULL.
    pub fn trl_tokenizer_describe(tokenizer: *const trl_tokenizer, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Frees a tokenizer; a generator created with it continues to work.
    ///
    /// Contract: exclusive, last use; does not block; no callbacks; cannot fail.
    pub fn trl_tokenizer_destroy(tokenizer: *mut trl_tokenizer);

    /// Opens a model: a Hugging Face directory, one GGUF file, or a directory that holds it as model.gguf. Opens the engine. A sequence classifier with one label, or an adapter that makes one of its model (task_type SEQ_CLS), is opened as a reward model, which trl_model_score asks.
    ///
    /// Contract: caller owns; any thread; blocks on the files; log; after an error out_model is NULL.
    pub fn trl_model_open(runtime: *mut trl_runtime, path: *const c_char, options: *const trl_config, out_model: *mut *mut trl_model, error: *mut *mut trl_error) -> trl_status;

    /// Makes a handle of the model that a trainer trains: its weights are those of the trainer, and every step is seen at once. It serves to read and write tensors, to score texts, to make generators (trl_generator_create), and to add and remove adapters, with which generators and scores may work apart from the run: it does not train, use or save them.
    ///
    /// Contract: caller owns; any thread, also in callbacks; does not block; no callbacks; after an error out_model is NULL.
    pub fn trl_model_from_trainer(trainer: *mut trl_trainer, out_model: *mut *mut trl_model, error: *mut *mut trl_error) -> trl_status;

    /// Converts a model into another form or type. A target whose name ends in ".gguf" is one GGUF file, which llama.cpp reads; any other is a Hugging Face directory. Path may be either, too. Tokenizer and chat template go along. No model is opened, and memory does not grow with the model, unless an adapter is merged or the files are quantised by bitsandbytes. Opens the engine.
    ///
    /// Contract: any thread; blocks on the files; log; after an error nothing is written.
    pub fn trl_model_convert(runtime: *mut trl_runtime, path: *const c_char, target: *const c_char, options: *const trl_config, error: *mut *mut trl_error) -> trl_status;

    /// Describes the model as a JSON object: parameters (their number) and config (as config.json).
    ///
    /// Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error out_json is NULL.
    pub fn trl_model_describe(model: *const trl_model, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Lists the tensors of a model, with those of its adapters, as a JSON array of objects: name (as in a saved directory; of an adapter as PEFT names it in the model, with the adapter's name), shape (a list of integers), dtype ("float32", "bfloat16" ...), stored ("nf4", "int8", "q4_0" ... for weights in blocks, else the same as dtype), trained (a boolean) and gradient (whether it has one now, between the two halves of a step).
    ///
    /// Contract: borrowed; exclusive; does not block; no callbacks; after an error out_json is NULL.
    pub fn trl_model_get_tensors(model: *mut trl_model, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Hands out a tensor as DLPack: contiguous, on the device where it lies, in its own type; weights in blocks (4-bit, 8-bit, GGUF) are decoded into a copy, in the type that dtype names.
    ///
    /// Contract: caller owns; exclusive; blocks for a copy; no callbacks; after an error out_tensor is NULL.
    pub fn trl_model_read_tensor(model: *mut trl_model, name: *const c_char, what: i32, out_tensor: *mut *mut DLManagedTensorVersioned, error: *mut *mut trl_error) -> trl_status;

    /// Writes a tensor: its values become those of a DLPack tensor in memory of the host, of the same shape and of any type of floating-point numbers, which is converted. Strides are followed. Moments of the optimizer stay.
    ///
    /// Contract: exclusive; blocks for the copy; the tensor's deleter; after an error the weight is as before.
    pub fn trl_model_write_tensor(model: *mut trl_model, name: *const c_char, tensor: *mut DLManagedTensorVersioned, error: *mut *mut trl_error) -> trl_status;

    /// Adds a LoRA adapter that was saved by this library or by PEFT: adapter_config.json and adapter_model.safetensors. It is not used yet (trl_model_use_adapter); the option `adapter_name_or_path` of trl_model_open adds one and uses it, and gives the model the rows that it has for new tokens. A model may have several. One directory may be added under several names: each is a copy that the others do not change, so that the adapter that a run began with can be kept as "ref" next to its trained form.
    ///
    /// Contract: exclusive; blocks on the files; log; after an error the model is as before.
    pub fn trl_model_add_adapter(model: *mut trl_model, name: *const c_char, path: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Removes an adapter from a model. If it is used or merged, the model is without one afterwards.
    ///
    /// Contract: exclusive; does not block; no callbacks; after an error the model is as before.
    pub fn trl_model_remove_adapter(model: *mut trl_model, name: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Chooses the adapter that the model computes with from the next call on. Nothing is copied.
    ///
    /// Contract: exclusive; does not block; no callbacks; after an error the model is as before.
    pub fn trl_model_use_adapter(model: *mut trl_model, name: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Merges an adapter into the model's weights and uses it: a call then costs as much as without an adapter. The model keeps copies of the weights that change, so that undoing the merge restores their bits. Quantised weights that change become numbers of the model's dtype for that time, with the memory of these, and are not quantised again; trl_model_save with `save.kind` merged needs no such memory. All of it is counted as weights (trl_runtime_memory); the log has the bytes and the seconds of the merge.
    ///
    /// Contract: exclusive; blocks; no callbacks; after an error the model is as before.
    pub fn trl_model_merge_adapter(model: *mut trl_model, name: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Saves a model, or its adapter: a directory that transformers or PEFT loads, with the tokenizer and the chat template. Written aside and then moved, so that no incomplete directory is ever seen.
    ///
    /// Contract: exclusive; blocks on the disk; log; after an error the files at path are untouched.
    pub fn trl_model_save(model: *mut trl_model, path: *const c_char, options: *const trl_config, error: *mut *mut trl_error) -> trl_status;

    /// Scores texts with a reward model: one that a run of the method reward has trained, or a sequence classifier of transformers with one label; with the adapter that is used.
    ///
    /// Contract: scores belong to the caller; exclusive; blocks; log (a warning if a text has more tokens than the model has positions), progress (phase "score": done texts of total); after an error nothing is written to scores and the model is usable.
    pub fn trl_model_score(model: *mut trl_model, texts: *const *const c_char, lengths: *const usize, count: usize, form: i32, options: *const trl_config, scores: *mut f32, error: *mut *mut trl_error) -> trl_status;

    /// Frees a model; a generator created with it continues to work.
    ///
    /// Contract: exclusive, last use; does not block; no callbacks; cannot fail.
    pub fn trl_model_destroy(model: *mut trl_model);

    /// Tells the needs of a trainer of this configuration: memory by term, time and disk, next to other sets of options. One step is gone through without computing it; headers of the model are read and no weights, and nothing is written but the page of `estimate.report`, and some 64 MB into a file without a name where activations leave memory, by which the disk is timed.
    ///
    /// Contract: borrowed; any thread; blocks; log, next, rewind; after an error the outputs are NULL and the file is untouched.
    pub fn trl_trainer_plan(runtime: *mut trl_runtime, config: *const trl_config, train: *const trl_dataset, out_json: *mut *const c_char, out_text: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Checks a run as trl_trainer_create does before it reads rows and weights, and creates nothing: options that exclude each other, folders that cannot be written, an output directory that holds another run, a checkpoint in `resume_from_checkpoint` that is not there, a reference that is not a language model, and features that this machine lacks. The contents of a checkpoint are not read. The warnings and notes about the options of such a run go to the log, as those of trl_trainer_create do.
    ///
    /// Contract: copied; any thread; blocks on files; log; nothing is written.
    pub fn trl_trainer_check(runtime: *mut trl_runtime, config: *const trl_config, error: *mut *mut trl_error) -> trl_status;

    /// Creates a trainer: reads and prepares the rows, opens the model, checks everything.
    ///
    /// Contract: caller owns; any thread; blocks while it loads; log, next, rewind; after an error out_trainer is NULL and no memory is held.
    pub fn trl_trainer_create(runtime: *mut trl_runtime, config: *const trl_config, train: *mut trl_dataset, eval: *mut trl_dataset, out_trainer: *mut *mut trl_trainer, error: *mut *mut trl_error) -> trl_status;

    /// Does one optimizer step, with the log record, evaluation and save that the configuration has after it.
    ///
    /// Contract: borrowed; exclusive; blocks; log, next, rewind; after an error the step did not happen and the trainer is usable, except after TRL_E_DEVICE. With optimizer_in_backward an error may come when some weights are updated already; its message says so and names the last checkpoint, and every later call on the trainer but trl_trainer_destroy returns TRL_E_INVALID_ARGUMENT.
    pub fn trl_trainer_step(trainer: *mut trl_trainer, out_metrics: *mut *const trl_metrics, error: *mut *mut trl_error) -> trl_status;

    /// Does the first half of a step: forward and backward of its rows. Weights are as before, and the gradients can be read (trl_model_read_tensor). trl_trainer_update does the second half, and both together are trl_trainer_step, bit for bit. Between them trl_trainer_step, _train and _backward are refused with TRL_E_INVALID_ARGUMENT; evaluating, generating and saving are allowed, and see the state before the step.
    ///
    /// Contract: borrowed; exclusive; blocks; log, next, rewind; after an error the step has not begun.
    pub fn trl_trainer_backward(trainer: *mut trl_trainer, out_metrics: *mut *const trl_metrics, error: *mut *mut trl_error) -> trl_status;

    /// Does the second half of a step that trl_trainer_backward has begun: clipping and the optimizer's update, or their omission, and all that follows a step (log record, evaluation, save).
    ///
    /// Contract: borrowed; exclusive; blocks; log; after an error before the update the step is still the begun one; trl_trainer_update may be called again.
    pub fn trl_trainer_update(trainer: *mut trl_trainer, apply: i32, out_metrics: *mut *const trl_metrics, error: *mut *mut trl_error) -> trl_status;

    /// Sets the learning rate of the next steps, in place of the schedule's. Checkpoints keep it, so a resumed run goes on with it.
    ///
    /// Contract: any thread, also in callbacks (from the next step on); does not block; no callbacks; after an error the rate is as before.
    pub fn trl_trainer_set_learning_rate(trainer: *mut trl_trainer, learning_rate: f64, error: *mut *mut trl_error) -> trl_status;

    /// Trains to the end, or until the callback or trl_trainer_cancel stops it.
    ///
    /// Contract: exclusive; blocks; event, log, next, rewind; after an error the trainer is usable, except after TRL_E_DEVICE.
    pub fn trl_trainer_train(trainer: *mut trl_trainer, on_event: trl_event_fn, user_data: *mut c_void, error: *mut *mut trl_error) -> trl_status;

    /// Evaluates on the evaluation rows, or on others.
    ///
    /// Contract: borrowed; exclusive; blocks; log, next, rewind; after an error the trainer is usable, except after TRL_E_DEVICE.
    pub fn trl_trainer_evaluate(trainer: *mut trl_trainer, rows: *const trl_dataset, out_metrics: *mut *const trl_metrics, error: *mut *mut trl_error) -> trl_status;

    /// Saves the model: a directory that transformers loads, with weights, configuration, tokenizer and chat template; if the trainer's configuration has `save_format` gguf, a directory with the file model.gguf, which llama.cpp loads. With use_peft only the adapter is saved, as PEFT does it, unless `save.kind` is merged: then all weights with the adapter in them. With `save.kind` checkpoint also all that a later trainer needs to resume from here bit by bit (`resume_from_checkpoint`), unless save_only_model is true.
    ///
    /// Contract: exclusive; blocks on the disk; log; after an error the files at path are untouched.
    pub fn trl_trainer_save(trainer: *mut trl_trainer, path: *const c_char, options: *const trl_config, error: *mut *mut trl_error) -> trl_status;

    /// Adds a function that rewards completions, for methods that write them. It is called once for each generation, with all its rows, and sets a reward for each (trl_rollout_set_reward). Rewards are summed, weighted by `reward_weights`, in the order: reward_model_name_or_path, reward_funcs, functions in the order in which they were added. All functions of the host are asked before the first answer is awaited, and while they work, log-probabilities and the first forward of the update are computed; with `reward_by_group` each is called for the rows of one prompt as soon as they are written, and then returns at best TRL_LATER. The function that `judge` names is called with a row for each pair, and sets the probability that the first completion is better.
    ///
    /// Contract: exclusive; does not block; rollout, later, inside calls that train or evaluate, on their thread; after an error the trainer is as before and destroy was called. A reward that fails, or does not answer within `reward_timeout`, ends that call with TRL_E_CALLBACK, unless `on_reward_error` is none; the step can be tried again.
    pub fn trl_trainer_add_reward(trainer: *mut trl_trainer, name: *const c_char, function: trl_rollout_fn, user_data: *mut c_void, destroy: trl_destroy_fn, error: *mut *mut trl_error) -> trl_status;

    /// Has the host write the completions of a trainer, in place of its own generation. The function is called once for each generation, with all its rows (equal prompts follow one another), and sets a completion for each (trl_rollout_set_completion). `replay_rollouts` goes before it.
    ///
    /// Contract: exclusive; does not block; rollout, later, inside calls that train or evaluate, on their thread; after an error the trainer is as before and destroy was called.
    pub fn trl_trainer_set_rollout(trainer: *mut trl_trainer, rollout: trl_rollout_fn, user_data: *mut c_void, destroy: trl_destroy_fn, error: *mut *mut trl_error) -> trl_status;

    /// Has the host answer the tools that completions call, for a trainer with the options `tools` or `environments` (grpo, distillation). The engine finds the calls of a turn, asks for their results, and goes on behind them in the same conversation, whose keys and values it keeps; no loss and no length counts the tokens of an answer. The function is called with the rows that have something to ask; beside what trl_rollout_get describes, a row has `ask`, `place` (of its completion in the generation, from 0) and, with `environments`, `environment`. It sets one value of each row (trl_rollout_set_value), by `ask`:
    ///
    /// Contract: exclusive; does not block; tools, later, inside calls that train or evaluate, on their thread; after an error the trainer is as before and destroy was called. A function that fails, does not answer within `reward_timeout`, or sets no value ends that call with TRL_E_CALLBACK; the step can be tried again.
    pub fn trl_trainer_set_tools(trainer: *mut trl_trainer, tools: trl_rollout_fn, user_data: *mut c_void, destroy: trl_destroy_fn, error: *mut *mut trl_error) -> trl_status;

    /// Returns how many rows a rollout has: one for each completion.
    ///
    /// Contract: any thread, also in callbacks; does not block; no callbacks.
    pub fn trl_rollout_count(rollout: *const trl_rollout) -> usize;

    /// Describes a row: `mode` (train or eval), `step` (updates done before), `row` (of the dataset), `prompt` (a text, or a list of messages), `prompt_ids` and `columns` (the row's other columns by name); for rewards also `completion` (a text, or a list of messages) and `completion_ids`, which Online DPO pads to the length of the longest row, as TRL does, and `generation` (the number of the generation that the rows are of, from 1; rollouts of one have the same); for a judge also `other_completion` and `other_completion_ids`.
    ///
    /// Contract: out_json lives as long as the rollout; any thread, also in callbacks; does not block; no callbacks; after an error out_json is NULL.
    pub fn trl_rollout_get(rollout: *const trl_rollout, index: usize, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Sets the reward of a row.
    ///
    /// Contract: any thread, also in callbacks; does not block; no callbacks; after an error the row is as before.
    pub fn trl_rollout_set_reward(rollout: *mut trl_rollout, index: usize, reward: f64, error: *mut *mut trl_error) -> trl_status;

    /// Sets the completion of a row.
    ///
    /// Contract: any thread, also in callbacks; does not block; no callbacks; after an error the row is as before. Ids outside the vocabulary end the step with an error.
    pub fn trl_rollout_set_completion(rollout: *mut trl_rollout, index: usize, ids: *const i32, count: usize, log_probs: *const f32, written: *const u8, columns: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Adds a value to the metrics of the step: its record has the mean of all values of that name.
    ///
    /// Contract: any thread, also in callbacks; does not block; no callbacks; after an error nothing is added.
    pub fn trl_rollout_log(rollout: *mut trl_rollout, name: *const c_char, value: f64, error: *mut *mut trl_error) -> trl_status;

    /// Sets a named value of a row: of a reward and of a rollout, a column of the completions that are recorded (`log_completions`), beside its rewards; of a function of trl_trainer_set_tools, its answer. Of a reward, the value `error`, a text, says why the row has none: it ends the step with that text, or with `on_reward_error: none` the row counts as none, with a warning, and the others keep their rewards.
    ///
    /// Contract: any thread, also in callbacks; does not block; no callbacks; after an error nothing is set.
    pub fn trl_rollout_set_value(rollout: *mut trl_rollout, index: usize, name: *const c_char, json: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Ends a rollout whose function returned TRL_LATER: all its rows are set, or it failed. The rollout must not be used afterwards.
    ///
    /// Contract: any thread, also in callbacks; does not block; no callbacks; after an error the rollout is as before.
    pub fn trl_rollout_finish(rollout: *mut trl_rollout, message: *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Asks the call that runs on a trainer, or else the next one, to stop at the next safe point with TRL_E_CANCELLED.
    ///
    /// Contract: signal-safe; never blocks; no callbacks; cannot fail.
    pub fn trl_trainer_cancel(trainer: *mut trl_trainer);

    /// Pauses what a trainer computes: trl_trainer_step and its halves, _train and _evaluate, and trl_generator_generate and _step with a generator of the trainer, wait at their next safe point (the same as for trl_trainer_cancel) until trl_trainer_resume.
    ///
    /// Contract: signal-safe; never blocks; no callbacks; cannot fail.
    pub fn trl_trainer_pause(trainer: *mut trl_trainer);

    /// Ends the pause that trl_trainer_pause began; if the trainer is not paused, this does nothing.
    ///
    /// Contract: signal-safe; never blocks; no callbacks; cannot fail.
    pub fn trl_trainer_resume(trainer: *mut trl_trainer);

    /// The state of the training as JSON, as in trainer_state.json: global_step, max_steps, epoch, log_history ..., and `metrics`, an object with the numbers of the last step. A number that is not finite is null here; that file has the bare words NaN and Infinity. While a call trains, this is the state after the last step that is done.
    ///
    /// Contract: borrowed; any thread, also in callbacks; does not block; no callbacks; after an error out_json is NULL.
    pub fn trl_trainer_describe(trainer: *mut trl_trainer, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Reads integers of a trainer by a name: global_step (steps that are done), max_steps, vocab_size (rows of the model's embedding), parameter_count, trained_parameter_count, eos_token_ids (the ids that end a text of the model, any number of them).
    ///
    /// Contract: any thread, also in callbacks; does not block; no callbacks; after an error out_count is 0.
    pub fn trl_trainer_get_integers(trainer: *const trl_trainer, name: *const c_char, values: *mut i64, capacity: usize, out_count: *mut usize, error: *mut *mut trl_error) -> trl_status;

    /// Frees a trainer; a generator created from it continues to work, with the weights as they are.
    ///
    /// Contract: exclusive, last use; short; destroy functions of objects that only it kept alive; cannot fail.
    pub fn trl_trainer_destroy(trainer: *mut trl_trainer);

    /// Reads one number by its name, such as "loss".
    ///
    /// Contract: concurrent on const; does not block; no callbacks; after an error out_value is 0.
    pub fn trl_metrics_get(metrics: *const trl_metrics, name: *const c_char, out_value: *mut f64) -> trl_status;

    /// Reads one text by its name: "path", the directory that was written, of TRL_ON_SAVE; "completions" of TRL_ON_LOG, with `log_completions` and if there are new ones to show: a JSON object with `mode` (train or eval), `rewards` and `extras` (names) and `rows`, objects with `step`, `prompt` and `completion` (each a text, or a list of messages), each reward (null: none), each extra and, if the method learns from it, `advantage`.
    ///
    /// Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
    pub fn trl_metrics_text(metrics: *const trl_metrics, name: *const c_char) -> *const c_char;

    /// Walks the names of the numbers, in the order of TRL's records.
    ///
    /// Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
    pub fn trl_metrics_next(metrics: *const trl_metrics, previous: *const c_char) -> *const c_char;

    /// Opens a model to measure it on rows, as the evaluations of a run do, without a run: nothing is trained and no output directory is needed.
    ///
    /// Contract: caller owns; any thread; blocks while it loads; log, progress; after an error out_evaluator is NULL and no memory is held.
    pub fn trl_evaluator_create(runtime: *mut trl_runtime, config: *const trl_config, out_evaluator: *mut *mut trl_evaluator, error: *mut *mut trl_error) -> trl_status;

    /// Measures the model on rows: the numbers of an evaluation within a run, under the same names.
    ///
    /// Contract: borrowed; exclusive; blocks; log, progress (phase "evaluate": done rows of total), next, rewind; after an error out_metrics is NULL and the evaluator usable.
    pub fn trl_evaluator_evaluate(evaluator: *mut trl_evaluator, rows: *const trl_dataset, out_metrics: *mut *const trl_metrics, error: *mut *mut trl_error) -> trl_status;

    /// Completes `sample_prompts` with the model of an evaluator, as the samples of a run are completed: tokens are chosen as `generate.*` says, and a completion ends after `sample_max_new_tokens`.
    ///
    /// Contract: borrowed; exclusive; blocks; log; after an error out_json is NULL and the evaluator usable.
    pub fn trl_evaluator_complete(evaluator: *mut trl_evaluator, out_json: *mut *const c_char, error: *mut *mut trl_error) -> trl_status;

    /// Frees an evaluator, its model and its metrics.
    ///
    /// Contract: exclusive, last use; short; no callbacks; cannot fail.
    pub fn trl_evaluator_destroy(evaluator: *mut trl_evaluator);

    /// Creates a generator for a model; for that of a trainer (trl_model_from_trainer) it sees every step at once. Beside a call that trains on another thread, its calls take turns with the steps, which they do not change, and a call of the trainer waits for that of a generator; within a callback of the call that trains they return TRL_E_BUSY, except in a rollout that the host is asked for (trl_trainer_set_rollout). A reward, judge or tool that answers with TRL_LATER must not wait for such a call: it has its turn after the step, which waits for the answer. A thread that has called a trl_rollout function for it gets TRL_E_BUSY until trl_rollout_finish.
    ///
    /// Contract: caller owns; any thread; blocks on the tokenizer's files; log; after an error out_generator is NULL.
    pub fn trl_generator_create(model: *mut trl_model, tokenizer: *mut trl_tokenizer, out_generator: *mut *mut trl_generator, error: *mut *mut trl_error) -> trl_status;

    /// Completes prompts, which are taken unchanged, with the tokens that the tokenizer adds (a begin token that a prompt spells out is not added again), or with `generate.chat` as one user message each. A prompt that is JSON of a list of messages, or of a row with `messages`, a list of them in `prompt`, or `conversations`, is that conversation then, with the row's `tools`; the answers at the end of `messages` are left out.
    ///
    /// Contract: completions owned by the caller; exclusive; blocks; token, log (a warning if new tokens may go beyond the model's positions); after an error out_completions is NULL and the generator usable.
    pub fn trl_generator_generate(generator: *mut trl_generator, prompts: *const *const c_char, lengths: *const usize, count: usize, options: *const trl_config, on_token: trl_token_fn, user_data: *mut c_void, out_completions: *mut *mut trl_completions, error: *mut *mut trl_error) -> trl_status;

    /// Adds a request: completions of one prompt, which trl_generator_step computes together with those of all other requests of this generator. Requests begin in the order in which they were added; any number may wait.
    ///
    /// Contract: text and ids borrowed during the call; exclusive; does not block, except that the first call with `generation_dtype` makes the copies of the weights, in about the time in which these are read once; later steps make them anew; log (a warning if new tokens may go beyond the model's positions); after an error no request is added.
    pub fn trl_generator_add(generator: *mut trl_generator, text: *const c_char, size: usize, ids: *const i32, count: usize, options: *const trl_config, out_first: *mut usize, error: *mut *mut trl_error) -> trl_status;

    /// Computes one step: a token of each completion that runs, and a part of the prompts that begin. Weights are used as they are: of a trainer, those of its last step, of which copies (`generation_dtype`) are made anew here. Generators of one model share the memory of keys and values: those that came first go on.
    ///
    /// Contract: exclusive; blocks for one step; token; a call of a function with this generator within on_token returns TRL_E_BUSY; after any other error all completions are as before the call, and the next call computes the same step.
    pub fn trl_generator_step(generator: *mut trl_generator, on_token: trl_token_fn, user_data: *mut c_void, error: *mut *mut trl_error) -> trl_status;

    /// Continues a completion that has ended and was added with generate.keep: true, after more tokens, such as the answer of a tool. What was computed of it is not computed again, as long as its memory was not needed and weights did not change. Its text, ids and reason begin anew; its draws go on.
    ///
    /// Contract: text and ids borrowed during the call; exclusive; does not block; no callbacks; after an error the completion is as before.
    pub fn trl_generator_extend(generator: *mut trl_generator, completion: usize, text: *const c_char, size: usize, ids: *const i32, count: usize, options: *const trl_config, error: *mut *mut trl_error) -> trl_status;

    /// Ends completions, and frees what was kept of them. Their tokens so far can still be taken, with the reason "cancelled" if they had not ended.
    ///
    /// Contract: exclusive; does not block; no callbacks.
    pub fn trl_generator_cancel(generator: *mut trl_generator, first: usize, count: usize, error: *mut *mut trl_error) -> trl_status;

    /// Takes completions as they are, or with generate.take new what came since they were last taken. Those that are over are the generator's no more, except for kept ones.
    ///
    /// Contract: caller owns; exclusive; does not block; no callbacks; after an error out_completions is NULL and nothing is taken.
    pub fn trl_generator_take(generator: *mut trl_generator, first: usize, count: usize, out_completions: *mut *mut trl_completions, error: *mut *mut trl_error) -> trl_status;

    /// Gives memory back until completions go on, with the same tokens: that of keys and values and prefix_cache, and of copies of an opened model's weights in `generation_dtype`, or with `vllm_enable_sleep_mode`.
    ///
    /// Contract: exclusive; short; no callbacks.
    pub fn trl_generator_release_memory(generator: *mut trl_generator, error: *mut *mut trl_error) -> trl_status;

    /// Frees a generator.
    ///
    /// Contract: exclusive, last use; short; no callbacks; cannot fail.
    pub fn trl_generator_destroy(generator: *mut trl_generator);

    /// The text of a completion, without the prompt and without special tokens: all that on_token was given. Bytes that are not UTF-8 become U+FFFD one by one; trl_tokenizer_decode replaces all bytes of the run, if a tokenizer has tokens for single bytes.
    ///
    /// Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
    pub fn trl_completions_text(completions: *const trl_completions, index: usize, out_size: *mut usize) -> *const c_char;

    /// The token ids of a completion, with the end token when it was reached.
    ///
    /// Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
    pub fn trl_completions_tokens(completions: *const trl_completions, index: usize, out_count: *mut usize) -> *const i32;

    /// Why a completion ended: "eos_token" (an end token of the model or tokenizer), "stop_sequence" (a text of generate.stop), "length" (generate.max_new_tokens), "callback" (on_token returned something other than 0 although it would have continued) or "abort" (trl_completions_json has the error).
    ///
    /// Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
    pub fn trl_completions_finish_reason(completions: *const trl_completions, index: usize) -> *const c_char;

    /// A completion as JSON: text, token_ids, finish_reason, stop_reason (the text of generate.stop or the id of generate.stop_token_ids that ended it; absent: something else) and error (of one that was aborted). With generate.usage it has cached_tokens, how many tokens of the prompt were known to prefix_cache; with generate.prompt_logprobs prompt_logprobs, an item for each token of the prompt: null for the first, then lists of \[token id, log-probability, rank], of the token itself and of so many most likely ones. With generate.logprobs it has lists with an item for each new token. logprobs: its log-probability in the whole distribution at the temperature (greedy: 1), before penalties and removals, which is the one that training computes; sampling_logprobs: in the distribution that it was drawn from (greedy: the softmax of the penalised logits). With a number above 0, top_logprobs and sampling_top_logprobs: so many pairs \[token id, log-probability] of the most likely tokens of the same distributions, best first; the second has fewer if fewer tokens could be drawn. Of a trainer's model with `serve_share`, weights {adapter, version, last_version}: its adapter, and the steps whose adapter its first and its last token come from; the versions are null for another adapter.
    ///
    /// Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
    pub fn trl_completions_json(completions: *const trl_completions, index: usize, out_size: *mut usize) -> *const c_char;

    /// Frees completions.
    ///
    /// Contract: exclusive, last use; does not block; no callbacks; cannot fail.
    pub fn trl_completions_destroy(completions: *mut trl_completions);
}
