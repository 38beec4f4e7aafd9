// Products whose right-hand matrix comes in panels: a thread makes or reads a panel and multiplies with it.
#include "kernels/gemm/gemm_products.h"
#include "kernels/gemm/tiles.h"

namespace trl::kernels {

namespace {

// The size of panels: at most as much as a core's second-level cache holds together with the rows that are
// multiplied with it, and an even number of them, nearly equal, so that two threads end together. Results are
// first written densely to work memory: oneDNN's faster kernels require that. Few rows have the tiles of an
// ordinary product.
struct PanelCut {
  int64_t rows, cols;
  bool dense;
  explicit PanelCut(const PanelMultiplication& m) {
    const Tiling whole(m.a.rows, m.b.cols, m.a.cols, m.a.transposed, false, false);
    rows = whole.rows;
    cols = whole.cols;
    dense = whole.cols >= m.b.cols || (EachRowByItself::active() && m.b.cols <= 8192);
    if (!dense) return;
    constexpr int64_t kBytes = int64_t{1} << 20;
    const int64_t column = std::max<int64_t>(1, m.b.rows) * static_cast<int64_t>(c10::elementSize(m.b.type));
    const int64_t unit = round_up(16, m.b.unit), most = std::max(kBytes / column / unit * unit, unit);
    const int64_t panels = 2 * ((m.b.cols + 2 * most - 1) / (2 * most));
    cols = round_up((m.b.cols + panels - 1) / panels, unit);
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
    multiply_in_tiles(
        Multiplication{m.a, b, static_cast<char*>(m.c) + first * size, m.c_type, m.c_stride, m.beta}, 1);
  }
  for (const Factors& f : m.more)
    multiply_in_tiles(Multiplication{f.a, f.b, m.c, m.c_type, m.c_stride, 1.0f}, 1);
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
    note_product(tensor::Job::panels, m.a, m.b.cols);
    for (const Factors& f : m.more) note_product(tensor::Job::product, f.a, f.b.cols);
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

}  // namespace trl::kernels
