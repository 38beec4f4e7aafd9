// Weights as in GGUF files: every instruction set makes the numbers of io/gguf.h of them, bit by bit.
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ggml_blocks.h"
#include "kernels/kernels.h"
#include "kernels/reference.h"

namespace trl::kernels {
namespace {

using test::blocks;
using test::Bytes;
using test::kLayouts;
using test::Layout;
using test::random;
using test::same_bits;

std::shared_ptr<const tensor::Encoded> weight(const io::GgufTensor& tensor,
                                              std::function<int64_t(int64_t)> row = {}) {
  return ggml_weight(nullptr, tensor, std::move(row));
}

at::Tensor dequantized(const io::GgufTensor& tensor) {
  at::Tensor out = at::empty(tensor.shape);
  io::dequantize(tensor, 0, out.numel(), out.data_ptr<float>());
  return out;
}

at::Tensor decoded(const tensor::Encoded& w, const tensor::Part2d& part, at::ScalarType type) {
  at::Tensor out = at::empty({part.rows, part.columns}, type);
  w.decode(part, type, out.data_ptr(), part.columns);
  return out;
}

template <typename Body>
void on_every_instruction_set(const Body& body) {
  const CpuKernels& best = cpu();
  for (const CpuKernels* const* v = cpu_variants(); *v != nullptr; ++v) {
    use_cpu(**v);
    body((*v)->name);
  }
  use_cpu(best);
}

TEST(GgmlWeight, EveryInstructionSetDecodesTheSameBits) {
  for (const Layout& layout : kLayouts) {
    Bytes bytes;
    const io::GgufTensor tensor = blocks(layout, 5, 768, bytes);
    const at::Tensor want = dequantized(tensor);
    const auto w = weight(tensor);
    on_every_instruction_set([&](const char* name) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
        EXPECT_TRUE(same_bits(decoded(*w, {0, 5, 0, 768}, type), want.to(type)))
            << name << " " << layout.type;
    });
  }
}

TEST(GgmlWeight, DecodesAnyPartOfAMatrix) {
  for (const Layout& layout : kLayouts) {
    Bytes bytes;
    const io::GgufTensor tensor = blocks(layout, 7, 1536, bytes);
    const at::Tensor want = dequantized(tensor);
    const auto reversed = [](int64_t row) { return 6 - row; };
    const auto w = weight(tensor), other = weight(tensor, reversed);
    on_every_instruction_set([&](const char* name) {
      for (const auto& [column, columns] :
           {std::pair<int64_t, int64_t>{256, 512}, {0, 1536}, {64, 96}, {5, 1300}}) {
        const at::Tensor part = want.narrow(0, 2, 4).narrow(1, column, columns);
        EXPECT_TRUE(same_bits(decoded(*w, {2, 4, column, columns}, at::kFloat), part.contiguous()))
            << name << " " << layout.type << " " << column;
        EXPECT_TRUE(
            same_bits(decoded(*other, {1, 4, column, columns}, at::kFloat), part.flip(0).contiguous()))
            << name << " " << layout.type << " " << column;
      }
    });
  }
}

TEST(GgmlWeight, ProductsAreThoseWithTheDecodedWeight) {
  for (const Layout& layout : kLayouts) {
    Bytes bytes;
    const auto [out, in] = layout.halves.empty() ? std::pair<int64_t, int64_t>{40, 256}
                                                 : std::pair<int64_t, int64_t>{1100, 1024};
    const io::GgufTensor tensor = blocks(layout, out, in, bytes);
    for (const at::ScalarType compute : {at::kBFloat16, at::kFloat}) {
      Parameter encoded("w", weight(tensor), compute), numbers("w", dequantized(tensor).to(compute));
      numbers.trainable = false;
      for (const int64_t tokens : {1, 3, 150}) {
        const at::Tensor x = test::leaf(random({tokens, in}, 6, compute)),
                         dy = random({tokens, out}, 7, compute);
        const auto run = [&](Parameter& w) {
          const at::Tensor y = linear(x, w, nullptr, compute);
          return std::pair{y, torch::autograd::grad({y}, {x}, {dy})[0]};
        };
        const auto got = run(encoded), want = run(numbers);
        EXPECT_TRUE(same_bits(got.first, want.first)) << layout.type << ", " << tokens;
        EXPECT_TRUE(same_bits(got.second, want.second)) << layout.type << ", " << tokens;
      }
    }
  }
}

}  // namespace
}  // namespace trl::kernels
