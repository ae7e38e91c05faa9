//! What a code object says of its kernels: the metadata that LLVM's AMDGPU usage guide describes ("Code Object V3
//! Metadata" and its successors), a note of MessagePack.

use object::{
    LittleEndian as LE, elf,
    read::elf::{FileHeader as _, ProgramHeader as _},
};
use plan::{Arg, Call, Plan};
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
}

impl Parameter {
    /// Whether the compiler added it: the runtime fills it.
    fn is_hidden(&self) -> bool {
        self.kind.starts_with("hidden_")
    }

    fn is_pointer(&self) -> bool {
        ["global_buffer", "dynamic_shared_pointer"].contains(&self.kind.as_str())
    }

    fn words(&self) -> String {
        match self.is_pointer() {
            true => "a pointer".to_owned(),
            false => format!("a value of {} bytes", self.size),
        }
    }

    /// Whether an argument is passed as the kernel reads it. An address may come as a number of its size.
    fn takes(&self, arg: &Arg) -> bool {
        match arg {
            Arg::Address(_) => self.size == 8,
            Arg::U32(_) | Arg::F32(_) => self.size == 4 && !self.is_pointer(),
        }
    }
}

/// Why a kernel of the case, which stands in this place, cannot be launched as its plan does. None where the code object
/// has no metadata that could be read: then the runtime has the word.
pub(crate) fn mistakes(code: &[u8], kernel: &str, place: &str, plan: &Plan) -> Vec<String> {
    let Some(metadata) = metadata(code) else { return Vec::new() };
    let Some(found) = metadata.kernels.iter().find(|found| found.name == kernel) else {
        let names: Vec<_> = metadata.kernels.iter().map(|k| format!("`{}`", k.name)).collect();
        let has = if names.is_empty() { "no kernel".to_owned() } else { names.join(", ") };
        let mangled = metadata.kernels.iter().any(|k| k.name.starts_with("_Z"));
        let help = if mangled { "; declare it `extern \"C\"`, or its name is mangled" } else { "" };
        return vec![format!(
            "the source of kernel `{kernel}` ({place}) must define a kernel of that name and has {has}{help}"
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
                "kernel `{kernel}` ({place}) has {} parameters, and the launch at line {at} gives {} arguments",
                parameters.len(),
                args.len()
            ));
        }
        for (n, (parameter, arg)) in parameters.iter().zip(args).enumerate() {
            if !parameter.takes(arg) {
                let given = match arg {
                    Arg::Address(_) => "an address",
                    Arg::U32(_) => "a 32-bit integer",
                    Arg::F32(_) => "a float",
                };
                why.push(format!(
                    "parameter {} of kernel `{kernel}` ({place}) is {}, and the launch at line {at} gives {given}",
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
