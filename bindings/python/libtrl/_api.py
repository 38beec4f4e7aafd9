"""The C ABI, made from include/trl by bindings/generate.py."""

import enum

VERSION = (0, 1, 0)


class Status(enum.IntEnum):
    OK = 0
    END = 1  # nothing more comes: the walk, the rows or the training is over
    LATER = 2  # from a callback: its answer comes later
    E_INVALID_ARGUMENT = -1  # NULL, a handle of another type or one destroyed, out of range
    E_INVALID_CONFIG = -2  # a key or its value; trl_error_key names it
    E_NOT_FOUND = -3  # a file, or a name
    E_IO = -4  # reading or writing failed
    E_FORMAT = -5  # a malformed file, row or model
    E_UNSUPPORTED = -6  # this build or this process cannot do it
    E_OUT_OF_MEMORY = -7  # the host's memory, or runtime.host_memory_limit
    E_OUT_OF_DEVICE_MEMORY = -8
    E_DEVICE = -9
    E_DISTRIBUTED = -10
    E_CANCELLED = -11  # trl_runtime_cancel or trl_trainer_cancel was called, or the process is ending
    E_BUSY = -12  # in use elsewhere, called from a callback, or after a fork
    E_CALLBACK = -13  # a callback of the host failed; trl_error_callback_code has its value
    E_INTERNAL = -14


class OptionType(enum.IntEnum):
    BOOLEAN = 0
    INTEGER = 1
    NUMBER = 2
    TEXT = 3
    CHOICE = 4  # one of trl_option_accepted
    LIST = 5
    MAP = 6


class LogLevel(enum.IntEnum):
    DEBUG = 0
    INFO = 1
    WARNING = 2
    ERROR = 3


class Progress(enum.IntEnum):
    STOP = 1


class WriteKind(enum.IntEnum):
    DATA = 0  # the next bytes of this file, in order; a file's first call has offset 0
    DONE = 1  # file is the folder that was saved ("" for the mount): it is complete, and takes the place of what was there
    DROPPED = 2  # file is the folder: the save failed, and what was written of it is to be dropped


class TensorForm(enum.IntEnum):
    COPY = 0  # a copy of the weight, which the caller may keep
    VIEW = 1  # the weight's own memory, to be read until it next changes
    GRADIENT = 2  # a copy of the weight's gradient, in its type


class TextForm(enum.IntEnum):
    ANSWER = 0  # plain text, as the rows of a reward run: it gets the EOS that it lacks
    CONVERSATION = 1  # JSON, as trl_tokenizer_apply_chat_template takes it
    AS_IS = 2  # plain text with the tokens that the tokenizer adds


class EventKind(enum.IntEnum):
    TRAIN_BEGIN = 0  # num_examples, num_train_epochs, train_batch_size, gradient_accumulation_steps
    STEP = 1  # an optimizer step is done: loss, grad_norm, learning_rate, num_tokens ...
    LOG = 2  # a record of trainer_state.json's log_history: numbers, the text completions
    EVALUATE = 3  # an evaluation is done: eval_loss, eval_runtime ...
    SAVE = 4  # a directory was written: the text path (trl_metrics_text)
    EPOCH = 5  # an epoch is done, or was cut short: epoch says how much of it
    TRAIN_END = 6  # the summary: train_loss, train_runtime ...


class Answer(enum.IntFlag):
    STOP = 1
    SAVE = 2
    EVALUATE = 4


# name: result and parameters, as _library.py names types
CALLBACKS: dict[str, tuple[str, ...]] = {
    "trl_destroy_fn": ("None", "pointer"),
    "trl_log_fn": ("None", "pointer", "int32", "text", "text", "size_t"),
    "trl_progress_fn": ("int32", "pointer", "text", "int64", "int64"),
    "trl_read_fn": ("int64", "pointer", "text", "uint64", "pointer", "size_t"),
    "trl_write_fn": ("int32", "pointer", "int32", "text", "uint64", "pointer", "size_t"),
    "trl_next_record_fn": ("int32", "pointer", "pointer"),
    "trl_rewind_fn": ("int32", "pointer"),
    "trl_batch_fn": ("int32", "pointer", "text", "size_t"),
    "trl_event_fn": ("int32", "pointer", "int32", "pointer"),
    "trl_rollout_fn": ("int32", "pointer", "pointer"),
    "trl_token_fn": ("int32", "pointer", "size_t", "int32", "text", "size_t", "double"),
}

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "trl_version": ("uint32",),
    "trl_version_string": ("text",),
    "trl_build_info": ("text",),
    "trl_has_feature": ("int32", "text"),
    "trl_status_name": ("text", "int32"),
    "trl_error_code": ("int32", "pointer"),
    "trl_error_message": ("text", "pointer"),
    "trl_error_key": ("text", "pointer"),
    "trl_error_place": ("int32", "pointer", "text*", "int64*", "int64*", "int64*"),
    "trl_error_callback_code": ("int32", "pointer"),
    "trl_error_destroy": ("None", "pointer"),
    "trl_config_create": ("int32", "pointer*", "pointer*"),
    "trl_config_set": ("int32", "pointer", "text", "text", "pointer*"),
    "trl_config_unset": ("int32", "pointer", "text", "pointer*"),
    "trl_config_get": ("int32", "pointer", "text", "text*", "pointer*"),
    "trl_config_get_origin": ("int32", "pointer", "text", "text*", "pointer*"),
    "trl_config_load": ("int32", "pointer", "text", "pointer*"),
    "trl_config_load_text": ("int32", "pointer", "text", "size_t", "pointer*"),
    "trl_config_describe": ("int32", "pointer", "text*", "pointer*"),
    "trl_config_get_warnings": ("int32", "pointer", "text*", "pointer*"),
    "trl_config_get_schema": ("int32", "text", "text*", "pointer*"),
    "trl_config_destroy": ("None", "pointer"),
    "trl_option_next": ("pointer", "pointer"),
    "trl_option_name": ("text", "pointer"),
    "trl_option_section": ("text", "pointer"),
    "trl_option_group": ("text", "pointer"),
    "trl_option_origin": ("text", "pointer"),
    "trl_option_type": ("int32", "pointer", "text"),
    "trl_option_nullable": ("int32", "pointer"),
    "trl_option_default": ("text", "pointer", "text"),
    "trl_option_accepted": ("text", "pointer", "text"),
    "trl_option_trainers": ("text", "pointer"),
    "trl_option_aliases": ("text", "pointer"),
    "trl_option_other_names": ("text", "pointer"),
    "trl_option_doc": ("text", "pointer", "text"),
    "trl_option_since": ("text", "pointer"),
    "trl_option_unsupported_reason": ("text", "pointer"),
    "trl_option_ignored_reason": ("text", "pointer"),
    "trl_option_taken": ("text", "pointer"),
    "trl_runtime_create": ("int32", "pointer", "pointer*", "pointer*"),
    "trl_runtime_set_log": ("int32", "pointer", "trl_log_fn", "pointer", "trl_destroy_fn", "pointer*"),
    "trl_runtime_set_progress": ("int32", "pointer", "trl_progress_fn", "pointer", "trl_destroy_fn", "pointer*"),
    "trl_runtime_mount": ("int32", "pointer", "text", "trl_read_fn", "trl_write_fn", "pointer", "trl_destroy_fn", "pointer*"),
    "trl_runtime_set_memory_limit": ("int32", "pointer", "int64", "pointer*"),
    "trl_runtime_memory": ("int32", "pointer", "text", "int64*", "int64*", "pointer*"),
    "trl_runtime_describe": ("int32", "pointer", "text*", "pointer*"),
    "trl_runtime_cancel": ("None", "pointer"),
    "trl_runtime_destroy": ("None", "pointer"),
    "trl_runtime_shutdown": ("int32", "pointer*"),
    "trl_dataset_open": ("int32", "pointer", "text", "pointer", "pointer*", "pointer*"),
    "trl_dataset_open_config": ("int32", "pointer", "pointer", "pointer*", "pointer*", "pointer*"),
    "trl_dataset_from_buffer": ("int32", "pointer", "text", "text", "size_t", "pointer", "pointer*", "pointer*"),
    "trl_dataset_from_arrow": ("int32", "pointer", "pointer", "pointer", "pointer*", "pointer*"),
    "trl_dataset_from_callback": ("int32", "pointer", "trl_next_record_fn", "trl_rewind_fn", "pointer", "trl_destroy_fn", "pointer", "pointer*", "pointer*"),
    "trl_record_set_text": ("int32", "pointer", "text", "text", "size_t", "pointer*"),
    "trl_record_set_ids": ("int32", "pointer", "text", "int32*", "size_t", "pointer*"),
    "trl_record_set_json": ("int32", "pointer", "text", "text", "size_t", "pointer*"),
    "trl_dataset_get_row_count": ("int32", "pointer", "int64*", "pointer*"),
    "trl_dataset_get_profile": ("int32", "pointer", "pointer", "pointer", "text*", "text*", "pointer*"),
    "trl_dataset_get_example": ("int32", "pointer", "pointer", "pointer", "int64", "text*", "pointer*"),
    "trl_dataset_visit_batches": ("int32", "pointer", "pointer", "pointer", "int64", "int64", "trl_batch_fn", "pointer", "pointer*"),
    "trl_dataset_destroy": ("None", "pointer"),
    "trl_tokenizer_open": ("int32", "pointer", "text", "pointer", "pointer*", "pointer*"),
    "trl_tokenizer_encode": ("int32", "pointer", "text", "size_t", "int32", "int32", "int32*", "size_t", "size_t*", "pointer*"),
    "trl_tokenizer_decode": ("int32", "pointer", "int32*", "size_t", "int32", "char*", "size_t", "size_t*", "pointer*"),
    "trl_tokenizer_get_piece": ("int32", "pointer", "int32", "char*", "size_t", "size_t*", "pointer*"),
    "trl_tokenizer_apply_chat_template": ("int32", "pointer", "text", "size_t", "char*", "size_t", "size_t*", "pointer*"),
    "trl_tokenizer_describe": ("int32", "pointer", "text*", "pointer*"),
    "trl_tokenizer_destroy": ("None", "pointer"),
    "trl_model_open": ("int32", "pointer", "text", "pointer", "pointer*", "pointer*"),
    "trl_model_from_trainer": ("int32", "pointer", "pointer*", "pointer*"),
    "trl_model_convert": ("int32", "pointer", "text", "text", "pointer", "pointer*"),
    "trl_model_describe": ("int32", "pointer", "text*", "pointer*"),
    "trl_model_get_tensors": ("int32", "pointer", "text*", "pointer*"),
    "trl_model_read_tensor": ("int32", "pointer", "text", "int32", "pointer*", "pointer*"),
    "trl_model_write_tensor": ("int32", "pointer", "text", "pointer", "pointer*"),
    "trl_model_add_adapter": ("int32", "pointer", "text", "text", "pointer*"),
    "trl_model_remove_adapter": ("int32", "pointer", "text", "pointer*"),
    "trl_model_use_adapter": ("int32", "pointer", "text", "pointer*"),
    "trl_model_merge_adapter": ("int32", "pointer", "text", "pointer*"),
    "trl_model_save": ("int32", "pointer", "text", "pointer", "pointer*"),
    "trl_model_score": ("int32", "pointer", "text*", "size_t*", "size_t", "int32", "pointer", "float*", "pointer*"),
    "trl_model_destroy": ("None", "pointer"),
    "trl_trainer_plan": ("int32", "pointer", "pointer", "pointer", "text*", "text*", "pointer*"),
    "trl_trainer_check": ("int32", "pointer", "pointer", "pointer*"),
    "trl_trainer_create": ("int32", "pointer", "pointer", "pointer", "pointer", "pointer*", "pointer*"),
    "trl_trainer_step": ("int32", "pointer", "pointer*", "pointer*"),
    "trl_trainer_backward": ("int32", "pointer", "pointer*", "pointer*"),
    "trl_trainer_update": ("int32", "pointer", "int32", "pointer*", "pointer*"),
    "trl_trainer_set_learning_rate": ("int32", "pointer", "double", "pointer*"),
    "trl_trainer_train": ("int32", "pointer", "trl_event_fn", "pointer", "pointer*"),
    "trl_trainer_evaluate": ("int32", "pointer", "pointer", "pointer*", "pointer*"),
    "trl_trainer_save": ("int32", "pointer", "text", "pointer", "pointer*"),
    "trl_trainer_add_reward": ("int32", "pointer", "text", "trl_rollout_fn", "pointer", "trl_destroy_fn", "pointer*"),
    "trl_trainer_set_rollout": ("int32", "pointer", "trl_rollout_fn", "pointer", "trl_destroy_fn", "pointer*"),
    "trl_trainer_set_tools": ("int32", "pointer", "trl_rollout_fn", "pointer", "trl_destroy_fn", "pointer*"),
    "trl_rollout_count": ("size_t", "pointer"),
    "trl_rollout_get": ("int32", "pointer", "size_t", "text*", "pointer*"),
    "trl_rollout_set_reward": ("int32", "pointer", "size_t", "double", "pointer*"),
    "trl_rollout_set_completion": ("int32", "pointer", "size_t", "int32*", "size_t", "float*", "uint8*", "text", "pointer*"),
    "trl_rollout_log": ("int32", "pointer", "text", "double", "pointer*"),
    "trl_rollout_set_value": ("int32", "pointer", "size_t", "text", "text", "pointer*"),
    "trl_rollout_finish": ("int32", "pointer", "text", "pointer*"),
    "trl_trainer_cancel": ("None", "pointer"),
    "trl_trainer_pause": ("None", "pointer"),
    "trl_trainer_resume": ("None", "pointer"),
    "trl_trainer_describe": ("int32", "pointer", "text*", "pointer*"),
    "trl_trainer_get_integers": ("int32", "pointer", "text", "int64*", "size_t", "size_t*", "pointer*"),
    "trl_trainer_destroy": ("None", "pointer"),
    "trl_metrics_get": ("int32", "pointer", "text", "double*"),
    "trl_metrics_text": ("text", "pointer", "text"),
    "trl_metrics_next": ("text", "pointer", "text"),
    "trl_evaluator_create": ("int32", "pointer", "pointer", "pointer*", "pointer*"),
    "trl_evaluator_evaluate": ("int32", "pointer", "pointer", "pointer*", "pointer*"),
    "trl_evaluator_complete": ("int32", "pointer", "text*", "pointer*"),
    "trl_evaluator_destroy": ("None", "pointer"),
    "trl_generator_create": ("int32", "pointer", "pointer", "pointer*", "pointer*"),
    "trl_generator_generate": ("int32", "pointer", "text*", "size_t*", "size_t", "pointer", "trl_token_fn", "pointer", "pointer*", "pointer*"),
    "trl_generator_add": ("int32", "pointer", "text", "size_t", "int32*", "size_t", "pointer", "size_t*", "pointer*"),
    "trl_generator_step": ("int32", "pointer", "trl_token_fn", "pointer", "pointer*"),
    "trl_generator_extend": ("int32", "pointer", "size_t", "text", "size_t", "int32*", "size_t", "pointer", "pointer*"),
    "trl_generator_cancel": ("int32", "pointer", "size_t", "size_t", "pointer*"),
    "trl_generator_take": ("int32", "pointer", "size_t", "size_t", "pointer*", "pointer*"),
    "trl_generator_release_memory": ("int32", "pointer", "pointer*"),
    "trl_generator_destroy": ("None", "pointer"),
    "trl_completions_text": ("text", "pointer", "size_t", "size_t*"),
    "trl_completions_tokens": ("int32*", "pointer", "size_t", "size_t*"),
    "trl_completions_finish_reason": ("text", "pointer", "size_t"),
    "trl_completions_json": ("text", "pointer", "size_t", "size_t*"),
    "trl_completions_destroy": ("None", "pointer"),
}

SERVE_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "trl_server_create": ("int32", "pointer", "pointer", "pointer*", "pointer*"),
    "trl_server_add_model": ("int32", "pointer", "text", "pointer", "pointer", "pointer", "pointer*"),
    "trl_server_add_generator": ("int32", "pointer", "text", "pointer", "pointer", "pointer", "pointer*"),
    "trl_server_add_trainer": ("int32", "pointer", "text", "pointer", "pointer", "pointer*"),
    "trl_server_start": ("int32", "pointer", "pointer*"),
    "trl_server_stop": ("int32", "pointer", "double", "pointer*"),
    "trl_server_wait": ("int32", "pointer", "double", "pointer*"),
    "trl_server_cancel": ("None", "pointer"),
    "trl_server_describe": ("int32", "pointer", "text*", "pointer*"),
    "trl_server_set_adapter": ("int32", "pointer", "text", "text", "text", "pointer*"),
    "trl_server_sleep": ("int32", "pointer", "text", "int32", "text", "pointer*"),
    "trl_server_wake_up": ("int32", "pointer", "text", "text", "pointer*"),
    "trl_server_destroy": ("None", "pointer"),
}
