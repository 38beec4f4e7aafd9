// A product is cut into tiles by its shape only and each tile is computed by one thread: oneDNN's own
// division among threads also cuts sums (A transposed, few rows), so that bits would depend on the machine.
// Its scratch memory is ours, counted.
#include "kernels/gemm/gemm.h"

#include "kernels/gemm/gemm_products.h"
#include "kernels/weight/row_products.h"

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

// Rounds rows of a sum, or of C plus the sum, once into a bfloat16 C.
void round_rows(const float* sum, int64_t rows, int64_t cols, void* c, int64_t c_stride, bool add) {
  for (int64_t r = 0; r < rows; ++r, sum += cols) {
    auto* const to = static_cast<uint16_t*>(c) + r * c_stride;
    if (add)
      cpu().add(to, Type::bf16, sum, Type::f32, 1, to, cols);
    else
      cpu().convert(sum, Type::f32, to, Type::bf16, cols);
  }
}

void multiply(at::ArrayRef<Multiplication> all, size_t of);

// Computes in float32, for machines whose oneDNN has no bfloat16, and for float32 products into bfloat16,
// which it never has.
void multiply_in_float32(const Matrix& a, const Matrix& b, void* c, at::ScalarType c_type, int64_t c_stride,
                         float beta) {
  const at::Tensor a_copy = widened(a);
  const at::Tensor b_copy = widened(b);
  const Matrix wide_a{a_copy.data_ptr(), at::kFloat, a.rows, a.cols, a_copy.stride(0), a.transposed};
  const Matrix wide_b{b_copy.data_ptr(), at::kFloat, b.rows, b.cols, b_copy.stride(0), b.transposed};
  if (c_type == at::kFloat) return multiply(Multiplication{wide_a, wide_b, c, c_type, c_stride, beta}, 1);
  const bool add = beta == 1.0f && a.transposed;  // at the end
  const at::Tensor sum = beta == 1.0f && !add
                             ? widened({c, c_type, a.rows, b.cols, c_stride, false})
                             : tensor::empty({a.rows, b.cols}, at::kFloat, MemoryKind::workspace);
  multiply(Multiplication{wide_a, wide_b, sum.data_ptr(), at::kFloat, b.cols, add ? 0.0f : beta}, 1);
  tensor::parallel_for(a.rows, 16, [&](int64_t begin, int64_t end) {
    round_rows(sum.data_ptr<float>() + begin * b.cols, end - begin, b.cols,
               static_cast<uint16_t*>(c) + begin * c_stride, c_stride, add);
  });
}

thread_local bool each_row_by_itself = false, independent_rows = false;

// The sizes of tiles, measured on Zen 5: full rows of C are best, because B is packed once per tile. With a
// long sum (the head's grad hidden) a tile's B must be narrow to stay in the cache; with few rows only
// columns can be divided, and with many columns (the head's logits) tiles may be tall. Gradients of weights
// (A transposed, packed as well) of a few hundred rows gain a tenth from smaller tiles. Products with few
// rows and few columns, as for low-rank factors, are divided by rows. A float32 B that is not transposed is
// read where it lies: if its rows are more than 1,024 columns apart, a narrow tile takes up to a fifth less
// time. If there are many products to divide, each is a tile: no operand is packed twice.
struct Tiling {
  int64_t rows, cols;
  Tiling(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_in_place, bool many)
      : rows(m >= 1024 ? 256 : 128), cols(n) {
    constexpr int64_t kLong = 8192, kNarrow = 64, kNear = 1024;
    const auto split = [n](int64_t parts) { return round_up((n + parts - 1) / parts, 32); };
    if (each_row_by_itself) {
      // oneDNN's order of a sum follows from the shape of the tile; if B's part is small, only from its
      // columns (with AMX only up to this size; other kernels allow more).
      constexpr int64_t kSmall = int64_t{448} << 10;  // elements
      cols = split(n > kLong ? 16 : 2 * ((n + 767) / 768));
      rows = m >= 8 * kRowsTogether && k <= 1536 && k * cols <= kSmall ? 4 * kRowsTogether : kRowsTogether;
      return;
    }
    if (many && m <= kLong && n <= kLong) {
      rows = m;
      return;
    }
    if (n > kLong) {
      cols = split(16);
    } else if (m <= 256 || k > kLong) {
      cols = split(2 * ((n + 767) / 768));
    } else if (a_transposed && m < 1024) {
      rows = 160;
      cols = 288;
    } else if (b_in_place && n > kNear) {
      cols = split((n + 767) / 768);
    }
    if (n > kLong || m <= 256 || k > kLong) rows = n <= kNarrow ? 64 : 512;
  }
};

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

// Returns where the pieces of [0, size) begin; in a rehearsal, which only asks for the memory of each shape,
// the first and the last of them.
std::vector<int64_t> begins_of(int64_t size, int64_t piece) {
  const int64_t last = (size - 1) / piece * piece;
  const bool ends_alone = tensor::Rehearsal::current() != nullptr && last > 0;
  std::vector<int64_t> begins;
  for (int64_t begin = 0; begin <= last; begin += ends_alone ? last : piece) begins.push_back(begin);
  return begins;
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
    if (wide) return multiply(Multiplication{f.a, f.b, m.c, m.c_type, m.c_stride, beta}, 1);
    multiply_in_float32(f.a, f.b, m.c, m.c_type, m.c_stride, beta);
  };
  add({m.a, m.b}, m.beta);
  for (const Factors& f : m.more) add(f, 1.0f);
}

void multiply(at::ArrayRef<Multiplication> all, size_t of) {
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

Matrix matrix_of(const at::Tensor& x, bool transposed) {
  TORCH_CHECK(x.dim() == 2 && x.stride(1) == 1, "gemm: a row-major matrix is needed");
  const int64_t rows = x.size(transposed ? 1 : 0);
  const int64_t cols = x.size(transposed ? 0 : 1);
  return {x.data_ptr(), x.scalar_type(), rows, cols, x.stride(0), transposed};
}

}  // namespace

namespace {

// Notes the product for a rehearsal to time.
void note(tensor::Job job, const Matrix& a, int64_t columns) {
  tensor::Rehearsal* const rehearsal = tensor::Rehearsal::current();
  if (rehearsal == nullptr) return;
  rehearsal->note(
      {job, {}, a.rows, columns, a.cols, static_cast<int64_t>(c10::elementSize(a.type)), a.transposed},
      2.0 * static_cast<double>(a.rows) * static_cast<double>(columns) * static_cast<double>(a.cols));
}

}  // namespace

IndependentRows::IndependentRows(bool wanted)
    : before_(std::exchange(independent_rows, wanted || independent_rows)) {}
IndependentRows::~IndependentRows() { independent_rows = before_; }
bool IndependentRows::active() { return independent_rows; }

EachRowByItself::EachRowByItself() : before_(std::exchange(each_row_by_itself, true)) {}
EachRowByItself::~EachRowByItself() { each_row_by_itself = before_; }

void gemm(at::ArrayRef<Multiplication> all, size_t of) {
  const tensor::Timed timed(tensor::Part::gemm);
  for (const Multiplication& m : all) {
    if (m.a.rows == 0 || m.b.cols == 0) continue;
    note(tensor::Job::product, m.a, m.b.cols);
    for (const Factors& f : m.more) note(tensor::Job::product, f.a, f.b.cols);
  }
  if (independent_rows) return multiply_rows(all);
  multiply(all, of);
}

void gemm(const Matrix& a, const Matrix& b, void* c, at::ScalarType c_type, int64_t c_stride, float beta) {
  gemm(Multiplication{a, b, c, c_type, c_stride, beta});
}

Factors matrices(const TensorFactors& product) {
  return {matrix_of(product.a, product.a_transposed), matrix_of(product.b, product.b_transposed)};
}

void gemm(at::ArrayRef<TensorFactors> sum, at::Tensor& c, float beta) {
  TORCH_CHECK(c.dim() == 2 && c.stride(1) == 1, "gemm: a row-major result is needed");
  const bool wide =
      std::ranges::any_of(sum, [](const TensorFactors& f) { return f.a.scalar_type() == at::kFloat; });
  if (wide && c.scalar_type() == at::kBFloat16) {  // oneDNN has no such product
    at::Tensor copy = tensor::empty(c.sizes(), at::kFloat, MemoryKind::workspace);
    const bool add = beta != 0.0f && sum.front().a_transposed;  // at the end
    if (beta != 0.0f && !add) {
      tensor::parallel_for(c.size(0), 16, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          cpu().convert(at_byte(c, r * c.stride(0)), Type::bf16, at_byte(copy, r * c.size(1)), Type::f32,
                        c.size(1));
      });
    }
    gemm(sum, copy, add ? 0.0f : beta);
    return tensor::parallel_for(c.size(0), 16, [&](int64_t begin, int64_t end) {
      round_rows(copy.data_ptr<float>() + begin * c.size(1), end - begin, c.size(1),
                 at_byte(c, begin * c.stride(0)), c.stride(0), add);
    });
  }
  const Factors first = matrices(sum.front());
  Multiplication m{first.a, first.b, c.data_ptr(), c.scalar_type(), c.stride(0), beta};
  for (const TensorFactors& product : sum.slice(1)) m.more.push_back(matrices(product));
  gemm(m);
}

void gemm(const at::Tensor& a, bool a_transposed, const at::Tensor& b, bool b_transposed, at::Tensor& c,
          float beta) {
  gemm(TensorFactors{a, a_transposed, b, b_transposed}, c, beta);
}

namespace {

// The size of panels: as much as a core's second-level cache holds together with the rows that are multiplied
// with it. Results are first written densely to work memory: oneDNN's faster kernels require that. Few rows
// have the tiles of an ordinary product.
struct PanelCut {
  int64_t rows, cols;
  bool dense;
  explicit PanelCut(const PanelMultiplication& m) {
    const Tiling whole(m.a.rows, m.b.cols, m.a.cols, m.a.transposed, false, false);
    rows = whole.rows;
    cols = whole.cols;
    dense = whole.cols >= m.b.cols || (each_row_by_itself && m.b.cols <= 8192);
    if (!dense) return;
    constexpr int64_t kBytes = int64_t{1} << 20, kShares = 2;
    const int64_t column = std::max<int64_t>(1, m.b.rows) * static_cast<int64_t>(c10::elementSize(m.b.type));
    const int64_t unit = round_up(64, m.b.unit);
    cols = std::max(std::min(kBytes / column, m.b.cols / kShares) / unit * unit, unit);
  }
  // The columns of the panel that begins there: a narrow remainder joins the last panel.
  int64_t count(int64_t first, int64_t all) const {
    return all - first < cols + (dense ? 64 : 0) ? all - first : cols;
  }
};

constexpr int64_t kPanelRows = 2048;  // rows of A that one panel is made for

// A panel and some rows of A.
struct PanelWork {
  const PanelMultiplication* whole;
  PanelCut cut;
  int64_t first, count;  // columns
  int64_t row, rows;
  // For cut.rows rows, and for the remaining rows at the end: the product with the panel, then those of
  // `more`.
  std::vector<std::shared_ptr<const Product>> steps, last;

  int64_t panel_bytes() const { return round_up(whole->b.rows * count * size(whole->b.type), 64); }
  int64_t result_bytes() const {
    return cut.dense ? round_up(std::min(rows, cut.rows) * count * size(whole->c_type), 64) : 0;
  }
  int64_t scratch() const {
    int64_t bytes = 0;
    each([&](const Product& product) { bytes = std::max(bytes, product.scratch_bytes()); });
    return bytes;
  }
  bool supported() const {
    bool all = true;
    each([&](const Product& product) { all = all && product.supported; });
    return all;
  }

 private:
  template <typename Body>
  void each(const Body& body) const {
    for (const auto* list : {&steps, &last})
      for (const auto& product : *list) body(*product);
  }
  static int64_t size(at::ScalarType type) { return static_cast<int64_t>(c10::elementSize(type)); }
};

// Adds the pieces of the product to `work`, and returns how many there are, which a rehearsal does not list.
int64_t cut(Products& products, const PanelMultiplication& m, std::vector<PanelWork>& work) {
  const PanelCut cut(m);
  const int64_t step = std::max(cut.rows, kPanelRows / cut.rows * cut.rows);
  const std::vector<int64_t> row_begins = begins_of(m.a.rows, step);
  int64_t panels = 0;
  for (int64_t first = 0, count = 0; first < m.b.cols; first += count, ++panels) {
    count = cut.count(first, m.b.cols);
    const bool inner = first > 0 && first + count < m.b.cols;
    if (inner && tensor::Rehearsal::current() != nullptr) continue;
    const Matrix b{nullptr, m.b.type, m.b.rows, count, m.b.transposed ? m.b.rows : count, m.b.transposed};
    for (const int64_t row : row_begins) {
      const int64_t rows = std::min(step, m.a.rows - row);
      const auto steps = [&](int64_t of) {
        std::vector<std::shared_ptr<const Product>> all;
        if (of == 0) return all;
        const int64_t stride = cut.dense ? count : m.c_stride;
        all.push_back(products.get(part(m.a, row, of, 0, m.a.cols), b, m.c_type, stride, m.beta == 1.0f));
        for (const Factors& f : m.more)
          all.push_back(products.get(part(f.a, row, of, 0, f.a.cols), part(f.b, 0, f.b.rows, first, count),
                                     m.c_type, stride, true));
        return all;
      };
      work.push_back(
          {&m, cut, first, count, row, rows, steps(rows < cut.rows ? 0 : cut.rows), steps(rows % cut.rows)});
    }
  }
  return panels * ((m.a.rows - 1) / step + 1);
}

void copy_rows(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t rows,
               int64_t bytes) {
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(to + r * to_stride, from + r * from_stride, static_cast<size_t>(bytes));
}

// place: memory for the panel, the result and oneDNN.
void run(const PanelWork& work, const dnnl::engine& engine, dnnl::stream& stream, uint8_t* place) {
  const PanelMultiplication& m = *work.whole;
  char* const panel = reinterpret_cast<char*>(place);
  char* const result = panel + work.panel_bytes();
  void* const scratch = work.scratch() > 0 ? result + work.result_bytes() : nullptr;
  const auto size = static_cast<int64_t>(c10::elementSize(m.c_type));
  char* const b = static_cast<char*>(const_cast<void*>(m.b.panel(work.first, work.count, panel)));
  for (int64_t row = work.row, rows = 0; row < work.row + work.rows; row += rows) {
    rows = std::min(work.cut.rows, work.row + work.rows - row);
    char* const a = bytes_of(part(m.a, row, rows, 0, m.a.cols));
    char* const c = static_cast<char*>(m.c) + (row * m.c_stride + work.first) * size;
    const int64_t c_bytes = m.c_stride * size, bytes = work.count * size;
    if (work.cut.dense && m.beta == 1.0f) copy_rows(c, c_bytes, result, bytes, rows, bytes);
    const auto& steps = rows == work.cut.rows ? work.steps : work.last;
    char* const to = work.cut.dense ? result : c;
    run_step({steps[0], a, b}, to, engine, stream, scratch);
    for (size_t i = 0; i < m.more.size(); ++i) {
      const Matrix more_a = part(m.more[i].a, row, rows, 0, m.more[i].a.cols);
      const Matrix more_b = part(m.more[i].b, 0, m.more[i].b.rows, work.first, work.count);
      run_step({steps[i + 1], bytes_of(more_a), bytes_of(more_b)}, to, engine, stream, scratch);
    }
    if (work.cut.dense) copy_rows(result, bytes, c, c_bytes, rows, bytes);
  }
}

// Multiplies on a machine whose oneDNN does not have the product: one panel after the other, all threads at
// each.
void multiply_in_turn(const PanelMultiplication& m) {
  const PanelCut cut(m);
  const auto size = static_cast<int64_t>(c10::elementSize(m.c_type));
  for (int64_t first = 0, count = 0; first < m.b.cols; first += count) {
    count = cut.count(first, m.b.cols);
    const at::Tensor panel = tensor::empty({m.b.rows * count}, m.b.type, MemoryKind::workspace);
    const void* place = panel.data_ptr();
    tensor::parallel_for(1, 1, [&](int64_t, int64_t) { place = m.b.panel(first, count, panel.data_ptr()); });
    const Matrix b{place, m.b.type, m.b.rows, count, m.b.transposed ? m.b.rows : count, m.b.transposed};
    multiply(Multiplication{m.a, b, static_cast<char*>(m.c) + first * size, m.c_type, m.c_stride, m.beta}, 1);
  }
  for (const Factors& f : m.more) multiply(Multiplication{f.a, f.b, m.c, m.c_type, m.c_stride, 1.0f}, 1);
}

}  // namespace

void gemm(at::ArrayRef<PanelMultiplication> all) {
  const tensor::Timed timed(tensor::Part::gemm);
  Products& products = kernels::products();
  products.keep_for(all.size());
  std::vector<PanelWork> work;
  int64_t count = 0;
  for (const PanelMultiplication& m : all) {
    need(m.a.cols == m.b.rows && m.a.type == m.b.type, "gemm",
         "a product with panels needs A's columns and type");
    note(tensor::Job::panels, m.a, m.b.cols);
    for (const Factors& f : m.more) note(tensor::Job::product, f.a, f.b.cols);
    if (m.a.rows > 0 && m.b.cols > 0) count += cut(products, m, work);
  }
  if (!std::ranges::all_of(work, [](const PanelWork& w) { return w.supported(); })) {
    for (const PanelMultiplication& m : all) multiply_in_turn(m);
    return;
  }
  int64_t bytes = 0;
  for (const PanelWork& w : work) bytes = std::max(bytes, w.panel_bytes() + w.result_bytes() + w.scratch());
  each_on_a_thread(count, bytes, products.engine(), [&](size_t i, dnnl::stream& stream, uint8_t* place) {
    run(work[i], products.engine(), stream, place);
  });
}

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

}  // namespace trl::kernels
