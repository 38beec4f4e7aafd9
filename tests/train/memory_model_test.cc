// A model in memory is planned, trained and compared with itself as the same model in a directory is.
#include <filesystem>
#include <tuple>

#include "base/files/files.h"
#include "config/training_arguments.h"
#include "entry/plan/memory_plan.h"
#include "io/safetensors.h"
#include "train/tiny_run.h"

namespace trl::train::memory_model_test {
namespace {

// Copies a directory into memory.
io::ModelSource copied(const std::string& directory) {
  const io::Weights weights = io::Weights::open_directory(directory);
  const auto bytes = std::make_shared<std::map<std::string, std::string>>();
  std::vector<io::NamedTensor> tensors;
  for (const std::string& name : weights.names()) {
    const io::TensorView& view = *weights.find(name);
    std::string& copy = (*bytes)[name];
    copy.assign(static_cast<const char*>(view.data), view.bytes);
    tensors.push_back({name, view.type, view.shape, copy.data()});
  }
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (entry.is_regular_file() && !io::is_weight_file(name)) files[name] = base::read_file(entry.path());
  }
  return {"a model in memory", std::move(files), tensors, bytes};
}

// Returns a number of each step that the weights of the policy or of its reference would change.
std::vector<double> trained(const io::ModelSource& source, const char* follows,
                            std::vector<at::Tensor>& weights) {
  test::SftRun run(test::tiny_config({{"method", "dpo"}, {"sync_ref_model", follows}, {"max_steps", "3"}}),
                   source, test::golden_path("data/datasets/train_pref.jsonl"), {0, 7});
  Trainer& trainer = run.start();
  std::vector<double> numbers;
  while (trainer.step()) {
    for (const char* name : {"loss", "rewards/margins", "logps/chosen", "grad_norm"})
      numbers.push_back(test::value(trainer.metrics(), name));
  }
  weights = run.weights();
  return numbers;
}

TEST(MemoryModel, TrainsAgainstItselfAsInADirectory) {
  TRL_NEED_TINY_RUN();
  for (const char* model : {"models/qwen2", "models/qwen2_bf16", "models/llama_sharded"}) {
    for (const char* follows : {"false", "true"}) {
      SCOPED_TRACE(fmt::format("{}, sync_ref_model {}", model, follows));
      const std::string directory = test::golden_path(model);
      std::vector<at::Tensor> want, got;
      const std::vector<double> numbers = trained(directory, follows, want);
      ASSERT_FALSE(numbers.empty());
      EXPECT_EQ(trained(copied(directory), follows, got), numbers);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i])) << i;
    }
  }
}

auto planned(const io::ModelSource& source, const config::RunOptions& options) {
  const std::vector<int64_t> lengths = {40, 40};
  engine::PlanSpec spec;
  spec.options = &options;
  spec.model = {.source = source, .dtype = "float32"};
  spec.lengths = lengths;
  spec.time = false;
  const telemetry::RunPlan plan = entry::run_plan(spec);
  return std::tuple(plan.counted_bytes, plan.kinds, plan.parameters, plan.disk.model_bytes);
}

TEST(MemoryModel, IsPlannedAsInADirectory) {
  TRL_NEED_TINY_RUN();
  test::memory();
  const std::string directory = test::golden_path("models/qwen2");
  const config::RunOptions options(
      test::tiny_config({{"method", "dpo"}, {"use_cpu", "true"}, {"max_steps", "1"}}));
  EXPECT_EQ(planned(copied(directory), options), planned(directory, options));
}

// Rows of weights leave memory after they are read only if a file gives them back.
TEST(MemoryModel, KeepsItsBytes) {
  TRL_NEED_TINY_RUN();
  const std::string directory = test::golden_path("models/qwen2");
  const io::ModelSource source = copied(directory);
  const auto first = model::Model::open(source, "float32"), again = model::Model::open(source, "float32"),
             want = model::Model::open(directory, "float32");
  EXPECT_EQ(again->end_ids(), want->end_ids());
  for (size_t i = 0; i < want->parameters().size(); ++i)
    EXPECT_TRUE(at::equal(*again->parameters()[i]->read(), *want->parameters()[i]->read())) << i;
}

}  // namespace
}  // namespace trl::train::memory_model_test
