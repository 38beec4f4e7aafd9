// Biases of adapters, and the magnitudes of DoRA, which scale the outputs of projections.
#include <array>

#include "kernels/linear/low_rank.h"
#include "kernels/linear/merge.h"

namespace trl::kernels {

namespace {

at::Tensor bias_of(const Projection& p) {
  return p.bias != nullptr ? at::Tensor(*p.bias->read()) : at::Tensor();
}

constexpr int64_t kColumns = 64;  // columns that one thread takes at a time

using Piece = std::array<float, kColumns>;

// Calls body(first column, count, their bias) for pieces of the columns, each on one thread.
template <typename Body>
void each_piece(int64_t width, const at::Tensor& bias, const Body& body) {
  tensor::parallel_for((width + kColumns - 1) / kColumns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin * kColumns; first < std::min(end * kColumns, width); first += kColumns) {
      const int64_t count = std::min(width - first, kColumns);
      Piece own{};
      if (bias.defined()) cpu().convert(at_byte(bias, first), type_of(bias), own.data(), Type::f32, count);
      body(first, count, own);
    }
  });
}

// Multiplies y - bias by the gain, column by column, in y's type; a gain of 1 leaves every bit of y. gain:
// float32 [out]; bias: of any type, or undefined.
at::Tensor with_gain(const at::Tensor& y, const at::Tensor& gain, const at::Tensor& bias) {
  at::Tensor scaled = tensor::empty_like(y, MemoryKind::activations);
  const int64_t width = y.size(1);
  each_piece(width, bias, [&](int64_t first, int64_t count, const Piece& own) {
    Piece piece;
    const float* const factor = gain.data_ptr<float>() + first;
    for (int64_t r = 0; r < y.size(0); ++r) {
      cpu().convert(at_byte(y, r * width + first), type_of(y), piece.data(), Type::f32, count);
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(i);
        piece[at] += (factor[i] - 1) * (piece[at] - own[at]);
      }
      cpu().convert(piece.data(), Type::f32, at_byte(scaled, r * width + first), type_of(y), count);
    }
  });
  return scaled;
}

// The sums of the columns of dy (y - bias): float32 [out], the gradient of the gain.
at::Tensor gain_gradient(const at::Tensor& dy, const at::Tensor& y, const at::Tensor& bias) {
  const int64_t width = y.size(1);
  at::Tensor sums = tensor::empty({width}, at::kFloat, MemoryKind::workspace);
  each_piece(width, bias, [&](int64_t first, int64_t count, const Piece& own) {
    Piece piece, d_piece;
    std::array<double, kColumns> sum{};
    for (int64_t r = 0; r < y.size(0); ++r) {
      cpu().convert(at_byte(y, r * width + first), type_of(y), piece.data(), Type::f32, count);
      cpu().convert(at_byte(dy, r * width + first), type_of(dy), d_piece.data(), Type::f32, count);
      for (size_t i = 0; i < static_cast<size_t>(count); ++i)
        sum[i] += double{d_piece[i]} * (double{piece[i]} - own[i]);
    }
    for (int64_t i = 0; i < count; ++i)
      sums.data_ptr<float>()[first + i] = static_cast<float>(sum[static_cast<size_t>(i)]);
  });
  return sums;
}

}  // namespace

void LowRankTerms::add_biases_and_magnitudes(tensor_list& outputs, tensor_list* kept) {
  for (Term& term : terms_) {
    const LowRank& factors = term.factors();
    at::Tensor& y = outputs[term.output];
    if (factors.bias != nullptr) add_in_place(y, scaled(*factors.bias, factors.scale, at::kFloat));
    if (factors.magnitude == nullptr) continue;
    term.norms = row_norms(term.projection);
    if (kept != nullptr) kept->push_back(y);
    y = with_gain(y, gain(term), bias_of(term.projection));
  }
}

at::Tensor LowRankTerms::gain(const Term& term) const {
  at::Tensor values = scaled(*term.factors().magnitude, 1, at::kFloat).clone();
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<float>()[i] /= term.norms.data_ptr<float>()[i];
  return values;
}

void LowRankTerms::backward_of_magnitudes(tensor_list& d_outputs, at::ArrayRef<at::Tensor> kept) {
  size_t place = 1 + terms_.size();
  for (Term& term : terms_) {
    if (term.factors().magnitude == nullptr) continue;
    const at::Tensor& y = kept[place++];
    at::Tensor& dy = d_outputs[term.output];
    if (!dy.defined()) continue;
    term.magnitude.add([&](at::Tensor& gradient) {
      add_in_pieces(dy.size(0), gradient, [&](int64_t first, int64_t count, at::Tensor& sum) {
        const at::Tensor d_gain =
            gain_gradient(dy.narrow(0, first, count), y.narrow(0, first, count), bias_of(term.projection));
        for (int64_t i = 0; i < d_gain.numel(); ++i)
          d_gain.data_ptr<float>()[i] /= term.norms.data_ptr<float>()[i];
        add_in_place(sum, d_gain);
      });
    });
    dy = with_gain(dy, gain(term), {});
  }
}

}  // namespace trl::kernels
