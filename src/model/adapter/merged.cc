// Merges an adapter into the model's parameters, which are restored from copies later.
#include <map>

#include "base/error.h"
#include "kernels/experts/expert_terms.h"
#include "kernels/linear/merge.h"
#include "kernels/weight/stored_weight.h"
#include "model/adapter/adapter.h"
#include "model/adapter/slots.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"

namespace trl::model {

namespace {

// A counted copy of the values. A rehearsal copies nothing.
at::Tensor copy_of(Parameter& parameter) {
  const tensor::Reading values = parameter.read();
  const at::Tensor copy = tensor::empty_like(*values, tensor::MemoryKind::weights);
  tensor::copy(*values, copy);
  return copy;
}

// Copies of parameters' values, which are restored when this is destroyed.
class Originals {
 public:
  Originals() = default;
  ~Originals() {
    for (auto& [parameter, values] : values_) tensor::copy(values, *parameter->write());
    for (auto& [parameter, blocks] : blocks_) parameter->hold(blocks);
    if (untied_ != nullptr) *untied_ = nullptr;
  }
  // Gives a tied head a separate matrix.
  void untie(Parameter& head, Parameter*& untied) {
    own_ = std::make_unique<Parameter>(head.name, copy_of(head));
    untied = own_.get();
    untied_ = &untied;
  }
  Originals(const Originals&) = delete;
  Originals& operator=(const Originals&) = delete;
  void keep(Parameter& parameter) {
    if (parameter.blocks() != nullptr)
      blocks_.emplace(&parameter, parameter.blocks());
    else if (!blocks_.contains(&parameter) && !values_.contains(&parameter))
      values_.emplace(&parameter, copy_of(parameter));
  }

 private:
  std::map<Parameter*, at::Tensor> values_;  // only the first copy of each is kept
  std::map<Parameter*, std::shared_ptr<const tensor::Encoded>> blocks_;
  std::unique_ptr<Parameter> own_;
  Parameter** untied_ = nullptr;
};

void check_mergeable(const Slot& slot, const kernels::LowRank& factors) {
  const tensor::Encoded* const encoded = slot.weight->encoded();
  if (encoded != nullptr && factors.magnitude != nullptr && slot.module.kind != adapter::ModuleKind::linear) {
    fail(Status::unsupported,
         "{}: DoRA is merged into {} weights of linear layers alone: open the model with another dtype",
         slot.module.name, encoded->form());
  }
  if (factors.bias != nullptr && !slot.module.bias) {
    fail(Status::unsupported, "{}: lora_bias cannot be merged into a module without a bias",
         slot.module.name);
  }
}

// Blocks are never quantised again: an encoded weight gets its terms as it is decoded, or becomes numbers.
void merge(const kernels::Projection& p, Merged as) {
  if (p.weight->encoded() == nullptr) {
    const bool experts = p.weight->shape().size() == 3;
    return experts ? kernels::merge_experts(*p.weight, p.low_rank) : kernels::merge(p);
  }
  p.weight->hold(kernels::merged_weight(p));
  if (as == Merged::numbers) p.weight->decode();
}

}  // namespace

kernels::Projection Adapter::projection(const Term& term) const {
  const Slot& slot = slots_[term.slot];
  return {.weight = slot.weight,
          .bias = slot.bias,
          .transposed = slot.module.kind == adapter::ModuleKind::conv1d ||
                        slot.module.kind == adapter::ModuleKind::embedding,
          .low_rank = term.factors};
}

// Whether this adapter gives head and embedding different values although they are one in the model.
bool Adapter::parts_tied_head() const {
  const Slot* const head = tied_head(slots_);
  if (head == nullptr) return false;
  const Slot& embedding = embedding_of(slots_);
  const auto changes = [&](const Slot& slot) {
    std::vector<const Parameter*> all;
    for (const Replacement& one : replaced_)
      if (one.slot == index_of(slot) && !one.bias) all.push_back(one.own);
    for (const Tokens& one : tokens_)
      if (&slots_[one.slot] == &slot) all.push_back(one.rows.rows);
    for (const Term& term : terms_)
      if (&slots_[term.slot] == &slot) all.push_back(term.factors.a);
    return all;
  };
  return changes(*head) != changes(embedding);
}

std::shared_ptr<void> Adapter::merged(Merged as, Parameter*& untied) {
  for (const Term& term : terms_) check_mergeable(slots_[term.slot], term.factors);
  auto before = std::make_shared<Originals>();
  if (parts_tied_head()) before->untie(*tied_head(slots_)->weight, untied);
  const auto changed = [&](Parameter* of_model, size_t slot) -> Parameter& {
    return untied != nullptr && slots_[slot].module.head ? *untied : *of_model;
  };
  for (const Replacement& one : replaced_) {
    Parameter& place = changed(original(one), one.slot);
    before->keep(place);
    if (place.encoded() != nullptr)
      place.hold(copy_of(*one.own));  // a copy, since terms may be merged into it
    else
      tensor::copy(*one.own->read(), *place.write());
  }
  for (const Tokens& one : tokens_) {
    Parameter& table = changed(slots_[one.slot].weight, one.slot);
    before->keep(table);
    if (table.encoded() != nullptr) table.decode();
    const at::Tensor ids = at::tensor(at::IntArrayRef(one.rows.ids), at::kLong).to(table.device());
    table.write()->index_copy_(0, ids, one.rows.rows->read()->to(table.dtype()));
  }
  for (const Term& term : terms_) {
    const kernels::Projection p = projection(term);
    before->keep(*p.weight);
    merge(p, as);
    if (term.factors.bias == nullptr) continue;
    before->keep(*p.bias);
    write_values(*p.bias, p.bias->read()->to(at::kFloat) + *term.factors.bias->read() * term.factors.scale);
  }
  return before;
}

}  // namespace trl::model
