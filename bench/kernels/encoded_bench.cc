// usage: encoded_bench [--threads N] [--seconds S]
// Weights in blocks: how fast they decode (a panel at a time, so that it stays in a core's second-level
// cache), and their products beside those of a bfloat16 weight, forward and for the gradient of the input, in
// GFLOP/s. The best of the repeats.
#include <CLI/CLI.hpp>
#include <deque>
#include <functional>

#include "io/four_bit.h"
#include "kernels/gemm/gemm_int8.h"
#include "kernels/weight/encoded_weight.h"
#include "kernels/weight/weight_product.h"
#include "support/repeat.h"
#include "support/runs.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace trl::bench;
using trl::kernels::Projection;
using trl::tensor::Encoded;
using trl::tensor::Parameter;
using EncodedPtr = std::shared_ptr<const Encoded>;

EncodedPtr four_bit(const at::Tensor& w, bool nested) {
  trl::kernels::FourBitValues values;
  values.codes = at::empty({w.numel() / 2}, at::kByte);
  values.absmax = at::empty({w.numel() / 64});
  trl::io::encode_four_bit(values.type, w.data_ptr<float>(), w.numel(), 64, values.codes.data_ptr<uint8_t>(),
                           values.absmax.data_ptr<float>());
  if (nested) trl::kernels::nest(values, values.absmax);
  return trl::kernels::four_bit_weight(w.sizes().vec(), std::move(values));
}

EncodedPtr int8(const at::Tensor& w) {
  const at::Tensor codes = at::empty(w.sizes(), at::kChar), absmax = at::empty({w.size(0)});
  for (int64_t r = 0; r < w.size(0); ++r) {
    trl::io::encode_int8_row(w.data_ptr<float>() + r * w.size(1), w.size(1),
                             codes.data_ptr<int8_t>() + r * w.size(1), absmax.data_ptr<float>()[r]);
  }
  return trl::kernels::int8_weight(w.sizes().vec(), codes, absmax);
}

// Random blocks, whose scales are finite.
EncodedPtr ggml(const char* name, const at::Tensor& w) {
  const trl::io::GgmlType& type = *trl::io::find_ggml_type(name);
  static std::deque<at::Tensor> kept;
  const at::Tensor& bytes =
      kept.emplace_back(at::randint(0x60, {w.numel() / type.block * type.bytes}, at::kByte));
  return trl::kernels::ggml_weight(nullptr,
                                   {name, type.number, w.sizes().vec(), bytes.data_ptr(), bytes.nbytes()});
}

struct Form {
  const char* name;
  int64_t block;  // what divides a row
  std::function<EncodedPtr(const at::Tensor&)> encode;
};

std::vector<Form> forms() {
  std::vector<Form> all = {{"nf4", 1, [](const at::Tensor& w) { return four_bit(w, false); }},
                           {"nf4 nested", 1, [](const at::Tensor& w) { return four_bit(w, true); }},
                           {"int8", 1, &int8}};
  for (const char* name :
       {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"})
    all.push_back(
        {name, trl::io::find_ggml_type(name)->block, [=](const at::Tensor& w) { return ggml(name, w); }});
  return all;
}

// One thread, panels of rows and of columns.
void measure_decoding(double seconds) {
  for (const Form& form : forms()) {
    const int64_t out = 4864, in = form.block > 64 ? 1024 : 896, panel = std::max<int64_t>(64, form.block);
    const at::Tensor w = at::randn({out, in}) * 0.05;
    const at::Tensor place = at::empty({out * panel + 256 * in}, at::kBFloat16);
    const EncodedPtr encoded = form.encode(w);
    const double gigabytes = 2e-9 * static_cast<double>(out * in);
    const double rows = best_seconds(seconds, [&] {
      for (int64_t r = 0; r < out; r += 256)
        encoded->decode({r, std::min<int64_t>(256, out - r), 0, in}, at::kBFloat16, place.data_ptr(), in);
    });
    const double columns = best_seconds(seconds, [&] {
      for (int64_t c = 0; c < in; c += panel)
        encoded->decode({0, out, c, panel}, at::kBFloat16, place.data_ptr(), panel);
    });
    print({{"bench", "decode"},
           {"form", form.name},
           {"gb_s_rows", gigabytes / rows},
           {"gb_s_columns", gigabytes / columns}});
  }
}

void measure_products(int64_t tokens, int64_t out, int64_t in, double seconds) {
  const at::NoGradGuard guard;
  const at::Tensor w = at::randn({out, in}) * 0.05;
  const at::Tensor x = at::randn({tokens, in}).to(at::kBFloat16),
                   dy = at::randn({tokens, out}).to(at::kBFloat16);
  const double work = 2e-9 * static_cast<double>(tokens * out * in);
  const auto measure = [&](const char* form, const Projection& p) {
    at::Tensor dx = at::empty({tokens, in}, at::kBFloat16);
    const double forward = best_seconds(seconds, [&] { trl::kernels::project(x, p); });
    const double backward = best_seconds(seconds, [&] { trl::kernels::input_gradient(dy, p, {}, dx); });
    print({{"bench", "weight product"},
           {"form", form},
           {"tokens", tokens},
           {"out", out},
           {"in", in},
           {"gflops_forward", std::round(work / forward)},
           {"gflops_gradient", std::round(work / backward)}});
  };
  Parameter numbers("w", w.to(at::kBFloat16));
  Projection plain{&numbers};
  measure("bf16", plain);
  if (trl::kernels::has_int8_products()) {
    const trl::kernels::Int8Products products(plain);
    plain.int8 = &products;
    measure("bf16 in int8", plain);
  }
  for (const Form& form : forms()) {
    if (in % form.block != 0) continue;
    Parameter encoded("w", form.encode(w), at::kBFloat16);
    measure(form.name, {&encoded});
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Weights in blocks");
  int threads = 0;
  double seconds = 0.5;
  app.add_option("--threads", threads, "of the products (default: all)");
  app.add_option("--seconds", seconds, "for each number");
  CLI11_PARSE(app, argc, argv);
  trl::tensor::set_threads(threads);
  const at::Tensor held =
      trl::tensor::empty({1}, at::kFloat, trl::tensor::MemoryKind::weights);  // as a model is
  measure_decoding(seconds);
  for (const int64_t tokens : {1, 512, 2048}) {
    measure_products(tokens, 576, 576, seconds);
    measure_products(tokens, 1536, 576, seconds);
    measure_products(tokens, 576, 1536, seconds);
    measure_products(tokens, 4864, 896, seconds);
    measure_products(tokens, 896, 4864, seconds);
  }
  return 0;
}
