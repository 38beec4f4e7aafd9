// Normal numbers beside PyTorch 2.15's (tests/parity/record_draws.py).
#include "model/weights/initial_values.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "support/golden.h"

namespace trl::model {
namespace {

TEST(NormalDraws, AreTorchsForBothTypesAndEverySize) {
  const base::Json& recorded = test::golden_json("reward/draws.json");
  EXPECT_EQ(recorded["cases"].size(), 12u);
  for (const base::Json& want : recorded["cases"]) {
    const at::ScalarType type = want["type"] == "bfloat16" ? at::kBFloat16 : at::kFloat;
    SCOPED_TRACE(fmt::format("{} numbers, {}", want["values"].size(), want["type"].dump()));
    at::Generator generator = at::detail::createCPUGenerator(recorded["seed"].get<uint64_t>());
    const at::Tensor got = at::empty({1, std::ssize(want["values"])}, at::kFloat);
    draw_normal(got, type, recorded["deviation"].get<double>(), generator);
    const at::Tensor values = at::tensor(want["values"].get<std::vector<float>>()).reshape(got.sizes());
    EXPECT_TRUE(at::allclose(got.to(type).to(at::kFloat), values, type == at::kFloat ? 1e-5 : 0, 1e-8));
    const at::Tensor next = at::empty({1}, at::kFloat).uniform_(0, 1, generator);
    EXPECT_NEAR(next.item<double>(), want["next"].get<double>(), 1e-7);
  }
}

}  // namespace
}  // namespace trl::model
