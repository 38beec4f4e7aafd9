// Recorded runs of TRL's PPOTrainer, in the form of those of other trainers.
#pragma once
#include <string>

#include "engine/run.h"

namespace host {

// The completions of evaluation rows that a run of PPOTrainer shows in a table.
inline bool is_sample(const Json& generation) { return generation.value("for", "") == "samples"; }

// The completions of a recorded batch of PPOTrainer in the form of the other trainers: prompts are padded
// there.
inline Json without_padding(const Json& generation, int32_t pad) {
  Json prompts = Json::array();
  for (const Json& ids : generation["query_ids"]) {
    Json prompt = Json::array();
    for (const Json& id : ids)
      if (id != pad) prompt.push_back(id);
    prompts.push_back(std::move(prompt));
  }
  return {{"mode", is_sample(generation) ? "eval" : "train"},
          {"prompt_ids", std::move(prompts)},
          {"completion_ids", generation["responses"]}};
}

// The final weights of one of the models that a run of PPOTrainer trains.
inline Json weights_of(const Json& run, const std::string& model) {
  Json weights = Json::object();
  for (const auto& [tensor, want] : run["final_weights"].items())
    if (tensor.starts_with(model + ".")) weights[tensor.substr(model.size() + 1)] = want;
  return weights;
}

// Adds the norm of the gradient of each step's last update, if they were recorded, to its record.
inline void add_gradient_norms(Json& run) {
  if (!run.contains("gradient_norms")) return;
  Json& records = run["log_history"];
  const size_t updates = run["gradient_norms"].size() / records.size();
  for (size_t i = 0; i < records.size(); ++i)
    records[i]["grad_norm"] = run["gradient_norms"][(i + 1) * updates - 1];
}

// A run of PPOTrainer in that form. It has no record of the whole run, and its final weights are of both
// models.
inline Json recorded_ppo(Json run, bool samples = false) {
  Json &args = run["args"], generations = Json::array();
  args["bf16"] = false;
  args["save_strategy"] = "steps";
  args["save_steps"] = run["log_history"].size();    // the values are in the last checkpoint alone
  if (!samples) args["num_sample_generations"] = 0;  // nothing of the run depends on them
  args["reward_model_name_or_path"] = golden(run["reward_model"]);
  args["value_model_name_or_path"] = golden(run["value_model"]);
  if (run.value("order", "") == "real")
    run["batch_shuffle"] = "real";
  else
    args["train_sampling_strategy"] = "sequential";
  for (const Json& generation : run["generations"])
    if (samples || !is_sample(generation)) generations.push_back(without_padding(generation, 473));
  run["generations"] = std::move(generations);
  run["final_values"] = weights_of(run, "value_model");
  run["final_weights"] = weights_of(run, "policy");
  add_gradient_norms(run);
  run["num_update_steps"] = run["log_history"].size();
  run["log_history"].push_back(Json::object());
  run["rows"] = "0.." + std::to_string(run.contains("row_list") ? run["row_list"].size() - 1 : 63);
  run["rewards"] = Json::array();
  run["eval_rows"] = nullptr;
  if (!run.contains("lora")) run["lora"] = nullptr;
  return run;
}

}  // namespace host
