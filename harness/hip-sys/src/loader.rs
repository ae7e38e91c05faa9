use std::{
    ffi::{CStr, OsStr, c_char, c_int},
    fmt,
};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY};

/// A library or function that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// A library, such as `libhiprand`, or a function, such as `hipGraphExecUpdate`.
    pub what: String,
    /// What the loader said about every name that was tried.
    pub why: String,
    /// Whether a library of that name is there, and cannot be loaded.
    pub there: bool,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is missing: {}", self.what, self.why)
    }
}

impl std::error::Error for Missing {}

/// A shared library, open until the process ends.
#[derive(Clone, Copy)]
pub struct Shared {
    library: &'static Library,
    /// The name it was asked for by.
    file: &'static str,
}

impl Shared {
    /// Opens the first of `files` that the loader can open: sonames or paths. `what` names the library in the error.
    ///
    /// # Errors
    /// What the loader said about each of them.
    pub fn open<F: AsRef<OsStr>>(what: &str, files: &[F]) -> Result<Self, Missing> {
        let (mut why, mut there) = (Vec::new(), false);
        for file in files {
            // Global and lazy is how the loader opens the libraries that a HIP program is linked with.
            // SAFETY: opening runs the library's initialisers. These are the ROCm libraries that the caller wants
            // in its process, as if it had been linked with them.
            match unsafe { Library::open(Some(file), RTLD_LAZY | RTLD_GLOBAL) } {
                Ok(library) => {
                    return Ok(Shared {
                        library: Box::leak(Box::new(library)),
                        file: file.as_ref().to_string_lossy().into_owned().leak(),
                    });
                }
                Err(error) => {
                    let said = reason(&error);
                    // Of a library that it needs the loader names that one in these words.
                    let absent = format!(
                        "{}: cannot open shared object file: No such file or directory",
                        file.as_ref().display()
                    );
                    there |= said != absent;
                    why.push(said);
                }
            }
        }
        Err(Missing { what: what.to_owned(), why: why.join("; "), there })
    }

    /// The name or path that it was opened by.
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// Whether it, or a library it depends on, exports `name`.
    pub fn has(&self, name: &str) -> bool {
        // SAFETY: the symbol is only looked up, never used as a value of this type.
        unsafe { self.library.get::<*const ()>(name.as_bytes()) }.is_ok()
    }

    /// Makes sure that it, or a library it depends on, exports `name`.
    ///
    /// # Errors
    /// It does not.
    pub fn require(&self, name: &str) -> Result<(), Missing> {
        if self.has(name) { Ok(()) } else { Err(self.lacks(name)) }
    }

    /// The function `name`, where the library has it.
    ///
    /// # Safety
    /// `F` must be the type of that function, an `unsafe extern "C" fn`.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the caller vouches for the type, and the library is never closed.
        unsafe { self.library.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
    }

    /// Makes a call of the function `name`, and notes how it failed as those of the tables do.
    ///
    /// # Errors
    /// The library does not export it.
    ///
    /// # Safety
    /// `F` must be the type of that function, an `unsafe extern "C" fn`.
    pub unsafe fn call<F: Copy>(
        &self,
        name: &'static str,
        call: impl FnOnce(F) -> c_int,
    ) -> Result<c_int, Missing> {
        // SAFETY: the caller vouches for the type.
        let function = unsafe { self.function(name) }.ok_or_else(|| self.lacks(name))?;
        let code = call(function);
        crate::failure::note(name, code);
        Ok(code)
    }

    /// That `function` is not in this library.
    pub(crate) fn lacks(&self, function: &str) -> Missing {
        let why = format!("{} does not export it", self.file);
        Missing { what: function.to_owned(), why, there: false }
    }
}

/// The text of a string constant of a library; none for null.
///
/// # Safety
/// The pointer is null or to a terminated string that is never freed.
pub(crate) unsafe fn text(constant: *const c_char) -> Option<String> {
    if constant.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(constant) };
    Some(text.to_string_lossy().into_owned())
}

fn reason(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

/// Declares a library's functions: a table that is filled when the library is opened and a method for each, which gives
/// [`Missing`] where the release lacks the function.
macro_rules! functions {
    (
        $(#[$meta:meta])*
        pub struct $table:ident;
        $(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)*
    ) => {
        $(#[$meta])*
        #[allow(non_snake_case)]
        pub struct $table {
            shared: $crate::loader::Shared,
            $($name: Option<unsafe extern "C" fn($($ty),*) -> $ret>,)*
        }

        #[allow(non_snake_case, clippy::too_many_arguments)]
        impl $table {
            /// The names of the functions in the table.
            pub const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];

            /// Each function with the types of its parameters, as they are written.
            pub const TYPES: &[(&str, &[&str])] = &[$((stringify!($name), &[$(stringify!($ty)),*])),*];

            fn resolve(shared: $crate::loader::Shared) -> Self {
                $table {
                    // SAFETY: the types are transcribed from the header that the table's documentation names.
                    $($name: unsafe { shared.function(stringify!($name)) },)*
                    shared,
                }
            }

            /// The library behind the table.
            pub fn shared(&self) -> $crate::loader::Shared {
                self.shared
            }

            $(
                #[doc = concat!("`", stringify!($name), "`, as in the header.")]
                ///
                /// # Errors
                /// The library does not export it.
                ///
                /// # Safety
                /// Handles and pointers must be what the header asks for.
                pub unsafe fn $name(&self, $($arg: $ty),*) -> Result<$ret, $crate::loader::Missing> {
                    match self.$name {
                        Some(function) => {
                            // SAFETY: the caller keeps the header's contract.
                            let result = unsafe { function($($arg),*) };
                            $crate::failure::note(stringify!($name), result);
                            Ok(result)
                        }
                        None => Err(self.shared.lacks(stringify!($name))),
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
    fn a_missing_library_names_every_file_that_was_tried() {
        let Err(missing) = Shared::open("libnothing", &["libnothing.so.8", "libnothing.so.7"])
        else {
            panic!("there is a libnothing");
        };
        assert_eq!(missing.what, "libnothing");
        assert!(!missing.there, "{missing:?}");
        for file in ["libnothing.so.8", "libnothing.so.7"] {
            assert!(missing.why.contains(file), "{}", missing.why);
        }
    }

    #[test]
    fn a_file_that_is_no_library_is_there() {
        for file in ["/etc/passwd", "/"] {
            let Err(missing) = Shared::open("libnothing", &["libnothing.so.8", file]) else {
                panic!("{file} is a library")
            };
            assert!(missing.there, "{missing:?}");
        }
    }

    #[test]
    fn a_missing_function_is_a_value() {
        let libc = Shared::open("libc", &["libc.so.6"]).unwrap();
        assert!(libc.has("malloc"));
        assert!(!libc.has("hipMalloc"));
        let lacks = libc.lacks("hipMalloc");
        assert_eq!(lacks.to_string(), "hipMalloc is missing: libc.so.6 does not export it");
    }
}
