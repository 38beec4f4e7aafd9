#include "shim.h"

#include "_cgo_export.h"

// As DLPack's header defines it, version 1.
struct DLManagedTensorVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  struct {
    void* data;
    struct {
      int32_t type, id;
    } device;
    int32_t ndim;
    struct {
      uint8_t code, bits;
      uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
  } tensor;
};

enum { kHost = 1 };

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

static int64_t on_read(void* host, const char* file, uint64_t offset, void* buffer, size_t size) {
  return trlgoRead((uintptr_t)host, (char*)file, offset, buffer, size);
}

static int32_t on_write(void* host, int32_t what, const char* file, uint64_t offset, const void* data,
                        size_t size) {
  return trlgoWrite((uintptr_t)host, what, (char*)file, offset, (void*)data, size);
}

static int32_t on_next(void* host, trl_record* record) { return trlgoNext((uintptr_t)host, record); }

static int32_t on_rewind(void* host) { return trlgoRewind((uintptr_t)host); }

static int32_t on_batch(void* host, const char* json, size_t size) {
  return trlgoBatch((uintptr_t)host, (char*)json, size);
}

static int32_t on_event(void* host, int32_t event, const trl_metrics* metrics) {
  return trlgoEvent((uintptr_t)host, event, (trl_metrics*)metrics);
}

static int32_t on_reward(void* host, trl_rollout* rollout) { return trlgoReward((uintptr_t)host, rollout); }
static int32_t on_rollout(void* host, trl_rollout* rollout) { return trlgoRollout((uintptr_t)host, rollout); }

static int32_t on_token(void* host, size_t prompt, int32_t token, const char* text, size_t size,
                        double log_probability) {
  return trlgoToken((uintptr_t)host, prompt, token, (char*)text, size, log_probability);
}

trl_status trlgo_runtime_set_log(trl_runtime* runtime, uintptr_t host, trl_error** error) {
  return trl_runtime_set_log(runtime, host ? on_log : NULL, (void*)host, host ? forget : NULL, error);
}

trl_status trlgo_runtime_set_progress(trl_runtime* runtime, uintptr_t host, trl_error** error) {
  return trl_runtime_set_progress(runtime, host ? on_progress : NULL, (void*)host, host ? forget : NULL,
                                  error);
}

trl_status trlgo_runtime_mount(trl_runtime* runtime, const char* name, uintptr_t host, int32_t reads,
                               int32_t writes, trl_error** error) {
  return trl_runtime_mount(runtime, name, reads ? on_read : NULL, writes ? on_write : NULL, (void*)host,
                           forget, error);
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
  return trl_trainer_add_reward(trainer, name, on_reward, (void*)host, forget, error);
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

trl_status trlgo_model_read_tensor(trl_model* model, const char* name, int32_t what, trlgo_tensor* out,
                                   trl_error** error) {
  struct DLManagedTensorVersioned* read = NULL;
  const trl_status status = trl_model_read_tensor(model, name, what, &read, error);
  if (read == NULL) return status;
  out->owner = read;
  out->data = read->tensor.data == NULL ? NULL : (char*)read->tensor.data + read->tensor.byte_offset;
  out->shape = read->tensor.shape;
  out->ndim = read->tensor.ndim;
  out->device = read->tensor.device.type;
  out->code = read->tensor.dtype.code;
  out->bits = read->tensor.dtype.bits;
  return status;
}

trl_status trlgo_model_write_tensor(trl_model* model, const char* name, uint8_t code, uint8_t bits,
                                    void* data, int64_t* shape, int32_t ndim, trl_error** error) {
  struct DLManagedTensorVersioned given = {
      .version = {1, 0},
      .tensor = {.data = data, .device = {kHost, 0}, .ndim = ndim, .dtype = {code, bits, 1}, .shape = shape}};
  return trl_model_write_tensor(model, name, &given, error);
}

void trlgo_tensor_free(void* owner) {
  struct DLManagedTensorVersioned* const read = owner;
  if (read != NULL && read->deleter != NULL) read->deleter(read);
}
