// A recorded padded batch as the engine sees it: rows one after the other, padding gone.
#pragma once
#include <ATen/ATen.h>

#include <cstring>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/model.h"
#include "support/golden.h"
#include "support/weights.h"

namespace trl::test {

struct GoldenBatch {
  model::ForwardInput input;
  std::vector<std::pair<int64_t, int64_t>> places;  // {row, column} in the padded batch of every token
  int64_t width = 0;                                // of the padded batch
};

inline at::Tensor int_tensor(const std::vector<int32_t>& values) {
  at::Tensor t = at::empty({static_cast<int64_t>(values.size())}, at::kInt);
  std::memcpy(t.data_ptr(), values.data(), values.size() * sizeof(int32_t));
  return t;
}

inline model::ForwardInput forward_input(const std::vector<std::vector<int32_t>>& documents) {
  std::vector<int32_t> ids, positions;
  auto segments = std::make_shared<kernels::Segments>();
  segments->cu_seqlens.push_back(0);
  for (const auto& document : documents) {
    for (size_t i = 0; i < document.size(); ++i) positions.push_back(static_cast<int32_t>(i));
    ids.insert(ids.end(), document.begin(), document.end());
    segments->cu_seqlens.push_back(static_cast<int32_t>(ids.size()));
    segments->max_length = std::max(segments->max_length, static_cast<int64_t>(document.size()));
  }
  return {int_tensor(ids), int_tensor(positions), segments};
}

inline GoldenBatch golden_batch(const base::Json& ids, const base::Json& mask) {
  GoldenBatch batch;
  std::vector<std::vector<int32_t>> documents;
  for (size_t row = 0; row < ids.size(); ++row) {
    auto& document = documents.emplace_back();
    for (size_t column = 0; column < ids[row].size(); ++column) {
      if (mask[row][column] != 1) continue;
      document.push_back(ids[row][column].get<int32_t>());
      batch.places.emplace_back(row, column);
    }
    batch.width = static_cast<int64_t>(ids[row].size());
  }
  batch.input = forward_input(documents);
  return batch;
}

inline at::Tensor golden_tensor(const io::Safetensors& file, const std::string& name) {
  const io::TensorView& view = file.tensors().at(name);
  at::Tensor t = at::empty(view.shape, at::kFloat);
  io::read_floats(view.type, view.data, 0, t.numel(), t.data_ptr<float>());
  return t;
}

// The columns of a tensor that were recorded: every n-th one.
inline at::Tensor recorded_columns(const at::Tensor& values, const at::Tensor& recorded) {
  if (values.dim() == 0 || values.size(-1) == recorded.size(-1)) return values;
  const size_t step =
      column_step(static_cast<size_t>(values.size(-1)), static_cast<size_t>(recorded.size(-1)));
  return values.slice(-1, 0, INT64_MAX, static_cast<int64_t>(step));
}

// The largest share of its limit that any recorded element uses up; passes when at most 1.
inline double used_limit(const at::Tensor& all, const at::Tensor& want, const Limit& limit) {
  const at::Tensor got = recorded_columns(all, want);
  EXPECT_EQ(got.sizes(), want.sizes());
  const at::Tensor difference = (got.to(at::kDouble) - want.to(at::kDouble)).abs();
  const double used =
      (difference / (want.to(at::kDouble).abs() * limit.relative + limit.floor)).max().item<double>();
  return std::isnan(used) ? 1e9 : used;
}

}  // namespace trl::test
