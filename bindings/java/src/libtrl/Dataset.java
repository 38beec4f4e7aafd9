package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Pointer;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Map;
import libtrl.Constants.Status;

/** Rows. Where a runtime or options can be given, null stands for none. */
public final class Dataset extends Handle {
  /** The rows that a configuration names; evaluation may be null. */
  public record Named(Dataset train, Dataset evaluation) {}

  /** Numbers about the lengths of rows, and a plot as text. */
  public record Profile(Map<String, Object> numbers, String plot) {}

  /** Takes a micro-batch; 0 to continue, a number above 0 to see no more. */
  public interface BatchFunction {
    int batch(Map<String, Object> batch) throws Exception;
  }

  /** Reads rows of the host from their start, as often as it is asked to. */
  private static final class Reader {
    private final Iterable<? extends Map<String, ?>> rows;
    private Iterator<? extends Map<String, ?>> reading;

    Reader(Iterable<? extends Map<String, ?>> rows) {
      this.rows = rows;
    }

    int rewind() {
      Iterator<? extends Map<String, ?>> again = rows.iterator();
      if (again == reading) throw new IllegalStateException("these rows are read again, and this iterator gives them once");
      reading = again;
      return Status.OK;
    }

    int next(Pointer record) {
      if (!reading.hasNext()) return Status.END;
      reading.next().forEach((name, value) -> set(record, name, value));
      return Status.OK;
    }

    private static void set(Pointer record, String name, Object value) {
      if (value instanceof int[] ids) {
        Call.status(c -> lib().trl_record_set_ids(record, c.text(name), c.ints(ids), ids.length, c.error()));
        return;
      }
      boolean text = value instanceof String;
      byte[] bytes = Call.utf8(text ? (String) value : Json.write(value));
      Call.status(c -> text ? lib().trl_record_set_text(record, c.text(name), c.bytes(bytes), bytes.length, c.error())
          : lib().trl_record_set_json(record, c.text(name), c.bytes(bytes), bytes.length, c.error()));
    }
  }

  private static final Abi.trl_next_record_fn NEXT = (user, record) ->
      (int) Functions.<Reader>run(user, Status.E_CALLBACK, reader -> reader.next(record));

  private static final Abi.trl_rewind_fn REWIND = user ->
      (int) Functions.<Reader>run(user, Status.E_CALLBACK, Reader::rewind);

  private static final Abi.trl_batch_fn BATCH = (user, json, size) ->
      (int) Functions.<BatchFunction>run(user, Status.E_CALLBACK, function -> function.batch(batch(Call.copy(json, size))));

  private Dataset(Pointer pointer, Functions functions, TrlRuntime runtime) {
    super(pointer, lib()::trl_dataset_destroy, functions, runtime);
  }

  private static Dataset make(TrlRuntime runtime, Functions functions, Call.Body body) {
    return new Dataset(Call.create(lib()::trl_dataset_destroy, body), functions, runtime);
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> batch(String json) {
    return (Map<String, Object>) Json.parse(json);
  }

  /** The rows of a file, a folder or a glob. */
  public static Dataset open(TrlRuntime runtime, String path, Config options) {
    return make(runtime, new Functions(),
        c -> lib().trl_dataset_open(c.of(runtime), c.text(path), c.of(options), c.out(), c.error()));
  }

  public static Dataset open(Path path) {
    return open(null, path.toString(), null);
  }

  /** The rows that a configuration names, to train on and to evaluate. */
  public static Named open(TrlRuntime runtime, Config config) {
    try (Call call = new Call()) {
      try {
        call.run(c -> lib().trl_dataset_open_config(c.of(runtime), c.of(config), c.out(0), c.out(1), c.error()));
      } catch (Throwable thrown) {
        lib().trl_dataset_destroy(call.pointer(0));
        lib().trl_dataset_destroy(call.pointer(1));
        throw thrown;
      }
      Dataset train = new Dataset(call.pointer(0), new Functions(), runtime);
      return new Named(train, call.pointer(1) == null ? null : new Dataset(call.pointer(1), new Functions(), runtime));
    }
  }

  /** The rows of a file in memory; format is jsonl, json, csv or text. */
  public static Dataset ofBytes(TrlRuntime runtime, String format, byte[] data, Config options) {
    return make(runtime, new Functions(), c -> lib().trl_dataset_from_buffer(c.of(runtime), c.text(format), c.bytes(data),
        data.length, c.of(options), c.out(), c.error()));
  }

  /** Rows in memory, copied now. */
  public static <R extends Map<String, ?>> Dataset ofRows(TrlRuntime runtime, Iterable<R> rows, Config options) {
    StringBuilder lines = new StringBuilder();
    for (Map<String, ?> row : rows) lines.append(Json.write(row)).append('\n');
    return ofBytes(runtime, "jsonl", Call.utf8(lines.toString()), options);
  }

  public static <R extends Map<String, ?>> Dataset ofRows(Iterable<R> rows) {
    return ofRows(null, rows, null);
  }

  /**
   * Rows that are asked for when they are read, more than once. A value is a text, an int[] (token ids, labels), or anything
   * that JSON has.
   */
  public static <R extends Map<String, ?>> Dataset ofIterable(TrlRuntime runtime, Iterable<R> rows, Config options) {
    Functions functions = new Functions();
    Reader reader = new Reader(rows);
    return make(runtime, functions, c -> lib().trl_dataset_from_callback(c.of(runtime), NEXT, REWIND,
        c.keep(functions, reader), Functions.FORGET, c.of(options), c.out(), c.error()));
  }

  public static <R extends Map<String, ?>> Dataset ofIterable(Iterable<R> rows) {
    return ofIterable(null, rows, null);
  }

  /** Rows of an Arrow stream, by the address of its ArrowArrayStream (memoryAddress in Arrow's Java), which is taken over. */
  public static Dataset ofArrow(TrlRuntime runtime, long stream, Config options) {
    return make(runtime, new Functions(), c -> lib().trl_dataset_from_arrow(c.of(runtime), new Pointer(stream),
        c.of(options), c.out(), c.error()));
  }

  /** Reads all rows and counts them. */
  public long rowCount() {
    return Call.number(c -> lib().trl_dataset_get_row_count(c.of(this), c.out(), c.error()));
  }

  /** How long rows are. */
  @SuppressWarnings("unchecked")
  public Profile profile(Tokenizer tokenizer, Config options) {
    try (Call call = new Call()) {
      call.run(c -> lib().trl_dataset_get_profile(c.of(this), c.of(tokenizer), c.of(options), c.out(0), c.out(1), c.error()));
      return new Profile((Map<String, Object>) Json.parse(call.gotten(0)), call.gotten(1));
    }
  }

  /** One row as SFT tokenises it. */
  public Map<String, Object> example(Tokenizer tokenizer, long row, Config options) {
    return Call.object(c ->
        lib().trl_dataset_get_example(c.of(this), c.of(tokenizer), c.of(options), row, c.out(), c.error()));
  }

  /** Gives micro-batches of the first epoch to a function, beginning with one, at most as many as count. */
  public void visitBatches(Tokenizer tokenizer, Config options, long first, long count, BatchFunction function) {
    Call.status(c -> lib().trl_dataset_visit_batches(c.of(this), c.of(tokenizer), c.of(options), first, count, BATCH,
        c.during(function), c.error()));
  }
}
