// Weights as arrays of numbers, in safetensors files or in memory. Bytes that already have the wanted type
// are copied as they are.
#include <cstring>
#include <map>

#include "base/error.h"
#include "kernels/weight/stored_weight.h"
#include "model/weights/conversion.h"
#include "model/weights/stacked_experts.h"
#include "model/weights/weights.h"

namespace trl::model {

namespace {

void copy(const io::TensorView& view, int64_t first, int64_t last, int64_t rows, char* out) {
  const int64_t size = static_cast<int64_t>(view.bytes) / rows;
  const char* from = static_cast<const char*>(view.data) + first * size;
  tensor::parallel_for((last - first) * size, 1 << 20, [&](int64_t begin, int64_t end) {
    std::memcpy(out + first * size + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

class PlainWeights final : public WeightSource {
 public:
  PlainWeights(io::Weights weights, const Family& family) : weights_(std::move(weights)) {
    for (const std::string& name : weights_.names()) tensors_.emplace(name, *weights_.find(name));
    split_experts(tensors_, family);
  }

  std::string place(const std::string& name) const override {
    return fmt::format("{}: tensor {}", weights_.name(), name);
  }
  std::string asks(const std::string&) const override { return "config.json asks"; }
  const io::TensorView* raw(const std::string& name) const override {
    const io::TensorView* const view = find(name);
    if (view != nullptr) read_host(view->stored());
    return view;
  }
  void check() const override { weights_.check(); }
  const std::vector<int64_t>* shape(const std::string& name) const override {
    const io::TensorView* view = find(name);
    return view != nullptr ? &view->shape : nullptr;
  }
  void read(const std::string& name, at::Tensor& out) const override {
    const io::TensorView& view = stored(name);
    const bool same = (view.type == io::ElementType::f32 && out.scalar_type() == at::kFloat) ||
                      (view.type == io::ElementType::bf16 && out.scalar_type() == at::kBFloat16);
    const int64_t rows = row_count(view.shape);
    const int64_t width = rows > 0 ? out.numel() / rows : 0;
    by_stretch(view.data, view.bytes, rows, [&](int64_t first, int64_t last) {
      if (same) return copy(view, first, last, rows, static_cast<char*>(out.data_ptr()));
      convert(
          out, width, first, last,
          [&](int64_t at, int64_t count, float* to) { io::read_floats(view.type, view.data, at, count, to); },
          [](int64_t row) { return row; });
    });
  }
  void read(const std::string& name, int64_t first, int64_t count, float* out) const override {
    const io::TensorView& view = stored(name);
    io::read_floats(view.type, view.data, first, count, out);
  }
  std::shared_ptr<const tensor::Encoded> encoded(const std::string& name, bool turned) const override {
    const io::TensorView& view = stored(name);
    if (turned || view.shape.size() != 2) return nullptr;
    read_host(view.stored());
    return kernels::stored_weight(view);
  }
  at::Tensor mapped(const std::string& name, at::ScalarType type) const override {
    const io::TensorView& view = stored(name);
    const bool same = view.type == (type == at::kFloat ? io::ElementType::f32 : io::ElementType::bf16);
    const bool aligned = reinterpret_cast<uintptr_t>(view.data) % c10::elementSize(type) == 0;
    if (!same || !aligned || view.shape.size() != 2) return {};
    read_host(view.stored());
    return kernels::stored_tensor(view);
  }
  void forget(const std::string& name) const override { base::MappedFile::drop(find(name)->stored()); }
  void fetch(const std::string& name, int64_t first, int64_t count) const override {
    const io::TensorView& view = stored(name);
    const auto size = static_cast<int64_t>(io::element_size(view.type));
    read_host(stretch_of(view.stored(), first * size, count * size));
  }
  std::string type(const std::string& name) const override { return find(name)->type_name; }
  std::vector<std::string> others(const std::set<std::string>& used) const override {
    return names_except(tensors_, used);
  }

 private:
  const io::TensorView* find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  const io::TensorView& stored(const std::string& name) const {
    const io::TensorView& view = *find(name);
    using enum io::ElementType;
    if (view.type == f32 || view.type == f16 || view.type == bf16 || view.type == f64) return view;
    fail(Status::unsupported, "{}: dtype {} is not supported; these are: F32, BF16, F16, F64", place(name),
         view.type_name);
  }

  io::Weights weights_;
  std::map<std::string, io::TensorView> tensors_;
};

}  // namespace

std::unique_ptr<WeightSource> plain_weights(io::Weights weights, const Family& family) {
  return std::make_unique<PlainWeights>(std::move(weights), family);
}

}  // namespace trl::model
