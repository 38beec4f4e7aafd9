// The tensors of a run as others get them: those that are held as numbers, in a type that is wanted.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
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

// Returns the bytes of numbers where they lie in memory, in their own order; nullopt: they are of another
// type than dtype, or in another order. held: keeps the memory. dtype: bfloat16, float16 or float32.
std::optional<std::string_view> bytes_where_they_lie(engine::Model& model, std::string_view name,
                                                     std::string_view dtype, engine::HeldTensor& held);

// Calls take for each part of numbers as a type, with the byte at which it begins; on the pool's threads.
using TakePart = std::function<void(size_t at, std::string_view bytes)>;
void each_part(const engine::HeldTensor& from, std::string_view dtype, base::ThreadPool& pool,
               const TakePart& take);

// The numbers of a tensor in a type, without a copy if that is its own.
struct TypedNumbers {
  engine::HeldTensor held;
  std::vector<char> converted = {};
  std::string_view bytes = {};
};
TypedNumbers numbers_as(engine::Model& model, std::string_view name, std::string_view dtype,
                        base::ThreadPool& pool);

}  // namespace trl::run
