/* Trains a LoRA adapter on quantised weights, saves the adapter alone and merged into the model, and shows
   that both write the same text: qlora MODEL ROWS OUTPUT [KEY=VALUE ...]. MODEL is a Hugging Face directory,
   whose linear layers become NF4 blocks while it is opened, or a GGUF file, whose blocks are used where they
   lie; every key of `trl options sft` may follow. */
#include <stdio.h>
#include <string.h>
#include <trl.h>

static int ok(trl_status status, trl_error** error) {
  if (status >= TRL_OK) return 1;
  fprintf(stderr, "error %d: %s\n", (int)status, trl_error_message(*error));
  trl_error_destroy(*error);
  *error = NULL;
  return 0;
}

static int set(trl_config* config, const char* key, const char* value, trl_error** error) {
  return ok(trl_config_set(config, key, value, error), error);
}

/* The weights in blocks: a GGUF file's own, or those that bitsandbytes would make. */
static int set_quantised(trl_config* config, const char* path, trl_error** error) {
  const size_t length = strlen(path);
  const int gguf = length > 5 && strcmp(path + length - 5, ".gguf") == 0;
  return gguf ? set(config, "dtype", "keep", error) : set(config, "load_in_4bit", "true", error);
}

/* The merged model has numbers, and is opened as it was saved. */
static int set_as_saved(trl_config* config, trl_error** error) {
  return set(config, "load_in_4bit", "false", error) && set(config, "load_in_8bit", "false", error) &&
         set(config, "dtype", "auto", error);
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

static int32_t on_event(void* user_data, int32_t event, const trl_metrics* metrics) {
  double step = 0, loss = 0;
  (void)user_data;
  if (event != TRL_ON_STEP) return 0;
  trl_metrics_get(metrics, "step", &step);
  trl_metrics_get(metrics, "loss", &loss);
  printf("step %2.0f: loss %.4f\n", step, loss);
  return 0;
}

/* Trains, and leaves the adapter in `output` and the merged model in `merged`. */
static int train(trl_config* config, const char* path, const char* output, const char* merged,
                 trl_error** error) {
  trl_dataset* rows = NULL;
  trl_trainer* trainer = NULL;
  int good = ok(trl_dataset_open(NULL, path, config, &rows, error), error) &&
             ok(trl_trainer_create(NULL, config, rows, NULL, &trainer, error), error) &&
             ok(trl_trainer_train(trainer, on_event, NULL, error), error) &&
             ok(trl_trainer_save(trainer, output, NULL, error), error) &&
             set(config, "save.kind", "merged", error) &&
             ok(trl_trainer_save(trainer, merged, config, error), error);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(rows);
  return good;
}

/* What the model writes after the prompt, into text. */
static int complete(trl_model* model, const trl_config* config, const char* label, char* text, size_t size,
                    trl_error** error) {
  static const char* const prompt = "The kernel";
  trl_generator* generator = NULL;
  trl_completions* completions = NULL;
  int good =
      ok(trl_generator_create(model, NULL, &generator, error), error) &&
      ok(trl_generator_generate(generator, &prompt, NULL, 1, config, NULL, NULL, &completions, error), error);
  if (good) {
    snprintf(text, size, "%s", trl_completions_text(completions, 0, NULL));
    printf("%-13s %s ->%s\n", label, prompt, text);
  }
  trl_completions_destroy(completions);
  trl_generator_destroy(generator);
  return good;
}

/* The same model without the adapter, with it, and merged. */
static int compare(trl_config* config, const char* path, const char* output, const char* merged,
                   trl_error** error) {
  char alone[4096] = "", adapted[4096] = "", whole[4096] = "";
  trl_model *model = NULL, *other = NULL;
  int good = ok(trl_model_open(NULL, path, config, &model, error), error) &&
             complete(model, config, "model alone:", alone, sizeof alone, error) &&
             ok(trl_model_add_adapter(model, "mine", output, error), error) &&
             ok(trl_model_use_adapter(model, "mine", error), error) &&
             complete(model, config, "with adapter:", adapted, sizeof adapted, error) &&
             set_as_saved(config, error) && ok(trl_model_open(NULL, merged, config, &other, error), error) &&
             complete(other, config, "merged:", whole, sizeof whole, error);
  trl_model_destroy(other);
  trl_model_destroy(model);
  if (!good) return 0;
  good = strcmp(adapted, whole) == 0;
  puts(good ? "the adapter and the merged model write the same" : "the two differ");
  return good;
}

int main(int argc, char** argv) {
  char adapter[1100], merged[1100];
  trl_error* error = NULL;
  trl_config* config = NULL;
  int good, i;
  if (argc < 4 || strlen(argv[3]) > 1000) {
    fprintf(stderr, "usage: %s MODEL ROWS OUTPUT [KEY=VALUE ...]\n", argv[0]);
    return 2;
  }
  sprintf(adapter, "%s/adapter", argv[3]);
  sprintf(merged, "%s/merged", argv[3]);
  good = ok(trl_config_create(&config, &error), &error) &&
         set(config, "model_name_or_path", argv[1], &error) && set(config, "output_dir", argv[3], &error) &&
         set(config, "use_peft", "true", &error) && set_quantised(config, argv[1], &error) &&
         set(config, "lora_target_modules", "all-linear", &error) &&
         set(config, "learning_rate", "5e-3", &error) &&
         set(config, "per_device_train_batch_size", "4", &error) && set(config, "max_steps", "10", &error) &&
         set(config, "save_strategy", "no", &error) && set(config, "generate.max_new_tokens", "16", &error);
  for (i = 4; good && i < argc; ++i) good = set_pair(config, argv[i], &error);
  good = good && train(config, argv[2], adapter, merged, &error) &&
         compare(config, argv[1], adapter, merged, &error);
  trl_config_destroy(config);
  return good ? 0 : 1;
}
