// Any bytes as a solution and as a completion: a reward of 0 or 1, or none.
#include <cmath>

#include "in_memory_file.h"
#include "reward/built_in.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trl;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string shortened(text.substr(0, size / 2));
  const auto score = [&](std::string_view completion) {
    const base::Json columns = {{"solution", std::string(text)}};
    const reward::Completion one{.text = completion, .columns = &columns};
    const double got = reward::accuracy_reward()->score({{&one, 1}}).at(0);
    fuzz::require(got == 0 || got == 1 || std::isnan(got));
  };
  score(text);
  score(shortened);
  return 0;
}
