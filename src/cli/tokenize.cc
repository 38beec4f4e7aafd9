// trl tokenize: the tokens of a text.
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_runtime.h"
#include "cli/signals.h"
#include "cli/token_lines.h"

namespace trl::cli {

namespace {

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text, bool special) {
  Error error;
  size_t count = 0;
  std::vector<int32_t> ids;
  for (int i = 0; i < 2; ++i) {  // the first call tells how many there are
    ids.resize(count);
    check(trl_tokenizer_encode(tokenizer.get(), text.data(), text.size(), special ? 1 : 0, ids.data(),
                               ids.size(), &count, error.out()),
          error);
  }
  return ids;
}

std::string decode(const Tokenizer& tokenizer, const int32_t* ids, size_t count) {
  Error error;
  size_t size = 0;
  std::string text;
  for (int i = 0; i < 2; ++i) {
    text.resize(size);
    check(trl_tokenizer_decode(tokenizer.get(), ids, count, 0, text.data(), text.size(), &size, error.out()),
          error);
  }
  return text;
}

std::string piece_of(const Tokenizer& tokenizer, int32_t id) {
  Error error;
  size_t size = 0;
  std::string piece;
  for (int i = 0; i < 2; ++i) {
    piece.resize(size);
    check(trl_tokenizer_get_piece(tokenizer.get(), id, piece.data(), piece.size(), &size, error.out()),
          error);
  }
  return piece;
}

// What a token adds to the text of the few before it.
std::string text_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, size_t at) {
  const size_t begin = at > 4 ? at - 4 : 0;
  const std::string before = decode(tokenizer, ids.data() + begin, at - begin);
  const std::string whole = decode(tokenizer, ids.data() + begin, at - begin + 1);
  return whole.compare(0, before.size(), before) == 0 ? whole.substr(before.size())
                                                      : decode(tokenizer, ids.data() + at, 1);
}

}  // namespace

int tokenize(const Words& words) {
  Config config;
  Error error;
  check(trl_config_create(config.out(), error.out()), error);
  std::optional<std::string> text;
  bool plain = false;
  const CommandLine line{
      "tokenize",
      "Print the tokens of a text, one a line: its id, its piece as in the vocabulary, and what it adds "
      "to the "
      "text, both as JSON.",
      "",
      {"runtime"},
      {"model_name_or_path"},
      {{"text", "The text", &text}},
      {{"plain", "Without what the tokenizer adds by itself (a begin token ...)", &plain}},
      {},
      true,
      Opens::tokenizers};
  if (parse(line, words, config)) return 0;
  need_tokenizer(config);
  if (!text) throw Failure(kUsage, "--text is required: the text to cut into tokens");
  const Interrupt interrupt("stopped");
  Runtime runtime;
  open_runtime(config, runtime);
  Tokenizer tokenizer;
  open_tokenizer(config, runtime, tokenizer);
  const std::vector<int32_t> ids = encode(tokenizer, *text, !plain);
  for (size_t i = 0; i < ids.size(); ++i)
    print_token({ids[i], std::nullopt, piece_of(tokenizer, ids[i]), text_of(tokenizer, ids, i)});
  return 0;
}

}  // namespace trl::cli
