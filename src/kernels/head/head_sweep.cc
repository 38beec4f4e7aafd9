// If several tiles add to a bfloat16 gradient of the head, each element has one more byte until the last tile
// (or, if other uses add to it as well, until they have: tensor::Split), so that the sum is exact to 2^-16
// instead of 2^-8.
#include "kernels/head/head_sweep.h"

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/head/head.h"
#include "kernels/head/log_probability.h"

namespace trl::kernels {

namespace {

// Numbers of parts of the vocabulary whose sums, and whose shares of the gradient of the rows, are joined in
// order: the same for any number of threads.
constexpr int64_t kParts = 64, kShares = 8;
constexpr int64_t kDecodedRows = 4 * kHeadBlock;  // rows of an encoded head that are decoded at once
// Bytes for logits, shares and operands; the operands that threads pack for themselves are additional.
constexpr int64_t kWorkBytes = int64_t{58} << 20;

// Rows of a tile: as many as fit, because each tile reads the head twice and its gradient once. (The
// alternative, parts of the vocabulary with all rows, computes all logits twice: a third more arithmetic. It
// is an estimate that the reading costs less from some 100 rows on.)
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

TokenValues values_of(const HeadStats& s, float logit, int64_t token, int64_t vocab) {
  const double log_sum = std::log(s.sum), top = static_cast<double>(s.top);
  TokenValues v;
  v.log_prob = static_cast<double>(logit) - top - log_sum;
  v.mean_logit = s.total / static_cast<double>(vocab);
  v.mean_log_prob = v.mean_logit - top - log_sum;
  v.entropy = log_sum - s.weighted / s.sum;
  v.log_square = std::log(s.squares) - 2 * log_sum;
  v.best = s.best == token;
  return v;
}

at::Tensor workspace(at::IntArrayRef sizes, at::ScalarType type) {
  return tensor::empty(sizes, type, MemoryKind::workspace);
}

// Sorts by token, then row, and merges equal ones.
void put_in_order(std::vector<HeadTarget>& targets) {
  const auto place = [](const HeadTarget& t) { return std::pair(t.token, t.row); };
  std::ranges::stable_sort(targets,
                           [&](const HeadTarget& a, const HeadTarget& b) { return place(a) < place(b); });
  size_t count = 0;
  for (const HeadTarget& t : targets)
    if (count > 0 && place(targets[count - 1]) == place(t))
      targets[count - 1].own += t.own;
    else
      targets[count++] = t;
  targets.resize(count);
}

}  // namespace

// A tile with its rows' sums, and the results of the formula for it.
struct HeadSweep::Tile {
  HeadTile work;
  size_t first = 0;                                                  // index of its first row in rows_
  std::vector<double> by_probs = {}, by_mean = {}, by_entropy = {};  // [rows]: sums of the derivatives
  std::vector<HeadTarget> targets = {};
};

HeadSweep::HeadSweep(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                     const TokenFormula* formula, const HeadOptions& options, const HeadGradients& gradients)
    : hidden_(hidden),
      patched_(own_rows(options) ? with_own_rows(head, *options.own_rows, options.compute) : nullptr),
      encoded_(patched_ ? patched_.get() : head.encoded()),
      reading_(encoded_ == nullptr ? std::optional(head.read_either(options.compute, &convert))
                                   : std::nullopt),
      head_(reading_ ? **reading_ : at::Tensor()),
      vocab_(head.size(0)),
      targets_(targets),
      formula_(formula),
      options_(options),
      to_(gradients),
      stays_split_(to_.d_head.low.defined()),
      generated_(options.as_generated ? log_probabilities(hidden, head, targets, options)
                                      : std::vector<float>()),
      low_(to_.d_head.low) {
  for (size_t i = 0; i < targets.rows.size(); ++i) {
    if (!rows_.empty() && rows_.back() == targets.rows[i]) continue;
    rows_.push_back(targets.rows[i]);
    starts_.push_back(i);
  }
  starts_.push_back(targets.rows.size());
}

double HeadSweep::run(std::vector<TokenValues>* values) {
  const tensor::Timed timed(tensor::Part::head);
  if (values != nullptr) values->assign(targets_.rows.size(), {});
  const auto count = std::ssize(rows_);
  if (count == 0) return 0;
  const int64_t rows = tile_rows(options_, count, vocab(), width());
  const HeadBytes bytes = cpu().head_bytes(tile_of(rows));
  work_floats_ = bytes.work / 4;
  if (encoded_ != nullptr) work_floats_ += kDecodedRows * width();
  logits_ = workspace({vocab(), round_up(rows, 16)}, options_.compute);
  operand_ = workspace({rows, width()}, options_.compute);
  packed_ = workspace({bytes.packed / 4}, at::kFloat);
  if (to_.d_hidden.defined()) shares_ = workspace({kShares, rows, round_up(width(), 16)}, at::kFloat);
  const at::Tensor& d_head = to_.d_head.high;
  if (d_head.defined() && d_head.scalar_type() == at::kBFloat16 && rows < count && !stays_split_)
    low_ = workspace({vocab(), width()}, at::kByte);
  for (int64_t first = 0; first < count; first += rows)
    run_tile(static_cast<size_t>(first), std::min(rows, count - first), values);
  return sum_;
}

HeadTile HeadSweep::tile_of(int64_t rows) const {
  HeadTile tile{};
  tile.rows = rows;
  tile.width = width();
  tile.vocab = vocab();
  tile.pitch = round_up(rows, 16);
  tile.type = type_of(options_.compute);
  if (encoded_ == nullptr) tile.weight = head_.data_ptr();
  tile.weight_type = encoded_ == nullptr ? type_of(head_) : tile.type;
  tile.scale = static_cast<float>(logit_factor());
  tile.softcap = static_cast<float>(options_.softcap / options_.temperature);
  tile.stopped = base::stopped;
  if (to_.d_head.high.defined()) {
    tile.grad = to_.d_head.high.data_ptr();
    tile.grad_type = type_of(to_.d_head.high);
  }
  if (packed_.defined()) {
    tile.packed = packed_.data_ptr<float>();
    tile.logits = logits_.data_ptr();
  }
  return tile;
}

// Calls body(part, begin, end, work) for the vocabulary in `parts` parts of whole blocks.
template <typename Body>
void HeadSweep::each_part(int64_t parts, const Body& body) const {
  const int64_t step = round_up((vocab() + parts - 1) / parts, kHeadBlock);
  each_with_work((vocab() + step - 1) / step, work_floats_, [&](int64_t part, float* work) {
    body(part, part * step, std::min(vocab(), (part + 1) * step), work);
  });
}

// Calls body(tile, from, to, work) for the rows [begin, end) of the head: all at once, or for an encoded head
// those that are decoded into the work memory at a time.
template <typename Body>
void HeadSweep::each_piece(const HeadTile& whole, int64_t begin, int64_t end, float* work,
                           const Body& body) const {
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

void HeadSweep::note(int64_t rows) const {
  tensor::Rehearsal* const rehearsal = tensor::Rehearsal::current();
  if (rehearsal == nullptr) return;
  const double products = 1.0 + (generated_.empty() ? 0 : 1) + (to_.d_hidden.defined() ? 1 : 0) +
                          (to_.d_head.high.defined() ? 1 : 0);
  rehearsal->note({tensor::Job::head,
                   {},
                   rows,
                   vocab(),
                   width(),
                   static_cast<int64_t>(c10::elementSize(options_.compute))},
                  2.0 * products * static_cast<double>(rows * vocab()) * static_cast<double>(width()),
                  products);
}

void HeadSweep::run_tile(size_t first, int64_t rows, std::vector<TokenValues>* values) {
  Tile tile{tile_of(rows), first};
  note(rows);
  const int64_t* const row = rows_.data() + first;  // indices of this tile's rows in hidden
  tensor::parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      cpu().convert(at_byte(hidden_, row[i] * width()), type_of(hidden_), at_byte(operand_, i * width()),
                    tile.work.type, width());
  });
  each_with_work(1, work_floats_,
                 [&](int64_t, float* work) { cpu().head_pack(tile.work, operand_.data_ptr(), work); });
  sum_up(tile.work);
  take(tile, values);
  if (to_.any()) add_gradients(tile);
}

void HeadSweep::sum_up(const HeadTile& tile) {
  stats_.resize(static_cast<size_t>(kParts * tile.rows));
  const bool rehearsal = tensor::Rehearsal::current() != nullptr;
  if (!rehearsal) std::ranges::fill(stats_, HeadStats{});
  each_part(kParts, [&](int64_t part, int64_t begin, int64_t end, float* work) {
    each_piece(tile, begin, end, work, [&](const HeadTile& piece, int64_t from, int64_t to, float* rest) {
      cpu().head_logits(piece, from, to, stats_.data() + part * tile.rows, rest);
    });
  });
  for (int64_t part = 1; part < kParts && !rehearsal; ++part)
    for (int64_t i = 0; i < tile.rows; ++i)
      join(stats_[static_cast<size_t>(i)], stats_[static_cast<size_t>(part * tile.rows + i)]);
}

void HeadSweep::take(Tile& tile, std::vector<TokenValues>* values) {
  const auto rows = static_cast<size_t>(tile.work.rows);
  tile.by_probs.assign(rows, 0);
  tile.by_mean.assign(rows, 0);
  tile.by_entropy.assign(rows, 0);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t t = starts_[tile.first + i]; t < starts_[tile.first + i + 1]; ++t) {
      const int64_t token = targets_.tokens[t], at = token * tile.work.pitch + static_cast<int64_t>(i);
      float logit = 0;
      cpu().convert(at_byte(logits_, at), tile.work.type, &logit, Type::f32, 1);
      TokenValues value = values_of(stats_[i], logit, token, vocab());
      if (!generated_.empty()) value.log_prob = static_cast<double>(generated_[t]);
      if (values != nullptr) (*values)[t] = value;
      if (formula_ == nullptr) continue;
      const TokenTerm term = term_of(*formula_, t, value.log_prob, value.mean_log_prob, value.entropy);
      sum_ += term.loss;
      tile.by_probs[i] -= term.by_log_prob + term.by_mean_log_prob;
      tile.by_mean[i] -= term.by_mean_log_prob;
      tile.by_entropy[i] += term.by_entropy;
      tile.targets.push_back(
          {token, static_cast<int64_t>(i), -static_cast<float>(term.by_log_prob * logit_factor())});
    }
  }
}

// Gradients of the rows and of the head: the logits' gradients, block after block, times the head and times
// the rows.
void HeadSweep::add_gradients(Tile& tile) {
  put_in_order(tile.targets);
  HeadTile& work = tile.work;
  if (low_.defined()) work.low = low_.data_ptr<uint8_t>();
  work.low_from = stays_split_ || tile.first != 0;
  work.low_to = stays_split_ || tile.first + static_cast<size_t>(work.rows) != rows_.size();
  std::vector<float> top(static_cast<size_t>(work.pitch)), scale(top), spread(top), surprise(top);
  for (size_t i = 0; i < tile.by_probs.size(); ++i) {
    const HeadStats& s = stats_[i];
    // dH / dz = -p (log p + H), log p + H = z - top + (sum of e^(z - top) (top - z)) / (sum of e^(z - top))
    const double of_entropy = tile.by_entropy[i] * s.weighted / s.sum;
    top[i] = s.top;
    scale[i] = static_cast<float>((tile.by_probs[i] + of_entropy) * logit_factor() / s.sum);
    spread[i] = static_cast<float>(tile.by_mean[i] * logit_factor() / static_cast<double>(vocab()));
    surprise[i] = static_cast<float>(-tile.by_entropy[i] * logit_factor() / s.sum);
  }
  const HeadFactors factors{top.data(),          scale.data(),
                            spread.data(),       formula_->by_entropy() ? surprise.data() : nullptr,
                            tile.targets.data(), tile.targets.data() + tile.targets.size()};
  if (to_.d_own.defined()) add_own_gradient(tile, factors);
  const bool of_rows = shares_.defined();
  if (of_rows && tensor::Rehearsal::current() == nullptr)
    std::memset(shares_.data_ptr(), 0, static_cast<size_t>(shares_.nbytes()));
  each_part(kShares, [&](int64_t part, int64_t begin, int64_t end, float* memory) {
    float* const share = of_rows ? shares_.data_ptr<float>() + part * shares_.stride(0) : nullptr;
    each_piece(work, begin, end, memory, [&](const HeadTile& piece, int64_t from, int64_t to, float* rest) {
      cpu().head_gradient(piece, factors, from, to, share, rest);
    });
  });
  if (of_rows) add_rows(tile);
}

// Joins the shares of the rows' gradients.
void HeadSweep::add_rows(const Tile& tile) {
  const int64_t stride = shares_.size(2);
  const int64_t* const row = rows_.data() + tile.first;
  tensor::parallel_for(tile.work.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const sum = shares_.data_ptr<float>() + i * stride;
      for (int64_t part = 1; part < kShares; ++part)
        cpu().add(sum, Type::f32, sum + part * shares_.stride(0), Type::f32, 1, sum, width());
      cpu().convert(sum, Type::f32, at_byte(to_.d_hidden, row[i] * width()), type_of(to_.d_hidden), width());
    }
  });
}

// The same computation as in the kernel for the gradient of a block of logits, only for the adapter's rows.
void HeadSweep::add_own_gradient(const Tile& tile, const HeadFactors& f) {
  const std::vector<int64_t>& ids = options_.own_rows->ids;
  const int64_t rows = tile.work.rows;
  const float cap = tile.work.softcap;
  const at::Tensor d = workspace({std::ssize(ids), rows}, options_.compute);
  tensor::parallel_for(std::ssize(ids), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> g(static_cast<size_t>(rows)), slope(g.size(), 1.0f);
    for (int64_t j = begin; j < end; ++j) {
      const int64_t id = ids[static_cast<size_t>(j)];
      cpu().convert(at_byte(logits_, id * tile.work.pitch), tile.work.type, g.data(), Type::f32, rows);
      for (size_t i = 0; i < g.size(); ++i) {
        if (cap > 0) slope[i] = 1 - (g[i] / cap) * (g[i] / cap);
        const float d_top = g[i] - f.top[i], e = std::exp(d_top);
        g[i] = e * f.scale[i] - f.spread[i];
        if (f.surprise != nullptr && e != 0) g[i] += e * d_top * f.surprise[i];
      }
      for (const HeadTarget& t : tile.targets)
        if (t.token == id) g[static_cast<size_t>(t.row)] -= t.own;
      for (size_t i = 0; i < g.size(); ++i) g[i] *= slope[i];
      cpu().convert(g.data(), Type::f32, at_byte(d, j * rows), tile.work.type, rows);
    }
  });
  at::Tensor sum = to_.d_own;
  gemm(d, false, operand_.narrow(0, 0, rows), false, sum, 1.0f);
}

}  // namespace trl::kernels
