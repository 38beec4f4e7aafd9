package libtrl;

import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * JSON as values of Java: Map, List, String, Long (or BigInteger), Double, Boolean and null. Other numbers, arrays,
 * Iterables and Paths are written, too.
 */
public final class Json {
  private static final Pattern NUMBER = Pattern.compile("-?(?:0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?");

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /** The value of a JSON text. */
  public static Object parse(String text) {
    Json reader = new Json(text);
    Object value = reader.value();
    reader.space();
    if (reader.at < text.length()) throw reader.wrong("the end");
    return value;
  }

  /** A value as JSON. */
  public static String write(Object value) {
    StringBuilder out = new StringBuilder();
    write(out, value);
    return out.toString();
  }

  private IllegalArgumentException wrong(String expected) {
    return new IllegalArgumentException("this is not JSON at character " + at + ", where " + expected + " is expected");
  }

  private void space() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
  }

  private boolean take(char expected) {
    space();
    if (at >= text.length() || text.charAt(at) != expected) return false;
    at++;
    return true;
  }

  private void need(char expected) {
    if (!take(expected)) throw wrong("'" + expected + "'");
  }

  private Object word(String word, Object value) {
    if (!text.startsWith(word, at)) throw wrong("a value");
    at += word.length();
    return value;
  }

  private Object value() {
    space();
    if (at >= text.length()) throw wrong("a value");
    return switch (text.charAt(at)) {
      case '{' -> object();
      case '[' -> list();
      case '"' -> string();
      case 't' -> word("true", true);
      case 'f' -> word("false", false);
      case 'n' -> word("null", null);
      default -> number();
    };
  }

  private Map<String, Object> object() {
    Map<String, Object> members = new LinkedHashMap<>();
    need('{');
    if (take('}')) return members;
    do {
      space();
      String name = string();
      need(':');
      members.put(name, value());
    } while (take(','));
    need('}');
    return members;
  }

  private List<Object> list() {
    List<Object> items = new ArrayList<>();
    need('[');
    if (take(']')) return items;
    do {
      items.add(value());
    } while (take(','));
    need(']');
    return items;
  }

  private String string() {
    need('"');
    StringBuilder out = new StringBuilder();
    while (at < text.length()) {
      char c = text.charAt(at++);
      if (c == '"') return out.toString();
      if (c < ' ') break;
      if (c != '\\') {
        out.append(c);
        continue;
      }
      if (at >= text.length()) break;
      c = text.charAt(at++);
      int simple = "\"\\/bfnrt".indexOf(c);
      if (simple >= 0) {
        out.append("\"\\/\b\f\n\r\t".charAt(simple));
      } else if (c == 'u' && at + 4 <= text.length() && text.substring(at, at + 4).matches("[0-9a-fA-F]{4}")) {
        out.append((char) Integer.parseInt(text, at, at + 4, 16));
        at += 4;
      } else {
        break;
      }
    }
    throw wrong("the rest of a string");
  }

  private Object number() {
    int start = at;
    while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) at++;
    String digits = text.substring(start, at);
    Matcher number = NUMBER.matcher(digits);
    if (!number.matches()) {
      at = start;
      throw wrong("a value");
    }
    if (number.group(1) != null || number.group(2) != null) return Double.valueOf(digits);
    BigInteger whole = new BigInteger(digits);
    if (whole.bitLength() < 64) return whole.longValue();
    return whole;
  }

  private static void write(StringBuilder out, Object value) {
    if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long || value instanceof Short
        || value instanceof Byte || value instanceof BigInteger || value instanceof BigDecimal) {
      out.append(value);
    } else if (value instanceof Double || value instanceof Float) {
      double number = ((Number) value).doubleValue();
      if (!Double.isFinite(number)) throw new IllegalArgumentException("JSON has no " + number);
      out.append(value);
    } else if (value instanceof CharSequence || value instanceof Path || value instanceof Character) {
      writeString(out, value.toString());
    } else if (value instanceof Map<?, ?> members) {
      String between = "{";
      for (Map.Entry<?, ?> member : members.entrySet()) {
        out.append(between);
        writeString(out, String.valueOf(member.getKey()));
        out.append(": ");
        write(out, member.getValue());
        between = ", ";
      }
      out.append(members.isEmpty() ? "{}" : "}");
    } else if (value instanceof Iterable<?> items) {
      out.append('[');
      String between = "";
      for (Object item : items) {
        out.append(between);
        write(out, item);
        between = ", ";
      }
      out.append(']');
    } else if (value.getClass().isArray()) {
      List<Object> items = new ArrayList<>();
      for (int i = 0; i < Array.getLength(value); i++) items.add(Array.get(value, i));
      write(out, items);
    } else {
      throw new IllegalArgumentException("a " + value.getClass().getName() + " cannot be written as JSON");
    }
  }

  private static void writeString(StringBuilder out, String text) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      int simple = "\"\\\b\f\n\r\t".indexOf(c);
      if (simple >= 0) {
        out.append('\\').append("\"\\bfnrt".charAt(simple));
      } else if (c < ' ') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }
}
