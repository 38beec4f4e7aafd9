// Batches for the engine.
#include "run/rows/batch_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "config/generation/trainer_generation.h"
#include "engine/error_capture.h"

namespace trl::run {
namespace {

// Returns "dataset row 2" or "a sequence of the packed dataset rows 2, 3".
std::string name_of(const data::LongRow& row, std::string_view what) {
  constexpr size_t kNamed = 16;
  if (row.rows.size() == 1) return fmt::format("{} row {}", what, row.rows[0]);
  const std::span<const int64_t> all = row.rows;
  std::string out = fmt::format("a sequence of the packed {} rows {}", what,
                                fmt::join(all.first(std::min(kNamed, all.size())), ", "));
  if (all.size() > kNamed) out += fmt::format(" and {} more", all.size() - kNamed);
  return out;
}

}  // namespace

void Batches::settle() {
  batches_per_epoch_ = stream_->batches_per_epoch();
  rows_ = stream_->rows();
  fingerprint_ = stream_->fingerprint();
}

int32_t Batches::start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before,
                             engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    stream_->start_epoch(epoch, skip, evaluations_before);
    return Status::ok;
  });
}

int32_t Batches::start_pass(int64_t batch_size, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    stream_->start_pass(batch_size);
    return Status::ok;
  });
}

int32_t Batches::next(const data::Batch** batch, engine::ErrorSink& error) noexcept {
  return engine::answer(error, [&] {
    if (!stream_->next(batch_)) return Status::end;
    *batch = &batch_;
    BatchSize size = {std::ssize(batch_.row_ids)};
    for (size_t i = 1; i < batch_.cu_seqlens.size(); ++i)
      size.longest = std::max<int64_t>(size.longest, batch_.cu_seqlens[i] - batch_.cu_seqlens[i - 1]);
    if (size.tokens() > largest_.tokens()) largest_ = size;
    return Status::ok;
  });
}

void check_positions(const config::Config& config, int64_t positions, Batches& rows, Batches* evaluation) {
  constexpr std::string_view kKey = "max_length";
  const bool writes = config.method().generates;
  const std::optional<int64_t> limit = writes ? std::nullopt : config.get_optional_int(kKey);
  if (positions == 0 || (limit && *limit <= positions)) return;
  const auto check = [&](Batches& batches, std::string_view what) {
    const std::optional<data::LongRow> beyond = batches.longer_than(positions);
    if (!beyond) return;
    placed({std::string(what), 0, 0, beyond->rows.front()}, [&] {
      if (writes) {
        const std::string_view key = config::length_key(config);
        const int64_t completion = config.get_int(key);
        std::vector<std::string> ways;
        if (beyond->tokens - completion < positions) ways.emplace_back("a smaller one");
        if (completion < positions) ways.emplace_back("long_prompts: drop");
        if (ways.empty()) ways.emplace_back("a smaller one, and shorter prompts");
        fail_key(key,
                 "{}: {} with its completion may have {} tokens, and the model has learned {} positions: "
                 "give {}",
                 key, name_of(*beyond, what), beyond->tokens, positions, fmt::join(ways, ", or "));
      }
      fail_key(kKey,
               "{}: {}: {} has {} tokens, and the model has learned {} positions: give {}: {}, so that {}",
               kKey, config.get(kKey), name_of(*beyond, what), beyond->tokens, positions, kKey, positions,
               beyond->rows.size() == 1 ? "longer rows are cut" : "no pack is longer");
    });
  };
  check(rows, "dataset");
  if (evaluation != nullptr) check(*evaluation, "evaluation");
}

}  // namespace trl::run
