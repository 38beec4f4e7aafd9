// A model handle, whichever model it is, and the model that a host has opened. A tokenizer handle.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "capi/handle.h"
#include "capi/process/process.h"
#include "capi/rollout/open_rollout.h"
#include "capi/runtime/runtime.h"
#include "engine/beside.h"
#include "engine/error_capture.h"
#include "io/model_source.h"
#include "run/environment.h"
#include "run/tokenizer.h"
#include "trl/trl.h"

namespace trl::capi {

// How a call uses a model.
enum class Sharing : uint8_t {
  none,        // Error(busy) while another call uses it
  score,       // the same; of a trainer's model it waits as a generator
  generation,  // it waits for other generators, and works for an open rollout
};

// A model that was opened, or that of a trainer: one thing for generators, scores, adapters and tensors.
class Model : public KeptTexts {
 public:
  virtual ~Model() = default;
  virtual const std::shared_ptr<Runtime>& runtime() const = 0;
  virtual std::shared_ptr<run::Tokenizer> tokenizer() = 0;  // its own
  virtual engine::GeneratorSpec generator_spec() = 0;       // of generators that are made with it
  virtual bool scores() const = 0;                          // it is a reward model
  // Throws Error(unsupported) if it is a trainer's. instead: says what serves there.
  virtual void need_own(std::string_view function, std::string_view instead) const = 0;
  virtual void add_adapter(const std::string& name, const std::string& directory) = 0;
  virtual void remove_adapter(std::string_view name) = 0;
  virtual engine::Beside* beside() const { return nullptr; }  // answers requests while it is trained
  const std::string& describe() const { return described_; }

  // Runs body(engine::Model&, OpenRollout*) in its turn, with the scopes that its calls need. The rollout is
  // the one that it works for, or null. pausable: a pause of the trainer holds it.
  template <class Body>
  auto use(Sharing sharing, Body&& body, bool pausable = false) {
    using Result = std::invoke_result_t<Body&, engine::Model&, OpenRollout*>;
    if constexpr (std::is_void_v<Result>) {
      run(sharing, pausable, body);
    } else {
      std::optional<Result> result;
      run(sharing, pausable,
          [&](engine::Model& model, OpenRollout* rollout) { result.emplace(body(model, rollout)); });
      return *std::move(result);
    }
  }
  // The same for one call of the engine, which returns a status: body(engine::Model&, engine::ErrorSink&).
  template <class Body>
  void ask(Sharing sharing, Use purpose, const Body& body) {
    use(sharing, [&](engine::Model& model, OpenRollout*) {
      engine::ErrorCapture error;
      error.check(process().use_engine(purpose, [&] { return body(model, error); }));
    });
  }

 protected:
  using Task = std::function<void(engine::Model&, OpenRollout*)>;
  virtual void run(Sharing sharing, bool pausable, const Task& task) = 0;
  void describe_as(engine::Model& model);  // call once

 private:
  std::string described_;
};

class OpenedModel final : public Model {
 public:
  OpenedModel(std::shared_ptr<Runtime> runtime, const std::string& path, const config::Config& options);
  const std::shared_ptr<Runtime>& runtime() const override { return runtime_; }
  std::shared_ptr<run::Tokenizer> tokenizer() override;  // opened on first use
  engine::GeneratorSpec generator_spec() override;
  bool scores() const override { return scores_; }
  void need_own(std::string_view, std::string_view) const override {}
  void add_adapter(const std::string& name, const std::string& directory) override;
  void remove_adapter(std::string_view name) override;

 private:
  void run(Sharing sharing, bool pausable, const Task& task) override;

  const std::shared_ptr<Runtime> runtime_;
  const io::ModelSource source_;
  const config::Config options_;
  const bool scores_;
  run::EngineObject<engine::Model> model_;
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
