// The hub's settings in the environment, by the names and defaults of huggingface_hub.
#pragma once
#include <stdexcept>
#include <string>

namespace trl::cli::hub {

struct Settings {
  std::string endpoint;      // HF_ENDPOINT, without a slash at its end
  std::string cache;         // HF_HUB_CACHE, or hub in HF_HOME
  std::string token;         // HF_TOKEN, or the content of the file HF_TOKEN_PATH; may be empty
  std::string token_origin;  // the place where the token was found, for messages
  std::string off;           // the reason why the network is not used; empty: it is used
  std::string why;           // the text before "waiting for ..." in the log
};

// Returns the settings of this process. hub: the value of --hub, or empty: the value of the variable TRL_HUB.
// Throws HubError for a value that is not accepted.
Settings settings(const std::string& hub);

// The one way this folder fails: a sentence for the user.
struct HubError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The repository exists, but its contents cannot be used.
struct UnfitError : HubError {
  using HubError::HubError;
};

}  // namespace trl::cli::hub
