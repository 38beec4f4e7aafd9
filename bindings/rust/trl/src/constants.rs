//! The constants of trl.h as types, made by bindings/generate.py.

use trl_sys as sys;

/// The result of a call. Numbers that a later version adds are taken, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub i32);

impl Status {
    pub const OK: Status = Status(sys::TRL_OK);
    /// nothing more comes: the walk, the rows or the training is over
    pub const END: Status = Status(sys::TRL_END);
    /// from a callback: its answer comes later
    pub const LATER: Status = Status(sys::TRL_LATER);
    /// NULL, a handle of another type or one destroyed, out of range
    pub const E_INVALID_ARGUMENT: Status = Status(sys::TRL_E_INVALID_ARGUMENT);
    /// a key or its value; trl_error_key names it
    pub const E_INVALID_CONFIG: Status = Status(sys::TRL_E_INVALID_CONFIG);
    /// a file, or a name
    pub const E_NOT_FOUND: Status = Status(sys::TRL_E_NOT_FOUND);
    /// reading or writing failed
    pub const E_IO: Status = Status(sys::TRL_E_IO);
    /// a malformed file, row or model
    pub const E_FORMAT: Status = Status(sys::TRL_E_FORMAT);
    /// this build or this process cannot do it
    pub const E_UNSUPPORTED: Status = Status(sys::TRL_E_UNSUPPORTED);
    /// the host's memory, or runtime.host_memory_limit
    pub const E_OUT_OF_MEMORY: Status = Status(sys::TRL_E_OUT_OF_MEMORY);
    pub const E_OUT_OF_DEVICE_MEMORY: Status = Status(sys::TRL_E_OUT_OF_DEVICE_MEMORY);
    pub const E_DEVICE: Status = Status(sys::TRL_E_DEVICE);
    pub const E_DISTRIBUTED: Status = Status(sys::TRL_E_DISTRIBUTED);
    /// trl_runtime_cancel or trl_trainer_cancel was called, or the process is ending
    pub const E_CANCELLED: Status = Status(sys::TRL_E_CANCELLED);
    /// in use elsewhere, called from a callback, or after a fork
    pub const E_BUSY: Status = Status(sys::TRL_E_BUSY);
    /// a callback of the host failed; trl_error_callback_code has its value
    pub const E_CALLBACK: Status = Status(sys::TRL_E_CALLBACK);
    pub const E_INTERNAL: Status = Status(sys::TRL_E_INTERNAL);

    /// The name of a number that this version knows.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Status::OK => Some("OK"),
            Status::END => Some("END"),
            Status::LATER => Some("LATER"),
            Status::E_INVALID_ARGUMENT => Some("E_INVALID_ARGUMENT"),
            Status::E_INVALID_CONFIG => Some("E_INVALID_CONFIG"),
            Status::E_NOT_FOUND => Some("E_NOT_FOUND"),
            Status::E_IO => Some("E_IO"),
            Status::E_FORMAT => Some("E_FORMAT"),
            Status::E_UNSUPPORTED => Some("E_UNSUPPORTED"),
            Status::E_OUT_OF_MEMORY => Some("E_OUT_OF_MEMORY"),
            Status::E_OUT_OF_DEVICE_MEMORY => Some("E_OUT_OF_DEVICE_MEMORY"),
            Status::E_DEVICE => Some("E_DEVICE"),
            Status::E_DISTRIBUTED => Some("E_DISTRIBUTED"),
            Status::E_CANCELLED => Some("E_CANCELLED"),
            Status::E_BUSY => Some("E_BUSY"),
            Status::E_CALLBACK => Some("E_CALLBACK"),
            Status::E_INTERNAL => Some("E_INTERNAL"),
            _ => None,
        }
    }
}

named!(Status);

/// The type of an option's value. Numbers that a later version adds are taken, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OptionType(pub i32);

impl OptionType {
    pub const BOOLEAN: OptionType = OptionType(sys::TRL_TYPE_BOOLEAN);
    pub const INTEGER: OptionType = OptionType(sys::TRL_TYPE_INTEGER);
    pub const NUMBER: OptionType = OptionType(sys::TRL_TYPE_NUMBER);
    pub const TEXT: OptionType = OptionType(sys::TRL_TYPE_TEXT);
    /// one of trl_option_accepted
    pub const CHOICE: OptionType = OptionType(sys::TRL_TYPE_CHOICE);
    pub const LIST: OptionType = OptionType(sys::TRL_TYPE_LIST);
    pub const MAP: OptionType = OptionType(sys::TRL_TYPE_MAP);

    /// The name of a number that this version knows.
    pub fn name(self) -> Option<&'static str> {
        match self {
            OptionType::BOOLEAN => Some("BOOLEAN"),
            OptionType::INTEGER => Some("INTEGER"),
            OptionType::NUMBER => Some("NUMBER"),
            OptionType::TEXT => Some("TEXT"),
            OptionType::CHOICE => Some("CHOICE"),
            OptionType::LIST => Some("LIST"),
            OptionType::MAP => Some("MAP"),
            _ => None,
        }
    }
}

named!(OptionType);

/// The level of a log line. Numbers that a later version adds are taken, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogLevel(pub i32);

impl LogLevel {
    pub const DEBUG: LogLevel = LogLevel(sys::TRL_LOG_DEBUG);
    pub const INFO: LogLevel = LogLevel(sys::TRL_LOG_INFO);
    pub const WARNING: LogLevel = LogLevel(sys::TRL_LOG_WARNING);
    pub const ERROR: LogLevel = LogLevel(sys::TRL_LOG_ERROR);

    /// The name of a number that this version knows.
    pub fn name(self) -> Option<&'static str> {
        match self {
            LogLevel::DEBUG => Some("DEBUG"),
            LogLevel::INFO => Some("INFO"),
            LogLevel::WARNING => Some("WARNING"),
            LogLevel::ERROR => Some("ERROR"),
            _ => None,
        }
    }
}

named!(LogLevel);

/// How a reward model takes its texts. Numbers that a later version adds are taken, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextForm(pub i32);

impl TextForm {
    /// plain text, as the rows of a reward run: it gets the EOS that it lacks
    pub const ANSWER: TextForm = TextForm(sys::TRL_TEXT_ANSWER);
    /// JSON, as trl_tokenizer_apply_chat_template takes it
    pub const CONVERSATION: TextForm = TextForm(sys::TRL_TEXT_CONVERSATION);
    /// plain text with the tokens that the tokenizer adds
    pub const AS_IS: TextForm = TextForm(sys::TRL_TEXT_AS_IS);

    /// The name of a number that this version knows.
    pub fn name(self) -> Option<&'static str> {
        match self {
            TextForm::ANSWER => Some("ANSWER"),
            TextForm::CONVERSATION => Some("CONVERSATION"),
            TextForm::AS_IS => Some("AS_IS"),
            _ => None,
        }
    }
}

named!(TextForm);

/// The kind of an event. Numbers that a later version adds are taken, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKind(pub i32);

impl EventKind {
    /// num_examples, num_train_epochs, train_batch_size, gradient_accumulation_steps
    pub const TRAIN_BEGIN: EventKind = EventKind(sys::TRL_ON_TRAIN_BEGIN);
    /// an optimizer step is done: loss, grad_norm, learning_rate, num_tokens ...
    pub const STEP: EventKind = EventKind(sys::TRL_ON_STEP);
    /// a record of trainer_state.json's log_history: numbers, the text completions
    pub const LOG: EventKind = EventKind(sys::TRL_ON_LOG);
    /// an evaluation is done: eval_loss, eval_runtime ...
    pub const EVALUATE: EventKind = EventKind(sys::TRL_ON_EVALUATE);
    /// a directory was written: the text path (trl_metrics_text)
    pub const SAVE: EventKind = EventKind(sys::TRL_ON_SAVE);
    /// an epoch is done, or was cut short: epoch says how much of it
    pub const EPOCH: EventKind = EventKind(sys::TRL_ON_EPOCH);
    /// the summary: train_loss, train_runtime ...
    pub const TRAIN_END: EventKind = EventKind(sys::TRL_ON_TRAIN_END);

    /// The name of a number that this version knows.
    pub fn name(self) -> Option<&'static str> {
        match self {
            EventKind::TRAIN_BEGIN => Some("TRAIN_BEGIN"),
            EventKind::STEP => Some("STEP"),
            EventKind::LOG => Some("LOG"),
            EventKind::EVALUATE => Some("EVALUATE"),
            EventKind::SAVE => Some("SAVE"),
            EventKind::EPOCH => Some("EPOCH"),
            EventKind::TRAIN_END => Some("TRAIN_END"),
            _ => None,
        }
    }
}

named!(EventKind);

/// The answer of an event function; several may be combined by `|`. Numbers that a later version adds are taken, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Answer(pub i32);

impl Answer {
    pub const STOP: Answer = Answer(sys::TRL_EVENT_STOP);
    pub const SAVE: Answer = Answer(sys::TRL_EVENT_SAVE);
    pub const EVALUATE: Answer = Answer(sys::TRL_EVENT_EVALUATE);

    /// The name of a number that this version knows.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Answer::STOP => Some("STOP"),
            Answer::SAVE => Some("SAVE"),
            Answer::EVALUATE => Some("EVALUATE"),
            _ => None,
        }
    }
}

named!(Answer);

/// What a function that takes saved files is told. Numbers that a later version adds are taken, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteKind(pub i32);

impl WriteKind {
    /// the next bytes of this file, in order; a file's first call has offset 0
    pub const DATA: WriteKind = WriteKind(sys::TRL_WRITE_DATA);
    /// file is the folder that was saved ("" for the mount): it is complete, and takes the place of what was there
    pub const DONE: WriteKind = WriteKind(sys::TRL_WRITE_DONE);
    /// file is the folder: the save failed, and what was written of it is to be dropped
    pub const DROPPED: WriteKind = WriteKind(sys::TRL_WRITE_DROPPED);

    /// The name of a number that this version knows.
    pub fn name(self) -> Option<&'static str> {
        match self {
            WriteKind::DATA => Some("DATA"),
            WriteKind::DONE => Some("DONE"),
            WriteKind::DROPPED => Some("DROPPED"),
            _ => None,
        }
    }
}

named!(WriteKind);

/// What is read of a tensor. Numbers that a later version adds are taken, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorForm(pub i32);

impl TensorForm {
    /// a copy of the weight, which the caller may keep
    pub const COPY: TensorForm = TensorForm(sys::TRL_TENSOR_COPY);
    /// the weight's own memory, to be read until it next changes
    pub const VIEW: TensorForm = TensorForm(sys::TRL_TENSOR_VIEW);
    /// a copy of the weight's gradient, in its type
    pub const GRADIENT: TensorForm = TensorForm(sys::TRL_TENSOR_GRADIENT);

    /// The name of a number that this version knows.
    pub fn name(self) -> Option<&'static str> {
        match self {
            TensorForm::COPY => Some("COPY"),
            TensorForm::VIEW => Some("VIEW"),
            TensorForm::GRADIENT => Some("GRADIENT"),
            _ => None,
        }
    }
}

named!(TensorForm);
