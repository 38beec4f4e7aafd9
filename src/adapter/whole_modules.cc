#include "adapter/whole_modules.h"

#include <algorithm>
#include <set>

#include "adapter/module_names.h"
#include "adapter/named_modules.h"
#include "base/error.h"
#include "base/text/nearest.h"

namespace trl::adapter {

namespace {

class WholeModules {
 public:
  WholeModules(const config::LoraConfig& config, std::span<const Module> modules, Selection& selection)
      : config_(config), modules_(modules), out_(selection) {}

  void select() {
    select_saved();
    tie();
    select_tokens();
    select_biases();
  }

 private:
  size_t index(const Module& module) const { return static_cast<size_t>(&module - modules_.data()); }

  bool selected(const Module& module) const {
    return std::any_of(out_.targets.begin(), out_.targets.end(),
                       [&](const Target& target) { return target.module == index(module); });
  }

  // Selects by the plain end of a name, as PEFT compares here; a module that holds others is saved with all
  // of them.
  void select_saved() {
    const std::vector<Entry> named = entries(modules_);
    std::vector<std::string_view> missing;
    for (const std::string& name : config_.modules_to_save) {
      const size_t before = out_.saved.size();
      for (const Entry& entry : named) {
        if (!entry.name.ends_with(name)) continue;
        for (const Module& module : modules_) {
          if (module.name == entry.name || module.name.starts_with(std::string(entry.name) + "."))
            out_.saved.push_back(index(module));
        }
      }
      if (out_.saved.size() == before) missing.push_back(name);
    }
    std::sort(out_.saved.begin(), out_.saved.end());
    out_.saved.erase(std::unique(out_.saved.begin(), out_.saved.end()), out_.saved.end());
    for (const std::string_view head : config::kClassifierHeads) {  // SEQ_CLS names both, and a model has one
      if (config_.task_type == "SEQ_CLS" && !out_.saved.empty()) std::erase(missing, head);
    }
    if (missing.empty()) return;
    const std::string_view key = config_.key("modules_to_save");
    const std::string message = fmt::format("{}: {} does not match any module; the model has {}", key,
                                            base::join(missing), base::join(last_names()));
    if (out_.saved.empty()) fail_key(key, "{}", message);
    out_.warnings.push_back(message);
  }

  std::vector<std::string_view> last_names() const {
    std::vector<std::string_view> names;
    for (const Module& module : modules_) {
      const std::string_view last = std::string_view(module.name).substr(module.name.rfind('.') + 1);
      if (std::find(names.begin(), names.end(), last) == names.end()) names.push_back(last);
    }
    return names;
  }

  // Returns the embedding whose weight is the head's too; null: the head has its own.
  const Module* tied_embedding() const {
    const auto head = std::find_if(modules_.begin(), modules_.end(), [](const Module& m) { return m.tied; });
    if (head == modules_.end()) return nullptr;
    return &*std::find_if(modules_.begin(), modules_.end(),
                          [](const Module& m) { return m.kind == ModuleKind::embedding; });
  }

  const Module& head() const {
    return *std::find_if(modules_.begin(), modules_.end(), [](const Module& m) { return m.head; });
  }

  bool saved(const Module& module) const {
    return std::find(out_.saved.begin(), out_.saved.end(), index(module)) != out_.saved.end();
  }

  // Applies every change of a tied embedding or head to both.
  void tie() {
    if (!config_.ensure_weight_tying) return;
    const Module* const embedding = tied_embedding();
    if (embedding == nullptr) {
      out_.warnings.push_back("ensure_weight_tying: the output head of this model has a weight of its own");
      return;
    }
    if (selected(*embedding)) {
      fail_key(
          "ensure_weight_tying",
          "ensure_weight_tying: the adapter of {} would be one on the output head ({}) too, whose weight "
          "alone the loss reads: list {} in modules_to_save, or leave ensure_weight_tying out",
          embedding->name, head().name, embedding->name);
    }
    if (!saved(*embedding) && !saved(head())) return;
    out_.head_is_saved = true;
    for (const Module* const one : {embedding, &head()}) {
      if (!saved(*one)) out_.saved.push_back(index(*one));
    }
    std::sort(out_.saved.begin(), out_.saved.end());
  }

  const Module& token_module(const std::string& name) const {
    for (const Module& module : modules_) {
      const bool has_tokens = module.kind == ModuleKind::embedding || module.head;
      if (has_tokens && (name.empty() || ends_after_dot(module.name, name))) return module;
    }
    fail_key("trainable_token_indices",
             "trainable_token_indices: '{}' is neither an embedding nor the output head of this model", name);
  }

  void check_tokens(const Module& module, const std::vector<int64_t>& ids) const {
    constexpr std::string_view kKey = "trainable_token_indices";
    const int64_t rows = module.head ? module.out : module.in;
    std::set<int64_t> seen;
    for (const int64_t id : ids) {
      if (id < 0 || id >= rows)
        fail_key(kKey, "{}: {} is outside the {} rows of {}", kKey, id, rows, module.name);
      if (!seen.insert(id).second) fail_key(kKey, "{}: {} of {} is given twice", kKey, id, module.name);
    }
    if (ids.empty()) fail_key(kKey, "{}: no token of {} is given", kKey, module.name);
    const Module* const embedding = tied_embedding();
    const bool shared = embedding != nullptr && (module.head || &module == embedding);
    if (selected(module))
      fail_key(kKey, "{}: {} has an adapter (target_modules), so its tokens cannot be trained as well", kKey,
               module.name);
    if (saved(module) || (shared && (saved(*embedding) || saved(head())))) {
      fail_key(kKey,
               "{}: {} is trained whole (modules_to_save{}), with all of its tokens: leave one of them out",
               kKey,
               saved(module)   ? module.name
               : saved(head()) ? head().name
                               : embedding->name,
               saved(module) ? "" : ", and the embedding is the output head");
    }
  }

  void select_tokens() {
    for (const auto& [name, ids] : config_.trainable_token_indices) {
      const Module& module = token_module(name);
      check_tokens(module, ids);
      out_.tokens.emplace_back(index(module), ids);
    }
    const Module* const embedding = tied_embedding();
    if (embedding == nullptr) return;
    const auto tokens_of = [&](const Module& module) {
      return std::find_if(out_.tokens.begin(), out_.tokens.end(),
                          [&](const auto& one) { return one.first == index(module); });
    };
    const auto of_embedding = tokens_of(*embedding), of_head = tokens_of(head());
    if (of_embedding == out_.tokens.end()) return;
    out_.head_has_tokens = of_head == out_.tokens.end() || of_head->second == of_embedding->second;
    if (out_.head_has_tokens && of_head != out_.tokens.end()) out_.tokens.erase(of_head);
  }

  void select_biases() {
    if (config_.bias == config::LoraBias::none) return;
    for (const Module& module : modules_) {
      if (module.bias && (config_.bias == config::LoraBias::all || selected(module)))
        out_.biases.push_back(index(module));
    }
  }

  const config::LoraConfig& config_;
  const std::span<const Module> modules_;
  Selection& out_;
};

}  // namespace

void select_whole(const config::LoraConfig& config, std::span<const Module> modules, Selection& selection) {
  WholeModules(config, modules, selection).select();
}

}  // namespace trl::adapter
