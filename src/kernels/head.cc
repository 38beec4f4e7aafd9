// The language-modelling head with its loss, by tiles of rows: logits of one tile, their statistics, and in
// the same place the gradient of them, which goes into grad hidden and the head's gradient before the next
// tile is made.
#include "kernels/gemm.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

constexpr int32_t kIgnored = -100;

// Of work memory: logits, and behind them a tile's rows, their gradient, a piece of the head in another type
// and oneDNN's scratch.
constexpr int64_t kLogitBytes = int64_t{58} << 20;
constexpr int64_t kPieceBytes = int64_t{2} << 20;

// Rows of a tile. Every row that fits is taken, because each tile reads the head twice and reads and writes
// its gradient once; a tile costs the more arithmetic than memory the more rows it has. (The other way,
// tiles of the vocabulary with all rows, computes all logits twice: a third more arithmetic.)
int64_t tile_rows(const HeadOptions& options, int64_t count, int64_t vocab) {
  if (options.tile_rows > 0) return std::min(count, options.tile_rows);
  constexpr int64_t kUnit = 16;
  const int64_t row = vocab * static_cast<int64_t>(c10::elementSize(options.compute));
  const int64_t most = std::max(kUnit, kLogitBytes / row / kUnit * kUnit);
  const int64_t tiles = (count + most - 1) / most;
  return std::min(count, ((count + tiles - 1) / tiles + kUnit - 1) / kUnit * kUnit);
}

// The rows that have a target.
std::vector<int64_t> target_rows(const at::Tensor& targets, const Parameter& head) {
  std::vector<int64_t> rows;
  const int32_t* const target = targets.data_ptr<int32_t>();
  for (int64_t r = 0; r < targets.size(0); ++r) {
    if (target[r] == kIgnored) continue;
    if (target[r] < 0 || target[r] >= head.value.size(0)) {
      fail(Status::invalid_argument, "target {} at position {}: {} has rows 0 to {}", target[r], r, head.name,
           head.value.size(0) - 1);
    }
    rows.push_back(r);
  }
  return rows;
}

// body(first row, rows of the head in the type of the product): all of them at once, or piece after piece in
// `buffer` when they have another type.
template <typename Body>
void each_piece(const at::Tensor& head, const at::Tensor& buffer, const Body& body) {
  if (!buffer.defined()) return body(int64_t{0}, head);
  for (int64_t first = 0; first < head.size(0); first += buffer.size(0)) {
    const int64_t rows = std::min(buffer.size(0), head.size(0) - first);
    const at::Tensor piece = buffer.narrow(0, 0, rows);
    convert(head.narrow(0, first, rows), piece);
    body(first, piece);
  }
}

class Sweep {
 public:
  // d_hidden: [rows, width], zero; undefined: no gradient.
  Sweep(const at::Tensor& hidden, Parameter& head, const at::Tensor& targets, float loss_scale,
        const HeadOptions& options, HeadSums& sums, const at::Tensor& d_hidden)
      : hidden_(hidden),
        head_(head),
        target_(targets.data_ptr<int32_t>()),
        options_(options),
        task_{0,           loss_scale,         static_cast<float>(options.smoothing),
              options.dft, d_hidden.defined(), static_cast<float>(options.softcap)},
        sums_(sums),
        d_hidden_(d_hidden),
        rows_(target_rows(targets, head)) {}

  void run() {
    const tensor::Timed timed(tensor::Part::head);
    sums_.log_probs.assign(options_.log_probs ? static_cast<size_t>(hidden_.size(0)) : 0, 0.0f);
    const auto count = static_cast<int64_t>(rows_.size());
    if (count == 0) return;
    const int64_t tile = tile_rows(options_, count, vocab());
    const auto workspace = [](at::IntArrayRef sizes, at::ScalarType type) {
      return tensor::empty(sizes, type, MemoryKind::workspace);
    };
    logits_ = workspace({tile, vocab()}, options_.compute);
    operand_ = workspace({tile, width()}, options_.compute);
    if (d_hidden_.defined()) d_rows_ = workspace({tile, width()}, hidden_.scalar_type());
    if (head_.value.scalar_type() != options_.compute) {
      const int64_t row = width() * static_cast<int64_t>(c10::elementSize(options_.compute));
      piece_ =
          workspace({std::min(vocab(), std::max<int64_t>(64, kPieceBytes / row)), width()}, options_.compute);
    }
    for (int64_t first = 0; first < count; first += tile) {
      run_tile(rows_.data() + first, std::min(tile, count - first));
    }
  }

 private:
  int64_t vocab() const { return head_.value.size(0); }
  int64_t width() const { return hidden_.size(1); }

  // row: where the rows of this tile lie in hidden
  void run_tile(const int64_t* row, int64_t rows) {
    const at::Tensor logits = logits_.narrow(0, 0, rows), operand = operand_.narrow(0, 0, rows);
    tensor::parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        cpu().convert(at_byte(hidden_, row[i] * width()), type_of(hidden_), at_byte(operand, i * width()),
                      type_of(operand), width());
      }
    });
    each_piece(head_.value, piece_, [&](int64_t first, const at::Tensor& weight) {
      at::Tensor part = logits.narrow(1, first, weight.size(0));
      gemm(operand, false, weight, true, part);
    });
    losses(row, rows, logits);
    if (!d_hidden_.defined()) return;
    at::Tensor d_rows = d_rows_.narrow(0, 0, rows);
    each_piece(head_.value, piece_, [&](int64_t first, const at::Tensor& weight) {
      gemm(logits.narrow(1, first, weight.size(0)), false, weight, false, d_rows, first > 0 ? 1.0f : 0.0f);
    });
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(at_byte(d_hidden_, row[i] * width()), at_byte(d_rows, i * width()),
                  static_cast<size_t>(width()) * d_rows.element_size());
    }
    if (head_.trainable()) gemm(logits, true, operand, false, head_.grad, 1.0f);
  }

  // Sums of each row; its logits become their gradient.
  void losses(const int64_t* row, int64_t rows, const at::Tensor& logits) {
    std::vector<HeadRow> results(static_cast<size_t>(rows));
    tensor::parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        HeadTask task = task_;
        task.target = target_[row[i]];
        results[static_cast<size_t>(i)] =
            cpu().head_row(at_byte(logits, i * vocab()), type_of(logits), vocab(), task);
      }
    });
    for (int64_t i = 0; i < rows; ++i) {
      const HeadRow& result = results[static_cast<size_t>(i)];
      sums_.loss += result.loss;
      sums_.nll += result.nll;
      sums_.entropy += result.entropy;
      sums_.correct += result.best == target_[row[i]];
      ++sums_.count;
      if (options_.log_probs) sums_.log_probs[static_cast<size_t>(row[i])] = static_cast<float>(-result.nll);
    }
  }

  const at::Tensor& hidden_;
  Parameter& head_;
  const int32_t* const target_;
  const HeadOptions& options_;
  const HeadTask task_;
  HeadSums& sums_;
  const at::Tensor d_hidden_;
  const std::vector<int64_t> rows_;
  at::Tensor logits_, operand_, d_rows_, piece_;
};

at::Tensor scalar(double value) {
  at::Tensor out = tensor::empty({}, at::kFloat, MemoryKind::activations);
  *out.data_ptr<float>() = static_cast<float>(value);
  return out;
}

struct HeadLoss : torch::autograd::Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, Parameter* head,
                            const at::Tensor& targets, double loss_scale, const HeadOptions& options,
                            HeadSums* sums) {
    at::Tensor d_hidden = tensor::zeros(hidden.sizes(), hidden.scalar_type(), MemoryKind::activations);
    Sweep(hidden, *head, targets, static_cast<float>(loss_scale), options, *sums, d_hidden).run();
    context->save_for_backward({d_hidden});
    return scalar(sums->loss * loss_scale);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    if (grads[0].item<float>() != 1.0f) {
      fail(Status::internal, "head_loss: backward got the gradient {} where it can only start (1)",
           grads[0].item<float>());
    }
    return {context->get_saved_variables()[0], {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const at::Tensor& targets, double loss_scale,
                     const HeadOptions& options, HeadSums* sums) {
  need(hidden.dim() == 2 && head.value.dim() == 2 && hidden.size(1) == head.value.size(1) &&
           targets.dim() == 1 && targets.size(0) == hidden.size(0) && targets.scalar_type() == at::kInt &&
           hidden.is_contiguous() && targets.is_contiguous() && head.value.is_contiguous(),
       "head_loss", "hidden [rows, width], a head [vocab, width] and int32 targets [rows] are needed");
  HeadSums own;
  HeadSums& out = sums != nullptr ? *sums : own;
  out = HeadSums{};
  if (records(hidden)) return HeadLoss::apply(hidden, &head, targets, loss_scale, options, &out);
  Sweep(hidden, head, targets, static_cast<float>(loss_scale), options, out, {}).run();
  return scalar(out.loss * loss_scale);
}

at::Tensor head_logits(const at::Tensor& hidden, const Parameter& head, at::ScalarType compute) {
  need(hidden.dim() == 2 && hidden.is_contiguous() && hidden.size(1) == head.value.size(1), "head_logits",
       "hidden [rows, width] is needed");
  at::Tensor logits = tensor::empty({hidden.size(0), head.value.size(0)}, at::kFloat, MemoryKind::workspace);
  const at::Tensor operand = converted(hidden, compute, MemoryKind::workspace);
  if (hidden.size(0) <= kSkinnyRows && head.value.scalar_type() == compute) {
    skinny_product(operand, head.value, logits);
  } else {
    gemm(operand, false, converted(head.value, compute, MemoryKind::workspace), true, logits);
  }
  return logits;
}

}  // namespace trl::kernels
