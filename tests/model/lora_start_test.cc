// The values that a new adapter begins with: PEFT's own for the same seed.
#include "model/adapter/lora_start.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/files/hash.h"
#include "base/memory/system_memory.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/resident.h"

namespace trl::model {
namespace {

const base::Json& recorded() { return test::golden_json("adapters/start.json"); }

config::LoraConfig read(base::Json fields) {
  fields.erase("target_modules");
  return config::read_lora_config(fields, "test", Status::invalid_config);
}

at::Tensor tensor_of(const base::Json& numbers, at::IntArrayRef shape) {
  return at::tensor(numbers.get<std::vector<float>>()).reshape(shape);
}

at::Tensor weight_of(const std::string& name, int64_t in, int64_t out) {
  return tensor_of(recorded()["weights"][name], {out, in});
}

struct StartedAdapter {
  base::Json config;
  std::map<std::string, LoraFactors> got, want;
};

// Three modules in the order in which the recorded model has them.
StartedAdapter run(const base::Json& one) {
  StartedAdapter out{one["config"], {}, {}};
  const config::LoraConfig config = read(one["config"]);
  const double scaling = config.scaling(config.r, config.lora_alpha);
  LoraStart start(config, at::detail::createCPUGenerator(recorded()["seed"].get<uint64_t>()));
  const auto take = [&](const std::string& name, int64_t in, int64_t width, LoraFactors factors) {
    const base::Json& want = one["tensors"][name];
    out.got[name] = std::move(factors);
    out.want[name].a = tensor_of(want[0], {config.r, in});
    out.want[name].b = tensor_of(want[1], {width, config.r});
    if (want.size() > 2) out.want[name].bias = tensor_of(want[2], {width});
  };
  take("first", 6, 5, start.linear(6, 5, config.r, scaling, weight_of("first", 6, 5)));
  if (one["tensors"].contains("table")) take("table", 9, 7, start.embedding(9, 7, config.r));
  take("second", 11, 13, start.linear(11, 13, config.r, scaling, weight_of("second", 11, 13)));
  return out;
}

bool near(const at::Tensor& got, const at::Tensor& want) {
  return at::allclose(got, want, test::limits::function.relative, test::limits::function.floor);
}

TEST(LoraStart, UniformValuesAreThoseOfPeftBitForBit) {
  int compared = 0;
  for (const base::Json& one : recorded()["cases"]) {
    if (!one["config"]["init_lora_weights"].is_boolean()) continue;
    const StartedAdapter result = run(one);
    for (const auto& [name, want] : result.want) {
      if (name == "table") continue;
      const LoraFactors& got = result.got.at(name);
      EXPECT_TRUE(at::equal(got.a, want.a)) << one["config"] << name;
      EXPECT_TRUE(at::equal(got.b, want.b)) << one["config"] << name;
      EXPECT_EQ(got.bias.defined(), want.bias.defined());
      if (want.bias.defined()) {
        EXPECT_TRUE(at::equal(got.bias, want.bias)) << one["config"] << name;
      }
      ++compared;
    }
  }
  EXPECT_EQ(compared, 8);
}

TEST(LoraStart, EveryOtherInitIsPefts) {
  int principal = 0;
  for (const base::Json& one : recorded()["cases"]) {
    const StartedAdapter result = run(one);
    const bool pissa = one["config"]["init_lora_weights"].dump().find("pissa") != std::string::npos;
    for (const auto& [name, want] : result.want) {
      const LoraFactors& got = result.got.at(name);
      if (pissa && name != "table") {  // singular vectors have no sign of their own
        EXPECT_TRUE(near(got.b.mm(got.a), want.b.mm(want.a))) << one["config"] << name;
      } else {
        EXPECT_TRUE(near(got.a, want.a)) << one["config"] << name << got.a << want.a;
        EXPECT_TRUE(near(got.b, want.b)) << one["config"] << name << got.b << want.b;
      }
      const config::LoraConfig config = read(one["config"]);
      if (name == "table" || !LoraStart(config, at::detail::createCPUGenerator(0)).needs_weight()) continue;
      const double scaling = config.scaling(config.r, config.lora_alpha);
      const at::Tensor weight = weight_of(name, got.a.size(1), got.b.size(0));
      const at::Tensor rest = LoraStart::rest(weight, got.a, got.b, scaling);
      EXPECT_TRUE(at::equal(rest, weight - scaling * got.b.mm(got.a))) << one["config"] << name;
      EXPECT_FALSE(near(rest, weight));
      ++principal;
    }
  }
  EXPECT_EQ(principal, 10);
}

// What libtorch's allocator has given out on this thread, at most, since this began.
class Allocated final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, int64_t, int64_t, c10::Device) { add(bytes); }
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) { add(bytes); }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t most() const { return most_; }

 private:
  void add(int64_t bytes) {
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  int64_t now_ = 0, most_ = 0;
};

template <typename Body>
int64_t most_allocated(const Body& body) {
  const auto allocated = std::make_shared<Allocated>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocated);
  body();
  return allocated->most();
}

// The work of an SVD is not of libtorch's allocator, which gives out the rest: the matrix, its vectors,
// factors. MKL, with which others build libtorch, takes another amount of work for a QR.
TEST(LoraStart, TakesTheWorkspaceThatItSays) {
  const double other_work = at::hasMKL() ? 0.5 : 0;
  constexpr int64_t kRank = 8;
  constexpr double kSmall = 16384;  // bytes
  const std::vector<std::pair<int64_t, int64_t>> shapes = {{256, 256}, {256, 400}, {400, 256}, {256, 800},
                                                           {800, 256}, {64, 4096}, {4096, 64}};
  for (const std::string init : {"pissa", "olora", "pissa_niter_4"}) {
    for (const auto& [in, out] : shapes) {
      const config::LoraConfig config = read({{"r", kRank}, {"init_lora_weights", init}});
      LoraStart start(config, at::detail::createCPUGenerator(3));
      const at::Tensor weight = at::randn({out, in});
      const auto begin = [&, in = in, out = out] { start.linear(in, out, kRank, 1, weight); };
      begin();
      const auto said = static_cast<double>(start.workspace(in, out, kRank));
      const auto taken = static_cast<double>(most_allocated(begin));
      EXPECT_LE(taken, (1 + other_work) * said + kSmall) << init << ", " << in << " -> " << out;
      EXPECT_GE(taken, (init == "pissa" ? 0.45 : 0.95 - other_work / 2) * said - kSmall)
          << init << ", " << in << " -> " << out;
    }
  }
  EXPECT_EQ(LoraStart(read({{"r", 4}}), at::detail::createCPUGenerator(3)).workspace(64, 64, 4), 0);
}

// What the process takes for an SVD.
TEST(LoraStart, TakesTheMemoryThatItSays) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps memory beside each block";
#endif
  constexpr int64_t kWide = 640, kRank = 8;
  LoraStart start(read({{"r", kRank}, {"init_lora_weights", "pissa"}}), at::detail::createCPUGenerator(3));
  const at::Tensor weight = at::randn({kWide, kWide});
  start.linear(kWide, kWide, kRank, 1, weight);  // OpenBLAS has its buffers then
  base::give_back_heap();
  if (!test::reset_most_resident()) GTEST_SKIP() << "the system does not tell the most memory anew";
  const int64_t before = test::resident("VmRSS");
  start.linear(kWide, kWide, kRank, 1, weight);
  const auto taken = static_cast<double>(test::resident("VmHWM") - before);
  const auto said = static_cast<double>(start.workspace(kWide, kWide, kRank));
  EXPECT_NEAR(taken, said, 0.25 * said);
}

// adapter_init of the recorded runs sft_lora, sft_lora_all_linear and sft_lora_rslora_qv: all lora_A in the
// order of the modules.
TEST(LoraStart, RunsBeginWithTheAdapterThatTrlBeginsWith) {
  using Sizes = std::vector<std::pair<int64_t, int64_t>>;  // in, out of a layer's modules
  struct Run {
    int64_t r;
    Sizes layer;
    std::string sha256;
  };
  const std::vector<Run> runs = {
      {4,
       {{64, 64}, {64, 32}, {64, 32}, {64, 64}, {64, 112}, {64, 112}, {112, 64}},
       "48a24fa612426e48bc66292ff674b72320ff75f35de814b6491626d1ed06fed7"},
      {4,
       {{64, 80}, {64, 40}, {64, 40}, {80, 64}, {64, 112}, {64, 112}, {112, 64}},
       "f994ab8f403106b75e26d11ea4ace29f4788f9230b3b07997f2b229588e76e0e"},
      {8, {{64, 64}, {64, 32}}, "716cb8c409315c565986a35d782a6ba9cc091ce1498606029265709df8326d7b"},
  };
  for (const Run& one : runs) {
    LoraStart start(read({{"r", one.r}}), at::detail::createCPUGenerator(42));
    std::string bytes;
    for (int layer = 0; layer < 2; ++layer) {
      for (const auto& [in, out] : one.layer) {
        const LoraFactors factors = start.linear(in, out, one.r, 1);
        bytes.append(static_cast<const char*>(factors.a.data_ptr()), factors.a.nbytes());
        EXPECT_EQ(factors.b.count_nonzero().item<int64_t>(), 0);
      }
    }
    EXPECT_EQ(base::sha256_hex(bytes), one.sha256);
  }
}

// Of the run sft_qlora_nf4 TRL casts the adapter to bfloat16; over bfloat16 weights PEFT rounds the same
// values.
TEST(LoraStart, OverBfloat16WeightsTheValuesAreRounded) {
  const config::LoraConfig config = read({{"r", 4}});
  const at::Tensor whole = LoraStart(config, at::detail::createCPUGenerator(42)).linear(64, 64, 4, 1).a;
  const at::Tensor rounded =
      LoraStart(config, at::detail::createCPUGenerator(42), at::kBFloat16).linear(64, 64, 4, 1).a;
  EXPECT_EQ(rounded.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(rounded, whole.to(at::kBFloat16).to(at::kFloat)));
  EXPECT_FALSE(at::equal(rounded, whole));
}

TEST(LoraStart, AnOddRankCannotBeOrthogonal) {
  LoraStart start(read({{"r", 3}, {"init_lora_weights", "orthogonal"}}), at::detail::createCPUGenerator(42));
  EXPECT_EQ(test::error_of([&] { start.linear(6, 5, 3, 1); }),
            std::pair(Status::invalid_config,
                      std::string("init_lora_weights: orthogonal needs an even rank, and r is 3")));
}

}  // namespace
}  // namespace trl::model
