//! Rows.

use crate::call::{
    ask_text, borrowed, c_path, c_text, call, exclusively, forget, guard, owned, sized_text, text_or_none, Reply,
};
use crate::config::pointer_of;
use crate::error::HostError;
use crate::handle::Handle;
use crate::runtime::pointer_of_runtime;
use crate::{Config, Result, Runtime, Tokenizer};
use std::marker::PhantomData;
use std::os::raw::{c_char, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Mutex;
use trl_sys as sys;

/// Rows of a file, of memory or of the host's functions.
pub struct Dataset {
    pub(crate) handle: Handle<sys::trl_dataset>,
}

/// How long rows are: numbers as a JSON object, and a plot for a terminal.
#[derive(Clone, Debug)]
pub struct Profile {
    pub json: String,
    pub text: String,
}

impl Dataset {
    /// The rows of a file, a folder or a glob.
    pub fn open<'a>(
        path: impl AsRef<Path>,
        options: impl Into<Option<&'a Config>>,
        runtime: impl Into<Option<&'a Runtime>>,
    ) -> Result<Dataset> {
        let path = c_path(path.as_ref())?;
        let (options, runtime) = (pointer_of(options.into()), pointer_of_runtime(runtime.into()));
        let handle =
            Handle::create(|out, error| unsafe { sys::trl_dataset_open(runtime, path.as_ptr(), options, out, error) })?;
        Ok(Dataset { handle })
    }

    /// The rows that a configuration names, to train on and to evaluate.
    pub fn open_config<'a>(
        config: &Config,
        runtime: impl Into<Option<&'a Runtime>>,
    ) -> Result<(Dataset, Option<Dataset>)> {
        let (config, runtime) = (pointer_of(Some(config)), pointer_of_runtime(runtime.into()));
        let (train, evaluation) = Handle::create_two(|train, evaluation, error| unsafe {
            sys::trl_dataset_open_config(runtime, config, train, evaluation, error)
        })?;
        Ok((Dataset { handle: train }, evaluation.map(|handle| Dataset { handle })))
    }

    /// Rows of a file in memory, which is copied; its format is jsonl, json, csv or text.
    pub fn from_buffer<'a>(
        format: &str,
        data: &[u8],
        options: impl Into<Option<&'a Config>>,
        runtime: impl Into<Option<&'a Runtime>>,
    ) -> Result<Dataset> {
        let format = c_text(format)?;
        let (options, runtime) = (pointer_of(options.into()), pointer_of_runtime(runtime.into()));
        let handle = Handle::create(|out, error| unsafe {
            let (start, size) = (data.as_ptr().cast(), data.len());
            sys::trl_dataset_from_buffer(runtime, format.as_ptr(), start, size, options, out, error)
        })?;
        Ok(Dataset { handle })
    }

    /// Rows that are asked for when they are read, more than once: `rows` gives an iterator, which starts over, and
    /// `fill` puts an item of it into a record.
    ///
    /// ```no_run
    /// let texts = vec!["one".to_string(), "two".to_string()];
    /// let rows = trl::Dataset::from_rows(
    ///     move || texts.clone().into_iter(),
    ///     |record, text| record.set_text("text", &text),
    ///     None,
    ///     None,
    /// );
    /// ```
    pub fn from_rows<'a, Rows, Reading, Fill, E>(
        rows: Rows,
        fill: Fill,
        options: impl Into<Option<&'a Config>>,
        runtime: impl Into<Option<&'a Runtime>>,
    ) -> Result<Dataset>
    where
        Rows: FnMut() -> Reading + Send + 'static,
        Reading: Iterator + Send + 'static,
        Fill: FnMut(&mut Record<'_>, Reading::Item) -> std::result::Result<(), E> + Send + 'static,
        E: Into<HostError>,
    {
        let (options, runtime) = (pointer_of(options.into()), pointer_of_runtime(runtime.into()));
        let handle = Handle::create(|out, error| unsafe {
            let next = Some(next_row::<Rows, Reading, Fill, E> as unsafe extern "C" fn(_, _) -> _);
            let rewind = Some(rewind_rows::<Rows, Reading, Fill> as unsafe extern "C" fn(_) -> _);
            let reader = owned(Mutex::new(Reader { rows, fill, reading: None::<Reading> }));
            let destroy = Some(forget::<Mutex<Reader<Rows, Reading, Fill>>> as unsafe extern "C" fn(_));
            sys::trl_dataset_from_callback(runtime, next, rewind, reader, destroy, options, out, error)
        })?;
        Ok(Dataset { handle })
    }

    /// Rows of an Arrow stream.
    ///
    /// # Safety
    ///
    /// `stream` points to a valid stream of Arrow's C interface that any thread may read. It is taken over, even by a
    /// call that fails with another status than `E_BUSY`.
    pub unsafe fn from_arrow<'a>(
        stream: *mut sys::ArrowArrayStream,
        options: impl Into<Option<&'a Config>>,
        runtime: impl Into<Option<&'a Runtime>>,
    ) -> Result<Dataset> {
        let (options, runtime) = (pointer_of(options.into()), pointer_of_runtime(runtime.into()));
        let handle = Handle::create(|out, error| sys::trl_dataset_from_arrow(runtime, stream, options, out, error))?;
        Ok(Dataset { handle })
    }

    /// Reads all rows and counts them.
    pub fn row_count(&self) -> Result<i64> {
        let mut count = 0;
        call(|error| unsafe { sys::trl_dataset_get_row_count(self.handle.get(), &mut count, error) })?;
        Ok(count)
    }

    /// How long the tokenised rows are, and what each max_length costs.
    pub fn profile<'a>(&self, tokenizer: &Tokenizer, options: impl Into<Option<&'a Config>>) -> Result<Profile> {
        let (tokenizer, options) = (tokenizer.handle.get(), pointer_of(options.into()));
        let (mut json, mut text) = (ptr::null(), ptr::null());
        call(|error| unsafe {
            sys::trl_dataset_get_profile(self.handle.get(), tokenizer, options, &mut json, &mut text, error)
        })?;
        let [json, text] = [json, text].map(|text| unsafe { text_or_none(text) }.unwrap_or_default().to_string());
        Ok(Profile { json, text })
    }

    /// One row as SFT tokenises it, as a JSON object.
    pub fn example<'a>(
        &self,
        tokenizer: &Tokenizer,
        row: i64,
        options: impl Into<Option<&'a Config>>,
    ) -> Result<String> {
        let (tokenizer, options) = (tokenizer.handle.get(), pointer_of(options.into()));
        ask_text(|out, error| unsafe {
            sys::trl_dataset_get_example(self.handle.get(), tokenizer, options, row, out, error)
        })
    }

    /// Gives `count` micro-batches of the first epoch from `first` on to a function, as JSON, until it stops.
    pub fn visit_batches<'a, F, R>(
        &self,
        tokenizer: &Tokenizer,
        options: impl Into<Option<&'a Config>>,
        first: i64,
        count: i64,
        mut function: F,
    ) -> Result<()>
    where
        F: FnMut(&str) -> R,
        R: Reply,
    {
        let (tokenizer, options) = (tokenizer.handle.get(), pointer_of(options.into()));
        call(|error| unsafe {
            let on_batch = Some(visit::<F, R> as unsafe extern "C" fn(_, _, _) -> _);
            let user_data = borrowed(&mut function);
            let dataset = self.handle.get();
            sys::trl_dataset_visit_batches(dataset, tokenizer, options, first, count, on_batch, user_data, error)
        })?;
        Ok(())
    }
}

pub(crate) fn pointer_of_dataset(rows: Option<&Dataset>) -> *mut sys::trl_dataset {
    rows.map_or(ptr::null_mut(), |rows| rows.handle.get())
}

/// A row that is being filled.
pub struct Record<'a> {
    pointer: *mut sys::trl_record,
    _borrowed: PhantomData<&'a mut sys::trl_record>,
}

impl Record<'_> {
    /// Sets a column to a text.
    pub fn set_text(&mut self, name: &str, text: &str) -> Result<()> {
        let name = c_text(name)?;
        let (start, size) = (text.as_ptr().cast(), text.len());
        call(|error| unsafe { sys::trl_record_set_text(self.pointer, name.as_ptr(), start, size, error) })?;
        Ok(())
    }

    /// Sets a column to a list of integers, such as input_ids.
    pub fn set_ids(&mut self, name: &str, ids: &[i32]) -> Result<()> {
        let name = c_text(name)?;
        call(|error| unsafe { sys::trl_record_set_ids(self.pointer, name.as_ptr(), ids.as_ptr(), ids.len(), error) })?;
        Ok(())
    }

    /// Sets a column to a value that is written as JSON.
    pub fn set_json(&mut self, name: &str, json: &str) -> Result<()> {
        let name = c_text(name)?;
        let (start, size) = (json.as_ptr().cast(), json.len());
        call(|error| unsafe { sys::trl_record_set_json(self.pointer, name.as_ptr(), start, size, error) })?;
        Ok(())
    }
}

/// Reads rows of the host from their start, as often as it is asked to.
struct Reader<Rows, Reading, Fill> {
    rows: Rows,
    fill: Fill,
    reading: Option<Reading>,
}

unsafe extern "C" fn next_row<Rows, Reading, Fill, E>(user_data: *mut c_void, record: *mut sys::trl_record) -> i32
where
    Reading: Iterator,
    Fill: FnMut(&mut Record<'_>, Reading::Item) -> std::result::Result<(), E>,
    E: Into<HostError>,
{
    let reader = &*user_data.cast::<Mutex<Reader<Rows, Reading, Fill>>>();
    guard(|| {
        exclusively(reader, |reader| match reader.reading.as_mut().and_then(Iterator::next) {
            None => Ok(sys::TRL_END),
            Some(item) => {
                (reader.fill)(&mut Record { pointer: record, _borrowed: PhantomData }, item).map_err(Into::into)?;
                Ok(sys::TRL_OK)
            }
        })
    })
}

unsafe extern "C" fn rewind_rows<Rows, Reading, Fill>(user_data: *mut c_void) -> i32
where
    Rows: FnMut() -> Reading,
{
    let reader = &*user_data.cast::<Mutex<Reader<Rows, Reading, Fill>>>();
    guard(|| {
        exclusively(reader, |reader| {
            reader.reading = None;
            reader.reading = Some((reader.rows)());
            Ok(sys::TRL_OK)
        })
    })
}

unsafe extern "C" fn visit<F: FnMut(&str) -> R, R: Reply>(
    user_data: *mut c_void,
    json: *const c_char,
    size: usize,
) -> i32 {
    guard(|| {
        let function = &mut *user_data.cast::<F>();
        function(sized_text(json, size)).reply()
    })
}
