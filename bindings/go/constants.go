// Made from include/trl/trl.h by bindings/generate.py. DO NOT EDIT.

package trl

import "fmt"

// Status is one of the constants TRL_*, or one that a later version adds.
type Status int32

// OK is TRL_OK.
const OK Status = 0

// End is TRL_END: nothing more comes: the walk, the rows or the training is over.
const End Status = 1

// Later is TRL_LATER: from a callback: its answer comes later.
const Later Status = 2

// EInvalidArgument is TRL_E_INVALID_ARGUMENT: NULL, a handle of another type or one destroyed, out of range.
const EInvalidArgument Status = -1

// EInvalidConfig is TRL_E_INVALID_CONFIG: a key or its value; trl_error_key names it.
const EInvalidConfig Status = -2

// ENotFound is TRL_E_NOT_FOUND: a file, or a name.
const ENotFound Status = -3

// EIO is TRL_E_IO: reading or writing failed.
const EIO Status = -4

// EFormat is TRL_E_FORMAT: a malformed file, row or model.
const EFormat Status = -5

// EUnsupported is TRL_E_UNSUPPORTED: this build or this process cannot do it.
const EUnsupported Status = -6

// EOutOfMemory is TRL_E_OUT_OF_MEMORY: the host's memory, or runtime.host_memory_limit.
const EOutOfMemory Status = -7

// EOutOfDeviceMemory is TRL_E_OUT_OF_DEVICE_MEMORY.
const EOutOfDeviceMemory Status = -8

// EDevice is TRL_E_DEVICE.
const EDevice Status = -9

// EDistributed is TRL_E_DISTRIBUTED.
const EDistributed Status = -10

// ECancelled is TRL_E_CANCELLED: trl_runtime_cancel or trl_trainer_cancel was called, or the process is ending.
const ECancelled Status = -11

// EBusy is TRL_E_BUSY: in use elsewhere, called from a callback, or after a fork.
const EBusy Status = -12

// ECallback is TRL_E_CALLBACK: a callback of the host failed; trl_error_callback_code has its value.
const ECallback Status = -13

// EInternal is TRL_E_INTERNAL.
const EInternal Status = -14

// VersionMajor is TRL_VERSION_MAJOR.
const VersionMajor int32 = 0

// VersionMinor is TRL_VERSION_MINOR.
const VersionMinor int32 = 1

// VersionPatch is TRL_VERSION_PATCH.
const VersionPatch int32 = 0

// OptionType is one of the constants TRL_TYPE_*, or one that a later version adds.
type OptionType int32

// TypeBoolean is TRL_TYPE_BOOLEAN.
const TypeBoolean OptionType = 0

// TypeInteger is TRL_TYPE_INTEGER.
const TypeInteger OptionType = 1

// TypeNumber is TRL_TYPE_NUMBER.
const TypeNumber OptionType = 2

// TypeText is TRL_TYPE_TEXT.
const TypeText OptionType = 3

// TypeChoice is TRL_TYPE_CHOICE: one of trl_option_accepted.
const TypeChoice OptionType = 4

// TypeList is TRL_TYPE_LIST.
const TypeList OptionType = 5

// TypeMap is TRL_TYPE_MAP.
const TypeMap OptionType = 6

// LogLevel is one of the constants TRL_LOG_*, or one that a later version adds.
type LogLevel int32

// LogDebug is TRL_LOG_DEBUG.
const LogDebug LogLevel = 0

// LogInfo is TRL_LOG_INFO.
const LogInfo LogLevel = 1

// LogWarning is TRL_LOG_WARNING.
const LogWarning LogLevel = 2

// LogError is TRL_LOG_ERROR.
const LogError LogLevel = 3

// Progress is one of the constants TRL_PROGRESS_*, or one that a later version adds.
type Progress int32

// ProgressStop is TRL_PROGRESS_STOP.
const ProgressStop Progress = 1

// WriteKind is one of the constants TRL_WRITE_*, or one that a later version adds.
type WriteKind int32

// WriteData is TRL_WRITE_DATA: the next bytes of this file, in order; a file's first call has offset 0.
const WriteData WriteKind = 0

// WriteDone is TRL_WRITE_DONE: file is the folder that was saved ("" for the mount): it is complete, and takes the place of what was there.
const WriteDone WriteKind = 1

// WriteDropped is TRL_WRITE_DROPPED: file is the folder: the save failed, and what was written of it is to be dropped.
const WriteDropped WriteKind = 2

// TensorForm is one of the constants TRL_TENSOR_*, or one that a later version adds.
type TensorForm int32

// TensorCopy is TRL_TENSOR_COPY: a copy of the weight, which the caller may keep.
const TensorCopy TensorForm = 0

// TensorView is TRL_TENSOR_VIEW: the weight's own memory, to be read until it next changes.
const TensorView TensorForm = 1

// TensorGradient is TRL_TENSOR_GRADIENT: a copy of the weight's gradient, in its type.
const TensorGradient TensorForm = 2

// TextForm is one of the constants TRL_TEXT_*, or one that a later version adds.
type TextForm int32

// TextAnswer is TRL_TEXT_ANSWER: plain text, as the rows of a reward run: it gets the EOS that it lacks.
const TextAnswer TextForm = 0

// TextConversation is TRL_TEXT_CONVERSATION: JSON, as trl_tokenizer_apply_chat_template takes it.
const TextConversation TextForm = 1

// TextAsIs is TRL_TEXT_AS_IS: plain text with the tokens that the tokenizer adds.
const TextAsIs TextForm = 2

// EventKind is one of the constants TRL_ON_TRAIN_*, or one that a later version adds.
type EventKind int32

// OnTrainBegin is TRL_ON_TRAIN_BEGIN: num_examples, num_train_epochs, train_batch_size, gradient_accumulation_steps.
const OnTrainBegin EventKind = 0

// OnStep is TRL_ON_STEP: an optimizer step is done: loss, grad_norm, learning_rate, num_tokens ....
const OnStep EventKind = 1

// OnLog is TRL_ON_LOG: a record of trainer_state.json's log_history: numbers, the text completions.
const OnLog EventKind = 2

// OnEvaluate is TRL_ON_EVALUATE: an evaluation is done: eval_loss, eval_runtime ....
const OnEvaluate EventKind = 3

// OnSave is TRL_ON_SAVE: a directory was written: the text path (trl_metrics_text).
const OnSave EventKind = 4

// OnEpoch is TRL_ON_EPOCH: an epoch is done, or was cut short: epoch says how much of it.
const OnEpoch EventKind = 5

// OnTrainEnd is TRL_ON_TRAIN_END: the summary: train_loss, train_runtime ....
const OnTrainEnd EventKind = 6

// Answer is one of the constants TRL_EVENT_*, or one that a later version adds.
type Answer int32

// EventStop is TRL_EVENT_STOP.
const EventStop Answer = 1

// EventSave is TRL_EVENT_SAVE.
const EventSave Answer = 2

// EventEvaluate is TRL_EVENT_EVALUATE.
const EventEvaluate Answer = 4

// String returns the name that the header has for a status.
func (s Status) String() string {
	switch s {
	case OK:
		return "TRL_OK"
	case End:
		return "TRL_END"
	case Later:
		return "TRL_LATER"
	case EInvalidArgument:
		return "TRL_E_INVALID_ARGUMENT"
	case EInvalidConfig:
		return "TRL_E_INVALID_CONFIG"
	case ENotFound:
		return "TRL_E_NOT_FOUND"
	case EIO:
		return "TRL_E_IO"
	case EFormat:
		return "TRL_E_FORMAT"
	case EUnsupported:
		return "TRL_E_UNSUPPORTED"
	case EOutOfMemory:
		return "TRL_E_OUT_OF_MEMORY"
	case EOutOfDeviceMemory:
		return "TRL_E_OUT_OF_DEVICE_MEMORY"
	case EDevice:
		return "TRL_E_DEVICE"
	case EDistributed:
		return "TRL_E_DISTRIBUTED"
	case ECancelled:
		return "TRL_E_CANCELLED"
	case EBusy:
		return "TRL_E_BUSY"
	case ECallback:
		return "TRL_E_CALLBACK"
	case EInternal:
		return "TRL_E_INTERNAL"
	}
	return fmt.Sprintf("status %d", int32(s))
}
