//! The audit: which files are read, and the process inside the stack that reads them with the stack's disassembler.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
};

use conformance::{Decoder, OpcodeCounter};
use device::Arch;
use serde::{Deserialize, Serialize};
use stacks::Stack;

use super::{code_objects, table};
use crate::{Stop, args::Audit, device_library, outputs, own_program, progress, stop::chain};

/// The libraries with kernels, each with its files (by the start of their names) and its folder of kernel files.
const LIBRARIES: [(&str, &[&str], &str); 3] = [
    ("hiprand", &["librocrand.so", "libhiprand.so"], ""),
    ("rocblas", &["librocblas.so"], "rocblas"),
    ("hipblaslt", &["libhipblaslt.so"], "hipblaslt"),
];

/// The files of one library.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Library {
    pub(super) name: String,
    pub(super) files: Vec<PathBuf>,
}

/// What the process inside the stack is asked.
#[derive(Serialize, Deserialize)]
struct Request {
    /// The library of the emulated device.
    device: PathBuf,
    arches: Vec<Arch>,
    libraries: Vec<Library>,
    sample: Option<usize>,
}

/// One library on one architecture.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) library: String,
    pub(super) gfx: String,
    /// Files with code for the architecture, and those that were read.
    pub(super) files: usize,
    pub(super) read: usize,
    pub(super) instructions: u64,
    pub(super) opcodes: usize,
    /// Dwords that are no instructions: padding and tables between kernels.
    pub(super) not_instructions: u64,
    pub(super) missing: Vec<Missing>,
    /// Graphics, image and ray-tracing instructions, which no math library needs; they do not count as missing.
    pub(super) aside: Vec<Missing>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Missing {
    pub(super) opcode: String,
    /// Instructions that the interpreter would refuse, of `of`.
    pub(super) count: u64,
    pub(super) of: u64,
    pub(super) example: String,
}

/// What the process inside the stack answers.
#[derive(Serialize, Deserialize)]
struct Answer {
    findings: Vec<Finding>,
    /// Files that could not be read, with the reason.
    unreadable: Vec<String>,
}

pub(super) fn audit(args: &Audit) -> Result<ExitCode, Stop> {
    let mut problems = Vec::new();
    let mut arches = Vec::new();
    for name in &args.gfx {
        match name.parse::<Arch>() {
            Ok(arch) => arches.push(arch),
            Err(error) => problems.push(format!("error: {error}")),
        }
    }
    if arches.is_empty() {
        arches.extend_from_slice(Arch::ALL);
    }
    for name in &args.lib {
        let known = LIBRARIES.iter().any(|(library, ..)| library == name);
        if !known && !Path::new(name).exists() {
            let known: Vec<_> = LIBRARIES.iter().map(|(library, ..)| *library).collect();
            problems
                .push(format!("error: `{name}` is neither a file nor one of {}", known.join(", ")));
        }
    }
    if !problems.is_empty() {
        return Err(Stop::usage(problems.join("\n")));
    }
    let names = arches.iter().map(|arch| arch.name().to_owned()).collect();
    let stack = progress::get(&args.rocm, &args.with, names, args.mirrors.mirror.clone())?;
    let libraries = libraries(&stack, &args.lib)?;
    if libraries.iter().all(|library| library.files.is_empty()) {
        return Err(Stop::nothing(format!(
            "nothing to read: {} has none of the libraries; add `--with hiprand,hipblaslt,rocblas`",
            stack.spec
        )));
    }
    let device = device_library::file()?;
    let request = Request { device, arches, libraries, sample: args.sample.map(Into::into) };
    let answer = ask(&stack, &request)?;
    for line in &answer.unreadable {
        outputs::note(line);
    }
    if answer.findings.iter().all(|finding| finding.instructions == 0) {
        return Err(Stop::nothing("nothing to read: the files hold no code for the architecture"));
    }
    let text = if args.json {
        let json = serde_json::json!({ "rocm": stack.spec, "findings": answer.findings });
        format!("{json:#}\n")
    } else {
        table::format(&answer.findings)
    };
    if args.json {
        outputs::data(&text)?
    } else {
        outputs::print(&text)?
    }
    if !answer.unreadable.is_empty() {
        return Ok(ExitCode::from(3));
    }
    let complete = answer.findings.iter().all(|finding| finding.missing.is_empty());
    Ok(ExitCode::from(u8::from(!complete)))
}

/// The files of the libraries that are wanted, sorted.
fn libraries(stack: &Stack, wanted: &[String]) -> Result<Vec<Library>, Stop> {
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
            .map_err(|e| Stop::usage(format!("error: cannot open `{path}`: {e}")))?;
        if full.is_dir() {
            walk(&full, &mut found);
        } else {
            found.push(full);
        }
        libraries.push(Library { name: path.clone(), files: unique(found) });
    }
    Ok(libraries)
}

/// Real files, each once, in order.
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

/// Starts this program inside the stack, whose disassembler the host's loader could not load.
fn ask(stack: &Stack, request: &Request) -> Result<Answer, Stop> {
    let failed = |what: &str, e: &dyn std::error::Error| {
        Stop::no_verdict(format!("error: the audit's process {what}: {}", chain(e)))
    };
    let program = own_program::held().map_err(|e| failed("has no program", &e))?;
    let mut child = stack
        .command(program, None)
        .args(["device", "audit-inside"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| failed("does not start", &e))?;
    let input = serde_json::to_vec(request).map_err(|e| failed("cannot be asked", &e))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&input).map_err(|e| failed("cannot be asked", &e))?;
    }
    let output = child.wait_with_output().map_err(|e| failed("is lost", &e))?;
    if !output.status.success() {
        return Err(Stop::no_verdict(format!(
            "error: the audit's process ended: {}",
            output.status
        )));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| failed("gave a bad answer", &e))
}

/// The process inside the stack.
pub(super) fn inside() -> Result<ExitCode, Stop> {
    let wrong = |e: &dyn std::error::Error| Stop::usage(format!("error: no request: {}", chain(e)));
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).map_err(|e| wrong(&e))?;
    let request: Request = serde_json::from_slice(&input).map_err(|e| wrong(&e))?;
    let mut answer = Answer { findings: Vec::new(), unreadable: Vec::new() };
    let decoder = Decoder::open(&request.device)
        .map_err(|e| Stop::no_verdict(format!("error: the emulated device: {e}")))?;
    for library in &request.libraries {
        read(library, &request, &decoder, &mut answer)?;
    }
    let json = serde_json::to_string(&answer)
        .map_err(|e| Stop::no_verdict(format!("error: no answer: {e}")))?;
    outputs::data(&json)?;
    Ok(ExitCode::SUCCESS)
}

fn no_disassembler(why: &str) -> Stop {
    Stop::no_verdict(format!("error: no disassembler: {why}"))
}

/// Reads one library on all architectures.
fn read(
    library: &Library,
    request: &Request,
    decoder: &Decoder,
    answer: &mut Answer,
) -> Result<(), Stop> {
    let mut tallies: BTreeMap<Arch, (OpcodeCounter<'_>, Finding)> = BTreeMap::new();
    // Kernel files name their architecture, so a sample can be chosen before they are opened.
    let chosen = sample(&library.files, request);
    for (path, is_chosen) in library.files.iter().zip(chosen) {
        let named = named_arch(path);
        if let Some(name) = named
            && !request.arches.iter().any(|arch| arch.name() == name)
        {
            continue;
        }
        let unreadable = |answer: &mut Answer, e: String| {
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
            Ok(bytes) => code_objects::of(&bytes),
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
                    Finding { library, gfx, ..Finding::default() },
                )
            });
            if !counted.contains(&arch) {
                counted.push(arch);
                finding.files += 1;
                finding.read += 1;
            }
            for text in &object.text {
                tally.count(text).map_err(|e| no_disassembler(&e))?;
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
            list.push(Missing { opcode, count: found.unsupported, of: found.count, example });
        }
        for list in [&mut finding.missing, &mut finding.aside] {
            list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.opcode.cmp(&b.opcode)));
        }
        answer.findings.push(finding);
    }
    Ok(())
}

/// Which files are read: all, or as many per architecture as the sample allows, evenly spread.
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

/// Whether a kernel folder's file holds code; the others say which kernel serves which problem.
fn is_code(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "co" || extension == "hsaco")
}

/// The architecture in the name of a kernel file, as in `TensileLibrary_..._gfx90a.co` or `..._gfx90a-xnack-.hsaco`.
fn named_arch(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let start = name.rfind("gfx")?;
    let end = name[start + 3..]
        .find(|c: char| !c.is_ascii_alphanumeric())
        .map_or(name.len(), |length| start + 3 + length);
    Some(&name[start..end])
}

/// Graphics, image and ray-tracing instructions.
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
    fn names_tell_the_architecture() {
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
        let request = Request { device, arches, libraries: vec![], sample: Some(2) };
        assert_eq!(sample(&files, &request), [true, false, false, true, false, false, true]);
    }

    #[test]
    fn graphics_are_told_apart() {
        assert!(is_aside("image_load") && is_aside("exp") && is_aside("ds_bvh_stack_rtn_b32"));
        assert!(!is_aside("v_exp_f32") && !is_aside("expected"));
    }
}
