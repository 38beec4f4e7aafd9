#include "checkpoint/convert.h"

#include <algorithm>

#include "adapter/config_file.h"
#include "adapter/tensors.h"
#include "base/error.h"
#include "base/files/files.h"
#include "checkpoint/gguf_file.h"
#include "io/gguf.h"
#include "model/config/families.h"
#include "model/config/model_config.h"
#include "model/files/open.h"
#include "model/gguf/architectures.h"
#include "model/gguf/metadata.h"
#include "model/gguf/names.h"

namespace trl::checkpoint {

namespace {

using adapter::ModuleKind;
using adapter::Role;

// The modules of a model, and the names of their weights, which differ within a multimodal class.
struct Modules {
  std::vector<adapter::Module> all;
  std::vector<std::string> weights;
};

Modules modules_of(const model::ModelConfig& config) {
  const model::Family& family = *config.family;
  const model::GgufOrder order(config);
  Modules modules;
  const auto add = [&](const std::string& weight, const std::vector<int64_t>& shape) -> adapter::Module& {
    adapter::Module module{.name = model::module_name(weight, family), .kind = ModuleKind::other};
    if (shape.size() == 2) {
      const bool table = weight == std::string(family.names.embedding) + ".weight";
      const bool in_first = table || order.transposes(weight, 2);
      module.kind = table ? ModuleKind::embedding : ModuleKind::linear;
      module.in = shape[in_first ? 0 : 1];
      module.out = shape[in_first ? 1 : 0];
      module.head = weight == std::string(family.names.head) + ".weight";
    }
    modules.weights.push_back(weight);
    return modules.all.emplace_back(std::move(module));
  };
  for (const model::TensorShape& tensor : model::tensor_list(config))
    if (tensor.name.ends_with(".weight")) add(tensor.name, tensor.shape);
  if (config.tie_word_embeddings)
    add(std::string(family.names.head) + ".weight", {config.vocab_size, config.hidden_size}).tied = true;
  return modules;
}

void refuse(const std::string& path, std::string_view what) {
  fail(Status::unsupported,
       "{}: llama.cpp's adapter files cannot store {}: merge the adapter into its model instead (save.kind "
       "merged)",
       path, what);
}

[[noreturn]] void refuse_parameters(const std::string& path) {
  fail(Status::unsupported,
       "{}: adapters of experts, routers and other parameters (target_parameters) are not written to GGUF by "
       "this version: merge the adapter into its model instead (save.kind merged)",
       path);
}

void check_form(const std::string& path, const config::LoraConfig& config,
                const adapter::Selection& selection, const Modules& modules,
                const model::ModelConfig& model) {
  if (config.use_dora) refuse(path, "DoRA");
  if (config.init_lora_weights == config::LoraInit::olora ||
      config.init_lora_weights == config::LoraInit::pissa)
    refuse(path, "what olora and pissa take out of the weights (init_lora_weights)");
  if (config.lora_bias || config.bias != config::LoraBias::none) refuse(path, "biases");
  if (!config.modules_to_save.empty()) refuse(path, "modules that are saved whole (modules_to_save)");
  if (!config.trainable_token_indices.empty())
    refuse(path, "single trained tokens (trainable_token_indices)");
  for (const adapter::Target& target : selection.targets) {
    const adapter::Module& module = modules.all[target.module];
    if (model::gguf_place(*model.family, modules.weights[target.module]).expert >= 0) refuse_parameters(path);
    if (model.tie_word_embeddings && module.kind == ModuleKind::embedding)
      refuse(path, "an adapter of an embedding that is the output head too");
  }
}

// Returns whether a table of an adapter's file is the model's own, number by number.
bool is_own(const model::WeightSource& weights, const std::string& name, const io::TensorView& view) {
  const std::vector<int64_t>* const shape = weights.shape(name);
  return shape != nullptr && *shape == view.shape &&
         same_numbers(view.shape[0] * view.shape[1], numbers_of(weights, name), numbers_of(view));
}

// Refuses an embedding or head of a model whose rows were changed.
void refuse_other_rows(const std::string& path, const std::vector<adapter::Tensor>& tensors) {
  const io::Safetensors file(adapter::weights_path(path));
  for (const adapter::Tensor& tensor : tensors) {
    const auto found = file.tensors().find(tensor.name);
    if (tensor.role != Role::table || found == file.tensors().end() || found->second.shape == tensor.shape)
      continue;
    refuse(file.path(), fmt::format("tensor {} of shape [{}], where the model has [{}]", tensor.name,
                                    fmt::join(found->second.shape, ", "), fmt::join(tensor.shape, ", ")));
  }
}

// Refuses an embedding or head saved with the adapter that is not the model's: the file cannot store it.
void check_tables(const model::OpenedFiles& opened, const std::vector<adapter::Tensor>& tensors,
                  const Modules& modules, const adapter::AdapterFile& file) {
  const model::Family& family = *opened.files.config.family;
  for (const adapter::Tensor& tensor : tensors) {
    const auto found = file.tensors().find(tensor.name);
    if (tensor.role != Role::table || found == file.tensors().end()) continue;
    const bool tied = modules.all[tensor.module].tied;
    const std::string weight =
        tied ? std::string(family.names.embedding) + ".weight" : modules.weights[tensor.module];
    if (is_own(*opened.weights, model::stored_name(*opened.weights, family, weight), found->second)) continue;
    refuse(file.path(), fmt::format("tensor {}, which differs from the model's", tensor.name));
  }
}

const io::GgmlType& stored_type(std::string_view type, const adapter::AdapterFile& file) {
  const std::string& stored = file.tensors().begin()->second.type_name;
  const io::GgmlType& found = gguf_type(type, stored);
  if (found.block == 1) return found;
  fail(Status::unsupported, "type {} is not written for an adapter; these are: f32, f16, bf16", type);
}

class Writer {
 public:
  Writer(const config::LoraConfig& config, const model::ModelConfig& model, const Modules& modules,
         const adapter::AdapterFile& file, const io::GgmlType& type)
      : config_(config), family_(*model.family), order_(model), modules_(modules), file_(file), type_(type) {}

  // Adds the tensors of one target: llama.cpp multiplies b (a x) by the file's alpha over the rank, so any
  // other factor of the scale is applied to b.
  void add(const adapter::Target& target, const adapter::Tensor& tensor) {
    const adapter::Module& module = modules_.all[target.module];
    const std::string& weight = modules_.weights[target.module];
    const std::string base = model::gguf_name(family_, weight);
    const io::TensorView& view = file_.tensors().at(tensor.name);
    const double told = config_.lora_alpha / static_cast<double>(target.r);
    if (tensor.role == Role::b)
      return add(base + ".lora_b", tensor, view, static_cast<float>(target.scaling / told), weight, module);
    // Stores a as [rows, r], because rows of the table are looked up.
    add(base + ".lora_a", tensor, view, 1, weight, module);
  }

  std::vector<io::GgufEntry> take() { return std::move(entries_); }

 private:
  void add(const std::string& name, const adapter::Tensor& tensor, const io::TensorView& view, float factor,
           const std::string& weight, const adapter::Module& module) {
    const bool turned = tensor.role == Role::a && module.kind == ModuleKind::embedding;
    const bool permuted = tensor.role == Role::b && order_.moves_rows(weight);
    std::vector<int64_t> shape = tensor.shape;
    if (turned) std::swap(shape[0], shape[1]);
    const auto read = [this, &view, factor, turned, permuted, rows = shape[0], width = shape[1]](
                          int64_t first, int64_t count, float* out) {
      model::each_row(first, count, width, [&](int64_t row, int64_t column, int64_t part) {
        if (turned) {
          for (int64_t i = 0; i < part; ++i)
            io::read_floats(view.type, view.data, (column + i) * rows + row, 1, out + i);
        } else {
          const int64_t from = permuted ? order_.here(row) : row;
          io::read_floats(view.type, view.data, from * width + column, part, out);
        }
        if (factor != 1) std::transform(out, out + part, out, [&](float value) { return value * factor; });
        out += part;
      });
    };
    entries_.push_back(
        {name, shape, &type_, [this, read, place = tensor.name](int64_t first, int64_t count, uint8_t* out) {
           encode(type_, file_.path() + ": tensor " + place, first, count, out, read);
         }});
  }

  const config::LoraConfig& config_;
  const model::Family& family_;
  const model::GgufOrder order_;
  const Modules& modules_;
  const adapter::AdapterFile& file_;
  const io::GgmlType& type_;
  std::vector<io::GgufEntry> entries_;
};

io::GgufPairs metadata(const std::string& path, const config::LoraConfig& config,
                       const model::ModelConfig& model) {
  model::gguf_metadata(model, {}, nullptr);  // refuses a model that cannot be written
  io::GgufPairs pairs;
  pairs.add("general.architecture", model::find_gguf_family(model.model_type)->architecture);
  pairs.add("general.type", "adapter");
  pairs.add("general.name", base::file_name(path));
  pairs.add("adapter.type", "lora");
  pairs.add("adapter.lora.alpha", static_cast<float>(config.lora_alpha));
  return pairs;
}

}  // namespace

void convert_adapter_to_gguf(const std::string& path, const io::ModelSource& base, const std::string& target,
                             std::string_view type, base::LogSink* log) {
  const config::LoraConfig config = adapter::read_config(path);
  if (!config.target_parameters.empty()) refuse_parameters(path);
  if (config.task_type == "SEQ_CLS") refuse(path, "the score head of a reward model (task_type SEQ_CLS)");
  const model::OpenedFiles opened = model::open_files(base);
  const model::ModelConfig& model = opened.files.config;
  const io::GgufPairs pairs = metadata(path, config, model);
  const Modules modules = modules_of(model);
  const adapter::Selection selection = adapter::select_saved(path, config, modules.all, model.model_type);
  if (log != nullptr)
    for (const std::string& warning : selection.warnings) log->warning("checkpoint", "{}: {}", path, warning);
  check_form(path, config, selection, modules, model);
  const std::vector<adapter::Tensor> tensors = adapter::tensors(config, selection, modules.all);
  refuse_other_rows(path, tensors);
  const std::unique_ptr<adapter::AdapterFile> file = adapter::open_weights(path, tensors);
  check_tables(opened, tensors, modules, *file);
  Writer writer(config, model, modules, *file, stored_type(type, *file));
  for (const adapter::Target& one : selection.targets) {
    for (const adapter::Tensor& tensor : tensors)
      if (tensor.module == one.module && (tensor.role == Role::a || tensor.role == Role::b))
        writer.add(one, tensor);
  }
  const std::vector<io::GgufEntry> entries = writer.take();
  base::replace_file(target, [&](base::FileWriter& out) { io::write_gguf(out, pairs, entries); });
}

}  // namespace trl::checkpoint
