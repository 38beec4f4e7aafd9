// A tokenizer of one token a byte, and chat templates to go with it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace trl::test {

inline constexpr int32_t kBos = 256;
inline constexpr int32_t kEos = 257;
inline constexpr std::string_view kEosText = "<e>";

// Bytes are ids; "<e>" is EOS wherever it stands; BOS is added before text.
class LetterTokenizer : public text::Tokenizer {
 public:
  using Templates = std::map<std::string, std::string>;
  explicit LetterTokenizer(std::string chat_template = "") {
    if (!chat_template.empty()) templates_["default"] = std::move(chat_template);
  }
  explicit LetterTokenizer(Templates templates) : templates_(std::move(templates)) {}
  std::function<void()> before_encode;
  bool splits = false;  // split_special_tokens
  text::Encoding encode_with_offsets(std::string_view text, bool add_special_tokens,
                                     const text::ByteRanges& given = {}) const override {
    if (before_encode) before_encode();
    text::Encoding out;
    const auto add = [&](int32_t id, size_t begin, size_t end) {
      out.ids.push_back(id);
      out.offsets.emplace_back(static_cast<uint32_t>(begin), static_cast<uint32_t>(end));
    };
    if (add_special_tokens) add(kBos, 0, 0);
    for (size_t i = 0; i < text.size();) {
      const bool eos = text.substr(i).starts_with(kEosText) && !text::is_inside(given, i);
      const size_t end = i + (eos ? kEosText.size() : 1);
      add(eos ? kEos : static_cast<unsigned char>(text[i]), i, end);
      i = end;
    }
    return out;
  }
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens,
                              const text::ByteRanges& given = {}) const override {
    return encode_with_offsets(text, add_special_tokens, given).ids;
  }
  bool splits_special_tokens() const override { return splits; }
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    std::string out;
    for (const int32_t id : ids) {
      if (id < 256) out.push_back(static_cast<char>(id));
      if (id == kEos && !skip_special_tokens) out += kEosText;
    }
    return out;
  }
  std::string decode_bytes(std::span<const int32_t> ids, bool skip, bool) const override {
    return decode(ids, skip);
  }
  std::optional<int32_t> token_to_id(std::string_view token) const override {
    return token == kEosText ? std::optional(kEos) : std::nullopt;
  }
  std::optional<std::string> id_to_token(int32_t) const override { return std::nullopt; }
  int64_t vocab_size() const override { return 258; }
  std::map<int32_t, text::AddedToken> added_tokens() const override { return {}; }
  std::unique_ptr<text::Tokenizer> with_added(std::span<const text::AddedToken>) const override {
    return nullptr;
  }
  std::string_view built_as() const override { return {}; }
  const Special& special() const override { return special_; }
  const Templates& chat_templates() const override { return templates_; }
  std::unique_ptr<Tokenizer> with(const Overrides&) const override { return nullptr; }
  std::vector<std::pair<std::string, std::string>> files() const override { return {}; }

 private:
  Special special_{
      .bos = {}, .eos = std::string(kEosText), .pad = std::string(kEosText), .unk = {}, .others = {}};
  Templates templates_;
};

inline constexpr const char* kPlainTemplate =
    "{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}";
inline constexpr const char* kMarkedTemplate =
    "{% for m in messages %}{{ m['role'][0] }}:{% if m['role'] == 'assistant' %}{% generation %}{{ "
    "m['content'] }}"
    "{{ eos_token }}{% endgeneration %}{% else %}{{ m['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}";

}  // namespace trl::test
