// The state of a run as other threads read it.
#include "telemetry/published_state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include "base/json/json.h"

namespace trl::telemetry {
namespace {

using base::Json;

Record record_of(int64_t step, double loss) {
  Record record;
  record.set("loss", loss);
  record.set_integer("step", step);
  return record;
}

// The state after a step, with a record.
Record advance(TrainerState& state) {
  ++state.global_step;
  const Record record = record_of(state.global_step, 1.0 / static_cast<double>(state.global_step));
  state.log_history.push_back(record);
  state.epoch = static_cast<double>(state.global_step) / 4;
  return record;
}

Json described(const PublishedState& published) { return base::parse_json(published.describe(), "state"); }

TEST(PublishedState, IsTrainerStateWithTheMetricsOfTheLastStep) {
  PublishedState published;
  TrainerState state;
  EXPECT_EQ(described(published)["metrics"], Json::object());
  state.best_model_checkpoint = "out/checkpoint-1";
  Record step = advance(state);
  step.set("grad_norm", std::numeric_limits<double>::quiet_NaN());
  step.set_none("none");
  published.publish(state, step);
  Json want = base::parse_python_json(trainer_state_json(state), "state");
  want["metrics"] = {{"loss", 1.0}, {"step", 1}, {"grad_norm", nullptr}, {"none", nullptr}};
  EXPECT_EQ(published.describe(), want.dump());
  EXPECT_EQ(published.global_step(), 1);
  ++state.global_step;  // not published
  EXPECT_EQ(published.global_step(), 1);
}

// As when a run is resumed after its end.
TEST(PublishedState, FollowsRecordsThatAreTakenBack) {
  PublishedState published;
  TrainerState state;
  for (int i = 0; i < 4; ++i) advance(state);
  published.publish(state, {});
  state.log_history.pop_back();
  state.log_history.push_back(record_of(4, 9.0));
  state.log_history.push_back(record_of(5, 8.0));
  published.publish(state, {});
  const Json history = described(published)["log_history"];
  EXPECT_EQ(history, base::parse_json(trainer_state_json(state), "state")["log_history"]);
  EXPECT_EQ(history.at(3).at("loss"), 9.0);
  state.log_history.clear();
  published.publish(state, {});
  EXPECT_TRUE(described(published)["log_history"].empty());
}

TEST(PublishedState, IsReadWhileItIsPublished) {
  PublishedState published;
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      size_t last = 0;
      do {
        const Json json = described(published);
        const size_t step = json["global_step"].get<size_t>();
        EXPECT_GE(step, last);
        EXPECT_EQ(json["log_history"].size(), step);
        if (step > 0) {
          EXPECT_EQ(json["metrics"]["step"], step);
        }
        last = step;
      } while (!done);
    });
  }
  TrainerState state;
  for (int i = 0; i < 300; ++i) published.publish(state, advance(state));
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(published.global_step(), 300);
}

TEST(Record, CopiesDoNotChangeWithIt) {
  Record record = record_of(1, 0.5);
  const Record copy = record;
  EXPECT_TRUE(copy.shares_entries(record));
  record.set("loss", 2.0);
  EXPECT_FALSE(copy.shares_entries(record));
  EXPECT_EQ(copy.entries().at(0).value, 0.5);
  EXPECT_EQ(record.entries().at(0).value, 2.0);
  EXPECT_EQ(record.entries().at(1).name, "step");
}

}  // namespace
}  // namespace trl::telemetry
