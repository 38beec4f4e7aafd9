// replay CORPUS [MUTATIONS]: every file of the folder, and so many mutations of each that are the same each
// time.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void run(const std::string& bytes) {
  // A copy of its own, so that reading past the end is seen.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string mutate(std::string bytes) {
    for (size_t steps = 1 + below(4); steps > 0; --steps) step(bytes);
    return bytes;
  }

 private:
  size_t below(size_t bound) { return bound == 0 ? 0 : static_cast<size_t>(random_() % bound); }

  void step(std::string& bytes) {
    static const std::vector<std::string> kPieces = {"\"",
                                                     "\\",
                                                     "\n",
                                                     "\r\n",
                                                     "\r",
                                                     ",",
                                                     "[",
                                                     "]",
                                                     "{",
                                                     "}",
                                                     ":",
                                                     "null",
                                                     "\\u",
                                                     "\\ud800",
                                                     "1e999",
                                                     "-0",
                                                     std::string(1, '\0'),
                                                     "\xEF\xBB\xBF",
                                                     "\xFF",
                                                     "\xED\xA0\x80",
                                                     "\xF0\x9F\x98\x80",
                                                     "\t",
                                                     std::string(300, '[')};
    const size_t at = below(bytes.size() + 1);
    switch (below(6)) {
      case 0:
        bytes.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 1:
        bytes.erase(at, 1 + below(8));
        break;
      case 2:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.insert(at, bytes.substr(below(bytes.size() + 1), below(64)));
        break;
      default: {
        const std::string& other = corpus_[below(corpus_.size())];
        bytes = bytes.substr(0, at) + other.substr(below(other.size() + 1));
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_{1};
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 && count != 3) return 2;
  const int mutations = count == 3 ? std::atoi(arguments[2]) : 400;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) return 2;
  for (const std::string& bytes : corpus) run(bytes);
  Mutator mutator(corpus);
  size_t runs = corpus.size();
  for (const std::string& bytes : corpus) {
    for (int i = 0; i < mutations; ++i, ++runs) run(mutator.mutate(bytes));
  }
  std::printf("%zu inputs\n", runs);
  return 0;
}
