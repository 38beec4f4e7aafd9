/* Answers several users at once and prints tokens as they come, cancels one answer in the middle, and goes on
   with another conversation: generate MODEL [KEY=VALUE ...]. MODEL is a Hugging Face directory or a GGUF file
   with a chat template; keys are those of the group `generate`, such as generate.temperature. */
#include <stdio.h>
#include <string.h>
#include <trl.h>

#define PROMPTS 3
#define QUESTION "What does the kernel do?"
#define NEXT "And since when?"
#define MARK "THE-ANSWER-4f1c" /* stands for an answer in the template */

/* Prints what failed; the value of the call it stands around. */
static int ok(trl_status status, trl_error** error) {
  if (status >= TRL_OK) return 1;
  fprintf(stderr, "error %d: %s\n", (int)status, trl_error_message(*error));
  trl_error_destroy(*error);
  *error = NULL;
  return 0;
}

static int set_pair(trl_config* config, char* pair, trl_error** error) {
  char* equals = strchr(pair, '=');
  if (equals == NULL) {
    fprintf(stderr, "KEY=VALUE is needed, not %s\n", pair);
    return 0;
  }
  *equals = '\0';
  return ok(trl_config_set(config, pair, equals + 1, error), error);
}

/* Tokens of different completions alternate; `number` tells which one it is. */
static int32_t on_token(void* user_data, size_t number, int32_t token, const char* text, size_t size,
                        double log_probability) {
  (void)user_data;
  (void)log_probability; /* NaN without generate.logprobs */
  printf("[%u] %d \"%.*s\"\n", (unsigned)number, (int)token, (int)size, text);
  return 0; /* anything else ends this completion */
}

/* Steps until all completions are over. The first of them is cancelled after some steps. */
static int run(trl_generator* generator, const size_t* cancelled, trl_error** error) {
  trl_status status = TRL_OK;
  int steps = 0;
  while (status == TRL_OK) {
    status = trl_generator_step(generator, on_token, NULL, error);
    if (!ok(status, error)) return 0;
    if (cancelled != NULL && ++steps == 3 &&
        !ok(trl_generator_cancel(generator, *cancelled, 1, error), error))
      return 0;
  }
  return 1;
}

/* last: of its tokens; -1 if it has none. */
static int print_completion(trl_generator* generator, const char* prompt, size_t number, int32_t* last,
                            trl_error** error) {
  trl_completions* completions = NULL;
  const int32_t* ids;
  size_t count = 0;
  if (!ok(trl_generator_take(generator, number, 1, &completions, error), error)) return 0;
  printf("%s -> %s (%s)\n", prompt, trl_completions_text(completions, 0, NULL),
         trl_completions_finish_reason(completions, 0));
  ids = trl_completions_tokens(completions, 0, &count);
  *last = count > 0 ? ids[count - 1] : -1;
  trl_completions_destroy(completions);
  return 1;
}

/* Goes on after the user's next message. The answer's tokens stay as they were generated, and what the
   template writes between this answer and the next one follows them. Its first token is the end of the
   answer, which is there already unless the answer ended for another reason. */
static int say_next(trl_generator* generator, const trl_tokenizer* tokenizer, size_t number, int32_t last,
                    const trl_config* config, trl_error** error) {
  static const char conversation[] =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"" QUESTION
      "\"}, "
      "{\"role\": \"assistant\", \"content\": \"" MARK
      "\"}, "
      "{\"role\": \"user\", \"content\": \"" NEXT "\"}], \"add_generation_prompt\": true}";
  char text[8192];
  const char* rest;
  int32_t ids[1024];
  size_t size = 0, count = 0, skipped;
  if (!ok(trl_tokenizer_apply_chat_template(tokenizer, conversation, sizeof conversation - 1, text,
                                            sizeof text, &size, error),
          error))
    return 0;
  rest = size < sizeof text ? strstr(text, MARK) : NULL;
  if (rest == NULL) {
    fprintf(stderr, "the chat template does not write answers as they are\n");
    return 0;
  }
  rest += sizeof MARK - 1;
  if (!ok(trl_tokenizer_encode(tokenizer, rest, strlen(rest), 0, 0, ids, sizeof ids / sizeof *ids, &count,
                               error),
          error))
    return 0;
  if (count == 0 || count > sizeof ids / sizeof *ids) {
    fprintf(stderr, "the chat template writes %u tokens between two answers\n", (unsigned)count);
    return 0;
  }
  skipped = ids[0] == last ? 1 : 0;
  return ok(trl_generator_extend(generator, number, NULL, 0, ids + skipped, count - skipped, config, error),
            error);
}

static int generate(trl_model* model, trl_tokenizer* tokenizer, trl_config* config, trl_error** error) {
  static const char* const prompts[PROMPTS] = {QUESTION, "Who wrote it?", "Name a row."};
  size_t numbers[PROMPTS];
  int32_t last[PROMPTS];
  trl_generator* generator = NULL;
  int good = ok(trl_generator_create(model, tokenizer, &generator, error), error), i;
  for (i = 0; good && i < PROMPTS; ++i)
    good =
        ok(trl_generator_add(generator, prompts[i], strlen(prompts[i]), NULL, 0, config, &numbers[i], error),
           error);
  good = good && run(generator, &numbers[1], error);
  for (i = 0; good && i < PROMPTS; ++i)
    good = print_completion(generator, prompts[i], numbers[i], &last[i], error);
  /* generate.keep has kept its keys and values: only the new message is computed now. */
  good = good && say_next(generator, tokenizer, numbers[0], last[0], config, error) &&
         run(generator, NULL, error) && print_completion(generator, NEXT, numbers[0], &last[0], error) &&
         ok(trl_generator_release_memory(generator, error), error);
  trl_generator_destroy(generator);
  return good;
}

int main(int argc, char** argv) {
  trl_error* error = NULL;
  trl_config* config = NULL;
  trl_tokenizer* tokenizer = NULL;
  trl_model* model = NULL;
  int good, i;
  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL [KEY=VALUE ...]\n", argv[0]);
    return 2;
  }
  good = ok(trl_config_create(&config, &error), &error) &&
         ok(trl_config_set(config, "generate.max_new_tokens", "8", &error), &error) &&
         ok(trl_config_set(config, "generate.chat", "true", &error), &error) &&
         ok(trl_config_set(config, "generate.keep", "true", &error), &error);
  for (i = 2; good && i < argc; ++i) good = set_pair(config, argv[i], &error);
  good = good && ok(trl_tokenizer_open(NULL, argv[1], NULL, &tokenizer, &error), &error) &&
         ok(trl_model_open(NULL, argv[1], config, &model, &error), &error) &&
         generate(model, tokenizer, config, &error);
  trl_tokenizer_destroy(tokenizer);
  trl_model_destroy(model);
  trl_config_destroy(config);
  return good ? 0 : 1;
}
