// The ways in which a run can be computed, all with the same result: what memory_budget chooses among.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "config/levers.h"
#include "run/plan/plan.h"

namespace trl::run {

// A change that saves memory and costs time.
struct Lever {
  std::string name;  // for the log
  std::vector<std::pair<std::string, std::string>> options = {};
  bool converts = false, tiles = false;  // of config::Levers
  bool leaves = false;                   // something leaves memory for a file
};

// One way to keep what backward needs, with the levers that change it.
struct Way {
  Lever form;
  std::vector<Lever> levers;
  std::string name() const;
  bool leaves() const;  // memory, for a file
  config::Config options(const config::Config& config) const;
  config::Levers settings() const;
};

inline constexpr std::string_view kParts = "max_tokens_per_pass";

// One form of recomputation, and the levers that may be pulled one after the other, those that cost least
// first. A lever holds together with all before it.
struct Ladder {
  Lever form;
  std::vector<Lever> levers;
  Way rung(size_t levers_pulled) const;
  size_t staying() const;  // levers with which nothing leaves memory; they come first
};

struct Allowed {
  bool parts = true;  // a micro-batch may go in parts
  bool leaving = false;
};

// Those that the configuration allows, the fastest form first: a key that is set stays as it is. Never empty.
std::vector<Ladder> ladders(const config::Config& config, const RunSize& size, const Allowed& allowed);

}  // namespace trl::run
