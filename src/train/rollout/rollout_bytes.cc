// A rollout as CBOR: integers as they are, float32 numbers as their bits.
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/json/json.h"
#include "train/rollout/rollout.h"

namespace trl::train {

namespace {

using base::Json;

template <typename T>
Json packed(const std::vector<T>& values) {
  static_assert(std::is_arithmetic_v<T>);
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return Json::binary(std::move(bytes));
}

template <typename T>
void unpack(const Json& json, std::vector<T>& values) {
  const std::vector<uint8_t>& bytes = json.get_binary();
  if (bytes.size() % sizeof(T) != 0) fail(Status::format, "the completions of a checkpoint are damaged");
  values.resize(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
}

template <typename T>
Json packed_rows(const std::vector<std::vector<T>>& rows) {
  Json out = Json::array();
  for (const std::vector<T>& row : rows) out.push_back(packed(row));
  return out;
}

template <typename T>
void unpack_rows(const Json& json, std::vector<std::vector<T>>& rows) {
  for (const Json& row : json) unpack(row, rows.emplace_back());
}

Json packed_metrics(const std::vector<std::pair<std::string, double>>& metrics) {
  Json out = Json::array();
  for (const auto& [name, value] : metrics) out.push_back({name, std::bit_cast<uint64_t>(value)});
  return out;
}

void unpack_metrics(const Json& json, std::vector<std::pair<std::string, double>>& metrics) {
  for (const Json& entry : json)
    metrics.emplace_back(entry.at(0).get<std::string>(), std::bit_cast<double>(entry.at(1).get<uint64_t>()));
}

Rollout unpacked(const Json& json) {
  Rollout out;
  unpack(json.at("row_ids"), out.prompts.row_ids);
  unpack_rows(json.at("prompts"), out.prompts.ids);
  for (const Json& row : json.at("completions")) {
    engine::Completion& own = out.completions.emplace_back();
    unpack(row.at("ids"), own.ids);
    unpack(row.at("log_probabilities"), own.log_probabilities);
    unpack(row.at("written"), own.written);
  }
  unpack(json.at("ended"), out.ended);
  unpack(json.at("learned"), out.learned);
  json.at("reward_names").get_to(out.rewards.names);
  unpack(json.at("reward_weights"), out.rewards.weights);
  unpack(json.at("rewards"), out.rewards.values);
  unpack(json.at("advantages"), out.advantages);
  for (const auto& [name, values] : json.at("columns").items()) unpack(values, out.columns[name]);
  if (const Json& pad = json.at("pad"); !pad.is_null()) out.pad = pad.get<int32_t>();
  for (const auto& [name, rows] : json.at("token_columns").items())
    unpack_rows(rows, out.token_columns[name]);
  unpack_metrics(json.at("metrics"), out.metrics);
  return out;
}

}  // namespace

std::string bytes_of(const Rollout& rollout) {
  Json completions = Json::array(), columns = Json::object(), token_columns = Json::object();
  for (const engine::Completion& own : rollout.completions)
    completions.push_back({{"ids", packed(own.ids)},
                           {"log_probabilities", packed(own.log_probabilities)},
                           {"written", packed(own.written)}});
  for (const auto& [name, values] : rollout.columns) columns[name] = packed(values);
  for (const auto& [name, rows] : rollout.token_columns) token_columns[name] = packed_rows(rows);
  const Json json = {{"row_ids", packed(rollout.prompts.row_ids)},
                     {"prompts", packed_rows(rollout.prompts.ids)},
                     {"completions", std::move(completions)},
                     {"ended", packed(rollout.ended)},
                     {"learned", packed(rollout.learned)},
                     {"reward_names", rollout.rewards.names},
                     {"reward_weights", packed(rollout.rewards.weights)},
                     {"rewards", packed(rollout.rewards.values)},
                     {"advantages", packed(rollout.advantages)},
                     {"columns", std::move(columns)},
                     {"pad", rollout.pad ? Json(*rollout.pad) : Json()},
                     {"token_columns", std::move(token_columns)},
                     {"metrics", packed_metrics(rollout.metrics)}};
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

Rollout rollout_of(std::string_view bytes) {
  try {
    return unpacked(Json::from_cbor(bytes));
  } catch (const Json::exception& error) {
    fail(Status::format, "the completions of a checkpoint are damaged: {}", error.what());
  }
}

}  // namespace trl::train
