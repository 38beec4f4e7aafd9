// Metric records: names with numbers, in the order in which they were set. One record is one entry of
// log_history. Numbers are written as Python's json writes them, because trainer_state.json is read by
// Python.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trl::telemetry {

struct Entry {
  std::string name;
  double value = 0;
  bool integer = false;  // written without ".0"
};

class Record {
 public:
  void set(std::string_view name, double value) { put(name, value, false); }
  void set_integer(std::string_view name, int64_t value) { put(name, static_cast<double>(value), true); }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  void put(std::string_view name, double value, bool integer);
  std::vector<Entry> entries_;
};

// Formats as repr(): 2e-05, 1.0, 1e+16; NaN, Infinity, -Infinity as in json.dumps.
std::string python_float(double value);
std::string to_text(const Entry& entry);
double round_decimals(double value, int decimals);  // Python's round() for the few decimals of timings

}  // namespace trl::telemetry
