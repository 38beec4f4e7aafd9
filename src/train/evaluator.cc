#include "train/evaluator.h"

#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/arithmetic/divide.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "kernels/path.h"
#include "tensor/memory/rehearsal.h"
#include "train/batches/batches.h"
#include "train/batches/micro_batch.h"
#include "train/records/records.h"
#include "train/run/run_state.h"
#include "train/run/setup.h"
#include "train/scoring/weights_digest.h"

namespace trl::train {

namespace {

// Removes dropout and noise, which an evaluation does not use, and which would forbid sharing of beginnings.
Evaluator::Setup without_chance(Evaluator::Setup setup) {
  check_device(setup.arguments, setup.model->device());
  setup.arguments.disable_dropout = true;
  setup.arguments.neftune_noise_alpha = 0;
  return setup;
}

// The mean of batch losses weighted by rows; non-finite losses are left out if any loss is finite.
class EvaluationLoss {
 public:
  void add(double loss, int64_t rows) { batches_.push_back({loss, rows}); }
  void set_last_rows(int64_t rows) {
    if (!batches_.empty()) batches_.back().second = rows;
  }
  int64_t batches() const { return static_cast<int64_t>(batches_.size()); }
  double mean(bool finite_only) const {
    const auto finite = [](const auto& batch) { return std::isfinite(batch.first); };
    const bool filter = finite_only && std::ranges::any_of(batches_, finite);
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
  loss->each_part(parts, evaluation.forward, [&](const Share& share, bool) {
    value += share.value;
    return true;
  });
  means.add_known(batch.metrics);
  if (evaluation.arguments.method->generates)
    means.add_known(loss->metrics());
  else
    means.add(loss->metrics());
  return static_cast<double>(value);
}

}  // namespace

Evaluator::Evaluator(Setup setup)
    : setup_(without_chance(std::move(setup))),
      int8_(int8_products(setup_.arguments, *setup_.model)),
      method_(make_method({.arguments = setup_.arguments,
                           .model = *setup_.model,
                           .attention = setup_.attention,
                           .source = setup_.source,
                           .log = setup_.log,
                           .only_evaluates = true})),
      share_(sharing_of(setup_.arguments, *setup_.model, setup_.attention, setup_.log)) {}

void Evaluator::check_weights(double loss, const MicroBatch& batch) {
  if (setup_.arguments.on_nonfinite != config::OnNonfinite::error) return;
  std::string weight = faulty_weight(*setup_.model);
  if (weight.empty()) weight = method_->faulty_reference();
  if (weight.empty()) return;
  throw Error(Status::invalid_argument,
              fmt::format("the loss of the evaluation is {} (dataset rows {}); {}{}",
                          std::isnan(loss) ? std::nan("") : loss, row_list({&batch, 1}), weight, kGiveFinite),
              "on_nonfinite");
}

telemetry::Record Evaluator::evaluate(engine::BatchSource& rows) {
  const kernels::PathScope scope(kernels::path_of(setup_.arguments.plain()));
  const telemetry::Record measured =
      train::evaluate({setup_.arguments, *method_, setup_.model->config(), share_,
                       [&](const MicroBatch& part) {
                         const tensor::Stage stage("evaluation");
                         return method_->forward(part, std::nullopt);
                       },
                       [this, first = true](double loss, const MicroBatch& batch) mutable {
                         if (std::exchange(first, false)) check_weights(loss, batch);
                       }},
                      rows);
  telemetry::Record record;
  for (const telemetry::Entry& entry : measured.entries()) {
    record.set(entry.name, entry.value);
    if (entry.name == "eval_loss" && method_->measures_perplexity())
      record.set("eval_perplexity", std::exp(entry.value));
  }
  return record;
}

telemetry::Record evaluate(const Evaluation& evaluation, engine::BatchSource& rows) {
  const at::AutoGradMode without_graph(false);
  const auto start = std::chrono::steady_clock::now();
  Batches batches(rows, evaluation.model.vocab_size, evaluation.share);
  const int64_t all = rows.rows(), batch_size = evaluation.arguments.per_device_eval_batch_size;
  EvaluationLoss loss;
  // transformers weighs losses by the rows that it believes a batch to have: of the prompts, not completions.
  // With dataloader_drop_last it believes all batches to be full.
  const bool by_prompts = evaluation.arguments.method->generates;
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
    loss.add(own, by_prompts ? batch_size : window[0].rows);
    seen += window[0].rows;
    tell();
    batches.window_done();
  }
  if (by_prompts && !evaluation.arguments.dataloader_drop_last && all % batch_size != 0)
    loss.set_last_rows(all % batch_size);
  const int64_t samples = all > 0 ? all : seen;
  const int64_t steps = base::divide_up(samples, batch_size);
  telemetry::Record record;
  if (loss.batches() > 0) record.set("eval_loss", loss.mean(evaluation.arguments.logging_nan_inf_filter));
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  write_speed(record, "eval", passed.count(), static_cast<double>(samples), static_cast<double>(steps));
  means.write(record, "eval_");
  return record;
}

}  // namespace trl::train
