#include "train/preference_rows.h"

#include <fstream>

#include "support/runs.h"

namespace trl::bench {

namespace {

class Writer {
 public:
  Writer(const std::string& path, std::string method) : out_(path), method_(std::move(method)) {}
  void add(const std::string& prompt, const std::string& chosen, const std::string& rejected) {
    if (method_ != "kto") {
      put({{"prompt", prompt}, {"chosen", chosen}, {"rejected", rejected}});
      return;
    }
    put({{"prompt", prompt}, {"completion", chosen}, {"label", true}});
    put({{"prompt", prompt}, {"completion", rejected}, {"label", false}});
  }
  int64_t rows() const { return rows_; }

 private:
  void put(const Json& row) {
    out_ << row.dump() << "\n";
    ++rows_;
  }
  std::ofstream out_;
  const std::string method_;
  int64_t rows_ = 0;
};

Json parsed(const std::string& from, const std::string& line) {
  Json row = Json::parse(line, nullptr, false);
  if (!row.is_object()) throw std::runtime_error(from + ": JSON lines are expected");
  return row;
}

// Each right solution of a question with each wrong one.
void add_solutions(const Json& row, Writer& out) {
  const std::string prompt = "Question: " + row.value("question", std::string()) + "\nAnswer:";
  for (const auto& [right_name, right] : row.items()) {
    if (!right.is_object() || !right.value("is_correct", false)) continue;
    for (const auto& [wrong_name, wrong] : row.items()) {
      if (!wrong.is_object() || wrong.value("is_correct", true)) continue;
      out.add(prompt, " " + right.at("solution").get<std::string>(),
              " " + wrong.at("solution").get<std::string>());
    }
  }
}

// The first so many words and numbers of a text, which are about as many tokens, taken from it.
std::string take_words(std::string& text, int64_t words) {
  size_t at = 0;
  for (int64_t word = 0; word < words && at != std::string::npos; ++word) at = text.find(' ', at + 1);
  const std::string taken = text.substr(0, at);
  text.erase(0, taken.size());
  return taken;
}

}  // namespace

void write_pairs(const std::string& from, const std::string& to, const std::string& method, PairShape shape) {
  constexpr double kTokensPerWord = 1.55;  // of GSM8K by SmolLM2's tokenizer
  std::ifstream in(from);
  Writer out(to, method);
  std::string text;
  const auto words = [](int64_t tokens) {
    return static_cast<int64_t>(static_cast<double>(tokens) / kTokensPerWord);
  };
  const size_t enough = 16 * static_cast<size_t>(shape.prompt + 2 * shape.completion);
  for (std::string line; std::getline(in, line);) {
    const Json row = parsed(from, line);
    if (shape.prompt == 0) {
      add_solutions(row, out);
      continue;
    }
    for (const auto& [key, value] : row.items())
      if (value.is_string()) text += value.get<std::string>() + " ";
    if (text.size() < enough) continue;
    const std::string prompt = take_words(text, words(shape.prompt));
    const std::string chosen = take_words(text, words(shape.completion));
    out.add(prompt, chosen, take_words(text, words(shape.completion)));
    text.clear();
  }
  if (out.rows() == 0)
    throw std::runtime_error(from + ": no pairs of a right and a wrong solution, or too little text");
}

}  // namespace trl::bench
