/* What a run will take, before anything is downloaded, prepared or trained: estimate MODEL BUDGET PAGE, for
   example estimate SmolLM2-135M-Instruct 6GiB plan.html. Prints the plan beside two other sets of options,
   writes it as a page, and says whether the run fits into the budget, or what the least is that it needs. */
#include <stdio.h>
#include <trl.h>

static int ok(trl_status status, trl_error** error) {
  if (status >= TRL_OK) return 1;
  fprintf(stderr, "error %d: %s\n", (int)status, trl_error_message(*error));
  trl_error_destroy(*error);
  *error = NULL;
  return 0;
}

int main(int argc, char** argv) {
  const char* const settings[][2] = {
      {"max_length", "1024"},
      {"per_device_train_batch_size", "4"},
      {"max_steps", "1000"},
      {"estimate.compare", "[optim=adamw_8bit, use_peft=true dtype=bfloat16]"}};
  trl_error* error = NULL;
  trl_config* config = NULL;
  trl_runtime* runtime = NULL;
  const char* text = NULL;
  trl_status status;
  size_t i;
  int good;
  if (argc != 4) {
    fprintf(stderr, "usage: %s MODEL BUDGET PAGE\n", argv[0]);
    return 2;
  }
  good = ok(trl_config_create(&config, &error), &error) &&
         ok(trl_config_set(config, "model_name_or_path", argv[1], &error), &error) &&
         ok(trl_config_set(config, "estimate.report", argv[3], &error), &error);
  for (i = 0; good && i < sizeof settings / sizeof *settings; ++i)
    good = ok(trl_config_set(config, settings[i][0], settings[i][1], &error), &error);
  good = good && ok(trl_runtime_create(config, &runtime, &error), &error) &&
         ok(trl_trainer_plan(runtime, config, NULL, NULL, &text, &error), &error);
  if (good) printf("%s\n", text);

  /* The same run within a budget: nothing but memory_budget can refuse it now. */
  good = good && ok(trl_config_set(config, "memory_budget", argv[2], &error), &error) &&
         ok(trl_config_set(config, "estimate.report", "null", &error), &error) &&
         ok(trl_config_set(config, "estimate.compare", "[]", &error), &error);
  if (good) {
    status = trl_trainer_plan(runtime, config, NULL, NULL, &text, &error);
    if (status == TRL_OK)
      printf("It fits into %s:\n%s", argv[2], text);
    else
      printf("It does not fit into %s: %s\n", argv[2], trl_error_message(error));
    trl_error_destroy(error);
  }
  trl_runtime_destroy(runtime);
  trl_config_destroy(config);
  return good ? 0 : 1;
}
