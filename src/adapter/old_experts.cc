#include "adapter/old_experts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "adapter/module_names.h"
#include "adapter/tensors.h"
#include "base/error.h"
#include "base/text/number.h"

namespace trl::adapter {

namespace {

using config::LoraConfig;
using config::ModuleNames;

constexpr std::string_view kOldTargets = "target_modules", kGateUp = "gate_up_proj", kDown = "down_proj";

struct Renamed {
  std::string_view before, now;
};
constexpr Renamed kMixtral[] = {{"gate", "gate.weight"}, {"w1", kGateUp}, {"w3", kGateUp}, {"w2", kDown}};
constexpr Renamed kQwen[] = {
    {"gate", "gate.weight"}, {"gate_proj", kGateUp}, {"up_proj", kGateUp}, {kDown, kDown}};

std::span<const Renamed> renamed_in(std::string_view model_type) {
  if (model_type == "mixtral") return kMixtral;
  if (model_type == "qwen3_moe") return kQwen;
  return {};
}

std::string last_part(std::string_view name) { return std::string(name.substr(name.rfind('.') + 1)); }

// Returns the names of modules, of their parents, and of parameters, each once.
std::set<std::string> names_of(std::span<const Module> modules) {
  std::set<std::string> names;
  for (const Module& module : modules) {
    for (size_t dot = module.name.find('.'); dot != std::string::npos; dot = module.name.find('.', dot + 1))
      names.insert(module.name.substr(0, dot));
    names.insert(module.name);
    if (module.kind == ModuleKind::experts) continue;
    names.insert(module.name + ".weight");
    if (module.bias) names.insert(module.name + ".bias");
  }
  return names;
}

std::vector<std::string> all_linear(std::span<const Module> modules, std::span<const Renamed> renamed) {
  std::set<std::string> names;
  for (const Module& module : modules)
    if (module.kind == ModuleKind::linear && !module.head) names.insert(last_part(module.name));
  for (const Renamed& one : renamed) names.emplace(one.before);
  return {names.begin(), names.end()};
}

// Returns the last parts of the names that the expression matches, and the old names that it would have
// matched.
std::vector<std::string> matched(const LoraConfig& config, std::span<const Module> modules,
                                 std::span<const Renamed> renamed) {
  const Names wanted(kOldTargets, *config.target_modules),
      excluded("exclude_modules", config.exclude_modules);
  const SavedModules saved(config.modules_to_save);
  const auto matches = [&](const std::string& name) {
    return wanted.contain(name) && !excluded.contain(name) && !saved.contain(name);
  };
  const std::set<std::string> all = names_of(modules);
  std::set<std::string> found;
  for (const std::string& name : all)
    if (matches(name)) found.insert(last_part(name));
  for (const Renamed& one : renamed)
    if (std::ranges::any_of(all, [&](const std::string& name) {
          const size_t owner = name.size() - one.now.size();
          return ends_after_dot(name, one.now) && owner > 0 &&
                 matches(name.substr(0, owner) + std::string(one.before));
        }))
      found.emplace(one.before);
  return {found.begin(), found.end()};
}

void double_gate_up(LoraConfig& config) {
  const std::string pattern = fmt::format(".*\\.{}", kGateUp);
  const auto set = [&](auto& entries, auto value) {
    const auto found = std::ranges::find_if(entries, [&](const auto& one) { return one.first == pattern; });
    if (found == entries.end())
      entries.emplace_back(pattern, value);
    else
      found->second = value;
  };
  set(config.rank_pattern, config.r * 2);
  set(config.alpha_pattern, config.lora_alpha * 2);
}

// Checks the two modules that gate_up_proj represents, of which none or both must be named.
void check_both(std::span<const Renamed> renamed, const std::set<std::string_view>& named) {
  std::vector<std::string_view> there, missing;
  for (const Renamed& one : renamed)
    if (one.now == kGateUp) (named.contains(one.before) ? there : missing).push_back(one.before);
  if (there.empty() || missing.empty()) return;
  fail_key(kOldTargets, "{}: {} and {} of an expert are one parameter, {}: name both or neither", kOldTargets,
           there[0], missing[0], kGateUp);
}

// Describes the matrix of an expert that a tensor belongs to.
struct OldTensor {
  std::string owner;  // the experts of its layer, under their new name
  size_t branch;      // 0: gate, 1: up, 2: down
  bool b;
  int64_t expert;
};

std::string new_name(std::string name) {
  constexpr std::string_view kOld = ".block_sparse_moe.", kNew = ".mlp.";
  if (const size_t at = name.find(kOld); at != std::string::npos) name.replace(at, kOld.size(), kNew);
  return name;
}

std::optional<OldTensor> old_tensor(const std::string& name) {
  constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight", kExperts = ".experts.";
  const bool b = name.ends_with(kB);
  if (!b && !name.ends_with(kA)) return std::nullopt;
  const std::string_view module = std::string_view(name).substr(0, name.size() - kA.size());
  const size_t at = module.rfind(kExperts);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = module.substr(at + kExperts.size());
  const size_t dot = rest.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> expert = base::parse_int64(rest.substr(0, dot));
  constexpr std::pair<std::string_view, size_t> kBranches[] = {
      {"w1", 0}, {"w3", 1}, {"w2", 2}, {"gate_proj", 0}, {"up_proj", 1}, {"down_proj", 2}};
  for (const auto& [branch, number] : kBranches) {
    if (branch != rest.substr(dot + 1) || !expert || *expert < 0) continue;
    return OldTensor{new_name(name.substr(0, at + kExperts.size() - 1)), number, b, *expert};
  }
  return std::nullopt;
}

struct Stored {
  std::string name;
  io::TensorView view;
};
// Indexed by [branch][0: A, 1: B][expert].
using OldExperts = std::array<std::array<std::map<int64_t, Stored>, 2>, 3>;

class Stacker {
 public:
  Stacker(const std::string& path, const OldExperts& all) : path_(path), all_(all) {
    for (const auto& branch : all) {
      for (const auto& side : branch)
        if (!side.empty()) experts_ = std::max(experts_, side.rbegin()->first + 1);
    }
    for (size_t branch = 0; branch < all.size(); ++branch) check(branch);
  }

  bool has(size_t branch) const { return !all_[branch][0].empty(); }
  int64_t size(size_t branch, size_t side, size_t dimension) const {
    return all_[branch][side].begin()->second.view.shape[dimension];
  }

  // Stacks branches one below the other: each expert's A vertically, its B on the diagonal.
  std::vector<float> stacked(std::span<const size_t> branches, size_t side,
                             std::vector<int64_t>& shape) const {
    int64_t rank = 0, out = 0;
    for (const size_t branch : branches) {
      rank += size(branch, 0, 0);
      out += size(branch, 1, 0);
    }
    shape = side == 0 ? std::vector<int64_t>{experts_ * rank, size(branches[0], 0, 1)}
                      : std::vector<int64_t>{out, rank * experts_};
    std::vector<float> values(static_cast<size_t>(shape[0] * shape[1]));
    int64_t first_rank = 0, first_out = 0;
    for (const size_t branch : branches) {
      for (const auto& [expert, stored] : all_[branch][side]) {
        const int64_t rows = stored.view.shape[0], columns = stored.view.shape[1];
        std::vector<float> own(static_cast<size_t>(rows * columns));
        io::read_floats(stored.view.type, stored.view.data, 0, rows * columns, own.data());
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t column = 0; column < columns; ++column) {
            const int64_t to_row = side == 0 ? expert * rank + first_rank + row : first_out + row;
            const int64_t to_column = side == 0 ? column : (first_rank + column) * experts_ + expert;
            values[static_cast<size_t>(to_row * shape[1] + to_column)] =
                own[static_cast<size_t>(row * columns + column)];
          }
        }
      }
      first_rank += size(branch, 0, 0);
      first_out += size(branch, 1, 0);
    }
    return values;
  }

 private:
  void check(size_t branch) const {
    const auto& [a, b] = all_[branch];
    if (a.empty() && b.empty()) return;
    for (const auto* side : {&a, &b}) {
      for (int64_t expert = 0; expert < experts_; ++expert) {
        if (!side->contains(expert)) refuse_missing(branch, side == &b, expert);
        const Stored& stored = side->at(expert);
        check_numbers(path_, stored.name, stored.view);
        const std::vector<int64_t>&shape = stored.view.shape, &first = side->begin()->second.view.shape;
        if (shape == first && shape.size() == 2) continue;
        fail(Status::format, "{}: tensor {} is [{}], and that of the first expert is [{}]", Place::in(path_),
             stored.name, fmt::join(shape, ", "), fmt::join(first, ", "));
      }
    }
    if (size(branch, 0, 0) == size(branch, 1, 1)) return;
    fail(Status::format, "{}: tensor {} is [{}], and its lora_A has rank {}", Place::in(path_),
         b.begin()->second.name, fmt::join(b.begin()->second.view.shape, ", "), size(branch, 0, 0));
  }

  [[noreturn]] void refuse_missing(size_t branch, bool b, int64_t expert) const {
    const Stored& other = (all_[branch][0].empty() ? all_[branch][1] : all_[branch][0]).begin()->second;
    fail(Status::format, "{}: {} of expert {} is missing beside tensor {}", Place::in(path_),
         b ? "lora_B" : "lora_A", expert, other.name);
  }

  const std::string& path_;
  const OldExperts& all_;
  int64_t experts_ = 0;
};

}  // namespace

LoraConfig with_stacked_experts(LoraConfig config, std::span<const Module> modules,
                                std::string_view model_type) {
  const std::span<const Renamed> renamed = renamed_in(model_type);
  if (renamed.empty()) return config;
  if (!config.target_modules) {
    if (!config.target_parameters.empty()) config.target_modules = ModuleNames();
    return config;
  }
  std::vector<std::string> names = config.target_modules->names;
  if (config.target_modules->all_linear()) {
    names = all_linear(modules, renamed);
  } else if (config.target_modules->pattern) {
    names = matched(config, modules, renamed);
    if (names.empty()) return config;  // the message must name the expression
  }
  ModuleNames left;
  std::set<std::string> parameters(config.target_parameters.begin(), config.target_parameters.end());
  std::set<std::string_view> named;
  for (const std::string& name : names) {
    const auto found =
        std::ranges::find_if(renamed, [&](const Renamed& one) { return ends_after_dot(name, one.before); });
    if (found == renamed.end()) {
      left.names.push_back(name);
    } else {
      named.insert(found->before);
      parameters.emplace(found->now);
    }
  }
  check_both(renamed, named);
  if (std::ranges::any_of(
          renamed, [&](const Renamed& one) { return one.now == kGateUp && named.contains(one.before); }))
    double_gate_up(config);
  config.target_modules = std::move(left);
  config.target_parameters.assign(parameters.begin(), parameters.end());
  return config;
}

StackedExperts::StackedExperts(const std::string& path, std::map<std::string, io::TensorView>& tensors) {
  std::map<std::string, OldExperts> owners;
  std::map<std::string, io::TensorView> others;
  for (const auto& [name, view] : tensors)
    if (const std::optional<OldTensor> old = old_tensor(name))
      owners[old->owner][old->branch][old->b ? 1 : 0][old->expert] = {name, view};
    else
      others[new_name(name)] = view;
  for (const auto& [owner, all] : owners) {
    const Stacker stacker(path, all);
    const auto put = [&](std::span<const size_t> branches, const std::string& name) {
      for (size_t side = 0; side < 2; ++side) {
        std::vector<int64_t> shape;
        const std::vector<float>& values = values_.emplace_back(stacker.stacked(branches, side, shape));
        others[name + (side == 0 ? ".lora_A.weight" : ".lora_B.weight")] = {
            io::ElementType::f32, "F32", std::move(shape), values.data(), values.size() * sizeof(float)};
      }
    };
    constexpr size_t kGateAndUp[] = {0, 1}, kDownAlone[] = {2};
    if (stacker.has(0) != stacker.has(1))
      fail(Status::format,
           "{}: gate and up of the experts {} are one parameter, and only one of them is in the file",
           Place::in(path), owner);
    if (stacker.has(0)) put(kGateAndUp, owner + (stacker.has(2) ? ".base_layer" : ""));
    if (stacker.has(2)) put(kDownAlone, owner);
  }
  tensors = std::move(others);
}

}  // namespace trl::adapter
