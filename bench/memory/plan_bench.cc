// usage: plan_bench --tokenizer DIR [--model DIR ...] [--quick] [--only NAME]
// What trl_trainer_plan predicts against what a run takes: peak resident memory (ru_maxrss) and tokens a
// second, over models x what is trained x recomputation x length, models x each lever, and models x
// preference and reward training, each in a process of its own. A JSON line each, a summary, and exit status
// 1 when the mean or largest error is above its bound.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "support/abi.h"
#include "support/random_model.h"
#include "support/scratch.h"
#include "train/sft_run.h"

namespace {

using namespace trl::bench;

constexpr ModelShape kNarrow = {8, 512, 1536, 8, 4, 32768}, kWide = {4, 1024, 4096, 16, 4, 131072};

struct Settings : CommonSettings {
  std::string tokenizer;
  std::vector<std::string> models;
  std::vector<int64_t> lengths = {256, 2048};
  int64_t lever_length = 1024;
  int steps = 3;
  bool quick = false;
  std::string only;
  double mean_bound = 0.03, largest_bound = 0.08, speed_bound = 0.25;
};

const std::vector<std::pair<std::string, Json>>& trained() {
  static const std::vector<std::pair<std::string, Json>> kAll = {
      {"full float32", {{"dtype", "float32"}}},
      {"full bfloat16", {{"dtype", "bfloat16"}}},
      {"lora", {{"dtype", "bfloat16"}, {"use_peft", true}, {"lora_target_modules", "all-linear"}}},
      {"qlora",
       {{"dtype", "bfloat16"},
        {"use_peft", true},
        {"lora_target_modules", "all-linear"},
        {"load_in_4bit", true},
        {"bnb_4bit_quant_type", "nf4"}}}};
  return kAll;
}

Json joined(Json options, const Json& more) {
  options.update(more);
  return options;
}

// Long prompts, completed after the last step, so that the speed is that of steps alone.
Json samples(const Json& more) {
  std::string prompt;
  for (int i = 0; i < 400; ++i) prompt += " the";
  Json prompts = Json::array();
  for (int i = 0; i < 32; ++i) prompts.push_back(std::to_string(i) + prompt);
  return joined({{"sample_prompts", prompts}, {"sample_steps", 3}, {"sample_max_new_tokens", 4}}, more);
}

// Each with all weights trained; recomputation is TRL's default unless it is the lever.
const std::vector<std::pair<std::string, Json>>& levers() {
  static const Json kInside = {{"optimizer_in_backward", true}, {"max_grad_norm", 0}};
  static const std::vector<std::pair<std::string, Json>> kAll = {
      {"selective", {{"gradient_checkpointing_kwargs", {{"selective", true}}}}},
      {"products again", {{"gradient_checkpointing_kwargs", {{"recompute", "products"}}}}},
      {"every 2 layers again", {{"gradient_checkpointing_kwargs", {{"every_n_layers", 2}}}}},
      {"layer inputs in a file", {{"gradient_checkpointing_kwargs", {{"offload", true}}}}},
      {"activations in a file", {{"gradient_checkpointing", false}, {"activation_offloading", true}}},
      {"a row at a time", {{"max_tokens_per_pass", 1}}},
      {"bfloat16 gradients", {{"gradient_dtype", "bfloat16"}}},
      {"inside backward", kInside},
      {"8-bit states", {{"optim", "adamw_8bit"}}},
      {"8-bit states in a file", {{"optim", "paged_adamw_8bit"}}},
      {"ademamix", {{"optim", "ademamix"}}},
      {"samples from int8 copies", samples({{"generation_dtype", "int8"}})},
      {"samples, inside backward", joined(kInside, samples({{"kv_cache_dtype", "int8"}}))}};
  return kAll;
}

// Their rows share nothing, as a plan takes it; recomputation is TRL's default.
const std::vector<std::pair<std::string, Json>>& preferences() {
  static const Json kLora = {{"use_peft", true}, {"lora_target_modules", "all-linear"}};
  static const std::vector<std::pair<std::string, Json>> kAll = {
      {"dpo, full float32", {{"method", "dpo"}, {"dtype", "float32"}}},
      {"dpo, full bfloat16", {{"method", "dpo"}, {"dtype", "bfloat16"}}},
      {"dpo, reference asked before",
       {{"method", "dpo"}, {"dtype", "float32"}, {"precompute_ref_log_probs", true}}},
      {"dpo, all kept", {{"method", "dpo"}, {"dtype", "bfloat16"}, {"gradient_checkpointing", false}}},
      {"dpo, lora", joined({{"method", "dpo"}, {"dtype", "bfloat16"}}, kLora)},
      {"dpo, qlora",
       joined(
           {{"method", "dpo"}, {"dtype", "bfloat16"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}},
           kLora)},
      {"dpo, a reference that follows", {{"method", "dpo"}, {"dtype", "bfloat16"}, {"sync_ref_model", true}}},
      {"kto, full float32", {{"method", "kto"}, {"dtype", "float32"}}},
      {"kto, reference asked before",
       {{"method", "kto"}, {"dtype", "float32"}, {"precompute_ref_log_probs", true}}},
      {"kto, lora", joined({{"method", "kto"}, {"dtype", "bfloat16"}}, kLora)},
      {"reward, full float32", {{"method", "reward"}, {"dtype", "float32"}}},
      {"reward, lora", joined({{"method", "reward"}, {"dtype", "bfloat16"}}, kLora)}};
  return kAll;
}

void write_rows(const std::string& path, int64_t tokens, int64_t rows) {
  std::vector<int64_t> ids(static_cast<size_t>(tokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i % 10);  // in every vocabulary
  std::ofstream file(path);
  for (int64_t i = 0; i < rows; ++i) file << Json({{"input_ids", ids}}).dump() << "\n";
}

// Prompt and completion together have so many tokens, with the one that ends them: one for each word.
void write_pairs(const std::string& path, const std::string& method, int64_t tokens, int64_t rows) {
  const auto words = [](const char* word, int64_t count) {
    std::string text;
    for (int64_t i = 0; i < count; ++i) text += word;
    return text;
  };
  const std::string prompt = words(" the", tokens / 2), chosen = words(" and", tokens - 1 - tokens / 2),
                    rejected = words(" not", tokens - 1 - tokens / 2);
  std::ofstream file(path);
  for (int64_t i = 0; i < rows; ++i) {
    const Json row = method == "kto"
                         ? Json({{"prompt", prompt}, {"completion", chosen}, {"label", i % 2 == 0}})
                         : Json({{"prompt", prompt}, {"chosen", chosen}, {"rejected", rejected}});
    file << row.dump() << "\n";
  }
}

// In a process of its own, whose memory is that of a run that has not begun.
int plan_child(const Json& work) {
  Json options = work.at("plan");
  options["estimate.compare"] = "[]";
  trl_config* const config = config_of(options);
  trl_runtime* runtime = nullptr;
  TRL_CHECK(trl_runtime_create(config, &runtime, &error));
  const char* json = nullptr;
  TRL_CHECK(trl_trainer_plan(runtime, config, nullptr, &json, nullptr, &error));
  Json plan = Json::parse(json);
  plan.erase("timeline");
  plan.erase("alternatives");
  print(plan);
  trl_runtime_destroy(runtime);
  trl_config_destroy(config);
  return 0;
}

struct Errors {
  double sum = 0, largest = 0;
  int count = 0;
  void add(double predicted, double measured) {
    const double error = std::abs(predicted / measured - 1);
    sum += error;
    largest = std::max(largest, error);
    ++count;
  }
  double mean() const { return count > 0 ? sum / count : 0; }
};

struct Case {
  std::string name, model;
  Json options;
  int64_t length;
};

void measure(const Settings& s, const Case& of, const Scratch& scratch, Errors& memory, Errors& speed) {
  const std::string rows = scratch.file("rows.jsonl");
  constexpr int64_t kRows = 2;
  const std::string method = of.options.value("method", "sft");
  if (method == "sft")
    write_rows(rows, of.length, kRows * (s.steps + 1));
  else
    write_pairs(rows, method, of.length, kRows * (s.steps + 1));
  SftWork work{of.model, rows, "", of.options, s.steps};
  work.options["max_length"] = of.length;
  work.options["per_device_train_batch_size"] = kRows;
  work.options["runtime.threads"] = s.threads;
  work.options["share_prefix"] = false;
  Json planned = work.options;
  planned["model_name_or_path"] = of.model;
  planned["max_steps"] = s.steps;
  planned["save_strategy"] = "no";
  planned["output_dir"] = scratch.file("out");
  const Json plan = run_json({"/proc/self/exe", kChildFlag, Json({{"plan", planned}}).dump()});
  const Json run = run_ours(work);
  if (run.at("tokens").at(0) != plan.at("tokens_per_step"))
    throw std::runtime_error(of.name + ": rows of other lengths than planned: " + run.dump());
  const double predicted = plan.at("peak_bytes"), measured = run.at("peak_resident_bytes");
  const double tokens_per_second = plan.at("tokens_per_second"), found = speed_of({run}).median;
  memory.add(predicted, measured);
  speed.add(tokens_per_second, found);
  print({{"bench", "plan"},
         {"set", of.name},
         {"length", of.length},
         {"predicted_bytes", predicted},
         {"measured_bytes", measured},
         {"error", predicted / measured - 1},
         {"predicted_tokens_per_second", tokens_per_second},
         {"measured_tokens_per_second", found},
         {"speed_error", tokens_per_second / found - 1}});
}

std::vector<Case> cases(const Settings& s, const Scratch& scratch) {
  std::vector<std::pair<std::string, std::string>> models;
  for (const auto& [name, shape] : {std::pair("narrow", kNarrow), std::pair("wide", kWide)}) {
    models.emplace_back(name, scratch.file(name));
    write_random_model(shape, s.tokenizer, models.back().second);
  }
  for (const std::string& path : s.models) models.emplace_back(path, path);
  std::vector<Case> all;
  for (const auto& [name, path] : models) {
    for (const auto& [kind, options] : trained()) {
      for (const bool again : {true, false}) {
        for (const int64_t length : s.lengths) {
          Json chosen = options;
          chosen["gradient_checkpointing"] = again;
          all.push_back(
              {name + ", " + kind + (again ? ", layers again" : ", all kept"), path, chosen, length});
        }
      }
    }
    for (const auto& [lever, options] : levers()) {
      Json chosen = options;
      chosen["dtype"] = "float32";
      all.push_back({name + ", " + lever, path, chosen, s.lever_length});
    }
    for (const auto& [kind, options] : preferences())
      all.push_back({name + ", " + kind, path, options, s.lever_length});
  }
  return all;
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("What a plan predicts against what a run takes");
  app.add_option("--tokenizer", s.tokenizer, "a model directory with tokenizer.json");
  app.add_option("--model", s.models, "further models, beside the random ones");
  app.add_option("--lengths", s.lengths, "tokens of a row")->check(CLI::Range(16, 1 << 20));
  app.add_option("--lever_length", s.lever_length,
                 "tokens of a row where one lever is set, and of a preference")
      ->check(CLI::Range(16, 1 << 20));
  app.add_option("--steps", s.steps, "of each run")->check(CLI::Range(2, 1000));
  app.add_flag("--quick", s.quick, "every fifth set");
  app.add_option("--only", s.only, "sets with this in their name");
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) {
    const Json work = Json::parse(s.child);
    return work.contains("plan") ? plan_child(work) : sft_child(s.child);
  }
  if (s.tokenizer.empty()) throw std::runtime_error("--tokenizer is needed");
  const Scratch scratch(s.scratch);
  Errors memory, speed;
  std::vector<Case> all = cases(s, scratch);
  std::erase_if(all, [&](const Case& of) { return of.name.find(s.only) == std::string::npos; });
  for (size_t i = 0; i < all.size(); i += s.quick ? 5 : 1) measure(s, all[i], scratch, memory, speed);
  const bool holds =
      memory.mean() <= s.mean_bound && memory.largest <= s.largest_bound && speed.largest <= s.speed_bound;
  print({{"bench", "plan"},
         {"sets", memory.count},
         {"mean_error", memory.mean()},
         {"mean_bound", s.mean_bound},
         {"largest_error", memory.largest},
         {"largest_bound", s.largest_bound},
         {"largest_speed_error", speed.largest},
         {"speed_bound", s.speed_bound},
         {"holds", holds}});
  return holds ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("plan_bench", [&] { return run(argc, argv); });
}
