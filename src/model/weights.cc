// Conversion runs in pieces over all threads; bytes that already have the wanted type are copied as they are.
#include "model/weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "base/arithmetic/bfloat16.h"
#include "base/error.h"
#include "kernels/weight/encoded_weight.h"
#include "kernels/weight/stored_weight.h"
#include "model/gguf_names.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/parallel.h"

namespace trl::model {

namespace {

constexpr int64_t kBuffer = 4096;  // elements converted at once, on the stack; a multiple of every block

// Calls body(begin, end) for ranges of the `rows` rows of a mapped tensor. The next one is fetched meanwhile,
// and each leaves memory after it has been read, so that no file is in memory together with the values made
// from it.
template <typename Body>
void by_stretch(const void* data, size_t bytes, int64_t rows, const Body& body) {
  constexpr int64_t kStretch = int64_t{8} << 20;
  if (rows == 0 || tensor::Rehearsal::current() != nullptr) return;
  const int64_t size = static_cast<int64_t>(bytes) / rows;
  const int64_t at_once = std::max<int64_t>(1, kStretch / std::max<int64_t>(1, size));
  const auto part = [&](int64_t begin) {
    const int64_t count = std::clamp<int64_t>(rows - begin, 0, at_once);
    return std::string_view(static_cast<const char*>(data) + begin * size, static_cast<size_t>(count * size));
  };
  base::MappedFile::fetch(part(0));
  for (int64_t begin = 0; begin < rows; begin += at_once) {
    if (begin + at_once < rows) base::MappedFile::fetch(part(begin + at_once));
    body(begin, std::min(rows, begin + at_once));
    base::MappedFile::drop(part(begin));
  }
}

// Brings a tensor of a host's file into memory. A rehearsal reads only small ones, which may say how others
// are stored.
void read_host(std::string_view stored) {
  constexpr size_t kSmall = size_t{64} << 10;
  if (stored.size() <= kSmall || tensor::Rehearsal::current() == nullptr) base::MappedFile::need(stored);
}

std::string_view stretch_of(std::string_view stored, int64_t first, int64_t bytes) {
  return stored.substr(static_cast<size_t>(first), static_cast<size_t>(bytes));
}

// Fills rows first to last of out. read(first, count, float*) for pieces of each row; row_of(i): the source
// row of row i.
template <typename Read, typename RowOf>
void convert(at::Tensor& out, int64_t width, int64_t first, int64_t last, const Read& read,
             const RowOf& row_of) {
  const bool narrow = out.scalar_type() == at::kBFloat16;
  void* data = out.data_ptr();
  tensor::parallel_for(last - first, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, width)),
                       [&](int64_t begin, int64_t end) {
                         float piece[kBuffer];
                         for (int64_t row = first + begin; row < first + end; ++row) {
                           for (int64_t at = 0; at < width; at += kBuffer) {
                             const int64_t count = std::min(kBuffer, width - at);
                             const int64_t from = row_of(row) * width + at;
                             const int64_t to = row * width + at;
                             if (!narrow) {
                               read(from, count, static_cast<float*>(data) + to);
                               continue;
                             }
                             read(from, count, piece);
                             uint16_t* bits = static_cast<uint16_t*>(data) + to;
                             for (int64_t i = 0; i < count; ++i) bits[i] = base::to_bf16(piece[i]).bits;
                           }
                         }
                       });
}

void copy(const io::TensorView& view, int64_t first, int64_t last, int64_t rows, char* out) {
  const int64_t size = static_cast<int64_t>(view.bytes) / rows;
  const char* from = static_cast<const char*>(view.data) + first * size;
  tensor::parallel_for((last - first) * size, 1 << 20, [&](int64_t begin, int64_t end) {
    std::memcpy(out + first * size + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

int64_t row_count(const std::vector<int64_t>& shape) { return shape.size() > 1 ? shape.front() : 1; }

// Rows of one matrix in a stack [matrices, rows, columns].
io::TensorView part_of(const io::TensorView& stack, int64_t matrix, int64_t first, int64_t rows) {
  const auto row = static_cast<int64_t>(stack.bytes) / (stack.shape[0] * stack.shape[1]);
  io::TensorView part = stack;
  part.shape = {rows, stack.shape[2]};
  part.data = static_cast<const char*>(stack.data) + (matrix * stack.shape[1] + first) * row;
  part.bytes = static_cast<size_t>(rows * row);
  return part;
}

// Splits experts that files have in one tensor, as transformers holds them in memory, into the matrices of
// each.
void split_experts(std::map<std::string, io::TensorView>& tensors, const Family& family) {
  const Names& names = family.names;
  if (names.router.empty()) return;
  const std::string gate_up = std::string(names.experts) + "gate_up_proj",
                    down = std::string(names.experts) + "down_proj";
  std::map<std::string, io::TensorView> parts;
  for (auto it = tensors.begin(); it != tensors.end();) {
    const auto& [name, view] = *it;
    const bool first = name.ends_with(gate_up);
    const bool splits = view.shape.size() == 3 && view.shape[0] > 0 && view.shape[1] > 0 &&
                        (first ? view.shape[1] % 2 == 0 : name.ends_with(down));
    if (!splits) {
      ++it;
      continue;
    }
    const std::string layer = name.substr(0, name.size() - (first ? gate_up : down).size());
    for (int64_t i = 0; i < view.shape[0]; ++i) {
      const std::string expert = layer + fmt::format(fmt::runtime(names.expert), i);
      const auto add = [&](std::string_view part, int64_t row, int64_t rows) {
        parts.emplace(expert + std::string(part) + ".weight", part_of(view, i, row, rows));
      };
      const int64_t rows = first ? view.shape[1] / 2 : view.shape[1];
      add(first ? names.expert_gate : names.expert_down, 0, rows);
      if (first) add(names.expert_up, rows, rows);
    }
    it = tensors.erase(it);
  }
  tensors.merge(parts);
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

// A weight as stored in a file: a tensor, or an expert's part of one.
struct Held {
  io::GgufTensor tensor;
  std::vector<int64_t> shape;  // in the order of this library
  std::string name;            // the tensor's name in the file
  bool moved = false;          // rows are in another order
  bool transposed = false;
  float added = 0;

  // Elements in the file's order.
  void read(int64_t first, int64_t count, float* out) const {
    io::dequantize(tensor, first, count, out);
    if (added == 0) return;
    for (int64_t i = 0; i < count; ++i) out[i] -= added;
  }
  // Reads one element, which may be within a block.
  float read(int64_t at) const {
    float block[256];
    const int64_t size = io::find_ggml_type(tensor.type)->block;
    read(at / size * size, size, block);
    return block[at % size];
  }
};

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
    const Held& held = stored(name);
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
    const Held& held = stored(name);
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
    const Held& held = held_.at(name);
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
    Held held{tensor, tensor.shape, theirs};
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

  void read_here(const Held& held, int64_t first, int64_t count, float* out) const {
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
  const Held& stored(const std::string& name) const {
    const Held& held = held_.at(name);
    if (held.moved && held.shape.size() == 1 && io::find_ggml_type(held.tensor.type)->dequantize != nullptr) {
      fail(Status::unsupported, "{}: a bias of type {} is not supported; F32, F16 and BF16 are", place(name),
           held.tensor.type_name);
    }
    return held;
  }

  std::shared_ptr<const io::Gguf> file_;
  const Family& family_;
  GgufOrder order_;
  std::map<std::string, Held> held_;  // by this library's names
  bool single_experts_ = false;       // files have a matrix for each expert
};

// Returns "model." for "model.embed_tokens".
std::string base_prefix(const Family& family) {
  const std::string_view name = family.names.embedding;
  return std::string(name.substr(0, name.find('.') + 1));
}

std::vector<std::string> names_of(const Family& family, const std::string& name) {
  std::vector<std::string> names = {name};
  for (const OtherName& other : family.other_names) {
    const size_t at = other.inside ? name.find(other.ours) : name.starts_with(other.ours) ? 0 : name.npos;
    if (at == name.npos) continue;
    names.push_back(std::string(name).replace(at, other.ours.size(), other.theirs));
  }
  return names;
}

// Returns "up_proj.weight" for "model.layers.0.mlp.up_proj.weight".
std::string_view last_parts(std::string_view name) {
  const size_t dot = name.rfind('.');
  const size_t before = dot == name.npos || dot == 0 ? name.npos : name.rfind('.', dot - 1);
  return before == name.npos ? name : name.substr(before + 1);
}

// For messages about a missing tensor: "the files have a, b, c and 3 more".
std::string names_there(const WeightSource& source, const std::string& name) {
  constexpr size_t kShown = 3;
  std::vector<std::string> names = source.others({});
  if (names.empty()) return "the files have no tensors";
  const std::string_view last = last_parts(name);
  std::stable_partition(names.begin(), names.end(),
                        [&](const std::string& other) { return other.ends_with(last); });
  const size_t shown = std::min(kShown, names.size()), more = names.size() - shown;
  names.resize(shown);
  return fmt::format("the files have {}{}", fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

bool holds(const WeightSource& source, const std::string& name, const at::Tensor& values) {
  constexpr int64_t kAtOnce = int64_t{8} << 20;  // elements compared before the file's pages are dropped
  source.read(name, 0, 0, nullptr);              // throws if its type cannot be read
  const bool narrow = values.scalar_type() == at::kBFloat16;
  const void* data = values.data_ptr();
  std::atomic<bool> same{true};
  const auto compare = [&](int64_t at, int64_t count) {
    float piece[kBuffer];
    source.read(name, at, count, piece);
    if (!narrow) {
      const float* floats = static_cast<const float*>(data) + at;
      return std::memcmp(floats, piece, static_cast<size_t>(count) * sizeof(float)) == 0;
    }
    const uint16_t* bits = static_cast<const uint16_t*>(data) + at;
    for (int64_t i = 0; i < count; ++i)
      if (bits[i] != base::to_bf16(piece[i]).bits) return false;
    return true;
  };
  for (int64_t first = 0; first < values.numel() && same; first += kAtOnce) {
    const int64_t elements = std::min(kAtOnce, values.numel() - first);
    source.fetch(name, first, elements);
    tensor::parallel_for((elements + kBuffer - 1) / kBuffer, 16, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * kBuffer; at < std::min(end * kBuffer, elements) && same; at += kBuffer)
        if (!compare(first + at, std::min(kBuffer, elements - at))) same = false;
    });
    source.forget(name);
  }
  return same;
}

std::string stored_name(const WeightSource& source, const Family& family, const std::string& name) {
  if (source.shape(name) != nullptr) return name;
  const std::string base = base_prefix(family);
  for (const std::string& own : names_of(family, name)) {
    const std::string shorter = own.starts_with(base) ? own.substr(base.size()) : own;
    for (const std::string& candidate : {own, shorter, base + own})
      if (source.shape(candidate) != nullptr) return candidate;
  }
  return name;
}

bool is_buffer(std::string_view name) {
  for (const std::string_view end :
       {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight", "rotary_emb.inv_freq",
        "attn.bias", "attn.masked_bias", "attention.bias", "attention.masked_bias"})
    if (name.ends_with(end)) return true;
  return false;
}

void WeightSource::need(const std::string& name, const std::vector<int64_t>& wanted) const {
  const std::vector<int64_t>* found = shape(name);
  if (found == nullptr) fail(Status::format, "{} is missing; {}", place(name), names_there(*this, name));
  if (*found == wanted) return;
  fail(Status::format, "{} has shape [{}], {} for [{}]", place(name), fmt::join(*found, ", "), asks(name),
       fmt::join(wanted, ", "));
}

std::unique_ptr<WeightSource> plain_weights(io::Weights weights, const Family& family) {
  return std::make_unique<PlainWeights>(std::move(weights), family);
}

std::unique_ptr<WeightSource> gguf_weights(std::shared_ptr<const io::Gguf> file, const ModelConfig& config) {
  return std::make_unique<GgufWeights>(std::move(file), config);
}

}  // namespace trl::model
