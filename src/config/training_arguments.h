// The typed view of a training configuration: read once when a trainer is created; no deeper layer sees
// strings. Names are TRL's.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "config/config.h"
#include "config/model_options.h"
#include "config/online/online_arguments.h"
#include "config/recompute.h"
#include "config/training/optim_arguments.h"
#include "config/training/reference_arguments.h"

namespace trl::config {

// The typed view of the options that DPO, Reward and KTO add to a training run.
struct PreferenceArguments : ReferenceArguments {
  std::vector<std::pair<std::string, double>> losses;  // loss_type and loss_weights
  bool exchanges = false;                              // each prompt also gets another row's completion
  double beta = 0.1;
  double label_smoothing = 0;
  std::string f_divergence_type = "reverse_kl";
  double f_alpha_divergence_coef = 0.5;
  double discopop_tau = 0.05;
  bool use_weighting = false;
  std::optional<double> ld_alpha;
  double desirable_weight = 1, undesirable_weight = 1;  // KTO
  double center_rewards_coefficient = 0;                // Reward; 0: they are not centered
  bool precompute_ref_log_probs = false;
  std::optional<int64_t> precompute_ref_batch_size;  // none: the batch size of the rows
  std::string ref_logprobs_cache_dir;
};
// Returns whether its method and loss_type exchange completions (MethodRow::exchanging_loss).
bool exchanges_completions(const Config& config);

// Reads and cross-checks the arguments of the configuration's method; throws Error(invalid_config).
PreferenceArguments preference_arguments(const Config& config);

// The settings of a run that a memory plan adds to its options. The results are the same, bit for bit.
struct Levers {
  // The feed-forward part of a layer runs on as few tokens at once as its bits allow.
  bool small_tiles = false;
  // false: float32 weights that are used in bfloat16 are converted at each use.
  bool weight_copies = true;
};

enum class Strategy : uint8_t { no, steps, epoch, best };  // best: only for save_strategy
enum class SaveFormat : uint8_t { safetensors, gguf };
enum class FusedKernels : uint8_t { automatic, on, off };
enum class FrozenCompute : uint8_t { automatic, int8 };
enum class TokensSeen : uint8_t { no, all, non_padding };  // include_num_input_tokens_seen
enum class GradientType : uint8_t { of_weights, float32, bfloat16 };
enum class SharePrefix : uint8_t { automatic, always, never };
enum class OnNonfinite : uint8_t { error, skip, proceed };  // proceed: on_nonfinite continue

struct TrainingArguments {
  const MethodRow* method = &methods().front();
  std::string output_dir;  // trainer_output if none was given
  // data and order
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 8;
  bool dataloader_drop_last = false;
  int64_t gradient_accumulation_steps = 1;
  double num_train_epochs = 3.0;
  int64_t max_steps = -1;  // 0 counts as -1, as in TRL
  int64_t seed = 42;
  std::optional<int64_t> data_seed;
  // precision and memory
  bool bf16 = true;  // autocast over the weights' dtype
  std::optional<int64_t> max_tokens_per_pass;
  SharePrefix share_prefix = SharePrefix::automatic;
  bool prefix_window = false;  // share_prefix_window is given
  Recompute recompute = {.form = Recomputed::layers};
  std::optional<ActivationOffload> offload;  // of activations
  bool makes_offload_dir = false;            // offload_dir is given, and something is offloaded into it
  Levers levers = {};                        // not an option: set by a memory plan
  std::string cache_frozen_layers;           // a directory; empty: none
  bool cache_frozen_layers_zstd = false;
  AttentionArguments attention;
  FusedKernels fused_kernels = FusedKernels::automatic;  // on: use_liger_kernel too
  bool plain() const { return fused_kernels == FusedKernels::off; }
  FrozenCompute frozen_compute = FrozenCompute::automatic;
  bool generation_exact = false;
  // optimizer
  Optim optim = Optim::adamw;
  OptimStates optim_states = OptimStates::as_weights;
  bool optim_8bit_embeddings = false;
  std::string optim_directory;  // directory of a paged optimizer's states; empty: in memory
  OptimArguments optim_args;
  double learning_rate = 2e-5;
  double weight_decay = 0.0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;  // 0: no clipping
  bool clip_by_previous_norm = false;
  GradientType gradient_dtype = GradientType::of_weights;
  bool optimizer_in_backward = false;
  bool stochastic_rounding = false;
  Scheduler lr_scheduler_type = Scheduler::linear;
  double warmup_steps = 0.0;  // below 1: a ratio of max_steps (warmup_ratio is folded in)
  ScheduleArguments lr_scheduler_kwargs;
  // loss
  bool dft = false;  // loss_type
  bool disable_dropout = false;
  PreferenceArguments preference;  // for methods that train on preferences; the reference of every method
  OnlineArguments online;          // for methods that write completions
  double label_smoothing_factor = 0;
  std::optional<double> router_aux_loss_coef;  // none: the model's own
  double neftune_noise_alpha = 0;              // 0: no noise
  // when
  Strategy logging_strategy = Strategy::steps;
  double logging_steps = 10;  // below 1: a ratio of max_steps
  bool logging_first_step = false;
  bool logging_nan_inf_filter = true;
  Strategy eval_strategy = Strategy::no;
  std::optional<double> eval_steps;  // none: logging_steps
  double eval_delay = 0;
  bool eval_on_start = false;
  bool prediction_loss_only = false;
  // records, and values that are not finite
  std::vector<std::string> report_to;
  std::string logging_dir;  // empty: none was given
  TokensSeen tokens_seen = TokensSeen::no;
  bool profile_parts = false;
  OnNonfinite on_nonfinite = OnNonfinite::error;
  // checkpoints
  Strategy save_strategy = Strategy::steps;
  double save_steps = 500;  // below 1: a ratio of max_steps
  std::optional<int64_t> save_total_limit;
  bool save_only_model = false;
  SaveFormat save_format = SaveFormat::safetensors;
  std::string save_gguf_type = "auto";
  int64_t max_shard_bytes = 50'000'000'000;
  bool load_best_model_at_end = false;
  std::string metric_for_best_model;  // "eval_..."; empty: nothing is compared
  bool greater_is_better = false;
  std::optional<std::string> resume_from_checkpoint;  // a path, "true" or "auto"
  bool ignore_data_skip = false;
  bool overwrite_output_dir = false;  // checkpoints of another run are removed
};

// Throws; called as soon as the weights are known to be float32.
[[noreturn]] void refuse_stochastic_rounding();

bool computes_in_bf16(const Config& config);  // TrainingArguments::bf16

// Reads and cross-checks; throws Error(invalid_config).
TrainingArguments training_arguments(const Config& config);
int64_t times_read() noexcept;  // calls of training_arguments() on this thread

// Reads when a run logs, evaluates and saves, and the checkpoints that it loads at its start and end.
// out.lr_scheduler_type must have been read before.
void read_events(const Config& config, TrainingArguments& out);

// Returns offload_dir, or its default; empty: nothing is offloaded.
std::string offload_directory(const TrainingArguments& arguments);

// Returns sequences per row: two for a row with two answers, and two for a row whose answer another prompt
// gets too.
int64_t sequences_per_row(const TrainingArguments& arguments);

// Returns the micro-batches of a step: gradient_accumulation_steps, or all that train on a generation.
int64_t micro_batches_per_step(const TrainingArguments& arguments);

// Converts logging_steps, warmup_steps and the like to updates: below 1 they are a share of max_steps,
// rounded up; a step beyond 64 bits is never reached.
int64_t update_count(double steps, int64_t max_steps);

// Says whether the learning rate after some updates depends on the length of the run.
bool schedule_needs_length(const TrainingArguments& arguments);

// Throws if the configuration asks for an evaluation although there are no evaluation rows.
void refuse_evaluation(const TrainingArguments& arguments);

// Returns name and effective value of every option that the weights of a run depend on, besides those that
// determine the rows: a checkpoint stores them. arguments: the typed view of config.
std::vector<std::pair<std::string, std::string>> result_options(const Config& config,
                                                                const TrainingArguments& arguments);

// The options of a run with their values, which are read once and handed on, to the engine too.
struct RunOptions {
  // Throws the errors of training_arguments().
  explicit RunOptions(Config given) : config(std::move(given)), arguments(training_arguments(config)) {}

  Config config;
  TrainingArguments arguments;  // the values of config
};

// sample_prompts: the prompts that a run completes while it trains, and when.
struct SampleArguments {
  bool asked = false;
  base::Json prompts;            // a list, as given; empty if there is a file
  std::string file;              // the file whose rows are the prompts; or empty
  std::optional<int64_t> steps;  // none: with evaluations or checkpoints
  bool evaluates = false;        // the run has evaluations
  int64_t max_new_tokens = 0;    // sample_max_new_tokens, or generate.max_new_tokens if only that is set
};

// Throws Error(invalid_config) for an empty list, and for a method whose model does not generate text.
SampleArguments sample_arguments(const Config& config);

// Returns one line for all keys that share a reason: "run_name, project: nothing is sent to a tracker".
std::vector<std::string> by_reason(const std::vector<std::string>& warnings);

// Returns warnings for the log at the start of a run: options that were given and have no effect on it, and
// values that act otherwise than they seem to.
std::vector<std::string> idle_options(const Config& config);

// Says whether the option describes an adapter, so that it needs use_peft.
bool is_of_adapters(std::string_view key);

// Returns lines for the log at the start of a run that are not warnings.
std::vector<std::string> run_notes(const Config& config);

}  // namespace trl::config
