// Elementwise optimizers over all parameters in one pass: value, gradient and state are read and written
// once, in pieces that do not depend on the number of threads. Off the fused path: one parameter after the
// other.
#include "kernels/path.h"
#include "optim/norm.h"
#include "optim/plain.h"
#include "optim/rules.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/parallel.h"

namespace trl::optim {

namespace {

std::vector<int64_t> counts_of(const std::vector<Parameter*>& parameters) {
  std::vector<int64_t> counts;
  for (const Parameter* p : parameters) counts.push_back(p->count());
  return counts;
}

constexpr size_t kPagedPieces = 128;  // 16 MiB of a float32 state

class Elementwise final : public Optimizer {
 public:
  Elementwise(std::vector<Parameter*> parameters, Rule rule, const Common& common)
      : Optimizer(std::move(parameters)),
        pieces_(pieces_of(counts_of(parameters_))),
        rule_(std::move(rule)),
        common_(common),
        states_(parameters_, rule_.state, rule_.initial, common_.states) {}

  std::vector<StateTensor> state() const override {
    std::vector<StateTensor> state;
    for (size_t p = 0; p < parameters_.size(); ++p) states_.append(p, parameters_[p]->name, state);
    return state;
  }

 private:
  void update(size_t p, double learning_rate, double grad_scale) override {
    const auto of_other = [p](const Piece& piece) { return piece.tensor < p; };
    const auto begin = std::partition_point(pieces_.begin(), pieces_.end(), of_other);
    const auto end =
        std::find_if(begin, pieces_.end(), [p](const Piece& piece) { return piece.tensor != p; });
    update_pieces({begin, end}, p, 1, learning_rate, grad_scale);
  }

  void update_all(double learning_rate, double grad_scale) override {
    update_pieces(pieces_, 0, parameters_.size(), learning_rate, grad_scale);
  }

  // pieces: all pieces of the `count` parameters from `first` on.
  void update_pieces(std::span<const Piece> pieces, size_t first, size_t count, double learning_rate,
                     double grad_scale) {
    if (rule_.maximize) grad_scale = -grad_scale;
    std::vector<tensor::Writing> values;
    for (size_t p = first; p < first + count; ++p) values.push_back(parameters_[p]->write());
    const Update constants = rule_.at(steps_, learning_rate);
    if (count > 0 && !kernels::fused(parameters_[first]->device())) {
      for (size_t p = first; p < first + count; ++p) {
        plain::Weights weights = plain_weights(p, values[p - first], grad_scale);
        std::visit([&](const auto& step) { plain::update(weights, step); }, constants);
        states_.release(p, 0, parameters_[p]->count());
      }
      return states_.check();
    }
    std::vector<Slice> slices;
    for (size_t p = first; p < first + count; ++p) slices.push_back(slice(p, values[p - first], grad_scale));
    // States in a file are updated and released a few pieces at a time.
    const size_t together = states_.paged() ? kPagedPieces : std::max<size_t>(pieces.size(), 1);
    for (size_t begin = 0; begin < pieces.size(); begin += together) {
      const std::span<const Piece> part = pieces.subspan(begin, std::min(together, pieces.size() - begin));
      const tensor::MappedPages resident(base::MemoryKind::optimizer, paged_bytes(part));
      each_piece(part, [&](const Piece& piece) {
        Slice slice = part_of(slices[piece.tensor - first], piece.begin, piece.count);
        if (slice.stochastic) slice.key = key(piece.tensor, piece.begin);
        std::visit([&](const auto& step) { optim::update(slice, step); }, constants);
      });
      release(part);
    }
    states_.check();
  }

  int64_t paged_bytes(std::span<const Piece> pieces) const {
    int64_t bytes = 0;
    for (const Piece& piece : pieces) bytes += states_.paged_bytes(piece.tensor, piece.count);
    return bytes;
  }

  void release(std::span<const Piece> pieces) const {
    for (size_t i = 0; i < pieces.size();) {  // all pieces of one parameter together
      const Piece& first = pieces[i];
      int64_t count = 0;
      for (; i < pieces.size() && pieces[i].tensor == first.tensor; ++i) count += pieces[i].count;
      states_.release(first.tensor, first.begin, count);
    }
  }

  template <typename Body>
  static void each_piece(std::span<const Piece> pieces, const Body& body) {
    tensor::parallel_for(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(pieces[static_cast<size_t>(i)]);
    });
  }

  base::CounterKey key(size_t p, int64_t begin) const {
    return base::counter_key({common_.seed, static_cast<uint64_t>(steps_), p, static_cast<uint64_t>(begin)});
  }

  plain::Weights plain_weights(size_t p, const tensor::Writing& values, double grad_scale) const {
    plain::Weights weights = plain::weights_of(*parameters_[p], values, grad_scale, common_);
    for (size_t i = 0; i < states_.count(); ++i) weights.state[i] = states_.of(p, i);
    if (!common_.stochastic_rounding || weights.value.scalar_type() != at::kBFloat16) return weights;
    weights.keys.piece = kPieceElements;
    for (int64_t begin = 0; begin < weights.value.numel(); begin += kPieceElements)
      weights.keys.keys.push_back(key(p, begin));
    return weights;
  }

  Slice slice(size_t p, const tensor::Writing& values, double grad_scale) const {
    Slice slice = slice_of(*parameters_[p], values, grad_scale, common_);
    for (size_t i = 0; i < states_.count(); ++i) slice.state[i] = states_.of(p, i).span();
    return slice;
  }

  const std::vector<Piece> pieces_;
  const Rule rule_;
  const Common common_;
  const States states_;
};

}  // namespace

std::unique_ptr<Optimizer> make_elementwise(std::vector<Parameter*> parameters, Rule rule,
                                            const Common& common) {
  return std::make_unique<Elementwise>(std::move(parameters), std::move(rule), common);
}

}  // namespace trl::optim
