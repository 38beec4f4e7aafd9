#include "run/rollout/rollouts.h"

#include "base/error.h"
#include "config/generation/generation_kwargs.h"
#include "config/generation/trainer_generation.h"
#include "config/online/parts.h"
#include "engine/error_capture.h"
#include "run/complete/open_generator.h"
#include "run/complete/request_options.h"
#include "run/convert_model.h"
#include "run/open_model.h"
#include "run/server/http_module.h"
#include "run/server/unused_server.h"

namespace trl::run {

namespace {

RolloutParts parts_of(Environment& environment, const config::RunOptions& options, const Prepared& prepared,
                      std::shared_ptr<Tokenizer> tokenizer) {
  const config::OnlineArguments& online = options.arguments.online;
  RolloutParts parts;
  if (options.arguments.method->pads_for_rewards)
    parts.pad = tokenizer->get().special_id(tokenizer->get().special().pad);
  if (options.arguments.method->answers_of_rows)
    parts.choice.emplace(online, static_cast<uint64_t>(options.arguments.seed));
  parts.tokenizer = std::move(tokenizer);
  parts.eval_prompts = prepared.eval_prompts;
  parts.reward_by_group = online.reward_by_group;
  parts.schedule_needs_length = config::schedule_needs_length(options.arguments);
  parts.resamples = online.resample_zero_std;
  parts.apart = !options.config.has("shuffle_rollouts");
  parts.group = static_cast<size_t>(online.num_generations);
  if (prepared.tools) parts.tools = std::make_unique<ToolTurns>(online, *prepared.tools);
  if (!online.replay_rollouts.empty()) parts.replay = std::make_unique<Replay>(online.replay_rollouts);
  if (!online.record_rollouts.empty()) parts.record = std::make_unique<Record>(online.record_rollouts);
  const config::CompletionRecords records = config::completion_records(options.config, online);
  parts.passes = std::make_unique<PassAtK>(records, online.num_generations_eval);
  parts.log = std::make_unique<CompletionLog>(environment, options);
  parts.rewards = std::make_unique<RewardFunctions>(environment, options, parts.replay.get());
  return parts;
}

// Looks only if there is a way: a build may lack libtrl_http.so, and the address is not one of the run.
void look_for_server(Environment& environment, const config::Config& config) {
  try {
    Exchange exchange(http_module(), config::server_url(config), "", environment.log());
    tell_unused_server(exchange, environment.log());
  } catch (const Error& error) {
    if (error.status() == Status::cancelled) throw;
  }
}

}  // namespace

Rollouts::Rollouts(Environment& environment, const config::RunOptions& options, const Prepared& prepared,
                   std::shared_ptr<Tokenizer> tokenizer)
    : options_(options),
      parts_(parts_of(environment, options, prepared, std::move(tokenizer))),
      train_("train", prepared.train_prompts, parts_) {
  if (prepared.eval_prompts) eval_.emplace("eval", prepared.eval_prompts, parts_);
}

void Rollouts::write_by(HostWriter::Function host, std::function<void()> written) {
  if (options_.arguments.online.server)
    fail_key("vllm_mode",
             "vllm_mode: server is refused, because a function of the host writes the completions");
  if (options_.arguments.online.resample_zero_std)
    fail_key("resample_zero_std",
             "resample_zero_std: true is refused, because a function of the host writes the completions");
  parts_.host.function = std::move(host);
  parts_.host.has_written = std::move(written);
}

void Rollouts::call_tools_by(ToolHost::Function host) {
  if (!parts_.tools)
    fail_key("tools",
             "tools: the run has none, so that no function can answer calls: give tools or environments");
  parts_.tools->host().call(std::move(host));
}

void Rollouts::check() const {
  parts_.rewards->check();
  parts_.passes->check(parts_.rewards->names());
  if (parts_.tools) parts_.tools->host().check(parts_.replay != nullptr);
  if (parts_.server) parts_.server->connect();
}

const engine::RolloutSpec& Rollouts::spec(Environment& environment, engine::Model& model) {
  const config::OnlineArguments& online = options_.arguments.online;
  parts_.host.vocabulary =
      embedding_rows(base::parse_json(model.config_json(), "config.json"), "config.json");
  if (parts_.replay) parts_.replay->check_ids(parts_.host.vocabulary);
  const int64_t positions = model.learned_positions();
  const bool cut = online.max_length && *online.max_length <= positions;  // before the model sees them
  parts_.positions = cut ? 0 : positions;
  if (online.stop_token_id && *online.stop_token_id >= parts_.host.vocabulary) {
    fail_key("stop_token_id", "stop_token_id: {} is not a token of the model: give an id from 0 to {}",
             *online.stop_token_id, parts_.host.vocabulary - 1);
  }
  const std::span<const int32_t> of_model = model.end_ids();
  const std::vector<int32_t> ends = options_.arguments.method->ends_of_model
                                        ? std::vector<int32_t>(of_model.begin(), of_model.end())
                                        : end_tokens(model, parts_.tokenizer->get());
  spec_.generator = training_generator_spec(environment, options_.config);
  if (online.server)
    parts_.server = std::make_unique<ServerWriter>(environment, options_, model, parts_.host.vocabulary);
  else if (online.use_vllm)
    look_for_server(environment, options_.config);
  // A loss that compares tokens tells how far generation with rounded values is from training.
  const bool tells_gap = !options_.arguments.method->compares_distributions &&
                         (!spec_.generator.weights.empty() || spec_.generator.int8_cache);
  const auto sampling = [&](config::Completions which) {
    RequestOptions request = trainer_request(options_.config, *parts_.tokenizer, which);
    parts_.stops[which == config::Completions::of_training ? "train" : "eval"] = request.stops;
    engine::Sampling& own = request.sampling;
    own.log_probabilities = online.corrects_sampling || !online.record_rollouts.empty() ||
                            (online.use_vllm && online.off_policy_mask_threshold) ||
                            options_.arguments.generation_exact || tells_gap;
    if (request.own_ends) own.own_end_ids = ends;
    config::with_entry_names(options_.config, "generation_kwargs", [&] {
      engine::ErrorCapture error;
      error.check(environment.use_engine(Use::open, [&] { return model.check_sampling(own, error); }));
    });
    if (parts_.server) {
      const auto n = static_cast<size_t>(config::completions_of_prompt(options_.config, which));
      const bool trains = which == config::Completions::of_training;
      parts_.server->set(trains ? "train" : "eval", {request, n, parts_.apart});
    }
    return own;
  };
  spec_.train = &train_;
  spec_.eval = eval_ ? &*eval_ : nullptr;
  spec_.sampling = sampling(config::Completions::of_training);
  if (eval_) spec_.eval_sampling = sampling(config::Completions::of_evaluation);
  spec_.end_ids = ends;
  for (const auto* const own : {&spec_.sampling.eos_ids, &spec_.sampling.stop_ids})  // generation_kwargs
    spec_.end_ids.insert(spec_.end_ids.end(), own->begin(), own->end());
  const text::Tokenizer& tokenizer = parts_.tokenizer->get();
  const auto pad = tokenizer.special_id(tokenizer.special().pad);
  if (pad && options_.arguments.method->pad_ends) spec_.end_ids.push_back(*pad);
  spec_.continues = parts_.tools != nullptr;
  if (parts_.tools)
    parts_.tools->set_model(named_positions(base::parse_json(model.config_json(), "config.json")), ends);
  return spec_;
}

}  // namespace trl::run
