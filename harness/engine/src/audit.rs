//! The audit of the emulated device: disassembles the GPU kernels of libraries, in a process that runs with the stack's
//! libraries, and lists the opcodes that the interpreter does not support.

mod barriers;
mod code_objects;

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use conformance::{Decoder, OpcodeCounter};
use device::Arch;
use report::{AuditFinding, BarrierFinding, MissingOpcode};
use serde::{Deserialize, Serialize};
use stacks::{Hint, Stack};
use thiserror::Error;

use crate::{Stop, device_library, own_program, stop::explained};

/// An error that prevents the audit of the emulated device.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuditError {
    /// A named library does not exist.
    #[error("`{name}` is neither a file nor a known library ({known})")]
    UnknownLibrary {
        /// Name of the library, as the user typed it.
        name: String,
        /// Names of the known libraries, as one text.
        known: String,
    },
    /// A named file cannot be opened.
    #[error("cannot open `{path}`: {error}")]
    CannotOpen {
        /// Path of the file.
        path: String,
        /// The cause.
        error: std::io::Error,
    },
    /// The stack has none of the libraries.
    #[error("nothing to read: {0} contains none of the libraries")]
    NoLibraries(String),
    /// The libraries have no code for the requested architectures.
    #[error("nothing to read: the files contain no code for the architecture")]
    NoCode,
    /// The audit runs in a process of its own, with the stack's libraries. This process cannot be started, or its
    /// output cannot be read.
    #[error("the audit process {step}: {error}")]
    Process {
        /// The operation that failed.
        step: &'static str,
        /// The cause.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The audit process ended with an error.
    #[error("the audit process failed: {0}")]
    Ended(ExitStatus),
    /// The request that the audit process received is not valid.
    #[error("cannot read the audit request: {0}")]
    Request(Box<dyn std::error::Error + Send + Sync>),
    /// The library of the emulated device cannot be loaded.
    #[error("the emulated device: {0}")]
    Device(String),
    /// The stack's disassembler cannot be used.
    #[error("cannot use the disassembler: {0}")]
    Disassembler(String),
    /// The result of the audit cannot be written.
    #[error("cannot write the audit result: {0}")]
    Answer(serde_json::Error),
}

impl Hint for AuditError {
    fn hint(&self) -> Option<String> {
        let fetch = matches!(self, AuditError::NoLibraries(_));
        fetch.then(|| "add `--with hiprand,hipblaslt,rocblas`".to_owned())
    }
}

impl From<AuditError> for Stop {
    fn from(error: AuditError) -> Stop {
        use AuditError::*;
        let message = format!("error: {}", explained(&error));
        match error {
            UnknownLibrary { .. } | CannotOpen { .. } | Request(_) => Stop::usage(message),
            NoLibraries(_) | NoCode => Stop::nothing(explained(&error)),
            _ => Stop::no_verdict(message),
        }
    }
}

/// Libraries that contain GPU kernels: the name, the prefixes of the file names, and the name of the folder with the
/// library's kernel files (empty if it has none).
const LIBRARIES: [(&str, &[&str], &str); 3] = [
    ("hiprand", &["librocrand.so", "libhiprand.so"], ""),
    ("rocblas", &["librocblas.so"], "rocblas"),
    ("hipblaslt", &["libhipblaslt.so"], "hipblaslt"),
];

#[derive(Debug, Serialize, Deserialize)]
struct Library {
    name: String,
    files: Vec<PathBuf>,
}

/// The request that is sent to the audit process.
#[derive(Serialize, Deserialize)]
struct Request {
    /// The library of the emulated device.
    device: PathBuf,
    arches: Vec<Arch>,
    libraries: Vec<Library>,
    sample: Option<usize>,
    subject: AuditSubject,
}

/// The question that an audit answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditSubject {
    /// The opcodes that the interpreter does not support.
    Opcodes,
    /// Barriers at which a memory operation is still outstanding, although it must have finished before the barrier.
    Barriers,
}

/// The result of an audit.
#[derive(Serialize, Deserialize)]
pub struct AuditAnswer {
    /// The unsupported opcodes, by library and architecture.
    pub findings: Vec<AuditFinding>,
    /// Barriers with outstanding memory operations, by file and architecture.
    pub barriers: Vec<BarrierFinding>,
    /// Files that could not be read, each with the reason.
    pub unreadable: Vec<String>,
}

/// Returns an error for each name that is neither a known library nor the path of an existing file or folder.
pub fn check_names(names: &[String]) -> Vec<AuditError> {
    let is_known = |name: &&String| {
        LIBRARIES.iter().any(|(library, ..)| library == name) || Path::new(name).exists()
    };
    let known = LIBRARIES.map(|(library, ..)| library).join(", ");
    let unknown = names.iter().filter(|name| !is_known(name)).cloned();
    unknown.map(|name| AuditError::UnknownLibrary { name, known: known.clone() }).collect()
}

/// Audits the kernels of the named libraries, or of all libraries if none is named. `sample` is the largest number of
/// files to read for each library and architecture.
///
/// # Errors
/// Returns an error if the libraries contain no code, or if a problem of this machine prevents the audit.
pub fn audit(
    stack: &Stack,
    arches: Vec<Arch>,
    names: &[String],
    sample: Option<usize>,
    subject: AuditSubject,
) -> Result<AuditAnswer, Stop> {
    let libraries = libraries(stack, names)?;
    if libraries.iter().all(|library| library.files.is_empty()) {
        return Err(AuditError::NoLibraries(stack.spec.clone()).into());
    }
    let device = device_library::file()?;
    Ok(run_audit_process(stack, &Request { device, arches, libraries, sample, subject })?)
}

impl AuditAnswer {
    /// Checks that the audit read code for at least one architecture.
    ///
    /// # Errors
    /// Returns [`AuditError::NoCode`] if the audit found no code for the requested architectures.
    pub fn require_code(&self) -> Result<(), AuditError> {
        let empty = self.findings.iter().all(|finding| finding.instructions == 0)
            && self.barriers.iter().all(|finding| finding.kernels == 0);
        if empty { Err(AuditError::NoCode) } else { Ok(()) }
    }
}

/// Returns the libraries that the user named in `wanted`, each with its files in sorted order.
fn libraries(stack: &Stack, wanted: &[String]) -> Result<Vec<Library>, AuditError> {
    let mut libraries = Vec::new();
    for (name, files, folder) in LIBRARIES {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let mut found: Vec<_> = files.iter().filter_map(|file| stack.library(file)).collect();
        for directory in stack.libraries.iter().filter(|_| !folder.is_empty()) {
            walk(&directory.join(folder), &mut found);
        }
        libraries.push(Library { name: name.to_owned(), files: unique(found) });
    }
    for path in wanted.iter().filter(|w| !LIBRARIES.iter().any(|(name, ..)| name == w)) {
        let mut found = Vec::new();
        let full = fs::canonicalize(path)
            .map_err(|error| AuditError::CannotOpen { path: path.clone(), error })?;
        if full.is_dir() {
            walk(&full, &mut found);
        } else {
            found.push(full);
        }
        libraries.push(Library { name: path.clone(), files: unique(found) });
    }
    Ok(libraries)
}

/// Resolves symbolic links, and returns each file once, in sorted order.
fn unique(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut files: Vec<_> = paths.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    files.sort();
    files.dedup();
    files
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            walk(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

/// Runs the audit in a process that is started with the stack's libraries, because the loader of the host could not
/// load the stack's disassembler.
fn run_audit_process(stack: &Stack, request: &Request) -> Result<AuditAnswer, AuditError> {
    fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        step: &'static str,
    ) -> impl Fn(E) -> AuditError {
        move |error| AuditError::Process { step, error: error.into() }
    }
    let program = own_program::stable_path().map_err(failed("cannot find its program"))?;
    let mut child = stack
        .command(program, None)
        .args(["device", "audit-inside"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed("cannot be started"))?;
    let input = serde_json::to_vec(request).map_err(failed("cannot be sent the request"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&input).map_err(failed("cannot be sent the request"))?;
    }
    let output = child.wait_with_output().map_err(failed("cannot be waited for"))?;
    if !output.status.success() {
        return Err(AuditError::Ended(output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(failed("returned an invalid answer"))
}

/// Executes a request in the audit process, which runs with the stack's libraries. Returns the result as JSON.
///
/// # Errors
/// A request that is not valid, or a device or disassembler that cannot be used.
pub fn answer_request(mut request: impl Read) -> Result<String, AuditError> {
    let mut input = Vec::new();
    request.read_to_end(&mut input).map_err(|e| AuditError::Request(e.into()))?;
    let request: Request =
        serde_json::from_slice(&input).map_err(|e| AuditError::Request(e.into()))?;
    let mut answer =
        AuditAnswer { findings: Vec::new(), barriers: Vec::new(), unreadable: Vec::new() };
    let decoder = Decoder::open(&request.device).map_err(|e| AuditError::Device(e.to_string()))?;
    for library in &request.libraries {
        match request.subject {
            AuditSubject::Opcodes => read(library, &request, &decoder, &mut answer)?,
            AuditSubject::Barriers => barriers::read(library, &request, &decoder, &mut answer)?,
        }
    }
    serde_json::to_string(&answer).map_err(AuditError::Answer)
}

/// Audits one library on all requested architectures.
fn read(
    library: &Library,
    request: &Request,
    decoder: &Decoder,
    answer: &mut AuditAnswer,
) -> Result<(), AuditError> {
    let mut tallies: BTreeMap<Arch, (OpcodeCounter<'_>, AuditFinding)> = BTreeMap::new();
    // The name of a kernel file contains its architecture, so the sample can be chosen before files are opened.
    let chosen = sample(&library.files, request);
    for (path, is_chosen) in library.files.iter().zip(chosen) {
        let named = named_arch(path);
        if let Some(name) = named
            && !request.arches.iter().any(|arch| arch.name() == name)
        {
            continue;
        }
        let unreadable = |answer: &mut AuditAnswer, e: String| {
            answer.unreadable.push(format!("{}: {e}", path.display()))
        };
        if !is_chosen {
            if let Some(arch) = named.and_then(|name| name.parse().ok())
                && let Some(tally) = tallies.get_mut(&arch)
            {
                tally.1.files += 1;
            }
            continue;
        }
        let code = match fs::read(path) {
            Ok(bytes) => code_objects::read_all(&bytes),
            Err(error) => Err(error.to_string()),
        };
        let code = match code {
            Ok(code) => code,
            Err(error) => {
                unreadable(answer, error);
                continue;
            }
        };
        let mut counted = Vec::new();
        for object in &code {
            let Some(arch) = object.arch.filter(|arch| request.arches.contains(arch)) else {
                continue;
            };
            let (tally, finding) = tallies.entry(arch).or_insert_with(|| {
                let (library, gfx) = (library.name.clone(), arch.name().to_owned());
                (
                    OpcodeCounter::new(move |at, window| decoder.decode(arch, at, window)),
                    AuditFinding { library, gfx, ..AuditFinding::default() },
                )
            });
            if !counted.contains(&arch) {
                counted.push(arch);
                finding.files += 1;
                finding.read += 1;
            }
            for text in &object.text {
                tally.count(text).map_err(AuditError::Disassembler)?;
            }
        }
    }
    for (tally, mut finding) in tallies.into_values() {
        finding.not_instructions = tally.illegal();
        for (opcode, found) in tally.opcodes() {
            finding.instructions += found.count;
            finding.opcodes += 1;
            let Some(example) = found.example else { continue };
            let aside = is_aside(&opcode);
            let list = if aside { &mut finding.aside } else { &mut finding.missing };
            list.push(MissingOpcode { opcode, count: found.unsupported, of: found.count, example });
        }
        for list in [&mut finding.missing, &mut finding.aside] {
            list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.opcode.cmp(&b.opcode)));
        }
        answer.findings.push(finding);
    }
    Ok(())
}

/// Chooses the files to read, and returns one flag per file. Without a limit, all files are read; with one, at most
/// that many files per architecture, evenly spread.
fn sample(files: &[PathBuf], request: &Request) -> Vec<bool> {
    let Some(limit) = request.sample else { return vec![true; files.len()] };
    let mut chosen: Vec<bool> = files.iter().map(|path| named_arch(path).is_none()).collect();
    for arch in &request.arches {
        let of_arch: Vec<_> = (0..files.len())
            .filter(|&index| {
                is_code(&files[index]) && named_arch(&files[index]) == Some(arch.name())
            })
            .collect();
        for turn in 0..limit.min(of_arch.len()) {
            chosen[of_arch[turn * of_arch.len() / limit.min(of_arch.len())]] = true;
        }
    }
    chosen
}

/// Returns true if a file in a library's kernel folder contains GPU code. The other files are tables that say which
/// kernel solves which problem.
fn is_code(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "co" || extension == "hsaco")
}

/// Returns the architecture in the name of a kernel file, for example `gfx90a` for `TensileLibrary_..._gfx90a.co` and
/// `..._gfx90a-xnack-.hsaco`. `None` if the name does not contain one.
fn named_arch(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let start = name.rfind("gfx")?;
    let end = name[start + 3..]
        .find(|c: char| !c.is_ascii_alphanumeric())
        .map_or(name.len(), |length| start + 3 + length);
    Some(&name[start..end])
}

/// Returns true for graphics, image and ray-tracing instructions, which the audit lists separately.
fn is_aside(opcode: &str) -> bool {
    const ASIDE: [&str; 9] = [
        "image_",
        "tbuffer_",
        "exp",
        "export",
        "v_interp_",
        "lds_param_",
        "lds_direct_",
        "ds_bvh_",
        "ds_param_",
    ];
    ASIDE.iter().any(|prefix| {
        opcode.strip_prefix(prefix).is_some_and(|rest| prefix.ends_with('_') || rest.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_architecture_from_names() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(named_arch(Path::new(name)), expected, "{name}");
        };
        check("TensileLibrary_Type_HH_gfx1151.co", Some("gfx1151"));
        check("Kernels.so-000-gfx90a-xnack-.hsaco", Some("gfx90a"));
        check("hipblasltTransform.hsaco", None);
        check("librocrand.so.1.1", None);
    }

    #[test]
    fn samples_are_spread() {
        let files: Vec<PathBuf> =
            (0..6).map(|n| format!("k{n}_gfx90a.co").into()).chain(["lib.so".into()]).collect();
        let (device, arches) = (PathBuf::new(), vec![Arch::Gfx90a]);
        let subject = AuditSubject::Opcodes;
        let request = Request { device, arches, libraries: vec![], sample: Some(2), subject };
        assert_eq!(sample(&files, &request), [true, false, false, true, false, false, true]);
    }

    #[test]
    fn graphics_instructions_are_set_aside() {
        assert!(is_aside("image_load") && is_aside("exp") && is_aside("ds_bvh_stack_rtn_b32"));
        assert!(!is_aside("v_exp_f32") && !is_aside("expected"));
    }
}
