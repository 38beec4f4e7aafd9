#include "online/work.h"

#include <fstream>

namespace trl::bench {

namespace {

std::string words(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += " tide";
  return text;
}

int64_t length_of(const OnlineShape& shape, int64_t row) {
  return shape.completion - (shape.varied ? row % 3 * shape.completion / 4 : 0);
}

int64_t prompts_of(const std::string& method, int64_t group) {
  if (method == "grpo" || method == "rloo") return 1;
  return method == "online_dpo" ? group / 2 : group;
}

// Writes prompts of about as many tokens, which differ from the start; with an answer for gkd.
std::string write_rows(const std::string& method, const Scratch& scratch, const OnlineShape& shape,
                       int64_t rows) {
  std::string path = scratch.file(std::to_string(rows) + "-prompts.jsonl");
  std::ofstream file(path);
  const size_t digits = std::to_string(rows - 1).size();
  for (int64_t row = 0; row < rows; ++row) {
    std::string number = std::to_string(row);
    number.insert(0, digits - number.size(), '0');
    const std::string prompt = number + ":" + words(shape.prompt - 3);
    const Json asked = {{"role", "user"}, {"content", prompt}},
               answer = {{"role", "assistant"}, {"content", number + words(length_of(shape, row) - 3)}};
    file << (method == "gkd" ? Json({{"messages", {asked, answer}}}) : Json({{"prompt", prompt}})).dump()
         << '\n';
  }
  return path;
}

// Writes completions, in the order of generation, and their rewards unless models give the signal.
std::string write_rollouts(const std::string& method, const Scratch& scratch, const OnlineShape& shape,
                           int steps) {
  constexpr int64_t kFirst = 3;  // the ids before it are often special tokens, of padding too
  std::string path = scratch.file(std::to_string(steps) + "-rollouts.jsonl");
  std::ofstream file(path);
  for (int64_t row = 0; row < steps * shape.group; ++row) {
    std::vector<int64_t> ids;
    const int64_t tokens = method == "ppo" ? shape.completion : length_of(shape, row);
    for (int64_t i = 0; i < tokens; ++i) ids.push_back(kFirst + (row * 7919 + i * 104729 + 13) % 250);
    Json line = {{"completion_ids", ids}};
    if (method != "ppo" && method != "distillation")
      line["rewards"] = {{"points", (row * 5 + row / shape.group) % 7}};
    file << line.dump() << '\n';
  }
  return path;
}

// Returns the options in which the methods differ, by TRL's names.
Json options_of(const OnlineSettings& s, const OnlineShape& shape, int steps, bool writes) {
  const std::string& method = s.method;
  const int64_t whole = 2 * (shape.prompt + shape.completion) + 64;  // longer than any row
  if (s.has_groups())
    return {{"num_generations", shape.group},
            {"max_completion_length", shape.completion},
            {"shuffle_dataset", false}};
  if (method == "online_dpo")
    return {{"beta", 0.1},
            {"max_new_tokens", shape.completion},
            {"max_length", whole},
            {"train_sampling_strategy", "sequential"}};
  if (method == "gkd")
    return {{"teacher_model_name_or_path", s.teacher},
            {"lmbda", writes ? 1 : 0},
            {"max_new_tokens", shape.completion},
            {"max_length", whole},
            {"train_sampling_strategy", "sequential"}};
  if (method == "distillation")
    return {{"teacher_model_name_or_path", s.teacher},
            {"max_completion_length", shape.completion},
            {"shuffle_dataset", false}};
  return {{"reward_model_name_or_path", s.scorer},
          {"response_length", shape.completion},
          {"num_sample_generations", 0},
          {"total_episodes", steps * shape.group}};
}

}  // namespace

SftWork online_work(const OnlineSettings& s, const Scratch& scratch, const OnlineShape& shape, int steps,
                    bool writes) {
  const int all = steps + 1;
  const int64_t prompts = prompts_of(s.method, shape.group);
  SftWork work{s.model, write_rows(s.method, scratch, shape, all * prompts), "", {{"method", s.method}}, all};
  work.options.update({{"dtype", s.precision == "bf16" ? "bfloat16" : "float32"},
                       {"bf16", s.precision == "autocast"},
                       {"gradient_checkpointing", s.precision == "autocast"},
                       {"per_device_train_batch_size", s.has_groups() ? shape.group : prompts},
                       {"learning_rate", 1e-5},
                       {"runtime.threads", s.threads}});
  work.options.update(options_of(s, shape, all, writes));
  if (!writes && s.method != "gkd")
    work.options["replay_rollouts"] = write_rollouts(s.method, scratch, shape, all);
  else if (s.has_groups() || s.method == "online_dpo")
    work.options["reward_funcs"] = Json::array({"think_format_reward"});
  if (s.lora > 0) add_lora(s.lora, 0, work);
  return work;
}

SftWork our_work(const OnlineSettings& s, const Scratch& scratch, const OnlineShape& shape, int steps,
                 bool writes) {
  SftWork work = online_work(s, scratch, shape, steps, writes);
  if (s.has_groups()) work.options["skip_silent_rows"] = false;
  return work;
}

double warm_median(const std::vector<Json>& runs, const char* key) {
  std::vector<double> all;
  for (const Json& run : runs) {
    const std::vector<double> values = run.at(key);
    all.insert(all.end(), values.begin() + 1, values.end());
  }
  return median(all);
}

double part_of(const std::vector<Json>& runs, const std::string& part) {
  std::vector<double> all;
  for (const Json& run : runs) {
    const std::vector<double> seconds = run.at("profile").at("profile/" + part);
    all.insert(all.end(), seconds.begin() + 1, seconds.end());
  }
  return median(all);
}

}  // namespace trl::bench
