// The initial values of an adapter, and the change of weights that they are taken from.
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "kernels/linear/merge.h"
#include "model/adapter/adapter.h"
#include "model/adapter/lora_start.h"
#include "model/adapter/slots.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/libtorch_memory.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/openmp_threads.h"
#include "tensor/threads/parallel.h"
#include "tensor/threads/width.h"

namespace trl::model {

namespace {

// The weight in float32, on the host, [out, in].
at::Tensor matrix_of(const Slot& slot) {
  const at::Tensor values = tensor::on_host(*slot.weight->read()).to(at::kFloat);
  return slot.module.kind == adapter::ModuleKind::conv1d ? values.t().contiguous() : values;
}

// Returns the bytes of the copy that matrix_of() makes.
int64_t matrix_bytes(const Slot& slot) {
  const Parameter& weight = *slot.weight;
  const bool copied = weight.dtype() != at::kFloat || !weight.device().is_cpu() ||
                      slot.module.kind == adapter::ModuleKind::conv1d;
  return copied ? weight.count() * static_cast<int64_t>(sizeof(float)) : 0;
}

void check_divisible(const Slot& slot) {
  const tensor::Encoded* const encoded = slot.weight->encoded();
  if (encoded == nullptr) return;
  fail_key(
      "init_lora_weights",
      "init_lora_weights: olora and pissa take a part out of the weights, and {} is held as {}, which is "
      "never changed: give true, false, gaussian or orthogonal, or open the model in float32 or bfloat16",
      slot.module.name, encoded->form());
}

// Whether a module's terms begin as a part of its weight. Throws the errors of finding that part.
bool begins_in_weight(const Slot& slot, const LoraStart& values, int64_t rank) {
  using adapter::ModuleKind;
  if (slot.module.kind == ModuleKind::embedding || slot.module.kind == ModuleKind::experts) return false;
  values.check(rank);
  if (values.needs_weight()) check_divisible(slot);
  return values.needs_weight();
}

}  // namespace

void Adapter::start(uint64_t seed) { start(at::detail::createCPUGenerator(seed)); }

void Adapter::start(at::Generator generator) {
  LoraStart values(config_, std::move(generator), slots_.front().weight->dtype());
  int64_t pages = 0;
  for (const Term& term : terms_) {
    const adapter::Module& module = slots_[term.slot].module;
    if (begins_in_weight(slots_[term.slot], values, term.factors.rank()))
      pages = std::max(pages, values.blas_pages(module.in, module.out, term.factors.rank()));
  }
  static std::atomic<int64_t> touched = 0;  // by an earlier start: pages of the process
  const bool rehearsed = tensor::Rehearsal::current() != nullptr;
  if (rehearsed && pages > touched) blas_pages_.emplace(tensor::MemoryKind::workspace, pages - touched);
  std::optional<tensor::GivesBack> gives_back;
  if (values.needs_weight()) gives_back.emplace();
  const tensor::OpenMpThreads of_libtorch(values.needs_weight() || config_.use_dora ? tensor::all_threads()
                                                                                    : 1);
  for (const bool parameters : {false, true}) {
    for (Term& term : terms_)
      if (term.parameter == parameters) start(term, values);
  }
  if (!rehearsed) touched = std::max(touched.load(), pages);
  rewire();
}

LoraFactors Adapter::drawn(const Term& term, LoraStart& values) const {
  const Slot& slot = slots_[term.slot];
  const adapter::Module& module = slot.module;
  const int64_t rank = term.factors.rank();
  if (module.kind == adapter::ModuleKind::embedding) return values.embedding(module.in, module.out, rank);
  if (module.kind == adapter::ModuleKind::experts)
    return values.experts(module.experts, module.in, module.out, rank / module.experts);
  return values.linear(module.in, module.out, rank, term.factors.scale,
                       values.needs_weight() ? matrix_of(slot) : at::Tensor());
}

void Adapter::start(Term& term, LoraStart& values) {
  const kernels::LowRank& factors = term.factors;
  const Slot& slot = slots_[term.slot];
  const bool divides = begins_in_weight(slot, values, factors.rank());
  const bool rehearsed = tensor::Rehearsal::current() != nullptr;
  LoraFactors first;
  {
    const tensor::LibtorchMemory workspace(
        divides ? matrix_bytes(slot) + values.workspace(slot.module.in, slot.module.out, factors.rank()) : 0);
    if (!rehearsed) first = drawn(term, values);
  }
  if (rehearsed) {
    if (divides) keep_rest(term, {}, {});
    return;
  }
  write_values(*factors.a, first.a);
  write_values(*factors.b, first.b);
  if (factors.bias != nullptr) write_values(*factors.bias, first.bias);
  if (divides) keep_rest(term, first.a, first.b);
  if (factors.magnitude == nullptr) return;
  kernels::Projection begun = projection(term);
  if (term.rest != nullptr) begun.weight = term.rest;
  write_values(*factors.magnitude, kernels::row_norms(begun));  // a forward divides by the same norms
}

// Keeps the rest of the weight. In a rehearsal a and b are undefined.
void Adapter::keep_rest(Term& term, const at::Tensor& a, const at::Tensor& b) {
  const auto like = [](const Parameter& factor) {
    return tensor::empty(factor.shape(), at::kFloat, tensor::MemoryKind::weights);
  };
  term.first_a = like(*term.factors.a);
  term.first_b = like(*term.factors.b);
  const Slot& slot = slots_[term.slot];
  Parameter& weight = *slot.weight;
  if (term.rest == nullptr) {
    at::Tensor values =
        tensor::empty(weight.shape(), weight.dtype(), tensor::MemoryKind::weights, weight.device());
    term.rest = rests_.emplace_back(std::make_unique<Parameter>(weight.name, std::move(values))).get();
    replaced_.push_back({term.slot, false, term.rest});
  }
  if (a.defined()) {
    term.first_a.copy_(a);
    term.first_b.copy_(b);
  }
  write_rest(term);
}

void Adapter::write_rest(const Term& term) const {
  const Slot& slot = slots_[term.slot];
  const tensor::LibtorchMemory workspace(matrix_bytes(slot) +
                                         slot.weight->count() * static_cast<int64_t>(sizeof(float)));
  if (tensor::Rehearsal::current() != nullptr) return;
  const at::Tensor rest = LoraStart::rest(matrix_of(slot), term.first_a, term.first_b, term.factors.scale);
  write_values(*term.rest, slot.module.kind == adapter::ModuleKind::conv1d ? rest.t() : rest);
}

void Adapter::follow(const Parameter& weight) const {
  for (const Term& term : terms_)
    if (term.rest != nullptr && slots_[term.slot].weight == &weight) write_rest(term);
}

bool Adapter::is_part_of_weights() const {
  return config_.init_lora_weights == config::LoraInit::olora ||
         config_.init_lora_weights == config::LoraInit::pissa;
}

// Starts as PEFT opens an adapter that it did not convert: its factors belong to the rest of the weights.
void Adapter::start_again(const std::string& directory) {
  if (config_.pissa_iterations) {
    fail(Status::unsupported,
         "{}: init_lora_weights: pissa_niter_{} took a part out of the weights that was found with random "
         "numbers, and the adapter's files do not hold it: convert the adapter to plain LoRA with PEFT "
         "(path_initial_model_for_weight_conversion)",
         directory, *config_.pissa_iterations);
  }
  for (const Term& term : terms_) {
    const Slot& slot = slots_[term.slot];
    const tensor::Encoded* const encoded = slot.weight->encoded();
    if (encoded == nullptr || slot.module.kind == adapter::ModuleKind::embedding) continue;
    fail(Status::unsupported,
         "{}: init_lora_weights: the adapter began as a part of the weights and belongs to what is left of "
         "them, and {} is held as {}, which is never changed: open the model in float32 or bfloat16, or "
         "convert the adapter to plain LoRA with PEFT (path_initial_model_for_weight_conversion)",
         directory, slot.module.name, encoded->form());
  }
  start(0);
}

config::LoraConfig Adapter::stored_config() const {
  config::LoraConfig config = config_;
  if (!is_part_of_weights()) return config;
  const double gain = config.use_rslora ? std::sqrt(2.0) : 2;  // keeps the scaling unchanged
  config.init_lora_weights = config::LoraInit::standard;
  config.pissa_iterations.reset();
  config.r *= 2;
  config.lora_alpha *= gain;
  for (auto& [name, rank] : config.rank_pattern) rank *= 2;
  for (auto& [name, alpha] : config.alpha_pattern) alpha *= gain;
  return config;
}

std::vector<Adapter::Stored> Adapter::stored() const {
  std::vector<Stored> all;
  for (const auto& parameter : parameters_)
    all.push_back({parameter->name, tensor::on_host(*parameter->read())});
  if (!is_part_of_weights()) return all;
  const auto widen = [&](const Parameter* parameter, const at::Tensor& first, int64_t dimension) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (parameters_[i].get() != parameter) continue;
      at::Tensor& values = all[i].values;
      const at::Tensor more = first.defined() ? first.to(values.scalar_type()) : at::zeros_like(values);
      values = at::cat({values, more}, dimension);
    }
  };
  for (const Term& term : terms_) {  // an embedding's terms are not a part of its weight
    widen(term.factors.a, term.first_a, 0);
    widen(term.factors.b, term.first_b.defined() ? term.first_b.neg() : term.first_b, 1);
  }
  return all;
}

// A head that is saved with the embedding is in PEFT's files twice.
std::vector<Adapter::Stored> Adapter::tables() const {
  std::vector<Stored> all;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    const std::string& name = slot.module.name;
    if (!slot.takes_rows) continue;
    if (slot.module.tied && selection_.head_is_saved)
      all.push_back(
          {fmt::format("base_model.model.{}.weight", name), tensor::on_host(*own_weight(i)->read())});
    const bool adapted = std::ranges::any_of(terms_, [&](const Term& term) { return term.slot == i; });
    const bool tokens = std::ranges::any_of(tokens_, [&](const Tokens& one) { return one.slot == i; });
    const Table* const kept = kept_table(i);
    const bool saved = kept == nullptr && own_weight(i) != nullptr;
    const bool resized = slot.stored_rows >= 0 && !slot.module.tied && !saved;
    if (kept == nullptr && !resized && !(adapted && name.ends_with("embed_tokens"))) continue;
    const char* const inner = adapted ? ".base_layer" : tokens ? ".token_adapter.base_layer" : "";
    all.push_back({fmt::format("base_model.model.{}{}.weight", name, inner),
                   tensor::on_host(*(kept != nullptr ? kept->own.get() : slot.weight)->read())});
  }
  return all;
}

void Adapter::copy(const Adapter& of) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    write_values(*parameters_[i], *of.parameters_[i]->read());
    parameters_[i]->trainable = false;
  }
  for (size_t i = 0; i < terms_.size(); ++i)
    if (of.terms_[i].rest != nullptr) keep_rest(terms_[i], of.terms_[i].first_a, of.terms_[i].first_b);
  for (const Table& table : of.tables_) keep_table(table.slot, *table.own->read());
  rewire();
}

void Adapter::restore(const std::vector<Stored>& stored) {
  const auto values_of = [&](const Parameter* parameter) {
    for (const Stored& one : stored)
      if (one.name == parameter->name) return one.values;
    fail(Status::internal, "{} is not among the tensors of the adapter", parameter->name);
  };
  for (const auto& parameter : parameters_) {
    at::Tensor values = values_of(parameter.get());
    for (int64_t i = 0; i < values.dim(); ++i) values = values.narrow(i, 0, parameter->size(i));
    write_values(*parameter, values);
  }
  for (Term& term : terms_) {
    if (term.rest == nullptr) continue;
    const int64_t r = term.factors.rank();
    keep_rest(term, values_of(term.factors.a).narrow(0, r, r).to(at::kFloat),
              values_of(term.factors.b).narrow(1, r, r).to(at::kFloat).neg());
  }
  rewire();
}

}  // namespace trl::model
