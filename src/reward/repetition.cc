#include <algorithm>
#include <numeric>
#include <span>

#include "reward/built_in.h"

namespace trl::reward {

namespace {

class RepetitionPenalty final : public Reward {
 public:
  RepetitionPenalty(int64_t size, double penalty) : size_(static_cast<size_t>(size)), penalty_(penalty) {}
  std::string_view name() const override { return "repetition_penalty_reward"; }
  Rewards score(const RewardBatch& batch) override {
    Rewards out;
    for (const Completion& completion : batch.completions) out.push_back(of(completion.ids));
    return out;
  }

 private:
  double of(std::span<const int32_t> ids) const {
    if (ids.size() < size_) return 0;
    const size_t count = ids.size() - size_ + 1;
    const size_t different = count_different(ids, count);
    if (different == count) return 0;
    return (1 - static_cast<double>(different) / static_cast<double>(count)) * penalty_;
  }

  // Sorts the places of the n-grams by their tokens.
  size_t count_different(std::span<const int32_t> ids, size_t count) const {
    std::vector<size_t> places(count);
    std::iota(places.begin(), places.end(), size_t{0});
    const auto ngram = [&](size_t place) { return ids.subspan(place, size_); };
    std::ranges::sort(
        places, [&](size_t a, size_t b) { return std::ranges::lexicographical_compare(ngram(a), ngram(b)); });
    size_t different = 1;
    for (size_t i = 1; i < count; ++i)
      different += std::ranges::equal(ngram(places[i - 1]), ngram(places[i])) ? 0 : 1;
    return different;
  }

  size_t size_;
  double penalty_;
};

}  // namespace

std::unique_ptr<Reward> repetition_penalty_reward(int64_t ngram_size, double max_penalty) {
  return std::make_unique<RepetitionPenalty>(ngram_size, max_penalty);
}

}  // namespace trl::reward
