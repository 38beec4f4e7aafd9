// usage: budget_bench --model DIR|random:qwen2.5-0.5b [--tokenizer DIR] [--rows N] [--tokens N] [--plan-only]
// What memory_budget chooses from the least that there is to all that is kept, how long choosing takes, and
// what the runs then take: each in a process of its own. A JSON line each, and exit status 1 when one is
// refused or passes its budget by more than the bound.
#include <filesystem>
#include <fstream>

#include "support/abi.h"
#include "support/random_model.h"
#include "support/scratch.h"
#include "train/sft_run.h"

namespace {

using namespace trl::bench;

struct Settings : CommonSettings {
  std::string model, tokenizer, dtype = "float32";
  int64_t rows = 4, tokens = 1024;
  int steps = 2;
  bool plan_only = false;
  double bound = 0.08;
};

// What trl_trainer_plan says, and after how many seconds.
int plan_child(const Json& options) {
  trl_config* const config = config_of(options);
  trl_runtime* runtime = nullptr;
  TRL_CHECK(trl_runtime_create(config, &runtime, &error));
  const char* json = nullptr;
  trl_error* error = nullptr;
  const double begin = now();
  const trl_status status = trl_trainer_plan(runtime, config, nullptr, &json, nullptr, &error);
  Json said = status == TRL_OK ? Json::parse(json) : Json{{"refused", trl_error_message(error)}};
  said["planning_seconds"] = now() - begin;
  said.erase("timeline");
  said.erase("alternatives");
  print(said);
  trl_error_destroy(error);
  trl_runtime_destroy(runtime);
  trl_config_destroy(config);
  return 0;
}

void write_rows(const std::string& path, const Settings& s) {
  std::vector<int64_t> ids(static_cast<size_t>(s.tokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i % 10);  // in every vocabulary
  std::ofstream file(path);
  for (int64_t i = 0; i < s.rows * (s.steps + 1); ++i) file << Json({{"input_ids", ids}}).dump() << "\n";
}

int measure(Settings& s) {
  const Scratch scratch(s.scratch);
  if (s.model == "random:qwen2.5-0.5b") {
    s.model = scratch.file("model");
    write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
  }
  const std::string rows = scratch.file("rows.jsonl");
  write_rows(rows, s);
  const Json options = {{"dtype", s.dtype},
                        {"per_device_train_batch_size", s.rows},
                        {"max_length", s.tokens},
                        {"runtime.threads", s.threads},
                        {"offload_dir", scratch.file("")}};
  const auto plan = [&](const Json& more) {
    Json all = options;
    all.update({{"model_name_or_path", s.model},
                {"output_dir", scratch.file("out")},
                {"save_strategy", "no"},
                {"max_steps", s.steps}});
    all.update(more);
    return run_json({"/proc/self/exe", kChildFlag, Json({{"plan", all}}).dump()});
  };
  const double kept = plan({{"gradient_checkpointing", false}}).at("peak_bytes");
  const Json refused = plan({{"memory_budget", "1MB"}});
  const auto message = refused.at("refused").get<std::string>();
  const double smallest = 1e6 * std::stod(message.substr(message.find(", so ") + 5));
  print({{"bench", "budget"},
         {"refused", message},
         {"planning_seconds", refused.at("planning_seconds")},
         {"kept_bytes", kept},
         {"smallest_bytes", smallest}});
  bool holds = true;
  for (const double share : {0.0, 0.2, 0.4, 0.6, 0.8, 1.02}) {
    const double budget = smallest + share * (kept - smallest);
    const Json budgeted = {{"memory_budget", std::to_string(static_cast<int64_t>(budget))}};
    const Json planned = plan(budgeted);
    Json line = {{"bench", "budget"}, {"budget_bytes", budget}};
    line.update(planned.contains("refused")
                    ? planned
                    : Json{{"way", planned.at("way")},
                           {"predicted_bytes", planned.at("peak_bytes")},
                           {"predicted_tokens_per_second", planned.at("tokens_per_second")},
                           {"planning_seconds", planned.at("planning_seconds")}});
    holds = holds && !planned.contains("refused");
    if (!s.plan_only && !planned.contains("refused")) {
      SftWork work{s.model, rows, "", options, s.steps};
      work.options.update(budgeted);
      const Json run = run_ours(work);
      line["measured_bytes"] = run.at("peak_resident_bytes");
      line["measured_tokens_per_second"] = speed_of({run}).median;
      holds = holds && run.at("peak_resident_bytes").get<double>() <= (1 + s.bound) * budget;
    }
    print(line);
  }
  return holds ? 0 : 1;
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("What memory_budget chooses, and what it comes to");
  app.add_option("--model", s.model, "model directory, or random:qwen2.5-0.5b");
  app.add_option("--tokenizer", s.tokenizer, "for a random model: a directory with its tokenizer's files");
  app.add_option("--dtype", s.dtype, "of the weights; float32 computes in autocast");
  app.add_option("--rows", s.rows, "of a step")->check(CLI::Range(1, 1024));
  app.add_option("--tokens", s.tokens, "of a row")->check(CLI::Range(16, 1 << 20));
  app.add_option("--steps", s.steps, "of each run")->check(CLI::Range(2, 1000));
  app.add_flag("--plan-only", s.plan_only, "nothing is trained");
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (s.child.empty()) return measure(s);
  const Json work = Json::parse(s.child);
  return work.contains("plan") ? plan_child(work.at("plan")) : sft_child(s.child);
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("budget_bench", [&] { return run(argc, argv); });
}
