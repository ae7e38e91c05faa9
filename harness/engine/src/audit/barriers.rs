//! The audit of barriers: finds kernels in libraries in which a memory operation is still outstanding at a barrier that
//! must wait for it.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
};

use conformance::{BarrierReader, Decoder, KernelBarriers, Outstanding};
use report::{BarrierFinding, KernelFinding, OutstandingOperation};

use super::{
    AuditAnswer, AuditError, Library, Request,
    code_objects::{self, CodeSections},
    named_arch, sample,
};

/// Examines the barriers in the files of one library, for all requested architectures.
pub(super) fn read(
    library: &Library,
    request: &Request,
    decoder: &Decoder,
    answer: &mut AuditAnswer,
) -> Result<(), AuditError> {
    let is_wanted = |name: &str| request.arches.iter().any(|arch| arch.name() == name);
    let mut readers = HashMap::new();
    for (path, is_chosen) in library.files.iter().zip(sample(&library.files, request)) {
        if !is_chosen || named_arch(path).is_some_and(|name| !is_wanted(name)) {
            continue;
        }
        let code = fs::read(path).map_err(|error| error.to_string());
        let code = match code.and_then(|bytes| code_objects::read_all(&bytes)) {
            Ok(code) => code,
            Err(error) => {
                answer.unreadable.push(format!("{}: {error}", path.display()));
                continue;
            }
        };
        let mut findings: BTreeMap<String, BarrierFinding> = BTreeMap::new();
        for object in &code {
            let gfx = match object.arch {
                Some(arch) if !is_wanted(arch.name()) => continue,
                Some(arch) => arch.name().to_owned(),
                None => format!("machine {:#x}", object.machine),
            };
            let finding = findings.entry(gfx).or_insert_with_key(|gfx| BarrierFinding {
                library: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                gfx: gfx.clone(),
                ..BarrierFinding::default()
            });
            finding.kernels += object.kernels.len();
            let Some(arch) = object.arch else {
                finding.not_read += object.kernels.len();
                continue;
            };
            let reader = readers.entry(arch).or_insert_with(|| {
                BarrierReader::new(arch, move |at, window| decoder.decode(arch, at, window))
            });
            read_object(object, reader, finding).map_err(AuditError::Disassembler)?;
        }
        answer.barriers.extend(findings.into_values());
    }
    Ok(())
}

/// Examines the kernels of a code object.
fn read_object(
    object: &CodeSections,
    reader: &mut BarrierReader<'_>,
    finding: &mut BarrierFinding,
) -> Result<(), String> {
    for kernel in &object.kernels {
        let code = object.instructions_of(kernel);
        if !reader.has_barrier(code) {
            continue;
        }
        finding.with_barriers += 1;
        if !reader.may_find(code) {
            finding.bare_only += 1;
            continue;
        }
        let found = reader.read(code, kernel.shares_units)?;
        let KernelBarriers { instructions, fenced, bare, lost, unexplained, suspects, unknown } =
            found;
        finding.instructions += instructions as u64;
        finding.fenced += fenced;
        finding.bare += bare;
        if lost.is_empty() && !unknown.is_empty() {
            finding.undecided += 1;
            for reason in &unknown {
                *finding.reasons.entry((*reason).to_owned()).or_default() += 1;
            }
        }
        if fenced == 0 && unknown.is_empty() {
            finding.bare_only += 1;
        }
        let listed = |operations: &[Outstanding]| {
            let line = |it: &Outstanding| OutstandingOperation {
                barrier: it.barrier,
                operation: it.operation,
                kind: it.kind.name().to_owned(),
            };
            let (name, operations) = (kernel.name.clone(), operations.iter().map(line).collect());
            KernelFinding { name, operations }
        };
        if !lost.is_empty() {
            finding.lost.push(listed(&lost));
        }
        if !unexplained.is_empty() {
            finding.unexplained.push(listed(&unexplained));
        }
        if !suspects.is_empty() {
            finding.suspects.push(listed(&suspects));
        }
    }
    Ok(())
}
