// The ways to compute a run, all with the same result: memory_budget chooses among them.
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
  bool converts = false, tiles = false;  // these two as in config::Levers
  bool leaves = false;                   // something moves from memory to a file
};

// One way to keep the inputs of backward, with the levers that change it.
struct Way {
  Lever form;
  std::vector<Lever> levers;
  std::string name() const;
  bool leaves() const;  // something moves from memory to a file
  config::Config options(const config::Config& config) const;
  config::Levers settings() const;
};

inline constexpr std::string_view kParts = "max_tokens_per_pass";

// One form of recomputation, and the levers that may be added one after another, the cheapest first. Each
// lever includes all levers before it.
struct Ladder {
  Lever form;
  std::vector<Lever> levers;
  Way rung(size_t levers_pulled) const;
  size_t staying() const;  // the number of levers with which nothing leaves memory; they are the first
};

struct Allowed {
  bool parts = true;  // a micro-batch may be split into parts
  bool leaving = false;
};

// Returns the ladders that the configuration allows, the fastest form first: a key that is set stays. Never
// empty.
std::vector<Ladder> ladders(const config::Config& config, const RunSize& size, const Allowed& allowed);

}  // namespace trl::run
