#include "train/token_ids.h"

#include <trl.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace trl::bench {

std::vector<int32_t> token_ids(const std::string& model, const std::string& text_file, int64_t count) {
  constexpr size_t kBytesPerToken = 16;
  std::ifstream in(text_file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  const size_t most = kBytesPerToken * static_cast<size_t>(count);
  if (text.size() > most) text.resize(text.rfind('\n', most) + 1);
  trl_tokenizer* tokenizer = nullptr;
  trl_error* error = nullptr;
  std::vector<int32_t> ids(text.size() + 16);
  size_t found = 0;
  if (trl_tokenizer_open(nullptr, model.c_str(), nullptr, &tokenizer, &error) < 0 ||
      trl_tokenizer_encode(tokenizer, text.data(), text.size(), 0, 0, ids.data(), ids.size(), &found,
                           &error) < 0) {
    const std::string message = trl_error_message(error);
    trl_error_destroy(error);
    throw std::runtime_error(message);
  }
  trl_tokenizer_destroy(tokenizer);
  if (static_cast<int64_t>(found) < count)
    throw std::runtime_error(text_file + ": " + std::to_string(found) + " tokens, " + std::to_string(count) +
                             " are needed");
  ids.resize(static_cast<size_t>(count));
  return ids;
}

}  // namespace trl::bench
