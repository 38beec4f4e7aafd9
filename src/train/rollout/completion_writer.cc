#include "train/rollout/completion_writer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/renumber.h"
#include "tensor/memory/rehearsal.h"

namespace trl::train {

namespace {

using Clock = std::chrono::steady_clock;

// Collects the tokens of sequences. After a failure, such as missing memory, sequences end.
class CollectedTokens final : public engine::GenerationSink {
 public:
  CollectedTokens(size_t count, const CompletionWriter::Watch& watch) : completions(count), watch_(watch) {}

  bool on_token(int64_t sequence, const engine::Token& token) noexcept override {
    return guarded([&] {
      const size_t row = rows.at(sequence);
      engine::Completion& own = completions[row];
      own.ids.push_back(token.id);
      own.log_probabilities.push_back(token.whole_log_probability);
      own.entropies.push_back(token.entropy);
      if (!own.written.empty()) own.written.push_back(1);
      own.stopped = watch_.stops(row, token.id);
      return !own.stopped;
    });
  }
  void on_end(int64_t sequence, engine::Finish how, std::string_view error) noexcept override {
    guarded([&] {
      ended.push_back(rows.at(sequence));
      if (how == engine::Finish::failed && problem.empty())
        problem = fmt::format("completion {}: {}", rows.at(sequence), error);
      return true;
    });
  }

  std::map<int64_t, size_t> rows;  // of each sequence
  std::vector<engine::Completion> completions;
  std::vector<size_t> ended;  // rows, in this step
  std::string problem;
  std::exception_ptr failure;  // the first

 private:
  // Returns what the call returns; false: it failed.
  template <typename Call>
  bool guarded(const Call& call) noexcept {
    try {
      return call();
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
      return false;
    }
  }

  const CompletionWriter::Watch& watch_;
};

// Rows with the same prompt, at equal distances.
struct Group {
  size_t first, count = 1, stride = 1;
  std::vector<size_t> rows() const {
    std::vector<size_t> all;
    for (size_t i = 0; i < count; ++i) all.push_back(first + i * stride);
    return all;
  }
};

// The rows of groups that are not complete, and the time at which the last but one of all rows was.
class Unfinished {
 public:
  Unfinished(const std::vector<Group>& groups, size_t rows) : groups_(groups), of_row_(rows), rows_(rows) {
    for (const Group& group : groups) {
      left_.push_back(group.count);
      for (const size_t row : group.rows()) of_row_[row] = left_.size() - 1;
    }
  }
  // Returns the group if this row was its last one.
  const Group* finish(size_t row) {
    if (--rows_ == 1) alone_ = Clock::now();
    const size_t group = of_row_[row];
    return --left_[group] == 0 ? &groups_[group] : nullptr;
  }
  double seconds_alone() const {
    return alone_ ? std::chrono::duration<double>(Clock::now() - *alone_).count() : 0;
  }

 private:
  const std::vector<Group>& groups_;
  std::vector<size_t> left_, of_row_;  // unfinished rows by group; the group of each row
  size_t rows_;
  std::optional<Clock::time_point> alone_;
};

std::vector<Group> groups_of(const engine::PromptRows& prompts) {
  std::vector<Group> groups;
  std::map<std::vector<int32_t>, size_t> last;  // group of each prompt
  for (size_t row = 0; row < prompts.ids.size(); ++row) {
    const auto [known, first] = last.try_emplace(prompts.ids[row], groups.size());
    if (!first) {
      Group& group = groups[known->second];
      if (group.count == 1) group.stride = row - group.first;
      if (row == group.first + group.count * group.stride) {
        ++group.count;
        continue;
      }
      known->second = groups.size();
    }
    groups.push_back({row});
  }
  return groups;
}

// The sequences of a generation, which end with it; so does their memory, even after an error.
class Writing {
 public:
  Writing(generate::Generator& generator, bool sleeps, size_t rows, const CompletionWriter::Watch& watch)
      : tokens_(rows, watch), generator_(generator), sleeps_(sleeps) {}
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  ~Writing() { end(); }

  void add(const Group& group, generate::Request request) {
    request.count = static_cast<int64_t>(group.count);
    request.stride = group.stride;
    std::map<int64_t, size_t> added;
    for (const size_t row : group.rows()) added.emplace(std::ssize(added), row);
    base::renumber(added, generator_.add(std::move(request)), tokens_.rows);
  }
  // Runs until all sequences have ended. false: one has failed. ended: gets each row that ends.
  template <typename Ended>
  bool run(const Ended& ended) {
    while (step() && tokens_.problem.empty())
      for (const size_t row : std::exchange(tokens_.ended, {})) ended(row);
    return tokens_.problem.empty();
  }
  void extend(const engine::Continuation& more) {
    engine::Completion& own = tokens_.completions.at(more.row);
    own.written.resize(own.ids.size(), 1);
    own.ids.insert(own.ids.end(), more.ids.begin(), more.ids.end());
    own.written.resize(own.ids.size(), 0);
    own.log_probabilities.resize(own.ids.size(), 0.0f);
    own.entropies.resize(own.ids.size(), 0.0f);
    if (more.max_new_tokens == 0) return;
    const auto sequence =
        std::ranges::find_if(tokens_.rows, [&](const auto& one) { return one.second == more.row; });
    generator_.extend(sequence->first, more.ids, more.max_new_tokens, /*counted=*/true);
  }

  const std::vector<engine::Completion>& completions() const { return tokens_.completions; }
  CollectedTokens take() {
    end();
    return std::move(tokens_);
  }

 private:
  bool step() {
    const bool computed = generator_.step(tokens_);
    if (tokens_.failure != nullptr) std::rethrow_exception(tokens_.failure);
    return computed;
  }
  void end() {
    if (tokens_.rows.empty()) return;
    for (const auto& [sequence, row] : tokens_.rows) generator_.end(sequence);
    tokens_.rows.clear();
    generator_.release_memory();
    if (sleeps_) generator_.release_copies();
  }

  CollectedTokens tokens_;
  generate::Generator& generator_;
  const bool sleeps_;
};

}  // namespace

CompletionWriter::CompletionWriter(std::unique_ptr<generate::Generator> generator,
                                   const model::Adapter* adapter, bool sleeps)
    : generator_(std::move(generator)), adapter_(adapter), sleeps_(sleeps) {}

CompletionWriter::CompletionWriter(const model::Model& model, const engine::GeneratorSpec& spec)
    : CompletionWriter(
          std::make_unique<generate::Generator>(
              model, spec,
              std::make_shared<generate::Cache>(model, generate::cache_kind(model, spec), spec.cache_bytes)),
          nullptr, spec.sleeps) {}

std::vector<engine::Completion> CompletionWriter::write(const engine::PromptRows& prompts,
                                                        const engine::Sampling& sampling,
                                                        uint64_t first_stream, const Watch& watch,
                                                        const GoOn& go_on) {
  const at::AutoGradMode without_graph(false);
  const tensor::Stage stage("generation");
  const auto begin = Clock::now();
  const double copying_before = generator_->cache().copying_seconds();
  const std::vector<Group> groups = groups_of(prompts);
  Writing writing(*generator_, sleeps_, prompts.ids.size(), watch);
  for (const Group& group : groups) {
    writing.add(group, {.ids = prompts.ids[group.first],
                        .sampling = sampling,
                        .adapter = adapter_,
                        .stream = first_stream + group.first,
                        .keeps = go_on != nullptr});
  }
  Unfinished unfinished(groups, prompts.ids.size());
  const auto tell = [&](size_t row) {
    if (go_on) return;  // a turn may not be the last one
    if (const Group* const group = unfinished.finish(row))
      watch.finished(writing.completions(), group->rows());
  };
  while (writing.run(tell) && go_on) {
    const std::vector<engine::Continuation> more = go_on(writing.completions());
    if (more.empty()) break;
    for (const engine::Continuation& one : more) writing.extend(one);
  }
  CollectedTokens tokens = writing.take();
  if (!tokens.problem.empty()) fail(Status::invalid_argument, "{}", tokens.problem);
  times_.all += std::chrono::duration<double>(Clock::now() - begin).count();
  times_.tail += unfinished.seconds_alone();
  times_.copies += generator_->cache().copying_seconds() - copying_before;
  if (go_on) {
    std::vector<size_t> all(prompts.ids.size());
    std::iota(all.begin(), all.end(), size_t{0});
    watch.finished(tokens.completions, all);
  }
  for (engine::Completion& own : tokens.completions)
    if (!sampling.log_probabilities) own.log_probabilities.clear(), own.entropies.clear();
  return std::move(tokens.completions);
}

}  // namespace trl::train
