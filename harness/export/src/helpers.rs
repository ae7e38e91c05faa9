//! Contains the C++ helper functions of printed programs. A program contains only the helpers that it uses.

use std::collections::BTreeSet;

macro_rules! helpers {
    ($($variant:ident $file:literal [$($needs:ident)*])*) => {
        /// A C++ helper function. A program contains its helpers in the order of these variants.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Helper { $($variant,)* }

        impl Helper {
            #[cfg(test)]
            pub(crate) const ALL: &[Helper] = &[$(Helper::$variant),*];

            pub(crate) fn text(self) -> &'static str {
                match self { $(Helper::$variant => include_str!(concat!("cpp/", $file, ".cpp")),)* }
            }

            fn needs(self) -> &'static [Helper] {
                match self { $(Helper::$variant => &[$(Helper::$needs),*],)* }
            }
        }
    };
}

helpers! {
    Given "given" []
    Guard "guard" []
    Poison "poison" []
    NameHip "name_hip" []
    NameRtc "name_rtc" []
    NameCapture "name_capture" []
    NameRand "name_rand" []
    NameRandNumber "name_rand_number" []
    NameBlaslt "name_blaslt" []
    NameRocblas "name_rocblas" []
    FunctionOf "function_of" []
    ShortCheck "short_check" [NameHip]
    Require "require" [FunctionOf NameHip]
    ExpectStatus "expect_status" [FunctionOf NameHip]
    ExpectValue "expect_value" []
    ExpectReturned "expect_returned" []
    IsSteady "is_steady" []
    HostAlloc "host_alloc" []
    PoisonHost "poison_host" [Guard]
    FillPattern "fill_pattern" []
    Half "half" []
    Bfloat16 "bfloat16" []
    FillNumbers "fill_numbers" [FillPattern]
    Check "check" []
    CheckEqual "check_equal" []
    CheckDiffer "check_differ" []
    CheckAtLeast "check_at_least" []
    CheckGuards "check_guards_host" [Guard Check]
    CheckDeviceGuards "check_guards_device" [Guard Check Require]
    Postponed "postponed" []
    Compile "compile" [NameRtc Require]
    LaunchModule "launch_module" []
    LaunchCooperative "launch_cooperative" []
    LaunchKernel "launch_kernel" []
    AddKernel "add_kernel" []
    AddOne "add_one" []
    As "views" []
    Describe "describe" [Require NameBlaslt]
    Heuristic "heuristic" [Describe]
    BlasltMatmul "blaslt_matmul" [Describe]
    RocblasGemm "rocblas_gemm" [NameRocblas]
    MatmulOnHost "matmul_on_host" [As]
}

/// Adds a helper to the set `to`, together with all helpers that it needs.
pub(crate) fn add(helper: Helper, to: &mut BTreeSet<Helper>) {
    if to.insert(helper) {
        for needed in helper.needs() {
            add(*needed, to);
        }
    }
    // The guard helper also defines the poison value.
    if to.contains(&Helper::Guard) {
        to.remove(&Helper::Poison);
    }
}

/// Returns the C++ function that computes the results of a library kernel on the host; `None` for any other kernel.
pub(crate) fn kernel_on_host(name: &str) -> Option<&'static str> {
    macro_rules! texts {
        ($($kernel:literal)*) => {
            match name {
                $($kernel => Some(include_str!(concat!("kernels/", $kernel, ".cpp"))),)*
                _ => None,
            }
        };
    }
    texts!("fill_u32" "copy_u32" "copy_u8" "add_u32" "saxpy_f32" "sum_u32" "histogram_u32" "matmul_f32" "lcg_u32" "to_f32" "variable_u32" "shuffle_u32")
}

/// Returns the standard headers that a C++ text needs. They follow from the names that the text contains.
pub(crate) fn includes(text: &str) -> Vec<&'static str> {
    const HEADERS: [(&str, &[&str]); 14] = [
        (
            "<algorithm>",
            &[
                "std::min",
                "std::max(",
                "std::max<",
                "std::copy_n",
                "std::fill_n",
                "std::find(",
                "std::fill(",
            ],
        ),
        ("<chrono>", &["std::chrono"]),
        ("<cmath>", &["std::fma", "std::sqrt", "std::abs", "NAN", "INFINITY"]),
        ("<cstdint>", &["int8_t", "int32_t", "uint16_t", "uint32_t", "uint64_t"]),
        ("<cstdio>", &["std::printf", "std::puts"]),
        ("<cstdlib>", &["std::exit", "std::abort", "std::aligned_alloc", "std::free"]),
        ("<cstring>", &["std::mem", "std::strcspn"]),
        ("<functional>", &["std::function"]),
        ("<initializer_list>", &["std::initializer_list"]),
        ("<iterator>", &["std::size("]),
        ("<numeric>", &["std::accumulate"]),
        ("<string>", &["std::string", "std::to_string"]),
        ("<thread>", &["std::thread", "std::this_thread"]),
        ("<vector>", &["std::vector"]),
    ];
    let used = |words: &[&str]| words.iter().any(|word| text.contains(word));
    HEADERS.iter().filter(|(_, words)| used(words)).map(|(header, _)| *header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_kernel_has_a_host_function() {
        for kernel in plan::KERNELS {
            let text = kernel_on_host(kernel.name).expect(kernel.name);
            assert!(text.contains(&format!("{}_on_host(", kernel.name)));
        }
    }

    #[test]
    fn helpers_are_printed_after_their_dependencies() {
        for helper in Helper::ALL {
            assert!(helper.needs().iter().all(|needed| needed < helper), "{helper:?}");
        }
    }
}
