/* Answers requests while it learns from corrections: learn_while_serving MODEL OUTPUT. MODEL is a Hugging
   Face directory or a GGUF file; OUTPUT gets the adapter. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <trl.h>

enum { kMost = 16 };

/* What the program was told, which are the rows of the run. */
static struct {
  mtx_t lock;
  struct {
    const char *prompt, *completion;
  } rows[kMost];
  size_t count, next;
} told;
static trl_trainer* trainer;
static atomic_int over; /* the run has ended */
static _Thread_local trl_error* error;

/* Prints what failed; the value of the call it stands around. */
static int ok(trl_status status) {
  if (status < TRL_OK) fprintf(stderr, "%s: %s\n", trl_status_name(status), trl_error_message(error));
  trl_error_destroy(error);
  error = NULL;
  return status >= TRL_OK;
}

static void correct(const char* prompt, const char* completion) {
  mtx_lock(&told.lock);
  if (told.count < kMost) {
    told.rows[told.count].prompt = prompt;
    told.rows[told.count++].completion = completion;
  }
  mtx_unlock(&told.lock);
}

/* The run reads its rows from here, about a thousand ahead: all that was told so far, again and again. */
static int32_t next_row(void* none, trl_record* record) {
  const char *prompt, *completion;
  (void)none;
  mtx_lock(&told.lock);
  prompt = told.rows[told.next % told.count].prompt;
  completion = told.rows[told.next++ % told.count].completion;
  mtx_unlock(&told.lock);
  if (trl_record_set_text(record, "prompt", prompt, strlen(prompt), NULL) != TRL_OK) return -1;
  return trl_record_set_text(record, "completion", completion, strlen(completion), NULL);
}

static int32_t rewind_rows(void* none) {
  (void)none;
  return 0;
}

static int train(void* none) {
  trl_status status;
  (void)none;
  status = trl_trainer_train(trainer, NULL, NULL, &error);
  over = 1;
  if (status != TRL_E_CANCELLED) return ok(status);
  trl_error_destroy(error); /* the answer is right, and nothing is left to learn */
  error = NULL;
  return 1;
}

/* One request, token by token; the steps of the trainer go on meanwhile. Returns whether the answer is
 * `right`. */
static int ask(trl_generator* generator, const trl_config* options, const char* prompt, const char* right,
               int* good) {
  static char last[256];
  trl_completions* done = NULL;
  const char *text, *weights;
  size_t number = 0;
  trl_status status;
  int is_right;
  *good = ok(trl_generator_add(generator, prompt, strlen(prompt), NULL, 0, options, &number, &error));
  if (!*good) return 0;
  while ((status = trl_generator_step(generator, NULL, NULL, &error)) == TRL_OK) continue;
  *good = ok(status) && ok(trl_generator_take(generator, number, 1, &done, &error));
  if (!*good) return 0;
  text = trl_completions_text(done, 0, NULL);
  weights = strstr(trl_completions_json(done, 0, NULL), "\"last_version\":");
  is_right = strncmp(text, right, strlen(right)) == 0;
  if (strcmp(text, last) != 0 && strlen(text) < sizeof last)
    printf("step %d: %s%s\n", weights != NULL ? (int)strtol(weights + 15, NULL, 10) : -1, prompt,
           strcpy(last, text));
  trl_completions_destroy(done);
  return is_right;
}

int main(int argc, char** argv) {
  static const char settings[] =
      "{dtype: float32, bf16: false, use_peft: true, lora_r: 8, lora_target_modules: all-linear, "
      "serve_share: 0.5, serve_swap: token, dataset_streaming: true, train_sampling_strategy: sequential, "
      "learning_rate: 1e-2, lr_scheduler_type: constant, max_steps: 2000, per_device_train_batch_size: 16, "
      "save_strategy: 'no', report_to: none, logging_strategy: 'no', generate.max_new_tokens: 8}";
  static const char question[] = "The kernel answers the", answer[] = " driver at noon";
  trl_config* config = NULL;
  trl_dataset* rows = NULL;
  trl_model* model = NULL;
  trl_generator* generator = NULL;
  thrd_t thread;
  int good, learned = 0, right = 0, asked = 0;
  if (argc != 3) return fprintf(stderr, "usage: %s MODEL OUTPUT\n", argv[0]), 2;
  mtx_init(&told.lock, mtx_plain);
  correct("The scheduler", " picks a task.");
  good = ok(trl_config_create(&config, &error)) &&
         ok(trl_config_load_text(config, settings, sizeof settings - 1, &error)) &&
         ok(trl_config_set(config, "model_name_or_path", argv[1], &error)) &&
         ok(trl_config_set(config, "output_dir", argv[2], &error)) &&
         ok(trl_dataset_from_callback(NULL, next_row, rewind_rows, NULL, NULL, config, &rows, &error)) &&
         ok(trl_trainer_create(NULL, config, rows, NULL, &trainer, &error)) &&
         ok(trl_model_from_trainer(trainer, &model, &error)) &&
         ok(trl_generator_create(model, NULL, &generator, &error)) &&
         thrd_create(&thread, train, NULL) == thrd_success;
  if (good) {
    for (; good && !right && !over; ++asked) {
      if (asked == 20) {
        printf("corrected: %s%s\n", question, answer);
        correct(question, answer);
      }
      right = ask(generator, config, question, answer, &good);
    }
    trl_trainer_cancel(trainer);
    thrd_join(thread, &learned);
  }
  good = good && learned && right && ok(trl_trainer_save(trainer, NULL, NULL, &error));
  if (good) printf("%d requests, none lost; the adapter is in %s\n", asked, argv[2]);
  trl_generator_destroy(generator);
  trl_model_destroy(model);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(rows);
  trl_config_destroy(config);
  mtx_destroy(&told.lock);
  return good ? 0 : 1;
}
