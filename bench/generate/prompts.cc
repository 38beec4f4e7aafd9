#include "generate/prompts.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "model/model.h"
#include "train/token_ids.h"

namespace trl::bench {

namespace {

constexpr int64_t kIds = 1 << 15;

int64_t length(std::mt19937& random, double median, double spread, int64_t least, int64_t most) {
  std::lognormal_distribution<double> draw(std::log(median), spread);
  return std::clamp(std::lround(draw(random)), least, most);
}

}  // namespace

Prompts::Prompts(const std::string& model, const std::string& text_file) {
  if (!text_file.empty()) {
    ids_ = token_ids(model, text_file, kIds);
    return;
  }
  std::mt19937 random(7);
  const auto vocabulary = static_cast<uint32_t>(model::Model::outline(model, "bfloat16").config.vocab_size);
  for (int64_t i = 0; i < kIds; ++i) ids_.push_back(static_cast<int32_t>(random() % vocabulary));
}

std::vector<int32_t> Prompts::next(int64_t length) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < length; ++i) ids.push_back(ids_[at_++ % ids_.size()]);
  return ids;
}

Workload equal_texts(Prompts& prompts, int64_t count, int64_t length, int64_t new_tokens) {
  Workload work;
  for (int64_t i = 0; i < count; ++i) {
    work.prompts.push_back(prompts.next(length));
    work.new_tokens.push_back(new_tokens);
  }
  return work;
}

Workload mixed_texts(Prompts& prompts, int64_t count) {
  std::mt19937 random(1);
  Workload work;
  for (int64_t i = 0; i < count; ++i) {
    work.prompts.push_back(prompts.next(length(random, 96, 0.8, 16, 512)));
    work.new_tokens.push_back(length(random, 48, 0.9, 8, 256));
  }
  return work;
}

Workload same_texts(Prompts& prompts, int64_t count, int64_t length, int64_t new_tokens) {
  Workload work;
  const std::vector<int32_t> ids = prompts.next(length + count - 1);
  for (int64_t i = 0; i < count; ++i) {
    work.prompts.emplace_back(ids.begin(), ids.begin() + length);
    work.prompts.back().back() = ids[static_cast<size_t>(length - 1 + i)];
    work.new_tokens.push_back(new_tokens);
  }
  return work;
}

}  // namespace trl::bench
