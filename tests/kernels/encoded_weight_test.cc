// Weights in blocks: what they decode to, and that products with them are those with the decoded weight, bit
// by bit.
#include "kernels/weight/encoded_weight.h"
#include "io/four_bit.h"
#include "io/safetensors.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/experts/experts.h"
#include "kernels/reference.h"
#include "support/golden.h"

namespace trl::kernels {
namespace {

using test::random;
using test::same_bits;
using test::Threads;

constexpr const char* kTensors = "quantization/tensors.safetensors";
using EncodedPtr = std::shared_ptr<const tensor::Encoded>;

EncodedPtr four_bit(const at::Tensor& w, io::FourBit type, bool nested, int64_t block = 64) {
  const int64_t count = w.numel();
  FourBitValues values{.type = type, .block = block};
  values.codes = at::empty({(count + 1) / 2}, at::kByte);
  values.absmax = at::empty({(count + block - 1) / block});
  io::encode_four_bit(type, w.data_ptr<float>(), count, block, values.codes.data_ptr<uint8_t>(),
                      values.absmax.data_ptr<float>());
  if (nested) nest(values, values.absmax);
  return four_bit_weight(w.sizes().vec(), std::move(values));
}

EncodedPtr int8(const at::Tensor& w) {
  const int64_t width = w.size(-1), rows = w.numel() / width;
  const at::Tensor codes = at::empty(w.sizes(), at::kChar), absmax = at::empty({rows});
  for (int64_t r = 0; r < rows; ++r) {
    io::encode_int8_row(w.data_ptr<float>() + r * width, width, codes.data_ptr<int8_t>() + r * width,
                        absmax.data_ptr<float>()[r]);
  }
  return int8_weight(w.sizes().vec(), codes, absmax);
}

struct Form {
  const char* name;
  EncodedPtr (*encode)(const at::Tensor&);
};
const Form kForms[] = {
    {"nf4", [](const at::Tensor& w) { return four_bit(w, io::FourBit::nf4, false); }},
    {"nf4 nested", [](const at::Tensor& w) { return four_bit(w, io::FourBit::nf4, true); }},
    {"fp4 of 128", [](const at::Tensor& w) { return four_bit(w, io::FourBit::fp4, false, 128); }},
    {"int8", &int8}};

at::Tensor decoded(const EncodedPtr& w, at::ScalarType type) { return *Parameter("w", w, type).read(); }

// One element at a time.
at::Tensor decoded_singly(const EncodedPtr& w, at::ScalarType type) {
  at::Tensor out = at::empty(w->shape(), type);
  const int64_t width = w->width();
  for (int64_t i = 0; i < out.numel(); ++i) {
    w->decode({i / width, 1, i % width, 1}, type,
              static_cast<char*>(out.data_ptr()) + i * static_cast<int64_t>(out.element_size()), 1);
  }
  return out;
}

TEST(EncodedWeight, DecodesToWhatBitsAndBytesDecodesTo) {
  TRL_NEED_GOLDEN(kTensors);
  const io::Safetensors file(test::golden_path(kTensors));
  const auto floats = [&](const std::string& name) {
    const io::TensorView& view = file.tensors().at(name);
    at::Tensor out = at::empty(view.shape);
    std::memcpy(out.data_ptr(), view.data, view.bytes);
    return out;
  };
  int checked = 0;
  for (const base::Json& c : test::golden_json("quantization/cases.json")["cases"]) {
    const std::string key = c["key"], want = key + ".dequantized";
    if (!file.tensors().contains(want) || !c.contains("quant_type")) continue;
    const at::Tensor input = floats(c["input"]);
    const io::FourBit type = c["quant_type"] == "nf4" ? io::FourBit::nf4 : io::FourBit::fp4;
    const EncodedPtr w = four_bit(input, type, c["nested"], c["blocksize"]);
    EXPECT_TRUE(decoded(w, at::kFloat).equal(floats(want).view(input.sizes()))) << key;
    ++checked;
  }
  EXPECT_GE(checked, 15);
  EXPECT_TRUE(decoded(int8(floats("linear.input")), at::kFloat).equal(floats("linear.int8.dequantized")));
}

TEST(EncodedWeight, EveryInstructionSetDecodesTheSameBits) {
  const CpuKernels& best = cpu();
  for (const int64_t width : {1, 13, 64, 100, 192, 200, 1024}) {
    const at::Tensor w = random({6, width}, width);
    for (const Form& form : kForms) {
      const EncodedPtr encoded = form.encode(w);
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor want = decoded_singly(encoded, at::kFloat).to(type);
        for (const CpuKernels* const* v = cpu_variants(); *v != nullptr; ++v) {
          use_cpu(**v);
          EXPECT_TRUE(same_bits(decoded(encoded, type), want))
              << (*v)->name << " " << form.name << " " << width;
        }
        use_cpu(best);
      }
    }
  }
}

TEST(EncodedWeight, DecodesAnyPartOfAMatrix) {
  for (const int64_t width : {192, 200, 8192}) {
    for (const Form& form : kForms) {
      const EncodedPtr encoded = form.encode(random({9, width}, width));
      const at::Tensor whole = decoded(encoded, at::kFloat);
      for (int64_t column = 0; column < width; column += 64) {
        const int64_t columns = std::min<int64_t>(128, width - column);
        at::Tensor part = at::full({5, 130}, 7.0f);
        encoded->decode({3, 5, column, columns}, at::kFloat, part.data_ptr(), 130);
        EXPECT_TRUE(part.narrow(1, 0, columns).equal(whole.narrow(0, 3, 5).narrow(1, column, columns)))
            << form.name << " " << width << " " << column;
        EXPECT_TRUE(part.narrow(1, columns, 130 - columns).eq(7).all().item<bool>());
      }
    }
  }
}

struct WeightShape {
  int64_t out, in;
};

// Products with w as it is stored and with the numbers that it decodes to.
void expect_same_products(const EncodedPtr& w, int64_t tokens, at::ScalarType compute, bool biased,
                          const std::string& what) {
  const int64_t out = w->shape()[0], in = w->width();
  Parameter encoded("w", w, compute), numbers("w", decoded(w, compute)), bias("b", random({out}, 5, compute));
  numbers.trainable = false;
  const at::Tensor x = test::leaf(random({tokens, in}, 6, compute));
  const at::Tensor dy = random({tokens, out}, 7, compute);
  const auto run = [&](Parameter& weight) {
    const at::Tensor y = linear(x, weight, biased ? &bias : nullptr, compute);
    return std::vector<at::Tensor>{y, torch::autograd::grad({y}, {x}, {dy})[0]};
  };
  const std::vector<at::Tensor> got = run(encoded), want = run(numbers);
  EXPECT_TRUE(same_bits(got[0], want[0])) << what << ": y of " << tokens << " rows";
  EXPECT_TRUE(same_bits(got[1], want[1])) << what << ": dx of " << tokens << " rows";
}

TEST(EncodedWeight, ProductsAreThoseWithTheDecodedWeight) {
  const WeightShape shapes[] = {{7, 13},     {96, 200},   {576, 576}, {192, 576},
                                {1536, 576}, {576, 1536}, {128, 896}, {300, 4864}};
  for (const auto& [out, in] : shapes) {
    const at::Tensor w = random({out, in}, out + in) * 0.05;
    for (const Form& form : kForms) {
      const EncodedPtr encoded = form.encode(w);
      for (const int64_t tokens : {1, 3, 16, 17, 130, 700}) {
        for (const at::ScalarType compute : {at::kBFloat16, at::kFloat}) {
          expect_same_products(encoded, tokens, compute, tokens % 2 == 1,
                               fmt::format("{} {}x{} {}", form.name, out, in, c10::toString(compute)));
        }
      }
    }
  }
}

TEST(EncodedWeight, ProductsOfOneRowAreThoseWithTheDecodedWeightOnEveryInstructionSet) {
  const CpuKernels& best = cpu();
  for (const auto& [out, in] : {WeightShape{7, 64}, WeightShape{66, 576}, WeightShape{40, 200}}) {
    for (const Form& form : kForms) {
      const EncodedPtr encoded = form.encode(random({out, in}, in));
      for (const CpuKernels* const* v = cpu_variants(); *v != nullptr; ++v) {
        use_cpu(**v);
        for (const at::ScalarType compute : {at::kBFloat16, at::kFloat})
          expect_same_products(encoded, 1, compute, out == 7,
                               fmt::format("{} {} {}x{}", (*v)->name, form.name, out, in));
      }
      use_cpu(best);
    }
  }
}

TEST(EncodedWeight, ProductsOfManyRowsAreThoseWithTheDecodedWeight) {
  for (const auto& [out, in] : {WeightShape{576, 576}, WeightShape{4864, 896}, WeightShape{896, 4864}}) {
    const EncodedPtr encoded = kForms[0].encode(random({out, in}, 3) * 0.05);
    for (const int64_t tokens : {1030, 2048, 2500}) {
      if (tokens > 1030 && out > 576 && !test::model_shapes()) continue;
      expect_same_products(encoded, tokens, at::kBFloat16, false, fmt::format("{}x{}", out, in));
    }
  }
}

TEST(EncodedWeight, SameBitsForAnyNumberOfThreads) {
  const EncodedPtr w = kForms[1].encode(random({600, 320}, 4));
  Parameter weight("w", w, at::kBFloat16);
  for (const int64_t tokens : {2, 300}) {
    const at::Tensor x = random({tokens, 320}, 5, at::kBFloat16);
    std::vector<at::Tensor> results;
    for (const int threads : {1, 2, 3, 5}) {
      const Threads scoped(threads);
      results.push_back(linear(x, weight, nullptr, at::kBFloat16));
      EXPECT_TRUE(same_bits(results.back(), results.front()));
    }
  }
}

TEST(EncodedWeight, ExpertsAreThoseWithTheDecodedWeights) {
  for (const int64_t count : {4, 40}) {
    const int64_t hidden = 64, width = 96;
    const EncodedPtr gate_up = kForms[0].encode(random({count, 2 * width, hidden}, 1) * 0.1);
    const EncodedPtr down = kForms[3].encode(random({count, hidden, width}, 2) * 0.1);
    Parameter encoded[] = {{"g", gate_up, at::kBFloat16}, {"d", down, at::kBFloat16}};
    Parameter numbers[] = {{"g", decoded(gate_up, at::kBFloat16)}, {"d", decoded(down, at::kBFloat16)}};
    for (const int64_t tokens : {1, 200}) {
      const at::Tensor x = test::leaf(random({tokens, hidden}, 3, at::kBFloat16));
      const Routing routing = route(random({tokens, count}, 4), 2, true);
      const auto run = [&](Parameter* w, bool graph) {
        const ExpertWeights weights{&w[0], &w[1]};
        const at::NoGradGuard guard;
        at::GradMode::set_enabled(graph);
        const at::Tensor y = experts(x, routing, weights, Activation::silu, at::kBFloat16);
        return graph ? torch::autograd::grad({y}, {x}, {at::ones_like(y)})[0] : y;
      };
      for (const bool graph : {false, true}) {
        EXPECT_TRUE(same_bits(run(encoded, graph), run(numbers, graph)))
            << count << " " << tokens << " " << graph;
      }
    }
  }
}

TEST(EncodedWeight, IsFrozen) {
  Parameter weight("model.w", kForms[0].encode(random({4, 64}, 1)), at::kFloat);
  EXPECT_FALSE(weight.trainable);
  EXPECT_EQ(weight.shape(), (at::IntArrayRef{4, 64}));
  for (const auto& change : std::vector<std::function<void()>>{[&] {
                                                                 weight.begin_training(at::zeros({4, 64}));
                                                               },
                                                               [&] { (void)weight.write(); },
                                                               [&] {
                                                                 weight.replace(at::zeros({4, 64}));
                                                               }}) {
    try {
      change();
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("model.w is stored as NF4"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace trl::kernels
