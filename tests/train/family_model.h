// Small models of every family, made from recorded cases, to be trained on the language-modeling rows.
#pragma once
#include <filesystem>
#include <string>

#include "support/seeded_model.h"
#include "train/tiny_run.h"

namespace trl::test {

// A recorded case of a family with the vocabulary of the tiny qwen2, and its tokenizer.
class FamilyModel {
 public:
  explicit FamilyModel(const std::string& name, const base::Json& changes = base::Json::object()) {
    base::Json json = golden_json("families/" + name + ".json");
    const base::Json rows = golden_json("models/qwen2/config.json")["vocab_size"];
    const base::Json before = std::exchange(json["config"]["vocab_size"], rows);
    json["config"].update(changes);
    for (auto& [tensor, kind] : json["tensors"].items()) {
      if (kind[1][0] == before) kind[1][0] = rows;
    }
    const std::vector<SeededTensor> tensors = seeded_tensors(json);
    std::vector<io::NamedTensor> named;
    for (const SeededTensor& tensor : tensors)
      named.push_back({tensor.name, io::ElementType::f32, tensor.shape, tensor.values.data()});
    io::write_safetensors(directory_ / "model.safetensors", named);
    base::write_file(directory_ / "config.json", json["config"].dump());
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy_file(golden_path(std::string("models/qwen2/") + file), directory_ / file);
  }
  const std::string& path() const { return directory_.path(); }
  SftRun run(const Settings& settings, Rows rows = {0, 63}) const {
    Settings all = {{"max_steps", "4"}, {"max_length", "40"}, {"gradient_accumulation_steps", "2"}};
    all.insert(all.end(), settings.begin(), settings.end());
    return {tiny_config(all), directory_.path(), golden_path("data/datasets/train_lm.jsonl"), rows,
            Rows{0, 7}};
  }

 private:
  Scratch directory_;
};

}  // namespace trl::test
