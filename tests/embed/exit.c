/* A process ends at some moment while a thread of its own opens the engine and trains: it must neither crash
 * nor hang, whichever way it ends. Each round is a process of its own; the moments are spread over `span` ms.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <trl.h>
#include <unistd.h>

static void* library;
static const char *source, *output;
static atomic_int steps_done, handler_registered;

#define TRL(name) ((__typeof__(name)*)symbol(#name))

static void* symbol(const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) _exit(3);
  return found;
}

static void sleep_ms(double ms) {
  struct timespec t;
  t.tv_sec = (time_t)(ms / 1e3);
  t.tv_nsec = (long)((ms - (double)t.tv_sec * 1e3) * 1e6);
  nanosleep(&t, NULL);
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static const char* model_directory(void) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/tests/golden/models/qwen2", source);
  return path;
}

static int32_t count_step(void* nothing, int32_t event, const trl_metrics* metrics) {
  (void)nothing, (void)metrics;
  if (event == TRL_ON_STEP) atomic_fetch_add(&steps_done, 1);
  return 0;
}

/* Opens and trains again and again; steps: how many a run has, "100000" has no end. */
static void train(const char* steps) {
  static const char row[] = "{\"text\": \"one two three four five six seven\"}\n";
  char rows[64 * sizeof row] = "";
  const char* settings[][2] = {{"model_name_or_path", model_directory()},
                               {"output_dir", output},
                               {"max_steps", steps},
                               {"report_to", "none"},
                               {"save_strategy", "no"},
                               {"logging_steps", "1000"},
                               {"per_device_train_batch_size", "64"}};
  trl_config* config = NULL;
  size_t i;
  for (i = 0; i < 64; ++i) strcat(rows, row);
  if (TRL(trl_config_create)(&config, NULL) != TRL_OK) return;
  for (i = 0; i < sizeof settings / sizeof *settings; ++i) {
    if (TRL(trl_config_set)(config, settings[i][0], settings[i][1], NULL) != TRL_OK) return;
  }
  for (;;) {
    trl_dataset* dataset = NULL;
    trl_trainer* trainer = NULL;
    trl_error* error = NULL;
    trl_status status =
        TRL(trl_dataset_from_buffer)(NULL, "jsonl", rows, strlen(rows), NULL, &dataset, &error);
    if (status == TRL_OK) status = TRL(trl_trainer_create)(NULL, config, dataset, NULL, &trainer, &error);
    if (status == TRL_OK) status = TRL(trl_trainer_train)(trainer, count_step, NULL, &error);
    TRL(trl_trainer_destroy)(trainer);
    TRL(trl_dataset_destroy)(dataset);
    if (status != TRL_OK && status != TRL_E_CANCELLED) {
      fprintf(stderr, "%s\n", TRL(trl_error_message)(error));
      _exit(4);
    }
    TRL(trl_error_destroy)(error);
    if (strcmp(steps, "100000") != 0) break;
  }
  TRL(trl_config_destroy)(config);
}

static void* train_for_ever(void* nothing) {
  train("100000");
  return nothing;
}

/* As a destructor that a library registers late: nothing may run beside it. */
static void late_destructor(void) {
  const int before = atomic_load(&steps_done);
  const double latest = now_ms() + 2e3;
  while (now_ms() < latest) {
    if (atomic_load(&steps_done) != before) _exit(6);
    sleep_ms(10);
  }
}

/* The engine's own exit handler is registered while it is used for the first times. */
static void* train_with_late_destructor(void* nothing) {
  int i;
  for (i = 0; i < 3; ++i) train("1");
  if (atexit(late_destructor) != 0) _exit(7);
  atomic_store(&handler_registered, 1);
  train("100000");
  return nothing;
}

/* The process ends with its last thread. */
static void* train_once(void* nothing) {
  train("4");
  return nothing;
}

static void leave(const char* way, double after_ms) {
  const int last_thread = strcmp(way, "pthread_exit") == 0, late = strcmp(way, "late_destructor") == 0;
  void* (*const work)(void*) = last_thread ? train_once : late ? train_with_late_destructor : train_for_ever;
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, NULL) != 0) _exit(5);
  pthread_detach(thread);
  while (late && (!atomic_load(&handler_registered) || atomic_load(&steps_done) < 4)) sleep_ms(1);
  sleep_ms(after_ms);
  if (last_thread) pthread_exit(NULL);
  if (strcmp(way, "exit") == 0) exit(0);
  if (strcmp(way, "quick_exit") == 0) quick_exit(0);
}

/* 0: it ended well. */
static int wait_for(pid_t child) {
  const double latest = now_ms() + 60e3;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (now_ms() > latest) {
      kill(child, 9);
      waitpid(child, &status, 0);
      return -1;
    }
    sleep_ms(2);
  }
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char** argv) {
  const char* const way = argc > 1 ? argv[1] : "";
  int rounds, round, bad = 0;
  double span, slowest = 0;
  if (argc < 7) return 2;
  source = argv[3];
  rounds = atoi(argv[4]);
  span = atof(argv[5]);
  output = argv[6];
  for (round = 0; round < rounds; ++round) {
    /* the golden ratio's multiples lie evenly, however many rounds there are */
    const double at = span * (round * 0.6180339887 - (int)(round * 0.6180339887));
    const double begin = now_ms();
    const pid_t child = (fflush(stdout), fork());
    int result;
    if (child < 0) return 2;
    if (child == 0) {
      library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
      if (library == NULL) _exit(3);
      leave(way, at);
      return 0;
    }
    result = wait_for(child);
    if (now_ms() - begin - at > slowest) slowest = now_ms() - begin - at;
    if (result != 0) {
      printf("%s after %.0f ms: %s %d\n", way, at, result < 0 ? "hangs" : "ends with", result);
      ++bad;
    }
  }
  printf("%s: %d of %d rounds failed, the slowest end took %.0f ms\n", way, bad, rounds, slowest);
  return bad == 0 ? 0 : 1;
}
