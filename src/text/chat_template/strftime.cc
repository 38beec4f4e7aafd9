// Directives as glibc's C locale writes them, with its "-" (no padding), "_" and "0" flags.
#include "text/chat_template/strftime.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace trl::text::jinja {

namespace {

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                      "May",       "June",     "July",     "August",
                                                      "September", "October",  "November", "December"};

struct Moment {
  int64_t seconds;
  int64_t year;
  int month, day, weekday, yearday;  // month 1-12, weekday 0 = Sunday, yearday 0-365
  int hour, minute, second;
};

Moment moment_of(int64_t unix_seconds) {
  using namespace std::chrono;
  // The proleptic Gregorian years 1 to 9999, as in datetime.
  const int64_t kept = std::min<int64_t>(std::max<int64_t>(unix_seconds, -62135596800), 253402300799);
  const sys_seconds when{seconds{kept}};
  const auto midnight = floor<days>(when);
  const year_month_day date{midnight};
  const hh_mm_ss time{when - midnight};
  const sys_days new_year = date.year() / January / 1;
  return {kept,
          static_cast<int>(date.year()),
          static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(static_cast<unsigned>(date.day())),
          static_cast<int>(weekday{midnight}.c_encoding()),
          static_cast<int>((midnight - new_year).count()),
          static_cast<int>(time.hours().count()),
          static_cast<int>(time.minutes().count()),
          static_cast<int>(time.seconds().count())};
}

std::string number(int64_t value, int width, char pad, char flag) {
  if (flag == '-') return fmt::format("{}", value);
  if (flag == '_') pad = ' ';
  if (flag == '0') pad = '0';
  return pad == ' ' ? fmt::format("{:{}}", value, width) : fmt::format("{:0{}}", value, width);
}

// Returns the year and week of ISO 8601: week 1 holds the year's first Thursday.
std::pair<int64_t, int> iso_week(const Moment& t) {
  const auto leap = [](int64_t y) { return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0; };
  const int monday = (t.weekday + 6) % 7;
  const int week = (t.yearday - monday + 10) / 7;
  if (week < 1) {
    const int last = t.yearday + (leap(t.year - 1) ? 366 : 365);
    return {t.year - 1, (last - monday + 10) / 7};
  }
  const int length = leap(t.year) ? 366 : 365;
  if (week == 53 && t.yearday - monday + 3 >= length) return {t.year + 1, 1};
  return {t.year, week};
}

// NOLINTNEXTLINE(readability-function-size): a table of directives
std::string directive(const Moment& t, char letter, char flag) {
  const std::string_view day = kDays[static_cast<size_t>(t.weekday)];
  const std::string_view month = kMonths[static_cast<size_t>(t.month - 1)];
  const int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
  const auto two = [&](int64_t value) { return number(value, 2, '0', flag); };
  const auto plain = [&](char c) { return directive(t, c, 0); };
  switch (letter) {
    case 'Y':
      return fmt::format("{}", t.year);
    case 'C':
      return two(t.year / 100);
    case 'y':
      return two(t.year % 100);
    case 'm':
      return two(t.month);
    case 'd':
      return two(t.day);
    case 'e':
      return number(t.day, 2, ' ', flag);
    case 'H':
      return two(t.hour);
    case 'k':
      return number(t.hour, 2, ' ', flag);
    case 'I':
      return two(hour12);
    case 'l':
      return number(hour12, 2, ' ', flag);
    case 'M':
      return two(t.minute);
    case 'S':
      return two(t.second);
    case 'f':
      return "000000";
    case 'j':
      return number(t.yearday + 1, 3, '0', flag);
    case 'U':
      return two((t.yearday + 7 - t.weekday) / 7);
    case 'W':
      return two((t.yearday + 7 - (t.weekday + 6) % 7) / 7);
    case 'V':
      return two(iso_week(t).second);
    case 'G':
      return fmt::format("{}", iso_week(t).first);
    case 'g':
      return two(iso_week(t).first % 100);
    case 'u':
      return fmt::format("{}", t.weekday == 0 ? 7 : t.weekday);
    case 'w':
      return fmt::format("{}", t.weekday);
    case 'A':
      return std::string(day);
    case 'a':
      return std::string(day.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'b':
    case 'h':
      return std::string(month.substr(0, 3));
    case 'p':
      return t.hour < 12 ? "AM" : "PM";
    case 'P':
      return t.hour < 12 ? "am" : "pm";
    case 's':
      return fmt::format("{}", t.seconds);
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    case 'Z':
    case 'z':
      return "";  // a datetime without a zone
    case 'D':
    case 'x':
      return plain('m') + "/" + plain('d') + "/" + plain('y');
    case 'F':
      return plain('Y') + "-" + plain('m') + "-" + plain('d');
    case 'R':
      return plain('H') + ":" + plain('M');
    case 'T':
    case 'X':
      return plain('H') + ":" + plain('M') + ":" + plain('S');
    case 'r':
      return plain('I') + ":" + plain('M') + ":" + plain('S') + " " + plain('p');
    case 'c':
      return plain('a') + " " + plain('b') + " " + plain('e') + " " + plain('T') + " " + plain('Y');
    default:
      return std::string("%") + (flag != 0 ? std::string(1, flag) : "") + letter;
  }
}

}  // namespace

std::string format_time(std::string_view format, int64_t unix_seconds) {
  const Moment t = moment_of(unix_seconds);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    char flag = 0;
    if (const char c = format[i + 1]; (c == '-' || c == '_' || c == '0') && i + 2 < format.size()) {
      flag = c;
      ++i;
    }
    out += directive(t, format[++i], flag);
  }
  return out;
}

}  // namespace trl::text::jinja
