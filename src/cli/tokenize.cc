// trl tokenize: the tokens of a text, or the text of tokens.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/json_text.h"
#include "cli/open_runtime.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text, bool special) {
  return filled<std::vector<int32_t>>([&](int32_t* ids, size_t room, size_t* count, trl_error** error) {
    return trl_tokenizer_encode(tokenizer.get(), text.data(), text.size(), special ? 1 : 0, -1, ids, room,
                                count, error);
  });
}

std::string decode(const Tokenizer& tokenizer, const int32_t* ids, size_t count, bool special = true) {
  return filled<std::string>([&](char* text, size_t room, size_t* size, trl_error** error) {
    return trl_tokenizer_decode(tokenizer.get(), ids, count, special ? 0 : 1, text, room, size, error);
  });
}

std::string piece_of(const Tokenizer& tokenizer, int32_t id) {
  return filled<std::string>([&](char* piece, size_t room, size_t* size, trl_error** error) {
    return trl_tokenizer_get_piece(tokenizer.get(), id, piece, room, size, error);
  });
}

// Returns a token's addition to the text of the few before it.
std::string text_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, size_t at) {
  const size_t begin = at > 4 ? at - 4 : 0;
  const std::string before = decode(tokenizer, ids.data() + begin, at - begin);
  const std::string whole = decode(tokenizer, ids.data() + begin, at - begin + 1);
  return whole.compare(0, before.size(), before) == 0 ? whole.substr(before.size())
                                                      : decode(tokenizer, ids.data() + at, 1);
}

// Reads ids as --json writes them, a list, or numbers with spaces or commas between.
std::vector<int32_t> ids_of(const std::string& text) {
  const auto json = parse_text<nlohmann::json>(text);
  std::string plain = text;
  if (json.is_object() && json.contains("input_ids")) plain = json["input_ids"].dump();
  for (char& c : plain)
    if (std::string_view("[],\t\r\n").find(c) != std::string_view::npos) c = ' ';
  std::vector<int32_t> ids;
  for (size_t begin = 0; (begin = plain.find_first_not_of(' ', begin)) != std::string::npos;) {
    const size_t end = std::min(plain.find(' ', begin), plain.size());
    int32_t id = 0;
    const auto [stop, error] = std::from_chars(plain.data() + begin, plain.data() + end, id);
    if (error != std::errc() || stop != plain.data() + end)
      throw Failure(kUsage,
                    fmt::format("--decode: '{}' is not the id of a token; give numbers, such as 1 2 3",
                                plain.substr(begin, end - begin)));
    ids.push_back(id);
    begin = end;
  }
  if (ids.empty()) throw Failure(kUsage, "--decode: there are no ids; give numbers, such as 1 2 3");
  return ids;
}

// Returns the value of --text, or stdin without its last line end.
std::string input(const std::optional<std::string>& given) {
  if (given && *given != "-") return *given;
  std::string text = given || isatty(STDIN_FILENO) == 0 ? standard_input() : "";
  if (!text.empty()) return text;
  throw Failure(
      kUsage,
      "--text is required: the text to cut into tokens, or the ids to --decode; stdin may have it, too");
}

void print_tokens(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool json) {
  nlohmann::ordered_json all = {
      {"input_ids", ids}, {"pieces", nlohmann::json::array()}, {"texts", nlohmann::json::array()}};
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string piece = piece_of(tokenizer, ids[i]), text = text_of(tokenizer, ids, i);
    if (!json) {
      print_token({ids[i], std::nullopt, piece, text});
      continue;
    }
    all["pieces"].push_back(piece);
    all["texts"].push_back(text);
  }
  if (json) print(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void print_text(const std::string& text, bool json) {
  const nlohmann::json object = {{"text", text}};
  print((json ? object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) : text) + "\n");
}

}  // namespace

int tokenize(const Words& words) {
  Config config;
  std::optional<std::string> text;
  std::vector<std::string> ids;
  bool plain = false, json = false, decodes = false;
  const CommandLine line{
      "tokenize",
      "Print the tokens of a text, one a line: its id, its piece as in the vocabulary, and what it adds to "
      "the text, both as JSON. Or the other way round: --decode.",
      "",
      {"runtime"},
      {"model_name_or_path", "model_revision", "split_special_tokens"},
      {{"text", "The text; - or none: stdin, without the line end at its end", &text}},
      {{"plain", "Without what the tokenizer adds by itself (a begin token ...)", &plain},
       {"json", "Print one JSON object: input_ids, pieces and texts; of --decode: text", &json}},
      {{"decode", "Print the text of these ids; none: those of --text or stdin, also as --json wrote them",
        &ids, &decodes}},
      true,
      Opens::tokenizers};
  if (parse(line, words, config)) return 0;
  need_tokenizer(config);
  std::string given;
  for (const std::string& id : ids) given += id + " ";
  if (given.find_first_not_of(' ') == std::string::npos) given.clear();  // --decode without a value
  if (!given.empty() && text)
    throw Failure(kUsage, "give the ids either after --decode or as --text, not both");
  if (given.empty()) given = input(text);
  const std::vector<int32_t> wanted = decodes ? ids_of(given) : std::vector<int32_t>();
  const Interrupt interrupt("stopped");
  Runtime runtime;
  open_runtime(config, runtime);
  Tokenizer tokenizer;
  open_tokenizer(config, runtime, tokenizer);
  if (decodes)
    print_text(decode(tokenizer, wanted.data(), wanted.size(), !plain), json);
  else
    print_tokens(tokenizer, encode(tokenizer, given, !plain), json);
  return 0;
}

}  // namespace trl::cli
