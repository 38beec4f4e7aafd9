// Data that the layers of one pass share.
#pragma once
#include <ATen/ATen.h>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/arithmetic/counter_random.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/experts/experts.h"
#include "kernels/kernels.h"
#include "model/decoding/narrow_weights.h"
#include "model/layer/rope_tables.h"

namespace trl::model {

using kernels::Parameter;

// An adapter's part in a forward: its low-rank terms, and its parameters in the places of the model's. The
// model itself never changes.
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
    if (random && factors.dropout.rate > 0)
      factors.dropout.key = base::counter_seed({*random, kDropout, found->second.slot});
    else
      factors.dropout = {};
    return factors;
  }
};

// The places in a layer where dropout leaves out elements in training. Other places are numbered from
// `others` on.
enum class DropPlace : uint64_t { attention_weights, attention_out, mlp_out, others };

// The key that dropout in this layer draws from; the number after the last layer is the embedding's.
inline uint64_t part_of(uint64_t random, size_t layer) { return base::counter_seed({random, layer}); }

// The settings of a memory plan: how much of a layer exists at once. Results are the same for all sizes.
struct TileSizes {
  // Tokens that pass the feed-forward part together, rounded down to kernels::kSumPiece, at least that:
  // values of its width exist only for this many, and are computed again in backward. 0: as many as take 256
  // MiB if the layer is not kept for backward; else all.
  int64_t mlp_tokens = 0;
};

class Adapter;

// Consecutive rows under one adapter.
struct WiredRows {
  int64_t rows;
  const Wiring* wiring;  // null: the model alone
};

struct LayerContext {
  at::ScalarType compute = at::kFloat;
  kernels::SegmentsPtr segments;
  std::vector<RopeTables> ropes;                    // one for each kind of layer
  kernels::AttentionPluginPtr attention = nullptr;  // null: the built-in one
  // Decoding: the rows continue these sequences, whose keys and values are cached; null: they are documents.
  const kernels::CachedRows* cached = nullptr;
  int64_t layer = 0;                      // decoding: the layer's number
  const NarrowWeights* narrow = nullptr;  // decoding: copies to compute with; null: none
  const Wiring* wiring = nullptr;         // null: the model alone
  // Decoding: instead of wiring, adapters that only add terms to projections; empty: wiring.
  std::vector<WiredRows> wirings = {};
  // Training: the seeds of this layer's dropout, and of that of the adapter's terms; empty: no dropout.
  std::optional<uint64_t> random = {}, term_random = {};
  TileSizes tiles = {};
  int64_t tile_unit = kernels::kSumPiece;  // tokens in a tile are a multiple of it
  int64_t first = 0;                       // first row in the batch, if a part of it is computed separately
  bool as_generated = false;               // ForwardOptions'
  bool again = false;  // a second run, for the graph: the output of the layer's last op is not read

  kernels::Dropout dropout(double rate, DropPlace place) const {
    if (!random || rate == 0) return {};
    return {rate, base::counter_seed({*random, static_cast<uint64_t>(place)}), first};
  }
  // Return the parameters that are computed with: the adapter's terms and its parameters in the places of the
  // model's, with dropout numbered for the rows that are computed.
  kernels::LowRank terms_of(const Parameter* weight) const {
    if (wiring == nullptr) return {};
    kernels::LowRank terms = wiring->terms_of(weight, term_random);
    terms.dropout.row = first;
    return terms;
  }
  Parameter* placed(Parameter* of_model) const {
    return wiring != nullptr ? wiring->place(of_model) : of_model;
  }
  kernels::Projection placed(kernels::Projection p) const {
    p.low_rank = terms_of(p.weight);
    for (const auto& [rows, own] : wirings)
      p.by_rows.push_back({rows, own != nullptr ? own->terms_of(p.weight, {}) : kernels::LowRank()});
    p.weight = placed(p.weight);
    p.bias = placed(p.bias);
    if (narrow != nullptr) p.narrow = narrow->of(p.weight);
    return p;
  }
  std::vector<kernels::Projection> placed(std::vector<kernels::Projection> projections) const {
    for (kernels::Projection& p : projections) p = placed(p);
    return projections;
  }
  kernels::Norm placed(kernels::Norm norm) const {
    norm.weight = placed(norm.weight);
    norm.bias = placed(norm.bias);
    return norm;
  }
  kernels::ExpertWeights placed(const kernels::ExpertWeights& weights) const {
    kernels::ExpertWeights own{placed(weights.gate_up), placed(weights.down), terms_of(weights.gate_up),
                               terms_of(weights.down)};
    if (narrow != nullptr) {
      own.gate_up_copy = narrow->of(own.gate_up);
      own.down_copy = narrow->of(own.down);
    }
    return own;
  }
};

}  // namespace trl::model
