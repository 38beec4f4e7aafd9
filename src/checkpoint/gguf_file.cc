#include "checkpoint/gguf_file.h"

#include <algorithm>
#include <atomic>
#include <cctype>

#include "base/error.h"
#include "io/quantize.h"
#include "model/gguf_metadata.h"
#include "model/gguf_names.h"
#include "model/tensor_list.h"
#include "tensor/parallel.h"

namespace trl::checkpoint {

namespace {

constexpr int64_t kConverted = 4096;  // elements at once, on the stack; a multiple of every block

uint32_t file_type(const io::GgmlType& type) {  // llama.h's llama_ftype
  switch (type.number) {
    case io::kGgmlF32:
      return 0;
    case io::kGgmlF16:
      return 1;
    case io::kGgmlQ4_0:
      return 2;
    case io::kGgmlQ8_0:
      return 7;
    default:
      return 32;  // BF16
  }
}

// llama.cpp computes with norms and biases in float32 alone. Where the rest has four bits, embedding and
// head, whose errors cost most, have eight.
const io::GgmlType& type_of(const model::TensorShape& tensor, const model::Family& family,
                            const io::GgmlType& wanted, base::LogSink* log) {
  if (tensor.shape.size() == 1) return *io::find_ggml_type(io::kGgmlF32);
  if (tensor.shape.back() % wanted.block != 0) {
    if (log != nullptr)
      log->warning("checkpoint",
                   "tensor {}: rows of {} elements are not a multiple of the {} elements of a {} block: F16",
                   tensor.name, tensor.shape.back(), wanted.block, wanted.name);
    return *io::find_ggml_type(io::kGgmlF16);
  }
  const std::string_view layers = family.names.layer.substr(0, family.names.layer.find('{'));
  return wanted.number == io::kGgmlQ4_0 && !tensor.name.starts_with(layers)
             ? *io::find_ggml_type(io::kGgmlQ8_0)
             : wanted;
}

io::GgufPairs metadata_of(const GgufModel& m, base::LogSink* log) {
  io::GgufPairs pairs = model::gguf_metadata(m.config, m.name, log);
  pairs.add("general.file_type", file_type(m.type));
  if (m.type.block > 1) pairs.add("general.quantization_version", uint32_t{2});
  pairs.append({m.vocabulary.pairs, std::string(m.vocabulary.bytes)});
  constexpr const char* kEnds[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
  size_t ends = 0;
  for (const int32_t id : m.end_ids) {
    if (id == m.vocabulary.eos) continue;
    if (ends < std::size(kEnds)) {
      pairs.add(kEnds[ends++], static_cast<uint32_t>(id));
    } else if (log != nullptr) {
      log->warning("checkpoint", "token {} ends a text too; GGUF files name three such tokens at most", id);
    }
  }
  return pairs;
}

io::GgufEntry entry_of(const GgufModel& m, const model::TensorShape& tensor, const model::RowOrder& order,
                       base::LogSink* log) {
  check_shape(m.weights, tensor);
  const io::GgmlType& type = type_of(tensor, *m.config.family, m.type, log);
  const int64_t width = tensor.shape.size() > 1 ? tensor.shape.back() : 1;
  const auto read = [&m, name = tensor.name, &order, width](int64_t first, int64_t count, float* out) {
    if (!order.differs(name)) return m.weights.read(name, first, count, out);
    model::each_row(first, count, width, [&](int64_t row, int64_t column, int64_t part) {
      m.weights.read(name, order.here(row) * width + column, part, out);
      out += part;
    });
  };
  const std::string place = m.weights.place(tensor.name);
  return {model::gguf_name(*m.config.family, tensor.name), tensor.shape, &type,
          [&m, &type, place, read, name = tensor.name](int64_t first, int64_t count, uint8_t* out) {
            encode(type, place, first, count, out, read);
            m.weights.forget(name);
          }};
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

void check_shape(const model::WeightSource& weights, const model::TensorShape& tensor) {
  const std::vector<int64_t>* shape = weights.shape(tensor.name);
  if (shape == nullptr) fail(Status::format, "{} is missing", weights.place(tensor.name));
  if (*shape != tensor.shape) {
    fail(Status::format, "{} has shape [{}], {} for [{}]", weights.place(tensor.name),
         fmt::join(*shape, ", "), weights.asks(tensor.name), fmt::join(tensor.shape, ", "));
  }
  weights.read(tensor.name, 0, 0, nullptr);  // whether its type can be read
}

void encode(const io::GgmlType& type, const std::string& place, int64_t first, int64_t count, uint8_t* out,
            const std::function<void(int64_t, int64_t, float*)>& read) {
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
       "scale; "
       "f32 and bf16 can",
       place, type.name, misfit.load());
}

void write_gguf(base::FileWriter& writer, const GgufModel& m, base::LogSink* log) {
  const io::GgufPairs metadata = metadata_of(m, log);
  const model::RowOrder order(m.config);
  std::vector<io::GgufEntry> entries;
  for (const model::TensorShape& tensor : model::tensor_list(m.config))
    entries.push_back(entry_of(m, tensor, order, log));
  const std::vector<float> divisors = model::rope_divisors(m.config);
  if (!divisors.empty()) {
    entries.push_back({"rope_freqs.weight",
                       {std::ssize(divisors)},
                       io::find_ggml_type(io::kGgmlF32),
                       [&](int64_t first, int64_t count, uint8_t* out) {
                         io::quantize(*io::find_ggml_type(io::kGgmlF32), divisors.data() + first, count, out);
                       }});
  }
  io::write_gguf(writer, metadata, entries);
}

}  // namespace trl::checkpoint
