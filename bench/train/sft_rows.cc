#include "train/sft_rows.h"

#include <fstream>

#include "support/runs.h"

namespace trl::bench {

void write_long_rows(const std::string& from, const std::string& to, int64_t tokens) {
  constexpr size_t kBytesPerToken = 8;  // more than any tokenizer makes of plain text
  std::ifstream in(from);
  std::ofstream out(to);
  std::string text;
  int64_t rows = 0;
  for (std::string line; std::getline(in, line);) {
    const Json row = Json::parse(line, nullptr, false);
    if (!row.is_object()) throw std::runtime_error(from + ": JSON lines are expected");
    for (const auto& [key, value] : row.items())
      if (value.is_string()) text += value.get<std::string>() + "\n";
    if (text.size() < kBytesPerToken * static_cast<size_t>(tokens)) continue;
    out << Json({{"text", text}}).dump() << "\n";
    text.clear();
    ++rows;
  }
  if (rows == 0) throw std::runtime_error(from + ": too little text for one row of that many tokens");
}

}  // namespace trl::bench
