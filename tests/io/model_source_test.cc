// What a path turns out to be, and a model in memory.
#include "io/model_source.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/files.h"
#include "io/safetensors.h"
#include "io/temporary_file.h"

namespace trl::io {
namespace {

using test::TemporaryDirectory;

TEST(ModelSource, SaysWhatAPathIs) {
  const TemporaryDirectory directory;
  const std::string gguf = directory.write("m.gguf", "GGUF"), other = directory.write("m.txt", "text");
  EXPECT_EQ(ModelSource(directory.file("none")).form(), ModelForm::none);
  EXPECT_EQ(ModelSource(directory.path()).form(), ModelForm::directory);
  EXPECT_EQ(ModelSource(gguf).form(), ModelForm::gguf);
  EXPECT_EQ(ModelSource(other).form(), ModelForm::other);
}

TEST(ModelSource, TakesTheGgufFileOfADirectoryWithoutOtherWeights) {
  const TemporaryDirectory directory;
  const std::string gguf = directory.write("model.gguf", "GGUF");
  const ModelSource source(directory.path());
  EXPECT_EQ(source.form(), ModelForm::gguf);
  EXPECT_EQ(source.path(), gguf);
  EXPECT_EQ(source.name(), directory.path());
  directory.write("model.safetensors.index.json", "{}");
  EXPECT_EQ(source.form(), ModelForm::directory);
  EXPECT_EQ(source.path(), directory.path());
}

TEST(ModelSource, GivesFilesAndTensorsOfMemory) {
  const auto values = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  std::optional<Weights> weights;
  {
    const ModelSource source("mine", {{"config.json", "{}"}, {"folder/b", "2"}, {"folder/a", "1"}},
                             {{"w", ElementType::f32, {2, 3}, values->data()}}, values);
    EXPECT_EQ(source.form(), ModelForm::memory);
    EXPECT_EQ(source.path(), "mine");
    EXPECT_TRUE(source.has("config.json"));
    EXPECT_EQ(source.read("folder/b"), "2");
    EXPECT_EQ(source.place("config.json"), "mine/config.json");
    EXPECT_EQ(source.names("folder"), (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(source.names("none").empty());
    EXPECT_FALSE(source.has("tokenizer.json"));
    EXPECT_THROW(source.read("tokenizer.json"), Error);
    weights = source.weights();
  }
  EXPECT_EQ(values.use_count(), 2);  // the weights hold it
  EXPECT_EQ(weights->name(), "mine");
  EXPECT_EQ(weights->names(), std::vector<std::string>{"w"});
  EXPECT_EQ(weights->find("v"), nullptr);
  const TensorView& view = *weights->find("w");
  EXPECT_EQ(view.type_name, "F32");
  EXPECT_EQ(view.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(view.bytes, 24u);
  EXPECT_EQ(view.data, values->data());
}

}  // namespace
}  // namespace trl::io
