// Unweighted means of the values that micro-batches reported since the last log, by name, in the order of
// first report.
#pragma once
#include <string>
#include <vector>

#include "telemetry/record.h"
#include "train/method.h"

namespace trl::train {

class Means {
 public:
  void add(const MethodMetrics& metrics);
  bool empty() const { return sums_.empty(); }
  void clear() { sums_.clear(); }
  void write(telemetry::Record& record, std::string_view prefix) const;

  struct Sum {
    std::string name;
    double total = 0;
    int64_t count = 0;
  };
  const std::vector<Sum>& sums() const { return sums_; }
  void set_sums(std::vector<Sum> sums) { sums_ = std::move(sums); }

 private:
  std::vector<Sum> sums_;
};

}  // namespace trl::train
