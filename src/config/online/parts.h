// The parts of online_arguments().
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/online/online_arguments.h"

namespace trl::config {

// Throws Error(invalid_config) for an element of a list that is not a finite number.
std::vector<double> finite_numbers(const Config& config, std::string_view key);

// Reads the sizes. Throws Error(invalid_config) if they do not divide each other, with the nearest that do.
void read_online_sizes(const Config& config, OnlineArguments& out);

void read_online_rewards(const Config& config, OnlineArguments& out);

// Reads the tools. Throws Error(invalid_config) for a schema without a name.
void read_online_tools(const Config& config, OnlineArguments& out);

// Reads the loss of GRPO and RLOO; the sizes must have been read.
void read_online_policy(const Config& config, OnlineArguments& out);

// Returns the address of a server: vllm_server_base_url, or by vllm_server_host and vllm_server_port. Throws
// Error(invalid_config).
std::string server_url(const Config& config);
// Reads vllm_mode: server; the loss and the tools must have been read.
void read_online_server(const Config& config, OnlineArguments& out);

// Adds lines for the log at the start of a run.
void add_online_statements(const Config& config, std::vector<std::string>& lines);

}  // namespace trl::config
