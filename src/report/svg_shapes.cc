#include "report/svg_shapes.h"

#include <fmt/format.h>

#include "report/chart.h"

namespace trl::report::svg {

std::string text(double x, double y, std::string_view kind, std::string_view words) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kind, x, y,
                     html_text(words));
}

std::string heading(double x, double y, std::string_view words, std::string_view more) {
  return fmt::format(
      "<text class=\"head\" x=\"{:.1f}\" y=\"{:.1f}\">{} <tspan class=\"unit\">{}</tspan></text>\n", x, y,
      html_text(words), html_text(more));
}

std::string line(std::string_view kind, double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind,
                     x1, y1, x2, y2);
}

std::string box(std::string_view kind, double x, double y, double width, double height,
                std::string_view title) {
  const std::string shape =
      fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"", kind, x,
                  y, width, height);
  return title.empty() ? shape + "/>\n"
                       : fmt::format("{}><title>{}</title></rect>\n", shape, html_text(title));
}

}  // namespace trl::report::svg
