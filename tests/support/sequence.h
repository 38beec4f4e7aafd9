// A sequence that is decoded by itself.
#pragma once
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "model/model.h"

namespace trl::test {

class Sequence {
 public:
  explicit Sequence(const model::Model& model, at::ScalarType compute = at::kFloat,
                    std::optional<const model::Adapter*> adapter = {}, bool int8 = false)
      : model_(model), compute_(compute), adapter_(adapter), memory_(model.kv_memory(compute, int8)) {}

  // Appends ids; the hidden state of the result is that of the last one, [1, hidden].
  model::Output extend(const std::vector<int32_t>& ids) {
    const int64_t held = std::ssize(ids_);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    const int64_t first = outgrows(held) ? 0 : held;
    model::SequenceRows rows{{ids_.begin() + first, ids_.end()}, {{std::ssize(ids_) - first, first}}, {}};
    for (int32_t block = 0; block * kernels::kCacheRows < std::ssize(ids_); ++block)
      rows.runs[0].blocks.push_back(memory_.block(block));
    rows.int8 = memory_.int8();
    rows.runs[0].adapter = adapter_;
    rows.wanted = {std::ssize(ids_) - first - 1};
    return model_.extend(rows, compute_);
  }

 private:
  // "longrope" turns every position differently once a text is longer than the original context.
  bool outgrows(int64_t held) const {
    const model::RopeConfig& rope = model_.config().rope;
    const int64_t limit = rope.original_max_position_embeddings;
    return rope.type == "longrope" && held > 0 && held <= limit && std::ssize(ids_) > limit;
  }

  const model::Model& model_;
  at::ScalarType compute_;
  std::optional<const model::Adapter*> adapter_;
  model::KvMemory memory_;
  std::vector<int32_t> ids_;
};

}  // namespace trl::test
