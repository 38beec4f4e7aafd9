// A thread takes some rows of x, converts them to codes, multiplies them with one panel after the other and
// turns the sums into numbers, with the additions to them, while they are in its second-level cache. The last
// rows are padded with zeros, so that products have few shapes.
#include "kernels/gemm/gemm_int8.h"

#include "kernels/gemm/gemm_products.h"
#include "kernels/op.h"
#include "tensor/parts.h"
#include "tensor/process_state.h"
#include "tensor/threads/parallel.h"

namespace trl::kernels {

namespace {

using dnnl::memory;
using ByteType = memory::data_type;

constexpr int64_t kMostRows = 256, kFewestRows = 64;  // rows in a tile
constexpr int64_t kMostColumns = 640;                 // columns in a panel
constexpr int64_t kMostSums = INT32_MAX / (127 * 127);

struct Int8Product {
  dnnl::matmul primitive;
  memory::desc a, b, sums, scratch;
  bool fast = false;  // oneDNN's other products are slow, or saturate
};

class Cache {
 public:
  std::shared_ptr<const Int8Product> get(int64_t rows, int64_t columns, int64_t depth) {
    const std::lock_guard lock(mutex_);
    auto& product = products_[{rows, columns, depth}];
    if (product == nullptr) product = make(rows, columns, depth);
    return product;
  }
  const dnnl::engine& engine() const { return engine_; }

 private:
  std::shared_ptr<const Int8Product> make(int64_t rows, int64_t columns, int64_t depth) const {
    const tensor::OpenMpThreads narrow(1);
    const memory::desc a({rows, depth}, ByteType::s8, memory::dims{depth, 1});
    const memory::desc sums({rows, columns}, ByteType::s32, memory::dims{columns, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const memory::desc b({depth, columns}, ByteType::s8, memory::format_tag::any);
    const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(a, b, sums), attributes, engine_,
                                              /*allow_empty=*/true);
    auto product = std::make_shared<Int8Product>();
    product->fast = chosen && std::string_view(chosen.impl_info_str()).starts_with("brg:avx512");
    if (product->fast) {
      product->primitive = dnnl::matmul(chosen);
      product->a = a;
      product->b = chosen.weights_desc();
      product->sums = sums;
      product->scratch = chosen.scratchpad_desc();
    }
    return product;
  }

  std::mutex mutex_;
  const dnnl::engine engine_ = products().engine();
  std::map<std::array<int64_t, 3>, std::shared_ptr<const Int8Product>> products_;
};

Cache& int8_products() { return tensor::process_state<Cache>(); }

// A panel of one of several products.
struct PanelStep {
  const Int8Multiplication* whole;
  const Int8Matrix::Panel* panel;
  std::shared_ptr<const Int8Product> product;
  // Products that are added, for a whole tile of rows and for the last one; null: none.
  std::shared_ptr<const Product> added, added_to_last;
};

// Rows of x with some of the panels, on one thread.
struct Rows {
  const at::Tensor* x;
  const float* factors;
  int64_t first, count, tile;
  at::ArrayRef<PanelStep> steps;
};

int64_t bytes_of_codes(int64_t tile, int64_t depth) { return round_up(tile * depth, 64); }
int64_t bytes_of_sums(const Int8Product& product) {
  return round_up(static_cast<int64_t>(product.sums.get_size()), 64);
}
// Bytes for the sums, the numbers that are added to them, and oneDNN.
int64_t bytes_for(const PanelStep& step) {
  int64_t bytes = bytes_of_sums(*step.product),
          scratch = static_cast<int64_t>(step.product->scratch.get_size());
  if (step.whole->added.a.defined()) bytes *= 2;
  for (const Product* added : {step.added.get(), step.added_to_last.get()})
    if (added != nullptr) scratch = std::max(scratch, added->scratch_bytes());
  return bytes + scratch;
}

void multiply(const Int8Product& product, const dnnl::engine& engine, dnnl::stream& stream, void* codes,
              void* b, void* sums, void* scratch) {
  product.primitive.execute(stream, {{DNNL_ARG_SRC, memory(product.a, engine, codes)},
                                     {DNNL_ARG_WEIGHTS, memory(product.b, engine, b)},
                                     {DNNL_ARG_DST, memory(product.sums, engine, sums)},
                                     {DNNL_ARG_SCRATCHPAD, memory(product.scratch, engine, scratch)}});
  stream.wait();
}

// The numbers that are added to rows of the product, or null. sums: with room after them.
const float* added_numbers(const PanelStep& step, const Rows& rows, char* sums, dnnl::stream& stream) {
  const TensorFactors& added = step.whole->added;
  if (!added.a.defined()) return nullptr;
  const Factors whole = matrices(added);
  const Matrix a = part(whole.a, rows.first, rows.count, 0, whole.a.cols);
  const Matrix b = part(whole.b, 0, whole.b.rows, step.panel->first, step.panel->count);
  char* const numbers = sums + bytes_of_sums(*step.product);
  const auto& product = rows.count == rows.tile ? step.added : step.added_to_last;
  run_step({product, bytes_of(a), bytes_of(b)}, numbers, products().engine(), stream,
           product->scratch_bytes() > 0 ? numbers + bytes_of_sums(*step.product) : nullptr);
  return reinterpret_cast<const float*>(numbers);
}

// place: memory for steps of the rows, codes, and each panel's own.
void run(const Rows& rows, const dnnl::engine& engine, dnnl::stream& stream, uint8_t* place) {
  const at::Tensor& x = *rows.x;
  const int64_t depth = x.size(1);
  auto* const row_steps = reinterpret_cast<float*>(place);
  auto* const codes = reinterpret_cast<int8_t*>(place + kMostRows * sizeof(float));
  char* const sums = reinterpret_cast<char*>(codes) + bytes_of_codes(rows.tile, depth);
  cpu().to_int8(
      {at_byte(x, rows.first * depth), rows.factors, codes, row_steps, rows.count, depth, type_of(x)});
  std::memset(codes + rows.count * depth, 0, static_cast<size_t>((rows.tile - rows.count) * depth));
  for (const PanelStep& step : rows.steps) {
    multiply(*step.product, engine, stream, codes, step.panel->bytes.data_ptr(), sums,
             sums + bytes_of_sums(*step.product));
    const float* const added = added_numbers(step, rows, sums, stream);
    const Int8Multiplication& m = *step.whole;
    const int64_t width = m.y.size(1), first = step.panel->first;
    cpu().from_int8({reinterpret_cast<const int32_t*>(sums), row_steps,
                     m.steps == nullptr ? nullptr : m.steps + first, added,
                     at_byte(m.y, rows.first * width + first), rows.count, step.panel->count, width,
                     type_of(m.y), m.beta == 1.0f});
  }
}

std::shared_ptr<const Product> product_added(const Int8Multiplication& m, const Int8Matrix::Panel& panel,
                                             int64_t rows) {
  if (rows == 0) return {};
  const Factors f = matrices(m.added);
  auto product =
      products().get(part(f.a, 0, rows, 0, f.a.cols), part(f.b, 0, f.b.rows, panel.first, panel.count),
                     at::kFloat, panel.count, false);
  if (!product->supported) fail(Status::unsupported, "oneDNN has no product in bfloat16 on this machine");
  return product;
}

std::vector<PanelStep> steps_of(at::ArrayRef<Int8Multiplication> all, int64_t tokens, int64_t tile) {
  std::vector<PanelStep> steps;
  for (const Int8Multiplication& m : all) {
    for (const Int8Matrix::Panel& panel : m.b->panels()) {
      steps.push_back({&m, &panel, int8_products().get(tile, panel.count, m.b->rows()), {}, {}});
      if (!m.added.a.defined()) continue;
      steps.back().added = product_added(m, panel, tokens < tile ? 0 : tile);
      steps.back().added_to_last = product_added(m, panel, tokens % tile);
    }
  }
  return steps;
}

void check(const at::Tensor& x, const Int8Multiplication& m) {
  const auto& last = m.b->panels().back();
  need(x.dim() == 2 && x.is_contiguous() && x.size(1) == m.b->rows() && m.y.is_contiguous() &&
           m.y.size(0) == x.size(0) && m.y.size(1) == last.first + last.count && (m.beta == 0 || m.beta == 1),
       "gemm_int8", "x [tokens, rows of b] and y [tokens, columns of b], dense, are needed");
  if (!m.added.a.defined()) return;
  const Factors f = matrices(m.added);
  need(f.a.rows == m.y.size(0) && f.b.cols == m.y.size(1) && f.a.cols == f.b.rows && f.a.cols > 0 &&
           f.a.type == at::kBFloat16 && f.b.type == at::kBFloat16,
       "gemm_int8", "what is added is a product in bfloat16, as large as y");
}

// Notes the product for a rehearsal, which times it as a product in bfloat16, which takes longer.
void note(const at::Tensor& x, const Int8Multiplication& m) {
  tensor::Rehearsal* const rehearsal = tensor::Rehearsal::current();
  if (rehearsal == nullptr) return;
  const int64_t columns = m.y.size(1);
  rehearsal->note(
      {tensor::Job::product, {}, x.size(0), columns, x.size(1), 2},
      2.0 * static_cast<double>(x.size(0)) * static_cast<double>(columns) * static_cast<double>(x.size(1)));
}

}  // namespace

bool has_int8_products() {
  static const bool has = int8_products().get(kFewestRows, 64, 64)->fast;
  return has;
}

Int8Matrix::Int8Matrix(const at::Tensor& codes) : rows_(codes.size(0)) {
  if (rows_ > kMostSums) {
    fail(Status::unsupported, "a product in 8-bit integers has sums of {} terms: at most {} fit 32 bits",
         rows_, kMostSums);
  }
  const tensor::OpenMpThreads narrow(1);
  const dnnl::engine& engine = int8_products().engine();
  dnnl::stream stream(engine);
  const int64_t columns = codes.size(1), parts = (columns + kMostColumns - 1) / kMostColumns;
  const int64_t most = round_up((columns + parts - 1) / parts, 64);
  for (int64_t first = 0; first < columns; first += most) {
    const int64_t count = std::min(most, columns - first);
    const auto product = int8_products().get(kMostRows, count, rows_);
    if (!product->fast) fail(Status::unsupported, "oneDNN has no product in 8-bit integers on this machine");
    const auto bytes = static_cast<int64_t>(product->b.get_size());
    panels_.push_back({first, count, tensor::empty({bytes}, at::kByte, MemoryKind::weights)});
    // Without AMX oneDNN only packs dense matrices.
    at::Tensor dense = tensor::empty({rows_, count}, at::kChar, MemoryKind::workspace);
    if (tensor::Rehearsal::current() != nullptr) continue;
    tensor::copy_in_parts(dense, codes.narrow(1, first, count));
    memory from({{rows_, count}, ByteType::s8, memory::dims{count, 1}}, engine, dense.data_ptr());
    memory to(product->b, engine, panels_.back().bytes.data_ptr());
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
  }
}

void gemm_int8(const at::Tensor& x, const float* factors, at::ArrayRef<Int8Multiplication> all) {
  const tensor::Timed timed(tensor::Part::gemm);
  for (const Int8Multiplication& m : all) check(x, m);
  for (const Int8Multiplication& m : all) note(x, m);
  const int64_t tokens = x.size(0), wanted = 2 * tensor::threads();  // pieces of work
  if (tokens == 0) return;
  int64_t tile = kMostRows;
  while (tile > kFewestRows && tokens <= tile * (wanted - 1)) tile /= 2;
  const std::vector<PanelStep> steps = steps_of(all, tokens, tile);
  const int64_t tiles = (tokens + tile - 1) / tile;
  const int64_t groups = std::min<int64_t>(std::ssize(steps), (wanted + tiles - 1) / tiles);
  std::vector<Rows> work;
  for (int64_t first = 0; first < tokens; first += tile) {
    for (int64_t g = 0; g < groups; ++g) {
      const auto begin = static_cast<size_t>(g * std::ssize(steps) / groups);
      const auto end = static_cast<size_t>((g + 1) * std::ssize(steps) / groups);
      work.push_back({&x, factors, first, std::min(tile, tokens - first), tile,
                      at::ArrayRef<PanelStep>(steps).slice(begin, end - begin)});
    }
  }
  int64_t bytes = 0;
  for (const PanelStep& step : steps) bytes = std::max(bytes, bytes_for(step));
  bytes += kMostRows * static_cast<int64_t>(sizeof(float)) + bytes_of_codes(tile, x.size(1));
  each_on_a_thread(std::ssize(work), bytes, int8_products().engine(),
                   [&](size_t i, dnnl::stream& stream, uint8_t* place) {
                     run(work[i], int8_products().engine(), stream, place);
                   });
}

Int8Products::Codes Int8Products::codes_of(const Projection& p) {
  const int64_t out = p.out(), in = p.in();
  const tensor::Reading reading = p.weight->read();
  at::Tensor rows = *reading;
  if (p.transposed) {
    rows = tensor::empty({out, in}, reading->scalar_type(), MemoryKind::workspace);
    tensor::copy_in_parts(rows, reading->t());
  }
  Codes codes{tensor::empty({out, in}, at::kChar, MemoryKind::workspace),
              tensor::empty({out}, at::kFloat, MemoryKind::weights)};
  tensor::parallel_for(out, 16, [&](int64_t begin, int64_t end) {
    cpu().to_int8({at_byte(rows, begin * in), nullptr, codes.values.data_ptr<int8_t>() + begin * in,
                   codes.steps.data_ptr<float>() + begin, end - begin, in, type_of(rows)});
  });
  return codes;
}

Int8Products::Int8Products(const Projection& p) : Int8Products(p, codes_of(p)) {}

Int8Products::Int8Products(const Projection& p, const Codes& codes)
    : weight_(p.weight), steps_(codes.steps), forward_(codes.values.t()), backward_(codes.values) {}

}  // namespace trl::kernels
