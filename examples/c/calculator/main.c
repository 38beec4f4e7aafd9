/* Teaches a model to call a calculator, by GRPO: calculator MODEL OUTPUT [KEY=VALUE ...]. MODEL is a Hugging
   Face directory or a GGUF file whose chat template renders tools and their calls. A short SFT shows it
   products of two-digit numbers, three of ten with a call before the answer; OUTPUT/sft then calls as often,
   and guesses otherwise. From there GRPO shows it no answer: it answers the calls, and rewards completions
   that end with the right number. Every key of `trl options grpo` may follow, and with "sft." before them
   those of `trl options sft`. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <trl.h>

/* Has no more than a call needs, because these tokens are in each prompt. */
static const char tools[] =
    "[{\"name\": \"calculator\", \"parameters\": {\"properties\": {\"expression\": {}}}}]";

typedef struct {
  int answered; /* rows have answers */
  int held_out; /* they are those that no training sees */
  unsigned next;
} products;

/* Mixes the bits of a number, so that no digit of a product says how its row is used. */
static unsigned mixed(unsigned number) {
  number = (number * 0x9e3779b1u) & 0xffffffffu;
  number = ((number ^ number >> 15) * 0x85ebca6bu) & 0xffffffffu;
  return number ^ number >> 13;
}

static int set_json(trl_record* record, const char* column, const char* json) {
  return trl_record_set_json(record, column, json, strlen(json), NULL);
}

/* Sets the messages of a row: the question, if wanted a call and its result, and the answer. */
static int set_answered(trl_record* record, int a, int b, int called) {
  char call[256] = "", messages[512];
  if (called) {
    sprintf(call,
            "{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"type\": \"function\", "
            "\"function\": {\"name\": \"calculator\", \"arguments\": {\"expression\": \"%d*%d\"}}}]}, "
            "{\"role\": \"tool\", \"name\": \"calculator\", \"content\": \"%d\"}, ",
            a, b, a * b);
  }
  sprintf(messages,
          "[{\"role\": \"user\", \"content\": \"%d*%d\"}, %s{\"role\": \"assistant\", \"content\": \"%d\"}]",
          a, b, call, a * b);
  return set_json(record, "messages", messages) == TRL_OK ? set_json(record, "tools", tools) : -1;
}

/* The library asks for the rows one by one, as often as it reads them. */
static int32_t next_product(void* user_data, trl_record* record) {
  products* rows = user_data;
  unsigned place, bits;
  int a, b;
  char prompt[64];
  do {
    if (rows->next == 90 * 90) return TRL_END;
    place = rows->next++;
    bits = mixed(place);
  } while ((bits % 10 == 0) != rows->held_out);
  a = 10 + (int)place / 90;
  b = 10 + (int)place % 90;
  if (rows->answered) return set_answered(record, a, b, bits / 10 % 10 < 3);
  sprintf(prompt, "[{\"role\": \"user\", \"content\": \"%d*%d\"}]", a, b);
  return set_json(record, "prompt", prompt);
}

static int32_t rewind_products(void* user_data) {
  ((products*)user_data)->next = 0;
  return 0;
}

static const char* text_of(struct json_object* object, const char* key) {
  const char* text = json_object_get_string(json_object_object_get(object, key));
  return text == NULL ? "" : text;
}

static int read_product(const char* text, int* a, int* b) {
  int end = 0;
  return sscanf(text, "%3d*%3d%n", a, b, &end) == 2 && text[end] == '\0';
}

/* Returns the product that a call asks for, or an error, which the model reads in its place. */
static struct json_object* result_of(struct json_object* call) {
  const char* expression = text_of(json_object_object_get(call, "arguments"), "expression");
  struct json_object* error;
  int a, b;
  if (read_product(expression, &a, &b)) return json_object_new_int(a * b);
  error = json_object_new_object();
  json_object_object_add(error, "error", json_object_new_string("not a product"));
  return error;
}

/* Called after each turn of a generation, with the completions that call the calculator. */
static int32_t calculate(void* user_data, trl_rollout* rollout) {
  const size_t count = trl_rollout_count(rollout);
  size_t i, k;
  (void)user_data;
  for (i = 0; i < count; ++i) {
    const char* json;
    struct json_object *row, *calls, *results;
    int status;
    if (trl_rollout_get(rollout, i, &json, NULL) != TRL_OK) return -1;
    row = json_tokener_parse(json);
    calls = json_object_object_get(row, "calls");
    if (calls == NULL) {
      json_object_put(row);
      return -1;
    }
    results = json_object_new_array();
    for (k = 0; k < json_object_array_length(calls); ++k)
      json_object_array_add(results, result_of(json_object_array_get_idx(calls, k)));
    status = trl_rollout_set_value(rollout, i, "results", json_object_to_json_string(results), NULL);
    json_object_put(results);
    json_object_put(row);
    if (status != TRL_OK) return -1;
  }
  return TRL_OK;
}

/* Returns 1 for a completion whose last message is the product and nothing else, 0 for any other, and -1 if
   the prompt is not a product. */
static int reward_of(struct json_object* row) {
  struct json_object* prompt = json_object_object_get(row, "prompt");
  struct json_object* messages = json_object_object_get(row, "completion");
  struct json_object* last;
  const size_t count = json_object_array_length(messages);
  char answer[16];
  int a, b;
  if (count == 0 || !read_product(text_of(json_object_array_get_idx(prompt, 0), "content"), &a, &b))
    return -1;
  sprintf(answer, "%d", a * b);
  last = json_object_array_get_idx(messages, count - 1);
  return strcmp(text_of(last, "role"), "assistant") == 0 && strcmp(text_of(last, "content"), answer) == 0;
}

/* Called once for each generation, with all of its completions. */
static int32_t check_answers(void* user_data, trl_rollout* rollout) {
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

/* Sets the pairs whose keys begin with sft. or, for other trainers, those whose keys do not. */
static int set_pairs(trl_config* config, char** pairs, int sft, trl_error** error) {
  int good = 1;
  for (; good && *pairs != NULL; ++pairs) {
    const int begins = strncmp(*pairs, "sft.", 4) == 0;
    char* equals = strchr(*pairs, '=');
    if (equals == NULL) {
      fprintf(stderr, "KEY=VALUE is needed, not %s\n", *pairs);
      return 0;
    }
    if (begins != sft) continue;
    *equals = '\0';
    good = set(config, sft ? *pairs + 4 : *pairs, equals + 1, error);
    *equals = '=';
  }
  return good;
}

static int32_t on_event(void* user_data, int32_t event, const trl_metrics* metrics) {
  double step = 0, calls = 0, reward = 0;
  (void)user_data;
  if (event != TRL_ON_STEP || trl_metrics_get(metrics, "reward", &reward) != TRL_OK) return 0;
  trl_metrics_get(metrics, "step", &step);
  trl_metrics_get(metrics, "tools/call_frequency", &calls);
  printf("step %3.0f: calls %.3f, right answers %.3f\n", step, calls, reward);
  fflush(stdout);
  return 0;
}

static int evaluate(trl_trainer* trainer, const char* when, trl_error** error) {
  const trl_metrics* metrics;
  double calls = 0, reward = 0;
  if (!ok(trl_trainer_evaluate(trainer, NULL, &metrics, error), error)) return 0;
  trl_metrics_get(metrics, "eval_tools/call_frequency", &calls);
  trl_metrics_get(metrics, "eval_reward", &reward);
  printf("held out, %s: calls %.3f, right answers %.3f\n", when, calls, reward);
  fflush(stdout);
  return 1;
}

static int open_products(products* rows, const trl_config* config, trl_dataset** out, trl_error** error) {
  return ok(trl_dataset_from_callback(NULL, next_product, rewind_products, rows, NULL, config, out, error),
            error);
}

static int train_by_answers(const trl_config* config, trl_error** error) {
  products rows = {1, 0, 0};
  trl_dataset* dataset = NULL;
  trl_trainer* trainer = NULL;
  const int good = open_products(&rows, config, &dataset, error) &&
                   ok(trl_trainer_create(NULL, config, dataset, NULL, &trainer, error), error) &&
                   ok(trl_trainer_train(trainer, NULL, NULL, error), error) &&
                   ok(trl_trainer_save(trainer, NULL, NULL, error), error);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(dataset);
  return good;
}

static int train_by_rewards(const trl_config* config, trl_error** error) {
  products rows = {0, 0, 0}, others = {0, 1, 0};
  trl_dataset *dataset = NULL, *held_out = NULL;
  trl_trainer* trainer = NULL;
  const int good =
      open_products(&rows, config, &dataset, error) && open_products(&others, config, &held_out, error) &&
      ok(trl_trainer_create(NULL, config, dataset, held_out, &trainer, error), error) &&
      ok(trl_trainer_set_tools(trainer, calculate, NULL, NULL, error), error) &&
      ok(trl_trainer_add_reward(trainer, "check_answers", check_answers, NULL, NULL, error), error) &&
      evaluate(trainer, "before", error) && ok(trl_trainer_train(trainer, on_event, NULL, error), error) &&
      evaluate(trainer, "after", error) && ok(trl_trainer_save(trainer, NULL, NULL, error), error);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(held_out);
  trl_dataset_destroy(dataset);
  return good;
}

static int create(const char* method, const char* model, const char* output, trl_config** config,
                  trl_error** error) {
  return ok(trl_config_create(config, error), error) && set(*config, "method", method, error) &&
         set(*config, "model_name_or_path", model, error) && set(*config, "output_dir", output, error) &&
         set(*config, "save_strategy", "no", error) && set(*config, "bf16", "false", error);
}

static int show(const char* model, const char* output, char** pairs, trl_error** error) {
  trl_config* config = NULL;
  const int good =
      create("sft", model, output, &config, error) && set(config, "learning_rate", "4e-3", error) &&
      set(config, "lr_scheduler_type", "cosine", error) && set(config, "warmup_steps", "0.1", error) &&
      set(config, "max_steps", "500", error) && set(config, "per_device_train_batch_size", "64", error) &&
      set(config, "assistant_only_loss", "true", error) && set_pairs(config, pairs, 1, error) &&
      train_by_answers(config, error);
  trl_config_destroy(config);
  return good;
}

/* Trains by rewards, and saves in output. The pairs of the command line end with NULL and win over the
 * options. */
static int reward(const char* model, const char* output, char** pairs, trl_error** error) {
  trl_config* config = NULL;
  int good = create("grpo", model, output, &config, error) && set(config, "learning_rate", "5e-4", error) &&
             set(config, "max_steps", "60", error) &&
             set(config, "per_device_train_batch_size", "256", error) && /* 8 for each of 32 prompts */
             set(config, "num_generations", "8", error) &&
             set(config, "per_device_eval_batch_size", "401", error) && /* half of those held out */
             set(config, "num_generations_eval", "1", error) &&
             set(config, "max_completion_length", "96", error) && set(config, "tools", tools, error) &&
             set(config, "max_tool_calling_iterations", "1", error);
  good = good && set_pairs(config, pairs, 0, error) && train_by_rewards(config, error);
  trl_config_destroy(config);
  return good;
}

int main(int argc, char** argv) {
  char start[4096];
  trl_error* error = NULL;
  int good;
  if (argc < 3 || snprintf(start, sizeof start, "%s/sft", argv[2]) >= (int)sizeof start) {
    fprintf(stderr, "usage: %s MODEL OUTPUT [KEY=VALUE ...]\n", argv[0]);
    return 2;
  }
  good = show(argv[1], start, argv + 3, &error) && reward(start, argv[2], argv + 3, &error);
  if (good) printf("saved in %s\n", argv[2]);
  return good ? 0 : 1;
}
