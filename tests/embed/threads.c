/* The threads that the library starts: none of them takes a signal of the host, all have names, they sleep
 * while there is nothing to do, and trl_runtime_shutdown ends them. usage: threads SOURCE */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <trl.h>
#include <unistd.h>

enum { MOST = 512 };
static long known[MOST];
static int known_count, seen;
static double least_work; /* of the threads of kernels in a pause, in milliseconds */
static const char *source, *width;

static void require(int met, const char* what) {
  if (met) return;
  fprintf(stderr, "not met: %s\n", what);
  exit(1);
}
#define REQUIRE(condition) require((condition), #condition)

static int list_threads(long* ids) {
  int count = 0;
  DIR* tasks = opendir("/proc/self/task");
  struct dirent* entry;
  while ((entry = readdir(tasks)) != NULL && count < MOST) {
    if (entry->d_name[0] != '.') ids[count++] = atol(entry->d_name);
  }
  closedir(tasks);
  return count;
}

static int is_known(long id) {
  int i;
  for (i = 0; i < known_count; ++i) {
    if (known[i] == id) return 1;
  }
  return 0;
}

static void read_line(long id, const char* file, const char* field, char* text, int size) {
  char path[128];
  FILE* stream;
  snprintf(path, sizeof path, "/proc/self/task/%ld/%s", id, file);
  text[0] = '\0';
  if ((stream = fopen(path, "r")) == NULL) return; /* it has ended */
  while (fgets(text, size, stream) != NULL && strncmp(text, field, strlen(field)) != 0) text[0] = '\0';
  fclose(stream);
}

/* Signals 1 to 31 but SIGKILL, SIGSTOP and SIGBUS, and those above glibc's own two. */
static void check_threads(void) {
  const unsigned long long all =
      ~((1ULL << (SIGKILL - 1)) | (1ULL << (SIGSTOP - 1)) | (1ULL << (SIGBUS - 1)) | (3ULL << 31));
  long ids[MOST];
  char line[256];
  int i;
  const int count = list_threads(ids);
  for (i = 0; i < count; ++i) {
    if (is_known(ids[i]) || ids[i] == syscall(SYS_gettid)) continue;
    read_line(ids[i], "comm", "", line, sizeof line);
    if (line[0] == '\0') continue;
    if (strncmp(line, "trl-", 4) != 0) fprintf(stderr, "a thread has the name %s", line);
    REQUIRE(strncmp(line, "trl-", 4) == 0);
    read_line(ids[i], "status", "SigBlk:", line, sizeof line);
    if (line[0] == '\0') continue;
    if ((strtoull(line + 7, NULL, 16) & all) != all) fprintf(stderr, "a thread blocks only %s", line);
    REQUIRE((strtoull(line + 7, NULL, 16) & all) == all);
    ++seen;
  }
}

/* What the threads of kernels have run for. */
static double kernel_milliseconds(void) {
  long ids[MOST];
  char line[256];
  double sum = 0;
  int i;
  const int count = list_threads(ids);
  for (i = 0; i < count; ++i) {
    read_line(ids[i], "comm", "", line, sizeof line);
    if (strncmp(line, "trl-kernel-", 11) != 0) continue;
    read_line(ids[i], "schedstat", "", line, sizeof line);
    sum += 1e-6 * strtod(line, NULL);
  }
  return sum;
}

/* A loaded machine gives a thread its processor for the last of its work in the middle of a pause. */
static void measure_sleep(void) {
  const struct timespec pause = {0, 20000000};
  const double before = kernel_milliseconds();
  double work;
  nanosleep(&pause, NULL);
  work = kernel_milliseconds() - before;
  if (work < least_work) least_work = work;
}

static int32_t on_event(void* data, int32_t event, const trl_metrics* metrics) {
  (void)data;
  (void)event;
  (void)metrics;
  measure_sleep();
  check_threads();
  return 0;
}

static void set(trl_config* config, const char* key, const char* value) {
  REQUIRE(trl_config_set(config, key, value, NULL) == TRL_OK);
}

/* data: the value of fused_kernels; with "off" the products are OpenBLAS's, which has threads of its own. */
static void* train(void* data) {
  static const char row[] =
      "{\"text\": \"one two three four five six seven eight nine ten eleven twelve\"}\n";
  char model[4096], out[] = "/tmp/trl-threads-XXXXXX", *rows = malloc(sizeof row * 20000);
  size_t size = 0;
  int i;
  trl_error* error = NULL;
  trl_config* config = NULL;
  trl_runtime* runtime = NULL;
  trl_dataset* dataset = NULL;
  trl_trainer* trainer = NULL;
  for (i = 0; i < 20000; ++i, size += sizeof row - 1) memcpy(rows + size, row, sizeof row - 1);
  snprintf(model, sizeof model, "%s/tests/golden/models/llama", source);
  REQUIRE(mkdtemp(out) != NULL && trl_config_create(&config, NULL) == TRL_OK);
  set(config, "runtime.threads", width);
  set(config, "fused_kernels", data);
  set(config, "output_dir", out);
  set(config, "model_name_or_path", model);
  set(config, "max_steps", "5");
  set(config, "save_strategy", "no");
  set(config, "per_device_train_batch_size", "2");
  REQUIRE(trl_runtime_create(config, &runtime, NULL) == TRL_OK);
  REQUIRE(trl_dataset_from_buffer(runtime, "jsonl", rows, size, NULL, &dataset, NULL) == TRL_OK);
  if (trl_trainer_create(runtime, config, dataset, NULL, &trainer, &error) != TRL_OK) {
    fprintf(stderr, "%s\n", trl_error_message(error));
    exit(1);
  }
  least_work = 1e9;
  REQUIRE(trl_trainer_train(trainer, on_event, NULL, NULL) == TRL_OK);
  REQUIRE(least_work < 1); /* a thread that spins takes 3 milliseconds and more of each pause */
  check_threads();
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(dataset);
  trl_runtime_destroy(runtime);
  trl_config_destroy(config);
  free(rows);
  return NULL;
}

/* A host that asks for a signal after all that: it is neither lost nor the end of the process. */
static void take_signal(void) {
  const struct timespec second = {1, 0};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  REQUIRE(kill(getpid(), SIGUSR1) == 0);
  REQUIRE(sigtimedwait(&set, NULL, &second) == SIGUSR1);
}

/* Those of a thread of the host that has ended go by themselves, soon. */
static void wait_for_none(void) {
  const struct timespec pause = {0, 10000000};
  long ids[MOST];
  int i;
  for (i = 0; i < 200 && list_threads(ids) > known_count; ++i) nanosleep(&pause, NULL);
  if (list_threads(ids) > known_count) check_threads();
  REQUIRE(list_threads(ids) == known_count);
}

int main(int argc, char** argv) {
  int round;
  pthread_t thread;
  REQUIRE(argc == 2);
  source = argv[1];
  if (!trl_has_feature("engine")) return 77;
  known_count = list_threads(known);
  REQUIRE(trl_runtime_shutdown(NULL) == TRL_OK); /* before there is anything */
  for (round = 0; round < 3; ++round) {
    long ids[MOST];
    seen = 0;
    width = round == 1 ? "2" : "3"; /* even if there are fewer processors; libgomp's spin if there are not */
    train(round < 2 ? "auto" : "off");
    REQUIRE(seen > 2);
    take_signal();
    REQUIRE(trl_runtime_shutdown(NULL) == TRL_OK);
    REQUIRE(list_threads(ids) == known_count);
  }
  REQUIRE(pthread_create(&thread, NULL, train, "off") == 0);
  REQUIRE(pthread_join(thread, NULL) == 0);
  REQUIRE(trl_runtime_shutdown(NULL) == TRL_OK);
  wait_for_none();
  return 0;
}
