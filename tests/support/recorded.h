// Where recorded numbers lie, and how near a number must be to a recorded one. TRL_GOLDEN names the folder
// with the whole collection; empty, there is none; unset, it is ../shared/golden beside the project. What it
// lacks is read from tests/golden. A test whose file is in neither is skipped, visibly.
#pragma once
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace trl::test {

inline std::string golden_path(const std::string& relative) {
  const char* named = std::getenv("TRL_GOLDEN");
  const std::string whole = named != nullptr ? named : TRL_SOURCE_DIR "/../shared/golden";
  for (const std::string& root : {whole, std::string(TRL_SOURCE_DIR "/tests/golden")}) {
    if (!root.empty() && std::filesystem::exists(root + "/" + relative)) return root + "/" + relative;
  }
  return {};
}

// The bytes of a recorded file; tests/golden holds some as gzip members under their name and ".gz".
inline std::string read_golden(const std::string& relative) {
  std::string path = golden_path(relative);
  if (path.empty()) path = golden_path(relative + ".gz");
  gzFile file = gzopen(path.c_str(), "rb");  // reads what is not compressed as it is
  EXPECT_NE(file, nullptr) << "no recorded file: " << relative;
  std::string bytes;
  if (file == nullptr) return bytes;
  char block[65536];
  int count = 0;
  while ((count = gzread(file, block, sizeof block)) > 0) bytes.append(block, static_cast<size_t>(count));
  EXPECT_EQ(count, 0) << path;
  gzclose(file);
  return bytes;
}

inline bool has_golden(const std::string& relative) {
  return !golden_path(relative).empty() || !golden_path(relative + ".gz").empty();
}

// |got - want| <= floor + relative |want|
struct Limit {
  double floor, relative;
};

// What is compared.
namespace limits {
inline constexpr Limit function{1e-6, 1e-5};  // losses, optimizers, sampling as functions of given numbers
inline constexpr Limit forward{2e-5, 1e-4};   // logits, log-probabilities, norms of hidden states
inline constexpr Limit gradient{1e-6, 2e-4};  // relative to the largest value of the tensor
inline constexpr Limit schedule{1e-9, 1e-6};  // learning_rate and epoch of a run
inline constexpr Limit metric{1e-6, 1e-4};    // loss, entropy, accuracy and grad_norm of a run
inline constexpr Limit difference{4e-5,
                                  1e-3};  // logps, logits, rewards, margins: differences of near numbers
inline constexpr double kChange = 1e-3;   // of final weights, as a share of what training changed

// One value of a run's record. wide: the run's relative_tolerance, above 1e-3 for bf16 autocast.
inline Limit record(const std::string& name, double wide) {
  if (name == "num_tokens" || name.ends_with("_num_tokens")) return {0, 0};
  if (name == "learning_rate" || name == "epoch") return schedule;
  const bool difference_of_numbers =
      name.find("logps") != std::string::npos || name.find("logits") != std::string::npos ||
      name.find("rewards/") != std::string::npos || name.find("sampling/") != std::string::npos ||
      name == "kl" || name.ends_with("_reward") || name.ends_with("margin");
  if (difference_of_numbers) return difference;
  if (wide <= 1e-3) return metric;
  return {1e-6, name.ends_with("grad_norm") ? wide : 1e-3};
}
}  // namespace limits

inline bool close(double got, double want, const Limit& limit) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= limit.floor + limit.relative * std::abs(want);
}

}  // namespace trl::test

// First line of a test that reads recorded numbers.
#define TRL_NEED_GOLDEN(relative) \
  if (!trl::test::has_golden(relative)) GTEST_SKIP() << "no recorded numbers: " << relative
