// Named numbers as a host sees them, in the order of TRL's records.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capi/handle.h"
#include "engine/host.h"
#include "trl/trl.h"

struct trl_metrics : trl::capi::Head {
  struct Entry {
    std::string name;
    double value;
  };
  struct Text {
    std::string name, value;
  };
  trl_metrics() : Head(trl::capi::Tag::metrics) {}
  ~trl_metrics() { retire(); }
  void assign(std::span<const trl::engine::Metric> metrics);
  void add_if_missing(std::string_view name, double value);
  std::vector<Entry> entries;
  std::vector<Text> texts;
};
