// Any bytes as a file of replay_rollouts: completions that can be trained on, or one error of the file or of
// the option.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "run/rollout/replay.h"

namespace {

using namespace trl;

void require(bool condition) {
  if (!condition) std::abort();
}

template <class Body>
void guarded(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    const bool of_option = error.status() == Status::invalid_config && error.key() == "replay_rollouts";
    const bool of_file = error.status() == Status::format || error.status() == Status::unsupported;
    require((of_file || of_option) && !error.message().empty());
  }
}

void check(const run::ReplayedRow& row) {
  const engine::Completion& own = row.completion;
  for (const int32_t id : own.ids) require(id >= 0);
  require(own.log_probabilities.empty() || own.log_probabilities.size() == own.ids.size());
  for (const float value : own.log_probabilities) require(!std::isinf(value));
  for (const auto& [name, value] : row.rewards) require(!name.empty() && !std::isinf(value));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("trl-fuzz-{}.jsonl", ::getpid())).string();
  base::write_file(path, {reinterpret_cast<const char*>(data), size});
  guarded([&] {
    run::Replay replay(path);
    guarded([&] { replay.check_ids(512); });
    guarded([&] { replay.check_generations(0, [] { return int64_t{1}; }); });
    replay.next_prompts(3);
    require(replay.left().train >= 0 && replay.left().any >= 0);
    engine::PromptRows prompts;
    prompts.ids = {{69, 281, 81}};
    prompts.row_ids = {6};
    for (int64_t taken = 0; taken < 4; ++taken)
      for (const run::ReplayedRow& row : replay.take("train", 0, prompts)) check(row);
  });
  std::filesystem::remove(path);
  return 0;
}
