#include "train/sft_run.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "support/abi.h"
#include "support/scratch.h"

namespace trl::bench {

namespace {

double metric(const trl_metrics* metrics, const char* name) {
  double value = 0;
  trl_metrics_get(metrics, name, &value);
  return value;
}

// The seconds in which this thread has run, or was ready to while others ran. What is missing in a time, it
// has waited: for a lock, another thread, a disk or a reward.
double busy_seconds() {
  timespec run{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &run);
  double on_processor = 0, ready = 0;  // nanoseconds; 0: the system does not tell them
  std::ifstream("/proc/thread-self/schedstat") >> on_processor >> ready;
  return static_cast<double>(run.tv_sec) + (static_cast<double>(run.tv_nsec) + ready) / 1e9;
}

void add_profile(const trl_metrics* metrics, Json& profile) {
  for (const char* name = nullptr; (name = trl_metrics_next(metrics, name)) != nullptr;)
    if (std::string_view(name).starts_with("profile/")) profile[name].push_back(metric(metrics, name));
}

// How many numbers the adapter has that the trainer saves.
double adapter_parameters(trl_trainer* trainer) {
  const Scratch scratch("");
  TRL_CHECK(trl_trainer_save(trainer, scratch.file("adapter").c_str(), nullptr, &error));
  std::ifstream file(scratch.file("adapter") + "/adapter_model.safetensors", std::ios::binary);
  uint64_t size = 0;
  file.read(reinterpret_cast<char*>(&size), sizeof size);
  std::string header(size, ' ');
  file.read(header.data(), static_cast<std::streamsize>(size));
  const Json tensors = Json::parse(header);
  double sum = 0;
  for (const auto& [name, tensor] : tensors.items()) {
    if (name == "__metadata__") continue;
    const std::vector<double> shape = tensor.at("shape");
    sum += std::accumulate(shape.begin(), shape.end(), 1.0, std::multiplies<>());
  }
  return sum;
}

// Rewards completions, later.
int32_t reward_later(void* milliseconds, trl_rollout* rollout) {
  std::thread([wait = std::chrono::milliseconds(*static_cast<int*>(milliseconds)), rollout] {
    std::this_thread::sleep_for(wait);
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
      TRL_CHECK(trl_rollout_set_reward(rollout, i, static_cast<double>(i % 3), &error));
    TRL_CHECK(trl_rollout_finish(rollout, nullptr, &error));
  }).detach();
  return TRL_LATER;
}

Json train(const Json& work) {
  Json options = work.at("options");
  options["model_name_or_path"] = work.at("model");
  options["output_dir"] = std::filesystem::temp_directory_path().string();  // nothing is saved
  options["save_strategy"] = "no";
  options["profile_parts"] = true;
  if (const std::string columns = work.at("columns"); !columns.empty()) options["dataset_columns"] = columns;
  const int steps = work.at("steps");
  options["max_steps"] = steps;
  trl_config* config = config_of(options);
  trl_dataset* rows = nullptr;
  trl_trainer* trainer = nullptr;
  TRL_CHECK(trl_dataset_open(nullptr, work.at("dataset").get<std::string>().c_str(), config, &rows, &error));
  TRL_CHECK(trl_trainer_create(nullptr, config, rows, nullptr, &trainer, &error));
  int late = work.at("late");
  if (late >= 0) TRL_CHECK(trl_trainer_add_reward(trainer, "later", reward_later, &late, nullptr, &error));
  Json out = {{"by", std::string("libtrl ") + trl_version_string()}};
  double before = 0;
  for (int step = 0; step < steps; ++step) {
    const trl_metrics* metrics = nullptr;
    const double begin = now(), busy = busy_seconds();
    TRL_CHECK(trl_trainer_step(trainer, &metrics, &error));
    const double end = now();
    out["waiting"].push_back(std::max(0.0, end - begin - (busy_seconds() - busy)));
    const double tokens = metric(metrics, "num_tokens");
    out["tokens"].push_back(tokens - before);
    out["seconds"].push_back(end - begin);
    out["losses"].push_back(metric(metrics, "loss"));
    out["grad_norms"].push_back(metric(metrics, "grad_norm"));
    if (step == 0) out["first_step_seconds"] = end - work.at("start").get<double>();
    add_profile(metrics, out["profile"]);
    before = tokens;
  }
  out["peak_resident_bytes"] = peak_resident();
  if (options.value("use_peft", false)) out["adapter_parameters"] = adapter_parameters(trainer);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(rows);
  trl_config_destroy(config);
  return out;
}

Json describe(const Json& work) {
  trl_model* model = nullptr;
  const char* json = nullptr;
  TRL_CHECK(trl_model_open(nullptr, work.at("model").get<std::string>().c_str(), nullptr, &model, &error));
  TRL_CHECK(trl_model_describe(model, &json, &error));
  Json out = Json::parse(json);
  trl_model_destroy(model);
  return out;
}

Json words_of(const SftWork& work) {
  return {{"model", work.model},     {"dataset", work.dataset}, {"columns", work.columns},
          {"options", work.options}, {"steps", work.steps},     {"late", work.late},
          {"start", now()}};
}

}  // namespace

int sft_child(const std::string& text) {
  const Json work = Json::parse(text);
  print(work.contains("steps") ? train(work) : describe(work));
  return 0;
}

Json run_ours(const SftWork& work) { return run_json({"/proc/self/exe", kChildFlag, words_of(work).dump()}); }

Json run_trl(const std::string& python, const SftWork& work) {
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  ::setenv("HF_DATASETS_DISABLE_PROGRESS_BARS", "1", 1);
  ::setenv("PYTHONWARNINGS", "ignore", 1);
  ::setenv("TRANSFORMERS_VERBOSITY", "error", 1);
  const std::string method = work.options.value("method", "sft");
  const bool prefers = method == "dpo" || method == "kto" || method == "reward";
  const char* script = method == "sft" ? TRL_PEERS "/train/sft_peer.py"
                       : prefers       ? TRL_PEERS "/train/preference_peer.py"
                                       : TRL_PEERS "/online/peer_of_method.py";
  return run_json({python, script, words_of(work).dump()});
}

void add_lora(int rank, double dropout, SftWork& work) {
  work.options.update({{"use_peft", true},
                       {"lora_r", rank},
                       {"lora_alpha", 2 * rank},
                       {"lora_dropout", dropout},
                       {"lora_target_modules", "all-linear"}});
}

Json describe_model(const std::string& model) {
  return run_json({"/proc/self/exe", kChildFlag, Json({{"model", model}}).dump()});
}

Speed speed_of(const std::vector<Json>& runs) {
  Speed speed;
  double tokens = 0, seconds = 0;
  std::vector<double> rates;
  for (const Json& run : runs) {
    const size_t steps = run.at("tokens").size();
    for (size_t i = steps > 1 ? 1 : 0; i < steps; ++i) {
      const double step_tokens = run["tokens"][i], step_seconds = run["seconds"][i];
      const double rate = step_tokens / step_seconds;
      speed.smallest = speed.steps == 0 ? rate : std::min(speed.smallest, rate);
      speed.largest = std::max(speed.largest, rate);
      rates.push_back(rate);
      ++speed.steps;
      tokens += step_tokens;
      seconds += step_seconds;
    }
  }
  speed.mean = tokens / seconds;
  speed.median = median(rates);
  return speed;
}

}  // namespace trl::bench
