#include "train/rollout/completion_writer.h"

#include <ATen/core/grad_mode.h>

#include <map>

#include "base/error.h"
#include "tensor/memory/rehearsal.h"

namespace trl::train {

namespace {

// Collects the tokens of sequences.
class CollectedTokens final : public engine::GenerationSink {
 public:
  explicit CollectedTokens(size_t count) : completions(count) {}

  bool on_token(int64_t sequence, const engine::Token& token) noexcept override {
    engine::Completion& own = completions[rows.at(sequence)];
    own.ids.push_back(token.id);
    own.log_probabilities.push_back(token.whole_log_probability);
    return true;
  }
  void on_end(int64_t sequence, engine::Finish how, std::string_view error) noexcept override {
    if (how == engine::Finish::failed && problem.empty())
      problem = fmt::format("completion {}: {}", rows.at(sequence), error);
  }

  std::map<int64_t, size_t> rows;  // of each sequence
  std::vector<engine::Completion> completions;
  std::string problem;
};

// Rows with the same prompt, at equal distances.
struct Group {
  size_t first, count = 1, stride = 1;
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

}  // namespace

CompletionWriter::CompletionWriter(std::unique_ptr<generate::Generator> generator,
                                   const model::Adapter* adapter)
    : generator_(std::move(generator)), adapter_(adapter) {}

std::vector<engine::Completion> CompletionWriter::write(const engine::PromptRows& prompts,
                                                        const engine::Sampling& sampling,
                                                        uint64_t first_stream) {
  const at::AutoGradMode without_graph(false);
  const tensor::Stage stage("generation");
  CollectedTokens tokens(prompts.ids.size());
  try {
    for (const Group& group : groups_of(prompts)) {
      const int64_t sequence = generator_->add({.ids = prompts.ids[group.first],
                                                .sampling = sampling,
                                                .adapter = adapter_,
                                                .count = static_cast<int64_t>(group.count),
                                                .stream = first_stream + group.first,
                                                .stride = group.stride});
      for (size_t i = 0; i < group.count; ++i)
        tokens.rows.emplace(sequence + static_cast<int64_t>(i), group.first + i * group.stride);
    }
    while (generator_->step(tokens) && tokens.problem.empty()) continue;
  } catch (...) {
    for (const auto& [sequence, row] : tokens.rows) generator_->end(sequence);
    throw;
  }
  for (const auto& [sequence, row] : tokens.rows) generator_->end(sequence);
  generator_->release_memory();
  if (!tokens.problem.empty()) fail(Status::invalid_argument, "{}", tokens.problem);
  if (!sampling.log_probabilities)
    for (engine::Completion& own : tokens.completions) own.log_probabilities.clear();
  return std::move(tokens.completions);
}

}  // namespace trl::train
