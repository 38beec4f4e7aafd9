#include "checkpoint/save_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "adapter/config_file.h"
#include "adapter/tensors.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/directory.h"
#include "checkpoint/gguf_file.h"
#include "model/gguf_order.h"
#include "tensor/device.h"
#include "tensor/parallel.h"

namespace trl::checkpoint {

namespace {

using base::Json;

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kGenerationConfig = "generation_config.json";

std::string json_text(const Json& json) { return json.dump(2) + "\n"; }

const char* dtype_name(const model::Model& model) {
  return model.dtype() == at::kBFloat16 ? "bfloat16" : "float32";
}

// Of a tied model into which an adapter was merged that makes two weights of embedding and head.
bool has_own_head(model::Model& model) {
  const std::vector<tensor::Parameter*> all = model.parameters();
  return std::find(all.begin(), all.end(), &model.head()) == all.end();
}

// As loaded, except for what this save decides: the type of the weights, and the class that they are the
// weights of.
Json saved_config(model::Model& model) {
  Json config = model.config_json();
  if (has_own_head(model)) {
    const char* const text = model.config().family->text;
    config["tie_word_embeddings"] = false;
    if (text != nullptr && config.contains(text)) config[text]["tie_word_embeddings"] = false;
  }
  const char* key = config.contains("torch_dtype") && !config.contains("dtype") ? "torch_dtype" : "dtype";
  config[key] = dtype_name(model);
  config["architectures"] = Json::array({model.config().architecture});
  config.erase("quantization_config");  // numbers are saved
  return config;
}

using Fill = std::function<void(int64_t, int64_t, char*)>;

Fill on_all_threads(Fill fill, size_t element_bytes) {
  constexpr int64_t kPart = 4096;  // elements: a multiple of every block
  return [fill = std::move(fill), size = static_cast<int64_t>(element_bytes)](int64_t first, int64_t count,
                                                                              char* out) {
    tensor::parallel_for((count + kPart - 1) / kPart, 4, [&](int64_t begin, int64_t end) {
      const int64_t from = begin * kPart, to = std::min(end * kPart, count);
      fill(first + from, to - from, out + from * size);
    });
  };
}

// Numbers of a weight in blocks, in its dtype: they are made as they are written. first: of the part.
Fill decoding(const tensor::Parameter& parameter, const model::StoredPart& part) {
  const tensor::Encoded& values = *parameter.encoded();
  const int64_t width = values.width(), size = static_cast<int64_t>(c10::elementSize(parameter.dtype()));
  if (part.transposed) {
    return [&values, type = parameter.dtype(), rows = parameter.size(0), size](int64_t first, int64_t count,
                                                                               char* out) {
      model::each_row(first, count, rows, [&](int64_t column, int64_t row, int64_t part_rows) {
        values.decode({row, part_rows, column, 1}, type, out, 1);
        out += part_rows * size;
      });
    };
  }
  int64_t row = 0;  // the part's first
  if (part.expert >= 0) row = part.expert * parameter.size(1) + (part.rows < 0 ? 0 : part.first);
  return [&values, type = parameter.dtype(), width, size, row](int64_t first, int64_t count, char* out) {
    model::each_row(first, count, width, [&](int64_t r, int64_t column, int64_t columns) {
      values.decode({row + r, 1, column, columns}, type, out, width);
      out += columns * size;
    });
  };
}

// host: keeps what the result points to
std::vector<io::NamedTensor> tensors_of(model::Model& model, std::vector<at::Tensor>& host) {
  std::vector<io::NamedTensor> tensors;
  for (tensor::Parameter* parameter : model.parameters()) {
    const io::ElementType type =
        parameter->dtype() == at::kBFloat16 ? io::ElementType::bf16 : io::ElementType::f32;
    if (parameter->encoded() != nullptr) {
      for (const model::StoredPart& part : model.stored(*parameter))
        tensors.push_back(
            {part.name, type, part.shape(parameter->shape()), nullptr, decoding(*parameter, part)});
      continue;
    }
    host.push_back(tensor::on_host(*parameter->read()));
    const at::Tensor all = host.back();
    for (const model::StoredPart& part : model.stored(*parameter)) {
      const at::Tensor& values = host.emplace_back(part.of(all).contiguous());
      tensors.push_back({part.name, type, values.sizes().vec(), values.data_ptr()});
    }
  }
  if (has_own_head(model)) {
    host.push_back(tensor::on_host(*model.head().read()));
    const bool narrow = host.back().scalar_type() == at::kBFloat16;
    tensors.push_back({std::string(model.config().family->names.head) + ".weight",
                       narrow ? io::ElementType::bf16 : io::ElementType::f32, host.back().sizes().vec(),
                       host.back().data_ptr()});
  }
  for (const model::Model::Carried& carried : model.carried())
    tensors.push_back({carried.name, carried.view->type, carried.view->shape, carried.view->data});
  return tensors;
}

std::vector<std::string> write_files(base::StagedDirectory& staged, const DirectoryFiles& all,
                                     int64_t max_shard_bytes) {
  for (const engine::NamedBytes& file : all.files) check_file_name(file.name);
  std::vector<std::string> weights = io::write_weights(staged, all.tensors, max_shard_bytes);
  if (all.check) all.check();
  for (const engine::NamedBytes& file : all.files) staged.write(file.name, file.bytes);
  if (!all.generation_config.empty()) staged.write(kGenerationConfig, json_text(all.generation_config));
  staged.write(kConfig, json_text(all.config));
  return weights;
}

// write: the names of the weight files that it wrote.
void save(const std::string& directory, const base::WriteFault* fault,
          const std::function<std::vector<std::string>(base::StagedDirectory&)>& write) {
  refuse_checkpoint(directory);
  base::StagedDirectory staged(directory, fault);
  const std::vector<std::string> written = write(staged);
  if (base::is_directory(directory)) {
    for (const std::string& name : base::list_directory(directory)) {
      if (io::is_weight_file(name) && std::find(written.begin(), written.end(), name) == written.end())
        staged.replaces(name);
    }
  }
  staged.commit();
}

// The weights of a model in memory, for the writer of GGUF files.
class MemoryWeights final : public model::WeightSource {
 public:
  explicit MemoryWeights(model::Model& model) : model_(model) {
    for (io::NamedTensor& tensor : tensors_of(model, host_)) tensors_.emplace(tensor.name, std::move(tensor));
  }
  std::string place(const std::string& name) const override { return "tensor " + name; }
  std::string asks(const std::string&) const override { return "the model asks"; }
  const std::vector<int64_t>* shape(const std::string& name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second.shape;
  }
  void read(const std::string&, at::Tensor&) const override {
    fail(Status::internal, "a trained model is read in parts");
  }
  void read(const std::string& name, int64_t first, int64_t count, float* out) const override {
    const io::NamedTensor& tensor = tensors_.at(name);
    if (tensor.data != nullptr) return io::read_floats(tensor.type, tensor.data, first, count, out);
    std::vector<char> numbers(static_cast<size_t>(count) * io::element_size(tensor.type));
    tensor.fill(first, count, numbers.data());
    io::read_floats(tensor.type, numbers.data(), 0, count, out);
  }
  void forget(const std::string&) const override {}
  void check() const override { model_.check_files(); }
  std::string type(const std::string& name) const override {
    return std::string(io::element_name(tensors_.at(name).type));
  }
  std::vector<std::string> others(const std::set<std::string>&) const override { return {}; }

 private:
  const model::Model& model_;
  std::vector<at::Tensor> host_;
  std::map<std::string, io::NamedTensor> tensors_;
};

}  // namespace

void check_file_name(std::string_view name) {
  const bool ours = name == kConfig || name == kGenerationConfig || name == adapter::kConfigFile ||
                    name == adapter::kWeightsFile || io::is_weight_file(name);
  if (!base::is_plain_path(name) || ours)
    fail(Status::invalid_argument, "file \"{}\" cannot be put into a saved model", name);
}

int64_t weight_bytes(model::Model& model) {
  const auto bytes_of = [](const tensor::Parameter& p) {
    return p.count() * static_cast<int64_t>(c10::elementSize(p.dtype()));
  };
  int64_t bytes = has_own_head(model) ? bytes_of(model.head()) : 0;
  for (const tensor::Parameter* p : model.parameters()) bytes += bytes_of(*p);
  for (const model::Model::Carried& carried : model.carried())
    bytes += static_cast<int64_t>(carried.view->bytes);
  return bytes;
}

int64_t gguf_bytes(model::Model& model, std::string_view type) {
  return gguf_bytes(model.config(), gguf_type(type, dtype_name(model)));
}

std::vector<std::string> write_model(base::StagedDirectory& staged, model::Model& model,
                                     std::span<const engine::NamedBytes> files, int64_t max_shard_bytes) {
  std::vector<at::Tensor> host;
  std::vector<io::NamedTensor> tensors = tensors_of(model, host);
  for (io::NamedTensor& tensor : tensors) {
    if (tensor.fill) tensor.fill = on_all_threads(std::move(tensor.fill), io::element_size(tensor.type));
  }
  return write_files(staged,
                     {std::move(tensors), saved_config(model), model.generation_config_json(), files,
                      [&model] { model.check_files(); }},
                     max_shard_bytes);
}

void save_model(const std::string& directory, model::Model& model, std::span<const engine::NamedBytes> files,
                const base::WriteFault* fault, int64_t max_shard_bytes) {
  save(directory, fault,
       [&](base::StagedDirectory& staged) { return write_model(staged, model, files, max_shard_bytes); });
}

void save_files(const std::string& directory, const DirectoryFiles& files) {
  save(directory, nullptr,
       [&](base::StagedDirectory& staged) { return write_files(staged, files, io::kMaxShardBytes); });
}

void save_gguf(const std::string& directory, model::Model& model, const GgufFormat& format,
               base::LogSink* log, const base::WriteFault* fault) {
  const MemoryWeights weights(model);
  const GgufModel written{base::file_name(directory),
                          model.config(),
                          model.end_ids(),
                          weights,
                          gguf_type(format.type, dtype_name(model)),
                          format.vocabulary};
  save(directory, fault, [&](base::StagedDirectory& staged) -> std::vector<std::string> {
    staged.write(io::kGgufFile, [&](base::FileWriter& writer) { write_gguf(writer, written, log); });
    return {std::string(io::kGgufFile)};
  });
}

}  // namespace trl::checkpoint
