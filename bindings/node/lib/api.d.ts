// The constants of the C ABI, made from include/trl by bindings/generate.py.

export const Status: {
  readonly OK: 0;
  /** nothing more comes: the walk, the rows or the training is over */
  readonly END: 1;
  /** from a callback: its answer comes later */
  readonly LATER: 2;
  /** NULL, a handle of another type or one destroyed, out of range */
  readonly E_INVALID_ARGUMENT: -1;
  /** a key or its value; trl_error_key names it */
  readonly E_INVALID_CONFIG: -2;
  /** a file, or a name */
  readonly E_NOT_FOUND: -3;
  /** reading or writing failed */
  readonly E_IO: -4;
  /** a malformed file, row or model */
  readonly E_FORMAT: -5;
  /** this build or this process cannot do it */
  readonly E_UNSUPPORTED: -6;
  /** the host's memory, or runtime.host_memory_limit */
  readonly E_OUT_OF_MEMORY: -7;
  readonly E_OUT_OF_DEVICE_MEMORY: -8;
  readonly E_DEVICE: -9;
  readonly E_DISTRIBUTED: -10;
  /** trl_runtime_cancel or trl_trainer_cancel was called, or the process is ending */
  readonly E_CANCELLED: -11;
  /** in use elsewhere, called from a callback, or after a fork */
  readonly E_BUSY: -12;
  /** a callback of the host failed; trl_error_callback_code has its value */
  readonly E_CALLBACK: -13;
  readonly E_INTERNAL: -14;
};

export const OptionType: {
  readonly BOOLEAN: 0;
  readonly INTEGER: 1;
  readonly NUMBER: 2;
  readonly TEXT: 3;
  /** one of trl_option_accepted */
  readonly CHOICE: 4;
  readonly LIST: 5;
  readonly MAP: 6;
};

export const LogLevel: {
  readonly DEBUG: 0;
  readonly INFO: 1;
  readonly WARNING: 2;
  readonly ERROR: 3;
};

export const Progress: {
  readonly STOP: 1;
};

export const WriteKind: {
  /** the next bytes of this file, in order; a file's first call has offset 0 */
  readonly DATA: 0;
  /** file is the folder that was saved ("" for the mount): it is complete, and takes the place of what was there */
  readonly DONE: 1;
  /** file is the folder: the save failed, and what was written of it is to be dropped */
  readonly DROPPED: 2;
};

export const TensorForm: {
  /** a copy of the weight, which the caller may keep */
  readonly COPY: 0;
  /** the weight's own memory, to be read until it next changes */
  readonly VIEW: 1;
  /** a copy of the weight's gradient, in its type */
  readonly GRADIENT: 2;
};

export const TextForm: {
  /** plain text, as the rows of a reward run: it gets the EOS that it lacks */
  readonly ANSWER: 0;
  /** JSON, as trl_tokenizer_apply_chat_template takes it */
  readonly CONVERSATION: 1;
  /** plain text with the tokens that the tokenizer adds */
  readonly AS_IS: 2;
};

export const EventKind: {
  /** num_examples, num_train_epochs, train_batch_size, gradient_accumulation_steps */
  readonly TRAIN_BEGIN: 0;
  /** an optimizer step is done: loss, grad_norm, learning_rate, num_tokens ... */
  readonly STEP: 1;
  /** a record of trainer_state.json's log_history: numbers, the text completions */
  readonly LOG: 2;
  /** an evaluation is done: eval_loss, eval_runtime ... */
  readonly EVALUATE: 3;
  /** a directory was written: the text path (trl_metrics_text) */
  readonly SAVE: 4;
  /** an epoch is done, or was cut short: epoch says how much of it */
  readonly EPOCH: 5;
  /** the summary: train_loss, train_runtime ... */
  readonly TRAIN_END: 6;
};

export const Answer: {
  readonly STOP: 1;
  readonly SAVE: 2;
  readonly EVALUATE: 4;
};
