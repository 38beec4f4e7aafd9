// The adaptive coefficient of the entropy bonus against TRL's, micro-batch by micro-batch.
#include "loss/policy/entropy_control.h"

#include <numeric>

#include "loss/policy/policy.h"
#include "loss/recorded_tokens.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace trl::loss {
namespace {

using base::Json;

EntropyOptions entropy_options(const Json& config) {
  return {config["entropy_coef"], config["entropy_coef_min"], config["entropy_coef_max"],
          config["entropy_coef_delta"], config["entropy_target"]};
}

void expect_state(const Json& got, const Json& want) {
  EXPECT_TRUE(test::close(got["entropy_coef"], want["entropy_coef"], test::limits::function)) << got << want;
  EXPECT_TRUE(test::close(test::recorded_number(got["last_world_entropy"]),
                          test::recorded_number(want["last_world_entropy"]), test::limits::function))
      << got << want;
}

// The bonus alone: no token has an advantage.
void expect_bonus(const Json& micro_batch, double coef, double accumulated,
                  const test::RecordedTokens& tokens) {
  const std::vector<float> advantages(tokens.row_count, 0);
  PolicyOptions o;
  o.loss = PolicyLoss::bnpo;
  o.entropy_coef = coef;
  const Policy policy(o, {.advantages = advantages, .rows = tokens.rows}, {.accumulated = accumulated});
  for (size_t t = 0; t < tokens.at.size(); ++t) {
    const auto [row, token] = tokens.at[t];
    EXPECT_TRUE(test::close(policy.term(t, -1, 1).by_entropy, micro_batch["grad_entropies"][row][token],
                            test::limits::function));
  }
}

TEST(EntropyControl, IsTrls) {
  TRL_NEED_GOLDEN("losses/entropy_controller.json");
  int updates = 0;
  for (const Json& c : test::golden_json("losses/entropy_controller.json")["cases"]) {
    SCOPED_TRACE(c["config"].dump());
    EntropyControl control(entropy_options(c["config"]));
    for (const Json& micro_batch : c["micro_batches"]) {
      const test::RecordedTokens tokens(micro_batch["completion_mask"]);
      const std::vector<double> entropies = tokens.of<double>(micro_batch["entropies"]);
      EXPECT_TRUE(test::close(control.applied(), micro_batch["applied_coef"], test::limits::function));
      expect_bonus(micro_batch, control.applied(), c["config"]["gradient_accumulation_steps"], tokens);
      control.add(std::accumulate(entropies.begin(), entropies.end(), 0.0),
                  static_cast<double>(entropies.size()));
      if (micro_batch["ends_update"]) {
        control.end_step();
        ++updates;
        EntropyControl resumed(entropy_options(c["config"]));
        resumed.restore(control.state(), "a test");
        EXPECT_EQ(resumed.applied(), control.applied());
        control = resumed;
      }
      expect_state(control.state(), micro_batch);
    }
  }
  EXPECT_GT(updates, 20);
}

TEST(EntropyControl, RefusesAnotherState) {
  EntropyControl control({});
  const auto refuses = [&](const char* text, const char* part) {
    const std::string message =
        test::error_of([&] {
          control.restore(base::parse_json(text, "a test"), "entropy_ctrl_state.json");
        }).second;
    EXPECT_NE(message.find("entropy_ctrl_state.json"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refuses("[]", "entropy_coef");
  refuses(R"({"last_world_entropy": null})", "entropy_coef");
  refuses(R"({"entropy_coef": "0.1", "last_world_entropy": null})", "entropy_coef");
  refuses(R"({"entropy_coef": 0.1})", "last_world_entropy");
  refuses(R"({"entropy_coef": 0.1, "last_world_entropy": "low"})", "last_world_entropy");
}

TEST(EntropyControl, StepWithoutTokensChangesNothing) {
  EntropyControl control({.coef = 0.5, .target = 2});
  control.add(3, 2);
  control.end_step();
  const Json state = control.state();
  control.end_step();
  EXPECT_EQ(control.state(), state);
}

}  // namespace
}  // namespace trl::loss
