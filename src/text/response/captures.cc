#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/response/captures.h"

#include <pcre2.h>

#include "base/error.h"

namespace trl::text {

namespace {
constexpr uint32_t kMostSteps = 10'000'000, kMostHeap = 64 << 10;  // KiB
}

struct CapturePattern::Compiled {
  explicit Compiled(pcre2_code_8* made) : code(made), context(pcre2_match_context_create_8(nullptr)) {
    pcre2_set_match_limit_8(context, kMostSteps);
    pcre2_set_heap_limit_8(context, kMostHeap);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_match_context_free_8(context);
    pcre2_code_free_8(code);
  }
  pcre2_code_8* const code;
  pcre2_match_context_8* const context;
};

CapturePattern::CapturePattern(std::string_view pattern) {
  int error = 0;
  size_t place = 0;
  pcre2_code_8* const code = pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(pattern.data()), pattern.size(),
                                             PCRE2_UTF | PCRE2_UCP | PCRE2_DOTALL, &error, &place, nullptr);
  if (code == nullptr) fail(Status::format, "the pattern {} is wrong at {}", pattern, place);
  compiled_ = std::make_unique<Compiled>(code);
}

CapturePattern::~CapturePattern() = default;
CapturePattern::CapturePattern(CapturePattern&&) noexcept = default;

std::optional<CapturePattern::Match> CapturePattern::find(std::string_view text, size_t from) const {
  const std::unique_ptr<pcre2_match_data_8, decltype(&pcre2_match_data_free_8)> data(
      pcre2_match_data_create_from_pattern_8(compiled_->code, nullptr), &pcre2_match_data_free_8);
  const int groups = pcre2_match_8(compiled_->code, reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(),
                                   from, 0, data.get(), compiled_->context);
  if (groups <= 0) return std::nullopt;
  const size_t* const places = pcre2_get_ovector_pointer_8(data.get());
  const auto group = [&](size_t number) {
    if (static_cast<size_t>(groups) <= number || places[2 * number] == PCRE2_UNSET) return std::string_view();
    return text.substr(places[2 * number], places[2 * number + 1] - places[2 * number]);
  };
  return Match{places[0], places[1], group(1), group(2)};
}

}  // namespace trl::text
