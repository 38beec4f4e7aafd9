//! What concerns the whole process, and so is a program of its own.

use std::sync::mpsc;
use std::thread;
use trl::{Dataset, Status};

#[test]
fn every_call_is_cancelled_and_threads_end() {
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
