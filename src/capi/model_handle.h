// A model handle: the engine's model, and where it comes from. A tokenizer handle.
#pragma once
#include <memory>
#include <mutex>
#include <string>

#include "capi/handle.h"
#include "capi/runtime.h"
#include "engine/engine.h"
#include "io/model_source.h"
#include "run/environment.h"
#include "run/tokenizer.h"
#include "trl/trl.h"

namespace trl::capi {

class Model {
 public:
  Model(std::shared_ptr<Runtime> runtime, const std::string& path, const config::Config& options);
  engine::Model& get() const { return *model_; }
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  const config::Config& options() const { return options_; }
  const std::string& describe() const { return described_; }
  std::shared_ptr<run::Tokenizer> tokenizer();  // its own, opened on first use
  std::mutex& in_use() { return in_use_; }

 private:
  const std::shared_ptr<Runtime> runtime_;
  const io::ModelSource source_;
  const config::Config options_;
  run::EngineObject<engine::Model> model_;
  std::string described_;
  std::mutex tokenizer_mutex_;
  std::shared_ptr<run::Tokenizer> tokenizer_;
  std::mutex in_use_;
};

}  // namespace trl::capi

struct trl_model : trl::capi::Handle<trl::capi::Model, trl::capi::Tag::model> {
  using Handle::Handle;
};

struct trl_tokenizer : trl::capi::Handle<trl::run::Tokenizer, trl::capi::Tag::tokenizer> {
  using Handle::Handle;
};
