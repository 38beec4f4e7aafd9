// SFT of small models of families, beside TRL's runs on the same weights and rows: every logged value, and
// the weights at the end.
#include "support/weights.h"
#include "train/family_model.h"
#include "train/recorded_run.h"

namespace trl::train::family_runs_test {
namespace {

void expect_weights(const base::Json& golden, model::Model& model, const std::string& path) {
  const auto first = model::Model::open(path, "float32");
  const auto begin = first->parameters(), end = model.parameters();
  for (size_t i = 0; i < end.size(); ++i) {
    const std::string& name = end[i]->name;
    ASSERT_EQ(begin[i]->name, name);
    ASSERT_TRUE(golden["final_weights"].contains(name)) << name;
    const base::Json& want = golden["final_weights"][name];
    ASSERT_EQ(base::Json(end[i]->shape().vec()), want["shape"]) << name;
    const double share = test::share_of_change(name, golden["relative_tolerance"]);
    const at::Tensor value = *end[i]->read(), start = *begin[i]->read();
    test::expect_fingerprint(test::values_of(value), test::values_of(start), want, share, name);
    test::expect_first_values(test::values_of(value), test::values_of(start), want, share, name);
  }
  EXPECT_EQ(end.size() + (model.config().tie_word_embeddings ? 1 : 0), golden["final_weights"].size());
}

TEST(FamilyRuns, EqualTrl) {
  TRL_NEED_TINY_RUN();
  for (const base::Json& golden : test::golden_json("trajectories/families.json")["runs"]) {
    const std::string name = golden["name"];
    const test::FamilyModel model(name);
    for (const char* fused_kernels : {"on", "off"}) {
      SCOPED_TRACE(fmt::format("{}, fused_kernels: {}", name, fused_kernels));
      const test::Scratch scratch;
      config::Config config = test::config_of(golden);
      config.set("fused_kernels", fused_kernels);
      config.set("output_dir", scratch / "out");
      test::SftRun run(config, model.path(), test::golden_path("data/datasets/train_lm.jsonl"),
                       test::Rows{0, 63});
      Trainer& trainer = run.start();
      while (trainer.step()) {
      }
      trainer.finish();
      const base::Json state = base::read_json_file(scratch / "out/trainer_state.json");
      test::expect_records(golden, state["log_history"]);
      expect_weights(golden, run.model(), model.path());
    }
  }
}

}  // namespace
}  // namespace trl::train::family_runs_test
