#include "text/tokenizer/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/tokenizer/characters.h"

namespace trl::text {

namespace {
// ["[SEP]", 102]
int32_t read_pair(const Field& field, int32_t id_end) {
  const std::vector<Field> pair = field.list();
  if (pair.size() != 2)
    fail(Status::format, "{}: a list of {} instead of a token and its id", field.where(), pair.size());
  pair[0].text();
  return static_cast<int32_t>(pair[1].integer(0, id_end - 1));
}

struct Spaces {
  size_t leading = 0;
  size_t trailing = 0;  // both count all characters when there are only spaces
};

Spaces count_spaces(std::string_view token) {
  Spaces spaces;
  bool only = true;
  for (size_t at = 0; at < token.size();) {
    const char32_t c = base::next_code_point(token, at);
    const bool space = c == kByteCharacters[' '] || is_whitespace(c);
    only &= space;
    spaces.leading += only ? 1 : 0;
    spaces.trailing = space ? spaces.trailing + 1 : 0;
  }
  return spaces;
}
}  // namespace

PostProcessor::PostProcessor(const Field& field, int32_t id_end) { read(field, id_end, 0); }

PostProcessor::PostProcessor(std::optional<int32_t> before, std::optional<int32_t> after) {
  if (!before && !after) return;
  Step step;
  if (before) step.parts.push_back(before);
  step.parts.emplace_back(std::nullopt);
  if (after) step.parts.push_back(after);
  steps_.push_back(std::move(step));
}

void PostProcessor::read(const Field& field, int32_t id_end, int depth) {
  if (depth > kMaxNesting) fail(Status::format, "{}: nested too deep", field.where());
  const std::string& type = field.type();
  if (type == "Sequence") {
    for (const Field& item : field.at("processors").list()) read(item, id_end, depth + 1);
  } else if (type == "ByteLevel") {
    const bool prefix_space = field.at("add_prefix_space").boolean();
    if (field.at("trim_offsets").boolean()) steps_.push_back({.trims = true, .prefix_space = prefix_space});
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    if (type == "RobertaProcessing" && field.at("trim_offsets").boolean())
      steps_.push_back({.trims = true, .prefix_space = field.at("add_prefix_space").boolean()});
    add(field, {read_pair(field.at("cls"), id_end), {}, read_pair(field.at("sep"), id_end)});
  } else if (type == "TemplateProcessing") {
    read_template(field, id_end);
  } else {
    field.unknown("post-processor",
                  "BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing");
  }
}

void PostProcessor::read_template(const Field& field, int32_t id_end) {
  constexpr size_t kMaxParts = 1000;
  const Field specials = field.at("special_tokens");
  std::vector<std::optional<int32_t>> parts;
  for (const Field& part : field.at("single").list()) {
    if (const std::optional<Field> sequence = part.find("Sequence")) {
      if (sequence->at("id").text() != "A")
        fail(Status::format, "{}: '{}' instead of the sequence A", sequence->where(),
             sequence->at("id").text());
      parts.emplace_back(std::nullopt);
      continue;
    }
    const Field token = part.at("SpecialToken").at("id");
    for (const Field& id : specials.at(token.text().c_str()).at("ids").list())
      parts.emplace_back(static_cast<int32_t>(id.integer(0, id_end - 1)));
  }
  if (parts.size() > kMaxParts)
    fail(Status::format, "{}.single: {} tokens: at most {} are read", field.where(), parts.size(), kMaxParts);
  add(field, std::move(parts));
}

// Refuses a second one, which would add its tokens around each part of the first one's result.
void PostProcessor::add(const Field& field, std::vector<std::optional<int32_t>> parts) {
  if (parts.size() == 1 && !parts[0]) return;
  for (const Step& step : steps_) {
    if (!step.trims)
      fail(Status::unsupported,
           "{}: a second post-processor that adds tokens; one TemplateProcessing that adds them all is read",
           field.where());
  }
  steps_.push_back({.parts = std::move(parts)});
}

void PostProcessor::fill(const Step& step, Tokens& tokens, bool add_special_tokens) {
  Tokens filled;
  filled.tracked = tokens.tracked;
  filled.ids.reserve(tokens.ids.size() + step.parts.size());
  for (const std::optional<int32_t>& part : step.parts) {
    if (!part) {
      filled.ids.insert(filled.ids.end(), tokens.ids.begin(), tokens.ids.end());
      filled.spans.insert(filled.spans.end(), tokens.spans.begin(), tokens.spans.end());
    } else if (add_special_tokens) {
      filled.ids.push_back(*part);
      if (tokens.tracked) filled.spans.emplace_back();
    }
  }
  tokens = std::move(filled);
}

// Offsets are moved by characters, which the spans count in bytes.
void PostProcessor::trim(const Step& step, Tokens& tokens, std::string_view text, TokenText token_text) {
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    Span& span = tokens.spans[i];
    Spaces spaces = count_spaces(token_text(i));
    const bool first = i == 0 || span.begin == 0;
    if (first && step.prefix_space && spaces.leading == 1) spaces.leading = 0;
    for (; spaces.leading > 0 && span.begin < span.end; --spaces.leading) {
      size_t at = span.begin;
      base::next_code_point(text, at);
      span.begin = static_cast<uint32_t>(at);
    }
    for (; spaces.trailing > 0 && span.end > span.begin; --spaces.trailing) do
        --span.end;
      while (span.end > span.begin && (text[span.end] & 0xC0) == 0x80);
  }
}

// Runs the steps; trimming applies to the text's own tokens, at any position among the steps.
void PostProcessor::run(Tokens& tokens, std::string_view text, bool add_special_tokens,
                        TokenText token_text) const {
  for (const Step& step : steps_)
    if (step.trims && tokens.tracked) trim(step, tokens, text, token_text);
  for (const Step& step : steps_)
    if (!step.trims) fill(step, tokens, add_special_tokens);
}

}  // namespace trl::text
