/* Makes preference pairs of solutions that were marked right and wrong, and trains a LoRA adapter on them by
   DPO: dpo MODEL SOLUTIONS OUTPUT [KEY=VALUE ...] SOLUTIONS has a JSON object a line: "question", and any
   number of objects with "is_correct" and "solution". Each right solution of a question is paired with each
   wrong one. The pairs of every tenth question are held out: no question is on both sides. Every key of `trl
   options dpo` may follow. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trl.h>

typedef struct {
  char *prompt, *chosen, *rejected;
} pair;

typedef struct {
  pair* rows;
  size_t count, next;
} pairs;

static char* prompt_of(const char* question) {
  static const char format[] = "Question: %s\nAnswer:";
  char* out = malloc(sizeof format + strlen(question));
  if (out != NULL) sprintf(out, format, question);
  return out;
}

/* A completion begins with the space that the prompt does not end with. */
static char* completion_of(struct json_object* attempt) {
  const char* solution = json_object_get_string(json_object_object_get(attempt, "solution"));
  char* out = malloc(strlen(solution) + 2);
  if (out != NULL) sprintf(out, " %s", solution);
  return out;
}

static int add(pairs* to, const char* question, struct json_object* right, struct json_object* wrong) {
  pair* rows = realloc(to->rows, (to->count + 1) * sizeof *rows);
  pair* row;
  if (rows == NULL) return 0;
  to->rows = rows;
  row = &rows[to->count++];
  row->prompt = prompt_of(question);
  row->chosen = completion_of(right);
  row->rejected = completion_of(wrong);
  return row->prompt != NULL && row->chosen != NULL && row->rejected != NULL;
}

static int is(struct json_object* attempt, int correct) {
  struct json_object *mark, *solution;
  return json_object_object_get_ex(attempt, "is_correct", &mark) &&
         json_object_object_get_ex(attempt, "solution", &solution) &&
         json_object_is_type(solution, json_type_string) && json_object_get_boolean(mark) == correct;
}

static int add_question(pairs* to, struct json_object* row) {
  const char* question = json_object_get_string(json_object_object_get(row, "question"));
  if (question == NULL) return 0;
  json_object_object_foreach(row, right_name, right) {
    (void)right_name;
    if (!is(right, 1)) continue;
    json_object_object_foreach(row, wrong_name, wrong) {
      (void)wrong_name;
      if (is(wrong, 0) && !add(to, question, right, wrong)) return 0;
    }
  }
  return 1;
}

/* By the text of the question, so that one which comes twice stays on one side. */
static int is_held_out(struct json_object* row) {
  const char* at = json_object_get_string(json_object_object_get(row, "question"));
  unsigned long hash = 5381;
  for (; at != NULL && *at != '\0'; ++at) hash = hash * 33 + (unsigned char)*at;
  return hash % 10 == 0;
}

static int read_pairs(const char* path, pairs* train, pairs* held_out) {
  static char line[1 << 20];
  size_t number = 0;
  int good = 1;
  FILE* file = fopen(path, "r");
  if (file == NULL) {
    perror(path);
    return 0;
  }
  while (good && fgets(line, sizeof line, file) != NULL) {
    struct json_object* row = json_tokener_parse(line);
    ++number;
    good =
        json_object_is_type(row, json_type_object) && add_question(is_held_out(row) ? held_out : train, row);
    if (!good) fprintf(stderr, "%s:%lu: not an object with a question\n", path, (unsigned long)number);
    json_object_put(row);
  }
  fclose(file);
  return good;
}

static void free_pairs(pairs* list) {
  size_t i;
  for (i = 0; i < list->count; ++i) {
    free(list->rows[i].prompt);
    free(list->rows[i].chosen);
    free(list->rows[i].rejected);
  }
  free(list->rows);
}

/* The library asks for the rows one by one, as often as it reads them. */
static int32_t next_row(void* user_data, trl_record* record) {
  pairs* list = user_data;
  const pair* row = &list->rows[list->next];
  int32_t status;
  if (list->next == list->count) return TRL_END;
  ++list->next;
  status = trl_record_set_text(record, "prompt", row->prompt, strlen(row->prompt), NULL);
  if (status == TRL_OK)
    status = trl_record_set_text(record, "chosen", row->chosen, strlen(row->chosen), NULL);
  if (status != TRL_OK) return status;
  return trl_record_set_text(record, "rejected", row->rejected, strlen(row->rejected), NULL);
}

static int32_t rewind_rows(void* user_data) {
  ((pairs*)user_data)->next = 0;
  return 0;
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
  double step = 0, loss = 0, margin = 0, accuracy = 0;
  (void)user_data;
  trl_metrics_get(metrics, "step", &step);
  if (event == TRL_ON_STEP) {
    trl_metrics_get(metrics, "loss", &loss);
    printf("step %3.0f: loss %.4f\n", step, loss);
  } else if (event == TRL_ON_EVALUATE) {
    trl_metrics_get(metrics, "eval_loss", &loss);
    trl_metrics_get(metrics, "eval_rewards/margins", &margin);
    trl_metrics_get(metrics, "eval_rewards/accuracies", &accuracy);
    printf("held out at step %.0f: loss %.4f, reward margin %.4f, accuracy %.3f\n", step, loss, margin,
           accuracy);
  }
  fflush(stdout);
  return 0;
}

static int train(trl_config* config, pairs* rows, pairs* held_out, trl_error** error) {
  trl_dataset *train_rows = NULL, *eval_rows = NULL;
  trl_trainer* trainer = NULL;
  const int good =
      ok(trl_dataset_from_callback(NULL, next_row, rewind_rows, rows, NULL, config, &train_rows, error),
         error) &&
      ok(trl_dataset_from_callback(NULL, next_row, rewind_rows, held_out, NULL, config, &eval_rows, error),
         error) &&
      ok(trl_trainer_create(NULL, config, train_rows, eval_rows, &trainer, error), error) &&
      ok(trl_trainer_train(trainer, on_event, NULL, error), error) &&
      ok(trl_trainer_save(trainer, NULL, NULL, error), error);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(eval_rows);
  trl_dataset_destroy(train_rows);
  return good;
}

int main(int argc, char** argv) {
  static const char* const options[][2] = {
      {"method", "dpo"},         {"use_peft", "true"},       {"learning_rate", "5e-5"},
      {"max_length", "512"},     {"eval_strategy", "steps"}, {"eval_steps", "25"},
      {"eval_on_start", "true"}, {"save_strategy", "no"},    {"per_device_train_batch_size", "4"},
      {"num_train_epochs", "1"}, {"report_to", "html"},      {"lora_target_modules", "all-linear"},
      {"logging_steps", "5"}};
  pairs rows = {NULL, 0, 0}, held_out = {NULL, 0, 0};
  trl_error* error = NULL;
  trl_config* config = NULL;
  size_t option;
  int good, i;
  if (argc < 4) {
    fprintf(stderr, "usage: %s MODEL SOLUTIONS OUTPUT [KEY=VALUE ...]\n", argv[0]);
    return 2;
  }
  good = read_pairs(argv[2], &rows, &held_out);
  if (good)
    printf("%lu pairs, and %lu of other questions held out\n", (unsigned long)rows.count,
           (unsigned long)held_out.count);
  good = good && ok(trl_config_create(&config, &error), &error) &&
         set(config, "model_name_or_path", argv[1], &error) && set(config, "output_dir", argv[3], &error);
  for (option = 0; good && option < sizeof options / sizeof options[0]; ++option)
    good = set(config, options[option][0], options[option][1], &error);
  for (i = 4; good && i < argc; ++i) good = set_pair(config, argv[i], &error);
  good = good && train(config, &rows, &held_out, &error);
  if (good) printf("saved in %s\n", argv[3]);
  trl_config_destroy(config);
  free_pairs(&held_out);
  free_pairs(&rows);
  return good ? 0 : 1;
}
