// Wraps what cgo cannot express: functions of the host as C functions, whose user_data is a number (a
// cgo.Handle), and the call that a thread is in.
#ifndef TRL_GO_SHIM_H
#define TRL_GO_SHIM_H

#include <stdint.h>
#include <trl/trl.h>

// Sets the call that this thread is in, and returns the one that it was in before.
uintptr_t trlgo_enter(uintptr_t call);
uintptr_t trlgo_current(void);

trl_status trlgo_runtime_set_log(trl_runtime* runtime, uintptr_t host, trl_error** error);
trl_status trlgo_runtime_set_progress(trl_runtime* runtime, uintptr_t host, trl_error** error);
trl_status trlgo_runtime_mount(trl_runtime* runtime, const char* name, uintptr_t host, int32_t reads,
                               int32_t writes, trl_error** error);
trl_status trlgo_dataset_from_callback(trl_runtime* runtime, uintptr_t host, const trl_config* options,
                                       trl_dataset** out_dataset, trl_error** error);
trl_status trlgo_dataset_visit_batches(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                       const trl_config* options, int64_t first, int64_t count,
                                       uintptr_t host, trl_error** error);
trl_status trlgo_trainer_train(trl_trainer* trainer, uintptr_t host, trl_error** error);
trl_status trlgo_trainer_add_reward(trl_trainer* trainer, const char* name, uintptr_t host,
                                    trl_error** error);
trl_status trlgo_trainer_set_rollout(trl_trainer* trainer, uintptr_t host, trl_error** error);
trl_status trlgo_trainer_set_tools(trl_trainer* trainer, uintptr_t host, trl_error** error);
trl_status trlgo_generator_generate(trl_generator* generator, const char* const* prompts,
                                    const size_t* lengths, size_t count, const trl_config* options,
                                    uintptr_t host, trl_completions** out_completions, trl_error** error);
trl_status trlgo_generator_step(trl_generator* generator, uintptr_t host, trl_error** error);

// A tensor: of the library, which owner frees, or of the host.
typedef struct {
  void* owner;
  void* data;
  int64_t* shape;
  int32_t ndim;
  int32_t device;  // as in DLPack; 1: the host's memory
  uint8_t code, bits;
} trlgo_tensor;

trl_status trlgo_model_read_tensor(trl_model* model, const char* name, int32_t what, trlgo_tensor* out,
                                   trl_error** error);
trl_status trlgo_model_write_tensor(trl_model* model, const char* name, uint8_t code, uint8_t bits,
                                    void* data, int64_t* shape, int32_t ndim, trl_error** error);
void trlgo_tensor_free(void* owner);

#endif
