#include "model/adapter/adapter.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "model/adapter/slots.h"
#include "tensor/memory/counted.h"

namespace trl::model {

namespace {

using adapter::Role;

uint64_t next_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

std::vector<adapter::Module> modules_of(const std::vector<Slot>& slots) {
  std::vector<adapter::Module> modules;
  for (const Slot& slot : slots) modules.push_back(slot.module);
  return modules;
}

Adapter::Adapter(std::string name, config::LoraConfig config, adapter::Selection selection,
                 const std::vector<Slot>& slots, at::ScalarType type, at::Device device)
    : name_(std::move(name)),
      number_(next_number()),
      type_(type),
      config_(std::move(config)),
      selection_(std::move(selection)),
      slots_(slots) {
  for (const adapter::Target& target : selection_.targets) {
    const Slot& slot = slots_[target.module];
    if (!slot.takes_terms)
      fail(Status::unsupported, "{}: modules of its kind cannot have an adapter", slot.module.name);
    terms_.push_back({target.module, target.parameter});
    terms_.back().factors.scale = target.scaling;
    terms_.back().factors.dropout.rate = config_.lora_dropout;
  }
  tensors_ = adapter::tensors(config_, selection_, modules_of(slots_));
  for (const adapter::Tensor& tensor : tensors_) add(tensor, device);
  if (selection_.head_is_saved)
    replaced_.push_back({index_of(*tied_head(slots_)), false, own_weight(index_of(embedding_of(slots_)))});
  rewire();
}

void Adapter::add(const adapter::Tensor& tensor, at::Device device) {
  const auto factors = [&]() -> kernels::LowRank& { return term(tensor.module).factors; };
  switch (tensor.role) {
    case Role::table:
    case Role::copy:
      return;
    case Role::weight:
      return replace(tensor, false);
    case Role::bias:
      return replace(tensor, true);
    case Role::tokens:
      return add_tokens(tensor);
    case Role::a:
      factors().a = make(tensor, type_, device);
      return;
    case Role::b:
      factors().b = make(tensor, type_, device);
      return;
    case Role::b_bias:
      factors().bias = make(tensor, type_, device);
      return;
    // Changes of a magnitude per step are too small for bfloat16.
    case Role::magnitude:
      factors().magnitude = make(tensor, at::kFloat, device);
      return;
  }
}

void Adapter::add_tokens(const adapter::Tensor& tensor) {
  const Slot& slot = slots_[tensor.module];
  if (!slot.takes_rows) {
    fail_key("trainable_token_indices",
             "trainable_token_indices: {} is neither the input embedding nor the output head",
             slot.module.name);
  }
  const auto& all = selection_.tokens;
  const auto found = std::ranges::find_if(all, [&](const auto& one) { return one.first == tensor.module; });
  Parameter& table = *slot.weight;
  Parameter* const rows = make(tensor, at::promote_types(type_, table.dtype()), table.device());
  const at::Tensor ids = at::tensor(at::IntArrayRef(found->second), at::kLong).to(table.device());
  write_values(*rows, table.read()->index_select(0, ids));
  tokens_.push_back({tensor.module, {rows, found->second}});
  if (!selection_.head_has_tokens || slot.module.head) return;
  tokens_.push_back({index_of(*tied_head(slots_)), {rows, found->second}});
}

Adapter::Term& Adapter::term(size_t slot) { return *std::ranges::find(terms_, slot, &Term::slot); }

Parameter* Adapter::make(const adapter::Tensor& tensor, at::ScalarType type, at::Device device) {
  at::Tensor values = tensor::empty(tensor.shape, type, tensor::MemoryKind::weights, device);
  return parameters_.emplace_back(std::make_unique<Parameter>(tensor.name, std::move(values))).get();
}

void Adapter::replace(const adapter::Tensor& tensor, bool bias) {
  Parameter& original = bias ? *slots_[tensor.module].bias : *slots_[tensor.module].weight;
  adapter::Tensor own = tensor;
  own.shape = original.shape().vec();
  Parameter* const made = make(own, original.dtype(), original.device());
  write_values(*made, *original.read());
  made->decay = original.decay;
  made->embedding = original.embedding;
  made->padding_row = original.padding_row;
  replaced_.push_back({tensor.module, bias, made});
}

Parameter* Adapter::own_weight(size_t slot) const {
  const auto found =
      std::ranges::find_if(replaced_, [&](const Replacement& one) { return one.slot == slot && !one.bias; });
  return found != replaced_.end() ? found->own : nullptr;
}

void Adapter::rewire() {
  wiring_ = {};
  for (const Term& term : terms_)
    wiring_.terms.emplace(slots_[term.slot].weight, Wiring::Term{term.factors, term.slot});
  for (const Replacement& one : replaced_)
    if (slots_[one.slot].module.head && !one.bias)
      wiring_.head = one.own;
    else
      wiring_.own.insert_or_assign(original(one), one.own);
  for (const Tokens& one : tokens_)
    (slots_[one.slot].module.head ? wiring_.head_rows : wiring_.embedding_rows) = one.rows;
}

}  // namespace trl::model
