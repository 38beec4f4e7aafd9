// What a server is asked for, and what its answers mean.
#include "run/server/completion_request.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "run/server/completion_answer.h"
#include "support/error_of.h"

namespace trl::run {
namespace {

engine::PromptRows rows(std::vector<std::vector<int32_t>> ids) {
  engine::PromptRows prompts;
  for (size_t row = 0; row < ids.size(); ++row) prompts.row_ids.push_back(static_cast<int64_t>(row));
  prompts.ids = std::move(ids);
  return prompts;
}

struct Case {
  VllmServer server = {VllmServer::Protocol::openai, "qwen", false};
  RequestOptions options = {};
  engine::PromptRows prompts = rows({{1, 2}, {1, 2}, {3}, {3}});
  RowGroups groups = {2, 2, false};

  Case() {
    options.sampling.temperature = 0.5;
    options.sampling.max_new_tokens = 7;
    options.sampling.own_end_ids = {90, 1000};
    options.sampling.seed = 11;
    options.sampling.log_probabilities = true;
  }
  CompletionRequest request() const { return {server, options, prompts, groups, "adapter", 40, 100}; }
  base::Json body() const { return request().body(); }
  std::vector<engine::Completion> read(const base::Json& answer) const {
    return read_completions(answer, request());
  }
};

TEST(ServerRows, AreGroupedByTheirPrompts) {
  const RowGroups beside = groups_of_rows(rows({{1}, {1}, {2}, {2}}), 2, false);
  EXPECT_EQ(beside.prompts, 2u);
  EXPECT_EQ(beside.row(1, 0), 2u);
  const RowGroups apart = groups_of_rows(rows({{1}, {2}, {1}, {2}}), 2, true);
  EXPECT_EQ(apart.prompts, 2u);
  EXPECT_EQ(apart.row(1, 1), 3u);
  EXPECT_EQ(groups_of_rows(rows({{1}, {2}, {1}, {2}}), 2, false).n, 1u);
  EXPECT_EQ(groups_of_rows(rows({{1}, {1}, {1}}), 2, false).prompts, 3u);
}

TEST(ServerRequest, HasEachPromptOnceAndNoSeedForAVllm) {
  const base::Json body = Case().body();
  EXPECT_EQ(body["model"], "adapter");
  EXPECT_EQ(body["prompt"], (base::Json{{1, 2}, {3}}));
  EXPECT_EQ(body["n"], 2);
  EXPECT_EQ(body["max_tokens"], 7);
  EXPECT_EQ(body["temperature"], 0.5);
  EXPECT_EQ(body["top_k"], 0);
  EXPECT_EQ(body["logprobs"], 0);
  EXPECT_EQ(body["stop_token_ids"], base::Json::array({90}));  // the model has 100 ids
  EXPECT_EQ(body["return_token_ids"], true);
  for (const char* name : {"trl_seed", "trl_stream", "seed", "ignore_eos", "stop", "generation_kwargs"})
    EXPECT_FALSE(body.contains(name)) << name;
}

TEST(ServerRequest, TellsAServerOfOursItsDraws) {
  Case own;
  own.server.ours = true;
  EXPECT_EQ(own.body()["trl_seed"], 11u);
  EXPECT_EQ(own.body()["trl_stream"], 40u);
  EXPECT_EQ(own.body()["trl_whole_logprobs"], true);
  own.prompts = rows({{1, 2}, {3}, {1, 2}, {3}});
  own.groups.apart = true;
  EXPECT_EQ(own.body()["n"], 1);
  EXPECT_EQ(own.body()["prompt"].size(), 4u);
  own.server.ours = false;
  EXPECT_EQ(own.body()["n"], 2);
  EXPECT_EQ(own.body()["prompt"].size(), 2u);
}

TEST(ServerRequest, OfTheFormerProtocolKeepsTheRestInGenerationKwargs) {
  Case own;
  own.server = {VllmServer::Protocol::old, "", false};
  own.options.stops = {"."};
  own.options.sampling.own_end_ids.clear();
  own.options.sampling.logit_bias = {{5, -1.0f}};
  const base::Json body = own.body();
  EXPECT_STREQ(own.request().path(), "/generate/");
  EXPECT_EQ(body["prompts"].size(), 2u);
  EXPECT_EQ(body["top_k"], -1);
  EXPECT_FALSE(body.contains("model"));
  EXPECT_EQ(body["generation_kwargs"]["stop"], base::Json::array({"."}));
  EXPECT_EQ(body["generation_kwargs"]["ignore_eos"], true);
  EXPECT_EQ(body["generation_kwargs"]["logit_bias"]["5"], -1.0f);
}

TEST(ServerRequest, AsksForAForm) {
  Case own;
  own.options.structured_outputs = {{"regex", "[a-z]+"}};
  EXPECT_EQ(own.body()["structured_outputs"], (base::Json{{"regex", "[a-z]+"}}));
  EXPECT_FALSE(Case().body().contains("structured_outputs"));
  own.server.protocol = VllmServer::Protocol::old;
  EXPECT_EQ(own.body()["structured_outputs_regex"], "[a-z]+");
  EXPECT_FALSE(own.body()["generation_kwargs"].contains("structured_outputs"));
  own.options.structured_outputs = {{"json", {{"type", "object"}}}};
  EXPECT_EQ(own.body()["generation_kwargs"]["structured_outputs"], own.options.structured_outputs);
  EXPECT_FALSE(own.body().contains("structured_outputs_regex"));
}

TEST(ServerRequest, RefusesWhatServersAreNotAskedFor) {
  RequestOptions options;
  check_request(options);
  options.sampling.typical_p = 0.5;
  const auto [status, message] = test::error_of([&] { check_request(options); });
  EXPECT_EQ(status, Status::invalid_config);
  EXPECT_TRUE(message.starts_with("generation_kwargs: typical_p is refused")) << message;
}

base::Json choice(int index, std::vector<int32_t> ids, base::Json logprobs) {
  return {{"index", index},
          {"token_ids", std::move(ids)},
          {"logprobs", {{"token_logprobs", std::move(logprobs)}}}};
}

TEST(ServerAnswer, IsReadByTheIndexOfItsChoices) {
  Case own;
  own.prompts = rows({{1, 2}, {3}, {1, 2}, {3}});
  own.groups.apart = true;
  base::Json answer = base::Json::object();
  for (const int index : {3, 1, 0, 2})
    answer["choices"].push_back(choice(index, {10 + index, 90}, base::Json::array({-0.5, nullptr})));
  const auto read = own.read(answer);
  ASSERT_EQ(read.size(), 4u);
  EXPECT_EQ(read[0].ids, (std::vector<int32_t>{10, 90}));
  EXPECT_EQ(read[2].ids.front(), 11);  // the second completion of the first prompt
  EXPECT_EQ(read[1].ids.front(), 12);
  EXPECT_EQ(read[3].ids.front(), 13);
  EXPECT_EQ(read[0].log_probabilities[0], -0.5f);
  EXPECT_TRUE(std::isnan(read[0].log_probabilities[1]));
}

TEST(ServerAnswer, OfGreedyRowsIsThatOfTheirPrompt) {
  Case own;
  own.options.sampling.temperature = 0;
  own.options.sampling.log_probabilities = false;
  EXPECT_EQ(own.body()["n"], 1);
  base::Json answer = base::Json::object();
  for (const int index : {0, 1}) answer["choices"].push_back(choice(index, {20 + index}, nullptr));
  const auto read = own.read(answer);
  EXPECT_EQ(read[0].ids, read[1].ids);
  EXPECT_EQ(read[2].ids, std::vector<int32_t>{21});
  EXPECT_TRUE(read[0].log_probabilities.empty());
}

TEST(ServerAnswer, OfTheFormerProtocolHasTheChosenTokenAmongOthers) {
  Case own;
  own.server.protocol = VllmServer::Protocol::old;
  const base::Json ids = base::Json::parse("[[5], [6], [7], [8]]");
  const base::Json by_rank = base::Json::parse("[[[-1, -2]], [[-1]], [[null]], [[-3]]]");
  const base::Json tokens = base::Json::parse("[[[4, 5]], [[6]], [[7]], [[9]]]");
  const auto read = own.read({{"completion_ids", ids}, {"logprobs", by_rank}, {"logprob_token_ids", tokens}});
  EXPECT_EQ(read[0].log_probabilities, std::vector<float>{-2});
  EXPECT_EQ(read[1].log_probabilities, std::vector<float>{-1});
  EXPECT_TRUE(std::isnan(read[2].log_probabilities[0]));
  EXPECT_TRUE(std::isnan(read[3].log_probabilities[0]));
  const base::Json flat = base::Json::parse("[[-1], [-2], [-3], [-4]]");
  EXPECT_EQ(own.read({{"completion_ids", ids}, {"logprobs", flat}})[3].log_probabilities,
            std::vector<float>{-4});
}

TEST(ServerAnswer, ThatLacksSomethingIsRefused) {
  const Case own;
  const auto refusal = [&](const char* answer) {
    return test::error_of([&] { own.read(base::Json::parse(answer)); }).second;
  };
  const auto with = [](const std::string& first) {
    std::string text = R"({"choices": [)" + first;
    for (const char* index : {"1", "2", "3"})
      text += std::string(R"(, {"index": )") + index +
              R"(, "token_ids": [5], "logprobs": {"token_logprobs": [-1]}})";
    return text + "]}";
  };
  EXPECT_EQ(refusal("[]"), "the server's answer: choices is not a list of 4");
  EXPECT_EQ(refusal(R"({"choices": []})"), "the server's answer: choices is not a list of 4");
  EXPECT_TRUE(refusal(with(R"({"index": 0})").c_str()).find("return_token_ids") != std::string::npos);
  EXPECT_TRUE(refusal(with(R"({"index": 1})").c_str()).find("return_token_ids") != std::string::npos);
  EXPECT_TRUE(refusal(with(R"({"index": 4, "token_ids": [5]})").c_str())
                  .find("index is 4; accepted are 0 to 3, each once") != std::string::npos);
  EXPECT_TRUE(refusal(with(R"({"index": 0, "token_ids": [100]})").c_str()).find("0 to 99") !=
              std::string::npos);
  EXPECT_EQ(refusal(with(R"({"index": 0, "token_ids": [5], "logprobs": null})").c_str()),
            "the server's answer: token_logprobs is not a list of 1");
  EXPECT_EQ(refusal(with(R"({"index": 0, "token_ids": [5], "finish_reason": "abort"})").c_str()),
            "the server ended completion 0: abort");
}

TEST(ServerAnswer, ThatIsNotWhatWasAskedForIsRefused) {
  const Case own;
  base::Json answer = {{"choices", base::Json::array()}};
  for (const int index : {0, 1, 2, 3})
    answer["choices"].push_back(choice(index, {5}, base::Json::array({-1})));
  base::Json& one = answer["choices"][2];
  const auto refusal = [&] { return test::error_of([&] { own.read(answer); }).second; };

  one = choice(2, std::vector<int32_t>(7, 5), base::Json(std::vector<float>(7, -1)));
  EXPECT_EQ(refusal(), "");
  one = choice(2, std::vector<int32_t>(5000, 5), base::Json(std::vector<float>(5000, -1)));
  EXPECT_EQ(refusal(),
            "the server's answer: completion 2: token_ids has 5000 ids; max_tokens asked for at most 7");

  one = choice(2, {5}, base::Json::array({-1}));
  one["prompt_token_ids"] = {3};
  EXPECT_EQ(refusal(), "");
  one["prompt_token_ids"] = nullptr;
  EXPECT_EQ(refusal(), "");
  for (const base::Json& other : {base::Json{1, 2}, base::Json{3, 3}, base::Json::array(), base::Json("3")}) {
    one["prompt_token_ids"] = other;
    EXPECT_EQ(refusal(),
              "the server's answer: completion 2: prompt_token_ids are not those of the prompt that was sent")
        << other.dump();
  }
}

TEST(ServerAnswer, HasLogProbabilitiesOfFloat32) {
  const Case own;
  const auto read = [&](double value) {
    base::Json answer = {{"choices", base::Json::array()}};
    for (const int index : {0, 1, 2, 3})
      answer["choices"].push_back(choice(index, {5}, base::Json::array({index == 1 ? value : -1.0})));
    return own.read(answer)[1].log_probabilities.at(0);
  };
  EXPECT_EQ(read(-9999.0), -9999.0f);  // that of a token without probability, from vLLM
  EXPECT_EQ(read(-3e38), -3e38f);
  EXPECT_EQ(read(1e-6), 1e-6f);  // rounding
  EXPECT_TRUE(std::isnan(read(std::nan(""))));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto& [value, shown] :
       {std::pair{-1e300, "-1e+300"}, {-kInfinity, "-inf"}, {kInfinity, "inf"}, {3.0, "3"}})
    EXPECT_EQ(test::error_of([&] { read(value); }).second,
              std::string("the server's answer: completion 1: ") + shown +
                  " is not a log-probability; accepted are null and float32 numbers up to 0");
}

TEST(ServerAnswer, OfTheFormerProtocolIsCheckedAsWell) {
  Case own;
  own.server.protocol = VllmServer::Protocol::old;
  base::Json answer = {{"prompt_ids", {{1, 2}, {3}}},
                       {"completion_ids", {{5}, {6}, {7}, {8}}},
                       {"logprobs", {{-1}, {-2}, {-3}, {-4}}}};
  const auto refusal = [&] { return test::error_of([&] { own.read(answer); }).second; };
  EXPECT_EQ(refusal(), "");
  answer["prompt_ids"][1] = {4};
  EXPECT_EQ(refusal(),
            "the server's answer: completion 2: prompt_ids are not those of the prompt that was sent");
  answer["prompt_ids"].erase(1);
  EXPECT_EQ(refusal(), "the server's answer: prompt_ids is not a list of 2");
  answer.erase("prompt_ids");
  answer["completion_ids"][3] = std::vector<int32_t>(8, 5);
  EXPECT_EQ(refusal(),
            "the server's answer: completion 3: completion_ids has 8 ids; max_tokens asked for at most 7");
}

}  // namespace
}  // namespace trl::run
