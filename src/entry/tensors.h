// The tensors of a model and of its adapters: listed, read, and written.
#pragma once
#include <string_view>

#include "engine/model.h"
#include "model/model.h"

namespace trl::entry {

void list_tensors(model::Model& model, engine::TensorList& list);
// Throws Error(not_found) for another name and for a gradient that is not there, Error(unsupported) for a
// view of what has no memory of its own of that type.
engine::HeldTensor read_tensor(model::Model& model, std::string_view name, engine::TensorRead what);
// Throws Error(invalid_argument) for another shape, Error(unsupported) for a weight that must not change. On
// an error it is as before.
void write_tensor(model::Model& model, std::string_view name, const engine::GivenTensor& values);
// As engine::ExchangingModel says. Throws as write_tensor.
void exchange_tensor(model::Model& model, std::string_view name, engine::HeldTensor& other);

}  // namespace trl::entry
