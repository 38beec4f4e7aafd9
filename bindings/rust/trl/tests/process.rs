//! What concerns the whole process, and so is a program of its own.

use std::sync::{mpsc, Mutex, PoisonError};
use std::thread;
use trl::{Config, Dataset, Runtime, Status};

/// One test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn every_call_is_cancelled_and_threads_end() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (reading, begun) = mpsc::sync_channel(1);
    let endless = move |record: &mut trl::Record<'_>, _| {
        let _ = reading.try_send(());
        record.set_text("text", "one")
    };
    let dataset = Dataset::from_rows(|| 0.., endless, None, None).unwrap();
    let cancel = thread::spawn(move || {
        begun.recv().unwrap();
        let busy = trl::shutdown().unwrap_err().status();
        trl::cancel_all();
        busy
    });
    assert_eq!(dataset.row_count().unwrap_err().status(), Status::E_CANCELLED);
    assert_eq!(cancel.join().unwrap(), Status::E_BUSY);
    trl::shutdown().unwrap();
}

#[test]
fn memory_and_its_limit() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::new(&Config::with([("runtime.threads", 1)]).unwrap()).unwrap();
    let memory = runtime.memory(None).unwrap();
    assert!(memory.now <= memory.peak);
    assert_eq!(runtime.memory("no such kind").unwrap_err().status(), Status::E_NOT_FOUND);
    runtime.memory("weights").unwrap();
    runtime.set_memory_limit(1 << 40).unwrap();
    runtime.set_memory_limit(0).unwrap();
    assert_eq!(runtime.set_memory_limit(-1).unwrap_err().status(), Status::E_INVALID_ARGUMENT);
}
