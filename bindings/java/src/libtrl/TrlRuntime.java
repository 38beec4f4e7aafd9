package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Pointer;
import java.io.FileNotFoundException;
import java.nio.ByteBuffer;
import java.nio.file.NoSuchFileException;
import java.util.Map;
import libtrl.Constants.Status;
import libtrl.Constants.WriteKind;

/** The threads, memory limit, log, progress and mounted files of what is made with it. Everything also works without one. */
public final class TrlRuntime extends Handle {
  /** Takes a log line. Within it, nothing of the library may be used. */
  public interface LogFunction {
    void log(int level, String component, String text) throws Exception;
  }

  /** Hears of calls that open, make or save something; Constants.Progress.STOP ends the call with TrlException.Cancelled. */
  public interface ProgressFunction {
    int progress(String phase, long done, long total) throws Exception;
  }

  /** Reads files. Throws NoSuchFileException or FileNotFoundException where there is none. */
  public interface Reader {
    long size(String file) throws Exception;

    /** Puts what the file has from offset on into a buffer, which is valid during the call; nothing at the end of the file. */
    void read(String file, long offset, ByteBuffer into) throws Exception;
  }

  /** Takes what is saved: what is one of Constants.WriteKind; data is valid during the call, and null except for DATA. */
  public interface Writer {
    void write(int what, String file, long offset, ByteBuffer data) throws Exception;
  }

  /** The bytes that large buffers hold now and held at most. */
  public record Memory(long now, long peak) {}

  private record Mount(Reader reader, Writer writer) {}

  private static final int CHUNK = 1 << 30; // a buffer of Java has an int for its size

  private static final Abi.trl_log_fn LOG = (user, level, component, text, size) ->
      Functions.<LogFunction>run(user, 0, function -> {
        function.log(level, Call.copy(component), Call.copy(text, size));
        return 0;
      });

  private static final Abi.trl_progress_fn PROGRESS = (user, phase, done, total) ->
      (int) Functions.<ProgressFunction>run(user, Status.E_CALLBACK, function ->
          function.progress(Call.copy(phase), done, total));

  private static final Abi.trl_read_fn READ = (user, file, offset, buffer, size) ->
      Functions.<Mount>run(user, Status.E_CALLBACK, mount -> read(mount.reader(), Call.copy(file), offset, buffer, size));

  private static final Abi.trl_write_fn WRITE = (user, what, file, offset, data, size) ->
      (int) Functions.<Mount>run(user, Status.E_CALLBACK, mount -> {
        write(mount.writer(), what, Call.copy(file), offset, data, size);
        return Status.OK;
      });

  public TrlRuntime() {
    this(null);
  }

  public TrlRuntime(Config config) {
    super(Call.create(lib()::trl_runtime_destroy, c -> lib().trl_runtime_create(c.of(config), c.out(), c.error())),
        lib()::trl_runtime_destroy);
  }

  private static long read(Reader reader, String file, long offset, Pointer buffer, long size) throws Exception {
    try {
      if (buffer == null) return reader.size(file);
      long done = 0;
      while (done < size) {
        ByteBuffer into = buffer.getByteBuffer(done, Math.min(size - done, CHUNK));
        reader.read(file, offset + done, into);
        if (into.position() == 0) break;
        done += into.position();
      }
      return done;
    } catch (NoSuchFileException | FileNotFoundException error) {
      return Status.E_NOT_FOUND;
    }
  }

  private static void write(Writer writer, int what, String file, long offset, Pointer data, long size) throws Exception {
    if (what != WriteKind.DATA || size == 0) {
      writer.write(what, file, offset, what == WriteKind.DATA ? ByteBuffer.allocate(0) : null);
      return;
    }
    for (long done = 0; done < size; done += CHUNK) {
      ByteBuffer part = data.getByteBuffer(done, Math.min(size - done, CHUNK)).asReadOnlyBuffer();
      writer.write(what, file, offset + done, part);
    }
  }

  /** Sends log lines to a function; null: nowhere. */
  public void setLog(LogFunction function) {
    Call.status(c -> function == null ? lib().trl_runtime_set_log(c.of(this), null, null, null, c.error())
        : lib().trl_runtime_set_log(c.of(this), LOG, c.keep(functions, function), Functions.FORGET, c.error()));
  }

  /** Tells a function the progress of calls; null: none. */
  public void setProgress(ProgressFunction function) {
    Call.status(c -> function == null ? lib().trl_runtime_set_progress(c.of(this), null, null, null, c.error())
        : lib().trl_runtime_set_progress(c.of(this), PROGRESS, c.keep(functions, function), Functions.FORGET, c.error()));
  }

  /**
   * Makes "host://NAME" the path of a folder whose files a reader gives and a writer takes, as long as this runtime lives,
   * and what was made with it. Either may be null.
   */
  public void mount(String name, Reader reader, Writer writer) {
    Mount mount = new Mount(reader, writer);
    Call.status(c -> lib().trl_runtime_mount(c.of(this), c.text(name), reader == null ? null : READ,
        writer == null ? null : WRITE, c.keep(functions, mount), Functions.FORGET, c.error()));
  }

  /** Sets the limit of the process for large buffers, in bytes; 0: none. */
  public void setMemoryLimit(long bytes) {
    Call.status(c -> lib().trl_runtime_set_memory_limit(c.of(this), bytes, c.error()));
  }

  /** The bytes of large buffers of a kind; null: of all. */
  public Memory memory(String kind) {
    try (Call call = new Call()) {
      call.run(c -> lib().trl_runtime_memory(c.of(this), c.text(kind), c.out(0), c.out(1), c.error()));
      return new Memory(call.number(0), call.number(1));
    }
  }

  /** Describes the runtime and the engine, which it opens. */
  public Map<String, Object> describe() {
    return Call.object(c -> lib().trl_runtime_describe(c.of(this), c.out(), c.error()));
  }

  /** Ends the calls that are in progress on this runtime, from any thread. */
  public void cancel() {
    try (Call call = new Call()) {
      lib().trl_runtime_cancel(call.of(this));
    }
  }
}
