// PCRE2 with UTF, UCP and its JIT. The text was checked to be UTF-8, so the library does not check it again.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/regex.h"

#include <pcre2.h>

#include "base/error.h"
#include "text/tokenizer/oniguruma.h"

namespace trl::text {

namespace {
constexpr size_t kMaxPattern = 1 << 16;
constexpr size_t kJitStack = 16 << 20;  // bytes, reserved when 32 KiB of the machine stack do not do
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr uint32_t kDepthLimit = 1'000'000;
constexpr uint32_t kHeapLimit = 256 << 10;  // KiB

std::string reason(int code) {
  PCRE2_UCHAR8 text[200] = {};
  pcre2_get_error_message_8(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}
}  // namespace

struct MatchSpace::State {
  pcre2_match_data_8* data = pcre2_match_data_create_8(1, nullptr);
  pcre2_match_context_8* context = pcre2_match_context_create_8(nullptr);
  pcre2_jit_stack_8* stack = nullptr;

  State() {
    if (!data || !context) throw std::bad_alloc();
    pcre2_set_match_limit_8(context, kMatchLimit);
    pcre2_set_depth_limit_8(context, kDepthLimit);
    pcre2_set_heap_limit_8(context, kHeapLimit);
  }
  ~State() {
    pcre2_match_data_free_8(data);
    pcre2_match_context_free_8(context);
    pcre2_jit_stack_free_8(stack);
  }
};

MatchSpace::MatchSpace() : state_(std::make_unique<State>()) {}
MatchSpace::~MatchSpace() = default;

struct Regex::Compiled {
  std::string source;
  pcre2_code_8* code = nullptr;
  bool jit = false;
  ~Compiled() { pcre2_code_free_8(code); }
};

Regex::Regex(std::string_view oniguruma) : compiled_(std::make_unique<Compiled>()) {
  if (oniguruma.size() > kMaxPattern)
    fail(Status::format, "a pattern of {} bytes: at most {} are read", oniguruma.size(), kMaxPattern);
  compiled_->source = oniguruma;
  const std::string pattern = pcre_from_oniguruma(oniguruma);
  const std::unique_ptr<pcre2_compile_context_8, void (*)(pcre2_compile_context_8*)> context(
      pcre2_compile_context_create_8(nullptr), pcre2_compile_context_free_8);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline_8(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit_8(context.get(), 100);
  int code = 0;
  size_t offset = 0;
  compiled_->code = pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(pattern.data()), pattern.size(),
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE, &code,
                                    &offset, context.get());
  if (!compiled_->code) fail(Status::format, "the pattern '{}' is not valid: {}", oniguruma, reason(code));
  // Without it the interpreter runs.
  compiled_->jit = pcre2_jit_compile_8(compiled_->code, PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

bool Regex::find(std::string_view text, size_t from, Match& match, MatchSpace& space) const {
  MatchSpace::State& state = *space.state_;
  const auto search = [&] {
    const auto match_in = compiled_->jit ? pcre2_jit_match_8 : pcre2_match_8;
    return match_in(compiled_->code, reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), from,
                    PCRE2_NO_UTF_CHECK, state.data, state.context);
  };
  int found = search();
  if (found == PCRE2_ERROR_JIT_STACKLIMIT && !state.stack) {
    state.stack = pcre2_jit_stack_create_8(32 << 10, kJitStack, nullptr);
    pcre2_jit_stack_assign_8(state.context, nullptr, state.stack);
    found = search();
  }
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    fail(Status::unsupported, "the pattern '{}' cannot be searched in a text of {} bytes from byte {}: {}",
         compiled_->source, text.size(), from, reason(found));
  const size_t* range = pcre2_get_ovector_pointer_8(state.data);
  match = {range[0], range[1]};
  return true;
}

}  // namespace trl::text
