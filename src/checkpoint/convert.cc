#include "checkpoint/convert.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/save_model.h"
#include "io/safetensors.h"
#include "model/gguf_metadata.h"
#include "model/tensor_list.h"

namespace trl::checkpoint {

namespace {

void report_others(const model::OpenedFiles& opened, base::LogSink* log) {
  if (log == nullptr) return;
  const model::ModelConfig& config = opened.files.config;
  const model::WeightSource& weights = *opened.weights;
  const auto stored = [&](const std::string& name) {
    return model::stored_name(weights, *config.family, name);
  };
  std::set<std::string> used;
  for (const model::TensorShape& tensor : model::tensor_list(config)) used.insert(stored(tensor.name));
  if (config.tie_word_embeddings) used.insert(stored(std::string(config.family->names.head) + ".weight"));
  size_t carried = 0;
  for (const std::string& name : weights.others(used)) {
    const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
    const auto& kept = config.family->carried;
    if (std::any_of(kept.begin(), kept.end(), begins))
      ++carried;
    else if (!model::is_buffer(name))
      log->warning("checkpoint", "tensor {} is not used by this family, and not converted", name);
  }
  if (carried > 0)
    log->warning("checkpoint",
                 "{} tensors of the vision part are not converted: the file holds the language model alone",
                 carried);
}

io::ElementType element_type(const io::GgmlType& type) {
  switch (type.number) {
    case io::kGgmlF32:
      return io::ElementType::f32;
    case io::kGgmlF16:
      return io::ElementType::f16;
    case io::kGgmlBF16:
      return io::ElementType::bf16;
    default:
      return io::ElementType::other;
  }
}

const io::GgmlType& directory_type(std::string_view name, std::string_view stored_dtype) {
  const io::GgmlType& type = gguf_type(name, stored_dtype);
  if (type.block == 1) return type;
  if (name == "auto") return *io::find_ggml_type(io::kGgmlF32);
  fail(Status::unsupported, "type {} is not written to a directory; these are: f32, f16, bf16", name);
}

std::string torch_name(const io::GgmlType& type) {
  return type.number == io::kGgmlBF16 ? "bfloat16" : type.number == io::kGgmlF16 ? "float16" : "float32";
}

}  // namespace

void convert_to_gguf(const std::string& path, const std::string& target, std::string_view type,
                     const engine::GgufVocabulary& vocabulary, base::LogSink* log) {
  const model::OpenedFiles opened = model::open_files(path);
  model::gguf_metadata(opened.files.config, {}, nullptr);  // refuses what is not written
  report_others(opened, log);
  const GgufModel model{base::file_name(path),
                        opened.files.config,
                        opened.files.end_ids,
                        *opened.weights,
                        gguf_type(type, opened.stored_dtype),
                        vocabulary};
  base::replace_file(target, [&](base::FileWriter& writer) { write_gguf(writer, model, log); });
}

void convert_to_directory(const std::string& path, const std::string& target, std::string_view type,
                          std::span<const engine::NamedBytes> files, base::LogSink* log) {
  const model::OpenedFiles opened = model::open_files(path);
  report_others(opened, log);
  const io::GgmlType& stored = directory_type(type, opened.stored_dtype);
  std::vector<io::NamedTensor> tensors;
  for (const model::TensorShape& tensor : model::tensor_list(opened.files.config)) {
    check_shape(*opened.weights, tensor);
    const auto read = [&opened, name = tensor.name](int64_t first, int64_t count, float* out) {
      opened.weights->read(name, first, count, out);
    };
    const std::string place = opened.weights->place(tensor.name);
    tensors.push_back(
        {tensor.name, element_type(stored), tensor.shape, nullptr,
         [&opened, &stored, place, read, name = tensor.name](int64_t first, int64_t count, char* out) {
           encode(stored, place, first, count, reinterpret_cast<uint8_t*>(out), read);
           opened.weights->forget(name);
         }});
  }
  base::Json config = opened.files.config_json;
  config["dtype"] = torch_name(stored);
  save_files(target, {tensors, config, opened.files.generation_config_json, files,
                      [&opened] { opened.weights->check(); }});
}

}  // namespace trl::checkpoint
