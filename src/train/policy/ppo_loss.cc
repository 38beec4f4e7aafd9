#include "train/policy/ppo_loss.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "loss/policy/ppo.h"
#include "tensor/memory/rehearsal.h"
#include "train/rollout/padded_rows.h"

namespace trl::train {

namespace {

size_t sum_of(const std::vector<float>& counts) {
  return static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), 0.0));
}

std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

class PpoBatchLoss final : public BatchLoss {
 public:
  PpoBatchLoss(const Causal& policy, const Values& values, const config::OnlineArguments& a,
               const MicroBatch& batch, const PpoScale& scale)
      : causal_(policy),
        value_source_(values),
        scale_(scale),
        counts_(batch.states.at(kEntropyCount)),
        positions_(sum_of(batch.columns.at(kWidth))),
        old_(doubles(batch.targets.columns.at(kOld))),
        advantages_(doubles(batch.targets.columns.at(kAdvantages))),
        policy_{old_, advantages_, a.cliprange} {
    const std::vector<float>&values_before = batch.states.at(kValue), &returns = batch.states.at(kReturn);
    for (size_t i = 0; i < returns.size(); ++i) {
      if (std::isnan(returns[i])) continue;
      states_.push_back(static_cast<int64_t>(i));
      old_values_.push_back(static_cast<double>(values_before[i]));
      returns_.push_back(static_cast<double>(returns[i]));
    }
    value_ = {old_values_, returns_, a.cliprange_value, a.vf_coef};
  }

  void each_part(std::span<const MicroBatch> parts, const PartForward& forward,
                 const PartBackward& backward) override {
    for (const MicroBatch& part : parts) {
      const bool last = &part == &parts.back();
      if (value_source_.on_policy()) {
        if (!backward(both_shares(forward(part), part), last)) return;
        continue;
      }
      if (!backward(policy_share(forward(part), part), false)) return;
      if (!backward(value_share(value_source_.forward(part, RunPosition{}), part), last)) return;
    }
  }

  MethodMetrics metrics() const override {
    MethodMetrics all;
    const auto add = [&](std::string_view name, double value) {
      all.emplace_back(name, value * scale_.share);
    };
    for (const auto& [name, value] : policy_.metrics(log_probs_, positions_)) add(name, value);
    for (const auto& [name, value] : value_.metrics(values_)) add(name, value);
    add("policy/entropy_avg", entropy_ / counted_);
    return all;
  }

 private:
  class Terms final : public kernels::TargetLoss {
   public:
    Terms(const PpoBatchLoss& loss, size_t first) : loss_(loss), first_(first) {}
    kernels::TokenTerm term(size_t target, double log_prob, double) const override {
      // rounded, as the log-probabilities before: those of equal weights then have no difference
      const double rounded = static_cast<double>(static_cast<float>(log_prob));
      const loss::PpoTerm t = loss_.policy_.term(first_ + target, rounded);
      return {t.loss / loss_.scale_.accumulation, t.by / loss_.scale_.accumulation};
    }
    bool by_entropy() const override { return false; }

   private:
    const PpoBatchLoss& loss_;
    const size_t first_;
  };

  Share policy_share(const model::Output& output, const MicroBatch& part) {
    const tensor::Stage stage("loss");
    const kernels::HeadOptions options = causal_.options(output.head);
    terms_ = std::make_unique<Terms>(*this, log_probs_.size());
    std::vector<kernels::TokenValues> values;
    const at::Tensor loss = kernels::head_loss(
        output.hidden, *output.head.weight, part.targets.tokens,
        {.kind = kernels::TokenFormula::Kind::given, .given = terms_.get()}, options, &values);
    for (const kernels::TokenValues& own : values)
      log_probs_.push_back(static_cast<double>(static_cast<float>(own.log_prob)));
    add_entropies(output, part, values, options);
    return {loss.item<float>(), loss};
  }

  // Adds those of targets, and of tokens that predict no target.
  void add_entropies(const model::Output& output, const MicroBatch& part,
                     const std::vector<kernels::TokenValues>& values, const kernels::HeadOptions& options) {
    const at::NoGradGuard no_graph;
    const auto count = [&](int64_t row) {
      return static_cast<double>(counts_[static_cast<size_t>(part.first + row)]);
    };
    const auto add = [&](int32_t row, double entropy) {
      entropy_ += count(row) * entropy;
      counted_ += count(row);
    };
    const std::vector<int32_t>& rows = part.targets.tokens.rows;
    for (size_t i = 0; i < rows.size(); ++i) add(rows[i], values[i].entropy);
    kernels::HeadTargets others;
    for (int32_t row = 0, next = 0; row < part.input_ids.numel(); ++row) {
      const bool target = next < std::ssize(rows) && rows[static_cast<size_t>(next)] == row;
      if (target) ++next;
      if (!target && count(row) > 0) others.rows.push_back(row);
    }
    if (others.rows.empty()) return;
    others.tokens.resize(others.rows.size(), 0);
    const auto found = kernels::head_values(output.hidden, *output.head.weight, others, options);
    for (size_t i = 0; i < found.size(); ++i) add(others.rows[i], found[i].entropy);
  }

  Share both_shares(const model::Output& output, const MicroBatch& part) {
    const Share policy = policy_share(output, part), value = value_share(output, part);
    return {policy.value + value.value, policy.graph + value.graph};
  }

  Share value_share(const model::Output& output, const MicroBatch& part) {
    const size_t first = values_.size();
    std::vector<int32_t> rows;
    for (size_t i = first; i < states_.size() && states_[i] - part.first < part.input_ids.numel(); ++i)
      rows.push_back(static_cast<int32_t>(states_[i] - part.first));
    const tensor::Stage stage("loss");
    const at::Tensor values = value_source_.at(output, rows).contiguous();
    at::Tensor slopes = at::empty({std::ssize(rows)}, at::kFloat);
    double loss = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      values_.push_back(static_cast<double>(values.data_ptr<float>()[i]));
      const loss::PpoTerm term = value_.term(first + i, values_.back());
      loss += term.loss / scale_.accumulation;
      slopes.data_ptr<float>()[i] = static_cast<float>(term.by / scale_.accumulation);
    }
    return {static_cast<float>(loss), (values * slopes).sum()};
  }

  const Causal& causal_;
  const Values& value_source_;
  const PpoScale scale_;
  const std::vector<float>& counts_;  // by token
  const size_t positions_;            // of the padded micro-batch
  const std::vector<double> old_, advantages_;
  std::vector<int64_t> states_;  // tokens that have a value
  std::vector<double> old_values_, returns_;
  const loss::PpoPolicy policy_;
  loss::PpoValue value_;
  std::unique_ptr<Terms> terms_;            // of the part, whose graph refers to them
  std::vector<double> log_probs_, values_;  // of the parts so far
  double entropy_ = 0, counted_ = 0;
};

}  // namespace

std::unique_ptr<BatchLoss> ppo_loss(const Causal& policy, const Values& values,
                                    const config::OnlineArguments& arguments, const MicroBatch& batch,
                                    const PpoScale& scale) {
  return std::make_unique<PpoBatchLoss>(policy, values, arguments, batch, scale);
}

}  // namespace trl::train
