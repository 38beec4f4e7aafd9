// The options generate.*, or a trainer's own, as a request: how tokens are chosen, and what ends a
// completion.
#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"
#include "config/config.h"
#include "config/generation/trainer_generation.h"
#include "run/complete/requests.h"
#include "run/tokenizer.h"

namespace trl::run {

// Returns the number of completions of each prompt. Throws Error(invalid_config) if greedy ones would be
// equal.
int64_t completions_of(const config::Config& options);

// Reads how tokens are chosen and what ends a completion. The count stays 1. Throws Error(invalid_config) for
// values that are not token ids or not numbers, for bad words that the tokenizer gives no token, for stop
// texts without characters, and what Constraints::of throws.
RequestOptions request_options(const config::Config& options, const Tokenizer& tokenizer);

// Does the same with the keys of the configuration's method (config::trainer_generation), for all completions
// of a prompt. In training each token has its log-probability. The stream is left to the caller. Throws what
// trainer_generation throws, and an Error for stop_token: eos if the tokenizer has no end token.
RequestOptions trainer_request(const config::Config& options, const Tokenizer& tokenizer,
                               config::Completions which);

// Runs body, and reports the engine's error about a member of Sampling under the name of its option. What is
// not found is the adapter.
template <class Body>
void with_option_names(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    const bool adapter = error.status() == Status::not_found && error.key().empty();
    if (adapter) throw error.with("generate.adapter: " + error.message(), "generate.adapter");
    const std::string name = "generate." + error.key();
    if (error.key().empty() || config::find_option(name) == nullptr) throw;
    throw error.with("generate." + error.message(), name);
  }
}

}  // namespace trl::run
