// Which names a browser may reach the server by, and which pages may use it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/message.h"

namespace trl::serve {

// Compares names of HTTP, whose letters may be small or not.
bool same_name(std::string_view a, std::string_view b);

// Returns whether the header Host names a server that listens on loopback: its address, localhost or one of
// `names`. A page whose own name was made to lead here (DNS rebinding) has another one.
bool is_known_host(std::string_view host, std::string_view address, const std::vector<std::string>& names);

// Returns the fields that let a page of the request's Origin use the server; none unless it is one of
// `origins`.
HeaderFields cors_fields(const Request& request, const std::vector<std::string>& origins);

}  // namespace trl::serve
