// Conversion runs in pieces over all threads; bytes that already have the wanted type are copied as they are.
#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "model/gguf_names.h"
#include "tensor/parallel.h"

namespace trl::model {

namespace {

constexpr int64_t kPiece = 4096;  // elements converted at once, on the stack; a multiple of every block

// read(first, count, float*) for pieces of each row; row_of(i): the source row of row i.
template <typename Read, typename RowOf>
void convert(at::Tensor& out, int64_t rows, const Read& read, const RowOf& row_of) {
  const int64_t width = rows > 0 ? out.numel() / rows : 0;
  const bool narrow = out.scalar_type() == at::kBFloat16;
  void* data = out.data_ptr();
  tensor::parallel_for(rows, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, width)),
                       [&](int64_t begin, int64_t end) {
                         float piece[kPiece];
                         for (int64_t row = begin; row < end; ++row) {
                           for (int64_t at = 0; at < width; at += kPiece) {
                             const int64_t count = std::min(kPiece, width - at);
                             const int64_t from = row_of(row) * width + at;
                             const int64_t to = row * width + at;
                             if (!narrow) {
                               read(from, count, static_cast<float*>(data) + to);
                               continue;
                             }
                             read(from, count, piece);
                             uint16_t* bits = static_cast<uint16_t*>(data) + to;
                             for (int64_t i = 0; i < count; ++i) bits[i] = io::float_to_bfloat16(piece[i]);
                           }
                         }
                       });
}

int64_t row_count(const std::vector<int64_t>& shape) { return shape.size() > 1 ? shape.front() : 1; }

class DirectoryWeights final : public WeightSource {
 public:
  explicit DirectoryWeights(io::Weights weights) : weights_(std::move(weights)) {}

  std::string place(const std::string& name) const override {
    return fmt::format("{}: tensor {}", weights_.directory(), name);
  }
  std::string asks(const std::string&) const override { return "config.json asks"; }
  const std::vector<int64_t>* shape(const std::string& name) const override {
    const io::TensorView* view = weights_.find(name);
    return view != nullptr ? &view->shape : nullptr;
  }
  void read(const std::string& name, at::Tensor& out) const override {
    const io::TensorView& view = *weights_.find(name);
    const bool same = (view.type == io::ElementType::f32 && out.scalar_type() == at::kFloat) ||
                      (view.type == io::ElementType::bf16 && out.scalar_type() == at::kBFloat16);
    if (same) {
      char* to = static_cast<char*>(out.data_ptr());
      const char* from = static_cast<const char*>(view.data);
      tensor::parallel_for(static_cast<int64_t>(view.bytes), 1 << 20, [&](int64_t begin, int64_t end) {
        std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
      });
      return;
    }
    switch (view.type) {
      case io::ElementType::f32:
      case io::ElementType::f16:
      case io::ElementType::bf16:
      case io::ElementType::f64:
        break;
      default:
        fail(Status::unsupported, "{}: dtype {} is not supported; these are: F32, BF16, F16, F64",
             place(name), view.type_name);
    }
    convert(
        out, row_count(view.shape),
        [&](int64_t first, int64_t count, float* to) {
          io::read_floats(view.type, view.data, first, count, to);
        },
        [](int64_t row) { return row; });
  }
  std::vector<std::string> others(const std::set<std::string>& used) const override {
    std::vector<std::string> names = weights_.names();
    std::erase_if(names, [&](const std::string& name) { return used.contains(name); });
    return names;
  }

 private:
  io::Weights weights_;
};

// The key that says how many rows or columns a tensor has beside hidden_size.
std::string_view size_key(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (has(".k_proj.") || has(".v_proj.")) return "attention.head_count_kv";
  if (has(".q_proj.") || has(".o_proj.")) return "attention.head_count";
  return has(".mlp.") ? "feed_forward_length" : "embedding_length";
}

class GgufWeights final : public WeightSource {
 public:
  GgufWeights(std::shared_ptr<const io::Gguf> file, const ModelConfig& config)
      : file_(std::move(file)), family_(*config.family), head_dim_(config.head_dim) {}

  std::string place(const std::string& name) const override {
    return fmt::format("{}: tensor {}", file_->path(), gguf_name(family_, name));
  }
  std::string asks(const std::string& name) const override {
    const std::string key = fmt::format("{}.{}", file_->text("general.architecture"), size_key(name));
    return fmt::format("the metadata ({}{}) ask", key,
                       file_->find(key) == nullptr ? " is missing: attention.head_count counts" : "");
  }
  const std::vector<int64_t>* shape(const std::string& name) const override {
    const auto found = file_->tensors().find(gguf_name(family_, name));
    return found == file_->tensors().end() ? nullptr : &found->second.shape;
  }
  void read(const std::string& name, at::Tensor& out) const override {
    const io::GgufTensor& tensor = file_->tensors().find(gguf_name(family_, name))->second;
    const auto read = [&](int64_t first, int64_t count, float* to) {
      io::dequantize(tensor, first, count, to);
    };
    const bool rotated =
        name.find(".q_proj.") != std::string::npos || name.find(".k_proj.") != std::string::npos;
    if (!family_.gguf_interleaved_rope || !rotated)
      return convert(out, row_count(tensor.shape), read, [](int64_t row) { return row; });
    // Row j d/2 + i of a head (half j, frequency i) is row 2i + j in the file. A bias is a column of rows.
    if (tensor.shape.size() == 1 && tensor.type_name.starts_with("Q")) {
      fail(Status::unsupported, "{}: a bias of type {} is not supported; F32, F16 and BF16 are", place(name),
           tensor.type_name);
    }
    const int64_t half = head_dim_ / 2;
    convert(out, tensor.shape.front(), read, [&](int64_t row) {
      const int64_t in_head = row % head_dim_;
      return row - in_head + in_head % half * 2 + in_head / half;
    });
  }
  std::vector<std::string> others(const std::set<std::string>& used) const override {
    std::set<std::string> theirs;
    for (const std::string& name : used) theirs.insert(gguf_name(family_, name));
    std::vector<std::string> names;
    for (const auto& [name, tensor] : file_->tensors()) {
      if (!theirs.contains(name)) names.push_back(name);
    }
    return names;
  }

 private:
  std::shared_ptr<const io::Gguf> file_;
  const Family& family_;
  int64_t head_dim_;
};

}  // namespace

std::unique_ptr<WeightSource> directory_weights(io::Weights weights) {
  return std::make_unique<DirectoryWeights>(std::move(weights));
}

std::unique_ptr<WeightSource> gguf_weights(std::shared_ptr<const io::Gguf> file, const ModelConfig& config) {
  return std::make_unique<GgufWeights>(std::move(file), config);
}

}  // namespace trl::model
