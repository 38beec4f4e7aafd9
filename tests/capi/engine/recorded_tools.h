// The tools and environments of the recorded runs: add(a, b), and the environments counter and silent.
#pragma once
#include <map>

#include "engine/run.h"

namespace host {

class RecordedTools {
 public:
  void add_to(trl_trainer* trainer) {
    Error error;
    EXPECT_EQ(trl_trainer_set_tools(trainer, answer, this, nullptr, error), TRL_OK) << error.message();
  }

 private:
  static int32_t answer(void* user_data, trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      const char* json = nullptr;
      Error error;
      EXPECT_EQ(trl_rollout_get(rollout, i, &json, error), TRL_OK) << error.message();
      const auto [name, value] = static_cast<RecordedTools*>(user_data)->value_of(host::parse(json));
      if (value.is_null()) continue;
      EXPECT_EQ(trl_rollout_set_value(rollout, i, name.c_str(), value.dump().c_str(), error), TRL_OK)
          << error.message();
    }
    return TRL_OK;
  }

  std::pair<std::string, Json> value_of(const Json& row) {
    if (row["ask"] == "reset") {
      if (row["environment"] != "counter") return {"observation", nullptr};
      counters_[row["place"]] = row["columns"]["start"];
      return {"observation", " Start at " + row["columns"]["start"].dump() + "."};
    }
    EXPECT_EQ(row["ask"], "call");
    Json results = Json::array();
    for (const Json& call : row["calls"]) results.push_back(result_of(call, row["place"]));
    return {"results", results};
  }

  Json result_of(const Json& call, size_t place) {
    const Json& given = call["arguments"];
    if (call["name"] == "look") return "nothing";
    if (call["name"] == "step") {
      counters_[place] += given["by"].get<int64_t>();
      return "now " + std::to_string(counters_[place]);
    }
    EXPECT_EQ(call["name"], "add");
    if (!given["a"].is_number_integer() || !given["b"].is_number_integer())
      return {{"error", "a and b must be whole numbers"}};
    return given["a"].get<int64_t>() + given["b"].get<int64_t>();
  }

  std::map<size_t, int64_t> counters_;
};

// The options of a recorded run with tools.
inline Settings tools_of(const Json& recorded) {
  if (!recorded.contains("tools")) return {};
  const Json& tools = recorded["tools"];
  if (tools.contains("")) return {{"tools", tools[""].dump()}};
  return {{"environments", tools.dump()}};
}

}  // namespace host
