// A product is cut into tiles by its shape only and each tile is computed by one thread: oneDNN's own
// division among threads also cuts sums (A transposed, few rows), so that bits would depend on the machine.
// Its scratch memory is ours, counted.
#include "kernels/gemm/tiles.h"

#include "kernels/gemm/gemm_products.h"

namespace trl::kernels {

namespace {

// x in float32: a copy, or in place.
at::Tensor widened(const Matrix& x) {
  const int64_t rows = x.transposed ? x.cols : x.rows;
  const int64_t cols = x.transposed ? x.rows : x.cols;
  if (x.type == at::kFloat)
    return at::from_blob(const_cast<void*>(x.data), {rows, cols}, {x.stride, 1}, at::kFloat);
  at::Tensor copy = tensor::empty({rows, cols}, at::kFloat, MemoryKind::workspace);
  tensor::parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      cpu().convert(static_cast<const uint16_t*>(x.data) + r * x.stride, Type::bf16,
                    copy.data_ptr<float>() + r * cols, Type::f32, cols);
  });
  return copy;
}

// Computes in float32, for machines whose oneDNN has no bfloat16, and for float32 products into bfloat16,
// which it never has.
void multiply_in_float32(const Matrix& a, const Matrix& b, void* c, at::ScalarType c_type, int64_t c_stride,
                         float beta) {
  const at::Tensor a_copy = widened(a);
  const at::Tensor b_copy = widened(b);
  const Matrix wide_a{a_copy.data_ptr(), at::kFloat, a.rows, a.cols, a_copy.stride(0), a.transposed};
  const Matrix wide_b{b_copy.data_ptr(), at::kFloat, b.rows, b.cols, b_copy.stride(0), b.transposed};
  if (c_type == at::kFloat)
    return multiply_in_tiles(Multiplication{wide_a, wide_b, c, c_type, c_stride, beta}, 1);
  const bool add = beta == 1.0f && a.transposed;  // at the end
  const at::Tensor sum = beta == 1.0f && !add
                             ? widened({c, c_type, a.rows, b.cols, c_stride, false})
                             : tensor::empty({a.rows, b.cols}, at::kFloat, MemoryKind::workspace);
  multiply_in_tiles(Multiplication{wide_a, wide_b, sum.data_ptr(), at::kFloat, b.cols, add ? 0.0f : beta}, 1);
  tensor::parallel_for(a.rows, 16, [&](int64_t begin, int64_t end) {
    round_rows(sum.data_ptr<float>() + begin * b.cols, end - begin, b.cols,
               static_cast<uint16_t*>(c) + begin * c_stride, c_stride, add);
  });
}

constexpr size_t kMany = 32;

struct Tile {
  std::vector<Step> steps;
  Matrix c;
  bool wide = false;  // sums are float32, and a bfloat16 C is made from them at the end
  bool add = false;   // adds to that C

  int64_t scratch() const {
    int64_t bytes = 0;
    for (const Step& step : steps) bytes = std::max(bytes, step.product->scratch_bytes());
    return round_up(bytes, 64);
  }
  int64_t sum_bytes() const { return wide ? c.rows * c.cols * 4 : 0; }
};

int64_t sum_piece(const Multiplication& m) {
  return m.a.transposed && m.more.empty() ? std::min(m.a.cols, kSumPiece) : m.a.cols;
}

// The tile of C from (row, col) on. Without steps if this machine's oneDNN lacks some of the products.
Tile tile_of(Products& products, const Multiplication& m, const Matrix& c, int64_t row, int64_t col) {
  Tile tile{{}, c};
  tile.wide = sum_piece(m) < m.a.cols && c.type == at::kBFloat16;
  tile.add = tile.wide && m.beta == 1.0f;
  const at::ScalarType type = tile.wide ? at::kFloat : c.type;
  const int64_t stride = tile.wide ? c.cols : c.stride;
  bool accumulate = m.beta == 1.0f && !tile.wide;
  const auto add = [&](const Matrix& a, const Matrix& b, int64_t piece) {
    for (int64_t first = 0; first < a.cols; first += piece) {
      const int64_t terms = std::min(piece, a.cols - first);
      const Matrix pa = part(a, row, c.rows, first, terms), pb = part(b, first, terms, col, c.cols);
      tile.steps.push_back({products.get(pa, pb, type, stride, accumulate), bytes_of(pa), bytes_of(pb)});
      accumulate = true;
    }
  };
  add(m.a, m.b, sum_piece(m));
  for (const Factors& f : m.more) add(f.a, f.b, f.a.cols);
  if (!std::ranges::all_of(tile.steps, [](const Step& s) { return s.product->supported; }))
    tile.steps.clear();
  return tile;
}

// The tiles of products, and how many there are, which a rehearsal does not list.
struct Tiles {
  std::vector<Tile> list;
  int64_t count = 0;
};

// Cuts C into tiles; none if this machine's oneDNN lacks some of the products.
Tiles cut(Products& products, const Multiplication& m, bool many) {
  const Matrix c{m.c, m.c_type, m.a.rows, m.b.cols, m.c_stride, false};
  const bool b_in_place = m.b.type == at::kFloat && !m.b.transposed;
  const Tiling tiling(c.rows, c.cols, sum_piece(m), m.a.transposed, b_in_place, many);
  Tiles tiles;
  for (const int64_t row : begins_of(c.rows, tiling.rows)) {
    const int64_t rows = std::min(tiling.rows, c.rows - row);
    for (const int64_t col : begins_of(c.cols, tiling.cols)) {
      const int64_t cols = std::min(tiling.cols, c.cols - col);
      tiles.list.push_back(tile_of(products, m, part(c, row, rows, col, cols), row, col));
      if (tiles.list.back().steps.empty()) return {};
    }
  }
  tiles.count = ((c.rows - 1) / tiling.rows + 1) * ((c.cols - 1) / tiling.cols + 1);
  return tiles;
}

void run(const Tile& tile, const dnnl::engine& engine, dnnl::stream& stream, uint8_t* work) {
  uint8_t* const scratch = tile.scratch() > 0 ? work : nullptr;
  auto* const sum = reinterpret_cast<float*>(work + tile.scratch());
  char* const c = bytes_of(tile.c);
  for (const Step& step : tile.steps)
    run_step(step, tile.wide ? reinterpret_cast<char*>(sum) : c, engine, stream, scratch);
  if (tile.wide) round_rows(sum, tile.c.rows, tile.c.cols, c, tile.c.stride, tile.add);
}

void run_all(const Tiles& tiles, const dnnl::engine& engine) {
  int64_t bytes = 0;
  for (const Tile& tile : tiles.list) bytes = std::max(bytes, tile.scratch() + tile.sum_bytes());
  each_on_a_thread(tiles.count, bytes, engine, [&](size_t i, dnnl::stream& stream, uint8_t* work) {
    run(tiles.list[i], engine, stream, work);
  });
}

void check(const Multiplication& m) {
  const auto fits = [&](const Factors& f) {
    return f.a.rows == m.a.rows && f.b.cols == m.b.cols && f.a.cols == f.b.rows && f.a.type == f.b.type;
  };
  if (fits({m.a, m.b}) && std::ranges::all_of(m.more, fits) && (m.beta == 0.0f || m.beta == 1.0f)) return;
  fail(Status::internal, "gemm: {}x{} times {}x{} (types {} and {}), beta {}: not a product", m.a.rows,
       m.a.cols, m.b.rows, m.b.cols, c10::toString(m.a.type), c10::toString(m.b.type), m.beta);
}

void clear(const Multiplication& m) {
  const auto size = static_cast<int64_t>(c10::elementSize(m.c_type));
  tensor::parallel_for(m.a.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::memset(static_cast<char*>(m.c) + r * m.c_stride * size, 0, static_cast<size_t>(m.b.cols * size));
  });
}

Tiles cut_or_fail(Products& products, const Multiplication& m, bool many) {
  try {
    return cut(products, m, many);
  } catch (const dnnl::error& error) {
    fail(error.status == dnnl_out_of_memory ? Status::out_of_memory : Status::internal,
         "oneDNN: product {}x{}x{}: {}", m.a.rows, m.a.cols, m.b.cols, error.what());
  }
}

void multiply_widened(const Multiplication& m) {
  const auto add = [&](const Factors& f, float beta) {
    const bool wide = f.a.type == at::kFloat && m.c_type == at::kFloat;
    if (wide && m.more.empty())
      fail(Status::unsupported, "oneDNN has no float32 matrix product on this machine");
    if (wide) return multiply_in_tiles(Multiplication{f.a, f.b, m.c, m.c_type, m.c_stride, beta}, 1);
    multiply_in_float32(f.a, f.b, m.c, m.c_type, m.c_stride, beta);
  };
  add({m.a, m.b}, m.beta);
  for (const Factors& f : m.more) add(f, 1.0f);
}

}  // namespace

void round_rows(const float* sum, int64_t rows, int64_t cols, void* c, int64_t c_stride, bool add) {
  for (int64_t r = 0; r < rows; ++r, sum += cols) {
    auto* const to = static_cast<uint16_t*>(c) + r * c_stride;
    if (add)
      cpu().add(to, Type::bf16, sum, Type::f32, 1, to, cols);
    else
      cpu().convert(sum, Type::f32, to, Type::bf16, cols);
  }
}

void multiply_in_tiles(at::ArrayRef<Multiplication> all, size_t of) {
  Products& products = kernels::products();
  products.keep_for(std::max(all.size(), of));
  Tiles tiles;
  std::vector<const Multiplication*> widened;
  for (const Multiplication& m : all) {
    check(m);
    if (m.a.rows == 0 || m.b.cols == 0) continue;
    if (m.a.cols == 0) {
      if (m.beta == 0.0f) clear(m);
      continue;
    }
    Tiles own = cut_or_fail(products, m, std::max(all.size(), of) >= kMany);
    if (own.list.empty()) widened.push_back(&m);
    std::move(own.list.begin(), own.list.end(), std::back_inserter(tiles.list));
    tiles.count += own.count;
  }
  if (!tiles.list.empty()) run_all(tiles, products.engine());
  for (const Multiplication* m : widened) multiply_widened(*m);
}

}  // namespace trl::kernels
