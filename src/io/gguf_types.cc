#include "io/gguf_types.h"

#include <algorithm>

#include "base/error.h"
#include "io/gguf.h"
#include "io/gguf_blocks.h"

namespace trl::io {

namespace {

constexpr GgmlType kTypes[] = {{kGgmlF32, "F32", 1, 4},
                               {kGgmlF16, "F16", 1, 2},
                               {kGgmlBF16, "BF16", 1, 2},
                               {kGgmlQ8_0, "Q8_0", 32, 34, dequantize_q8_0},
                               {kGgmlQ4_0, "Q4_0", 32, 18, dequantize_q4_0},
                               {kGgmlQ4_1, "Q4_1", 32, 20, dequantize_q4_1},
                               {kGgmlQ5_0, "Q5_0", 32, 22, dequantize_q5_0},
                               {kGgmlQ5_1, "Q5_1", 32, 24, dequantize_q5_1},
                               {kGgmlQ2_K, "Q2_K", 256, 84, dequantize_q2_k},
                               {kGgmlQ3_K, "Q3_K", 256, 110, dequantize_q3_k},
                               {kGgmlQ4_K, "Q4_K", 256, 144, dequantize_q4_k},
                               {kGgmlQ5_K, "Q5_K", 256, 176, dequantize_q5_k},
                               {kGgmlQ6_K, "Q6_K", 256, 210, dequantize_q6_k},
                               {kGgmlIQ4_NL, "IQ4_NL", 32, 18, dequantize_iq4_nl},
                               {9, "Q8_1"},
                               {15, "Q8_K"},
                               {16, "IQ2_XXS"},
                               {17, "IQ2_XS"},
                               {18, "IQ3_XXS"},
                               {19, "IQ1_S"},
                               {21, "IQ3_S"},
                               {22, "IQ2_S"},
                               {23, "IQ4_XS"},
                               {24, "I8"},
                               {25, "I16"},
                               {26, "I32"},
                               {27, "I64"},
                               {28, "F64"},
                               {29, "IQ1_M"},
                               {34, "TQ1_0"},
                               {35, "TQ2_0"},
                               {39, "MXFP4"}};

template <typename Wanted>
const GgmlType* find_type(const Wanted& wanted) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), wanted);
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

const GgmlType* find_ggml_type(uint32_t number) {
  return find_type([&](const GgmlType& type) { return type.number == number; });
}

const GgmlType* find_ggml_type(std::string_view name) {
  return find_type([&](const GgmlType& type) { return type.name == name; });
}

std::string readable_ggml_types() {
  std::string names;
  for (const GgmlType& type : kTypes) {
    if (type.block > 0) names += (names.empty() ? "" : ", ") + std::string(type.name);
  }
  return names;
}

void dequantize(const GgufTensor& tensor, int64_t first, int64_t count, float* out) {
  switch (tensor.type) {
    case kGgmlF32:
      return read_floats(ElementType::f32, tensor.data, first, count, out);
    case kGgmlF16:
      return read_floats(ElementType::f16, tensor.data, first, count, out);
    case kGgmlBF16:
      return read_floats(ElementType::bf16, tensor.data, first, count, out);
    default:
      break;
  }
  const GgmlType* type = find_ggml_type(tensor.type);
  if (type == nullptr || type->dequantize == nullptr || first % type->block != 0 || count % type->block != 0)
    fail(Status::internal, "dequantize: type {}, elements {} + {}", tensor.type_name, first, count);
  const uint8_t* block = static_cast<const uint8_t*>(tensor.data) + first / type->block * type->bytes;
  for (int64_t i = 0; i < count; i += type->block, block += type->bytes) type->dequantize(block, out + i);
}

}  // namespace trl::io
