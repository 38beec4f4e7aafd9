//! Completions of prompts.

use crate::call::{attempt, borrowed, call, guard, sized_text, text_or_none, Reply};
use crate::config::pointer_of;
use crate::handle::Handle;
use crate::{Config, Result, Status};
use std::collections::VecDeque;
use std::os::raw::{c_char, c_void};
use std::ptr;
use trl_sys as sys;

/// A new token of a completion; its text is empty while a character is unfinished.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Token<'a> {
    /// The number of the completion.
    pub completion: usize,
    pub id: i32,
    pub text: &'a str,
    /// The logarithm of its probability, with generate.logprobs.
    pub log_probability: Option<f64>,
}

/// A text, or token ids.
#[derive(Clone, Copy, Debug)]
pub enum Prompt<'a> {
    Text(&'a str),
    Ids(&'a [i32]),
}

impl<'a> From<&'a str> for Prompt<'a> {
    fn from(text: &'a str) -> Self {
        Prompt::Text(text)
    }
}

impl<'a> From<&'a String> for Prompt<'a> {
    fn from(text: &'a String) -> Self {
        Prompt::Text(text)
    }
}

impl<'a> From<&'a [i32]> for Prompt<'a> {
    fn from(ids: &'a [i32]) -> Self {
        Prompt::Ids(ids)
    }
}

impl<'a> From<&'a Vec<i32>> for Prompt<'a> {
    fn from(ids: &'a Vec<i32>) -> Self {
        Prompt::Ids(ids)
    }
}

impl<'a, const N: usize> From<&'a [i32; N]> for Prompt<'a> {
    fn from(ids: &'a [i32; N]) -> Self {
        Prompt::Ids(ids)
    }
}

impl Prompt<'_> {
    /// Text, its size, ids and how many they are.
    fn parts(&self) -> (*const c_char, usize, *const i32, usize) {
        match self {
            Prompt::Text(text) => (text.as_ptr().cast(), text.len(), ptr::null(), 0),
            Prompt::Ids(ids) => (ptr::null(), 0, ids.as_ptr(), ids.len()),
        }
    }
}

/// The texts and their lengths, as the library takes several.
pub(crate) fn texts_of<S: AsRef<str>>(texts: &[S]) -> (Vec<*const c_char>, Vec<usize>) {
    texts.iter().map(|text| (text.as_ref().as_ptr().cast::<c_char>(), text.as_ref().len())).unzip()
}

/// Made by `Model::generator`. That of the model of a trainer sees every step at once.
pub struct Generator {
    pub(crate) handle: Handle<sys::trl_generator>,
}

impl Generator {
    /// Completes prompts, all together; completion j of prompt i has the number i * num_return_sequences + j.
    /// `on_token` gets each token, and ends its completion by `ControlFlow::Break`.
    pub fn generate<'a, F, R>(
        &mut self,
        prompts: &[impl AsRef<str>],
        options: impl Into<Option<&'a Config>>,
        mut on_token: F,
    ) -> Result<Completions>
    where
        F: FnMut(Token<'_>) -> R,
        R: Reply,
    {
        let options = pointer_of(options.into());
        let (texts, lengths) = texts_of(prompts);
        let handle = Handle::create(|out, error| unsafe {
            let (generator, user_data) = (self.handle.get(), borrowed(&mut on_token));
            let (texts, lengths, count) = (texts.as_ptr(), lengths.as_ptr(), texts.len());
            let on_token = token_fn(&on_token);
            sys::trl_generator_generate(generator, texts, lengths, count, options, on_token, user_data, out, error)
        })?;
        Ok(Completions::of(handle))
    }

    /// Adds a request, and returns the number of its first completion.
    pub fn add<'a>(&mut self, prompt: impl Into<Prompt<'a>>, options: impl Into<Option<&'a Config>>) -> Result<usize> {
        let (prompt, options) = (prompt.into(), pointer_of(options.into()));
        let (text, size, ids, count) = prompt.parts();
        let mut first = 0;
        call(|error| unsafe {
            sys::trl_generator_add(self.handle.get(), text, size, ids, count, options, &mut first, error)
        })?;
        Ok(first)
    }

    /// Computes a token of each completion that runs; false if there was nothing to do. An `Err` and a panic of
    /// `on_token` end the completion of this token alone, and come out when the step is done.
    pub fn step<F, R>(&mut self, mut on_token: F) -> Result<bool>
    where
        F: FnMut(Token<'_>) -> R,
        R: Reply,
    {
        let mut first = None;
        let mut told = |token: Token<'_>| {
            attempt(|| on_token(token).reply()).unwrap_or_else(|failure| {
                first.get_or_insert(failure);
                1
            })
        };
        let status = call(|error| unsafe {
            sys::trl_generator_step(self.handle.get(), token_fn(&told), borrowed(&mut told), error)
        });
        match first {
            Some(failure) => Err(failure.raise()),
            None => Ok(status? != Status::END),
        }
    }

    /// Continues a completion that was added with generate.keep, after more tokens.
    pub fn extend<'a>(
        &mut self,
        completion: usize,
        prompt: impl Into<Prompt<'a>>,
        options: impl Into<Option<&'a Config>>,
    ) -> Result<()> {
        let (prompt, options) = (prompt.into(), pointer_of(options.into()));
        let (text, size, ids, count) = prompt.parts();
        call(|error| unsafe {
            sys::trl_generator_extend(self.handle.get(), completion, text, size, ids, count, options, error)
        })?;
        Ok(())
    }

    /// Ends completions; their tokens so far can still be taken.
    pub fn cancel(&mut self, first: usize, count: usize) -> Result<()> {
        call(|error| unsafe { sys::trl_generator_cancel(self.handle.get(), first, count, error) })?;
        Ok(())
    }

    /// Takes completions as they are.
    pub fn take(&mut self, first: usize, count: usize) -> Result<Completions> {
        let handle = Handle::create(|out, error| unsafe {
            sys::trl_generator_take(self.handle.get(), first, count, out, error)
        })?;
        Ok(Completions::of(handle))
    }

    /// The tokens of one completion and their texts, as they are computed. Other requests go on meanwhile; dropping the
    /// iterator ends this one.
    pub fn stream<'a>(
        &mut self,
        prompt: impl Into<Prompt<'a>>,
        options: impl Into<Option<&'a Config>>,
    ) -> Result<Stream<'_>> {
        let first = self.add(prompt, options)?;
        Ok(Stream { generator: self, first, tokens: VecDeque::new(), done: false })
    }

    /// Gives the memory of keys and values back until completions go on.
    pub fn release_memory(&mut self) -> Result<()> {
        call(|error| unsafe { sys::trl_generator_release_memory(self.handle.get(), error) })?;
        Ok(())
    }
}

/// What the library calls a function of tokens through.
fn token_fn<F: FnMut(Token<'_>) -> R, R: Reply>(_: &F) -> sys::trl_token_fn {
    Some(new_token::<F, R>)
}

unsafe extern "C" fn new_token<F: FnMut(Token<'_>) -> R, R: Reply>(
    user_data: *mut c_void,
    completion: usize,
    id: i32,
    text: *const c_char,
    size: usize,
    log_probability: f64,
) -> i32 {
    guard(|| {
        let function = &mut *user_data.cast::<F>();
        let log_probability = (!log_probability.is_nan()).then_some(log_probability);
        function(Token { completion, id, text: sized_text(text, size), log_probability }).reply()
    })
}

/// Token ids and texts, from [`Generator::stream`]. An error of the call is the last item.
pub struct Stream<'a> {
    generator: &'a mut Generator,
    first: usize,
    tokens: VecDeque<(i32, String)>,
    done: bool,
}

impl Iterator for Stream<'_> {
    type Item = Result<(i32, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.tokens.is_empty() && !self.done {
            let (first, tokens) = (self.first, &mut self.tokens);
            let step = self.generator.step(|token| {
                if token.completion == first {
                    tokens.push_back((token.id, token.text.to_string()));
                }
            });
            match step {
                Ok(more) => self.done = !more,
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
        self.tokens.pop_front().map(Ok)
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        let _ = self.generator.cancel(self.first, 1).and_then(|()| self.generator.take(self.first, 1));
    }
}

/// What was completed, as it was when it was taken.
pub struct Completions {
    handle: Handle<sys::trl_completions>,
    len: usize,
}

impl Completions {
    fn of(handle: Handle<sys::trl_completions>) -> Completions {
        let there = |index| unsafe { !sys::trl_completions_text(handle.get(), index, ptr::null_mut()).is_null() };
        let len = (0..).take_while(|&index| there(index)).count();
        Completions { handle, len }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get(&self, index: usize) -> Option<Completion<'_>> {
        (index < self.len).then_some(Completion { of: self, index })
    }

    pub fn iter(&self) -> impl Iterator<Item = Completion<'_>> {
        (0..self.len).map(move |index| Completion { of: self, index })
    }
}

/// One of [`Completions`].
#[derive(Clone, Copy)]
pub struct Completion<'a> {
    of: &'a Completions,
    index: usize,
}

impl<'a> Completion<'a> {
    pub fn text(self) -> &'a str {
        let mut size = 0;
        unsafe { sized_text(sys::trl_completions_text(self.of.handle.get(), self.index, &mut size), size) }
    }

    pub fn token_ids(self) -> &'a [i32] {
        let mut count = 0;
        let ids = unsafe { sys::trl_completions_tokens(self.of.handle.get(), self.index, &mut count) };
        if ids.is_null() || count == 0 {
            return &[];
        }
        unsafe { std::slice::from_raw_parts(ids, count) }
    }

    /// Why it ended; `None`: it goes on.
    pub fn finish_reason(self) -> Option<&'static str> {
        unsafe { text_or_none(sys::trl_completions_finish_reason(self.of.handle.get(), self.index)) }
    }

    /// The above as a JSON object, with the error of an aborted one, and log-probabilities (generate.logprobs).
    pub fn json(self) -> &'a str {
        let mut size = 0;
        unsafe { sized_text(sys::trl_completions_json(self.of.handle.get(), self.index, &mut size), size) }
    }
}
