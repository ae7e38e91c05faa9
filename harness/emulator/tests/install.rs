//! Installs the device library that cargo has built for this test, and loads it in the same way as the HIP runtime.

use std::{
    ffi::{CStr, CString, c_char, c_void},
    path::Path,
};

use hsa_runtime64::install::{self, InstallError};

fn built_library() -> Vec<u8> {
    let path = std::env::current_exe().unwrap().with_file_name("libhsa_runtime64.so");
    std::fs::read(path).unwrap()
}

fn symbol(library: *mut c_void, name: &CStr, version: Option<&CStr>) -> *mut c_void {
    // SAFETY: the handle comes from `dlopen`, and the strings are C strings.
    unsafe {
        match version {
            Some(version) => libc::dlvsym(library, name.as_ptr(), version.as_ptr()),
            None => libc::dlsym(library, name.as_ptr()),
        }
    }
}

#[test]
fn installed_library_has_symbol_versions() {
    let folder = tempfile::tempdir().unwrap();
    let installed = install::install(&built_library(), folder.path()).unwrap();
    assert_eq!(installed, folder.path().join("libhsa-runtime64.so.1"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file remains");

    let path = CString::new(installed.to_str().unwrap()).unwrap();
    // SAFETY: the path is a C string, and loading only initialises the Rust runtime.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "{}", installed.display());
    assert!(!symbol(library, c"hsa_init", Some(c"ROCR_1")).is_null());
    assert!(!symbol(library, c"hsa_queue_create", Some(c"ROCR_1")).is_null());
    assert!(symbol(library, c"hsa_init", Some(c"ROCR_2")).is_null());

    let identity = symbol(library, c"rocrepro_device_identity", None);
    // SAFETY: the function has the documented type, and its result is never freed.
    let json = unsafe {
        let identity: extern "C" fn() -> *const c_char = std::mem::transmute(identity);
        CStr::from_ptr(identity())
    };
    let identity: device::Identity = serde_json::from_slice(json.to_bytes()).unwrap();
    assert_eq!(identity.version, env!("CARGO_PKG_VERSION"));
}

#[test]
fn rejects_other_libraries() {
    #[track_caller]
    fn check(library: &[u8], expected: fn(&InstallError) -> bool) {
        let folder = tempfile::tempdir().unwrap();
        let error = install::install(library, folder.path()).unwrap_err();
        assert!(expected(&error), "{error:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    check(b"no library", |error| matches!(error, InstallError::NotTheDevice(_)));
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    check(&program, |error| matches!(error, InstallError::NotTheDevice(_)));
    let folder = tempfile::tempdir().unwrap();
    let once = install::install(&built_library(), folder.path()).unwrap();
    let once = std::fs::read(once).unwrap();
    check(&once, |error| matches!(error, InstallError::NotTheDevice(_)));
    let error = install::install(&built_library(), Path::new("/proc/nonexistent")).unwrap_err();
    assert!(matches!(error, InstallError::Io(..)), "{error:?}");
    // An installation that fails must leave no files behind.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join(install::FILE_NAME).join("taken")).unwrap();
    let error = install::install(&built_library(), folder.path()).unwrap_err();
    assert!(matches!(error, InstallError::Io(..)), "{error:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn linker_accepts_the_installed_library() {
    let folder = tempfile::tempdir().unwrap();
    let installed = install::install(&built_library(), folder.path()).unwrap();
    let source = folder.path().join("program.c");
    std::fs::write(&source, "int hsa_init(void); int main(void) { return hsa_init(); }").unwrap();
    let program = folder.path().join("program");
    let mut linker = std::process::Command::new("cc");
    let output = linker.args([&source, &installed]).arg("-o").arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The linker copies the name of the version from the library's definitions into the program.
    let program = std::fs::read(program).unwrap();
    assert!(program.windows(7).any(|bytes| bytes == b"ROCR_1\0"));
}
