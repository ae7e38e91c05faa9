//! Writes the C++ source of the interposer library, which replaces functions that a program calls.

use std::{collections::BTreeMap, fmt::Write};

use device::{DecisionScope, Fault, FaultSpec};

use crate::plant::refusal_code;

/// Code that all replaced functions share. It decides at which calls a fault takes effect, by the same random rule as
/// the worker.
const START: &str = include_str!("interposer/start.h");

/// Template for the replacement of one function. The parameters of the function may have any type: the assembler code
/// of the replacement keeps all registers that may contain arguments (System V ABI for x86-64, 3.2.3) and then jumps to
/// the original function.
const FUNCTION: &str = include_str!("interposer/function.h");

/// Functions that a header renames, each with the name that the library exports for it. Sources: hip/hip_runtime_api.h
/// of 6.0 and newer; hip/hip_ext.h, whose functions have C++ names.
const RENAMED: &[(&str, &str)] = &[
    ("hipChooseDevice", "hipChooseDeviceR0600"),
    (
        "hipExtModuleLaunchKernel",
        "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j",
    ),
    ("hipGetDeviceProperties", "hipGetDevicePropertiesR0600"),
    (
        "hipHccModuleLaunchKernel",
        "_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_",
    ),
];

/// Returns the C++ source of a library that is loaded before all others and injects the faults into calls of functions.
/// Returns `None` if none of the faults is injected into calls. If several faults are injected into one function, the
/// first one whose random draw succeeds takes effect.
pub fn interposer(faults: &[FaultSpec]) -> Option<String> {
    let mut functions: BTreeMap<&str, Vec<(&FaultSpec, String)>> = BTreeMap::new();
    for planted in faults {
        let Some(effect) = effect(planted) else { continue };
        for name in names(planted.which("call")) {
            functions.entry(name).or_default().push((planted, effect.clone()));
        }
    }
    let replaced = functions.iter().map(|(name, faults)| function(name, faults));
    let text: String = replaced.collect();
    (!text.is_empty()).then(|| format!("{START}{text}"))
}

/// Returns the source of the replacement of one function, with the faults that it injects.
fn function(name: &str, faults: &[(&FaultSpec, String)]) -> String {
    let (mut decisions, mut effects) = (String::new(), String::new());
    for (n, (planted, effect)) in faults.iter().enumerate() {
        let per_call = planted.per == DecisionScope::Call;
        let (only, (key, limit)) = (planted.only.unwrap_or(0), planted.draws());
        let _ = writeln!(
            decisions,
            "  static unsigned long made_{n};\n  \
             bool takes_{n} = rocrepro_takes(made_{n}, {only}ul, {key}ul, {per_call}, {limit}ul);"
        );
        let otherwise = if n == 0 { "" } else { "else " };
        let _ = writeln!(effects, "  {otherwise}if (takes_{n}) {{ {effect} }}");
    }
    FUNCTION.replace("NAME", name).replace("EFFECTS", &(decisions + &effects))
}

fn names(call: &str) -> impl Iterator<Item = &str> {
    let renamed = RENAMED.iter().filter(move |(name, _)| *name == call).map(|(_, other)| *other);
    [call].into_iter().chain(renamed)
}

/// Returns the C++ statements that inject a fault into a call. If they return a value, the original function is not
/// called. Returns `None` for faults that are not injected into calls of functions.
fn effect(planted: &FaultSpec) -> Option<String> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "most faults are of the device or of a plan"
    )]
    Some(match planted.fault {
        Fault::CallCrash => "__builtin_trap();".to_owned(),
        Fault::CallHang => "for (;;) pause();".to_owned(),
        Fault::CallIgnored => "return {nullptr, 0};".to_owned(),
        Fault::CallRefused => format!("return {{nullptr, {}}};", refusal_code(planted)),
        // `volatile` prevents the compiler from removing the unused allocation.
        Fault::CallLeak => {
            format!("void *volatile lost = malloc({}); (void)lost;", planted.amount("bytes"))
        }
        Fault::CallSlow => format!("rocrepro_sleep({});", planted.amount("ms")),
        _ => return None,
    })
}
