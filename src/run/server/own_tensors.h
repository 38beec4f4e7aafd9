// The tensors of a run as others get them: those that are held as numbers, in a type that is wanted.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model.h"

namespace trl::run {

struct OwnTensor {
  std::string name = {};
  std::vector<int64_t> shape = {};
  bool trained = false;
};

// Returns those of the model that are held as numbers.
std::vector<OwnTensor> own_tensors(engine::Model& model);

// Returns the numbers in place, or a copy if memory has them in another order. Throws Error.
engine::HeldTensor read_numbers(engine::Model& model, std::string_view name);

// Returns the numbers in place; nullopt: memory has them in another order.
std::optional<engine::HeldTensor> view_numbers(engine::Model& model, std::string_view name);

// Calls take for the bytes of numbers as a type, piece after piece: one piece if that is their own.
using TakePiece = std::function<void(std::string_view bytes)>;
void each_piece(const engine::HeldTensor& from, std::string_view dtype, const TakePiece& take);

// The numbers of a tensor in a type, without a copy if that is its own.
struct TypedNumbers {
  engine::HeldTensor held;
  std::vector<char> converted = {};
  std::string_view bytes = {};
};
TypedNumbers numbers_as(engine::Model& model, std::string_view name, std::string_view dtype);

}  // namespace trl::run
