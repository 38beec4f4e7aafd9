// Writes a model as one GGUF file.
#pragma once
#include <functional>
#include <string>

#include "base/files/files.h"
#include "base/log.h"
#include "engine/model.h"
#include "io/gguf.h"
#include "model/config/model_config.h"
#include "model/files/open.h"

namespace trl::checkpoint {

// Accepts "f32", "f16", "bf16", "q8_0", "q4_0"; "auto": the type of a stored dtype ("bfloat16", "F16",
// "Q8_0"), or else float32. Throws Error(unsupported) with the list.
const io::GgmlType& gguf_type(std::string_view name, std::string_view stored_dtype);
io::ElementType number_type(const io::GgmlType& type);  // the same numbers in safetensors

struct GgufModel {
  std::string name;  // general.name
  const model::ModelConfig& config;
  const std::vector<int32_t>& end_ids;
  const model::WeightSource& weights;
  const io::GgmlType& type;  // type of matrices; vectors are float32
  const engine::GgufVocabulary& vocabulary;
};
// Writes the model; does not close. Vectors, and rows that are not a multiple of the type's block, have a
// wider type. log may be nullptr.
void write_gguf(base::FileWriter& writer, const GgufModel& model, base::LogSink* log);

// Returns the bytes of the model's tensors in that file.
int64_t gguf_bytes(const model::ModelConfig& config, const io::GgmlType& type);

// Throws Error(format) naming a tensor that is missing or has another shape, Error(unsupported) for a tensor
// whose type is not supported.
void check_shape(const model::WeightSource& weights, const model::TensorShape& tensor);

// Reads the elements [first, first + count) of a tensor; numbers_of() refers to its first argument.
using ReadNumbers = std::function<void(int64_t first, int64_t count, float* out)>;
ReadNumbers numbers_of(const model::WeightSource& weights, const std::string& name);
ReadNumbers numbers_of(const io::TensorView& view);
bool same_numbers(int64_t count, const ReadNumbers& a, const ReadNumbers& b);

// Converts the elements [first, first + count) of a tensor into a type on all threads. place: names the
// tensor in the message about an element that the type cannot hold. read must not throw.
void encode(const io::GgmlType& type, const std::string& place, int64_t first, int64_t count, uint8_t* out,
            const ReadNumbers& read);

}  // namespace trl::checkpoint
