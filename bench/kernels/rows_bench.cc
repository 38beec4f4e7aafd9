// usage: rows_bench [--threads N] [--layers N] [--seconds S]
// Products of few rows with all projections and the head of a decoder of Qwen2.5-0.5B's shape, by the form of
// the weights: milliseconds, the GB/s that weights are read with, and the share of the roofline. That is the
// bytes of the weights over the bandwidth of reading, or the operations over the peak of a large product in
// float32 or bfloat16 (for copies in codes: in 8-bit integers), whichever takes longer. Medians.
#include <CLI/CLI.hpp>
#include <deque>

#include "io/four_bit.h"
#include "kernels/gemm/gemm.h"
#include "kernels/op.h"
#include "kernels/weight/encoded_weight.h"
#include "kernels/weight/narrow_weight.h"
#include "kernels/weight/weight_product.h"
#include "support/machine.h"
#include "support/repeat.h"
#include "support/runs.h"

namespace {

using namespace trl::bench;
using namespace trl::kernels;
using trl::tensor::Encoded;

std::shared_ptr<const Encoded> nf4(int64_t out, int64_t in) {
  FourBitValues values;
  values.codes = at::randint(0, 256, {out * in / 2}, at::kByte);
  values.absmax = at::rand({out * in / 64}) * 0.1;
  return four_bit_weight({out, in}, std::move(values));
}

std::shared_ptr<const Encoded> int8_rows(int64_t out, int64_t in) {
  return int8_weight({out, in}, at::randint(-127, 128, {out, in}, at::kChar), at::rand({out}));
}

std::shared_ptr<const Encoded> ggml(const char* name, int64_t out, int64_t in) {
  const trl::io::GgmlType& type = *trl::io::find_ggml_type(name);
  static std::deque<at::Tensor> kept;
  const at::Tensor& bytes =
      kept.emplace_back(at::randint(0x20, {out * in / type.block * type.bytes}, at::kByte));
  return ggml_weight(nullptr, {name, type.number, {out, in}, bytes.data_ptr(), bytes.nbytes()});
}

// Products that read the same rows are computed together.
struct Group {
  int64_t in;
  std::vector<int64_t> outs;
};
const std::vector<Group> kLayer = {{896, {896, 128, 128}}, {896, {896}}, {896, {4864, 4864}}, {4864, {896}}};
const Group kHead = {896, {151936}};

// The projections of a decoder.
class Decoder {
 public:
  Decoder(std::string form, int64_t layers) : form_(std::move(form)) {
    for (int64_t i = 0; i < layers; ++i)
      for (const Group& group : kLayer) add(group);
    add(kHead);
  }
  double bytes() const { return bytes_; }
  double operations() const { return operations_; }  // for a row
  bool in_codes() const { return form_.starts_with("copy"); }

  // Makes the copies again, as after an update.
  void refresh() {
    for (Parameter& parameter : parameters_) parameter.write();
    for (NarrowWeight& copy : copies_) copy.refresh();
  }
  // narrow, wide: rows of 896 and of 4,864.
  void compute(const at::Tensor& narrow, const at::Tensor& wide) const {
    const IndependentRows independent;
    for (const std::vector<Projection>& group : groups_)
      project(group[0].in() == narrow.size(1) ? narrow : wide, group);
  }

 private:
  void add(const Group& shape) {
    std::vector<Projection>& group = groups_.emplace_back();
    for (const int64_t out : shape.outs) {
      Projection p{&parameter(out, shape.in)};
      const auto count = static_cast<double>(out * shape.in);
      if (in_codes()) {
        const auto type = form_ == "copy int8" ? NarrowType::int8 : NarrowType::int4;
        p.narrow = &copies_.emplace_back(*p.weight, false, type);
        bytes_ += static_cast<double>(p.narrow->bytes());
      } else {
        bytes_ += count * (form_ == "bfloat16" ? 2.0
                           : form_ == "int8"   ? 1.0
                           : form_ == "Q8_0"   ? 8.5 / 8
                                               : 4.5 / 8);
      }
      operations_ += 2 * count;
      group.push_back(p);
    }
  }
  Parameter& parameter(int64_t out, int64_t in) {
    if (form_ == "nf4") return parameters_.emplace_back("w", nf4(out, in), at::kBFloat16);
    if (form_ == "int8") return parameters_.emplace_back("w", int8_rows(out, in), at::kBFloat16);
    if (form_[0] == 'Q') return parameters_.emplace_back("w", ggml(form_.c_str(), out, in), at::kBFloat16);
    return parameters_.emplace_back("w", at::empty({out, in}, at::kBFloat16).uniform_(-0.1, 0.1));
  }

  const std::string form_;
  std::deque<Parameter> parameters_;
  std::deque<NarrowWeight> copies_;
  std::vector<std::vector<Projection>> groups_;
  double bytes_ = 0, operations_ = 0;
};

void measure(const Machine& machine, const std::string& form, int64_t layers, double seconds) {
  Decoder decoder(form, layers);
  const double peak = decoder.in_codes() ? machine.codes_peak() : machine.peak();
  if (decoder.in_codes()) {
    const double time = median(repeat(seconds, [&] { decoder.refresh(); }));
    print({{"bench", "refresh"},
           {"form", form},
           {"ms", 1e3 * time},
           {"weights_s", decoder.operations() / 2 / time}});
  }
  for (const int64_t rows : {1, 8, 32}) {
    const at::Tensor narrow = at::randn({rows, 896}).to(at::kBFloat16);
    const at::Tensor wide = at::randn({rows, 4864}).to(at::kBFloat16);
    const double time = median(repeat(seconds, [&] { decoder.compute(narrow, wide); }));
    const double roof = std::max(decoder.bytes() / machine.bandwidth,
                                 static_cast<double>(rows) * decoder.operations() / peak);
    print({{"bench", "rows"},
           {"form", form},
           {"rows", rows},
           {"ms", 1e3 * time},
           {"gb_s", 1e-9 * decoder.bytes() / time},
           {"share", roof / time}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Products of few rows");
  int threads = 0;
  int64_t layers = 24;
  double seconds = 0.5;
  std::vector<std::string> forms = {"bfloat16", "copy int8", "copy int4", "int8", "nf4", "Q8_0", "Q4_0"};
  app.add_option("--threads", threads, "(default: all)");
  app.add_option("--layers", layers, "of the decoder");
  app.add_option("--seconds", seconds, "for each number");
  app.add_option("--forms", forms, "of weights");
  CLI11_PARSE(app, argc, argv);
  trl::tensor::set_threads(threads);
  const at::NoGradGuard no_grad;
  const at::Tensor held =
      trl::tensor::empty({1}, at::kFloat, trl::tensor::MemoryKind::weights);  // as a model is
  const Machine machine = measure_machine(seconds);
  print(line_of(machine));
  for (const std::string& form : forms) measure(machine, form, layers, seconds);
  return 0;
}
