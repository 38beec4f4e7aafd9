// The language-modelling head with its loss, by tiles of rows: the logits of one tile with their sums, and
// from them the gradients of the rows and of the head, before the next tile is made. Where several tiles add
// to a bfloat16 gradient of the head, each element has one more byte until the last tile (or, where others
// add to it as well, until they have: tensor::Split), so that the sum is exact to 2^-16 instead of 2^-8.
#include "kernels/gemm.h"
#include "kernels/head_rows.h"
#include "kernels/op.h"
#include "kernels/plain.h"
#include "kernels/weight_product.h"

namespace trl::kernels {

namespace {

// Parts of the vocabulary whose sums, and whose shares of the gradient of the rows, are joined in their
// order: as many whatever the number of threads.
constexpr int64_t kParts = 64, kShares = 8;
constexpr int64_t kDecodedRows = 4 * kHeadBlock;  // of an encoded head, at once
// Of logits, shares and operands; what threads pack for themselves comes to it.
constexpr int64_t kWorkBytes = int64_t{58} << 20;

// Rows of a tile. As many as fit, because each tile reads the head twice and its gradient once. (The other
// way, parts of the vocabulary with all rows, computes all logits twice: a third more arithmetic. That the
// reading costs less from some 100 rows on is an estimate.)
int64_t tile_rows(const HeadOptions& options, int64_t count, int64_t vocab, int64_t width) {
  if (options.tile_rows > 0) return std::min(count, options.tile_rows);
  constexpr int64_t kUnit = 32;
  const auto size = static_cast<int64_t>(c10::elementSize(options.compute));
  const int64_t row = vocab * size + width * (3 * size + kShares * 4);
  const int64_t most = std::max(kUnit, kWorkBytes / row);
  const int64_t tiles = (count + most - 1) / most;
  const int64_t even = (count + tiles - 1) / tiles;
  return std::min(count, round_up(even, kUnit) <= most ? round_up(even, kUnit) : even);
}

// The rows that have a target.
std::vector<int64_t> target_rows(const at::Tensor& targets, const Parameter& head) {
  std::vector<int64_t> rows;
  const int32_t* const target = targets.data_ptr<int32_t>();
  for (int64_t r = 0; r < targets.size(0); ++r) {
    if (target[r] == kIgnored) continue;
    check_target(head, target[r], r);
    rows.push_back(r);
  }
  return rows;
}

struct RowLoss {
  double nll, entropy, loss;
  double coefficient;  // of the gradient
};

// The loss is nll, or with smoothing (1 - smoothing) nll + smoothing * the mean of -log p over the
// vocabulary, or with dft nll times p(target) as a constant.
RowLoss row_loss(const HeadStats& s, double target, double vocab, const HeadOptions& options) {
  const double log_sum = std::log(s.sum), top = static_cast<double>(s.top);
  RowLoss row{log_sum - (target - top), log_sum - s.weighted / s.sum, 0, 1};
  row.loss = row.nll;
  if (options.dft) {
    row.coefficient = std::exp(-row.nll);
    row.loss *= row.coefficient;
  }
  if (options.smoothing > 0) {
    const double mean = log_sum - (s.total / vocab - top);
    row.loss = (1 - options.smoothing) * row.nll + options.smoothing * mean;
  }
  return row;
}

class Sweep {
 public:
  // d_hidden: [rows, width], zero; d_head, d_own: as the head and its own rows, added to. Undefined: no
  // gradient of that.
  Sweep(const at::Tensor& hidden, Parameter& head, const at::Tensor& targets, double loss_scale,
        const HeadOptions& options, HeadSums& sums, const at::Tensor& d_hidden, const tensor::Split& d_head,
        const at::Tensor& d_own)
      : hidden_(hidden),
        patched_(own_rows(options) ? with_own_rows(head, *options.own_rows, options.compute) : nullptr),
        encoded_(patched_ ? patched_.get() : head.encoded()),
        reading_(encoded_ == nullptr ? std::optional(head.read_either(options.compute, &convert))
                                     : std::nullopt),
        head_(reading_ ? **reading_ : at::Tensor()),
        vocab_(head.size(0)),
        target_(targets.data_ptr<int32_t>()),
        loss_scale_(loss_scale),
        options_(options),
        sums_(sums),
        d_hidden_(d_hidden),
        d_head_(d_head.high),
        stays_split_(d_head.low.defined()),
        d_own_(d_own),
        rows_(target_rows(targets, head)),
        low_(d_head.low) {}

  void run() {
    const tensor::Timed timed(tensor::Part::head);
    sums_.log_probs.assign(options_.log_probs ? static_cast<size_t>(hidden_.size(0)) : 0, 0.0f);
    const auto count = static_cast<int64_t>(rows_.size());
    if (count == 0) return;
    const int64_t rows = tile_rows(options_, count, vocab(), width());
    const auto workspace = [](at::IntArrayRef sizes, at::ScalarType type) {
      return tensor::empty(sizes, type, MemoryKind::workspace);
    };
    const HeadBytes bytes = cpu().head_bytes(tile(rows));
    work_floats_ = bytes.work / 4;
    if (encoded_ != nullptr) work_floats_ += kDecodedRows * width();
    logits_ = workspace({vocab(), round_up(rows, 16)}, options_.compute);
    operand_ = workspace({rows, width()}, options_.compute);
    packed_ = workspace({bytes.packed / 4}, at::kFloat);
    if (d_hidden_.defined()) shares_ = workspace({kShares, rows, round_up(width(), 16)}, at::kFloat);
    if (d_head_.defined() && d_head_.scalar_type() == at::kBFloat16 && rows < count && !stays_split_)
      low_ = workspace({vocab(), width()}, at::kByte);
    for (int64_t first = 0; first < count; first += rows) {
      run_tile(rows_.data() + first, std::min(rows, count - first));
    }
  }

 private:
  int64_t vocab() const { return vocab_; }
  int64_t width() const { return hidden_.size(1); }

  HeadTile tile(int64_t rows) const {
    HeadTile tile{};
    tile.rows = rows;
    tile.width = width();
    tile.vocab = vocab();
    tile.pitch = round_up(rows, 16);
    tile.type = type_of(options_.compute);
    if (encoded_ == nullptr) tile.weight = head_.data_ptr();
    tile.weight_type = encoded_ == nullptr ? type_of(head_) : tile.type;
    tile.scale = static_cast<float>(options_.scale);
    tile.softcap = static_cast<float>(options_.softcap);
    tile.stopped = base::stopped;
    if (d_head_.defined()) {
      tile.grad = d_head_.data_ptr();
      tile.grad_type = type_of(d_head_);
    }
    if (packed_.defined()) {
      tile.packed = packed_.data_ptr<float>();
      tile.logits = logits_.data_ptr();
    }
    return tile;
  }

  // body(part, begin, end, work): the vocabulary in `parts` of whole blocks.
  template <typename Body>
  void each_part(int64_t parts, const Body& body) const {
    const int64_t step = round_up((vocab() + parts - 1) / parts, kHeadBlock);
    each_with_work((vocab() + step - 1) / step, work_floats_, [&](int64_t part, float* work) {
      body(part, part * step, std::min(vocab(), (part + 1) * step), work);
    });
  }

  // body(tile, from, to, work) for the rows [begin, end) of the head: all at once, or of an encoded one as
  // many as are decoded at a time, into the work.
  template <typename Body>
  void each_piece(const HeadTile& whole, int64_t begin, int64_t end, float* work, const Body& body) const {
    if (encoded_ == nullptr) return body(whole, begin, end, work);
    HeadTile tile = whole;
    tile.weight = work;
    for (int64_t from = begin; from < end; from += kDecodedRows) {
      const int64_t rows = std::min(kDecodedRows, end - from);
      encoded_->decode({from, rows, 0, width()}, scalar_type(tile.weight_type), work, width());
      tile.weight_row = from;
      body(tile, from, from + rows, work + kDecodedRows * width());
    }
  }

  // row: where the rows of this tile lie in hidden
  void run_tile(const int64_t* row, int64_t rows) {
    const HeadTile tile = this->tile(rows);
    note(rows);
    tensor::parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        cpu().convert(at_byte(hidden_, row[i] * width()), type_of(hidden_), at_byte(operand_, i * width()),
                      tile.type, width());
      }
    });
    each_with_work(1, work_floats_,
                   [&](int64_t, float* work) { cpu().head_pack(tile, operand_.data_ptr(), work); });
    std::vector<HeadStats> stats(static_cast<size_t>(kParts * rows));
    each_part(kParts, [&](int64_t part, int64_t begin, int64_t end, float* work) {
      each_piece(tile, begin, end, work, [&](const HeadTile& piece, int64_t from, int64_t to, float* rest) {
        cpu().head_logits(piece, from, to, stats.data() + part * rows, rest);
      });
    });
    for (int64_t part = 1; part < kParts; ++part) {
      for (int64_t i = 0; i < rows; ++i) {
        join(stats[static_cast<size_t>(i)], stats[static_cast<size_t>(part * rows + i)]);
      }
    }
    const std::vector<RowLoss> losses = count_rows(tile, row, stats.data());
    if (d_hidden_.defined() || d_head_.defined()) gradient(tile, row, stats.data(), losses);
  }

  // Logits, and from them the gradients of the rows and of the head.
  void note(int64_t rows) const {
    tensor::Rehearsal* const rehearsal = tensor::Rehearsal::current();
    if (rehearsal == nullptr) return;
    const double products = 1.0 + (d_hidden_.defined() ? 1 : 0) + (d_head_.defined() ? 1 : 0);
    rehearsal->note({tensor::Job::head,
                     {},
                     rows,
                     vocab(),
                     width(),
                     static_cast<int64_t>(c10::elementSize(options_.compute))},
                    2.0 * products * static_cast<double>(rows * vocab()) * static_cast<double>(width()),
                    products);
  }

  std::vector<RowLoss> count_rows(const HeadTile& tile, const int64_t* row, const HeadStats* stats) {
    std::vector<RowLoss> losses;
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int64_t target = target_[row[i]];
      float logit;
      cpu().convert(at_byte(logits_, target * tile.pitch + i), tile.type, &logit, Type::f32, 1);
      losses.push_back(
          row_loss(stats[i], static_cast<double>(logit), static_cast<double>(vocab()), options_));
      const RowLoss& loss = losses.back();
      sums_.loss += loss.loss;
      sums_.nll += loss.nll;
      sums_.entropy += loss.entropy;
      sums_.correct += stats[i].best == target;
      ++sums_.count;
      if (options_.log_probs) sums_.log_probs[static_cast<size_t>(row[i])] = static_cast<float>(-loss.nll);
    }
    return losses;
  }

  void gradient(HeadTile tile, const int64_t* row, const HeadStats* stats,
                const std::vector<RowLoss>& losses) {
    if (low_.defined()) tile.low = low_.data_ptr<uint8_t>();
    tile.low_from = stays_split_ || row != rows_.data();
    tile.low_to = stays_split_ || row + tile.rows != rows_.data() + rows_.size();
    const auto pitch = static_cast<size_t>(tile.pitch);
    std::vector<float> top(pitch), scale(pitch), spread(pitch), own(pitch);
    std::vector<int64_t> target(pitch);
    for (size_t i = 0; i < losses.size(); ++i) {
      const double coefficient = loss_scale_ * losses[i].coefficient * options_.scale;
      top[i] = stats[i].top;
      scale[i] = static_cast<float>(coefficient / stats[i].sum);
      spread[i] = static_cast<float>(coefficient * options_.smoothing / static_cast<double>(vocab()));
      own[i] = static_cast<float>(coefficient * (1 - options_.smoothing));
      target[i] = target_[row[i]];
    }
    const HeadFactors factors{top.data(), scale.data(), spread.data(), own.data(), target.data()};
    if (d_own_.defined()) add_own_gradient(tile, factors);
    const bool of_rows = shares_.defined();
    if (of_rows && tensor::Rehearsal::current() == nullptr)
      std::memset(shares_.data_ptr(), 0, static_cast<size_t>(shares_.nbytes()));
    each_part(kShares, [&](int64_t part, int64_t begin, int64_t end, float* work) {
      float* const share = of_rows ? shares_.data_ptr<float>() + part * shares_.stride(0) : nullptr;
      each_piece(tile, begin, end, work, [&](const HeadTile& piece, int64_t from, int64_t to, float* rest) {
        cpu().head_gradient(piece, factors, from, to, share, rest);
      });
    });
    if (!of_rows) return;
    const int64_t stride = shares_.size(2);
    tensor::parallel_for(tile.rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* const sum = shares_.data_ptr<float>() + i * stride;
        for (int64_t part = 1; part < kShares; ++part) {
          cpu().add(sum, Type::f32, sum + part * shares_.stride(0), Type::f32, 1, sum, width());
        }
        cpu().convert(sum, Type::f32, at_byte(d_hidden_, row[i] * width()), type_of(d_hidden_), width());
      }
    });
  }

  // As the kernel makes the gradient of a block of logits, for the adapter's rows alone.
  void add_own_gradient(const HeadTile& tile, const HeadFactors& f) {
    const std::vector<int64_t>& ids = options_.own_rows->ids;
    const at::Tensor d = tensor::empty({std::ssize(ids), tile.rows}, options_.compute, MemoryKind::workspace);
    tensor::parallel_for(std::ssize(ids), 1, [&](int64_t begin, int64_t end) {
      std::vector<float> g(static_cast<size_t>(tile.rows));
      for (int64_t j = begin; j < end; ++j) {
        const int64_t id = ids[static_cast<size_t>(j)];
        cpu().convert(at_byte(logits_, id * tile.pitch), tile.type, g.data(), Type::f32, tile.rows);
        for (int64_t i = 0; i < tile.rows; ++i) {
          float& value = g[static_cast<size_t>(i)];
          const float slope = tile.softcap > 0 ? 1 - (value / tile.softcap) * (value / tile.softcap) : 1.0f;
          value = std::exp(value - f.top[i]) * f.scale[i] - f.spread[i];
          if (f.target[i] == id) value -= f.own[i];
          value *= slope;
        }
        cpu().convert(g.data(), Type::f32, at_byte(d, j * tile.rows), tile.type, tile.rows);
      }
    });
    at::Tensor sum = d_own_;
    gemm(d, false, operand_.narrow(0, 0, tile.rows), false, sum, 1.0f);
  }

  const at::Tensor& hidden_;
  const std::unique_ptr<const tensor::Encoded> patched_;  // or null
  const tensor::Encoded* const encoded_;                  // in place of head_
  const std::optional<tensor::Reading> reading_;
  const at::Tensor head_;
  const int64_t vocab_;
  const int32_t* const target_;
  const double loss_scale_;
  const HeadOptions& options_;
  HeadSums& sums_;
  const at::Tensor d_hidden_, d_head_;
  const bool stays_split_;
  const at::Tensor d_own_;
  const std::vector<int64_t> rows_;
  at::Tensor low_;
  int64_t work_floats_ = 0;
  at::Tensor logits_, operand_, packed_, shares_;
};

// Computes the logits once more and adds to the gradient of the head.
using Later = std::function<void(const tensor::Split& d_head)>;

struct HeadUses {
  tensor::Use head, own_rows;
  Later later = {};  // where the gradient would lie about until the embedding's backward
};

// Rows of the head's gradient whose values are not read from the head: nothing is added to them.
class KeptRows {
 public:
  KeptRows(const tensor::Split& gradient, const OwnRows* own) {
    if (own == nullptr || !gradient.high.defined()) return;
    ids_ = at::tensor(at::IntArrayRef(own->ids), at::kLong);
    rows_.high = gradient.high.index_select(0, ids_);
    if (gradient.low.defined()) rows_.low = gradient.low.index_select(0, ids_);
  }
  void put_back(const tensor::Split& gradient) const {
    if (rows_.high.defined()) at::Tensor(gradient.high).index_copy_(0, ids_, rows_.high);
    if (rows_.low.defined()) at::Tensor(gradient.low).index_copy_(0, ids_, rows_.low);
  }

 private:
  at::Tensor ids_;
  tensor::Split rows_;
};

struct HeadLoss : torch::autograd::Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, Parameter* head,
                            const at::Tensor& targets, double loss_scale, const HeadOptions& options,
                            HeadSums* sums) {
    at::Tensor d_hidden = tensor::zeros(hidden.sizes(), hidden.scalar_type(), MemoryKind::activations);
    const OwnRows* const own = own_rows(options);
    tensor::Use use(*head), own_use = own != nullptr ? tensor::Use(*own->rows) : tensor::Use();
    const auto sweep = [&](const tensor::Split& d_head) {
      at::Tensor d_own;
      own_use.add([&](at::Tensor& gradient) { d_own = gradient; });
      const KeptRows kept(d_head, own);
      Sweep(hidden, *head, targets, loss_scale, options, *sums, d_hidden, d_head, d_own).run();
      kept.put_back(d_head);
    };
    const bool waits = own == nullptr && use.may_wait();
    if (use && !waits) {
      use.add_split(sweep);
    } else {
      sweep({});
    }
    Later later;
    if (waits) {
      later = [=, rows = hidden.detach()](const tensor::Split& d_head) {
        HeadSums again;
        Sweep(rows, *head, targets, loss_scale, options, again, {}, d_head, {}).run();
      };
    }
    keep(context, tensor::kHead, {d_hidden});
    keep(context, HeadUses{std::move(use), std::move(own_use), std::move(later)});
    return scalar(sums->loss * loss_scale);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    check_start_of_backward(grads[0]);
    auto& uses = kept<HeadUses>(context);
    if (uses.later) uses.head.add_later(std::exchange(uses.later, {}));
    uses.head.end();
    uses.own_rows.end();
    return {kept(context)[0], {}, {}, {}, {}, {}};
  }
};

void multiply_encoded(const at::Tensor& x, const tensor::Encoded& head, at::Tensor& logits) {
  if (x.size(0) <= kSkinnyRows) return skinny_products(x, SkinnyProduct{{}, {}, logits, &head});
  const Matrix rows{x.data_ptr(), x.scalar_type(), x.size(0), x.size(1), x.size(1)};
  gemm(PanelMultiplication{rows, panels(head, x.scalar_type(), true), logits.data_ptr(), at::kFloat,
                           logits.size(1)});
}

}  // namespace

at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const at::Tensor& targets, double loss_scale,
                     const HeadOptions& options, HeadSums* sums) {
  need(hidden.dim() == 2 && head.shape().size() == 2 && hidden.size(1) == head.size(1) &&
           targets.dim() == 1 && targets.size(0) == hidden.size(0) && targets.scalar_type() == at::kInt &&
           hidden.is_contiguous() && targets.is_contiguous(),
       "head_loss", "hidden [rows, width], a head [vocab, width] and int32 targets [rows] are needed");
  HeadSums own;
  HeadSums& out = sums != nullptr ? *sums : own;
  out = HeadSums{};
  if (!fused(hidden)) return plain::head_loss(hidden, head, targets, loss_scale, options, out);
  if (records(hidden)) return HeadLoss::apply(hidden, &head, targets, loss_scale, options, &out);
  Sweep(hidden, head, targets, loss_scale, options, out, {}, {}, {}).run();
  return scalar(out.loss * loss_scale);
}

at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options) {
  need(hidden.dim() == 2 && hidden.is_contiguous() && hidden.size(1) == head.size(1), "head_logits",
       "hidden [rows, width] is needed");
  if (!fused(hidden)) return plain::head_logits(hidden, head, options);
  at::Tensor logits = tensor::empty({hidden.size(0), head.size(0)}, at::kFloat, MemoryKind::workspace);
  const at::Tensor operand = converted(hidden, options.compute, MemoryKind::workspace);
  const auto patched = own_rows(options) ? with_own_rows(head, *options.own_rows, options.compute) : nullptr;
  if (const tensor::Encoded* const encoded = patched ? patched.get() : head.encoded()) {
    multiply_encoded(operand, *encoded, logits);
  } else if (hidden.size(0) <= kSkinnyRows && head.dtype() == options.compute) {
    skinny_products(operand, SkinnyProduct{*read(head, options.compute), {}, logits});
  } else {
    gemm(operand, false, *read(head, options.compute), true, logits);
  }
  if (options.scale == 1 && options.softcap == 0) return logits;
  parallel_elements(logits.numel(), [&](int64_t begin, int64_t end) {
    cpu().head_finish(logits.data_ptr<float>() + begin, static_cast<float>(options.scale),
                      static_cast<float>(options.softcap), end - begin);
  });
  return logits;
}

}  // namespace trl::kernels
