//! Finds environment variables of ROCm and of frameworks that do not have the effect that the user may expect.

use std::collections::{BTreeMap, BTreeSet};

use device::Level;
use engine::{DeviceChoice, SessionOptions};

/// Beginnings of the names of variables that ROCm's libraries and the frameworks on top of them read.
const FAMILIES: [&str; 22] = [
    "AMD_",
    "CUDA_",
    "DEBUG_CLR_",
    "DEBUG_HIP_",
    "GPU_",
    "HIPBLASLT_",
    "HIPRTC_",
    "HIP_",
    "HSAKMT_",
    "HSA_",
    "MIOPEN_",
    "NCCL_",
    "PYTORCH_",
    "RCCL_",
    "ROCBLAS_",
    "ROCFFT_",
    "ROCM_",
    "ROCR_",
    "TENSILE_",
    "TORCH_",
    "TRITON_",
    "XLA_",
];

/// Ends of the names of variables that name the folders of an installation, which the chosen stack replaces.
const FOLDERS: [&str; 4] = ["_DIR", "_HOME", "_PATH", "_ROOT"];

/// Variables that only the HSA runtime reads. The emulated device replaces the HSA runtime, so each variable is listed
/// with the replacement that has the same effect there.
const HSA_VARIABLES: [(&str, &str); 2] = [
    ("HSA_OVERRIDE_GFX_VERSION", "use `--gfx`"),
    ("ROCR_VISIBLE_DEVICES", "use `HIP_VISIBLE_DEVICES`"),
];

/// Returns a message about ROCm's variables in the environment of this process, which are not passed to trials and
/// programs; `None` if the environment contains none.
pub(crate) fn dropped_variables(options: &SessionOptions) -> Option<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    // On a GPU, rocrepro itself reads this variable.
    let is_read =
        |name: &String| options.device == DeviceChoice::Gpu && name == "ROCR_VISIBLE_DEVICES";
    let dropped = dropped(names.filter(|name| !is_read(name)), &options.environment);
    (!dropped.is_empty()).then(|| {
        let verb = if dropped.len() == 1 { "is" } else { "are" };
        format!(
            "warning: `{}` of this shell {verb} not passed on; use `--env NAME=VALUE`",
            dropped.join("`, `")
        )
    })
}

/// Returns the names of variables of ROCm that are not in `given`, sorted.
fn dropped(names: impl Iterator<Item = String>, given: &BTreeMap<String, String>) -> Vec<String> {
    let is_of_rocm = |name: &String| {
        FAMILIES.iter().any(|start| name.starts_with(start))
            && !FOLDERS.iter().any(|end| name.ends_with(end))
            && !given.contains_key(name)
    };
    let mut dropped: Vec<String> = names.filter(is_of_rocm).collect();
    dropped.sort();
    dropped
}

/// Returns a message for each variable that `--env` or a case sets and that has no effect on the emulated device.
/// `of_cases` are the environment variables of the cases.
pub(crate) fn ineffective_variables<'c>(
    options: &'c SessionOptions,
    of_cases: impl Iterator<Item = &'c BTreeMap<String, String>>,
) -> Vec<String> {
    // At the level `thunk`, the released HSA runtime reads the variables.
    let is_emulated = matches!(options.device, DeviceChoice::Emulated(_));
    if !is_emulated || options.emulation.level != Level::Hsa {
        return Vec::new();
    }
    let names = of_cases.chain([&options.environment]).flat_map(BTreeMap::keys);
    let set: BTreeSet<&str> = names.map(String::as_str).collect();
    let ignored = HSA_VARIABLES.iter().filter(|(name, _)| set.contains(*name));
    let message = |(name, instead)| {
        format!("warning: `{name}` has no effect on the emulated device; {instead}")
    };
    ignored.copied().map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_rocm_that_are_not_given_are_dropped() {
        let names =
            ["PATH", "HIP_VISIBLE_DEVICES", "AMD_LOG_LEVEL", "ROCM_PATH", "HIP_PATH", "GPUS"];
        let names = || names.iter().map(|name| (*name).to_owned());
        let given: BTreeMap<String, String> = [("AMD_LOG_LEVEL".into(), "4".into())].into();
        assert_eq!(dropped(names(), &BTreeMap::new()), ["AMD_LOG_LEVEL", "HIP_VISIBLE_DEVICES"]);
        assert_eq!(dropped(names(), &given), ["HIP_VISIBLE_DEVICES"]);
    }

    #[test]
    fn variables_of_the_hsa_runtime_are_ignored_by_the_emulated_device() {
        let arch = device::Arch::Gfx1151;
        let options = |device| SessionOptions::new("debian:7.2.4".to_owned(), device, arch);
        for (name, instead) in HSA_VARIABLES {
            let set: BTreeMap<String, String> = [(name.into(), "1".into())].into();
            let warning =
                format!("warning: `{name}` has no effect on the emulated device; {instead}");
            let warnings = vec![warning];
            let (none, mut given) = (BTreeMap::new(), options(DeviceChoice::Emulated(arch)));
            assert_eq!(ineffective_variables(&given, [&none, &set].into_iter()), warnings);
            assert!(ineffective_variables(&given, [&none].into_iter()).is_empty());
            let on_gpu = options(DeviceChoice::Gpu);
            assert!(ineffective_variables(&on_gpu, [&set].into_iter()).is_empty());
            given.environment = set;
            assert_eq!(ineffective_variables(&given, std::iter::empty()), warnings);
            given.emulation.level = Level::Thunk;
            assert!(ineffective_variables(&given, std::iter::empty()).is_empty());
        }
    }
}
