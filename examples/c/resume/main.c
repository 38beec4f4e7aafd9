/* A run that is killed and goes on: resume MODEL ROWS OUTPUT. It starts itself three times. The first process
   trains 12 steps without a stop. The second one saves a checkpoint every 3 steps and kills itself, as a
   machine that loses power would, in the middle of step 8. The third one is the same command again: it goes
   on from checkpoint-6. Both ends hold the same bytes. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <trl.h>
#include <unistd.h>

static int ok(trl_status status, trl_error** error) {
  if (status >= TRL_OK) return 1;
  fprintf(stderr, "error %d: %s\n", (int)status, trl_error_message(*error));
  trl_error_destroy(*error);
  *error = NULL;
  return 0;
}

static void on_log(void* user_data, int32_t level, const char* component, const char* text, size_t size) {
  (void)user_data;
  if (level >= TRL_LOG_INFO && strcmp(component, "checkpoint") == 0) printf("  %.*s\n", (int)size, text);
}

static int32_t on_event(void* user_data, int32_t event, const trl_metrics* metrics) {
  const int kill_at = *(const int*)user_data;
  double step = 0, loss = 0;
  if (event != TRL_ON_STEP) return 0;
  trl_metrics_get(metrics, "step", &step);
  trl_metrics_get(metrics, "loss", &loss);
  printf("  step %2.0f: loss %.6f\n", step, loss);
  fflush(stdout);
  if (kill_at > 0 && step >= kill_at) raise(SIGKILL);
  return 0;
}

/* One process: the whole program of a host that can be stopped at any time. */
static int train(const char* model, const char* path, const char* output, int kill_at) {
  const char* const settings[][2] = {{"max_steps", "12"},       {"per_device_train_batch_size", "4"},
                                     {"learning_rate", "1e-3"}, {"save_steps", "3"},
                                     {"save_total_limit", "2"}, {"resume_from_checkpoint", "auto"}};
  trl_error* error = NULL;
  trl_config* config = NULL;
  trl_runtime* runtime = NULL;
  trl_dataset* rows = NULL;
  trl_trainer* trainer = NULL;
  size_t i;
  int good = ok(trl_config_create(&config, &error), &error) &&
             ok(trl_config_set(config, "model_name_or_path", model, &error), &error) &&
             ok(trl_config_set(config, "output_dir", output, &error), &error);
  for (i = 0; good && i < sizeof settings / sizeof *settings; ++i)
    good = ok(trl_config_set(config, settings[i][0], settings[i][1], &error), &error);
  good = good && ok(trl_runtime_create(config, &runtime, &error), &error) &&
         ok(trl_runtime_set_log(runtime, on_log, NULL, NULL, &error), &error) &&
         ok(trl_dataset_open(runtime, path, config, &rows, &error), &error) &&
         ok(trl_trainer_create(runtime, config, rows, NULL, &trainer, &error), &error) &&
         ok(trl_trainer_train(trainer, on_event, &kill_at, &error), &error) &&
         ok(trl_trainer_save(trainer, NULL, NULL, &error), &error);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(rows);
  trl_runtime_destroy(runtime);
  trl_config_destroy(config);
  return good ? 0 : 1;
}

/* In a process of its own: 0, or what ended it. */
static int start(char** argv, const char* output, const char* kill_at) {
  int status = 0;
  pid_t child;
  fflush(stdout);
  child = fork();
  if (child == 0) {
    execl(argv[0], argv[0], argv[1], argv[2], output, kill_at, (char*)NULL);
    _exit(127);
  }
  waitpid(child, &status, 0);
  return status;
}

static int same_file(const char* a, const char* b) {
  FILE *x = fopen(a, "rb"), *y = fopen(b, "rb");
  int same = x != NULL && y != NULL, c = 0;
  while (same && c != EOF) same = (c = fgetc(x)) == fgetc(y);
  if (x != NULL) fclose(x);
  if (y != NULL) fclose(y);
  return same;
}

int main(int argc, char** argv) {
  char whole[1024], cut[1024], a[1100], b[1100];
  int status;
  if (argc == 5) return train(argv[1], argv[2], argv[3], atoi(argv[4]));
  if (argc != 4 || strlen(argv[3]) > 1000) {
    fprintf(stderr, "usage: %s MODEL ROWS OUTPUT\n", argv[0]);
    return 2;
  }
  sprintf(whole, "%s/whole", argv[3]);
  sprintf(cut, "%s/cut", argv[3]);
  puts("without a stop:");
  if (start(argv, whole, "0") != 0) return 1;
  puts("killed in step 8:");
  status = start(argv, cut, "8");
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return 1;
  puts("the same command again:");
  if (start(argv, cut, "0") != 0) return 1;
  sprintf(a, "%s/model.safetensors", whole);
  sprintf(b, "%s/model.safetensors", cut);
  if (!same_file(a, b)) {
    puts("the weights differ");
    return 1;
  }
  puts("the weights are the same, byte for byte");
  return 0;
}
