#include "train/scoring/scores.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/interrupt.h"
#include "kernels/elementwise/pick_rows.h"
#include "train/batches/micro_batch.h"

namespace trl::train {

namespace {

// Makes a micro-batch whose documents are the texts, with the members that a forward needs.
MicroBatch batch_of(std::span<const std::span<const int32_t>> texts, int64_t vocab_size) {
  data::Batch batch;
  batch.cu_seqlens.push_back(0);
  for (const std::span<const int32_t> text : texts) {
    batch.input_ids.insert(batch.input_ids.end(), text.begin(), text.end());
    for (size_t i = 0; i < text.size(); ++i) batch.position_ids.push_back(static_cast<int32_t>(i));
    batch.cu_seqlens.push_back(static_cast<int32_t>(batch.input_ids.size()));
  }
  batch.labels.assign(batch.input_ids.size(), -100);
  return copy_batch(batch, vocab_size);
}

}  // namespace

int32_t padding_of(const model::Model& model) {
  const base::Json id = model.config_json().value("pad_token_id", base::Json());
  return id.is_number_integer() ? id.get<int32_t>() : -1;
}

at::Tensor scores_at(const at::Tensor& hidden, tensor::Parameter& head, const std::vector<int32_t>& rows,
                     at::ScalarType compute) {
  return kernels::linear(kernels::pick_rows(hidden, rows), kernels::Projection{&head}, compute)[0]
      .to(at::kCPU, at::kFloat)
      .reshape({-1});
}

std::vector<float> scores(model::Model& model, std::span<const std::span<const int32_t>> texts,
                          at::ScalarType compute, int64_t batch, int32_t padding) {
  const at::AutoGradMode without_graph(false);
  const auto all = std::ssize(texts);
  std::vector<float> scores;
  for (int64_t first = 0; first < all; first += batch) {
    base::progress("score", first, all);
    const auto some =
        texts.subspan(static_cast<size_t>(first), static_cast<size_t>(std::min(batch, all - first)));
    const MicroBatch own = batch_of(some, model.config().vocab_size);
    const std::vector<int32_t> rows =
        last_rows(own.input_ids.data_ptr<int32_t>(), *own.segments, {}, padding);
    const model::Output output = model.forward(
        {own.input_ids, own.position_ids, own.segments, {}, 0, own.reach}, {.compute = compute});
    const at::Tensor values = scores_at(output.hidden, *output.head.weight, rows, compute);
    scores.insert(scores.end(), values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
  }
  base::progress("score", all, all);
  return scores;
}

}  // namespace trl::train
