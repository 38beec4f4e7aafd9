// Recorded generation: ids and log-probabilities, one by one, together, and beside others that come and go.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "generate/completions.h"
#include "support/generate.h"
#include "support/golden.h"

namespace trl::generate {
namespace {

using base::Json;
using test::Completion;
using test::Completions;

void expect_near(const std::vector<float>& got, const Json& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double value = want[i];
    EXPECT_NEAR(got[i], value, 2e-5 + 1e-4 * std::abs(value)) << i;
  }
}

// ids and values: [tokens, k], the most likely ones first. Those that are as good as equal may change places.
void expect_best(const std::vector<std::vector<engine::Ranked>>& got, const Json& ids, const Json& values) {
  ASSERT_EQ(got.size(), ids.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const std::vector<int32_t> want = ids[i];
    const std::vector<double> recorded = values[i];
    ASSERT_EQ(got[i].size(), want.size());
    std::vector<float> own;
    for (size_t k = 0; k < want.size(); ++k) {
      own.push_back(got[i][k].log_probability);
      const auto place = static_cast<size_t>(std::ranges::find(want, got[i][k].id) - want.begin());
      EXPECT_NEAR(recorded[std::min(place, want.size() - 1)], recorded[k], 1e-5) << i << " " << k;
    }
    expect_near(own, values[i]);
  }
}

Request request_of(const Json& row, const Json& recorded, const engine::Sampling& sampling) {
  Request request{.ids = row["prompt_ids"], .sampling = sampling};
  request.sampling.max_new_tokens = recorded["max_new_tokens"];
  request.sampling.stop_ids = recorded["eos_token_ids"].get<std::vector<int32_t>>();
  request.sampling.log_probabilities = true;
  request.sampling.best = 5;
  return request;
}

// Models of which the folder has a case.
std::vector<std::string> recorded_models(const std::string& folder) {
  std::vector<std::string> names;
  for (const char* const name : {"gemma2", "gemma3", "gpt2", "llama", "llama3", "llama_sharded", "mistral",
                                 "phi3", "qwen2", "qwen2_bf16", "qwen2_teacher", "qwen3", "qwen3_moe"}) {
    const std::string model = std::string("models/") + name + "/config.json";
    if (test::has_golden(folder + "/" + name + "/case.json") && test::has_golden(model))
      names.emplace_back(name);
  }
  return names;
}

void expect_recorded(const Completion& got, const Json& row) {
  EXPECT_EQ(Json(got.ids), row["new_ids"]);
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.finish(), row["finish_reason"]);
  if (Json(got.ids) != row["new_ids"]) return;
  expect_near(got.whole, row["logprobs"]);
  EXPECT_EQ(got.drawn, got.whole);  // greedy, without penalties
  expect_best(got.whole_best, row["top_ids"], row["top_logprobs"]);
  expect_best(got.best, row["top_ids"], row["top_logprobs"]);
}

std::map<int64_t, Completion> completed(const model::Model& model, std::vector<Request> requests) {
  Completions got;
  Generator generator(model, at::kFloat, limits_for(model, at::kFloat, int64_t{64} << 20));
  for (Request& request : requests) generator.add(std::move(request));
  test::run(generator, got);
  EXPECT_EQ(generator.scheduler().pool().used(), 0);
  return got.all;
}

// Adds requests in random order, first each of them and then any, and ends some of the latter in the middle.
template <class Expect>
void expect_beside_others(const model::Model& model, const std::vector<Request>& requests,
                          const Expect& expect) {
  std::mt19937 random(7);
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  Generator generator(model, at::kFloat, limits_for(model, at::kFloat, int64_t{64} << 20));
  Completions got;
  std::map<int64_t, size_t> which;
  int cancelled = 0;
  for (int step = 0; step < 60 || !generator.idle(); ++step) {
    if (step < 60 && random() % 2 == 0) {
      const size_t added = which.size() + static_cast<size_t>(cancelled);
      const size_t request = added < order.size() ? order[added] : random() % requests.size();
      which[generator.add(requests[request])] = request;
    }
    generator.step(got);
    if (random() % 4 != 0 || which.empty()) continue;
    auto any = which.begin();
    std::advance(any, random() % which.size());
    if (any->first < std::ssize(requests) || got.all[any->first].how != engine::Finish::none) continue;
    generator.end(any->first);
    which.erase(any);
    ++cancelled;
  }
  EXPECT_GT(which.size(), requests.size());
  EXPECT_GT(cancelled, 0);
  for (const auto& [sequence, request] : which) expect(request, got.all[sequence]);
  EXPECT_EQ(generator.scheduler().pool().used(), 0);
}

// Generates requests as one batch, one by one, and beside others that join and are cancelled.
template <class Expect>
void expect_in_every_way(const model::Model& model, const std::vector<Request>& requests,
                         const Expect& expect) {
  auto together = completed(model, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    const Completion& one = together[static_cast<int64_t>(i)];
    expect(i, one);
    auto alone = completed(model, {requests[i]});
    expect(i, alone[0]);
    EXPECT_EQ(alone[0].whole, one.whole);  // the same bits
  }
  SCOPED_TRACE("beside others");
  expect_beside_others(model, requests, expect);
}

TEST(RecordedGeneration, GreedyIdsAndLogProbabilities) {
  const std::vector<std::string> names = recorded_models("generation");
  if (names.empty()) GTEST_SKIP() << "no recorded numbers: generation/llama/case.json";
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Json& recorded = test::golden_json("generation/" + name + "/case.json");
    const Json& rows = recorded["rows"];
    const auto model = model::Model::open(test::golden_path("models/" + name), "float32");
    std::vector<Request> requests;
    for (const Json& row : rows) requests.push_back(request_of(row, recorded, {}));
    expect_in_every_way(*model, requests,
                        [&](size_t row, const Completion& got) { expect_recorded(got, rows[row]); });
  }
}

// The ids of the recorded decode loop, of prompts that are padded there.
TEST(RecordedGeneration, GreedyIdsOfForwardPasses) {
  TRL_NEED_GOLDEN("forward/qwen2/case.json");
  const std::vector<std::string> names = recorded_models("forward");
  EXPECT_GE(names.size(), 7u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Json recorded = test::golden_json("forward/" + name + "/case.json")["runs"]["greedy"];
    std::vector<Request> requests;
    for (size_t row = 0; row < recorded["input_ids"].size(); ++row) {
      Request& request = requests.emplace_back();
      for (size_t i = 0; i < recorded["input_ids"][row].size(); ++i)
        if (recorded["attention_mask"][row][i] == 1)
          request.ids.push_back(recorded["input_ids"][row][i].get<int32_t>());
      request.sampling.max_new_tokens = recorded["max_new_tokens"];
      request.sampling.log_probabilities = true;
    }
    const auto model = model::Model::open(test::golden_path("models/" + name), "float32");
    expect_in_every_way(*model, requests, [&](size_t row, const Completion& got) {
      EXPECT_EQ(Json(got.ids), recorded["new_tokens"][row]);
      for (const float value : got.whole) EXPECT_LT(value, 0);
    });
  }
}

// Prompts with an adapter and without it, in one batch.
TEST(RecordedGeneration, WithAdapters) {
  TRL_NEED_GOLDEN("generation/adapters/cases.json");
  for (const Json& recorded : test::golden_json("generation/adapters/cases.json")["cases"]) {
    SCOPED_TRACE(recorded["adapter"]);
    const auto model = model::Model::open(test::golden_path(recorded["model"]), "float32");
    model::Adapter& adapter = model->adapters().open("default", test::golden_path(recorded["adapter"]));
    std::vector<Request> requests;
    for (const Json& ids : recorded["prompt_ids"]) {
      for (const model::Adapter* const used :
           {static_cast<const model::Adapter*>(nullptr), &std::as_const(adapter)}) {
        Request& request = requests.emplace_back(Request{.ids = ids, .sampling = {}, .adapter = used});
        request.sampling.max_new_tokens = recorded["max_new_tokens"];
        request.sampling.log_probabilities = true;
      }
    }
    auto got = completed(*model, requests);
    for (size_t i = 0; i < recorded["prompt_ids"].size(); ++i) {
      const auto first = static_cast<int64_t>(2 * i);
      EXPECT_EQ(Json(got[first].ids), recorded["without"][i]) << i;
      EXPECT_EQ(Json(got[first + 1].ids), recorded["with_adapter"][i]) << i;
      expect_near(got[first + 1].whole, recorded["logprobs_with_adapter"][i]);
    }
    model->adapters().merge(adapter);
    std::erase_if(requests, [](const Request& request) { return request.adapter == nullptr; });
    got = completed(*model, requests);
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(Json(got[static_cast<int64_t>(i)].ids), recorded["merged"][i]) << i;
  }
}

TEST(RecordedGeneration, SampledIdsByTheDocumentedDraws) {
  TRL_NEED_GOLDEN("generation/sampled/cases.json");
  const auto model = model::Model::open(test::golden_path("models/qwen2"), "float32");
  for (const Json& recorded : test::golden_json("generation/sampled/cases.json")["cases"]) {
    SCOPED_TRACE(recorded["config"].dump());
    const Json& config = recorded["config"];
    engine::Sampling sampling;
    sampling.temperature = config.value("temperature", 1.0);
    sampling.top_k = config.value("top_k", int64_t{0});
    sampling.top_p = config.value("top_p", 1.0);
    sampling.min_p = config.value("min_p", 0.0);
    sampling.repetition_penalty = config.value("repetition_penalty", 1.0);
    sampling.seed = recorded["seed"];
    const Json& rows = recorded["rows"];
    std::vector<Request> requests;
    for (size_t i = 0; i < rows.size(); ++i) {
      requests.push_back(request_of(rows[i], recorded, sampling));
      requests.back().stream = i;
    }
    auto got = completed(*model, requests);
    for (size_t i = 0; i < rows.size(); ++i) {
      const Completion& one = got[static_cast<int64_t>(i)];
      EXPECT_EQ(Json(one.ids), rows[i]["new_ids"]) << i;
      EXPECT_EQ(std::string(one.finish()), rows[i]["finish_reason"]) << i;
      if (Json(one.ids) != rows[i]["new_ids"]) continue;
      expect_near(one.whole, rows[i]["logprobs_whole"]);
      expect_near(one.drawn, rows[i]["logprobs_drawn_from"]);
      for (size_t t = 0; t < one.ids.size(); ++t) {
        EXPECT_EQ(one.best[t].size(), std::min<size_t>(5, rows[i]["kept"][t])) << i << " " << t;
        EXPECT_EQ(one.whole_best[t].size(), 5u);
      }
    }
  }
}

// Each prompt with and without the adapter, all together, and with the adapter in the model's weights.
TEST(RecordedGeneration, IdsOfAdapters) {
  TRL_NEED_GOLDEN("generation/adapters/cases.json");
  const Json& all = test::golden_json("generation/adapters/cases.json")["cases"];
  for (const Json& recorded : all) {
    SCOPED_TRACE(recorded["adapter"]);
    const auto model = model::Model::open(test::golden_path(recorded["model"].get<std::string>()), "float32");
    model::Adapters& adapters = model->adapters();
    model::Adapter& adapter =
        adapters.open("default", test::golden_path(recorded["adapter"].get<std::string>()));
    const auto requests = [&](const model::Adapter* used) {
      std::vector<Request> some;
      for (const Json& prompt : recorded["prompt_ids"]) {
        some.push_back({.ids = prompt, .sampling = {}, .adapter = used});
        some.back().sampling.max_new_tokens = recorded["max_new_tokens"];
        some.back().sampling.log_probabilities = true;
      }
      return some;
    };
    std::vector<Request> both = requests(nullptr);
    for (Request& one : requests(&adapter)) both.push_back(std::move(one));
    auto got = completed(*model, both);
    const auto count = std::ssize(recorded["prompt_ids"]);
    for (int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<size_t>(i);
      EXPECT_EQ(Json(got[i].ids), recorded["without"][row]) << i;
      EXPECT_EQ(Json(got[count + i].ids), recorded["with_adapter"][row]) << i;
      expect_near(got[count + i].whole, recorded["logprobs_with_adapter"][row]);
    }
    adapters.merge(adapter);
    auto merged = completed(*model, requests(&adapter));
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(Json(merged[i].ids), recorded["merged"][static_cast<size_t>(i)]) << i;
    adapters.unmerge();
  }
  EXPECT_EQ(all.size(), 14u);
}

}  // namespace
}  // namespace trl::generate
