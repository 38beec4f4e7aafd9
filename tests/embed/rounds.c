/* Round after round in one process, everything is made, used and destroyed: runtime, rows, trainer, one step,
 * an evaluation, a generator, completions. After the first rounds nothing grows any more: resident memory,
 * threads, file descriptors, mappings. usage: rounds SOURCE ROUNDS */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trl.h>
#include <unistd.h>

/* What a process has that may grow; the limits are for all rounds of the second half together. */
enum { RESIDENT, THREADS, DESCRIPTORS, MAPPINGS, KINDS };
static const char* const names[KINDS] = {"resident bytes", "threads", "file descriptors", "mappings"};
#ifdef __SANITIZE_ADDRESS__ /* which keeps for a while what is freed */
static const long most_growth[KINDS] = {1L << 40, 0, 0, 1L << 20};
#else
static const long most_growth[KINDS] = {1L << 20, 0, 0, 4};
#endif

static char model[4096], output[] = "/tmp/trl-rounds-XXXXXX";

static void require(int met, const char* what, const trl_error* error) {
  if (met) return;
  fprintf(stderr, "not met: %s: %s\n", what, trl_error_message(error));
  exit(1);
}
#define REQUIRE(condition) require((condition), #condition, error)

static long entries(const char* folder) {
  long count = 0;
  struct dirent* entry;
  DIR* opened = opendir(folder);
  while (opened != NULL && (entry = readdir(opened)) != NULL) count += entry->d_name[0] != '.';
  if (opened != NULL) closedir(opened);
  return count;
}

static void measure(long* now) {
  long pages = 0;
  int byte;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) exit(2);
  fclose(file);
  now[RESIDENT] = pages * sysconf(_SC_PAGESIZE);
  now[THREADS] = entries("/proc/self/task");
  now[DESCRIPTORS] = entries("/proc/self/fd");
  now[MAPPINGS] = 0;
  if ((file = fopen("/proc/self/maps", "r")) == NULL) exit(2);
  while ((byte = getc(file)) != EOF) now[MAPPINGS] += byte == '\n';
  fclose(file);
}

static trl_config* config_of(const char* (*settings)[2], size_t count) {
  trl_error* error = NULL;
  trl_config* config = NULL;
  size_t i;
  REQUIRE(trl_config_create(&config, &error) == TRL_OK);
  for (i = 0; i < count; ++i)
    REQUIRE(trl_config_set(config, settings[i][0], settings[i][1], &error) == TRL_OK);
  return config;
}

static int32_t on_event(void* events, int32_t event, const trl_metrics* metrics) {
  (void)metrics, (void)event;
  ++*(int*)events;
  return 0;
}

static void run_round(void) {
  static const char rows[] =
      "{\"text\": \"one two three four five\"}\n{\"text\": \"six seven\"}\n{\"text\": \"eight nine ten\"}\n"
      "{\"text\": \"eleven\"}\n";
  static const char* const prompts[] = {"one two", "eight"};
  const char* settings[][2] = {
      {"model_name_or_path", model}, {"output_dir", output},  {"max_steps", "1"},
      {"report_to", "none"},         {"save_strategy", "no"}, {"per_device_train_batch_size", "4"},
      {"runtime.threads", "2"}};
  const char* request[][2] = {{"generate.max_new_tokens", "4"}};
  trl_error* error = NULL;
  trl_config* const config = config_of(settings, sizeof settings / sizeof *settings);
  trl_config* const options = config_of(request, 1);
  trl_runtime* runtime = NULL;
  trl_dataset *train = NULL, *eval = NULL;
  trl_trainer* trainer = NULL;
  trl_model* trained = NULL;
  trl_generator* generator = NULL;
  trl_completions* completions = NULL;
  const trl_metrics* metrics = NULL;
  const char* json = NULL;
  int events = 0;
  REQUIRE(trl_runtime_create(config, &runtime, &error) == TRL_OK);
  REQUIRE(trl_dataset_from_buffer(runtime, "jsonl", rows, sizeof rows - 1, NULL, &train, &error) == TRL_OK);
  REQUIRE(trl_dataset_from_buffer(runtime, "jsonl", rows, sizeof rows - 1, NULL, &eval, &error) == TRL_OK);
  REQUIRE(trl_trainer_create(runtime, config, train, eval, &trainer, &error) == TRL_OK);
  REQUIRE(trl_trainer_train(trainer, on_event, &events, &error) == TRL_OK && events > 0);
  REQUIRE(trl_trainer_evaluate(trainer, NULL, &metrics, &error) == TRL_OK);
  REQUIRE(trl_trainer_describe(trainer, &json, &error) == TRL_OK);
  REQUIRE(trl_model_from_trainer(trainer, &trained, &error) == TRL_OK);
  REQUIRE(trl_generator_create(trained, NULL, &generator, &error) == TRL_OK);
  REQUIRE(trl_generator_generate(generator, prompts, NULL, 2, options, NULL, NULL, &completions, &error) ==
          TRL_OK);
  trl_completions_destroy(completions);
  trl_generator_destroy(generator);
  trl_model_destroy(trained);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(eval);
  trl_dataset_destroy(train);
  trl_runtime_destroy(runtime);
  trl_config_destroy(options);
  trl_config_destroy(config);
}

int main(int argc, char** argv) {
  long highest[2][KINDS] = {{0}}, now[KINDS];
  int rounds, warm, round, kind, bad = 0;
  if (argc != 3 || (rounds = atoi(argv[2])) < 10) return 2;
  if (!trl_has_feature("engine")) return 77;
  if (mkdtemp(output) == NULL) return 2;
  snprintf(model, sizeof model, "%s/tests/golden/models/qwen2", argv[1]);
  warm = rounds / 5;
  for (round = 0; round < rounds; ++round) {
    long* const half = highest[round - warm >= (rounds - warm) / 2];
    run_round();
    measure(now);
    for (kind = 0; kind < KINDS && round >= warm; ++kind) {
      if (now[kind] > half[kind]) half[kind] = now[kind];
    }
  }
  for (kind = 0; kind < KINDS; ++kind) {
    const long growth = highest[1][kind] - highest[0][kind];
    printf("%s: %ld, then %ld\n", names[kind], highest[0][kind], highest[1][kind]);
    if (growth > most_growth[kind]) {
      fprintf(stderr, "%s grew by %ld in %d rounds\n", names[kind], growth, (rounds - warm) / 2);
      bad = 1;
    }
  }
  strcat(strcpy(model, output), "/trainer_state.json");
  unlink(model);
  rmdir(output);
  return bad;
}
