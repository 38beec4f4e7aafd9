#include "data/tokenizer/gguf_vocabulary.h"

#include "base/error.h"
#include "text/tokenizer/export_vocabulary.h"
#include "text/tokenizer/plain_vocabulary.h"

namespace trl::data {

namespace {

void pad(text::PlainVocabulary& v, int64_t rows, const std::string& origin) {
  if (std::ssize(v.tokens) > rows) {
    fail(Status::format,
         "{}: the tokenizer has {} tokens, the embedding has {} rows; GGUF needs a row for each token",
         origin, v.tokens.size(), rows);
  }
  for (int64_t id = std::ssize(v.tokens); id < rows; ++id) {
    v.tokens.push_back(fmt::format("[PAD{}]", id));
    v.token_types.push_back(text::kUnused);
    if (!v.scores.empty()) v.scores.push_back(0);
  }
}

void add_chat_templates(io::GgufPairs& pairs, const std::map<std::string, std::string>& templates) {
  std::vector<std::string> names;
  for (const auto& [name, source] : templates) {
    if (name == "default") {
      pairs.add("tokenizer.chat_template", source);
    } else {
      names.push_back(name);
      pairs.add("tokenizer.chat_template." + name, source);
    }
  }
  if (!names.empty()) pairs.add("tokenizer.chat_templates", names);
}

}  // namespace

io::GgufPairs gguf_vocabulary(const text::Tokenizer& tokenizer, int64_t rows, const std::string& origin,
                              base::LogSink* log) {
  text::PlainVocabulary v = text::export_vocabulary(tokenizer, origin, log);
  pad(v, rows, origin);
  io::GgufPairs pairs;
  pairs.add("tokenizer.ggml.model", v.model);
  pairs.add("tokenizer.ggml.pre", v.model == "gpt2" ? v.pre : "default");
  pairs.add("tokenizer.ggml.tokens", v.tokens);
  if (!v.scores.empty()) pairs.add("tokenizer.ggml.scores", v.scores);
  pairs.add("tokenizer.ggml.token_type", v.token_types);
  if (v.model == "gpt2" || !v.merges.empty()) pairs.add("tokenizer.ggml.merges", v.merges);
  const auto add_id = [&](const char* key, int32_t id) {
    if (id >= 0) pairs.add(key, static_cast<uint32_t>(id));
  };
  add_id("tokenizer.ggml.bos_token_id", v.bos);
  add_id("tokenizer.ggml.eos_token_id", v.eos);
  add_id("tokenizer.ggml.unknown_token_id", v.unk);
  add_id("tokenizer.ggml.padding_token_id", v.pad);
  pairs.add("tokenizer.ggml.add_bos_token", v.add_bos.value_or(false));
  pairs.add("tokenizer.ggml.add_eos_token", v.add_eos);
  if (v.model == "llama") pairs.add("tokenizer.ggml.add_space_prefix", v.add_space_prefix);
  add_chat_templates(pairs, v.chat_templates);
  return pairs;
}

}  // namespace trl::data
