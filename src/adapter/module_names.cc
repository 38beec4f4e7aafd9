#include "adapter/module_names.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text/nearest.h"
#include "base/text/number.h"

namespace trl::adapter {

namespace {

constexpr size_t kLongest = 1 << 16;  // bytes of an expression
constexpr uint32_t kMatchLimit = 1'000'000;

std::string reason(int code) {
  PCRE2_UCHAR text[200] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

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
    return std::ranges::count(out_.targets, index(module), &Target::module) > 0;
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
        for (const Module& module : modules_)
          if (module.name == entry.name || module.name.starts_with(std::string(entry.name) + "."))
            out_.saved.push_back(index(module));
      }
      if (out_.saved.size() == before) missing.push_back(name);
    }
    std::ranges::sort(out_.saved);
    out_.saved.erase(std::unique(out_.saved.begin(), out_.saved.end()), out_.saved.end());
    for (const std::string_view head : config::kClassifierHeads)  // SEQ_CLS names both, and a model has one
      if (config_.task_type == "SEQ_CLS" && !out_.saved.empty()) std::erase(missing, head);
    if (missing.empty()) return;
    const std::string_view key = config_.key("modules_to_save");
    const std::string message =
        fmt::format("{}: {} does not match any module; the model has {}", key, base::join(missing),
                    base::join(last_parts(modules_, [](const Module&) { return true; })));
    if (out_.saved.empty()) fail_key(key, "{}", message);
    out_.warnings.push_back(message);
  }

  // Returns the embedding whose weight is the head's too; null: the head has its own.
  const Module* tied_embedding() const {
    const auto head = std::ranges::find_if(modules_, [](const Module& m) { return m.tied; });
    if (head == modules_.end()) return nullptr;
    return &*std::ranges::find_if(modules_, [](const Module& m) { return m.kind == ModuleKind::embedding; });
  }

  const Module& head() const {
    return *std::ranges::find_if(modules_, [](const Module& m) { return m.head; });
  }

  bool saved(const Module& module) const {
    return std::ranges::find(out_.saved, index(module)) != out_.saved.end();
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
      fail_key("ensure_weight_tying",
               "ensure_weight_tying: the adapter of {} would be one on the output head ({}) too, whose "
               "weight alone the loss reads: list {} in modules_to_save, or leave ensure_weight_tying out",
               embedding->name, head().name, embedding->name);
    }
    if (!saved(*embedding) && !saved(head())) return;
    out_.head_is_saved = true;
    for (const Module* const one : {embedding, &head()})
      if (!saved(*one)) out_.saved.push_back(index(*one));
    std::ranges::sort(out_.saved);
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
      return std::ranges::find_if(out_.tokens, [&](const auto& one) { return one.first == index(module); });
    };
    const auto of_embedding = tokens_of(*embedding), of_head = tokens_of(head());
    if (of_embedding == out_.tokens.end()) return;
    out_.head_has_tokens = of_head == out_.tokens.end() || of_head->second == of_embedding->second;
    if (out_.head_has_tokens && of_head != out_.tokens.end()) out_.tokens.erase(of_head);
  }

  void select_biases() {
    if (config_.bias == config::LoraBias::none) return;
    for (const Module& module : modules_)
      if (module.bias && (config_.bias == config::LoraBias::all || selected(module)))
        out_.biases.push_back(index(module));
  }

  const config::LoraConfig& config_;
  const std::span<const Module> modules_;
  Selection& out_;
};

}  // namespace

bool ends_after_dot(std::string_view name, std::string_view ending) {
  return name == ending || (name.size() > ending.size() && name.ends_with(ending) &&
                            name[name.size() - ending.size() - 1] == '.');
}

Names::Names(std::string_view key, const config::ModuleNames& names) : names_(names) {
  if (names.pattern) pattern_.emplace(key, *names.pattern);
}

bool Names::contain(std::string_view name) const {
  if (pattern_) return pattern_->matches(name);
  return std::ranges::any_of(names_.names,
                             [&](const std::string& ending) { return ends_after_dot(name, ending); });
}

bool Names::has(std::string_view name) const {
  return !pattern_ && std::ranges::find(names_.names, name) != names_.names.end();
}

SavedModules::SavedModules(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    patterns_.emplace_back("modules_to_save", "(^|.*\\.)" + name + "($|\\..*)");
}

bool SavedModules::contain(std::string_view name) const {
  return std::ranges::any_of(patterns_, [&](const ModulePattern& pattern) { return pattern.matches(name); });
}

struct ModulePattern::State {
  std::string key, expression;
  pcre2_code* code = nullptr;
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  int layer = -1;  // the number of the group "layer"
  ~State() {
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
  }
};

ModulePattern::ModulePattern(std::string_view key, std::string_view expression)
    : state_(std::make_unique<State>()) {
  state_->key = key;
  state_->expression = expression;
  if (expression.size() > kLongest) {
    fail_key(key, "{}: a regular expression of {} bytes; at most {} are read", key, expression.size(),
             kLongest);
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  state_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  if (state_->code == nullptr) {
    fail_key(key, "{}: '{}' is not a valid regular expression: {} at byte {}", key, expression, reason(error),
             offset);
  }
  state_->data = pcre2_match_data_create_from_pattern(state_->code, nullptr);
  state_->context = pcre2_match_context_create(nullptr);
  if (state_->data == nullptr || state_->context == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(state_->context, kMatchLimit);
  state_->layer = pcre2_substring_number_from_name(state_->code, reinterpret_cast<PCRE2_SPTR>("layer"));
}

ModulePattern::~ModulePattern() = default;
ModulePattern::ModulePattern(ModulePattern&&) noexcept = default;

bool ModulePattern::matches(std::string_view name) const {
  const int found = pcre2_match(state_->code, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0,
                                state_->data, state_->context);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) {
    fail_key(state_->key, "{}: '{}' cannot be compared with {}: {}", state_->key, state_->expression, name,
             reason(found));
  }
  return true;
}

std::optional<int64_t> ModulePattern::layer(std::string_view name) const {
  if (!matches(name) || state_->layer < 0) return std::nullopt;
  const PCRE2_SIZE* const range = pcre2_get_ovector_pointer(state_->data) + 2 * state_->layer;
  if (range[0] == PCRE2_UNSET) return std::nullopt;
  return base::parse_int64(name.substr(range[0], range[1] - range[0]));
}

std::vector<Entry> entries(std::span<const Module> modules) {
  std::vector<Entry> all;
  std::set<std::string_view> holders;
  for (const Module& module : modules) {
    const std::string_view name = module.name;
    for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1))
      if (holders.insert(name.substr(0, dot)).second) all.push_back({name.substr(0, dot), nullptr});
    if (module.kind != ModuleKind::experts) all.push_back({name, &module});
  }
  return all;
}

bool is_module(ModuleKind kind) {
  return kind == ModuleKind::linear || kind == ModuleKind::conv1d || kind == ModuleKind::embedding;
}

std::string there_are(std::span<const Module> modules) {
  return base::join(last_parts(modules, [](const Module& m) { return !m.head && is_module(m.kind); }));
}

void select_whole(const config::LoraConfig& config, std::span<const Module> modules, Selection& selection) {
  WholeModules(config, modules, selection).select();
}

}  // namespace trl::adapter
