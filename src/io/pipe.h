// Files that can be read only once.
#pragma once
#include <memory>
#include <string>

#include "io/stream.h"

namespace trl::io {

// Waits for a writer and for its output; both can be interrupted. The stream can be rewound after its first
// few bytes, as long as no more of it was read.
std::unique_ptr<SeekableStream> open_pipe(const std::string& path);

[[noreturn]] void fail_to_open(const std::string& path);  // for the reason in errno

}  // namespace trl::io
