#include <atomic>
#include <thread>

#include "serve/parts.h"
#include "serve/served.h"
#include "support/abi.h"

namespace trl::bench {

namespace {

constexpr double kBound = 3;  // times the 99th of a hundred times between two tokens, beside training

// A trainer of an adapter on rows of one length, and a server of its model.
class Learning {
 public:
  Learning(const ServeSettings& s, const Scratch& scratch) {
    trainer_ = open_trainer({{"method", "sft"},
                             {"model_name_or_path", s.model},
                             {"use_peft", true},
                             {"lora_r", s.rank},
                             {"lora_dropout", 0},
                             {"lora_target_modules", "all-linear"},
                             {"serve_share", 0.5},
                             {"serve_swap", "token"},
                             {"per_device_train_batch_size", kRows},
                             {"learning_rate", 1e-5},
                             {"max_steps", 1000000},
                             {"save_strategy", "no"},
                             {"logging_strategy", "no"},
                             {"runtime.threads", s.threads},
                             {"output_dir", scratch.file("learned")}},
                            kRows, kTokens, false);
    trl_config* const config = config_of({{"serve.port", 0}});
    TRL_CHECK(trl_server_create(nullptr, config, &server_, &error));
    trl_config_destroy(config);
    TRL_CHECK(trl_server_add_trainer(server_, "model", trainer_, nullptr, &error));
    TRL_CHECK(trl_server_start(server_, &error));
    const char* text = nullptr;
    TRL_CHECK(trl_server_describe(server_, &text, &error));
    port_ = Json::parse(text).at("port");
    int64_t size = 0;
    TRL_CHECK(trl_trainer_get_integers(trainer_, "vocab_size", &size, 1, nullptr, &error));
    vocabulary_ = size;
  }
  ~Learning() {
    trl_server_destroy(server_);
    trl_trainer_destroy(trainer_);
  }
  Learning(const Learning&) = delete;
  Learning& operator=(const Learning&) = delete;

  // Makes steps while goes_on(); returns steps a second.
  template <typename GoesOn>
  double steps_a_second(const GoesOn& goes_on) {
    int64_t steps = 0;
    const double begin = now();
    for (; goes_on(steps); ++steps) TRL_CHECK(trl_trainer_step(trainer_, nullptr, &error));
    return static_cast<double>(steps) / (now() - begin);
  }
  Json streams(const ServeSettings& s, int number) const {
    return run_streams(port_,
                       stream_bodies(random_prompts(s.streams, s.prompt, vocabulary_, number), s.new_tokens));
  }

  static constexpr int kRows = 4, kTokens = 256;

 private:
  trl_trainer* trainer_ = nullptr;
  trl_server* server_ = nullptr;
  int port_ = 0;
  int64_t vocabulary_ = 0;
};

double rate(const Json& streams) {
  return streams.at("tokens").get<double>() / streams.at("seconds").get<double>();
}

}  // namespace

bool measure_learn(const ServeSettings& s, const Scratch& scratch) {
  Learning learning(s, scratch);
  learning.steps_a_second([](int64_t steps) { return steps < 1; });
  learning.streams(s, 0);
  const double training = learning.steps_a_second([&](int64_t steps) { return steps < s.steps; });
  const Json alone = learning.streams(s, 1);
  std::atomic<bool> over{false};
  double beside = 0;
  std::thread trains([&] { beside = learning.steps_a_second([&](int64_t) { return !over; }); });
  const Json joint = learning.streams(s, 2);
  over = true;
  trains.join();
  const Json between = percentiles(alone.at("between")), between_joint = percentiles(joint.at("between"));
  const double times = between_joint.at("p99").get<double>() / between.at("p99").get<double>();
  print({{"bench", "learn"},
         {"streams", s.streams},
         {"rows", Learning::kRows},
         {"row_tokens", Learning::kTokens},
         {"steps_per_second_alone", training},
         {"steps_per_second_beside", beside},
         {"tokens_per_second_alone", rate(alone)},
         {"tokens_per_second_beside", rate(joint)},
         {"joint_throughput", beside / training + rate(joint) / rate(alone)},
         {"between_ms_alone", between},
         {"between_ms_beside", between_joint},
         {"p99_times", times}});
  return times < kBound;
}

}  // namespace trl::bench
