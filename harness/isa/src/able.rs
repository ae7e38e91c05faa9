//! Detects whether the host processor has the instruction set extensions, for example AVX2, with which vector
//! operations are compiled.

/// Proof that the host processor supports the instruction set extensions with which vector operations are compiled.
#[derive(Clone, Copy)]
pub(crate) struct CpuFeatures(());

impl CpuFeatures {
    /// Returns the proof if the host processor has all required extensions.
    ///
    /// # Errors
    /// Returns the names of the required extensions if one of them is missing.
    pub(crate) fn find() -> Result<CpuFeatures, &'static str> {
        #[cfg(target_arch = "x86_64")]
        if !(is_x86_feature_detected!("avx")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt"))
        {
            return Err("AVX2, FMA, BMI, LZCNT and POPCNT (x86-64-v3)");
        }
        Ok(CpuFeatures(()))
    }
}
