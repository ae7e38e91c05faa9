//! Decoded instructions in the form in which the interpreter executes them: operations that are bound to their
//! operands.

use crate::{
    able::CpuFeatures,
    machine::Machine,
    registers::HALF,
    text::{Text, Unsupported},
    wave::{Step, Wave},
};

/// An operation that is bound to the operands of a decoded instruction.
pub trait Exec: Send + Sync {
    /// Executes the instruction on a wave.
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

pub(crate) type Binder = Box<dyn Fn(&Text) -> Bound + Send + Sync>;

pub(crate) fn on_wave(f: impl Fn(&mut Wave) + Send + Sync + 'static) -> Bound {
    Ok(Box::new(move |wave: &mut Wave, _: &mut Machine<'_>| {
        f(wave);
        Ok(())
    }))
}

pub(crate) fn on_machine(
    f: impl Fn(&mut Wave, &mut Machine<'_>) -> Step + Send + Sync + 'static,
) -> Bound {
    Ok(Box::new(OnMachine(f)))
}

/// A closure that executes an instruction and accesses the machine. Like [`OnLanes`], it is compiled with AVX2 and FMA,
/// because loads and stores handle the addresses of all lanes.
struct OnMachine<F>(F);

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn run_wide_on<F>(f: &F, wave: &mut Wave, machine: &mut Machine<'_>) -> Step
where
    F: Fn(&mut Wave, &mut Machine<'_>) -> Step,
{
    f(wave, machine)
}

impl<F> Exec for OnMachine<F>
where
    F: Fn(&mut Wave, &mut Machine<'_>) -> Step + Send + Sync,
{
    #[cfg(target_arch = "x86_64")]
    fn run(&self, wave: &mut Wave, machine: &mut Machine<'_>) -> Step {
        let _: CpuFeatures = machine.features;
        // SAFETY: the machine contains a `CpuFeatures`, which exists only if the processor supports these features.
        unsafe { run_wide_on(&self.0, wave, machine) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn run(&self, wave: &mut Wave, machine: &mut Machine<'_>) -> Step {
        self.0(wave, machine)
    }
}

/// An operation on the lanes of a wave. Implementations mark `run` with `#[inline(always)]`, because only then does the
/// compiler use AVX2 and FMA for it on x86-64. Without FMA, `f32::mul_add` is a call into libm for each lane.
pub(crate) trait Lanes: Send + Sync + 'static {
    fn run(&self, wave: &mut Wave);
}

/// An operation that has a fast path for instructions without modifiers. The decoder decides once whether an
/// instruction takes the fast path.
pub(crate) trait Plain: Lanes {
    /// Returns true if `run_plain` can execute this instruction.
    fn is_plain(&self) -> bool;
    /// True if MODE may flush denormals of this operation. Only `run` implements flushing.
    const FLUSHES: bool;
    /// True if MODE may saturate infinities of this operation. Only `run` implements saturation.
    const SATURATES: bool;
    fn run_plain(&self, wave: &mut Wave, half: usize);
}

struct OnLanes<K>(K);

struct OnPlain<K>(K);

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn run_wide<K: Lanes>(operation: &K, wave: &mut Wave) -> Step {
    operation.run(wave);
    Ok(())
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn run_wide_plain<K: Plain>(operation: &K, wave: &mut Wave) -> Step {
    if K::FLUSHES && wave.flushes_any() || K::SATURATES && wave.saturates() {
        operation.run(wave);
        return Ok(());
    }
    // The loop over the halves of the wave is unrolled, because a loop would cost more than the work for a wave with
    // one half.
    operation.run_plain(wave, 0);
    if wave.lanes != HALF {
        operation.run_plain(wave, 1);
    }
    Ok(())
}

impl<K: Lanes> Exec for OnLanes<K> {
    #[cfg(target_arch = "x86_64")]
    fn run(&self, wave: &mut Wave, machine: &mut Machine<'_>) -> Step {
        let _: CpuFeatures = machine.features;
        // SAFETY: the machine contains a `CpuFeatures`, which exists only if the processor supports these features.
        unsafe { run_wide(&self.0, wave) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn run(&self, wave: &mut Wave, _: &mut Machine<'_>) -> Step {
        self.0.run(wave);
        Ok(())
    }
}

impl<K: Plain> Exec for OnPlain<K> {
    #[cfg(target_arch = "x86_64")]
    fn run(&self, wave: &mut Wave, machine: &mut Machine<'_>) -> Step {
        let _: CpuFeatures = machine.features;
        // SAFETY: as for `OnLanes`.
        unsafe { run_wide_plain(&self.0, wave) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn run(&self, wave: &mut Wave, _: &mut Machine<'_>) -> Step {
        self.0.run(wave);
        Ok(())
    }
}

pub(crate) fn bind_plain(operation: impl Plain) -> Bound {
    if operation.is_plain() { Ok(Box::new(OnPlain(operation))) } else { bind_lanes(operation) }
}

pub(crate) fn bind_lanes(operation: impl Lanes) -> Bound {
    Ok(Box::new(OnLanes(operation)))
}
