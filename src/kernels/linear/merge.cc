#include "kernels/linear/merge.h"

#include <cmath>

#include "kernels/backend.h"
#include "kernels/gemm/gemm.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

at::Tensor floats(Parameter& w, double scale = 1) {
  at::Tensor copy = tensor::empty(w.shape(), at::kFloat, MemoryKind::workspace);
  const tensor::Reading values = w.read();
  parallel_elements(copy.numel(), [&](int64_t begin, int64_t end) {
    cpu().scale(at_byte(*values, begin), type_of(*values), static_cast<float>(scale), at_byte(copy, begin),
                Type::f32, end - begin);
  });
  return copy;
}

// Reads rows [first, first + rows.size(0)) of the weight, in float32.
void read_rows(const at::Tensor& weight, bool transposed, int64_t first, const at::Tensor& rows) {
  const int64_t in = rows.size(1);
  tensor::parallel_for(rows.size(0), 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* const row = rows.data_ptr<float>() + r * in;
      if (!transposed) {
        cpu().convert(at_byte(weight, (first + r) * in), type_of(weight), row, Type::f32, in);
        continue;
      }
      for (int64_t i = 0; i < in; ++i) {
        const char* const element = at_byte(weight, i * weight.size(1) + first + r);
        cpu().convert(element, type_of(weight), row + i, Type::f32, 1);
      }
    }
  });
}

// Decodes rows, in the type that a reader of the whole weight gets.
void decode_rows(Parameter& w, int64_t first, const at::Tensor& rows) {
  const tensor::Encoded& values = *w.encoded();
  const int64_t in = rows.size(1);
  const at::Tensor numbers =
      w.dtype() == at::kFloat ? rows : tensor::empty(rows.sizes(), w.dtype(), MemoryKind::workspace);
  tensor::parallel_for(rows.size(0), 4, [&](int64_t begin, int64_t end) {
    values.decode({first + begin, end - begin, 0, in}, w.dtype(), at_byte(numbers, begin * in), in);
  });
  if (w.dtype() != at::kFloat) read_rows(numbers, false, 0, rows);
}

void write_norms(const at::Tensor& rows, float* norm) {
  const int64_t in = rows.size(1);
  tensor::parallel_for(rows.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      double sum = 0;
      const float* const row = rows.data_ptr<float>() + r * in;
      for (int64_t i = 0; i < in; ++i) sum += double{row[i]} * row[i];
      norm[r] = static_cast<float>(std::sqrt(sum));
    }
  });
}

void scale_rows(const at::Tensor& rows, const at::Tensor& factors) {
  const int64_t in = rows.size(1);
  tensor::parallel_for(rows.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* const row = rows.data_ptr<float>() + r * in;
      cpu().scale(row, Type::f32, factors.data_ptr<float>()[r], row, Type::f32, in);
    }
  });
}

// Writes these as rows [first, first + rows.size(0)) of the weight.
void write_rows(const at::Tensor& rows, bool transposed, int64_t first, const at::Tensor& weight) {
  const int64_t in = rows.size(1);
  tensor::parallel_for(rows.size(0), 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* const row = rows.data_ptr<float>() + r * in;
      if (!transposed) {
        cpu().convert(row, Type::f32, at_byte(weight, (first + r) * in), type_of(weight), in);
        continue;
      }
      for (int64_t i = 0; i < in; ++i) {
        char* const element = at_byte(weight, i * weight.size(1) + first + r);
        cpu().convert(row + i, Type::f32, element, type_of(weight), 1);
      }
    }
  });
}

// Calls body(first, rows) for blocks of the rows of weight + scale b a, in float32: the weight is never
// copied whole.
template <typename Body>
void each_block(const Projection& p, const Body& body) {
  constexpr int64_t kBlock = 1 << 20;  // elements
  const int64_t in = p.in(), out = p.out();
  const at::Tensor a = floats(*p.low_rank.a), b = floats(*p.low_rank.b, p.low_rank.scale);
  const tensor::Encoded* const encoded = p.weight->encoded();
  const at::Tensor weight = encoded == nullptr ? at::Tensor(*p.weight->read()) : at::Tensor();
  const int64_t most = std::clamp<int64_t>(kBlock / in, 1, out);
  const at::Tensor block = tensor::empty({most, in}, at::kFloat, MemoryKind::workspace);
  for (int64_t first = 0; first < out; first += most) {
    at::Tensor rows = block.narrow(0, 0, std::min(most, out - first));
    if (encoded != nullptr)
      decode_rows(*p.weight, first, rows);
    else
      read_rows(weight, p.transposed, first, rows);
    gemm(b.narrow(0, first, rows.size(0)), false, a, false, rows, 1.0f);
    body(first, rows);
  }
}

}  // namespace

namespace fused_ops {

at::Tensor row_norms(const Projection& p) {
  at::Tensor norms = tensor::empty({p.out()}, at::kFloat, MemoryKind::activations);
  each_block(
      p, [&](int64_t first, const at::Tensor& rows) { write_norms(rows, norms.data_ptr<float>() + first); });
  return norms;
}

}  // namespace fused_ops

at::Tensor row_norms(const Projection& p) { return backend(p.weight->device()).row_norms(p); }

void merge(const Projection& p) {
  const tensor::Writing weight = p.weight->write();
  at::Tensor magnitudes;
  if (p.low_rank.magnitude != nullptr) magnitudes = floats(*p.low_rank.magnitude);
  each_block(p, [&](int64_t first, const at::Tensor& rows) {
    if (magnitudes.defined()) {
      at::Tensor factors = tensor::empty({rows.size(0)}, at::kFloat, MemoryKind::workspace);
      write_norms(rows, factors.data_ptr<float>());
      for (int64_t r = 0; r < rows.size(0); ++r) {
        float& factor = factors.data_ptr<float>()[r];
        factor = magnitudes.data_ptr<float>()[first + r] / factor;
      }
      scale_rows(rows, factors);
    }
    write_rows(rows, p.transposed, first, *weight);
  });
}

}  // namespace trl::kernels
