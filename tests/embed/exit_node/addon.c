/* An addon of Node that trains on threads of libuv's pool and ends with the process, as include/ABI.md
 * describes. */
#include <node_api.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <trl.h>
#include <unistd.h>

static atomic_int running, exiting, steps_done;

typedef struct {
  napi_async_work work;
  char model[4096], output[4096];
} job;

static int32_t count_step(void* nothing, int32_t event, const trl_metrics* metrics) {
  (void)nothing, (void)metrics;
  if (event == TRL_ON_STEP) atomic_fetch_add(&steps_done, 1);
  return 0;
}

static void train(const job* j) {
  static const char rows[] = "{\"text\": \"one two three four\"}\n{\"text\": \"five six seven\"}\n";
  const char* settings[][2] = {{"model_name_or_path", j->model}, {"output_dir", j->output},
                               {"max_steps", "100000"},          {"report_to", "none"},
                               {"save_strategy", "no"},          {"logging_steps", "1000"}};
  trl_config* config = NULL;
  trl_dataset* dataset = NULL;
  trl_trainer* trainer = NULL;
  trl_status status = trl_config_create(&config, NULL);
  size_t i;
  for (i = 0; status == TRL_OK && i < sizeof settings / sizeof *settings; ++i)
    status = trl_config_set(config, settings[i][0], settings[i][1], NULL);
  if (status == TRL_OK)
    status = trl_dataset_from_buffer(NULL, "jsonl", rows, strlen(rows), NULL, &dataset, NULL);
  if (status == TRL_OK) status = trl_trainer_create(NULL, config, dataset, NULL, &trainer, NULL);
  if (status == TRL_OK) trl_trainer_train(trainer, count_step, NULL, NULL);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(dataset);
  trl_config_destroy(config);
}

/* On a thread of the pool. A job that had to wait for one may come here when the process is ending already.
 */
static void execute(napi_env env, void* data) {
  (void)env;
  atomic_fetch_add(&running, 1);
  if (!atomic_load(&exiting)) train((const job*)data);
  atomic_fetch_sub(&running, 1);
}

static void complete(napi_env env, napi_status status, void* data) { (void)env, (void)status, (void)data; }

/* train(model, output): begins a job. */
static napi_value begin(napi_env env, napi_callback_info info) {
  static job jobs[16];
  static size_t count;
  job* const j = &jobs[count++ % 16];
  napi_value arguments[2], name;
  size_t size = 2;
  napi_get_cb_info(env, info, &size, arguments, NULL, NULL);
  napi_get_value_string_utf8(env, arguments[0], j->model, sizeof j->model, NULL);
  napi_get_value_string_utf8(env, arguments[1], j->output, sizeof j->output, NULL);
  napi_create_string_utf8(env, "trl", NAPI_AUTO_LENGTH, &name);
  napi_create_async_work(env, NULL, name, execute, complete, j, &j->work);
  napi_queue_async_work(env, j->work);
  return NULL;
}

/* The listener of the process's event "exit". After it Node joins the pool, so no call may run any more. */
static napi_value stop(napi_env env, napi_callback_info info) {
  (void)env, (void)info;
  atomic_store(&exiting, 1);
  while (atomic_load(&running) > 0) {
    trl_runtime_cancel(NULL);
    usleep(5000);
  }
  return NULL;
}

static napi_value steps(napi_env env, napi_callback_info info) {
  napi_value number;
  (void)info;
  napi_create_int32(env, atomic_load(&steps_done), &number);
  return number;
}

static void add(napi_env env, napi_value exports, const char* name, napi_callback function) {
  napi_value made;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, function, NULL, &made);
  napi_set_named_property(env, exports, name, made);
}

static napi_value init(napi_env env, napi_value exports) {
  napi_value global, process, on, arguments[2], nothing;
  add(env, exports, "train", begin);
  add(env, exports, "steps", steps);
  napi_get_global(env, &global);
  napi_get_named_property(env, global, "process", &process);
  napi_get_named_property(env, process, "on", &on);
  napi_create_string_utf8(env, "exit", NAPI_AUTO_LENGTH, &arguments[0]);
  napi_create_function(env, "stop", NAPI_AUTO_LENGTH, stop, NULL, &arguments[1]);
  napi_call_function(env, process, on, 2, arguments, &nothing);
  return exports;
}

NAPI_MODULE(trl_addon, init)
