#include <limits>
#include <optional>
#include <utility>

#include "reward/built_in.h"
#include "reward/content.h"
#include "reward/math/read.h"

namespace trl::reward {

namespace {

class Accuracy final : public Reward {
 public:
  // delimiters: of the reasoning; none: all of the text is the answer.
  Accuracy(std::string_view name, std::vector<std::string> delimiters)
      : name_(name), delimiters_(std::move(delimiters)) {}
  std::string_view name() const override { return name_; }
  Unread unread() const override { return unread_; }

  Rewards score(const RewardBatch& batch) override {
    Rewards out;
    for (const Completion& completion : batch.completions) {
      const std::optional<std::string_view> solution = solution_of(completion, name_);
      const std::optional<std::string_view> answer = after_reasoning(content_of(completion));
      out.push_back(!answer ? 0 : solution ? compare(*solution, *answer) : kNone);
    }
    return out;
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::optional<std::string_view> after_reasoning(std::string_view text) const {
    if (delimiters_.empty()) return text;
    for (const std::string& delimiter : delimiters_)
      if (const size_t at = text.rfind(delimiter); at != std::string_view::npos)
        return text.substr(at + delimiter.size());
    return std::nullopt;
  }

  // The completions of one prompt follow one another: their solution is read once.
  const std::optional<math::Reading>& read(std::string_view solution) {
    if (solution_text_ != solution) {
      solution_ = math::read_solution(solution);
      solution_text_ = solution;
    }
    return solution_;
  }

  double compare(std::string_view solution, std::string_view answer) {
    const std::optional<math::Reading>& wanted = read(solution);
    unread_.solutions += wanted && wanted->value ? 0 : 1;
    if (!wanted) return kNone;
    const std::optional<math::Reading> given = math::read_completion(answer);
    if (!given) return 0;
    unread_.completions += given->value || given->text.empty() ? 0 : 1;
    return math::same_reading(*wanted, *given) ? 1 : 0;
  }

  std::string_view name_;
  std::vector<std::string> delimiters_;
  std::optional<std::string> solution_text_;
  std::optional<math::Reading> solution_;
  Unread unread_;
};

}  // namespace

std::unique_ptr<Reward> accuracy_reward() {
  return std::make_unique<Accuracy>("accuracy_reward", std::vector<std::string>());
}

std::unique_ptr<Reward> reasoning_accuracy_reward(std::vector<std::string> reasoning_delimiters) {
  return std::make_unique<Accuracy>("reasoning_accuracy_reward", std::move(reasoning_delimiters));
}

}  // namespace trl::reward
