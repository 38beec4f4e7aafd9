// Clients of a server, in a process of their own: many streams read by one thread.
#pragma once
#include "support/runs.h"

namespace trl::bench {

// A connection to a port of this machine. Throws.
int connect_to(int port);
std::string http_request(const std::string& path, const std::string& json);
// Returns the body of a short answer to GET. Throws.
std::string get_body(int port, const std::string& path);

// work: port, path and bodies, one for each stream; all are sent at once. Returns seconds until the last one
// ended, tokens by the usage that the server tells (events, if it tells none), events, and of all streams the
// seconds to the first event (`first`) and between two (`between`). Throws if one is not answered whole.
Json read_streams(const Json& work);

}  // namespace trl::bench
