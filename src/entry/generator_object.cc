#include "entry/generator_object.h"

#include "base/error.h"
#include "entry/boundary.h"

namespace trl::entry {

GeneratorObject::GeneratorObject(engine::Host& host, const model::Model& model,
                                 const engine::GeneratorSpec& spec, std::shared_ptr<generate::Cache> cache)
    : host_(host), model_(model), generator_(model, spec, std::move(cache)), sleeps_(spec.sleeps) {}

const model::Adapter* adapter_of(const model::Model& model, const engine::Sampling& sampling) {
  const model::Adapters& adapters = model.adapters();
  const bool alone = sampling.adapter == engine::kNoAdapter;
  const model::Adapter* adapter = adapters.in_use();
  if (!sampling.adapter.empty()) adapter = alone ? nullptr : &adapters.get(sampling.adapter);
  adapters.check_usable(adapter);
  return adapter;
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
    *first = generator_.add({.ids = {request.ids.begin(), request.ids.end()},
                             .sampling = *request.sampling,
                             .adapter = adapter_of(model_, *request.sampling),
                             .count = request.count,
                             .stream = request.stream,
                             .keeps = request.keeps});
    warn_of_length(std::ssize(request.ids), request.sampling->max_new_tokens);
  });
}

int32_t GeneratorObject::step(engine::GenerationSink& sink, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    const at::AutoGradMode without_graph(false);
    return generator_.step(sink) ? Status::ok : Status::end;
  });
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
