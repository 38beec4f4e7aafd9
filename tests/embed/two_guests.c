/* Two plug-ins of a host bring a libtrl each: in whichever order and scope they are opened, in turns and on
 * two threads at once, each trains with the losses that it has alone. Both begin with singular values
 * (LAPACK). usage: two_guests FIRST SECOND SOURCE OUTPUT */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <trl.h>
#include <unistd.h>

enum { STEPS = 3 };

struct guest {
  const char* path;
  int number;
  void* library;
  trl_config* config;
  trl_dataset* rows;
  trl_trainer* trainer;
  double losses[STEPS];
};

static const char *source, *output;

static void require(int met, const char* what) {
  if (met) return;
  fprintf(stderr, "not met: %s\n", what);
  _exit(1);
}
#define REQUIRE(condition) require((condition), #condition)
#define TRL(guest, name) ((__typeof__(name)*)dlsym((guest)->library, #name))

static void check(const struct guest* guest, trl_status status, const trl_error* error) {
  if (status >= TRL_OK) return;
  fprintf(stderr, "%s: %d: %s\n", guest->path, (int)status, TRL(guest, trl_error_message)(error));
  _exit(1);
}

static void load(struct guest* guest, int scope) {
  guest->library = dlopen(guest->path, RTLD_NOW | scope);
  if (guest->library == NULL) fprintf(stderr, "%s\n", dlerror());
  REQUIRE(guest->library != NULL);
}

static void set(struct guest* guest, const char* key, const char* value) {
  trl_error* error = NULL;
  check(guest, TRL(guest, trl_config_set)(guest->config, key, value, &error), error);
}

static void begin(struct guest* guest) {
  static const char rows[] =
      "{\"text\": \"one two three four\"}\n{\"text\": \"five six seven\"}\n{\"text\": \"eight nine\"}\n";
  char path[4096];
  trl_error* error = NULL;
  REQUIRE(TRL(guest, trl_config_create)(&guest->config, NULL) == TRL_OK);
  snprintf(path, sizeof path, "%s/tests/golden/models/qwen2", source);
  set(guest, "model_name_or_path", path);
  snprintf(path, sizeof path, "%s/%d-%d", output, (int)getpid(), guest->number);
  set(guest, "output_dir", path);
  set(guest, "use_peft", "true");
  set(guest, "peft_config", "{\"init_lora_weights\": \"pissa\", \"r\": 4}");
  set(guest, "learning_rate", "0.01");
  set(guest, "max_steps", "3");
  set(guest, "save_strategy", "no");
  set(guest, "report_to", "none");
  check(guest,
        TRL(guest, trl_dataset_from_buffer)(NULL, "jsonl", rows, sizeof rows - 1, NULL, &guest->rows, &error),
        error);
  check(guest,
        TRL(guest, trl_trainer_create)(NULL, guest->config, guest->rows, NULL, &guest->trainer, &error),
        error);
}

static void step(struct guest* guest, int number) {
  const trl_metrics* metrics = NULL;
  trl_error* error = NULL;
  check(guest, TRL(guest, trl_trainer_step)(guest->trainer, &metrics, &error), error);
  REQUIRE(TRL(guest, trl_metrics_get)(metrics, "loss", &guest->losses[number]) == TRL_OK);
}

static void end(struct guest* guest) {
  TRL(guest, trl_trainer_destroy)(guest->trainer);
  TRL(guest, trl_dataset_destroy)(guest->rows);
  TRL(guest, trl_config_destroy)(guest->config);
}

static void* whole(void* data) {
  struct guest* const guest = data;
  int i;
  begin(guest);
  for (i = 0; i < STEPS; ++i) step(guest, i);
  end(guest);
  return NULL;
}

static void expect(const struct guest* guest, const double* losses, const char* when) {
  if (memcmp(guest->losses, losses, sizeof guest->losses) == 0) return;
  fprintf(stderr, "%s %s: %.17g %.17g %.17g, alone %.17g %.17g %.17g\n", guest->path, when, guest->losses[0],
          guest->losses[1], guest->losses[2], losses[0], losses[1], losses[2]);
  _exit(1);
}

/* Runs body in a process of its own. */
static void apart(void (*body)(void* data), void* data) {
  int status = 0;
  pid_t child;
  fflush(stdout);
  child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    body(data);
    exit(0); /* handlers of both run */
  }
  REQUIRE(waitpid(child, &status, 0) == child);
  if (status != 0) fprintf(stderr, "a process ended with %x\n", status);
  REQUIRE(status == 0);
}

struct alone {
  const char* path;
  int ends[2]; /* of a pipe */
};

static void train_alone(void* data) {
  const struct alone* const alone = data;
  struct guest guest = {0};
  guest.path = alone->path;
  load(&guest, RTLD_LOCAL);
  whole(&guest);
  REQUIRE(write(alone->ends[1], guest.losses, sizeof guest.losses) == sizeof guest.losses);
}

struct both {
  const char* paths[2];
  double alone[2][STEPS];
  int scopes[2];
};

static void train_both(void* data) {
  const struct both* const both = data;
  struct guest guests[2] = {{0}, {0}};
  pthread_t threads[2];
  int i, k;
  for (i = 0; i < 2; ++i) {
    guests[i].path = both->paths[i];
    guests[i].number = i;
    load(&guests[i], both->scopes[i]);
  }
  for (i = 0; i < 2; ++i) begin(&guests[i]);
  for (k = 0; k < STEPS; ++k)
    for (i = 0; i < 2; ++i) step(&guests[i], k);
  for (i = 0; i < 2; ++i) {
    expect(&guests[i], both->alone[i], "in turns");
    end(&guests[i]);
  }
  for (i = 0; i < 2; ++i) REQUIRE(pthread_create(&threads[i], NULL, whole, &guests[i]) == 0);
  for (i = 0; i < 2; ++i) REQUIRE(pthread_join(threads[i], NULL) == 0);
  for (i = 0; i < 2; ++i) expect(&guests[i], both->alone[i], "on threads");
  /* What one shuts down is not the other's. */
  REQUIRE(TRL(&guests[0], trl_runtime_shutdown)(NULL) == TRL_OK);
  whole(&guests[1]);
  expect(&guests[1], both->alone[1], "after the other's shutdown");
}

int main(int argc, char** argv) {
  static const int scopes[2] = {RTLD_LOCAL, RTLD_GLOBAL};
  double alone[2][STEPS];
  int i, order, first, second;
  REQUIRE(argc == 5);
  source = argv[3];
  output = argv[4];
  for (i = 0; i < 2; ++i) {
    struct alone one;
    one.path = argv[1 + i];
    REQUIRE(pipe(one.ends) == 0);
    apart(train_alone, &one);
    REQUIRE(read(one.ends[0], alone[i], sizeof alone[i]) == sizeof alone[i]);
  }
  for (order = 0; order < 2; ++order)
    for (first = 0; first < 2; ++first)
      for (second = 0; second < 2; ++second) {
        struct both both;
        for (i = 0; i < 2; ++i) {
          both.paths[i] = argv[1 + (order ^ i)];
          memcpy(both.alone[i], alone[order ^ i], sizeof both.alone[i]);
        }
        both.scopes[0] = scopes[first];
        both.scopes[1] = scopes[second];
        apart(train_both, &both);
        printf("order %d, scopes %d %d\n", order, first, second);
      }
  return 0;
}
