// oneDNN matmul primitives, kept by shape. A product is cut into tiles by its shape alone and each tile is
// computed by one thread: oneDNN's own division among threads also cuts sums (A transposed, few rows), so
// that bits would depend on the machine. Its scratch memory is ours, counted.
#include "kernels/gemm.h"

#include <omp.h>

#include <list>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/op.h"
#include "tensor/process.h"

namespace trl::kernels {

namespace {

using dnnl::memory;

// oneDNN takes its width from OpenMP, when a primitive is made and when it runs. The caller's own is put
// back.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

struct Product {
  dnnl::matmul primitive;
  memory::desc a, b, c, scratch;
  bool supported = false;
};

// m, n, k, strides of a, b, c, then flags
using Key = std::array<int64_t, 7>;

memory::data_type dnnl_type(at::ScalarType type) {
  if (type == at::kFloat) return memory::data_type::f32;
  if (type == at::kBFloat16) return memory::data_type::bf16;
  fail(Status::unsupported, "a matrix product of type {}: float32 and bfloat16 are supported",
       c10::toString(type));
}

memory::desc describe(int64_t rows, int64_t cols, int64_t stride, bool transposed, at::ScalarType type) {
  const memory::dims strides = transposed ? memory::dims{1, stride} : memory::dims{stride, 1};
  return memory::desc({rows, cols}, dnnl_type(type), strides);
}

class Products {
 public:
  std::shared_ptr<const Product> get(const Matrix& a, const Matrix& b, at::ScalarType c_type,
                                     int64_t c_stride, bool accumulate) {
    const int64_t flags = (a.type == at::kFloat) | (c_type == at::kFloat) << 1 | a.transposed << 2 |
                          b.transposed << 3 | accumulate << 4;
    const Key key{a.rows, b.cols, a.cols, a.stride, b.stride, c_stride, flags};
    std::lock_guard lock(mutex_);
    if (const auto found = index_.find(key); found != index_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
      return recent_.front().second;
    }
    const OneThread narrow;
    recent_.emplace_front(key, make(a, b, c_type, c_stride, accumulate));
    index_[key] = recent_.begin();
    if (recent_.size() > kKept) {
      index_.erase(recent_.back().first);
      recent_.pop_back();
    }
    return recent_.front().second;
  }
  const dnnl::engine& engine() const { return engine_; }

 private:
  static constexpr size_t kKept = 512;

  std::shared_ptr<const Product> make(const Matrix& a, const Matrix& b, at::ScalarType c_type,
                                      int64_t c_stride, bool accumulate) {
    auto product = std::make_shared<Product>();
    product->a = describe(a.rows, a.cols, a.stride, a.transposed, a.type);
    product->b = describe(b.rows, b.cols, b.stride, b.transposed, b.type);
    product->c = describe(a.rows, b.cols, c_stride, false, c_type);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::desc operation(product->a, product->b, product->c);
    const dnnl::matmul::primitive_desc chosen(operation, attributes, engine_, /*allow_empty=*/true);
    product->supported = static_cast<bool>(chosen);
    if (product->supported) {
      product->scratch = chosen.scratchpad_desc();
      product->primitive = dnnl::matmul(chosen);
    }
    return product;
  }

  // Before its first use: ONEDNN_VERBOSE and ONEDNN_JIT_DUMP are the host's for its own work.
  static dnnl::engine silent_engine() {
    dnnl::set_verbose(0);
    dnnl::set_jit_dump(0);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }

  std::mutex mutex_;
  dnnl::engine engine_ = silent_engine();
  std::list<std::pair<Key, std::shared_ptr<const Product>>> recent_;
  std::map<Key, decltype(recent_)::iterator> index_;
};

// float32 copy of what is stored, for machines whose oneDNN has no bfloat16.
at::Tensor widened(const Matrix& x) {
  const int64_t rows = x.transposed ? x.cols : x.rows;
  const int64_t cols = x.transposed ? x.rows : x.cols;
  at::Tensor copy = tensor::empty({rows, cols}, at::kFloat, MemoryKind::workspace);
  for (int64_t r = 0; r < rows; ++r) {
    cpu().convert(static_cast<const uint16_t*>(x.data) + r * x.stride, Type::bf16,
                  copy.data_ptr<float>() + r * cols, Type::f32, cols);
  }
  return copy;
}

void gemm_widened(const Matrix& a, const Matrix& b, void* c, at::ScalarType c_type, int64_t c_stride,
                  float beta) {
  const at::Tensor a_copy = widened(a);
  const at::Tensor b_copy = widened(b);
  const Matrix wide_a{a_copy.data_ptr(), at::kFloat, a.rows, a.cols, a_copy.size(1), a.transposed};
  const Matrix wide_b{b_copy.data_ptr(), at::kFloat, b.rows, b.cols, b_copy.size(1), b.transposed};
  if (c_type == at::kFloat) return gemm(wide_a, wide_b, c, c_type, c_stride, beta);
  at::Tensor sum = beta == 0.0f ? tensor::empty({a.rows, b.cols}, at::kFloat, MemoryKind::workspace)
                                : widened({c, c_type, a.rows, b.cols, c_stride, false});
  gemm(wide_a, wide_b, sum.data_ptr(), at::kFloat, b.cols, beta);
  for (int64_t r = 0; r < a.rows; ++r) {
    cpu().convert(sum.data_ptr<float>() + r * b.cols, Type::f32, static_cast<uint16_t*>(c) + r * c_stride,
                  Type::bf16, b.cols);
  }
}

thread_local bool each_row_by_itself = false;

// Measured on Zen 5: full rows of C are best, because B is packed once per tile. With a long sum (the head's
// grad hidden) a tile's B must be narrow to stay in the cache; few rows leave only columns to divide, many
// columns (the head's logits) allow tall tiles. Gradients of weights (A transposed, packed as well) of a few
// hundred rows gain a tenth by smaller tiles. Few rows and few columns, those of low-rank factors, are
// divided by rows. Where many products are there to divide, each is a tile: no operand is packed twice.
struct Tiling {
  int64_t rows, cols;
  Tiling(int64_t m, int64_t n, int64_t k, bool a_transposed, bool many)
      : rows(m >= 1024 ? 256 : 128), cols(n) {
    constexpr int64_t kLong = 8192, kNarrow = 64;
    const auto split = [n](int64_t parts) { return round_up((n + parts - 1) / parts, 32); };
    if (each_row_by_itself) {
      // oneDNN's order of a sum follows from the shape of the tile; where B's part is small, only from its
      // columns (with AMX not beyond; other kernels allow more).
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
    }
    if (n > kLong || m <= 256 || k > kLong) rows = n <= kNarrow ? 64 : 512;
  }
};

constexpr size_t kMany = 32;

// A product that one thread computes.
struct Step {
  std::shared_ptr<const Product> product;
  char *a, *b;
};
struct Tile {
  std::vector<Step> steps;
  char* c;
};

Matrix part(const Matrix& x, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  const int64_t at = x.transposed ? col * x.stride + row : row * x.stride + col;
  const auto size = static_cast<int64_t>(c10::elementSize(x.type));
  return {static_cast<const char*>(x.data) + at * size, x.type, rows, cols, x.stride, x.transposed};
}

char* bytes_of(const Matrix& x) { return static_cast<char*>(const_cast<void*>(x.data)); }

// The tile of C from (row, col) on. Without steps: this machine's oneDNN has not all of the products.
Tile tile_of(Products& products, const Multiplication& m, const Matrix& c, int64_t row, int64_t col) {
  Tile tile{{}, bytes_of(c)};
  bool accumulate = m.beta == 1.0f;
  const auto add = [&](const Matrix& a, const Matrix& b) {
    const Matrix pa = part(a, row, c.rows, 0, a.cols), pb = part(b, 0, b.rows, col, c.cols);
    tile.steps.push_back({products.get(pa, pb, c.type, c.stride, accumulate), bytes_of(pa), bytes_of(pb)});
    accumulate = true;
  };
  add(m.a, m.b);
  for (const Factors& f : m.more) add(f.a, f.b);
  if (!std::all_of(tile.steps.begin(), tile.steps.end(), [](const Step& s) { return s.product->supported; }))
    tile.steps.clear();
  return tile;
}

// Empty: this machine's oneDNN has not all of the products.
std::vector<Tile> cut(Products& products, const Multiplication& m, bool many) {
  const Matrix c{m.c, m.c_type, m.a.rows, m.b.cols, m.c_stride, false};
  const Tiling tiling(c.rows, c.cols, m.a.cols, m.a.transposed, many);
  std::vector<Tile> tiles;
  for (int64_t row = 0; row < c.rows; row += tiling.rows) {
    const int64_t rows = std::min(tiling.rows, c.rows - row);
    for (int64_t col = 0; col < c.cols; col += tiling.cols) {
      const int64_t cols = std::min(tiling.cols, c.cols - col);
      tiles.push_back(tile_of(products, m, part(c, row, rows, col, cols), row, col));
      if (tiles.back().steps.empty()) return {};
    }
  }
  return tiles;
}

void run(const Step& step, char* c, const dnnl::engine& engine, dnnl::stream& stream, void* scratch) {
  const Product& product = *step.product;
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, memory(product.a, engine, step.a)},
                                            {DNNL_ARG_WEIGHTS, memory(product.b, engine, step.b)},
                                            {DNNL_ARG_DST, memory(product.c, engine, c)}};
  if (scratch != nullptr) arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(product.scratch, engine, scratch));
  product.primitive.execute(stream, arguments);
  stream.wait();
}

// body(i, stream, memory) for each i in [0, count), taken by whichever thread is free, with `bytes` of work
// memory for each thread.
template <typename Body>
void each_on_a_thread(int64_t count, int64_t bytes, const dnnl::engine& engine, const Body& body) {
  const int64_t width = std::min<int64_t>(tensor::threads(), count);
  bytes = round_up(bytes, 4096);
  at::Tensor work;
  if (bytes > 0) work = tensor::empty({width * bytes}, at::kByte, MemoryKind::workspace);
  std::atomic<int64_t> next{0}, place{0};
  std::atomic<bool> failed{false};
  const OneThread narrow;
  tensor::parallel_for(width, 1, [&](int64_t, int64_t) {
    const int64_t mine = place.fetch_add(1);
    uint8_t* const memory_at = bytes > 0 ? work.data_ptr<uint8_t>() + mine * bytes : nullptr;
    try {
      dnnl::stream stream(engine);
      for (int64_t i = next.fetch_add(1); i < count && !base::stopped(); i = next.fetch_add(1)) {
        body(static_cast<size_t>(i), stream, memory_at);
      }
    } catch (...) {
      failed = true;  // nothing may leave a parallel region
    }
  });
  if (failed) fail(Status::internal, "oneDNN: a matrix product failed");
}

int64_t scratch_bytes(const Product& product) { return static_cast<int64_t>(product.scratch.get_size()); }

void run_all(const std::vector<Tile>& tiles, const dnnl::engine& engine) {
  int64_t bytes = 0;
  for (const Tile& tile : tiles)
    for (const Step& step : tile.steps) bytes = std::max(bytes, scratch_bytes(*step.product));
  each_on_a_thread(std::ssize(tiles), bytes, engine, [&](size_t i, dnnl::stream& stream, uint8_t* scratch) {
    for (const Step& step : tiles[i].steps) run(step, tiles[i].c, engine, stream, scratch);
  });
}

void check(const Multiplication& m) {
  const auto fits = [&](const Factors& f) {
    return f.a.rows == m.a.rows && f.b.cols == m.b.cols && f.a.cols == f.b.rows && f.a.type == f.b.type;
  };
  if (fits({m.a, m.b}) && std::all_of(m.more.begin(), m.more.end(), fits) &&
      (m.beta == 0.0f || m.beta == 1.0f))
    return;
  fail(Status::internal, "gemm: {}x{} times {}x{} (types {} and {}), beta {}: not a product", m.a.rows,
       m.a.cols, m.b.rows, m.b.cols, c10::toString(m.a.type), c10::toString(m.b.type), m.beta);
}

void clear(const Multiplication& m) {
  const auto size = c10::elementSize(m.c_type);
  for (int64_t r = 0; r < m.a.rows; ++r) {
    std::memset(static_cast<char*>(m.c) + static_cast<size_t>(r * m.c_stride) * size, 0,
                static_cast<size_t>(m.b.cols) * size);
  }
}

std::vector<Tile> cut_or_fail(Products& products, const Multiplication& m, bool many) {
  try {
    return cut(products, m, many);
  } catch (const dnnl::error& error) {
    fail(error.status == dnnl_out_of_memory ? Status::out_of_memory : Status::internal,
         "oneDNN: product {}x{}x{}: {}", m.a.rows, m.a.cols, m.b.cols, error.what());
  }
}

void multiply_widened(const Multiplication& m) {
  const auto add = [&](const Factors& f, float beta) {
    if (f.a.type == at::kFloat && m.more.empty())
      fail(Status::unsupported, "oneDNN has no float32 matrix product on this machine");
    if (f.a.type == at::kFloat) return gemm(f.a, f.b, m.c, m.c_type, m.c_stride, beta);
    gemm_widened(f.a, f.b, m.c, m.c_type, m.c_stride, beta);
  };
  add({m.a, m.b}, m.beta);
  for (const Factors& f : m.more) add(f, 1.0f);
}

Matrix matrix_of(const at::Tensor& x, bool transposed) {
  TORCH_CHECK(x.dim() == 2 && x.stride(1) == 1, "gemm: a row-major matrix is needed");
  const int64_t rows = x.size(transposed ? 1 : 0);
  const int64_t cols = x.size(transposed ? 0 : 1);
  return {x.data_ptr(), x.scalar_type(), rows, cols, x.stride(0), transposed};
}

}  // namespace

EachRowByItself::EachRowByItself() : before_(std::exchange(each_row_by_itself, true)) {}
EachRowByItself::~EachRowByItself() { each_row_by_itself = before_; }

void gemm(at::ArrayRef<Multiplication> all, size_t of) {
  const tensor::Timed timed(tensor::Part::gemm);
  auto& products = tensor::process_state<Products>();
  std::vector<Tile> tiles;
  std::vector<const Multiplication*> widened;
  for (const Multiplication& m : all) {
    check(m);
    if (m.a.rows == 0 || m.b.cols == 0) continue;
    if (m.a.cols == 0) {
      if (m.beta == 0.0f) clear(m);
      continue;
    }
    std::vector<Tile> own = cut_or_fail(products, m, std::max(all.size(), of) >= kMany);
    if (own.empty()) widened.push_back(&m);
    std::move(own.begin(), own.end(), std::back_inserter(tiles));
  }
  if (!tiles.empty()) run_all(tiles, products.engine());
  for (const Multiplication* m : widened) multiply_widened(*m);
}

void gemm(const Matrix& a, const Matrix& b, void* c, at::ScalarType c_type, int64_t c_stride, float beta) {
  gemm(Multiplication{a, b, c, c_type, c_stride, beta});
}

Factors matrices(const TensorFactors& product) {
  return {matrix_of(product.a, product.a_transposed), matrix_of(product.b, product.b_transposed)};
}

void gemm(at::ArrayRef<TensorFactors> sum, at::Tensor& c, float beta) {
  TORCH_CHECK(c.dim() == 2 && c.stride(1) == 1, "gemm: a row-major result is needed");
  const bool wide = std::any_of(sum.begin(), sum.end(),
                                [](const TensorFactors& f) { return f.a.scalar_type() == at::kFloat; });
  if (wide && c.scalar_type() == at::kBFloat16) {  // oneDNN has no such product
    at::Tensor copy = tensor::empty(c.sizes(), at::kFloat, MemoryKind::workspace);
    if (beta != 0.0f) copy.copy_(c);
    gemm(sum, copy, beta);
    c.copy_(copy);
    return;
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

// A panel is as much as the second-level cache of a core holds beside the rows that it is multiplied with.
// Results lie densely in work memory first: oneDNN's faster kernels are for those. Few rows have the tiles of
// an ordinary product.
struct PanelCut {
  int64_t rows, cols;
  bool dense;
  explicit PanelCut(const PanelMultiplication& m) {
    const Tiling whole(m.a.rows, m.b.cols, m.a.cols, m.a.transposed, false);
    rows = whole.rows;
    cols = whole.cols;
    dense = whole.cols >= m.b.cols || (each_row_by_itself && m.b.cols <= 8192);
    if (!dense) return;
    constexpr int64_t kBytes = int64_t{1} << 20, kShares = 2;
    const int64_t column = std::max<int64_t>(1, m.b.rows) * static_cast<int64_t>(c10::elementSize(m.b.type));
    const int64_t unit = round_up(64, m.b.unit);
    cols = std::max(std::min(kBytes / column, m.b.cols / kShares) / unit * unit, unit);
  }
  // The columns of the panel that begins there: a narrow rest comes with the last.
  int64_t count(int64_t first, int64_t all) const {
    return all - first < cols + (dense ? 64 : 0) ? all - first : cols;
  }
};

constexpr int64_t kPanelRows = 2048;  // of A, for which a panel is made

// A panel and some rows of A.
struct PanelWork {
  const PanelMultiplication* whole;
  PanelCut cut;
  int64_t first, count;  // columns
  int64_t row, rows;
  // Of cut.rows rows, and of those that are left at the end: the product with the panel, then those of
  // `more`.
  std::vector<std::shared_ptr<const Product>> steps, last;

  int64_t panel_bytes() const { return round_up(whole->b.rows * count * size(whole->b.type), 64); }
  int64_t result_bytes() const {
    return cut.dense ? round_up(std::min(rows, cut.rows) * count * size(whole->c_type), 64) : 0;
  }
  int64_t scratch() const {
    int64_t bytes = 0;
    each([&](const Product& product) { bytes = std::max(bytes, scratch_bytes(product)); });
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

void cut(Products& products, const PanelMultiplication& m, std::vector<PanelWork>& work) {
  const PanelCut cut(m);
  const int64_t step = std::max(cut.rows, kPanelRows / cut.rows * cut.rows);
  for (int64_t first = 0, count = 0; first < m.b.cols; first += count) {
    count = cut.count(first, m.b.cols);
    const Matrix b{nullptr, m.b.type, m.b.rows, count, m.b.transposed ? m.b.rows : count, m.b.transposed};
    for (int64_t row = 0; row < m.a.rows; row += step) {
      const int64_t rows = std::min(step, m.a.rows - row);
      const auto steps = [&](int64_t of) {
        std::vector<std::shared_ptr<const Product>> all;
        if (of == 0) return all;
        const int64_t stride = cut.dense ? count : m.c_stride;
        all.push_back(products.get(part(m.a, row, of, 0, m.a.cols), b, m.c_type, stride, m.beta == 1.0f));
        for (const Factors& f : m.more) {
          all.push_back(products.get(part(f.a, row, of, 0, f.a.cols), part(f.b, 0, f.b.rows, first, count),
                                     m.c_type, stride, true));
        }
        return all;
      };
      work.push_back(
          {&m, cut, first, count, row, rows, steps(rows < cut.rows ? 0 : cut.rows), steps(rows % cut.rows)});
    }
  }
}

void copy_rows(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t rows,
               int64_t bytes) {
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(to + r * to_stride, from + r * from_stride, static_cast<size_t>(bytes));
}

// place: for the panel, the result and oneDNN.
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
    run({steps[0], a, b}, to, engine, stream, scratch);
    for (size_t i = 0; i < m.more.size(); ++i) {
      const Matrix more_a = part(m.more[i].a, row, rows, 0, m.more[i].a.cols);
      const Matrix more_b = part(m.more[i].b, 0, m.more[i].b.rows, work.first, work.count);
      run({steps[i + 1], bytes_of(more_a), bytes_of(more_b)}, to, engine, stream, scratch);
    }
    if (work.cut.dense) copy_rows(result, bytes, c, c_bytes, rows, bytes);
  }
}

// On a machine whose oneDNN does not have the product: one panel after the other, all threads at each.
void multiply_in_turn(const PanelMultiplication& m) {
  const PanelCut cut(m);
  const auto size = static_cast<int64_t>(c10::elementSize(m.c_type));
  for (int64_t first = 0, count = 0; first < m.b.cols; first += count) {
    count = cut.count(first, m.b.cols);
    const at::Tensor panel = tensor::empty({m.b.rows * count}, m.b.type, MemoryKind::workspace);
    const void* const place = m.b.panel(first, count, panel.data_ptr());
    const Matrix b{place, m.b.type, m.b.rows, count, m.b.transposed ? m.b.rows : count, m.b.transposed};
    gemm(m.a, b, static_cast<char*>(m.c) + first * size, m.c_type, m.c_stride, m.beta);
  }
  for (const Factors& f : m.more) gemm(f.a, f.b, m.c, m.c_type, m.c_stride, 1.0f);
}

}  // namespace

void gemm(at::ArrayRef<PanelMultiplication> all) {
  const tensor::Timed timed(tensor::Part::gemm);
  auto& products = tensor::process_state<Products>();
  std::vector<PanelWork> work;
  for (const PanelMultiplication& m : all) {
    need(m.a.cols == m.b.rows && m.a.type == m.b.type, "gemm",
         "a product with panels needs A's columns and type");
    if (m.a.rows > 0 && m.b.cols > 0) cut(products, m, work);
  }
  if (!std::all_of(work.begin(), work.end(), [](const PanelWork& w) { return w.supported(); })) {
    for (const PanelMultiplication& m : all) multiply_in_turn(m);
    return;
  }
  int64_t bytes = 0;
  for (const PanelWork& w : work) bytes = std::max(bytes, w.panel_bytes() + w.result_bytes() + w.scratch());
  each_on_a_thread(std::ssize(work), bytes, products.engine(),
                   [&](size_t i, dnnl::stream& stream, uint8_t* place) {
                     run(work[i], products.engine(), stream, place);
                   });
}

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

}  // namespace trl::kernels
