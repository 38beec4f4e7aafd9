// The values of a run in a checkpoint.
#include "train/run/run_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trl::train {
namespace {

using base::Json;

RunState filled() {
  RunState s;
  s.epoch = 3, s.micro_batches_done = 5, s.evaluations = 7;
  s.evaluations_before_epochs = {0, 2, 4};
  s.micro_batches_per_epoch = 11, s.gradient_accumulation_steps = 2, s.updates_in_epoch = 4;
  s.in_epoch = s.epoch_complete = s.samples_due = s.log_due = s.evaluation_due = s.save_due =
      s.training_mode = true;
  s.loss_since_log = 0.1F;
  s.loss_logged = 0.1;
  s.last_logged_step = 9;
  s.means.set_sums({{"entropy", 1.0 / 3, 6}, {"aux_loss", -std::numeric_limits<double>::infinity(), 1}});
  s.grad_norm = std::numeric_limits<double>::infinity();
  s.learning_rate = 1e-300;
  s.num_tokens = int64_t{1} << 40;
  s.tokens_logged = int64_t{1} << 39;
  s.skipped = 3, s.skipped_since_log = 1, s.omitted_since_log = 4, s.shared_since_log = 8,
  s.rows_since_log = 6, s.silent_since_log = 2, s.silent_seconds = 1.5;
  s.seconds_before = 12.5;
  s.speeds = {{4, 100.25}, {8, 99.5}};
  return s;
}

TEST(RunState, IsReadBackBitByBit) {
  const Json written = to_json(filled());
  const RunState read = run_state_of(Json::parse(written.dump()));
  EXPECT_EQ(to_json(read).dump(), written.dump());
  EXPECT_EQ(read.loss_since_log, 0.1F);
  EXPECT_EQ(read.learning_rate, 1e-300);
  EXPECT_TRUE(std::isinf(read.grad_norm));
  EXPECT_EQ(read.means.sums().at(0).total, 1.0 / 3);
  EXPECT_EQ(read.speeds.at(1).tokens_per_second, 99.5);
  EXPECT_TRUE(read.in_epoch && read.epoch_complete && read.samples_due && read.log_due &&
              read.evaluation_due && read.save_due);
}

// Each value of the list is written and read: none of the two documents equals that of an empty state.
TEST(RunState, HasEveryValue) {
  const Json some = to_json(filled()), none = to_json(RunState());
  int values = 0;
  for (const auto& [group, fields] : some.items()) {
    for (const auto& [name, value] : fields.items()) {
      EXPECT_NE(value, none.at(group).at(name)) << name;
      ++values;
    }
  }
  EXPECT_EQ(values, 31);
}

TEST(RunState, OfEarlierCheckpoints) {
  Json json = to_json(filled());
  for (const char* name : {"evaluations", "evaluations_before_epochs"}) json["position"].erase(name);
  json["due"].erase("samples");
  for (const char* name :
       {"shared_since_log", "rows_since_log", "silent_since_log", "silent_seconds", "speeds"})
    json["sums"].erase(name);
  const RunState read = run_state_of(json);
  EXPECT_EQ(read.evaluations, 0);
  EXPECT_FALSE(read.samples_due);
  EXPECT_EQ(read.shared_since_log, 0);
  EXPECT_TRUE(read.speeds.empty());
  json["sums"].erase("num_tokens");
  EXPECT_THROW(run_state_of(json), Json::exception);
}

}  // namespace
}  // namespace trl::train
