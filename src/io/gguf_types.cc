// Block layouts and their dequantisation as ggml's reference has it (ggml-common.h, ggml-quants.c), bit for
// bit: the scale is widened to float32 first, products and sums are rounded to float32 one by one.
#include "io/gguf_types.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "io/elements.h"
#include "io/gguf.h"

namespace trl::io {

namespace {

constexpr GgmlType kTypes[] = {
    {kGgmlF32, "F32", 1, 4},     {kGgmlF16, "F16", 1, 2},     {kGgmlBF16, "BF16", 1, 2},
    {kGgmlQ8_0, "Q8_0", 32, 34}, {kGgmlQ4_1, "Q4_1", 32, 20}, {2, "Q4_0", 0, 0},
    {6, "Q5_0", 0, 0},           {7, "Q5_1", 0, 0},           {9, "Q8_1", 0, 0},
    {10, "Q2_K", 0, 0},          {11, "Q3_K", 0, 0},          {12, "Q4_K", 0, 0},
    {13, "Q5_K", 0, 0},          {14, "Q6_K", 0, 0},          {15, "Q8_K", 0, 0},
    {16, "IQ2_XXS", 0, 0},       {17, "IQ2_XS", 0, 0},        {18, "IQ3_XXS", 0, 0},
    {19, "IQ1_S", 0, 0},         {20, "IQ4_NL", 0, 0},        {21, "IQ3_S", 0, 0},
    {22, "IQ2_S", 0, 0},         {23, "IQ4_XS", 0, 0},        {24, "I8", 0, 0},
    {25, "I16", 0, 0},           {26, "I32", 0, 0},           {27, "I64", 0, 0},
    {28, "F64", 0, 0},           {29, "IQ1_M", 0, 0},         {34, "TQ1_0", 0, 0},
    {35, "TQ2_0", 0, 0},         {39, "MXFP4", 0, 0}};

float half_at(const char* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return half_to_float(bits);
}

// d (f16), 32 x int8: x = q d
void dequantize_q8_0(const char* block, float* out) {
  const float d = half_at(block);
  const auto* q = reinterpret_cast<const int8_t*>(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(q[i]) * d;
}

// d, m (f16), 16 bytes: low nibbles are elements 0..15, high ones 16..31: x = d q + m
void dequantize_q4_1(const char* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  const auto* q = reinterpret_cast<const uint8_t*>(block + 4);
  for (int i = 0; i < 16; ++i) {
    const float low = static_cast<float>(q[i] & 0x0f) * d;
    const float high = static_cast<float>(q[i] >> 4) * d;
    out[i] = low + m;
    out[i + 16] = high + m;
  }
}

}  // namespace

const GgmlType* find_ggml_type(uint32_t number) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const GgmlType& t) { return t.number == number; });
  return found == std::end(kTypes) ? nullptr : found;
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
  if (type == nullptr || type->block == 0 || first % type->block != 0 || count % type->block != 0) {
    fail(Status::internal, "dequantize: type {}, elements {} + {}", tensor.type_name, first, count);
  }
  const char* block = static_cast<const char*>(tensor.data) + first / type->block * type->bytes;
  for (int64_t i = 0; i < count; i += type->block, block += type->bytes) {
    if (tensor.type == kGgmlQ8_0) {
      dequantize_q8_0(block, out + i);
    } else {
      dequantize_q4_1(block, out + i);
    }
  }
}

}  // namespace trl::io
