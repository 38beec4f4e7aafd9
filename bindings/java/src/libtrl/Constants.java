// The constants of the C ABI, made from include/trl/trl.h by bindings/generate.py.
package libtrl;

/** Constants of the library. A later version may add some, so that any int may come in place of one. */
public final class Constants {
  private Constants() {}

  /** TRL_*. */
  public static final class Status {
    private Status() {}

    public static final int OK = 0;
    /** nothing more comes: the walk, the rows or the training is over */
    public static final int END = 1;
    /** from a callback: its answer comes later */
    public static final int LATER = 2;
    /** NULL, a handle of another type or one destroyed, out of range */
    public static final int E_INVALID_ARGUMENT = -1;
    /** a key or its value; trl_error_key names it */
    public static final int E_INVALID_CONFIG = -2;
    /** a file, or a name */
    public static final int E_NOT_FOUND = -3;
    /** reading or writing failed */
    public static final int E_IO = -4;
    /** a malformed file, row or model */
    public static final int E_FORMAT = -5;
    /** this build or this process cannot do it */
    public static final int E_UNSUPPORTED = -6;
    /** the host's memory, or runtime.host_memory_limit */
    public static final int E_OUT_OF_MEMORY = -7;
    public static final int E_OUT_OF_DEVICE_MEMORY = -8;
    public static final int E_DEVICE = -9;
    public static final int E_DISTRIBUTED = -10;
    /** trl_runtime_cancel or trl_trainer_cancel was called, or the process is ending */
    public static final int E_CANCELLED = -11;
    /** in use elsewhere, called from a callback, or after a fork */
    public static final int E_BUSY = -12;
    /** a callback of the host failed; trl_error_callback_code has its value */
    public static final int E_CALLBACK = -13;
    public static final int E_INTERNAL = -14;
  }

  /** TRL_TYPE_*. */
  public static final class OptionType {
    private OptionType() {}

    public static final int BOOLEAN = 0;
    public static final int INTEGER = 1;
    public static final int NUMBER = 2;
    public static final int TEXT = 3;
    /** one of trl_option_accepted */
    public static final int CHOICE = 4;
    public static final int LIST = 5;
    public static final int MAP = 6;
  }

  /** TRL_LOG_*. */
  public static final class LogLevel {
    private LogLevel() {}

    public static final int DEBUG = 0;
    public static final int INFO = 1;
    public static final int WARNING = 2;
    public static final int ERROR = 3;
  }

  /** TRL_PROGRESS_*. */
  public static final class Progress {
    private Progress() {}

    public static final int STOP = 1;
  }

  /** TRL_WRITE_*. */
  public static final class WriteKind {
    private WriteKind() {}

    /** the next bytes of this file, in order; a file's first call has offset 0 */
    public static final int DATA = 0;
    /** file is the folder that was saved ("" for the mount): it is complete, and takes the place of what was there */
    public static final int DONE = 1;
    /** file is the folder: the save failed, and what was written of it is to be dropped */
    public static final int DROPPED = 2;
  }

  /** TRL_TENSOR_*. */
  public static final class TensorForm {
    private TensorForm() {}

    /** a copy of the weight, which the caller may keep */
    public static final int COPY = 0;
    /** the weight's own memory, to be read until it next changes */
    public static final int VIEW = 1;
    /** a copy of the weight's gradient, in its type */
    public static final int GRADIENT = 2;
  }

  /** TRL_TEXT_*. */
  public static final class TextForm {
    private TextForm() {}

    /** plain text, as the rows of a reward run: it gets the EOS that it lacks */
    public static final int ANSWER = 0;
    /** JSON, as trl_tokenizer_apply_chat_template takes it */
    public static final int CONVERSATION = 1;
    /** plain text with the tokens that the tokenizer adds */
    public static final int AS_IS = 2;
  }

  /** TRL_ON_*. */
  public static final class EventKind {
    private EventKind() {}

    /** num_examples, num_train_epochs, train_batch_size, gradient_accumulation_steps */
    public static final int TRAIN_BEGIN = 0;
    /** an optimizer step is done: loss, grad_norm, learning_rate, num_tokens ... */
    public static final int STEP = 1;
    /** a record of trainer_state.json's log_history: numbers, the text completions */
    public static final int LOG = 2;
    /** an evaluation is done: eval_loss, eval_runtime ... */
    public static final int EVALUATE = 3;
    /** a directory was written: the text path (trl_metrics_text) */
    public static final int SAVE = 4;
    /** an epoch is done, or was cut short: epoch says how much of it */
    public static final int EPOCH = 5;
    /** the summary: train_loss, train_runtime ... */
    public static final int TRAIN_END = 6;
  }

  /** TRL_EVENT_*. */
  public static final class Answer {
    private Answer() {}

    public static final int STOP = 1;
    public static final int SAVE = 2;
    public static final int EVALUATE = 4;
  }
}
