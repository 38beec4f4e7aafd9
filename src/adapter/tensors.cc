#include "adapter/tensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>

#include "adapter/config_file.h"
#include "base/error.h"
#include "base/files/files.h"

namespace trl::adapter {

namespace {

constexpr std::string_view kPrefix = "base_model.model.";

// Without an early end, so that the compiler makes vectors of it.
bool are_finite(std::span<const float> values) {
  constexpr uint32_t kNoSign = 0x7fffffff, kInfinity = 0x7f800000;
  uint32_t most = 0;
  for (const float value : values) most = std::max(most, std::bit_cast<uint32_t>(value) & kNoSign);
  return most < kInfinity;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Returns a tensor's name without the prefixes and the adapter's name that some files have in addition to
// PEFT's or lack: base_model.model., the base class's, language_model., .default.
std::string plain_name(std::string_view name) {
  for (const std::string_view prefix : {"base_model.model.", "base_model.", "model.", "model.",
                                        "transformer.", "transformer.", "gpt_neox.", "gpt_neox."})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  std::string plain(name);
  for (const std::string_view part : {"language_model.model.", "language_model.", "default."}) {
    const size_t at = plain.find(part);
    if (at != plain.npos && (at == 0 || plain[at - 1] == '.')) plain.erase(at, part.size());
  }
  if (plain.ends_with(".default")) plain.resize(plain.size() - std::string_view(".default").size());
  return plain;
}

// Returns, for messages, "a, b, c and 3 more".
std::string names_in(const AdapterFile& file) {
  std::vector<std::string_view> names;
  for (const auto& [name, view] : file.tensors()) names.push_back(name);
  const size_t shown = std::min<size_t>(3, names.size()), more = names.size() - shown;
  names.resize(shown);
  if (names.empty()) return "no tensors";
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

class Lister {
 public:
  Lister(const config::LoraConfig& config, const Selection& selection, std::span<const Module> modules)
      : config_(config), selection_(selection), modules_(modules) {}

  std::vector<Tensor> run() {
    for (const Target& target : selection_.targets) add_target(target);
    for (const size_t index : selection_.saved) add_saved(index);
    for (const size_t index : selection_.biases) {
      const std::string inner = is_target(index) ? ".base_layer" : "";
      add(index, Role::bias, inner + ".bias", bias_shape(modules_[index]));
    }
    for (const auto& [index, ids] : selection_.tokens) {
      const Module& module = modules_[index];
      add(index, Role::tokens, std::string(kTokenRows),
          {std::ssize(ids), module.head ? module.in : module.out});
    }
    for (size_t index = 0; index < modules_.size(); ++index) add_table(index);
    std::ranges::stable_sort(out_, [](const Tensor& x, const Tensor& y) { return x.module < y.module; });
    return std::move(out_);
  }

 private:
  bool is_target(size_t index) const {
    return std::ranges::count(selection_.targets, index, &Target::module) > 0;
  }

  static std::vector<int64_t> bias_shape(const Module& module) {
    return module.kind == ModuleKind::other ? std::vector<int64_t>{} : std::vector<int64_t>{module.out};
  }

  void add(size_t index, Role role, const std::string& ending, std::vector<int64_t> shape) {
    out_.push_back(
        {std::string(kPrefix) + modules_[index].name + ending, role, index, std::move(shape), false});
  }

  void add_target(const Target& target) {
    const Module& module = modules_[target.module];
    if (module.kind == ModuleKind::experts) return add_experts(target);
    if (module.kind == ModuleKind::embedding) {
      add(target.module, Role::a, ".lora_embedding_A", {target.r, module.in});
      add(target.module, Role::b, ".lora_embedding_B", {module.out, target.r});
      return;
    }
    add(target.module, Role::a, ".lora_A.weight", {target.r, module.in});
    add(target.module, Role::b, ".lora_B.weight", {module.out, target.r});
    if (config_.lora_bias) add(target.module, Role::b_bias, ".lora_B.bias", {module.out});
    if (config_.use_dora) add(target.module, Role::magnitude, ".lora_magnitude_vector", {module.out});
  }

  // Adds an adapter of experts. PEFT wraps their module once for each of its parameters: the last is the
  // outermost.
  void add_experts(const Target& target) {
    const Module& module = modules_[target.module];
    const std::string owner = module.name.substr(0, module.name.rfind('.'));
    std::string name = std::string(kPrefix) + owner;
    for (const Target& other : selection_.targets) {
      const Module& later = modules_[other.module];
      if (other.module > target.module && later.kind == ModuleKind::experts &&
          later.name.substr(0, later.name.rfind('.')) == owner)
        name += ".base_layer";
    }
    const int64_t rows = target.r * module.experts;
    out_.push_back({name + ".lora_A.weight", Role::a, target.module, {rows, module.in}, false});
    out_.push_back({name + ".lora_B.weight", Role::b, target.module, {module.out, rows}, false});
  }

  void add_optional(size_t index, Role role, const std::string& ending, const std::vector<int64_t>& shape) {
    add(index, role, ending, shape);
    out_.back().optional = true;
  }

  // Adds the table. PEFT saves embedding and head with an adapter on the embedding, and whenever they were
  // resized.
  void add_table(size_t index) {
    const Module& module = modules_[index];
    if (module.kind != ModuleKind::embedding && !module.head) return;
    const std::vector<int64_t> shape =
        module.head ? std::vector{module.out, module.in} : std::vector{module.in, module.out};
    const auto& saved = selection_.saved;
    if (std::ranges::find(saved, index) != saved.end()) {
      add_optional(index, Role::table, std::string(kOriginalModule), shape);
      add_optional(index, Role::copy, ".modules_to_save.weight", shape);
      return;
    }
    add_optional(index, Role::table, ".weight", shape);
    add_optional(index, Role::table, ".base_layer.weight", shape);
    add_optional(index, Role::table, ".token_adapter.base_layer.weight", shape);
  }

  void add_saved(size_t index) {
    const Module& module = modules_[index];
    if (module.tied && selection_.head_is_saved) {
      add_optional(index, Role::copy, ".weight", {module.out, module.in});
      return;
    }
    std::vector<int64_t> shape;
    if (module.kind == ModuleKind::linear || module.kind == ModuleKind::router)
      shape = {module.out, module.in};
    if (module.kind == ModuleKind::conv1d || module.kind == ModuleKind::embedding)
      shape = {module.in, module.out};
    if (module.kind == ModuleKind::experts) {
      const std::string name = std::string(kPrefix) + module.name;
      out_.push_back({name, Role::weight, index, {module.experts, module.out, module.in}, false});
      return;
    }
    add(index, Role::weight, ".weight", shape);
    if (module.bias) add(index, Role::bias, ".bias", bias_shape(module));
  }

  const config::LoraConfig& config_;
  const Selection& selection_;
  const std::span<const Module> modules_;
  std::vector<Tensor> out_;
};

}  // namespace

std::vector<Tensor> tensors(const config::LoraConfig& config, const Selection& selection,
                            std::span<const Module> modules) {
  return Lister(config, selection, modules).run();
}

std::string name_in_model(const Tensor& tensor, const Selection& selection, std::string_view adapter) {
  const auto& saved = selection.saved;
  const bool whole = tensor.role == Role::weight ||
                     (tensor.role == Role::bias && std::ranges::find(saved, tensor.module) != saved.end());
  const bool has_last = whole || tensor.name.ends_with(".weight") || tensor.name.ends_with(".bias");
  std::string name = tensor.name;
  const size_t end = has_last ? name.rfind('.') : name.size();
  name.insert(end, fmt::format("{}.{}", whole ? ".modules_to_save" : "", adapter));
  return tensor.role == Role::magnitude ? name + ".weight" : name;
}

std::string table_in_model(std::string_view module, std::string_view adapter) {
  return fmt::format("{}{}.modules_to_save.{}.weight", kPrefix, module, adapter);
}

void check_numbers(const std::string& path, const std::string& name, const io::TensorView& view) {
  using enum io::ElementType;
  if (view.type != f32 && view.type != f16 && view.type != bf16 && view.type != f64) {
    fail(Status::format, "{}: tensor {} has type {}; F32, BF16, F16 or F64 is required", Place::in(path),
         name, view.type_name);
  }
  const int64_t count = static_cast<int64_t>(view.bytes / io::element_size(view.type));
  std::vector<float> piece(4096);
  for (int64_t first = 0; first < count; first += std::ssize(piece)) {
    const int64_t now = std::min<int64_t>(std::ssize(piece), count - first);
    io::read_floats(view.type, view.data, first, now, piece.data());
    const auto end = piece.begin() + now;
    if (are_finite({piece.begin(), end})) continue;
    const auto bad = std::find_if(piece.begin(), end, [](float value) { return !std::isfinite(value); });
    fail(Status::format, "{}: tensor {} holds {} at element {}", Place::in(path), name, *bad,
         first + (bad - piece.begin()));
  }
}

int64_t embedding_rows(const std::string& directory) {
  const std::string path = base::join_path(directory, kWeightsFile);
  if (!base::file_exists(path)) return 0;
  const io::Safetensors file(path, true);  // only its names and shapes are read
  for (const std::string_view table : {"embed_tokens", "wte", "embed_in", "lm_head"}) {
    for (const auto& [name, view] : file.tensors()) {
      for (const std::string_view inner : {"", ".base_layer", ".token_adapter.base_layer"}) {
        const std::string end = fmt::format(".{}{}.weight", table, inner);
        if (view.shape.size() == 2 && ("." + name).ends_with(end)) return view.shape[0];
      }
    }
  }
  return 0;
}

void AdapterFile::take_names(const std::vector<Tensor>& wanted) {
  std::map<std::string, std::string> names;  // under the wanted names
  for (const Tensor& tensor : wanted) names.emplace(plain_name(tensor.name), tensor.name);
  std::map<std::string, io::TensorView> renamed;
  for (const auto& [name, view] : tensors_) {
    const auto found = names.find(plain_name(name));
    const bool other = found != names.end() && !tensors_.contains(found->second);
    if (!renamed.emplace(other ? found->second : name, view).second)
      fail(Status::format, "{}: tensor {} is there twice, under names that mean the same", Place::in(path()),
           name);
  }
  tensors_ = std::move(renamed);
}

std::string weights_path(const std::string& directory) {
  std::string path = base::join_path(directory, kWeightsFile);
  if (!base::file_exists(path)) {
    const bool old = base::file_exists(base::join_path(directory, "adapter_model.bin"));
    fail(Status::not_found, "{}: {} is missing{}", Place::in(directory), kWeightsFile,
         old ? "; adapter_model.bin, a pickle, is not read: save the adapter again with PEFT" : "");
  }
  return path;
}

std::unique_ptr<AdapterFile> open_weights(const std::string& directory, const std::vector<Tensor>& wanted) {
  const std::string path = weights_path(directory);
  auto file = std::make_unique<AdapterFile>(path);
  std::map<std::string, const Tensor*> left;
  for (const Tensor& tensor : wanted) left[tensor.name] = &tensor;
  file->take_names(wanted);
  for (const Tensor& tensor : wanted) {
    const auto found = file->tensors().find(tensor.name);
    if (found == file->tensors().end() && tensor.optional) continue;
    if (found == file->tensors().end())
      fail(Status::format, "{}: tensor {} is missing, which {} asks for; the file has {}", Place::in(path),
           tensor.name, kConfigFile, names_in(*file));
    const io::TensorView& view = found->second;
    if (!tensor.shape.empty() && view.shape != tensor.shape) {
      fail(Status::format, "{}: tensor {} is {}, and this model and {} need {}", Place::in(path), tensor.name,
           shape_text(view.shape), kConfigFile, shape_text(tensor.shape));
    }
    check_numbers(path, tensor.name, view);
  }
  for (const auto& [name, view] : file->tensors()) {
    if (!left.contains(name))
      fail(Status::format, "{}: tensor {} is not one that {} asks for in this model", Place::in(path), name,
           kConfigFile);
  }
  return file;
}

}  // namespace trl::adapter
