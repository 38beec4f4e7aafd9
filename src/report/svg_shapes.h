// Writes the shapes of a picture as SVG. kind: classes of the picture's style.
#pragma once
#include <string>
#include <string_view>

namespace trl::report {

// The position of a part of a picture.
struct Frame {
  double x = 0, y = 0, width = 0, height = 0;
};

namespace svg {

std::string text(double x, double y, std::string_view kind, std::string_view words);
std::string heading(double x, double y, std::string_view words, std::string_view more);
std::string line(std::string_view kind, double x1, double y1, double x2, double y2);
// title: shown under the pointer; empty: none.
std::string box(std::string_view kind, double x, double y, double width, double height,
                std::string_view title);

}  // namespace svg

}  // namespace trl::report
