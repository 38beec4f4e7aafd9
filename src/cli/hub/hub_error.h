// The one way this folder fails: a sentence for the user.
#pragma once
#include <stdexcept>

namespace trl::cli::hub {

struct HubError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The repository exists, but its contents cannot be used.
struct UnfitError : HubError {
  using HubError::HubError;
};

}  // namespace trl::cli::hub
