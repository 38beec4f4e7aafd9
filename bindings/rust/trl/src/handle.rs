//! Objects of the library that are freed when they are dropped.

use crate::call::{call, call_void};
use crate::Result;
use std::ptr;
use trl_sys as sys;

/// An opaque type of the header that the host owns.
pub(crate) trait Object {
    unsafe fn destroy(object: *mut Self);
}

macro_rules! objects {
    ($($name:ident: $destroy:ident),*) => {
        $(impl Object for sys::$name {
            unsafe fn destroy(object: *mut Self) {
                sys::$destroy(object)
            }
        })*
    };
}
objects! {
    trl_completions: trl_completions_destroy, trl_config: trl_config_destroy, trl_dataset: trl_dataset_destroy,
    trl_evaluator: trl_evaluator_destroy, trl_generator: trl_generator_destroy, trl_model: trl_model_destroy,
    trl_runtime: trl_runtime_destroy, trl_tokenizer: trl_tokenizer_destroy, trl_trainer: trl_trainer_destroy
}

/// Owns an object.
pub(crate) struct Handle<T: Object>(*mut T);

// The header: any thread may use an object, and free it. What must not run at the same time on one object takes it as
// `&mut` here; functions of the host that it keeps are themselves sendable, and shareable if two threads may run them.
unsafe impl<T: Object> Send for Handle<T> {}
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    pub(crate) fn null() -> Handle<T> {
        Handle(ptr::null_mut())
    }

    /// Calls a function whose last parameters are an object that it makes and `trl_error **`.
    pub(crate) fn create(
        function: impl FnOnce(*mut *mut T, *mut *mut sys::trl_error) -> sys::trl_status,
    ) -> Result<Handle<T>> {
        let mut handle = Handle::null(); // frees what was made, even if a panic is resumed
        call(|error| function(&mut handle.0, error))?;
        Ok(handle)
    }

    /// The same for a function that gives two objects, of which the second one may be NULL.
    pub(crate) fn create_two(
        function: impl FnOnce(*mut *mut T, *mut *mut T, *mut *mut sys::trl_error) -> sys::trl_status,
    ) -> Result<(Handle<T>, Option<Handle<T>>)> {
        let (mut first, mut second) = (Handle::null(), Handle::null());
        call(|error| function(&mut first.0, &mut second.0, error))?;
        let second = if second.0.is_null() { None } else { Some(second) };
        Ok((first, second))
    }

    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        if !self.0.is_null() {
            call_void(|| unsafe { T::destroy(self.0) });
        }
    }
}
