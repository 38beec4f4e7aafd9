// AdamW (Loshchilov & Hutter 2019) over all parameters in one pass: value, gradient and both moments are read
// and written once. Frozen parameters have no moments.
#include "optim/flat.h"
#include "optim/optim.h"
#include "optim/pieces.h"
#include "optim/update.h"
#include "tensor/parallel.h"

namespace trl::optim {

namespace {

std::vector<Parameter*> trainable(std::vector<Parameter*> parameters) {
  std::erase_if(parameters, [](const Parameter* p) { return !p->trainable(); });
  return parameters;
}

class Adamw final : public Optimizer {
 public:
  Adamw(std::vector<Parameter*> parameters, const config::TrainingArguments& arguments)
      : parameters_(trainable(std::move(parameters))),
        pieces_(pieces_of(parameters_)),
        m_(flat_views(parameters_, base::MemoryKind::optimizer)),
        v_(flat_views(parameters_, base::MemoryKind::optimizer)),
        beta1_(arguments.adam_beta1),
        beta2_(arguments.adam_beta2),
        epsilon_(arguments.adam_epsilon),
        weight_decay_(arguments.weight_decay) {}

  int64_t steps() const override { return steps_; }
  void set_steps(int64_t steps) override { steps_ = steps; }

  std::vector<StateTensor> state() const override {
    std::vector<StateTensor> state;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      state.push_back({parameters_[p]->name + ".exp_avg", m_.views[p]});
      state.push_back({parameters_[p]->name + ".exp_avg_sq", v_.views[p]});
    }
    return state;
  }

  void step(double learning_rate, double grad_scale) override {
    ++steps_;
    const double correction1 = 1.0 - std::pow(beta1_, static_cast<double>(steps_));
    const double correction2 = 1.0 - std::pow(beta2_, static_cast<double>(steps_));
    AdamwStep update;
    update.first = static_cast<float>(1.0 - beta1_);
    update.beta2 = static_cast<float>(beta2_);
    update.second = static_cast<float>(1.0 - beta2_);
    update.step_size = static_cast<float>(learning_rate / correction1);
    update.root_correction = static_cast<float>(std::sqrt(correction2));
    update.epsilon = static_cast<float>(epsilon_);
    update.grad_scale = static_cast<float>(grad_scale);
    tensor::parallel_for(static_cast<int64_t>(pieces_.size()), 1, [&](int64_t begin, int64_t end) {
      AdamwStep own = update;
      for (int64_t i = begin; i < end; ++i) {
        const Piece& piece = pieces_[static_cast<size_t>(i)];
        const double decay = parameters_[piece.parameter]->decay ? learning_rate * weight_decay_ : 0.0;
        own.keep = static_cast<float>(1.0 - decay);
        apply(piece, own);
      }
    });
  }

 private:
  void apply(const Piece& piece, const AdamwStep& update) const {
    if (parameters_[piece.parameter]->value.scalar_type() == at::kFloat) {
      run<float>(piece, update);
    } else {
      run<uint16_t>(piece, update);
    }
  }

  template <typename T>
  void run(const Piece& piece, const AdamwStep& update) const {
    const size_t p = piece.parameter;
    const auto at = [&](const at::Tensor& tensor) {
      return static_cast<T*>(tensor.data_ptr()) + piece.begin;
    };
    adamw(at(parameters_[p]->value), at(parameters_[p]->grad), at(m_.views[p]), at(v_.views[p]), piece.count,
          update);
  }

  const std::vector<Parameter*> parameters_;
  const std::vector<Piece> pieces_;
  const FlatViews m_, v_;
  const double beta1_, beta2_, epsilon_, weight_decay_;
  int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(std::vector<Parameter*> parameters,
                                      const config::TrainingArguments& arguments) {
  return std::make_unique<Adamw>(std::move(parameters), arguments);
}

}  // namespace trl::optim
