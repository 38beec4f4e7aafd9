// Any bytes as a tokenizer.json: ids of its vocabulary, the same with offsets and without, at places of the
// text, and text again; or one error that names the file.
#include "base/error.h"
#include "in_memory_file.h"
#include "text/tokenizer/pipeline.h"

namespace {

using namespace trl;
using fuzz::require;

const char* const kOrigin = "/a/tokenizer.json";
const char* const kTexts[] = {
    "", "ab <s>it's  12, aab\xC3\xA9</s>",
    "\x01 e\xCC\x81\xE2\x80\xA6\xEF\xAC\x81t\xCC\x81 \xE6\x97\xA5\xE6\x9C\xAC\r\n\tB\xF0\x9F\x91\x8D ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aa"};

void check(const text::Pipeline& pipeline, std::string_view text, bool special) {
  const text::Tokens tokens = pipeline.encode(text, special, true, {});
  require(tokens.ids == pipeline.encode(text, special, false, {}).ids);
  require(tokens.spans.size() == tokens.ids.size());
  for (const text::Span& span : tokens.spans) require(span.begin <= span.end && span.end <= text.size());
  for (const int32_t id : tokens.ids) require(id >= 0 && id < pipeline.end());
  pipeline.decode(tokens.ids, false, {.lossy = true});
  pipeline.decode(tokens.ids, true, {.continues = true});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::optional<text::Pipeline> pipeline;
  try {
    pipeline.emplace(text::read_tokenizer_json(bytes, kOrigin), text::Settings{}, kOrigin);
  } catch (const Error& error) {
    require(error.status() == Status::format || error.status() == Status::unsupported);
    require(error.message().find(kOrigin) != std::string::npos);
    return 0;
  }
  for (const char* text : kTexts) {
    try {
      check(*pipeline, text, true);
      check(*pipeline, text, false);
    } catch (const Error& error) {
      require(error.status() == Status::format || error.status() == Status::unsupported);
    }
  }
  return 0;
}
