package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Pointer;
import java.util.Map;

/** What happens in a run: a kind and numbers. */
public final class Event {
  private final int kind;
  private final Map<String, Double> metrics;
  private volatile Pointer pointer;

  Event(int kind, Pointer pointer) {
    this.kind = kind;
    this.pointer = pointer;
    try (Call call = new Call()) {
      metrics = call.metrics(pointer);
    }
  }

  /** One of Constants.EventKind, or a number that a later version adds. */
  public int kind() {
    return kind;
  }

  public Map<String, Double> metrics() {
    return metrics;
  }

  /** A number that the event has; a NullPointerException if it does not. */
  public double metric(String name) {
    return metrics.get(name);
  }

  /** A text, such as the path of a save, or null; only while the function that got the event runs. */
  public String text(String name) {
    if (pointer == null) throw new IllegalStateException("an event has texts only while the function that got it runs");
    try (Call call = new Call()) {
      return Call.copyOrNull(lib().trl_metrics_text(pointer, call.text(name)));
    }
  }

  void end() {
    pointer = null;
  }

  @Override
  public String toString() {
    return "Event " + kind + " " + metrics;
  }
}
