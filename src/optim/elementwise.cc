// Elementwise optimizers over all parameters in one pass: value, gradient and state are read and written
// once, in pieces that do not depend on the number of threads. Off the fused path: one parameter after the
// other.
#include "kernels/path.h"
#include "optim/flat.h"
#include "optim/pieces.h"
#include "optim/plain.h"
#include "optim/rules.h"
#include "tensor/parallel.h"

namespace trl::optim {

namespace {

class Elementwise final : public Optimizer {
 public:
  Elementwise(std::vector<Parameter*> parameters, Rule rule, const Common& common)
      : parameters_(trained(std::move(parameters))),
        pieces_(pieces_of(gradients(parameters_))),
        rule_(std::move(rule)),
        common_(common) {
    for (size_t i = 0; i < rule_.state.size(); ++i) {
      buffers_.push_back(flat_views(parameters_, base::MemoryKind::optimizer));
      if (rule_.initial == 0) continue;
      for (at::Tensor& view : buffers_.back().views) view.fill_(rule_.initial);
    }
  }

  int64_t steps() const override { return steps_; }
  void set_steps(int64_t steps) override { steps_ = steps; }

  std::vector<StateTensor> state() const override {
    std::vector<StateTensor> state;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      for (size_t i = 0; i < buffers_.size(); ++i) {
        state.push_back({parameters_[p]->name + "." + rule_.state[i], buffers_[i].views[p]});
      }
    }
    return state;
  }

  void step(double learning_rate, double grad_scale) override {
    ++steps_;
    if (rule_.maximize) grad_scale = -grad_scale;
    std::visit([&](const auto& constants) { step_with(constants, grad_scale); },
               rule_.at(steps_, learning_rate));
  }

 private:
  template <typename Constants>
  void step_with(const Constants& constants, double grad_scale) {
    std::vector<tensor::Writing> values;
    for (Parameter* p : parameters_) values.push_back(p->write());
    if (!parameters_.empty() && !kernels::fused(parameters_[0]->device())) {
      for (size_t p = 0; p < parameters_.size(); ++p) {
        plain::Weights weights = plain_weights(p, values[p], grad_scale);
        plain::update(weights, constants);
      }
      return;
    }
    tensor::parallel_for(static_cast<int64_t>(pieces_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Piece& piece = pieces_[static_cast<size_t>(i)];
        update(slice(piece, values[piece.tensor], grad_scale), constants);
      }
    });
  }

  base::CounterKey key(size_t p, int64_t begin) const {
    return base::counter_key({common_.seed, static_cast<uint64_t>(steps_), p, static_cast<uint64_t>(begin)});
  }

  plain::Weights plain_weights(size_t p, const tensor::Writing& values, double grad_scale) const {
    plain::Weights weights = plain::weights_of(*parameters_[p], values, grad_scale, common_);
    for (size_t i = 0; i < buffers_.size(); ++i) weights.state[i] = buffers_[i].views[p];
    if (!common_.stochastic_rounding) return weights;
    weights.keys.piece = kPieceElements;
    for (int64_t begin = 0; begin < weights.value.numel(); begin += kPieceElements)
      weights.keys.keys.push_back(key(p, begin));
    return weights;
  }

  Slice slice(const Piece& piece, const tensor::Writing& values, double grad_scale) const {
    const size_t p = piece.tensor;
    Slice slice = slice_of(*parameters_[p], values, grad_scale, common_);
    const int64_t offset = piece.begin * (slice.bf16 ? 2 : 4);
    slice.value = static_cast<char*>(slice.value) + offset;
    slice.grad = static_cast<const char*>(slice.grad) + offset;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      slice.state[i] = static_cast<char*>(buffers_[i].views[p].data_ptr()) + offset;
    }
    slice.count = piece.count;
    if (slice.stochastic) slice.key = key(p, piece.begin);
    return slice;
  }

  const std::vector<Parameter*> parameters_;
  const std::vector<Piece> pieces_;
  const Rule rule_;
  const Common common_;
  std::vector<FlatViews> buffers_;  // as rule_.state
  int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_elementwise(std::vector<Parameter*> parameters, Rule rule,
                                            const Common& common) {
  return std::make_unique<Elementwise>(std::move(parameters), std::move(rule), common);
}

}  // namespace trl::optim
