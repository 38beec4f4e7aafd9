// Weights of a GGUF file.
#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "kernels/weight/encoded_weight.h"
#include "model/gguf/held.h"
#include "model/gguf/names.h"
#include "model/weights/conversion.h"
#include "model/weights/weights.h"

namespace trl::model {

namespace {

// The key that determines a tensor's number of rows or columns, apart from hidden_size.
std::string_view size_key(std::string_view theirs) {
  const auto has = [&](std::string_view part) { return theirs.find(part) != theirs.npos; };
  if (has(".attn_k.") || has(".attn_v.")) return "attention.head_count_kv";
  if (has(".attn_q") || has(".attn_output.")) return "attention.head_count";
  if (has("_shexp.")) return "expert_shared_feed_forward_length";
  if (has("_exps.")) return "expert_feed_forward_length";
  return has(".ffn_gate.") || has(".ffn_up.") || has(".ffn_down.") ? "feed_forward_length"
                                                                   : "embedding_length";
}

class GgufWeights final : public WeightSource {
 public:
  GgufWeights(std::shared_ptr<const io::Gguf> file, const ModelConfig& config)
      : file_(std::move(file)), family_(*config.family), order_(config) {
    for (const auto& [name, tensor] : file_->tensors()) {
      if (tensor.shape.size() != 3) {
        const GgufPlace single = place_of_single_expert(name);
        single_experts_ = single_experts_ || single.expert >= 0;
        add(name, tensor, name_of_gguf(family_, single.expert < 0 ? name : single.name, single.expert), -1);
        continue;
      }
      for (int64_t i = 0; i < std::min(tensor.shape.front(), config.experts.count); ++i)
        add(name, tensor, name_of_gguf(family_, name, i), i);
    }
  }

  std::string place(const std::string& name) const override {
    return fmt::format("{}: tensor {}", file_->path(), name_in_file(name));
  }
  std::string asks(const std::string& name) const override {
    const std::string_view size = size_key(gguf_name(family_, name));
    const std::string key = fmt::format("{}.{}", file_->text("general.architecture"), size);
    const bool counts = file_->find(key) == nullptr && size == "attention.head_count_kv";
    return fmt::format("the metadata ({}{}) ask", key,
                       counts ? " is missing: attention.head_count counts" : "");
  }
  const std::vector<int64_t>* shape(const std::string& name) const override {
    const auto found = held_.find(name);
    return found == held_.end() ? nullptr : &found->second.shape;
  }
  void read(const std::string& name, at::Tensor& out) const override {
    const GgufHeld& held = stored(name);
    const auto read = [&](int64_t first, int64_t count, float* to) { read_here(held, first, count, to); };
    const auto same = [](int64_t row) { return row; };
    const int64_t rows = held.moved ? held.shape.front() : row_count(held.shape);
    if (held.transposed || held.moved) {  // rows come from anywhere in the file's tensor
      read_host(held.tensor.stored());
      convert(out, out.numel() / rows, 0, rows, read, same);
      return forget(name);
    }
    by_stretch(held.tensor.data, held.tensor.bytes, rows, [&](int64_t first, int64_t last) {
      convert(out, out.numel() / rows, first, last, read, same);
    });
  }
  void read(const std::string& name, int64_t first, int64_t count, float* out) const override {
    read_here(stored(name), first, count, out);
  }
  std::shared_ptr<const tensor::Encoded> encoded(const std::string& name, bool /*turned*/) const override {
    const GgufHeld& held = stored(name);
    read_host(held.tensor.stored());
    std::function<int64_t(int64_t)> row;
    if (held.moved) row = [order = order_](int64_t r) { return order.in_gguf(r); };
    io::GgufTensor tensor = held.tensor;
    tensor.shape = held.shape;
    if (held.transposed) std::swap(tensor.shape[0], tensor.shape[1]);
    return kernels::ggml_weight(file_, tensor, std::move(row));
  }
  void check() const override { file_->check(); }
  void forget(const std::string& name) const override {
    base::MappedFile::drop(held_.at(name).tensor.stored());
  }
  void fetch(const std::string& name, int64_t first, int64_t count) const override {
    const GgufHeld& held = held_.at(name);
    if (held.transposed || held.moved) return read_host(held.tensor.stored());
    const io::GgmlType& type = *io::find_ggml_type(held.tensor.type);
    read_host(
        stretch_of(held.tensor.stored(), first / type.block * type.bytes, count / type.block * type.bytes));
  }
  std::string type(const std::string& name) const override { return held_.at(name).tensor.type_name; }
  std::vector<std::string> others(const std::set<std::string>& used) const override {
    std::set<std::string> theirs;
    for (const std::string& name : used) theirs.insert(name_in_file(name));
    return names_except(file_->tensors(), theirs);
  }

 private:
  std::string name_in_file(const std::string& name) const {
    const auto found = held_.find(name);
    if (found != held_.end()) return found->second.name;
    const GgufPlace place = gguf_place(family_, name);
    return single_experts_ && place.expert >= 0 ? single_expert_name(place) : place.name;
  }

  void add(const std::string& theirs, const io::GgufTensor& tensor, const std::string& name, int64_t expert) {
    if (name.empty()) return;
    GgufHeld held{tensor, tensor.shape, theirs};
    if (expert >= 0) {
      const size_t bytes = tensor.bytes / static_cast<size_t>(tensor.shape.front());
      held.tensor.data = static_cast<const char*>(tensor.data) + static_cast<size_t>(expert) * bytes;
      held.tensor.bytes = bytes;
      held.shape.erase(held.shape.begin());
      held.tensor.shape = held.shape;
    }
    held.shape = order_.here(name, std::move(held.shape));
    held.moved = order_.moves_rows(name);
    held.transposed = order_.transposes(name, held.shape.size());
    held.added = order_.added(name);
    held_.emplace(name, std::move(held));
  }

  void read_here(const GgufHeld& held, int64_t first, int64_t count, float* out) const {
    const int64_t width = held.shape.size() > 1 ? held.shape.back() : 1;
    if (held.transposed) {
      for (int64_t i = first; i < first + count; ++i)
        *out++ = held.read(i % width * held.shape.front() + i / width);
    } else if (held.moved) {
      each_row(first, count, width, [&](int64_t row, int64_t column, int64_t part) {
        held.read(order_.in_gguf(row) * width + column, part, out);
        out += part;
      });
    } else {
      held.read(first, count, out);
    }
  }

  // In a bias whose rows are in another order each element is a row.
  const GgufHeld& stored(const std::string& name) const {
    const GgufHeld& held = held_.at(name);
    if (held.moved && held.shape.size() == 1 && io::find_ggml_type(held.tensor.type)->dequantize != nullptr) {
      fail(Status::unsupported, "{}: a bias of type {} is not supported; F32, F16 and BF16 are", place(name),
           held.tensor.type_name);
    }
    return held;
  }

  std::shared_ptr<const io::Gguf> file_;
  const Family& family_;
  GgufOrder order_;
  std::map<std::string, GgufHeld> held_;  // by this library's names
  bool single_experts_ = false;           // files have a matrix for each expert
};

}  // namespace

std::unique_ptr<WeightSource> gguf_weights(std::shared_ptr<const io::Gguf> file, const ModelConfig& config) {
  return std::make_unique<GgufWeights>(std::move(file), config);
}

}  // namespace trl::model
