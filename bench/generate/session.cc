#include "generate/session.h"

#include <stdexcept>

#include "support/child.h"

namespace trl::bench {

int64_t blocks_for(int64_t sequences, int64_t length) {
  return sequences * generate::Scheduler::blocks_of(length);
}

Session::Session(const model::Model& model, const generate::CacheKind& kind, int64_t blocks,
                 bool prefix_cache)
    : cache_(std::make_shared<generate::Cache>(model, kind, blocks * generate::block_bytes(model, kind))),
      generator_(model, generate::Limits{.prefix_cache = prefix_cache}, cache_) {}

int64_t Session::add(std::vector<int32_t> ids, int64_t new_tokens, int64_t count) {
  generate::Request request;
  request.ids = std::move(ids);
  request.sampling.max_new_tokens = new_tokens;
  request.count = count;
  return add(std::move(request));
}

int64_t Session::add(generate::Request request) {
  const int64_t count = request.count, first = generator_.add(std::move(request));
  for (int64_t i = 0; i < count; ++i) texts_[first + i];
  waiting_ += count;
  return first;
}

bool Session::step() {
  const bool more = generator_.step(*this);
  if (!error_.empty()) throw std::runtime_error(error_);
  return more;
}

void Session::run_until_all_began() {
  while (waiting_ > 0 && step()) {
  }
}

void Session::run() {
  while (step()) {
  }
}

void Session::end_all_but(int64_t count) {
  while (std::ssize(texts_) > count) {
    generator_.end(texts_.rbegin()->first);
    texts_.erase(std::prev(texts_.end()));
  }
}

void Session::fill_memory() {
  const generate::BlockPool& pool = *cache_->pool;
  for (int32_t id = 0; id < pool.limit(); ++id)
    if (!pool.in_use(id)) cache_->memory.block(id).fill_(1);
}

bool Session::on_token(int64_t sequence, const engine::Token& token) noexcept {
  Text& text = texts_.at(sequence);
  if (text.ids.empty()) --waiting_;
  text.ids.push_back(token.id);
  text.times.push_back(now());
  return true;
}

void Session::on_end(int64_t, engine::Finish how, std::string_view error) noexcept {
  if (how != engine::Finish::length) error_ = "a sequence ended early: " + std::string(error);
}

Steps time_steps(Session& session, int64_t count) {
  Steps steps;
  session.step();
  const auto context = [&] {
    double sum = 0;
    for (const auto& [sequence, text] : session.texts())
      sum += static_cast<double>(session.generator().scheduler().ids(sequence).size());
    return sum / static_cast<double>(session.texts().size());
  };
  const double before = context();
  const tensor::TimeParts timed(&steps.parts);
  for (int64_t i = 0; i < count; ++i) {
    const double begin = now();
    session.step();
    steps.seconds.push_back(now() - begin);
  }
  steps.context = (before + context() - 1) / 2;
  return steps;
}

}  // namespace trl::bench
