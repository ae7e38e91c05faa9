//! Describes where a program crashed: the HIP call that had not returned, or the program's own code.

use std::fmt;

use serde::Deserialize;

use super::how_it_ended;
use crate::{FailureIdentity, Kind, Outcome, ProgramObservation, phrases};

/// Beginnings of the file names of ROCm's libraries.
const ROCM_LIBRARIES: [&str; 19] = [
    "libamd_comgr",
    "libamdhip64",
    "libhip",
    "libhsa-",
    "libMIOpen",
    "libmigraphx",
    "librccl",
    "librocalution",
    "librocblas",
    "librocfft",
    "librocm",
    "librocprofiler",
    "librocrand",
    "librocroller",
    "librocsolver",
    "librocsparse",
    "libroctracer",
    "libroctx",
    "librocwmma",
];

/// Beginnings of the file names of the C and C++ libraries. A crash in one of them is attributed to the code that
/// called the library.
const SYSTEM_LIBRARIES: [&str; 9] = [
    "ld-linux",
    "libc.so",
    "libdl.so",
    "libgcc_s.so",
    "libm.so",
    "libpthread.so",
    "librt.so",
    "libstdc++.so",
    "libubsan.so",
];

/// Maximum number of calls of one thread that are printed.
const MAX_PRINTED_CALLS: usize = 32;

/// Call stacks of a process that a signal ended, as they were at the signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Crash {
    /// Id of the process.
    pub pid: u32,
    /// Number of the signal.
    pub signal: i32,
    /// Thread that received the signal.
    pub thread: CrashedThread,
    /// Other threads of the process.
    pub others: Vec<CrashedThread>,
    /// Architectures for which the program contains GPU code; empty if it contains none, or if they are unknown.
    #[serde(default)]
    pub code: Vec<String>,
}

/// Call stack of one thread of a process that crashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct CrashedThread {
    /// Name of the thread.
    pub name: String,
    /// Calls on the stack, the innermost first.
    pub calls: Vec<CrashedCall>,
    /// True if the last call is the first function of the thread, so that no call is missing.
    pub is_complete: bool,
}

/// One call in a call stack.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CrashedCall {
    /// Name of the file, without its folder; empty if the address is in no file.
    pub file: String,
    /// Name of the function, if it is known.
    pub function: Option<String>,
    /// Offset in the function, or in the file if the function is unknown; the address if the file is unknown.
    pub offset: u64,
    /// GNU build id of the file, if it has one.
    pub build_id: Option<String>,
}

/// Returns the outcome of a program that a signal ended. `done` is true if the program had reported its end before. The
/// signature contains nothing from the call stacks in [`Crash`], so that the records and expected failures of earlier
/// versions of rocrepro still match.
pub(super) fn outcome(
    seen: &ProgramObservation<'_>,
    signal: i32,
    phase: &str,
    done: bool,
) -> Outcome {
    let crash = seen.crash.filter(|crash| crash.signal == signal);
    let how = how_it_ended(seen);
    let (kind, signature, otherwise, when) = if done {
        let otherwise = format!("the program reported its end, but then {how}");
        let when = ", after it had reported its end".to_owned();
        (Kind::TeardownCrash, "teardown-crash".to_owned(), otherwise, when)
    } else {
        let identity = FailureIdentity::of_signal(phase, signal, &seen.observation.stderr);
        let otherwise = format!("the program {how} in phase {phase}");
        let when = match phase {
            "program" => String::new(),
            phase => format!(", in phase {phase}"),
        };
        (Kind::Crash, identity.to_string(), otherwise, when)
    };
    let summary = crash.map(|crash| format!("{}{when}", crash.sentence()));
    Outcome::new(kind, signature, summary.unwrap_or(otherwise))
        .with(crash.map(Crash::details).unwrap_or_default())
}

impl Crash {
    /// Returns the HIP function that the crashed thread had called and that had not returned, for example `hipMemcpy`.
    /// Returns `None` if the thread was not in a HIP call, or if HIP had called back a function of the program's
    /// executable.
    pub fn call(&self) -> Option<&str> {
        let owner = self.thread.owner()?;
        (owner.is_in_rocm() || owner.is_in_shared_library())
            .then(|| self.thread.hip_call())
            .flatten()
    }

    /// Returns a sentence, without an initial capital, that states where the program died, for example `the program
    /// died of SIGSEGV in hipMemcpy`.
    pub fn sentence(&self) -> String {
        let signal = phrases::signal(self.signal);
        let thread = &self.thread;
        let owner = thread.owner();
        if let (Some(call), Some(owner)) = (self.call(), owner) {
            // HIP calls other libraries, such as LLVM.
            let within = match owner.is_in_rocm() {
                true => String::new(),
                false => format!(", in {owner}"),
            };
            return format!("the program died of {signal} in {call}{within}");
        }
        if let (Some(owner), None, Some(entry)) = (owner, thread.hip_call(), thread.hip_entry())
            && owner.is_in_rocm()
        {
            return format!("the program died of {signal} in a HIP call of unknown name, {entry}");
        }
        let place = match owner {
            None => match thread.calls.iter().find(|call| !call.file.is_empty()) {
                Some(call) => format!("in {call}"),
                None => "in unknown code".to_owned(),
            },
            Some(owner) if owner.is_in_rocm() => match thread.rocm_call() {
                Some(call) if call != owner => format!("in {call}, {owner}"),
                _ => format!("in {owner}"),
            },
            Some(owner) if owner.is_in_shared_library() => format!("in {owner}"),
            Some(owner) => format!("in its own code, {}", owner.in_function()),
        };
        if let Some(call) = thread.hip_call() {
            return format!("the program died of {signal} {place}, which {call} had called");
        }
        if thread.hip_entry().is_some() {
            return format!("the program died of {signal} {place}, which a HIP call had called");
        }
        if !thread.is_complete {
            return format!(
                "the program died of {signal} {place}; its stack could not be read to its end, so it is unknown \
                 whether a HIP call was running"
            );
        }
        let others: Vec<&str> =
            self.others.iter().filter_map(CrashedThread::hip_call).take(4).collect();
        if others.is_empty() {
            return format!("no HIP call was running: the program died of {signal} {place}");
        }
        let others = others.join(" and ");
        format!(
            "the program died of {signal} {place}, in a thread that ran no HIP call; another thread was in {others}"
        )
    }

    /// Returns a hint if HIP crashed in a program that has GPU code, but none for the device `gfx`. HIP does not check
    /// for this mistake: <https://github.com/ROCm/rocm-systems/issues/2484>.
    pub fn missing_code(&self, gfx: &str) -> Option<String> {
        let is_missing = !self.code.is_empty() && self.code.iter().all(|arch| arch != gfx);
        (is_missing && self.call().is_some()).then(|| {
            format!(
                "the program has code for {} only, and the device is {gfx}",
                self.code.join(", ")
            )
        })
    }

    /// Returns further facts about the crash, one sentence each.
    pub fn details(&self) -> Vec<String> {
        let mut details = Vec::new();
        if self.thread.owner().is_some_and(|owner| owner.file.starts_with("libhsa-runtime64")) {
            details.push(
                "The innermost call is in libhsa-runtime64, which is the emulated device and not ROCm's library."
                    .to_owned(),
            );
        }
        details
    }

    /// Returns a line with the calls of the thread that received the signal, and a line with the build id of each
    /// library in these calls.
    pub fn stack(&self) -> Vec<String> {
        let signal = phrases::signal(self.signal);
        let mut lines = vec![self.thread.line(&format!("died of {signal}"))];
        let mut files: Vec<&str> = Vec::new();
        for call in &self.thread.calls {
            if let (Some(id), false) = (&call.build_id, files.contains(&call.file.as_str())) {
                files.push(&call.file);
                lines.push(format!("{} has build id {id}", call.file));
            }
        }
        lines
    }

    /// Returns the lines of [`stack`](Crash::stack) and one line for each other thread.
    pub fn stacks(&self) -> Vec<String> {
        let mut lines = self.stack();
        lines.extend(self.others.iter().map(|thread| thread.line("ran at that time")));
        lines
    }
}

impl CrashedThread {
    /// Returns the innermost call that is not in the C or C++ library.
    fn owner(&self) -> Option<&CrashedCall> {
        let has_owner = |call: &&CrashedCall| !call.is_in_system_library() && !call.is_start();
        self.calls.iter().find(has_owner)
    }

    /// Returns the outermost HIP function that had not returned; `None` if the thread was in none.
    fn hip_call(&self) -> Option<&str> {
        self.calls.iter().rev().find_map(CrashedCall::hip_function)
    }

    /// Returns the call through which code outside of ROCm entered HIP, even if the name of the function is unknown.
    /// Calls from the C library to HIP do not count: they occur when a thread of HIP begins and when the program exits.
    fn hip_entry(&self) -> Option<&CrashedCall> {
        let pairs = self.calls.windows(2).rev();
        pairs.map(|pair| (&pair[0], &pair[1])).find_map(|(callee, caller)| {
            let enters = callee.file.starts_with("libamdhip64")
                && !caller.is_in_rocm()
                && !caller.is_in_system_library();
            enters.then_some(callee)
        })
    }

    /// Returns the outermost call of a ROCm function whose name is known; `None` if the thread is in no such call.
    fn rocm_call(&self) -> Option<&CrashedCall> {
        self.calls.iter().rev().find(|call| call.is_in_rocm() && call.function.is_some())
    }

    fn line(&self, does: &str) -> String {
        let calls: Vec<String> =
            self.calls.iter().take(MAX_PRINTED_CALLS).map(ToString::to_string).collect();
        let more = match self.calls.len().saturating_sub(MAX_PRINTED_CALLS) {
            0 => String::new(),
            more => format!(" < {more} more"),
        };
        let calls = if calls.is_empty() { "unknown calls".to_owned() } else { calls.join(" < ") };
        format!("thread `{}` {does}; {calls}{more}", self.name)
    }
}

impl CrashedCall {
    /// Returns the name of the function if it is a function of HIP, or the replacement of such a function in an
    /// interposer library, which injects faults at calls.
    fn hip_function(&self) -> Option<&str> {
        let name = self.function.as_deref().filter(|_| self.is_in_shared_library())?;
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (is_name && name.trim_start_matches("__").starts_with("hip")).then_some(name)
    }

    fn is_in_rocm(&self) -> bool {
        ROCM_LIBRARIES.iter().any(|start| self.file.starts_with(start))
            || self.hip_function().is_some()
    }

    /// Returns true if the call is in the C or C++ library, or at an address without a file.
    fn is_in_system_library(&self) -> bool {
        self.file.is_empty() || SYSTEM_LIBRARIES.iter().any(|start| self.file.starts_with(start))
    }

    fn is_in_shared_library(&self) -> bool {
        self.file.contains(".so")
    }

    /// Returns true for `_start`, the function at which a program begins and which indirectly calls `main`.
    fn is_start(&self) -> bool {
        self.function.as_deref() == Some("_start")
    }

    fn in_function(&self) -> String {
        match &self.function {
            Some(function) => format!("{function}+{:#x}", self.offset),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for CrashedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CrashedCall { file, function, offset, .. } = self;
        match function {
            Some(function) if *offset == 0 => write!(f, "{function} ({file})"),
            Some(function) => write!(f, "{function}+{offset:#x} ({file})"),
            None if file.is_empty() => write!(f, "{offset:#x}"),
            None => write!(f, "{file}+{offset:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `function file`, or `+ file` for an unknown function.
    fn thread(calls: &[&str]) -> CrashedThread {
        let call = |text: &&str| {
            let (function, file) = text.split_once(' ').unwrap();
            CrashedCall {
                file: file.to_owned(),
                function: (function != "+").then(|| function.to_owned()),
                offset: 0x12,
                build_id: (!file.is_empty()).then(|| format!("{}0", file.len())),
            }
        };
        let calls = calls.iter().map(call).collect();
        CrashedThread { name: "a".to_owned(), calls, is_complete: true }
    }

    #[track_caller]
    fn check(calls: &[&str], others: &[&[&str]], call: Option<&str>, wanted: &str) {
        let others = others.iter().map(|calls| thread(calls)).collect();
        let crash = Crash { pid: 7, signal: 11, thread: thread(calls), others, code: Vec::new() };
        assert_eq!(crash.call(), call);
        assert_eq!(crash.sentence(), wanted);
    }

    const HIP: &str = "libamdhip64.so.6";

    #[test]
    fn sentence_says_whose_code_crashed() {
        let end = ["main a.out", "__libc_start_main libc.so.6", "_start a.out"];
        let with = |calls: &[&'static str]| [calls, &end].concat();
        let memcpy = format!("hipMemcpy {HIP}");
        let sync = format!("hipDeviceSynchronize {HIP}");
        let inside = format!("+ {HIP}");
        let [memcpy, sync, inside]: [&'static str; 3] =
            [memcpy, sync, inside].map(|text| &*text.leak());
        let in_memcpy = "the program died of SIGSEGV in hipMemcpy";
        check(&with(&[memcpy]), &[], Some("hipMemcpy"), in_memcpy);
        check(&with(&["memmove libc.so.6", inside, memcpy]), &[], Some("hipMemcpy"), in_memcpy);
        check(
            &with(&["+ libhsa-runtime64.so.1", inside, memcpy]),
            &[],
            Some("hipMemcpy"),
            in_memcpy,
        );
        let own = "no HIP call was running: the program died of SIGSEGV in its own code, main+0x12";
        check(&end, &[], None, own);
        check(
            &with(&["hipMemset interposer.so"]),
            &[],
            Some("hipMemset"),
            &in_memcpy.replace("cpy", "set"),
        );
        check(
            &with(&["grow libLLVM.so.22.1", inside, memcpy]),
            &[],
            Some("hipMemcpy"),
            &format!("{in_memcpy}, in grow+0x12 (libLLVM.so.22.1)"),
        );
        check(&with(&["hipster a.out"]), &[], None, &own.replace("main", "hipster"));
        check(&with(&["memset libc.so.6"]), &[&["read libc.so.6", inside]], None, own);
        check(
            &end,
            &[&["futex libc.so.6", inside, sync, "run a.out"]],
            None,
            "the program died of SIGSEGV in its own code, main+0x12, in a thread that ran no HIP call; another thread \
             was in hipDeviceSynchronize",
        );
        check(
            &["back a.out", inside, memcpy, "main a.out"],
            &[],
            None,
            "the program died of SIGSEGV in its own code, back+0x12, which hipMemcpy had called",
        );
        check(
            &with(&["+ librocblas.so.4", "rocblas_sgemm librocblas.so.4"]),
            &[],
            None,
            "no HIP call was running: the program died of SIGSEGV in rocblas_sgemm+0x12 (librocblas.so.4), \
             librocblas.so.4+0x12",
        );
        check(
            &["raise libc.so.6", "clone libc.so.6"],
            &[],
            None,
            "no HIP call was running: the program died of SIGSEGV in raise+0x12 (libc.so.6)",
        );
        check(
            &[inside, "ffi_call libffi.so.8", "main python3.13"],
            &[],
            None,
            "the program died of SIGSEGV in a HIP call of unknown name, libamdhip64.so.6+0x12",
        );
        check(
            &["back a.out", inside, "ffi_call libffi.so.8"],
            &[],
            None,
            "the program died of SIGSEGV in its own code, back+0x12, which a HIP call had called",
        );
        // HIP's own threads run functions that are not HIP calls.
        check(
            &[inside, "clone libc.so.6"],
            &[],
            None,
            "no HIP call was running: the program died of SIGSEGV in libamdhip64.so.6+0x12",
        );
    }

    #[test]
    fn crash_in_hip_without_code_for_the_device_has_a_hint() {
        let check = |calls: &[&str], code: &[&str], hint: Option<&str>| {
            let code = code.iter().map(|arch| (*arch).to_owned()).collect();
            let crash = Crash { thread: thread(calls), code, ..Crash::default() };
            assert_eq!(crash.missing_code("gfx1151").as_deref(), hint, "{calls:?}");
        };
        let launch = ["+ libamdhip64.so.7", "hipLaunchKernel libamdhip64.so.7", "main a.out"];
        let hint = "the program has code for gfx90a, gfx942 only, and the device is gfx1151";
        check(&launch, &["gfx90a", "gfx942"], Some(hint));
        check(&launch, &["gfx1151", "gfx90a"], None);
        check(&launch, &[], None);
        check(&["main a.out"], &["gfx90a"], None);
    }

    #[test]
    fn incomplete_stack_may_hide_a_call() {
        let mut crash =
            Crash { pid: 7, signal: 6, thread: thread(&["f a.out"]), ..Crash::default() };
        crash.thread.is_complete = false;
        assert_eq!(
            crash.sentence(),
            "the program died of SIGABRT in its own code, f+0x12; its stack could not be read to its end, so it is \
             unknown whether a HIP call was running"
        );
        crash.thread.calls.clear();
        assert!(crash.sentence().starts_with("the program died of SIGABRT in unknown code; "));
    }

    #[test]
    fn lines_name_each_library_and_its_build_id_once() {
        let calls = [format!("+ {HIP}"), format!("hipFree {HIP}"), "main a.out".to_owned()];
        let thread = thread(&[&calls[0], &calls[1], &calls[2]]);
        let others = vec![thread.clone()];
        let crash = Crash { pid: 7, signal: 11, others, thread, code: Vec::new() };
        let calls = "libamdhip64.so.6+0x12 < hipFree+0x12 (libamdhip64.so.6) < main+0x12 (a.out)";
        assert_eq!(
            crash.stacks(),
            [
                format!("thread `a` died of SIGSEGV; {calls}"),
                "libamdhip64.so.6 has build id 160".to_owned(),
                "a.out has build id 50".to_owned(),
                format!("thread `a` ran at that time; {calls}"),
            ]
        );
    }
}
