// Lists the slots of adapters: all modules of a model with parameters, as transformers' class has them.
#include "model/config/families.h"
#include "model/model.h"

namespace trl::model {

namespace {

using adapter::ModuleKind;

}  // namespace

// bias: may be null.
Slot Model::slot(Parameter* weight, Parameter* bias, ModuleKind kind, int64_t layer) const {
  Slot slot{.layer = layer, .weight = weight, .bias = bias};
  slot.module.name = module_name(loaded_.names.at(weight), *config().family);
  slot.module.kind = kind;
  slot.module.bias = bias != nullptr;
  return slot;
}

void Model::add_expert_slots(const BlockExperts& experts, int64_t index, std::vector<Slot>& slots) const {
  const auto add_matrices = [&](Parameter* weight) {
    Slot& added = slots.emplace_back(slot(weight, nullptr, ModuleKind::experts, index));
    added.module.experts = weight->size(0);
    added.module.out = weight->size(1);
    added.module.in = weight->size(2);
    added.takes_terms = true;
  };
  const auto add_router = [&] {
    Slot& added = slots.emplace_back(slot(experts.router.weight, nullptr, ModuleKind::router, index));
    const std::string experts_name = module_name(loaded_.names.at(experts.weights.gate_up), *config().family);
    // The name differs from the one in files.
    added.module.name = experts_name.substr(0, experts_name.rfind(".experts.")) + ".gate";
    added.module.in = experts.router.in();
    added.module.out = experts.router.out();
    added.takes_terms = true;
  };
  const bool router_last = config().family->router_last;
  if (!router_last) add_router();
  add_matrices(experts.weights.gate_up);
  add_matrices(experts.weights.down);
  if (router_last) add_router();
}

void Model::add_layer_slots(int64_t index, std::vector<Slot>& slots) const {
  const DecoderLayer& layer = *layers_[static_cast<size_t>(index)];
  const auto add_projection = [&](const kernels::Projection& p) {
    Slot& added = slots.emplace_back(
        slot(p.weight, p.bias, p.transposed ? ModuleKind::conv1d : ModuleKind::linear, index));
    added.module.in = p.in();
    added.module.out = p.out();
    added.takes_terms = true;
  };
  const auto add_norm = [&](const Norm& norm) {
    if (norm.weight != nullptr) slots.push_back(slot(norm.weight, norm.bias, ModuleKind::other, index));
  };
  const BlockAttention& attention = layer.attention;
  const bool out_first = config().family->attention_out_first;
  if (out_first) add_projection(attention.out);
  for (const kernels::Projection& p : attention.in) add_projection(p);
  if (!out_first) add_projection(attention.out);
  add_norm(attention.q_norm);
  add_norm(attention.k_norm);
  if (layer.experts) add_expert_slots(*layer.experts, index, slots);
  const BlockMlp& mlp = layer.experts ? layer.experts->shared : layer.mlp;
  for (const kernels::Projection& p : mlp.in) add_projection(p);
  if (mlp.out.weight != nullptr) add_projection(mlp.out);
  if (layer.experts && layer.experts->shared_gate.weight != nullptr)
    add_projection(layer.experts->shared_gate);
  for (const Norm* norm :
       {&layer.attention_norm, &layer.attention_post_norm, &layer.mlp_norm, &layer.mlp_post_norm})
    add_norm(*norm);
}

// Returns the slots in the order of the modules in transformers' class: adapters draw their random numbers in
// that order.
std::vector<Slot> Model::slots() const {
  std::vector<Slot> all;
  const auto table = [&](Parameter* weight) -> Slot& {
    Slot& added = all.emplace_back(slot(weight, nullptr, ModuleKind::embedding, -1));
    added.module.in = weight->size(0);
    added.module.out = weight->size(1);
    return added;
  };
  table(embedding_).takes_terms = true;
  all.back().takes_rows = true;
  if (positions_ != nullptr) table(positions_);
  const int64_t layers = config().num_hidden_layers;
  for (int64_t i = 0; i < layers; ++i) add_layer_slots(i, all);
  all.push_back(slot(norm_.weight, norm_.bias, ModuleKind::other, layers));
  Slot& head = all.emplace_back(slot(head_, nullptr, ModuleKind::linear, layers));
  if (head_ == embedding_) head.module.name = config().family->names.head;
  head.module.in = head_->size(1);
  head.module.out = head_->size(0);
  head.module.head = true;
  head.module.tied = head_ == embedding_;
  head.takes_rows = config().labels == 0;
  return all;
}

}  // namespace trl::model
