package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Pointer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import libtrl.Constants.OptionType;

/** A key of a configuration, as the library describes it. Where a trainer can be named, null stands for the table's own. */
public final class Option {
  /** The table of options, read once. */
  private static final class Table {
    static final List<Option> ALL = new ArrayList<>();
    static final Map<String, Option> NAMES = new LinkedHashMap<>();

    static {
      for (Pointer option = lib().trl_option_next(null); option != null; option = lib().trl_option_next(option)) {
        ALL.add(new Option(option));
      }
      for (Option option : ALL) option.aliases().forEach(name -> NAMES.put(name, option));
      for (Option option : ALL) NAMES.put(option.name(), option);
    }
  }

  private final Pointer pointer;

  private Option(Pointer pointer) {
    this.pointer = pointer;
  }

  /** Every option. */
  public static List<Option> all() {
    return List.copyOf(Table.ALL);
  }

  /** The option of a name, or of an older one; null if there is none. */
  public static Option of(String name) {
    return Table.NAMES.get(name);
  }

  private static List<String> listed(Pointer names) {
    String text = Call.copy(names);
    return text.isEmpty() ? List.of() : Arrays.stream(text.split(",")).map(String::strip).toList();
  }

  private String of(String trainer, BiFunction<Pointer, Pointer, Pointer> function) {
    try (Call call = new Call()) {
      return Call.copyOrNull(function.apply(pointer, call.text(trainer)));
    }
  }

  public String name() {
    return Call.copy(lib().trl_option_name(pointer));
  }

  public String section() {
    return Call.copy(lib().trl_option_section(pointer));
  }

  public String group() {
    return Call.copy(lib().trl_option_group(pointer));
  }

  /** "trl" or "ours". */
  public String origin() {
    return Call.copy(lib().trl_option_origin(pointer));
  }

  /** One of Constants.OptionType, or a number that a later version adds; -1 for a trainer that lacks the option. */
  public int type(String trainer) {
    try (Call call = new Call()) {
      return lib().trl_option_type(pointer, call.text(trainer));
    }
  }

  public int type() {
    return type(null);
  }

  public boolean nullable() {
    return lib().trl_option_nullable(pointer) == 1;
  }

  /** The default as canonical text; null for a trainer that lacks the option. */
  public String defaultText(String trainer) {
    return of(trainer, lib()::trl_option_default);
  }

  public String defaultText() {
    return defaultText(null);
  }

  /** The values that it takes within its type; "" for any, null for a trainer that lacks the option. */
  public String accepted(String trainer) {
    return of(trainer, lib()::trl_option_accepted);
  }

  public String accepted() {
    return accepted(null);
  }

  /** Its meaning; null for a trainer that lacks the option. */
  public String doc(String trainer) {
    return of(trainer, lib()::trl_option_doc);
  }

  public String doc() {
    return doc(null);
  }

  public List<String> trainers() {
    return listed(lib().trl_option_trainers(pointer));
  }

  /** Older names, which are understood. */
  public List<String> aliases() {
    return listed(lib().trl_option_aliases(pointer));
  }

  /** Names that other tools have for it, which are not accepted. */
  public List<String> otherNames() {
    return listed(lib().trl_option_other_names(pointer));
  }

  public String since() {
    return Call.copy(lib().trl_option_since(pointer));
  }

  public String unsupportedReason() {
    return Call.copy(lib().trl_option_unsupported_reason(pointer));
  }

  public String ignoredReason() {
    return Call.copy(lib().trl_option_ignored_reason(pointer));
  }

  public String taken() {
    return Call.copy(lib().trl_option_taken(pointer));
  }

  /** The value of Java of a canonical text, as Json has it; a text, too, where that is not JSON (auto). */
  public Object value(String text) {
    if (text.equals("null")) return null;
    int type = type();
    if (type == OptionType.TEXT || type == OptionType.CHOICE && !text.startsWith("[")) return text;
    try {
      Object value = Json.parse(text);
      return type == OptionType.NUMBER && value instanceof Number number ? (Object) number.doubleValue() : value;
    } catch (IllegalArgumentException error) {
      return text;
    }
  }

  @Override
  public String toString() {
    return name();
  }
}
