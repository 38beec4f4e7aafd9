// The widths and the style of the picture of a length profile. Colours are written out, once for light and
// once for dark, since a picture in a page has no access to variables of that page.
#pragma once
#include <string_view>

namespace trl::report {

inline constexpr double kFigureWidth = 960, kFigureEdge = 32;
inline constexpr double kFigureInner = kFigureWidth - 2 * kFigureEdge;

inline constexpr std::string_view kFigureStyle = R"css(
.lengths { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.lengths text { font-size: 13px; fill: #5b6577; font-variant-numeric: tabular-nums; }
.lengths .page { fill: #ffffff; stroke: #e3e7ee; }
.lengths .title { font-size: 22px; font-weight: 700; fill: #161c27; }
.lengths .head { font-size: 14px; font-weight: 600; fill: #161c27; }
.lengths .unit { font-weight: 400; fill: #5b6577; }
.lengths .strong { font-weight: 600; fill: #161c27; }
.lengths .small { font-size: 12px; }
.lengths .end { text-anchor: end; }
.lengths .mid { text-anchor: middle; }
.lengths .rule { stroke: #e3e7ee; }
.lengths .axis { stroke: #98a2b3; }
.lengths .mark { stroke: #161c27; stroke-dasharray: 2 3; }
.lengths .bar, .lengths .tokens { fill: #3b78e7; }
.lengths .other { fill: #8fb4f5; }
.lengths .beyond { fill: #c3cad6; }
.lengths .padding { fill: #f5b14c; }
.lengths .lost { fill: #d43f52; }
.lengths .track { fill: #f0f2f6; }
@media (prefers-color-scheme: dark) {
.lengths text { fill: #9aa5b8; }
.lengths .page { fill: #161a21; stroke: #2b323d; }
.lengths .title, .lengths .head, .lengths .strong { fill: #e8ebf1; }
.lengths .unit { fill: #9aa5b8; }
.lengths .rule { stroke: #2b323d; }
.lengths .axis { stroke: #667085; }
.lengths .mark { stroke: #e8ebf1; }
.lengths .bar, .lengths .tokens { fill: #6c9ef8; }
.lengths .other { fill: #4a6fb5; }
.lengths .beyond { fill: #4a5464; }
.lengths .padding { fill: #e0993a; }
.lengths .lost { fill: #e8596b; }
.lengths .track { fill: #222832; }
}
)css";

}  // namespace trl::report
