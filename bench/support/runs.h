// Children that print one JSON object each, in the order A B B A, and medians over them.
#pragma once
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/child.h"

namespace trl::bench {

using Json = nlohmann::ordered_json;

inline void print(const Json& line) { std::printf("%s\n", line.dump().c_str()), std::fflush(stdout); }

// The object that a program prints last on its stdout; other lines are passed over. Its stderr is ours.
inline Json run_json(const std::vector<std::string>& words) {
  const std::string out = run_child(words);
  const size_t last = out.rfind("\n{");
  const size_t begin = last != std::string::npos ? last + 1 : out.find('{');
  Json object = begin == std::string::npos ? Json() : Json::parse(out.substr(begin), nullptr, false);
  if (!object.is_object()) throw std::runtime_error(words[0] + ": the process that measures failed");
  return object;
}

// run(i) for 0 ... count - 1 and back again, `rounds` times.
template <typename Run>
void interleave(size_t count, int rounds, const Run& run) {
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < count; ++i) run(i);
    for (size_t i = count; i-- > 0;) run(i);
  }
}

// Of one number of every run.
inline double median_of(const std::vector<Json>& runs, const char* key) {
  std::vector<double> values;
  for (const Json& run : runs) values.push_back(run.at(key).get<double>());
  return median(values);
}

}  // namespace trl::bench
