#include "train/evaluation.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/interrupt.h"
#include "tensor/memory/rehearsal.h"
#include "train/batch_parts.h"
#include "train/means.h"
#include "train/speed.h"

namespace trl::train {

namespace {

// The mean of batch losses weighted by rows; non-finite losses are left out if any loss is finite.
class EvaluationLoss {
 public:
  void add(double loss, int64_t rows) { batches_.push_back({loss, rows}); }
  int64_t batches() const { return static_cast<int64_t>(batches_.size()); }
  double mean(bool finite_only) const {
    const auto finite = [](const auto& batch) { return std::isfinite(batch.first); };
    const bool filter = finite_only && std::any_of(batches_.begin(), batches_.end(), finite);
    double sum = 0;
    int64_t rows = 0;
    for (const auto& batch : batches_) {
      if (filter && !finite(batch)) continue;
      sum += batch.first * static_cast<double>(batch.second);
      rows += batch.second;
    }
    return sum / static_cast<double>(rows);
  }

 private:
  std::vector<std::pair<double, int64_t>> batches_;
};

// Returns the loss of one micro-batch.
double loss_of(const Evaluation& evaluation, const std::vector<MicroBatch>& window, Means& means) {
  const MicroBatch& batch = window[0];
  const std::vector<MicroBatch> parts = parts_of(batch, evaluation.arguments.max_tokens_per_pass);
  const std::unique_ptr<BatchLoss> loss =
      evaluation.method.loss(batch, parts, evaluation.method.divisors(window, false));
  float value = 0;
  each_part(parts, *loss, evaluation.forward, [&](const at::Tensor& share, bool) {
    value += share.item<float>();
    return true;
  });
  means.add(loss->metrics());
  return static_cast<double>(value);
}

}  // namespace

telemetry::Record evaluate(const Evaluation& evaluation, engine::BatchSource& rows) {
  const at::AutoGradMode without_graph(false);
  const auto start = std::chrono::steady_clock::now();
  Batches batches(rows, evaluation.model.vocab_size, evaluation.share);
  const int64_t all = rows.rows(), batch_size = evaluation.arguments.per_device_eval_batch_size;
  EvaluationLoss loss;
  Means means;
  int64_t seen = 0;
  const auto tell = [&] {
    if (tensor::Rehearsal::current() == nullptr) base::progress("evaluate", seen, all);
  };
  tell();
  for (;;) {
    const std::vector<MicroBatch>& window = batches.fill_window(1);
    if (window.empty()) break;
    const double own = loss_of(evaluation, window, means);
    if (!std::isfinite(own) && evaluation.nonfinite) evaluation.nonfinite(own, window[0]);
    loss.add(own, window[0].rows);
    seen += window[0].rows;
    tell();
    batches.window_done();
  }
  const int64_t samples = all > 0 ? all : seen;
  const int64_t steps = (samples + batch_size - 1) / batch_size;
  telemetry::Record record;
  if (loss.batches() > 0) record.set("eval_loss", loss.mean(evaluation.arguments.logging_nan_inf_filter));
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  write_speed(record, "eval", passed.count(), static_cast<double>(samples), static_cast<double>(steps));
  means.write(record, "eval_");
  return record;
}

}  // namespace trl::train
