// Reward models: each of two answers gets a score, and the chosen one should get the higher (TRL's
// RewardTrainer.compute_loss).
#include "loss/reward.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "tensor/memory/rehearsal.h"
#include "train/method.h"
#include "train/scoring/scores.h"

namespace trl::train {

namespace {

// The chosen answers are the first half of a batch's sequences.
class RewardBatchLoss final : public WeighedLoss {
 public:
  RewardBatchLoss(const Causal& causal, double center, const MicroBatch& batch, int32_t padding,
                  const Divisors& divisors)
      : causal_(causal),
        center_(center),
        rows_(last_rows(batch.input_ids.data_ptr<int32_t>(), *batch.segments, batch.sequences, padding)),
        scores_(rows_.size()),
        batches_(divisors.batches) {
    if (rows_.empty() || rows_.size() % 2 != 0)
      fail(Status::internal, "a batch of {} sequences, but pairs are expected", rows_.size());
    if (const auto margin = batch.columns.find("margin"); margin != batch.columns.end())
      margins_.assign(margin->second.begin(), margin->second.end());
  }

  MethodMetrics metrics() const override;

 private:
  void measure(const model::Output& output, const MicroBatch& part) override {
    const tensor::Stage stage("loss");
    const std::vector<size_t> sequences = sequences_of(part);
    const at::Tensor values = scores_of(output, part, sequences).contiguous();
    for (size_t i = 0; i < sequences.size(); ++i) scores_[sequences[i]] = values.data_ptr<float>()[i];
  }

  float weigh() override {
    result_ = loss::reward_loss(pairs(), center_);
    return static_cast<float>(result_.loss / batches_);
  }

  at::Tensor learn(const model::Output& output, const MicroBatch& part) override {
    const tensor::Stage stage("loss");
    const std::vector<size_t> sequences = sequences_of(part);
    at::Tensor by = at::empty({std::ssize(sequences)}, at::kFloat);
    for (size_t i = 0; i < sequences.size(); ++i) by.data_ptr<float>()[i] = by_score(sequences[i]);
    return (scores_of(output, part, sequences) * by).sum();
  }

  size_t count() const { return rows_.size() / 2; }

  // Returns the sequences that the part scores.
  std::vector<size_t> sequences_of(const MicroBatch& part) const {
    std::vector<size_t> sequences;
    for (size_t s = 0; s < rows_.size(); ++s) {
      const int64_t row = rows_[s] - part.first;
      if (row >= 0 && row < part.input_ids.numel()) sequences.push_back(s);
    }
    return sequences;
  }

  // Returns the scores as float32, on the host.
  at::Tensor scores_of(const model::Output& output, const MicroBatch& part,
                       const std::vector<size_t>& sequences) const {
    std::vector<int32_t> rows;
    for (const size_t s : sequences) rows.push_back(rows_[s] - static_cast<int32_t>(part.first));
    return scores_at(output.hidden, *output.head.weight, rows, causal_.compute());
  }

  std::vector<loss::RewardPair> pairs() const {
    std::vector<loss::RewardPair> pairs;
    for (size_t i = 0; i < count(); ++i)
      pairs.push_back({scores_[i], scores_[count() + i], margins_.empty() ? 0.0 : margins_[i]});
    return pairs;
  }

  float by_score(size_t sequence) const {
    const double by =
        sequence < count() ? result_.by_chosen[sequence] : result_.by_rejected[sequence - count()];
    return static_cast<float>(by / batches_);
  }

  const Causal& causal_;
  const double center_;
  const std::vector<int32_t> rows_;  // of the batch, by sequence
  std::vector<float> scores_;
  std::vector<double> margins_;  // by sequence, or empty
  const double batches_;
  loss::RewardResult result_;
};

MethodMetrics RewardBatchLoss::metrics() const {
  double right = 0, margins = 0;
  const auto pairs = static_cast<double>(count());
  for (size_t i = 0; i < count(); ++i) {
    const double chosen = scores_[i], rejected = scores_[count() + i];
    right += chosen > rejected ? 1 / pairs : 0;
    margins += (chosen - rejected) / pairs;
  }
  const auto [least, most] = std::ranges::minmax_element(scores_);
  const double sum = std::accumulate(scores_.begin(), scores_.end(), 0.0);
  return {{"min_reward", *least},
          {"mean_reward", sum / static_cast<double>(scores_.size())},
          {"max_reward", *most},
          {"accuracy", right},
          {"margin", margins}};
}

class Reward final : public Method {
 public:
  explicit Reward(const MethodContext& context)
      : causal_(context.arguments, context.model, context.attention),
        center_(context.arguments.preference.center_rewards_coefficient),
        padding_(padding_of(context.model)) {
    if (context.model.config().labels != 1)
      fail(Status::internal, "a reward model has one score, and this one has {}",
           context.model.config().labels);
  }

  Divisors divisors(std::span<const MicroBatch> window, bool) const override {
    return {.batches = static_cast<double>(window.size())};
  }

  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                        const at::Tensor& states) override {
    return causal_.forward(batch, training, states);
  }

  std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch>,
                                  const Divisors& divisors) override {
    return std::make_unique<RewardBatchLoss>(causal_, center_, batch, padding_, divisors);
  }

 private:
  const Causal causal_;
  const double center_;
  const int32_t padding_;
};

}  // namespace

std::unique_ptr<Method> make_reward(const MethodContext& context) {
  return std::make_unique<Reward>(context);
}

}  // namespace trl::train
