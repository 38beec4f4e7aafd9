// The sources of each format of files.
#pragma once
#include <memory>

#include "data/source.h"
#include "io/stream.h"

namespace trl::data {

std::unique_ptr<Source> json_source(std::unique_ptr<io::ByteStream> stream);  // JSON Lines, or one JSON array
std::unique_ptr<Source> csv_source(std::unique_ptr<io::ByteStream> stream, char delimiter);
std::unique_ptr<Source> text_source(std::unique_ptr<io::ByteStream> stream);

}  // namespace trl::data
