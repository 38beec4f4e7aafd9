package libtrl;

import com.sun.jna.Pointer;
import java.lang.ref.Cleaner;
import java.util.function.Consumer;

/**
 * Owns an object of the library: until close, the end of a try, or the last reference. Objects that were made with it
 * continue to work, and any order of closing is right. If a call uses the object, it is freed when that is over.
 */
public abstract class Handle implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  /** What is left of an object when it is freed; knows nothing of the functions of the host that it may call. */
  private static final class State implements Runnable {
    private final Pointer pointer;
    private final Consumer<Pointer> destroy;
    private int users;
    private boolean closed;

    State(Pointer pointer, Consumer<Pointer> destroy) {
      this.pointer = pointer;
      this.destroy = destroy;
    }

    synchronized boolean acquire() {
      if (!closed) users++;
      return !closed;
    }

    void release() {
      synchronized (this) {
        users--;
        if (!closed || users > 0) return;
      }
      destroy.accept(pointer);
    }

    @Override
    public void run() {
      synchronized (this) {
        closed = true;
        if (users > 0) return;
      }
      destroy.accept(pointer);
    }
  }

  final Functions functions;
  private final State state;
  private final Handle[] parents; // what the library keeps alive for this object: it may have functions of the host
  private final Cleaner.Cleanable cleanable;

  Handle(Pointer pointer, Consumer<Pointer> destroy, Functions functions, Handle... parents) {
    this.functions = functions;
    this.parents = parents;
    state = new State(pointer, destroy);
    cleanable = CLEANER.register(this, state);
  }

  Handle(Pointer pointer, Consumer<Pointer> destroy, Handle... parents) {
    this(pointer, destroy, new Functions(), parents);
  }

  /** Frees the object. */
  @Override
  public void close() {
    synchronized (state) {
      if (!state.closed && state.users > 0) interrupt(state.pointer);
    }
    cleanable.clean();
  }

  /** Ends the calls that would keep the object from being freed. */
  void interrupt(Pointer pointer) {}

  public final boolean isClosed() {
    synchronized (state) {
      return state.closed;
    }
  }

  final Pointer acquire() {
    if (!state.acquire()) throw new IllegalStateException("this " + getClass().getSimpleName() + " is closed");
    return state.pointer;
  }

  final void release() {
    state.release();
  }
}
