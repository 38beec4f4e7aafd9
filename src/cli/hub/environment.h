// What the environment says about the hub, by the names and defaults of huggingface_hub.
#pragma once
#include <string>

namespace trl::cli::hub {

struct Settings {
  std::string endpoint;      // HF_ENDPOINT, without a slash at its end
  std::string cache;         // HF_HUB_CACHE, or hub in HF_HOME
  std::string token;         // HF_TOKEN, or what the file of HF_TOKEN_PATH holds; may be empty
  std::string token_origin;  // where the token was found, for messages
  std::string off;           // why the network is not used; empty: it is
  std::string why;           // what comes before "waiting for ..." in the log
};

// The settings of this process. hub: the value of --hub, or empty: that of the variable TRL_HUB. Throws
// HubError for a value that is not accepted.
Settings settings(const std::string& hub);

}  // namespace trl::cli::hub
