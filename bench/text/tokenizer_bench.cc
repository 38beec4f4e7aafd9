// usage: tokenizer_bench MODEL_DIR TEXT_FILE [--benchmark_* flags]
// Bytes a second of encoding and decoding on one thread, line by line.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "text/tokenizer/tokenizer.h"

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 3) {
    std::fputs("usage: tokenizer_bench MODEL_DIR TEXT_FILE\n", stderr);
    return 2;
  }
  const auto tokenizer = trl::text::Tokenizer::from_directory(argv[1]);
  const std::vector<std::string> lines = lines_of(trl::base::read_file(argv[2]));
  std::vector<std::vector<int32_t>> ids;
  int64_t bytes = 0;
  for (const std::string& line : lines) {
    ids.push_back(tokenizer->encode(line, true));
    bytes += static_cast<int64_t>(line.size());
  }
  benchmark::RegisterBenchmark("encode", [&](benchmark::State& state) {
    for (auto _ : state)
      for (const std::string& line : lines) benchmark::DoNotOptimize(tokenizer->encode(line, true));
    state.SetBytesProcessed(state.iterations() * bytes);
  });
  benchmark::RegisterBenchmark("decode", [&](benchmark::State& state) {
    for (auto _ : state)
      for (const auto& row : ids) benchmark::DoNotOptimize(tokenizer->decode(row, true));
    state.SetBytesProcessed(state.iterations() * bytes);
  });
  benchmark::RunSpecifiedBenchmarks();
}
