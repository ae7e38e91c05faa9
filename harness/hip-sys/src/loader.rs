//! Loads shared libraries and looks up their functions.

use std::{
    ffi::{CStr, OsStr, c_char, c_int},
    fmt,
};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY};

/// Error that means that a library or a function is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Name of the missing library, for example `libhiprand`, or of the missing function, for example
    /// `hipGraphExecUpdate`.
    pub what: String,
    /// Error messages of the dynamic loader, one for each file name that was tried.
    pub why: String,
    /// True if a library with this name exists but cannot be loaded.
    pub exists: bool,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is missing: {}", self.what, self.why)
    }
}

impl std::error::Error for LoadError {}

/// A shared library. It stays open until the process ends.
#[derive(Clone, Copy)]
pub struct SharedLibrary {
    library: &'static Library,
    file: &'static str,
}

impl SharedLibrary {
    /// Opens the first of `files` (sonames or paths) that the dynamic loader can open. `what` is the name of the
    /// library in the error.
    ///
    /// # Errors
    /// Fails with the loader's messages if no file can be opened.
    pub fn open<F: AsRef<OsStr>>(what: &str, files: &[F]) -> Result<Self, LoadError> {
        let (mut why, mut exists) = (Vec::new(), false);
        for file in files {
            // These are the flags with which the loader opens the libraries of a linked HIP program.
            // SAFETY: opening a library runs its initialisers. The caller wants the ROCm libraries in its process, as
            // if the process were linked with them.
            match unsafe { Library::open(Some(file), RTLD_LAZY | RTLD_GLOBAL) } {
                Ok(library) => {
                    return Ok(SharedLibrary {
                        library: Box::leak(Box::new(library)),
                        file: file.as_ref().to_string_lossy().into_owned().leak(),
                    });
                }
                Err(error) => {
                    let said = reason(&error);
                    // If the library exists but one of its dependencies is missing, the loader's message contains the
                    // name of the dependency.
                    let absent = format!(
                        "{}: cannot open shared object file: No such file or directory",
                        file.as_ref().display()
                    );
                    exists |= said != absent;
                    why.push(said);
                }
            }
        }
        Err(LoadError { what: what.to_owned(), why: why.join("; "), exists })
    }

    /// Returns the file name or path with which the library was opened.
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// Returns true if this library, or one of its dependencies, exports `name`.
    pub fn has(&self, name: &str) -> bool {
        // SAFETY: the symbol is only looked up, and its value is not used.
        unsafe { self.library.get::<*const ()>(name.as_bytes()) }.is_ok()
    }

    /// Checks that this library, or one of its dependencies, exports `name`.
    ///
    /// # Errors
    /// Fails if the name is not exported.
    pub fn require(&self, name: &str) -> Result<(), LoadError> {
        if self.has(name) { Ok(()) } else { Err(self.missing_function(name)) }
    }

    /// Returns the function `name`; `None` if the library does not export it.
    ///
    /// # Safety
    /// `F` must be the type of that function, an `unsafe extern "C" fn`.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the caller guarantees the type, and the library is never closed.
        unsafe { self.library.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
    }

    /// Calls the function `name`. A failure is stored for [`take_first_failure`](crate::take_first_failure).
    ///
    /// # Errors
    /// Fails if the library does not export the function.
    ///
    /// # Safety
    /// `F` must be the type of that function, an `unsafe extern "C" fn`.
    pub unsafe fn call<F: Copy>(
        &self,
        name: &'static str,
        call: impl FnOnce(F) -> c_int,
    ) -> Result<c_int, LoadError> {
        // SAFETY: the caller guarantees the type.
        let function = unsafe { self.function(name) }.ok_or_else(|| self.missing_function(name))?;
        let code = call(function);
        crate::first_failure::note(name, code);
        Ok(code)
    }

    pub(crate) fn missing_function(&self, function: &str) -> LoadError {
        let why = format!("{} does not export it", self.file);
        LoadError { what: function.to_owned(), why, exists: false }
    }
}

/// Copies a C string that a library returned. Returns `None` for a null pointer.
///
/// # Safety
/// The pointer must be null or point to a terminated string that is never freed.
pub(crate) unsafe fn text(constant: *const c_char) -> Option<String> {
    if constant.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null. The caller guarantees that the string is terminated and never freed.
    let text = unsafe { CStr::from_ptr(constant) };
    Some(text.to_string_lossy().into_owned())
}

fn reason(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

/// Declares the functions of a library. The macro generates a struct with one pointer per function and one method per
/// function. The pointers are set when the library is opened. A method returns a [`LoadError`] if the release lacks the
/// function.
macro_rules! functions {
    (
        $(#[$meta:meta])*
        pub struct $table:ident;
        $(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)*
    ) => {
        $(#[$meta])*
        #[allow(non_snake_case)]
        pub struct $table {
            shared: $crate::loader::SharedLibrary,
            $($name: Option<unsafe extern "C" fn($($ty),*) -> $ret>,)*
        }

        #[allow(non_snake_case, clippy::too_many_arguments)]
        impl $table {
            /// Names of the functions that are declared for this library.
            pub const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];

            /// Each declared function with the types of its parameters, spelled as in the declaration.
            pub const TYPES: &[(&str, &[&str])] = &[$((stringify!($name), &[$(stringify!($ty)),*])),*];

            fn resolve(shared: $crate::loader::SharedLibrary) -> Self {
                $table {
                    // SAFETY: the types are copied from the header that the documentation of the struct specifies.
                    $($name: unsafe { shared.function(stringify!($name)) },)*
                    shared,
                }
            }

            /// Returns the shared library that contains the functions.
            pub fn shared(&self) -> $crate::loader::SharedLibrary {
                self.shared
            }

            $(
                #[doc = concat!("Calls `", stringify!($name), "`, which the library's header documents.")]
                ///
                /// # Errors
                /// Fails if the library does not export the function.
                ///
                /// # Safety
                /// Handles and pointers must meet the requirements of the header.
                pub unsafe fn $name(&self, $($arg: $ty),*) -> Result<$ret, $crate::loader::LoadError> {
                    match self.$name {
                        Some(function) => {
                            // SAFETY: the caller guarantees the requirements of the header.
                            let result = unsafe { function($($arg),*) };
                            $crate::first_failure::note(stringify!($name), result);
                            Ok(result)
                        }
                        None => Err(self.shared.missing_function(stringify!($name))),
                    }
                }
            )*
        }
    };
}
pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_library_error_names_every_tried_file() {
        let Err(missing) =
            SharedLibrary::open("libnothing", &["libnothing.so.8", "libnothing.so.7"])
        else {
            panic!("libnothing exists");
        };
        assert_eq!(missing.what, "libnothing");
        assert!(!missing.exists, "{missing:?}");
        for file in ["libnothing.so.8", "libnothing.so.7"] {
            assert!(missing.why.contains(file), "{}", missing.why);
        }
    }

    #[test]
    fn file_that_is_not_a_library_exists() {
        for file in ["/etc/passwd", "/"] {
            let Err(missing) = SharedLibrary::open("libnothing", &["libnothing.so.8", file]) else {
                panic!("{file} is a library")
            };
            assert!(missing.exists, "{missing:?}");
        }
    }

    #[test]
    fn missing_function_is_reported_with_its_library() {
        let libc = SharedLibrary::open("libc", &["libc.so.6"]).unwrap();
        assert!(libc.has("malloc"));
        assert!(!libc.has("hipMalloc"));
        let missing = libc.missing_function("hipMalloc");
        assert_eq!(missing.to_string(), "hipMalloc is missing: libc.so.6 does not export it");
    }
}
