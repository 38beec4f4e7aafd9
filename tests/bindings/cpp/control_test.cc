// The classes of C++ for a run that the host controls itself: halves of a step, tensors, files of the host.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <thread>

#include "bindings/cpp/engine.h"

namespace {

using cpp_test::error_of;
using cpp_test::Json;
using cpp_test::kModel;
using cpp_test::Oops;

using CppControl = cpp_test::Run;
using CppTensors = cpp_test::Run;
using CppMounts = cpp_test::Run;

const std::string kMatrix = "model.layers.0.mlp.down_proj.weight";

std::vector<float> weights(trl::Model& model) {
  const trl::Tensor tensor = model.read_tensor(kMatrix);
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}
std::vector<float> weights(trl::Model&& model) { return weights(model); }

TEST_F(CppControl, StepsInHalves) {
  trl::Trainer whole = trainer(), halves = trainer();
  const double loss = halves.backward()["loss"];
  EXPECT_EQ(error_of([&] { halves.step(); }).status(), trl::Status::invalid_argument);
  EXPECT_EQ(halves.update()["loss"], loss);
  EXPECT_EQ(whole.step()["loss"], loss);
  trl::Model model = halves.model();
  const std::vector<float> before = weights(model);
  EXPECT_EQ(before, weights(whole.model()));
  EXPECT_TRUE(halves.backward());
  EXPECT_EQ(halves.update(false)["step"], 2);
  EXPECT_EQ(weights(model), before);
  EXPECT_EQ(error_of([&] { halves.update(); }).status(), trl::Status::invalid_argument);
  EXPECT_TRUE(halves.train());
  EXPECT_FALSE(halves.backward());
}

TEST_F(CppControl, TheLearningRateIsSet) {
  trl::Trainer trainer = this->trainer({{"lr_scheduler_type", "constant"}, {"learning_rate", 0.25}});
  trainer.set_learning_rate(0.5);
  EXPECT_EQ(trainer.step()["learning_rate"], 0.5);
  trainer.set_learning_rate(std::nan(""));
  EXPECT_EQ(trainer.step()["learning_rate"], 0.25);
  EXPECT_EQ(error_of([&] { trainer.set_learning_rate(-1); }).status(), trl::Status::invalid_argument);
  trainer.train([&](const trl::Event& event) {
    if (event.kind() == trl::EventKind::step) trainer.set_learning_rate(0);
  });
  EXPECT_EQ(trainer.integers("global_step"), std::vector<std::int64_t>{4});
}

TEST_F(CppControl, EvaluatesOtherRows) {
  trl::Trainer trainer(config(), rows_, &rows_);
  const double own = trainer.evaluate()["eval_loss"];
  EXPECT_EQ(trainer.evaluate(rows_)["eval_loss"], own);
  const trl::Dataset other = trl::Dataset::from_buffer("jsonl", R"({"text": "the kernel"})");
  EXPECT_NE(trainer.evaluate(other)["eval_loss"], own);
  EXPECT_EQ(error_of([&] { this->trainer().evaluate(); }).status(), trl::Status::invalid_argument);
}

TEST_F(CppControl, IsDescribedBesideARunAndWithinIt) {
  trl::Trainer trainer = this->trainer({{"max_steps", 30}});
  std::atomic<bool> done{false}, begun{false};
  std::int64_t last = 0;
  std::thread reader([&] {
    while (!begun) std::this_thread::yield();
    while (!done) {
      const std::int64_t step = Json::parse(trainer.describe()).at("global_step");
      EXPECT_GE(step, last);
      EXPECT_GE(trainer.integers("global_step").at(0), step);
      last = step;
    }
  });
  trainer.train([&](const trl::Event& event) {
    begun = true;
    EXPECT_EQ(Json::parse(trainer.describe()).at("global_step"), event["step"]);
    EXPECT_EQ(trainer.integers("max_steps").at(0), 30);
  });
  done = true;
  reader.join();
  EXPECT_GT(trainer.integers("parameter_count").at(0), 1000);
  EXPECT_EQ(error_of([&] { trainer.integers("no such name"); }).status(), trl::Status::not_found);
}

TEST_F(CppTensors, AreListedReadAndWritten) {
  trl::Model model(kModel);
  const Json list = Json::parse(model.tensors());
  const auto entry = std::ranges::find_if(list, [](const Json& one) { return one.at("name") == kMatrix; });
  ASSERT_NE(entry, list.end());
  const trl::Tensor copy = model.read_tensor(kMatrix),
                    view = model.read_tensor(kMatrix, trl::TensorForm::view);
  EXPECT_EQ(copy.dtype(), entry->at("dtype"));
  const auto shape = entry->at("shape").get<std::vector<std::int64_t>>();
  EXPECT_TRUE(std::ranges::equal(copy.shape(), shape));
  EXPECT_TRUE(view.read_only());
  EXPECT_FALSE(copy.read_only());
  const std::vector<float> before = weights(model);
  EXPECT_EQ(before.size(), copy.size());

  const trl::Tensor halves(std::vector<float>(before.size(), 0.5F), shape);
  model.write_tensor(kMatrix, halves);
  EXPECT_EQ(halves.size(), before.size());  // it is still there
  EXPECT_EQ(view.values<float>().data()[1], 0.5F);
  EXPECT_EQ(copy.values<float>().data()[1], before[1]);
  // 0.25 as bfloat16
  model.write_tensor(kMatrix,
                     trl::Tensor(std::vector<std::uint16_t>(before.size(), 0x3e80), shape, "bfloat16"));
  EXPECT_EQ(weights(model)[2], 0.25F);
  model.write_tensor(kMatrix, copy);
  EXPECT_EQ(weights(model), before);

  for (const trl::Tensor& wrong : {trl::Tensor(std::vector<float>{1}, {1}), trl::Tensor()})
    EXPECT_EQ(error_of([&] { model.write_tensor(kMatrix, wrong); }).status(), trl::Status::invalid_argument);
  EXPECT_EQ(error_of([&] { model.read_tensor("no such name"); }).status(), trl::Status::not_found);
  EXPECT_EQ(error_of([&] { model.read_tensor(kMatrix, trl::TensorForm::gradient); }).status(),
            trl::Status::not_found);
  EXPECT_EQ(error_of([&] { model.read_tensor(kMatrix, 99); }).status(), trl::Status::invalid_argument);
}

TEST_F(CppTensors, OfATrainerFollowItsSteps) {
  trl::Trainer trainer = this->trainer();
  trl::Model model = trainer.model();
  const trl::Tensor view = model.read_tensor(kMatrix, trl::TensorForm::view);
  const std::vector<float> before = weights(model);
  trainer.backward();
  const trl::Tensor gradient = model.read_tensor(kMatrix, trl::TensorForm::gradient);
  EXPECT_EQ(gradient.size(), before.size());
  EXPECT_TRUE(std::ranges::any_of(gradient.values<float>(), [](float x) { return x != 0; }));
  trainer.update();
  const std::vector<float> after = weights(model);
  EXPECT_NE(after, before);
  EXPECT_TRUE(std::ranges::equal(model.read_tensor(kMatrix, trl::TensorForm::view).values<float>(), after));
  trainer.train([&](const trl::Event&) {
    EXPECT_EQ(error_of([&] { model.read_tensor(kMatrix); }).status(), trl::Status::busy);
    EXPECT_EQ(error_of([&] { model.write_tensor(kMatrix, gradient); }).status(), trl::Status::busy);
  });
  EXPECT_TRUE(std::ranges::any_of(gradient.values<float>(), [](float x) { return x != 0; }));
  EXPECT_EQ(error_of([&] { model.save(scratch_ / "refused"); }).status(), trl::Status::unsupported);
}

TEST_F(CppTensors, OutliveTheirModelAndTheModelItsTrainer) {
  trl::Trainer trainer = this->trainer();
  trainer.step();
  trl::Model model = trainer.model();
  trl::Generator generator = model.generator();
  trainer = trl::Trainer();
  const std::vector<float> values = weights(model);
  const trl::Tensor copy = model.read_tensor(kMatrix),
                    view = model.read_tensor(kMatrix, trl::TensorForm::view);
  model = trl::Model();
  EXPECT_EQ(generator.generate({"the"}, {{"generate.max_new_tokens", 1}}).size(), 1u);
  generator = trl::Generator();
  EXPECT_TRUE(std::ranges::equal(copy.values<float>(), values));
  EXPECT_EQ(view.size(), values.size());
  EXPECT_GE(view.values<float>().data()[0], -1e9F);  // it can be read
}

// Files in memory, by their path.
struct Files {
  std::int64_t read(const std::string& file, std::uint64_t offset, char* buffer, std::size_t size) const {
    const auto found = files.find(file);
    if (found == files.end()) return trl::Status::not_found;
    if (buffer == nullptr) return static_cast<std::int64_t>(found->second.size());
    if (offset >= found->second.size()) return 0;
    return static_cast<std::int64_t>(found->second.copy(buffer, size, offset));
  }
  void write(std::int32_t what, const std::string& file, std::uint64_t offset, trl::TextView data) {
    told.push_back(what);
    if (what == throws_at) throw Oops(what);
    if (what == trl::WriteKind::data) {
      EXPECT_EQ(coming[file].size(), offset);
      coming[file].append(data.data(), data.size());
    } else {
      if (what == trl::WriteKind::done) files.merge(coming);
      coming.clear();
    }
  }
  std::map<std::string, std::string> files, coming;
  std::vector<std::int32_t> told;
  std::int32_t throws_at = -1;
};

trl::Runtime mounted(const std::string& name, Files& files) {
  trl::Runtime runtime;
  runtime.mount(
      name, [&files](const auto&... arguments) { return files.read(arguments...); },
      [&files](const auto&... arguments) { files.write(arguments...); });
  return runtime;
}

TEST_F(CppMounts, AModelIsSavedToTheHostAndReadFromIt) {
  Files files;
  const trl::Runtime runtime = mounted("cpp-model", files);
  trl::Model model(kModel, {}, &runtime);
  model.save("host://cpp-model/saved");
  EXPECT_EQ(files.told.back(), trl::WriteKind::done);
  EXPECT_TRUE(files.files.count("saved/model.safetensors"));
  trl::Model again("host://cpp-model/saved", {}, &runtime);
  EXPECT_EQ(weights(again), weights(model));
}

TEST_F(CppMounts, WhatAWriteThrowsEndsASaveThatIsDropped) {
  Files files;
  const trl::Runtime runtime = mounted("cpp-thrown", files);
  trl::Trainer trainer = this->trainer({}, &runtime);
  for (const std::int32_t at : {trl::WriteKind::data, trl::WriteKind::done}) {
    files.throws_at = at;
    try {
      trainer.save("host://cpp-thrown/saved");
      ADD_FAILURE();
    } catch (const Oops& oops) {
      EXPECT_EQ(oops.number, at);
    }
    EXPECT_EQ(files.told.back(), trl::WriteKind::dropped);
    EXPECT_TRUE(files.files.empty() && files.coming.empty());
  }
  files.throws_at = -1;
  trainer.save("host://cpp-thrown/saved");
  EXPECT_TRUE(files.files.count("saved/config.json"));
}

}  // namespace
