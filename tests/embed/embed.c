/* A host in plain C: libtrl.so comes in by dlopen. Each case is one expectation; exit status 0: met, 77: not
 * applicable. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <trl.h>
#include <unistd.h>

static void* library;
static const char* library_path;
static int report = 2; /* where this program itself speaks: a copy of stderr that is never redirected */

#define TRL(name) ((__typeof__(name)*)symbol(#name))

static void* symbol(const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    dprintf(report, "no %s: %s\n", name, dlerror());
    exit(1);
  }
  return found;
}

static void require(int met, const char* what) {
  if (met) return;
  dprintf(report, "not met: %s\n", what);
  exit(1);
}
#define REQUIRE(condition) require((condition), #condition)

static void open_library(void) {
  library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    dprintf(report, "%s\n", dlerror());
    exit(1);
  }
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int thread_count(void) {
  int count = 0;
  DIR* tasks = opendir("/proc/self/task");
  struct dirent* entry;
  while ((entry = readdir(tasks)) != NULL) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

/* Everything that opens no engine, right and wrong. */
static void use_without_engine(void) {
  static const char rows[] = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  trl_error* error = NULL;
  trl_config* config = NULL;
  trl_runtime* runtime = NULL;
  trl_dataset* dataset = NULL;
  trl_tokenizer* tokenizer = NULL;
  const trl_option* option = NULL;
  const char* value = NULL;
  int64_t count = 0;
  int options = 0;
  REQUIRE(TRL(trl_version)() == (TRL_VERSION_MAJOR << 16 | TRL_VERSION_MINOR << 8 | TRL_VERSION_PATCH));
  REQUIRE(TRL(trl_build_info)()[0] == '{');
  while ((option = TRL(trl_option_next)(option)) != NULL) ++options;
  REQUIRE(options > 150);
  REQUIRE(TRL(trl_config_create)(&config, &error) == TRL_OK);
  REQUIRE(TRL(trl_config_set)(config, "learning_rate", "0.25", &error) == TRL_OK);
  REQUIRE(TRL(trl_config_get)(config, "learning_rate", &value, &error) == TRL_OK);
  REQUIRE(strcmp(value, "0.25") == 0);
  REQUIRE(TRL(trl_config_set)(config, "learning_rat", "1", &error) == TRL_E_INVALID_CONFIG);
  REQUIRE(strstr(TRL(trl_error_message)(error), "learning_rate") != NULL);
  TRL(trl_error_destroy)(error);
  REQUIRE(TRL(trl_runtime_create)(config, &runtime, NULL) == TRL_OK);
  REQUIRE(TRL(trl_dataset_from_buffer)(runtime, "jsonl", rows, sizeof rows - 1, NULL, &dataset, NULL) ==
          TRL_OK);
  REQUIRE(TRL(trl_dataset_get_row_count)(dataset, &count, NULL) == TRL_OK);
  REQUIRE(count == 2);
  REQUIRE(TRL(trl_tokenizer_open)(runtime, "/nonexistent", NULL, &tokenizer, NULL) == TRL_E_NOT_FOUND);
  TRL(trl_runtime_destroy)(runtime);
  TRL(trl_config_destroy)(config);
  TRL(trl_dataset_destroy)(dataset);
}

static const char* model_directory(const char* source) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/tests/golden/models/qwen2", source);
  return path;
}

/* A few training steps and a generation; the handles stay alive when keep is set. */
static void use_engine(const char* source, int keep) {
  static const char rows[] = "{\"text\": \"one two three\"}\n{\"text\": \"four five six seven\"}\n";
  static const char* const settings[][2] = {{"output_dir", NULL},
                                            {"model_name_or_path", NULL},
                                            {"max_steps", "2"},
                                            {"report_to", "none"},
                                            {"learning_rate", "0.001"},
                                            {"logging_steps", "1"},
                                            {"per_device_train_batch_size", "2"}};
  static char output[] = "/tmp/trl-embed-XXXXXX";
  static const char* const prompt = "one";
  trl_error* error = NULL;
  trl_config* config = NULL;
  trl_dataset* dataset = NULL;
  trl_trainer* trainer = NULL;
  trl_model* model = NULL;
  trl_generator* generator = NULL;
  trl_completions* completions = NULL;
  char* out = strdup(output);
  size_t i;
  REQUIRE(mkdtemp(out) != NULL);
  REQUIRE(TRL(trl_config_create)(&config, NULL) == TRL_OK);
  for (i = 0; i < sizeof settings / sizeof *settings; ++i) {
    const char* value = i == 0 ? out : i == 1 ? model_directory(source) : settings[i][1];
    REQUIRE(TRL(trl_config_set)(config, settings[i][0], value, NULL) == TRL_OK);
  }
  REQUIRE(TRL(trl_dataset_from_buffer)(NULL, "jsonl", rows, sizeof rows - 1, NULL, &dataset, NULL) == TRL_OK);
  if (TRL(trl_trainer_create)(NULL, config, dataset, NULL, &trainer, &error) != TRL_OK) {
    dprintf(report, "%s\n", TRL(trl_error_message)(error));
    exit(1);
  }
  REQUIRE(TRL(trl_trainer_train)(trainer, NULL, NULL, NULL) == TRL_OK);
  REQUIRE(TRL(trl_trainer_save)(trainer, NULL, NULL, NULL) == TRL_OK);
  REQUIRE(TRL(trl_model_from_trainer)(trainer, &model, NULL) == TRL_OK);
  REQUIRE(TRL(trl_generator_create)(model, NULL, &generator, NULL) == TRL_OK);
  REQUIRE(TRL(trl_config_set)(config, "generate.max_new_tokens", "4", NULL) == TRL_OK);
  REQUIRE(TRL(trl_generator_generate)(generator, &prompt, NULL, 1, config, NULL, NULL, &completions, NULL) ==
          TRL_OK);
  REQUIRE(TRL(trl_completions_text)(completions, 0, NULL) != NULL);
  if (!keep) {
    TRL(trl_trainer_destroy)(trainer); /* before what was made from it */
    TRL(trl_dataset_destroy)(dataset);
    TRL(trl_completions_destroy)(completions);
    TRL(trl_generator_destroy)(generator);
    TRL(trl_model_destroy)(model);
    TRL(trl_config_destroy)(config);
  }
  free(out);
}

static void check_silence(void (*body)(const char*), const char* argument) {
  int ends[2];
  char byte;
  report = dup(2);
  REQUIRE(pipe(ends) == 0);
  dup2(ends[1], 1);
  dup2(ends[1], 2);
  close(ends[1]);
  body(argument);
  fflush(NULL);
  close(1);
  close(2);
  REQUIRE(read(ends[0], &byte, 1) == 0);
}

static void snapshot_signals(struct sigaction actions[65], sigset_t* mask) {
  int number;
  memset(actions, 0, 65 * sizeof *actions);
  for (number = 1; number <= 64; ++number) sigaction(number, NULL, &actions[number]);
  sigemptyset(mask);
  sigprocmask(SIG_SETMASK, NULL, mask);
}

/* glibc's own, in the flags of every handler that was set: also of the host's that was set again. */
enum { GLIBC_RESTORER = 0x04000000 };

static void check_signals(void (*body)(const char*), const char* argument) {
  static struct sigaction before[65], after[65];
  sigset_t mask_before, mask_after;
  int number;
  snapshot_signals(before, &mask_before);
  body(argument);
  snapshot_signals(after, &mask_after);
  for (number = 1; number <= 64; ++number) {
    REQUIRE(before[number].sa_handler == after[number].sa_handler);
    REQUIRE((before[number].sa_flags | GLIBC_RESTORER) == (after[number].sa_flags | GLIBC_RESTORER));
    REQUIRE(sigismember(&mask_before, number) == sigismember(&mask_after, number));
  }
}

static void body_without_engine(const char* argument) {
  (void)argument;
  open_library();
  use_without_engine();
}

static void body_with_engine(const char* source) {
  open_library();
  use_engine(source, 0);
}

static void check_child(trl_config* config) {
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    trl_error* error = NULL;
    trl_config* fresh = NULL;
    trl_dataset* dataset = NULL;
    const char* value = NULL;
    REQUIRE(TRL(trl_version)() != 0);
    REQUIRE(TRL(trl_config_set)(config, "learning_rate", "1", &error) == TRL_E_BUSY);
    REQUIRE(strstr(TRL(trl_error_message)(error), "forked") != NULL);
    TRL(trl_error_destroy)(error);
    REQUIRE(TRL(trl_config_get)(config, "learning_rate", &value, NULL) == TRL_E_BUSY);
    REQUIRE(TRL(trl_config_create)(&fresh, NULL) == TRL_E_BUSY);
    REQUIRE(TRL(trl_dataset_open)(NULL, "/dev/null", NULL, &dataset, NULL) == TRL_E_BUSY);
    TRL(trl_config_destroy)(config);
    exit(0);
  }
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  REQUIRE(TRL(trl_config_set)(config, "learning_rate", "1", NULL) == TRL_OK); /* the parent goes on */
}

static void check_fork(void) {
  trl_config* config = NULL;
  REQUIRE(TRL(trl_config_create)(&config, NULL) == TRL_OK);
  check_child(config);
  TRL(trl_config_destroy)(config);
}

static void check_version(void) {
  const int threads = thread_count();
  const double begin = now_ms();
  open_library();
  REQUIRE(TRL(trl_version)() != 0);
  printf("dlopen and version: %.1f ms\n", now_ms() - begin);
  REQUIRE(strcmp(TRL(trl_version_string)(), "0.1.0") == 0);
  use_without_engine();
  REQUIRE(thread_count() == threads);
}

static void check_locale(void) {
  char before[256];
  if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL && setlocale(LC_ALL, "de_DE.utf8") == NULL) {
    fprintf(stderr, "the locale de_DE.UTF-8 is not there\n");
    exit(77);
  }
  REQUIRE(localeconv()->decimal_point[0] == ',');
  snprintf(before, sizeof before, "%s", setlocale(LC_ALL, NULL));
  open_library();
  use_without_engine();
  REQUIRE(strcmp(setlocale(LC_ALL, NULL), before) == 0);
}

static void check_reload(const char* source) {
  int round;
  for (round = 0; round < 3; ++round) {
    open_library();
    if (source != NULL) {
      use_engine(source, 0);
    } else {
      use_without_engine();
    }
    REQUIRE(dlclose(library) == 0);
  }
}

static void check_environment(void) {
  extern char** environ;
  size_t before = 0, after = 0, i;
  for (i = 0; environ[i] != NULL; ++i) before += strlen(environ[i]);
  open_library();
  use_without_engine();
  for (i = 0; environ[i] != NULL; ++i) after += strlen(environ[i]);
  REQUIRE(before == after);
}

static void check_other_torch(const char* path) {
  trl_error* error = NULL;
  trl_model* model = NULL;
  REQUIRE(dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL);
  open_library();
  use_without_engine(); /* needs no tensor, so it still works */
  REQUIRE(TRL(trl_model_open)(NULL, "/nonexistent", NULL, &model, &error) == TRL_E_UNSUPPORTED);
  printf("%s\n", TRL(trl_error_message)(error));
  REQUIRE(strstr(TRL(trl_error_message)(error), path) != NULL);
  REQUIRE(strstr(TRL(trl_error_message)(error), "1.99") != NULL);
  REQUIRE(strstr(TRL(trl_error_message)(error), "needs version") != NULL);
  TRL(trl_error_destroy)(error);
}

/* A bundled engine does not mind. */
static void check_beside_other_torch(const char* path, const char* source) {
  REQUIRE(dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL);
  open_library();
  use_engine(source, 0);
}

int main(int argc, char** argv) {
  const char* name = argc > 2 ? argv[1] : "";
  const char* argument = argc > 3 ? argv[3] : "";
  library_path = argc > 2 ? argv[2] : "";
#define CASE(text) else if (strcmp(name, text) == 0)
  if (strcmp(name, "version") == 0) check_version();
  CASE("silence") check_silence(body_without_engine, NULL);
  CASE("signals") check_signals(body_without_engine, NULL);
  CASE("locale") check_locale();
  CASE("fork_child") {
    open_library();
    check_fork();
  }
  CASE("reload") check_reload(NULL);
  CASE("environment") check_environment();
  CASE("live_handles") {
    static trl_config* config = NULL; /* alive, not leaked */
    static trl_runtime* runtime = NULL;
    open_library();
    REQUIRE(TRL(trl_config_create)(&config, NULL) == TRL_OK);
    REQUIRE(TRL(trl_runtime_create)(config, &runtime, NULL) == TRL_OK);
  }
  CASE("other_torch") check_other_torch(argument);
  CASE("beside_other_torch") check_beside_other_torch(argument, argc > 4 ? argv[4] : "");
  CASE("engine_silence") check_silence(body_with_engine, argument);
  CASE("engine_signals") check_signals(body_with_engine, argument);
  CASE("engine_reload") check_reload(argument);
  CASE("engine_fork") {
    open_library();
    use_engine(argument, 0);
    check_fork();
  }
  CASE("engine_live_handles") {
    open_library();
    use_engine(argument, 1);
  }
  else {
    fprintf(stderr, "unknown case '%s'\n", name);
    return 2;
  }
  return 0;
}
