package libtrl;

import static libtrl.Loader.lib;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import java.nio.CharBuffer;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import libtrl.Constants.Status;

/** One call of the library: what is given to it, what it gives, and what it fails with. */
final class Call implements AutoCloseable {
  interface Body {
    int run(Call call);
  }

  private static final int CELLS = 6;

  private final Memory cells = memory(CELLS * 8L); // the first one is for the error
  private final List<Memory> memories = new ArrayList<>();
  private final List<Handle> handles = new ArrayList<>();
  private final List<Functions.Slot> slots = new ArrayList<>(); // reachable during the call
  private final List<Long> numbers = new ArrayList<>(); // of functions of this call alone
  private final List<Long> given = new ArrayList<>(); // of functions that are the library's from the call on

  Call() {
    cells.clear();
  }

  // ---- what is given ----

  /** The address of an object, which stays alive during the call; NULL for none. */
  Pointer of(Handle handle) {
    if (handle == null) return null;
    Pointer pointer = handle.acquire();
    handles.add(handle);
    return pointer;
  }

  /** Keys, paths and values, which end in NUL; NULL for none. */
  Pointer text(String text) {
    if (text == null) return null;
    if (text.indexOf(0) >= 0) throw new IllegalArgumentException("a text has a NUL character: " + text.replace("\0", "\\0"));
    byte[] bytes = utf8(text);
    Memory memory = room(bytes.length + 1L);
    memory.write(0, bytes, 0, bytes.length);
    memory.setByte(bytes.length, (byte) 0);
    return memory;
  }

  Pointer path(Path path) {
    return path == null ? null : text(path.toString());
  }

  /** Bytes whose number is given, too. */
  Pointer bytes(byte[] bytes) {
    Memory memory = room(bytes.length);
    memory.write(0, bytes, 0, bytes.length);
    return memory;
  }

  Pointer ints(int[] values) {
    Memory memory = room(4L * values.length);
    memory.write(0, values, 0, values.length);
    return memory;
  }

  Pointer floats(float[] values) {
    if (values == null) return null;
    Memory memory = room(4L * values.length);
    memory.write(0, values, 0, values.length);
    return memory;
  }

  /** Several texts, and their sizes in the order in which they are wanted. */
  Pointer texts(List<byte[]> texts) {
    Memory memory = room(8L * texts.size());
    for (int i = 0; i < texts.size(); i++) memory.setPointer(8L * i, bytes(texts.get(i)));
    return memory;
  }

  Pointer sizes(List<byte[]> texts) {
    Memory memory = room(8L * texts.size());
    for (int i = 0; i < texts.size(); i++) memory.setLong(8L * i, texts.get(i).length);
    return memory;
  }

  /** Memory that is freed after the call. */
  Memory room(long size) {
    Memory memory = memory(size);
    memories.add(memory);
    return memory;
  }

  /** The user_data of a function of the host that is called during this call only. */
  Pointer during(Object host) {
    return enter(new Functions.Slot(host, null), numbers);
  }

  /** The user_data of a function of the host that the library keeps until it frees it, and its owner as long as it lives. */
  Pointer keep(Functions owner, Object host) {
    return enter(new Functions.Slot(host, owner), given);
  }

  private Pointer enter(Functions.Slot slot, List<Long> list) {
    long number = Functions.enter(slot);
    slots.add(slot);
    list.add(number);
    return new Pointer(number);
  }

  // ---- what the library gives ----

  Pointer error() {
    return cells;
  }

  /** Where the library puts what it gives. */
  Pointer out(int index) {
    return cells.share(8L * (index + 1));
  }

  Pointer out() {
    return out(0);
  }

  Pointer pointer(int index) {
    return out(index).getPointer(0);
  }

  long number(int index) {
    return out(index).getLong(0);
  }

  /** A copy of a text. */
  String gotten(int index) {
    return copy(pointer(index));
  }

  // ---- the call ----

  int run(Body body) {
    Functions.Frame frame = Functions.FRAME.get();
    int status;
    Exception outer = frame.reward, reward;
    frame.reward = null;
    frame.calls++;
    try {
      status = body.run(this);
    } catch (Throwable thrown) { // before the library was called
      given.forEach(Functions::forget);
      throw thrown;
    } finally {
      frame.calls--;
      reward = frame.reward;
      frame.reward = outer;
    }
    Throwable pending = frame.pending;
    frame.pending = null;
    Pointer error = cells.getPointer(0);
    try {
      if (pending == null && status == Constants.Status.E_CALLBACK && lib().trl_error_callback_code(error) == 0) pending = reward;
      if (pending != null) throw Functions.<RuntimeException>again(pending);
      if (status < 0) throw TrlException.of(status, error);
    } finally {
      if (error != null) lib().trl_error_destroy(error);
    }
    return status;
  }

  @Override
  public void close() {
    numbers.forEach(Functions::forget);
    handles.forEach(Handle::release);
    memories.forEach(Memory::close);
    cells.close();
    java.lang.ref.Reference.reachabilityFence(slots);
  }

  /** Calls a function that gives a status. */
  static int status(Body body) {
    try (Call call = new Call()) {
      return call.run(body);
    }
  }

  /** A copy of the text that a function gives. */
  static String ask(Body body) {
    try (Call call = new Call()) {
      call.run(body);
      return call.gotten(0);
    }
  }

  static Object json(Body body) {
    return Json.parse(ask(body));
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> object(Body body) {
    return (Map<String, Object>) json(body);
  }

  @SuppressWarnings("unchecked")
  static List<Object> list(Body body) {
    return (List<Object>) json(body);
  }

  static long number(Body body) {
    try (Call call = new Call()) {
      call.run(body);
      return call.number(0);
    }
  }

  /** A copy of the metrics that a function gives; null if nothing more comes. */
  static Map<String, Double> metrics(Body body) {
    try (Call call = new Call()) {
      return call.run(body) == Status.END ? null : call.metrics(call.pointer(0));
    }
  }

  /** The object that a function makes. */
  static Pointer create(Consumer<Pointer> destroy, Body body) {
    try (Call call = new Call()) {
      try {
        call.run(body);
      } catch (Throwable thrown) { // of a function of the host, while the call went well
        if (call.pointer(0) != null) destroy.accept(call.pointer(0));
        throw thrown;
      }
      return call.pointer(0);
    }
  }

  Map<String, Double> metrics(Pointer metrics) {
    Map<String, Double> numbers = new LinkedHashMap<>();
    if (metrics == null) return numbers;
    Pointer cell = out(CELLS - 2);
    for (Pointer name = lib().trl_metrics_next(metrics, null); name != null; name = lib().trl_metrics_next(metrics, name)) {
      lib().trl_metrics_get(metrics, name, cell);
      numbers.put(copy(name), cell.getDouble(0));
    }
    return numbers;
  }

  // ---- texts ----

  /** UTF-8 without the replacements of String.getBytes. */
  static byte[] utf8(String text) {
    try {
      ByteBuffer buffer = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
      byte[] bytes = new byte[buffer.remaining()];
      buffer.get(bytes);
      return bytes;
    } catch (CharacterCodingException error) {
      throw new IllegalArgumentException("a text has half of a surrogate pair", error);
    }
  }

  /** A copy of a text that ends in NUL; "" for NULL. */
  static String copy(Pointer text) {
    return text == null ? "" : text.getString(0, "UTF-8");
  }

  static String copyOrNull(Pointer text) {
    return text == null ? null : copy(text);
  }

  static String copy(Pointer text, long size) {
    return text == null || size == 0 ? "" : new String(text.getByteArray(0, Math.toIntExact(size)), StandardCharsets.UTF_8);
  }

  private static Memory memory(long size) {
    return new Memory(Math.max(size, 1)); // JNA makes none without a byte
  }
}
