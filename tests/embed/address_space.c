/* A process whose address space has a limit: the engine asks for no more than a run takes, and a run under
 * any limit ends, well or with one error. Each run is a process of its own. usage: address_space LIBRARY
 * SOURCE */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <trl.h>
#include <unistd.h>

static const char *library_path, *source;

static void require(int met, const char* what) {
  if (met) return;
  fprintf(stderr, "not met: %s\n", what);
  _exit(1);
}
#define REQUIRE(condition) require((condition), #condition)

/* Bytes of a line of /proc/self/status. */
static long of_status(const char* key) {
  char line[256];
  long kilobytes = 0;
  FILE* const status = fopen("/proc/self/status", "r");
  REQUIRE(status != NULL);
  while (fgets(line, sizeof line, status) != NULL)
    if (strncmp(line, key, strlen(key)) == 0) kilobytes = atol(line + strlen(key));
  fclose(status);
  return kilobytes * 1024;
}

struct result {
  trl_status status;
  long peak; /* bytes of addresses */
  char message[512];
};

#define TRL(name) ((__typeof__(name)*)dlsym(library, #name))

static void train(const char* start, struct result* result) {
  static const char rows[] = "{\"text\": \"one two three four\"}\n{\"text\": \"five six seven\"}\n";
  char model[4096], peft[256], output[] = "/tmp/trl-space-XXXXXX";
  void* const library = dlopen(library_path, RTLD_NOW);
  trl_config* config = NULL;
  trl_dataset* dataset = NULL;
  trl_trainer* trainer = NULL;
  trl_error* error = NULL;
  REQUIRE(library != NULL && mkdtemp(output) != NULL);
  snprintf(model, sizeof model, "%s/tests/golden/models/qwen2", source);
  snprintf(peft, sizeof peft, "{\"init_lora_weights\": %s}", start);
  REQUIRE(TRL(trl_config_create)(&config, NULL) == TRL_OK);
  REQUIRE(TRL(trl_config_set)(config, "model_name_or_path", model, NULL) == TRL_OK);
  REQUIRE(TRL(trl_config_set)(config, "output_dir", output, NULL) == TRL_OK);
  REQUIRE(TRL(trl_config_set)(config, "use_peft", "true", NULL) == TRL_OK);
  REQUIRE(TRL(trl_config_set)(config, "peft_config", peft, NULL) == TRL_OK);
  REQUIRE(TRL(trl_config_set)(config, "save_strategy", "no", NULL) == TRL_OK);
  REQUIRE(TRL(trl_config_set)(config, "report_to", "none", NULL) == TRL_OK);
  REQUIRE(TRL(trl_dataset_from_buffer)(NULL, "jsonl", rows, sizeof rows - 1, NULL, &dataset, NULL) == TRL_OK);
  result->status = TRL(trl_trainer_create)(NULL, config, dataset, NULL, &trainer, &error);
  if (result->status == TRL_OK) result->status = TRL(trl_trainer_step)(trainer, NULL, &error);
  snprintf(result->message, sizeof result->message, "%s", TRL(trl_error_message)(error));
  TRL(trl_error_destroy)(error);
  TRL(trl_trainer_destroy)(trainer);
  TRL(trl_dataset_destroy)(dataset);
  TRL(trl_config_destroy)(config);
  result->peak = of_status("VmPeak:");
  rmdir(output);
}

static struct result run(const char* start, long limit) {
  struct result result;
  int ends[2], status = 0;
  pid_t child;
  memset(&result, 0, sizeof result);
  REQUIRE(pipe(ends) == 0);
  child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    struct rlimit space;
    space.rlim_cur = space.rlim_max = limit > 0 ? (rlim_t)limit : RLIM_INFINITY;
    REQUIRE(setrlimit(RLIMIT_AS, &space) == 0);
    alarm(300); /* it would try for ever */
    train(start, &result);
    REQUIRE(write(ends[1], &result, sizeof result) == sizeof result);
    _exit(0);
  }
  REQUIRE(waitpid(child, &status, 0) == child);
  if (status != 0) fprintf(stderr, "%s under %ld bytes ended with %x\n", start, limit, status);
  REQUIRE(status == 0);
  REQUIRE(read(ends[0], &result, sizeof result) == sizeof result);
  close(ends[0]);
  close(ends[1]);
  return result;
}

int main(int argc, char** argv) {
  static const char* const starts[] = {"true", "\"pissa\""};
  const long megabyte = 1L << 20;
  struct stat info;
  char model[4096];
  size_t i;
  REQUIRE(argc == 3);
  library_path = argv[1];
  source = argv[2];
  snprintf(model, sizeof model, "%s/tests/golden/models/qwen2/model.safetensors", source);
  if (stat(model, &info) != 0) return 77;
  mallopt(M_ARENA_MAX, 1); /* else each thread takes 64 MB of addresses, as long as there are some */
  setenv("OPENBLAS_NUM_THREADS", "2", 1);
  setenv("OMP_NUM_THREADS", "2", 1);
  for (i = 0; i < sizeof starts / sizeof starts[0]; ++i) {
    const struct result whole = run(starts[i], 0);
    struct result limited;
    long limit;
    int refused = 0;
    REQUIRE(whole.status == TRL_OK);
    limited = run(starts[i], whole.peak + 24 * megabyte);
    printf("%s: a peak of %ld MB: %s\n", starts[i], whole.peak / megabyte, limited.message);
    REQUIRE(limited.status == TRL_OK);
    for (limit = 250 * megabyte; limit < whole.peak; limit += 20 * megabyte) {
      limited = run(starts[i], limit);
      if (limited.status == TRL_OK) break;
      printf("%ld MB: %d: %s\n", limit / megabyte, (int)limited.status, limited.message);
      REQUIRE(limited.status == TRL_E_OUT_OF_MEMORY || limited.status == TRL_E_UNSUPPORTED);
      ++refused;
    }
    REQUIRE(refused > 0);
  }
  return 0;
}
