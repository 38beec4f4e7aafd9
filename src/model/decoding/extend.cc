// Decoding: rows that continue sequences.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "kernels/attention/cached_rows.h"
#include "kernels/gemm/gemm.h"
#include "model/model.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"

namespace trl::model {

namespace {

// Ids, positions and runs as a batch of documents.
ForwardInput as_input(const SequenceRows& rows) {
  const auto count = static_cast<int64_t>(rows.ids.size());
  auto segments = std::make_shared<kernels::Segments>(kernels::Segments{{0}});
  ForwardInput input{at::tensor(rows.ids, at::kInt), at::empty({count}, at::kInt), segments};
  int32_t* position = input.position_ids.data_ptr<int32_t>();
  for (const SequenceRows::Run& run : rows.runs) {
    if (run.rows > count - segments->cu_seqlens.back()) break;
    std::iota(position, position + run.rows, static_cast<int32_t>(run.position));
    position += run.rows;
    segments->cu_seqlens.push_back(segments->cu_seqlens.back() + static_cast<int32_t>(run.rows));
    segments->max_length = std::max(segments->max_length, run.rows);
  }
  return input;
}

// The reach of the longest sequence.
int64_t reach_of(const SequenceRows& rows) {
  int64_t reach = 0;
  for (const SequenceRows::Run& run : rows.runs)
    reach = std::max({reach, run.reach, run.position + run.rows});
  return reach;
}

at::Tensor picked(const at::Tensor& x, const std::vector<int64_t>& rows) {
  if (!x.is_cpu()) return x.index_select(0, at::tensor(rows, at::kLong).to(x.device()));
  const at::Tensor out =
      tensor::empty({std::ssize(rows), x.size(1)}, x.scalar_type(), tensor::MemoryKind::workspace);
  for (int64_t i = 0; i < std::ssize(rows); ++i)
    tensor::copy(x.narrow(0, rows[static_cast<size_t>(i)], 1), out.narrow(0, i, 1));
  return out;
}

}  // namespace

kernels::CacheShape Model::cache_shape(at::ScalarType wanted, bool int8) const {
  return {config().num_key_value_heads, config().head_dim, compute(wanted), int8};
}

KvMemory Model::kv_memory(at::ScalarType wanted, bool int8) const {
  return {config().num_hidden_layers, cache_shape(wanted, int8), device_};
}

std::vector<RopeTables> Model::ropes_by_run(const SequenceRows& rows, const at::Tensor& position_ids) const {
  std::vector<RopeTables> all;
  int64_t begin = 0;
  for (const SequenceRows::Run& run : rows.runs) {
    const std::vector<RopeTables> own = rope_tables_of(position_ids.narrow(0, begin, run.rows), run.reach);
    begin += run.rows;
    if (all.empty()) all.resize(own.size());
    for (size_t i = 0; i < own.size(); ++i) {
      all[i].cos = all[i].cos.defined() ? at::cat({all[i].cos, own[i].cos}) : own[i].cos;
      all[i].sin = all[i].sin.defined() ? at::cat({all[i].sin, own[i].sin}) : own[i].sin;
    }
  }
  return all;
}

bool Model::only_adds_terms(const Adapter* adapter) const {
  const Wiring* const wiring = wiring_of(adapter);
  if (wiring == nullptr) return true;
  const auto of_projection = [&](const auto& term) {
    return term.first->shape().size() == 2 && term.first != embedding_ && term.first != positions_;
  };
  return wiring->own.empty() && wiring->head == nullptr && wiring->embedding_rows.rows == nullptr &&
         wiring->head_rows.rows == nullptr && std::ranges::all_of(wiring->terms, of_projection);
}

// Empty: all rows are under one adapter.
std::vector<WiredRows> Model::wirings_of(const SequenceRows& rows) const {
  std::vector<WiredRows> all;
  bool terms = true;
  for (const SequenceRows::Run& run : rows.runs) {
    const Adapter* const adapter = run.adapter.value_or(adapters_.in_use());
    const Wiring* const wiring = wiring_of(adapter);
    terms = terms && only_adds_terms(adapter);
    if (!all.empty() && all.back().wiring == wiring)
      all.back().rows += run.rows;
    else
      all.push_back({run.rows, wiring});
  }
  if (all.size() == 1) return {};
  if (!terms)
    fail(Status::internal, "extend: rows of several adapters, one of which changes more than projections");
  return all;
}

Output Model::extend(const SequenceRows& rows, at::ScalarType wanted, const NarrowWeights* narrow) const {
  if (rows.ids.empty()) fail(Status::invalid_argument, "no token to extend a sequence with");
  const at::NoGradGuard no_grad;
  const kernels::IndependentRows independent;
  const ForwardInput input = as_input(rows);
  check(input);
  const std::vector<WiredRows> wirings = wirings_of(rows);
  ForwardOptions options{.compute = wanted};
  options.adapter = wirings.empty() ? rows.runs[0].adapter : nullptr;
  LayerContext shared = context(input, options);
  shared.wirings = wirings;
  if (reach_of(rows) > config().rope.common_positions())
    shared.ropes = ropes_by_run(rows, input.position_ids);
  std::vector<kernels::CachedRun> runs;
  int64_t begin = 0;
  for (const SequenceRows::Run& run : rows.runs) {
    runs.push_back({begin, run.rows, run.position, run.blocks});
    begin += run.rows;
  }
  const kernels::CachedRows cached(runs, config().num_attention_heads, cache_shape(wanted, rows.int8),
                                   device_);
  shared.cached = &cached;
  shared.narrow = narrow;
  at::Tensor x = embed(input, {}, shared);
  for (const auto& layer : layers_) {
    x = layer->forward(x, shared).stream;
    ++shared.layer;
  }
  check_files();
  const at::Tensor states = picked(x, rows.wanted);
  UsedHead head = head_with(adapter_of(options));
  if (narrow != nullptr) head.narrow = narrow->of(head.weight);
  return {kernels::norm(states, shared.placed(norm_)), {}, head};
}

}  // namespace trl::model
