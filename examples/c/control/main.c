/* Trains in a loop of its own and keeps models in memory: control MODEL ROWS OUTPUT. MODEL is a Hugging Face
   directory or a GGUF file; OUTPUT gets nothing but the records of the run. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <threads.h>
#include <trl.h>

#include "pack.h"

/* As in DLPack's own header, version 1. */
struct DLManagedTensorVersioned {
  uint32_t version[2];
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  void* data;
  int32_t device[2], ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

static struct pack pack;
static trl_trainer* trainer;
static trl_config* config;
static atomic_int over;
static _Thread_local trl_error* error;

/* Prints what failed; the value of the call it stands around. */
static int ok(trl_status status) {
  if (status < TRL_OK) fprintf(stderr, "%s: %s\n", trl_status_name(status), trl_error_message(error));
  trl_error_destroy(error);
  error = NULL;
  return status >= TRL_OK;
}

static int32_t on_token(void* sum, size_t number, int32_t token, const char* text, size_t size,
                        double log_p) {
  (void)number, (void)token, (void)text, (void)size;
  *(double*)sum += log_p;
  return 0;
}

/* The second thread: an answer after each step. Its calls wait while one of the trainer is at work. */
static int answer(void* generator) {
  const char* const prompt = "The kernel";
  int64_t step = 0, seen = -1;
  for (; !over; thrd_sleep(&(struct timespec){0, 1000000}, NULL)) {
    trl_completions* done = NULL;
    double sum = 0;
    if (!ok(trl_trainer_get_integers(trainer, "global_step", &step, 1, NULL, &error))) return 0;
    if (step == seen) continue;
    if (!ok(trl_generator_generate(generator, &prompt, NULL, 1, config, on_token, &sum, &done, &error)))
      return 0;
    printf("  %s%s (%.1f)\n", prompt, trl_completions_text(done, 0, NULL), sum);
    trl_completions_destroy(done);
    seen = step;
  }
  return 1;
}

/* The norm of the gradient that a weight has between the halves of a step; below 0: it cannot be read. */
static double gradient_norm(trl_model* model, const char* name) {
  struct DLManagedTensorVersioned* tensor = NULL;
  double sum = 0;
  int64_t i, count = 1;
  if (!ok(trl_model_read_tensor(model, name, TRL_TENSOR_GRADIENT, &tensor, &error))) return -1;
  for (i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  for (i = 0; i < count; ++i) sum += pow(((const float*)tensor->data)[i], 2); /* dtype: float32 */
  tensor->deleter(tensor);
  return sqrt(sum);
}

/* Leaves out a step with an unusual gradient, and halves the learning rate when other rows get worse. */
static int train(trl_model* model, trl_dataset* other) {
  const trl_metrics* metrics = NULL;
  double usual = INFINITY, rate = 1e-2, best = INFINITY, step, loss;
  trl_status status;
  while (ok(status = trl_trainer_backward(trainer, NULL, &error)) && status != TRL_END) {
    const double norm = gradient_norm(model, "model.norm.weight");
    const int apply = norm < 1.3 * usual;
    if (norm < 0 || !ok(trl_trainer_update(trainer, apply, &metrics, &error))) return 0;
    trl_metrics_get(metrics, "step", &step);
    trl_metrics_get(metrics, "loss", &loss);
    printf("step %.0f: loss %.3f, gradient %.3f%s\n", step, loss, norm, apply ? "" : ": left out");
    usual = usual < INFINITY ? 0.7 * usual + 0.3 * norm : norm;
    if ((int)step % 5 != 0) continue;
    if (!ok(trl_trainer_evaluate(trainer, other, &metrics, &error))) return 0;
    trl_metrics_get(metrics, "eval_loss", &loss);
    if (loss > best && !ok(trl_trainer_set_learning_rate(trainer, rate /= 2, &error))) return 0;
    printf("other rows: loss %.3f, learning rate %g\n", loss, rate);
    best = fmin(best, loss);
  }
  return status == TRL_END && ok(trl_trainer_step(trainer, NULL, &error)); /* ends the run */
}

/* A product has its models packed already. */
static int take(trl_runtime* runtime, const char* path) {
  trl_model* model = NULL;
  const int good = ok(trl_model_open(runtime, path, config, &model, &error)) &&
                   ok(trl_model_save(model, "host://pack/base", NULL, &error));
  trl_model_destroy(model);
  return good;
}

int main(int argc, char** argv) {
  static const char settings[] =
      "{model_name_or_path: 'host://pack/base', dtype: float32, learning_rate: 1e-2, max_steps: 30, "
      "lr_scheduler_type: constant, per_device_train_batch_size: 4, test_split_size: 0.25, "
      "save_strategy: 'no', generate.max_new_tokens: 8, generate.logprobs: 0}";
  trl_runtime* runtime = NULL;
  trl_dataset *rows = NULL, *other = NULL;
  trl_model* model = NULL;
  trl_generator* generator = NULL;
  thrd_t thread;
  int good, answered = 0;
  if (argc != 4) return fprintf(stderr, "usage: %s MODEL ROWS OUTPUT\n", argv[0]), 2;
  good = ok(trl_config_create(&config, &error)) &&
         ok(trl_config_load_text(config, settings, sizeof settings - 1, &error)) &&
         ok(trl_config_set(config, "dataset_name", argv[2], &error)) &&
         ok(trl_config_set(config, "output_dir", argv[3], &error)) &&
         ok(trl_runtime_create(config, &runtime, &error)) &&
         ok(trl_runtime_mount(runtime, "pack", pack_read, pack_write, &pack, NULL, &error)) &&
         take(runtime, argv[1]) && ok(trl_dataset_open_config(runtime, config, &rows, &other, &error)) &&
         ok(trl_trainer_create(runtime, config, rows, NULL, &trainer, &error)) &&
         ok(trl_model_from_trainer(trainer, &model, &error)) &&
         ok(trl_generator_create(model, NULL, &generator, &error)) &&
         thrd_create(&thread, answer, generator) == thrd_success;
  if (good) {
    good = train(model, other);
    over = 1;
    thrd_join(thread, &answered);
  }
  good = good && answered && ok(trl_trainer_save(trainer, "host://pack/tuned", NULL, &error));
  if (good) printf("saved: %zu bytes in memory\n", pack_size(&pack, "tuned/"));
  trl_generator_destroy(generator);
  trl_model_destroy(model);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(other);
  trl_dataset_destroy(rows);
  trl_runtime_destroy(runtime);
  trl_config_destroy(config);
  pack_free(&pack);
  return good ? 0 : 1;
}
