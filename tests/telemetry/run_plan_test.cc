// The JSON of a plan: its keys in their order, and the members that a plan has only if it has them.
#include "telemetry/run_plan.h"

#include <gtest/gtest.h>

namespace trl::telemetry {
namespace {

std::vector<std::string> keys(const base::Json& json) {
  std::vector<std::string> out;
  for (const auto& [key, value] : json.items()) out.push_back(key);
  return out;
}

using Keys = std::vector<std::string>;

RunPlan plan() {
  RunPlan out;
  out.peak_bytes = 100;
  out.terms = {{"process"}, {"weights", 100, 100}};
  out.timeline = {{0, "open", {0, 100}}, {1, "forward", {0, 50}}};
  return out;
}

TEST(RunPlan, AnUnboundedRunHasTheKeysThatEveryPlanHas) {
  const base::Json json = to_json({{"as configured", plan(), {}}});
  EXPECT_EQ(keys(json),
            (Keys{"tokens_per_step", "seconds_per_step", "tokens_per_second", "peak_bytes", "process_bytes",
                  "counted_bytes", "kinds", "terms", "timeline", "row_tokens", "parameters",
                  "trained_parameters", "kv_cache", "disk", "room", "model", "rows", "alternatives"}));
  EXPECT_EQ(json["timeline"][1].dump(), R"({"at":1.0,"stage":"forward","bytes":[0,50]})");
  EXPECT_EQ(json["room"].dump(), "{}");
  EXPECT_EQ(json["alternatives"].dump(), "[]");
  EXPECT_EQ(keys(json["kinds"]),
            (Keys{"weights", "gradients", "optimizer", "activations", "workspace", "data"}));
  EXPECT_EQ(keys(json["disk"]),
            (Keys{"checkpoint_bytes", "checkpoints", "model_bytes", "needed_bytes", "free_bytes"}));
}

TEST(RunPlan, WhatARunAddsIsInItsPlace) {
  RunPlan full = plan();
  full.leaving.emplace();
  full.time = {8, 0.5, 16, 3, 24, 1.5};
  full.disk.refused = {"output_dir", "too little"};
  full.disk.offloaded.emplace();
  full.disk.frozen_states.emplace().bytes = 7;
  full.way = "everything is kept for backward";
  full.room.machine_bytes = 1000;
  const base::Json json = to_json({{"as configured", full, {}}});
  EXPECT_EQ(keys(json), (Keys{"leaving",
                              "tokens_per_step",
                              "seconds_per_step",
                              "tokens_per_second",
                              "steps",
                              "tokens",
                              "seconds",
                              "peak_bytes",
                              "process_bytes",
                              "counted_bytes",
                              "kinds",
                              "terms",
                              "timeline",
                              "row_tokens",
                              "parameters",
                              "trained_parameters",
                              "kv_cache",
                              "disk",
                              "way",
                              "room",
                              "model",
                              "rows",
                              "alternatives"}));
  EXPECT_EQ(keys(json["disk"]),
            (Keys{"checkpoint_bytes", "checkpoints", "model_bytes", "needed_bytes", "free_bytes", "refused",
                  "offloaded_state_bytes", "offloaded_activation_bytes", "offload_needed_bytes",
                  "offload_free_bytes", "frozen_states_bytes", "frozen_states_free_bytes"}));
  EXPECT_EQ(json["disk"]["refused"].dump(), R"({"key":"output_dir","message":"too little"})");
}

TEST(RunPlan, ARefusedSetHasOnlyItsReason) {
  const base::Json json = to_json({{"as configured", plan(), {}},
                                   {"optim: x", {}, Refusal{"optim", "not accepted"}},
                                   {"use_peft: true", plan(), {}}});
  EXPECT_EQ(json["alternatives"][0].dump(),
            R"({"refused":{"key":"optim","message":"not accepted"},"options":"optim: x"})");
  EXPECT_EQ(keys(json["alternatives"][1]).back(), "options");
  EXPECT_FALSE(json["alternatives"][1].contains("alternatives"));
}

TEST(RunPlan, TheProcessIsTheFirstTermOfEachMoment) {
  RunPlan of = plan();
  of.set_process(30);
  of.set_process(20);
  EXPECT_EQ(of.peak_bytes, 120);
  EXPECT_EQ(of.process_bytes, 20);
  EXPECT_EQ(of.terms[0].most_bytes, 20);
  EXPECT_EQ(of.timeline[1].bytes, (std::vector<int64_t>{20, 50}));
}

}  // namespace
}  // namespace trl::telemetry
