// The parameters of an adapter as others ask for them: their names, their version, and the layers that they
// train.
#include <algorithm>
#include <limits>

#include "model/adapter/adapter.h"

namespace trl::model {

void Adapter::keep_copies_as_model() {
  for (const Replacement& one : replaced_)
    if (!one.own->has_gradient()) one.own->keep_copies(original(one)->keeps_copies());
}

std::vector<Parameter*> Adapter::parameters() const {
  std::vector<Parameter*> all;
  for (const auto& parameter : parameters_) all.push_back(parameter.get());
  return all;
}

std::vector<Adapter::Named> Adapter::named() const {
  std::vector<Named> all;
  for (const adapter::Tensor& tensor : tensors_) {
    if (tensor.role == adapter::Role::table || tensor.role == adapter::Role::copy) continue;
    all.push_back(
        {adapter::name_in_model(tensor, selection_, name_), parameters_[all.size()].get()});  // as add() made
  }
  for (const Table& table : tables_)
    all.push_back({adapter::table_in_model(slots_[table.slot].module.name, name_), table.own.get()});
  return all;
}

uint64_t Adapter::version() const {
  uint64_t sum = 0;
  for (const auto& parameter : parameters_) sum += parameter->version();
  for (const Table& table : tables_) sum += table.own->version();
  return sum;
}

std::vector<Parameter*> Adapter::kept_tables() const {
  std::vector<Parameter*> all;
  for (const Table& table : tables_) all.push_back(table.own.get());
  return all;
}

const Adapter::Table* Adapter::kept_table(size_t slot) const {
  const auto found = std::ranges::find(tables_, slot, &Table::slot);
  return found == tables_.end() ? nullptr : &*found;
}

int64_t Adapter::first_trained_layer() const {
  int64_t first = std::numeric_limits<int64_t>::max();
  const auto see = [&](const Parameter* parameter, int64_t layer) {
    if (parameter != nullptr && parameter->has_gradient()) first = std::min(first, layer);
  };
  for (const Term& term : terms_)
    for (const Parameter* one : {term.factors.a, term.factors.b, term.factors.bias, term.factors.magnitude})
      see(one, slots_[term.slot].layer);
  for (const Replacement& one : replaced_) see(one.own, slots_[one.slot].layer);
  for (const Tokens& one : tokens_) see(one.rows.rows, slots_[one.slot].layer);
  return first;
}

bool Adapter::trains_only_terms(int64_t layer) const {
  const auto is_projection = [&](const Term& term) {
    const adapter::ModuleKind kind = slots_[term.slot].module.kind;
    return slots_[term.slot].layer != layer || kind == adapter::ModuleKind::linear ||
           kind == adapter::ModuleKind::conv1d;
  };
  return std::ranges::all_of(terms_, is_projection) &&
         std::ranges::none_of(replaced_, [&](const Replacement& one) {
           return slots_[one.slot].layer == layer && one.own->has_gradient();
         });
}

}  // namespace trl::model
