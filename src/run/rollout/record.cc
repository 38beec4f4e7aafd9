#include "run/rollout/record.h"

#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "run/rollout/json_number.h"

namespace trl::run {

namespace {

constexpr const char* kRecord = "record_rollouts";

base::Json log_probabilities_of(const engine::Completion& completion) {
  if (completion.log_probabilities.empty()) return {};
  base::Json out = base::Json::array();
  for (const float value : completion.log_probabilities) out.push_back(json_of(static_cast<double>(value)));
  return out;
}

}  // namespace

Record::Record(std::string path) : path_(std::move(path)) {}

void Record::go_to(int64_t bytes) {
  std::error_code error;
  const auto now = static_cast<int64_t>(std::filesystem::file_size(path_, error));
  if (bytes > 0 && (error || now < bytes))
    fail_key(kRecord,
             "{}: {} does not have the {} bytes that the checkpoint says it had: give the run's file",
             kRecord, path_, bytes);
  bytes_ = bytes;
}

void Record::add(std::string_view mode, int64_t generation, const engine::PromptRows& prompts,
                 std::span<const engine::Completion> completions, const engine::Rewards& rewards,
                 std::span<const int64_t> resampled) {
  std::string text;
  const size_t functions = rewards.names.size();
  for (size_t row = 0; row < completions.size(); ++row) {
    base::Json by_name = base::Json::object();
    for (size_t f = 0; f < functions; ++f)
      by_name[rewards.names[f]] = json_of(rewards.values[row * functions + f]);
    base::Json line = {{"mode", mode},
                       {"generation", generation},
                       {"row", prompts.row_ids[row]},
                       {"prompt_ids", prompts.ids[row]},
                       {"completion_ids", completions[row].ids},
                       {"logprobs", log_probabilities_of(completions[row])},
                       {"rewards", std::move(by_name)}};
    if (!completions[row].written.empty()) line["tool_mask"] = completions[row].written;
    if (!resampled.empty() && resampled[row] > 0) line["resampled"] = resampled[row];
    text += line.dump() + "\n";
  }
  std::error_code cut;
  std::filesystem::resize_file(path_, static_cast<uintmax_t>(bytes_), cut);  // a new file, or a torn line
  try {
    base::append_file(path_, text);
  } catch (const Error& error) {
    throw error.with(fmt::format("{}: {}", kRecord, error.message()), kRecord);
  }
  bytes_ += std::ssize(text);
}

}  // namespace trl::run
