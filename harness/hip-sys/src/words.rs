//! Calls of functions whose arguments are all words: integers and pointers.

use std::ffi::{c_char, c_int};

use crate::loader::{Missing, Shared, text};

/// Most words that a function takes.
pub const MOST_WORDS: usize = 12;

/// Calls the function at this address with these words.
macro_rules! by_count {
    ($function:ident, $words:ident, $($count:literal [$($at:literal)*])*) => {
        match $words.len() {
            $($count => {
                type Function = unsafe extern "C" fn($(by_count!(@word $at)),*) -> usize;
                // SAFETY: the caller of `words` vouches for it.
                unsafe {
                    let function = std::mem::transmute::<*const (), Function>($function);
                    function($($words[$at]),*)
                }
            })*
            _ => unreachable!("the table has no function of so many parameters"),
        }
    };
    (@word $at:literal) => { usize };
}

impl Shared {
    /// Calls the function `name` with one word for each of its parameters, and gives what it returns.
    ///
    /// # Errors
    /// The library does not export it.
    ///
    /// # Safety
    /// The function has so many parameters, each an integer or a pointer, for which the word is what the header asks for, and
    /// returns an integer or a pointer. By the x86-64 System V ABI each of them is a register or an eightbyte of the stack, of which
    /// the function looks at no more than its parameter's width; so it is called as if all were words.
    unsafe fn words(&self, name: &'static str, words: &[usize]) -> Result<usize, Missing> {
        // SAFETY: only the address is taken here.
        let function: Option<*const ()> = unsafe { self.function(name) };
        let function = function.ok_or_else(|| self.lacks(name))?;
        Ok(by_count! { function, words,
            0 [] 1 [0] 2 [0 1] 3 [0 1 2] 4 [0 1 2 3] 5 [0 1 2 3 4] 6 [0 1 2 3 4 5] 7 [0 1 2 3 4 5 6]
            8 [0 1 2 3 4 5 6 7] 9 [0 1 2 3 4 5 6 7 8] 10 [0 1 2 3 4 5 6 7 8 9]
            11 [0 1 2 3 4 5 6 7 8 9 10] 12 [0 1 2 3 4 5 6 7 8 9 10 11]
        })
    }

    /// The status that the function answers.
    ///
    /// # Errors
    /// The library does not export it.
    ///
    /// # Safety
    /// Each parameter of the function is an integer or a pointer, for which its word is what the header asks for, and there are no
    /// others; it returns a status.
    pub unsafe fn status_of(&self, name: &'static str, words: &[usize]) -> Result<c_int, Missing> {
        // SAFETY: as the caller vouches; a status is the lower half of the word.
        let code = unsafe { self.words(name, words) }? as c_int;
        crate::failure::note(name, code);
        Ok(code)
    }

    /// The text that the function answers; none where that is null.
    ///
    /// # Errors
    /// The library does not export it.
    ///
    /// # Safety
    /// As of [`status_of`](Self::status_of), of a function that returns a text that stays.
    pub unsafe fn text_of(
        &self,
        name: &'static str,
        words: &[usize],
    ) -> Result<Option<String>, Missing> {
        // SAFETY: as the caller vouches.
        Ok(unsafe { text(self.words(name, words)? as *const c_char) })
    }
}
