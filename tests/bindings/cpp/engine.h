// Runs of the tests of the classes of C++ with the engine.
#pragma once
#include "bindings/cpp/common.h"
#include "support/scratch.h"

namespace cpp_test {

inline const std::string kLines = R"({"text": "the kernel waits"}
{"text": "the driver wakes"}
{"text": "a page is read"}
{"text": "a lock is taken"}
)";
inline const std::string kSums = R"({"prompt": "1 + 1 =", "target": 2}
{"prompt": "2 + 1 =", "target": 3}
{"prompt": "3 + 1 =", "target": 4}
{"prompt": "4 + 1 =", "target": 5}
)";

class Run : public testing::Test {
 protected:
  trl::Config config(trl::Settings more = {}) const {
    trl::Config config{{"model_name_or_path", kModel},
                       {"output_dir", scratch_ / "out"},
                       {"max_steps", 4},
                       {"per_device_train_batch_size", 2},
                       {"save_strategy", "no"},
                       {"logging_strategy", "no"},
                       {"report_to", "none"},
                       {"bf16", false}};
    for (const auto& [key, value] : more) config.set(key, value);
    return config;
  }
  trl::Trainer trainer(trl::Settings more = {}, const trl::Runtime* runtime = nullptr) const {
    return trl::Trainer(config(more), rows_, nullptr, runtime);
  }
  trl::Trainer online(trl::Settings more = {}, const std::string& rows = kSums) const {
    trl::Config all =
        config({{"method", "grpo"}, {"num_generations", 2}, {"max_completion_length", 5}, {"max_steps", 2}});
    for (const auto& [key, value] : more) all.set(key, value);
    return trl::Trainer(all, trl::Dataset::from_buffer("jsonl", rows));
  }

  trl::test::Scratch scratch_;
  const trl::Dataset rows_ = trl::Dataset::from_buffer("jsonl", kLines);
};

}  // namespace cpp_test
