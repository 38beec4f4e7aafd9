// dtype: keep: a GGUF file is the base as it lies there, and everything that is computed with it is what its
// numbers give, bit by bit.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include <filesystem>

#include "base/error.h"
#include "base/files/mapped_reads.h"
#include "base/interrupt.h"
#include "checkpoint/gguf_of.h"
#include "config/lora_config.h"
#include "kernels/nll_loss.h"
#include "model/golden_batch.h"
#include "model/model.h"
#include "support/golden.h"
#include "support/sequence.h"

namespace trl::checkpoint {
namespace {

using model::Model;
using test::TemporaryDirectory;
using test::write_gguf_of;

struct Results {
  at::Tensor logits, loss, gradient, steps;
};

// The head is handed in, since a tied one has another type as the embedding.
Results results(Model& model, tensor::Parameter& head, at::ScalarType wanted) {
  constexpr int64_t kTokens = 40;
  model::ForwardInput input;
  input.input_ids = at::arange(kTokens, at::kInt).remainder(400) + 3;
  input.position_ids = at::arange(kTokens, at::kInt);
  input.segments = std::make_shared<kernels::Segments>(kernels::Segments{{0, kTokens}, kTokens});
  model::ForwardOptions options;
  options.compute = model.compute(wanted);
  for (tensor::Parameter* parameter : model.parameters()) parameter->trainable = false;
  Results out;
  const at::Tensor hidden = model.forward(input, options).hidden.detach().requires_grad_();
  out.loss = test::nll_loss(hidden, head, input.input_ids, 1.0, model.head_options(wanted), nullptr);
  out.loss.backward();
  out.gradient = hidden.grad();
  const at::NoGradGuard guard;
  out.logits = kernels::head_logits(hidden.detach(), head, model.head_options(wanted));
  test::Sequence sequence(model, options.compute);
  std::vector<at::Tensor> rows;
  for (const std::vector<int32_t>& ids : std::vector<std::vector<int32_t>>{{5, 6, 7, 8}, {9}, {10}}) {
    rows.push_back(sequence.extend(ids).hidden);
    rows.push_back(kernels::head_logits(rows.back(), head, model.head_options(wanted)).narrow(1, 0, 64));
  }
  out.steps = at::cat(rows);
  return out;
}

TEST(KeptGguf, GivesWhatItsNumbersGive) {
  TRL_NEED_GOLDEN("models/llama3/config.json");
  const TemporaryDirectory directory;
  for (const char* name : {"llama", "llama3", "qwen2", "qwen3"}) {
    for (const char* type : {"q8_0", "q4_0", "f16", "bf16", "f32"}) {
      const std::string file = write_gguf_of(directory, name, type);
      at::Tensor exact;
      for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name, type, c10::toString(compute)));
        const auto kept = Model::open(file, "keep"), numbers = Model::open(file, "float32");
        EXPECT_EQ(kept->dtype(), at::kFloat);
        for (const tensor::Parameter* parameter : kept->parameters())
          EXPECT_EQ(parameter->encoded() != nullptr, parameter->shape().size() == 2) << parameter->name;
        // Copies in the type that is computed in, so that each product takes the same way.
        for (tensor::Parameter* parameter : numbers->parameters()) {
          if (parameter->shape().size() == 2 && parameter->name.find("_proj") != std::string::npos)
            parameter->replace(parameter->read()->to(compute));
        }
        tensor::Parameter head("head", numbers->head().read()->to(compute));
        head.trainable = false;
        const Results got = results(*kept, kept->head(), compute), want = results(*numbers, head, compute);
        EXPECT_TRUE(got.loss.equal(want.loss));
        EXPECT_TRUE(got.gradient.equal(want.gradient));
        EXPECT_TRUE(got.logits.equal(want.logits));
        if (compute == at::kFloat) {
          EXPECT_TRUE(got.steps.equal(want.steps));
          exact = want.steps;
        } else {  // rows may be multiplied with numbers that are not rounded: as near to float32
          EXPECT_LT((got.steps - exact).norm().item<double>(),
                    1.25 * (want.steps - exact).norm().item<double>());
        }
      }
    }
  }
}

TEST(KeptGguf, AFileThatIsCutIsAnError) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  const std::string file = write_gguf_of(directory, "llama", "q8_0");
  const auto model = Model::open(file, "keep");
  test::Sequence sequence(*model);
  sequence.extend({5, 6});
  const std::string bytes = base::read_file(file);
  std::filesystem::resize_file(file, bytes.size() / 2);
  try {
    sequence.extend({7});
    FAIL() << "computed";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_NE(error.message().find(file + ": the file was cut to "), std::string::npos) << error.message();
  }
  std::filesystem::resize_file(file, bytes.size());  // nothing reads beyond the end while the model goes
}

// Cuts the file when it is asked for the n-th time whether the call goes on.
class CutsAt final : public base::Interrupt {
 public:
  CutsAt(std::string path, int asked) : path_(std::move(path)), left_(asked) { asked_ = 1; }
  bool goes_on() noexcept override {
    if (--left_ == 0) std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
    return true;
  }
  bool has_cut() const { return left_ <= 0; }

 private:
  const std::string path_;
  std::atomic<int> left_;
};

// A forward and a backward, during which the file is cut at some point. -1: that point was not reached.
int cut_within(const TemporaryDirectory& directory, int point) {
  const std::string file = write_gguf_of(directory, "llama", "q8_0");
  const auto model = Model::open(file, "keep");
  const base::Json json = base::parse_json(R"({"r": 2, "target_modules": "all-linear"})", "test");
  model::Adapter& adapter =
      model->adapters().add("mine", config::read_lora_config(json, "test", Status::format), at::kFloat);
  adapter.start(1);
  model->train_only(adapter);
  for (tensor::Parameter* p : model->all_parameters())
    p->begin_training(p->trainable ? at::zeros(p->shape()) : at::Tensor());
  CutsAt cut(file, point);
  const base::InterruptScope scope(&cut);
  int result = 1;
  try {
    const at::Tensor hidden = model
                                  ->forward(test::forward_input({std::vector<int32_t>(100, 7)}),
                                            {.recompute = {config::Recomputed::layers}})
                                  .hidden;
    hidden.sum().backward();
    model->check_files();
    if (!cut.has_cut()) result = -1;
  } catch (const Error& error) {
    result = error.status() == Status::io && error.message().starts_with(file + ": ") ? 0 : 2;
  }
  for (tensor::Parameter* p : model->all_parameters()) p->end_training();
  return result;
}

TEST(KeptGguf, AFileThatIsCutWhileItIsReadIsAnError) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto child = [] {
    const TemporaryDirectory directory;
    const base::MappedReads reading;
    int errors = 0;
    for (int point = 1;; point += 7) {
      const int result = cut_within(directory, point);
      if (result > 0) _exit(result);
      if (result < 0) break;
      ++errors;
    }
    _exit(errors > 20 ? 0 : 3);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

TEST(KeptGguf, OnlyAGgufFileIsKept) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  try {
    Model::open(test::golden_path("models/llama"), "keep");
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "dtype");
    EXPECT_NE(error.message().find("is a directory"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace trl::checkpoint
