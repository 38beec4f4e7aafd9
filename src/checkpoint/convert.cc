#include "checkpoint/convert.h"

#include <algorithm>
#include <map>
#include <set>

#include "adapter/config_file.h"
#include "adapter/tensors.h"
#include "base/error.h"
#include "base/files/staged_directory.h"
#include "checkpoint/directory.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/save.h"
#include "io/safetensors.h"
#include "model/config/model_config.h"
#include "model/gguf/metadata.h"

namespace trl::checkpoint {

namespace {

// A model in its files, or in memory.
struct Origin {
  std::string name;
  model::ModelConfig config;
  base::Json config_json, generation_config;
  std::vector<int32_t> end_ids;
  std::string type;  // type of its files' matrices: "BF16"
  const model::WeightSource& weights;
  bool own_types = false;  // auto: each tensor keeps its type in a directory

  std::string stored(const std::string& own) const {
    return model::stored_name(weights, *config.family, own);
  }
  std::string head() const { return stored(std::string(config.family->names.head) + ".weight"); }
};

// Returns the type that most elements of the matrices have.
std::string type_of_files(const model::OpenedFiles& opened) {
  std::map<std::string, int64_t> elements;
  const model::WeightSource& weights = *opened.weights;
  for (const model::TensorShape& tensor : model::tensor_list(opened.files.config)) {
    const std::string name = model::stored_name(weights, *opened.files.config.family, tensor.name);
    if (tensor.shape.size() < 2 || weights.shape(name) == nullptr) continue;
    elements[weights.type(name)] += tensor.shape[0] * tensor.shape[1];
  }
  const auto most =
      std::ranges::max_element(elements, [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? opened.stored_dtype : most->first;
}

// Replaces "auto" by a type of numbers.
const io::GgmlType& chosen_type(std::string_view name, const std::string& stored) {
  const io::GgmlType& type = gguf_type(name, stored);
  return name == "auto" && type.block > 1 ? *io::find_ggml_type(io::kGgmlF32) : type;
}

bool is_gguf_name(std::string_view target) { return target.ends_with(".gguf"); }

void check_type(std::string_view target, std::string_view name) {
  if (!is_gguf_name(target) && chosen_type(name, "").block > 1)
    throw Error(
        Status::unsupported,
        fmt::format("convert.type: {} is not written to a directory; give f32, f16, bf16, or a target "
                    "whose name ends in .gguf",
                    name),
        "convert.type");
}

Origin files_origin(const io::ModelSource& from, const model::OpenedFiles& opened) {
  const model::ModelFiles& files = opened.files;
  return {base::file_name(from.name()),
          files.config,
          files.config_json,
          files.generation_config_json,
          files.end_ids,
          type_of_files(opened),
          *opened.weights,
          from.form() != io::ModelForm::gguf};
}

bool is_carried(const Origin& origin, const std::string& name) {
  const auto& kept = origin.config.family->carried;
  return std::ranges::any_of(kept, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Returns the tensors outside the language model that are copied; warns of each that the result cannot hold.
std::vector<std::string> carried_tensors(const Origin& origin, base::LogSink* log) {
  std::set<std::string> used = {origin.head()};
  for (const model::TensorShape& tensor : model::tensor_list(origin.config))
    used.insert(origin.stored(tensor.name));
  std::vector<std::string> carried;
  for (const std::string& name : origin.weights.others(used))
    if (is_carried(origin, name))
      carried.push_back(name);
    else if (log != nullptr && !model::is_buffer(name))
      log->warning("checkpoint", "tensor {} is not used by this family, and not converted", name);
  return carried;
}

// Checks that the head of a tied model, which is not written again, is the embedding.
void check_tied_head(const Origin& origin) {
  const std::string embedding = origin.stored(std::string(origin.config.family->names.embedding) + ".weight");
  const std::string head = origin.head();
  const std::vector<int64_t>* const shape = origin.weights.shape(head);
  if (!origin.config.tie_word_embeddings || origin.config.labels > 0 || shape == nullptr) return;
  const std::vector<int64_t>* const own = origin.weights.shape(embedding);
  const bool same = own != nullptr && *own == *shape && shape->size() == 2 &&
                    same_numbers((*shape)[0] * (*shape)[1], numbers_of(origin.weights, embedding),
                                 numbers_of(origin.weights, head));
  origin.weights.forget(head);
  if (same) return;
  fail(Status::format, "{} differs from the embedding although tie_word_embeddings is true; set it to false",
       origin.weights.place(head));
}

std::string torch_name(const io::GgmlType& type) {
  return type.number == io::kGgmlBF16 ? "bfloat16" : type.number == io::kGgmlF16 ? "float16" : "float32";
}

void write_gguf_file(const Origin& origin, const std::string& target, std::string_view type,
                     const engine::GgufVocabulary& vocabulary, base::LogSink* log) {
  model::gguf_metadata(origin.config, {}, nullptr);  // refuses a model that cannot be written
  check_tied_head(origin);
  const size_t left = carried_tensors(origin, log).size();
  if (left > 0 && log != nullptr)
    log->warning("checkpoint",
                 "{} tensors of the vision part are not converted: the file holds the language model alone",
                 left);
  const GgufModel model{
      origin.name, origin.config, origin.end_ids, origin.weights, chosen_type(type, origin.type), vocabulary};
  base::replace_file(target, [&](base::FileWriter& writer) { write_gguf(writer, model, log); });
}

io::NamedTensor in_type(const io::GgmlType& type, const std::string& name, const std::vector<int64_t>& shape,
                        const std::string& place, const ReadNumbers& read) {
  return {name, number_type(type), shape, nullptr,
          [&type, place, read](int64_t first, int64_t count, char* out) {
            encode(type, place, first, count, reinterpret_cast<uint8_t*>(out), read);
          }};
}

io::NamedTensor in_type(const Origin& origin, const io::GgmlType& type, const std::string& name) {
  const model::WeightSource& weights = origin.weights;
  io::NamedTensor tensor =
      in_type(type, name, *weights.shape(name), weights.place(name), numbers_of(weights, name));
  tensor.fill = [fill = std::move(tensor.fill), &weights, name](int64_t first, int64_t count, char* out) {
    fill(first, count, out);
    weights.forget(name);
  };
  return tensor;
}

void write_directory(const Origin& origin, const std::string& target, std::string_view type,
                     std::span<const engine::NamedBytes> files, base::LogSink* log) {
  check_tied_head(origin);
  const io::GgmlType& written = chosen_type(type, origin.type);
  std::vector<io::NamedTensor> tensors;
  const auto add = [&](const std::string& name) {
    const bool own = type == "auto" && origin.own_types;
    tensors.push_back(in_type(origin, own ? chosen_type(type, origin.weights.type(name)) : written, name));
  };
  for (const model::TensorShape& tensor : model::tensor_list(origin.config)) {
    const std::string stored = origin.stored(tensor.name);
    check_shape(origin.weights, {stored, tensor.shape});
    add(stored);
  }
  for (const std::string& name : carried_tensors(origin, log)) {
    origin.weights.read(name, 0, 0, nullptr);  // throws if its type cannot be read
    add(name);
  }
  base::Json config = origin.config_json;
  set_dtype(config, torch_name(written));
  save_files(target,
             {tensors, config, origin.generation_config, files, [&origin] { origin.weights.check(); }});
}

void write(const Origin& origin, const engine::ConvertSpec& spec, base::LogSink* log) {
  const std::string target(spec.target);
  if (is_gguf_name(target))
    write_gguf_file(origin, target, spec.type, spec.vocabulary, log);
  else
    write_directory(origin, target, spec.type, spec.files, log);
}

// Returns the type to compute in: the files' if this loses nothing, since a merged weight is rounded once.
std::string merging_dtype(const engine::ModelSpec& spec, const io::GgmlType& written,
                          const std::string& stored) {
  if (spec.dtype != "auto") return std::string(spec.dtype);
  return stored == "BF16" && written.number == io::kGgmlBF16 && !spec.quantization ? "bfloat16" : "float32";
}

model::Head head_of(const engine::ModelSpec& spec) {
  return spec.reward ? model::Head::reward : model::Head::language;
}

// Opens the model: to merge an adapter, or because its files have blocks of bitsandbytes.
void convert_opened(const engine::ConvertSpec& spec, const std::string& stored, base::LogSink* log) {
  const engine::ModelSpec& how = spec.model;
  const std::string dtype = merging_dtype(how, chosen_type(spec.type, stored), stored);
  const auto model =
      model::Model::open(how.source, dtype, log, at::kCPU, head_of(how), how.quantization, how.seed);
  if (how.embedding_rows > 0) model->resize_embeddings(how.embedding_rows);
  std::shared_ptr<void> merged;  // merged while it is written
  if (!spec.adapter.empty())
    merged =
        model->adapters().merged_to_save(model->adapters().open("default", std::string(spec.adapter), log));
  const MemoryWeights weights(*model);
  std::string card;
  const std::vector<engine::NamedBytes> files =
      with_card(std::string(spec.target), *model, how.source.name(), spec.files, {}, false, card);
  engine::ConvertSpec written = spec;
  written.files = files;
  write({base::file_name(how.source.name()), saved_model_config(*model), saved_config(*model),
         model->generation_config_json(), model->end_ids(), stored, weights},
        written, log);
}

// Converts a saved adapter into another type. path: an adapter's directory. type: "f32", "f16", "bf16";
// "auto": each tensor as stored. files: the other files of the result, besides configuration and weights.
void cast_adapter(const std::string& path, const std::string& target, std::string_view type,
                  std::span<const engine::NamedBytes> files) {
  refuse_checkpoint(target);
  adapter::read_config(path);  // refuses other kinds of adapters
  const io::Safetensors file(adapter::weights_path(path));
  std::vector<io::NamedTensor> tensors;
  for (const auto& [name, view] : file.tensors()) {
    adapter::check_numbers(file.path(), name, view);
    tensors.push_back(in_type(gguf_type(type, view.type_name), name, view.shape,
                              file.path() + ": tensor " + name, numbers_of(view)));
  }
  base::StagedDirectory staged(target);
  staged.write(adapter::kWeightsFile,
               [&](base::FileWriter& writer) { io::write_safetensors(writer, tensors); });
  file.check();
  for (const engine::NamedBytes& one : files) staged.write(one.name, one.bytes);
  staged.commit();
}

void convert_adapter(const engine::ConvertSpec& spec, base::LogSink* log) {
  const std::string path(spec.adapter), target(spec.target);
  if (is_gguf_name(target))
    convert_adapter_to_gguf(path, spec.model.source, target, spec.type, log);
  else
    cast_adapter(path, target, spec.type, spec.files);
}

}  // namespace

void convert(const engine::ConvertSpec& spec, base::LogSink* log) {
  check_type(spec.target, spec.type);
  if (!spec.adapter.empty() && !spec.merged) return convert_adapter(spec, log);
  if (!is_gguf_name(spec.target)) refuse_beside_adapter(std::string(spec.target));
  const model::OpenedFiles opened = model::open_files(spec.model.source, head_of(spec.model));
  const Origin origin = files_origin(spec.model.source, opened);
  if (!spec.adapter.empty() || origin.config_json.contains("quantization_config"))
    return convert_opened(spec, origin.type, log);
  write(origin, spec, log);
}

}  // namespace trl::checkpoint
