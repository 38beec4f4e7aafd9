/* usage: llama_opt MODEL.gguf IDS N_CTX N_ROWS THREADS
 * Full fine-tuning in float32 (AdamW) by llama.cpp's llama_opt, a row of N_CTX tokens a step. IDS: int32
 * token ids, one more than there are tokens in all rows. Prints one JSON object: seconds and loss of every
 * step, most resident memory. llama_bench compiles it against the headers and libraries of a llama.cpp. */
#define _POSIX_C_SOURCE 199309L
#include <ggml-opt.h>
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MOST_ROWS = 4096 };
static double ends[MOST_ROWS], losses[MOST_ROWS];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The result's loss is the mean over all rows so far. */
static void on_row(bool train, ggml_opt_context_t context, ggml_opt_dataset_t data, ggml_opt_result_t result,
                   int64_t row, int64_t rows, int64_t start_us) {
  (void)train, (void)context, (void)data, (void)rows, (void)start_us;
  ends[row - 1] = now();
  ggml_opt_result_loss(result, &losses[row - 1], NULL);
}

static void quiet(enum ggml_log_level level, const char* text, void* user_data) {
  (void)user_data;
  if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static int fail(const char* what) {
  fprintf(stderr, "llama_opt: %s\n", what);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 6) return fail("MODEL.gguf IDS N_CTX N_ROWS THREADS are expected");
  const int n_ctx = atoi(argv[3]), rows = atoi(argv[4]), threads = atoi(argv[5]);
  if (n_ctx < 1 || rows < 1 || rows > MOST_ROWS || threads < 1) return fail("numbers from 1 are expected");
  llama_log_set(quiet, NULL);
  struct llama_model_params model_params = llama_model_default_params();
  model_params.load_mode = LLAMA_LOAD_MODE_NONE; /* weights in memory of its own, which it can change */
  struct llama_model* model = llama_model_load_from_file(argv[1], model_params);
  if (model == NULL) return fail("the model cannot be opened");
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = (uint32_t)n_ctx;
  params.n_threads = params.n_threads_batch = threads;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED; /* it has no backward */
  params.type_k = params.type_v = GGML_TYPE_F32;
  struct llama_context* context = llama_init_from_model(model, params);
  if (context == NULL) return fail("no context");

  const size_t count = (size_t)n_ctx * (size_t)rows;
  int32_t* ids = malloc((count + 1) * sizeof *ids);
  FILE* file = fopen(argv[2], "rb");
  if (ids == NULL || file == NULL || fread(ids, sizeof *ids, count + 1, file) != count + 1)
    return fail("too few token ids");
  ggml_opt_dataset_t data = ggml_opt_dataset_init(GGML_TYPE_I32, GGML_TYPE_I32, n_ctx, n_ctx, rows, 1);
  memcpy(ggml_get_data(ggml_opt_dataset_data(data)), ids, count * sizeof *ids);
  memcpy(ggml_get_data(ggml_opt_dataset_labels(data)), ids + 1, count * sizeof *ids);

  struct llama_opt_params opt;
  memset(&opt, 0, sizeof opt);
  opt.param_filter = llama_opt_param_filter_all;
  opt.get_opt_pars = ggml_opt_get_default_optimizer_params;
  opt.optimizer_type = GGML_OPT_OPTIMIZER_TYPE_ADAMW;
  llama_opt_init(context, model, opt);
  ggml_opt_result_t train = ggml_opt_result_init(), eval = ggml_opt_result_init();
  const double begin = now();
  llama_opt_epoch(context, data, train, eval, rows, on_row, NULL);

  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("{\"by\": \"llama.cpp\", \"peak_resident_bytes\": %ld, \"seconds\": [", usage.ru_maxrss * 1024);
  for (int i = 0; i < rows; ++i) printf("%s%.6f", i > 0 ? ", " : "", ends[i] - (i > 0 ? ends[i - 1] : begin));
  printf("], \"losses\": [");
  for (int i = 0; i < rows; ++i)
    printf("%s%.7f", i > 0 ? ", " : "", losses[i] * (i + 1) - (i > 0 ? losses[i - 1] * i : 0));
  printf("]}\n");
  return 0;
}
