//! Calls functions whose parameters are all integers or pointers, so that each fits into one 64-bit word.

use std::ffi::{c_char, c_int};

use crate::loader::{LoadError, SharedLibrary, text};

/// Calls the function at address `$function` with the values in `$words` as arguments. An invocation of the macro
/// contains, for each possible number of words, this number and the indices of the words, for example `2 [0 1]`.
macro_rules! by_count {
    ($function:ident, $words:ident, $($count:literal [$($at:literal)*])*) => {
        match $words.len() {
            $($count => {
                type Function = unsafe extern "C" fn($(by_count!(@word $at)),*) -> usize;
                // SAFETY: the caller of `call_for_word` guarantees the function's type.
                unsafe {
                    let function = std::mem::transmute::<*const (), Function>($function);
                    function($($words[$at]),*)
                }
            })*
            _ => unreachable!("too many parameters"),
        }
    };
    (@word $at:literal) => { usize };
}

impl SharedLibrary {
    /// Calls the function `name` with one 64-bit word for each of its parameters, and returns its result.
    ///
    /// # Errors
    /// Fails if the library does not export the function.
    ///
    /// # Panics
    /// Panics if there are more than 12 words.
    ///
    /// # Safety
    /// The function must have exactly this many parameters, each an integer or a pointer, and return an integer or a
    /// pointer. Each word must meet the requirements of the header for its parameter. In the x86-64 System V ABI, each
    /// parameter is passed in a register or in eight bytes of the call stack, and the function reads at most the width
    /// of the parameter. Therefore every parameter can be passed as a 64-bit word.
    unsafe fn call_for_word(
        &self,
        name: &'static str,
        words: &[usize],
    ) -> Result<usize, LoadError> {
        // SAFETY: the address of the function is only looked up here.
        let function: Option<*const ()> = unsafe { self.function(name) };
        let function = function.ok_or_else(|| self.missing_function(name))?;
        Ok(by_count! { function, words,
            0 [] 1 [0] 2 [0 1] 3 [0 1 2] 4 [0 1 2 3] 5 [0 1 2 3 4] 6 [0 1 2 3 4 5] 7 [0 1 2 3 4 5 6]
            8 [0 1 2 3 4 5 6 7] 9 [0 1 2 3 4 5 6 7 8] 10 [0 1 2 3 4 5 6 7 8 9]
            11 [0 1 2 3 4 5 6 7 8 9 10] 12 [0 1 2 3 4 5 6 7 8 9 10 11]
        })
    }

    /// Calls the function `name` with one 64-bit word for each of its parameters, and returns its status.
    ///
    /// # Errors
    /// Fails if the library does not export the function.
    ///
    /// # Safety
    /// The function must have exactly this many parameters, each an integer or a pointer, and return a status. Each
    /// word must meet the requirements of the header for its parameter.
    pub unsafe fn call_for_status(
        &self,
        name: &'static str,
        words: &[usize],
    ) -> Result<c_int, LoadError> {
        // SAFETY: the caller guarantees the function's type. A status is in the lower 32 bits of the result.
        let code = unsafe { self.call_for_word(name, words) }? as c_int;
        crate::first_failure::note(name, code);
        Ok(code)
    }

    /// Calls the function `name` and copies the string that it returns. Returns `None` for a null pointer.
    ///
    /// # Errors
    /// Fails if the library does not export the function.
    ///
    /// # Safety
    /// The requirements are those of [`call_for_status`](Self::call_for_status), but the function must return null or a
    /// string that is never freed.
    pub unsafe fn call_for_text(
        &self,
        name: &'static str,
        words: &[usize],
    ) -> Result<Option<String>, LoadError> {
        // SAFETY: the caller guarantees the function's type and that the string is never freed.
        Ok(unsafe { text(self.call_for_word(name, words)? as *const c_char) })
    }
}
