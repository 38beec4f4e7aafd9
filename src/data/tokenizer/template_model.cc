#include "data/tokenizer/template_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"
#include "data/tokenizer/open_tokenizer.h"

namespace trl::data {

namespace {

constexpr const char* kKey = "chat_template_path";
constexpr int64_t kRowsMultiple = 64;

std::string template_of(const text::Tokenizer& source, const std::string& path) {
  const auto& templates = source.chat_templates();
  const auto found = templates.find("default");
  if (found != templates.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, text] : templates) names.push_back(name);
  fail_key(kKey, "{}: {}: {}", kKey, path,
           names.empty() ? "its tokenizer has no chat template that could be taken over"
                         : fmt::format("its tokenizer has several chat templates ({}) and none is called "
                                       "default",
                                       fmt::join(names, ", ")));
}

}  // namespace

bool names_template_model(const config::DataArguments& arguments) {
  const auto& path = arguments.chat_template_path;
  return path && !path->ends_with(".jinja") && !path->ends_with(".j2");
}

std::unique_ptr<text::Tokenizer> with_template_of(const std::string& model_path,
                                                  const text::Tokenizer& tokenizer) {
  if (!base::is_directory(model_path) && !base::file_exists(model_path)) {
    throw Error(
        Status::not_found,
        fmt::format("{}: {} is not there; give a .jinja or .j2 file, a model directory or a GGUF file", kKey,
                    model_path),
        kKey);
  }
  const auto source = open_tokenizer(model_path);
  if (!source->special().eos)
    fail_key(kKey, "{}: {}: its tokenizer has no EOS token that could be taken over", kKey, model_path);
  std::vector<text::AddedToken> added;
  for (const auto& [id, token] : source->added_tokens()) {
    if (!tokenizer.token_to_id(token.content)) added.push_back(token);
  }
  const int64_t used = tokenizer.vocab_size() + static_cast<int64_t>(added.size());
  const int64_t rows = (used + kRowsMultiple - 1) / kRowsMultiple * kRowsMultiple;
  for (int64_t next = 0, left = rows - used; left > 0; ++next) {
    text::AddedToken filler;
    filler.content = fmt::format("<extra_id_{}>", next);
    const bool taken = std::any_of(added.begin(), added.end(),
                                   [&](const auto& token) { return token.content == filler.content; });
    if (taken || tokenizer.token_to_id(filler.content)) continue;
    added.push_back(std::move(filler));
    --left;
  }
  text::Tokenizer::Overrides overrides;
  overrides.chat_template = template_of(*source, model_path);
  overrides.eos = source->special().eos;
  return tokenizer.with_added(added)->with(overrides);
}

}  // namespace trl::data
