#include "shim.h"

#include "_cgo_export.h"

static __thread uintptr_t current;

uintptr_t trlgo_enter(uintptr_t call) {
  const uintptr_t before = current;
  current = call;
  return before;
}

uintptr_t trlgo_current(void) { return current; }

static void forget(void* host) { trlgoForget((uintptr_t)host); }

static void on_log(void* host, int32_t level, const char* component, const char* text, size_t size) {
  trlgoLog((uintptr_t)host, level, (char*)component, (char*)text, size);
}

static int32_t on_progress(void* host, const char* phase, int64_t done, int64_t total) {
  return trlgoProgress((uintptr_t)host, (char*)phase, done, total);
}

static int32_t on_next(void* host, trl_record* record) { return trlgoNext((uintptr_t)host, record); }

static int32_t on_rewind(void* host) { return trlgoRewind((uintptr_t)host); }

static int32_t on_batch(void* host, const char* json, size_t size) {
  return trlgoBatch((uintptr_t)host, (char*)json, size);
}

static int32_t on_event(void* host, int32_t event, const trl_metrics* metrics) {
  return trlgoEvent((uintptr_t)host, event, (trl_metrics*)metrics);
}

static int32_t on_rollout(void* host, trl_rollout* rollout) { return trlgoRollout((uintptr_t)host, rollout); }

static int32_t on_token(void* host, size_t prompt, int32_t token, const char* text, size_t size) {
  return trlgoToken((uintptr_t)host, prompt, token, (char*)text, size);
}

trl_status trlgo_runtime_set_log(trl_runtime* runtime, uintptr_t host, trl_error** error) {
  return trl_runtime_set_log(runtime, host ? on_log : NULL, (void*)host, host ? forget : NULL, error);
}

trl_status trlgo_runtime_set_progress(trl_runtime* runtime, uintptr_t host, trl_error** error) {
  return trl_runtime_set_progress(runtime, host ? on_progress : NULL, (void*)host, host ? forget : NULL,
                                  error);
}

trl_status trlgo_dataset_from_callback(trl_runtime* runtime, uintptr_t host, const trl_config* options,
                                       trl_dataset** out_dataset, trl_error** error) {
  return trl_dataset_from_callback(runtime, on_next, on_rewind, (void*)host, forget, options, out_dataset,
                                   error);
}

trl_status trlgo_dataset_visit_batches(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                       const trl_config* options, int64_t first, int64_t count,
                                       uintptr_t host, trl_error** error) {
  return trl_dataset_visit_batches(dataset, tokenizer, options, first, count, on_batch, (void*)host, error);
}

trl_status trlgo_trainer_train(trl_trainer* trainer, uintptr_t host, trl_error** error) {
  return trl_trainer_train(trainer, host ? on_event : NULL, (void*)host, error);
}

trl_status trlgo_trainer_add_reward(trl_trainer* trainer, const char* name, uintptr_t host,
                                    trl_error** error) {
  return trl_trainer_add_reward(trainer, name, on_rollout, (void*)host, forget, error);
}

trl_status trlgo_trainer_set_rollout(trl_trainer* trainer, uintptr_t host, trl_error** error) {
  return trl_trainer_set_rollout(trainer, on_rollout, (void*)host, forget, error);
}

trl_status trlgo_trainer_set_tools(trl_trainer* trainer, uintptr_t host, trl_error** error) {
  return trl_trainer_set_tools(trainer, on_rollout, (void*)host, forget, error);
}

trl_status trlgo_generator_generate(trl_generator* generator, const char* const* prompts,
                                    const size_t* lengths, size_t count, const trl_config* options,
                                    uintptr_t host, trl_completions** out_completions, trl_error** error) {
  return trl_generator_generate(generator, prompts, lengths, count, options, host ? on_token : NULL,
                                (void*)host, out_completions, error);
}

trl_status trlgo_generator_step(trl_generator* generator, uintptr_t host, trl_error** error) {
  return trl_generator_step(generator, host ? on_token : NULL, (void*)host, error);
}
