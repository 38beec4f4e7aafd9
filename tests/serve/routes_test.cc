// Every route against a fake library: what is answered, and what is refused with which status.
#include <fmt/format.h>

#include "fake_library.h"
#include "running_server.h"

namespace trl::serve::test {
namespace {

TEST(Routes, TellWhatTheServerIs) {
  RunningServer server;
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/health").body, "");
  EXPECT_EQ(server.get("/health/").body, R"({"status":"ok"})");
  EXPECT_EQ(server.get("/version").body, R"({"version":"0.1.0"})");
  EXPECT_EQ(server.get("/get_world_size").body, R"({"world_size":1})");
  EXPECT_EQ(server.get("/get_world_size/?include_dp=true").body, R"({"world_size":1})");
  EXPECT_EQ(server.get("/get_tensor_parallel_size/").body, R"({"tensor_parallel_size":1})");
  EXPECT_EQ(server.post("/reset_prefix_cache", "").body, R"({"success":true})");
  EXPECT_NE(server.post("/reset_prefix_cache/", "").body.find("message"), std::string::npos);
  const Json info = Json::parse(server.get("/server_info?config_format=json").body);
  EXPECT_EQ(info["vllm_config"]["model_config"]["logprobs_mode"], "processed_logprobs");
  EXPECT_TRUE(info["vllm_config"]["weight_transfer_config"].is_null());
  const Json models = Json::parse(server.get("/v1/models").body);
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][0]["max_model_len"], 200);
  EXPECT_EQ(Json::parse(server.get("/v1/models/").body), models);
  EXPECT_EQ(Json::parse(server.get("/v1/models/tiny").body), models["data"][0]);
  EXPECT_EQ(server.post("/v1/models/tiny", "{}").status, 405);
  const Response unknown = server.get("/v1/models/other%2Fone");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(Json::parse(unknown.body)["error"]["message"], "The model `other/one` does not exist.");
}

TEST(Routes, TokenizeAndDetokenize) {
  RunningServer server;
  const Json tokens = server.ask("/tokenize", {{"prompt", "Hi"}, {"return_token_strs", true}});
  EXPECT_EQ(tokens.dump(), R"({"count":2,"max_model_len":200,"tokens":[72,105],"token_strs":["H","i"]})");
  const Json chat =
      server.ask("/tokenize", Json::parse(R"({"messages": [{"role": "user", "content": "a"}]})"));
  EXPECT_EQ(chat["count"], 29);  // "user:a" and the beginning of an answer
  EXPECT_EQ(server.ask("/detokenize", {{"tokens", {72, 105}}}).dump(), R"({"prompt":"Hi"})");
  EXPECT_EQ(server.post("/tokenize", R"({"prompt": "a", "messages": []})").status, 400);
  // As in completions, ids that the model alone has are left out.
  EXPECT_EQ(server.ask("/detokenize", {{"tokens", {72, 259, 105}}}).dump(), R"({"prompt":"Hi"})");
  for (const char* id : {"900", "2147483648", "-1"}) {
    const Response refused = server.post("/detokenize", fmt::format(R"({{"tokens": [1, {}]}})", id));
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(
        refused.body.find(fmt::format("tokens[1]: {} is not accepted; give token ids from 0 to 259", id)),
        std::string::npos)
        << refused.body;
  }
  EXPECT_EQ(server.post("/detokenize", R"({"tokens": [1, "a"]})").status, 400);
}

TEST(Routes, OthersAreRefusedByName) {
  RunningServer server;
  const Response missing = server.get("/v2/models");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(Json::parse(missing.body)["error"]["type"], "NotFoundError");
  EXPECT_EQ(Json::parse(missing.body)["error"]["code"], 404);
  const Response method = server.get("/v1/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.fields.at("allow"), "POST");
  EXPECT_EQ(server.post("/v1/embeddings", "{}").status, 501);
  EXPECT_EQ(server.post("/update_weights", "{}").status, 501);
}

TEST(Routes, MetricsCountWhatWasDone) {
  RunningServer server;
  server.ask("/v1/completions", {{"prompt", "Hi"}, {"max_tokens", 3}});
  const Response metrics = server.get("/metrics");
  EXPECT_EQ(metrics.fields.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line : {"vllm:prompt_tokens_total{model_name=\"tiny\"} 2",
                           "vllm:generation_tokens_total{model_name=\"tiny\"} 3",
                           "vllm:request_success_total{model_name=\"tiny\",finished_reason=\"length\"} 1",
                           "vllm:time_to_first_token_seconds_count{model_name=\"tiny\"} 1",
                           "vllm:inter_token_latency_seconds_count{model_name=\"tiny\"} 2",
                           "vllm:request_time_per_output_token_seconds_count{model_name=\"tiny\"} 1",
                           "vllm:e2e_request_latency_seconds_count{model_name=\"tiny\"} 1",
                           "vllm:request_queue_time_seconds_count{model_name=\"tiny\"} 1",
                           "vllm:request_inference_time_seconds_count{model_name=\"tiny\"} 1",
                           "vllm:request_prefill_time_seconds_count{model_name=\"tiny\"} 1",
                           "vllm:request_decode_time_seconds_count{model_name=\"tiny\"} 1",
                           "vllm:request_params_max_tokens_sum{model_name=\"tiny\"} 3",
                           "vllm:request_params_n_sum{model_name=\"tiny\"} 1",
                           "vllm:prefix_cache_queries_total{model_name=\"tiny\"} 2",
                           "vllm:prefix_cache_hits_total{model_name=\"tiny\"} 1",
                           "vllm:kv_cache_usage_perc{model_name=\"tiny\"} 0.25",
                           "vllm:num_preemptions_total{model_name=\"tiny\"} 2",
                           "vllm:spec_decode_num_draft_tokens_total{model_name=\"tiny\"} 10",
                           "vllm:spec_decode_num_accepted_tokens_total{model_name=\"tiny\"} 4",
                           "trl_step_tokens_count{model_name=\"tiny\"} 3"})
    EXPECT_NE(metrics.body.find(line), std::string::npos) << line;
  for (const char* name : {"iteration_tokens", "lora_requests_info{"})  // not known here
    EXPECT_EQ(metrics.body.find(std::string("vllm:") + name), std::string::npos) << name;
}

// Prompts are counted once, whatever n is, and refused ones not at all.
TEST(Routes, MetricsCountPromptsOnce) {
  RunningServer server;
  server.ask("/v1/completions", {{"prompt", {"abcd", "ef"}}, {"max_tokens", 2}, {"n", 3}});
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": [300, 1, 2]})").status, 400);
  const std::string body = server.get("/metrics").body;
  for (const char* line : {"vllm:prompt_tokens_total{model_name=\"tiny\"} 6",
                           "vllm:prefix_cache_queries_total{model_name=\"tiny\"} 6",
                           "vllm:prefix_cache_hits_total{model_name=\"tiny\"} 3",
                           "vllm:generation_tokens_total{model_name=\"tiny\"} 12",
                           "vllm:request_params_n_sum{model_name=\"tiny\"} 6",
                           "vllm:e2e_request_latency_seconds_count{model_name=\"tiny\"} 6",
                           "vllm:request_success_total{model_name=\"tiny\",finished_reason=\"length\"} 6"})
    EXPECT_NE(body.find(line), std::string::npos) << line << body;
}

// Answers name the version of a trainer's adapter that they begin with, streams too; without a trainer, that
// of the weights.
TEST(Routes, AnswersNameTheVersionOfTheirWeights) {
  RunningServer server;
  const auto version = [&](const char* body) {
    return server.post("/v1/completions", body).fields["x-trl-weights-version"];
  };
  EXPECT_EQ(version(R"({"prompt": "a", "max_tokens": 1})"), "0");
  fake().trained_version = 7;
  EXPECT_EQ(version(R"({"prompt": "a", "max_tokens": 1})"), "7");
  EXPECT_EQ(version(R"({"prompt": "a", "max_tokens": 2, "stream": true})"), "7");
  EXPECT_EQ(server.post("/generate/", R"({"prompts": ["a"]})").fields["x-trl-weights-version"], "7");
  fake().trained_version = -1;
}

TEST(Completions, OfATextOfTextsAndOfIds) {
  RunningServer server;
  const Json one = server.ask("/v1/completions", {{"model", "tiny"}, {"prompt", "Hi"}, {"max_tokens", 3}});
  EXPECT_EQ(one["object"], "text_completion");
  EXPECT_EQ(one["choices"][0]["text"], "abc");
  EXPECT_EQ(one["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(one["choices"][0]["token_ids"].is_null());
  EXPECT_EQ(one["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(one["usage"]["completion_tokens"], 3);
  EXPECT_EQ(one["usage"]["total_tokens"], 5);
  const Json two = server.ask("/v1/completions", {{"prompt", {"Hi", "You"}}, {"max_tokens", 1}, {"n", 2}});
  ASSERT_EQ(two["choices"].size(), 4u);
  EXPECT_EQ(two["choices"][3]["index"], 3);
  EXPECT_EQ(two["choices"][2]["text"], "c");  // of the third stream of draws
  const Json ids =
      server.ask("/v1/completions",
                 Json::parse(R"({"prompt": [[1, 2], [3]], "max_tokens": 2, "return_token_ids": true})"));
  EXPECT_EQ(ids["choices"][1]["token_ids"], Json({98, 99}));
  EXPECT_EQ(ids["choices"][1]["prompt_token_ids"], Json::array({3}));
  EXPECT_EQ(server.ask("/v1/completions", {{"prompt", {5, 6}}, {"max_tokens", 1}})["choices"].size(), 1u);
  EXPECT_EQ(server.ask("/v1/completions", {{"prompt", "Hi"}})["usage"]["completion_tokens"], 16);
}

TEST(Completions, GreedyOnesOfOnePromptAreComputedOnce) {
  RunningServer server;
  fake().added = 0;
  const Json equal =
      server.ask("/v1/completions", {{"prompt", "Hi"}, {"max_tokens", 2}, {"n", 3}, {"temperature", 0}});
  ASSERT_EQ(equal["choices"].size(), 3u);
  for (const Json& choice : equal["choices"]) EXPECT_EQ(choice["text"], "ab");
  EXPECT_EQ(fake().added, 1);
}

TEST(Completions, EndAtAText) {
  RunningServer server;
  const Json stopped = server.ask("/v1/completions", {{"prompt", "Hi"}, {"max_tokens", 9}, {"stop", "d"}});
  EXPECT_EQ(stopped["choices"][0]["text"], "abc");
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");
}

TEST(Completions, HaveLogProbabilities) {
  RunningServer server;
  Json body = {{"prompt", "Hi"}, {"max_tokens", 2}, {"logprobs", 2}};
  Json logprobs = server.ask("/v1/completions", body)["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json({"a", "b"}));
  EXPECT_EQ(logprobs["text_offset"], Json({0, 1}));
  EXPECT_EQ(logprobs["token_logprobs"], Json({-0.5, -0.5}));
  EXPECT_EQ(logprobs["top_logprobs"][0].dump(), R"({"b":-0.25,"a":-0.5})");
  body["return_tokens_as_token_ids"] = true;
  body["trl_whole_logprobs"] = true;
  logprobs = server.ask("/v1/completions", body)["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"][0], "token_id:97");
  EXPECT_EQ(logprobs["token_logprobs"][0], -1.5);
  EXPECT_EQ(logprobs["top_logprobs"][0].dump(),
            R"({"token_id:98":-0.25,"token_id:99":-3.0,"token_id:97":-1.5})");
  body["logprobs"] = 6;
  EXPECT_EQ(server.post("/v1/completions", body.dump()).status, 400);
}

TEST(Completions, BadFieldsAreNamed) {
  RunningServer server;
  const std::pair<const char*, const char*> bad[] = {
      {R"({"prompt": "a", "n": 0})", "n"},
      {R"({"prompt": "a", "n": 9})", "n"},
      {R"({"prompt": "a", "n": "two"})", "n"},
      {R"({"prompt": "a", "max_tokens": 0})", "max_tokens"},
      {R"({"prompt": "a", "max_tokens": 500})", "max_tokens"},
      {R"({"prompt": "a", "temperature": -1})", "temperature"},
      {R"({"prompt": "a", "top_p": 0})", "top_p"},
      {R"({"prompt": "a", "top_p": 0.123})", "top_p"},
      {R"({"prompt": "a", "stop": [""]})", "stop"},
      {R"({"prompt": "a", "stop": ["a","b","c","d","e"]})", "stop"},
      {R"({"prompt": "a", "logit_bias": {"a": "b"}})", "logit_bias"},
      {R"({"prompt": "a", "best_of": 3})", "best_of"},
      {R"({"prompt": "a", "n": 2, "best_of": 1})", "best_of"},
      {R"({"prompt": "a", "use_beam_search": true})", "use_beam_search"},
      {R"({"prompt": "a", "echo": true})", "echo"},
      {R"({"prompt": "a", "prompt_logprobs": 6})", "prompt_logprobs"},
      {R"({"prompt": "a", "prompt_logprobs": -2})", "prompt_logprobs"},
      {R"({"prompt": "a", "prompt_logprobs": 1, "stream": true})", "prompt_logprobs"},
      {R"({"prompt": "a", "stream_options": {}})", "stream_options"},
      {R"({"prompt": 5})", "prompt"},
      {R"({"prompt": []})", "prompt"},
      {R"({"prompt": [[]]})", "prompt"},
      {R"({"prompt": [1, -2]})", "prompt"},
      {R"({"prompt": ""})", "prompt"},
      {R"({})", "prompt"}};
  for (const auto& [body, field] : bad) {
    const Response response = server.post("/v1/completions", body);
    EXPECT_EQ(response.status, 400) << body << response.body;
    const Json error = Json::parse(response.body, nullptr, false)["error"];
    EXPECT_EQ(error.value("param", ""), field) << body << response.body;
    EXPECT_EQ(error.value("type", ""), "BadRequestError");
  }
  const Response model = server.post("/v1/completions", R"({"model": "other", "prompt": "a"})");
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(Json::parse(model.body)["error"]["message"], "The model `other` does not exist.");
  for (const char* body : {"", "{", "[]", "null", "{\"prompt\": \"a\"} x", "\xff"})
    EXPECT_EQ(server.post("/v1/completions", body).status, 400) << body;
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": [300]})").status, 400);
  EXPECT_EQ(server.ask("/v1/completions", {{"prompt", "Hi"}, {"max_tokens", 1}})["choices"].size(), 1u);
  // The best two of two.
  const Json both = {{"prompt", "Hi"}, {"max_tokens", 1}, {"n", 2}, {"best_of", 2}};
  EXPECT_EQ(server.ask("/v1/completions", both)["choices"].size(), 2u);
}

TEST(Completions, AFailedStepIsAnErrorAndTheServerGoesOn) {
  RunningServer server;
  fake().fails_at_step = fake().steps.load();
  const Response failed = server.post("/v1/completions", R"({"prompt": "a"})");
  fake().fails_at_step = -1;
  EXPECT_EQ(failed.status, 500);
  EXPECT_NE(failed.body.find("the step failed"), std::string::npos);
  EXPECT_EQ(server.ask("/v1/completions", {{"prompt", "Hi"}, {"max_tokens", 1}})["choices"].size(), 1u);
}

TEST(Streams, JoinToTheWhole) {
  RunningServer server;
  const Json body = {{"prompt", {"Hi", "You"}},
                     {"max_tokens", 5},
                     {"n", 2},
                     {"stream", true},
                     {"return_token_ids", true},
                     {"logprobs", 1},
                     {"stream_options", {{"include_usage", true}}}};
  const Response response = server.post("/v1/completions", body.dump());
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.fields.at("content-type"), "text/event-stream; charset=utf-8");
  std::map<int, std::string> texts, ends;
  std::map<int, size_t> ids, values;
  std::vector<Json> events = events_of(response.body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 20);
  EXPECT_TRUE(events.back()["choices"].empty());
  events.pop_back();
  for (const Json& event : events) {
    EXPECT_TRUE(event["usage"].is_null());
    const Json& choice = event["choices"][0];
    const int index = choice["index"].get<int>();
    if (texts[index].empty()) {
      EXPECT_FALSE(choice["prompt_token_ids"].is_null());
    }
    texts[index] += choice["text"].get<std::string>();
    ids[index] += choice["token_ids"].size();
    values[index] += choice["logprobs"]["tokens"].size();
    if (!choice["finish_reason"].is_null()) ends[index] = choice["finish_reason"].get<std::string>();
  }
  Json whole = body;
  whole["stream"] = false;
  whole.erase("stream_options");
  const Json at_once = server.ask("/v1/completions", whole);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(texts[i], at_once["choices"][static_cast<size_t>(i)]["text"]);
    EXPECT_EQ(ends[i], "length");
    EXPECT_EQ(ids[i], 5u);
    EXPECT_EQ(values[i], 5u);
  }
}

TEST(Streams, AreRefusedWithAStatusBeforeTheyBegin) {
  RunningServer server;
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": [300], "stream": true})").status, 400);
}

TEST(TrlsProtocol, Generate) {
  RunningServer server;
  const Json both =
      server.ask("/generate/", {{"prompts", {"Hi", "You"}}, {"n", 2}, {"max_tokens", 2}, {"logprobs", 0}});
  EXPECT_EQ(both["prompt_ids"].dump(), "[[72,105],[89,111,117]]");
  EXPECT_EQ(both["completion_ids"].dump(), "[[97,98],[98,99],[99,100],[100,101]]");
  EXPECT_EQ(both["logprobs"][0].size(), 2u);
  EXPECT_EQ(both["logprob_token_ids"][3].size(), 2u);
  const Json none = server.ask(
      "/generate/", Json::parse(R"({"prompts": [[1, 2]], "logprobs": null, "top_k": -1, "images": null})"));
  EXPECT_TRUE(none["logprobs"].is_null());
  EXPECT_TRUE(none["logprob_token_ids"].is_null());
  EXPECT_EQ(none["completion_ids"][0].size(), 16u);
  const Json kwargs =
      server.ask("/generate/",
                 Json::parse(R"({"prompts": ["Hi"], "n": 1, "generation_kwargs": {"n": 3, "stop": ["c"]}})"));
  EXPECT_EQ(kwargs["completion_ids"].size(), 3u);
  for (const char* name : {"zzz", "max_token", "prompts", "model"}) {
    const Json body = {{"prompts", {"Hi"}}, {"generation_kwargs", {{name, nullptr}}}};
    const Response unknown = server.post("/generate/", body.dump());
    EXPECT_EQ(unknown.status, 422) << name;
    EXPECT_NE(unknown.body.find(std::string("generation_kwargs: unknown name ") + name), std::string::npos)
        << unknown.body;
  }
  const Response wrong = server.post("/generate/", R"({"prompts": 5})");
  EXPECT_EQ(wrong.status, 422);
  EXPECT_EQ(Json::parse(wrong.body)["detail"][0]["loc"].dump(), R"(["body","prompts"])");
}

}  // namespace
}  // namespace trl::serve::test
