// Any bytes as a tokenizer.model: ids of its vocabulary at places of the text, and text again; or one error
// that names the file.
#include "text/tokenizer/sentencepiece_tokenizer.h"

#include "base/error.h"
#include "in_memory_file.h"

namespace {

using namespace trl;
using fuzz::require;

const std::string kTexts[] = {"",
                              "ab <s>it's  12, aab\xC3\xA9</s>",
                              std::string(40, 'a'),
                              {"a\0b", 3},
                              "\x01 e\xCC\x81\xE2\x80\xA6\xEF\xAC\x81t\xCC\x81 "
                              "\xE6\x97\xA5\xE6\x9C\xAC\r\n\tB\xF0\x9F\x91\x8D \xE2\x96\x81"};

void check(const text::Tokenizer& tokenizer, std::string_view text) {
  const text::Encoding encoding = tokenizer.encode_with_offsets(text, true);
  require(encoding.ids == tokenizer.encode(text, true));
  require(encoding.offsets.size() == encoding.ids.size());
  for (const auto& [begin, end] : encoding.offsets) require(begin <= end && end <= text.size());
  for (const int32_t id : encoding.ids) require(id >= 0 && id < tokenizer.vocab_size());
  tokenizer.decode(encoding.ids, false);
  tokenizer.decode_bytes(encoding.ids, true, true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::unique_ptr<text::Tokenizer> tokenizer;
  try {
    tokenizer = text::sentencepiece_tokenizer(
        {{text::kSentencePieceFile, {reinterpret_cast<const char*>(data), size}}}, "/a");
  } catch (const Error& error) {
    require(error.status() == Status::format);
    require(error.message().find("/a/tokenizer.model") != std::string::npos);
    return 0;
  }
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    require(tokenizer->token_to_id(tokenizer->id_to_token(id).value()) == id);
    tokenizer->decode({&id, 1}, false);
  }
  for (const std::string& text : kTexts) {
    try {
      check(*tokenizer, text);
    } catch (const Error& error) {
      require(error.status() == Status::format);
    }
  }
  return 0;
}
