/* Fine-tunes a model on a JSONL file and shows what it writes before and after: sft MODEL ROWS OUTPUT
   [KEY=VALUE ...]. MODEL is a Hugging Face directory or a GGUF file; every key of `trl options sft` may
   follow. */
#include <stdio.h>
#include <string.h>
#include <trl.h>

/* Prints what failed; the value of the call it stands around. */
static int ok(trl_status status, trl_error** error) {
  if (status >= TRL_OK) return 1;
  fprintf(stderr, "error %d: %s\n", (int)status, trl_error_message(*error));
  trl_error_destroy(*error);
  *error = NULL;
  return 0;
}

static void on_log(void* user_data, int32_t level, const char* component, const char* text, size_t size) {
  (void)user_data;
  if (level >= TRL_LOG_WARNING) fprintf(stderr, "%s: %.*s\n", component, (int)size, text);
}

/* Called on this thread, between the steps. The bits TRL_EVENT_STOP, _SAVE and _EVALUATE would ask for more.
 */
static int32_t on_event(void* user_data, int32_t event, const trl_metrics* metrics) {
  double step = 0, max_steps = 0, loss = 0;
  (void)user_data;
  if (event != TRL_ON_STEP) return 0;
  trl_metrics_get(metrics, "step", &step);
  trl_metrics_get(metrics, "max_steps", &max_steps);
  trl_metrics_get(metrics, "loss", &loss);
  printf("step %.0f of %.0f: loss %.4f\n", step, max_steps, loss);
  return 0;
}

static int print_completion(trl_trainer* trainer, const trl_config* config, const char* prompt,
                            trl_error** error) {
  trl_model* model = NULL;
  trl_generator* generator = NULL;
  trl_completions* completions = NULL;
  int good =
      ok(trl_model_from_trainer(trainer, &model, error), error) &&
      ok(trl_generator_create(model, NULL, &generator, error), error) &&
      ok(trl_generator_generate(generator, &prompt, NULL, 1, config, NULL, NULL, &completions, error), error);
  if (good) printf("%s ->%s\n", prompt, trl_completions_text(completions, 0, NULL));
  trl_completions_destroy(completions);
  trl_generator_destroy(generator);
  trl_model_destroy(model);
  return good;
}

static int set(trl_config* config, const char* key, const char* value, trl_error** error) {
  return ok(trl_config_set(config, key, value, error), error);
}

static int set_pair(trl_config* config, char* pair, trl_error** error) {
  char* equals = strchr(pair, '=');
  if (equals == NULL) {
    fprintf(stderr, "KEY=VALUE is needed, not %s\n", pair);
    return 0;
  }
  *equals = '\0';
  return set(config, pair, equals + 1, error);
}

int main(int argc, char** argv) {
  static const char prompt[] = "The kernel";
  trl_error* error = NULL;
  trl_config* config = NULL;
  trl_runtime* runtime = NULL;
  trl_dataset* rows = NULL;
  trl_trainer* trainer = NULL;
  int good, i;
  if (argc < 4) {
    fprintf(stderr, "usage: %s MODEL ROWS OUTPUT [KEY=VALUE ...]\n", argv[0]);
    return 2;
  }
  good = ok(trl_config_create(&config, &error), &error) &&
         set(config, "model_name_or_path", argv[1], &error) && set(config, "output_dir", argv[3], &error) &&
         set(config, "learning_rate", "1e-3", &error) &&
         set(config, "per_device_train_batch_size", "4", &error) && set(config, "max_steps", "10", &error) &&
         set(config, "save_strategy", "no", &error) && set(config, "generate.max_new_tokens", "16", &error);
  for (i = 4; good && i < argc; ++i) good = set_pair(config, argv[i], &error);
  good = good && ok(trl_runtime_create(config, &runtime, &error), &error) &&
         ok(trl_runtime_set_log(runtime, on_log, NULL, NULL, &error), &error) &&
         ok(trl_dataset_open(runtime, argv[2], config, &rows, &error), &error) &&
         ok(trl_trainer_create(runtime, config, rows, NULL, &trainer, &error), &error) &&
         print_completion(trainer, config, prompt, &error) &&
         ok(trl_trainer_train(trainer, on_event, NULL, &error), &error) &&
         ok(trl_trainer_save(trainer, NULL, NULL, &error), &error) &&
         print_completion(trainer, config, prompt, &error);
  if (good) printf("saved in %s\n", argv[3]);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(rows);
  trl_runtime_destroy(runtime);
  trl_config_destroy(config);
  return good ? 0 : 1;
}
