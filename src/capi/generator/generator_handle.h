// A generator handle: requests to a model. Handles of completions.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capi/handle.h"
#include "capi/model/model_handle.h"
#include "engine/generator.h"
#include "engine/model.h"
#include "engine/sampling.h"
#include "run/complete/complete.h"
#include "run/complete/requests.h"
#include "trl/trl.h"

namespace trl::capi {

class Completions {
 public:
  // of_requests: see finish_reason().
  Completions(std::vector<run::Completion> all, bool of_requests)
      : all_(std::move(all)), of_requests_(of_requests) {}
  const run::Completion* at(size_t index) const { return index < all_.size() ? &all_[index] : nullptr; }
  // A literal, by one of two sets of names: of trl_generator_generate, or of requests.
  const char* finish_reason(const run::Completion& completion) const;
  const char* json(const run::Completion& completion, size_t* size) const;  // lives as long as this

 private:
  const std::vector<run::Completion> all_;
  const bool of_requests_;
  KeptTexts kept_;
};

// A prompt, or the tokens that continue a completion: a text, or ids.
struct Prompt {
  std::optional<std::string_view> text;
  std::span<const int32_t> ids;
};

class Generator {
 public:
  Generator(std::shared_ptr<Model> model, std::shared_ptr<run::Tokenizer> tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}

  std::vector<run::Completion> generate(std::span<const std::string_view> prompts,
                                        const config::Config& options, trl_token_fn on_token,
                                        void* user_data);
  int64_t add(const Prompt& prompt, const config::Config& options);
  bool step(trl_token_fn on_token, void* user_data);
  void extend(int64_t number, const Prompt& prompt, const config::Config& options);
  void cancel(int64_t first, int64_t count);
  std::vector<run::Completion> take(int64_t first, int64_t count);
  void release_memory();
  // The rest may be called while another thread uses this, but version_of, which then returns -1.
  // Returns the constraint that options ask for, ready for the first token; null: none. make: makes one that
  // is not known.
  std::shared_ptr<engine::Constraint> constraint(const config::Config& options, bool make) const;
  // The use of memory and of prompt lookup after the last call.
  engine::GenerationUse use() const;
  // Returns the version of a trainer's adapter that a completion began with; -1: there is none.
  int64_t version_of(int64_t number);
  const std::shared_ptr<Model>& model() const { return model_; }

 private:
  // Runs body with the requests, while no other call uses the model; a call that trains it may wait meanwhile
  // for a rollout (open_rollout.h). pausable: a pause of that trainer holds it.
  template <class Body>
  auto with_requests(Body&& body, bool pausable = false);
  class UseNote;
  run::Requests open(engine::Model& model);
  const std::shared_ptr<Model> model_;
  const std::shared_ptr<run::Tokenizer> tokenizer_;
  std::shared_ptr<run::Requests> requests_;  // from the first call on: they hold what calls share
  std::mutex in_use_;
  mutable std::mutex use_mutex_;
  engine::GenerationUse use_;
};

}  // namespace trl::capi

struct trl_generator : trl::capi::Handle<trl::capi::Generator, trl::capi::Tag::generator> {
  using Handle::Handle;
};
struct trl_completions : trl::capi::Handle<trl::capi::Completions, trl::capi::Tag::completions> {
  using Handle::Handle;
};
