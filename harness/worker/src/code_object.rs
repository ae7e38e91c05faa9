//! Reads the descriptions of GPU kernels from the metadata of a code object. The metadata is a note in MessagePack
//! format, described in LLVM's AMDGPU usage guide ("Code Object V3 Metadata" and its successors).

use object::{
    LittleEndian as LE, elf,
    read::elf::{FileHeader as _, ProgramHeader as _},
};
use plan::{Arg, Call, Choice, Plan};
use serde::Deserialize;

/// Type of the note with the metadata, `NT_AMDGPU_METADATA`.
const METADATA: elf::NoteType = elf::NoteType(32);

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "amdhsa.kernels", default)]
    kernels: Vec<Kernel>,
}

#[derive(Deserialize)]
struct Kernel {
    #[serde(rename = ".name")]
    name: String,
    #[serde(rename = ".args", default)]
    args: Vec<Parameter>,
}

#[derive(Deserialize)]
struct Parameter {
    #[serde(rename = ".size")]
    size: u64,
    #[serde(rename = ".value_kind")]
    kind: String,
    /// Kind of the kernel's accesses through this pointer (`read_only`, `write_only` or `read_write`), as determined
    /// by the compiler.
    #[serde(rename = ".actual_access", default)]
    access: Option<String>,
}

impl Parameter {
    /// Returns true if the compiler added the parameter. The HIP runtime passes the value of such a parameter.
    fn is_hidden(&self) -> bool {
        self.kind.starts_with("hidden_")
    }

    fn is_pointer(&self) -> bool {
        ["global_buffer", "dynamic_shared_pointer"].contains(&self.kind.as_str())
    }

    fn words(&self) -> String {
        match self.is_pointer() {
            true if self.access.is_some() => {
                "a pointer that the kernel may write through".to_owned()
            }
            true => "a pointer".to_owned(),
            false => format!("a value of {} bytes", self.size),
        }
    }

    /// Returns true if the parameter can take the argument. An address may be passed as an integer of the same size.
    fn takes(&self, arg: &Arg) -> bool {
        match arg {
            Arg::Address(_) => self.size == 8,
            Arg::Input(_) => {
                let writes = ["write_only", "read_write"];
                self.size == 8 && !self.access.as_deref().is_some_and(|a| writes.contains(&a))
            }
            Arg::Number(_) | Arg::Struct(_) | Arg::Bytes(_) => {
                self.size == arg.to_bytes(&|_| 0).len() as u64 && !self.is_pointer()
            }
        }
    }
}

/// Explains why the arguments in the plan's launches of a kernel do not fit the kernel's code object. `place` is the
/// position of the kernel in the case file. Returns an empty list if the metadata cannot be read, because the HIP
/// runtime then decides.
pub(crate) fn mistakes(code: &[u8], kernel: &str, place: &str, plan: &Plan) -> Vec<String> {
    let Some(metadata) = metadata(code) else { return Vec::new() };
    let Some(found) = metadata.kernels.iter().find(|found| found.name == kernel) else {
        let names: Vec<_> = metadata.kernels.iter().map(|k| format!("`{}`", k.name)).collect();
        let has = if names.is_empty() { "no kernel".to_owned() } else { names.join(", ") };
        let mangled = metadata.kernels.iter().any(|k| k.name.starts_with("_Z"));
        let help = if mangled { "; declare it `extern \"C\"`, or its name is mangled" } else { "" };
        return vec![format!(
            "the source of kernel `{kernel}` ({place}) must define a kernel of that name but defines {has}{help}"
        )];
    };
    let parameters: Vec<_> = found.args.iter().filter(|p| !p.is_hidden()).collect();
    let launches = plan.steps().into_iter().filter_map(|step| match step.call.work() {
        Call::Launch { kernel: name, args, .. } if name == kernel => Some((step.line, args)),
        _ => None,
    });
    let mut why = Vec::new();
    for (at, args) in launches {
        if args.len() != parameters.len() {
            why.push(format!(
                "kernel `{kernel}` ({place}) has {} parameters, but the launch at line {at} passes {} arguments",
                parameters.len(),
                args.len()
            ));
        }
        for (n, (parameter, arg)) in parameters.iter().zip(args).enumerate() {
            if !parameter.takes(arg) {
                let given = match arg {
                    Arg::Address(_) => "an address".to_owned(),
                    Arg::Input(_) => "an address that is only read".to_owned(),
                    Arg::Number(number) => format!("a number of type {}", number.ty.word()),
                    Arg::Struct(_) => {
                        format!("a struct of {} bytes", arg.to_bytes(&|_| 0).len())
                    }
                    Arg::Bytes(bytes) => format!("{} bytes", bytes.len()),
                };
                why.push(format!(
                    "parameter {} of kernel `{kernel}` ({place}) is {}, but the launch at line {at} passes {given}",
                    n + 1,
                    parameter.words()
                ));
            }
        }
    }
    why.dedup();
    why
}

fn metadata(code: &[u8]) -> Option<Metadata> {
    let header = elf::FileHeader64::<LE>::parse(code).ok()?;
    for segment in header.program_headers(LE, code).ok()? {
        let Ok(Some(mut notes)) = segment.notes(LE, code) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"AMDGPU" && note.n_type(LE) == METADATA {
                return rmp_serde::from_slice(note.desc()).ok();
            }
        }
    }
    None
}
