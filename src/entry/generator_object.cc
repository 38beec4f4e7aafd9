#include "entry/generator_object.h"

#include "base/error.h"
#include "base/renumber.h"
#include "entry/boundary.h"
#include "tensor/threads/width.h"

namespace trl::entry {

// Notes the weights of each token before the host hears of it.
class GeneratorObject::Noted final : public engine::GenerationSink {
 public:
  Noted(GeneratorObject& of, engine::GenerationSink& next) : of_(of), next_(next) {}
  bool on_token(int64_t sequence, const engine::Token& token) noexcept override {
    if (const auto found = of_.weights_.find(sequence); found != of_.weights_.end()) {
      Weights& weights = found->second;
      weights.last = weights.next;
      if (weights.first < 0) weights.first = weights.next;
    }
    return next_.on_token(sequence, token);
  }
  void on_end(int64_t sequence, engine::Finish how, std::string_view error) noexcept override {
    next_.on_end(sequence, how, error);
    const auto found = of_.weights_.find(sequence);
    if (found == of_.weights_.end()) return;
    if (!found->second.keeps || how == engine::Finish::failed) of_.weights_.erase(found);
  }

 private:
  GeneratorObject& of_;
  engine::GenerationSink& next_;
};

GeneratorObject::GeneratorObject(engine::Host& host, const ModelObject& model,
                                 const engine::GeneratorSpec& spec, std::shared_ptr<generate::Cache> cache)
    : host_(host),
      object_(model),
      model_(model.get()),
      generator_(model_, spec, std::move(cache)),
      sleeps_(spec.sleeps) {}

// Returns whether sequences with this adapter switch to newer versions of it.
bool GeneratorObject::follows(const model::Adapter* adapter) const {
  const Serving* const serving = object_.serving();
  return serving != nullptr && serving->arguments.swaps_within && serving->versions->version_of(adapter) >= 0;
}

// Warns once of positions that the model never saw in training.
void GeneratorObject::warn_of_length(int64_t tokens, int64_t max_new_tokens) {
  const int64_t limit = model_.config().positions();
  if (warned_ || tokens + max_new_tokens <= limit) return;
  warned_ = true;
  HostLog(host_).warning(
      "generate",
      "a prompt has {} tokens; with max_new_tokens {} it may go beyond the {} positions of the model, "
      "where its text is not to be relied on",
      tokens, max_new_tokens, limit);
}

int32_t GeneratorObject::add(const engine::GenerationRequest& request, int64_t* first,
                             engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    const model::Adapter* const adapter = object_.adapter_of(*request.sampling);
    std::map<int64_t, Weights> added;
    if (const Serving* const serving = object_.serving())
      for (int64_t i = 0; i < request.count; ++i)
        added[i] = {adapter, request.keeps, serving->versions->version_of(adapter)};
    *first = generator_.add({.ids = {request.ids.begin(), request.ids.end()},
                             .sampling = *request.sampling,
                             .adapter = adapter,
                             .count = request.count,
                             .stream = request.stream,
                             .keeps = request.keeps,
                             .follows = follows(adapter)});
    base::renumber(added, *first, weights_);
    warn_of_length(std::ssize(request.ids), request.sampling->max_new_tokens);
  });
}

int32_t GeneratorObject::step(engine::GenerationSink& sink, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    const at::AutoGradMode without_graph(false);
    const bool computed = object_.serving() != nullptr ? step_beside(sink) : generator_.step(sink);
    return computed ? Status::ok : Status::end;
  });
}

// Takes over the newest version of the adapter, and computes a step with its share of the threads.
bool GeneratorObject::step_beside(engine::GenerationSink& sink) {
  const Serving& serving = *object_.serving();
  const tensor::WidthScope width(serving.arguments.share);
  const model::Adapter& newest = object_.newest_version();
  if (serving.arguments.swaps_within) {
    generator_.move_to(newest);
    const int64_t version = serving.versions->version_of(&newest);
    for (auto& [sequence, weights] : weights_) {
      if (!follows(weights.adapter)) continue;
      weights.adapter = &newest;
      weights.next = version;
    }
  }
  Noted noted(*this, sink);
  return generator_.step(noted);
}

void GeneratorObject::end(int64_t sequence) noexcept {
  generator_.end(sequence);
  weights_.erase(sequence);
}

engine::UsedWeights GeneratorObject::weights_of(int64_t sequence) const noexcept {
  const auto found = weights_.find(sequence);
  if (found == weights_.end() || found->second.adapter == nullptr) return {};
  const Weights& weights = found->second;
  const std::string_view name =
      weights.next >= 0 ? std::string_view(object_.serving()->versions->name()) : weights.adapter->name();
  const int64_t first = weights.first >= 0 ? weights.first : weights.next;
  return {name, first, weights.last >= 0 ? weights.last : first};
}

int32_t GeneratorObject::extend(int64_t sequence, std::span<const int32_t> ids, int64_t max_new_tokens,
                                engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] { generator_.extend(sequence, ids, max_new_tokens); });
}

int32_t GeneratorObject::release_memory(engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    generator_.release_memory();
    if (sleeps_) generator_.release_copies();
  });
}

}  // namespace trl::entry
