//! Tokenizers.

use crate::call::{ask_text, c_path, fill, fill_text};
use crate::config::pointer_of;
use crate::handle::Handle;
use crate::runtime::pointer_of_runtime;
use crate::{Config, Result, Runtime};
use std::path::Path;
use trl_sys as sys;

/// The tokenizer of a model directory or of a GGUF file.
pub struct Tokenizer {
    pub(crate) handle: Handle<sys::trl_tokenizer>,
}

impl Tokenizer {
    pub fn open<'a>(
        path: impl AsRef<Path>,
        options: impl Into<Option<&'a Config>>,
        runtime: impl Into<Option<&'a Runtime>>,
    ) -> Result<Tokenizer> {
        let path = c_path(path.as_ref())?;
        let (options, runtime) = (pointer_of(options.into()), pointer_of_runtime(runtime.into()));
        let handle = Handle::create(|out, error| unsafe {
            sys::trl_tokenizer_open(runtime, path.as_ptr(), options, out, error)
        })?;
        Ok(Tokenizer { handle })
    }

    /// The token ids of a text. Special tokens that are spelled out in it are text like any other if
    /// `split_special_tokens`; `None`: if the key of this name says so.
    pub fn encode(
        &self,
        text: &str,
        add_special_tokens: bool,
        split_special_tokens: impl Into<Option<bool>>,
    ) -> Result<Vec<i32>> {
        let (add, split) = (add_special_tokens.into(), split_special_tokens.into().map_or(-1, i32::from));
        let (start, size) = (text.as_ptr().cast(), text.len());
        fill(size + 8, |ids, room, count, error| unsafe {
            sys::trl_tokenizer_encode(self.handle.get(), start, size, add, split, ids, room, count, error)
        })
    }

    /// The text of token ids.
    pub fn decode(&self, ids: &[i32], skip_special_tokens: bool) -> Result<String> {
        let (start, count, skip) = (ids.as_ptr(), ids.len(), skip_special_tokens.into());
        fill_text(|text, room, size, error| unsafe {
            sys::trl_tokenizer_decode(self.handle.get(), start, count, skip, text, room, size, error)
        })
    }

    /// A token as in the vocabulary.
    pub fn piece(&self, id: i32) -> Result<String> {
        fill_text(|text, room, size, error| unsafe {
            sys::trl_tokenizer_get_piece(self.handle.get(), id, text, room, size, error)
        })
    }

    /// Renders a conversation: JSON of a list of messages, or of an object with `messages` and, if wanted, `tools`,
    /// `add_generation_prompt`, `continue_final_message` and `chat_template_kwargs`.
    pub fn apply_chat_template(&self, json: &str) -> Result<String> {
        let (start, length) = (json.as_ptr().cast(), json.len());
        fill_text(|text, room, size, error| unsafe {
            sys::trl_tokenizer_apply_chat_template(self.handle.get(), start, length, text, room, size, error)
        })
    }

    /// The size of the vocabulary, special tokens and the chat template, as a JSON object.
    pub fn describe(&self) -> Result<String> {
        ask_text(|out, error| unsafe { sys::trl_tokenizer_describe(self.handle.get(), out, error) })
    }
}
