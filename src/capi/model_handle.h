// A model handle: the engine's model, and where it came from.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capi/engine_object.h"
#include "capi/handle.h"
#include "capi/runtime.h"
#include "capi/tokenizer_handle.h"
#include "engine/engine.h"
#include "trl/trl.h"

namespace trl::capi {

class Model {
 public:
  Model(std::shared_ptr<Runtime> runtime, const std::string& path, const config::Config& options);
  engine::Model& get() const { return *model_; }
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  const std::string& describe() const { return described_; }
  std::shared_ptr<Tokenizer> tokenizer();  // its own, opened on first use
  std::mutex& in_use() { return in_use_; }

 private:
  const std::shared_ptr<Runtime> runtime_;
  const std::string path_;
  const config::Config options_;
  EngineObject<engine::Model> model_;
  std::string described_;
  std::mutex tokenizer_mutex_;
  std::shared_ptr<Tokenizer> tokenizer_;
  std::mutex in_use_;
};

struct Opening {
  int64_t embedding_rows = 0;  // that the embedding gets; 0: as many as the files have
  bool reward = false;         // its head gives scores
  bool mapped = false;         // engine::ModelSpec; these two
  bool bf16 = false;
};
EngineObject<engine::Model> open_model(const std::string& path, const config::Config& options,
                                       const Opening& how);
// The same for the engine. path, dtype (config::model_dtype): outlive the result.
engine::ModelSpec model_spec(std::string_view path, std::string_view dtype, const config::Config& options,
                             const Opening& how);

// Whether config.json names a sequence classifier.
bool names_classifier(const std::string& directory);
// Whether an adapter makes one of its model.
bool makes_classifier(const std::string& adapter);

// Of adapter_name_or_path, for tokens that came with it; 0: as many as the model has, or there is no adapter.
int64_t adapter_embedding_rows(const config::Config& options);

// Where the tokenizer of a model lies: an adapter's own, which may have tokens that the adapter added, comes
// before the model's.
std::string tokenizer_path(const std::string& model, const config::Config& options);

// The path itself; where it is the directory of a saved adapter that of its base, and adapter_name_or_path
// becomes the directory.
std::string base_path(const std::string& path, config::Config& options);

// Whether a directory has a tokenizer of its own.
bool has_tokenizer(const std::string& directory);

// save.kind
engine::SaveKind save_kind(std::string_view name);

// The ids that end a completion: the tokenizer's EOS, and those that the model's files name.
std::vector<int32_t> end_tokens(engine::Model& model, const text::Tokenizer& tokenizer);

}  // namespace trl::capi

struct trl_model : trl::capi::Handle<trl::capi::Model, trl::capi::Tag::model> {
  using Handle::Handle;
};
