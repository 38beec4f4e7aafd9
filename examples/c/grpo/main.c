/* Teaches a model sums by GRPO, with a reward in C: grpo MODEL OUTPUT [KEY=VALUE ...]. MODEL is a Hugging
   Face directory or a GGUF file. A short SFT shows it the sums of two digits with their answers; OUTPUT/sft
   then answers some. From there GRPO shows it no answer, and rewards completions that are the right number.
   Every key of `trl options grpo` may follow; with method=rloo or method=ppo that trainer takes GRPO's place.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trl.h>

typedef struct {
  int next;     /* from 0 to 99: 10 a + b */
  int answered; /* rows have completions */
} sums;

static int32_t set_text(trl_record* record, const char* column, const char* text) {
  return trl_record_set_text(record, column, text, strlen(text), NULL);
}

/* The library asks for the rows one by one, as often as it reads them. */
static int32_t next_sum(void* user_data, trl_record* record) {
  sums* rows = user_data;
  const int a = rows->next / 10, b = rows->next % 10;
  char prompt[32], answer[16];
  int32_t status;
  if (rows->next == 100) return TRL_END;
  ++rows->next;
  sprintf(prompt, "%d+%d=", a, b);
  sprintf(answer, "%d", a + b);
  status = set_text(record, "prompt", prompt);
  return status != TRL_OK || !rows->answered ? status : set_text(record, "completion", answer);
}

static int32_t rewind_sums(void* user_data) {
  ((sums*)user_data)->next = 0;
  return 0;
}

/* 1 for a completion that is the sum and nothing else, 0 for any other, -1 if the prompt is not a sum. */
static int reward_of(struct json_object* row) {
  const char* prompt = json_object_get_string(json_object_object_get(row, "prompt"));
  const char* completion = json_object_get_string(json_object_object_get(row, "completion"));
  char answer[16];
  int a, b;
  if (prompt == NULL || completion == NULL || sscanf(prompt, "%d+%d=", &a, &b) != 2) return -1;
  sprintf(answer, "%d", a + b);
  return strcmp(completion, answer) == 0;
}

/* Called once for each generation, with all of its completions. */
static int32_t check_sums(void* user_data, trl_rollout* rollout) {
  const size_t count = trl_rollout_count(rollout);
  size_t i;
  (void)user_data;
  for (i = 0; i < count; ++i) {
    const char* json;
    struct json_object* row;
    int reward;
    if (trl_rollout_get(rollout, i, &json, NULL) != TRL_OK) return -1;
    row = json_tokener_parse(json);
    reward = reward_of(row);
    json_object_put(row);
    if (reward < 0 || trl_rollout_set_reward(rollout, i, reward, NULL) != TRL_OK) return -1;
  }
  return TRL_OK;
}

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

static int set_pair(trl_config* config, char* text, trl_error** error) {
  char* equals = strchr(text, '=');
  if (equals == NULL) {
    fprintf(stderr, "KEY=VALUE is needed, not %s\n", text);
    return 0;
  }
  *equals = '\0';
  return set(config, text, equals + 1, error);
}

static int32_t on_event(void* user_data, int32_t event, const trl_metrics* metrics) {
  double step = 0, reward = 0;
  (void)user_data;
  if (event != TRL_ON_STEP) return 0;
  if (trl_metrics_get(metrics, "reward", &reward) != TRL_OK &&
      trl_metrics_get(metrics, "objective/scores", &reward) != TRL_OK) /* the name that PPO has for it */
    return 0;
  trl_metrics_get(metrics, "step", &step);
  printf("step %3.0f: mean reward %.3f\n", step, reward);
  fflush(stdout);
  return 0;
}

static int train(const trl_config* config, int by_rewards, trl_error** error) {
  sums rows = {0, !by_rewards};
  trl_dataset* dataset = NULL;
  trl_trainer* trainer = NULL;
  const int good =
      ok(trl_dataset_from_callback(NULL, next_sum, rewind_sums, &rows, NULL, config, &dataset, error),
         error) &&
      ok(trl_trainer_create(NULL, config, dataset, NULL, &trainer, error), error) &&
      (!by_rewards ||
       ok(trl_trainer_add_reward(trainer, "check_sums", check_sums, NULL, NULL, error), error)) &&
      ok(trl_trainer_train(trainer, on_event, NULL, error), error) &&
      ok(trl_trainer_save(trainer, NULL, NULL, error), error);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(dataset);
  return good;
}

static const char* method_of(char** pairs) {
  for (; *pairs != NULL; ++pairs)
    if (strncmp(*pairs, "method=", 7) == 0) return *pairs + 7;
  return "grpo";
}

/* Trains a model and saves it in output. The pairs of the command line end with NULL and win over the
 * options. */
static int run(const char* method, const char* model, const char* output, char** pairs, trl_error** error) {
  static const char* const sft[][2] = {
      {"learning_rate", "2e-3"}, {"max_steps", "70"}, {"per_device_train_batch_size", "50"}, {NULL, NULL}};
  static const char* const groups[][2] = {
      {"learning_rate", "2e-3"},
      {"max_steps", "100"},
      {"per_device_train_batch_size", "400"}, /* 8 for each of 50 prompts */
      {"num_generations", "8"},
      {"max_completion_length", "4"},
      {NULL, NULL}};
  static const char* const ppo[][2] = {{"learning_rate", "2e-3"},
                                       {"max_steps", "100"},
                                       {"per_device_train_batch_size", "100"}, /* one for each prompt */
                                       {"num_ppo_epochs", "2"},
                                       {"temperature", "1"},
                                       {"response_length", "4"},
                                       {"stop_token", "eos"},
                                       {NULL, NULL}};
  const int by_rewards = strcmp(method, "sft") != 0;
  const char* const(*options)[2] = !by_rewards ? sft : strcmp(method, "ppo") == 0 ? ppo : groups;
  trl_config* config = NULL;
  int good = ok(trl_config_create(&config, error), error) && set(config, "method", method, error) &&
             set(config, "model_name_or_path", model, error) && set(config, "output_dir", output, error) &&
             set(config, "save_strategy", "no", error) && set(config, "bf16", "false", error);
  for (; good && (*options)[0] != NULL; ++options) good = set(config, (*options)[0], (*options)[1], error);
  for (; good && *pairs != NULL; ++pairs) good = set_pair(config, *pairs, error);
  good = good && train(config, by_rewards, error);
  trl_config_destroy(config);
  return good;
}

int main(int argc, char** argv) {
  char* no_pairs[] = {NULL};
  char start[4096];
  trl_error* error = NULL;
  int good;
  if (argc < 3 || snprintf(start, sizeof start, "%s/sft", argv[2]) >= (int)sizeof start) {
    fprintf(stderr, "usage: %s MODEL OUTPUT [KEY=VALUE ...]\n", argv[0]);
    return 2;
  }
  good = run("sft", argv[1], start, no_pairs, &error) &&
         run(method_of(argv + 3), start, argv[2], argv + 3, &error);
  if (good) printf("saved in %s\n", argv[2]);
  return good ? 0 : 1;
}
