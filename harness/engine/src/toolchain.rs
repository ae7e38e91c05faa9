//! Finds and runs compilers of HIP programs: the host compiler of this machine, or the stack's clang.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use export::Form;
use plan::{Library, Plan};
use stacks::Stack;
use supervise::{Cancel, ChildEnd, Limits, StopReason};

use thiserror::Error;

use crate::{FailedOperation, FailureClass};

/// An error that prevents programs from being compiled.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ToolchainError {
    /// The stack has no HIP headers.
    #[error("{0} has no HIP headers to compile with")]
    NoHeaders(String),
    /// Neither the stack nor this machine has a compiler.
    #[error("neither {0} nor this machine has a suitable C++ compiler")]
    NoCompiler(String),
    /// The stack has no device libraries, which clang needs for GPU code.
    #[error("{0} has no device libraries (ocml.bc)")]
    NoDeviceLibraries(String),
    /// An operation failed, for example writing a file or starting the compiler. The text names the operation.
    #[error("cannot {0}: {1}")]
    Failed(&'static str, io::Error),
    /// The user interrupted the compiler.
    #[error("interrupted")]
    Interrupted,
}

impl FailedOperation for ToolchainError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Failed(..) | Self::Interrupted => FailureClass::NoVerdict,
            _ => FailureClass::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        let what = match self {
            Self::NoHeaders(_) => "them",
            Self::NoCompiler(_) => "one",
            _ => return None,
        };
        Some(format!("`--with dev` fetches {what} for a Debian release"))
    }
}

/// Header folders of a stack that programs may include. The rest of the stack's `include` folder belongs to a C library
/// that may differ from that of the host compiler.
const HEADERS: &[&str] = &[
    "hip",
    "hiprand",
    "rocrand",
    "hipblaslt",
    "hipblas-common",
    "hipblas",
    "rocblas",
    "hsa",
    "amd_comgr",
    "rocm-core",
];

/// Compiler options in the build line that exported programs contain.
const OPTIONS: [&str; 3] = ["-std=c++17", "-pthread", "-D__HIP_PLATFORM_AMD__"];

/// A compiler for HIP programs, which is found once for all programs of a run.
pub struct Toolchain {
    pub(crate) stack: Stack,
    compiler: Compiler,
    include: PathBuf,
    form: Form,
}

enum Compiler {
    Host(PathBuf),
    /// The stack's clang. Wrapper scripts start it through the stack's loader.
    Stack {
        clang: PathBuf,
        device_libraries: PathBuf,
        sysroot: Option<PathBuf>,
    },
}

impl Toolchain {
    /// Finds a compiler, and writes the wrapper scripts and links that it needs into `folder`.
    ///
    /// # Errors
    /// Returns a usage error if headers or a compiler are missing.
    pub fn find(stack: &Stack, form: Form, folder: &Path) -> Result<Toolchain, ToolchainError> {
        let roots = ["usr/include", "include", "_rocm_sdk_core/include"];
        let headers = roots
            .iter()
            .map(|place| stack.root.join(place))
            .find(|place| place.join("hip/hip_runtime.h").is_file());
        let Some(headers) = headers else {
            return Err(ToolchainError::NoHeaders(stack.spec.clone()));
        };
        let include = folder.join("include");
        let linked = fs::create_dir_all(&include).and_then(|()| {
            HEADERS
                .iter()
                .filter(|name| headers.join(name).is_dir())
                .try_for_each(|name| symlink(headers.join(name), include.join(name)))
        });
        linked.map_err(|error| ToolchainError::Failed("link the headers", error))?;
        let host = ["c++", "g++", "clang++"].iter().find_map(|name| on_path(name));
        let compiler = match (form, host) {
            (Form::Hiprtc, Some(host)) => Compiler::Host(host),
            (_, host) => stack_clang(stack, folder, host.is_some())?,
        };
        Ok(Toolchain { stack: stack.clone(), compiler, include, form })
    }

    /// Compiles a program. The inner error is the output of the compiler.
    ///
    /// # Errors
    /// Returns an error if the compiler cannot be started.
    pub fn compile(
        &self,
        plan: &Plan,
        source: &Path,
        program: &Path,
        gfx: &str,
        cancel: &Cancel,
    ) -> Result<Result<(), String>, ToolchainError> {
        self.compile_with_headers(None, plan, source, program, gfx, cancel)
    }

    /// Compiles the program of a case for these architectures.
    pub(crate) fn compile_program(
        &self,
        source: &Path,
        program: &Path,
        arch: &[String],
        options: &[String],
        cancel: &Cancel,
    ) -> Result<Result<(), String>, ToolchainError> {
        let mut command = self.command();
        self.add_device_options(&mut command, arch);
        command.args(options);
        self.link(command, source, program, &[], cancel)
    }

    /// Compiles the headers that the program `text` includes, once for many programs. Returns the header file to pass
    /// to [`compile_with_headers`](Self::compile_with_headers); `None` if the compiler does not support it.
    pub fn precompile_headers(
        &self,
        text: &str,
        folder: &Path,
        cancel: &Cancel,
    ) -> Option<PathBuf> {
        let Compiler::Host(compiler) = &self.compiler else { return None };
        let headers: String =
            text.lines().filter(|l| l.starts_with("#include")).map(|l| format!("{l}\n")).collect();
        let file = folder.join("headers.h");
        fs::write(&file, headers).ok()?;
        let mut command = Command::new(compiler);
        command.args(OPTIONS).arg("-I").arg(&self.include).args(["-x", "c++-header"]);
        // For a header named by `-include`, gcc and clang look for a `.gch` file next to it.
        command.arg(&file).arg("-o").arg(folder.join("headers.h.gch"));
        compiled(command, cancel).ok()?.ok().map(|()| file)
    }

    /// Compiles a program. `headers` is the result of [`precompile_headers`](Self::precompile_headers) for its headers;
    /// if `None`, the headers are compiled with it. The inner error is the output of the compiler.
    ///
    /// # Errors
    /// Returns an error if the compiler cannot be started.
    pub fn compile_with_headers(
        &self,
        headers: Option<&Path>,
        plan: &Plan,
        source: &Path,
        program: &Path,
        gfx: &str,
        cancel: &Cancel,
    ) -> Result<Result<(), String>, ToolchainError> {
        let mut command = self.command();
        if let Some(headers) = headers {
            command.arg("-include").arg(headers);
        }
        self.add_device_options(&mut command, std::slice::from_ref(&gfx.to_owned()));
        self.link(command, source, program, &plan.libraries, cancel)
    }

    fn command(&self) -> Command {
        let mut command = match &self.compiler {
            Compiler::Host(path) => Command::new(path),
            Compiler::Stack { clang, sysroot, .. } => {
                let mut command = Command::new(clang);
                // Without this option, clang would follow /proc/self/exe to the stack's loader.
                command.arg("-no-canonical-prefixes").arg("-fuse-ld=lld");
                if let Some(sysroot) = sysroot {
                    command.arg("--sysroot").arg(sysroot);
                }
                command
            }
        };
        command.args(OPTIONS).arg("-I").arg(&self.include);
        command
    }

    /// Adds the options for GPU code if the program contains any.
    fn add_device_options(&self, command: &mut Command, arch: &[String]) {
        if let (Form::Hipcc, Compiler::Stack { clang, device_libraries, .. }) =
            (self.form, &self.compiler)
        {
            command.args(["-no-hip-rt", "-x", "hip"]);
            command.args(arch.iter().map(|gfx| format!("--offload-arch={gfx}")));
            command.arg(joined("--rocm-device-lib-path=", device_libraries));
            command.arg(joined("--hip-path=", &self.stack.root.join("usr")));
            // Clang looks for clang-offload-bundler only on PATH.
            let path = std::env::var_os("PATH").unwrap_or_default();
            let beside = clang.parent().map(Path::to_path_buf);
            let folders = beside.into_iter().chain(std::env::split_paths(&path));
            if let Ok(path) = std::env::join_paths(folders) {
                command.env("PATH", path);
            }
        }
    }

    /// Compiles and links a program with HIP, hipRTC and the given libraries.
    fn link(
        &self,
        mut command: Command,
        source: &Path,
        program: &Path,
        libraries: &[Library],
        cancel: &Cancel,
    ) -> Result<Result<(), String>, ToolchainError> {
        command.arg(source).args(["-x", "none", "-o"]).arg(program);
        let libraries = ["libamdhip64.so".to_owned(), "libhiprtc.so".to_owned()]
            .into_iter()
            .chain(libraries.iter().map(|library| format!("lib{}.so", library.name())));
        // If the stack does not have a library, the linker reports it.
        command.args(libraries.filter_map(|name| self.stack.library(&name)));
        // The stack's libraries need functions of the stack's own C library, which the linker does not see.
        command.arg("-Wl,--allow-shlib-undefined");
        compiled(command, cancel)
    }
}

/// Runs a compiler. The inner error is the first error in the compiler's output.
fn compiled(command: Command, cancel: &Cancel) -> Result<Result<(), String>, ToolchainError> {
    let limits = Limits { total: Duration::MAX, quiet: Duration::MAX, ..Limits::default() };
    let seen = supervise::run(command, b"", &limits, cancel, &mut |_| {});
    match seen.ended {
        ChildEnd::Exited(0) => Ok(Ok(())),
        ChildEnd::Stopped { reason: StopReason::Cancelled, .. } => Err(ToolchainError::Interrupted),
        ChildEnd::SpawnFailed(error) => Err(ToolchainError::Failed("start the compiler", error)),
        _ => Ok(Err(first_error(&seen.stderr.to_text()))),
    }
}

/// Returns the compiler's first error and the lines after it. Warnings about headers may precede it.
fn first_error(words: &str) -> String {
    let lines: Vec<&str> = words.lines().collect();
    let first = lines.iter().position(|line| line.contains("error:")).unwrap_or(0);
    lines[first..].iter().take(30).copied().collect::<Vec<_>>().join("\n")
}

/// Returns the clang in the stack's development packages, if they are installed.
fn stack_clang(
    stack: &Stack,
    folder: &Path,
    host_headers: bool,
) -> Result<Compiler, ToolchainError> {
    let root = &stack.root;
    let llvm = fs::read_dir(root.join("usr/lib"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.join("bin/clang++").is_file())
        .or_else(|| Some(root.join("llvm")).filter(|path| path.join("bin/clang++").is_file()));
    let Some(llvm) = llvm else {
        return Err(ToolchainError::NoCompiler(stack.spec.clone()));
    };
    let made = write_wrappers(stack, &llvm, folder);
    let device_libraries = device_libraries(root, &llvm)
        .ok_or_else(|| ToolchainError::NoDeviceLibraries(stack.spec.clone()))?;
    made.map_err(|error| ToolchainError::Failed("set up clang", error))?;
    Ok(Compiler::Stack {
        clang: folder.join("llvm/bin/clang++"),
        device_libraries,
        sysroot: (!host_headers).then(|| root.clone()),
    })
}

/// Returns the folder of ocml.bc and the other device libraries; `None` if the stack has none. Only newer releases of
/// Debian keep these libraries next to clang.
fn device_libraries(root: &Path, llvm: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(llvm.join("lib/clang")).into_iter().flatten().flatten();
    let with_clang = versions.map(|entry| entry.path().join("amdgcn/bitcode"));
    let own = ["usr/lib/x86_64-linux-gnu/amdgcn/bitcode", "usr/amdgcn/bitcode", "amdgcn/bitcode"];
    with_clang
        .chain(own.iter().map(|place| root.join(place)))
        .find(|place| place.join("ocml.bc").is_file())
}

/// Writes scripts that start clang's tools through the stack's loader. The scripts are next to links to the files that
/// clang looks for.
fn write_wrappers(stack: &Stack, llvm: &Path, folder: &Path) -> std::io::Result<()> {
    let bin = folder.join("llvm/bin");
    fs::create_dir_all(&bin)?;
    symlink(llvm.join("lib"), folder.join("llvm/lib"))?;
    for entry in fs::read_dir(llvm.join("bin"))? {
        let tool = entry?.path();
        let Some(name) = tool.file_name() else { continue };
        let at = bin.join(name);
        let inner = stack.command(&tool, None);
        let mut words = vec![quoted(inner.get_program())];
        let arguments: Vec<_> = inner.get_args().collect();
        if stack.loader.is_some() {
            words.push("--argv0".to_owned());
            words.push(quoted(at.as_os_str()));
        }
        words.extend(arguments.into_iter().map(quoted));
        fs::write(&at, format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")))?;
        fs::set_permissions(&at, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn quoted(word: &std::ffi::OsStr) -> String {
    shell::quote(&word.to_string_lossy())
}

fn joined(option: &str, path: &Path) -> std::ffi::OsString {
    let mut word = std::ffi::OsString::from(option);
    word.push(path);
    word
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::first_error;

    #[test]
    fn quotes_the_first_error_after_warnings() {
        let warnings: String = (0..40).map(|n| format!("a.h:{n}:1: warning: old\n")).collect();
        let words = format!("{warnings}p.cpp:7:3: error: no\n    7 | x\n");
        assert_eq!(first_error(&words), "p.cpp:7:3: error: no\n    7 | x");
        // Compiler output without `error:` is quoted from its first line.
        assert_eq!(first_error(&warnings).lines().count(), 30);
        assert!(first_error("killed").starts_with("killed"));
    }
}
