// An adapter's part in a forward: its low-rank terms, and its parameters in the places of the model's. The
// model itself never changes.
#pragma once
#include <optional>
#include <unordered_map>

#include "base/arithmetic/counter_random.h"
#include "kernels/experts/experts.h"
#include "kernels/kernels.h"

namespace trl::model {

using kernels::Parameter;

struct Wiring {
  struct Term {
    kernels::LowRank factors;
    uint64_t slot;  // the module's number, from which its dropout draws
  };
  std::unordered_map<const Parameter*, Term> terms;      // by the module's weight
  std::unordered_map<const Parameter*, Parameter*> own;  // by the model's parameter, except the head
  Parameter* head = nullptr;                             // null: the model's
  kernels::OwnRows embedding_rows = {}, head_rows = {};

  Parameter* place(Parameter* of_model) const {
    const auto found = own.find(of_model);
    return found != own.end() ? found->second : of_model;
  }
  // Returns the terms of a module, without an a if there are none. random: seeds dropout; empty: no dropout.
  kernels::LowRank terms_of(const Parameter* weight, const std::optional<uint64_t>& random) const {
    // Keeps its keys distinct from those of the model's own dropout.
    constexpr uint64_t kDropout = 0x41726f4c;
    const auto found = terms.find(weight);
    if (found == terms.end()) return {};
    kernels::LowRank factors = found->second.factors;
    if (random && factors.dropout.rate > 0) {
      factors.dropout.key = base::counter_seed({*random, kDropout, found->second.slot});
    } else {
      factors.dropout = {};
    }
    return factors;
  }
};

}  // namespace trl::model
