/*
 * libtrl: fine-tune language models as Hugging Face TRL does, from C. Apache-2.0.
 *
 * Conventions:
 *
 * 1. Handles are opaque. A handle that comes out through `T **out_x` belongs to the caller until
 *    trl_T_destroy; any order of destruction is legal, since an object keeps alive what it needs, and
 *    destroying NULL does nothing. A returned `const` pointer is borrowed; its comment says until when.
 * 2. Functions that can fail return a trl_status: 0 is success, above 0 is an outcome that is not an error
 *    (TRL_END), below 0 is an error. `trl_error **error`, always last and always nullable, receives the
 *    message; the error then belongs to the caller. After an error every output is NULL or 0.
 * 3. Configuration is text, key by key, under TRL's own names; include/CONFIGURATION.md lists the keys.
 * 4. Text is UTF-8, invalid UTF-8 is an error. Keys, paths and values end in NUL; payloads come with
 *    their size and may hold NUL. Numbers in text never depend on the locale. A size or a count of more than
 *    an object can have, such as a negative number, is TRL_E_INVALID_ARGUMENT in every function.
 * 5. Callbacks run only on a thread that is inside a call of this library, during that call. Inside one,
 *    these may be called: functions without the parameter `error`, such as accessors and destroy functions,
 *    those whose contract says "also in callbacks", and in the one of trl_trainer_set_rollout the generators
 *    of its trainer; anything else returns TRL_E_BUSY. Except for generators, what is called there is neither
 *    ended nor held with the call around it.
 *    All callbacks, including destroy functions and those of an Arrow stream, follow one rule for C++
 *    exceptions: the call ends with TRL_E_CALLBACK and the exception's what(), as soon as it can stop. A step
 *    that was under way is undone; what was done before it stays done. Only if the call returns nothing
 *    (trl_T_destroy) does the exception go to the log instead. A callback must return or throw: leaving it
 *    with longjmp or pthread_exit is undefined, because the call's locks and buffers would not be released.
 * 6. A call computes in its own floating-point environment (rounding to nearest, denormals kept, nothing
 *    trapped) and restores that of the thread afterwards, and for callbacks. pthread_cancel of a thread
 *    inside a call takes effect when the call is over.
 *
 * CHANGELOG: 0.1 is the first version; each later change of this header is a line of include/ABI.md that
 * begins with the same word.
 *
 * The words of a `Contract:` line:
 *   any thread            may run at any time, concurrently with everything
 *   concurrent on const   may run concurrently with other functions that take the object as const
 *   exclusive             one call at a time on the object; a second one returns TRL_E_BUSY
 *   signal-safe           any thread, and inside a signal handler
 *   also in callbacks     and inside the host's own functions that the library calls
 * A process that forks after its first handle: in the child every call with a handle, and every call
 * that makes one, returns TRL_E_BUSY; destroying does nothing there.
 *
 * A complete program:
 *
 *   #include <stdio.h>
 *   #include <trl.h>
 *
 *   int main(void) {
 *     trl_error *error = NULL;
 *     trl_config *config = NULL;
 *     trl_dataset *rows = NULL;
 *     trl_trainer *trainer = NULL;
 *     if (trl_config_create(&config, &error) == TRL_OK &&
 *         trl_config_set(config, "model_name_or_path", "smollm2", &error) == TRL_OK &&
 *         trl_config_set(config, "output_dir", "out", &error) == TRL_OK &&
 *         trl_dataset_open(NULL, "rows.jsonl", config, &rows, &error) == TRL_OK &&
 *         trl_trainer_create(NULL, config, rows, NULL, &trainer, &error) == TRL_OK &&
 *         trl_trainer_train(trainer, NULL, NULL, &error) == TRL_OK &&
 *         trl_trainer_save(trainer, NULL, NULL, &error) == TRL_OK)
 *       puts("saved in out/");
 *     else
 *       fprintf(stderr, "%s\n", trl_error_message(error));
 *     trl_trainer_destroy(trainer);
 *     trl_dataset_destroy(rows);
 *     trl_config_destroy(config);
 *     trl_error_destroy(error);
 *     return 0;
 *   }
 */
#ifndef TRL_TRL_H
#define TRL_TRL_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TRL_API __attribute__((visibility("default")))
#else
#define TRL_API
#endif

#if defined(__cplusplus) && __cplusplus >= 201103L
#define TRL_NOEXCEPT noexcept
#else
#define TRL_NOEXCEPT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trl_error trl_error;
typedef struct trl_config trl_config;
typedef struct trl_option trl_option;
typedef struct trl_runtime trl_runtime;
typedef struct trl_dataset trl_dataset;
typedef struct trl_record trl_record;
typedef struct trl_tokenizer trl_tokenizer;
typedef struct trl_model trl_model;
typedef struct trl_trainer trl_trainer;
typedef struct trl_evaluator trl_evaluator;
typedef struct trl_metrics trl_metrics;
typedef struct trl_generator trl_generator;
typedef struct trl_completions trl_completions;
typedef struct trl_rollout trl_rollout;

/* The result of a call. Values never change their meaning; new ones may appear, so treat an unknown
   positive one as success and an unknown negative one as TRL_E_INTERNAL. */
typedef int32_t trl_status;
enum {
  TRL_OK = 0,
  TRL_END = 1,                 /* nothing more comes: the walk, the rows or the training is over */
  TRL_LATER = 2,               /* from a callback: its answer comes later */
  TRL_E_INVALID_ARGUMENT = -1, /* NULL, a handle of another type or one destroyed, out of range */
  TRL_E_INVALID_CONFIG = -2,   /* a key or its value; trl_error_key names it */
  TRL_E_NOT_FOUND = -3,        /* a file, or a name */
  TRL_E_IO = -4,               /* reading or writing failed */
  TRL_E_FORMAT = -5,           /* a malformed file, row or model */
  TRL_E_UNSUPPORTED = -6,      /* this build or this process cannot do it */
  TRL_E_OUT_OF_MEMORY = -7,    /* the host's memory, or runtime.host_memory_limit */
  TRL_E_OUT_OF_DEVICE_MEMORY = -8,
  TRL_E_DEVICE = -9,
  TRL_E_DISTRIBUTED = -10,
  TRL_E_CANCELLED = -11, /* trl_runtime_cancel or trl_trainer_cancel was called, or the process is ending */
  TRL_E_BUSY = -12,      /* in use elsewhere, called from a callback, or after a fork */
  TRL_E_CALLBACK = -13,  /* a callback of the host failed; trl_error_callback_code has its value */
  TRL_E_INTERNAL = -14
};

/* Frees what user_data points to; runs exactly once, even if the registration failed. May be NULL. */
typedef void (*trl_destroy_fn)(void* user_data);

/* ---- version and features ------------------------------------------------------------------------ */

/* The header's version, to compare with that of the library at run time. */
#define TRL_VERSION_MAJOR 0
#define TRL_VERSION_MINOR 1
#define TRL_VERSION_PATCH 0

/**
 * The version of the library.
 *
 * Packed as (major << 16) | (minor << 8) | patch.
 *
 * @return the version; cannot fail.
 * Contract: any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API uint32_t trl_version(void) TRL_NOEXCEPT;

/**
 * The version of the library as text, such as "0.1.0".
 *
 * @return borrowed, valid for the life of the process.
 * Contract: any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_version_string(void) TRL_NOEXCEPT;

/**
 * How the library was built.
 *
 * A JSON object: version, abi, compiler, cpu ("auto": kernels for several instruction sets, chosen at run
 * time; "scalar": kernels without SIMD), engine (whether this build has one) and features. The engine is not
 * opened; trl_runtime_describe tells about it.
 *
 * @return borrowed, valid for the life of the process.
 * Contract: any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_build_info(void) TRL_NOEXCEPT;

/**
 * Whether this build has a feature.
 *
 * Formats of rows and models: arrow (streams of it; its files are parquet), csv, gguf, gzip, parquet,
 * sentencepiece (tokenizer.model), zstd. serve: libtrl_serve.so was built, too. With the engine: engine,
 * generate, lora, and the name of each trainer, as in the key method (sft, dpo, grpo, ...). Later versions
 * add names. trl.pc has the same list (pkg-config --variable=features trl), as far as it was built.
 *
 * @param name [in] a name from the list `features` of trl_build_info, that of a trainer also with dashes
 *     (online-dpo), as the key method takes it; NULL and unknown names give 0.
 * @return 1 or 0; cannot fail.
 * Contract: any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API int32_t trl_has_feature(const char* name) TRL_NOEXCEPT;

/**
 * The name of a status, such as "TRL_E_BUSY".
 *
 * @param status [in] any number.
 * @return borrowed for the life of the process; "TRL_OK" ... ; of an unknown status the name of what it is
 * treated as: "TRL_OK" above 0, "TRL_E_INTERNAL" below.
 * Contract: any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_status_name(trl_status status) TRL_NOEXCEPT;

/* ---- errors -------------------------------------------------------------------------------------- */

/**
 * The code of an error, the same that the failed call returned.
 *
 * @param error [in] nullable.
 * @return the code; TRL_OK for NULL; TRL_E_INVALID_ARGUMENT if it is not an error.
 * Contract: any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API trl_status trl_error_code(const trl_error* error) TRL_NOEXCEPT;

/**
 * The message of an error: one line that names the fault and the accepted values.
 *
 * The wording is not part of the promise; act on the code and the key.
 *
 * @param error [in] nullable.
 * @return borrowed until the error is destroyed; "" for NULL.
 * Contract: any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_error_message(const trl_error* error) TRL_NOEXCEPT;

/**
 * The configuration key at fault.
 *
 * @param error [in] nullable.
 * @return borrowed until the error is destroyed; NULL when no key is at fault.
 * Contract: any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_error_key(const trl_error* error) TRL_NOEXCEPT;

/**
 * The place of an error in what was read: a file of rows, of options or of a model, or a text or buffer that
 * was given.
 *
 * @param error [in] nullable.
 * @param out_file [out] nullable; the path, or the name of what is not a file ("text", "buffer"; "dataset"
 * for rows of a callback or a stream); borrowed until the error is destroyed; NULL if the error has no place.
 * @param out_line [out] nullable; the line in a file of text, from 1; 0: not known.
 * @param out_column [out] nullable; the column in that line, in bytes, from 1; 0: not known.
 * @param out_row [out] nullable; the row of the dataset, from 0; -1: none is at fault, or it is not known.
 * @return 1 if the error has a place, else 0.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API int32_t trl_error_place(const trl_error* error, const char** out_file, int64_t* out_line,
                                int64_t* out_column, int64_t* out_row) TRL_NOEXCEPT;

/**
 * Returns the value of the host's callback that made an error TRL_E_CALLBACK.
 *
 * @param error [in] nullable.
 * @return the callback's value, of a trl_read_fn at least INT32_MIN; 0 for every other error.
 * Contract: any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API int32_t trl_error_callback_code(const trl_error* error) TRL_NOEXCEPT;

/**
 * Frees an error.
 *
 * @param error [in] nullable; consumed.
 * Contract: exclusive, last use; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_error_destroy(trl_error* error) TRL_NOEXCEPT;

/* ---- configuration ------------------------------------------------------------------------------- */

/**
 * Creates an empty configuration: every key has its default.
 *
 * @param out_config [out] owned by the caller, freed by trl_config_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_OUT_OF_MEMORY.
 * Contract: caller owns; any thread, also in callbacks; does not block; no callbacks; after an error
 * out_config is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_config_create(trl_config** out_config, trl_error** error) TRL_NOEXCEPT;

/**
 * Sets one key.
 *
 * The value is checked at once: an unknown key fails with the key that was meant, a bad value with what is
 * accepted, a value that this build cannot honour with the reason. Older names of TRL are understood. Lists
 * and maps are written as JSON or YAML. "null" sets no value where trl_option_nullable is 1, and so do "",
 * except of output_dir, and "none" in any case of its letters; but "none" is itself a value of the keys that
 * have it in trl_option_accepted: report_to and generate.adapter.
 *
 * @param config [in] changed.
 * @param key [in] a name from trl_option_next, or an older one.
 * @param value [in] text, copied.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG, TRL_E_INVALID_ARGUMENT for a text that is not UTF-8.
 * Contract: values are copied; exclusive, also in callbacks; does not block; no callbacks; after an error
 * config is unchanged.
 * @since 0.1
 */
TRL_API trl_status trl_config_set(trl_config* config, const char* key, const char* value,
                                  trl_error** error) TRL_NOEXCEPT;

/**
 * Sets one key back: it has its default again, and its origin is "default". Nothing happens if it was not
 * set.
 *
 * @param config [in] changed.
 * @param key [in] a name or an older one, whichever it was set by.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG for an unknown key.
 * Contract: exclusive, also in callbacks; does not block; no callbacks; after an error config is unchanged.
 * @since 0.1
 */
TRL_API trl_status trl_config_unset(trl_config* config, const char* key, trl_error** error) TRL_NOEXCEPT;

/**
 * Reads one key: the value that was set, or its default.
 *
 * @param config [in] not changed.
 * @param key [in] a name or an older one.
 * @param out_value [out] canonical text; "null" when there is no value; borrowed until config is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG for an unknown key.
 * Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error
 * out_value is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_config_get(const trl_config* config, const char* key, const char** out_value,
                                  trl_error** error) TRL_NOEXCEPT;

/**
 * Tells the origin of the value of a key.
 *
 * @param config [in] not changed.
 * @param key [in] a name or an older one.
 * @param out_origin [out] "default"; "set" after trl_config_set; the place in a file, as "recipe.yaml:3", or
 *   in a text, as "text:3"; borrowed until config is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG for an unknown key.
 * Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error
 * out_origin is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_config_get_origin(const trl_config* config, const char* key, const char** out_origin,
                                         trl_error** error) TRL_NOEXCEPT;

/**
 * Sets every key of a YAML or JSON file, as `trl --config` reads it.
 *
 * @param config [in] changed.
 * @param path [in] the file.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_IO, TRL_E_FORMAT, TRL_E_INVALID_CONFIG, TRL_E_UNSUPPORTED for a path
 *   of the host ("host://").
 * Contract: values are copied; exclusive, also in callbacks; blocks on the file; no callbacks; after an error
 * config is unchanged.
 * @since 0.1
 */
TRL_API trl_status trl_config_load(trl_config* config, const char* path, trl_error** error) TRL_NOEXCEPT;

/**
 * Sets every key of a YAML or JSON text.
 *
 * @param config [in] changed.
 * @param text [in] YAML or JSON; nullable when size is 0.
 * @param size [in] bytes in text.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_FORMAT, TRL_E_INVALID_CONFIG.
 * Contract: values are copied; exclusive, also in callbacks; does not block; no callbacks; after an error
 * config is unchanged.
 * @since 0.1
 */
TRL_API trl_status trl_config_load_text(trl_config* config, const char* text, size_t size,
                                        trl_error** error) TRL_NOEXCEPT;

/**
 * The keys that were set, as a JSON object under their canonical names, each value in its own type.
 *
 * @param config [in] not changed.
 * @param out_json [out] borrowed until config is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error
 * out_json is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_config_describe(const trl_config* config, const char** out_json,
                                       trl_error** error) TRL_NOEXCEPT;

/**
 * The warnings about the keys that were set, which a trainer writes to its log: keys that have no effect in
 * this build, keys that a file gives twice.
 *
 * @param config [in] not changed.
 * @param out_json [out] a JSON list of texts; borrowed until config is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error
 * out_json is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_config_get_warnings(const trl_config* config, const char** out_json,
                                           trl_error** error) TRL_NOEXCEPT;

/**
 * The JSON schema (draft 2020-12) of a configuration file: an object with a property for each key, with its
 * type, range or choices, default and meaning, from the table that trl_option_next walks. Other names of a
 * key have properties, too, and older ones are deprecated. A file that trl_config_load takes is valid by it,
 * except that it also allows older names of values, dashes in keys, capitals in choices, 0 and 1 as booleans,
 * texts in place of other values, and the reverse.
 *
 * @param trainer [in] nullable; "sft", "dpo", ...: the keys that this trainer reads, with its defaults. NULL:
 * all keys.
 * @param out_json [out] borrowed for the life of the process.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND for an unknown trainer.
 * Contract: borrowed; any thread, also in callbacks; does not block; no callbacks; after an error out_json is
 * NULL.
 * @since 0.1
 */
TRL_API trl_status trl_config_get_schema(const char* trainer, const char** out_json,
                                         trl_error** error) TRL_NOEXCEPT;

/**
 * Frees a configuration. Objects that were created from it keep their own copy.
 *
 * @param config [in] nullable; consumed.
 * Contract: exclusive, last use; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_config_destroy(trl_config* config) TRL_NOEXCEPT;

/* ---- options: the keys of a configuration --------------------------------------------------------- */

/* The type of an option's value. Tolerate unknown ones. */
enum {
  TRL_TYPE_BOOLEAN = 0,
  TRL_TYPE_INTEGER = 1,
  TRL_TYPE_NUMBER = 2,
  TRL_TYPE_TEXT = 3,
  TRL_TYPE_CHOICE = 4, /* one of trl_option_accepted */
  TRL_TYPE_LIST = 5,
  TRL_TYPE_MAP = 6
};

/**
 * Walks the table of options.
 *
 * @param previous [in] NULL for the first option, else the result of the last call.
 * @return the next option, borrowed for the life of the process; NULL at the end, and for what is not an
 * option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const trl_option* trl_option_next(const trl_option* previous) TRL_NOEXCEPT;

/**
 * The key under which trl_config_set takes an option.
 *
 * @param option [in] from trl_option_next.
 * @return borrowed for the life of the process; NULL if it is not an option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_name(const trl_option* option) TRL_NOEXCEPT;

/**
 * The group of an option: TRL's class (SFTConfig, ModelConfig, ScriptArguments) or a group of libtrl
 * (runtime, generate ...).
 *
 * @param option [in] from trl_option_next.
 * @return borrowed for the life of the process; NULL if it is not an option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_section(const trl_option* option) TRL_NOEXCEPT;

/**
 * The topic of an option within its section ("Batches and length", "Saving").
 *
 * @param option [in] from trl_option_next.
 * @return borrowed for the life of the process; NULL if it is not an option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_group(const trl_option* option) TRL_NOEXCEPT;

/**
 * The origin of an option: TRL, or this library.
 *
 * @param option [in] from trl_option_next.
 * @return "trl" or "ours", borrowed for the life of the process; NULL if it is not an option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_origin(const trl_option* option) TRL_NOEXCEPT;

/**
 * The type of an option's value.
 *
 * @param option [in] from trl_option_next.
 * @param trainer [in] nullable: the table's. "sft", "dpo", ..., as trl_option_trainers names them: in this
 *   trainer, where it may differ (beta).
 * @return one of TRL_TYPE_*; -1 if it is not an option, and for a trainer that does not have it.
 * Contract: any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API int32_t trl_option_type(const trl_option* option, const char* trainer) TRL_NOEXCEPT;

/**
 * Whether "null" is a value of an option.
 *
 * @param option [in] from trl_option_next.
 * @return 1 or 0; -1 if it is not an option.
 * Contract: any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API int32_t trl_option_nullable(const trl_option* option) TRL_NOEXCEPT;

/**
 * The default of an option as canonical text.
 *
 * @param option [in] from trl_option_next.
 * @param trainer [in] nullable: the table's. "sft", "dpo", ..., as trl_option_trainers names them: in this
 *   trainer, where it may differ (learning_rate, loss_type).
 * @return borrowed for the life of the process; "null" if it has no default; NULL if it is not an option,
 * and for a trainer that does not have it.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_default(const trl_option* option, const char* trainer) TRL_NOEXCEPT;

/**
 * The values that an option accepts within its type: a range such as "> 0", or "a|b|c" for a choice. "bytes
 * >= 0" is a range of bytes, and such an option takes units, too: "6GiB" is kept as 6442450944.
 *
 * @param option [in] from trl_option_next.
 * @param trainer [in] nullable: the table's. "sft", "dpo", ..., as trl_option_trainers names them: in this
 *   trainer, where they may differ (loss_type).
 * @return borrowed for the life of the process; "" for any value; NULL if it is not an option, and for a
 *   trainer that does not have it.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_accepted(const trl_option* option, const char* trainer) TRL_NOEXCEPT;

/**
 * The trainers that have an option, comma separated ("sft,dpo").
 *
 * @param option [in] from trl_option_next.
 * @return borrowed for the life of the process; "" when no trainer reads it; NULL if it is not an option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_trainers(const trl_option* option) TRL_NOEXCEPT;

/**
 * The older names of an option, comma separated.
 *
 * @param option [in] from trl_option_next.
 * @return borrowed for the life of the process; "" when there is none; NULL if it is not an option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_aliases(const trl_option* option) TRL_NOEXCEPT;

/**
 * Names that other tools have for an option, such as "lr". They are not accepted: an error about one names
 * the option.
 *
 * @param option [in] from trl_option_next.
 * @return names with commas between, borrowed for the life of the process; "" when there are none; NULL if
 * it is not an option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_other_names(const trl_option* option) TRL_NOEXCEPT;

/**
 * The meaning of an option, in a sentence or two.
 *
 * @param option [in] from trl_option_next.
 * @param trainer [in] nullable: the table's. "sft", "dpo", ..., as trl_option_trainers names them: in this
 *   trainer, where it may differ (loss_type).
 * @return borrowed for the life of the process; NULL if it is not an option, and for a trainer that does
 *   not have it.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_doc(const trl_option* option, const char* trainer) TRL_NOEXCEPT;

/**
 * The first version of libtrl that has an option.
 *
 * @param option [in] from trl_option_next.
 * @return borrowed for the life of the process; NULL if it is not an option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_since(const trl_option* option) TRL_NOEXCEPT;

/**
 * Why this build refuses other values of an option than its default and the ones that change nothing.
 *
 * @param option [in] from trl_option_next.
 * @return borrowed for the life of the process; "" when the option works; NULL if it is not an option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_unsupported_reason(const trl_option* option) TRL_NOEXCEPT;

/**
 * The effect that an option lacks in this build: it is accepted, and one warning says this.
 *
 * @param option [in] from trl_option_next.
 * @return borrowed for the life of the process; "" when the option works or is refused; NULL for what is not
 *   an option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_ignored_reason(const trl_option* option) TRL_NOEXCEPT;

/**
 * The values besides the default that are neither refused nor ignored, if an option has such a reason
 * (trl_option_unsupported_reason, trl_option_ignored_reason).
 *
 * @param option [in] from trl_option_next.
 * @return "a|b|c", for a map "key" or "key=value", borrowed for the life of the process; "" when there is
 *   none, and when the option works; NULL if it is not an option.
 * Contract: borrowed; any thread; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_option_taken(const trl_option* option) TRL_NOEXCEPT;

/* ---- runtime and log ----------------------------------------------------------------------------- */

/* The level of a log line. Tolerate unknown ones. */
enum { TRL_LOG_DEBUG = 0, TRL_LOG_INFO = 1, TRL_LOG_WARNING = 2, TRL_LOG_ERROR = 3 };

/* One log line without its newline; component and text are valid during the call, text[size] is NUL. */
typedef void (*trl_log_fn)(void* user_data, int32_t level, const char* component, const char* text,
                           size_t size);

/**
 * Creates a runtime: the threads, memory limit and log of the objects that are created with it.
 *
 * Reads `runtime.threads` (default: as many as affinity and the cgroup allow) and
 * `runtime.host_memory_limit`. The limit belongs to the process: while a runtime lives, one that asks for
 * another limit is refused. Every function that takes a runtime also takes NULL, which is a quiet one with
 * the defaults that lives as long as what is made with it; but not trl_trainer_plan, whose texts the runtime
 * owns. No tensor library is opened here.
 *
 * @param config [in] nullable: the defaults.
 * @param out_runtime [out] owned by the caller, freed by trl_runtime_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG, TRL_E_BUSY for another limit than the process has,
 *   TRL_E_INVALID_ARGUMENT for one below the memory in use.
 * Contract: caller owns, users of it keep it alive; any thread; does not block; no callbacks; after an error
 * out_runtime is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_runtime_create(const trl_config* config, trl_runtime** out_runtime,
                                      trl_error** error) TRL_NOEXCEPT;

/**
 * Sends the log lines of a runtime, and of all that is created with it, to a callback.
 *
 * Replaces the previous callback. Without one nothing is logged anywhere.
 *
 * @param runtime [in] changed.
 * @param log [in] nullable: no log.
 * @param user_data [in] given to log.
 * @param destroy [in] nullable; called with user_data when the callback is replaced or the runtime is gone,
 * or when this call fails.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: user_data owned by the library until destroy; exclusive; does not block; destroy of the callback
 * before; after an error destroy was called.
 * @since 0.1
 */
TRL_API trl_status trl_runtime_set_log(trl_runtime* runtime, trl_log_fn log, void* user_data,
                                       trl_destroy_fn destroy, trl_error** error) TRL_NOEXCEPT;

/* Tells the host the progress of a call that opens, makes or saves something. phase, valid during the
 * callback, is
 *   "engine"     libtorch and the engine are being loaded: done is 0, then 1; total is 1
 *   "rows"       rows are being read and counted: done is the rows so far, total is not known
 *   "tokenize"   rows are being tokenised: done rows of total
 *   "plan"       a step is being rehearsed, which predicts its memory: done tensors of the total stored
 *   "weights"    weights are being read: done tensors of the total stored
 *   "evaluate"   trl_evaluator_evaluate: done rows of total
 *   "score"      trl_model_score: done texts of total
 *   "save"       a file of weights or of an optimizer's state is being written, by trl_trainer_train, _step,
 *                _update or _save too: done bytes of the file's total
 * or one that a later version adds. A phase may occur more than once, for evaluation rows for example. total
 * is -1 if it is not known. The callback runs when a phase begins and ends, and about every 50 ms in
 * between, even if done has not changed, so the host can stop the call from it. Return 0 to continue. With
 * TRL_PROGRESS_STOP, or any other number above 0, the call returns TRL_E_CANCELLED; with a number below 0 it
 * returns TRL_E_CALLBACK. In both cases nothing half-made is left. A trainer's call that is
 * stopped while it saves ends as trl_trainer_cancel ends it.
 */
typedef int32_t (*trl_progress_fn)(void* user_data, const char* phase, int64_t done, int64_t total);
enum { TRL_PROGRESS_STOP = 1 };

/**
 * Sets the progress callback of a runtime. It reports on the calls that open, make or save something for the
 * runtime or for an object that was created with it: trl_dataset_open, trl_dataset_open_config, the
 * trl_dataset_get_* functions and trl_dataset_visit_batches, trl_tokenizer_open, trl_model_open,
 * trl_model_score, trl_model_convert, trl_model_save, trl_trainer_create, trl_trainer_plan,
 * trl_evaluator_create, trl_evaluator_evaluate and trl_runtime_describe; of the calls of a trainer only on
 * what they save. While libtorch itself is being loaded the callback does not run and the call cannot be
 * stopped.
 *
 * It runs on the thread that is inside such a call; two calls at the same time may run it at the same time.
 *
 * @param runtime [in] changed.
 * @param progress [in] nullable: NULL removes the callback.
 * @param user_data [in] given to progress.
 * @param destroy [in] nullable.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: user_data owned by the library until destroy; any thread; does not block; destroy of the callback
 * before, now or with the last call that it reports on; after an error destroy was called.
 * @since 0.1
 */
TRL_API trl_status trl_runtime_set_progress(trl_runtime* runtime, trl_progress_fn progress, void* user_data,
                                            trl_destroy_fn destroy, trl_error** error) TRL_NOEXCEPT;

/* Reads a part of a file that the host gives. file: its path below the name that was mounted, such as
   "config.json". Puts the bytes from offset on into buffer, at most size, and returns how many: fewer than
   size only at the end of the file. With buffer NULL and size 0 it returns the bytes of the whole file. If
   there is no such file, or it is a folder, it returns TRL_E_NOT_FOUND; another number below 0 is a
   failure. */
typedef int64_t (*trl_read_fn)(void* user_data, const char* file, uint64_t offset, void* buffer, size_t size);

/* What a trl_write_fn is told. Tolerate unknown ones by returning 0. */
enum {
  TRL_WRITE_DATA = 0,   /* the next bytes of this file, in order; a file's first call has offset 0 */
  TRL_WRITE_DONE = 1,   /* file is the folder that was saved ("" for the mount): it is complete, and takes
                           the place of what was there */
  TRL_WRITE_DROPPED = 2 /* file is the folder: the save failed, and what was written of it is to be dropped */
};

/* Takes what is saved. data is valid during the call; NULL and 0 except for TRL_WRITE_DATA. Returns 0, or
   below 0 to fail, which ends the save with TRL_E_CALLBACK. */
typedef int32_t (*trl_write_fn)(void* user_data, int32_t what, const char* file, uint64_t offset,
                                const void* data, size_t size);

/**
 * Mounts files of the host under a name: from now on "host://NAME" and "host://NAME/FOLDER" are paths of
 * folders whose files the host reads and writes, for products that encrypt or pack their files or have them
 * in memory. Such a path is taken wherever the directory of a model, an adapter, a tokenizer or a checkpoint
 * is read (trl_model_open, trl_model_add_adapter, trl_tokenizer_open, and the keys of a configuration that
 * name one: model_name_or_path, adapter_name_or_path, ref_model_name_or_path, resume_from_checkpoint ...), as
 * a GGUF file ("host://NAME/model.gguf"), and by trl_trainer_save and trl_model_save for what they write.
 * Weights are read once, into memory of their own. Other paths, such as output_dir, datasets, files of
 * options and those of trl_model_convert, are refused with a message.
 *
 * @param runtime [in] the mount lives as long as it, and as objects that were created with it.
 * @param name [in] letters a to z, A to Z, digits, _ and -; belongs to the process while it is mounted.
 * @param read [in] nullable: nothing is read from it. Runs on the thread that is inside a call.
 * @param write [in] nullable: nothing is written to it. Runs on the thread that is inside a call.
 * @param user_data [in] given to both.
 * @param destroy [in] nullable; called with user_data when the mount has ended, or when this call fails.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT for a name that is mounted already, or that is not one.
 * Contract: user_data owned by the library until destroy; any thread; does not block; read and write run
 * later, inside calls that were given such a path; after an error destroy was called.
 * @since 0.1
 */
TRL_API trl_status trl_runtime_mount(trl_runtime* runtime, const char* name, trl_read_fn read,
                                     trl_write_fn write, void* user_data, trl_destroy_fn destroy,
                                     trl_error** error) TRL_NOEXCEPT;

/**
 * Sets the process's limit for large buffers; trainers may exist.
 *
 * @param runtime [in] any runtime.
 * @param bytes [in] the limit; 0: none; not below the memory in use.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT below the memory in use or negative.
 * Contract: any thread; does not block; no callbacks; after an error the limit is unchanged.
 * @since 0.1
 */
TRL_API trl_status trl_runtime_set_memory_limit(trl_runtime* runtime, int64_t bytes,
                                                trl_error** error) TRL_NOEXCEPT;

/**
 * The bytes that large buffers of this process hold now, and the most they held.
 *
 * @param runtime [in] any runtime.
 * @param kind [in] weights, gradients, optimizer, activations, workspace or data; NULL: all together.
 * @param out_now_bytes [out] nullable.
 * @param out_peak_bytes [out] nullable.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND for another kind.
 * Contract: any thread, also in callbacks; does not block; no callbacks; after an error the outputs are 0.
 * @since 0.1
 */
TRL_API trl_status trl_runtime_memory(const trl_runtime* runtime, const char* kind, int64_t* out_now_bytes,
                                      int64_t* out_peak_bytes, trl_error** error) TRL_NOEXCEPT;

/**
 * Describes the runtime and the engine as a JSON object: threads, memory limit, and the engine's libraries
 * and kernels.
 *
 * Opens the engine.
 *
 * @param runtime [in] changed.
 * @param out_json [out] borrowed until runtime is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND without an engine library, TRL_E_UNSUPPORTED with another libtorch in the
 * process, unless the engine brings its own (TRL_BUNDLE).
 * Contract: borrowed; any thread; blocks while libraries load; log; after an error out_json is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_runtime_describe(trl_runtime* runtime, const char** out_json,
                                        trl_error** error) TRL_NOEXCEPT;

/**
 * Ends the calls that are in progress on a runtime: each returns TRL_E_CANCELLED, within 100 ms of work.
 *
 * These are the calls that were given the runtime, or an object that was created with it: opening, creating,
 * reading and counting rows, planning, training, evaluating, generating, converting and saving. Nothing
 * half-made or half-written is left. A trainer is as after trl_trainer_cancel and can be trained on. Later
 * calls are not affected. A call continues while libtorch itself is being loaded, while LAPACK decomposes a
 * weight (init_lora_weights: pissa, olora), while the system flushes a file to its disk, while the host's own
 * functions run, and until an optimizer update that has begun is done. A call that has all but ended returns
 * as usual.
 *
 * @param runtime [in] nullable: the calls of the whole process, also those without a runtime.
 * Contract: signal-safe; never blocks; no callbacks; cannot fail. The runtime must not be destroyed
 * meanwhile.
 * @since 0.1
 */
TRL_API void trl_runtime_cancel(trl_runtime* runtime) TRL_NOEXCEPT;

/**
 * Frees a runtime; objects that were created with it continue to work.
 *
 * @param runtime [in] nullable; consumed.
 * Contract: exclusive, last use; does not block; destroy of the log callback, now or with the last user;
 * cannot fail.
 * @since 0.1
 */
TRL_API void trl_runtime_destroy(trl_runtime* runtime) TRL_NOEXCEPT;

/**
 * Ends the threads that the library keeps between calls, and returns when they are gone.
 *
 * Kernel threads belong to the host thread whose calls started them: they end here if this is that thread,
 * and otherwise when that thread ends. The threads of a runtime, dataset or trainer end when it is destroyed.
 * None of these threads takes signals, and their names begin with "trl-". The library can still be used
 * afterwards; it then starts its threads again.
 *
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_BUSY while a call runs on another thread.
 * Contract: any thread; blocks until the threads are gone; no callbacks; after an error no thread was ended.
 * @since 0.1
 */
TRL_API trl_status trl_runtime_shutdown(trl_error** error) TRL_NOEXCEPT;

/* ---- datasets ------------------------------------------------------------------------------------ */

/**
 * Opens the rows of a file, a directory or a glob (*, ?, [], **).
 *
 * JSON Lines, one JSON array of objects, CSV with a header, or plain text (a row with the column `text` for
 * each line), each plain, .gz or .zst; Parquet if trl_has_feature says "parquet". The files of a directory
 * and of a glob are read in the order of their names. Rows are read when a trainer is created, or by
 * trl_dataset_get_row_count; a file that has changed by the time it is read again is an error.
 *
 * @param runtime [in] nullable.
 * @param path [in] the file, directory or glob.
 * @param options [in] nullable; `dataset_columns` renames the columns of this dataset, in place of what the
 * trainer's configuration says; `dataset_train_split` is the split that is read of a directory whose files
 * are named by split. Keys that do not concern a dataset are not read.
 * @param out_dataset [out] owned by the caller, freed by trl_dataset_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_IO, TRL_E_FORMAT, TRL_E_UNSUPPORTED for a format that is not read.
 * Contract: caller owns, a trainer keeps it alive; any thread; blocks on the files; log; after an error
 * out_dataset is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_dataset_open(trl_runtime* runtime, const char* path, const trl_config* options,
                                    trl_dataset** out_dataset, trl_error** error) TRL_NOEXCEPT;

/**
 * Opens the rows that a configuration names, as `trl sft` does.
 *
 * Rows to train on: dataset_name, or a mixture (datasets, dataset_mixture, dataset_mixer), less the ones that
 * test_split_size splits off. Rows to evaluate: eval_dataset_name, those that are split off, or, unless
 * eval_strategy is no, the files of dataset_test_split in the directory dataset_name.
 *
 * @param runtime [in] nullable.
 * @param config [in] not changed.
 * @param out_train [out] owned by the caller, freed by trl_dataset_destroy.
 * @param out_eval [out] the same; NULL if no rows to evaluate are named.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG, and as trl_dataset_open.
 * Contract: caller owns, a trainer keeps them alive; any thread; blocks on the files; log; after an error
 * out_train and out_eval are NULL.
 * @since 0.1
 */
TRL_API trl_status trl_dataset_open_config(trl_runtime* runtime, const trl_config* config,
                                           trl_dataset** out_train, trl_dataset** out_eval,
                                           trl_error** error) TRL_NOEXCEPT;

/**
 * Creates a dataset from bytes in memory.
 *
 * @param runtime [in] nullable.
 * @param format [in] "jsonl", "json", "csv" or "text".
 * @param data [in] copied, plain or compressed with gzip or zstd; nullable when size is 0.
 * @param size [in] bytes in data.
 * @param options [in] nullable; as for trl_dataset_open.
 * @param out_dataset [out] owned by the caller, freed by trl_dataset_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT for another format, TRL_E_OUT_OF_MEMORY.
 * Contract: caller owns, a trainer keeps it alive; any thread; does not block; no callbacks; after an error
 * out_dataset is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_dataset_from_buffer(trl_runtime* runtime, const char* format, const char* data,
                                           size_t size, const trl_config* options, trl_dataset** out_dataset,
                                           trl_error** error) TRL_NOEXCEPT;

/* The C stream interface of Apache Arrow; the host takes the struct from Arrow's header. */
struct ArrowArrayStream;

/**
 * Creates a dataset from an Arrow stream of record batches.
 *
 * Columns may be null, boolean, integer, float, utf8 (also large and view), list (also large and of fixed
 * size), struct, map with keys of text, and dictionaries of these; null, NaN and an infinity mean that a row
 * has no such column.
 *
 * @param runtime [in] nullable.
 * @param stream [in] taken over, even if this call fails with another status than TRL_E_BUSY; its release is
 * then NULL. It is read once, by the first call that reads rows, and released after that or with the
 * dataset.
 * @param options [in] nullable; as for trl_dataset_open.
 * @param out_dataset [out] owned by the caller, freed by trl_dataset_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_FORMAT for a column of another type, TRL_E_CALLBACK when the stream fails, with its
 * code.
 * Contract: caller owns, a trainer keeps it alive; any thread; does not block; get_schema of the stream
 * now, get_next and release inside later calls; after an error out_dataset is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_dataset_from_arrow(trl_runtime* runtime, struct ArrowArrayStream* stream,
                                          const trl_config* options, trl_dataset** out_dataset,
                                          trl_error** error) TRL_NOEXCEPT;

/* Puts one row into record and returns TRL_OK; TRL_END when there is none, below 0 to fail. */
typedef int32_t (*trl_next_record_fn)(void* user_data, trl_record* record);
/* Starts the rows over; 0, or below 0 to fail. */
typedef int32_t (*trl_rewind_fn)(void* user_data);

/**
 * Creates a dataset from rows that the host gives, one call for each.
 *
 * @param runtime [in] nullable.
 * @param next [in] gives the next row.
 * @param rewind [in] starts over; called before the first row of each reading.
 * @param user_data [in] given to both.
 * @param destroy [in] nullable; called with user_data when the dataset is gone, or when this call fails.
 * @param options [in] nullable; as for trl_dataset_open.
 * @param out_dataset [out] owned by the caller, freed by trl_dataset_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: caller owns, a trainer keeps it alive; any thread; does not block; callbacks run later, inside
 * calls that read rows; after an error out_dataset is NULL and destroy was called.
 * @since 0.1
 */
TRL_API trl_status trl_dataset_from_callback(trl_runtime* runtime, trl_next_record_fn next,
                                             trl_rewind_fn rewind, void* user_data, trl_destroy_fn destroy,
                                             const trl_config* options, trl_dataset** out_dataset,
                                             trl_error** error) TRL_NOEXCEPT;

/**
 * Sets one column of a row to a text.
 *
 * @param record [in] as given to trl_next_record_fn; valid during that call.
 * @param name [in] the column, such as "text", "prompt" or "completion".
 * @param text [in] copied; nullable when size is 0.
 * @param size [in] bytes in text.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_FORMAT for invalid UTF-8.
 * Contract: copied; exclusive, also in callbacks: inside that one; does not block; no callbacks; after an
 * error the row is unchanged.
 * @since 0.1
 */
TRL_API trl_status trl_record_set_text(trl_record* record, const char* name, const char* text, size_t size,
                                       trl_error** error) TRL_NOEXCEPT;

/**
 * Sets one column of a row to a list of integers, such as input_ids, labels (-100: not learned) or
 * completion_mask.
 *
 * @param record [in] as given to trl_next_record_fn; valid during that call.
 * @param name [in] the column.
 * @param ids [in] copied; nullable when count is 0.
 * @param count [in] how many.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: copied; exclusive, also in callbacks: inside that one; does not block; no callbacks; after an
 * error the row is unchanged.
 * @since 0.1
 */
TRL_API trl_status trl_record_set_ids(trl_record* record, const char* name, const int32_t* ids, size_t count,
                                      trl_error** error) TRL_NOEXCEPT;

/**
 * Sets one column of a row to a JSON value, such as the list of a conversation's messages.
 *
 * @param record [in] as given to trl_next_record_fn; valid during that call.
 * @param name [in] the column, such as "messages".
 * @param json [in] copied.
 * @param size [in] bytes in json.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_FORMAT if the text is not JSON.
 * Contract: copied; exclusive, also in callbacks: inside that one; does not block; no callbacks; after an
 * error the row is unchanged.
 * @since 0.1
 */
TRL_API trl_status trl_record_set_json(trl_record* record, const char* name, const char* json, size_t size,
                                       trl_error** error) TRL_NOEXCEPT;

/**
 * Reads all rows and counts them; a malformed one is an error that names its place.
 *
 * @param dataset [in] not changed; rows of a callback are read from their start.
 * @param out_count [out] the rows.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_IO, TRL_E_FORMAT, TRL_E_CALLBACK.
 * Contract: concurrent on const (rows of a callback: exclusive); blocks on the file; next and rewind; after
 * an error out_count is 0.
 * @since 0.1
 */
TRL_API trl_status trl_dataset_get_row_count(const trl_dataset* dataset, int64_t* out_count,
                                             trl_error** error) TRL_NOEXCEPT;

/**
 * Reads and tokenises all rows, as training would, and reports how long they are and what each max_length
 * costs.
 *
 * Percentiles and histograms of prompt, completion and total tokens; for each value of `profile.max_lengths`
 * the rows cut, the tokens lost and, for padded, grouped, padding-free and packed batches, padding, packed
 * rows and optimizer steps of the first epoch, with the batches of a run that has these options. For
 * preference rows (chosen and rejected) it has only the lengths and cuts.
 * Reads the keys that make rows and batches (`dataset_text_field`, `completion_only_loss`, `chat_template`,
 * `per_device_train_batch_size`, `train_sampling_strategy`, `seed`, `data_seed` ...) and the group `profile`;
 * writes the files of `profile.svg` and `profile.html`. A few bytes per row are held in memory. Opens no
 * engine, unless `profile.peaks` asks for the predicted peak of a run at each max_length: then the other keys
 * of a run count too, and a step is rehearsed for each, as trl_trainer_plan does. max_lengths[].peak_bytes
 * has it in the JSON, or no_peaks why there is none; that is not an error.
 *
 * @param dataset [in] not changed; rows of a callback are read from their start.
 * @param tokenizer [in] the one to train with; the keys of trl_tokenizer_open in options replace its own.
 * @param options [in] nullable: the defaults.
 * @param out_json [out] nullable; all numbers as a JSON object; borrowed until dataset is destroyed.
 * @param out_text [out] nullable; a plot of `profile.width` columns; borrowed until dataset is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG, TRL_E_FORMAT, TRL_E_IO, TRL_E_NOT_FOUND for the folder of a file to
 * write, TRL_E_CALLBACK and others.
 * Contract: borrowed; concurrent on const (rows of a callback: exclusive);
 * blocks on the rows; log, next and rewind; after an error the outputs are NULL and the files untouched.
 * @since 0.1
 */
TRL_API trl_status trl_dataset_get_profile(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                           const trl_config* options, const char** out_json,
                                           const char** out_text, trl_error** error) TRL_NOEXCEPT;

/**
 * Tokenises one row as SFT does, to see what it trains on.
 *
 * The JSON object has `row`, `input_ids`, `labels` (an id, or -100 if the token is not trained on),
 * `pieces` (each token as in the vocabulary; empty if it has none) and `texts` (what each token adds
 * to the text; the bytes of a character come with the token that ends it). Reads the keys that make examples
 * (`dataset_text_field`, `completion_only_loss`, `assistant_only_loss`, `chat_template`, `max_length` ...);
 * the row is cut as in training, but neither dropped nor packed.
 *
 * @param dataset [in] not changed; rows of a callback are read from their start.
 * @param tokenizer [in] the one to train with; the keys of trl_tokenizer_open in options replace its own.
 * @param options [in] nullable: the defaults.
 * @param row [in] counted from 0; the rows before it are skipped.
 * @param out_json [out] borrowed until dataset is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT for a row that the dataset does not have, TRL_E_INVALID_CONFIG,
 * TRL_E_FORMAT, TRL_E_IO, TRL_E_CALLBACK and others.
 * Contract: borrowed; concurrent on const (rows of a callback: exclusive); blocks on the rows; log, next and
 * rewind; after an error out_json is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_dataset_get_example(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                           const trl_config* options, int64_t row, const char** out_json,
                                           trl_error** error) TRL_NOEXCEPT;

/* One micro-batch, as JSON that is valid during the call; json[size] is NUL. Returns 0 to continue, a number
   above 0 to see no more, or one below 0 to fail. */
typedef int32_t (*trl_batch_fn)(void* user_data, const char* json, size_t size);

/**
 * Micro-batches of the first epoch, one after the other, as the trainer of `method` will see them: rows in
 * their order of training, prepared, cut and packed as options say.
 *
 * The JSON object has `batch`, `batches_per_epoch` and `rows` (prepared ones; both null for rows that are
 * streamed), `row_ids` (the numbers in the dataset of the rows that are in it), `whole_lengths` (for `sft`,
 * how many tokens each of these rows has before it is cut; null for rows of a callback, streamed ones and
 * those of wrapped packs), `columns` (numbers of the sequences by name, such as the margins of pairs) and
 * `sequences`: objects of `input_ids`, `labels`, `pieces` and `texts`, as in the answer of
 * trl_dataset_get_example. The documents of a packed row are sequences of their own; the chosen completions
 * of pairs come before the rejected ones.
 *
 * @param dataset [in] not changed; rows of a callback are read from their start.
 * @param tokenizer [in] the one to train with; the keys of trl_tokenizer_open in options replace its own.
 * @param options [in] nullable: the defaults. With `per_device_train_batch_size` 1 a batch is one prepared
 * row.
 * @param first [in] the first batch, counted from 0; the batches before it are skipped.
 * @param count [in] how many batches; fewer if the epoch ends before.
 * @param on_batch [in] gets each batch.
 * @param user_data [in] handed to on_batch; borrowed during the call.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, also when on_batch has seen enough, TRL_E_INVALID_ARGUMENT for a first batch that an epoch
 * does not have or a count below 0, TRL_E_CALLBACK, TRL_E_INVALID_CONFIG, TRL_E_FORMAT, TRL_E_IO and others.
 * Contract: nothing is handed out; concurrent on const (rows of a callback: exclusive); blocks on the rows;
 * on_batch, log, next and rewind; after an error some batches may have been seen.
 * @since 0.1
 */
TRL_API trl_status trl_dataset_visit_batches(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                             const trl_config* options, int64_t first, int64_t count,
                                             trl_batch_fn on_batch, void* user_data,
                                             trl_error** error) TRL_NOEXCEPT;

/**
 * Frees a dataset; a trainer created with it continues to work.
 *
 * @param dataset [in] nullable; consumed.
 * Contract: exclusive, last use; does not block; destroy of its callback, now or with the last user; cannot
 * fail.
 * @since 0.1
 */
TRL_API void trl_dataset_destroy(trl_dataset* dataset) TRL_NOEXCEPT;

/* ---- tokenizer ----------------------------------------------------------------------------------- */

/**
 * Opens the tokenizer of a model directory or of a GGUF file. Opens no engine.
 *
 * @param runtime [in] nullable.
 * @param path [in] a directory with tokenizer.json or (if the build has SentencePiece) tokenizer.model,
 * or a GGUF file.
 * @param options [in] nullable; `eos_token`, `pad_token`, `chat_template` and `chat_template_path` replace
 * the tokenizer's own. With `split_special_tokens`, special tokens that rows, prompts and scored texts spell
 * out are text; those of the chat template are special. Keys that do not concern a tokenizer are not read.
 * @param out_tokenizer [out] owned by the caller, freed by trl_tokenizer_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_IO, TRL_E_FORMAT, TRL_E_UNSUPPORTED, TRL_E_INVALID_CONFIG.
 * Contract: caller owns; any thread; blocks on the files; log; after an error out_tokenizer is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_tokenizer_open(trl_runtime* runtime, const char* path, const trl_config* options,
                                      trl_tokenizer** out_tokenizer, trl_error** error) TRL_NOEXCEPT;

/**
 * Turns text into token ids.
 *
 * @param tokenizer [in] not changed.
 * @param text [in] nullable when size is 0.
 * @param size [in] bytes in text.
 * @param add_special_tokens [in] 1: with the tokens that the tokenizer adds (a begin token ...); 0: without.
 * @param split_special_tokens [in] 1: special tokens that are spelled out in the text, such as the
 *   "<|im_end|>" that a user types, are text like any other; 0: they are recognised; below 0: as the key
 * `split_special_tokens` of the tokenizer says.
 * @param ids [out] receives the first `capacity` ids; nullable when capacity is 0.
 * @param capacity [in] room in ids.
 * @param out_count [out] how many ids there are; when above capacity, call again with as much room.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_FORMAT for invalid UTF-8.
 * Contract: ids belongs to the caller; concurrent on const, also in callbacks; does not block; no callbacks;
 * after an error out_count is 0.
 * @since 0.1
 */
TRL_API trl_status trl_tokenizer_encode(const trl_tokenizer* tokenizer, const char* text, size_t size,
                                        int32_t add_special_tokens, int32_t split_special_tokens,
                                        int32_t* ids, size_t capacity, size_t* out_count,
                                        trl_error** error) TRL_NOEXCEPT;

/**
 * Turns token ids into text. Bytes that form no character become U+FFFD.
 *
 * @param tokenizer [in] not changed.
 * @param ids [in] nullable when count is 0.
 * @param count [in] ids.
 * @param skip_special_tokens [in] 1: special tokens leave no text; 0: they are written out.
 * @param text [out] receives the first `capacity` bytes, and a NUL when there is room; nullable when capacity
 * is 0.
 * @param capacity [in] room in text.
 * @param out_size [out] how many bytes there are without the NUL; when above capacity, call again with as
 * much room.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT for an id outside the vocabulary.
 * Contract: text belongs to the caller; concurrent on const, also in callbacks; does not block; no callbacks;
 * after an error out_size is 0.
 * @since 0.1
 */
TRL_API trl_status trl_tokenizer_decode(const trl_tokenizer* tokenizer, const int32_t* ids, size_t count,
                                        int32_t skip_special_tokens, char* text, size_t capacity,
                                        size_t* out_size, trl_error** error) TRL_NOEXCEPT;

/**
 * A token as in the vocabulary: of a byte-level tokenizer in its alphabet for bytes, of a SentencePiece
 * one with the mark of a space.
 *
 * @param tokenizer [in] not changed.
 * @param id [in] the token.
 * @param piece [out] receives the first `capacity` bytes, and a NUL when there is room; nullable when
 * capacity is 0.
 * @param capacity [in] room in piece.
 * @param out_size [out] how many bytes there are without the NUL; when above capacity, call again with as
 * much room.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT for an id outside the vocabulary, TRL_E_NOT_FOUND for one inside it
 * that belongs to no token.
 * Contract: piece belongs to the caller; concurrent on const, also in callbacks; does not block; no
 * callbacks; after an error out_size is 0.
 * @since 0.1
 */
TRL_API trl_status trl_tokenizer_get_piece(const trl_tokenizer* tokenizer, int32_t id, char* piece,
                                           size_t capacity, size_t* out_size, trl_error** error) TRL_NOEXCEPT;

/**
 * Renders a conversation with the tokenizer's chat template. If it has several, "tool_use" is taken when
 * tools are given, and otherwise "default".
 *
 * @param tokenizer [in] not changed.
 * @param json [in] a list of messages, or an object with `messages` and, if wanted, `tools`,
 *   `add_generation_prompt`, `continue_final_message`, `chat_template_kwargs` (more variables of the
 *   template) and `chat_template` (in place of the tokenizer's).
 * @param size [in] bytes in json.
 * @param text [out] receives the first `capacity` bytes, and a NUL when there is room; nullable when capacity
 * is 0.
 * @param capacity [in] room in text.
 * @param out_size [out] how many bytes there are without the NUL; when above capacity, call again with as
 * much room.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_FORMAT for malformed JSON or an error that the template raises, TRL_E_NOT_FOUND
 * without a template.
 * Contract: text belongs to the caller; concurrent on const, also in callbacks; does not block; no callbacks;
 * after an error out_size is 0.
 * @since 0.1
 */
TRL_API trl_status trl_tokenizer_apply_chat_template(const trl_tokenizer* tokenizer, const char* json,
                                                     size_t size, char* text, size_t capacity,
                                                     size_t* out_size, trl_error** error) TRL_NOEXCEPT;

/**
 * Describes the tokenizer as a JSON object: vocab_size, bos_token, eos_token, pad_token, unk_token with their
 * ids, and chat_template (an object, name to template, if the tokenizer has named ones).
 *
 * @param tokenizer [in] not changed.
 * @param out_json [out] borrowed until tokenizer is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error
 * out_json is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_tokenizer_describe(const trl_tokenizer* tokenizer, const char** out_json,
                                          trl_error** error) TRL_NOEXCEPT;

/**
 * Frees a tokenizer; a generator created with it continues to work.
 *
 * @param tokenizer [in] nullable; consumed.
 * Contract: exclusive, last use; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_tokenizer_destroy(trl_tokenizer* tokenizer) TRL_NOEXCEPT;

/* ---- model --------------------------------------------------------------------------------------- */

/**
 * Opens a model: a Hugging Face directory, one GGUF file, or a directory that holds it as model.gguf. Opens
 * the engine. A sequence classifier with one label, or an adapter that makes one of its model (task_type
 * SEQ_CLS), is opened as a reward model, which trl_model_score asks.
 *
 * @param runtime [in] nullable.
 * @param path [in] the directory or file, also by its descriptor (/proc/self/fd/N) or from a mount
 * (trl_runtime_mount).
 * @param options [in] nullable. Of the weights: `dtype`, `model_init_kwargs`, `load_in_4bit`, `load_in_8bit`,
 * `bnb_4bit_quant_type`, `use_bnb_nested_quant`, `adapter_name_or_path`, `use_cpu`, `fused_kernels`, `seed`.
 * Generators made for the model read `kv_cache_memory`, `kv_cache_dtype`, `prefix_cache`,
 * `generation_dtype`, `generation_dtype_head`, `memory_budget`. And the tokenizer's keys of
 * trl_tokenizer_open. Keys that do not concern a model are not read.
 * @param out_model [out] owned by the caller, freed by trl_model_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_IO, TRL_E_FORMAT, TRL_E_UNSUPPORTED, TRL_E_OUT_OF_MEMORY.
 * Contract: caller owns; any thread; blocks on the files; log; after an error out_model is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_model_open(trl_runtime* runtime, const char* path, const trl_config* options,
                                  trl_model** out_model, trl_error** error) TRL_NOEXCEPT;

/**
 * Makes a handle of the model that a trainer trains: its weights are those of the trainer, and every step is
 * seen at once. It serves to read and write tensors, to score texts, to make generators
 * (trl_generator_create), and to add and remove adapters, with which generators and scores may work apart
 * from the run: it does not train, use or save them.
 *
 * A call with such a handle is a call on the trainer. While another thread trains, trl_generator_* calls wait
 * for their turn, which comes after the step, and trl_model_score too; other calls return TRL_E_BUSY.
 * trl_model_use_adapter, trl_model_merge_adapter and trl_model_save are refused with TRL_E_UNSUPPORTED: the
 * options of the run and trl_trainer_save do that. Of a method that writes completions, a generator computes
 * as these are written, with `bf16` in bfloat16.
 *
 * @param trainer [in] kept alive.
 * @param out_model [out] owned by the caller, freed by trl_model_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: caller owns; any thread, also in callbacks; does not block; no callbacks; after an error
 * out_model is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_model_from_trainer(trl_trainer* trainer, trl_model** out_model,
                                          trl_error** error) TRL_NOEXCEPT;

/**
 * Converts a model into another form or type. A target whose name ends in ".gguf" is one GGUF file, which
 * llama.cpp reads; any other is a Hugging Face directory. Path may be either, too. Tokenizer and chat
 * template go along. No model is opened, and memory does not grow with the model, unless an adapter is merged
 * or the files are quantised by bitsandbytes. Opens the engine.
 *
 * With `save.kind` merged, an adapter goes into the weights of its model: path is the adapter's directory
 * (its model: `convert.base`, or the one that its adapter_config.json names), or a model, and
 * `adapter_name_or_path` the adapter. The model is opened for that, in `dtype` and with the keys of
 * quantisation, or if `dtype` is not set in the type that loses nothing. Merged weights are quantised only if
 * `convert.type` says so.
 *
 * Otherwise the directory of a LoRA adapter (adapter_config.json, without config.json) stays an adapter: a
 * GGUF file that llama.cpp applies to a GGUF file of the adapter's model (llama-cli --lora), or a directory
 * in another type. rsLoRA and alpha_pattern are in the numbers of a GGUF file. A feature that llama.cpp has
 * no place for is refused by name: DoRA, biases, modules_to_save, trained tokens, an embedding or head that
 * is not the model's.
 *
 * The target appears whole or not at all; a file of the same name is replaced, and of a directory that
 * exists the other files stay. What GGUF cannot describe (a family, a kind of position, a tokenizer) is
 * refused by name.
 *
 * @param runtime [in] nullable.
 * @param path [in] the directory or file that is read.
 * @param target [in] the result: a GGUF file if it ends in ".gguf", else a directory.
 * @param options [in] nullable; reads `convert.type`, `convert.base` and `save.kind`, and where that is
 * merged the keys of trl_model_open for weights and adapter, which are refused otherwise.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_IO, TRL_E_FORMAT, TRL_E_UNSUPPORTED, TRL_E_INVALID_CONFIG,
 *   TRL_E_OUT_OF_MEMORY.
 * Contract: any thread; blocks on the files; log; after an error nothing is written.
 * @since 0.1
 */
TRL_API trl_status trl_model_convert(trl_runtime* runtime, const char* path, const char* target,
                                     const trl_config* options, trl_error** error) TRL_NOEXCEPT;

/**
 * Describes the model as a JSON object: parameters (their number) and config (as config.json).
 *
 * @param model [in] not changed.
 * @param out_json [out] borrowed until model is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: borrowed; concurrent on const, also in callbacks; does not block; no callbacks; after an error
 * out_json is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_model_describe(const trl_model* model, const char** out_json,
                                      trl_error** error) TRL_NOEXCEPT;

/* Defined by DLPack's header, version 1. */
struct DLManagedTensorVersioned;

/* What trl_model_read_tensor hands out. */
enum {
  TRL_TENSOR_COPY = 0,    /* a copy of the weight, which the caller may keep */
  TRL_TENSOR_VIEW = 1,    /* the weight's own memory, to be read until it next changes */
  TRL_TENSOR_GRADIENT = 2 /* a copy of the weight's gradient, in its type */
};

/**
 * Lists the tensors of a model, with those of its adapters, as a JSON array of objects: name (as in a saved
 * directory; of an adapter as PEFT names it in the model, with the adapter's name), shape (a list of
 * integers), dtype ("float32", "bfloat16" ...), stored ("nf4", "int8", "q4_0" ... for weights in blocks, else
 * the same as dtype), trained (a boolean) and gradient (whether it has one now, between the two halves of a
 * step).
 *
 * @param model [in] not changed.
 * @param out_json [out] borrowed until model is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_BUSY.
 * Contract: borrowed; exclusive; does not block; no callbacks; after an error out_json is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_model_get_tensors(trl_model* model, const char** out_json,
                                         trl_error** error) TRL_NOEXCEPT;

/**
 * Hands out a tensor as DLPack: contiguous, on the device where it lies, in its own type; weights in blocks
 * (4-bit, 8-bit, GGUF) are decoded into a copy, in the type that dtype names.
 *
 * A view is borrowed: its memory is the weight's own, marked as read only, and its values are those of the
 * moment until the next step, write or destruction of the trainer or model; afterwards its memory stays
 * readable, but its values are not defined.
 *
 * @param model [in] not changed.
 * @param name [in] as trl_model_get_tensors names it.
 * @param what [in] TRL_TENSOR_COPY, TRL_TENSOR_VIEW or TRL_TENSOR_GRADIENT.
 * @param out_tensor [out] owned by the caller, freed by its own deleter, on any thread.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND for another name, and for a gradient that is not there: gradients are
 *   between trl_trainer_backward and trl_trainer_update, of tensors that are trained; TRL_E_UNSUPPORTED for a
 * view of weights in blocks or in files; TRL_E_INVALID_ARGUMENT, TRL_E_OUT_OF_MEMORY, TRL_E_BUSY.
 * Contract: caller owns; exclusive; blocks for a copy; no callbacks; after an error out_tensor is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_model_read_tensor(trl_model* model, const char* name, int32_t what,
                                         struct DLManagedTensorVersioned** out_tensor,
                                         trl_error** error) TRL_NOEXCEPT;

/**
 * Writes a tensor: its values become those of a DLPack tensor in memory of the host, of the same shape and of
 * any type of floating-point numbers, which is converted. Strides are followed. Moments of the optimizer
 * stay.
 *
 * @param model [in] changed.
 * @param name [in] as trl_model_get_tensors names it.
 * @param tensor [in] taken over: its deleter is called before this returns, also after an error other than
 *   TRL_E_BUSY.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND for another name, TRL_E_INVALID_ARGUMENT for another shape, type, version
 *   or device, TRL_E_UNSUPPORTED for weights in blocks or in files, for frozen ones of which a run keeps
 *   something (`cache_frozen_layers`, `frozen_compute`), and while an adapter is merged, TRL_E_BUSY.
 * Contract: exclusive; blocks for the copy; the tensor's deleter; after an error the weight is as before.
 * @since 0.1
 */
TRL_API trl_status trl_model_write_tensor(trl_model* model, const char* name,
                                          struct DLManagedTensorVersioned* tensor,
                                          trl_error** error) TRL_NOEXCEPT;

/**
 * Adds a LoRA adapter that was saved by this library or by PEFT: adapter_config.json and
 * adapter_model.safetensors. It is not used yet (trl_model_use_adapter); the option `adapter_name_or_path`
 * of trl_model_open adds one and uses it, and gives the model the rows that it has for new tokens. A model
 * may have several. One directory may be added under several names: each is a copy that the others do not
 * change, so that the adapter that a run began with can be kept as "ref" next to its trained form.
 *
 * @param model [in] a generator made with it uses the same adapter as the model.
 * @param name [in] of the caller's choice: up to 64 of the letters a to z, A to Z, digits, _ and -.
 * @param path [in] the directory.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_FORMAT naming the first tensor that does not belong to this model,
 * TRL_E_INVALID_ARGUMENT for a name that the model has already, TRL_E_INVALID_CONFIG, TRL_E_UNSUPPORTED,
 * TRL_E_BUSY.
 * Contract: exclusive; blocks on the files; log; after an error the model is as before.
 * @since 0.1
 */
TRL_API trl_status trl_model_add_adapter(trl_model* model, const char* name, const char* path,
                                         trl_error** error) TRL_NOEXCEPT;

/**
 * Removes an adapter from a model. If it is used or merged, the model is without one afterwards.
 *
 * @param model [in] changed.
 * @param name [in] of the adapter.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_BUSY.
 * Contract: exclusive; does not block; no callbacks; after an error the model is as before.
 * @since 0.1
 */
TRL_API trl_status trl_model_remove_adapter(trl_model* model, const char* name,
                                            trl_error** error) TRL_NOEXCEPT;

/**
 * Chooses the adapter that the model computes with from the next call on. Nothing is copied.
 *
 * @param model [in] changed.
 * @param name [in] nullable: no adapter, only the model.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_BUSY, also while another adapter is merged.
 * Contract: exclusive; does not block; no callbacks; after an error the model is as before.
 * @since 0.1
 */
TRL_API trl_status trl_model_use_adapter(trl_model* model, const char* name, trl_error** error) TRL_NOEXCEPT;

/**
 * Merges an adapter into the model's weights and uses it: a call then costs as much as without an adapter.
 * The model keeps copies of the weights that change, so that undoing the merge restores their bits. Quantised
 * weights that change become numbers of the model's dtype for that time, with the memory of these, and are
 * not quantised again; trl_model_save with `save.kind` merged needs no such memory. All of it is counted as
 * weights (trl_runtime_memory); the log has the bytes and the seconds of the merge.
 *
 * @param model [in] changed.
 * @param name [in] nullable: undoes the merge; nothing if none is merged.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_OUT_OF_MEMORY, TRL_E_UNSUPPORTED, TRL_E_BUSY, also while one is
 * merged, and while a generator has completions with another one or with the model alone.
 * Contract: exclusive; blocks; no callbacks; after an error the model is as before.
 * @since 0.1
 */
TRL_API trl_status trl_model_merge_adapter(trl_model* model, const char* name,
                                           trl_error** error) TRL_NOEXCEPT;

/**
 * Saves a model, or its adapter: a directory that transformers or PEFT loads, with the tokenizer and the chat
 * template. Written aside and then moved, so that no incomplete directory is ever seen.
 *
 * @param model [in] the same afterwards.
 * @param path [in] the directory.
 * @param options [in] nullable; `save.kind`: model (all weights, a merged adapter in them), adapter (the one
 * that is used) or merged (all weights with the adapter that is used in them). Quantised weights are saved
 * as the numbers of the model's dtype that they stand for.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_IO, TRL_E_INVALID_CONFIG if no adapter is used, TRL_E_UNSUPPORTED, TRL_E_BUSY.
 * Contract: exclusive; blocks on the disk; log; after an error the files at path are untouched.
 * @since 0.1
 */
TRL_API trl_status trl_model_save(trl_model* model, const char* path, const trl_config* options,
                                  trl_error** error) TRL_NOEXCEPT;

/* How trl_model_score takes its texts. */
enum {
  TRL_TEXT_ANSWER = 0,       /* plain text, as the rows of a reward run: it gets the EOS that it lacks */
  TRL_TEXT_CONVERSATION = 1, /* JSON, as trl_tokenizer_apply_chat_template takes it */
  TRL_TEXT_AS_IS = 2         /* plain text with the tokens that the tokenizer adds */
};

/**
 * Scores texts with a reward model: one that a run of the method reward has trained, or a sequence classifier
 * of transformers with one label; with the adapter that is used.
 *
 * A text's score is that of its last token that is not padding (`pad_token_id` of config.json), as in
 * transformers. Texts are never cut or padded; the others change a score by no more than rounding does.
 *
 * @param model [in] of a host or of a trainer.
 * @param texts [in] count texts, each of one token at least.
 * @param lengths [in] nullable: the texts end in NUL; else their bytes.
 * @param count [in] texts.
 * @param form [in] TRL_TEXT_ANSWER, TRL_TEXT_CONVERSATION or TRL_TEXT_AS_IS, of all texts.
 * @param options [in] nullable; `per_device_eval_batch_size` texts (8) are computed at a time, and with
 *   `bf16` true products over float32 weights are in bfloat16, as in training; by default they are not.
 * @param scores [out] receives count numbers, float32, in the order of the texts; nullable when count is 0.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_UNSUPPORTED for a language model, TRL_E_FORMAT for invalid UTF-8 or JSON or an error
 * that the template raises, TRL_E_NOT_FOUND without a template, TRL_E_INVALID_ARGUMENT for a text without
 * tokens or one that is longer than learned positions, TRL_E_OUT_OF_MEMORY, TRL_E_CANCELLED, TRL_E_BUSY.
 * Contract: scores belong to the caller; exclusive; blocks; log (a warning if a text has more tokens than the
 * model has positions), progress (phase "score": done texts of total); after an error nothing is written to
 * scores and the model is usable.
 * @since 0.1
 */
TRL_API trl_status trl_model_score(trl_model* model, const char* const* texts, const size_t* lengths,
                                   size_t count, int32_t form, const trl_config* options, float* scores,
                                   trl_error** error) TRL_NOEXCEPT;

/**
 * Frees a model; a generator created with it continues to work.
 *
 * @param model [in] nullable; consumed.
 * Contract: exclusive, last use; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_model_destroy(trl_model* model) TRL_NOEXCEPT;

/* ---- trainer ------------------------------------------------------------------------------------- */

/**
 * Tells the needs of a trainer of this configuration: memory by term, time and disk, next to other sets of
 * options. One step is gone through without computing it; headers of the model are read and no weights, and
 * nothing is written but the page of `estimate.report`, and some 64 MB into a file without a name where
 * activations leave memory, by which the disk is timed.
 *
 * The JSON object has the members below; a later version may add some. Numbers of bytes are integers, times
 * are in seconds, shares and rates are floating-point numbers.
 * - model: the path of the model
 * - rows, row_tokens: the largest micro-batch: how many rows, and the tokens of each
 * - parameters, trained_parameters: how many numbers the model has, and how many of them are trained
 * - peak_bytes: the resident memory of the whole process at its most, the sum of terms[].bytes
 * - process_bytes: of these, the share that the process has without the run
 * - counted_bytes: the most that trl_runtime_memory will count of the run
 * - kinds: object, the most bytes of each kind that trl_runtime_memory knows, not all at one time
 * - terms: array of {name, bytes (at that peak), most_bytes (at any time)}. The first, "process", is what the
 *   process has without the run. "start of the process", if no model was opened before, is the part that
 *   loading the libraries leaves resident until then. Resident pages of mapped files (dtype: keep, paged_
 *   optimizers) are terms of their own
 * - timeline: array of {at (the share of the arithmetic that is done before, from 0 to 1), stage ("open",
 *   "forward", "loss", "backward", "optimizer" ...), bytes (array: of each term, in the order of terms)},
 * over opening the model, one step, and an evaluation of one batch if the run has evaluations
 * - kv_cache: {tokens, bytes}: the keys and values of generation, in the type of `kv_cache_dtype`, for one
 *   sequence as long as the longest row; not a part of training
 * - samples: what `sample_prompts` takes between steps, a part of peak_bytes; only with prompts that a
 *   generator takes: {prompts, prompt_tokens (of the longest), num_return_sequences, max_new_tokens;
 *   weights_bytes (beside the run's own weights, which generation reads), copies_bytes (of weights in
 *   `generation_dtype`), kv_block_tokens, kv_block_bytes, kv_blocks (at most in use; a prompt's are counted
 *   once for its completions), kv_bytes (of these, by slabs), kv_limit_bytes (by `kv_cache_memory`),
 *   logits_bytes and work_bytes (of a step), bytes (of all these), asleep_bytes (of those that stay between
 *   generations), peak_bytes (of the process meanwhile), update_bytes (beside these, of a server from its
 *   first update of all weights until it sleeps), sequences_that_fit (into kv_limit_bytes)}
 * - generation: the same of `estimate.prompts` prompts of `estimate.prompt_tokens` tokens, which are
 *   generated with the weights and states of the run in memory; a part of peak_bytes only with `serve_share`
 * - merge: if an adapter is trained that can be merged, the memory that merging takes; not a part of
 *   peak_bytes: {bytes (of trl_model_merge_adapter: copies of weights that change, numbers in place of
 *   blocks), save_bytes (of a save with `save.kind` merged), peak_bytes (of the process while the run saves
 *   so)}
 * - tokens_per_step, seconds_per_step, tokens_per_second: of an optimizer step with all its micro-batches
 * - steps, tokens, seconds: of the whole run, each if it is known: from max_steps, or from the rows
 * - disk: {checkpoint_bytes (of one), checkpoints (that exist at once), model_bytes (of the final model),
 *   needed_bytes (of all of them), free_bytes (where output_dir will be)}; if something leaves memory for a
 *   file, also {offloaded_state_bytes, offloaded_activation_bytes, offload_needed_bytes (of both),
 *   offload_free_bytes (where offload_dir will be)}; with cache_frozen_layers, also {frozen_states_bytes (if
 *   the tokens of an epoch are known), frozen_states_free_bytes}; if output_dir or offload_dir has too little
 * room for such a run, refused: {key, message}, the error of trl_trainer_create
 * - room: {machine_bytes, cgroup_bytes (the bytes that the process may take of the machine's memory, and
 * under the limits of its cgroup; each if it is known), warning (text, if peak_bytes is above one of them)}
 * - leaving: if activations leave memory for a file: {bytes (of a step), most_bytes (at once), free_bytes,
 *   write_bytes_per_second, read_bytes_per_second (of its disk)}
 * - way: with memory_budget, the way that was chosen, in words
 * - alternatives: array, a member for each set of `estimate.compare` in its order; if that is null, for some
 *   usual sets that are not refused. Each has options (text: "optim: adamw_8bit, use_peft: true") and all
 *   members above except alternatives; or, for a set that cannot be run, refused: {key (or ""), message}
 *
 * Times come from the arithmetic of that step and a quarter of a second of measuring on this machine. With
 * `memory_budget` the plan is that of the way that such a run would choose.
 *
 * @param runtime [in] keeps the texts.
 * @param config [in] of the run, with the group `estimate`; copied.
 * @param train [in] nullable; the training rows, which are read to find the longest and how many steps there
 *   are. Without them every row is as long as `max_length` lets it be, and steps are known from `max_steps`.
 * @param out_json [out] nullable; borrowed until runtime is destroyed.
 * @param out_text [out] nullable; lines of at most 60 columns for a terminal, in ASCII except for names that
 * are not: terms, the step as a plot, option sets, time and disk; borrowed until runtime is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG (what trl_trainer_create refuses; a GPU; fused_kernels: off),
 *   TRL_E_OUT_OF_MEMORY (runtime.host_memory_limit is too little for the longest row), TRL_E_FORMAT,
 *   TRL_E_NOT_FOUND, TRL_E_IO (estimate.report cannot be written, which is known before the work is done;
 * rows or model cannot be read) and others. A refusal of a single set of `estimate.compare` is not an error.
 * Contract: borrowed; any thread; blocks; log, next, rewind; after an error the outputs are NULL and the file
 * is untouched.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_plan(trl_runtime* runtime, const trl_config* config, const trl_dataset* train,
                                    const char** out_json, const char** out_text,
                                    trl_error** error) TRL_NOEXCEPT;

/**
 * Checks a run as trl_trainer_create does before it reads rows and weights, and creates nothing: options that
 * exclude each other, folders that cannot be written, an output directory that holds another run, a
 * checkpoint in `resume_from_checkpoint` that is not there, a reference that is not a language model, and
 * features that this machine lacks. The contents of a checkpoint are not read. The warnings and notes about
 * the options of such a run go to the log, as those of trl_trainer_create do.
 *
 * @param runtime [in] nullable; of the log.
 * @param config [in] of the run; copied.
 * @param error [out] nullable; owned by the caller; has the key.
 * @return TRL_OK, TRL_E_INVALID_CONFIG, TRL_E_NOT_FOUND, TRL_E_FORMAT, TRL_E_IO, TRL_E_UNSUPPORTED.
 * Contract: copied; any thread; blocks on files; log; nothing is written.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_check(trl_runtime* runtime, const trl_config* config,
                                     trl_error** error) TRL_NOEXCEPT;

/**
 * Creates a trainer: reads and prepares the rows, opens the model, checks everything.
 *
 * The configuration names the method (`method`), the model (`model_name_or_path`) and all of TRL's options; a
 * copy is taken, later changes have no effect. Its warnings go to the log. With `resume_from_checkpoint` the
 * trainer begins at the step at which that checkpoint was written; a damaged one is refused with
 * TRL_E_FORMAT. A row beyond the positions that the model has learned is TRL_E_INVALID_CONFIG (max_length).
 *
 * @param runtime [in] nullable.
 * @param config [in] copied.
 * @param train [in] the training rows.
 * @param eval [in] nullable; the evaluation rows.
 * @param out_trainer [out] owned by the caller, freed by trl_trainer_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG, TRL_E_FORMAT, TRL_E_NOT_FOUND, TRL_E_UNSUPPORTED, TRL_E_CALLBACK,
 *   TRL_E_OUT_OF_MEMORY and others.
 * Contract: caller owns; any thread; blocks while it loads; log, next, rewind; after an error out_trainer is
 * NULL and no memory is held.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_create(trl_runtime* runtime, const trl_config* config, trl_dataset* train,
                                      trl_dataset* eval, trl_trainer** out_trainer,
                                      trl_error** error) TRL_NOEXCEPT;

/**
 * Does one optimizer step, with the log record, evaluation and save that the configuration has after it.
 *
 * The call that finds nothing left closes the run: it writes trainer_state.json into output_dir and returns
 * TRL_END. A run that an event callback of trl_trainer_train has stopped is resumed.
 *
 * @param trainer [in] changed.
 * @param out_metrics [out] nullable; of this step; borrowed until the next step, half of one or
 *   evaluation of this trainer.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_END, TRL_E_CANCELLED, TRL_E_OUT_OF_MEMORY, TRL_E_IO, TRL_E_FORMAT for a bad row,
 *   TRL_E_CALLBACK when the host's rows fail, TRL_E_INVALID_ARGUMENT with the key on_nonfinite for a loss or
 *   a gradient that is not finite.
 * Contract: borrowed; exclusive; blocks; log, next, rewind; after an error the step did not happen and the
 * trainer is usable, except after TRL_E_DEVICE. With optimizer_in_backward an error may come when some
 * weights are updated already; its message says so and names the last checkpoint, and every later call on the
 * trainer but trl_trainer_destroy returns TRL_E_INVALID_ARGUMENT.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_step(trl_trainer* trainer, const trl_metrics** out_metrics,
                                    trl_error** error) TRL_NOEXCEPT;

/**
 * Does the first half of a step: forward and backward of its rows. Weights are as before, and the gradients
 * can be read (trl_model_read_tensor). trl_trainer_update does the second half, and both together
 * are trl_trainer_step, bit for bit. Between them trl_trainer_step, _train and _backward are refused with
 * TRL_E_INVALID_ARGUMENT; evaluating, generating and saving are allowed, and see the state before the step.
 *
 * @param trainer [in] its gradients change.
 * @param out_metrics [out] nullable; loss and what else is known before the update; borrowed until the next
 *   step, half of one or evaluation of this trainer.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_END if nothing is left (trl_trainer_step then closes the run), TRL_E_UNSUPPORTED for a
 *   run with optimizer_in_backward, and of ppo, whose step has several updates; and the errors of
 * trl_trainer_step.
 * Contract: borrowed; exclusive; blocks; log, next, rewind; after an error the step has not begun.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_backward(trl_trainer* trainer, const trl_metrics** out_metrics,
                                        trl_error** error) TRL_NOEXCEPT;

/**
 * Does the second half of a step that trl_trainer_backward has begun: clipping and the optimizer's update, or
 * their omission, and all that follows a step (log record, evaluation, save).
 *
 * @param trainer [in] changed.
 * @param apply [in] 1: the weights are updated. 0: they are not, and moments of the optimizer stay; the step
 *   counts, its rows are used, its loss and gradient norm are recorded (skipped_steps counts it), and the
 *   schedule goes on.
 * @param out_metrics [out] nullable; of the step; borrowed as those of trl_trainer_step.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT if no step has begun, and the errors of trl_trainer_step.
 * Contract: borrowed; exclusive; blocks; log; after an error before the update the step is still the begun
 * one; trl_trainer_update may be called again.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_update(trl_trainer* trainer, int32_t apply, const trl_metrics** out_metrics,
                                      trl_error** error) TRL_NOEXCEPT;

/**
 * Sets the learning rate of the next steps, in place of the schedule's. Checkpoints keep it, so a resumed run
 * goes on with it.
 *
 * @param trainer [in] changed.
 * @param learning_rate [in] not below 0; NaN: that of the schedule again, at its present place.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT.
 * Contract: any thread, also in callbacks (from the next step on); does not block; no callbacks; after an
 * error the rate is as before.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_set_learning_rate(trl_trainer* trainer, double learning_rate,
                                                 trl_error** error) TRL_NOEXCEPT;

/* The kinds of events, and their numbers besides step, max_steps and epoch. Tolerate unknown ones.
 */
enum {
  TRL_ON_TRAIN_BEGIN = 0, /* num_examples, num_train_epochs, train_batch_size, gradient_accumulation_steps */
  TRL_ON_STEP = 1,        /* an optimizer step is done: loss, grad_norm, learning_rate, num_tokens ... */
  TRL_ON_LOG = 2,         /* a record of trainer_state.json's log_history: numbers, the text completions */
  TRL_ON_EVALUATE = 3,    /* an evaluation is done: eval_loss, eval_runtime ... */
  TRL_ON_SAVE = 4,        /* a directory was written: the text path (trl_metrics_text) */
  TRL_ON_EPOCH = 5,       /* an epoch is done, or was cut short: epoch says how much of it */
  TRL_ON_TRAIN_END = 6    /* the summary: train_loss, train_runtime ... */
};

/* The answers of an event callback; several may be combined. */
enum { TRL_EVENT_STOP = 1, TRL_EVENT_SAVE = 2, TRL_EVENT_EVALUATE = 4 };

/* metrics, valid during the call, always has step, max_steps and epoch. Returns 0 to continue, TRL_EVENT_*
 * bits, or a number below 0, which ends the run as TRL_EVENT_STOP does and makes the call TRL_E_CALLBACK. */
typedef int32_t (*trl_event_fn)(void* user_data, int32_t event, const trl_metrics* metrics);

/**
 * Trains to the end, or until the callback or trl_trainer_cancel stops it.
 *
 * Every event may be answered with every bit: TRL_EVENT_SAVE writes a checkpoint into output_dir and
 * TRL_EVENT_EVALUATE evaluates, when the event's step is done and once more after the end; TRL_EVENT_STOP
 * ends the run before the next step. Checkpoints are written automatically, as save_strategy says; one that
 * cannot be written is left out with a warning, and training continues to the next one. The final model is
 * saved by trl_trainer_save. The log has a line for each event, steps and records as debug lines.
 *
 * If trl_trainer_step has begun the run and no callback knows of it, TRL_ON_TRAIN_BEGIN comes before the
 * first other event.
 *
 * After a callback has stopped or failed a run, the next call resumes it with the step and the row that come
 * next, in the state that an uninterrupted run has there; its events begin with TRL_ON_TRAIN_BEGIN again. It
 * is refused with TRL_E_INVALID_CONFIG if load_best_model_at_end has put the weights of another step in.
 *
 * @param trainer [in] changed.
 * @param on_event [in] nullable.
 * @param user_data [in] given to on_event.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK at the end or after TRL_EVENT_STOP, TRL_END when the run was complete before this call,
 *   TRL_E_CANCELLED, TRL_E_CALLBACK, TRL_E_INVALID_ARGUMENT for TRL_EVENT_EVALUATE without evaluation rows,
 *   and the errors of trl_trainer_step.
 * Contract: exclusive; blocks; event, log, next, rewind; after an error the trainer is usable, except after
 * TRL_E_DEVICE.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_train(trl_trainer* trainer, trl_event_fn on_event, void* user_data,
                                     trl_error** error) TRL_NOEXCEPT;

/**
 * Evaluates on the evaluation rows, or on others.
 *
 * @param trainer [in] its weights are not changed. The record of its own evaluation rows is added to the
 *   state; that of other rows is not, and neither random numbers nor the best checkpoint depend on it.
 * @param rows [in] nullable: the evaluation rows that the trainer was created with. Others are prepared as
 *   those are, during the call.
 * @param out_metrics [out] nullable; borrowed until the next step, half of one or evaluation of this trainer.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT without evaluation rows, TRL_E_UNSUPPORTED for other rows of a
 *   method that writes completions or with `precompute_ref_log_probs`, TRL_E_FORMAT for a bad row,
 *   TRL_E_CANCELLED, TRL_E_OUT_OF_MEMORY.
 * Contract: borrowed; exclusive; blocks; log, next, rewind; after an error the trainer is usable, except
 * after TRL_E_DEVICE.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_evaluate(trl_trainer* trainer, const trl_dataset* rows,
                                        const trl_metrics** out_metrics, trl_error** error) TRL_NOEXCEPT;

/**
 * Saves the model: a directory that transformers loads, with weights, configuration, tokenizer and chat
 * template; if the trainer's configuration has `save_format` gguf, a directory with the file model.gguf,
 * which llama.cpp loads. With use_peft only the adapter is saved, as PEFT does it, unless `save.kind` is
 * merged: then all weights with the adapter in them. With `save.kind` checkpoint also all that a later
 * trainer needs to resume from here bit by bit
 * (`resume_from_checkpoint`), unless save_only_model is true.
 *
 * Written aside and then moved, so that no incomplete directory is ever seen. Works after TRL_E_CANCELLED
 * too; of a step of ppo that was cancelled between its updates, it makes the other ones first.
 *
 * @param trainer [in] its training is not changed.
 * @param path [in] nullable: output_dir for the model; for a checkpoint checkpoint-<global_step> in
 * output_dir, where save_total_limit counts it and trainer_state.json is written next to it.
 * @param options [in] nullable; the group `save`.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_IO (also if path is a checkpoint of another run), TRL_E_NOT_FOUND, TRL_E_CANCELLED.
 * Contract: exclusive; blocks on the disk; log; after an error the files at path are untouched.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_save(trl_trainer* trainer, const char* path, const trl_config* options,
                                    trl_error** error) TRL_NOEXCEPT;

/* Called with the rows of a generation: TRL_OK when all of them are set, TRL_LATER when trl_rollout_finish
 * follows, below 0 to fail. */
typedef int32_t (*trl_rollout_fn)(void* user_data, trl_rollout* rollout);

/**
 * Adds a function that rewards completions, for methods that write them. It is called once for each
 * generation, with all its rows, and sets a reward for each (trl_rollout_set_reward). Rewards are summed,
 * weighted by `reward_weights`, in the order: reward_model_name_or_path, reward_funcs, functions in the order
 * in which they were added. All functions of the host are asked before the first answer is awaited, and while
 * they work, log-probabilities and the first forward of the update are computed; with `reward_by_group` each
 * is called for the rows of one prompt as soon as they are written, and then returns at best TRL_LATER. The
 * function that `judge` names is called with a row for each pair, and sets the probability that the first
 * completion is better.
 *
 * @param trainer [in] changed; before its first step.
 * @param name [in] of the metrics rewards/NAME/mean and rewards/NAME/std; copied. It may be the name of an
 * entry [NAME=]command:LINE of reward_funcs, whose place the function then takes: the library runs no program
 * itself.
 * @param function [in]
 * @param user_data [in] given to function.
 * @param destroy [in] nullable; called with user_data when the trainer is gone, or when this call fails.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG for a name that another reward has, TRL_E_INVALID_ARGUMENT for a
 *   method that writes no completions, TRL_E_BUSY.
 * Contract: exclusive; does not block; rollout, later, inside calls that train or evaluate, on their thread;
 * after an error the trainer is as before and destroy was called. A reward that fails, or does not answer
 * within `reward_timeout`, ends that call with TRL_E_CALLBACK, unless `on_reward_error` is none; the step can
 * be tried again.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_add_reward(trl_trainer* trainer, const char* name, trl_rollout_fn function,
                                          void* user_data, trl_destroy_fn destroy,
                                          trl_error** error) TRL_NOEXCEPT;

/**
 * Has the host write the completions of a trainer, in place of its own generation. The function is called
 * once for each generation, with all its rows (equal prompts follow one another), and sets a completion for
 * each (trl_rollout_set_completion). `replay_rollouts` goes before it.
 *
 * The function may write them with generators of the trainer's model (trl_model_from_trainer) that were
 * created before: until it returns or, after TRL_LATER, until trl_rollout_finish, one thread at a time may
 * call trl_generator_add, _step, _extend, _cancel, _take, _generate and _release_memory, in the function or
 * elsewhere; a second one waits for its turn. Nothing is copied: they use the weights as they are, and keys
 * and values are given back when the generation is written, before the update. Row r of generation g (from 0,
 * all rows of one: R) gets the tokens that the trainer would write with generate.stream g * R + r,
 * generate.seed as `seed` and the other options as the trainer's; equal prompts may be one request with
 * generate.num_return_sequences.
 *
 * @param trainer [in] changed; before its first step.
 * @param rollout [in]
 * @param user_data [in] given to rollout.
 * @param destroy [in] nullable; called with user_data when the trainer is gone, when another function takes
 *   this one's place, or when this call fails.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT for a method that writes no completions, TRL_E_INVALID_CONFIG with
 * `resample_zero_std`, TRL_E_BUSY.
 * Contract: exclusive; does not block; rollout, later, inside calls that train or evaluate, on their thread;
 * after an error the trainer is as before and destroy was called.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_set_rollout(trl_trainer* trainer, trl_rollout_fn rollout, void* user_data,
                                           trl_destroy_fn destroy, trl_error** error) TRL_NOEXCEPT;

/**
 * Has the host answer the tools that completions call, for a trainer with the options `tools` or
 * `environments` (grpo, distillation). The engine finds the calls of a turn, asks for their results, and goes
 * on behind them in the same conversation, whose keys and values it keeps; no loss and no length counts the
 * tokens of an answer. The function is called with the rows that have something to ask; beside what
 * trl_rollout_get describes, a row has `ask`, `place` (of its completion in the generation, from 0) and, with
 * `environments`, `environment`. It sets one value of each row (trl_rollout_set_value), by `ask`:
 *
 * - reset: resets the environment of each row before a generation; asked only with `environments`.
 *   `observation`: a text, or a list of parts, that is added to the last message of the prompt; optional.
 * - call: `calls` is a list of {name, arguments}, in order, and `completion` the messages so far. `results`:
 *   a list with one result for each call. A text and a list of parts are the answer as they are,
 *   {"error": TEXT} says that the call failed, any other JSON is written as Python's str() does. Calls of a
 *   tool that the row does not have are answered with an error and are not in the list.
 * - parse: asked only with `tool_call_parser: host`. `completion` is the text of the turn, with special
 *   tokens. `message`: {role: assistant, content, tool_calls: [{type: function, function: {name,
 *   arguments}}]}; without tool_calls the completion ends.
 *
 * A reward of an environment is a function of trl_trainer_add_reward, which has the rows of a generation in
 * the order of `place`, with all messages in `completion`, and gives NaN for rows of other environments. A
 * function of trl_trainer_set_rollout is called for each turn: later ones have the rows that go on, with all
 * tokens so far in `prompt_ids`, the messages in `messages`, and `place`.
 *
 * @param trainer [in] changed; before its first step.
 * @param tools [in]
 * @param user_data [in] given to tools.
 * @param destroy [in] nullable; called with user_data when the trainer is gone, when another function takes
 *   this one's place, or when this call fails.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG for a trainer without tools, TRL_E_INVALID_ARGUMENT for a method that
 *   writes no completions, TRL_E_BUSY.
 * Contract: exclusive; does not block; tools, later, inside calls that train or evaluate, on their thread;
 * after an error the trainer is as before and destroy was called. A function that fails, does not answer
 * within `reward_timeout`, or sets no value ends that call with TRL_E_CALLBACK; the step can be tried again.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_set_tools(trl_trainer* trainer, trl_rollout_fn tools, void* user_data,
                                         trl_destroy_fn destroy, trl_error** error) TRL_NOEXCEPT;

/**
 * Returns how many rows a rollout has: one for each completion.
 *
 * @param rollout [in] as given to trl_rollout_fn; valid until that returns, or until trl_rollout_finish.
 * @return the number; 0 for NULL.
 * Contract: any thread, also in callbacks; does not block; no callbacks.
 * @since 0.1
 */
TRL_API size_t trl_rollout_count(const trl_rollout* rollout) TRL_NOEXCEPT;

/**
 * Describes a row: `mode` (train or eval), `step` (updates done before), `row` (of the dataset), `prompt` (a
 * text, or a list of messages), `prompt_ids` and `columns` (the row's other columns by name); for rewards
 * also `completion` (a text, or a list of messages) and `completion_ids`, which Online DPO pads to the length
 * of the longest row, as TRL does, and `generation` (the number of the generation that the rows are of, from
 * 1; rollouts of one have the same); for a judge also `other_completion` and `other_completion_ids`.
 *
 * @param rollout [in]
 * @param index [in] of the row, from 0.
 * @param out_json [out] NUL-terminated UTF-8.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT for another index.
 * Contract: out_json lives as long as the rollout; any thread, also in callbacks; does not block; no
 * callbacks; after an error out_json is NULL.
 * @since 0.1
 */
TRL_API trl_status trl_rollout_get(const trl_rollout* rollout, size_t index, const char** out_json,
                                   trl_error** error) TRL_NOEXCEPT;

/**
 * Sets the reward of a row.
 *
 * @param rollout [in] changed; of trl_trainer_add_reward.
 * @param index [in] of the row.
 * @param reward [in] NaN: the function does not score this completion. A number beyond float32 makes the
 *   reward fail.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT for another index, and for a row that was set before.
 * Contract: any thread, also in callbacks; does not block; no callbacks; after an error the row is as before.
 * @since 0.1
 */
TRL_API trl_status trl_rollout_set_reward(trl_rollout* rollout, size_t index, double reward,
                                          trl_error** error) TRL_NOEXCEPT;

/**
 * Sets the completion of a row.
 *
 * @param rollout [in] changed; of trl_trainer_set_rollout.
 * @param index [in] of the row.
 * @param ids [in] token ids, copied; nullable when count is 0.
 * @param count [in] how many.
 * @param log_probs [in] nullable; count log-probabilities with which the ids were drawn, in nats, at the
 *   trainer's temperature, at most 0 but for rounding (1e-4); NaN: not known. Copied.
 * @param written [in] nullable: all are the model's. count bytes: 0 for a token that the model did not write,
 *   such as the answer of a tool, which no loss and no length counts. Copied.
 * @param columns [in] nullable; a JSON object of columns that are added to the row for its rewards. Copied.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT for another index, for a row that was set before, and for a
 *   log-probability that is infinite or above 0, TRL_E_FORMAT for columns that are not an object.
 * Contract: any thread, also in callbacks; does not block; no callbacks; after an error the row is as before.
 * Ids outside the vocabulary end the step with an error.
 * @since 0.1
 */
TRL_API trl_status trl_rollout_set_completion(trl_rollout* rollout, size_t index, const int32_t* ids,
                                              size_t count, const float* log_probs, const uint8_t* written,
                                              const char* columns, trl_error** error) TRL_NOEXCEPT;

/**
 * Adds a value to the metrics of the step: its record has the mean of all values of that name.
 *
 * @param rollout [in] changed.
 * @param name [in] of the metric; copied.
 * @param value [in] NaN: none.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: any thread, also in callbacks; does not block; no callbacks; after an error nothing is added.
 * @since 0.1
 */
TRL_API trl_status trl_rollout_log(trl_rollout* rollout, const char* name, double value,
                                   trl_error** error) TRL_NOEXCEPT;

/**
 * Sets a named value of a row: of a reward and of a rollout, a column of the completions that are recorded
 * (`log_completions`), beside its rewards; of a function of trl_trainer_set_tools, its answer. Of a reward,
 * the value `error`, a text, says why the row has none: it ends the step with that text, or with
 * `on_reward_error: none` the row counts as none, with a warning, and the others keep their rewards.
 *
 * @param rollout [in] changed.
 * @param index [in] of the row.
 * @param name [in] of the column, or of the answer; copied. Rows without a value have null in a column.
 * @param json [in] the value: NUL-terminated JSON; copied.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT for another index, and for a name that is not the answer asked for,
 *   TRL_E_FORMAT for text that is not JSON.
 * Contract: any thread, also in callbacks; does not block; no callbacks; after an error nothing is set.
 * @since 0.1
 */
TRL_API trl_status trl_rollout_set_value(trl_rollout* rollout, size_t index, const char* name,
                                         const char* json, trl_error** error) TRL_NOEXCEPT;

/**
 * Ends a rollout whose function returned TRL_LATER: all its rows are set, or it failed. The rollout must not
 * be used afterwards.
 *
 * @param rollout [in] ended.
 * @param message [in] nullable: it did not fail. The reason of the failure, for the error of the step;
 * copied.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_ARGUMENT if it was ended before.
 * Contract: any thread, also in callbacks; does not block; no callbacks; after an error the rollout is as
 * before.
 * @since 0.1
 */
TRL_API trl_status trl_rollout_finish(trl_rollout* rollout, const char* message,
                                      trl_error** error) TRL_NOEXCEPT;

/**
 * Asks the call that runs on a trainer, or else the next one, to stop at the next safe point with
 * TRL_E_CANCELLED.
 *
 * Safe points are between the kernels of a layer and the tiles of attention, products and the head, between
 * tokens, rows and pieces of files, so that a call ends within a fraction of a second. The step that was
 * running is undone: weights, optimizer, random numbers and the place in the rows are as they were before it,
 * and the next step repeats it exactly. An optimizer update that has begun is completed, and its step counts;
 * with optimizer_in_backward that takes until the end of backward.
 * The trainer can still be saved and stepped. Each request ends one call; a request that is made after the
 * end of the run, while no call is running, is dropped. Of a call that trains and one of a generator beside
 * it, it ends the one that trains; trl_runtime_cancel ends both, and the second while it waits, too.
 *
 * @param trainer [in] nullable; must not be destroyed before the call is over.
 * Contract: signal-safe; never blocks; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_trainer_cancel(trl_trainer* trainer) TRL_NOEXCEPT;

/**
 * Pauses what a trainer computes: trl_trainer_step and its halves, _train and _evaluate, and
 * trl_generator_generate and _step with a generator of the trainer, wait at their next safe point (the same
 * as for trl_trainer_cancel) until trl_trainer_resume.
 *
 * The pause holds the call that is running now, or else the next one. A held call keeps all its memory and
 * later continues with results that are the same bit for bit; the time it waited counts as part of the run.
 * Pausing twice has the effect of pausing once. A cancel ends a held call, and the trainer stays paused; the
 * end of the process ends it too. Saving and the other functions of a generator are not held, but they return
 * TRL_E_BUSY while a held call is at work on the trainer; its state can be read. Destroying a paused trainer
 * ends the held call with TRL_E_CANCELLED.
 *
 * @param trainer [in] nullable.
 * Contract: signal-safe; never blocks; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_trainer_pause(trl_trainer* trainer) TRL_NOEXCEPT;

/**
 * Ends the pause that trl_trainer_pause began; if the trainer is not paused, this does nothing.
 *
 * @param trainer [in] nullable.
 * Contract: signal-safe; never blocks; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_trainer_resume(trl_trainer* trainer) TRL_NOEXCEPT;

/**
 * The state of the training as JSON, as in trainer_state.json: global_step, max_steps, epoch, log_history
 * ..., and `metrics`, an object with the numbers of the last step. A number that is not finite is null here;
 * that file has the bare words NaN and Infinity. While a call trains, this is the state after the last step
 * that is done.
 *
 * @param trainer [in] its training is not changed.
 * @param out_json [out] borrowed until the same thread describes this trainer again, or it is destroyed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK.
 * Contract: borrowed; any thread, also in callbacks; does not block; no callbacks; after an error out_json is
 * NULL.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_describe(trl_trainer* trainer, const char** out_json,
                                        trl_error** error) TRL_NOEXCEPT;

/**
 * Reads integers of a trainer by a name: global_step (steps that are done), max_steps, vocab_size (rows of
 * the model's embedding), parameter_count, trained_parameter_count, eos_token_ids (the ids that end a text of
 * the model, any number of them).
 *
 * @param trainer [in] not changed.
 * @param name [in] one of those above.
 * @param values [out] receives the first `capacity` integers; nullable when capacity is 0.
 * @param capacity [in] room in integers.
 * @param out_count [out] nullable; how many integers there are: 1 for each name that says nothing else.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND for another name.
 * Contract: any thread, also in callbacks; does not block; no callbacks; after an error out_count is 0.
 * @since 0.1
 */
TRL_API trl_status trl_trainer_get_integers(const trl_trainer* trainer, const char* name, int64_t* values,
                                            size_t capacity, size_t* out_count,
                                            trl_error** error) TRL_NOEXCEPT;

/**
 * Frees a trainer; a generator created from it continues to work, with the weights as they are.
 *
 * @param trainer [in] nullable; consumed.
 * Contract: exclusive, last use; short; destroy functions of objects that only it kept alive; cannot fail.
 * @since 0.1
 */
TRL_API void trl_trainer_destroy(trl_trainer* trainer) TRL_NOEXCEPT;

/**
 * Reads one number by its name, such as "loss".
 *
 * @param metrics [in] not changed.
 * @param name [in] TRL's name of the metric.
 * @param out_value [out] the number.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_INVALID_ARGUMENT.
 * Contract: concurrent on const; does not block; no callbacks; after an error out_value is 0.
 * @since 0.1
 */
TRL_API trl_status trl_metrics_get(const trl_metrics* metrics, const char* name,
                                   double* out_value) TRL_NOEXCEPT;

/**
 * Reads one text by its name: "path", the directory that was written, of TRL_ON_SAVE; "completions" of
 * TRL_ON_LOG, with `log_completions` and if there are new ones to show: a JSON object with `mode`
 * (train or eval), `rewards` and `extras` (names) and `rows`, objects with `step`, `prompt` and `completion`
 * (each a text, or a list of messages), each reward (null: none), each extra and, if the method learns from
 * it, `advantage`.
 *
 * @param metrics [in] not changed.
 * @param name [in] of the text.
 * @return borrowed as long as metrics; NULL when there is no such text.
 * Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_metrics_text(const trl_metrics* metrics, const char* name) TRL_NOEXCEPT;

/**
 * Walks the names of the numbers, in the order of TRL's records.
 *
 * @param metrics [in] not changed.
 * @param previous [in] NULL for the first name, else the result of the last call.
 * @return borrowed as long as metrics; NULL at the end, and if previous is not a name in it.
 * Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_metrics_next(const trl_metrics* metrics, const char* previous) TRL_NOEXCEPT;

/* ---- evaluation ---------------------------------------------------------------------------------- */

/**
 * Opens a model to measure it on rows, as the evaluations of a run do, without a run: nothing is trained and
 * no output directory is needed.
 *
 * The configuration is that of a run: `method` (sft, dpo, kto, reward), `model_name_or_path` (the directory
 * of a model, of an adapter, whose adapter_config.json names the model, or a GGUF file),
 * `adapter_name_or_path`, `dtype`, `load_in_4bit`, `load_in_8bit`, `bf16`, `ref_model_name_or_path`,
 * `per_device_eval_batch_size`, and the keys of rows, chat template and loss. Keys that concern only training
 * (optimizer, checkpoints, `use_peft`, `memory_budget` ...) are not read, so that a recipe can be given as it
 * is. The reference of dpo and kto is `ref_model_name_or_path`, or else the model without its adapter; a
 * model that is its own reference has rewards of 0.
 *
 * Memory holds only as much as a forward needs. On the CPU the matrices of the model stay in their files,
 * mapped, and are used in place; only weights of linear layers that are quantised, or wider
 * than the bfloat16 that `bf16` asks for, take memory of their own (the latter only if
 * `runtime.host_memory_limit` has room for them), as do an adapter and vectors. If that limit is too little
 * for the model and one token, no weight is read.
 *
 * @param runtime [in] nullable.
 * @param config [in] copied.
 * @param out_evaluator [out] owned by the caller, freed by trl_evaluator_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG, TRL_E_NOT_FOUND, TRL_E_IO, TRL_E_FORMAT, TRL_E_UNSUPPORTED,
 *   TRL_E_OUT_OF_MEMORY, TRL_E_CANCELLED.
 * Contract: caller owns; any thread; blocks while it loads; log, progress; after an error out_evaluator is
 * NULL and no memory is held.
 * @since 0.1
 */
TRL_API trl_status trl_evaluator_create(trl_runtime* runtime, const trl_config* config,
                                        trl_evaluator** out_evaluator, trl_error** error) TRL_NOEXCEPT;

/**
 * Measures the model on rows: the numbers of an evaluation within a run, under the same names.
 *
 * They are eval_loss, eval_runtime (seconds), eval_samples_per_second, eval_steps_per_second, and the means
 * of the method's metrics: eval_entropy and eval_mean_token_accuracy of sft; eval_rewards/chosen,
 * eval_rewards/accuracies and so on of dpo and kto; eval_accuracy, eval_margin, eval_mean_reward and so on of
 * reward. eval_perplexity, the exponential of eval_loss, is there if the loss is the mean of -log p of
 * tokens: of the method sft, without `label_smoothing_factor`, without `loss_type` dft, and without the
 * routers' loss of a mixture of experts. The order of the rows is that of the dataset.
 *
 * Nothing is written, except prepared rows into `dataset_cache_dir` if that is set, and rows that memory does
 * not take into a file without a name in the folder for temporary files.
 *
 * @param evaluator [in] may be used again, with other rows too.
 * @param rows [in] read during the call.
 * @param out_metrics [out] borrowed until the next call on this evaluator.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG, TRL_E_FORMAT for a bad row, TRL_E_IO, TRL_E_OUT_OF_MEMORY (before
 *   anything is computed if `runtime.host_memory_limit` is too little for the longest row),
 *   TRL_E_INVALID_ARGUMENT if a loss is not finite because a weight is not, under `on_nonfinite` error,
 *   TRL_E_CANCELLED, TRL_E_CALLBACK.
 * Contract: borrowed; exclusive; blocks; log, progress (phase "evaluate": done rows of total), next, rewind;
 * after an error out_metrics is NULL and the evaluator usable.
 * @since 0.1
 */
TRL_API trl_status trl_evaluator_evaluate(trl_evaluator* evaluator, const trl_dataset* rows,
                                          const trl_metrics** out_metrics, trl_error** error) TRL_NOEXCEPT;

/**
 * Completes `sample_prompts` with the model of an evaluator, as the samples of a run are completed: tokens
 * are chosen as `generate.*` says, and a completion ends after `sample_max_new_tokens`.
 *
 * The JSON array has an object {prompt (a text, or a list of messages), completion (text)} for each of the
 * `generate.num_return_sequences` completions of each prompt; it is empty without `sample_prompts`.
 *
 * @param evaluator [in] may be used again.
 * @param out_json [out] borrowed until the next such call on this evaluator.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG for values of `generate.*` that do not suit the model,
 *   TRL_E_OUT_OF_MEMORY, TRL_E_CANCELLED.
 * Contract: borrowed; exclusive; blocks; log; after an error out_json is NULL and the evaluator usable.
 * @since 0.1
 */
TRL_API trl_status trl_evaluator_complete(trl_evaluator* evaluator, const char** out_json,
                                          trl_error** error) TRL_NOEXCEPT;

/**
 * Frees an evaluator, its model and its metrics.
 *
 * @param evaluator [in] nullable; consumed.
 * Contract: exclusive, last use; short; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_evaluator_destroy(trl_evaluator* evaluator) TRL_NOEXCEPT;

/* ---- generation ---------------------------------------------------------------------------------- */

/**
 * Creates a generator for a model; for that of a trainer (trl_model_from_trainer) it sees every step at once.
 * Beside a call that trains on another thread, its calls take turns with the steps, which they do not change,
 * and a call of the trainer waits for that of a generator; within a callback of the call that trains
 * they return TRL_E_BUSY, except in a rollout that the host is asked for (trl_trainer_set_rollout). A reward,
 * judge or tool that answers with TRL_LATER must not wait for such a call: it has its turn after the step,
 * which waits for the answer. A thread that has called a trl_rollout function for it gets TRL_E_BUSY until
 * trl_rollout_finish.
 *
 * With `serve_share` they do not wait for the steps: they compute beside them, with the adapter as it was
 * after one (`serve_swap`), and see every step when its adapter is done. Adapters are then added and removed
 * beside the steps, too, and serve these generators alone; the frozen weights are not written
 * (trl_model_write_tensor).
 *
 * @param model [in] kept alive.
 * @param tokenizer [in] nullable: the model's own; kept alive.
 * @param out_generator [out] owned by the caller, freed by trl_generator_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_FORMAT, TRL_E_UNSUPPORTED for a reward model and for a tokenizer
 *   that cannot be opened.
 * Contract: caller owns; any thread; blocks on the tokenizer's files; log; after an error out_generator is
 * NULL.
 * @since 0.1
 */
TRL_API trl_status trl_generator_create(trl_model* model, trl_tokenizer* tokenizer,
                                        trl_generator** out_generator, trl_error** error) TRL_NOEXCEPT;

/* One new token of completion number `prompt`, which is the prompt's unless there are several of each. text
   holds whole characters; it is empty while one is unfinished, and valid during the call. log_probability is
   the token's, in nats, as in `logprobs` of trl_completions_json; NaN without generate.logprobs. Returns 0 to
   continue; anything else ends this prompt's completion. */
typedef int32_t (*trl_token_fn)(void* user_data, size_t prompt, int32_t token, const char* text, size_t size,
                                double log_probability);

/**
 * Completes prompts, which are taken unchanged, with the tokens that the tokenizer adds (a begin token that
 * a prompt spells out is not added again), or with `generate.chat` as one user message each. A prompt that is
 * JSON of a list of messages, or of a row with `messages`, a list of them in `prompt`, or `conversations`, is
 * that conversation then, with the row's `tools`; the answers at the end of `messages` are left out.
 *
 * Reads the group `generate` of options (max_new_tokens, temperature, top_p ...), over which its
 * generation_kwargs go; temperature 0 is greedy and the default. A completion ends at an end token (the
 * model's and the tokenizer's, or those that options name), before a text of stop, or at max_new_tokens. A
 * text of stop may contain the spelling of a special token, although the completion's text has none. Tokens
 * are drawn by Philox4x32-10 (key: the seed; counter: the token's number in its completion, then the number
 * of the completion's draws, see generate.stream) from the inverse of the cumulative distribution, in order
 * of ids. With num_return_sequences n, completion j of prompt i has the number i * n + j, in callbacks and in
 * out_completions. All are computed together: callbacks of different completions alternate, those of one come
 * in order. One that cannot go on, because its logits are not numbers or memory is missing, ends with the
 * reason "abort" and its error in trl_completions_json; the others are completed.
 *
 * @param generator [in] changed.
 * @param prompts [in] count texts.
 * @param lengths [in] nullable: the prompts end in NUL; else their bytes.
 * @param count [in] prompts.
 * @param options [in] nullable. Keys of other groups are not read.
 * @param on_token [in] nullable.
 * @param user_data [in] given to on_token.
 * @param out_completions [out] nullable; owned by the caller, freed by trl_completions_destroy.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_FORMAT for invalid UTF-8, TRL_E_INVALID_ARGUMENT for a prompt without tokens
 * or with more tokens than the model has positions, TRL_E_OUT_OF_MEMORY, TRL_E_CANCELLED (trl_runtime_cancel;
 * of a trainer also trl_trainer_cancel), TRL_E_CALLBACK, TRL_E_BUSY.
 * Contract: completions owned by the caller; exclusive; blocks; token, log (a warning
 * if new tokens may go beyond the model's positions); after an error out_completions is NULL and the
 * generator usable.
 * @since 0.1
 */
TRL_API trl_status trl_generator_generate(trl_generator* generator, const char* const* prompts,
                                          const size_t* lengths, size_t count, const trl_config* options,
                                          trl_token_fn on_token, void* user_data,
                                          trl_completions** out_completions, trl_error** error) TRL_NOEXCEPT;

/**
 * Adds a request: completions of one prompt, which trl_generator_step computes together with those of all
 * other requests of this generator. Requests begin in the order in which they
 * were added; any number may wait.
 *
 * Reads the group `generate` of options, for this request alone. Its draws depend on generate.seed and on the
 * place among the num_return_sequences completions of the prompt, whatever runs beside it.
 *
 * @param generator [in] changed.
 * @param text [in] nullable: ids instead. As a prompt of trl_generator_generate.
 * @param size [in] bytes of text.
 * @param ids [in] nullable: text instead. Token ids, taken unchanged: `generate.chat` and `generate.system`
 * are refused with them.
 * @param count [in] how many ids.
 * @param options [in] nullable. Keys of other groups are not read.
 * @param out_first [out] the number of the first completion; the others follow.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_INVALID_CONFIG, TRL_E_INVALID_ARGUMENT for a prompt without tokens, with an id
 * outside the vocabulary or with more tokens than the model has positions, TRL_E_FORMAT for invalid UTF-8,
 *   TRL_E_OUT_OF_MEMORY for a prompt that kv_cache_memory cannot hold, TRL_E_NOT_FOUND for an unknown
 * adapter, TRL_E_BUSY.
 * Contract: text and ids borrowed during the call; exclusive; does not block, except that the first call with
 * `generation_dtype` makes the copies of the weights, in about the time in which these are read once; later
 * steps make them anew; log (a warning if new tokens may go beyond the model's positions); after an error no
 * request is added.
 * @since 0.1
 */
TRL_API trl_status trl_generator_add(trl_generator* generator, const char* text, size_t size,
                                     const int32_t* ids, size_t count, const trl_config* options,
                                     size_t* out_first, trl_error** error) TRL_NOEXCEPT;

/**
 * Computes one step: a token of each completion that runs, and a part of the prompts that begin. Weights are
 * used as they are: of a trainer, those of its last step, of which copies (`generation_dtype`) are made anew
 * here. Generators of one model share the memory of keys and values: those that came first go on.
 *
 * If there is no memory for more keys and values, completions share what there is, the youngest waiting; one
 * that needs more than all of it, or whose new token finds no memory, ends with the reason "abort".
 *
 * @param generator [in] changed.
 * @param on_token [in] nullable. Its `prompt` is the completion's number. Other than 0 ends that completion.
 * @param user_data [in] given to on_token.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_END if there was nothing to do, TRL_E_OUT_OF_MEMORY, TRL_E_CANCELLED, TRL_E_CALLBACK
 *   (the completion of that callback has ended), TRL_E_BUSY.
 * Contract: exclusive; blocks for one step; token; a call of a function with this generator within on_token
 * returns TRL_E_BUSY; after any other error all completions are as before the call, and the next call
 * computes the same step.
 * @since 0.1
 */
TRL_API trl_status trl_generator_step(trl_generator* generator, trl_token_fn on_token, void* user_data,
                                      trl_error** error) TRL_NOEXCEPT;

/**
 * Continues a completion that has ended and was added with generate.keep: true, after more tokens, such as
 * the answer of a tool. What was computed of it is not computed again, as long as its memory was not needed
 * and weights did not change. Its text, ids and reason begin anew; its draws go on.
 *
 * @param generator [in] changed.
 * @param completion [in] its number.
 * @param text [in] nullable: ids instead. Encoded as it stands, without a begin token.
 * @param size [in] bytes of text.
 * @param ids [in] nullable: text instead.
 * @param count [in] how many ids.
 * @param options [in] nullable. generate.max_new_tokens is read; all else remains as it was added.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_INVALID_ARGUMENT for a completion that did not end or was not kept,
 * and as trl_generator_add.
 * Contract: text and ids borrowed during the call; exclusive; does not block; no
 * callbacks; after an error the completion is as before.
 * @since 0.1
 */
TRL_API trl_status trl_generator_extend(trl_generator* generator, size_t completion, const char* text,
                                        size_t size, const int32_t* ids, size_t count,
                                        const trl_config* options, trl_error** error) TRL_NOEXCEPT;

/**
 * Ends completions, and frees what was kept of them. Their tokens so far can still be taken, with the reason
 * "cancelled" if they had not ended.
 *
 * @param generator [in] changed.
 * @param first [in] the number of the first.
 * @param count [in] how many; numbers that belong to no completion are skipped.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_BUSY.
 * Contract: exclusive; does not block; no callbacks.
 * @since 0.1
 */
TRL_API trl_status trl_generator_cancel(trl_generator* generator, size_t first, size_t count,
                                        trl_error** error) TRL_NOEXCEPT;

/**
 * Takes completions as they are, or with generate.take new what came since they were last taken. Those that
 * are over are the generator's no more, except for kept ones.
 *
 * @param generator [in] changed.
 * @param first [in] the number of the first.
 * @param count [in] how many.
 * @param out_completions [out] owned by the caller, freed by trl_completions_destroy; with the indices 0 to
 *   count - 1. trl_completions_finish_reason is NULL for those that go on, else "stop" (an end token of the
 * model or tokenizer), "stop_string" (a text of generate.stop), "length", "cancelled" (by
 * trl_generator_cancel or on_token) or "abort" (trl_completions_json has the error).
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_NOT_FOUND, TRL_E_BUSY.
 * Contract: caller owns; exclusive; does not block; no callbacks; after an error out_completions is NULL and
 * nothing is taken.
 * @since 0.1
 */
TRL_API trl_status trl_generator_take(trl_generator* generator, size_t first, size_t count,
                                      trl_completions** out_completions, trl_error** error) TRL_NOEXCEPT;

/**
 * Gives memory back until completions go on, with the same tokens: that of keys and values and prefix_cache,
 * and of copies of an opened model's weights in `generation_dtype`, or with `vllm_enable_sleep_mode`.
 *
 * @param generator [in] changed.
 * @param error [out] nullable; owned by the caller.
 * @return TRL_OK, TRL_E_BUSY.
 * Contract: exclusive; short; no callbacks.
 * @since 0.1
 */
TRL_API trl_status trl_generator_release_memory(trl_generator* generator, trl_error** error) TRL_NOEXCEPT;

/**
 * Frees a generator.
 *
 * @param generator [in] nullable; consumed.
 * Contract: exclusive, last use; short; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_generator_destroy(trl_generator* generator) TRL_NOEXCEPT;

/**
 * The text of a completion, without the prompt and without special tokens: all that on_token was given. Bytes
 * that are not UTF-8 become U+FFFD one by one; trl_tokenizer_decode replaces all bytes of the run, if a
 * tokenizer has tokens for single bytes.
 *
 * @param completions [in] not changed.
 * @param index [in] the completion's number: the prompt's, if there is one of each.
 * @param out_size [out] nullable; bytes without the NUL at the end.
 * @return borrowed until completions is destroyed; NULL for an index out of range.
 * Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_completions_text(const trl_completions* completions, size_t index,
                                         size_t* out_size) TRL_NOEXCEPT;

/**
 * The token ids of a completion, with the end token when it was reached.
 *
 * @param completions [in] not changed.
 * @param index [in] the completion's number: the prompt's, if there is one of each.
 * @param out_count [out] how many ids.
 * @return borrowed until completions is destroyed; NULL for an index out of range.
 * Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const int32_t* trl_completions_tokens(const trl_completions* completions, size_t index,
                                              size_t* out_count) TRL_NOEXCEPT;

/**
 * Why a completion ended: "eos_token" (an end token of the model or tokenizer), "stop_sequence" (a text of
 * generate.stop), "length" (generate.max_new_tokens), "callback" (on_token returned something other than 0
 * although it would have continued) or "abort" (trl_completions_json has the error).
 *
 * @param completions [in] not changed.
 * @param index [in] the completion's number: the prompt's, if there is one of each.
 * @return borrowed, valid for the life of the process; NULL for an index out of range.
 * Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_completions_finish_reason(const trl_completions* completions,
                                                  size_t index) TRL_NOEXCEPT;

/**
 * A completion as JSON: text, token_ids, finish_reason, stop_reason (the text of generate.stop or the id of
 * generate.stop_token_ids that ended it; absent: something else) and error (of one that was aborted). With
 * generate.usage it has cached_tokens, how many tokens of the prompt were known to prefix_cache; with
 * generate.prompt_logprobs prompt_logprobs, an item for each token of the prompt: null for the first, then
 * lists of [token id, log-probability, rank], of the token itself and of so many most likely ones. With
 * generate.logprobs it has lists with an item for each new token. logprobs: its log-probability in the whole
 * distribution at the temperature (greedy: 1), before penalties and removals, which is the one that training
 * computes; sampling_logprobs: in the distribution that it was drawn from (greedy: the softmax of the
 * penalised logits). With a number above 0, top_logprobs and sampling_top_logprobs: so many pairs [token id,
 * log-probability] of the most likely tokens of the same distributions, best first; the second has fewer if
 * fewer tokens could be drawn. Of a trainer's model with `serve_share`, weights {adapter, version,
 * last_version}: its adapter, and the steps whose adapter its first and its last token come from; the
 * versions are null for another adapter.
 *
 * @param completions [in] not changed.
 * @param index [in] the completion's number: the prompt's, if there is one of each.
 * @param out_size [out] nullable; bytes without the NUL at the end.
 * @return borrowed until completions is destroyed; NULL for an index out of range.
 * Contract: borrowed; concurrent on const; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API const char* trl_completions_json(const trl_completions* completions, size_t index,
                                         size_t* out_size) TRL_NOEXCEPT;

/**
 * Frees completions.
 *
 * @param completions [in] nullable; consumed.
 * Contract: exclusive, last use; does not block; no callbacks; cannot fail.
 * @since 0.1
 */
TRL_API void trl_completions_destroy(trl_completions* completions) TRL_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* TRL_TRL_H */
