// 8-bit states against bitsandbytes on the CPU, and against the other path.
#include <fmt/format.h>

#include <numeric>

#include "io/safetensors.h"
#include "kernels/path.h"
#include "optim/optim.h"
#include "optim/states.h"
#include "optim/weights.h"

namespace trl::optim {
namespace {

using config::Optim;
using config::OptimStates;
using config::TrainingArguments;
using kernels::Path;
using kernels::PathScope;

// What the recording script draws: exact in float32.
at::Tensor drawn(int64_t rows, int64_t columns, uint32_t seed) {
  const at::Tensor out = at::empty({rows, columns}, at::kFloat);
  for (int64_t i = 0; i < rows * columns; ++i) {
    uint32_t h = static_cast<uint32_t>(i) * 2654435761u + seed * 40503u + 12345u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    out.data_ptr<float>()[i] =
        std::ldexp(static_cast<float>(h >> 8) / 0x1p24f - 0.5f, -static_cast<int>(h & 7u));
  }
  return out;
}

TrainingArguments arguments_of(const std::string& optim, const base::Json& config) {
  const config::OptimName& name = config::optim_named("optim", optim);
  TrainingArguments arguments;
  arguments.optim = name.optim;
  arguments.optim_states = name.states;
  arguments.weight_decay = config["weight_decay"];
  arguments.adam_epsilon = config.value("eps", 0.0);
  config::AdemamixArguments& mix = arguments.optim_args.ademamix;
  if (config.contains("betas")) {
    arguments.adam_beta1 = mix.beta1 = config["betas"][0];
    arguments.adam_beta2 = mix.beta2 = config["betas"][1];
    if (config["betas"].size() > 2) mix.beta3 = config["betas"][2];
  }
  mix.eps = config.value("eps", 0.0);
  mix.alpha = config.value("alpha", 0.0);
  mix.t_alpha = config.value("t_alpha", 0);
  mix.t_beta3 = config.value("t_beta3", 0);
  arguments.optim_args.alpha = config.value("alpha", 0.0);
  arguments.optim_args.eps = config.value("eps", 0.0);
  return arguments;
}

class EightBit : public testing::TestWithParam<Path> {
  const PathScope scope_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Paths, EightBit, testing::Values(Path::fused, Path::plain),
                         [](const auto& param) { return param.param == Path::fused ? "fused" : "plain"; });

at::Tensor part(const at::Tensor& x, const std::vector<int64_t>& sample) {
  return x.flatten().index_select(0, at::tensor(sample));
}

void check(const base::Json& c, const Parameter& parameter, const std::vector<StateTensor>& state,
           const std::vector<int64_t>& sample) {
  size_t codes = 0, scales = 0;
  for (const StateTensor& s : state) {
    ASSERT_TRUE(s.name.starts_with(parameter.name + ".")) << s.name;
    if (s.value.scalar_type() == at::kByte) {
      const std::vector<int64_t> want = c["codes"][codes++];
      const at::Tensor got = part(s.value, sample).to(at::kLong);
      EXPECT_TRUE(at::equal(got, at::tensor(want)))
          << s.name << ": " << got.ne(at::tensor(want)).sum().item<int64_t>() << " codes are others";
    } else if (s.name.ends_with(".absmax")) {
      expect_equal(s.value, c["absmax"][scales++], s.name);
    }
  }
  EXPECT_EQ(codes, c.contains("codes") ? c["codes"].size() : 0);
  EXPECT_EQ(scales, codes);
}

TEST_P(EightBit, IsThatOfBitsandbytes) {
  const base::Json& recorded = test::golden_json("optim/bitsandbytes8.json");
  for (const base::Json& c : recorded["cases"]) {
    SCOPED_TRACE(c["optim"].get<std::string>());
    const bool coded = c.contains("codes");
    const int64_t rows = coded ? recorded["rows"].get<int64_t>() : 5;
    const int64_t columns = coded ? recorded["columns"].get<int64_t>() : 8;
    std::vector<int64_t> sample = recorded["sample"];
    if (!coded) {
      sample.resize(40);
      std::iota(sample.begin(), sample.end(), 0);
    }
    Parameter p = trained("w", drawn(rows, columns, 0), at::zeros({rows, columns}));
    const auto optimizer = make_optimizer({&p}, arguments_of(c["optim"], c["config"]));
    uint32_t step = 0;
    for (const base::Json& after : c["params_after_step"]) {
      p.gradient().copy_(drawn(rows, columns, ++step));
      optimizer->step(c["config"]["lr"], 1.0);
      expect_equal(part(*p.read(), sample), after, fmt::format("step {}", step));
    }
    check(c, p, optimizer->state(), sample);
  }
}

// On both paths.
TEST(EightBitStates, ArePublishedAdamws) {
  TRL_NEED_GOLDEN("optim/adamw8bit.safetensors");
  const io::Safetensors file(test::golden_path("optim/adamw8bit.safetensors"));
  const auto recorded = [&](const std::string& name, at::ScalarType type) {
    const io::TensorView& view = file.tensors().at(name);
    const at::Tensor out = at::empty(view.shape, type);
    std::memcpy(out.data_ptr(), view.data, view.bytes);
    return out;
  };
  const base::Json& config = test::golden_json("optim/adamw8bit.json");
  for (const Path path : {Path::fused, Path::plain}) {
    const PathScope scope(path);
    Parameter p = trained("w", recorded("start", at::kFloat), at::zeros({128, 64}));
    const auto optimizer = make_optimizer({&p}, arguments_of("adamw_8bit", config));
    for (int step = 0; step < 4; ++step) {
      p.gradient().copy_(recorded(fmt::format("grad_{}", step), at::kFloat));
      optimizer->step(config["lr"], 1.0);
      const at::Tensor want = recorded(fmt::format("param_after_{}", step), at::kFloat);
      const at::Tensor far = (*p.read() - want).abs().gt(1e-6 + 1e-5 * want.abs());
      EXPECT_EQ(far.sum().item<int64_t>(), 0) << step;
    }
    const std::vector<StateTensor> state = optimizer->state();
    ASSERT_EQ(state.size(), 4u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(at::equal(state[2 * i].value, recorded(fmt::format("state.state{}", i + 1), at::kByte)))
          << i;
      const at::Tensor absmax = recorded(fmt::format("state.absmax{}", i + 1), at::kFloat);
      EXPECT_TRUE(at::allclose(state[2 * i + 1].value, absmax, 1e-6, 0)) << i;
    }
  }
}

constexpr const char* kNames[] = {"adamw_8bit", "lion_8bit", "rmsprop_bnb_8bit", "ademamix_8bit",
                                  "lion_32bit", "ademamix",  "rmsprop_bnb"};

struct Trained {
  at::Tensor values;
  std::vector<StateTensor> state;
};

// Weights of more than a piece, for three steps; resume: with a new optimizer before the last.
Trained three_steps(const TrainingArguments& arguments, at::ScalarType value, at::ScalarType gradient,
                    Path path, bool resume = false) {
  const PathScope scope(path);
  Parameter p = trained("w", drawn(301, 211, 0).to(value), at::zeros({301, 211}, gradient));
  auto optimizer = make_optimizer({&p}, arguments);
  for (uint32_t step = 1; step <= 3; ++step) {
    if (resume && step == 3) {
      const auto old = std::exchange(optimizer, make_optimizer({&p}, arguments));
      optimizer->set_steps(old->steps());
      const auto from = old->state(), to = optimizer->state();
      for (size_t i = 0; i < to.size(); ++i) to[i].value.copy_(from[i].value);
    }
    p.gradient().copy_(drawn(301, 211, step));
    optimizer->step(1e-2, 0.5);
  }
  return {p.read()->to(at::kDouble), optimizer->state()};
}

TrainingArguments arguments_of(const std::string& optim) {
  return arguments_of(optim,
                      {{"weight_decay", 0.1}, {"betas", {0.9, 0.99, 0.999}}, {"eps", 1e-8}, {"alpha", 0.9}});
}

TEST(EightBitStates, BothPathsAgreeForAllTypes) {
  for (const char* name : kNames) {
    for (const at::ScalarType value : {at::kFloat, at::kBFloat16}) {
      for (const at::ScalarType gradient : {at::kFloat, at::kBFloat16}) {
        TrainingArguments arguments = arguments_of(name);
        arguments.stochastic_rounding = value == at::kBFloat16;
        const Trained want = three_steps(arguments, value, gradient, Path::plain),
                      got = three_steps(arguments, value, gradient, Path::fused);
        // A sum that lay on the edge of two codes, or of a random rounding, falls to the other side.
        const at::Tensor far = (got.values - want.values).abs().gt(4e-6 * want.values.abs().clamp_min(0.1));
        EXPECT_LT(far.to(at::kDouble).mean().item<double>(), 5e-3) << name;
        ASSERT_EQ(got.state.size(), want.state.size());
        for (size_t i = 0; i < got.state.size(); ++i) {
          const at::Tensor a = got.state[i].value.to(at::kDouble), b = want.state[i].value.to(at::kDouble);
          const bool codes = got.state[i].value.scalar_type() == at::kByte;
          const at::Tensor other = (a - b).abs().gt(codes ? at::zeros_like(b) : 1e-5 * b.abs() + 1e-9);
          EXPECT_LT(other.to(at::kDouble).mean().item<double>(), 1e-3) << got.state[i].name;
          if (codes) {
            EXPECT_LE((a - b).abs().max().item<double>(), 1) << got.state[i].name;
          }
        }
      }
    }
  }
}

TEST(EightBitStates, StateAndStepsAreAllThereIs) {
  for (const char* name : kNames) {
    for (const Path path : {Path::fused, Path::plain}) {
      TrainingArguments arguments = arguments_of(name);
      arguments.stochastic_rounding = true;
      const Trained whole = three_steps(arguments, at::kBFloat16, at::kFloat, path),
                    resumed = three_steps(arguments, at::kBFloat16, at::kFloat, path, true);
      EXPECT_TRUE(at::equal(resumed.values, whole.values)) << name;
      for (size_t i = 0; i < whole.state.size(); ++i)
        EXPECT_TRUE(at::equal(resumed.state[i].value, whole.state[i].value)) << whole.state[i].name;
    }
  }
}

TEST(PagedStates, HaveTheSameBits) {
  for (const char* name : kNames) {
    for (const Path path : {Path::fused, Path::plain}) {
      TrainingArguments arguments = arguments_of(name);
      const Trained want = three_steps(arguments, at::kFloat, at::kFloat, path);
      arguments.optim_directory = TRL_BINARY_DIR;
      for (const bool resume : {false, true}) {
        const Trained got = three_steps(arguments, at::kFloat, at::kFloat, path, resume);
        EXPECT_TRUE(at::equal(got.values, want.values)) << name;
        ASSERT_EQ(got.state.size(), want.state.size());
        for (size_t i = 0; i < want.state.size(); ++i) {
          EXPECT_EQ(got.state[i].name, want.state[i].name);
          EXPECT_TRUE(at::equal(got.state[i].value, want.state[i].value)) << want.state[i].name;
          EXPECT_EQ(got.state[i].paged != nullptr, !want.state[i].name.ends_with(".absmax"));
        }
      }
    }
  }
}

TEST(EightBitStates, AreFloat32ForEmbeddingsAndSmallWeights) {
  Parameter large("large", at::zeros({64, 64})), small("small", at::zeros({4095})),
      embedding("embedding", at::zeros({100, 64}));
  embedding.embedding = true;
  for (Parameter* p : {&large, &small, &embedding}) p->begin_training(at::zeros(p->shape()));
  const auto types = [&](const TrainingArguments& arguments) {
    std::string out;
    for (const StateTensor& s : make_optimizer({&large, &small, &embedding}, arguments)->state())
      out += fmt::format("{} {} {}\n", s.name, c10::toString(s.value.scalar_type()), s.value.numel());
    return out;
  };
  TrainingArguments arguments = arguments_of("lion_8bit");
  EXPECT_EQ(types(arguments),
            "large.exp_avg Byte 4096\nlarge.exp_avg.absmax Float 16\nsmall.exp_avg Float 4095\n"
            "embedding.exp_avg Float 6400\n");
  arguments.optim_8bit_embeddings = true;
  EXPECT_EQ(types(arguments),
            "large.exp_avg Byte 4096\nlarge.exp_avg.absmax Float 16\nsmall.exp_avg Float 4095\n"
            "embedding.exp_avg Byte 6400\nembedding.exp_avg.absmax Float 25\n");
}

// Each of the 65,536 points that values are put on, in blocks of them.
TEST(EightBitStates, TheNearestCodeIsFoundForEveryPoint) {
  for (const Codec codec : {Codec::dynamic, Codec::unsigned_dynamic}) {
    const float* const code = code_values(codec);
    const auto point = [](int i) { return static_cast<float>(i) / 65535.0f * 2.0f - 1.0f; };
    const auto distance = [&](int i, int c) { return std::abs(point(i) - code[c]); };
    for (int first = codec == Codec::dynamic ? 0 : 32768; first < 65536; first += kBlock - 1) {
      std::vector<float> values{1.0f};
      for (int i = first; i < std::min<int>(65536, first + kBlock - 1); ++i)
        values.push_back(static_cast<float>(i / 32767.5 - 1.0));
      std::vector<uint8_t> codes(values.size());
      float absmax = 0;
      encode(values.data(), static_cast<int64_t>(values.size()), codec, codes.data(), &absmax);
      ASSERT_EQ(absmax, 1.0f);
      for (size_t i = 1; i < values.size(); ++i) {
        const int at = first + static_cast<int>(i) - 1;
        for (const int other : {codes[i] - 1, codes[i] + 1}) {
          if (other < 0 || other > 255) continue;
          ASSERT_LT(distance(at, codes[i]), distance(at, other)) << at;
        }
      }
    }
  }
}

TEST(EightBitStates, BlocksOfZerosAndWhatIsNotFinite) {
  const auto coded = [](std::vector<float> values) {
    values.resize(kBlock);
    std::vector<uint8_t> codes(kBlock);
    float absmax = -1;
    encode(values.data(), kBlock, Codec::dynamic, codes.data(), &absmax);
    return std::pair(absmax, codes);
  };
  const auto [none, zeros] = coded({0, -0.0f});
  EXPECT_EQ(none, 0);
  EXPECT_EQ(zeros, std::vector<uint8_t>(kBlock, 0));
  const auto [tiny, few] = coded({1e-44f, 0});  // its reciprocal is infinite
  EXPECT_EQ(tiny, 1e-44f);
  EXPECT_EQ(few[1], few[2]);
  EXPECT_TRUE(std::isinf(coded({1, std::numeric_limits<float>::infinity()}).first));
  EXPECT_TRUE(std::isnan(coded({1, std::nanf("")}).first));
}

}  // namespace
}  // namespace trl::optim
