#include "checkpoint/gguf_file.h"

#include <algorithm>
#include <atomic>
#include <cctype>

#include "base/error.h"
#include "io/gguf_types.h"
#include "model/config/model_config.h"
#include "model/gguf/metadata.h"
#include "model/gguf/names.h"
#include "tensor/threads/parallel.h"

namespace trl::checkpoint {

namespace {

constexpr int64_t kConverted = 4096;  // elements at once, on the stack; a multiple of every block

uint32_t file_type(const io::GgmlType& type) {  // llama.h's llama_ftype
  constexpr std::pair<uint32_t, uint32_t> kTypes[] = {
      {io::kGgmlF32, 0}, {io::kGgmlF16, 1}, {io::kGgmlQ4_0, 2}, {io::kGgmlQ8_0, 7}};
  for (const auto& [number, theirs] : kTypes)
    if (number == type.number) return theirs;
  return 32;  // BF16
}

// Returns the type of a tensor. llama.cpp computes with norms, biases, routers and positions only in float32.
// If the rest has four bits, embedding and head, whose errors cost most, have eight.
const io::GgmlType& type_of(const std::string& name, const std::vector<int64_t>& shape,
                            const io::GgmlType& wanted, base::LogSink* log) {
  const bool narrow =
      shape.size() > 1 && !name.ends_with(".ffn_gate_inp.weight") && name != "position_embd.weight";
  if (!narrow) return *io::find_ggml_type(io::kGgmlF32);
  if (shape.back() % wanted.block != 0) {
    if (log != nullptr)
      log->warning("checkpoint",
                   "tensor {}: rows of {} elements are not a multiple of the {} elements of a {} block: F16",
                   name, shape.back(), wanted.block, wanted.name);
    return *io::find_ggml_type(io::kGgmlF16);
  }
  return wanted.number == io::kGgmlQ4_0 && !name.starts_with("blk.") ? *io::find_ggml_type(io::kGgmlQ8_0)
                                                                     : wanted;
}

// Returns a name that llama.cpp loads: it looks for tokens of Phi-3's first vocabulary in every model with
// that name, and does not load one that lacks them.
std::string loadable_name(const GgufModel& m) {
  const auto has = [&](std::string_view token) {
    const auto size = static_cast<uint64_t>(token.size());
    std::string encoded(reinterpret_cast<const char*>(&size), sizeof size);
    return m.vocabulary.bytes.find(encoded.append(token)) != std::string_view::npos;
  };
  std::string lower = m.name;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool named = lower.find("phi-3") != lower.npos || lower.find("phi3") != lower.npos;
  return named && !(has("<unk>") && has("<s>") && has("</s>") && has("<|endoftext|>")) ? "Phi" : m.name;
}

io::GgufPairs metadata_of(const GgufModel& m, base::LogSink* log) {
  io::GgufPairs pairs = model::gguf_metadata(m.config, loadable_name(m), log);
  pairs.add("general.file_type", file_type(m.type));
  if (m.type.block > 1) pairs.add("general.quantization_version", uint32_t{2});
  pairs.append({m.vocabulary.pairs, std::string(m.vocabulary.bytes)});
  constexpr const char* kEnds[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
  size_t ends = 0;
  for (const int32_t id : m.end_ids) {
    if (id == m.vocabulary.eos) continue;
    if (ends < std::size(kEnds))
      pairs.add(kEnds[ends++], static_cast<uint32_t>(id));
    else if (log != nullptr)
      log->warning("checkpoint", "token {} ends a text too; GGUF files name three such tokens at most", id);
  }
  return pairs;
}

// The source of one tensor: a weight, or those of all experts.
struct Source {
  const GgufModel& model;
  const model::GgufOrder& order;
  std::string name;                 // the family's, of the first
  std::vector<std::string> stored;  // names of the weights in the files
  std::vector<int64_t> shape;       // shape of each, here

  int64_t size() const { return shape.size() > 1 ? shape[0] * shape[1] : shape[0]; }
  // Reads elements as the file orders them.
  void read(int64_t first, int64_t count, float* out) const {
    const float added = order.added(name), factor = order.factor(name);
    model::each_row(first, count, size(), [&](int64_t which, int64_t at, int64_t part) {
      read_one(stored[static_cast<size_t>(which)], at, part, out);
      for (int64_t i = 0; (added != 0 || factor != 1) && i < part; ++i) out[i] = (out[i] + added) * factor;
      out += part;
    });
  }
  void forget(int64_t first, int64_t count) const {
    for (int64_t i = first / size(); i <= (first + count - 1) / size(); ++i)
      model.weights.forget(stored[static_cast<size_t>(i)]);
  }

 private:
  void read_one(const std::string& from, int64_t first, int64_t count, float* out) const {
    const int64_t width = shape.size() > 1 ? shape.back() : 1;
    if (order.transposes(name, shape.size())) {
      const int64_t rows = shape.front();
      for (int64_t i = first; i < first + count; ++i)
        model.weights.read(from, i % rows * width + i / rows, 1, out++);
    } else if (order.moves_rows(name)) {
      model::each_row(first, count, width, [&](int64_t row, int64_t column, int64_t part) {
        model.weights.read(from, order.here(row) * width + column, part, out);
        out += part;
      });
    } else {
      model.weights.read(from, first, count, out);
    }
  }
};

io::GgufEntry entry_of(Source source, base::LogSink* log) {
  const model::GgufPlace place = model::gguf_place(*source.model.config.family, source.name);
  std::vector<int64_t> shape = source.order.in_gguf(source.name, source.shape);
  if (place.expert >= 0) shape.insert(shape.begin(), std::ssize(source.stored));
  const io::GgmlType& type = type_of(place.name, shape, source.model.type, log);
  const std::string where = source.model.weights.place(source.stored.front());
  return {place.name, shape, &type,
          [&type, where, source = std::move(source)](int64_t first, int64_t count, uint8_t* out) {
            encode(type, where, first, count, out,
                   [&](int64_t at, int64_t part, float* to) { source.read(at, part, to); });
            source.forget(first, count);
          }};
}

std::vector<io::GgufEntry> entries_of(const GgufModel& m, const model::GgufOrder& order, base::LogSink* log) {
  const model::Family& family = *m.config.family;
  std::vector<Source> sources;
  for (const model::TensorShape& tensor : model::tensor_list(m.config)) {
    const std::string stored = model::stored_name(m.weights, family, tensor.name);
    check_shape(m.weights, {stored, tensor.shape});
    if (model::gguf_place(family, tensor.name).expert > 0)
      sources.back().stored.push_back(stored);
    else
      sources.push_back({m, order, tensor.name, {stored}, tensor.shape});
  }
  std::vector<io::GgufEntry> entries;
  for (Source& source : sources) entries.push_back(entry_of(std::move(source), log));
  return entries;
}

}  // namespace

const io::GgmlType& gguf_type(std::string_view name, std::string_view stored_dtype) {
  std::string wanted(name == "auto" ? stored_dtype : name);
  for (char& c : wanted) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (wanted == "BFLOAT16") wanted = "BF16";
  if (wanted == "FLOAT16") wanted = "F16";
  const io::GgmlType* type = io::find_ggml_type(std::string_view(wanted));
  if (type != nullptr && io::is_writable(*type)) return *type;
  if (name == "auto") return *io::find_ggml_type(io::kGgmlF32);
  fail(Status::unsupported, "type {} is not written; these are: f32, f16, bf16, q8_0, q4_0", name);
}

io::ElementType number_type(const io::GgmlType& type) {
  if (type.number == io::kGgmlF32) return io::ElementType::f32;
  if (type.number == io::kGgmlF16) return io::ElementType::f16;
  return type.number == io::kGgmlBF16 ? io::ElementType::bf16 : io::ElementType::other;
}

void check_shape(const model::WeightSource& weights, const model::TensorShape& tensor) {
  weights.need(tensor.name, tensor.shape);
  weights.read(tensor.name, 0, 0, nullptr);  // throws if its type cannot be read
}

ReadNumbers numbers_of(const model::WeightSource& weights, const std::string& name) {
  return
      [&weights, name](int64_t first, int64_t count, float* out) { weights.read(name, first, count, out); };
}

ReadNumbers numbers_of(const io::TensorView& view) {
  return [&view](int64_t first, int64_t count, float* out) {
    io::read_floats(view.type, view.data, first, count, out);
  };
}

bool same_numbers(int64_t count, const ReadNumbers& a, const ReadNumbers& b) {
  constexpr int64_t kAtOnce = 1 << 16;  // a multiple of every block
  std::vector<float> of_a(kAtOnce), of_b(kAtOnce);
  for (int64_t at = 0; at < count; at += kAtOnce) {
    const int64_t part = std::min(kAtOnce, count - at);
    a(at, part, of_a.data());
    b(at, part, of_b.data());
    if (!std::equal(of_a.begin(), of_a.begin() + part, of_b.begin())) return false;
  }
  return true;
}

void encode(const io::GgmlType& type, const std::string& place, int64_t first, int64_t count, uint8_t* out,
            const ReadNumbers& read) {
  std::atomic<int64_t> misfit{INT64_MAX};
  const int64_t pieces = (count + kConverted - 1) / kConverted;
  tensor::parallel_for(pieces, 4, [&](int64_t begin, int64_t end) {
    float values[kConverted];
    for (int64_t at = begin * kConverted; at < std::min(end * kConverted, count); at += kConverted) {
      const int64_t part = std::min(kConverted, count - at);
      read(first + at, part, values);
      const int64_t done = io::quantize(type, values, part, out + at / type.block * type.bytes);
      if (done == part) continue;
      int64_t seen = misfit.load();
      while (first + at + done < seen && !misfit.compare_exchange_weak(seen, first + at + done)) {
      }
    }
  });
  if (misfit == INT64_MAX) return;
  fail(Status::unsupported,
       "{}: {} cannot hold what is at element {}: a number that is not finite, or too large for a 16-bit "
       "scale; f32 and bf16 can",
       place, type.name, misfit.load());
}

int64_t gguf_bytes(const model::ModelConfig& config, const io::GgmlType& type) {
  const model::GgufOrder order(config);
  int64_t bytes = 0;
  for (const model::TensorShape& tensor : model::tensor_list(config)) {
    const std::string name = model::gguf_name(*config.family, tensor.name);
    const std::vector<int64_t> shape = order.in_gguf(tensor.name, tensor.shape);
    const io::GgmlType& own = type_of(name, shape, type, nullptr);
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    bytes += count / own.block * own.bytes;
  }
  return bytes;
}

void write_gguf(base::FileWriter& writer, const GgufModel& m, base::LogSink* log) {
  const io::GgufPairs metadata = metadata_of(m, log);
  const model::GgufOrder order(m.config);
  std::vector<io::GgufEntry> entries = entries_of(m, order, log);
  for (const auto& [name, values] : model::rope_tensors(m.config)) {
    const io::GgmlType& type = *io::find_ggml_type(io::kGgmlF32);
    entries.push_back(
        {name, {std::ssize(values)}, &type, [&type, values](int64_t first, int64_t count, uint8_t* out) {
           io::quantize(type, values.data() + first, count, out);
         }});
  }
  io::write_gguf(writer, metadata, entries);
  m.weights.check();
}

}  // namespace trl::checkpoint
