//! What an instruction becomes when it is decoded, and how operations are bound to operands.

use crate::{
    text::{Text, Unsupported},
    wave::{Machine, Step, Wave},
};

/// A decoded instruction: the operation with its operands resolved.
pub(crate) trait Exec: Send + Sync {
    fn run(&self, wave: &mut Wave, machine: &mut Machine<'_>) -> Step;
}

impl<F> Exec for F
where
    F: Fn(&mut Wave, &mut Machine<'_>) -> Step + Send + Sync,
{
    fn run(&self, wave: &mut Wave, machine: &mut Machine<'_>) -> Step {
        self(wave, machine)
    }
}

pub(crate) type Bound = Result<Box<dyn Exec>, Unsupported>;

/// Binds an operation to the operands of one instruction.
pub(crate) type Binder = Box<dyn Fn(&Text) -> Bound + Send + Sync>;

/// A bound operation that touches nothing but the wave.
pub(crate) fn on_wave(f: impl Fn(&mut Wave) + Send + Sync + 'static) -> Bound {
    Ok(Box::new(move |wave: &mut Wave, _: &mut Machine<'_>| {
        f(wave);
        Ok(())
    }))
}

/// A bound operation in full.
pub(crate) fn on_machine(
    f: impl Fn(&mut Wave, &mut Machine<'_>) -> Step + Send + Sync + 'static,
) -> Bound {
    Ok(Box::new(f))
}

/// An operation on the lanes of a wave. Implementations mark `run` with `#[inline(always)]`, so that on x86-64 it is
/// compiled with AVX2 and FMA: without those, `f32::mul_add` is a call into libm for each lane.
pub(crate) trait Lanes: Send + Sync + 'static {
    fn run(&self, wave: &mut Wave);
}

struct OnLanes<K>(K);

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn run_wide<K: Lanes>(operation: &K, wave: &mut Wave) {
    operation.run(wave);
}

impl<K: Lanes> Exec for OnLanes<K> {
    #[cfg(target_arch = "x86_64")]
    fn run(&self, wave: &mut Wave, _: &mut Machine<'_>) -> Step {
        // SAFETY: no launch begins before `processor_lacks` has found these features.
        unsafe { run_wide(&self.0, wave) };
        Ok(())
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn run(&self, wave: &mut Wave, _: &mut Machine<'_>) -> Step {
        self.0.run(wave);
        Ok(())
    }
}

pub(crate) fn bind_lanes(operation: impl Lanes) -> Bound {
    Ok(Box::new(OnLanes(operation)))
}

/// What this processor would need to execute vector instructions; `None` if it has all.
pub(crate) fn processor_lacks() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    if !(is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt"))
    {
        return Some("AVX2, FMA, BMI, LZCNT and POPCNT (x86-64-v3)");
    }
    None
}
