package libtrl;

import com.sun.jna.Pointer;
import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Functions of the host that an object has given to the library. What the library calls is a function of this class that
 * lives as long as the process; its user_data is a number under which that of the host is found. The table of numbers
 * refers to it weakly: it belongs to the object, so that the garbage collector sees circles through both.
 */
final class Functions {
  /** What a thread is in. */
  static final class Frame {
    int calls; // that run, one within a function of the host of another
    Throwable pending; // thrown by a function of the host within the innermost call
    Exception reward; // thrown by a reward there, whose failure on_reward_error may let pass
  }

  static final class Slot {
    final Object host;
    private final Functions owner; // null: one call

    Slot(Object host, Functions owner) {
      this.host = host;
      this.owner = owner;
    }
  }

  interface Body<F> {
    long run(F host) throws Exception;
  }

  static final ThreadLocal<Frame> FRAME = ThreadLocal.withInitial(Frame::new);
  private static final Map<Long, WeakReference<Slot>> TABLE = new ConcurrentHashMap<>();
  private static final AtomicLong NUMBERS = new AtomicLong();

  /** Frees a function of the host. */
  static final Abi.trl_destroy_fn FORGET = user -> forget(Pointer.nativeValue(user));

  private final Set<Slot> kept = ConcurrentHashMap.newKeySet();

  static long enter(Slot slot) {
    long number = NUMBERS.incrementAndGet();
    TABLE.put(number, new WeakReference<>(slot));
    if (slot.owner != null) slot.owner.kept.add(slot);
    return number;
  }

  static void forget(long number) {
    WeakReference<Slot> reference = TABLE.remove(number);
    Slot slot = reference == null ? null : reference.get();
    if (slot != null && slot.owner != null) slot.owner.kept.remove(slot);
  }

  /** How many functions the library may call. */
  static int count() {
    return TABLE.size();
  }

  /**
   * Runs a function of the host. What it throws is thrown again when the call of the library returns; until then no
   * other function of the host runs in it. If an object that is freed calls, there is no such call.
   */
  @SuppressWarnings("unchecked")
  static <F> long run(Pointer user, long failed, Body<F> body) {
    Frame frame = FRAME.get();
    try {
      WeakReference<Slot> reference = TABLE.get(Pointer.nativeValue(user));
      Slot slot = reference == null ? null : reference.get();
      if (frame.pending != null || slot == null) return failed;
      return body.run((F) slot.host);
    } catch (Throwable thrown) {
      if (frame.calls > 0) {
        frame.pending = thrown;
      } else {
        Thread thread = Thread.currentThread();
        thread.getUncaughtExceptionHandler().uncaughtException(thread, thrown);
      }
      return failed;
    }
  }

  /** Throws what a function of the host has thrown, which may be a checked exception. */
  @SuppressWarnings("unchecked")
  static <T extends Throwable> RuntimeException again(Throwable thrown) throws T {
    throw (T) thrown;
  }
}
