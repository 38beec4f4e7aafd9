// Boost's headers, whose definitions are compiled once, in boost_parts.cc.
#pragma once
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION
// Beast's parser asserts that the last chunk of a body comes after another one: bytes of a client would end
// the process. Without the assertion it reads such a body as any other.
#define BOOST_DISABLE_ASSERTS
#include <utility>  // asio/awaitable.hpp of 1.74 lacks it

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

namespace trl::serve {
namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = net::ip::tcp;
}  // namespace trl::serve
