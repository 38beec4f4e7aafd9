package libtrl;

import static libtrl.Loader.lib;

import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A configuration: a map of the keys that were set to values of their types, as Json has them. Reading a key that was not
 * set gives its default. An unknown key is a TrlException.InvalidConfig that names the one that was meant.
 */
public final class Config extends Handle implements Iterable<Map.Entry<String, Object>> {
  public Config() {
    super(Call.create(lib()::trl_config_destroy, c -> lib().trl_config_create(c.out(), c.error())), lib()::trl_config_destroy);
  }

  public Config(Map<String, ?> values) {
    this();
    try {
      putAll(values);
    } catch (Throwable thrown) {
      close();
      throw thrown;
    }
  }

  /** A configuration of keys and values, by turns. */
  public static Config of(Object... keysAndValues) {
    if (keysAndValues.length % 2 != 0) throw new IllegalArgumentException("a key has no value");
    Config config = new Config();
    try {
      for (int i = 0; i < keysAndValues.length; i += 2) config.put((String) keysAndValues[i], keysAndValues[i + 1]);
    } catch (Throwable thrown) {
      config.close();
      throw thrown;
    }
    return config;
  }

  /** The value of a key, or its default; null if it has none. */
  public Object get(String key) {
    String text = text(key);
    return Option.of(key).value(text);
  }

  /** The canonical text of a value, "null" when there is none. */
  public String text(String key) {
    return Call.ask(c -> lib().trl_config_get(c.of(this), c.text(key), c.out(), c.error()));
  }

  /** Sets a key: a text as it is, everything else as JSON. */
  public Config put(String key, Object value) {
    String text = value instanceof CharSequence || value instanceof Path ? value.toString() : Json.write(value);
    Call.status(c -> lib().trl_config_set(c.of(this), c.text(key), c.text(text), c.error()));
    return this;
  }

  public Config putAll(Map<String, ?> values) {
    values.forEach(this::put);
    return this;
  }

  /** Sets a key back to its default. */
  public Config remove(String key) {
    Call.status(c -> lib().trl_config_unset(c.of(this), c.text(key), c.error()));
    return this;
  }

  /** Where a value comes from: "default", "set", or the place in a file. */
  public String origin(String key) {
    return Call.ask(c -> lib().trl_config_get_origin(c.of(this), c.text(key), c.out(), c.error()));
  }

  /** Sets every key of a YAML or JSON file. */
  public Config load(Path path) {
    Call.status(c -> lib().trl_config_load(c.of(this), c.path(path), c.error()));
    return this;
  }

  /** Sets every key of a YAML or JSON text. */
  public Config loadText(String text) {
    byte[] bytes = Call.utf8(text);
    Call.status(c -> lib().trl_config_load_text(c.of(this), c.bytes(bytes), bytes.length, c.error()));
    return this;
  }

  /** The keys that were set, under their canonical names. */
  public Map<String, Object> toMap() {
    return Call.object(c -> lib().trl_config_describe(c.of(this), c.out(), c.error()));
  }

  public boolean containsKey(String key) {
    return toMap().containsKey(key);
  }

  public Set<String> keySet() {
    return toMap().keySet();
  }

  public int size() {
    return toMap().size();
  }

  @Override
  public Iterator<Map.Entry<String, Object>> iterator() {
    return toMap().entrySet().iterator();
  }

  /** Warnings about the keys that were set. */
  public List<Object> warnings() {
    return Call.list(c -> lib().trl_config_get_warnings(c.of(this), c.out(), c.error()));
  }

  /** A JSON schema of a whole configuration, or of that of one trainer. */
  public static Map<String, Object> schema(String trainer) {
    return Call.object(c -> lib().trl_config_get_schema(c.text(trainer), c.out(), c.error()));
  }

  @Override
  public String toString() {
    return isClosed() ? "Config, closed" : "Config" + toMap();
  }
}
