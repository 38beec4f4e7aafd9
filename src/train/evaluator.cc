#include "train/evaluator.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "kernels/path.h"
#include "tensor/memory/rehearsal.h"
#include "train/faulty_weights.h"
#include "train/sharing.h"
#include "train/trainer.h"

namespace trl::train {

namespace {

// Removes dropout and noise, which an evaluation does not use, and which would forbid sharing of beginnings.
Evaluator::Setup without_chance(Evaluator::Setup setup) {
  check_device(setup.arguments, setup.model->device());
  setup.arguments.disable_dropout = true;
  setup.arguments.neftune_noise_alpha = 0;
  return setup;
}

}  // namespace

Evaluator::Evaluator(Setup setup)
    : setup_(without_chance(std::move(setup))),
      int8_(int8_products(setup_.arguments, *setup_.model)),
      method_(make_method({.arguments = setup_.arguments,
                           .model = *setup_.model,
                           .attention = setup_.attention,
                           .model_path = setup_.model_path,
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
                          std::isnan(loss) ? std::nan("") : loss, row_list({&batch}), weight, kGiveFinite),
              "on_nonfinite");
}

telemetry::Record Evaluator::evaluate(engine::BatchSource& rows) {
  const bool plain = setup_.arguments.fused_kernels == config::FusedKernels::off;
  const kernels::PathScope scope(plain ? kernels::Path::plain : kernels::Path::fused);
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

}  // namespace trl::train
