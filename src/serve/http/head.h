// The head of a request, from what Beast has parsed, and errors of parsing as answers.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "serve/api/error.h"
#include "serve/http/boost.h"
#include "serve/http/message.h"

namespace trl::serve {

// Throws Refusal(400, 431, 501).
Request request_of(const http::request<http::buffer_body>& head);
// Returns what is said about an error of reading; nullopt: nothing, since the client has gone. text: at which
// the parser has stopped.
std::optional<Refusal> refusal_of_head(beast::error_code error, std::string_view text = {});
Refusal too_large(uint64_t bytes, uint64_t limit);
Refusal too_much_held(uint64_t limit);
std::string reason_of(int status);  // "Not Found"

}  // namespace trl::serve
