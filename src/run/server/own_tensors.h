// The tensors of a run as others get them: those that are held as numbers, in a type that is wanted.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/thread_pool.h"
#include "engine/engine.h"

namespace trl::run {

struct OwnTensor {
  std::string name = {};
  std::vector<int64_t> shape = {};
  bool trained = false;
};

// Returns those of the model that are held as numbers.
std::vector<OwnTensor> own_tensors(engine::Model& model);

// Returns the numbers where they lie, or a copy if they lie in no such order. Throws Error.
engine::HeldTensor read_numbers(engine::Model& model, std::string_view name);

// Writes numbers as another type; those of the same type are copied. dtype: bfloat16, float16 or float32.
void convert_numbers(const engine::HeldTensor& from, std::string_view dtype, char* to,
                     base::ThreadPool& pool);

// The numbers of a tensor in a type, without a copy if that is its own.
struct TypedNumbers {
  engine::HeldTensor held;
  std::vector<char> converted = {};
  std::string_view bytes = {};
};
TypedNumbers numbers_as(engine::Model& model, std::string_view name, std::string_view dtype,
                        base::ThreadPool& pool);

}  // namespace trl::run
