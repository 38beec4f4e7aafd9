// Tensors of a model, read and written through the C API.
#pragma once
#include "dlpack.h"
#include "engine/run.h"

namespace host {

// Null after an error.
inline ReadTensor read_tensor(trl_model* model, const std::string& name, int32_t what = TRL_TENSOR_COPY) {
  DLManagedTensorVersioned* made = nullptr;
  Error error;
  EXPECT_EQ(trl_model_read_tensor(model, name.c_str(), what, &made, error), TRL_OK) << error.message();
  return ReadTensor(made);
}

inline std::vector<float> values_of(trl_model* model, const std::string& name) {
  const ReadTensor tensor = read_tensor(model, name);
  return tensor ? floats(*tensor) : std::vector<float>();
}

inline trl_status refused_read(trl_model* model, const std::string& name, int32_t what, Error& error) {
  DLManagedTensorVersioned* made = reinterpret_cast<DLManagedTensorVersioned*>(1);
  const trl_status status = trl_model_read_tensor(model, name.c_str(), what, &made, error);
  EXPECT_EQ(made, nullptr);
  return status;
}

inline void write_tensor(trl_model* model, const std::string& name, const Tensor& values) {
  FloatTensor given(values.shape, values.values);
  Error error;
  EXPECT_EQ(trl_model_write_tensor(model, name.c_str(), given.get(), error), TRL_OK) << error.message();
  EXPECT_EQ(given.deleted(), 1);
}

// The list of tensors, by name.
inline std::map<std::string, Json> tensors_of(trl_model* model) {
  const char* json = nullptr;
  Error error;
  EXPECT_EQ(trl_model_get_tensors(model, &json, error), TRL_OK) << error.message();
  std::map<std::string, Json> all;
  if (json == nullptr) return all;
  for (const Json& one : host::parse(json)) EXPECT_TRUE(all.emplace(one["name"], one).second) << one;
  return all;
}

inline std::map<std::string, Tensor> saved(trl_model* model, const std::filesystem::path& directory) {
  Error error;
  EXPECT_EQ(trl_model_save(model, directory.c_str(), nullptr, error), TRL_OK) << error.message();
  return read_safetensors(directory / "model.safetensors");
}

// A model that differs in all weights: trained for a few steps.
inline std::filesystem::path trained_model(const std::string& model, const Scratch& scratch,
                                           const Settings& more = {}) {
  const Dataset rows = open_rows(golden("data/datasets/train_lm.jsonl"));
  const Trainer run = trainer(
      with(
          tiny(scratch / "trained", model),
          with(
              {{"learning_rate", "0.02"}, {"max_steps", "3"}, {"warmup_steps", "0"}, {"save_strategy", "no"}},
              more)),
      rows.get());
  Error error;
  EXPECT_EQ(trl_trainer_train(run.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  EXPECT_EQ(trl_trainer_save(run.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  return scratch / "trained";
}

// The ids of a greedy completion.
inline std::vector<int32_t> greedy(trl_generator* generator, const Settings& more = {}) {
  const char* const prompt = "The quick";
  trl_completions* made = nullptr;
  Error error;
  EXPECT_EQ(trl_generator_generate(generator, &prompt, nullptr, 1,
                                   config(with({{"generate.max_new_tokens", "12"}}, more)).get(), nullptr,
                                   nullptr, &made, error),
            TRL_OK)
      << error.message();
  const Completions held(made);
  size_t count = 0;
  const int32_t* const ids = trl_completions_tokens(made, 0, &count);
  return {ids, ids + count};
}

}  // namespace host
