#include "telemetry/run_plan.h"

namespace trl::telemetry {

namespace {

base::Json to_value(const Refusal& refused) { return {{"key", refused.key}, {"message", refused.message}}; }

void add_time(base::Json& json, const RunPlan::Time& time) {
  json["tokens_per_step"] = time.tokens_per_step;
  json["seconds_per_step"] = time.seconds_per_step;
  json["tokens_per_second"] = time.tokens_per_second;
  if (time.steps > 0) json["steps"] = time.steps;
  if (time.tokens <= 0) return;
  json["tokens"] = time.tokens;
  json["seconds"] = time.seconds;
}

void add_memory(base::Json& json, const RunPlan& plan) {
  json["peak_bytes"] = plan.peak_bytes;
  json["process_bytes"] = plan.process_bytes;
  json["counted_bytes"] = plan.counted_bytes;
  json["kinds"] = base::Json::object();
  for (size_t i = 0; i < plan.kinds.size(); ++i)
    json["kinds"][std::string(base::memory_kind_name(static_cast<base::MemoryKind>(i)))] = plan.kinds[i];
  base::Json& terms = json["terms"] = base::Json::array();
  for (const RunPlan::Term& term : plan.terms)
    terms.push_back({{"name", term.name}, {"bytes", term.bytes}, {"most_bytes", term.most_bytes}});
  base::Json& timeline = json["timeline"] = base::Json::array();
  for (const RunPlan::Moment& moment : plan.timeline)
    timeline.push_back({{"at", moment.at}, {"stage", moment.stage}, {"bytes", moment.bytes}});
}

base::Json to_value(const RunPlan::Disk& disk) {
  base::Json json = {{"checkpoint_bytes", disk.checkpoint_bytes},
                     {"checkpoints", disk.checkpoints},
                     {"model_bytes", disk.model_bytes},
                     {"needed_bytes", disk.needed_bytes},
                     {"free_bytes", disk.free_bytes}};
  if (disk.refused) json["refused"] = to_value(*disk.refused);
  if (const auto& away = disk.offloaded) {
    json["offloaded_state_bytes"] = away->state_bytes;
    json["offloaded_activation_bytes"] = away->activation_bytes;
    json["offload_needed_bytes"] = away->needed_bytes;
    json["offload_free_bytes"] = away->free_bytes;
  }
  if (const auto& states = disk.frozen_states) {
    if (states->bytes) json["frozen_states_bytes"] = *states->bytes;
    json["frozen_states_free_bytes"] = states->free_bytes;
  }
  return json;
}

base::Json to_value(const RunPlan::Room& room) {
  base::Json json = base::Json::object();
  if (room.machine_bytes) json["machine_bytes"] = *room.machine_bytes;
  if (room.cgroup_bytes) json["cgroup_bytes"] = *room.cgroup_bytes;
  if (room.warning) json["warning"] = *room.warning;
  return json;
}

base::Json to_value(const RunPlan::Generation& all) {
  return {{"prompts", all.prompts},
          {"prompt_tokens", all.prompt_tokens},
          {"num_return_sequences", all.completions},
          {"max_new_tokens", all.max_new_tokens},
          {"weights_bytes", all.weights_bytes},
          {"copies_bytes", all.copies_bytes},
          {"kv_block_tokens", all.block_tokens},
          {"kv_block_bytes", all.block_bytes},
          {"kv_blocks", all.blocks},
          {"kv_bytes", all.kv_bytes},
          {"kv_limit_bytes", all.kv_limit_bytes},
          {"logits_bytes", all.logits_bytes},
          {"work_bytes", all.work_bytes},
          {"bytes", all.bytes},
          {"peak_bytes", all.peak_bytes},
          {"asleep_bytes", all.asleep_bytes},
          {"update_bytes", all.update_bytes},
          {"sequences_that_fit", all.sequences_that_fit}};
}

base::Json to_value(const RunPlan::Merge& merge) {
  return {{"bytes", merge.bytes}, {"save_bytes", merge.save_bytes}, {"peak_bytes", merge.peak_bytes}};
}

base::Json to_value(const RunPlan& plan) {
  base::Json json = base::Json::object();
  if (const auto& leaving = plan.leaving) {
    json["leaving"] = {{"bytes", leaving->bytes},
                       {"most_bytes", leaving->most_bytes},
                       {"free_bytes", leaving->free_bytes},
                       {"write_bytes_per_second", leaving->write_bytes_per_second},
                       {"read_bytes_per_second", leaving->read_bytes_per_second}};
  }
  add_time(json, plan.time);
  add_memory(json, plan);
  json["row_tokens"] = plan.row_tokens;
  json["parameters"] = plan.parameters;
  json["trained_parameters"] = plan.trained_parameters;
  json["kv_cache"] = {{"tokens", plan.cache_tokens}, {"bytes", plan.cache_bytes}};
  if (plan.samples) json["samples"] = to_value(*plan.samples);
  if (plan.generation) json["generation"] = to_value(*plan.generation);
  if (plan.merge) json["merge"] = to_value(*plan.merge);
  json["disk"] = to_value(plan.disk);
  if (!plan.way.empty()) json["way"] = plan.way;
  json["room"] = to_value(plan.room);
  json["model"] = plan.model;
  json["rows"] = plan.rows;
  return json;
}

}  // namespace

void RunPlan::set_process(int64_t bytes) {
  peak_bytes += bytes - process_bytes;
  for (std::optional<Generation>* const one : {&samples, &generation})
    if (*one) (*one)->peak_bytes += bytes - process_bytes;
  if (merge) merge->peak_bytes += bytes - process_bytes;
  process_bytes = bytes;
  terms.front().bytes = terms.front().most_bytes = bytes;
  for (Moment& moment : timeline) moment.bytes.front() = bytes;
}

base::Json to_json(const std::vector<PlannedSet>& sets) {
  base::Json json = to_value(sets.front().plan);
  base::Json& others = json["alternatives"] = base::Json::array();
  for (size_t i = 1; i < sets.size(); ++i) {
    const PlannedSet& set = sets[i];
    base::Json& other = others.emplace_back(set.refused ? base::Json{{"refused", to_value(*set.refused)}}
                                                        : to_value(set.plan));
    other["options"] = set.options;
  }
  return json;
}

}  // namespace trl::telemetry
