#define PCRE2_CODE_UNIT_WIDTH 8
#include "adapter/module_pattern.h"

#include <pcre2.h>

#include "base/error.h"
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

}  // namespace

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

}  // namespace trl::adapter
